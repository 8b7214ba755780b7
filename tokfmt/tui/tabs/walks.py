"""The walk of a comparison, as the tab sees it: how far it is, and from one difference to the next."""

from __future__ import annotations

from typing import cast

from textual import on
from textual.message import Message

from tokfmt.core.errors import printable
from tokfmt.tui.comparison import Comparison, Sessions, unit_of
from tokfmt.tui.overlays import Overlays
from tokfmt.tui.tabs.pairs import Pairs
from tokfmt.tui.verdict import verdict
from tokfmt.tui.widgets.says import Says


class Walks(Pairs):
    """Pairs that a walk finds."""

    class Walked(Message):
        """The walk has got further, or has ended."""

        def __init__(self, comparison: Comparison | None) -> None:
            super().__init__()
            self.comparison = comparison

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._wanted = False

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
        self.query_one("#verdict", Says).say([(f"✗ {printable(' '.join(str(error).split()))}", "bad")])

    def _forget(self) -> None:
        if self.comparison is not None:
            self.comparison.stop()
        self.comparison = None

    def begin(self, sessions: Sessions) -> None:
        """Walk through both, from the beginning."""
        self._forget()
        self.comparison = Comparison(sessions, lambda: self.post_message(self.Walked(self.comparison)))

    def say(self, waiting: str = "") -> None:
        """The line above both sides."""
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
            cast("Overlays", self.app).cancel()
        self.say()

    def on_unmount(self) -> None:
        self._forget()
