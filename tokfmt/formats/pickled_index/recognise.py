"""Find the regular entries of a window at once, with numpy.

Every entry ends with TUPLE2 MEMOIZE (86 94), but these two bytes occur inside integers as well. An entry is accepted
only if it starts where a proven entry ended and its two integers end exactly at such a pair of bytes; whatever else
lies in between (frames, integers of seven bytes and more, negative ones) is left to the scalar walk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.pickled_index.opcodes import APPENDS, BININT, BININT1, BININT2, LONG1, MARK, MEMOIZE, TUPLE2

PADDING = 32
"""Bytes that must follow the window's own in its buffer: two integers are loaded as words before they are checked."""

Ints = NDArray[np.int64]

# what an integer is, by its opcode; LONG1 with n bytes is 256 + n
_SIZE = np.zeros(512, np.int64)
_SHIFT = np.zeros(512, np.uint64)
_MASK = np.zeros(512, np.uint64)
_LARGEST = np.zeros(512, np.uint64)  # the sign bit of BININT and LONG1 is left to the scalar walk
for _key, _head, _bytes, _signed in (
    (BININT1, 1, 1, 0),
    (BININT2, 1, 2, 0),
    (BININT, 1, 4, 1),
    *((256 + n, 2, n, 1) for n in range(1, 7)),
):
    _SIZE[_key] = _head + _bytes
    _SHIFT[_key] = 8 * _head
    _MASK[_key] = (1 << 8 * _bytes) - 1
    _LARGEST[_key] = (1 << 8 * _bytes - _signed) - 1


class Run(NamedTuple):
    """Consecutive entries.

    Attributes:
        offsets, lengths: int64[n].
        starts: int64[n], where each begins in the window.
    """

    offsets: Ints
    lengths: Ints
    starts: Ints


class Recognised:
    """The candidates of one window, and the chains of entries that lead through them."""

    def __init__(self, buffer: bytes, first: int, stop: int) -> None:
        """Look at `buffer[first:stop]`, where an entry of a batch begins at `first`; PADDING bytes follow `stop`."""
        raw = np.frombuffer(buffer, np.uint8)
        words: NDArray[np.uint64] = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
        last = max(first, stop - 3)  # the two bytes after TUPLE2 MEMOIZE are looked at as well
        pairs = (raw[first:last] == TUPLE2) & (raw[first + 1 : last + 1] == MEMOIZE)
        self._ends = np.flatnonzero(pairs) + first
        after = self._ends + 2
        border = (raw[after] == APPENDS) & (raw[after + 1] == MARK)
        self._starts = np.concatenate(([first], after + 2 * border))
        self._offsets, second, known = _integers(words, self._starts[:-1])
        self._lengths, tuples, known_too = _integers(words, second)
        self._tuples = np.where(known & known_too, tuples, -1)
        self._breaks = np.flatnonzero(self._tuples != self._ends)

    def take(self, at: int) -> tuple[list[Run], int]:
        """The runs of entries from `at` on, where an entry begins, and where the first one not recognised begins."""
        runs: list[Run] = []
        i, total = int(np.searchsorted(self._starts, at)), len(self._ends)
        while i < total and self._starts[i] == at:
            k = int(np.searchsorted(self._breaks, i))
            stop = int(self._breaks[k]) if k < len(self._breaks) else total
            if stop > i:
                runs.append(self._run(i, stop))
                i, at = stop, int(self._starts[stop])
                continue
            end = int(self._tuples[i])  # candidates inside this entry are skipped when it ends at a later one
            k = int(np.searchsorted(self._ends, end))
            if end < 0 or k == total or self._ends[k] != end:
                break
            runs.append(self._run(i, i + 1))
            i, at = k + 1, int(self._starts[k + 1])
        return runs, at

    def _run(self, i: int, stop: int) -> Run:
        return Run(self._offsets[i:stop], self._lengths[i:stop], self._starts[i:stop])


def _integers(words: NDArray[np.uint64], at: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Value of the integer at each position, where it ends, and whether it is one that is known here."""
    word = words[at]
    key = (word & np.uint64(0xFF)).view(np.int64)
    long = key == LONG1
    if long.any():
        key = np.where(long, 256 + (word >> np.uint64(8) & np.uint64(0xFF)).view(np.int64), key)
    value = word >> _SHIFT[key] & _MASK[key]
    size = _SIZE[key]
    return value.view(np.int64), at + size, (size > 0) & (value <= _LARGEST[key])
