"""The axis of a source with a separator after each sequence that does not end with one already."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Separators, TokenReader, check_interval, windows
from tokfmt.core.dtypes import smallest
from tokfmt.core.ragged import Offsets, Tokens

_SEQUENCES = 1 << 16


class WithMissingSeparators:
    """What Modalities stores since 2025-01.

    Args:
        source: Sequences; those that end with `eos_id` stay as they are.
        offsets: int64[sequences + 1] of this axis, from `closed_offsets`.
    """

    def __init__(self, source: TokenReader, eos_id: int, offsets: Offsets) -> None:
        self.source, self.eos_id, self._offsets = source, eos_id, offsets

    @property
    def info(self) -> Info:
        info = self.source.info
        return replace(
            info,
            tokens=int(self._offsets[-1]),
            dtype=np.promote_types(info.dtype, smallest(self.eos_id)),
            max_id=None if info.max_id is None else max(info.max_id, self.eos_id),
            separators=Separators.TRAILING,
            eos_id=self.eos_id,
            free_of=None,
        )

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, len(self._offsets) - 1, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        out = np.full(stop - start, self.eos_id, info.dtype)
        if start == stop:
            return out
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop, side="left"))
        own, closed = self.source.offsets(first, last), self._offsets[first : last + 1]
        ends = closed[1:][np.diff(closed) > np.diff(own)] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        begin = int(own[0]) + start - int(closed[0])
        out[plain] = self.source.tokens(begin, begin + stop - start - len(ends))
        return out

    def close(self) -> None:
        self.source.close()


def closed_offsets(source: TokenReader, eos_id: int) -> Offsets:
    """Offsets of the source's sequences with a separator after each that does not end with it; reads all tokens."""
    count = source.info.sequences
    out = np.zeros(count + 1, np.int64)
    for a, b in windows(0, count, _SEQUENCES):
        offsets = source.offsets(a, b)
        lengths = np.diff(offsets)
        lengths += ~_ends_with(source, offsets, eos_id)
        np.cumsum(lengths, out=out[a + 1 : b + 1])
        out[a + 1 : b + 1] += out[a]
    return out


def _ends_with(source: TokenReader, offsets: Offsets, eos_id: int) -> NDArray[np.bool_]:
    """Whether each of some consecutive sequences ends with `eos_id`."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    last = offsets[1:] - 1
    filled = np.diff(offsets) > 0
    for start, stop in windows(int(offsets[0]), int(offsets[-1])):
        here = np.flatnonzero(filled & (last >= start) & (last < stop))
        found[here] = source.tokens(start, stop)[last[here] - start] == eos_id
    return found
