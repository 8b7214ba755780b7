"""The parts of a dataset's files: sections to be opened, and their fields."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.core.inside import Field, Section
from tokfmt.tui.outline import Outline, Row
from tokfmt.tui.widgets.fields import CLASSES, Widths, field_line, section_line
from tokfmt.tui.widgets.lines import Lines


class Parts(Lines):
    """Lines of an outline."""

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open/go to"),
        Binding("right", "open", "Open a part", show=False),
        Binding("left", "close", "Close a part", show=False),
    ]

    class Moved(Message):
        """The cursor is on another line, or what it is on was loaded."""

    class Opening(Message):
        """Somebody wants to see the fields of a section."""

        def __init__(self, section: int) -> None:
            super().__init__()
            self.section = section

    class Followed(Message):
        """Somebody wants to go where a field leads."""

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
        """What the cursor is on; None of nothing."""
        return self.outline.row(self.cursor) if self.count else None

    @property
    def section(self) -> Section | None:
        """The section that the cursor is in."""
        return None if self.row is None else self.outline.sections[self.row.section]

    @property
    def field(self) -> Field | None:
        """The field under the cursor, if it is one and at hand."""
        return None if self.row is None else self.outline.peek(self.row)

    def show(self, outline: Outline) -> None:
        """Show the lines of an outline."""
        self.generation += 1
        self.outline, self.opening, self.widths = outline, set(), Widths()
        self.top = 0
        self.point_at(1)
        self.moved()

    def changed(self, row: Row | None) -> None:
        """Sections were opened or closed: the cursor goes to a line, or stays where it was."""
        line = self.cursor if row is None else self.outline.line(row)
        self.settle()
        self.choose(line)

    def moved(self) -> None:
        self.post_message(self.Moved())

    def fetch(self) -> None:
        outline = self.outline
        rows = [outline.row(line) for line in self.seen]
        missing = [row for row in rows if row.field is not None and outline.peek(row) is None]
        if missing:
            self.ask(lambda: outline.load(missing), lambda _: self._loaded())
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
        return section_line(self, row, line) if row.field is None else field_line(self, row, line)

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
