"""The tab of sequences: the list of rows, the reader next to it, and the facts about a token below.

It also has find and filter, jumps, copies and exports.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from textual import events, getters, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from tokfmt.browser import keys
from tokfmt.browser.data.answers import byte_finder, number_words, parse_number, row_of
from tokfmt.browser.data.batch import batch_size_of, planned_of, samples_view
from tokfmt.browser.data.facts import Frequencies, TokenFacts, byte_offset_of_unit, facts_of, frequencies_of
from tokfmt.browser.data.layout import Mode, TokenStyle
from tokfmt.browser.data.opening import UNKNOWN, samples_of
from tokfmt.browser.data.parts import Target, next_odd, target_of
from tokfmt.browser.data.prompts import ODD
from tokfmt.browser.data.rows import Damage, Piece, RowSource, View, fetched
from tokfmt.browser.data.session import SearchScope, Session, Where, carried, has_parts, located, search_scope
from tokfmt.browser.data.spots import ByteSpot, Spot, command_of, parse_spot
from tokfmt.browser.data.state import Queries
from tokfmt.browser.data.types import ByteOffset, SourceRequest
from tokfmt.browser.tabs.base import Tab
from tokfmt.browser.tabs.list_order import ListOrder
from tokfmt.browser.tabs.titles import layout_words, list_title, row_title, shares_words
from tokfmt.browser.widgets.frame import Divider, FindBar, Refusal, TopBar, filter_words
from tokfmt.browser.widgets.packing import PackingHead
from tokfmt.browser.widgets.reader import Reader, TokenDetails
from tokfmt.browser.widgets.sequence_list import SequenceList
from tokfmt.browser.widgets.strip import PackingStrip
from tokfmt.browser.widgets.virtual_table import VirtualTable
from tokfmt.browser.work import Loader
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.wording import counted

if TYPE_CHECKING:
    from tokfmt.browser.data.copies import Copied
    from tokfmt.browser.data.search import Found, SearchJob


NARROWEST, WIDEST = 20, 80  # per cent
_MARKED = 32  # tokens of a query


class SequencesTab(Tab):
    """List, reader and facts. Moves to hits have their own loader, which does all requests in order."""

    BINDINGS = keys.DATA
    share = 40
    list = getters.query_one(SequenceList)
    """The list of rows."""
    reader = getters.query_one(Reader)
    """The reader."""
    strip = getters.query_one(PackingStrip)
    """The parts of the row in the reader."""
    origin: Where | None = None  # the position where the search began, until the move to its first hit
    _from: Where = (0, 0)  # where the search for the first hit begins
    _left: Where | None = None  # where the cursor was before the list was filtered, until it goes to its first row
    _aim: int | None = None  # the row that the cursor is on its way to
    port: RowSource
    token_style: TokenStyle
    _view: View | None = None
    scope: SearchScope
    _facts: TokenFacts | Damage | None = None
    _later: Callable[[], None] | None = None  # starts a search that waits for a count
    search: SearchJob | None = None  # the search whose hits are marked
    filtered: SearchJob | None = None  # the search whose rows are listed; it can be the same
    _queries: Queries | None = None
    _behind: Where | None = None  # the place of the reader before it was cleared, as the filter found nothing

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._answers: list[str] = []  # to the question of `g`
        self._jumps, self._known = Loader(self, every=True), Loader(self, every=True)
        self._marks = Loader(self)
        self._frequencies: Frequencies | None = None
        self._unknown = self._uncounted = True  # columns and frequencies, until the first rows are shown
        self.order = ListOrder(self, self._filtered_rows, self.retitle, self.relist)
        self._last: tuple[SearchJob, Found, Where] | None = None  # the last jump to a hit, and its place

    def compose(self) -> ComposeResult:
        yield PackingHead()
        with Horizontal():
            yield SequenceList(self._sort, self.retitle)
            yield Divider(self._dragged)
            with Vertical(id="reading"):
                yield PackingStrip(self._part_chosen, self._parts_loaded)
                yield Reader()
                yield TokenDetails()
        yield Refusal()
        yield FindBar()

    @property
    def where(self) -> Where:
        """Return the row in the reader and the token under the cursor."""
        return self.reader.row, self.reader.cursor

    @property
    def bound_for(self) -> Where:
        """Return the row and the token that the reader shows, or will show when the row is loaded and listed."""
        return self._behind or self.reader.bound_for

    # the session

    def show(self, session: Session) -> None:
        other = not hasattr(self, "session") or session is not self.session
        elsewhere = not hasattr(self, "session") or session.path != self.session.path
        self.session = session
        self._refuse(session)
        self.query_one(PackingHead).show(session)
        self.reader.of_recipe = samples_of(session.view.reader) is not None
        before, self._view, where = self._view, session.view, self.bound_for
        self._behind = None
        port = getattr(self, "port", None)
        searched, self.scope = getattr(self, "scope", None), search_scope(session)
        style = getattr(self, "token_style", None)
        self.port, self.token_style = session.port, session.token_style
        self.loader.forget()
        self._jumps.forget()
        if other or before is None:
            self._go_again(session.where)
        elif before is self._view:
            self._go_again(where)
        elif not before.port.count:
            self._go_again((0, 0))
        else:
            self.loader.ask(lambda: carried(before, where, session.view), self._go_again)
        if style != self.token_style:
            self._unknown = True  # a tokenizer has columns of its own
        if before is not self._view:
            self.strip.clear()
            self.order.forget()
            self.list.show_columns(())
            self._unknown = True
            self._known.forget()
        if port is not self.port or before is not self._view:
            self._frequencies, self._uncounted = None, True
        if other:
            self._queries = None
        self.refresh_bindings()
        for batch in self.app.screen.query("BatchList").results(VirtualTable):
            batch.post_message(batch.Moved(batch))  # its text may be known now
        self.search_again(searched, other=elsewhere or session.refused is not None)

    def _refuse(self, session: Session) -> None:
        """Show the error of a session that cannot be read in place of its rows."""
        was, error = self.has_class("refused"), session.refused
        self.set_class(error is not None, "refused")
        if error is not None:
            self.query_one(Refusal).say(session, len(self.host.requests))
        if was != (error is not None) and self.host.entry.name == self.id:
            self.call_after_refresh(self.enter)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; none does if the rows cannot be read."""
        if action == "part" and not (self.is_mounted and self.strip.display):
            return False
        if action in ("hit", "odd") and (action == "odd") != self._seeks_odd:
            return False
        if action in ("read", "occurrences") and (action == "read") == (self.is_mounted and self.reader.has_focus):
            return False
        return not self.has_class("refused") and super().check_action(action, parameters)

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - those of other tabs do
        """Return whether an action would do something now (`keys.is_offered`)."""
        if not hasattr(self, "session"):
            return False
        if action == "escape":
            marked = self.reader.mark_from is not None or bool(self.list.selected)
            return self.searches or self.search is not None or marked
        if action == "hit":
            return self.search is not None and bool(self.search.results.hits)
        if action == "view":
            return len(self.session.opened.views) > 1 or bool(self.session.opened.pending)
        if action == "read":
            return self.list.has_focus
        if action == "occurrences":
            return self.port.unit == "token" and bool(self.reader.lines)
        offered = {"unfilter": self.filtered is not None, "batch": samples_view(self.session) is not None}
        offered |= {"part": bool(self.strip.display)}
        offered |= {"origin": self.session.view.axis is not None}
        return offered.get(action, True)

    def go(self, where: Where) -> None:
        """Show a row, with the cursor on one of its tokens."""
        if self.host.hides:
            self.session.where, self._view = where, None
            if self.list.port is not None:  # of the dataset before
                self.list.clear()
                self._clear()
                for box in (self.list, self.query_one("#reading")):
                    box.border_title = box.border_subtitle = ""
            return
        port, token_style, self._behind = self.port, self.token_style, None
        row = max(0, min(where[0], port.count - 1))
        if self.list.port is not port or self.list.token_style != token_style:
            self.list.show(port, token_style, row)
            self.relist()
        else:
            self.list.point_at_row(row)
        if port.count:
            self.reader.show(port, token_style, row, where[1])
        else:
            self._clear()
        self.retitle()

    def _clear(self) -> None:
        """Show no row in the reader and in what describes it."""
        self.reader.clear(self.port)
        self.strip.clear()
        self._detail(None)

    def _go_again(self, where: Where) -> None:
        """Show a row after the dataset or its view has changed, unless the filter lists nothing."""
        self.go(where)
        self._match_reader(self.filtered)

    def enter(self) -> None:
        (self.query_one("#refusal") if self.has_class("refused") else self.list).focus()

    def retitle(self) -> None:
        """Update the titles of the list and the reader."""
        session, reader = self.session, self.reader
        if self._view is not None:
            split = session.split if len(session.splits) > 1 else ""
            self.list.border_title = self.titled(list_title(self._view, self.port, split))
            self.list.border_subtitle = f"{len(self.list.selected):,} selected" if self.list.selected else ""
            layout = layout_words(session, reader.mode, of_text=self.scope.of_text)
            self.query_one("#reading").border_subtitle = layout
            self._title_row()

    def _title_row(self) -> None:
        if self._view is not None:
            row = min(self.reader.row, max(0, self.port.count - 1))
            title = "nothing is listed; F removes the filter" if self._behind else row_title(self._view, self.port, row)
            marked, parts = self.reader.marked, self.strip.parts
            title += f" · {len(marked):,} marked" if marked else ""
            if parts is not None and parts.row == row and self.port.count and not self._behind:
                title += shares_words(parts, max(0, self.reader.size.width - len(title) - 4))
            self.query_one("#reading").border_title = title

    def on_mount(self) -> None:
        self.list.leaving = self.reader.leaving = self.host.leave

    @on(SequenceList.Chosen)
    def _chosen(self) -> None:
        self.action_read()

    @on(SequenceList.Moved)
    def _pointed(self) -> None:
        if self.list.port is not None and self.list.count and self._behind is None:
            self.reader.show(self.list.port, self.list.token_style, self.list.row)

    @on(Reader.Moved)
    def _moved(self) -> None:
        reader, where = self.reader, self.where
        port, token_style = reader.port, reader.token_style
        self._title_row()
        listed = self._behind is None and self.list.port is port
        if port is self.port and port.count and not reader.opening and listed:  # else another view or row is coming
            self.session.where = where
            if has_parts(port):
                self.strip.show(port, token_style, *where)
            self.loader.ask(lambda: facts_of(port, token_style, *where), self._detail)
        self._mark()

    def _detail(self, facts: TokenFacts | Damage | None) -> None:
        facts = facts if self._behind is None else None  # they were asked for before the reader was cleared
        self._facts, parts, origin, found = facts, self.strip.parts, "", ""
        if isinstance(facts, TokenFacts) and parts is not None and parts.row == facts.row:
            part = parts.at(facts.unit)
            origin = "" if part is None else parts.parts[part].words(facts.unit)
        if isinstance(facts, TokenFacts) and self._frequencies is not None:
            frequency = self._frequencies.of(facts.value)
            found = "" if frequency is None else frequency.words(self.session.view.singular)
        self.query_one(TokenDetails).show(facts, self.port.unit, origin, found)
        if facts is not None:
            self.call_after_refresh(self._find_more)  # beside the first rows, it would take the processor from them

    # actions

    def action_view(self) -> None:
        self.host.next_view()

    def action_batch(self) -> None:
        """Show the batch of the step that has the row under the cursor."""
        self.show_inside(None)

    def show_inside(self, inside: tuple[int, int, int] | None) -> None:
        """Show a batch: its step, and the sample and the document in it that the cursor was on."""
        from tokfmt.browser.batch import BatchScreen

        view = samples_view(self.session)
        if view is None:
            self.notify("These rows are documents. A recipe with seq_len makes samples of them, and steps of samples.")
            return
        row = self.session.where[0] if view.name == self.session.shown else 0
        planned = planned_of(view) or self.query_one(PackingHead).planned

        def go(target: tuple[SourceRequest | None, Spot], left: tuple[int, int, int]) -> None:
            request, spot = target
            self.host.leave(inside=left)
            number = None if request is None else self.host.number_of(request)
            self.host.go(spot._replace(number=number), leaves=False)

        self.app.push_screen(BatchScreen(self.session, view, row, planned, go, inside))

    def action_read(self) -> None:
        self.reader.focus()

    def action_next(self, step: int) -> None:
        """Go to the next row of the list."""
        self.list.choose(self.list.cursor + step)

    # panes

    def action_mode(self) -> None:
        modes = list(Mode)
        self.reader.mode = modes[(modes.index(self.reader.mode) + 1) % len(modes)]
        self.retitle()

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.reader.focus()

    def _dragged(self, column: int) -> None:
        share = round(100 * column / max(1, self.size.width))
        self.share = max(NARROWEST, min(WIDEST, share))
        self.list.styles.width = f"{self.share}%"

    # jumps to a row, a token position, a byte of a file, or a random row

    def action_random(self) -> None:
        count = self.session.port.count
        if count:
            self.host.go(self.here((random.randrange(count), 0)))  # noqa: S311 - not for security

    async def action_jump(self) -> None:
        """Ask for a place: a row, a token, a byte, or what `y` copies."""
        from tokfmt.browser.dialogs import Prompt

        view, answers = self.session.view, self._answers
        steps = ""
        if view.singular == "sample":
            size = batch_size_of(view, self.where[0], self.session.batch)
            steps = f" · 25*{size} step 25 of batches of {size}"
        token = "" if view.axis is None else " · t:5000 token"
        hint = f"{number_words(view.singular, view.port.count)} · 12:45 · @4096 byte{token}{steps}"

        def refuse(answer: str) -> str:  # noqa: ARG001 - none is a place
            raise OptionError(f"This dataset has no {view.name}")

        def answered(answer: str) -> None:
            self._go_to(answer)
            answers[:] = [*(one for one in answers if one != answer), answer]

        # a question without an answer is asked, too, as its digits would be keys of the browser
        check = None if view.port.count else refuse
        pane = self.reader if self.reader.has_focus else self.list
        await Prompt("Go to", answered, hint, check=check, recent=answers, ends=pane.action_to).ask(self.screen)

    def _go_to(self, answer: str) -> None:
        """Go to a place in words."""
        words, port, view = answer.strip(), self.session.port, self.session.view
        if words.startswith("@"):
            self.go_to_sequence(byte_finder(self.session, self.port, self.where, words[1:]))
        elif words.startswith("t:"):
            if view.axis is None:
                raise OptionError("records have no token positions before all are tokenized. Name a row")
            position = parse_number(words[2:], view.tokens, "token")
            self.go_to_sequence(lambda: located(port, position), "no row holds this token")
        elif ":" in words:
            self.host.go(parse_spot(words))
        else:
            self.host.go(self.here((row_of(words, port.count, view.singular), 0)))

    def action_bytes(self) -> None:
        """Show the bytes of the token under the cursor in the tab of the index."""
        port, where = self.port, self.where
        self.loader.ask(lambda: byte_offset_of_unit(port, *where), self._to_bytes)

    def _to_bytes(self, place: ByteOffset | None) -> None:
        if place is None:
            counting = f"The {self.session.view.name} are still being counted."
            words = "This format does not map tokens to bytes." if self.port.whole else counting
            self.notify(words, severity="warning")
        else:
            inside = ByteSpot(place.path, place.offset, place.width or 0, opened=True)
            self.host.go(Spot(tab="file", inside=inside))

    # the parts of a sample, and where they come from

    def _part_chosen(self, unit: int, follow: bool) -> None:
        self.reader.go_to(unit)
        if follow:
            self._follow(unit)

    def _parts_loaded(self) -> None:
        self.reader.color_by(self.strip.parts)
        self._title_row()
        self._detail(self._facts)

    def action_part(self, step: int) -> None:
        """Go to the next document of the row, or border of its loss or padding; to the one before with step -1."""
        parts, at = self.strip.parts, self.reader.cursor
        if parts is not None and parts.row == self.reader.row:
            beyond = [border for border in parts.borders if (border - at) * step > 0]
            if beyond:
                self.reader.go_to(min(beyond) if step > 0 else max(beyond))

    def action_origin(self) -> None:
        self._follow(self.where[1])

    def _follow(self, unit: int) -> None:
        """Show what a token of the row comes from: its document, in the source of a recipe, or its record."""
        session, where = self.session, (self.where[0], unit)
        if not session.port.count:
            return
        if session.view.name == "samples" and any(view.name == "documents" for view in session.opened.views):
            self.host.go(Spot(view="documents"))
            return

        def then(found: Target) -> None:
            request, spot = found
            self.host.go(spot._replace(number=self.host.number_of(request)))

        self.loader.ask(lambda: target_of(session, where), then)

    # find and filter

    @property
    def idle(self) -> bool:
        """Return whether no search and no move to a hit is running."""
        loaders = (self._jumps, self._marks, self._known, self.list)
        return all(loader.idle for loader in loaders) and not self.searches and self.order.idle

    @property
    def searches(self) -> bool:
        """Return whether a search is running or still reports."""
        return any(one.busy for one in (self.search, self.filtered) if one)

    # questions

    async def action_find(self) -> None:
        words = self.search.words if self.search else ""
        await self._ask_words("Find", words, self.find)

    async def action_filter(self) -> None:
        words = self.filtered.words if self.filtered else self.search.words if self.search else ""
        before, where = self.filtered.words if self.filtered else "", self.bound_for
        shown = self.host.entry.name == self.id and self.port.whole

        def meanwhile(line: str | None) -> None:
            if self.filtered is None or self.filtered.words != line:
                self.filter(before if line is None else line)
            if line is None:
                self.go(where)

        def then(line: str) -> None:
            if self.filtered is None or self.filtered.words != line:  # else it is listed already
                self.filter(line)

        await self._ask_words("List only", words, then, meanwhile if shown else None)

    async def _ask_words(
        self,
        name: str,
        words: str,
        then: Callable[[str], None],
        meanwhile: Callable[[str | None], object] | None = None,
    ) -> None:
        from tokfmt.browser.data.search import hint, meaning
        from tokfmt.browser.dialogs import Prompt

        queries = self._queries = self._queries or Queries(self.session.path)

        def answered(answer: str) -> None:
            queries.add(answer)
            if self.host.entry.name != self.id:  # the question is also one of the browser
                self.host.go(self.here(self.where))
            then(answer)

        def meant(answer: str) -> str:
            return meaning(answer, self.scope)

        prompt = Prompt(name, answered, hint(self.scope), words, meant, recent=queries.all, meanwhile=meanwhile)
        await prompt.ask(self.screen)

    def find(self, words: str) -> None:
        """Search from the cursor on, and go to the first hit."""
        here = self.bound_for if self.reader.port is self.port else (0, 0)
        begun = self._begun(words, here[0], self.find)
        if begun is not None:
            self.origin = self._from = here
            self._keep(begun, self.filtered)

    def filter(self, words: str) -> None:
        """List only the rows that a query finds, and mark its hits; "" lists all rows."""
        if not words.strip():
            self.action_unfilter()
            return
        begun = self._begun(words, 0, self.filter)
        if begun is not None:
            self.origin = None
            other = None if self.search is self.filtered else self.search  # else its hits go with the filter
            self._keep(begun if begun.marks else other, begun)

    def filter_for(self, words: str, where: Where | None) -> None:
        """List only the rows that a query finds, for a move to `where`; without one, go to the first hit or row."""
        if where is None or words != (self.filtered.words if self.filtered is not None else ""):
            self.filter(words)
        if where is not None:
            self._aim = where[0]
        elif self.filtered is not None and self.filtered.marks:
            self.origin, self._from = self.bound_for, (0, 0)
        elif self.filtered is not None:
            self._left = self.bound_for

    def _begun(self, words: str, row: int, again: Callable[[str], None]) -> SearchJob | None:
        """Start a search and return it; None if the words are invalid, or the rows are not counted yet."""
        from tokfmt.browser.data.search import SearchJob, parse_search

        scope = self.scope
        try:
            query = parse_search(words, scope)
        except TokfmtError as error:
            self.notify(str(error), severity="error", markup=False)
            return None
        if not scope.port.whole:
            self._later = partial(again, words)
            self.notify(f"The {scope.singular}s are still being counted. The search starts after that.")
            return None
        return SearchJob(words, query, scope, row, lambda one: self.call_later(self._searched, one))

    def _keep(self, search: SearchJob | None, filtered: SearchJob | None) -> None:
        """Keep these two searches, and cancel any other."""
        for one in (self.search, self.filtered):
            if one is not None and one not in (search, filtered):
                one.cancel()
        changed, self.search, self.filtered = filtered is not self.filtered, search, filtered
        self._left = self._aim = None
        if changed:
            self.relist()
            self._match_reader(filtered)
        self._say()
        self._mark()

    def action_occurrences(self) -> None:
        """List all rows with the token under the cursor, or with the marked tokens in a row."""
        port, (row, unit), marked = self.port, self.where, self.reader.marked
        if port.unit != "token":
            self.notify("Characters have no IDs. / finds text.")
            return
        if len(marked) > _MARKED:
            self.notify(f"Mark at most {_MARKED} tokens to list the {self.scope.singular}s that hold them.")
            return
        part = marked or range(unit, unit + 1)

        def then(piece: Piece | Damage) -> None:
            if isinstance(piece, Piece) and len(piece.units) and port is self.port:
                self.host.leave()
                self.filter(f"token:{','.join(map(str, piece.units.tolist()))}")
                self.list.focus()

        if self._is_shown():
            self._known.ask(lambda: fetched(port, row, part.start, part.stop), then)

    # results

    def _searched(self, search: SearchJob) -> None:
        """Handle news of a search."""
        if search is self.filtered:
            self._list_found(search)
        if search is self.search and self.origin is not None:
            self._jump_first(search, self.origin)
        if search in (self.search, self.filtered):
            self._mark()
            self._say()

    def relist(self) -> None:
        """List the rows of the filter, if the list shows its port."""
        filtered = self.filtered
        if filtered is None or filtered.scope.port is self.list.port:
            self.list.restrict(None if filtered is None else filtered.results.rows())
            self.retitle()
        if filtered is None or not filtered.running:
            self.order.apply()

    def _filtered_rows(self) -> NDArray[np.int64] | None:
        return None if self.filtered is None else self.filtered.results.rows()

    def _list_found(self, filtered: SearchJob) -> None:
        if self.list.port is not filtered.scope.port or self.reader.port is not self.list.port:
            return  # another view is coming
        rows, (row, _) = filtered.results.rows(), self.bound_for
        self.relist()
        self._match_reader(filtered)
        self.list.point_at_row(row)
        if self.origin is not None or (self._aim is not None and self._aim != row):
            return  # the move to the first hit, or to a row, is coming
        self._aim = None
        if self._left == self.bound_for and len(rows):
            self.list.choose(0)
            return
        if len(rows) and not filtered.results.has(row) and (row < int(rows[-1]) or not filtered.running):
            self.list.choose(self.list.cursor)

    def _match_reader(self, filtered: SearchJob | None) -> None:
        """Clear the reader if the filter found nothing, as its row is not listed; else show the row again."""
        nothing = filtered is not None and not filtered.running and not filtered.results.sequences
        if nothing and self._behind is None:
            self._behind = self.bound_for
            self._clear()
            self._title_row()
        elif not nothing and self._behind is not None:
            where, self._behind = self._behind, None
            self.reader.show(self.port, self.token_style, *where)

    def _mark(self) -> None:
        """Mark the hits on the screen."""
        search, reader = self.search, self.reader
        self._marks.forget()
        if reader.opening:
            return  # its port is that of the row that is coming already, which moves to its place then
        if search is None or not reader.lines or reader.port is not search.scope.port:
            reader.hits = []
            reader.refresh()
            return
        row, first, last = reader.row, reader.lines[0].first, reader.lines[-1].last

        def marked(hits: list[range]) -> None:
            if reader.row == row:
                reader.hits = hits
                reader.refresh()

        self._marks.ask(lambda: search.visible(row, first, last), marked)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turned(event, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turned(event, -3)

    def _turned(self, event: events.MouseEvent, lines: int) -> None:
        """Scroll the reader if the wheel is turned over what is around it."""
        if self.query_one("#reading").region.contains(*event.screen_offset):
            self.reader.action_roll(lines)

    def _say(self) -> None:
        self.list.mark(self.search)
        self.query_one(FindBar).say(self.search or (self.filtered if self.searches else None), self.filtered)
        self.screen.query_one(TopBar).say_filter(filter_words(self.filtered) if self.filtered else "")
        self.refresh_bindings()

    def titled(self, count: str) -> str:
        """Return the title of the list, with the number of listed rows if there is a filter, and the order."""
        listed = count if self.filtered is None else f"{self.list.count:,} of {count}"
        return f"{listed}{self.order.words()}"

    # moves to hits

    def _arrive(self, search: SearchJob, found: Found, where: Where) -> None:
        """Go to a hit, whose first unit is at a place."""
        self._last = search, found, where
        bar = self.query_one(FindBar)
        bar.number, bar.wrapped = found.number, found.wrapped
        self._say()
        self.go(where)

    def _jump_first(self, search: SearchJob, origin: Where) -> None:
        """Go to the first hit after the start of the search, unless the cursor moved."""
        if self.bound_for != origin or (not search.running and not search.results.hits):
            self.origin = None  # the cursor moved, or the search found nothing
            return

        def first() -> tuple[Found, Where] | None:
            if self.origin is None:  # the jump is done
                return None
            found = search.first(self._from)
            if found is not None and self.filtered is not None and not self.filtered.results.has(found.row):
                found = search.following((found.row, found.start), 1, self.filtered)
            if found is None or (found.wrapped and search.running and not search.results.round):
                return None
            return found, search.where(found)

        def then(jump: tuple[Found, Where] | None) -> None:
            if jump is not None and self.origin is not None:
                self.origin = None
                if search is not self.filtered:  # else the move to its list has kept the way back
                    self.host.leave()
                self._arrive(search, *jump)

        if search.results.hits:
            self._jumps.ask(first, then)

    def action_hit(self, step: int) -> None:
        """Go to the next hit."""
        search = self.search
        if search is not None and search.scope.port is not self.reader.port:
            return  # another view is coming
        if search is None and self.filtered is not None:  # which lists rows by their length
            self.action_next(step)
            return
        if search is None or not search.results.hits:
            self.notify("No hit yet." if search else "Search with / first. ] goes to the next row.", markup=False)
            return
        reader, self.origin = self.reader, None

        def stepped() -> tuple[Found, Where] | None:
            where, last = reader.bound_for, self._last
            if last is not None and (last[0], last[2]) == (search, where):  # a token may have several hits
                place = last[1].row, last[1].start
            else:
                place = where[0], search.at(where, end=step > 0)
            found = search.following(place, step, self.filtered)
            return None if found is None else (found, search.where(found))

        def then(jump: tuple[Found, Where] | None) -> None:
            if jump is None:
                self.notify("No hit is in the listed rows. F removes the filter.")
            else:
                if jump[1] == self.bound_for and self.filtered is not None:
                    self.notify("No other hit is in the listed rows. F removes the filter.")
                self.host.leave()
                self._arrive(search, *jump)

        self._jumps.ask(stepped, then)

    @property
    def _seeks_odd(self) -> bool:
        """Return whether n and N go to rows that are trained otherwise: without a search, if the list marks them."""
        searched = self.search is not None or self.filtered is not None
        return self.is_mounted and not searched and any(column.name == ODD for column in self.list.others)

    def action_odd(self, step: int) -> None:
        """Go to the next row that is trained otherwise than most rows, or to the one before with step -1."""
        port, token_style, reader = self.port, self.token_style, self.reader

        def then(found: tuple[int, bool]) -> None:
            row, is_odd = found
            if not is_odd:
                self.notify(f"No ▲ up to {self.session.view.singular} {row:,}.")
            if is_odd or 0 < row < port.count - 1:  # more rows are read from there on
                self.host.go(self.here((row, 0)))

        self._jumps.ask(lambda: next_odd(port, token_style, reader.bound_for[0], step), then)

    # ends

    def action_unfilter(self) -> None:
        self._keep(self.search, None)

    def action_escape(self) -> None:
        """Stop running searches; else remove the mark; else remove the hits; else go back to the list, or up."""
        if self.searches:
            for one in (self.search, self.filtered):
                if one is not None:
                    one.cancel()
            self._say()
        elif self.order.stop():
            self.retitle()
        elif self.reader.mark_from is not None:
            self.reader.action_mark()
        elif self.list.selected:
            self.list.selected.clear()
            self.list.selection_changed()
        elif self.search is not None:
            self._keep(None, self.filtered)
        elif not (self.host.action_cancel() or self._jumps.leave()):
            self._go_back()

    def _go_back(self) -> None:
        """Go back from the enlarged reader, from the reader to the list, and from the list to the folder."""
        if self.has_class("zoomed"):
            self.action_zoom()
        elif not self.list.has_focus:
            self.list.focus()
        else:
            self.host.go_up()

    def search_again(self, before: SearchScope | None, *, other: bool) -> None:
        """Repeat the searches in another view or split; forget them in another dataset."""
        scope, later = self.scope, self._later
        if other or scope != before:
            search, filtered = self.search, self.filtered
            self._keep(None, None)
            if not other and filtered is not None:
                self.filter(filtered.words)
            if not other and search not in (None, filtered):
                self.find(search.words)
            self.origin = None
        if later is not None and (other or (scope.port.whole and self.session.view.name != UNKNOWN)):
            self._later = None
            if not other:
                later()

    # copies, exports

    def action_copy(self) -> None:
        """Copy the marked tokens, or all of the row: the text, or the IDs if only these are shown."""
        from tokfmt.browser.data.copies import copied

        session, (row, _), part = self.session, self.where, self.reader.marked
        ids = self.reader.mode is Mode.IDS or self.token_style.decoder is None

        def then(found: Copied) -> None:
            self.host.copy(found.text, found.description)

        if self._is_shown():
            self.reader.loader.ask(lambda: copied(session, row, part, ids=ids), then)

    def _is_shown(self) -> bool:
        """Return whether the reader shows a row; else show why not."""
        if not self.session.port.count:
            self.notify(f"This dataset has no {self.session.view.name}.")
        elif self._behind is not None:
            self.notify("Nothing is listed. F removes the filter.")
        return bool(self.session.port.count) and self._behind is None and not self.host.hides

    def action_link(self) -> None:
        """Copy the command that opens the browser at the token under the cursor."""
        command = command_of(self.session, self.where)
        self.host.copy(command, command)

    async def action_export(self) -> None:
        """Ask which rows to write, and to which file: as text if the reader shows text of documents, else as IDs."""
        from tokfmt.browser.data.copies import Numbers, chosen_rows, exported, not_written
        from tokfmt.browser.dialogs import Prompt

        session, view, sets = self.session, self.session.view, dict[str, Numbers]()
        if self.list.selected:
            sets["selected"] = self.list.selected_rows
        if self.list.order is not None:
            sets["listed"] = self.list.order.rows
        elif self.filtered is not None:
            sets["listed"] = self.filtered.results.rows()
        if self.search is not None and self.search.results.hits:
            sets["hits"] = self.search.results.rows()
        if not session.port.whole:
            self.notify(f"The {view.name} are still being counted.", severity="warning")
            return
        as_text = self.reader.mode is not Mode.IDS and self.token_style.decoder is not None
        as_text = as_text and view.axis is not None and view.name == "documents" and not has_parts(session.port)
        kind = "" if view.axis is None else " as text" if as_text else " as IDs"

        def meant(words: str) -> str:
            rows = chosen_rows(words, view.port.count, sets)
            lost = not_written(session)
            others = [name for name in sets if name != words.strip()]
            named = " · ".join([f"{counted(len(rows), view.singular)}{kind}", *([lost] if lost else [])])
            return f"{named}; or write all, first 20, 17, A:B{''.join(f', {name}' for name in others)}"

        async def chosen(words: str) -> None:
            rows = chosen_rows(words, view.port.count, sets)
            split = f"-{session.split}" if len(session.splits) > 1 else ""
            await self.host.export(
                f"{counted(len(rows), view.singular)}{kind}",
                f"{Path(session.path.name).stem}{split}-{view.name}",
                lambda path, job: exported(session, rows, path, as_text=as_text, overwrite=False, job=job),
            )

        await Prompt(f"Export which {view.name}?", chosen, "", next(iter(sets), "all"), meant).ask(self.screen)

    # columns and order

    def _find_more(self) -> None:
        """Find the columns, and count the IDs of a small dataset, when its rows are on the screen."""
        session, port = self.session, self.port
        self.host.probe()
        if self._unknown:
            self._unknown = False
            from tokfmt.browser.data.columns import columns_of

            self._known.ask(lambda: columns_of(session), self.list.show_columns)
        if not self._uncounted:
            return
        self._uncounted = False
        if session.shown not in session.padding:
            from tokfmt.browser.data.columns import padding_share

            self._known.ask(lambda: padding_share(session), partial(self._say_padding, session, session.shown))

        def then(found: Frequencies | None) -> None:
            if port is self.port:
                self._frequencies = found
                self._detail(self._facts)

        self._known.ask(lambda: frequencies_of(port), then)

    def _say_padding(self, session: Session, view: str, share: float) -> None:
        session.padding[view] = share
        self.host.say()

    def action_order(self) -> None:
        self.order.turn()

    def _sort(self, name: str) -> None:
        self.order.turn(name or "#")

    def on_unmount(self) -> None:
        self._jumps.forget()
        self._marks.forget()
        self._known.forget()
        self.order.cancel()
        for one in (self.search, self.filtered):
            if one is not None:
                one.cancel()
