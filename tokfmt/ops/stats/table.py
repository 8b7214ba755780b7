"""How often each value occurs, as a sorted table: exact for any integers, and additive.

The lengths of the sequences of a dataset need no bound: a dataset of T tokens has at most sqrt(2 T) different lengths
that are not zero, so the table of 10^12 tokens has less than 1.5 million rows. All percentiles are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DENSE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A multiset of integers.

    Attributes:
        keys: The values that occur, ascending, each once.
        counts: int64, how often each occurs; at least 1.
    """

    keys: NDArray[Any]
    counts: NDArray[np.int64]

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
        """How many values were counted."""
        return int(self.counts.sum())

    @property
    def weight(self) -> int:
        """Their sum; exact, as long as it is below 2^63."""
        return int((self.keys.astype(np.int64, copy=False) * self.counts).sum())

    def percentile(self, percent: int) -> int:
        """The smallest value that at least `percent` per cent of the values do not exceed (nearest rank).

        Raises:
            ValueError: There is no value.
        """
        if not len(self.keys):
            raise ValueError("no value, no percentile")
        rank = max(1, -(-percent * self.total // 100))
        return int(self.keys[np.searchsorted(np.cumsum(self.counts), rank)])

    def binned(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many values lie in each of the half-open bins `edges[i] <= value < edges[i + 1]`."""
        before = np.concatenate(([0], np.cumsum(self.counts)))
        return np.diff(before[np.searchsorted(self.keys, edges)])


def summed(keys: NDArray[Any], counts: NDArray[np.int64]) -> Table:
    """A table of keys in any order, each any number of times."""
    if not len(keys):
        return Table(keys, counts)
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return Table(keys[begins], np.add.reduceat(counts, begins))
