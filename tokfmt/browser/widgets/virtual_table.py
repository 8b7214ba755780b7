"""The table of the browser: lines of any number, up to 2^53, of which only those on the screen are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tokfmt.browser import keys
from tokfmt.browser.colors import TONES
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.widgets.loading import WithLoader

_MOST_SELECTED = 1 << 16  # lines in one range


TONED = frozenset(f"tone-{number}" for number in range(TONES))
"""The kinds of cells in the colors of sources."""


def kinds(*names: str) -> set[str]:
    """Return the component classes of kinds of cells."""
    return {f"table--{name}" for name in names}


@cache
def _classes(kind: str) -> list[str]:
    """Return the names of the component classes of a kind of cell."""
    return [f"table--{name}" for name in kind.split()]


class VirtualTable(WithLoader, ScrollView, can_focus=True):
    """Lines of cells with a cursor. A subclass states their number and the cells of each, from loaded data only."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds("head", "none", "cursor", "cursor-blurred")
    BINDINGS = keys.LINES

    cursor = 0
    selects = False  # lines can be selected; without, Space turns the page
    drags = False  # a drag selects a range of lines
    marks_selected = False  # selected lines look like that of the cursor
    head = 0  # lines of headings
    has_line = True  # the line of the cursor is marked
    blurs = True  # without the focus, too
    filler = ""  # the kind of the cells beyond the last one of a line
    above: frozenset[str] = frozenset()  # kinds that are seen on the line of the cursor, too
    nothing = ("", "none")  # what is shown in place of lines, and its kind
    _pressed: int | None = None  # the line below a pressed button
    _dragged = False

    class Moved(Message):
        """The cursor is on another line, or more is known of its line."""

        def __init__(self, table: VirtualTable) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> VirtualTable:
            """Return the table, by which handlers select messages."""
            return self.table

    class Chosen(Moved):
        """The user opens the line under the cursor, or the selected ones."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.selected: set[int] = set()  # what `name_of` returns of lines
        self._anchor: int | None = None  # the line where a range begins

    # for subclasses

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return 0

    def headings(self) -> Sequence[tuple[str, str]]:
        """Return the name of each column, "" for one without an order, and the text of its heading, as wide as it."""
        return ()

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - subclasses state them
        """Return the cells of a line, from loaded data only."""
        return []

    def fetch(self) -> None:
        """Request the shown lines that are not loaded."""

    def moved(self) -> None:
        """Handle a move of the cursor to another line."""
        self.post_message(self.Moved(self))

    def action_choose(self) -> None:
        """Open the line under the cursor."""
        self.post_message(self.Chosen(self))

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        """Handle a click on the line under the cursor: a double click, of two `times`, opens it."""
        if times > 1:
            self.action_choose()

    def sort(self, name: str) -> None:
        """Order the lines by a column."""

    def name_of(self, line: int) -> int:
        """Return what a selected line is known by: its number, unless that changes with what is listed."""
        return line

    def selection_changed(self) -> None:
        """Handle a change of the selected lines."""
        self.refresh()

    # selecting

    def action_select(self) -> None:
        """Select the line under the cursor, or not any more, and go to the next one."""
        if not self.selects:
            self.action_pages(1)
        elif self.count:
            self.selected ^= {self.name_of(self.cursor)}
            self._anchor = None
            self.action_by(1)
            self.selection_changed()

    def action_extend(self, step: int) -> None:
        """Select all lines from where the cursor was to the next one."""
        self.extend_to(self.cursor + step)

    def extend_to(self, line: int) -> None:
        """Select all lines from where the cursor was to another one."""
        if self.selects and self.count:
            anchor = self.cursor if self._anchor is None else self._anchor
            before = range(min(anchor, self.cursor), max(anchor, self.cursor) + 1)
            self.selected -= {self.name_of(one) for one in before}
            self.choose(line)
            self._anchor = anchor
            low, high = sorted((anchor, self.cursor))
            self.selected |= {self.name_of(one) for one in range(low, min(high, low + _MOST_SELECTED) + 1)}
            self.selection_changed()

    # moves

    @property
    def top(self) -> int:
        """Return the first line on the screen."""
        return self.scroll_offset.y

    @property
    def height(self) -> int:
        """Return the number of lines on the screen."""
        return max(1, self.size.height - self.head)

    @property
    def columns(self) -> int:
        """Return the cells of a line without the scrollbar."""
        return max(1, self.size.width - 1)

    @property
    def seen(self) -> range:
        """Return the lines on the screen."""
        return range(self.top, min(self.count, self.top + self.height))

    def point_at(self, line: int) -> None:
        """Put the cursor on a line and show it, without a message. Call it after any change of the lines too."""
        self._place(line)
        self.refresh()

    def _place(self, line: int) -> None:
        self.virtual_size = Size(0, self.count + self.head)
        self.cursor = max(0, min(line, self.count - 1))
        top, height = self.top, self.height
        if not top <= self.cursor < top + height:
            near = top - height <= self.cursor < top + 2 * height
            top = self.cursor - height // 2 if not near else min(top, self.cursor)
            top = max(top, self.cursor - height + 1)
        self.scroll_to(y=max(0, min(top, self.count - height)), animate=False, force=True)
        self.fetch()

    def choose(self, line: int) -> None:
        """Put the cursor on a line and call `moved`. Without scrolling, only two lines are drawn."""
        before, self._anchor = self.cursor, None
        self._place(line)
        for changed in (before, self.cursor):
            self.refresh_line(changed + self.head)
        self.moved()

    def action_by(self, count: int) -> None:
        self.choose(self.cursor + count)

    def action_pages(self, pages: int) -> None:
        self.choose(self.cursor + pages * max(1, self.height - 1))

    def action_halves(self, halves: int) -> None:
        self.choose(self.cursor + halves * max(1, self.height // 2))

    def action_roll(self, lines: int) -> None:
        top = max(0, min(self.top + lines, self.count - self.height))
        self.scroll_to(y=top, animate=False, force=True)

    def action_to(self, line: int) -> None:
        self.leaving()
        self.choose(line if line >= 0 else self.count - 1)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.vertical_scrollbar.position = new_value  # which is not shown yet while all lines of the list before fit
        self.fetch()

    def on_resize(self) -> None:
        if self.cursor < self.height:
            self.scroll_to(y=0, animate=False, force=True)
        self.point_at(self.cursor)

    def on_click(self, event: events.Click) -> None:
        if self._dragged:  # the end of a drag is not a click on what is there
            self._dragged = False
            return
        inside = event.get_content_offset(self)
        if inside is None:
            return
        line = self.top + inside.y - self.head
        if inside.y < self.head:
            left = 0
            for name, text in self.headings():
                if left <= inside.x < left + cell_len(text) and name:
                    self.sort(name)
                    return
                left += cell_len(text)
        elif line < self.count:
            if event.shift:
                self.extend_to(line)
                return
            self.choose(line)
            self.clicked(inside.x, event.chain)

    # a drag

    def _line_at(self, event: events.MouseEvent) -> int:
        line = self.top + event.get_content_offset_capture(self).y - self.head
        return max(0, min(line, self.count - 1))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged = False
        inside = event.button == 1 and not event.shift and event.get_content_offset(self) is not None
        self._pressed = self._line_at(event) if self.drags and inside and self.count else None
        if self._pressed is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed is not None:
            line = self._line_at(event)
            if self._dragged or line != self._pressed:
                self._dragged = True
                self.choose(line)
                low, high = sorted((self._pressed, line))
                self.selected = {self.name_of(one) for one in range(low, high + 1)}
                self.selection_changed()

    def on_mouse_up(self) -> None:
        if self._pressed is not None:
            self._pressed = None
            self.release_mouse()

    # drawing

    def strip(self, segments: list[Segment]) -> Strip:
        """Return segments as a line of this widget, which Textual fills."""
        return Strip(segments).crop(0, self.columns)

    def render_line(self, y: int) -> Strip:
        line = self.top + y - self.head
        if y < self.head:
            text = "".join(text for _, text in self.headings())
            return self.strip([Segment(text, self.get_component_rich_style("table--head"))])
        if line == 0 and not self.count:
            text, kind = self.nothing
            return self.strip([Segment(text, self.get_component_rich_style(f"table--{kind}"))] if text else [])
        return self.strip(self._segments(line) if line < self.count else [])

    def _segments(self, line: int) -> list[Segment]:
        chosen = self.marks_selected and self.name_of(line) in self.selected
        chosen = chosen or (self.has_line and line == self.cursor and (self.blurs or self.has_focus))
        cursor = [f"table--cursor{'' if self.has_focus else '-blurred'}"] if chosen else []
        cells = self.cells(line, self.columns)
        if self.filler:
            cells = [*cells, (" " * max(0, self.columns - sum([cell_len(text) for text, _ in cells])), self.filler)]
        segments = []
        for text, kind in cells:
            if text:
                names = _classes(kind)
                names = [*cursor, *names] if kind in self.above else [*names, *cursor]
                segments.append(Segment(text, self.get_component_rich_style(*names)))
        return segments
