"""Axes and spans for the laws of the model: integers in memory or in a file, and sequences in any order."""

from functools import cached_property

import numpy as np

from tokfmt.core.annotation import NATIVE
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Axis, ByteOffset, check_interval, check_position, windows
from tokfmt.model.spans import Spans


class ArrayAxis(Axis):
    """Unsigned or non-negative integers in memory, such as a small index."""

    def __init__(self, values):
        """Hold the values, which are not copied, and do not write to them."""
        self._values = self.values = values.view()
        self._values.flags.writeable = False
        self.length, self.dtype = len(values), values.dtype

    def tokens(self, start, stop):
        check_interval(start, stop, self.length)
        return self._values[start:stop]

    def at(self, positions):
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < self.length:
            raise IndexError(f"positions {positions.min()}..{positions.max()} are outside 0:{self.length}")
        return self._values[positions]


class RawAxis(Axis):
    """Tokens of one width and byte order that a file stores one after the other; or the integers of an index."""

    def __init__(self, file, offset, length, dtype):
        """Describe the tokens without a read.

        Args:
            file: The file.
            offset: Byte offset of the first token.
            length: Number of tokens.
            dtype: Dtype in the file, in either byte order; see `File.ids`.
        """
        self.file, self.offset, self.length, self.stored = file, offset, length, np.dtype(dtype)
        self.width, self.dtype = self.stored.itemsize, NATIVE[self.stored.itemsize]

    def tokens(self, start, stop):
        check_interval(start, stop, self.length)
        ids = self.file.ids(self.offset + start * self.width, stop - start, self.stored)
        return ids if ids.dtype == self.dtype else ids.astype(self.dtype)

    def sequence_reader(self, ends, separator, general, *, is_before=False):
        return self.file.sequence_reader(self.offset, self.stored, ends, separator, general, is_before=is_before)

    def intervals(self, wanted):
        for start, stop in wanted:
            check_interval(start, stop, self.length)
        ranges = [(self.offset + start * self.width, self.offset + stop * self.width) for start, stop in wanted]
        for raw, (begin, _) in zip(self.file.read_ranges(ranges), ranges, strict=True):
            yield self.file.unsigned(np.frombuffer(raw, self.stored), begin).astype(self.dtype, copy=False)

    def locate(self, position):
        check_position(position, self.length)
        return ByteOffset(self.file.path, self.offset + position * self.width, self.width)

    def find(self, place, byte):
        position = (byte - self.offset) // self.width
        return position if place == self.file.path and 0 <= position < self.length else None

    def close(self):
        self.file.close()


class Pieces(Axis):
    """Intervals of another axis, one after the other, in the order in which their tokens are read.

    Examples are overlapping rows, padding inside rows, and documents of sequences that are not neighbors. It holds 16
    bytes per piece; pieces that touch are one.
    """

    def __init__(self, axis, starts, lengths):
        """Hold the intervals `starts[k] .. starts[k] + lengths[k] - 1` of an axis."""
        held = lengths > 0
        starts, lengths = starts[held], lengths[held]
        begins = np.ones(len(starts), np.bool_)
        begins[1:] = starts[1:] != starts[:-1] + lengths[:-1]
        offsets = offsets_of(lengths)
        self.axis, self._starts = axis, starts[begins]
        self._offsets = np.append(offsets[:-1][begins], offsets[-1:])
        self.length, self.dtype = int(offsets[-1]), axis.dtype

    def tokens(self, start, stop):
        check_interval(start, stop, self.length)
        if start == stop:
            return np.empty(0, self.dtype)
        first = int(np.searchsorted(self._offsets, start, "right")) - 1
        last = int(np.searchsorted(self._offsets, stop, "left"))
        bounds = np.clip(self._offsets[first : last + 1], start, stop)
        return self.axis.gather(self._starts[first:last] + bounds[:-1] - self._offsets[first:last], np.diff(bounds))

    def locate(self, position):
        check_position(position, self.length)
        k = int(np.searchsorted(self._offsets, position, "right")) - 1
        return self.axis.locate(int(self._starts[k] + position - self._offsets[k]))

    def find(self, place, byte):
        position = self.axis.find(place, byte)
        if position is None:
            return None
        holders = np.flatnonzero((self._starts <= position) & (position < self._starts + np.diff(self._offsets)))
        return int(self._offsets[holders[0]] + position - self._starts[holders[0]]) if len(holders) else None

    def close(self):
        self.axis.close()


class Listed(Spans):
    """A start and a length of each sequence, in any order. Both are axes of integers, of which windows are read."""

    def __init__(self, starts, lengths, scale=1):
        """Hold the index.

        Args:
            starts: Start of each sequence.
            lengths: Number of tokens of each sequence.
            scale: Units of the starts per token, such as bytes.
        """
        self.starts, self.lengths, self.scale, self.count = starts, lengths, scale, starts.length

    def extents(self, first, last):
        check_interval(first, last, self.count, "sequences")
        starts = self.starts.tokens(first, last).astype(np.int64) // self.scale
        return starts, starts + self.lengths.tokens(first, last).astype(np.int64, copy=False)

    def extents_of(self, numbers):
        starts = self.starts.at(numbers).astype(np.int64) // self.scale
        return starts, starts + self.lengths.at(numbers).astype(np.int64, copy=False)

    def extent(self, number):
        start = self.starts.tokens(number, number + 1).item() // self.scale
        return start, start + self.lengths.tokens(number, number + 1).item()

    def finder(self):
        starts, lengths, scale = self.starts.tokens, self.lengths.tokens, self.scale

        def find(number):
            start = starts(number, number + 1).item() // scale
            return start, start + lengths(number, number + 1).item()

        return find

    @cached_property
    def _ascends(self):
        before = 0
        for a, b in windows(0, self.count, 1 << 18):
            starts = self.starts.tokens(a, b).astype(np.int64)
            if int(starts[0]) < before or (starts[1:] < starts[:-1]).any():
                return False
            before = int(starts[-1])
        return True

    def at(self, position):
        """See `Spans.at`. If starts do not ascend, return the first sequence around the position."""
        return super().at(position) if self._ascends else self._around(position)
