"""Two rows side by side that keep in step, with marks on what differs."""

from __future__ import annotations

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.layout import Mode, ReaderPosition, TokenStyle
from tokfmt.browser.data.pairing import Marks
from tokfmt.browser.data.rows import Damage, RowSource, Span
from tokfmt.browser.widgets.frame import StatusLine
from tokfmt.browser.widgets.reader import Reader

Part = tuple[str, str]
"""Words and their kind: "plain", "good", "bad", "busy" or "dim"."""


class Pane(Reader):
    """A reader that takes the focus when it is scrolled, as the other side follows the one with the focus.

    Attributes:
        followed: The last arguments of `Side.follow`; None after a new layout.
    """

    def __init__(self) -> None:
        super().__init__()
        self.followed: tuple[int, int, int] | None = None

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int = 0) -> None:
        self.followed = None
        super().show(port, token_style, row, unit)

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

    pane = getters.query_one(Pane)
    """The reader of the side."""

    def __init__(self, number: int) -> None:
        super().__init__(id="ab"[number], classes="side")
        self.number, self.marks = number, Marks()
        self.row: int | None = None

    def compose(self) -> ComposeResult:
        yield Pane()
        yield Static("", classes="nothing", markup=False)

    @property
    def absent(self) -> bool:
        """Return whether this side lacks the row."""
        return self.has_class("absent")

    def show(self, port: RowSource, token_style: TokenStyle, row: int | None, unit: int = 0) -> None:
        """Show a row, or a message for None. `mark` adds the differences later."""
        self.marks, self.row = Marks(), row
        if row is None:
            self.show_nothing("no such row here")
        else:
            self.remove_class("absent")
            self.pane.show(port, token_style, row, unit)

    def show_nothing(self, why: str) -> None:
        """Show a message in place of a row."""
        self.marks, self.row = Marks(), None
        self.query_one(".nothing", Static).update(why)
        self.add_class("absent")

    def arrive(self, token: int) -> None:
        """Show the same row with the cursor on a token, even if it is not loaded."""
        pane = self.pane
        if self.row is not None and pane.port is not None:
            pane.show(pane.port, pane.token_style, self.row, token)

    def mark(self, marks: Marks) -> None:
        """Mark the differences between the rows."""
        self.marks = marks
        self._mark()

    def _mark(self) -> None:
        pane = self.pane
        first, last = (pane.lines[0].first, pane.lines[-1].last) if pane.lines else (0, 0)
        pane.hits = self.marks.between(self.number, first, last)
        pane.refresh()

    @property
    def length(self) -> int | None:
        """Return the number of units of the row, if it is known."""
        pane = self.pane
        span = pane.port.peek_span(pane.row) if pane.port else None
        return span.length if isinstance(span, Span) else None

    @on(Reader.Moved)
    def _moved(self) -> None:
        self._mark()

    def held(self) -> tuple[int, int]:
        """Return a token and its line on the screen: that of the cursor, or else the first one."""
        pane = self.pane
        for y, line in enumerate(pane.lines):
            if line.leads and line.first <= pane.cursor < line.last:
                return pane.cursor, y
        return (pane.lines[0].first if pane.lines else 0), 0

    def follow(self, cursor: int, anchor: int, y: int) -> None:
        """Put the cursor on a token, and scroll so that another token is on a line of the screen.

        Args:
            cursor: The token for the cursor.
            anchor: The token for the line.
            y: The line of the screen.
        """
        if self.pane.opening or self.pane.followed == (cursor, anchor, y):
            return
        self.pane.followed = cursor, anchor, y

        def step(scroll: ReaderPosition) -> None:
            scroll.to(cursor)
            scroll.top = scroll.above(scroll.find(max(0, min(anchor, scroll.roll.span.length - 1))), y)

        self.pane.move(step, around=None)


WIDE = 110
"""Width in columns from which both sides are next to each other."""


class PairScreen(Widget):
    """Two sides, with a line above and a line below them.

    Attributes:
        marks: The differences between the rows; None while they are searched.
    """

    BINDINGS = keys.PAIR
    marks: Marks | Damage | None = None
    _stacked: bool | None = None

    def compose(self) -> ComposeResult:
        yield StatusLine("verdict")
        with Container(id="sides"):
            yield Side(0)
            yield Side(1)
        yield StatusLine("pairline")

    @property
    def sides(self) -> list[Side]:
        """Return A and B."""
        return list(self.query(Side))

    @property
    def leader(self) -> Side:
        """Return the side that the other follows: the one with the focus, or the one that has the row."""
        a, b = self.sides
        return b if a.absent or (b.pane.has_focus and not b.absent) else a

    def tell(self, line: str, parts: list[Part]) -> None:
        """Show words and their kinds above ("verdict") or below ("pairline") both sides."""
        self.query_one(f"#{line}", StatusLine).say(parts)

    def mark(self, marks: Marks | Damage) -> None:
        """Mark the differences between the rows."""
        self.marks = marks
        if isinstance(marks, Marks):
            for side in self.sides:
                side.mark(marks)

    @on(Reader.Moved)
    def _followed(self, message: Reader.Moved) -> None:
        message.stop()
        self.follow()

    def on_descendant_focus(self) -> None:
        self.follow()

    def follow(self) -> None:
        """Let the other side follow the leader."""
        leader, marks = self.leader, self.marks if isinstance(self.marks, Marks) else Marks()
        other, number = self.sides[1 - leader.number], leader.number
        if not other.absent and not leader.absent:
            token, y = leader.held()
            other.follow(marks.across(number, leader.pane.cursor), marks.across(number, token), y)

    def hop(self, direction: int) -> bool:
        """Move the cursor to the next or previous difference of these rows; return False without one."""
        marks, side = self.marks, self.leader
        if not isinstance(marks, Marks):
            return False
        cursor = side.pane.cursor
        hunk = marks.following(side.number, cursor) if direction > 0 else marks.preceding(side.number, cursor)
        if hunk is None:
            return False
        token = hunk.side(side.number).start
        if direction > 0 and token >= (side.length or 0) and cursor == token - 1:
            return False  # the difference is after the last token, where the cursor cannot go
        side.pane.go_to(token)
        return True

    def action_mode(self) -> None:
        modes = list(Mode)
        mode = modes[(modes.index(self.leader.pane.mode) + 1) % len(modes)]
        for side in self.sides:
            side.pane.mode = mode

    def action_toggle_reader(self, what: str) -> None:
        value = not getattr(self.leader.pane, what)
        for side in self.sides:
            setattr(side.pane, what, value)

    def action_stack(self) -> None:
        self._stacked = not self.has_class("stacked")
        self.set_class(self._stacked, "stacked")

    def on_resize(self) -> None:
        self.set_class(self.size.width < WIDE if self._stacked is None else self._stacked, "stacked")
