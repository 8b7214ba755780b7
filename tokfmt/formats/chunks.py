"""Arrays of integers that are stored in chunks: the array as data, where each chunk is, and the engine of both.

A format states a `ChunkLayout` (shape, shape of a chunk, dtype, codecs) and a `ChunkMap` (chunk -> stored bytes). From
both, `Chunked` provides any run of rows or items, the byte offset of an item and the item at a byte offset, and the
damaged chunks; `ChunkFields` lists all chunks. Items are numbered in row-major order, and so are chunks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.core.annotation import broken
from tokfmt.core.reader import ByteOffset
from tokfmt.errors import CorruptError, FormatError, UnsafeError
from tokfmt.files.fields import Field
from tokfmt.files.file import File
from tokfmt.files.place import Place, place_of
from tokfmt.formats.codecs import (
    CHECKSUMS,
    CHUNK_BYTES,
    BloscFrame,
    Stored,
    blosc_frame,
    decode,
    decode_blosc,
    decode_blosc_part,
)
from tokfmt.wording import counted

KEPT_BYTES, KEPT_BAND = 1 << 26, 1 << 28
"""Maximum bytes of decoded chunks that are kept, and of the chunks of a band of rows, which are read together. An array
with fewer bytes is decoded once, however often it is read."""
_OPEN = 64
"""Number of chunks that stay open with their headers. To open one costs as much as to decode a sequence."""
_ROW_BYTES = 1 << 26  # of a row, at most
_PADDING = 16  # items of all chunks for each item of the array, at most, plus those of a chunk
_DECODED = 1 << 20  # maximum bytes of a chunk that is decoded to see whether it can be

Items = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """An array as data, with one to three dimensions.

    Attributes:
        where: The file that states this, for messages.
        name: Name of the array, for messages.
        shape: Number of items along each dimension.
        chunk: Number of items of a chunk along each dimension; every chunk decodes to all of them.
        dtype: Dtype of the items with its byte order.
        codecs: Names of `codecs.CODECS` in the order of decoding, and "delta" last if a chunk holds differences.
        fill: Value of the items of an absent chunk; None if no chunk may be absent.
    """

    where: Place
    name: str
    shape: Shape
    chunk: Shape
    dtype: np.dtype[Any]
    codecs: tuple[str, ...] = ()
    fill: int | None = None

    @property
    def length(self) -> int:
        """Number of items."""
        return math.prod(self.shape)

    @property
    def items(self) -> int:
        """Number of items of a chunk."""
        return math.prod(self.chunk)

    @property
    def chunk_bytes(self) -> int:
        """Decoded bytes of a chunk."""
        return self.items * self.dtype.itemsize

    @property
    def grid(self) -> Shape:
        """Number of chunks along each dimension."""
        return tuple(-(-n // m) for n, m in zip(self.shape, self.chunk, strict=True))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return math.prod(self.grid)

    @property
    def band(self) -> int:
        """Number of chunks that hold the same rows."""
        return math.prod(self.grid[1:])

    @property
    def is_blosc(self) -> bool:
        """True if a chunk begins with the header of blosc data that decode to all of it."""
        return self.codecs in (("blosc",), ("blosc", "delta"))

    def applied(self, skipped: int = 0) -> tuple[str, ...]:
        """Return the codecs of a chunk without those of its mask: bit k is the k-th codec in the order of writing."""
        last = len(self.codecs) - 1
        return tuple(name for k, name in enumerate(self.codecs) if not skipped >> (last - k) & 1)

    def is_plain(self, skipped: int = 0) -> bool:
        """Return whether a chunk holds its items unchanged; a checksum may follow them."""
        return all(name in CHECKSUMS for name in self.applied(skipped))

    def in_chunk(self, item: int) -> tuple[int, int]:
        """Return the number of the chunk that holds an item, and the number of the item in it."""
        both = [divmod(at, n) for at, n in zip(coordinates(item, self.shape), self.chunk, strict=True)]
        return number_of([chunk for chunk, _ in both], self.grid), number_of([at for _, at in both], self.chunk)

    def item_of(self, number: int, within: int) -> int | None:
        """Return the number of an item of a chunk; None if it is padding, beyond the shape."""
        both = zip(coordinates(number, self.grid), coordinates(within, self.chunk), self.chunk, strict=True)
        at = [outer * n + inner for outer, inner, n in both]
        return number_of(at, self.shape) if all(a < n for a, n in zip(at, self.shape, strict=True)) else None


def coordinates(number: int, grid: Shape) -> Shape:
    """Return the coordinates of a cell of a grid, by its number in row-major order."""
    found = list[int]()
    for size in reversed(grid[1:]):
        number, at = divmod(number, size)
        found.append(at)
    return (number, *reversed(found))


def number_of(at: Sequence[int], grid: Shape) -> int:
    """Return the number of a cell of a grid in row-major order, by its coordinates."""
    number = 0
    for coordinate, size in zip(at, grid, strict=True):
        number = number * size + coordinate
    return number


def check_memory(layout: ChunkLayout, largest: int = CHUNK_BYTES) -> None:
    """Raise UnsafeError if chunks, or rows, are too large to decode, or if chunks are almost all padding."""
    smaller = "Write the array again with smaller chunks"
    row = math.prod(layout.shape[1:]) * layout.dtype.itemsize
    padded, most = layout.chunks * layout.items, _PADDING * layout.length + CHUNK_BYTES
    for found, limit, what, unit in (
        (layout.chunk_bytes, largest, "has chunks that are too large", "bytes"),
        (row, _ROW_BYTES, "has rows that are too large to read", "bytes"),
        (padded, most, "has chunks that are almost all padding", "items"),
    ):
        if found > limit:
            expected = f"at most {limit:,} {unit}"
            raise UnsafeError(layout.where, what, expected=expected, found=f"{found:,}", remedy=smaller)


class Origin(NamedTuple):
    """The place of stored bytes in a file on disk or in a store."""

    path: Place
    start: int
    exact: bool  # False if a zip stores them compressed


class ChunkMap(ABC):
    """Where the chunks of an array are. Picklable.

    Attributes:
        file: The file that holds all chunks, if it is one; its chunks are read together.
        begin: Byte offset of all items in `file`, if they are one run of bytes.
    """

    file: File | None = None
    begin: int | None = None

    @abstractmethod
    def find(self, number: int) -> Stored | None:
        """Return the stored bytes of a chunk; None if it is absent and reads as the fill value.

        Raises:
            FormatError: It is missing, or its place contradicts the file.
        """

    @abstractmethod
    def at(self, path: Place, offset: int) -> tuple[int, int] | None:
        """Return the number of the chunk at a byte offset of a file, and the byte in it; None without one.

        The byte is 0 if a zip stores the chunk compressed.
        """

    def origin(self, number: int, stored: Stored) -> Origin:  # noqa: ARG002 - others need it
        """Return the place of the bytes of an existing chunk."""
        return Origin(stored.path, stored.start, exact=True)

    def ranges(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the byte ranges of chunks `first <= i < last` of `file`."""
        found = (self.find(number) for number in range(first, last))
        return [(one.start, one.start + one.size) for one in found if one is not None]

    def skipped(self, number: int) -> int:  # noqa: ARG002 - HDF5 needs it
        """Return the mask of the codecs that were not applied to a chunk; see `ChunkLayout.applied`."""
        return 0

    def name_of(self, number: int) -> str:
        """Return the name of a chunk, for messages."""
        return f"chunk {number:,}"

    def error_of(self, number: int, error: FormatError) -> FormatError:
        """Return the error of a chunk that cannot be decoded: with its name and place, if one file holds all chunks."""
        stored = None if self.file is None else self.find(number)
        if stored is None:
            return error
        why, again = error.what.removeprefix("is damaged: "), "Copy the file again, or write it again"
        what = f"{self.name_of(number)} is damaged: {why if why != error.what else f'it {why}'}"
        expected, found = error.expected, error.found
        return CorruptError(stored.path, what, offset=stored.start, expected=expected, found=found, remedy=again)

    @abstractmethod
    def close(self) -> None:
        """Close files, and drop indexes."""


class Wanted(NamedTuple):
    """Rows to read from an array whose chunks are in one file."""

    first: int  # the first row
    last: int  # the row after the last
    numbers: range  # chunks that hold them
    ranges: list[tuple[int, int]]  # byte ranges that hold them, without those of `held`
    held: dict[int, Items]  # their chunks that are decoded already, by number


class Chunked:
    """The items of an array. Picklable; several threads may share it.

    Attributes:
        layout: The array as data.
        map: Where its chunks are.
        path: The path of the array, for messages.
        dtype: Dtype of what is read, in native byte order.
        keeps: Decoded chunks are kept, up to `KEPT_BYTES`, or up to `KEPT_BAND` if those of a row are larger.
    """

    def __init__(self, layout: ChunkLayout, chunks: ChunkMap) -> None:
        self.layout, self.map, self.path = layout, chunks, layout.where
        self.dtype = layout.dtype.newbyteorder("=")
        self._deep, self._grid, self._row = layout.chunk[0], layout.grid, math.prod(layout.shape[1:])
        self._band, self._chunk_bytes = layout.band, layout.chunk_bytes
        self._has_rows = layout.chunk[1:] == layout.shape[1:]
        self._is_row = len(layout.shape) > 1 and self._has_rows and self._deep == 1  # each chunk is one row
        self._is_blosc = layout.codecs == ("blosc",)  # and holds no differences: parts of a chunk can be decoded
        self._kept = Recent[tuple[Place, int], Items](max(KEPT_BYTES, min(KEPT_BAND, self._band * self._chunk_bytes)))
        self._open = Recent[int, tuple[Stored, BloscFrame]](_OPEN)
        self.keeps = self.rows_together > 1 or self.size_bytes <= KEPT_BYTES

    @property
    def name(self) -> str:
        """Name of the array, for messages."""
        return self.layout.name

    @property
    def length(self) -> int:
        """Number of items."""
        return self.layout.length

    @property
    def size_bytes(self) -> int:
        """Decoded bytes of all items."""
        return self.layout.length * self.dtype.itemsize

    @property
    def rows_together(self) -> int:
        """Number of rows that are decoded at once."""
        return 1 if self.map.begin is not None else self._deep

    def read(self, start: int, stop: int) -> Items:
        """Return items `start <= i < stop`; 0 <= start <= stop <= length."""
        if start >= stop:
            return np.empty(0, self.dtype)
        width = self._row
        first = start // width
        rows = self.rows(first, -(-stop // width)).reshape(-1)
        return rows if len(rows) == stop - start else rows[start - first * width : stop - first * width]

    def rows(self, first: int, last: int) -> Items:
        """Return rows `first <= i < last`: [last - first, ...] in native byte order.

        Raises:
            FormatError: A chunk is missing, or cannot be decoded.
            TruncatedError: A file became shorter after it was opened.
        """
        layout, chunks = self.layout, self.map
        if last == first + 1 and self._is_row and chunks.begin is None:
            items = self.chunk(first)  # a single row needs no copy
            if items is not None:
                return items
        if chunks.file is not None and chunks.begin is not None:
            plain, row = np.empty((last - first, *layout.shape[1:]), layout.dtype), self._row * self.dtype.itemsize
            if plain.size:
                chunks.file.read_into(chunks.begin + first * row, plain.reshape(-1).view(np.uint8).data)
            return plain.astype(self.dtype, copy=False)
        if chunks.file is not None:
            wanted = self.want(first, last)
            return self.take(wanted, chunks.file.read_ranges(wanted.ranges))
        out = np.empty((last - first, *layout.shape[1:]), self.dtype)
        for number in range(*self._numbers(first, last)):
            self._place(number, None, first, out)
        return out

    def _numbers(self, first: int, last: int) -> tuple[int, int]:
        """Return the first chunk of rows `first <= i < last`, and the chunk after their last."""
        return first // self._deep * self._band, -(-last // self._deep) * self._band

    def want(self, first: int, last: int) -> Wanted:
        """Return the byte ranges that hold rows `first <= i < last`, for `take`; all chunks are in one file."""
        begin, held = self.map.begin, dict[int, Items]()
        if begin is not None:
            size = self._row * self.dtype.itemsize
            ranges = [(begin + first * size, begin + last * size)] if size and first < last else []
            return Wanted(first, last, range(0), ranges, held)
        numbers = range(*self._numbers(first, last))
        ranges = self.map.ranges(numbers.start, numbers.stop)
        if self.keeps:
            where, get = self.layout.where, self._kept.get
            held = {number: items for number in numbers if (items := get((where, number))) is not None}
            if held:
                ranges = [one for number, one in zip(numbers, ranges, strict=True) if number not in held]
        return Wanted(first, last, numbers, ranges, held)

    def take(self, wanted: Wanted, contents: Iterator[memoryview]) -> Items:
        """Return the rows of `wanted`, as `rows` does, from the next items of `contents`: the bytes of its ranges."""
        layout, first, last = self.layout, wanted.first, wanted.last
        if self.map.begin is not None:
            out = np.empty((last - first, *layout.shape[1:]), layout.dtype)
            for _ in wanted.ranges:
                out.reshape(-1).view(np.uint8)[:] = np.frombuffer(next(contents), np.uint8)
            return out.astype(self.dtype, copy=False)
        out = np.empty((last - first, *layout.shape[1:]), self.dtype)
        for number in wanted.numbers:
            items = wanted.held.get(number)
            if items is None:
                content: Any = next(contents)
                items = self._decoded(number, Stored(layout.where, content, 0, len(content)))
            if self._is_row:
                out[number - first] = items[0]
            else:
                self._place(number, items, first, out)
        return out

    def _place(self, number: int, items: Items | None, first: int, out: Items) -> None:
        """Copy the part of a chunk that belongs to the rows of `out`, which begin with row `first`."""
        layout, deep = self.layout, self._deep
        band, *across = coordinates(number, self._grid)
        base = band * deep
        a, b = max(first, base), min(first + len(out), base + deep)
        target = out[a - first : b - first]
        if self._has_rows:
            if items is None and self._is_blosc and self._directly(number, a - base, b - base, target):
                return
        else:
            box = (slice(at * n, (at + 1) * n) for at, n in zip(across, layout.chunk[1:], strict=True))
            target = target[(slice(None), *box)]
        items = self.chunk(number) if items is None else items
        if items is None:
            target[...] = np.array(layout.fill or 0).astype(self.dtype)
        elif self._has_rows:
            target[...] = items[a - base : b - base]
        else:
            target[...] = items[(slice(a - base, b - base), *map(slice, target.shape[1:]))]

    def _directly(self, number: int, a: int, b: int, out: Items) -> bool:
        """Decode a whole chunk into `out`, or only the blocks of a few rows; return False if neither applies."""
        deep = self._deep
        if b - a < deep and 2 * (b - a) > deep:  # a caller that reads in order needs the rest next
            return False
        if self._kept.get((self.layout.where, number)) is not None:
            return False
        if b - a == deep:
            stored = self.map.find(number) if self.layout.dtype == self.dtype else None
            if stored is not None:
                decode_blosc(stored, self.dtype.itemsize, out.reshape(-1).view(np.uint8))
            return stored is not None
        opened, size = self._opened(number), self._row * self.dtype.itemsize
        raw = decode_blosc_part(*opened, a * size, b * size) if opened else None
        if raw is None:
            return False
        out[...] = raw.view(self.layout.dtype).reshape(out.shape)
        return True

    def _opened(self, number: int) -> tuple[Stored, BloscFrame] | None:
        """Return a chunk and its blosc header; None if the chunk is absent."""
        opened = self._open.get(number)
        if opened is None:
            stored = self.map.find(number)
            if stored is None:
                return None
            opened = stored, blosc_frame(stored, self._chunk_bytes, self.layout.dtype.itemsize)
            if isinstance(stored.source, File):
                self._open.put(number, opened)
        return opened

    def chunk(self, number: int) -> Items | None:
        """Return all items of a chunk in its shape; None if it is absent and reads as the fill value."""
        kept = self._kept.get((self.layout.where, number)) if self.keeps else None
        if kept is not None:
            return kept
        stored = self.map.find(number)
        return None if stored is None else self._decoded(number, stored)

    def _decoded(self, number: int, stored: Stored) -> Items:
        layout, skipped = self.layout, self.map.skipped(number)
        codecs = layout.applied(skipped) if skipped else layout.codecs
        is_delta = bool(codecs) and codecs[-1] == "delta"
        try:
            raw = decode(stored, codecs[:-1] if is_delta else codecs, self._chunk_bytes, layout.dtype.itemsize)
        except FormatError as error:
            named = self.map.error_of(number, error)
            if named is error:
                raise
            raise named from error
        items: Items = raw.view(layout.dtype).astype(self.dtype, copy=False)
        items = (np.cumsum(items, dtype=self.dtype) if is_delta else items).reshape(layout.chunk)
        if self.keeps:
            items.flags.writeable = False  # several readers get the same items
            self._kept.put((layout.where, number), items, items.nbytes)
        return items

    def share(self, other: Chunked, *, keeps: bool) -> None:
        """Keep decoded chunks together with those of another array, if `keeps`, or if a chunk holds several rows."""
        self._kept, self.keeps = other._kept, keeps or self.rows_together > 1

    def damaged(self, *, deep: bool) -> Iterator[tuple[int, FormatError | None]]:
        """Yield each chunk that is damaged with its error, and each that reads as the fill value with None.

        The header of each blosc chunk is checked. All others are decoded if `deep`, or if they are not compressed; else
        only the first and the last.
        """
        layout, last = self.layout, self.layout.chunks - 1
        for number in range(layout.chunks):
            try:
                stored = self.map.find(number)
                if stored is None:
                    yield number, None
                elif layout.is_blosc:
                    blosc_frame(stored, layout.chunk_bytes, layout.dtype.itemsize)
                elif deep or number in (0, last) or not layout.codecs:
                    self._decoded(number, stored)
            except FormatError as error:
                yield number, error

    def byte_offset(self, item: int) -> ByteOffset:
        """Return the byte offset of an item: exact if it is stored without compression, else that of its chunk."""
        layout = self.layout
        number, within = (0, item) if self.map.begin is not None else layout.in_chunk(item)
        stored, detail = self.map.find(number), f"chunk {number:,} of {layout.name}"
        if stored is None:
            detail = f"{detail} is absent and reads as its fill value {layout.fill or 0}"
            return ByteOffset(layout.where, 0, None, detail)
        origin, detail = self.map.origin(number, stored), f"{detail}, item {within:,}"
        if not origin.exact:
            return ByteOffset(origin.path, origin.start, None, f"{detail}, in a compressed member of the zip")
        if not layout.is_plain(self.map.skipped(number)):
            return ByteOffset(origin.path, origin.start, None, detail)
        width = layout.dtype.itemsize
        return ByteOffset(origin.path, origin.start + within * width, width, detail)

    def position(self, path: Place, offset: int) -> int | None:
        """Return the item at a byte offset of a file, or the first of the chunk there; None if there is neither."""
        layout, found = self.layout, self.map.at(path, offset)
        if found is None:
            return None
        number, byte = found
        item = byte // layout.dtype.itemsize if layout.is_plain(self.map.skipped(number)) else 0
        return layout.item_of(number, item) if item < layout.items else None

    def close(self) -> None:
        """Close files, and drop what was decoded; the next read opens them again."""
        self._kept.clear()
        self._open.clear()
        self.map.close()


_CODECS = ("blosclz", "lz4", "snappy", "zlib", "zstd")


class ChunkFields:
    """The chunks of an array as fields."""

    def __init__(self, array: Chunked) -> None:
        self.array, self.count = array, array.layout.chunks

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._field(number) for number in range(first, min(last, self.count))]

    def _field(self, number: int) -> Field:
        array, layout, name = self.array, self.array.layout, f"chunk {number:,}"
        items = _items_in(layout, number)
        try:
            stored = array.map.find(number)
            if stored is None:
                return Field(name, None, 0, "absent", f"{items}, all {layout.fill or 0}")
            origin = array.map.origin(number, stored)
        except FormatError as error:
            return Field(name, error.offset, 0, broken(error).value, error.remedy or "", True, place_of(error.place))
        try:
            described, is_wrong = f"{items}, {_described(array, number, stored)}", False
            if layout.chunk_bytes <= _DECODED:
                array.chunk(number)
        except FormatError as error:
            described, is_wrong = broken(error).value, True
        value, length = f"{stored.size:,} bytes of {layout.chunk_bytes:,}", stored.size if origin.exact else 0
        return Field(name, origin.start, length, value, described, is_wrong, origin.path)


def _items_in(layout: ChunkLayout, number: int) -> str:
    """Return the items of a chunk in words: from one to another, or some rows and columns."""
    names = ("item",) if len(layout.shape) == 1 else ("row", "field", "column")[:: 4 - len(layout.shape)]
    found = list[str]()
    for axis, (name, at) in enumerate(zip(names, coordinates(number, layout.grid), strict=True)):
        first, last = at * layout.chunk[axis], min(layout.shape[axis], (at + 1) * layout.chunk[axis]) - 1
        if axis == 0 or layout.grid[axis] > 1:
            found.append(f"{name} {first:,}" if first == last else f"{name}s {first:,} to {last:,}")
    return ", ".join(found)


def _described(array: Chunked, number: int, stored: Stored) -> str:
    """Return how a chunk is stored; raise if its header is damaged."""
    layout = array.layout
    if not layout.is_blosc:
        return " ".join(reversed(layout.applied(array.map.skipped(number)))) or "not compressed"
    head = blosc_frame(stored, layout.chunk_bytes, layout.dtype.itemsize)
    codec = head.flags >> 5
    words = [_CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"]
    words += [word for bit, word in ((1, "byte shuffle"), (4, "bit shuffle"), (2, "stored as is")) if head.flags & bit]
    return f"blosc {', '.join(words)}, {counted(head.blocks, 'block')}"
