"""Two datasets side by side, in step: what differs is marked, and the next difference is a key away."""

from __future__ import annotations

from typing import ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message

from tokfmt.core.errors import TokfmtError
from tokfmt.core.options import parse_count
from tokfmt.tui.comparison import Comparison, Sessions, common_view, unit_of
from tokfmt.tui.layout import Mode
from tokfmt.tui.overlays import Overlays
from tokfmt.tui.screens.question import Question
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.pairs import Pairs
from tokfmt.tui.verdict import verdict
from tokfmt.tui.widgets.pairline import PairLine
from tokfmt.tui.widgets.says import Says
from tokfmt.tui.widgets.side import Side

WIDE = 110
"""Columns from which on both stand side by side."""


class CompareTab(Pairs):
    """Shows the first two datasets that are open."""

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
        Binding("w", "toggle('whitespace')", "Whitespace", show=False),
        Binding("l", "toggle('wrap')", "Wrap lines", show=False),
        Binding("s", "stack", "Side by side or stacked", show=False),
        Binding("escape", "stop", "Stop comparing", show=False),
    ]

    class Walked(Message):
        """The walk has got further, or has ended."""

        def __init__(self, comparison: Comparison | None) -> None:
            super().__init__()
            self.comparison = comparison

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._viewed = self._wanted = False
        self._stacked: bool | None = None

    def compose(self) -> ComposeResult:
        yield Says("verdict")
        with Container(id="sides"):
            yield Side(0)
            yield Side(1)
        yield PairLine("pairline")

    # what is compared

    def show(self, session: Session) -> None:
        self.session = session
        app = cast("Overlays", self.app)
        sessions = app.pair()
        if sessions is None:
            return
        waiting = app.pair_waits()
        if not waiting and not self._viewed:
            self._viewed = True
            self._view(sessions, common_view(sessions))
        ports, old = tuple(one.port for one in sessions), self.comparison
        if not waiting and (old is None or old.ports != ports):
            self._begin(sessions)
        self.sessions = sessions
        self.go(self.step)
        self._say(waiting)

    def _view(self, sessions: Sessions, name: str) -> None:
        for session in sessions:
            session.shown = name or session.opened.views[0].name

    def _begin(self, sessions: Sessions) -> None:
        """Walk through both, from the beginning."""
        if self.comparison is not None:
            self.comparison.stop()
        self.comparison = None
        self.comparison = Comparison(sessions, lambda: self.post_message(self.Walked(self.comparison)))

    def _say(self, waiting: str = "") -> None:
        parts = verdict(self.comparison, unit_of(self.sessions), waiting) if self.sessions else []
        if self._wanted:
            parts = [("◌ looking for the next difference · esc stops", "busy"), *parts]
        self.query_one("#verdict", Says).say(parts)

    @on(Walked)
    def _walked(self, message: Walked) -> None:
        comparison = self.comparison
        if comparison is None or message.comparison not in (comparison, None):
            return
        if comparison.pairing.pair(self.step) != self.pair:  # what was taken to be in step is not
            row = self.pair.row(self.leader.number)
            step = self.step if row is None else comparison.pairing.step_of(self.leader.number, row)
            self.go(step, self.leader.pane.cursor)
        if self._wanted:
            found = comparison.pairing.following(self.step)
            self._wanted = found is None and comparison.walking
            if found is not None:
                self.go(found, arrival=1)
            elif not comparison.walking:
                self.notify("There are no more differences.")
        self._say()

    # doing

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
            self.go(found, arrival=direction)
        elif direction > 0 and comparison.state in ("walking", "stopped"):
            self._wanted = True
            if not comparison.walking and self.sessions:
                self._begin(self.sessions)
            self._say()
        else:
            self.notify(f"There are no {'more' if direction > 0 else 'earlier'} differences.")

    def action_by(self, count: int) -> None:
        self.go(self.step + count)

    async def action_jump(self) -> None:
        if self.sessions is None or self.comparison is None:
            return
        pairing, count = self.comparison.pairing, self.sessions[0].port.count

        def answered(answer: str | None) -> None:
            try:
                row = parse_count(answer) if answer else -1
            except TokfmtError as error:
                self.notify(str(error), severity="error", markup=False)
                return
            if answer and 0 <= row < count:
                self.go(pairing.step_of(0, row))
            elif answer:
                self.notify(f"There are {count:,}: 0 to {count - 1:,}", severity="error")

        await self.app.push_screen(Question(f"{unit_of(self.sessions)} of A, 0 to {count - 1:,}"), answered)

    def action_mode(self) -> None:
        modes = list(Mode)
        mode = modes[(modes.index(self.leader.pane.mode) + 1) % len(modes)]
        for side in self.sides:
            side.pane.mode = mode

    def action_toggle(self, what: str) -> None:
        value = not getattr(self.leader.pane, what)
        for side in self.sides:
            setattr(side.pane, what, value)

    def action_view(self) -> None:
        name = common_view(self.sessions, self.sessions[0].shown) if self.sessions else ""
        if self.sessions and name:
            self._view(self.sessions, name)
            self.step = 0
            cast("Overlays", self.app).refresh_tabs()
        else:
            self.notify("There is only one view that both have.")

    def action_stack(self) -> None:
        self._stacked = not self.has_class("stacked")
        self.set_class(self._stacked, "stacked")

    def on_resize(self) -> None:
        self.set_class(self.size.width < WIDE if self._stacked is None else self._stacked, "stacked")

    def action_stop(self) -> None:
        if self._wanted:
            self._wanted = False
        elif self.comparison is None or not self.comparison.stop():
            cast("Overlays", self.app).cancel()
        self._say()

    def on_unmount(self) -> None:
        if self.comparison is not None:
            self.comparison.stop()
