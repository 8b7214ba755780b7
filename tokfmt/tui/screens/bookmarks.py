"""The bookmarks of a dataset, over everything else."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Label, OptionList
from textual.widgets.option_list import Option

from tokfmt.core.errors import printable
from tokfmt.tui.bookmarks import Bookmark, Bookmarks


class BookmarkList(ModalScreen[Bookmark | None]):
    """Asks for a bookmark to go to; dismissed with it, or with None. Some may be removed."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,delete", "remove", "Remove"),
        Binding("escape,B", "leave", "Close"),
    ]

    def __init__(self, bookmarks: Bookmarks) -> None:
        super().__init__()
        self._bookmarks = bookmarks

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Label("Bookmarks · enter goes there · x removes", classes="title")
            yield OptionList()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._fill(len(self._bookmarks.all) - 1)

    def _fill(self, highlighted: int) -> None:
        rows = self.query_one(OptionList)
        rows.clear_options()
        rows.add_options(Option(_line(one)) for one in self._bookmarks.all)
        rows.highlighted = max(0, min(highlighted, rows.option_count - 1)) if rows.option_count else None
        rows.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if self.is_current:
            self.dismiss(self._bookmarks.all[event.option_index])

    def action_remove(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self._bookmarks.remove(self._bookmarks.all[at])
            self._fill(at)
        if not self._bookmarks.all:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)


def _line(one: Bookmark) -> Content:
    split = f"{printable(one.split)} " if one.split else ""
    unit = f" : {one.unit:,}" if one.unit else ""
    place = f"{one.view.removesuffix('s')} {one.row:,}{unit}  "
    return Content.assemble((split, "$text-accent"), (place, "bold"), printable(one.words))
