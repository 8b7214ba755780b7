"""The parts of a dataset's files as lines: sections, and the fields of open sections below them; and the bytes.

The number of fields is unbounded: lines are addressed by number, and fields are decoded in blocks when they are shown.
As in `rows`, `peek` returns cached fields or bytes, and `load` reads in a worker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tokfmt.base.resources import Recent
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.data.opening import is_small
from tokfmt.browser.data.rows import Damage
from tokfmt.browser.data.session import Session, Where, row_at
from tokfmt.commands.show.parts import ROW, HexRow, Raw, sections
from tokfmt.core.annotation import broken
from tokfmt.errors import TokfmtError
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.place import Place
from tokfmt.source.request import given_to

BLOCK = 64
"""Fields decoded at once."""

SHORT = 64
"""Limit of fields of a section that is open at first, in a small dataset."""

_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """A line: a section (`field` is None), or one of its fields by number."""

    section: int
    field: int | None = None


class Outline:
    """The lines of sections and fields. Only the thread of the screen opens and closes sections; workers load fields.

    Args:
        sections: The sections in the order of the files.
    """

    def __init__(self, sections: Sequence[Section]) -> None:
        self.sections = sections
        self.counts: dict[int, int] = {}
        self._open: set[int] = set()
        self._blocks = Recent[tuple[int, int], Sequence[Field]](_BLOCKS)
        self._lines = np.empty(0, np.int64)
        self._settle()

    def _settle(self) -> None:
        sizes = np.ones(len(self.sections), np.int64)
        for section in self._open:
            sizes[section] += self.counts[section]
        self._lines = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return int(self._lines[-1])

    def row(self, line: int) -> Row:
        """Return the section or field of a line."""
        section = int(np.searchsorted(self._lines, line, side="right")) - 1
        within = line - int(self._lines[section])
        return Row(section, within - 1 if within else None)

    def line(self, row: Row) -> int:
        """Return the line of a section or field; for a field of a closed section, that of the section."""
        shown = 0 if row.field is None or row.section not in self._open else row.field + 1
        return int(self._lines[row.section]) + shown

    def is_open(self, section: int) -> bool:
        """Return whether a section is open."""
        return section in self._open

    def open(self, section: int, count: int) -> None:
        """Show the `count` fields of a section."""
        self.counts[section] = count
        self._open.add(section)
        self._settle()

    def close(self, section: int) -> None:
        """Hide the fields of a section."""
        self._open.discard(section)
        self._settle()

    def peek(self, row: Row) -> Field | None:
        """Return a field if it is loaded."""
        if row.field is None:
            return None
        block = self._blocks.get((row.section, row.field // BLOCK))
        within = row.field % BLOCK
        return block[within] if block is not None and within < len(block) else None

    def load(self, rows: Sequence[Row]) -> None:
        """Decode the fields of some lines."""
        for section, number in sorted({(row.section, row.field // BLOCK) for row in rows if row.field is not None}):
            if self._blocks.get((section, number)) is None:
                self._blocks.put((section, number), self._read(section, number * BLOCK))

    def _read(self, section: int, first: int) -> Sequence[Field]:
        wanted = min(BLOCK, self.counts[section] - first)
        try:
            found = tuple(self.sections[section].fields(first, first + wanted))
        except TokfmtError as error:
            found = (broken(error),) * wanted
        missing = Field("…", None, 0, "nothing more can be read", wrong=True)
        return found + (missing,) * (wanted - len(found))


def first_open(sections: Sequence[Section], *, small: bool) -> dict[int, int]:
    """Return the sections that are open at first, with their number of fields. Reads.

    These are the first section, and in a small dataset the short ones, up to about 256 fields.
    """
    found: dict[int, int] = {}
    for number, section in enumerate(sections):
        if number and (not small or sum(found.values()) > 4 * SHORT):
            break
        count = section.count
        if not number or count <= SHORT:
            found[number] = count
    return found


_SCANNED = 1024  # fields of a section whose offsets do not ascend


def row_of_byte(outline: Outline, path: Place, offset: int) -> Row | None:
    """Return the field of an open section that holds a byte of a file, or the section of the byte if it is closed.

    The section of a byte is the one that begins last up to it. None if no field of an open section holds the byte, or
    nothing begins before it. Reads.
    """
    begins, last = -1, None
    for number, section in enumerate(outline.sections):
        start = _begins(section, path)
        if start is not None and begins < start <= offset:
            begins, last = start, number
        count = outline.counts.get(number, 0) if outline.is_open(number) else 0

        def field(at: int, number: int = number) -> Field | None:
            row = Row(number, at)
            outline.load([row])
            return outline.peek(row)

        def holds(at: int, section: Section = section) -> bool:
            found = field(at)
            if found is None or found.offset is None or (found.path or section.path) != path:
                return False
            return found.offset <= offset < found.offset + max(1, found.length)

        def begins_after(at: int) -> bool:
            found = field(at)
            return found is None or found.offset is None or found.offset > offset

        at = bisect_left(range(count), True, key=begins_after) - 1
        if at >= 0 and holds(at):
            return Row(number, at)
        scanned = next((at for at in range(min(count, _SCANNED)) if holds(at)), None)
        if scanned is not None:
            return Row(number, scanned)
    return None if last is None or outline.is_open(last) else Row(last)


def _begins(section: Section, path: Place) -> int | None:
    """Return the byte offset in a file of the first field of a section; None without one. Reads."""
    try:
        found = next(iter(section.fields(0, 1)), None)
    except TokfmtError:
        return None
    return None if found is None or (found.path or section.path) != path else found.offset


def sequence_of(session: Session, section: Section, field: Field) -> Where | None:
    """Return the row and the token that a field is about, if any. Reads."""
    path = field.path or section.path
    target = field.target or (None if field.offset is None else Pointer(path, field.offset))
    return None if target is None else row_at(session, target)


# the bytes

BYTES_IN_ROW = ROW
"""Bytes of a line of the hex view."""

_ROWS = 256  # rows per window

_WINDOWS = 64


class Bytes:
    """The bytes of the files of a dataset in rows of 16. `load` and `size` read, and are for a worker."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._others: dict[Place, Raw] = {}
        self._windows = Recent[tuple[Place, int], list[HexRow] | Damage](_WINDOWS)

    @property
    def root(self) -> Place:
        """Return the path of the dataset."""
        return self._raw.path

    def admit(self, path: Place) -> None:
        """Let a file be read that the reader of the dataset has opened, though it may be elsewhere.

        Files of the sources of a recipe are. A link in a dataset, which nobody opened, may not lead out of it.
        """
        self._others.setdefault(path, Raw(path, None, (), ()))

    def _of(self, path: Place) -> Raw:
        return self._others.get(path, self._raw)

    def size(self, path: Place) -> int | Damage:
        """Return the number of bytes of a file."""
        try:
            return self._of(path).size_of(path)
        except TokfmtError as error:
            return Damage(str(error))

    def peek(self, path: Place, row: int) -> HexRow | Damage | None:
        """Return a row if it is loaded."""
        window = self._windows.get((path, row // _ROWS))
        if window is None or isinstance(window, Damage):
            return window
        within = row % _ROWS
        return window[within] if within < len(window) else Damage("the file has become shorter")

    def load(self, path: Place, rows: range) -> None:
        """Read some rows."""
        for number in range(rows.start // _ROWS, -(-rows.stop // _ROWS)):
            if self._windows.get((path, number)) is None:
                try:
                    found: list[HexRow] | Damage = self._of(path).hex_rows(path, number * _ROWS * ROW, _ROWS)
                except TokfmtError as error:
                    found = Damage(str(error))
                self._windows.put((path, number), found)


def bytes_of(session: Session) -> Bytes:
    """Return the bytes of the files of a dataset, without its parts."""
    from tokfmt.commands.show.parts import Raw

    return Bytes(Raw(session.path, None, (), ()))


def cells_of(row: HexRow, digits: int, cursor: int, marked: range, under: str) -> Cells:
    """Return the cells of a row: its byte offset, its bytes in hexadecimal, and its characters.

    Args:
        row: The row.
        digits: The digits of its offset.
        cursor: The offset of the byte under the cursor, which is of the kind `under` as well.
        marked: The offsets that are marked.
        under: That kind.
    """
    known = [
        f"{_kind(byte)}{' marked' if at in marked else ''}{f' {under}' if at == cursor else ''}"
        for at, byte in enumerate(row.data, row.offset)
    ]
    cells = [(f"{row.offset:0{digits}x} ", "offset")]
    for number in range(ROW):
        at = row.offset + number
        joined = at - 1 in marked and at in marked and number and number < len(known)
        cells.append(("  " if number == ROW // 2 else " ", "gap marked" if joined else "gap"))
        cells.append((f"{row.data[number]:02x}", known[number]) if number < len(known) else ("  ", "gap"))
    cells.append(("  ", "gap"))
    for kind, group in groupby(zip(known, row.data, strict=True), lambda one: one[0]):
        cells.append(("".join(chr(byte) if 32 <= byte < 127 else "·" for _, byte in group), kind))
    return cells


def _kind(byte: int) -> str:
    return "zero" if not byte else "print" if 32 <= byte < 127 else "other"


def numbers_at(data: bytes) -> str:
    """Return the bytes as little-endian numbers of 8, 16 and 32 bits, as far as they suffice."""
    numbers = [f"u{8 * width} {int.from_bytes(data[:width], 'little'):,}" for width in (1, 2, 4) if len(data) >= width]
    return "  ".join(numbers)


OpenedParts = tuple[Raw, dict[int, int]]


def opened_parts(session: Session) -> OpenedParts | str:
    """Return the parts of a dataset with the sections that are open at first; the error if they cannot be read."""
    format_ = session.opened.format
    try:
        session.check_unchanged()
        options = given_to(format_, session.request) if format_ else {}
        raw = sections(session.path, format=session.format_name, options=options)
        return raw, first_open(raw.sections, small=is_small(session.path))
    except TokfmtError as error:
        return str(error)


def full_text(field: Field) -> str:
    """Return the full text of a field, which its line may cut."""
    value = f"{field.name}: {field.value}"
    return f"{value} · {field.meaning}" if field.meaning else value
