"""Count lengths and IDs exactly, in counts that add up, and turn the counts into the values of a report.

Table      any integers, sorted: the lengths of all sequences, with exact percentiles
Counts     IDs: an array for the IDs of vocabularies, a bounded table for larger IDs
lengths_of, histogram, packing, ids_of, ends_of, frequencies    the values of a report

The table of lengths needs no bound: a dataset of T tokens has at most sqrt(2 T) different lengths that are not zero,
so the table of 10^12 tokens has less than 1.5 million rows.

IDs below 2^20 are counted in an array. Larger IDs are rare, because no vocabulary has them, only damaged files. A
table counts at most 2^18 distinct ones. If there are more, the IDs with the smallest hashes are kept:

- No region ever drops a kept ID, so its count is exact.
- The kept IDs depend neither on the cut into regions nor on the order of the regions.
- The number of distinct IDs is estimated from the largest kept hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.stats.report import Cost, Ends, Frequencies, Histogram, Id, Ids, Lengths, Packing
from tokfmt.core.format import Decoder
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import distinct
from tokfmt.core.tokenizer_ids import TokenizerIds

_DENSE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A multiset of integers."""

    keys: NDArray[Any]  # distinct, ascending
    counts: NDArray[Any]  # of each value, at least 1; int64, or float64 if estimated from a sample

    @staticmethod
    def empty(dtype: Any = np.int64) -> Table:
        """Return a table without values."""
        return Table(np.empty(0, dtype), np.empty(0, np.int64))

    @staticmethod
    def of(values: NDArray[Any]) -> Table:
        """Return the counts of values in any order."""
        if not len(values):
            return Table.empty(values.dtype)
        if int(values.max()) < min(_DENSE, 8 * len(values)) and int(values.min()) >= 0:
            frequencies = np.bincount(values.astype(np.intp, copy=False))
            keys = np.flatnonzero(frequencies)
            return Table(keys.astype(values.dtype, copy=False), frequencies[keys].astype(np.int64, copy=False))
        return summed(values, np.ones(len(values), np.int64))

    def __add__(self, other: Table) -> Table:
        if not len(self.keys) or not len(other.keys):
            return self if len(self.keys) else other
        return summed(np.concatenate([self.keys, other.keys]), np.concatenate([self.counts, other.counts]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return np.array_equal(self.keys, other.keys) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def total(self) -> int:
        """The number of counted values, rounded if counts are estimated."""
        return _whole(self.counts.sum())

    def count(self, value: int) -> int:
        """Return the number of occurrences of a value, rounded if counts are estimated."""
        return _whole(self.counts[self.keys == value].sum())

    @property
    def weight(self) -> int:
        """The sum of the values; exact below 2^63."""
        return _whole((self.keys.astype(np.int64, copy=False) * self.counts).sum())

    @property
    def mean(self) -> float:
        """The mean of the values; the table must not be empty."""
        total: float = (self.keys.astype(np.int64, copy=False) * self.counts).sum().item()
        return total / float(self.counts.sum())

    def scaled(self, by: float) -> Table:
        """Return the table with all counts multiplied by `by`: the estimate for a dataset from a sample."""
        return self if by == 1 else Table(self.keys, self.counts * by)

    def percentile(self, percent: int) -> int:
        """Return the smallest value that at least `percent` % of the values do not exceed (nearest rank)."""
        if not len(self.keys):
            raise ValueError("no value, no percentile")
        before = np.cumsum(self.counts)
        # compare 100 times the count, so that whole numbers are not rounded
        return int(self.keys[min(int(np.searchsorted(100 * before, percent * before[-1])), len(before) - 1)])

    def binned(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of values in each half-open bin `edges[i] <= value < edges[i + 1]`, int64."""
        before = np.concatenate(([0], np.cumsum(self.counts)))
        return np.rint(np.diff(before[np.searchsorted(self.keys, edges)])).astype(np.int64)


def _whole(value: Any) -> int:
    """Return the nearest whole number of a numpy scalar; an int stays exact."""
    number: int | float = value.item()
    return round(number)


def summed(keys: NDArray[Any], counts: NDArray[Any]) -> Table:
    """Return the table of keys and counts in any order; the counts of equal keys are added."""
    if not len(keys):
        return Table(keys, counts)
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return Table(keys[begins], np.add.reduceat(counts, begins))


DENSE = 1 << 20
"""IDs below this value are counted in an array."""

KEPT = 1 << 18
"""The maximum number of distinct larger IDs that are kept."""

_PIECE = 1 << 18  # IDs; numpy's bincount casts them to 8 bytes per ID, and so many stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The counts of IDs."""

    dense: NDArray[Any]  # int64 of IDs below `DENSE`, a power of two of them; float64 if estimated
    sparse: Table  # of larger IDs
    largest: int = -1  # -1 without any
    clipped: bool = False  # not all IDs of `DENSE` and above are kept

    @staticmethod
    def empty() -> Counts:
        """Return counts without IDs."""
        return Counts(np.zeros(1, np.int64), Table.empty(np.uint64))

    @staticmethod
    def of(tokens: Tokens) -> Counts:
        """Return the counts of a window of IDs."""
        counter = Counter()
        counter.add(tokens)
        return counter.counts()

    def __add__(self, other: Counts) -> Counts:
        small, large = sorted((self.dense, other.dense), key=len)
        dense = large.astype(np.result_type(small, large))
        dense[: len(small)] += small
        sparse, clipped = _bounded(self.sparse + other.sparse)
        return Counts(dense, sparse, max(self.largest, other.largest), clipped or self.clipped or other.clipped)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same = (self.largest, self.clipped) == (other.largest, other.clipped) and self.sparse == other.sparse
        return same and np.array_equal(np.trim_zeros(self.dense, "b"), np.trim_zeros(other.dense, "b"))

    __hash__ = None  # type: ignore[assignment]

    def scaled(self, by: float) -> Counts:
        """Return the counts multiplied by `by`: the estimate for a dataset from a sample."""
        return self if by == 1 else replace(self, dense=self.dense * by, sparse=self.sparse.scaled(by))

    def count(self, token: int) -> int:
        """Return the count of an ID; 0 for an ID of `DENSE` and above that is not kept."""
        if token < len(self.dense):
            return int(self.dense[token]) if token >= 0 else 0
        return int(self.sparse.counts[self.sparse.keys == token].sum()) if token < 1 << 64 else 0

    def without(self, token: int, times: int) -> Counts:
        """Return the counts with `times` occurrences of one ID removed."""
        if not times:
            return self
        dense, sparse = self.dense, self.sparse
        if token < len(dense):
            dense = dense.copy()
            dense[token] -= times
        else:
            counts = sparse.counts - np.where(sparse.keys == token, times, 0)
            sparse = Table(sparse.keys[counts > 0], counts[counts > 0])
        gone = token == self.largest and Counts(dense, sparse).count(token) == 0
        return Counts(dense, sparse, _top(dense, sparse) if gone else self.largest, self.clipped)

    def table(self) -> Table:
        """Return all IDs that are counted (and kept), ascending, with their counts."""
        ids = np.flatnonzero(self.dense)
        keys = np.concatenate([ids.astype(np.uint64), self.sparse.keys.astype(np.uint64)])
        return Table(keys, np.concatenate([self.dense[ids], self.sparse.counts]))

    @property
    def distinct(self) -> int:
        """The number of distinct IDs; an estimate (about 0.2 % off) if `clipped`."""
        below = int(np.count_nonzero(self.dense))
        if not self.clipped:
            return below + len(self.sparse)
        highest = int(_scrambled(self.sparse.keys).max())
        return below + int((KEPT - 1) * 2.0**64 / highest)


class Counter:
    """Counts IDs window by window."""

    def __init__(self) -> None:
        self._dense = np.zeros(1, np.int64)
        self._sparse, self._clipped, self._largest = Table.empty(np.uint64), False, -1

    def add(self, tokens: Tokens) -> None:
        """Count a window of IDs."""
        for a in range(0, len(tokens), _PIECE):
            self._add(tokens[a : a + _PIECE])

    def _add(self, tokens: Tokens) -> None:
        if tokens.dtype.itemsize > 2:
            top = int(tokens.max())
            if top >= DENSE:
                self._add_large(tokens[tokens >= DENSE], top)
                tokens = tokens[tokens < DENSE]
            tokens = tokens.view(f"i{tokens.dtype.itemsize}")  # numpy casts signed integers to intp implicitly
        self._add_dense(np.bincount(tokens, minlength=len(self._dense)))

    def _add_dense(self, frequencies: NDArray[np.intp]) -> None:
        if len(frequencies) > len(self._dense):
            grown = np.zeros(1 << (len(frequencies) - 1).bit_length(), np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        self._dense[: len(frequencies)] += frequencies

    def _add_large(self, tokens: Tokens, top: int) -> None:
        self._largest = max(self._largest, top)
        self._sparse, clipped = _bounded(self._sparse + Table.of(tokens.astype(np.uint64)))
        self._clipped |= clipped

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(self._dense, self._sparse, max(self._largest, _top(self._dense, self._sparse)), self._clipped)


def _top(dense: NDArray[np.int64], sparse: Table) -> int:
    """Return the largest ID with a count; -1 without any."""
    if len(sparse):
        return int(sparse.keys[-1])
    keys = np.flatnonzero(dense)
    return int(keys[-1]) if len(keys) else -1


def _bounded(table: Table) -> tuple[Table, bool]:
    """Return the `KEPT` rows of a table with the smallest hashes, and True if rows were left out."""
    if len(table) <= KEPT:
        return table, False
    hashes = _scrambled(table.keys)
    smallest = np.sort(np.argpartition(hashes, KEPT)[:KEPT])
    return Table(table.keys[smallest], table.counts[smallest]), True


def _scrambled(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each ID (the finalizer of splitmix64, a bijection): distinct IDs have distinct hashes."""
    mixed = ids.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


PERCENTILES = (1, 5, 25, 50, 75, 95, 99)

_FIGURES = ("min", "mean", *(f"p{percent}" for percent in PERCENTILES), "max")
_BINS = 24
_SPREAD = 8  # if the largest length is this many times the 1st percentile, bins grow with the length


def lengths_of(table: Table, unit: str) -> Lengths:
    """Return the percentiles, the mean and the histogram of lengths."""
    if not len(table):
        nothing = Histogram("linear", [0, 1], [0])
        return Lengths(unit, **dict.fromkeys(_FIGURES), histogram=nothing)
    points = {f"p{percent}": table.percentile(percent) for percent in PERCENTILES}
    return Lengths(
        unit, min=int(table.keys[0]), mean=table.mean, **points, max=int(table.keys[-1]), histogram=histogram(table)
    )


def histogram(table: Table) -> Histogram:
    """Return a histogram of about 24 bins: of one width if the lengths are similar, else growing with the length."""
    low, high = int(table.keys[0]), int(table.keys[-1])
    if high - low < _BINS:
        scale, edges = "linear", np.arange(low, high + 2)
    elif high < _SPREAD * max(1, table.percentile(1)):
        scale, edges = "linear", _even(low, high)
    else:
        scale, edges = "log", _growing(low, high)
    return Histogram(scale, edges.tolist(), table.binned(edges).tolist())


def _even(low: int, high: int) -> NDArray[np.int64]:
    """Return edges at a distance of 1, 2 or 5 times a power of ten."""
    step, power = 1, 1
    while (high - low) // step >= _BINS:
        step = next(s * power for s in (1, 2, 5, 10) if s * power > step)
        power = power * 10 if step == power * 10 else power
    return np.arange(low // step * step, high // step * step + step + 1, step, dtype=np.int64)


def _growing(low: int, high: int) -> NDArray[np.int64]:
    """Return edges at 0, 1, 2, 3, 4, 6, 8, 12, 16 ..., or at powers of two if those are too many."""
    powers = [1 << k for k in range(high.bit_length() + 1)]
    halves = [p + p // 2 for p in powers if p > 1]
    first, last = max(low, 1).bit_length() - 1, high.bit_length()
    edges = sorted({0, *powers, *(halves if 2 * (last - first) <= _BINS + 4 else [])})
    inner = [edge for edge in edges if edge <= high]
    begin = max(edge for edge in inner if edge <= low)
    end = min(edge for edge in edges if edge > high)
    return np.array([edge for edge in inner if edge >= begin] + [end], np.int64)


def packing(table: Table, seq_len: int, *, separator: bool) -> Packing:
    """Return the cost of samples of `seq_len` tokens, with a `separator` behind each document or without."""
    packed = table.keys.astype(np.int64) + separator
    counts, documents = table.counts, table.total
    stream = round((packed * counts).sum().item())
    samples = -(-stream // seq_len)
    # a document of m tokens crosses a border from m - 1 of the seq_len positions at which it can begin
    cut = round((np.clip(packed - 1, 0, seq_len) * counts).sum().item() / seq_len)
    each = -(-packed // seq_len)
    alone = round((each * counts).sum().item())
    parted = round(counts[packed > seq_len].sum().item())
    return Packing(
        seq_len,
        separator,
        _cost(samples, stream, seq_len, (cut, documents)),
        _cost(alone, stream, seq_len, (parted, documents)),
    )


def _cost(samples: int, tokens: int, seq_len: int, cut: tuple[int, int]) -> Cost:
    room = samples * seq_len
    padding, documents = room - tokens, cut[1]
    return Cost(samples, padding, padding / room if room else 0.0, cut[0], cut[0] / documents if documents else 0.0)


LISTED_TOKENS = 10
"""Number of most and of least frequent IDs that are listed."""
_POINTS = 200

Spelling = Callable[[int], str | None]


def spelling(decoder: Decoder | None) -> Spelling:
    """Return a function that decodes a single ID; it returns None without a decoder."""
    return (lambda token: None) if decoder is None else (lambda token: decoder.decode([token]))


def ids_of(read_ids: Counts, counts: Counts, vocabulary: TokenizerIds | None, spelled: Spelling) -> Ids:
    """Return the statistics of the IDs in the sequences that were read, and `counts` of the complete dataset."""
    table = counts.table()
    total = table.total
    most = np.lexsort((table.keys, -table.counts))[:LISTED_TOKENS]
    least = np.lexsort((table.keys, table.counts))[:LISTED_TOKENS]
    beyond = coverage = None
    if vocabulary is not None:
        outside = vocabulary.lacks(table.keys)
        beyond = round(table.counts[outside].sum().item())
        coverage = int(np.count_nonzero(~outside)) / vocabulary.size
    return Ids(
        distinct=read_ids.distinct,
        estimated=read_ids.clipped,
        once=int(np.count_nonzero(read_ids.dense == 1)) + int(np.count_nonzero(read_ids.sparse.counts == 1)),
        vocab_size=None if vocabulary is None else vocabulary.size,
        coverage=coverage,
        beyond=beyond,
        beyond_query=None if vocabulary is None else vocabulary.query,
        most_frequent=_listed(table, most, total, spelled),
        least_frequent=_listed(table, least, total, spelled),
        frequencies=frequencies(table.counts),
    )


def ends_of(counts: Counts, spelled: Spelling) -> Ends:
    """Return the statistics of first or last tokens."""
    table = counts.table()
    total = table.total
    top = _listed(table, np.lexsort((table.keys, -table.counts))[:LISTED_TOKENS], total, spelled)
    return Ends(top[0].id if top else None, top[0].share if top else 0.0, counts.distinct, top)


def _listed(table: Table, rows: NDArray[np.intp], total: int, spelled: Spelling) -> list[Id]:
    top = zip(table.keys[rows].tolist(), table.counts[rows].tolist(), strict=True)
    return [Id(token, round(count), count / total, spelled(token)) for token, count in top]


def frequencies(counts: NDArray[Any]) -> Frequencies:
    """Return the curve of frequency over rank, at 200 ranks or fewer that are evenly spaced on a log scale."""
    if not len(counts):
        return Frequencies([], [])
    falling = np.sort(counts)[::-1]
    ranks = distinct(np.geomspace(1, len(falling), _POINTS).round().astype(np.int64))
    return Frequencies(ranks.tolist(), list(map(round, falling[ranks - 1].tolist())))
