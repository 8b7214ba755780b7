"""The list of sequences: rows with their numbers, lengths, other columns, and beginnings or hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log1p
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from textual.geometry import Region
from textual.strip import Strip

from tokfmt.browser import keys
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.data.layout import HEAD, Kind, TokenStyle, words_of
from tokfmt.browser.data.rows import Damage, RowSource, Span, Viewport
from tokfmt.browser.widgets.strip import bar_of
from tokfmt.browser.widgets.virtual_table import TONED, VirtualTable, kinds
from tokfmt.browser.work import Loader
from tokfmt.wording import bar, short

if TYPE_CHECKING:
    from tokfmt.browser.data.columns import Order, RowColumn
    from tokfmt.browser.data.excerpts import Excerpts
    from tokfmt.browser.data.search import SearchJob


class Column(NamedTuple):
    """A column of the list beside the numbers of rows."""

    name: str  # its heading; "" for the bars of lengths
    width: int  # in cells
    least: int  # the cells that it leaves to the beginnings of rows; else it is left out
    of: RowColumn | None = None  # the column of the format; None for one of every dataset


_LENGTH, _BAR = Column("length", 7, 12), Column("", 5, 20)
_PLACES = ("position", "length", "")  # of columns of every dataset, from left to right
_WIDEST = 16  # cells of another column
_SHARE = 5  # cells of a share beside a strip, and of a strip at least
_LONGEST_STRIP = 30  # cells

SIGNS = "▲▼"
"""The signs of an order that rises, and of one that falls."""

_WORDS = {Kind.TEXT, Kind.ID}
_STYLES = {kind: "words" if kind in _WORDS else "mark" for kind in Kind}


class SequenceList(VirtualTable):
    """The list of rows; the cursor chooses one.

    Call `show` with a port, `restrict` with row numbers to list only these, and `mark` with a search.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds(
        *("number", "dim", "bar", "other", "words", "mark", "damage", "hit", "excerpt"), *TONED
    )
    BINDINGS = keys.ROWS
    head = 1
    selects = True
    filler = "words"
    above = TONED | {"excerpt"}
    nothing = ("  nothing to list", "dim")

    def __init__(self, sort: Callable[[str], object], selected: Callable[[], object]) -> None:
        """List no rows yet; `sort` gets the name of a heading that is clicked, `selected` is called for a selection."""
        super().__init__(id="list")
        self._sort, self._selected = sort, selected
        self.others: Sequence[RowColumn] = ()
        self.order: Order | None = None
        # of other columns and of excerpts, so that the beginnings of rows do not wait for them
        self.more, self._around = Loader(self), Loader(self)
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self._rows: NDArray[np.int64] | None = None
        self._excerpts: Excerpts | None = None
        self._shape, self._lengths = (2, list[Column](), 0), (1 << 62, 0)

    # the listed rows

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return self.port.count if self._rows is None and self.port else 0 if self._rows is None else len(self._rows)

    @property
    def row(self) -> int:
        """Return the row under the cursor."""
        return self.row_of(self.cursor)

    def row_of(self, index: int) -> int:
        """Return the row of a line of the list."""
        return index if self._rows is None else int(self._rows[index]) if len(self._rows) else 0

    def show(self, port: RowSource, token_style: TokenStyle, row: int = 0) -> None:
        """List the rows of a port."""
        self.loader.forget()
        if port is not self.port:
            self.selected.clear()
            self._lengths = 1 << 62, 0
        self.port, self.token_style, self._rows, self.order = port, token_style, None, None
        self.point_at_row(row)

    def clear(self) -> None:
        """List nothing until rows are shown."""
        self.loader.forget()
        self.port, self._rows, self.order = None, None, None
        self.show_columns(())

    def restrict(self, rows: NDArray[np.int64] | None, order: Order | None = None) -> None:
        """List only some rows, or all for None, or some of them in an order. The cursor stays, or goes to the next."""
        row, self._rows, self.order = self.row, rows if order is None else order.rows, order
        self.loader.forget()
        self.point_at_row(row)

    def show_columns(self, columns: Sequence[RowColumn]) -> None:
        """Show other columns beside those of every dataset."""
        self.more.forget()
        self.others = columns
        self.fetch()
        self.refresh()

    def point_at_row(self, row: int) -> None:
        """Put the cursor on a row or the next one listed, and show it, without a message."""
        if self._rows is None:
            self.point_at(row)
        elif self.order is None:
            self.point_at(int(np.searchsorted(self._rows, row)))
        else:
            found = np.flatnonzero(self._rows == row)
            self.point_at(int(found[0]) if len(found) else 0)

    def mark(self, search: SearchJob | None) -> None:
        """Mark the rows that a search has found, and show the words around their first hits; None marks none."""
        if search is None:
            self._excerpts = None
        elif self._excerpts is None or self._excerpts.search is not search:
            from tokfmt.browser.data.excerpts import Excerpts

            self._excerpts = Excerpts(search)
        self._fetch_excerpts()
        self.refresh()

    @property
    def idle(self) -> bool:
        """Return whether no columns and no excerpts are being read."""
        return self.more.idle and self._around.idle

    def fetch(self) -> None:
        port, seen = self.port, [self.row_of(line) for line in self.seen]
        if port is None or not seen:
            return
        self._fetch_others(seen)
        self._fetch_excerpts()
        missing = [row for row in seen if port.peek_span(row) is None or port.peek(row, 0, HEAD) is None]
        if not missing:
            return

        def work() -> None:
            for row in missing:
                port.load_spans(row, row + 1)
                port.load(row, 0, HEAD)

        self.loader.ask(work, lambda _: self.refresh())

    def _fetch_others(self, seen: Sequence[int]) -> None:
        wanted = [other for other in self.others if any(other.peek(row) is None for row in seen)]
        if wanted:
            rows = sorted(seen)

            def work() -> None:
                for column in wanted:
                    column.load(rows)

            self.more.ask(work, lambda _: self.refresh())

    def _fetch_excerpts(self) -> None:
        """Request the excerpts of the rows on the screen, again and again until none is missing."""
        excerpts = self._excerpts
        if excerpts is None or excerpts.search.scope.port is not self.port:
            return
        missing = excerpts.missing([self.row_of(line) for line in self.seen])

        def made(_: object) -> None:
            self.refresh()
            self._fetch_excerpts()

        if missing:
            self._around.ask(lambda: excerpts.load(missing), made)

    def name_of(self, line: int) -> int:
        return self.row_of(line)

    def selection_changed(self) -> None:
        self.refresh()
        self._selected()

    @property
    def selected_rows(self) -> NDArray[np.int64]:
        """Return the selected rows, in the order of the list; those that are not listed come last."""
        rows = np.array(sorted(self.selected), np.int64)
        if self.order is None:
            return rows
        listed = self.order.rows[np.isin(self.order.rows, rows)]
        return np.concatenate([listed, np.setdiff1d(rows, listed)])

    def on_unmount(self) -> None:
        self.more.forget()
        self._around.forget()

    def sort(self, name: str) -> None:
        self._sort(name)

    # drawing

    def _columns(self) -> tuple[int, list[Column], int]:
        """Return the cells of row numbers, the columns that fit, and the cells that are left to beginnings of rows."""
        port, number = self.port, 1 + len(f"{max(0, (self.port.count if self.port else 0) - 1):,}")
        tokens = port.reader.info.tokens if isinstance(port, Viewport) else 0
        shortest, longest = self._lengths
        lengths = shortest != longest or self.count < 2  # a constant says nothing
        wanted = [_LENGTH] if lengths else []
        wanted += [Column(other.name, self._width(other), 10 if lengths else 4, other) for other in self.others]
        wanted += [_BAR] if port is not None and not port.sampled and shortest < longest else []
        wanted += [Column("position", max(8, len(f"{tokens:,}")), 30)] if tokens and lengths else []
        room, kept = self.columns - number - 3, list[Column]()
        for column in wanted:
            if room - column.width - 1 >= column.least:
                room -= column.width + 1
                kept.append(column)
        kept.sort(key=lambda column: _PLACES.index(column.name) if column.of is None else len(_PLACES))
        return number, kept, room

    def render_lines(self, crop: Region) -> list[Strip]:
        self._see_lengths()  # once for all lines
        self._shape = self._columns()
        return super().render_lines(crop)

    def _see_lengths(self) -> None:
        """Note the shortest and the longest row that was on the screen, for the scale of all bars."""
        spans = [self.port.peek_span(self.row_of(line)) for line in self.seen] if self.port is not None else []
        lengths = [span.length for span in spans if isinstance(span, Span)]
        self._lengths = min([self._lengths[0], *lengths]), max([self._lengths[1], *lengths])

    def _width(self, column: RowColumn) -> int:
        """Return the cells of a column: as many as the values on the screen take; a strip takes a quarter."""
        if column.has_strip:
            return max(_SHARE, min(_LONGEST_STRIP, self.columns // 4)) + _SHARE
        values = [column.peek(self.row_of(line)) or "" for line in self.seen]
        return min(_WIDEST, max(map(cell_len, (*values, column.name + SIGNS[0]))))

    def headings(self) -> list[tuple[str, str]]:
        (number, kept, _), order = self._columns(), self.order
        found = [("#", f"{'#':>{number}} ")]
        for column in kept:
            words = column.name + (SIGNS[order.falling] if order is not None and column.name == order.name else "")
            found.append((column.name, _aligned(words, column)))
        marks = self._excerpts is not None and self._excerpts.search.marks
        return [*found, ("", f" {'hit, or beginning' if marks else 'begins with'}")]

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - `_shape` has it
        port, (number, kept, room) = self.port, self._shape
        if port is None:
            return []
        row = self.row_of(line)
        span = port.peek_span(row)
        cells = [(f"{row:>{number},}", "number"), self._sign(row)]
        if isinstance(span, Span):
            for column in kept:
                cells += self._drawn(column, row, span)
        return [*cells, (" ", "dim"), *self._words(port, row, room)]

    def _drawn(self, column: Column, row: int, span: Span) -> Cells:
        """Return the value of a column, with a strip of the sources before it if the column has one."""
        of = column.of
        if column is _BAR:
            drawn = bar(log1p(span.length) / log1p(max(1, self._lengths[1])), column.width)
            return [(f"{drawn:<{column.width}} ", "bar")]
        if of is None:
            number = short(span.length) if column is _LENGTH else "" if span.start is None else f"{span.start:,}"
            return [(_aligned(number, column), "dim")]
        value = of.peek(row) or ("…" if of.peek(row) is None else "")
        if not of.has_strip:
            return [(_aligned(value, column), "other")]
        parts, wide = of.parts(row), max(0, column.width - _SHARE)
        stretches = [] if parts is None else bar_of(parts, wide)
        cells = [(stretch.text, "dim" if stretch.tone is None else f"tone-{stretch.tone}") for stretch in stretches]
        return [*cells, (f"{'' if cells else ' ' * wide}{value:>{column.width - wide}} ", "dim")]

    def _sign(self, row: int) -> tuple[str, str]:
        """Return the mark of a row in one cell: selected, a hit, or a blank."""
        if row in self.selected:
            return "✓", "hit"
        if self._excerpts is not None and self._excerpts.search.results.has(row):
            return "●", "hit"
        return " ", "dim"

    def _words(self, port: RowSource, row: int, width: int) -> Cells:
        """Return the words around the hit of a row, or at its beginning, each with its kind."""
        excerpts = self._excerpts
        excerpt = None if excerpts is None or excerpts.search.scope.port is not port else excerpts.peek(row)
        if excerpt is not None:
            words = excerpt.words(self.token_style, width - 1)
        else:
            found = None if port.peek_span(row) is None else port.peek(row, 0, HEAD)
            if found is None:
                return [(" …", "dim")]
            if isinstance(found, Damage):
                return [(f" ✗ {found.why}"[:width], "damage")]
            words = words_of(found, self.token_style, width - 1)
        return [(text, "excerpt" if is_hit else _STYLES[kind]) for text, kind, is_hit in words]


def _aligned(text: str, column: Column) -> str:
    """Return a text in the cells of a column and a blank; numbers are at its right."""
    text = set_cell_size(text, column.width) if cell_len(text) > column.width else text
    space = " " * (column.width - cell_len(text))
    return f" {text}{space}" if column.of is not None and not column.of.numeric else f"{space}{text} "
