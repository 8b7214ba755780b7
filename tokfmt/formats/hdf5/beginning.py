"""Inspect some samples of a long dataset if a caller reads only a few of its sequences.

tokfmt infers how samples continue each other, what their mask means and which ID ends them. Here it infers these facts
from stretches that are spread over the dataset, by the same rules as from all samples. One fact shows only in all
samples: that they were shuffled. Here, each sample of such a dataset is a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows
from tokfmt.files.place import Place
from tokfmt.formats.chunks import KEPT_BYTES
from tokfmt.formats.hdf5_arrays.table import Rows, Values

_LONG_STORED = 1 << 23
"""Maximum bytes of samples of files in a store that are always inspected completely."""
FIRST = 1 << 20
"""Bytes of first samples that are read at least; more follow until they hold the requested sequences."""
_STRETCHES, _LOOKED_AT, _LOOKED_AT_STORED = 16, 24 << 20, 3 << 20
"""Number of stretches that are inspected, and their bytes together: of local files, and of files in a store."""

R = TypeVar("R")


def row_bytes(rows: Rows) -> int:
    """Return the decoded bytes of a sample."""
    return rows.fields * rows.width * rows.dtype.itemsize


def is_long(rows: Rows) -> bool:
    """Return True if only some samples are inspected when few sequences are wanted.

    Samples of local files that are inspected and kept are decoded once.
    """
    return len(rows) * row_bytes(rows) > (_LONG_STORED if rows.is_stored else KEPT_BYTES)


def spread_samples(rows: Rows, groups: NDArray[np.int64]) -> tuple[SampledRows, NDArray[np.int64]]:
    """Read stretches of samples that are spread over a long dataset and include the last sample.

    Args:
        rows: All samples.
        groups: int64[streams + 1], first samples of the streams.

    Returns:
        The samples, and their own groups: int64[stretches or more + 1], because no stream spans two stretches.
    """
    most = _LOOKED_AT_STORED if rows.is_stored else _LOOKED_AT
    each = max(2, most // (_STRETCHES * row_bytes(rows)))
    stretches = max(2, min(_STRETCHES, most // (each * row_bytes(rows))))
    starts = np.unique(np.linspace(0, max(0, len(rows) - each), stretches).astype(np.int64)).tolist()
    parts = [(first, min(first + each, len(rows))) for first in starts]
    numbers = np.concatenate([np.arange(a, b) for a, b in parts])
    numbers = np.unique(numbers)
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    inner = np.searchsorted(numbers, groups)
    return SampledRows(rows, numbers), np.unique(np.concatenate([begins, inner, [0, len(numbers)]]))


class SampledRows:
    """Some samples of a dataset, in memory, with the interface of `Rows`.

    Attributes:
        fields: Fields of a sample.
        width: Tokens per sample.
        dtype: Native dtype of the values.
    """

    def __init__(self, rows: Rows, numbers: NDArray[np.int64]) -> None:
        """Read the samples with these numbers, ascending."""
        self.fields, self.width, self.dtype = rows.fields, rows.width, rows.dtype
        self._rows, self._numbers = rows, numbers
        cuts = [0, *(np.flatnonzero(np.diff(numbers) > 1) + 1).tolist(), len(numbers)]
        runs = [(int(numbers[a]), int(numbers[b - 1]) + 1) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]
        self._values: Values = np.concatenate(rows.several(runs))

    def __len__(self) -> int:
        return len(self._numbers)

    def read(self, first: int, last: int) -> Values:
        return self._values[first:last]

    def place(self, row: int) -> tuple[Place, int, int]:
        return self._rows.place(int(self._numbers[row]))

    def map(self, function: Callable[[int, Values], R]) -> Iterator[R]:
        return (function(a, self.read(a, b)) for a, b in windows(0, len(self), self._rows.together))
