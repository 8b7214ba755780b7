"""Read the rows of the dataset `data`, of one file or of several, without the HDF5 library.

    layout       place of a row
    contiguous   offset + row * bytes per row
    chunked      a map of all chunks, read once on opening: place (8 bytes), size and skipped filters (4 bytes)

A rank-3 dataset has rows [fields, width]; a rank-1 dataset has rows of one value.
The HDF5 library returns the chunk map once. It is checked against the file and kept as two arrays.

This module undoes the filters of a chunk (fletcher32, deflate, shuffle). The file lists them in the order of writing,
so they are undone in reverse. Bit k of a chunk's filter mask means that filter k was skipped for that chunk, as deflate
is if it does not make the chunk smaller.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import deflate
import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.place import Place
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import WINDOW, ByteOffset, check_interval, windows
from tokfmt.core.resources import Recent, cpus

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
FIELDS = ("input_ids", "mask", "labels", "attention_span", "position_ids")
_LOOKED_UP, _UNKNOWN = 1 << 7, -2
"""Number of chunks that are looked up together, and the place of a chunk that was not looked up yet."""
KEPT_BYTES = 1 << 26
"""Decoded bytes of chunks that are kept. A dataset with fewer bytes is decoded once, however often it is read."""
_BYTES: np.dtype[np.uint8] = np.dtype(np.uint8)

Values = NDArray[np.integer[Any]]
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
        find: Looks up places and sizes of several intervals of chunks; None if all are known. See `needed_map`.
    """

    shape: tuple[int, int, int]
    grid: tuple[int, int, int]
    places: NDArray[np.int64]
    sizes: NDArray[np.uint32]
    pipeline: Pipeline
    find: Callable[[Sequence[tuple[int, int]]], list[Found]] | None = None

    def know(self, first: int, last: int) -> None:
        """Look up the chunks `first <= k < last` that are not known yet; see `know_all`."""
        if self.find is not None:
            self.know_all([(first, last)])

    def know_all(self, intervals: Sequence[tuple[int, int]]) -> None:
        """Look up the chunks of several intervals that are not known yet, in groups of 128.

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


class Wanted(NamedTuple):
    """Rows to read from a table.

    Attributes:
        first: The first row.
        last: The row after the last.
        ranges: Byte ranges that hold them, without those of `held`.
        held: Their chunks that are decoded already, by number.
    """

    first: int
    last: int
    ranges: list[tuple[int, int]]
    held: dict[int, Values]


class Region(NamedTuple):
    """A box of values of a table: ranges of rows, fields and columns, which may extend beyond the table."""

    rows: range
    fields: range
    columns: range


def _one(row: int, field: int, column: int) -> Region:
    return Region(range(row, row + 1), range(field, field + 1), range(column, column + 1))


def field_name(field: int) -> str:
    """Return the name of a field of a sample."""
    return FIELDS[field] if field < len(FIELDS) else f"field {field}"


def unit_of(shape: tuple[int, int, int]) -> str:
    """Return the word for a row in messages: "token" or "sample"."""
    return "token" if shape[1:] == (1, 1) else "sample"


class Table:
    """The rows of one file, by number. Picklable; several threads may share it.

    Attributes:
        file: The file.
        shape: [rows, fields, width]; [values, 1, 1] for rank 1.
        dtype: Dtype as stored, with its byte order.
        keeps: True if decoded chunks are kept, up to `KEPT_BYTES`.
    """

    def __init__(
        self, file: File, shape: tuple[int, int, int], dtype: np.dtype[np.integer[Any]], where: int | ChunkMap
    ) -> None:
        self.file, self.shape, self.dtype, self._where = file, shape, dtype, where
        self._kept = Recent[tuple[Place, int], Values](KEPT_BYTES)
        self.keeps = self.rows_together > 1 or self.size_bytes <= KEPT_BYTES

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size_bytes(self) -> int:
        """Decoded bytes of all rows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def share(self, other: Table, *, keeps: bool) -> None:
        """Keep decoded chunks together with those of another file, if `keeps`, or if a chunk holds several rows."""
        self._kept, self.keeps = other._kept, keeps or self.rows_together > 1

    @property
    def rows_together(self) -> int:
        """Number of rows that are decoded at once: those of a chunk, or 1."""
        return 1 if isinstance(self._where, int) else self._where.shape[0]

    def offset(self, row: int) -> int:
        """Return the byte offset of a row, or of the first chunk that holds a part of it."""
        if isinstance(self._where, int):
            return self._where + row * self.shape[1] * self.shape[2] * self.dtype.itemsize
        chunks = self._where
        chunk = row // chunks.shape[0] * chunks.grid[1] * chunks.grid[2]
        chunks.know(chunk, chunk + 1)
        return int(chunks.places[chunk])

    def byte_offset(self, row: int, field: int, column: int) -> ByteOffset:
        """Return the byte offset of a value, or of its chunk if the chunk is compressed."""
        where, size = self._where, self.dtype.itemsize
        name = f"value {row:,}" if self.shape[1:] == (1, 1) else f"row {row:,}, {field_name(field)}, column {column:,}"
        if isinstance(where, int):
            at = where + ((row * self.shape[1] + field) * self.shape[2] + column) * size
            return ByteOffset(self.file.path, at, size, name)
        (deep, fields, width), grid = where.shape, where.grid
        chunk = (row // deep * grid[1] + field // fields) * grid[2] + column // width
        where.know(chunk, chunk + 1)
        at = int(where.places[chunk])
        if where.plain(chunk):
            at += ((row % deep * fields + field % fields) * width + column % width) * size
        return ByteOffset(self.file.path, at, size if where.plain(chunk) else None, f"chunk {chunk:,} of /data, {name}")

    def region(self, offset: int) -> Region | None:
        """Return the value at a byte offset of the file, or all values of the compressed chunk there; None if none."""
        where, (rows, fields, width), size = self._where, self.shape, self.dtype.itemsize
        if isinstance(where, int):
            number = (offset - where) // size
            inside = where <= offset and number < rows * fields * width
            return _one(number // (fields * width), number // width % fields, number % width) if inside else None
        chunk = where.at(offset)
        if chunk is None:
            return None
        row = chunk // (where.grid[1] * where.grid[2]) * where.shape[0]
        field = chunk // where.grid[2] % where.grid[1] * where.shape[1]
        column = chunk % where.grid[2] * where.shape[2]
        if where.plain(chunk):
            number = (offset - int(where.places[chunk])) // size
            _, deep, long = where.shape
            found = _one(row + number // (deep * long), field + number // long % deep, column + number % long)
            inside = found.rows.start < rows and found.fields.start < fields and found.columns.start < width
            return found if inside else None
        return Region(*(range(a, a + n) for a, n in zip((row, field, column), where.shape, strict=True)))

    def read(self, first: int, last: int) -> Values:
        """Read rows `first <= i < last`: [last - first, fields, width] in native byte order.

        Raises:
            CorruptError: A chunk cannot be decoded.
            TruncatedError: The file became shorter after it was opened.
        """
        where = self._where
        if last == first + 1 and isinstance(where, ChunkMap) and where.shape == (1, *self.shape[1:]):
            out = self._kept.get((self.file.path, first)) if self.keeps else None
            if out is None:
                where.know(first, last)  # a single row needs no copy
                out = self._decoded(where, first, self.file.read(int(where.places[first]), where.stored(first)))
            return out.astype(self.dtype.newbyteorder("="), copy=False)
        if isinstance(where, int):
            out = np.empty((last - first, *self.shape[1:]), self.dtype)
            if out.size:
                self.file.read_into(self.offset(first), out.reshape(-1).view(np.uint8).data)
            return out.astype(self.dtype.newbyteorder("="), copy=False)
        wanted = self.want(first, last)
        return self.take(wanted, self.file.read_ranges(wanted.ranges))

    def know(self, intervals: Sequence[tuple[int, int]]) -> None:
        """Look up the chunks of several intervals of rows at once, if they are not known yet."""
        if isinstance(self._where, ChunkMap):
            self._where.know_all([self._numbers(self._where, first, last) for first, last in intervals])

    def want(self, first: int, last: int) -> Wanted:
        """Return the byte ranges that hold rows `first <= i < last`, for `take`."""
        where, held = self._where, dict[int, Values]()
        if isinstance(where, int):
            ranges = [(self.offset(first), self.offset(last))] if math.prod(self.shape[1:]) and first < last else []
            return Wanted(first, last, ranges, held)
        a, b = self._numbers(where, first, last)
        where.know(a, b)
        numbers = range(a, b)
        if self.keeps:
            path = self.file.path
            held = {chunk: values for chunk in numbers if (values := self._kept.get((path, chunk))) is not None}
        begins = where.places[a:b]
        ends = (begins + (where.sizes[a:b] & np.uint32((1 << SKIPPED_AT) - 1))).tolist()
        places = zip(numbers, begins.tolist(), ends, strict=True)
        return Wanted(first, last, [(begin, end) for chunk, begin, end in places if chunk not in held], held)

    def take(self, wanted: Wanted, contents: Iterator[memoryview]) -> Values:
        """Return the rows of `wanted`, as `read` does, from the next items of `contents`: the bytes of its ranges."""
        where, first, last = self._where, wanted.first, wanted.last
        out = np.empty((last - first, *self.shape[1:]), self.dtype)
        if isinstance(where, int):
            for content in itertools.islice(contents, len(wanted.ranges)):
                out.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, _BYTES)
        else:
            is_row = where.shape == (1, *self.shape[1:])  # each chunk is one row, as documented
            for chunk in range(*self._numbers(where, first, last)):
                values = wanted.held.get(chunk)
                if values is None:
                    values = self._decoded(where, chunk, next(contents))
                if is_row:
                    out[chunk - first] = values[0]
                else:
                    self._place(where, chunk, values, first, out)
        return out.astype(self.dtype.newbyteorder("="), copy=False)

    def _numbers(self, chunks: ChunkMap, first: int, last: int) -> tuple[int, int]:
        """Return the first chunk of rows `first <= i < last`, and the chunk after their last."""
        per = chunks.grid[1] * chunks.grid[2]
        return first // chunks.shape[0] * per, -(-last // chunks.shape[0]) * per

    def _place(self, chunks: ChunkMap, chunk: int, values: Values, first: int, out: Values) -> None:
        """Copy the part of a chunk that belongs to the rows of `out`, which begin with row `first`."""
        (deep, fields, width), last = chunks.shape, first + len(out)
        above, w = divmod(chunk, chunks.grid[2])
        band, f = divmod(above, chunks.grid[1])
        a, b = max(first, band * deep), min(last, (band + 1) * deep)
        target = out[a - first : b - first, f * fields : (f + 1) * fields, w * width : (w + 1) * width]
        target[...] = values[a - band * deep : b - band * deep, : target.shape[1], : target.shape[2]]

    def _decoded(self, chunks: ChunkMap, chunk: int, stored: bytes | memoryview) -> Values:
        try:
            data = chunks.pipeline.decode(np.frombuffer(stored, _BYTES), chunks.skipped(chunk))
        except DamagedChunkError as error:
            row = chunk // (chunks.grid[1] * chunks.grid[2]) * chunks.shape[0]
            raise CorruptError(
                self.file.path,
                f"the chunk of {unit_of(self.shape)} {row:,} is damaged: {error},",
                offset=int(chunks.places[chunk]),
                remedy="Copy the file again, or write it again",
            ) from error
        values = data.view(self.dtype).reshape(chunks.shape)
        if self.keeps:
            values.flags.writeable = False  # several readers get the same values
            self._kept.put((self.file.path, chunk), values, values.nbytes)
        return values

    def close(self) -> None:
        """Close the file, and drop what was decoded; the next read opens it again."""
        self._kept.clear()
        self.file.close()


LARGEST_CHUNK = 1 << 26
LARGEST_RATIO = 1100  # deflate cannot do better than 1,032 to 1


def read_map(
    file: File, dataset: Any, shape: tuple[int, int, int], chunk: tuple[int, int, int], pipeline: Pipeline
) -> ChunkMap:
    """Read the chunk map of a dataset, after a check that its claims fit the size of the file.

    Args:
        file: The file.
        dataset: Its dataset, opened by the library (h5py.h5d.DatasetID).
        shape: Shape of the dataset, [rows, fields, width].
        chunk: Shape of a chunk, [rows, fields, width].
        pipeline: Filters and item size; its `nominal` is ignored.

    Raises:
        FormatError: The dataset claims more values or chunks than the file can hold.
    """
    chunks = _bounded_map(file, shape, chunk, pipeline)
    places, sizes = _walk(dataset, chunk, chunks.grid)
    return chunks.with_chunks(places, sizes)


def needed_map(file: File, shape: tuple[int, int, int], chunk: tuple[int, int, int], pipeline: Pipeline) -> ChunkMap:
    """Return a chunk map without places, whose chunks are looked up when their rows are read.

    A file of 10 GB has 10^6 chunks and more, and the library reads 60 bytes per chunk for the whole map.

    Args:
        file: The file.
        shape: Shape of the dataset, [rows, fields, width].
        chunk: Shape of a chunk, [rows, fields, width].
        pipeline: Filters and item size; its `nominal` is ignored.

    Raises:
        FormatError: The dataset claims more values or chunks than the file can hold.
    """
    chunks = _bounded_map(file, shape, chunk, pipeline)
    count = math.prod(chunks.grid)
    places, sizes = np.full(count, _UNKNOWN, np.int64), np.zeros(count, np.uint32)
    return chunks.with_chunks(places, sizes)


def _bounded_map(file: File, shape: tuple[int, int, int], chunk: tuple[int, int, int], pipeline: Pipeline) -> ChunkMap:
    """Return a chunk map without chunks, after a check that its claims fit the size of the file."""
    nominal = math.prod(chunk) * pipeline.itemsize
    declared = math.prod(shape) * pipeline.itemsize
    if nominal > LARGEST_CHUNK:
        raise UnsafeError(
            file.path,
            "a chunk of 'data' is too large to decode",
            expected=f"at most {LARGEST_CHUNK:,} bytes",
            found=f"{nominal:,}",
            remedy="Store one chunk per sample with h5repack -l CHUNK=1x3xN",
        )
    if declared > LARGEST_RATIO * file.size:
        raise UnsafeError(
            file.path,
            f"'data' claims more than {LARGEST_RATIO:,} times the size of the file",
            expected=f"at most {LARGEST_RATIO * file.size:,} bytes",
            found=f"{declared:,}",
        )
    grid = (-(-shape[0] // chunk[0]), -(-shape[1] // chunk[1]), -(-shape[2] // chunk[2]))
    if math.prod(grid) > file.size:
        raise UnsafeError(
            file.path,
            "'data' claims more chunks than the file has bytes",
            expected=f"at most {file.size:,}",
            found=math.prod(grid),
        )
    nothing, known = np.empty(0, np.int64), Pipeline(pipeline.filters, nominal, pipeline.itemsize)
    return ChunkMap(chunk, grid, nothing, np.empty(0, np.uint32), known)


def _walk(
    dataset: Any, chunk: tuple[int, int, int], grid: tuple[int, int, int]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return places (-1 if missing) and sizes of all chunks, from the library."""
    places = np.full(math.prod(grid), -1, np.int64)
    sizes = np.zeros(math.prod(grid), np.uint32)

    def note(info: Any) -> None:
        at = info.chunk_offset
        place = at[0] // chunk[0]
        if len(at) == 3:
            place = (place * grid[1] + at[1] // chunk[1]) * grid[2] + at[2] // chunk[2]
        if 0 <= place < len(places) and info.byte_offset is not None:
            places[place], sizes[place] = stored_as(info.byte_offset, info.size, info.filter_mask)

    if len(places):
        dataset.chunk_iter(note)
    return places, sizes


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


R = TypeVar("R")


class Rows:
    """The rows of several tables with the same fields and width, as one. Picklable; several threads may share it.

    Args:
        tables: Tables of the files, in order.
        jobs: Threads of `map`; None means one per core.
        few: Few rows will be read, and some of them again: what is decoded is kept, up to `KEPT_BYTES`.

    Attributes:
        fields: Fields of every row.
        width: Values per field.
        dtype: Native dtype that holds the values of all files.
        starts: int64[files + 1], number of each file's first row.
    """

    def __init__(self, tables: Sequence[Table], jobs: int | None = None, *, few: bool = False) -> None:
        self.tables, self._jobs = list(tables), jobs
        _, self.fields, self.width = tables[0].shape
        self.dtype = np.result_type(*{table.dtype.newbyteorder("=") for table in tables})
        if self.dtype.kind not in "iu":  # int64 and uint64 have no common integer dtype
            raise UnsupportedError(
                tables[0].file.path, "the files mix int64 and uint64 IDs", remedy="Read them one by one"
            )
        self.starts = offsets_of([len(table) for table in tables])
        for table in tables if few or len(tables) > 1 else ():
            table.share(tables[0], keeps=few or sum(each.size_bytes for each in tables) <= KEPT_BYTES)
        deepest = max(table.rows_together for table in tables)
        self.together = max(1, WINDOW // (self.fields * self.width), min(deepest, (1 << 21) // self.width))
        """Number of rows to hold at once: about WINDOW values, or the rows of one chunk."""

    @property
    def is_stored(self) -> bool:
        """True if a file is in a store, which takes longer for a request than for its bytes."""
        return any(not table.file.path.is_local for table in self.tables)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, first: int, last: int) -> Values:
        """Read rows `first <= i < last`: dtype[last - first, fields, width]."""
        check_interval(first, last, len(self), "rows")
        pieces = []
        k = int(self.starts.searchsorted(first, side="right")) - 1  # the method: numpy's function takes 4 µs more
        while first < last:
            stop = min(last, int(self.starts[k + 1]))
            if stop > first:
                base = int(self.starts[k])
                pieces.append(self.tables[k].read(first - base, stop - base).astype(self.dtype, copy=False))
            first, k = max(first, stop), k + 1
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty((0, self.fields, self.width), self.dtype)

    def several(self, intervals: Sequence[tuple[int, int]]) -> list[Values]:
        """Read several intervals of rows, each as `read` returns it. The ranges of a file are read together."""
        parts = [list[Values]() for _ in intervals]
        for table, base, end in zip(self.tables, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            cut = [(k, max(first, base) - base, min(last, end) - base) for k, (first, last) in enumerate(intervals)]
            there = [(k, first, last) for k, first, last in cut if first < last]
            table.know([(first, last) for _, first, last in there])
            wanted = [table.want(first, last) for _, first, last in there]
            contents = table.file.read_ranges([one for each in wanted for one in each.ranges])
            for (k, _, _), each in zip(there, wanted, strict=True):
                parts[k].append(table.take(each, contents).astype(self.dtype, copy=False))
        nothing = np.empty((0, self.fields, self.width), self.dtype)
        return [part[0] if len(part) == 1 else np.concatenate([nothing, *part]) for part in parts]

    def beginning(self, count: int) -> Rows:
        """Return the first `count` rows as a separate object."""
        first = copy.copy(self)
        first.starts = np.minimum(self.starts, count)
        return first

    def place(self, row: int) -> tuple[Place, int, int]:
        """Return the file of a row, its number in the file, and its byte offset, for messages."""
        k = int(np.searchsorted(self.starts, row, side="right")) - 1
        local = row - int(self.starts[k])
        return self.tables[k].file.path, local, self.tables[k].offset(local)

    def value_offset(self, row: int, field: int, column: int) -> ByteOffset:
        """Return the byte offset of a value; see `Table.byte_offset`."""
        k = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.tables[k].byte_offset(row - int(self.starts[k]), field, column)

    def region(self, path: Place, offset: int) -> Region | None:
        """Return the values at a byte offset of a file, with row numbers of this object; None without any."""
        for k, table in enumerate(self.tables):
            found = table.region(offset) if table.file.path == path else None
            if found is not None:
                first, last = self.starts[k : k + 2].tolist()
                return found._replace(rows=range(first + found.rows.start, min(last, first + found.rows.stop)))
        return None

    def map(self, function: Callable[[int, Values], R]) -> Iterator[R]:
        """Yield `function(first, rows)` for consecutive blocks of rows, in order; threads compute several at a time."""
        blocks = list(windows(0, len(self), self.together))
        workers = self._jobs or cpus()
        if workers == 1:
            yield from (function(first, self.read(first, last)) for first, last in blocks)
            return
        with ThreadPoolExecutor(workers) as pool:
            for a in range(0, len(blocks), 4 * workers):  # bounds memory: results are consumed before more blocks start
                yield from pool.map(lambda block: function(block[0], self.read(*block)), blocks[a : a + 4 * workers])

    def close(self) -> None:
        for table in self.tables:
            table.close()
