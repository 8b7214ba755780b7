"""A hash of each sequence of a dataset, in order, read ahead a window at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import WINDOW, TokenReader

_SEQUENCES = 1 << 16


def _ignore(amount: int) -> None:
    """Nobody is watching."""


class Hashes:
    """The hashes of all sequences; those from a position on are kept for a while.

    Positions only grow. Empty sequences may be passed over: then positions and numbers differ.
    """

    def __init__(
        self,
        reader: TokenReader,
        *,
        skip_empty: bool = False,
        ignored_end: int | None = None,
        advance: Callable[[int], None] = _ignore,
    ) -> None:
        """Begin.

        Args:
            reader: The sequences.
            skip_empty: Pass over empty ones.
            ignored_end: An id that does not count as the last of a sequence.
            advance: Told how many more tokens were hashed.
        """
        self.reader, self.skip_empty, self.advance = reader, skip_empty, advance
        self.ignored_end = ignored_end
        self._next = 0  # sequence not yet hashed
        self._first = 0  # position of what is kept
        self._hashes = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int64)

    def ahead(self, position: int, count: int) -> NDArray[np.uint64]:
        """Up to `count` hashes from a position on; fewer at the end."""
        while self._first + len(self._hashes) < position + count and self._next < self.reader.info.sequences:
            self._read(position)
        return self._hashes[position - self._first : position - self._first + count]

    def number(self, position: int) -> int:
        """The number of the sequence at a position that was looked at; at the end, the number of sequences."""
        self.ahead(position, 1)
        at = position - self._first
        return int(self._numbers[at]) if at < len(self._numbers) else self.reader.info.sequences

    def count_from(self, position: int) -> int:
        """How many there are from a position on."""
        number = 0 if position == 0 else self.number(position)
        if not self.skip_empty:
            return self.reader.info.sequences - number
        left = 0
        for first in range(number, self.reader.info.sequences, WINDOW):
            last = min(first + WINDOW, self.reader.info.sequences)
            left += int(np.count_nonzero(np.diff(self.reader.offsets(first, last))))
        return left

    def _read(self, position: int) -> None:
        """Hash the next sequences, and forget those before the position."""
        first = self._next
        last = min(first + _SEQUENCES, self.reader.info.sequences)
        offsets = self.reader.offsets(first, last)
        fitting = int(np.searchsorted(offsets, offsets[0] + WINDOW, side="right")) - 1
        last = first + max(1, fitting)
        hashes = _hashed(self.reader, offsets[: last - first + 1], self.ignored_end)
        kept = np.ones(last - first, np.bool_)
        if self.skip_empty:
            kept = np.diff(offsets[: last - first + 1]) > 0
        gone = min(max(0, position - self._first), len(self._hashes))
        self._hashes = np.concatenate((self._hashes[gone:], hashes[kept]))
        self._numbers = np.concatenate((self._numbers[gone:], np.flatnonzero(kept) + first))
        self._first, self._next = self._first + gone, last
        self.advance(int(offsets[last - first] - offsets[0]))


def _hashed(reader: TokenReader, offsets: NDArray[np.int64], ignored_end: int | None) -> NDArray[np.uint64]:
    """uint64[sequences]: the sum of a mixture of each id and its place in the sequence, and of the length."""
    lengths = np.diff(offsets)
    total = np.zeros(len(lengths), np.uint64)
    for start in range(int(offsets[0]), int(offsets[-1]), WINDOW):  # more than one only for a very long sequence
        stop = min(start + WINDOW, int(offsets[-1]))
        tokens = reader.tokens(start, stop).astype(np.uint64)
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        begins = np.maximum(offsets[first:last], start)
        filled = np.flatnonzero(np.minimum(offsets[first + 1 : last + 1], stop) > begins)
        places = np.arange(start, stop) - np.repeat(
            offsets[first:last], np.minimum(offsets[first + 1 : last + 1], stop) - begins
        )
        mixed = _mixed(tokens + (places.astype(np.uint64) << np.uint64(32)))
        if ignored_end is not None:
            here = first + np.flatnonzero((offsets[first + 1 : last + 1] <= stop) & (lengths[first:last] > 0))
            here = here[tokens[offsets[here + 1] - 1 - start] == ignored_end]
            mixed[offsets[here + 1] - 1 - start] = 0
            lengths[here] -= 1
        if len(filled):
            total[first + filled] += np.add.reduceat(mixed, begins[filled] - start)
    return total + _mixed(lengths.astype(np.uint64) + np.uint64(1 << 63))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64, of values that are not 0 alone."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
