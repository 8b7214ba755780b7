"""Two datasets side by side, in step: what differs is marked, and the next difference is a key away."""

from __future__ import annotations

from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from tokfmt.core.errors import TokfmtError
from tokfmt.core.options import parse_count
from tokfmt.tui.comparison import Sessions, common_view, unit_of
from tokfmt.tui.layout import Mode
from tokfmt.tui.overlays import Overlays
from tokfmt.tui.screens.question import Question
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.walks import Walks
from tokfmt.tui.widgets.pairline import PairLine
from tokfmt.tui.widgets.says import Says
from tokfmt.tui.widgets.side import Side

WIDE = 110
"""Columns from which on both stand side by side."""


class CompareTab(Walks):
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
        Binding("V", "split", "Split of both", show=False),
        Binding("w", "toggle_both('whitespace')", "Whitespace", show=False),
        Binding("l", "toggle_both('wrap')", "Wrap lines", show=False),
        Binding("s", "stack", "Side by side or stacked", show=False),
        Binding("escape", "stop", "Stop comparing", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._viewed = False
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
        refused = next((one.refused for one in sessions if one.refused is not None), None)
        if refused is not None:
            self.refuse(sessions, refused)
            return
        waiting = app.pair_waits()
        if not waiting and not self._viewed:
            self._viewed = True
            self._view(sessions, common_view(sessions))
        ports, old = tuple(one.port for one in sessions), self.comparison
        if not waiting and (old is None or old.ports != ports):
            self.begin(sessions)
        self.sessions = sessions
        self.see(self.step)
        self.say(waiting)
        self.post_message(self.Seen())

    def _view(self, sessions: Sessions, name: str) -> None:
        for session in sessions:
            session.shown = name or session.opened.views[0].name

    # doing

    def action_by(self, count: int) -> None:
        self.see(self.step + count)

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
                self.see(pairing.step_of(0, row))
            elif answer:
                self.notify(f"There are {count:,}: 0 to {count - 1:,}", severity="error")

        await self.app.push_screen(Question(f"{unit_of(self.sessions)} of A, 0 to {count - 1:,}"), answered)

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
            cast("Overlays", self.app).refresh_tabs()
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
            cast("Overlays", self.app).show_split(names[(at + 1) % len(names)], (0, 1))
        else:
            self.notify("There are no two splits that both have.")

    def action_stack(self) -> None:
        self._stacked = not self.has_class("stacked")
        self.set_class(self._stacked, "stacked")

    def on_resize(self) -> None:
        self.set_class(self.size.width < WIDE if self._stacked is None else self._stacked, "stacked")
