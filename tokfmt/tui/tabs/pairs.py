"""The pair that a comparison shows: which rows, what differs between them, both sides in step."""

from __future__ import annotations

from textual import on

from tokfmt.core.errors import printable
from tokfmt.tui.comparison import Comparison, Sessions, comparable, unit_of
from tokfmt.tui.marks import Marks, Row, marks_of
from tokfmt.tui.pairing import Pair
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.verdict import titles
from tokfmt.tui.viewport import Damage
from tokfmt.tui.widgets.desked import Desked
from tokfmt.tui.widgets.pairline import PairLine
from tokfmt.tui.widgets.side import Side

_UNLIKE = Damage("one holds text, the other token ids: --tokenizer makes them alike")


class Pairs(Tab, Desked):
    """A tab with two sides. `step` is where in the pairing it is."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.sessions: Sessions | None = None
        self.comparison: Comparison | None = None
        self.step, self.pair = 0, Pair(None, None, differs=False)
        self.marks: Marks | Damage | None = None
        self._arrival = 0

    @property
    def sides(self) -> list[Side]:
        """A and B."""
        return list(self.query(Side))

    @property
    def leader(self) -> Side:
        """The side that the other follows: that with the focus, or the one that is there."""
        a, b = self.sides
        return b if a.absent or (b.pane.has_focus and not b.absent) else a

    def enter(self) -> None:
        self.leader.pane.focus()

    def see(self, step: int, unit: int = 0, arrival: int = 0) -> None:
        """Show a pair.

        Args:
            step: Of the pairing; the nearest that there is.
            unit: Token to put the cursor on.
            arrival: 1 puts it on the first difference, -1 on the last.
        """
        if self.sessions is None:
            return
        if self.comparison is not None:
            self.step = max(0, min(step, self.comparison.pairing.total - 1))
            self.pair = self.comparison.pairing.pair(self.step)
        else:  # nothing is known yet: in step
            a, b = ((step if step < one.port.count else None) for one in self.sessions)
            self.pair = Pair(a, b, differs=False)
        self.generation, self.marks, self._arrival = self.generation + 1, None, arrival
        focused = any(side.pane.has_focus for side in self.sides)
        for side, session in zip(self.sides, self.sessions, strict=True):
            side.show(session.port, session.alphabet, self.pair.row(side.number), unit)
        if focused and not self.leader.pane.has_focus:
            self.leader.pane.focus()
        self._tell()
        self._look()

    def _look(self) -> None:
        """Find out what differs."""
        pair, sessions, generation = self.pair, self.sessions, self.generation
        if pair.a is None or pair.b is None or sessions is None:
            self._marked(Marks())
        elif not comparable(sessions):
            self._marked(_UNLIKE)
        else:
            a, b = Row(sessions[0].port, pair.a), Row(sessions[1].port, pair.b)
            self.ask(lambda: marks_of(a, b, lambda: self.generation == generation), self._marked)

    def _marked(self, marks: Marks | Damage) -> None:
        self.marks = marks
        if isinstance(marks, Marks):
            for side in self.sides:
                side.mark(marks)
            leader = self.leader
            if self._arrival and marks.hunks and not leader.absent:
                leader.arrive(marks.hunks[0 if self._arrival > 0 else -1].side(leader.number).start)
        self._arrival = 0
        self._follow()
        self._tell()

    def hop(self, direction: int) -> bool:
        """Put the cursor on the next or the last difference of this pair; False when there is none."""
        marks, side = self.marks, self.leader
        if not isinstance(marks, Marks):
            return False
        cursor = side.pane.cursor
        hunk = marks.following(side.number, cursor) if direction > 0 else marks.preceding(side.number, cursor)
        if hunk is None:
            return False
        token = hunk.side(side.number).start
        if direction > 0 and token >= (side.length or 0) and cursor == token - 1:
            return False  # it lies behind the last token, and the cursor can get no nearer
        side.pane.go_to(token)
        return True

    # both in step

    @on(Side.Moved)
    def _moved(self, message: Side.Moved) -> None:
        message.stop()
        self._follow()
        self._tell()

    def _follow(self) -> None:
        leader = self.leader
        other = self.sides[1 - leader.number]
        marks = self.marks if isinstance(self.marks, Marks) else Marks()
        if not other.absent and not leader.absent:
            token, y = leader.held()
            number = leader.number
            other.follow(marks.across(number, leader.pane.cursor), marks.across(number, token), y)

    def _tell(self) -> None:
        if self.sessions is None:
            return
        a, b = self.sides
        lengths = a.length, b.length
        names = titles(self.pair, unit_of(self.sessions), lengths, self.sessions[0].port.unit)
        a.border_title, b.border_title = names
        self.name_sides(self.sessions)
        cursors = a.pane.cursor, b.pane.cursor
        self.query_one(PairLine).tell(self.sessions, self.pair, self.marks, cursors)

    def name_sides(self, sessions: Sessions) -> None:
        """Beneath either side: which dataset it is."""
        for side, session in zip(self.sides, sessions, strict=True):
            split = f" · {printable(session.split)}" if session.split else ""
            side.border_subtitle = f"{printable(session.path.name)}{split} · {session.format_name or 'unknown format'}"
