"""How often each length and each id occurs, exactly and additively; and what such counts tell.

Table      any integers, sorted: the lengths of all sequences, from which every percentile is exact
Counts     ids: an array for those of any vocabulary, a bounded table for absurd ones
lengths_of, histogram, packing, ids_of, ends_of, frequencies    what is said of them in a report

The lengths of the sequences of a dataset need no bound: a dataset of T tokens has at most sqrt(2 T) different lengths
that are not zero, so the table of 10^12 tokens has less than 1.5 million rows.

Ids below 2^20 are counted in an array. Larger ones are rare (no vocabulary has them, damaged files have) and go to a
table of at most 2^18 distinct ids. When there are more, those with the smallest hashes are kept: an id that stays was
never dropped by any part, so its count is exact, and which ids stay depends neither on how the tokens were cut nor on
the order of the parts. The number of distinct ids is then estimated from the largest hash that was kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Decoder
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import distinct
from tokfmt.ops.stats.report import Cost, Ends, Frequencies, Histogram, Id, Ids, Lengths, Packing

_DENSE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A multiset of integers.

    Attributes:
        keys: The values that occur, ascending, each once.
        counts: int64, how often each occurs; at least 1. float64 where they are estimated from a sample.
    """

    keys: NDArray[Any]
    counts: NDArray[Any]

    @staticmethod
    def empty(dtype: Any = np.int64) -> Table:
        """No value at all."""
        return Table(np.empty(0, dtype), np.empty(0, np.int64))

    @staticmethod
    def of(values: NDArray[Any]) -> Table:
        """Count some values."""
        if not len(values):
            return Table.empty(values.dtype)
        if int(values.max()) < min(_DENSE, 8 * len(values)) and int(values.min()) >= 0:
            found = np.bincount(values.astype(np.intp, copy=False))
            keys = np.flatnonzero(found)
            return Table(keys.astype(values.dtype, copy=False), found[keys].astype(np.int64, copy=False))
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
        """How many values were counted; to the nearest whole number where counts are estimated."""
        return _whole(self.counts.sum())

    def count(self, value: int) -> int:
        """How often one value occurs."""
        return _whole(self.counts[self.keys == value].sum())

    @property
    def weight(self) -> int:
        """Their sum; exact, as long as it is below 2^63."""
        return _whole((self.keys.astype(np.int64, copy=False) * self.counts).sum())

    @property
    def mean(self) -> float:
        """Of the values, of which there must be one."""
        total: float = (self.keys.astype(np.int64, copy=False) * self.counts).sum().item()
        return total / float(self.counts.sum())

    def scaled(self, by: float) -> Table:
        """The same, each value counted so many times as often: what a sample says of the whole."""
        return self if by == 1 else Table(self.keys, self.counts * by)

    def percentile(self, percent: int) -> int:
        """The smallest value that at least `percent` per cent of the values do not exceed (nearest rank).

        Raises:
            ValueError: There is no value.
        """
        if not len(self.keys):
            raise ValueError("no value, no percentile")
        before = np.cumsum(self.counts)
        # of whole numbers 100 times the count is compared, so that nothing is rounded
        return int(self.keys[min(int(np.searchsorted(100 * before, percent * before[-1])), len(before) - 1)])

    def binned(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many values lie in each of the half-open bins `edges[i] <= value < edges[i + 1]`."""
        before = np.concatenate(([0], np.cumsum(self.counts)))
        return np.rint(np.diff(before[np.searchsorted(self.keys, edges)])).astype(np.int64)


def _whole(value: Any) -> int:
    """The nearest whole number; what is one already is not rounded."""
    found: int | float = value.item()
    return round(found)


def summed(keys: NDArray[Any], counts: NDArray[Any]) -> Table:
    """A table of keys in any order, each any number of times."""
    if not len(keys):
        return Table(keys, counts)
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return Table(keys[begins], np.add.reduceat(counts, begins))


DENSE = 1 << 20
"""Ids below this are counted in an array."""

KEPT = 1 << 18
"""Distinct ids kept of the larger ones."""

_PIECE = 1 << 18  # ids; numpy's bincount casts to 8 bytes an id, and this much stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each id occurs.

    Attributes:
        dense: int64[size], of ids below `DENSE`; the size is a power of two. float64 where it is estimated.
        sparse: Of larger ids.
        largest: The largest id, -1 when there is none.
        clipped: Not all ids of `DENSE` and above were kept.
    """

    dense: NDArray[Any]
    sparse: Table
    largest: int = -1
    clipped: bool = False

    @staticmethod
    def empty() -> Counts:
        """Nothing was counted."""
        return Counts(np.zeros(1, np.int64), Table.empty(np.uint64))

    @staticmethod
    def of(tokens: Tokens) -> Counts:
        """Count some ids."""
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
        """The same, each id counted so many times as often: what a sample says of the whole."""
        return self if by == 1 else replace(self, dense=self.dense * by, sparse=self.sparse.scaled(by))

    def count(self, token: int) -> int:
        """How often an id occurs; of one of `DENSE` and above as far as it was kept."""
        if token < len(self.dense):
            return int(self.dense[token]) if token >= 0 else 0
        return int(self.sparse.counts[self.sparse.keys == token].sum()) if token < 1 << 64 else 0

    def without(self, token: int, times: int) -> Counts:
        """The same with so many fewer of one id."""
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
        """All ids that occur (and were kept), ascending, with their counts."""
        ids = np.flatnonzero(self.dense)
        keys = np.concatenate([ids.astype(np.uint64), self.sparse.keys.astype(np.uint64)])
        return Table(keys, np.concatenate([self.dense[ids], self.sparse.counts]))

    @property
    def distinct(self) -> int:
        """Number of distinct ids; an estimate (about 0.2 % off) when `clipped`."""
        below = int(np.count_nonzero(self.dense))
        if not self.clipped:
            return below + len(self.sparse)
        highest = int(_scrambled(self.sparse.keys).max())
        return below + int((KEPT - 1) * 2.0**64 / highest)


class Counter:
    """Counts ids, window by window."""

    def __init__(self) -> None:
        self._dense = np.zeros(1, np.int64)
        self._sparse, self._clipped, self._largest = Table.empty(np.uint64), False, -1

    def add(self, tokens: Tokens) -> None:
        """Count a window of ids."""
        for a in range(0, len(tokens), _PIECE):
            self._add(tokens[a : a + _PIECE])

    def _add(self, tokens: Tokens) -> None:
        if tokens.dtype.itemsize > 2:
            top = int(tokens.max())
            if top >= DENSE:
                self._add_large(tokens[tokens >= DENSE], top)
                tokens = tokens[tokens < DENSE]
            tokens = tokens.view(f"i{tokens.dtype.itemsize}")  # what numpy casts to intp without being asked
        self._add_dense(np.bincount(tokens, minlength=len(self._dense)))

    def _add_dense(self, found: NDArray[np.intp]) -> None:
        if len(found) > len(self._dense):
            grown = np.zeros(1 << (len(found) - 1).bit_length(), np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        self._dense[: len(found)] += found

    def _add_large(self, tokens: Tokens, top: int) -> None:
        self._largest = max(self._largest, top)
        self._sparse, clipped = _bounded(self._sparse + Table.of(tokens.astype(np.uint64)))
        self._clipped |= clipped

    def counts(self) -> Counts:
        """What was counted so far."""
        return Counts(self._dense, self._sparse, max(self._largest, _top(self._dense, self._sparse)), self._clipped)


def _top(dense: NDArray[np.int64], sparse: Table) -> int:
    """The largest id that occurs, -1 if none does."""
    if len(sparse):
        return int(sparse.keys[-1])
    found = np.flatnonzero(dense)
    return int(found[-1]) if len(found) else -1


def _bounded(table: Table) -> tuple[Table, bool]:
    """At most `KEPT` rows of a table of large ids, those with the smallest hashes; and whether any were left out."""
    if len(table) <= KEPT:
        return table, False
    hashes = _scrambled(table.keys)
    kept = np.sort(np.argpartition(hashes, KEPT)[:KEPT])
    return Table(table.keys[kept], table.counts[kept]), True


def _scrambled(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A bijection of 64-bit numbers that leaves no pattern (the finaliser of splitmix64): distinct ids never tie."""
    mixed = ids.astype(np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


PERCENTILES = (1, 5, 25, 50, 75, 95, 99)

_FIGURES = ("min", "mean", *(f"p{percent}" for percent in PERCENTILES), "max")
_BINS = 24
_SPREAD = 8  # from which ratio of largest to small on bins grow with the length


def lengths_of(table: Table, unit: str) -> Lengths:
    """All that is said of lengths.

    Args:
        unit: "tokens" or "characters".
    """
    if not len(table):
        nothing = Histogram("linear", [0, 1], [0])
        return Lengths(unit, **dict.fromkeys(_FIGURES), histogram=nothing)
    points = {f"p{percent}": table.percentile(percent) for percent in PERCENTILES}
    return Lengths(
        unit, min=int(table.keys[0]), mean=table.mean, **points, max=int(table.keys[-1]), histogram=histogram(table)
    )


def histogram(table: Table) -> Histogram:
    """About 24 bins that suit the lengths: of one width when they are alike, else growing with the length."""
    low, high = int(table.keys[0]), int(table.keys[-1])
    if high - low < _BINS:
        scale, edges = "linear", np.arange(low, high + 2)
    elif high < _SPREAD * max(1, table.percentile(1)):
        scale, edges = "linear", _even(low, high)
    else:
        scale, edges = "log", _growing(low, high)
    return Histogram(scale, edges.tolist(), table.binned(edges).tolist())


def _even(low: int, high: int) -> NDArray[np.int64]:
    """Edges a round number apart."""
    step, power = 1, 1
    while (high - low) // step >= _BINS:
        step = next(s * power for s in (1, 2, 5, 10) if s * power > step)
        power = power * 10 if step == power * 10 else power
    return np.arange(low // step * step, high // step * step + step + 1, step, dtype=np.int64)


def _growing(low: int, high: int) -> NDArray[np.int64]:
    """Edges at 0, 1, 2, 3, 4, 6, 8, 12, 16 ..., or at powers of two when that makes too many."""
    powers = [1 << k for k in range(high.bit_length() + 1)]
    halves = [p + p // 2 for p in powers if p > 1]
    first, last = max(low, 1).bit_length() - 1, high.bit_length()
    edges = sorted({0, *powers, *(halves if 2 * (last - first) <= _BINS + 4 else [])})
    inner = [edge for edge in edges if edge <= high]
    begin = max(edge for edge in inner if edge <= low)
    end = min(edge for edge in edges if edge > high)
    return np.array([edge for edge in inner if edge >= begin] + [end], np.int64)


def packing(table: Table, seq_len: int, *, separator: bool) -> Packing:
    """What samples of `seq_len` tokens cost; see `report.Packing`."""
    packed = table.keys.astype(np.int64) + separator
    counts, documents = table.counts, table.total
    stream = round((packed * counts).sum().item())
    samples = -(-stream // seq_len)
    # a document of m tokens lies across a border for m - 1 of seq_len places at which it may begin
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


TOP = 10
_POINTS = 200

Spelling = Callable[[int], str | None]


def spelling(decoder: Decoder | None) -> Spelling:
    """What an id stands for by itself; nothing without a tokenizer."""
    return (lambda token: None) if decoder is None else (lambda token: decoder.decode([token]))


def ids_of(looked: Counts, counts: Counts, vocab_size: int | None, spelled: Spelling) -> Ids:
    """All that is said of the ids in the sequences.

    Args:
        looked: Ids that were looked at, without separators.
        counts: What they say of the whole; the same unless it is a sample.
        vocab_size: Of --vocab-size or a tokenizer.
        spelled: See `spelling`.
    """
    table = counts.table()
    total = table.total
    most = np.lexsort((table.keys, -table.counts))[:TOP]
    least = np.lexsort((table.keys, table.counts))[:TOP]
    beyond = coverage = None
    if vocab_size is not None:
        inside = int(np.searchsorted(table.keys, vocab_size))
        beyond = round(table.counts[inside:].sum().item())
        coverage = inside / vocab_size
    return Ids(
        distinct=looked.distinct,
        estimated=looked.clipped,
        once=int(np.count_nonzero(looked.dense == 1)) + int(np.count_nonzero(looked.sparse.counts == 1)),
        vocab_size=vocab_size,
        coverage=coverage,
        beyond=beyond,
        most_frequent=_listed(table, most, total, spelled),
        least_frequent=_listed(table, least, total, spelled),
        frequencies=frequencies(table.counts),
    )


def ends_of(counts: Counts, spelled: Spelling) -> Ends:
    """What is said of first or last tokens."""
    table = counts.table()
    total = table.total
    top = _listed(table, np.lexsort((table.keys, -table.counts))[:TOP], total, spelled)
    return Ends(top[0].id if top else None, top[0].share if top else 0.0, counts.distinct, top)


def _listed(table: Table, rows: NDArray[np.intp], total: int, spelled: Spelling) -> list[Id]:
    found = zip(table.keys[rows].tolist(), table.counts[rows].tolist(), strict=True)
    return [Id(token, round(count), count / total, spelled(token)) for token, count in found]


def frequencies(counts: NDArray[Any]) -> Frequencies:
    """The curve of frequency over rank, at ranks evenly spaced on a log scale."""
    if not len(counts):
        return Frequencies([], [])
    falling = np.sort(counts)[::-1]
    ranks = distinct(np.geomspace(1, len(falling), _POINTS).round().astype(np.int64))
    return Frequencies(ranks.tolist(), list(map(round, falling[ranks - 1].tolist())))
