"""The tab of the overview: facts, lengths, IDs and groups, first from the index, then from a pass over all tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.lines import FactLines, LengthLines
from tokfmt.browser.data.overview import (
    first_look,
    groups_of,
    is_outdated,
    is_settled,
    known_facts,
    rankings_of,
    row_name,
    starts_alone,
    whole_pass,
)
from tokfmt.browser.data.packing import FillLines, Fills, fills_of
from tokfmt.browser.data.session import Counted, Session
from tokfmt.browser.data.spots import Spot
from tokfmt.browser.keys import pressing
from tokfmt.browser.tabs.base import Working
from tokfmt.browser.widgets.table import Table, TokenTable
from tokfmt.browser.work import Loader
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.browser.data.types import Statistics

WIDE = 110
"""Width in columns from which the facts have a column of their own."""


class StatisticsTab(Working):
    """Facts with the verdict of the check, and lists of lengths, tokens and groups of equal rows."""

    BINDINGS = keys.OVERVIEW
    _glance: Statistics | None = None
    _as_stored = False
    _called_off = False
    _goes_on = False  # the check of all tokens follows the count
    _last: Widget | None = None  # the list that had the focus

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._filled = Loader(self)

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with Container(id="figures"):
            yield Table("facts")
            yield Table("lengths", "lengths")
            yield TokenTable("tokens")
            yield Table("groups")

    def show(self, session: Session) -> None:
        as_stored = session.view.as_stored
        other = not hasattr(self, "session") or session is not self.session or as_stored != self._as_stored
        self.session, self._as_stored = session, as_stored
        if is_outdated(session):
            session.keep_statistics(None)
        if other:
            self.stop()
            self._glance, self._called_off, self.failure = None, False, ""
            self.show_figures()
            self.loader.ask(lambda: first_look(session), self._glanced)
        else:
            self.show_figures()
            self._start()

    def enter(self) -> None:
        last = self._last if self._last is not None and self._last.display else self.query_one("#lengths", Table)
        last.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self.display:  # else the focus only leaves the tab
            self._last = event.widget

    # the figures

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "a counts every token" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        facts = known_facts(found, session)
        self.query_one("#facts", Table).show(FactLines(facts))
        self._show_lengths(found, counting)
        of_text = found is not None and found.text is not None
        self.query_one(TokenTable).offer(rankings_of(session.statistics, session.lists, session), counting)
        self.query_one(TokenTable).display = not of_text
        self.set_class(of_text, "of-text")
        groups, shown = groups_of(session.statistics, session.lists, session), self.query_one("#groups", Table)
        shown.show(groups, counting)
        shown.display = groups is not None or (session.statistics is None and shown.display)  # or the focus would leave
        self.set_class(not shown.display, "alone")

    def _show_lengths(self, found: Statistics | None, counting: str) -> None:
        """Show the lengths of rows, or how full samples are if all of them have the same length."""
        table, session = self.query_one("#lengths", Table), self.session
        lengths, room = None if found is None else found.lengths, max(4, table.size.height)
        lines = None if lengths is None else LengthLines(lengths, row_name(session), room)
        if lines is not None and lines.count < 2 and session.view.name == "samples":
            self._filled.ask(lambda: fills_of(session), self._show_fills)
            if isinstance(table.lines, FillLines):
                return
        table.show(lines, counting, lambda: 0 if lines is None else lines.fullest)

    def _show_fills(self, fills: Fills | None) -> None:
        """Show how full samples are in place of their lengths, which are all the same."""
        table = self.query_one("#lengths", Table)
        if fills is not None and not isinstance(table.lines, FillLines):
            lines = FillLines(fills, 10)
            table.show(lines, first=lambda: lines.fullest)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        if hasattr(self, "session"):
            self.call_after_refresh(self.show_figures)  # as many intervals as fit

    # what leads on

    @on(Table.Chosen)
    async def _chosen(self, message: Table.Chosen) -> None:
        table = message.table
        if not isinstance(table, Table):
            return
        lines = table.lines
        if isinstance(lines, FactLines):
            action = lines.facts[table.chosen[0]].action
            if action:
                await self.run_action(action)
        elif lines is not None and (words := lines.query(table.chosen)):
            self.host.go(Spot(words=words))

    def action_place(self, tab: str) -> None:
        """Go to another tab; the way back leads here."""
        self.host.go(Spot(tab=tab))

    def action_ranking(self, name: str) -> None:
        """Go to a ranking of IDs."""
        table = self.query_one(TokenTable)
        table.turn_to(name)
        table.focus()

    def action_focus_groups(self) -> None:
        self.query_one("#groups").focus()

    def action_zoom(self) -> None:
        """Let the list with the focus fill the screen; Escape shows all again."""
        if isinstance(self.app.focused, Table):
            self.screen.maximize(self.app.focused, container=False)

    async def action_export(self) -> None:
        """Ask for a file, and write the list with the focus."""
        focused = self.app.focused
        if not isinstance(focused, Table):
            return
        name = f"{Path(self.session.path.name).stem}-{focused.id}"
        await self.host.export_lines(focused.records(), str(focused.border_title or "the facts"), name)

    # the count

    @property
    def found(self) -> Statistics | None:
        """Return the statistics of the pass, or of the index."""
        return self.session.statistics or self._glance

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self.failure = found
        else:
            self._glance = found
        self.show_figures()
        self._start()

    def _start(self) -> None:
        """Start the pass if it is short, not done and not stopped."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self.failure
        if not done and is_settled(session) and starts_alone(session):
            self._count()
        self.say()

    def judged(self) -> None:
        self.query_one("#facts", Table).show(FactLines(known_facts(self.found, self.session)))
        self.say()

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Counted):
            self.session.keep_statistics(outcome)
        else:
            self.failure = str(outcome)
        self.show_figures()
        self.call_after_refresh(self.show_figures)  # the line of the progress is gone
        if self._goes_on and not self.failure:
            self._goes_on = False
            self.check(deep=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a finished count or check is not repeated."""
        if action != "all" or not hasattr(self, "session"):
            return action != "all" and super().check_action(action, parameters)
        verdict = self.session.verdict
        return self.job is None and (self.session.statistics is None or verdict is None or not verdict.deep)

    def _count(self) -> None:
        session = self.session
        self._called_off, self.failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def action_all(self) -> None:
        """Count every token, if that is not done, and check all of them."""
        self._goes_on = self.session.statistics is None
        if self._goes_on:
            self._count()
        else:
            self.check(deep=True)

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    def say(self) -> None:
        """Show the progress of the pass."""
        words, place = self._progress_words(), self.query_one("#counting", Static)
        place.update(pressing(words))
        place.display = bool(words)
        self.refresh_bindings()

    def _progress_words(self) -> str:
        if self.job is not None:
            return self.doing("checking" if self.session.statistics is not None else "counting")
        if self.failure:
            return f"✗ {printable(self.failure.removeprefix('✗ '))}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waiting for the tokenizer"
        if starts_alone(self.session) and not self._called_off:
            return "◌ counting"
        known = "known from the index" if self._glance else "not counted yet"
        return f"{known}; a counts every token" + (" (stopped)" if self._called_off else "")
