"""The list of sequences: rows with their numbers, lengths, other columns, and beginnings or hits."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tokfmt.browser import keys
from tokfmt.browser.colors import tone_of
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.data.layout import HEAD, Kind, TokenStyle, words_of
from tokfmt.browser.data.rows import Damage, RowSource, Span, Viewport
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds
from tokfmt.browser.work import Loader
from tokfmt.wording import bar, short

if TYPE_CHECKING:
    from tokfmt.browser.data.columns import Order, RowColumn
    from tokfmt.browser.data.excerpts import Excerpts
    from tokfmt.browser.data.search import SearchJob


class Columns(NamedTuple):
    """Width of each column in cells, 0 for none; `words` gets the rest.

    `others` are those that the format has; those that do not fit are left out.
    """

    number: int
    position: int
    length: int
    words: int
    others: tuple[int, ...] = ()
    bar: int = 0


def columns(
    width: int,
    count: int,
    tokens: int | None,
    others: Sequence[int] = (),
    *,
    bars: bool = False,
    lengths: bool = True,
) -> Columns:
    """Return the columns that fit.

    Args:
        width: Cells of a line.
        count: Number of rows.
        tokens: Length of the token axis; None without one.
        others: Widths of more columns.
        bars: Show lengths as bars, if there is room.
        lengths: Show lengths and positions, if there is room.
    """
    number, length = 1 + max(1, len(f"{max(0, count - 1):,}")), 7 if lengths else 0
    position = max(8, len(f"{tokens:,}")) if tokens and lengths else 0
    beside, room = list[int](), width - number - length - 4 - (_LEAST_WORDS if lengths else _FEW_WORDS)
    for wide in others:
        if room < wide + 1:
            break
        beside.append(wide)
        room -= wide + 1
    more = sum(wide + 1 for wide in beside)
    wide_bar = _BAR if bars and room >= _BAR + 1 + _LEAST_WORDS else 0
    more += wide_bar + 1 if wide_bar else 0
    if width - number - length - position - more - 6 < 30:
        position = 0
    if width - number - length - 4 < 12:
        length = 0
    used = number + 1 + (position + 2 if position else 0) + (length + 1 if length else 0) + more
    return Columns(number, position, length, max(0, width - used - 1), tuple(beside), wide_bar)


_LEAST_WORDS = 10  # cells that other columns leave to the beginning of a row
_BAR = 5  # cells of the bar of a length
_WIDEST = 16  # cells of another column
_FEW_WORDS = 4  # of a sample, whose beginning is that of a document by chance
_SHARE = 5  # cells of a share beside a strip, and of a strip at least
_LONGEST_STRIP = 30  # cells

TONES = 6
"""Colors of sources."""

SHADES = "█▓▒░"
"""Sources differ in a shade too, for terminals without colors."""

SIGNS = "▲▼"
"""The signs of an order that rises, and of one that falls."""

_WORDS = {Kind.TEXT, Kind.ID}
_STYLES = {kind: "words" if kind in _WORDS else "mark" for kind in Kind}


class SequenceList(VirtualTable):
    """The list of rows; the cursor chooses one.

    Call `show` with a port, `restrict` with row numbers to list only these, and `mark` with a search.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds(
        "number",
        "dim",
        "bar",
        "other",
        "words",
        "mark",
        "damage",
        "hit",
        "excerpt",
        *(f"tone-{number}" for number in range(TONES)),
    )
    BINDINGS = keys.ROWS
    head = 1
    selects = True
    filler = "words"
    above = frozenset({"excerpt", *(f"tone-{number}" for number in range(TONES))})
    nothing = ("  nothing to list", "dim")

    class Chosen(Message):
        """The user chose a row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """A double click opens the row under the cursor."""

    class Selected(Message):
        """Other rows are selected."""

    class Headed(Message):
        """The user clicked the heading of a column."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__(id="list")
        self.others: Sequence[RowColumn] = ()
        self.order: Order | None = None
        # of other columns and of excerpts, so that the beginnings of rows do not wait for them
        self.more, self._around = Loader(self), Loader(self)
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self._rows: NDArray[np.int64] | None = None
        self._excerpts: Excerpts | None = None
        self._shape, self._lengths = columns(80, 0, None), (1 << 62, 0)

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

    def restrict(self, rows: NDArray[np.int64] | None, order: Order | None = None) -> None:
        """List only some rows, or all for None. The cursor stays on its row, or goes to the next one.

        Args:
            rows: The rows, ascending.
            order: Some of these rows in another order, which is listed instead.
        """
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
        wanted = [one for one in self.others if any(one.peek(row) is None for row in seen)]
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
        self.post_message(self.Selected())

    @property
    def selected_rows(self) -> NDArray[np.int64]:
        """Return the selected rows, in the order of the list; those that are not listed come last."""
        rows = np.array(sorted(self.selected), np.int64)
        if self.order is None:
            return rows
        listed = self.order.rows[np.isin(self.order.rows, rows)]
        return np.concatenate([listed, np.setdiff1d(rows, listed)])

    def moved(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self.row))

    def action_choose(self) -> None:
        self.post_message(self.Opened())

    def on_unmount(self) -> None:
        self.more.forget()
        self._around.forget()

    def sort(self, name: str) -> None:
        self.post_message(self.Headed(name))

    # drawing

    def _columns(self) -> Columns:
        port = self.port
        tokens = port.reader.info.tokens if isinstance(port, Viewport) else None
        widths = [self._width(one) for one in self.others]
        shortest, longest = self._lengths
        bars = port is not None and not port.sampled and shortest < longest
        lengths = shortest != longest or self.count < 2  # a constant says nothing
        return columns(self.columns, port.count if port else 0, tokens, widths, bars=bars, lengths=lengths)

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
        wide, order, found = self._columns(), self.order, list[tuple[str, str]]()
        wanted = [("#", wide.number, True)]
        wanted += [("position", wide.position + 1, True)] if wide.position else []
        wanted += [("length", wide.length, True)] if wide.length else []
        orders = len(wanted)  # a click on one of these orders the list
        wanted += [(one.name, room, one.numeric) for one, room in zip(self.others, wide.others, strict=False)]
        for number, (name, room, numeric) in enumerate(wanted):
            words = name + (SIGNS[order.falling] if order is not None and name == "length" else "")
            words = set_cell_size(words, room) if cell_len(words) > room else words
            space = " " * (room - cell_len(words))
            heading = name if number < orders else ""
            found.append((heading, f"{space}{words} " if numeric else f" {words}{space}"))
            if name == "length" and wide.bar:
                found.append(("", " " * (wide.bar + 1)))
        marks = self._excerpts is not None and self._excerpts.search.marks
        return [*found, ("", f" {'hit, or beginning' if marks else 'begins with'}")]

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - `_shape` has it
        port = self.port
        if port is None:
            return []
        row, wide = self.row_of(line), self._shape
        cells = [(f"{row:>{wide.number},}", "number"), self._sign(row)]
        span = port.peek_span(row)
        if isinstance(span, Span):
            at = f"{span.start:>{wide.position + 1},} " if wide.position and span.start is not None else ""
            length = f"{short(span.length):>{wide.length}} " if wide.length else ""
            cells.append((f"{at}{length}", "dim"))
            if wide.bar:
                drawn = bar(log1p(span.length) / log1p(max(1, self._lengths[1])), wide.bar)
                cells.append((f"{drawn:<{wide.bar}} ", "bar"))
            for column, room in zip(self.others, wide.others, strict=False):
                cells += _drawn(column, row, room)
            cells.append((" ", "dim"))
        return [*cells, *self._words(port, row, wide.words)]

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


def _drawn(column: RowColumn, row: int, cells: int) -> Cells:
    """Return the value of a column, with a strip of the sources before it if the column has one."""
    if not column.has_strip:
        return [(_cell(column, row, cells), "other")]
    wide = max(0, cells - _SHARE)
    parts = [
        (SHADES[shade % len(SHADES)] * many, f"tone-{tone_of(shade)}") if shade >= 0 else ("·" * many, "dim")
        for many, shade in column.strip(row, wide)
    ]
    rest = wide - sum(len(text) for text, _ in parts)
    return [(" ", "dim"), *parts, (f"{' ' * rest}{column.peek(row) or '…':>{cells - wide}} ", "dim")]


def _cell(column: RowColumn, row: int, cells: int) -> str:
    """Return the value of a column, aligned in its cells and a blank."""
    value = column.peek(row)
    text = "…" if value is None else value
    text = set_cell_size(text, cells) if cell_len(text) > cells else text
    space = " " * (cells - cell_len(text))
    return f"{space}{text} " if column.numeric else f" {text}{space}"
