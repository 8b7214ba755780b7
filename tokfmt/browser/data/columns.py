"""Columns of the list beside those of every dataset: sources, share masked, fields of records. And the order by one.

A column reads its values when they are shown, in a worker. An order reads them all, and keeps the first ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.browser.data.opening import recipe_of, samples_of
from tokfmt.browser.data.parts import names_of
from tokfmt.browser.data.rows import RecordSource, RowSource
from tokfmt.browser.data.session import Session
from tokfmt.browser.data.workers import Job
from tokfmt.core.loss_mask import Flags, counted_of, is_masked, padding_of
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import CorruptError, TokfmtError
from tokfmt.wording import printable, shortened

if TYPE_CHECKING:
    from tokfmt.core.format import Encoder
    from tokfmt.mix import Samples

Value = str | int | float | None
Values = Sequence[Value]
Rows = NDArray[np.int64]

MOST = 1 << 20
"""Limit of the rows that an order lists."""

MOST_WORDS = 1 << 17
"""Limit of the rows that an order by words lists, as each word takes a hundred bytes."""

_KEPT = 4096  # rows whose values are cached
_CELLS = 24  # characters of a value
_COUNTED = 1 << 26  # positions whose padding is counted
_LONGEST = 1 << 20  # tokens of a row whose masks are counted
_AT_ONCE = 1 << 14  # rows of an order that are read at once
_FIRST = 16  # records whose fields are columns
_BLOCK = 1 << 20  # bytes


class RowColumn:
    """A column of the list. `peek` is for drawing, `load` is for a worker.

    Args:
        name: The name, which is the heading.
        read: Returns the values of the rows `first <= i < last`.
        numeric: Values are numbers, which are aligned to the right.
        show: Returns a value in characters.
        every: Yields the values of all rows, given their number, for a reader that is slow to find a row.
    """

    has_strip = False
    """The list draws `strip` before the value."""

    def __init__(
        self,
        name: str,
        read: Callable[[int, int], Values],
        *,
        numeric: bool,
        show: Callable[[Value], str] | None = None,
        every: Callable[[int], Iterator[Values]] | None = None,
    ) -> None:
        self.name, self.read, self.numeric = name, read, numeric
        self._show, self._every = show or shown, every
        self._held = Recent[int, str](_KEPT)

    def peek(self, row: int) -> str | None:
        """Return the value of a row in characters; None if it is not loaded."""
        return self._held.get(row)

    def strip(self, row: int, cells: int) -> Iterator[tuple[int, int]]:  # noqa: ARG002 - those of a subclass
        """Yield the parts of a strip of some cells: the number of cells, and the source; -1 is padding."""
        yield from ()

    def load(self, rows: Sequence[int]) -> None:
        """Read the values of ascending rows that are not loaded."""
        missing = [row for row in rows if self._held.get(row) is None]
        for first, last in _runs(missing):
            try:
                values = self.read(first, last)
            except TokfmtError:
                values = [None] * (last - first)  # the row shows the error
            for row, value in zip(range(first, last), values, strict=True):
                self._held.put(row, self._show(value))

    def all(self, count: int) -> Iterator[Values]:
        """Yield the values of all rows, in windows."""
        if self._every is not None:
            yield from self._every(count)
            return
        for first in range(0, count, _AT_ONCE):
            yield self.read(first, min(first + _AT_ONCE, count))


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the intervals of consecutive numbers."""
    bounds = [0, *(k for k, (a, b) in enumerate(pairwise(rows), 1) if b != a + 1), len(rows)]
    yield from ((rows[a], rows[b - 1] + 1) for a, b in pairwise(bounds) if a < b)


def shown(value: Value) -> str:
    """Return a value in at most 24 characters."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else shortened(printable(value), _CELLS)


def columns_of(session: Session) -> list[RowColumn]:
    """Return the columns that the format of a dataset has. Reads the first records."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return _of_records(reader, session.port.count)
    found = list[RowColumn]()
    recipe = recipe_of(reader)
    if recipe is not None:
        samples = samples_of(recipe)
        found += [] if samples is None else [StripColumn(samples)]
        found.append(RowColumn("source", lambda a, b: [names_of(recipe, row) for row in range(a, b)], numeric=False))
    if padding_of(reader, 0, 0) is not None:
        found.append(RowColumn("padding", partial(padded, reader), numeric=True, show=_share))
    if _is_masked(reader):
        found.append(RowColumn("masked", partial(masked, reader), numeric=True, show=_share))
    return found


def _share(value: Value) -> str:
    if not isinstance(value, float):
        return ""
    return "<1%" if 0 < value < 0.005 else ">99%" if 0.995 <= value < 1 else f"{value:.0%}"


def _is_masked(reader: TokenReader) -> bool:
    try:
        return is_masked(reader)
    except TokfmtError:
        return False


def masked(reader: TokenReader, first: int, last: int) -> list[float | None]:
    """Return the share of the positions of each row that train no target; None for empty and for long rows."""
    return [None if share is None else 1 - share for share in _shares(counted_of, reader, first, last)]


def padded(reader: TokenReader, first: int, last: int) -> list[float | None]:
    """Return the share of the positions of each row that are padding; None for empty and for long rows."""
    return _shares(padding_of, reader, first, last)


def _shares(
    flags_of: Callable[[TokenReader, int, int], Flags | None], reader: TokenReader, first: int, last: int
) -> list[float | None]:
    found: list[float | None] = []
    for start, stop in pairwise(reader.offsets(first, last).tolist()):
        flags = flags_of(reader, start, stop) if 0 < stop - start <= _LONGEST else None
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
    """The fill of each sample of a recipe, as a strip of its sources.

    Args:
        samples: The samples.
    """

    has_strip = True

    def __init__(self, samples: Samples) -> None:
        super().__init__("fill", self._filled, numeric=True, show=_share)
        self._samples, self._strips = samples, Recent[int, Sequence[tuple[float, int]]](_KEPT)

    def _filled(self, first: int, last: int) -> Sequence[Value]:
        samples = self._samples
        for row in range(first, last):
            self._strips.put(row, _strip(samples, row))
        return [samples.filled(row) / (samples.seq_len or 1) for row in range(first, last)]

    def strip(self, row: int, cells: int) -> Iterator[tuple[int, int]]:
        bounds = self._strips.get(row) or ()
        owners = [
            next((shade for stop, shade in bounds if (2 * cell + 1) / (2 * cells) < stop), -1) for cell in range(cells)
        ]
        if bounds and owners and owners[0] < 0:  # a sample with a token shows it
            owners[0] = bounds[0][1]
        yield from ((sum(1 for _ in group), shade) for shade, group in groupby(owners))


def _strip(samples: Samples, row: int) -> list[tuple[float, int]]:
    """Return the end of each part of a sample, as a share of it, and its source."""
    width, filled, at, bounds = samples.seq_len or 1, samples.filled(row), 0, list[tuple[float, int]]()
    for span in samples.spans(row):
        at += span.stop - span.start
        bounds.append((min(at, filled) / width, span.source))
    return bounds


# fields of records


def _of_records(reader: RecordReader, count: int) -> list[RowColumn]:
    """Return a column for each field of the first records, other than the one that is shown."""
    if not (reader.info.json_lines or reader.is_table):
        return []
    held = FieldRows(reader)
    try:
        first = next(_fields(reader, 0, None, _FIRST), [])
    except CorruptError:
        first = fields_of(reader, 0, min(_FIRST, count))
    names = dict.fromkeys(name for record in first for name in record)
    return [
        RowColumn(
            name, partial(held.read, name), numeric=_are_numbers(first, name), every=partial(_every, reader, name)
        )
        for name in names
    ]


def _every(reader: RecordReader, name: str, count: int) -> Iterator[Values]:
    for records in readable(partial(_fields, reader), 0, count):
        yield [None if record is None else record.get(name) for record in records]


def _are_numbers(records: Iterable[Mapping[str, Value]], name: str) -> bool:
    values = [record[name] for record in records if record.get(name) is not None]
    return bool(values) and not any(isinstance(value, str) for value in values)


class FieldRows:
    """The fields of records, read once for all columns."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader, self._held = reader, Recent[int, Mapping[str, Value]](_KEPT)

    def read(self, name: str, first: int, last: int) -> Values:
        """Return a field of the records `first <= i < last`."""
        found = [self._held.get(row) for row in range(first, last)]
        if any(record is None for record in found):
            found = [*fields_of(self._reader, first, last)]
            for row, record in zip(range(first, last), found, strict=True):
                self._held.put(row, record or {})
        return [(record or {}).get(name) for record in found]


def fields_of(reader: RecordReader, first: int, last: int) -> list[Mapping[str, Value]]:
    """Return the fields of the records `first <= i < last`, without the one that is shown; none if it is damaged."""
    found = [record or {} for records in readable(partial(_fields, reader), first, last) for record in records]
    return found + [{}] * (last - first - len(found))


def _fields(
    reader: RecordReader, first: int, last: int | None, most: int = _AT_ONCE
) -> Iterator[list[Mapping[str, Value]]]:
    """Yield the fields of records, at most `most` at once; with `last` None up to the end, which is not counted."""
    for block in reader.blocks(_BLOCK) if last is None else reader.blocks(_BLOCK, first, last):
        records = _records(reader, block)
        while some := list(islice(records, most)):
            yield some


def readable(read: Callable[[int, int], Iterator[Any]], first: int, last: int) -> Iterator[Any]:
    """Yield what is read for rows, and None for each damaged row, whose error its line in the list shows.

    Args:
        read: Yields what it reads for the rows `first <= i < last`, in order, some rows at once.
        first: The first row.
        last: The end.
    """
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


def _records(reader: RecordReader, block: Block) -> Iterator[Mapping[str, Value]]:
    hidden = reader.info.field
    if reader.is_table:
        for _, row in reader.texts_with_columns(block):
            yield {name: _value(value) for name, value in row.items() if name != hidden}
        return
    for batch in reader.lines(block):
        for line in batch.lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = {}
            named = record if isinstance(record, dict) else {}
            yield {str(name): _value(value) for name, value in named.items() if name != hidden}


def _value(value: Any) -> Value:
    """Return a value of a record: a number, or words of at most a hundred characters."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return value[:100]
    return str(value)[:100] if not isinstance(value, (dict, list)) else json.dumps(value, default=str)[:100]


# the order of the list


@dataclass(frozen=True, slots=True)
class Order:
    """The rows in the order of a column.

    Attributes:
        name: Name of the column.
        falling: The largest value is first.
        rows: The rows, int64; the first `MOST` of them.
        total: Number of rows that were ordered.
    """

    name: str
    falling: bool
    rows: Rows
    total: int


def order_of(session: Session, column: RowColumn | None, rows: Rows | None, job: Job, *, falling: bool) -> Order:
    """Return rows in the order of a column. Reads the column of all rows.

    Args:
        session: The dataset.
        column: The column; None for the lengths.
        rows: The listed rows, ascending; None for all.
        job: The progress of the work.
        falling: Begin with the largest value.

    Raises:
        TokfmtError: A row cannot be read.
    """
    port = session.port
    job.phase("sorting", port.count, "rows")
    best = _Best(numeric=column is None or column.numeric, falling=falling)
    first = 0
    for values in readable(partial(_lengths, port), 0, port.count) if column is None else column.all(port.count):
        last = first + len(values)
        numbers = np.arange(first, last)
        if rows is not None:
            low, high = np.searchsorted(rows, (first, last)).tolist()
            numbers = rows[low:high]
        best.add(numbers, values if rows is None else _taken(values, numbers - first))
        job.advance(last - first)
        first = last
    total = port.count if rows is None else len(rows)
    return Order("length" if column is None else column.name, falling, best.rows(), total)


def _taken(values: Values | Rows, places: Rows) -> Values | Rows:
    return values[places] if isinstance(values, np.ndarray) else [values[k] for k in places.tolist()]


def _number(value: Value) -> float:
    return np.nan if value is None or isinstance(value, str) else value


def _lengths(port: RowSource, first: int, last: int) -> Iterator[Rows | Values]:
    """Yield the lengths of the rows `first <= i < last`, in windows."""
    reader = port.reader
    if not isinstance(reader, RecordReader):
        for begin in range(first, last, _AT_ONCE):
            yield np.diff(reader.offsets(begin, min(begin + _AT_ONCE, last)))
        return
    from tokfmt.text.ingest import encoded_batches

    encoder: Encoder | None = port.encoder if isinstance(port, RecordSource) else None
    for block in reader.blocks(_BLOCK << 2, first, last):
        if reader.info.kind == "text" and encoder is None:
            for batch in reader.texts(block):
                yield [len(text) for text in batch.texts]
        else:
            for ragged in encoded_batches(reader, encoder, block):
                yield np.diff(ragged.offsets)


class _Best:
    """The first rows in an order, of many that are added in ascending order. Equal values stay in that order."""

    def __init__(self, *, numeric: bool, falling: bool) -> None:
        self._numeric, self._falling, self._limit = numeric, falling, MOST if numeric else MOST_WORDS
        self._rows, self._keys = np.empty(0, np.int64), np.empty(0, np.float64)
        self._words: list[tuple[str, int]] = []

    def add(self, rows: Rows, values: Values | Rows) -> None:
        """Add rows with their values; a row without a value is last."""
        if self._numeric:
            known = values if isinstance(values, np.ndarray) else list(map(_number, values))
            keys = np.asarray(known, np.float64) * (-1 if self._falling else 1)
            self._rows = np.concatenate([self._rows, rows])
            self._keys = np.concatenate([self._keys, np.where(np.isnan(keys), np.inf, keys)])
            if len(self._rows) > 2 * self._limit:
                self._cut()
            return
        self._words += zip(("" if value is None else str(value) for value in values), rows.tolist(), strict=True)
        if len(self._words) > 2 * self._limit:
            self._cut()

    def _cut(self) -> None:
        if self._numeric:
            order = np.argsort(self._keys, kind="stable")[: self._limit]
            self._rows, self._keys = self._rows[order], self._keys[order]
        else:
            # without a value last; `reverse` keeps the order of equal words
            self._words.sort(key=lambda one: one[0], reverse=self._falling)
            if not self._falling:
                self._words.sort(key=lambda one: not one[0])
            del self._words[self._limit :]

    def rows(self) -> Rows:
        """Return the rows in order."""
        self._cut()
        return self._rows if self._numeric else np.array([row for _, row in self._words], np.int64)
