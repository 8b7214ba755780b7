"""The parts of a dataset's files as lines, which open to their fields, with the findings of a check below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.cells import cell_len

from tokfmt.browser import keys
from tokfmt.browser.data.cells import Cells, fitted
from tokfmt.browser.data.lines import SEVERITIES
from tokfmt.browser.data.outline import NOWHERE, Outline, Row
from tokfmt.browser.data.types import Field, Finding, Section
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds
from tokfmt.wording import counted, printable

_NAME, _WIDE = 26, 64  # cells of a name at most, and of a line that has lengths


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


class Parts(VirtualTable):
    """The widget of the lines of an outline."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds(
        "section", "count", "offset", "length", "name", "value", "meaning", "wrong", "code", *SEVERITIES
    )
    filler = "value"
    BINDINGS = keys.PARTS

    def __init__(self, opened: Callable[[int], object]) -> None:
        """Show no parts yet; `opened` gets the number of a section that the user opens."""
        super().__init__(id="parts")
        self._opened = opened
        self.outline = Outline(())
        self.opening: set[int] = set()
        # cells of columns, of names by section; they grow with the fields, so that columns stay in place
        self._offset, self._length, self._names = 6, 3, dict[int, int]()

    @property
    def count(self) -> int:
        return self.outline.count

    @property
    def row(self) -> Row | None:
        """Return the section, field or finding under the cursor; None without lines."""
        return self.outline.row(self.cursor) if self.count else None

    @property
    def section(self) -> Section | None:
        """Return the section of the cursor."""
        return None if self.row is None or self.row.section == NOWHERE else self.outline.sections[self.row.section]

    @property
    def finding(self) -> Finding | None:
        """Return the finding under the cursor."""
        return None if self.row is None else self.outline.finding(self.row)

    @property
    def field(self) -> Field | None:
        """Return the field under the cursor, if it is a loaded field."""
        return None if self.row is None else self.outline.peek(self.row)

    def show(self, outline: Outline, row: Row | None = None) -> None:
        """Show the lines of an outline, with the cursor on `row` if it is there, and else on the first field."""
        self.loader.forget()
        self.outline, self.opening, self._names = outline, set(), {}
        self.scroll_to(y=0, animate=False, force=True)
        there = row is not None and row.section < len(outline.sections) and row.finding is None
        self.point_at(outline.line(row) if row is not None and there else 1)
        self.moved()

    def changed(self, row: Row | None) -> None:
        """Redraw after sections were opened or closed; the cursor goes to `row`, or stays."""
        self.point_at(self.cursor if row is None else self.outline.line(row))
        self.moved()

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
                self._offset = max(self._offset, len(_number(field.offset)))
                self._length = max(self._length, len(_number(field.length or None)))
                self._names[row.section] = min(_NAME, max(self._names.get(row.section, 0), cell_len(field.name)))

    def cells(self, line: int, width: int) -> Cells:
        row = self.outline.row(line)
        finding = self.outline.finding(row)
        if finding is not None:
            return _finding_line(finding, width)
        return self._section_line(row) if row.field is None else self._field_line(row, width)

    def _section_line(self, row: Row) -> Cells:
        """Return the line of a section: its title and its number of fields."""
        outline, section = self.outline, self.outline.sections[row.section]
        count = outline.counts.get(row.section)
        mark = "▾" if outline.is_open(row.section) else "◌" if row.section in self.opening else "▸"
        size = "reading …" if mark == "◌" else "" if count is None else counted(count, "field")
        severities = [finding.severity for finding in outline.findings.get(row.section, ())]
        marks = [
            (f"{sign}{severities.count(name):,}  ", name) for name, sign in SEVERITIES.items() if name in severities
        ]
        return [(f"{mark} {printable(section.title)}  ", "section"), *marks, (size, "count")]

    def _field_line(self, row: Row, width: int) -> Cells:
        """Return the line of a field: byte offset, length, name, value, meaning."""
        field = self.outline.peek(row)
        if field is None:
            return [("  …", "count")]
        cells = [("✗ " if field.wrong else "  ", "wrong"), (f"{_number(field.offset):>{self._offset}}  ", "offset")]
        if width >= _WIDE:
            cells.append((f"{_number(field.length or None):>{self._length}}  ", "length"))
        cells.append((f"{fitted(field.name, self._names.get(row.section, _NAME))}  ", "name"))
        room = max(0, width - sum(cell_len(text) for text, _ in cells))
        value = fitted(field.value, min(room, cell_len(field.value)))
        meaning = fitted(f"  {field.meaning}", min(cell_len(field.meaning) + 2, room - cell_len(value)))
        return [*cells, (value, "wrong" if field.wrong else "value"), (meaning, "wrong" if field.wrong else "meaning")]

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if self.row is not None and (self.row == Row(self.row.section) or times > 1):
            self.action_choose()

    # opening

    def action_choose(self) -> None:
        row, section, field = self.row, self.section, self.field
        if row is None:
            return
        if row.finding is not None or field is not None:
            super().action_choose()
        elif section is not None and row.field is None:
            self.action_close() if self.outline.is_open(row.section) else self.action_open()

    def action_open(self) -> None:
        row = self.row
        if row is not None and row.section != NOWHERE and not self.outline.is_open(row.section):
            self.opening.add(row.section)
            self._opened(row.section)
            self.refresh()

    def action_close(self) -> None:
        row = self.row
        if row is not None and self.outline.is_open(row.section):
            self.outline.close(row.section)
            self.changed(Row(row.section))


def _finding_line(finding: Finding, width: int) -> Cells:
    """Return the line of a finding: its sign, its code and its message."""
    severity = finding.severity if finding.severity in SEVERITIES else "info"
    head = [(f"  {SEVERITIES[severity]} ", severity), (f"{finding.code} " if finding.code else "", "code")]
    return [*head, (fitted(printable(finding.message), max(1, width - sum(len(text) for text, _ in head))), "name")]
