"""Decode the chunks of a dataset of integers, and know their places, without the HDF5 library.

The chunk map has the place (8 bytes), size and skipped filters (4 bytes) of each chunk. It is checked against the file
and kept as two arrays. If few rows of a file are read, only their chunks are looked up; see `chunk_tree`.

This module undoes the filters of a chunk (fletcher32, deflate, shuffle). The file lists them in the order of writing,
so they are undone in reverse. Bit k of a chunk's filter mask means that filter k was skipped for that chunk, as deflate
is if it does not make the chunk smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import deflate
import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.files.file import File

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
CHECKSUM_BYTES = 4
_WORDS = 1 << 20

Bytes: TypeAlias = NDArray[np.uint8]


class DamagedChunkError(Exception):
    """A chunk cannot be decoded. The caller adds its number and byte offset."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The filters of the chunks of one dataset.

    Attributes:
        filters: Filter numbers in the order of writing.
        nominal: Bytes of a decoded chunk.
        itemsize: Bytes per value, which the shuffle filter needs.
    """

    filters: tuple[int, ...]
    nominal: int
    itemsize: int

    def maximum_stored(self) -> int:
        """Return the maximum bytes of a chunk in the file: deflate may add 0.2 %."""
        if DEFLATE in self.filters:
            return self.nominal + self.nominal // 500 + 64 + CHECKSUM_BYTES
        return self.nominal + CHECKSUM_BYTES * (FLETCHER32 in self.filters)

    def decode(self, stored: Bytes, skipped: int) -> Bytes:
        """Undo the filters of one chunk.

        Args:
            stored: Bytes of the chunk in the file.
            skipped: Filter mask of the chunk.

        Returns:
            uint8[nominal].

        Raises:
            DamagedChunkError: The chunk decodes to another size, or its checksum is wrong.
        """
        data = stored
        for number in range(len(self.filters) - 1, -1, -1):
            if skipped >> number & 1:
                continue
            if self.filters[number] == DEFLATE:
                data = _inflated(data, self._before(number, skipped))
            elif self.filters[number] == SHUFFLE:
                if len(data) % self.itemsize:  # `nominal` is a multiple of the item size
                    raise DamagedChunkError(f"it decodes to {len(data):,} bytes instead of {self.nominal:,}")
                data = data.reshape(self.itemsize, -1).T.reshape(-1)
            else:
                data = _checked(data)
        if len(data) != self.nominal:
            raise DamagedChunkError(f"it decodes to {len(data):,} bytes instead of {self.nominal:,}")
        return data

    def _before(self, number: int, skipped: int) -> int:
        """Return the bytes of a chunk before filter `number` was applied."""
        earlier = [f for k, f in enumerate(self.filters[:number]) if not skipped >> k & 1]
        return self.nominal + CHECKSUM_BYTES * earlier.count(FLETCHER32)


def _inflated(data: Bytes, size: int) -> Bytes:
    try:
        found = np.frombuffer(deflate.zlib_decompress(data, size), np.uint8)
    except deflate.DeflateError as error:  # raised for an invalid stream and for one that is longer than `size`
        raise DamagedChunkError(f"it does not inflate to {size:,} bytes") from error
    if len(found) != size:
        raise DamagedChunkError(f"it inflates to {len(found):,} bytes instead of {size:,}")
    return found


def _checked(data: Bytes) -> Bytes:
    body, stored = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if len(stored) != CHECKSUM_BYTES:
        raise DamagedChunkError("it is too short for its checksum")
    found = fletcher32(body)
    claimed = int.from_bytes(stored.tobytes(), "little")
    halves = (claimed >> 16) % 65535, (claimed & 0xFFFF) % 65535  # 0 and 65535 are the same sum
    if halves != found:
        raise DamagedChunkError("its Fletcher checksum is wrong")
    return body


def fletcher32(data: Bytes) -> tuple[int, int]:
    """Return the two sums of the HDF5 Fletcher checksum over big-endian 16-bit words, modulo 65535: (second, first)."""
    padded = np.append(data, np.uint8(0)) if len(data) % 2 else data
    words = padded.view(">u2")
    total, first, second = len(words), 0, 0
    for a in range(0, total, _WORDS):
        part = words[a : a + _WORDS].astype(np.uint64)
        weights = np.arange(total - a, total - a - len(part), -1, dtype=np.int64).astype(np.uint64) % 65535
        first += int(part.sum())
        second += int((part * weights).sum())
    return second % 65535, first % 65535


SKIPPED_AT = 28
"""First bit of the filter mask in `sizes`; a stored chunk is smaller than 2^28 bytes."""
_LOOKED_UP, _UNKNOWN = 1 << 7, -2
"""Number of chunks that are looked up together, and the place of a chunk that was not looked up yet."""

Found = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""Places and sizes of chunks; see `ChunkMap`."""


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """The places of the chunks of a dataset, in row-major order of the chunk grid.

    Attributes:
        shape: Shape of a chunk, [rows, fields, width].
        grid: Number of chunks along each dimension.
        places: int64[chunks], byte offsets in the file; -1 if missing, -2 if not looked up yet.
        sizes: uint32[chunks], stored bytes, and the filter mask from bit SKIPPED_AT on.
        pipeline: Filters of the chunks.
        find: Looks up places and sizes of several intervals of chunks; None if all are known.
    """

    shape: tuple[int, int, int]
    grid: tuple[int, int, int]
    places: NDArray[np.int64]
    sizes: NDArray[np.uint32]
    pipeline: Pipeline
    find: Callable[[Sequence[tuple[int, int]]], list[Found]] | None = None

    def know(self, *intervals: tuple[int, int]) -> None:
        """Look up the chunks of intervals that are not known yet, in groups of 128.

        Raises:
            FormatError: A chunk is missing, outside of the file, or too large.
        """
        if self.find is None:
            return
        begins = {
            a
            for first, last in intervals
            for a in range(first // _LOOKED_UP * _LOOKED_UP, last, _LOOKED_UP)
            if self.places[a] == _UNKNOWN
        }
        groups = [(a, min(a + _LOOKED_UP, len(self.places))) for a in sorted(begins)]
        for (a, b), found in zip(groups, self.find(groups) if groups else (), strict=True):
            places, self.sizes[a:b] = found
            self.places[a:b] = places  # last, because other threads then take these chunks for known

    def looked_up_by(self, find: Callable[[Sequence[tuple[int, int]]], list[Found]]) -> ChunkMap:
        """Return a copy of the map whose chunks are looked up when their rows are read."""
        count = math.prod(self.grid)
        return replace(self, places=np.full(count, _UNKNOWN, np.int64), sizes=np.zeros(count, np.uint32), find=find)

    def with_chunks(self, places: NDArray[np.int64], sizes: NDArray[np.uint32]) -> ChunkMap:
        """Return a copy of the map with these places and sizes."""
        return replace(self, places=places, sizes=sizes)

    def stored(self, chunk: int) -> int:
        """Return the stored bytes of a chunk."""
        return int(self.sizes[chunk]) & (1 << SKIPPED_AT) - 1

    def skipped(self, chunk: int) -> int:
        """Return the filter mask of a chunk."""
        return int(self.sizes[chunk]) >> SKIPPED_AT

    def plain(self, chunk: int) -> bool:
        """Return True if a chunk holds its values unchanged: every filter that changes them was skipped."""
        skipped = self.skipped(chunk)
        return all(skipped >> k & 1 or number == FLETCHER32 for k, number in enumerate(self.pipeline.filters))

    def at(self, offset: int) -> int | None:
        """Return the number of the chunk that holds a byte offset of the file; None if none does."""
        held = (self.places <= offset) & (offset < self.places + (self.sizes & np.uint32((1 << SKIPPED_AT) - 1)))
        return int(np.argmax(held)) if held.any() else None


LARGEST_CHUNK = 1 << 26
LARGEST_RATIO = 1100  # deflate cannot do better than 1,032 to 1


def empty_map(
    file: File, shape: tuple[int, int, int], chunk: tuple[int, int, int], pipeline: Pipeline, name: str = "data"
) -> ChunkMap:
    """Return a chunk map without chunks, after a check that its claims fit the size of the file.

    Args:
        file: The file.
        shape: Shape of the dataset, [rows, fields, width].
        chunk: Shape of a chunk, [rows, fields, width].
        pipeline: Filters and item size; its `nominal` is ignored.
        name: Of the dataset, for messages.

    Raises:
        FormatError: The dataset claims more values or chunks than the file can hold.
    """
    nominal = math.prod(chunk) * pipeline.itemsize
    declared = math.prod(shape) * pipeline.itemsize
    if nominal > LARGEST_CHUNK:
        raise UnsafeError(
            file.path,
            f"a chunk of '{name}' is too large to decode",
            expected=f"at most {LARGEST_CHUNK:,} bytes",
            found=f"{nominal:,}",
            remedy="Store one chunk per sample with h5repack -l CHUNK=1x3xN",
        )
    if declared > LARGEST_RATIO * file.size:
        raise UnsafeError(
            file.path,
            f"'{name}' claims more than {LARGEST_RATIO:,} times the size of the file",
            expected=f"at most {LARGEST_RATIO * file.size:,} bytes",
            found=f"{declared:,}",
        )
    grid = (-(-shape[0] // chunk[0]), -(-shape[1] // chunk[1]), -(-shape[2] // chunk[2]))
    if math.prod(grid) > file.size:
        raise UnsafeError(
            file.path,
            f"'{name}' claims more chunks than the file has bytes",
            expected=f"at most {file.size:,}",
            found=math.prod(grid),
        )
    nothing, known = np.empty(0, np.int64), Pipeline(pipeline.filters, nominal, pipeline.itemsize)
    return ChunkMap(chunk, grid, nothing, np.empty(0, np.uint32), known)


def read_map(dataset: Any, chunks: ChunkMap) -> ChunkMap:
    """Return a chunk map with the places and sizes of all chunks, from the library, of an index other than a B-tree.

    Args:
        dataset: The dataset, opened by the library (h5py.h5d.DatasetID).
        chunks: Its map without chunks.
    """
    chunk, grid = chunks.shape, chunks.grid
    places = np.full(math.prod(grid), -1, np.int64)
    sizes = np.zeros(math.prod(grid), np.uint32)

    seen = itertools.count(1)

    def note(info: Any) -> bool | None:
        at = info.chunk_offset
        place = at[0] // chunk[0]
        if len(at) == 3:
            place = (place * grid[1] + at[1] // chunk[1]) * grid[2] + at[2] // chunk[2]
        elif len(at) == 2:
            place = place * grid[2] + at[1] // chunk[2]
        if 0 <= place < len(places) and info.byte_offset is not None:
            places[place], sizes[place] = stored_as(info.byte_offset, info.size, info.filter_mask)
        return next(seen) == len(places) or None  # An index that lists more is damaged, and may have no end.

    if len(places):
        dataset.chunk_iter(note)
    return chunks.with_chunks(places, sizes)


def stored_as(place: int, size: int, mask: int) -> tuple[int, int]:
    """Return a chunk's entries of `ChunkMap.places` and `sizes`, from byte offset, stored bytes and filter mask."""
    return (place, min(size, (1 << SKIPPED_AT) - 1) | (mask & 7) << SKIPPED_AT) if place < 1 << 62 else (-1, 0)


def check_map(file: File, chunks: ChunkMap, unit: str, begin: int = 0) -> None:
    """Check that each chunk exists, is inside the file and is not too large.

    Args:
        file: The file.
        chunks: Map with the places and sizes to check.
        unit: "sample" or "token", for messages.
        begin: Number of the first chunk in the map.

    Raises:
        FormatError: A chunk fails; the error names the first one.
    """
    stored = (chunks.sizes & np.uint32((1 << SKIPPED_AT) - 1)).astype(np.int64)
    per_band = chunks.grid[1] * chunks.grid[2]

    def complain(wrong: NDArray[np.bool_], kind: type[FormatError], what: str, remedy: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            place = int(chunks.places[first])
            raise kind(
                file.path,
                f"the chunk of {unit} {(begin + first) // per_band * chunks.shape[0]:,} {what}",
                offset=place if place >= 0 else None,
                remedy=remedy,
            )

    missing = "is missing: HDF5 readers see fill values instead"
    complain(chunks.places < 0, CorruptError, missing, "Write the file again")
    beyond = chunks.places + stored > file.size
    complain(beyond, TruncatedError, "continues beyond the end of the file", "Copy the file again")
    large = stored > chunks.pipeline.maximum_stored()
    complain(large, CorruptError, "is larger than its filters can make it", "Copy the file again, or write it again")
