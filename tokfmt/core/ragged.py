"""`Ragged`: token IDs of several sequences, and the offset of each sequence.

tokens   [tokens]         unsigned IDs, native byte order
offsets  [sequences + 1]  int64, non-decreasing, offsets[0] == 0, offsets[-1] == len(tokens)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.unsignedinteger]
"""Token IDs: a one-dimensional array of an unsigned dtype, in native byte order."""
Offsets = NDArray[np.int64]
"""int64[n + 1]: the start of each of n sequences on the token axis, and the end of the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Several whole sequences in one array. `ragged[i]` is a view, never a copy."""

    tokens: Tokens
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Tokens:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no sequence {index} (expected 0 to {len(self) - 1})")
        index %= len(self)
        return self.tokens[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def __iter__(self) -> Iterator[Tokens]:
        bounds = self.offsets.tolist()
        return (self.tokens[a:b] for a, b in zip(bounds, bounds[1:], strict=False))

    def tolist(self) -> list[list[int]]:
        """Return the sequences as lists of Python integers."""
        return [sequence.tolist() for sequence in self]

    @staticmethod
    def of(sequences: Iterable[Sequence[int] | Tokens], dtype: np.dtype[np.unsignedinteger] | None = None) -> Ragged:
        """Build from lists or arrays; `dtype` defaults to uint32."""
        kept = [np.asarray(s, dtype=dtype or np.uint32) for s in sequences]
        tokens = np.concatenate(kept) if kept else np.empty(0, dtype or np.uint32)
        return Ragged(tokens, offsets_of([len(s) for s in kept]))


def offsets_of(lengths: Sequence[int] | NDArray[np.integer]) -> Offsets:
    """Return the offsets int64[sequences + 1], from 0, of lengths [sequences]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def true_at(mask: NDArray[np.bool_]) -> Offsets:
    """Return the positions where a mask is true, int64. If few are, it is three times as fast as flatnonzero."""
    whole = len(mask) // 8 * 8
    words = (mask[:whole].view(np.uint64) != 0).nonzero()[0]
    hits = mask[:whole].reshape(-1, 8)[words].ravel().nonzero()[0]
    found = words[hits >> 3] * 8 + (hits & 7)
    return np.concatenate((found, mask[whole:].nonzero()[0] + whole)) if whole < len(mask) else found


_AT_ONCE = 1 << 20


def reordered(ragged: Ragged, order: NDArray[np.integer]) -> Ragged:
    """Copy the sequences `order[0], order[1], ...`, none longer than 1 Mi tokens, about so many at a time."""
    starts = ragged.offsets[order]
    return gathered(ragged.tokens, starts, ragged.offsets[order + 1] - starts)


def gathered(tokens: Tokens, starts: Offsets, lengths: Offsets) -> Ragged:
    """Copy the intervals of an array that begin at `starts`, int64[n]. Works on about 1 Mi tokens at a time."""
    offsets = offsets_of(lengths)
    out = np.empty(int(offsets[-1]), tokens.dtype)
    marks = np.arange(_AT_ONCE, len(out), _AT_ONCE)
    cuts = [0, *sorted(set(np.searchsorted(offsets, marks).tolist())), len(starts)]
    for first, last in itertools.pairwise(cuts):
        a, b = offsets[[first, last]].tolist()
        moves = np.repeat(starts[first:last] - offsets[first:last], np.diff(offsets[first : last + 1]))
        moves += np.arange(a, b)
        np.take(tokens, moves, out=out[a:b], mode="clip")  # Other modes need a second buffer.
    return Ragged(out, offsets)


_SHORT = 48  # Tokens per interval, on average, from which slices are copied one by one.


def pick(window: Tokens, starts: Offsets, lengths: Offsets) -> Tokens:
    """Return intervals of a window, concatenated in the given order; the window itself if they are all of it."""
    count, total = len(starts), int(lengths.sum())
    if not count or not total:
        return window[:0]
    if count == 1:
        return window[int(starts[0]) : int(starts[0]) + total]
    if total > _SHORT * count:
        bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        return np.concatenate([window[start:stop] for start, stop in bounds])
    ends = starts + lengths
    gaps = starts[1:] - ends[:-1]
    least, most = int(gaps.min()), int(gaps.max())
    base = int(starts[0])
    if not least and not most:
        return window[base : int(ends[-1])]
    if least >= 0 and most == 1:  # One slot, such as a separator, is between most neighbors.
        kept = np.ones(int(ends[-1]) - base, np.bool_)
        between = ends[:-1] if least else ends[:-1][gaps == 1]
        kept[between - base] = False
        return window[base : int(ends[-1])][kept]
    places = np.repeat(starts - offsets_of(lengths)[:-1], lengths)
    places += np.arange(total)
    return window[places]
