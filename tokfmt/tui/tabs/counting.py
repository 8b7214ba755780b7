"""What is counted: a first look at once, then a pass over everything, begun by itself or by somebody."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.ops.stats import Statistics
from tokfmt.tui.figures import first_look, is_outdated, is_settled, starts_alone, whole_pass
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.working import Working


class Counting(Working):
    """The part of a tab that counts; `show_figures` is the tab's.

    Attributes:
        failure: Why nothing could be counted; "" when nothing went wrong.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "all", "Count every token")]
    failure = ""
    _glance: Statistics | None = None
    _called_off = False

    def show_figures(self) -> None:
        """Show what is known."""
        raise NotImplementedError

    @property
    def found(self) -> Statistics | None:
        """What is known: of the whole pass, or of the index."""
        return self.session.statistics or self._glance

    def count(self, session: Session, *, other: bool) -> None:
        """Count a dataset: another one, or the same after something of it was loaded."""
        self.session = session
        if is_outdated(session):
            session.statistics = None
        if other:
            self.stop()
            self._glance, self._called_off, self.failure = None, False, ""
            self.show_figures()
            self.ask(lambda: _glanced(session), self._glanced)
        else:
            self.show_figures()
            self._start()

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self.failure = found
        else:
            self._glance = found
        self.show_figures()
        self._start()

    def _start(self) -> None:
        """Begin the pass, if nothing speaks against it."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self.failure
        if not done and is_settled(session) and starts_alone(session):
            self.action_all()
        self.say()

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Statistics):
            self.session.statistics = outcome
        else:
            self.failure = str(outcome)
        self.show_figures()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is counted need not be counted."""
        done = hasattr(self, "session") and (self.session.statistics is not None or self.job is not None)
        return not done if action == "all" else super().check_action(action, parameters)

    def action_all(self) -> None:
        session = self.session
        self._called_off, self.failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    def say(self) -> None:
        """How far the pass is."""
        told, place = self._told(), self.query_one("#counting", Static)
        place.update(told)
        place.display = bool(told)
        self.refresh_bindings()

    def _told(self) -> str:
        if self.job is not None:
            return self.doing("counting")
        if self.failure:
            return f"✗ {printable(self.failure)}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waits for the tokenizer"
        known = "known from the index" if self._glance else "nothing is counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)
