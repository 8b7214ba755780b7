"""One side of a comparison: a reader whose differing tokens are marked, or the word that there is nothing."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from tokfmt.tui.letters import Alphabet
from tokfmt.tui.marks import Marks
from tokfmt.tui.scroll import Scroll
from tokfmt.tui.viewport import Port, Span
from tokfmt.tui.widgets.reader import Reader


class Pane(Reader):
    """A reader that takes the focus when it is scrolled: the other side follows the one that has it.

    Attributes:
        followed: Where it was put last to be in step; None once it is laid out anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.followed: tuple[int, int, int] | None = None

    def show(self, port: Port, alphabet: Alphabet, row: int, unit: int = 0) -> None:
        self.followed = None
        super().show(port, alphabet, row, unit)

    @property
    def opening(self) -> bool:
        """A row is asked for and not there yet: it cannot be moved."""
        return self._opening

    def roll(self, lines: int) -> None:
        self.focus()
        super().roll(lines)

    def drag(self, share: float) -> None:
        self.focus()
        super().drag(share)


class Side(Vertical):
    """A or B.

    Args:
        number: 0 or 1.
    """

    class Moved(Message):
        """Its reader has moved."""

        def __init__(self, side: Side) -> None:
            super().__init__()
            self.side = side

    def __init__(self, number: int) -> None:
        super().__init__(id="ab"[number], classes="side")
        self.number, self.marks = number, Marks()
        self.row: int | None = None

    def compose(self) -> ComposeResult:
        yield Pane()
        yield Static("", classes="nothing", markup=False)

    @property
    def pane(self) -> Pane:
        """Its reader."""
        return self.query_one(Pane)

    @property
    def absent(self) -> bool:
        """There is no such row on this side."""
        return self.has_class("absent")

    def show(self, port: Port, alphabet: Alphabet, row: int | None, unit: int = 0) -> None:
        """Show a row, or nothing; what differs is marked when it is told."""
        self.marks, self.row = Marks(), row
        if row is None:
            self.show_nothing("nothing stands here")
        else:
            self.remove_class("absent")
            self.pane.show(port, alphabet, row, unit)

    def show_nothing(self, why: str) -> None:
        """Say why nothing is shown."""
        self.marks, self.row = Marks(), None
        self.query_one(".nothing", Static).update(why)
        self.add_class("absent")

    def arrive(self, token: int) -> None:
        """Show the same row, the cursor on a token, even when it has yet to be read."""
        pane = self.pane
        if self.row is not None and pane.port is not None:
            pane.show(pane.port, pane.alphabet, self.row, token)

    def mark(self, marks: Marks) -> None:
        """What differs between the rows that are shown."""
        self.marks = marks
        self._mark()

    def _mark(self) -> None:
        pane = self.pane
        first, last = (pane.lines[0].first, pane.lines[-1].last) if pane.lines else (0, 0)
        pane.hits = self.marks.between(self.number, first, last)
        pane.refresh()

    @property
    def length(self) -> int | None:
        """Units of the row that is shown, as far as is known."""
        pane = self.pane
        span = pane.port.peek_span(pane.row) if pane.port else None
        return span.length if isinstance(span, Span) else None

    @on(Reader.Moved)
    def _moved(self, message: Reader.Moved) -> None:
        message.stop()
        self._mark()
        self.post_message(self.Moved(self))

    def held(self) -> tuple[int, int]:
        """A token that is seen, and its line on the screen: that of the cursor, else the first."""
        pane = self.pane
        for y, line in enumerate(pane.lines):
            if line.leads and line.first <= pane.cursor < line.last:
                return pane.cursor, y
        return (pane.lines[0].first if pane.lines else 0), 0

    def follow(self, cursor: int, anchor: int, y: int) -> None:
        """Put the cursor on a token, and another token on a line of the screen, unless that was done already."""
        if self.pane.opening or self.pane.followed == (cursor, anchor, y):
            return
        self.pane.followed = cursor, anchor, y

        def step(scroll: Scroll) -> None:
            scroll.to(cursor)
            scroll.top = scroll.above(scroll.find(max(0, min(anchor, scroll.roll.span.length - 1))), y)

        self.pane.move(step, reveal=False)
