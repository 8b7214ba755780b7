"""A tab that does long work: begun, watched, called off."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from tokfmt.tui.jobs import Job
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.widgets.desked import Desked, Fetched


class Working(Tab, Desked):
    """One long piece of work at a time; a new one replaces the old one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stop", "Stop", show=False)]

    def begin(self, work: Callable[[Job], object], then: Callable[[object], object]) -> None:
        """Do work; `then` is called here with its result or error, unless it was stopped."""
        self.stop()
        generation = self.generation

        def finished(outcome: object) -> None:
            self.post_message(Fetched(generation, lambda: self._ended(outcome, then)))

        self.job = Job(work, finished, lambda: self.post_message(Fetched(generation, self.say)))
        self.say()

    def _ended(self, outcome: object, then: Callable[[object], object]) -> None:
        self.job = None
        then(outcome)

    def stop(self) -> None:
        """Call off what is being done."""
        self.generation += 1
        if self.job is not None:
            self.job.cancel()
            self.job = None

    def say(self) -> None:
        """Show how far the work is."""

    def doing(self, what: str) -> str:
        """How far the work is, in words."""
        share = self.job.share if self.job else None
        name = (self.job.name if self.job else "") or what
        return f"◌ {name} …  esc stops" if share is None else f"◌ {name} {share:.1%}  esc stops"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape is the app's when nothing is done here."""
        return self.job is not None if action == "stop" else super().check_action(action, parameters)

    def action_stop(self) -> None:
        self.stop()
        self.say()

    def on_unmount(self) -> None:
        self.stop()
