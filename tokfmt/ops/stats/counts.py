"""How often each token id occurs: an array for the ids of any vocabulary, a bounded table for absurd ones.

Ids below 2^20 are counted in an array. Larger ones are rare (no vocabulary has them, damaged files have) and go to a
table of at most 2^18 distinct ids. When there are more, those with the smallest hashes are kept: an id that stays was
never dropped by any part, so its count is exact, and which ids stay depends neither on how the tokens were cut nor on
the order of the parts. The number of distinct ids is then estimated from the largest hash that was kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Tokens
from tokfmt.ops.stats.table import Table

DENSE = 1 << 20
"""Ids below this are counted in an array."""

KEPT = 1 << 18
"""Distinct ids kept of the larger ones."""

_PIECE = 1 << 18  # ids; numpy's bincount casts to 8 bytes an id, and this much stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each id occurs.

    Attributes:
        dense: int64[size], of ids below `DENSE`; the size is a power of two.
        sparse: Of larger ids.
        largest: The largest id, -1 when there is none.
        clipped: Not all ids of `DENSE` and above were kept.
    """

    dense: NDArray[np.int64]
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
        dense = large.copy()
        dense[: len(small)] += small
        sparse, clipped = _bounded(self.sparse + other.sparse)
        return Counts(dense, sparse, max(self.largest, other.largest), clipped or self.clipped or other.clipped)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same = (self.largest, self.clipped) == (other.largest, other.clipped) and self.sparse == other.sparse
        return same and np.array_equal(np.trim_zeros(self.dense, "b"), np.trim_zeros(other.dense, "b"))

    __hash__ = None  # type: ignore[assignment]

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
