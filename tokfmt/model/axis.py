"""Axes one after the other: those of several files, or of several datasets. `core.reader.Axis` describes an axis."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Axis, ByteOffset, TokenReader, check_position
from tokfmt.files.place import Place

Numbers = NDArray[np.int64]
"""int64[n]: numbers of sequences, or positions on an axis."""


class Joined(Axis):
    """Axes one after the other: the files of a dataset, or several datasets."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = list(axes)
        self.starts = [0, *itertools.accumulate(axis.length for axis in axes)]
        self.length = self.starts[-1]
        self.dtype = np.result_type(*(axis.dtype for axis in axes)) if axes else np.dtype(np.uint8)

    def _holder(self, position: int) -> int:
        return min(bisect_right(self.starts, position), len(self.axes)) - 1

    def tokens(self, start: int, stop: int) -> Tokens:
        found, k = [np.empty(0, self.dtype)], self._holder(start)
        while start < stop:
            base, end = self.starts[k], min(stop, self.starts[k + 1])
            tokens = self.axes[k].tokens(start - base, end - base).astype(self.dtype, copy=False)
            if end == stop and len(found) == 1:
                return tokens
            found.append(tokens)
            start, k = end, k + 1
        return np.concatenate(found)

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        for k, run in itertools.groupby(wanted, key=self._holder_of):
            if k is None:
                yield from itertools.starmap(self.tokens, run)
                continue
            base = self.starts[k]
            inner = [(start - base, stop - base) for start, stop in run]
            yield from (tokens.astype(self.dtype, copy=False) for tokens in self.axes[k].intervals(inner))

    def _holder_of(self, interval: tuple[int, int]) -> int | None:
        """Return the number of the axis that holds a whole interval; None if several do."""
        k = self._holder(interval[0])
        return k if k >= 0 and interval[1] <= self.starts[k + 1] else None

    def for_look(self) -> Axis:
        return Joined([axis.for_look() for axis in self.axes])

    def locate(self, position: int) -> ByteOffset | None:
        check_position(position, self.length)
        k = self._holder(position)
        return self.axes[k].locate(position - self.starts[k])

    def find(self, place: Place, byte: int) -> int | None:
        for axis, start in zip(self.axes, self.starts, strict=False):
            if (position := axis.find(place, byte)) is not None:
                return start + position
        return None

    def readers(self) -> list[TokenReader]:
        return [reader for axis in self.axes for reader in axis.readers()]

    def close(self) -> None:
        for axis in self.axes:
            axis.close()
