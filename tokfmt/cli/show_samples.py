"""`tokfmt show --samples`: input_ids, mask and labels under each other."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tokfmt.ops.samples import Sample, SampleView

_PIPED = 120  # columns, when nobody says how many there are
_LABEL = 11
_PIECE = 12  # characters of a token's text
_BLOCKS = 4  # of columns, on a terminal without --full
_PADDING = 3  # columns of padding, without --full
_SHOWN_AS = {" ": "·", "\n": "↵", "\t": "⇥"}


def show_samples(
    path: str, given: dict[str, Any], *, selection: str | None, full: bool, as_json: bool, quiet: bool
) -> None:
    """Print rows as they are stored."""
    from tokfmt.ops.samples import samples

    names = ("from_format", "from_options", "tokenizer", "eos")
    view = samples(path, selection, **{name: given[name] for name in names})
    if as_json:
        _as_json(view)
        return
    if not quiet:
        click.echo(_heading(view), err=True)
        for note in view.notes:
            click.echo(f"note: {note}", err=True)
        if not view.bordered:
            click.echo("note: no separator known; --eos ID draws the borders of documents", err=True)
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((_PIPED, 24)).columns
    for number, sample in enumerate(view.shown):
        click.echo(("\n" if number else "") + _title(sample))
        folded = 0 if full else max(0, sample.padding - _PADDING)
        for k, block in enumerate(_blocks(sample, width, len(sample.ids) - folded)):
            if terminal and not full and k == _BLOCKS:
                left = len(sample.ids) - block.first
                click.echo(click.style(f"… {left:,} more tokens (--full)", dim=True))
                break
            click.echo(("\n" if k else "") + "\n".join(block.lines()))
        else:
            if folded:
                click.echo(click.style(f"… {folded:,} more of padding (--full)", dim=True))


def _heading(view: SampleView) -> str:
    from tokfmt.cli.console import counted
    from tokfmt.core.errors import printable

    told = [counted(view.samples, "sample")]
    if view.sample_length is not None:
        told[0] += f" of {counted(view.sample_length, 'token')}"
    if view.eos_id is not None:
        told.append(f"separator {view.eos_id} ({view.eos_from})")
    if view.pad_id is not None:
        told.append(f"padding {view.pad_id}")
    return f"{printable(view.path)}: {view.format}: {', '.join(told)}"


def _title(sample: Sample) -> str:
    from tokfmt.cli.console import counted

    told = [counted(len(sample.ids), "token")]
    if sample.mask is not None:
        told.append(f"{int(sample.mask.sum()):,} counted in the loss")
    if count := int(sample.begins.sum()):
        told.append(f"{counted(count, 'document')} beginning inside")
    if sample.padding:
        told.append(f"{sample.padding:,} of padding")
    return click.style(f"#{sample.index}", bold=True) + click.style(f"  {', '.join(told)}", dim=True)


@dataclass(frozen=True)
class _Block:
    """As many columns of a sample as fit side by side.

    Attributes:
        first: Number of the first.
        rows: Name, style and cells of each row.
        widths: Of the columns.
        borders: Of each column, whether a document begins at it.
        real: Columns that are no padding.
    """

    first: int
    rows: list[tuple[str, str, list[str]]]
    widths: list[int]
    borders: list[bool]
    real: int

    def lines(self) -> Iterator[str]:
        """The rows as styled text."""
        for name, colour, cells in self.rows:
            text = click.style(f"{name:>{_LABEL - 1}} ", dim=True)
            for k, (cell, width) in enumerate(zip(cells, self.widths, strict=True)):
                border = click.style("│", fg="yellow") if self.borders[k] else " "
                dim = k >= self.real or (name == "mask" and cell == "0") or (name == "labels" and cell == "-100")
                text += border + click.style(cell.rjust(width), fg=colour or None, dim=dim or None)
                if not any(cells[k + 1 :]) and not any(self.borders[k + 1 :]):
                    break
            yield text


def _blocks(sample: Sample, room: int, stop: int) -> Iterator[_Block]:
    rows: list[tuple[str, str, list[str]]] = []
    if sample.pieces is not None:
        rows.append(("text", "green", [_piece(piece) for piece in sample.pieces]))
    rows.append(("input_ids", "", [str(token) for token in sample.ids.tolist()]))
    if sample.mask is not None:
        rows.append(("mask", "", [str(flag) for flag in sample.mask.tolist()]))
    if sample.labels is not None:
        rows.append(("labels", "cyan", [str(token) for token in sample.labels.tolist()]))
    widths = [max(map(len, column)) for column in zip(*(cells[:stop] for _, _, cells in rows), strict=True)]
    real = len(sample.ids) - sample.padding
    begins, first = sample.begins.tolist(), 0
    while first < len(widths):
        last, used = first, _LABEL
        while last < len(widths) and (last == first or used + widths[last] + 1 <= room):
            used, last = used + widths[last] + 1, last + 1
        numbers = [str(first)] + [""] * (last - first - 1)
        fitted = [max(widths[first], len(numbers[0])), *widths[first + 1 : last]]
        some = [("position", "", numbers), *((n, c, x[first:last]) for n, c, x in rows)]
        yield _Block(first, some, fitted, begins[first:last], real - first)
        first = last


def _piece(text: str) -> str:
    """A token's text in a few characters, white space visible."""
    from tokfmt.core.errors import printable

    shown = printable("".join(_SHOWN_AS.get(char, char) for char in text))
    return shown if len(shown) <= _PIECE else f"{shown[: _PIECE - 1]}…"


def _as_json(view: SampleView) -> None:
    import dataclasses

    facts = {f.name: getattr(view, f.name) for f in dataclasses.fields(view) if f.name != "shown"}
    shown = []
    for sample in view.shown:
        row: dict[str, Any] = {"index": sample.index, "input_ids": sample.ids.tolist()}
        row["mask"] = None if sample.mask is None else sample.mask.tolist()
        row["labels"] = None if sample.labels is None else sample.labels.tolist()
        row["begins"] = sample.begins.nonzero()[0].tolist()
        row["padding"] = sample.padding
        if sample.pieces is not None:
            row["pieces"] = sample.pieces
        shown.append(row)
    click.echo(json.dumps({"schema": "tokfmt.show-samples/1", **facts, "shown": shown}, indent=2))
