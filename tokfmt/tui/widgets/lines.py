"""A column of lines with a cursor: what the lists of parts, bytes and findings share."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tokfmt.tui.widgets.roller import Roller
from tokfmt.tui.widgets.track import Track


class Lines(Roller):
    """Lines by number, however many; subclasses say how many there are and draw them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "by(1)", "Down", show=False),
        Binding("up,k", "by(-1)", "Up", show=False),
        Binding("pagedown,space", "pages(1)", "Page down", show=False),
        Binding("pageup", "pages(-1)", "Page up", show=False),
        Binding("home", "to(0)", "First", show=False),
        Binding("end", "to(-1)", "Last", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.top = self.cursor = 0

    # what subclasses say

    @property
    def count(self) -> int:
        """Lines there are."""
        raise NotImplementedError

    def draw(self, line: int) -> list[Segment]:
        """A line, from what is at hand."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Ask for what is seen and not at hand."""

    def moved(self) -> None:
        """The cursor is on another line."""

    def clicked(self, column: int, times: int) -> None:
        """Somebody clicked on the line under the cursor, at a column, so many times."""

    # moving

    @property
    def height(self) -> int:
        """Lines seen."""
        return max(1, self.size.height)

    @property
    def seen(self) -> range:
        """Which lines are seen."""
        return range(self.top, min(self.count, self.top + self.height))

    def point_at(self, line: int) -> None:
        """Put the cursor on a line, in view; nobody is told."""
        self.cursor = max(0, min(line, self.count - 1))
        if not self.top <= self.cursor < self.top + self.height:
            near = self.top - self.height <= self.cursor < self.top + 2 * self.height
            self.top = self.cursor - self.height // 2 if not near else min(self.top, self.cursor)
            self.top = max(self.top, self.cursor - self.height + 1)
        self.settle()

    def settle(self) -> None:
        """After any change: keep to the ends, load what is seen, draw."""
        self.top = max(0, min(self.top, self.count - self.height))
        self.cursor = max(0, min(self.cursor, self.count - 1))
        if self.is_mounted:
            left = max(1, self.count - self.height)
            self.query_one(Track).show(self.top / left, self.height / max(1, self.count))
            self.fetch()
        self.refresh()

    def choose(self, line: int) -> None:
        """Put the cursor on a line, and tell."""
        self.point_at(line)
        self.moved()

    def action_by(self, count: int) -> None:
        self.choose(self.cursor + count)

    def action_pages(self, pages: int) -> None:
        self.page(pages)

    def action_to(self, line: int) -> None:
        self.choose(line if line >= 0 else self.count - 1)

    def page(self, pages: int) -> None:
        self.choose(self.cursor + pages * max(1, self.height - 1))

    def roll(self, lines: int) -> None:
        self.top += lines
        self.settle()

    def drag(self, share: float) -> None:
        self.top = round(share * max(0, self.count - self.height))
        self.settle()

    def on_resize(self) -> None:
        if self.cursor < self.height:
            self.top = 0
        self.point_at(self.cursor)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is not None and self.top + inside.y < self.count:
            self.choose(self.top + inside.y)
            self.clicked(inside.x, event.chain)

    def render_line(self, y: int) -> Strip:
        line = self.top + y
        return self.strip(self.draw(line) if line < self.count else [])
