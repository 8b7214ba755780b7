"""Lists of any number of rows: lines drawn one by one, exact at 2^53 of them; a thread loads what is seen."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollUp
from textual.strip import Strip

from tokfmt.tui.workers import WithLoader


class RowView(WithLoader, ScrollView, can_focus=True):
    """Lines by number, however many; subclasses say how many there are and draw them.

    The first `head` lines on the screen are not of them: who has some draws them in `render_line`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "by(1)", "Down", show=False),
        Binding("up,k", "by(-1)", "Up", show=False),
        Binding("pagedown,space", "pages(1)", "Page down", show=False),
        Binding("pageup", "pages(-1)", "Page up", show=False),
        Binding("home", "to(0)", "First", show=False),
        Binding("end", "to(-1)", "Last", show=False),
    ]

    head = 0
    cursor = 0

    # what subclasses say

    @property
    def count(self) -> int:
        """Lines there are."""
        return 0

    def draw(self, line: int) -> list[Segment]:  # noqa: ARG002 - subclasses draw it
        """A line, from what is at hand."""
        return []

    def fetch(self) -> None:
        """Ask for what is seen and not at hand."""

    def moved(self) -> None:
        """The cursor is on another line."""

    def clicked(self, column: int, times: int) -> None:
        """Somebody clicked on the line under the cursor, at a column, so many times."""

    # moving

    @property
    def top(self) -> int:
        """The first line that is seen."""
        return self.scroll_offset.y

    @property
    def height(self) -> int:
        """Lines seen."""
        return max(1, self.size.height - self.head)

    @property
    def columns(self) -> int:
        """Cells of a line, the scrollbar aside."""
        return max(1, self.size.width - 1)

    @property
    def seen(self) -> range:
        """Which lines are seen."""
        return range(self.top, min(self.count, self.top + self.height))

    def point_at(self, line: int) -> None:
        """Put the cursor on a line, in view; nobody is told. Also after any change of what there is."""
        self.virtual_size = Size(0, self.count + self.head)
        self.cursor = max(0, min(line, self.count - 1))
        top, height = self.top, self.height
        if not top <= self.cursor < top + height:
            near = top - height <= self.cursor < top + 2 * height
            top = self.cursor - height // 2 if not near else min(top, self.cursor)
            top = max(top, self.cursor - height + 1)
        self.scroll_to(y=max(0, min(top, self.count - height)), animate=False, force=True)
        self.fetch()
        self.refresh()

    def choose(self, line: int) -> None:
        """Put the cursor on a line, and tell."""
        self.point_at(line)
        self.moved()

    def action_by(self, count: int) -> None:
        self.choose(self.cursor + count)

    def action_pages(self, pages: int) -> None:
        self.choose(self.cursor + pages * max(1, self.height - 1))

    def action_to(self, line: int) -> None:
        self.choose(line if line >= 0 else self.count - 1)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.fetch()

    def on_scroll_down(self, message: ScrollDown) -> None:
        """Somebody clicked beneath the scrollbar's thumb."""
        message.prevent_default().stop()
        self.action_pages(1)

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default().stop()
        self.action_pages(-1)

    def on_resize(self) -> None:
        if self.cursor < self.height:
            self.scroll_to(y=0, animate=False, force=True)
        self.point_at(self.cursor)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        line = self.top + inside.y - self.head if inside is not None else -1
        if inside is not None and inside.y >= self.head and line < self.count:
            self.choose(line)
            self.clicked(inside.x, event.chain)

    # drawing

    def strip(self, segments: list[Segment]) -> Strip:
        """Segments as a whole line of this widget."""
        return Strip(segments).crop(0, self.columns).extend_cell_length(self.size.width, self.rich_style)

    def render_line(self, y: int) -> Strip:
        line = self.top + y - self.head
        return self.strip(self.draw(line) if line < self.count else [])
