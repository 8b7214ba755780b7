"""The tab of the comparison: two datasets side by side in step, with marked differences and keys to the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual import on

from tokfmt.browser import keys
from tokfmt.browser.data.answers import number_words, parse_number
from tokfmt.browser.data.facts import TokenFacts, facts_of
from tokfmt.browser.data.layout import Mode
from tokfmt.browser.data.pairing import (
    Comparison,
    Marks,
    Pair,
    Row,
    Sessions,
    common_view,
    marks_of,
    unit_of,
)
from tokfmt.browser.data.rows import Damage
from tokfmt.browser.data.session import Session
from tokfmt.browser.data.spots import Spot
from tokfmt.browser.tabs.base import Tab
from tokfmt.browser.widgets.loading import Leaping, Loader
from tokfmt.browser.widgets.pair import PairScreen, Part
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.copies import Copied


def verdict(comparison: Comparison | None, unit: str, waiting: str = "") -> list[Part]:
    """Return the line above both sides."""
    if comparison is None:
        return [(f"◌ {waiting or 'opening'}", "busy")]
    if comparison.state == "failed":
        return [(f"✗ {printable(comparison.failure)}", "bad")]
    parts = [_how_far(comparison)] if comparison.state != "done" else []
    if comparison.differing:
        parts.append((f"≠ {comparison.differing_words}", "bad"))
        if not comparison.exact:
            parts.append(("fewer may have moved", "dim"))
        parts.append((f"{comparison.alike:,} alike", "dim"))
    elif comparison.state == "done":
        parts.append((f"✓ identical: {counted(comparison.alike, unit)}", "good"))
    elif comparison.unlike_from is not None:
        parts.append((f"≠ different from {unit} {comparison.unlike_from:,} on", "bad"))
    elif comparison.alike:
        parts.append(("identical so far", "good"))
    return parts


def _how_far(comparison: Comparison) -> Part:
    share = comparison.job.share
    far = "" if share is None or comparison.job.name != "comparing" else f" {share:.0%}"
    if comparison.state == "walking":
        return f"◌ {comparison.job.name or 'opening'}{far} · esc stops", "busy"
    return f"stopped at{far or ' the start'}; n starts over", "busy"


def titles(pair: Pair, unit: str, lengths: Sequence[int | None], units: str) -> tuple[str, str]:
    """Return the titles of both sides: `A · document 17 · 1,116 tokens`."""
    out = []
    for name, row, length in zip("AB", (pair.a, pair.b), lengths, strict=True):
        many = "" if length is None or row is None else f" · {counted(length, units)}"
        out.append(f"{name} · {'none' if row is None else f'{unit} {row:,}'}{many}")
    return out[0], out[1]


def pair_words(pair: Pair, marks: Marks | Damage | None, facts: Sequence[object], unit: str, part: str) -> list[Part]:
    """Return the line below both sides.

    Args:
        pair: The rows.
        marks: Their differences; None while they are compared.
        facts: The facts about the tokens under both cursors.
        unit: The noun for a row.
        part: The noun for a unit of a row.
    """
    if pair.a is None or pair.b is None:
        if pair.a is None and pair.b is None:
            return [("no rows", "dim")]
        return [(_lone(pair, unit), "bad")]
    if marks is None:
        return [("◌ comparing this pair", "busy")]
    if isinstance(marks, Damage):
        return [(f"✗ {printable(marks.why)}", "bad")]
    parts: list[Part] = [("alike", "good")]
    if marks.hunks:
        far = "" if marks.known is None else f" up to {part} {marks.known[0]:,}; the rest is not compared"
        parts = [(f"differs in {counted(len(marks.hunks), 'place')}{far}", "bad")]
    return parts + _under(facts, part)


def _lone(pair: Pair, unit: str) -> str:
    """Return the words about a row that the other side lacks."""
    side, other, row = ("B", "A", pair.b) if pair.a is None else ("A", "B", pair.a)
    if pair.elsewhere is not None:
        return f"{unit} {row:,} of {side} is {pair.elsewhere:,} of {other}: moved"
    return f"{unit} {row:,} is only in {side}"


def _under(facts: Sequence[object], part: str) -> list[Part]:
    """Return the words about the tokens under both cursors."""
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


_UNLIKE = Damage("one holds text, the other token IDs. Add --tokenizer to compare them")


class CompareTab(Tab, PairScreen):
    """Compare the first two open datasets. `step` is the step of the pairing on the screen."""

    BINDINGS = keys.COMPARE

    sessions: Sessions | None = None
    comparison: Comparison | None = None
    step = 0
    pair = Pair(None, None, differs=False)
    _arrival = 0
    _wanted = False  # go to the next difference when it is found
    _viewed = False

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._copies, self._facts = Loader(self, every=True), Loader(self)

    # the datasets

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
            self.call_later(self.host.refresh_tabs)  # the other tabs may show another view now
        ports, old = tuple(one.port for one in sessions), self.comparison
        if not waiting and (old is None or old.ports != ports):
            self.begin(sessions)
        self.sessions = sessions
        self.see(self.step)
        self.say(waiting)

    def _view(self, sessions: Sessions, name: str) -> None:
        for session in sessions:
            session.shown = name or session.opened.views[0].name

    # actions

    def action_by(self, count: int) -> None:
        self.see(self.step + count)

    async def action_jump(self) -> None:
        from tokfmt.browser.dialogs import Question

        if self.sessions is None or self.comparison is None:
            return
        pairing, count, unit = self.comparison.pairing, self.sessions[0].port.count, unit_of(self.sessions)

        def to_row(answer: str) -> None:
            step = pairing.step_of(0, parse_number(answer, count, unit))
            self.host.go(Spot(tab=self.id or "", inside=(step, 0)))

        await Question(number_words(f"{unit} of A", count), to_row, ends=self.leader.pane.action_to).ask(self.app)

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - of any direction
        """Return whether an action would do something now (`keys.is_offered`)."""
        comparison, sessions = self.comparison, self.sessions
        if action == "stop":
            return self._wanted or (comparison is not None and comparison.walking)
        if action in ("difference", "differing"):
            return comparison is not None and (comparison.state != "done" or bool(comparison.differing))
        if action == "view":
            return sessions is not None and bool(common_view(sessions, sessions[0].shown))
        if action == "split":
            return sessions is not None and len({*sessions[0].splits} & {*sessions[1].splits}) > 1
        if action == "copy_difference":
            return isinstance(self.marks, Marks) and bool(self.marks.hunks)
        return sessions is not None

    def spot(self) -> tuple[int, int] | None:
        """Return the step and the token under the cursor."""
        return self.step, self.leader.pane.cursor

    def show_inside(self, inside: tuple[int, int]) -> None:
        """Show a pair."""
        self.see(*inside)

    @on(Leaping)
    def _leaping(self) -> None:
        self.host.leave()

    def action_view(self) -> None:
        name = common_view(self.sessions, self.sessions[0].shown) if self.sessions else ""
        if self.sessions and name:
            self._view(self.sessions, name)
            self.step = 0
            self.host.refresh_tabs()
        else:
            self.notify("Both datasets have only one view in common.")

    def action_split(self) -> None:
        """Show the next split that both datasets have."""
        if self.sessions is None:
            return
        a, b = self.sessions
        names = [name for name in a.splits if name in b.splits]
        if len(names) > 1:
            at = names.index(a.split) if a.split in names else -1
            self.host.show_split(names[(at + 1) % len(names)], (0, 1))
        else:
            self.notify("The datasets do not have two splits in common.")

    # copies

    def action_copy(self) -> None:
        """Copy the row of the side with the cursor, or its marked tokens: the text, or the IDs if these are shown."""
        from tokfmt.browser.data.copies import copied

        leader, sessions = self.leader, self.sessions
        number, row, part = leader.number, leader.row, leader.pane.marked
        if sessions is None or row is None:
            self.notify("There is no row to copy.")
            return
        ids = leader.pane.mode is Mode.IDS or leader.pane.token_style.decoder is None
        self._copy(lambda: copied(sessions[number], row, part, ids=ids), "AB"[number])

    def action_copy_difference(self) -> None:
        """Copy what both sides hold at the difference under the cursor, or at the next one."""
        from tokfmt.browser.data.copies import copied_difference

        pair, sessions, marks, leader = self.pair, self.sessions, self.marks, self.leader
        if sessions is None or pair.a is None or pair.b is None:
            self.notify("One side lacks this row. c copies it.")
        elif not isinstance(marks, Marks) or not marks.hunks:
            self.notify("These rows are alike." if isinstance(marks, Marks) else "The rows are not compared yet.")
        else:
            hunk, rows = marks.near(leader.number, leader.pane.cursor), (pair.a, pair.b)
            parts = hunk.side(0), hunk.side(1)
            name = f"difference {marks.hunks.index(hunk) + 1:,} of {len(marks.hunks):,}"
            self._copy(lambda: copied_difference(sessions, rows, parts), name)

    def _copy(self, work: Callable[[], Copied], name: str) -> None:
        """Copy what `work` reads, and say its name."""
        self._copies.ask(work, lambda found: self.host.copy(found.text, f"{name}: {found.description}"))

    # the comparison: its progress, and moves between differences

    @property
    def idle(self) -> bool:
        return self._copies.idle and self._facts.idle and (self.comparison is None or not self.comparison.walking)

    def refuse(self, sessions: Sessions, error: Exception) -> None:
        """Show the error of a dataset that cannot be read, in place of a comparison."""
        self._forget()
        self.sessions = None
        self.name_sides(sessions)
        for side in self.sides:
            side.border_title = "AB"[side.number]
            refused = sessions[side.number].refused
            side.show_nothing("cannot be read" if refused else "no dataset to compare with")
        self.tell("verdict", [(f"✗ {printable(' '.join(str(error).split()))}", "bad")])

    def _forget(self) -> None:
        if self.comparison is not None:
            self.comparison.stop()
        self.comparison = None

    def begin(self, sessions: Sessions) -> None:
        """Start the comparison."""
        self._forget()
        self.comparison = Comparison(sessions, lambda: self.call_later(self._walked, self.comparison))

    def say(self, waiting: str = "") -> None:
        """Show the line above both sides."""
        parts = verdict(self.comparison, unit_of(self.sessions), waiting) if self.sessions else []
        if not self.sessions and waiting:
            parts = [(f"◌ {waiting}", "busy")]
        if self._wanted:
            parts = [("◌ searching for the next difference · esc stops", "busy"), *parts]
        self.tell("verdict", parts)

    def _walked(self, source: Comparison | None) -> None:
        """Handle progress or the end of the comparison."""
        comparison = self.comparison
        if comparison is None or source not in (comparison, None):
            return
        if comparison.pairing.pair(self.step) != self.pair:  # the alignment changed the pair
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
        if not comparison.walking:
            self.refresh_bindings()
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
        self.refresh_bindings()
        self.say()

    def on_unmount(self) -> None:
        self._copies.close()
        self._facts.close()
        self._forget()

    # the pair on the screen

    def enter(self) -> None:
        self.leader.pane.focus()

    def see(self, step: int, unit: int = 0, arrival: int = 0) -> None:
        """Show a pair.

        Args:
            step: Step of the pairing; the nearest one if it does not exist.
            unit: Token for the cursor.
            arrival: 1 puts the cursor on the first difference, -1 on the last one.
        """
        if self.sessions is None:
            return
        if self.comparison is not None:
            self.step = max(0, min(step, self.comparison.pairing.total - 1))
            self.pair = self.comparison.pairing.pair(self.step)
        else:  # without a comparison, rows with equal numbers are pairs
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
        """Search for the differences of the pair in a worker."""
        pair, sessions, generation = self.pair, self.sessions, self.loader.generation
        if pair.a is None or pair.b is None or sessions is None:
            self._marked(Marks())
        elif sessions[0].port.unit != sessions[1].port.unit:
            self._marked(_UNLIKE)
        else:
            a, b = Row(sessions[0].port, pair.a), Row(sessions[1].port, pair.b)
            self.loader.ask(lambda: marks_of(a, b, lambda: self.loader.generation == generation), self._marked)

    def _marked(self, marks: Marks | Damage) -> None:
        self.mark(marks)
        leader = self.leader
        if self._arrival and isinstance(marks, Marks) and marks.hunks and not leader.absent:
            leader.arrive(marks.hunks[0 if self._arrival > 0 else -1].side(leader.number).start)
        self._arrival = 0
        self.follow()

    def follow(self) -> None:
        super().follow()
        self._tell()

    def _tell(self) -> None:
        if self.sessions is None:
            return
        a, b = self.sides
        lengths = a.length, b.length
        names = titles(self.pair, unit_of(self.sessions), lengths, self.sessions[0].port.unit)
        a.border_title, b.border_title = names
        self.name_sides(self.sessions)
        pair, marks, unit, part = self.pair, self.marks, unit_of(self.sessions), self.sessions[0].port.unit
        places = [
            (one.port, one.token_style, pair.row(side.number), side.pane.cursor)
            for side, one in zip((a, b), self.sessions, strict=True)
        ]

        def work() -> list[object]:
            return [None if row is None else facts_of(port, words, row, token) for port, words, row, token in places]

        self._facts.ask(work, lambda facts: self.tell("pairline", pair_words(pair, marks, facts, unit, part)))

    def name_sides(self, sessions: Sessions) -> None:
        """Show the dataset of each side below it."""
        for side, session in zip(self.sides, sessions, strict=True):
            split = f" · {printable(session.split)}" if session.split else ""
            side.border_subtitle = f"{printable(session.path.name)}{split} · {session.format_name or 'unknown format'}"
