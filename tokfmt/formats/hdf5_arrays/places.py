"""Know where the chunks of an HDF5 dataset are, and check them against the file, without the HDF5 library.

The place (8 bytes), the size (4 bytes) and the mask of skipped filters (1 byte) of each chunk are kept as arrays. If
few rows of a file are read, only their chunks are looked up; see `chunk_tree`.

    layout       place of a row
    contiguous   offset + row * bytes per row
    chunked      that of its chunks

Bit k of a chunk's filter mask means that filter k was skipped for that chunk, as deflate is if it does not make the
chunk smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import CorruptError, TruncatedError, UnsafeError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.chunks import ChunkLayout, ChunkMap, number_of
from tokfmt.formats.codecs import Stored
from tokfmt.wording import printable

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
FILTERS = {DEFLATE: "deflate", SHUFFLE: "shuffle", FLETCHER32: "fletcher32"}
LARGEST_CHUNK = 1 << 26
_RATIO = 1100  # deflate cannot do better than 1,032 to 1
_LARGEST_STORED, _FARTHEST = 1 << 31, 1 << 62
_LOOKED_UP, _UNKNOWN = 1 << 7, -2
"""Number of chunks that are looked up together, and the place of a chunk that was not looked up yet."""

Box = tuple[int, int, int]
Found = tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint8]]
"""Places, sizes and filter masks of chunks; the place of a missing chunk is -1."""

LookUp = Callable[[Sequence[tuple[int, int]]], list[Found]]


def unit_of(shape: Box) -> str:
    """Return the word for a row in messages: "token" or "sample"."""
    return "token" if shape[1:] == (1, 1) else "sample"


def nothing(count: int) -> Found:
    """Return the places of chunks that are all missing."""
    return np.full(count, -1, np.int64), np.zeros(count, np.uint32), np.zeros(count, np.uint8)


def unknown(count: int) -> Found:
    """Return the places of chunks that are not looked up yet."""
    return np.full(count, _UNKNOWN, np.int64), np.zeros(count, np.uint32), np.zeros(count, np.uint8)


def note(found: Found, slot: int, place: int, size: int, mask: int) -> None:
    """Enter the place of a chunk."""
    if place < _FARTHEST:
        found[0][slot], found[1][slot], found[2][slot] = place, min(size, _LARGEST_STORED), mask & 7


class Contiguous(ChunkMap):
    """The values of a dataset as one run of bytes."""

    file: File
    begin: int

    def __init__(self, file: File, begin: int, size: int) -> None:
        self.file, self.begin, self._size = file, begin, size

    def find(self, number: int) -> Stored:  # noqa: ARG002 - there is one
        return Stored(self.file.path, self.file, self.begin, self._size)

    def at(self, path: Place, offset: int) -> tuple[int, int] | None:
        within = offset - self.begin
        return (0, within) if path == self.file.path and 0 <= within < self._size else None

    def close(self) -> None:
        self.file.close()


class Places(ChunkMap):
    """The chunks of a dataset in a file.

    Args:
        layout: The dataset, [rows, fields, width].
        found: The places of all chunks.
        look_up: Returns the places of several intervals of chunks, when they are needed; None if all are known.
    """

    file: File

    def __init__(self, file: File, layout: ChunkLayout, found: Found, look_up: LookUp | None = None) -> None:
        self.file, self.layout, self.look_up = file, layout, look_up
        self.places, self.sizes, self.masks = found
        self._is_checked = look_up is not None

    def find(self, number: int) -> Stored:
        if self.look_up is not None or not self._is_checked:
            self._know(number, number + 1)
        return Stored(self.file.path, self.file, int(self.places[number]), int(self.sizes[number]))

    def ranges(self, first: int, last: int) -> list[tuple[int, int]]:
        if self.look_up is not None or not self._is_checked:
            self._know(first, last)
        begins = self.places[first:last]
        return list(zip(begins.tolist(), (begins + self.sizes[first:last]).tolist(), strict=True))

    def skipped(self, number: int) -> int:
        return int(self.masks[number])

    def at(self, path: Place, offset: int) -> tuple[int, int] | None:
        held = (self.places <= offset) & (offset < self.places + self.sizes)
        if path != self.file.path or not held.any():
            return None
        number = int(np.argmax(held))
        return number, offset - int(self.places[number])

    def close(self) -> None:
        self.file.close()

    def check(self) -> None:
        """Check that each chunk exists, is inside the file and is not too large.

        Raises:
            FormatError: A chunk fails; the error names the first one.
        """
        self.know([(0, len(self.places))])
        if not self._is_checked:
            self._check(0, (self.places, self.sizes, self.masks))
            self._is_checked = True

    def know(self, intervals: Sequence[tuple[int, int]]) -> None:
        """Look up the chunks of intervals that are not known yet, in groups of 128, and check them."""
        if self.look_up is None:
            return
        begins = {
            a
            for first, last in intervals
            for a in range(first // _LOOKED_UP * _LOOKED_UP, last, _LOOKED_UP)
            if self.places[a] == _UNKNOWN
        }
        groups = [(a, min(a + _LOOKED_UP, len(self.places))) for a in sorted(begins)]
        looked_up = self.look_up(groups) if groups else []
        for (a, _), found in zip(groups, looked_up, strict=True):
            self._check(a, found)
        for (a, b), (places, sizes, masks) in zip(groups, looked_up, strict=True):
            self.sizes[a:b], self.masks[a:b] = sizes, masks
            self.places[a:b] = places  # last, because other threads then take these chunks for known

    def bands(self, count: int) -> Places:
        """Return the chunks of the first rows: `count` chunks deep."""
        shape, deep, end = self.layout.shape, self.layout.chunk[0], count * self.layout.band
        layout = ChunkLayout(
            self.layout.where, self.layout.name, (min(shape[0], count * deep), *shape[1:]), self.layout.chunk,
            self.layout.dtype, self.layout.codecs,
        )  # fmt: skip
        return Places(self.file, layout, (self.places[:end], self.sizes[:end], self.masks[:end]))

    def _know(self, first: int, last: int) -> None:
        if self.look_up is not None:
            self.know([(first, last)])
        else:
            self._check(first, (self.places[first:last], self.sizes[first:last], self.masks[first:last]))

    def name_of(self, number: int) -> str:
        layout = self.layout
        return f"the chunk of {unit_of(_box(layout.shape))} {number // layout.band * layout.chunk[0]:,}"

    def _check(self, begin: int, found: Found) -> None:
        """Raise the error of the first wrong chunk of those found, whose numbers begin with `begin`."""
        places, sizes, _ = found
        again = "Copy the file again"
        for wrong, kind, what, remedy in (
            (places < 0, CorruptError, "is missing: HDF5 readers see fill values instead", "Write the file again"),
            (places + sizes > self.file.size, TruncatedError, "continues beyond the end of the file", again),
            (sizes > self._most, CorruptError, "is larger than its filters can make it", f"{again}, or write it again"),
        ):
            if wrong.any():
                first = int(np.argmax(wrong))
                offset = int(places[first]) if places[first] >= 0 else None
                raise kind(self.file.path, f"{self.name_of(begin + first)} {what}", offset=offset, remedy=remedy)

    @property
    def _most(self) -> int:
        """Maximum bytes of a chunk in the file: deflate may add 0.2 %."""
        size, codecs = self.layout.chunk_bytes, self.layout.codecs
        return size + 4 + (size // 500 + 64) * ("deflate" in codecs)


def _box(shape: tuple[int, ...]) -> Box:
    return shape[0], shape[1], shape[2]


def layout_of(
    file: File, shape: Box, chunk: Box, dtype: np.dtype[np.integer[Any]], filters: Sequence[int], name: str
) -> ChunkLayout:
    """Return a dataset in chunks as data, after a check that its claims fit the size of the file."""
    codecs = tuple(FILTERS[number] for number in reversed(filters))
    layout = ChunkLayout(file.path, f"/{printable(name)}", shape, chunk, dtype, codecs)
    smaller, most = "Store one chunk per sample with h5repack -l CHUNK=1x3xN", _RATIO * file.size
    for found, limit, what, unit, remedy in (
        (layout.chunk_bytes, LARGEST_CHUNK, f"a chunk of '{name}' is too large to decode", " bytes", smaller),
        (layout.length * dtype.itemsize, most, f"'{name}' claims more than {_RATIO:,} times the size of the file",
         " bytes", None),
        (layout.chunks, file.size, f"'{name}' claims more chunks than the file has bytes", "", None),
    ):  # fmt: skip
        if found > limit:
            raise UnsafeError(file.path, what, expected=f"at most {limit:,}{unit}", found=f"{found:,}", remedy=remedy)
    return layout


def listed(dataset: Any, layout: ChunkLayout) -> Found:
    """Return the places of all chunks from the library (h5py.h5d.DatasetID), of an index other than a B-tree."""
    found, grid = nothing(layout.chunks), layout.grid
    seen = itertools.count(1)

    def see(info: Any) -> bool | None:
        at = [a // n for a, n in zip(box_of(info.chunk_offset, 0), layout.chunk, strict=True)]
        if all(a < n for a, n in zip(at, grid, strict=True)) and info.byte_offset is not None:
            note(found, number_of(at, grid), info.byte_offset, info.size, info.filter_mask)
        return next(seen) == len(found[0]) or None  # An index that lists more is damaged, and may have no end.

    if math.prod(grid):
        dataset.chunk_iter(see)
    return found


def box_of(lengths: Sequence[int], missing: int = 1) -> Box:
    """Return lengths of rank 3, 2 or 1 as [rows, fields, width]; coordinates with 0 for `missing`."""
    if len(lengths) == 2:
        return lengths[0], missing, lengths[1]
    return (lengths[0], lengths[1], lengths[2]) if len(lengths) == 3 else (lengths[0], missing, missing)
