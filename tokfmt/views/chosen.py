"""Sequences chosen one by one from all over a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import WINDOW, Info, TokenReader, check_interval, check_position, windows
from tokfmt.core.ragged import Offsets, Tokens

_GAP = 1 << 16  # tokens; reading on over fewer that are not wanted is cheaper than another read
_MANY = 1 << 16  # sequences looked at at once

Mask = Callable[[int, int], NDArray[np.bool_]]


class Chosen:
    """The sequences of a source that a mask chooses, in order.

    Keeps 8 bytes a chosen sequence, and 16 a run of chosen ones that follow one another. `Info.max_id` stays that of
    the whole source: a bound.
    """

    def __init__(self, source: TokenReader, mask: Mask) -> None:
        """Ask for the mask of every window of sequences, twice.

        Args:
            source: What is chosen from.
            mask: `mask(first, last)` is bool[last - first]: whether sequences `first <= i < last` are chosen.
        """
        self.source = source
        count = runs = before = 0
        for a, b in windows(0, source.info.sequences, _MANY):
            chosen = mask(a, b)
            begins = chosen & ~np.concatenate(([bool(before)], chosen[:-1]))
            count, runs, before = count + int(chosen.sum()), runs + int(begins.sum()), int(chosen[-1])
        self._offsets = np.zeros(count + 1, np.int64)
        self._at, self._shift = np.empty(runs, np.int64), np.empty(runs, np.int64)
        self._fill(mask)
        self._info = replace(source.info, sequences=count, tokens=int(self._offsets[-1]))

    def _fill(self, mask: Mask) -> None:
        count, runs, before = 0, 0, False
        for a, b in windows(0, self.source.info.sequences, _MANY):
            chosen, bounds = mask(a, b), self.source.offsets(a, b)
            numbers = np.flatnonzero(chosen)
            offsets = self._offsets[count : count + len(numbers) + 1]
            np.cumsum(np.diff(bounds)[numbers], out=offsets[1:])
            offsets[1:] += offsets[0]
            begins = np.flatnonzero((chosen & ~np.concatenate(([before], chosen[:-1])))[numbers])
            self._at[runs : runs + len(begins)] = offsets[begins]
            self._shift[runs : runs + len(begins)] = bounds[numbers[begins]] - offsets[begins]
            count, runs, before = count + len(numbers), runs + len(begins), bool(chosen[-1])

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        if start == stop:
            return np.empty(0, self._info.dtype)
        first = int(np.searchsorted(self._at, start, side="right")) - 1
        last = int(np.searchsorted(self._at, stop))
        starts = np.maximum(self._at[first:last], start)
        lengths = np.diff(starts, append=stop)
        filled = lengths > 0
        begins = (starts + self._shift[first:last])[filled]
        found = self._read(begins, begins + lengths[filled])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _read(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Tokens]:
        """The tokens of disjoint intervals of the source, in order; near ones with one read."""
        found, k = [], 0
        far = np.append(np.flatnonzero(begins[1:] - ends[:-1] > _GAP) + 1, len(begins))
        while k < len(begins):
            within = int(np.searchsorted(ends, begins[k] + WINDOW, side="right"))
            j = max(k + 1, min(within, int(far[np.searchsorted(far, k, side="right")])))
            a, b = int(begins[k]), int(ends[j - 1])
            tokens = self.source.tokens(a, b)
            if j > k + 1:
                steps = np.zeros(b - a + 1, np.int8)
                steps[begins[k:j] - a] += 1
                steps[ends[k:j] - a] -= 1
                tokens = tokens[np.cumsum(steps, dtype=np.int8)[:-1].view(np.bool_)]
            found.append(tokens)
            k = j
        return found

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._info.tokens)
        run = int(np.searchsorted(self._at, position, side="right")) - 1
        return self.source, position + int(self._shift[run])

    def above(self, reader: TokenReader, position: int) -> int | None:
        """Runs lie in the order of the source, so their beginnings there ascend."""
        low, high = 0, len(self._at)
        while low < high:  # bisection, so that no array of the beginnings is kept or made
            middle = (low + high) // 2
            if int(self._at[middle]) + int(self._shift[middle]) <= position:
                low = middle + 1
            else:
                high = middle
        if reader is not self.source or not low:
            return None
        here = position - int(self._shift[low - 1])
        stop = int(self._at[low]) if low < len(self._at) else self._info.tokens
        return here if here < stop else None

    def readers(self) -> tuple[TokenReader]:
        return (self.source,)

    def close(self) -> None:
        self.source.close()
