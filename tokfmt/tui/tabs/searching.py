"""Find and filter: what is typed, what is running, where to go next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.ground import Ground, ground_of
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.seeking import Seeking
from tokfmt.tui.widgets.findbar import FindBar, filter_words
from tokfmt.tui.widgets.reader import Reader
from tokfmt.tui.widgets.topbar import TopBar

if TYPE_CHECKING:  # what searches is loaded by the first search
    from tokfmt.tui.finding import Finding


class Searched(Message):
    """A search has something to say."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding


class Searching(Seeking):
    """The part of a tab that finds; `list`, `reader`, `where` and `go` are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", key_display="/"),
        *Seeking.BINDINGS,
        Binding("f", "filter", "Filter"),
        Binding("F", "unfilter", "No filter", show=False),
        Binding("escape", "escape", "Stop the search; no mark; no hits", show=False),
    ]
    _ground: Ground | None = None
    _later: Callable[[], None] | None = None  # begins what has to wait

    # typing

    async def action_find(self) -> None:
        words = self.finding.words if self.finding else ""
        await self._ask_words("Find, from here on", words, self.find)

    async def action_filter(self) -> None:
        words = self.filtered.words if self.filtered else self.finding.words if self.finding else ""
        await self._ask_words(f"List only {self.session.view.name} with", words, self.filter)

    async def _ask_words(self, text: str, words: str, then: Callable[[str], None]) -> None:
        from tokfmt.tui.screens.question import Question
        from tokfmt.tui.wanted import meaning, wanted

        def check(answer: str) -> str:
            ground = ground_of(self.session)
            return meaning(wanted(answer, ground), ground.port.unit)

        def answered(answer: str | None) -> None:
            if answer:
                then(answer)

        await self.app.push_screen(Question(text, words, check), answered)

    def find(self, words: str) -> None:
        """Look for something from the cursor on, and go to the first hit."""
        here = self.where if self.reader.port is self.session.port else (0, 0)
        begun = self._begun(words, here[0], self.find)
        if begun is not None:
            self.origin = here
            self._keep(begun, self.filtered)

    def filter(self, words: str) -> None:
        """List only the rows that a query finds; "" lists all again. Its hits are marked."""
        if not words.strip():
            self.action_unfilter()
            return
        begun = self._begun(words, 0, self.filter)
        if begun is not None:
            self.origin = None
            self._keep(begun if begun.marks else self.finding, begun)

    def _begun(self, words: str, row: int, again: Callable[[str], None]) -> Finding | None:
        """A search, begun; None when it cannot be, or not yet."""
        from tokfmt.tui.finding import Finding
        from tokfmt.tui.wanted import wanted

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
        changed, self.finding, self.filtered = filtered is not self.filtered, finding, filtered
        if changed:
            self.relist()
        self._say()
        self._mark()

    # what comes of it

    @on(Searched)
    def _searched(self, message: Searched) -> None:
        finding = message.finding
        if finding is self.filtered:
            self._list_found(finding)
        if finding is self.finding and self.origin is not None:
            self.jump_first(finding, self.origin)
        if finding in (self.finding, self.filtered):
            self._mark()
            self._say()

    def relist(self) -> None:
        """List what the filter has found, once the rows that it filters are listed at all."""
        filtered = self.filtered
        if filtered is None or filtered.ground.port is self.list.port:
            self.list.restrict(None if filtered is None else filtered.kept.rows())

    def _list_found(self, filtered: Finding) -> None:
        if self.list.port is not filtered.ground.port or self.reader.port is not self.list.port:
            return  # another view is about to be shown
        rows, (row, _) = filtered.kept.rows(), self.where
        self.relist()
        self.list.point_at(row)
        if len(rows) and not filtered.kept.has(row) and (row < int(rows[-1]) or not filtered.running):
            self.list.choose(self.list.cursor)

    @on(Reader.Moved)
    def _mark_moved(self) -> None:
        self.steps = 0
        self._mark()
        self._say()

    def _mark(self) -> None:
        """Mark the hits on the screen."""
        for bar in self.query(FindBar):
            bar.mark(self.reader, self.finding)

    def _say(self) -> None:
        self.list.hits = self.finding.kept if self.finding else None
        self.list.refresh()
        told = self.finding or (self.filtered if self.searches else None)
        if told is not None and not self.query(FindBar):
            self.mount(FindBar())
        for bar in self.query(FindBar):
            bar.say(told)
        self.screen.query_one(TopBar).say_filter(filter_words(self.filtered) if self.filtered else "")

    def titled(self, count: str) -> str:
        """Over the list: how many of them it shows."""
        return count if self.filtered is None else f"{self.list.count:,} of {count}"

    # ending

    def action_unfilter(self) -> None:
        self._keep(self.finding, None)

    def action_escape(self) -> None:
        """Stop what runs; with nothing running, take back the mark, then forget the hits."""
        if self.searches:
            for one in (self.finding, self.filtered):
                if one is not None:
                    one.cancel()
            self._say()
        elif self.reader.mark_from is not None:
            self.reader.toggle_mark()
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
            self.origin = None
        if later is not None and (other or ground.whole):
            self._later = None
            if not other:
                later()

    def on_unmount(self) -> None:
        for one in (self.finding, self.filtered):
            if one is not None:
                one.cancel()
