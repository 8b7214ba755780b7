"""Bookmarks: set, list, go to."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tokfmt.tui.bookmarks import Bookmark, Bookmarks, bookmark
from tokfmt.tui.headings import words_of
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.rows import RowsTab
from tokfmt.tui.viewport import Piece
from tokfmt.tui.widgets.listing import HEAD

_CELLS = 40


class Bookmarking(RowsTab):
    """The bookmarks of a tab that shows rows; `list`, `where` and `ask_where` are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "bookmark", "Bookmark", show=False),
        Binding("B", "bookmarks", "List bookmarks", show=False),
    ]
    bookmarks: Bookmarks

    def show_bookmarks(self, session: Session, *, other: bool) -> None:
        """Those of a dataset, marked in the list."""
        if other:
            self.bookmarks = Bookmarks(session.path)
        self.list.bookmarks = self.bookmarks.rows(session.shown, session.split)
        self.list.refresh()

    def action_bookmark(self) -> None:
        """Set or remove the one of the row that is shown."""
        session, (row, unit) = self.session, self.where
        if session.port.count:
            piece = session.port.peek(row, 0, HEAD)
            runs = words_of(piece, session.alphabet, _CELLS) if isinstance(piece, Piece) else []
            words = "".join(text for text, _, _ in runs)
            added = self.bookmarks.toggle(bookmark(session.shown, row, unit, words, session.split))
            self.notify(f"Bookmark {'on' if added else 'removed from'} {session.view.singular} {row:,}", timeout=2)
            self.show_bookmarks(session, other=False)

    async def action_bookmarks(self) -> None:
        from tokfmt.tui.screens.bookmarks import BookmarkList

        if not self.bookmarks.all:
            self.notify("No bookmarks yet: b sets one.")
            return

        def chosen(one: Bookmark | None) -> None:
            self.show_bookmarks(self.session, other=False)
            if one is not None:
                self._go_to(one)

        await self.app.push_screen(BookmarkList(self.bookmarks), chosen)

    def _go_to(self, one: Bookmark) -> None:
        if one.split in self.session.splits:
            self.app.show_split(one.split)  # type: ignore[attr-defined]
        session = self.session
        if one.view not in {view.name for view in session.opened.views}:
            self.notify(f"That bookmark is in the {one.view}, which are not known yet: v finds them.")
            return
        if one.view != session.shown:
            self.app.show_view(one.view)  # type: ignore[attr-defined]
        if one.row >= session.port.count:
            self.notify(f"There is no {one.view.removesuffix('s')} {one.row:,} any more.", severity="warning")
            return
        self.ask_where(lambda: (one.row, one.unit))
