"""Two datasets side by side, in step: what differs is marked, and the next difference is a key away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Static

from tokfmt.core.text_format import counted as amount
from tokfmt.core.text_format import printable
from tokfmt.ops.compare.diff import counted
from tokfmt.tui.layout import Mode, ReaderPosition, TokenStyle
from tokfmt.tui.pairing import Comparison, First, Marks, Pair, Row, Sessions, common_view, comparable, marks_of, unit_of
from tokfmt.tui.rows import Damage, RowSource, Span
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.base import Tab, number_words, parse_number
from tokfmt.tui.widgets.frame import StatusLine
from tokfmt.tui.widgets.reader import Reader, TokenFacts, facts_of
from tokfmt.tui.widgets.row_view import WithLoader

Part = tuple[str, str]
"""Words and what they are: "plain", "good", "bad", "busy", "dim"."""


def verdict(comparison: Comparison | None, unit: str, waiting: str = "") -> list[Part]:
    """The line above both sides."""
    if comparison is None:
        return [(f"◌ {waiting or 'opening'}", "busy")]
    if comparison.state == "failed":
        return [(f"✗ {printable(comparison.failure)}", "bad")]
    first = comparison.first
    parts = [_how_far(comparison)] if comparison.state != "done" else []
    if comparison.differing:
        parts.append((f"≠ {counted(comparison.differing)}", "bad"))
        if not comparison.exact:
            parts.append(("fewer may have moved", "dim"))
        if first is not None:
            parts.append((f"first: {first_words(first, unit, comparison.ports[0].unit)}", "plain"))
        parts.append((f"{comparison.alike:,} alike", "dim"))
    elif comparison.state == "done":
        parts.append((f"✓ identical: {amount(comparison.alike, unit)}", "good"))
    elif comparison.unlike_from is not None:
        parts.append((f"≠ not alike from {unit} {comparison.unlike_from:,} on", "bad"))
    else:
        parts.append(("identical so far", "good"))
    return parts


def _how_far(comparison: Comparison) -> Part:
    share = comparison.job.share
    far = "" if share is None or comparison.job.name != "comparing" else f" {share:.0%}"
    if comparison.state == "walking":
        return f"◌ {comparison.job.name or 'opening'}{far} · esc stops", "busy"
    return f"stopped at{far or ' the beginning'}, n begins again", "busy"


def first_words(first: First, unit: str, part: str) -> str:
    """`document 17, token 204: 5 ≠ 6`, `document 17 only in A`."""
    a, b = first.pair.a, first.pair.b
    if a is None or b is None:
        return _lone(first.pair, unit)
    where = f"{unit} {a:,}" if a == b else f"{unit} {a:,} of A, {b:,} of B"
    if first.token is None:
        return where
    x, y = ("end" if value is None else str(value) for value in first.values)
    return f"{where}, {part} {first.token:,}: {x} ≠ {y}"


def titles(pair: Pair, unit: str, lengths: Sequence[int | None], units: str) -> tuple[str, str]:
    """Over either side: `A · document 17 · 1,116 tokens`."""
    out = []
    for name, row, length in zip("AB", (pair.a, pair.b), lengths, strict=True):
        many = "" if length is None or row is None else f" · {amount(length, units)}"
        out.append(f"{name} · {'none' if row is None else f'{unit} {row:,}'}{many}")
    return out[0], out[1]


def pair_words(pair: Pair, marks: Marks | Damage | None, facts: Sequence[object], unit: str, part: str) -> list[Part]:
    """The line beneath both sides; a row is a `unit`, what it is made of a `part`."""
    if pair.a is None or pair.b is None:
        if pair.a is None and pair.b is None:
            return [("nothing here", "dim")]
        return [(_lone(pair, unit), "bad")]
    if marks is None:
        return [("◌ comparing this pair", "busy")]
    if isinstance(marks, Damage):
        return [(f"✗ {printable(marks.why)}", "bad")]
    parts: list[Part] = [("alike", "good")]
    if marks.hunks:
        far = "" if marks.known is None else f" up to {part} {marks.known[0]:,}; not looked further"
        parts = [(f"differs in {amount(len(marks.hunks), 'place')}{far}", "bad")]
    return parts + _under(facts, part)


def _lone(pair: Pair, unit: str) -> str:
    """A row that has none beside it."""
    side, other, row = ("B", "A", pair.b) if pair.a is None else ("A", "B", pair.a)
    if pair.elsewhere is not None:
        return f"{unit} {row:,} of {side} is {pair.elsewhere:,} of {other}: moved"
    return f"{unit} {row:,} is only in {side}"


def _under(facts: Sequence[object], part: str) -> list[Part]:
    """Both tokens under the cursors."""
    a, b = ((one if isinstance(one, TokenFacts) else None) for one in facts)
    if a is None and b is None:
        return []
    where = (a or b).unit  # type: ignore[union-attr]
    here = f"{where:,}" if a is None or b is None or a.unit == b.unit else f"{a.unit:,} and {b.unit:,}"
    same = a is not None and b is not None and (a.value, a.mask, a.label) == (b.value, b.mask, b.label)
    sign, kind = ("=", "plain") if same else ("≠", "bad")
    return [(f"{part} {here}", "dim"), (f"{_token(a)} {sign} {_token(b)}", kind)]


def _token(facts: TokenFacts | None) -> str:
    if facts is None:
        return "end"
    words = [str(facts.value)]
    if facts.spelled is not None:
        words.append(f"“{facts.spelled}”")
    if facts.mask is not None:
        words.append(f"mask {facts.mask}")
    if facts.label is not None:
        words.append(f"label {facts.label}")
    return " ".join(words)


class Pane(Reader):
    """A reader that takes the focus when it is scrolled: the other side follows the one that has it.

    Attributes:
        followed: Where it was put last to be in step; None once it is laid out anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.resolve_link: tuple[int, int, int] | None = None

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int = 0) -> None:
        self.resolve_link = None
        super().show(port, token_style, row, unit)

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

    pane = getters.query_one(Pane)
    """Its reader."""

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
    def absent(self) -> bool:
        """There is no such row on this side."""
        return self.has_class("absent")

    def show(self, port: RowSource, token_style: TokenStyle, row: int | None, unit: int = 0) -> None:
        """Show a row, or nothing; what differs is marked when it is told."""
        self.marks, self.row = Marks(), row
        if row is None:
            self.show_nothing("nothing stands here")
        else:
            self.remove_class("absent")
            self.pane.show(port, token_style, row, unit)

    def show_nothing(self, why: str) -> None:
        """Say why nothing is shown."""
        self.marks, self.row = Marks(), None
        self.query_one(".nothing", Static).update(why)
        self.add_class("absent")

    def arrive(self, token: int) -> None:
        """Show the same row, the cursor on a token, even when it has yet to be read."""
        pane = self.pane
        if self.row is not None and pane.port is not None:
            pane.show(pane.port, pane.token_style, self.row, token)

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
        if self.pane.opening or self.pane.resolve_link == (cursor, anchor, y):
            return
        self.pane.resolve_link = cursor, anchor, y

        def step(scroll: ReaderPosition) -> None:
            scroll.to(cursor)
            scroll.top = scroll.from_source(scroll.find(max(0, min(anchor, scroll.roll.span.length - 1))), y)

        self.pane.move(step, reveal=False)


class PairLine(StatusLine, WithLoader):
    """Reads what it tells with a loader of its own."""

    def tell(self, sessions: Sessions, pair: Pair, marks: Marks | Damage | None, cursors: tuple[int, int]) -> None:
        """Say what is known of a pair."""
        self.loader.forget()
        unit, part = unit_of(sessions), sessions[0].port.unit
        places = [(one.port, one.token_style, pair.row(side), cursors[side]) for side, one in enumerate(sessions)]

        def work() -> list[object]:
            return [None if row is None else facts_of(port, words, row, token) for port, words, row, token in places]

        self.loader.ask(work, lambda facts: self.say(pair_words(pair, marks, facts, unit, part)))


_UNLIKE = Damage("one holds text, the other token ids: --tokenizer makes them alike")


WIDE = 110
"""Columns from which on both stand side by side."""


class CompareTab(Tab):
    """Shows the first two datasets that are open. `step` is where in the pairing it is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "difference(1)", "Next difference"),
        Binding("p", "difference(-1)", "Previous"),
        Binding("N", "differing(1)", "Next pair that differs", show=False),
        Binding("P", "differing(-1)", "Previous pair that differs", show=False),
        Binding("right_square_bracket", "by(1)", "Next pair", key_display="]"),
        Binding("left_square_bracket", "by(-1)", "Previous pair", show=False, key_display="["),
        Binding("g", "jump", "Go to"),
        Binding("m", "mode", "Text/ids"),
        Binding("v", "view", "View", show=False),
        Binding("V", "split", "Split of both", show=False),
        Binding("w", "toggle_both('whitespace')", "Whitespace", show=False),
        Binding("l", "toggle_both('wrap')", "Wrap lines", show=False),
        Binding("s", "stack", "Side by side or stacked", show=False),
        Binding("escape", "stop", "Stop comparing", show=False),
    ]

    sessions: Sessions | None = None
    comparison: Comparison | None = None
    step = 0
    pair = Pair(None, None, differs=False)
    marks: Marks | Damage | None = None
    _arrival = 0
    _wanted = False  # the next difference, once the walk has found it
    _viewed = False
    _stacked: bool | None = None

    def compose(self) -> ComposeResult:
        yield StatusLine("verdict")
        with Container(id="sides"):
            yield Side(0)
            yield Side(1)
        yield PairLine("pairline")

    # what is compared

    def show(self, session: Session) -> None:
        self.session = session
        sessions = self.host.pair()
        if sessions is None:
            self.say(self.host.pair_waits())
            return
        refused = next((one.refused for one in sessions if one.refused is not None), None)
        if refused is not None:
            self.refuse(sessions, refused)
            return
        waiting = self.host.pair_waits()
        if not waiting and not self._viewed:
            self._viewed = True
            self._view(sessions, common_view(sessions))
            self.call_later(self.host.refresh_tabs)  # another view may be shown in them now
        ports, old = tuple(one.port for one in sessions), self.comparison
        if not waiting and (old is None or old.ports != ports):
            self.begin(sessions)
        self.sessions = sessions
        self.see(self.step)
        self.say(waiting)

    def _view(self, sessions: Sessions, name: str) -> None:
        for session in sessions:
            session.shown = name or session.opened.views[0].name

    # doing

    def action_by(self, count: int) -> None:
        self.see(self.step + count)

    async def action_jump(self) -> None:
        if self.sessions is None or self.comparison is None:
            return
        pairing, count, unit = self.comparison.pairing, self.sessions[0].port.count, unit_of(self.sessions)

        def to_row(answer: str) -> None:
            self.see(pairing.step_of(0, parse_number(answer, count, unit)))

        await self.host.ask_line(number_words(f"{unit} of A", count), to_row)

    def action_mode(self) -> None:
        modes = list(Mode)
        mode = modes[(modes.index(self.leader.pane.mode) + 1) % len(modes)]
        for side in self.sides:
            side.pane.mode = mode

    def action_toggle_both(self, what: str) -> None:
        value = not getattr(self.leader.pane, what)
        for side in self.sides:
            setattr(side.pane, what, value)

    def action_view(self) -> None:
        name = common_view(self.sessions, self.sessions[0].shown) if self.sessions else ""
        if self.sessions and name:
            self._view(self.sessions, name)
            self.step = 0
            self.host.refresh_tabs()
        else:
            self.notify("There is only one view that both have.")

    def action_split(self) -> None:
        """The next split that both have."""
        if self.sessions is None:
            return
        a, b = self.sessions
        names = [name for name in a.splits if name in b.splits]
        if len(names) > 1:
            at = names.index(a.split) if a.split in names else -1
            self.host.show_split(names[(at + 1) % len(names)], (0, 1))
        else:
            self.notify("There are no two splits that both have.")

    def action_stack(self) -> None:
        self._stacked = not self.has_class("stacked")
        self.set_class(self._stacked, "stacked")

    def on_resize(self) -> None:
        self.set_class(self.size.width < WIDE if self._stacked is None else self._stacked, "stacked")

    # the walk: how far it is, and from one difference to the next

    @property
    def idle(self) -> bool:
        return self.comparison is None or not self.comparison.walking

    def refuse(self, sessions: Sessions, error: Exception) -> None:
        """One of both cannot be read: there is nothing to compare."""
        self._forget()
        self.sessions = None
        self.name_sides(sessions)
        for side in self.sides:
            side.border_title = "AB"[side.number]
            refused = sessions[side.number].refused
            side.show_nothing("cannot be read" if refused else "nothing to compare it with")
        self.query_one("#verdict", StatusLine).say([(f"✗ {printable(' '.join(str(error).split()))}", "bad")])

    def _forget(self) -> None:
        if self.comparison is not None:
            self.comparison.stop()
        self.comparison = None

    def begin(self, sessions: Sessions) -> None:
        """Walk through both, from the beginning."""
        self._forget()
        self.comparison = Comparison(sessions, lambda: self.call_later(self._walked, self.comparison))

    def say(self, waiting: str = "") -> None:
        """The line above both sides."""
        parts = verdict(self.comparison, unit_of(self.sessions), waiting) if self.sessions else []
        if not self.sessions and waiting:
            parts = [(f"◌ {waiting}", "busy")]
        if self._wanted:
            parts = [("◌ looking for the next difference · esc stops", "busy"), *parts]
        self.query_one("#verdict", StatusLine).say(parts)

    def _walked(self, told: Comparison | None) -> None:
        """The walk has got further, or has ended."""
        comparison = self.comparison
        if comparison is None or told not in (comparison, None):
            return
        if comparison.pairing.pair(self.step) != self.pair:  # what was taken to be in step is not
            row = self.pair.row(self.leader.number)
            step = self.step if row is None else comparison.pairing.step_of(self.leader.number, row)
            self.see(step, self.leader.pane.cursor)
        if self._wanted:
            found = comparison.pairing.following(self.step)
            self._wanted = found is None and comparison.walking
            if found is not None:
                self.see(found, arrival=1)
            elif not comparison.walking:
                self.notify("There are no more differences.")
        self.say()

    def action_difference(self, direction: int) -> None:
        if not self.hop(direction):
            self.action_differing(direction)

    def action_differing(self, direction: int) -> None:
        comparison = self.comparison
        if comparison is None or comparison.state == "failed":
            return
        pairing = comparison.pairing
        found = pairing.following(self.step) if direction > 0 else pairing.preceding(self.step)
        if found is not None:
            self.see(found, arrival=direction)
        elif direction > 0 and comparison.state in ("walking", "stopped"):
            self._wanted = True
            if not comparison.walking and self.sessions:
                self.begin(self.sessions)
            self.say()
        else:
            self.notify(f"There are no {'more' if direction > 0 else 'earlier'} differences.")

    def action_stop(self) -> None:
        if self._wanted:
            self._wanted = False
        elif self.comparison is None or not self.comparison.stop():
            self.host.action_cancel()
        self.say()

    def on_unmount(self) -> None:
        self._forget()

    # the pair that is shown: what differs between its rows, both sides in step

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
        self.loader.forget()
        self.marks, self._arrival = None, arrival
        focused = any(side.pane.has_focus for side in self.sides)
        for side, session in zip(self.sides, self.sessions, strict=True):
            side.show(session.port, session.token_style, self.pair.row(side.number), unit)
        if focused and not self.leader.pane.has_focus:
            self.leader.pane.focus()
        self._tell()
        self._look()

    def _look(self) -> None:
        """Find out what differs."""
        pair, sessions, generation = self.pair, self.sessions, self.loader.generation
        if pair.a is None or pair.b is None or sessions is None:
            self._marked(Marks())
        elif not comparable(sessions):
            self._marked(_UNLIKE)
        else:
            a, b = Row(sessions[0].port, pair.a), Row(sessions[1].port, pair.b)
            self.loader.ask(lambda: marks_of(a, b, lambda: self.loader.generation == generation), self._marked)

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
