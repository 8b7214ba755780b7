"""Columns of the list beside those of every dataset (fill and sources of samples, share of padding), and the order by
length.

A column reads its values when they are shown, in a worker. The order reads all lengths, and keeps the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.opening import run_of, samples_of
from tokfmt.browser.data.parts import RowParts, names_of, parts_in_recipe, parts_of, run_names
from tokfmt.browser.data.prompts import ODD, prompt_end
from tokfmt.browser.data.rows import RowSource
from tokfmt.browser.data.session import Session, has_parts
from tokfmt.browser.data.workers import Job
from tokfmt.commands.search.search import densities
from tokfmt.core.loss_mask import padding_of
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import CorruptError, TokfmtError

if TYPE_CHECKING:
    from tokfmt.mix import Samples

Rows = NDArray[np.int64]
Lengths = Sequence[int | None] | NDArray[Any]

MOST = 1 << 20
"""Limit of the rows that an order lists."""

DENSITY = "b/t"
"""The column of the bytes of text per token, few of which tell that a text is not what it seems."""
_KEPT = 4096  # rows whose values are cached
_COUNTED = 1 << 26  # positions whose padding is counted
_LONGEST = 1 << 20  # tokens of a row whose padding is counted
_AT_ONCE = 1 << 14  # rows of an order that are read at once
_FEW = 1 << 10  # rows of an order whose tokens are read at once
_BLOCK = 1 << 22  # bytes


class RowColumn:
    """A column of the list. `peek` is for drawing; `load` is for a worker, and calls `read` with intervals of rows."""

    has_strip = False
    """The list draws `parts` before the value."""

    def __init__(self, name: str, read: Callable[[int, int], Sequence[str]], *, numeric: bool) -> None:
        self.name, self.read, self.numeric = name, read, numeric
        self._held = Recent[int, str](_KEPT)

    def peek(self, row: int) -> str | None:
        """Return the value of a row; None if it is not loaded."""
        return self._held.get(row)

    def parts(self, row: int) -> RowParts | None:  # noqa: ARG002 - those of a subclass
        """Return the parts of a strip; None without one."""
        return None

    def load(self, rows: Sequence[int]) -> None:
        """Read the values of ascending rows that are not loaded."""
        missing = [row for row in rows if self._held.get(row) is None]
        for first, last in _runs(missing):
            try:
                parts = list(readable(lambda a, b: iter([self.read(a, b)]), first, last))
            except TokfmtError:
                parts = [[""] * (last - first)]  # the rows show the error
            for row, value in zip(range(first, last), chain.from_iterable(parts), strict=True):
                self._held.put(row, value or "")


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the intervals of consecutive numbers."""
    bounds = [0, *(k for k, (a, b) in enumerate(pairwise(rows), 1) if b != a + 1), len(rows)]
    yield from ((rows[a], rows[b - 1] + 1) for a, b in pairwise(bounds) if a < b)


def columns_of(session: Session) -> list[RowColumn]:
    """Return the columns of a dataset: of samples their fill and sources, or their padding; of documents `DENSITY`."""
    reader, words, port = session.view.reader, session.vocabulary, session.port
    if (samples := samples_of(reader)) is not None:
        return [StripColumn(samples), RowColumn("source", partial(names_of, samples), numeric=False)]
    if (run := run_of(reader)) is not None:
        return [RowColumn("source", partial(run_names, run), numeric=False)]
    odd = list[RowColumn]()
    if has_parts(port) and prompt_end(port) is not None:
        odd.append(RowColumn(ODD, partial(_odd, port, session.token_style), numeric=False))
    if isinstance(reader, RecordReader):
        return odd
    if padding_of(reader, 0, 0) is not None:
        return [RowColumn("padding", lambda a, b: list(map(_share, padded(reader, a, b))), numeric=True), *odd]
    if words is None or session.view.name != "documents":
        return odd
    values = partial(densities, reader, words.decoder)
    return [
        RowColumn(DENSITY, lambda a, b: [f"{one:.1f}" if one >= 0 else "" for one in values(a, b)], numeric=True),
        *odd,
    ]


def _odd(port: RowSource, style: TokenStyle, first: int, last: int) -> list[str]:
    """Return a sign for each row that is trained otherwise than most rows."""
    found = [parts_of(port, style, row) for row in range(first, last)]
    return [ODD if parts is not None and parts.odd else "" for parts in found]


def _share(value: float | None) -> str:
    if value is None:
        return ""
    return "<1%" if 0 < value < 0.005 else ">99%" if 0.995 <= value < 1 else f"{value:.0%}"


def padded(reader: TokenReader, first: int, last: int) -> list[float | None]:
    """Return the share of the positions of each row that are padding; None for empty and for long rows."""
    found: list[float | None] = []
    for start, stop in pairwise(reader.offsets(first, last).tolist()):
        flags = padding_of(reader, start, stop) if 0 < stop - start <= _LONGEST else None
        found.append(None if flags is None else float(flags.mean()))
    return found


def padding_share(session: Session) -> float:
    """Return the share of all stored positions that are padding; 0 if nothing says it, or it takes long. Reads."""
    try:
        return _padding_share(session.view.reader) or 0.0
    except TokfmtError:
        return 0.0  # the row that cannot be read shows the error


def _padding_share(reader: TokenReader | RecordReader) -> float | None:
    if isinstance(reader, RecordReader) or not reader.info.tokens:
        return None
    if padding_of(reader, 0, 0) is None:
        counts = reader.padding_counts()
        return None if counts is None or not counts.padding else counts.padding / counts.positions
    if reader.info.tokens > _COUNTED:
        return None
    total = 0
    for start in range(0, reader.info.tokens, _LONGEST):
        flags = padding_of(reader, start, min(start + _LONGEST, reader.info.tokens))
        total += 0 if flags is None else int(np.count_nonzero(flags))
    return total / reader.info.tokens


# the strips of the list


class StripColumn(RowColumn):
    """The fill of each sample of a recipe, as a strip of its sources."""

    has_strip = True

    def __init__(self, samples: Samples) -> None:
        super().__init__("fill", self._filled, numeric=True)
        self._samples, self._parts = samples, Recent[int, RowParts](_KEPT)

    def _filled(self, first: int, last: int) -> list[str]:
        samples = self._samples
        for row in range(first, last):
            self._parts.put(row, parts_in_recipe(samples, row, samples.seq_len or 1))
        return [_share(samples.filled(row) / (samples.seq_len or 1)) for row in range(first, last)]

    def parts(self, row: int) -> RowParts | None:
        return self._parts.get(row)


# the order of the list


@dataclass(frozen=True, slots=True)
class Order:
    """The rows in the order of a column."""

    name: str  # the column: "length" or `DENSITY`
    falling: bool  # the largest value is first
    rows: Rows  # the rows, int64; the first `MOST` of them
    total: int  # number of rows that were ordered


def order_of(session: Session, rows: Rows | None, job: Job, name: str, *, falling: bool) -> Order:
    """Return the listed rows, or all, in the order of a column. Reads it of all rows; equal ones stay in order."""
    port = session.port
    job.phase("sorting", port.count, "rows")
    kept, keys = np.empty(0, np.int64), np.empty(0, np.float64)
    first = 0

    def cut() -> tuple[Rows, NDArray[np.float64]]:
        order = np.argsort(keys, kind="stable")[:MOST]
        return kept[order], keys[order]

    for column in readable(partial(_lengths, port) if name != DENSITY else _densities(session), 0, port.count):
        last = first + len(column)
        numbers, values = np.arange(first, last), np.array(column, np.float64)  # of a damaged row, NaN
        if rows is not None:
            low, high = np.searchsorted(rows, (first, last)).tolist()
            numbers = rows[low:high]
            values = values[numbers - first]
        more = np.where(np.isnan(values), np.inf, -values if falling else values)
        kept, keys = np.concatenate([kept, numbers]), np.concatenate([keys, more])
        if len(kept) > 2 * MOST:
            kept, keys = cut()
        job.advance(last - first)
        first = last
    return Order(name, falling, cut()[0], port.count if rows is None else len(rows))


def readable(read: Callable[[int, int], Iterator[Any]], first: int, last: int) -> Iterator[Any]:
    """Yield what is read for an interval of rows, and None for each damaged one, whose line shows the error."""
    try:
        for found in read(first, last):
            yield found
            first += len(found)
    except CorruptError:
        if last - first > 1:
            middle = (first + last) // 2
            yield from readable(read, first, middle)
            yield from readable(read, middle, last)
        else:
            yield [None] * (last - first)


def _densities(session: Session) -> Callable[[int, int], Iterator[Lengths]]:
    """Return what yields the bytes of text per token of rows, in windows."""
    reader, words = session.view.reader, session.vocabulary

    def read(first: int, last: int) -> Iterator[Lengths]:
        for begin in range(first, last, _FEW):
            if not isinstance(reader, RecordReader) and words is not None:
                yield densities(reader, words.decoder, begin, min(begin + _FEW, last))

    return read


def _lengths(port: RowSource, first: int, last: int) -> Iterator[Lengths]:
    """Yield the lengths of the rows `first <= i < last`, in windows."""
    reader = port.reader
    if not isinstance(reader, RecordReader):
        for begin in range(first, last, _AT_ONCE):
            yield np.diff(reader.offsets(begin, min(begin + _AT_ONCE, last)))
        return
    from tokfmt.text.ingest import encoded_batches

    for block in reader.blocks(_BLOCK, first, last):
        if port.unit == "character":
            for batch in reader.texts(block):
                yield [len(text) for text in batch.texts]
        else:
            for ragged in encoded_batches(reader, port.encoder, block):
                yield np.diff(ragged.offsets)
