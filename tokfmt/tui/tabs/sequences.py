"""The tab people live in: the list of rows, the reader beside it, what is known of a token beneath."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from tokfmt.tui.about import manner_of, titles
from tokfmt.tui.facts import TokenFacts, facts_of
from tokfmt.tui.opening import View
from tokfmt.tui.session import Session, Where, carried, located
from tokfmt.tui.tabs.bookmarking import Bookmarking
from tokfmt.tui.tabs.jumps import Jumps
from tokfmt.tui.tabs.panes import Panes
from tokfmt.tui.tabs.searching import Searching
from tokfmt.tui.tabs.tab import SideBySide
from tokfmt.tui.tabs.takeaway import TakeAway
from tokfmt.tui.viewport import Damage
from tokfmt.tui.widgets.detail import Detail
from tokfmt.tui.widgets.divider import Divider
from tokfmt.tui.widgets.reader import Reader
from tokfmt.tui.widgets.sequences import SequenceList


class SequencesTab(Panes, Searching, Bookmarking, TakeAway, Jumps):
    """List, reader, detail."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mode", "Text/ids"),
        Binding("v", "view", "View"),
        Binding("n", "next(1)", "Next"),
        Binding("p", "next(-1)", "Previous", show=False),
        *Panes.BINDINGS,
        *Jumps.BINDINGS,
        *Searching.BINDINGS,
        *Bookmarking.BINDINGS,
        *TakeAway.BINDINGS,
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._view: View | None = None

    def compose(self) -> ComposeResult:
        with SideBySide():
            yield SequenceList()
            yield Divider()
            with Vertical(id="reading"):
                yield Reader()
                yield Detail()

    @property
    def list(self) -> SequenceList:
        """The list."""
        return self.query_one(SequenceList)

    @property
    def reader(self) -> Reader:
        """The reader."""
        return self.query_one(Reader)

    @property
    def where(self) -> Where:
        """The row that is shown, and the token under the cursor."""
        return self.reader.row, self.reader.cursor

    # showing

    def show(self, session: Session) -> None:
        other = not hasattr(self, "session") or session is not self.session
        elsewhere = not hasattr(self, "session") or session.path != self.session.path
        self.session = session
        self._refuse(session)
        before, self._view, where = self._view, session.view, self.where
        self.generation += 1
        if other or before is None:
            self.go(session.where)
        elif before is session.view:
            self.go(where)
        elif not before.port.count:
            self.go((0, 0))
        else:
            self.ask(lambda: carried(before, where, session.view), self.go)
        self.show_bookmarks(session, other=other)
        self.search_again(session, other=elsewhere or session.refused is not None)

    def _refuse(self, session: Session) -> None:
        """In place of rows that cannot be shown, say why."""
        was, error = self.has_class("refused"), session.refused
        self.set_class(error is not None, "refused")
        if error is not None:
            from tokfmt.tui.widgets.refusal import Refusal

            if not self.query(Refusal):
                self.mount(Refusal())
            self.query_one(Refusal).say(session, len(self.app.requests))  # type: ignore[attr-defined]
        if was != (error is not None) and self.app.entry.name == self.id:  # type: ignore[attr-defined]
            self.call_after_refresh(self.enter)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where there are no rows, there is nothing to be done with them."""
        return not self.has_class("refused") and super().check_action(action, parameters)

    def go(self, where: Where) -> None:
        """Show a row, the cursor on a token of it."""
        port, alphabet = self.session.port, self.session.alphabet
        row = max(0, min(where[0], port.count - 1))
        if self.list.port is not port or self.list.alphabet != alphabet:
            self.list.show(port, alphabet, row)
            self.relist()
        else:
            self.list.point_at(row)
        if port.count:
            self.reader.show(port, alphabet, row, where[1])
        else:
            self.reader.clear(port)
            self._detail(None)
        self._title()

    def reveal(self, position: int) -> None:
        port = self.session.port
        self.ask_where(lambda: located(port, position))

    def ask_where(self, find: Callable[[], Where | None]) -> None:
        self.ask(find, lambda where: None if where is None else self.go(where))

    def enter(self) -> None:
        (self.query_one("#refusal") if self.has_class("refused") else self.list).focus()

    def _title(self) -> None:
        reader, reading = self.reader, self.query_one("#reading")
        count, reading.border_title = titles(self.session, min(reader.row, max(0, self.session.port.count - 1)))
        self.list.border_title = self.titled(count)
        manner = manner_of(self.session, reader.mode, whitespace=reader.whitespace, wrap=reader.wrap)
        reading.border_subtitle = manner

    @on(SequenceList.Chosen)
    def _chosen(self, message: SequenceList.Chosen) -> None:
        self.reader.show(self.session.port, self.session.alphabet, message.row)

    @on(Reader.Moved)
    def _moved(self) -> None:
        session, (row, unit) = self.session, self.where
        self._title()
        if session.port.count and self.reader.port is session.port:
            session.where = row, unit
            self.ask(
                lambda: facts_of(session, row, unit),
                self._detail,
            )

    def _detail(self, facts: TokenFacts | Damage | None) -> None:
        self.query_one(Detail).show(facts, self.session.port.unit)
        self.post_message(self.Seen())

    # doing

    def action_view(self) -> None:
        self.app.next_view()  # type: ignore[attr-defined]

    def action_next(self, step: int) -> None:
        self.list.choose(self.list.cursor + step)
