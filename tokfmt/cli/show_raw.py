"""`tokfmt show --raw`: the parts of files, field by field, aligned."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tokfmt.core.inside import Field, Section
    from tokfmt.ops.raw import HexRow, Raw

LIMIT = 12
"""Fields of each part shown when nothing else is said."""

_PARTS = 40  # a directory of thousands of files has more, which nobody reads
_BYTES = 16
_FEW_BYTES = 8  # on a terminal
_HEX_ROWS = 4
_TOGETHER = 1000  # fields aligned with each other
_AHEAD, _WRONG = 256, 3  # fields beyond the limit that are looked at, and wrong ones of them that are shown
_COLUMNS = ("offset", "length", "bytes", "field", "value", "meaning")


def show_raw(path: str, given: dict[str, Any], *, limit: int | None, as_json: bool, quiet: bool) -> None:
    """Print the annotated parts of a dataset's files."""
    from tokfmt.ops.raw import sections

    raw = sections(path, format=given["from_format"], options=_options(given))
    most = LIMIT if limit is None else limit or sys.maxsize
    if as_json:
        _as_json(raw, most)
        return
    if not quiet:
        for note in raw.notes:
            click.echo(f"note: {note}", err=True)
    terminal = _terminal()
    for number, section in enumerate(raw.sections[:_PARTS]):
        shown = min(most, section.count)
        if number and not section.count:
            continue
        click.echo(("" if not number else "\n") + _title(section, raw))
        for first in range(0, max(shown, 1), _TOGETHER):  # an index may have millions
            (_table if terminal else _plain)(raw, section, section.fields(first, min(first + _TOGETHER, shown)))
        if (more := section.count - shown) > 0:
            _beyond(raw, section, shown, more, terminal)
    if (more := len(raw.sections) - _PARTS) > 0:
        click.echo(f"\n… {more:,} more parts: name one of the files")
    _first_bytes(raw)


def _terminal() -> bool:
    return sys.stdout.isatty()


def _beyond(raw: Raw, section: Section, first: int, more: int, terminal: bool) -> None:
    """How much is left out, and the first of it that is wrong."""
    wrong = [field for field in section.fields(first, first + _AHEAD) if field.wrong][:_WRONG]
    said = ", of which these are the first that are wrong" if wrong else ""
    click.echo(click.style(f"  … {more:,} more (--limit N, 0: all){said}", dim=True))
    if wrong:
        (_table if terminal else _plain)(raw, section, wrong)


def _options(given: dict[str, Any]) -> list[str]:
    """What the command line says of reading that is an option of the format."""
    return list(given["from_options"])


def _title(section: Section, raw: Raw) -> str:
    from tokfmt.core.errors import printable

    where = "" if section.path == raw.path else f"  {printable(section.path)}"
    return click.style(section.title, bold=True) + click.style(where, dim=True)


def _cells(raw: Raw, section: Section, field: Field, most: int) -> list[str]:
    data = _bytes(raw, section, field, most)
    shown = data.hex(" ") + (" …" if field.length > len(data) > 0 else "")
    offset = "" if field.offset is None else f"{field.offset:,}"
    if field.path is not None and field.path not in (section.path, raw.path) and field.offset is not None:
        offset = f"{field.path.name}:{offset}"
    return [offset, f"{field.length:,}" if field.length else "", shown, field.name, field.value, field.meaning]


def _bytes(raw: Raw, section: Section, field: Field, most: int) -> bytes:
    from tokfmt.core.errors import FormatError

    try:
        return raw.bytes_of(section, field, most)
    except FormatError:  # that it cannot be read is what the field itself says
        return b""


def _plain(raw: Raw, section: Section, fields: Sequence[Field]) -> None:
    """Aligned text; a `!` before what is wrong."""
    rows = [list(_COLUMNS), *(_cells(raw, section, field, _BYTES) for field in fields)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_COLUMNS))]
    marks = [" ", *("!" if field.wrong else " " for field in fields)]
    for mark, row in zip(marks, rows, strict=True):
        cells = [
            cell.rjust(width) if k < 2 else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo(f"{mark} {'  '.join(cells)}".rstrip())


def _table(raw: Raw, section: Section, fields: Sequence[Field]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    room = shutil.get_terminal_size().columns
    most = _BYTES if room >= 160 else _FEW_BYTES if room >= 110 else 4
    rows = [_cells(raw, section, field, most) for field in fields]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    table.add_column("")
    for k, name in enumerate(_COLUMNS):
        if any(row[k] for row in rows):
            table.add_column(name, justify="right" if k < 2 else "left", no_wrap=k < 4, overflow="fold")
    for field, row in zip(fields, rows, strict=True):
        styles = ("cyan", "dim", "magenta", "bold", "red" if field.wrong else "", "red" if field.wrong else "dim")
        cells = [Text(cell, style) for k, (cell, style) in enumerate(zip(row, styles, strict=True)) if _used(rows, k)]
        table.add_row(Text("!" if field.wrong else " ", "bold red"), *cells)
    Console(width=room, highlight=False).print(table)


def _used(rows: Sequence[Sequence[str]], column: int) -> bool:
    return any(row[column] for row in rows)


def _first_bytes(raw: Raw) -> None:
    if not raw.path.is_file():
        return
    click.echo("\n" + click.style("first bytes", bold=True))
    for line in hex_lines(raw.hex_rows(raw.path, 0, _HEX_ROWS)):
        click.echo(line)


def hex_lines(rows: Sequence[HexRow]) -> Iterator[str]:
    """Rows of a hex view as text: offset, bytes, printable characters."""
    for row in rows:
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row.data)
        yield f"  {row.offset:08x}  {row.data[:8].hex(' '):23}  {row.data[8:].hex(' '):23}  {text}".rstrip()


def _as_json(raw: Raw, most: int) -> None:
    found = []
    for section in raw.sections:
        fields = [
            {
                "name": field.name,
                "path": str(field.path or section.path),
                "offset": field.offset,
                "length": field.length,
                "bytes": _bytes(raw, section, field, _BYTES).hex(),
                "value": field.value,
                "meaning": field.meaning,
                "wrong": field.wrong,
            }
            for field in section.fields(0, min(most, section.count))
        ]
        found.append({"title": section.title, "path": str(section.path), "count": section.count, "fields": fields})
    facts = {"path": str(raw.path), "format": raw.format, "notes": list(raw.notes), "sections": found}
    click.echo(json.dumps({"schema": "tokfmt.show-raw/1", **facts}, indent=2))
