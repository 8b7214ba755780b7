"""The lists of which a report holds the first ten items: all IDs by frequency, and the groups of equal sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.stats.duplicates import Groups
from tokfmt.commands.stats.tables import Table

MOST_GROUPS = 1 << 16
"""Limit of listed groups of equal sequences."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedIds:
    """IDs and their counts, the most frequent first; among equally frequent IDs, the lowest come first."""

    ids: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @staticmethod
    def of(table: Table) -> RankedIds:
        """Return the IDs of a table by frequency."""
        order = np.lexsort((table.keys, -table.counts))
        return RankedIds(table.keys[order], np.rint(table.counts[order]).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of one dataset."""

    ids: RankedIds | None = None  # in the sequences; None for text
    first: RankedIds | None = None  # of the sequences that are not empty; None for text
    last: RankedIds | None = None
    groups: Groups | None = None  # None if they are not counted


Keep = Callable[[Lists], object]
"""A function that receives the `Lists` of a dataset."""
