"""Find and filter: what is typed, what is running, where to go next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.finding import Finding
from tokfmt.tui.hits import Found
from tokfmt.tui.screens.question import Question
from tokfmt.tui.session import Session, Where
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.wanted import Ground, ground_of, meaning, wanted
from tokfmt.tui.widgets.findbar import FindBar, filter_words
from tokfmt.tui.widgets.reader import Reader
from tokfmt.tui.widgets.sequences import SequenceList
from tokfmt.tui.widgets.topbar import TopBar


class Searched(Message):
    """A search has something to say."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding


class Searching(Tab):
    """The part of a tab that finds; `list`, `reader`, `where` and `go` are the tab's.

    Attributes:
        finding: The search whose hits are marked. filtered: The one whose rows are listed. They may be the same.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", key_display="/"),
        Binding("full_stop,f3", "hit(1)", "Next hit", show=False),
        Binding("comma,shift+f3", "hit(-1)", "Previous hit", show=False),
        Binding("f", "filter", "Filter"),
        Binding("F", "unfilter", "No filter", show=False),
        Binding("escape", "escape", "Stop the search; no mark; no hits", show=False),
    ]
    finding: Finding | None = None
    filtered: Finding | None = None
    _origin: Where | None = None  # where the search began, until it has jumped
    _steps = 0  # to go, from where the cursor is
    _ground: Ground | None = None
    _later: Callable[[], None] | None = None  # begins what has to wait

    # what the tab has

    @property
    def list(self) -> SequenceList:
        raise NotImplementedError

    @property
    def reader(self) -> Reader:
        raise NotImplementedError

    @property
    def where(self) -> Where:
        """The row that is shown, and the token under the cursor."""
        raise NotImplementedError

    def ask_where(self, find: Callable[[], Where | None]) -> None:
        """Find a place on a worker, then go there."""
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        """No search runs."""
        return not any(one.busy for one in (self.finding, self.filtered) if one)

    # typing

    async def action_find(self) -> None:
        words = self.finding.words if self.finding else ""
        await self._ask_words("Find, from here on", words, self.find)

    async def action_filter(self) -> None:
        words = self.filtered.words if self.filtered else self.finding.words if self.finding else ""
        await self._ask_words(f"List only {self.session.view.name} with", words, self.filter)

    async def _ask_words(self, text: str, words: str, then: Callable[[str], None]) -> None:
        def check(answer: str) -> str:
            ground = ground_of(self.session)
            return meaning(wanted(answer, ground), ground.port.unit)

        def answered(answer: str | None) -> None:
            if answer:
                then(answer)

        await self.app.push_screen(Question(text, words, check), answered)

    def find(self, words: str) -> None:
        """Look for something from the cursor on, and go to the first hit."""
        begun = self._begun(words, self.where[0], self.find)
        if begun is not None:
            self._origin = self.where
            self._keep(begun, self.filtered)

    def filter(self, words: str) -> None:
        """List only the rows that a query finds; "" lists all again. Its hits are marked."""
        if not words.strip():
            self.action_unfilter()
            return
        begun = self._begun(words, 0, self.filter)
        if begun is not None:
            self._origin = None
            self._keep(begun if begun.marks else self.finding, begun)

    def _begun(self, words: str, row: int, again: Callable[[str], None]) -> Finding | None:
        """A search, begun; None when it cannot be, or not yet."""
        ground = ground_of(self.session)
        try:
            query = wanted(words, ground)
        except TokfmtError as error:
            self.notify(str(error), severity="error", markup=False)
            return None
        if not ground.whole:
            self._later = partial(again, words)
            self.notify(f"The {self.session.view.name} are still being counted: the search begins when that is done.")
            return None
        return Finding(words, query, ground, row, lambda one: self.post_message(Searched(one)))

    def _keep(self, finding: Finding | None, filtered: Finding | None) -> None:
        """These two are of interest now, and no others."""
        for one in (self.finding, self.filtered):
            if one is not None and one not in (finding, filtered):
                one.cancel()
        if filtered is not self.filtered:
            self.list.restrict(None if filtered is None else filtered.kept.rows())
        self.finding, self.filtered = finding, filtered
        self._mark()
        self._say()

    # what comes of it

    @on(Searched)
    def _searched(self, message: Searched) -> None:
        finding = message.finding
        if finding is self.filtered:
            self._list_found(finding)
        if finding is self.finding and self._origin is not None:
            self._jump_first(finding, self._origin)
        if finding in (self.finding, self.filtered):
            self._mark()
            self._say()

    def _list_found(self, filtered: Finding) -> None:
        rows, (row, _) = filtered.kept.rows(), self.where
        self.list.restrict(rows)
        self.list.point_at(row)
        if len(rows) and not filtered.kept.has(row) and (row < int(rows[-1]) or not filtered.running):
            self.list.choose(self.list.cursor)

    def _jump_first(self, finding: Finding, origin: Where) -> None:
        if self.where != origin or (not finding.running and not finding.kept.hits):
            self._origin = None  # somebody has moved on, or there is nothing
            return

        def first() -> Where | None:
            found = finding.first(origin)
            if found is None or (found.wrapped and finding.running and not finding.kept.round):
                return None
            self._origin = None
            return self._arrived(finding, found)

        if finding.kept.hits:
            self.ask_where(first)

    def action_hit(self, step: int) -> None:
        """Go to the next hit."""
        finding = self.finding
        if finding is None or not finding.kept.hits:
            self.notify("Nothing was found yet." if finding else "/ finds something first.")
            return
        self._steps += step
        steps, where, self._origin = self._steps, self.where, None

        def stepped() -> Where | None:
            found: Found | None = None
            place = (where[0], finding.at(where, end=steps > 0))
            for _ in range(abs(steps)):
                found = self._next(finding, place, 1 if steps > 0 else -1)
                if found is None:
                    return None
                place = (found.row, found.start)
            return None if found is None else self._arrived(finding, found)

        self.ask_where(stepped)

    def _next(self, finding: Finding, place: Where, step: int) -> Found | None:
        """The next hit that is listed."""
        filtered = self.filtered
        for _ in range(finding.kept.held):
            found = finding.kept.following(*place, step)
            if found is None or filtered in (None, finding) or filtered.kept.has(found.row):
                return found
            place = (found.row, found.start)
        return None

    def _arrived(self, finding: Finding, found: Found) -> Where:
        """Where a hit is. On the worker; what is said of it waits in the bar."""
        bar = self.query_one(FindBar)
        bar.number, bar.wrapped = found.number, found.wrapped
        return finding.where(found)

    @on(Reader.Moved)
    def _mark_moved(self) -> None:
        self._steps = 0
        self._mark()
        self._say()

    def _mark(self) -> None:
        """Mark the hits on the screen."""
        self.query_one(FindBar).mark(self.reader, self.finding)

    def _say(self) -> None:
        self.list.hits = self.finding.kept if self.finding else None
        self.list.refresh()
        self.query_one(FindBar).say(self.finding or (None if self.idle else self.filtered))
        self.screen.query_one(TopBar).say_filter(filter_words(self.filtered) if self.filtered else "")

    def titled(self, count: str) -> str:
        """Over the list: how many of them it shows."""
        return count if self.filtered is None else f"{self.list.count:,} of {count}"

    # ending

    def action_unfilter(self) -> None:
        self._keep(self.finding, None)

    def action_escape(self) -> None:
        """Stop what runs; with nothing running, take back the mark, then forget the hits."""
        if not self.idle:
            for one in (self.finding, self.filtered):
                if one is not None:
                    one.cancel()
            self._say()
        elif self.reader.mark_from is not None:
            self.reader.action_mark_from()
        elif self.finding is not None:
            self._keep(None, self.filtered)
        else:
            self.app.action_cancel()  # type: ignore[attr-defined]

    def search_again(self, session: Session, *, other: bool) -> None:
        """Something else is shown: what was looked for is looked for there, unless that is another dataset."""
        ground, before, later = ground_of(session), self._ground, self._later
        self._ground = ground
        if other or ground != before:
            finding, filtered = self.finding, self.filtered
            self._keep(None, None)
            if not other and filtered is not None:
                self.filter(filtered.words)
            if not other and finding not in (None, filtered):
                self.find(finding.words)
            self._origin = None
        if later is not None and (other or ground.whole):
            self._later = None
            if not other:
                later()

    def on_unmount(self) -> None:
        for one in (self.finding, self.filtered):
            if one is not None:
                one.cancel()
