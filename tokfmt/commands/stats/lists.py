"""The lists of which a report holds the first ten items: all IDs by frequency, and the groups of equal sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.stats.duplicates import Repeats
from tokfmt.commands.stats.tables import Table
from tokfmt.core.ragged import Offsets

MOST_GROUPS = 1 << 16
"""Limit of listed groups of equal sequences."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedIds:
    """IDs and their counts, the most frequent first; among equally frequent IDs, the lowest come first.

    Attributes:
        ids: uint64[n], the IDs.
        counts: int64[n], their counts.
    """

    ids: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @staticmethod
    def of(table: Table) -> RankedIds:
        """Return the IDs of a table by frequency."""
        order = np.lexsort((table.keys, -table.counts))
        return RankedIds(table.keys[order], np.rint(table.counts[order]).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class RankedGroups:
    """Groups of equal sequences, those with most sequences first; longer and earlier ones come first among equals.

    Attributes:
        numbers: int64[n], the number of the first sequence of each group.
        counts: int64[n], the number of sequences of each group.
        lengths: int64[n], the length of each sequence in tokens; in characters for text.
        total: The number of all groups, listed or not.
    """

    numbers: Offsets
    counts: Offsets
    lengths: Offsets
    total: int

    @staticmethod
    def of(repeated: Repeats, number: Callable[[Offsets], Offsets]) -> RankedGroups:
        """Return the listed groups of one dataset.

        Args:
            repeated: The groups.
            number: Returns the numbers of the sequences at ascending positions.
        """
        columns = [(group.position, group.count, group.length) for group in repeated.largest]
        positions, counts, lengths = np.array(columns, np.int64).reshape(-1, 3).T
        order = np.argsort(positions)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = number(positions[order])
        return RankedGroups(numbers, counts, lengths, repeated.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of one dataset.

    Attributes:
        ids: The IDs in the sequences; None for text.
        first, last: The first and last IDs of the sequences that are not empty; None for text.
        groups: The groups of equal sequences; None if they are not counted.
    """

    ids: RankedIds | None = None
    first: RankedIds | None = None
    last: RankedIds | None = None
    groups: RankedGroups | None = None


Keep = Callable[[Lists], object]
"""A function that receives the `Lists` of a dataset."""
