"""How the cursor of the reader moves, by keys and by mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tokfmt.tui.layout import Line
from tokfmt.tui.scroll import Scroll
from tokfmt.tui.widgets.roller import Roller


class Steps(Roller):
    """The moves of a reader. `lines` are those on the screen, `left` the first column of them that is.

    `mark_from` is a token from which to the cursor all are marked; None marks none.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "tokens(1)", "Next token", show=False),
        Binding("left", "tokens(-1)", "Previous token", show=False),
        Binding("down,j", "lines(1)", "Down", show=False),
        Binding("up,k", "lines(-1)", "Up", show=False),
        Binding("pagedown,space", "pages(1)", "Page down", show=False),
        Binding("pageup", "pages(-1)", "Page up", show=False),
        Binding("home", "to(0)", "First token", show=False),
        Binding("end", "to(-1)", "Last token", show=False),
    ]
    lines: list[Line]
    left: int
    scroll: Scroll | None
    mark_from: int | None = None

    @property
    def marked(self) -> range:
        """The tokens that are marked."""
        if self.mark_from is None or self.scroll is None:
            return range(0)
        return range(min(self.mark_from, self.scroll.cursor), max(self.mark_from, self.scroll.cursor) + 1)

    def move(self, step: Callable[[Scroll], None], *, reveal: bool = True) -> None:
        """Do a step, now or when what it needs is loaded."""
        raise NotImplementedError

    def action_tokens(self, count: int) -> None:
        self.move(lambda scroll: scroll.by_tokens(count))

    def action_lines(self, count: int) -> None:
        self.move(lambda scroll: scroll.by_lines(count))

    def action_pages(self, pages: int) -> None:
        self.page(pages)

    def action_to(self, token: int) -> None:
        self.move(lambda scroll: scroll.to(token if token >= 0 else scroll.roll.span.length - 1))

    def toggle_mark(self) -> None:
        """Mark from the token under the cursor on; again: no mark."""
        self.mark_from = self.scroll.cursor if self.mark_from is None and self.scroll else None
        self.move(lambda scroll: None)

    def go_to(self, token: int) -> None:
        """Put the cursor on a token."""
        self.move(lambda scroll: scroll.to(token))

    def page(self, pages: int) -> None:
        self.move(lambda scroll: scroll.by_lines(pages * max(1, self.size.height - 1)))

    def roll(self, lines: int) -> None:
        self.move(lambda scroll: scroll.by_view(lines, self.size.height), reveal=False)

    def drag(self, share: float) -> None:
        def step(scroll: Scroll) -> None:
            scroll.top = scroll.find(round(share * (scroll.roll.span.length - 1)))

        self.move(step, reveal=False)

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self.lines):
            line, column = self.lines[event.y], self.left + event.x
            self.move(lambda scroll: scroll.to(line.token_at(column)), reveal=False)
