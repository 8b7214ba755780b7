"""A virtual file of bytes that a file holds elsewhere: in other places, in another order, or once for several reads."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.files.file import File

_GAP = 1 << 12  # Bytes between two intervals that take less time to read than another call.
_SPAN = 1 << 21  # Bytes in which the intervals of one read begin.
_MOST = 1 << 14  # Intervals of one read.
_SHORT = 128  # Bytes of an interval below which numpy copies many at once, instead of each by itself.

Bytes = NDArray[np.uint8]


class Scattered(File):
    """A virtual file whose reads fetch intervals of the file below. A subclass defines `size` and `intervals`."""

    is_plain = False  # Byte offsets here are not those in the file below.

    def __init__(self, below: File) -> None:
        # below: that holds the bytes, compressed or not
        self.path, self.identity, self._fd, self.below = below.path, below.identity, None, below

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_fd"}

    @property
    def is_decoded_whole(self) -> bool:  # type: ignore[override]
        return self.below.is_decoded_whole

    def for_look(self) -> Scattered:
        found = copy(self)
        found.below = self.below.for_look()
        return found

    @abstractmethod
    def intervals(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        """Return the ascending intervals (int64[n] begins, ends) of the file below with the bytes of this one."""

    def to_stored_offset(self, offset: int) -> int | None:
        starts, _ = self.intervals(offset, offset + 1)
        return self.below.to_stored_offset(int(starts[0]))

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if not buffer.nbytes:
            return
        starts, ends = self.intervals(offset, offset + buffer.nbytes)
        apart = np.flatnonzero(starts[1:] != ends[:-1])  # Intervals that follow each other are one.
        starts, ends = starts[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)]
        places = offsets_of(ends - starts)
        order = np.argsort(starts, kind="stable")
        starts, ends, places = starts[order], ends[order], places[:-1][order]
        groups, out = _groups(starts, ends), np.frombuffer(buffer, np.uint8)
        ranges = [(int(starts[i]), int(ends[i:j].max())) for i, j in groups]
        for (i, j), (begin, _), content in zip(groups, ranges, self.below.read_ranges(ranges), strict=True):
            _place(out, places[i:j], np.frombuffer(content, np.uint8), starts[i:j] - begin, ends[i:j] - starts[i:j])

    def close(self) -> None:
        """Close the file below. A later read opens it again."""
        self.below.close()


def _groups(starts: Offsets, ends: Offsets) -> list[tuple[int, int]]:
    """Return the first interval and the one after the last of each run of close intervals; `starts` ascend."""
    reach = np.maximum.accumulate(ends)
    far = np.append(np.flatnonzero(starts[1:] - reach[:-1] > _GAP) + 1, len(starts))
    found, first = list[tuple[int, int]](), 0
    while first < len(starts):
        near = int(far[np.searchsorted(far, first, side="right")])
        within = int(np.searchsorted(starts, starts[first] + _SPAN))
        last = min(near, first + _MOST, max(first + 1, within))
        found.append((first, last))
        first = last
    return found


def _place(out: Bytes, places: Offsets, content: Bytes, starts: Offsets, lengths: Offsets) -> None:
    """Copy intervals of `content` to `places` of `out`."""
    if int(lengths.sum()) > _SHORT * len(lengths):
        for place, start, length in zip(places.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            out[place : place + length] = content[start : start + length]
        return
    within = np.arange(int(lengths.sum())) - np.repeat(offsets_of(lengths)[:-1], lengths)
    out[np.repeat(places, lengths) + within] = content[np.repeat(starts, lengths) + within]
