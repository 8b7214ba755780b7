"""The reader: one row, token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tokfmt.tui.layout import UNBOUNDED, Line, Mode
from tokfmt.tui.letters import Alphabet
from tokfmt.tui.scroll import Manner, NotLoadedError, Roll, Scroll
from tokfmt.tui.viewport import Damage, Port, fetched_span
from tokfmt.tui.widgets.paint import CLASSES, damaged, painted
from tokfmt.tui.widgets.steps import Steps
from tokfmt.tui.widgets.track import Track


class Reader(Steps):
    """Shows a row of a port; the cursor is on a token.

    `hits` are intervals of tokens of the row that is shown, to be marked; set it and call `refresh`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    mode: reactive[Mode] = reactive(Mode.TEXT)
    whitespace: reactive[bool] = reactive(False)
    wrap: reactive[bool] = reactive(True)

    class Moved(Message):
        """The cursor is on another token, or another row is shown."""

    def __init__(self) -> None:
        super().__init__(id="reader")
        self.port: Port | None = None
        self.alphabet = Alphabet()
        self.row = 0
        self.scroll = None
        self.damage: Damage | None = None
        self.hits: list[range] = []
        self.lines: list[Line] = []
        self.left, self._opening, self._asked = 0, False, (0, 0)

    @property
    def manner(self) -> Manner:
        """How it is laid out now."""
        return Manner(self.mode, self.columns - 1 if self.wrap else UNBOUNDED, self.whitespace)

    @property
    def cursor(self) -> int:
        """The token under the cursor."""
        return self.scroll.cursor if self.scroll else 0

    def show(self, port: Port, alphabet: Alphabet, row: int, unit: int = 0) -> None:
        """Show a row, the cursor on one of its units. What was shown stays until it is there."""
        self.generation += 1
        self.port, self.alphabet, manner = port, alphabet, self.manner
        self._opening, self._asked = True, (row, unit)
        if not self.size.width:
            return  # it is laid out when it has a width

        def work() -> Scroll | Damage:
            span = fetched_span(port, row)
            return span if isinstance(span, Damage) else _opened(Roll(port, row, span, alphabet, manner), unit)

        def then(found: Scroll | Damage) -> None:
            if row != self.row:
                self.row, self.hits, self.mark_from = row, [], None
            self.damage = found if isinstance(found, Damage) else None
            self.scroll = found if isinstance(found, Scroll) else None
            self.left, self._opening = 0, False
            self.move(_nothing)

        self.ask(work, then)

    def clear(self, port: Port) -> None:
        """Show nothing of a port that has no rows."""
        self.generation += 1
        self.port, self.scroll, self.damage, self._opening = port, None, None, False
        self.row, self.hits, self.mark_from, self.lines = 0, [], None, []
        self._settle()

    def lay_out(self) -> None:
        """The same row in another manner."""
        if self.port is not None and self.port.count and self.size.width:
            row, unit = self._asked if self._opening else (self.row, self.cursor)
            self.show(self.port, self.alphabet, row, unit)

    def watch_mode(self) -> None:
        self.lay_out()

    def watch_whitespace(self) -> None:
        self.lay_out()

    def watch_wrap(self) -> None:
        self.lay_out()

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - whatever the size was
        self.lay_out()

    # moving

    def move(self, step: Callable[[Scroll], None], *, reveal: bool = True) -> None:
        """Do a step; if a chunk is missing for it, load that first, on the desk, and try again."""
        scroll = self.scroll
        if self._opening:
            return
        if scroll is not None:
            try:
                step(scroll)
                step = _nothing  # is not to be done again when only what it revealed is missing
                if reveal:
                    scroll.reveal(max(1, self.size.height))
            except NotLoadedError as error:
                self._load(scroll, error.chunk, step, reveal=reveal)
                return
        self.lines, missing = scroll.visible(max(1, self.size.height)) if scroll else ([], None)
        self._settle()
        self.post_message(self.Moved())
        if scroll is not None and missing is not None:
            self._load(scroll, missing, _nothing, reveal=False)

    def _load(self, scroll: Scroll, chunk: int, step: Callable[[Scroll], None], *, reveal: bool) -> None:
        self.ask(lambda: scroll.roll.load(chunk), lambda _: self.move(step, reveal=reveal))

    def _settle(self) -> None:
        length = self.scroll.roll.span.length if self.scroll else 0
        if self.lines and self.is_mounted:
            seen = self.lines[-1].last - self.lines[0].first
            share = seen / length if length else 1.0
            self.query_one(Track).show(self.lines[0].first / max(1, length - seen), share)
            if not self.wrap and self.scroll:
                self._follow(self.scroll)
        self.refresh()

    def _follow(self, scroll: Scroll) -> None:
        """Unwrapped lines: bring the cursor's column into view."""
        line = next((line for line in self.lines if line.leads and line.first <= scroll.cursor < line.last), None)
        if line is not None:
            start, stop = line.column_of(scroll.cursor)
            if not self.left <= start < max(self.left + 1, self.left + self.columns - (stop - start)):
                self.left = max(0, start - self.columns // 2)

    def render_line(self, y: int) -> Strip:
        if self.damage is not None:
            return self.strip(damaged(self, self.damage, y))
        if y < len(self.lines) and self.scroll is not None:
            return self.strip(painted(self, self.scroll, self.lines[y]), self.left)
        return self.strip([])


def _nothing(scroll: Scroll) -> None:
    """Stay."""


def _opened(roll: Roll, unit: int) -> Scroll:
    """A scroll with what the first screen needs."""
    scroll = Scroll(roll, unit)
    number = min(scroll.cursor // roll.size, roll.count - 1)
    for chunk in range(max(0, number - 1), min(number + 2, roll.count)):
        roll.load(chunk)
    return scroll
