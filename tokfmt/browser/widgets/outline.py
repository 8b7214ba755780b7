"""The parts of a dataset's files as lines: sections, and the fields of open sections below them.

The number of fields is unbounded: lines are addressed by number, and fields are decoded in blocks when they are shown.
As in `rows`, `peek` returns cached fields, and `load` reads in a worker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import ClassVar

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.message import Message

from tokfmt.base.resources import Recent
from tokfmt.browser import keys
from tokfmt.browser.data import Field, Place, Pointer, Section, broken
from tokfmt.browser.session import Session, Where, row_at
from tokfmt.browser.widgets.row_view import RowView
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted, printable

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
    """Return the field of an open section that holds a byte of a file; None without one. Reads."""
    for number, section in enumerate(outline.sections):
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
    return None


def sequence_of(session: Session, section: Section, field: Field) -> Where | None:
    """Return the row and the token that a field is about, if any. Reads."""
    path = field.path or section.path
    target = field.target or (None if field.offset is None else Pointer(path, field.offset))
    return None if target is None else row_at(session, target)


_PARTS = ("section", "count", "offset", "length", "name", "value", "meaning", "wrong", "cursor", "cursor-blurred")
_INDENT, _GAP = 2, 2
_NAME, _VALUE, _NARROW = 26, 34, 64


@dataclass(slots=True)
class Widths:
    """The widths of columns in cells. They grow with the shown fields and never shrink, so that columns stay in place.

    Attributes:
        offset: Width of byte offsets, in all sections.
        length: Width of lengths, in all sections.
        names: Width of names by section.
        values: Width of values by section.
    """

    offset: int = 6
    length: int = 3
    names: dict[int, int] = dataclass_field(default_factory=dict)
    values: dict[int, int] = dataclass_field(default_factory=dict)

    def take(self, section: int, field: Field) -> None:
        """Widen the columns for a field."""
        self.offset = max(self.offset, len(_number(field.offset)))
        self.length = max(self.length, len(_number(field.length or None)))
        self.names[section] = min(_NAME, max(self.names.get(section, 0), cell_len(field.name)))
        if field.meaning:
            self.values[section] = min(_VALUE, max(self.values.get(section, 0), cell_len(field.value)))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def fitted(text: str, cells: int) -> str:
    """Return a text in exactly `cells` cells; an ellipsis marks a cut."""
    if cell_len(text) <= cells or not cells:
        return set_cell_size(text, cells)
    return f"{set_cell_size(text, cells - 1)}…"


class Parts(RowView):
    """The widget of the lines of an outline."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"parts--{part}" for part in _PARTS}
    BINDINGS = keys.PARTS

    class Moved(Message):
        """The cursor is on another line, or its line was loaded."""

    class Opening(Message):
        """The user opens a section."""

        def __init__(self, section: int) -> None:
            super().__init__()
            self.section = section

    class Followed(Message):
        """The user follows a field to its sequence."""

        def __init__(self, section: Section, field: Field) -> None:
            super().__init__()
            self.section, self.field = section, field

    def __init__(self) -> None:
        super().__init__(id="parts")
        self.outline = Outline(())
        self.opening: set[int] = set()
        self.widths = Widths()

    @property
    def count(self) -> int:
        return self.outline.count

    @property
    def row(self) -> Row | None:
        """Return the section or field under the cursor; None without lines."""
        return self.outline.row(self.cursor) if self.count else None

    @property
    def section(self) -> Section | None:
        """Return the section of the cursor."""
        return None if self.row is None else self.outline.sections[self.row.section]

    @property
    def field(self) -> Field | None:
        """Return the field under the cursor, if it is a loaded field."""
        return None if self.row is None else self.outline.peek(self.row)

    def show(self, outline: Outline, row: Row | None = None) -> None:
        """Show the lines of an outline, with the cursor on `row` if it is there, and else on the first field."""
        self.loader.forget()
        self.outline, self.opening, self.widths = outline, set(), Widths()
        self.scroll_to(y=0, animate=False, force=True)
        there = row is not None and row.section < len(outline.sections)
        self.point_at(outline.line(row) if row is not None and there else 1)
        self.moved()

    def changed(self, row: Row | None) -> None:
        """Redraw after sections were opened or closed; the cursor goes to `row`, or stays."""
        self.point_at(self.cursor if row is None else self.outline.line(row))
        self.moved()

    def moved(self) -> None:
        self.post_message(self.Moved())

    def fetch(self) -> None:
        outline = self.outline
        rows = [outline.row(line) for line in self.seen]
        missing = [row for row in rows if row.field is not None and outline.peek(row) is None]
        if missing:
            self.loader.ask(lambda: outline.load(missing), lambda _: self._loaded())
        else:
            self._measure(rows)

    def _loaded(self) -> None:
        self._measure([self.outline.row(line) for line in self.seen])
        self.refresh()
        self.moved()

    def _measure(self, rows: list[Row]) -> None:
        for row in rows:
            field = self.outline.peek(row)
            if field is not None:
                self.widths.take(row.section, field)

    def draw(self, line: int) -> list[Segment]:
        row = self.outline.row(line)
        return self._section_line(row, line) if row.field is None else self._field_line(row, line)

    def _section_line(self, row: Row, line: int) -> list[Segment]:
        """Return the line of a section: its title and its number of fields."""
        outline, section = self.outline, self.outline.sections[row.section]
        count = outline.counts.get(row.section)
        mark = "▾" if outline.is_open(row.section) else "◌" if row.section in self.opening else "▸"
        size = "reading …" if mark == "◌" else "" if count is None else counted(count, "field")
        cells = [(f"{mark} {printable(section.title)}  ", "section"), (size, "count")]
        return self._segments(cells, line)

    def _field_line(self, row: Row, line: int) -> list[Segment]:
        """Return the line of a field: byte offset, length, name, value, meaning."""
        field, wide = self.outline.peek(row), self.widths
        if field is None:
            return self._segments([(f"{'':{_INDENT}}…", "count")], line)
        mark = "✗ " if field.wrong else "  "
        cells = [(mark, "wrong"), (f"{_number(field.offset):>{wide.offset}}  ", "offset")]
        if self.columns >= _NARROW:
            cells.append((f"{_number(field.length or None):>{wide.length}}  ", "length"))
        cells.append((fitted(field.name, wide.names.get(row.section, _NAME)) + "  ", "name"))
        room = self.columns - sum(cell_len(text) for text, _ in cells)
        value = wide.values.get(row.section, 0) if field.meaning else cell_len(field.value)
        value = min(value, room)
        cells.append((fitted(field.value, value) + "  ", "wrong" if field.wrong else "value"))
        left = min(cell_len(field.meaning), max(0, room - value - _GAP))
        cells.append((fitted(field.meaning, left), "wrong" if field.wrong else "meaning"))
        return self._segments(cells, line)

    def _segments(self, cells: list[tuple[str, str]], line: int) -> list[Segment]:
        chosen = "parts--cursor" if self.has_focus else "parts--cursor-blurred"
        names = [chosen] if line == self.cursor else []
        used = sum(cell_len(text) for text, _ in cells)
        cells = [*cells, (" " * max(0, self.columns - used), "value")]
        return [Segment(text, self.get_component_rich_style(f"parts--{kind}", *names)) for text, kind in cells if text]

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if self.row is not None and (self.row.field is None or times > 1):
            self.action_choose()

    # opening

    def action_choose(self) -> None:
        row, section, field = self.row, self.section, self.field
        if row is None or section is None:
            return
        if row.field is None and self.outline.is_open(row.section):
            self.action_close()
        elif row.field is None:
            self.action_open()
        elif field is not None:
            self.post_message(self.Followed(section, field))

    def action_open(self) -> None:
        row = self.row
        if row is not None and not self.outline.is_open(row.section):
            self.opening.add(row.section)
            self.post_message(self.Opening(row.section))
            self.refresh()

    def action_close(self) -> None:
        row = self.row
        if row is not None and self.outline.is_open(row.section):
            self.outline.close(row.section)
            self.changed(Row(row.section))
