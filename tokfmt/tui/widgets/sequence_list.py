"""The list of sequences: number, position, length, first words; right for any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from tokfmt.core.text_format import short
from tokfmt.tui.layout import Kind, TokenStyle, glyphs
from tokfmt.tui.rows import Damage, Piece, RowSource, Span, Viewport
from tokfmt.tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from tokfmt.tui.search import SearchResults


class Columns(NamedTuple):
    """Cells of each column; 0 leaves it out. `words` is what remains."""

    number: int
    position: int
    length: int
    words: int


def columns(width: int, count: int, tokens: int | None) -> Columns:
    """The columns that fit.

    Args:
        width: Cells.
        count: Rows there are.
        tokens: On the token axis, None where there is none.
    """
    number, length = max(2, len(f"{max(0, count - 1):,}")), 7
    position = max(8, len(f"{tokens:,}")) if tokens else 0
    if width - number - length - position - 6 < 30:
        position = 0
    if width - number - length - 4 < 12:
        length = 0
    used = number + 1 + (position + 2 if position else 0) + (length + 1 if length else 0)
    return Columns(number, position, length, max(0, width - used - 1))


def words_of(piece: Piece, token_style: TokenStyle, width: int) -> list[tuple[str, Kind, int]]:
    """What a row begins with, in at most `width` cells: runs of text, kind, number of the token's parity."""
    # an id takes two cells at least
    units = piece.units[: width // 2 + 1] if token_style.decoder is None and not token_style.characters else piece.units
    found = glyphs(units, 0, token_style)
    texts = ["⏎" if kind is Kind.BREAK else text for text, kind in zip(found.texts, found.kinds, strict=True)]
    used, end = 0, 0
    while end < len(texts) and used + found.cells[end] <= width:
        used, end = used + found.cells[end], end + 1
    kinds = [found.kinds[i] for i in range(end)]
    out = []
    for kind, group in groupby(range(end), lambda i: kinds[i]):
        several = list(group)
        out.append(("".join(texts[i] for i in several), kind, sum(found.cells[i] for i in several)))
    return out


HEAD = 64
"""Units of a row of which the list shows what fits."""

_PARTS = ("head", "number", "dim", "words", "mark", "damage", "hit", "bookmark", "cursor", "cursor-blurred")
_WORDS = {Kind.TEXT, Kind.SPACE, Kind.ID}


class SequenceList(RowView):
    """Rows by number; the cursor chooses one.

    Call `show` with a port, `restrict` with row numbers to list only these. Rows of `hits` and `bookmarks` are marked;
    set them and call `refresh`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"list--{part}" for part in _PARTS}
    head = 1

    class Chosen(Message):
        """Somebody wants to see a row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="list")
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self._rows: NDArray[np.int64] | None = None
        self.hits: SearchResults | None = None
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

    def show(self, port: RowSource, token_style: TokenStyle, row: int = 0) -> None:
        """List the rows of a port."""
        self.loader.forget()
        self.port, self.token_style, self._rows = port, token_style, None
        self.point_at_row(row)

    def restrict(self, rows: NDArray[np.int64] | None) -> None:
        """List only these rows, ascending; None lists all again. The cursor stays on its row, or goes to the next."""
        row, self._rows = self.row, rows
        self.loader.forget()
        self.point_at_row(row)

    def point_at_row(self, row: int) -> None:
        """Put the cursor on a row (or the next one listed), and bring it into view; nobody is told."""
        self.point_at(row if self._rows is None else int(np.searchsorted(self._rows, row)))

    def fetch(self) -> None:
        port, seen = self.port, [self.row_of(line) for line in self.seen]
        if port is None or not seen:
            return
        missing = [row for row in seen if port.peek_span(row) is None or port.peek(row, 0, HEAD) is None]
        if not missing:
            return

        def work() -> None:
            for row in missing:
                port.load_spans(row, row + 1)
                port.load(row, 0, HEAD)

        self.loader.ask(work, lambda _: self.refresh())

    def moved(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self.row))

    # drawing

    def render_line(self, y: int) -> Strip:
        if y == 0:
            return self.strip(self._head_line())
        if y == 1 and self.port is not None and not self.count:
            return self.strip([Segment("  nothing to list", self.get_component_rich_style("list--dim"))])
        return super().render_line(y)

    def _columns(self) -> Columns:
        port = self.port
        tokens = port.reader.info.tokens if isinstance(port, Viewport) else None
        return columns(self.columns, port.count if port else 0, tokens)

    def _head_line(self) -> list[Segment]:
        """The names of the columns."""
        wide = self._columns()
        text = f"{'#':>{wide.number}} "
        text += f"{'position'[: wide.position]:>{wide.position + 1}} " if wide.position else ""
        text += f"{'length':>{wide.length}} " if wide.length else ""
        return [Segment(f"{text} begins with", self.get_component_rich_style("list--head"))]

    def _sign(self, row: int, style: Callable[[str], Style]) -> Segment:
        """What is special about a row, in one cell: a bookmark, a hit."""
        if row in self.bookmarks:
            return Segment("★", style("list--bookmark"))
        if self.hits and self.hits.has(row):
            return Segment("●", style("list--hit"))
        return Segment(" ", style("list--dim"))

    def draw(self, line: int) -> list[Segment]:
        port = self.port
        if port is None:
            return []
        row, wide = self.row_of(line), self._columns()
        cursor = "" if line != self.cursor else "list--cursor" if self.has_focus else "list--cursor-blurred"

        def style(name: str) -> Style:
            return self.get_component_rich_style(name, cursor) if cursor else self.get_component_rich_style(name)

        segments = [Segment(f"{row:>{wide.number},}", style("list--number")), self._sign(row, style)]
        span = port.peek_span(row)
        if isinstance(span, Span):
            at = f"{span.start:>{wide.position + 1},} " if wide.position and span.start is not None else ""
            length = f"{short(span.length):>{wide.length}} " if wide.length else ""
            segments.append(Segment(f"{at}{length} ", style("list--dim")))
        found = None if span is None else port.peek(row, 0, HEAD)
        if found is None:
            segments.append(Segment(" …", style("list--dim")))
        elif isinstance(found, Damage):
            segments.append(Segment(f" ✗ {found.why}"[: wide.words], style("list--damage")))
        else:
            for text, kind, _ in words_of(found, self.token_style, wide.words - 1):
                segments.append(Segment(text, style("list--words" if kind in _WORDS else "list--mark")))
        rest = self.columns - sum(segment.cell_length for segment in segments)
        return [*segments, Segment(" " * max(0, rest), style("list--words"))]
