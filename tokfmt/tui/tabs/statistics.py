"""What is in the dataset: counts, lengths, ids; at once what its index tells, then what a pass over all of it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ItemGrid, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.ops.stats import Statistics
from tokfmt.tui.figures import first_look, is_outdated, is_settled, pairs_of, rankings_of, starts_alone, whole_pass
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.working import Working
from tokfmt.tui.widgets.bars import Bars
from tokfmt.tui.widgets.curve import Curve
from tokfmt.tui.widgets.ranking import Ranking

WIDE = 110
"""Columns from which the charts stand side by side."""


class StatisticsTab(Working):
    """Facts, charts, rankings; scrolls where they do not fit."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "all", "Count every token")]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._glance: Statistics | None = None
        self._called_off, self._failure = False, ""
        self._filled: dict[str, Sequence[tuple[Any, Any]]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with VerticalScroll(id="figures", can_focus=False):
            yield ItemGrid(id="pairs", min_column_width=34)
            with Container(id="charts"):
                yield Bars()
                yield Curve()
            yield ItemGrid(id="rankings", min_column_width=50)

    @property
    def found(self) -> Statistics | None:
        """What is known: of the whole pass, or of the index."""
        return self.session.statistics or self._glance

    def show(self, session: Session) -> None:
        other = not hasattr(self, "session") or session is not self.session
        self.session = session
        if is_outdated(session):
            session.statistics = None
        if other:
            self.stop()
            self._glance, self._called_off, self._failure = None, False, ""
            self._show()
            self.ask(lambda: _glanced(session), self._glanced)
        else:
            self._show()
            self._start()

    def enter(self) -> None:
        self.query_one(Bars).focus()

    # counting

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self._failure = found
        else:
            self._glance = found
        self._show()
        self._start()

    def _start(self) -> None:
        """Begin the pass, if nothing speaks against it."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self._failure
        if not done and is_settled(session) and starts_alone(session):
            self._count()
        self.say()

    def _count(self) -> None:
        session = self.session
        self._called_off, self._failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Statistics):
            self.session.statistics = outcome
        else:
            self._failure = str(outcome)
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is counted need not be counted."""
        done = hasattr(self, "session") and (self.session.statistics is not None or self.job is not None)
        return not done if action == "all" else super().check_action(action, parameters)

    def action_all(self) -> None:
        self._count()

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    # showing

    def say(self) -> None:
        """How far the pass is."""
        told, place = self._told(), self.query_one("#counting", Static)
        place.update(told)
        place.display = bool(told)
        self.refresh_bindings()

    def _told(self) -> str:
        if self.job is not None:
            return self.doing("counting")
        if self._failure:
            return f"✗ {printable(self._failure)}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waits for the tokenizer"
        known = "known from the index" if self._glance else "nothing is counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")

    def _show(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        lengths = None if found is None else found.lengths
        self.query_one(Bars).show(lengths, counting)
        ids = None if found is None else found.ids
        told = "text has no ids without --tokenizer" if found is not None and found.text else counting
        self.query_one(Curve).show(None if ids is None else ids.frequencies, told)
        pairs = [] if found is None else pairs_of(found, session)
        self._fill("#pairs", pairs, lambda name, text: Static(Content.assemble((f"{name}  ", "$foreground 55%"), text)))
        lists = [] if found is None else rankings_of(found, session)
        self._fill("#rankings", lists, Ranking)

    def _fill(self, place: str, content: Sequence[tuple[Any, Any]], make: Callable[[Any, Any], Static]) -> None:
        """Put a widget for each pair into a grid, unless these are there."""
        grid = self.query_one(place)
        if self._filled.get(place, []) == content:
            return
        self._filled[place] = content
        with self.app.batch_update():
            grid.remove_children()
            grid.mount_all(make(*pair) for pair in content)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    @on(Bars.Chosen)
    def _chosen(self, message: Bars.Chosen) -> None:
        self.app.filter(f"{message.low}<=len<{message.high}")  # type: ignore[attr-defined]


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)
