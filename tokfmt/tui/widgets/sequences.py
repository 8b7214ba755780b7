"""The list: one line a row, right for any number of rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tokfmt.tui.letters import Alphabet
from tokfmt.tui.viewport import Port
from tokfmt.tui.widgets.listing import CLASSES, HEAD, head_line, row_line
from tokfmt.tui.widgets.roller import Roller
from tokfmt.tui.widgets.track import Track

if TYPE_CHECKING:
    from tokfmt.tui.hits import Kept


class SequenceList(Roller):
    """Rows by number; the cursor chooses one.

    Call `show` with a port, `restrict` with row numbers to list only these. Rows of `hits` and `bookmarks` are marked;
    set them and call `refresh`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "by(1)", "Down", show=False),
        Binding("up,k", "by(-1)", "Up", show=False),
        Binding("pagedown", "pages(1)", "Page down", show=False),
        Binding("pageup", "pages(-1)", "Page up", show=False),
        Binding("home", "to(0)", "First", show=False),
        Binding("end", "to(-1)", "Last", show=False),
    ]

    class Chosen(Message):
        """Somebody wants to see a row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="list")
        self.port: Port | None = None
        self.alphabet = Alphabet()
        self.top = self.cursor = 0
        self._rows: NDArray[np.int64] | None = None
        self.hits: Kept | None = None
        self.bookmarks: Collection[int] = frozenset()

    # what is listed

    @property
    def count(self) -> int:
        """Lines there are."""
        return self.port.count if self._rows is None and self.port else 0 if self._rows is None else len(self._rows)

    @property
    def row(self) -> int:
        """The row under the cursor."""
        return self.row_of(self.cursor)

    def row_of(self, index: int) -> int:
        """The row that a line of the list shows."""
        return index if self._rows is None else int(self._rows[index]) if len(self._rows) else 0

    def show(self, port: Port, alphabet: Alphabet, row: int = 0) -> None:
        """List the rows of a port."""
        self.generation += 1
        self.port, self.alphabet, self._rows = port, alphabet, None
        self.point_at(row)

    def restrict(self, rows: NDArray[np.int64] | None) -> None:
        """List only these rows, ascending; None lists all again. The cursor stays on its row, or goes to the next."""
        row, self._rows = self.row, rows
        self.generation += 1
        self.point_at(row)

    def point_at(self, row: int) -> None:
        """Put the cursor on a row (or the next one listed), and bring it into view; nobody is told."""
        index = row if self._rows is None else int(np.searchsorted(self._rows, row))
        self.cursor = max(0, min(index, self.count - 1))
        height = self._height
        if not self.top <= self.cursor < self.top + height:
            near = self.top - height <= self.cursor < self.top + 2 * height
            self.top = self.cursor - height // 2 if not near else min(self.top, self.cursor)
            self.top = max(self.top, self.cursor - height + 1)
        self._settle()

    # moving

    @property
    def _height(self) -> int:
        return max(1, self.size.height - 1)

    def _settle(self) -> None:
        """After any move: keep to the ends, load what is seen."""
        self.top = max(0, min(self.top, self.count - self._height))
        if self.is_mounted:
            left = max(1, self.count - self._height)
            self.query_one(Track).show(self.top / left, self._height / max(1, self.count))
            self._load()
        self.refresh()

    def _load(self) -> None:
        port, seen = self.port, [self.row_of(i) for i in range(self.top, min(self.count, self.top + self._height))]
        if port is None or not seen:
            return
        missing = [row for row in seen if port.peek_span(row) is None or port.peek(row, 0, HEAD) is None]
        if not missing:
            return

        def work() -> None:
            for row in missing:
                port.load_spans(row, row + 1)
                port.load(row, 0, HEAD)

        self.ask(work, lambda _: self.refresh())

    def action_by(self, count: int) -> None:
        self.choose(self.cursor + count)

    def action_pages(self, pages: int) -> None:
        self.page(pages)

    def action_to(self, index: int) -> None:
        self.choose(index if index >= 0 else self.count - 1)

    def choose(self, index: int) -> None:
        """Put the cursor on a line of the list, and tell."""
        self.point_at(self.row_of(max(0, min(index, self.count - 1))))
        if self.count:
            self.post_message(self.Chosen(self.row))

    def page(self, pages: int) -> None:
        self.choose(self.cursor + pages * max(1, self._height - 1))

    def roll(self, lines: int) -> None:
        self.top += lines
        self._settle()

    def drag(self, share: float) -> None:
        self.top = round(share * max(0, self.count - self._height))
        self._settle()

    def on_resize(self) -> None:
        self.point_at(self.row)

    def on_click(self, event: events.Click) -> None:
        if event.y >= 1 and self.top + event.y - 1 < self.count:
            self.choose(self.top + event.y - 1)

    def render_line(self, y: int) -> Strip:
        return self.strip(head_line(self) if y == 0 else row_line(self, self.top + y - 1))
