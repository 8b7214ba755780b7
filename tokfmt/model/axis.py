"""Axes: the token slots of a dataset in the order in which its files store them, separators and padding included.

An axis never changes while it is open: the same position is the same slot, with the same token. It reads nothing when
it is made, and it is picklable: a worker process opens its own files.

    RawAxis     uncompressed tokens, or the integers of an index, in a file
    ArrayAxis   integers in memory
    Joined      axes one after the other: files of a dataset, or datasets
    Pieces      intervals of another axis, where a sequence is not one interval of stored slots
"""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import NATIVE
from tokfmt.core.files import Ends, File
from tokfmt.core.place import Place
from tokfmt.core.ragged import Tokens, offsets_of
from tokfmt.core.reader import Axis, ByteOffset, TokenReader, check_interval, check_position

Numbers = NDArray[np.int64]
"""int64[n]: numbers of sequences, or positions on an axis."""

_CODES = {"<i8": "<2q", "<u8": "<2Q", "<i4": "<2i", "<u4": "<2I", ">i8": ">2q", ">u8": ">2Q"}


class ArrayAxis(Axis):
    """Unsigned or non-negative integers in memory, such as a small index."""

    def __init__(self, values: NDArray[Any]) -> None:
        """Hold the values, which are not copied, and do not write to them."""
        self._values = self.values = values.view()
        self._values.flags.writeable = False
        self.length, self.dtype = len(values), values.dtype

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.length)
        return self._values[start:stop]

    def pair_reader(self) -> Callable[[int], Sequence[int]]:
        values, last = self._values.data, self.length - 1

        def pair(position: int) -> Sequence[int]:
            if not 0 <= position < last:
                check_position(position, last)
            found: list[int] = values[position : position + 2].tolist()
            return found

        return pair

    def at(self, positions: Numbers) -> Tokens:
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < self.length:
            raise IndexError(f"positions {positions.min()}..{positions.max()} are outside 0:{self.length}")
        return self._values[positions]


class RawAxis(Axis):
    """Tokens of one width and byte order that a file stores one after the other; or the integers of an index."""

    def __init__(self, file: File, offset: int, length: int, dtype: np.dtype[Any] | str) -> None:
        """Describe the tokens without a read.

        Args:
            file: The file.
            offset: Byte offset of the first token.
            length: Number of tokens.
            dtype: Dtype in the file, in either byte order; see `File.ids`.
        """
        self.file, self.offset, self.length, self.stored = file, offset, length, np.dtype(dtype)
        self.width, self.dtype = self.stored.itemsize, NATIVE[self.stored.itemsize]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.length)
        ids = self.file.ids(self.offset + start * self.width, stop - start, self.stored)
        return ids if ids.dtype == self.dtype else ids.astype(self.dtype)

    def sequence_reader(
        self, ends: Ends, separator: int | None, general: Callable[[int], Tokens], *, is_before: bool = False
    ) -> Callable[[int], Tokens]:
        return self.file.sequence_reader(self.offset, self.stored, ends, separator, general, is_before=is_before)

    def pair_reader(self) -> Callable[[int], Sequence[int]]:
        """See `Axis.pair_reader`. Two integers are unpacked without an array."""
        code, general = _CODES.get(self.stored.str), super().pair_reader()
        if code is None:
            return general
        unpack, last = struct.Struct(code).unpack, self.length - 1
        read = self.file.item_reader(
            self.offset, self.length, self.width, lambda _, raw: unpack(raw), lambda start, _: tuple(general(start))
        )

        def pair(position: int) -> Sequence[int]:
            found = read(position, position + 2) if 0 <= position < last else general(position)
            return found if found[0] >= 0 <= found[1] else general(position)

        return pair

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        for start, stop in wanted:
            check_interval(start, stop, self.length)
        ranges = [(self.offset + start * self.width, self.offset + stop * self.width) for start, stop in wanted]
        for raw, (begin, _) in zip(self.file.read_ranges(ranges), ranges, strict=True):
            yield self.file.unsigned(np.frombuffer(raw, self.stored), begin).astype(self.dtype, copy=False)

    def locate(self, position: int) -> ByteOffset | None:
        check_position(position, self.length)
        return ByteOffset(self.file.path, self.offset + position * self.width, self.width)

    def find(self, place: Place, byte: int) -> int | None:
        position = (byte - self.offset) // self.width
        return position if place == self.file.path and 0 <= position < self.length else None

    def check(self) -> None:
        self.file.check_unchanged()

    def close(self) -> None:
        self.file.close()


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
        check_interval(start, stop, self.length)
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
        check_interval(*interval, self.length)
        k = self._holder(interval[0])
        return k if k >= 0 and interval[1] <= self.starts[k + 1] else None

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

    def check(self) -> None:
        for axis in self.axes:
            axis.check()

    def close(self) -> None:
        for axis in self.axes:
            axis.close()


class Pieces(Axis):
    """Intervals of another axis, one after the other, in the order in which their tokens are read.

    Examples are overlapping rows, padding inside rows, and documents of sequences that are not neighbors. It holds 16
    bytes per piece; pieces that touch are one.
    """

    def __init__(self, axis: Axis, starts: Numbers, lengths: Numbers) -> None:
        """Hold the intervals `starts[k] .. starts[k] + lengths[k] - 1` of an axis."""
        held = lengths > 0
        starts, lengths = starts[held], lengths[held]
        begins = np.ones(len(starts), np.bool_)
        begins[1:] = starts[1:] != starts[:-1] + lengths[:-1]
        offsets = offsets_of(lengths)
        self.axis, self._starts = axis, starts[begins]
        self._offsets = np.append(offsets[:-1][begins], offsets[-1:])
        self.length, self.dtype = int(offsets[-1]), axis.dtype

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.length)
        if start == stop:
            return np.empty(0, self.dtype)
        first = int(np.searchsorted(self._offsets, start, "right")) - 1
        last = int(np.searchsorted(self._offsets, stop, "left"))
        bounds = np.clip(self._offsets[first : last + 1], start, stop)
        return self.axis.gather(self._starts[first:last] + bounds[:-1] - self._offsets[first:last], np.diff(bounds))

    def locate(self, position: int) -> ByteOffset | None:
        check_position(position, self.length)
        k = int(np.searchsorted(self._offsets, position, "right")) - 1
        return self.axis.locate(int(self._starts[k] + position - self._offsets[k]))

    def find(self, place: Place, byte: int) -> int | None:
        position = self.axis.find(place, byte)
        if position is None:
            return None
        holders = np.flatnonzero((self._starts <= position) & (position < self._starts + np.diff(self._offsets)))
        return int(self._offsets[holders[0]] + position - self._starts[holders[0]]) if len(holders) else None

    def check(self) -> None:
        self.axis.check()

    def close(self) -> None:
        self.axis.close()
