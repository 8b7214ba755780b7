"""Look at some samples of a long dataset, where few of its sequences are going to be read.

What the samples are (how they continue each other, what their mask means, which ID ends them) is inferred from samples
in stretches that are spread over all of them, by the same rules as from all. Fewer samples show less: that all samples
are those of one dataset in another order shows only in all of them, so here each is a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows
from tokfmt.formats.hdf5.table import Rows, Values

LONG = 1 << 26
"""Bytes of samples that are all looked at, whatever is asked."""
FIRST = 1 << 20
"""Bytes of the first samples, of which as many more are read as the sequences asked for take."""
_STRETCHES, _LOOKED_AT = 16, 24 << 20
"""Places that are looked at, and their bytes in all."""

R = TypeVar("R")


def row_bytes(rows: Rows) -> int:
    """Bytes of a sample, decoded."""
    return rows.fields * rows.width * rows.dtype.itemsize


def looked_at(rows: Rows, groups: NDArray[np.int64]) -> tuple[Some, NDArray[np.int64]]:
    """Stretches of samples that are spread over a long dataset, the last sample among them.

    Args:
        rows: All samples.
        groups: int64[streams + 1], first samples of the streams.

    Returns:
        The samples, and the same of them: nothing goes on from stretch to stretch.
    """
    each = max(2, _LOOKED_AT // (_STRETCHES * row_bytes(rows)))
    stretches = max(2, min(_STRETCHES, _LOOKED_AT // (each * row_bytes(rows))))
    starts = np.unique(np.linspace(0, max(0, len(rows) - each), stretches).astype(np.int64)).tolist()
    parts = [(first, min(first + each, len(rows))) for first in starts]
    numbers = np.concatenate([np.arange(a, b) for a, b in parts])
    numbers = np.unique(numbers)
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    inner = np.searchsorted(numbers, groups)
    return Some(rows, numbers), np.unique(np.concatenate([begins, inner, [0, len(numbers)]]))


class Some:
    """Some samples of a dataset, as if they were all; held in memory.

    Attributes:
        fields, width, dtype: As of `Rows`.
    """

    def __init__(self, rows: Rows, numbers: NDArray[np.int64]) -> None:
        """`numbers`: which, ascending."""
        self.fields, self.width, self.dtype = rows.fields, rows.width, rows.dtype
        self._rows, self._numbers = rows, numbers
        cuts = [0, *(np.flatnonzero(np.diff(numbers) > 1) + 1).tolist(), len(numbers)]
        runs = [(int(numbers[a]), int(numbers[b - 1]) + 1) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]
        self._values: Values = np.concatenate([rows.read(a, b) for a, b in runs])

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, first: int, last: int) -> Values:
        """See `Rows.read`."""
        return self._values[first:last]

    def place(self, row: int) -> tuple[Path, int, int]:
        """See `Rows.place`."""
        return self._rows.place(int(self._numbers[row]))

    def map(self, function: Callable[[int, Values], R]) -> Iterator[R]:
        """See `Rows.map`."""
        return (function(a, self.read(a, b)) for a, b in windows(0, len(self), self._rows.together))
