"""The rows of the dataset `data`, of one file or of several, read without the HDF5 library.

    kind         how a row is found
    contiguous   offset + row * bytes of a row
    chunked      a map of all chunks, taken once on opening: place (8 bytes), size and skipped filters (4 bytes)

A rank-3 dataset has rows [fields, width]; a rank-1 dataset has rows of one value.
The chunk map is asked of the HDF5 library once, checked against the file, kept as two arrays.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import WINDOW, check_interval, windows
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.memory import Recent
from tokfmt.core.protocols import Place
from tokfmt.core.ragged import offsets_of
from tokfmt.formats.hdf5.filters import FLETCHER32, DamagedChunkError, Pipeline

SKIPPED_AT = 28
"""Bit of `sizes` from which on the filter mask stands; a stored chunk is smaller than 2^28 bytes."""
FIELDS = ("input_ids", "mask", "labels", "attention_span", "position_ids")
_SPAN = 1 << 22
_GAP = 1 << 12
_KEPT_BYTES = 1 << 26
_BYTES: np.dtype[np.uint8] = np.dtype(np.uint8)

Values = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """Where the chunks of a dataset lie, in row-major order of the chunk grid.

    Attributes:
        shape: Of a chunk, [rows, fields, width].
        grid: Chunks along each dimension.
        places: int64[chunks], byte offsets in the file.
        sizes: uint32[chunks]: stored bytes, and the filter mask from bit SKIPPED_AT on.
        pipeline: How they are stored.
    """

    shape: tuple[int, int, int]
    grid: tuple[int, int, int]
    places: NDArray[np.int64]
    sizes: NDArray[np.uint32]
    pipeline: Pipeline

    def stored(self, chunk: int) -> int:
        """Stored bytes of a chunk."""
        return int(self.sizes[chunk]) & (1 << SKIPPED_AT) - 1

    def skipped(self, chunk: int) -> int:
        """Filter mask of a chunk."""
        return int(self.sizes[chunk]) >> SKIPPED_AT

    def plain(self, chunk: int) -> bool:
        """Whether its values stand in the file as they are: every filter that changes them was skipped."""
        skipped = self.skipped(chunk)
        return all(skipped >> k & 1 or number == FLETCHER32 for k, number in enumerate(self.pipeline.filters))

    def at(self, offset: int) -> int | None:
        """The chunk that holds a byte of the file."""
        held = (self.places <= offset) & (offset < self.places + (self.sizes & np.uint32((1 << SKIPPED_AT) - 1)))
        return int(np.argmax(held)) if held.any() else None


class Region(NamedTuple):
    """Values of a table: all at these rows, fields and columns; ranges may go beyond the table."""

    rows: range
    fields: range
    columns: range


def _one(row: int, field: int, column: int) -> Region:
    return Region(range(row, row + 1), range(field, field + 1), range(column, column + 1))


def field_name(field: int) -> str:
    """What a field of a sample is called."""
    return FIELDS[field] if field < len(FIELDS) else f"field {field}"


def unit_of(shape: tuple[int, int, int]) -> str:
    """What a row is called in messages."""
    return "token" if shape[1:] == (1, 1) else "sample"


class Table:
    """Rows of one file by number. Picklable, shared by threads.

    Attributes:
        file: The file.
        shape: [rows, fields, width]; [values, 1, 1] for rank 1.
        dtype: As stored, byte order included.
    """

    def __init__(
        self, file: File, shape: tuple[int, int, int], dtype: np.dtype[np.integer[Any]], where: int | ChunkMap
    ) -> None:
        self.file, self.shape, self.dtype, self._where = file, shape, dtype, where
        self._kept = Recent[int, Values](_KEPT_BYTES)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def rows_together(self) -> int:
        """Rows that are decoded at once."""
        return 1 if isinstance(self._where, int) else self._where.shape[0]

    def offset(self, row: int) -> int:
        """Byte offset at which the row, or the first chunk with it, is stored."""
        if isinstance(self._where, int):
            return self._where + row * self.shape[1] * self.shape[2] * self.dtype.itemsize
        chunks = self._where
        return int(chunks.places[row // chunks.shape[0] * chunks.grid[1] * chunks.grid[2]])

    def place(self, row: int, field: int, column: int) -> Place:
        """Where a value lies."""
        where, size = self._where, self.dtype.itemsize
        name = f"value {row:,}" if self.shape[1:] == (1, 1) else f"row {row:,}, {field_name(field)}, column {column:,}"
        if isinstance(where, int):
            at = where + ((row * self.shape[1] + field) * self.shape[2] + column) * size
            return Place(self.file.path, at, size, name)
        (deep, fields, width), grid = where.shape, where.grid
        chunk = (row // deep * grid[1] + field // fields) * grid[2] + column // width
        at = int(where.places[chunk])
        if where.plain(chunk):
            at += ((row % deep * fields + field % fields) * width + column % width) * size
        return Place(self.file.path, at, size if where.plain(chunk) else None, f"chunk {chunk:,} of /data, {name}")

    def region(self, offset: int) -> Region | None:
        """The values stored at a byte of the file: one, or those of the chunk that holds it."""
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
        """Rows `first <= i < last`: native [last - first, fields, width].

        Raises:
            CorruptError: A chunk does not decode.
            TruncatedError: The file is shorter than it was.
        """
        where, a_row = self._where, (1, *self.shape[1:])
        if last == first + 1 and isinstance(where, ChunkMap) and where.shape == a_row:  # one at random: no copy
            out = self._decoded(where, first, self._stored(where, first))
        else:
            out = np.empty((last - first, *self.shape[1:]), self.dtype)
            if not out.size:
                pass
            elif isinstance(where, int):
                self.file.read_into(self.offset(first), out.reshape(-1).view(np.uint8).data)
            elif where.shape == a_row:
                self._read_rows(where, first, out)
            else:
                self._read_chunks(where, first, out)
        return out.astype(self.dtype.newbyteorder("="), copy=False)

    def _read_rows(self, chunks: ChunkMap, first: int, out: Values) -> None:
        """One chunk a row, as documented: neighbours in the file are read together."""
        for chunk, stored in self._spans(chunks, first, first + len(out)):
            out[chunk - first] = self._decoded(chunks, chunk, stored)[0]

    def _read_chunks(self, chunks: ChunkMap, first: int, out: Values) -> None:
        """Any other chunk shape: what each chunk has of the rows asked for."""
        last, (deep, fields, width) = first + len(out), chunks.shape
        for band in range(first // deep, -(-last // deep)):
            a, b = max(first, band * deep), min(last, (band + 1) * deep)
            for f in range(chunks.grid[1]):
                for w in range(chunks.grid[2]):
                    piece = self._chunk(chunks, (band * chunks.grid[1] + f) * chunks.grid[2] + w)
                    target = out[a - first : b - first, f * fields : (f + 1) * fields, w * width : (w + 1) * width]
                    target[...] = piece[a - band * deep : b - band * deep, : target.shape[1], : target.shape[2]]

    def _chunk(self, chunks: ChunkMap, chunk: int) -> Values:
        """A decoded chunk; those of many rows are kept for the next call, 64 MiB of them."""
        values = self._kept.get(chunk)
        if values is None:
            values = self._decoded(chunks, chunk, self._stored(chunks, chunk))
            self._kept.put(chunk, values, values.nbytes)
        return values

    def _stored(self, chunks: ChunkMap, chunk: int) -> NDArray[Any]:
        """A chunk as stored."""
        return np.frombuffer(self.file.read(int(chunks.places[chunk]), chunks.stored(chunk)), _BYTES)

    def _decoded(self, chunks: ChunkMap, chunk: int, stored: NDArray[Any]) -> Values:
        try:
            data = chunks.pipeline.decode(stored, chunks.skipped(chunk))
        except DamagedChunkError as error:
            row = chunk // (chunks.grid[1] * chunks.grid[2]) * chunks.shape[0]
            raise CorruptError(
                self.file.path, f"the chunk of {unit_of(self.shape)} {row:,} is damaged: {error},",
                offset=int(chunks.places[chunk]), remedy="Copy the file again, or write it again",
            ) from error  # fmt: skip
        return data.view(self.dtype).reshape(chunks.shape)

    def _spans(self, chunks: ChunkMap, first: int, last: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Each chunk's number and stored bytes; those that lie side by side come from one read."""
        places = chunks.places[first:last].tolist()
        ends = (chunks.places[first:last] + (chunks.sizes[first:last] & ((1 << SKIPPED_AT) - 1))).tolist()
        k = 0
        while k < len(places):
            stop = k + 1
            while (
                stop < len(places)
                and ends[stop - 1] <= places[stop] <= ends[stop - 1] + _GAP
                and ends[stop] - places[k] <= _SPAN
            ):
                stop += 1
            span = np.empty(ends[stop - 1] - places[k], np.uint8)
            self.file.read_into(places[k], span.data)
            for chunk in range(k, stop):
                yield first + chunk, span[places[chunk] - places[k] : ends[chunk] - places[k]]
            k = stop

    def close(self) -> None:
        """Close the file; reading again opens it."""
        self.file.close()


LARGEST_CHUNK = 1 << 26
LARGEST_RATIO = 1100  # deflate cannot do better than 1,032 to 1


def read_map(
    file: File, dataset: Any, shape: tuple[int, int, int], chunk: tuple[int, int, int], stored_as: Pipeline
) -> ChunkMap:
    """Take the chunk map of a dataset; what it claims is bounded by the file before anything is allocated.

    Args:
        file: The file.
        dataset: Its dataset, opened by the library (h5py.h5d.DatasetID).
        shape, chunk: [rows, fields, width], of the dataset and of a chunk.
        stored_as: Filters and item size; the chunk's size is not known yet.

    Raises:
        FormatError: The map claims too much.
    """
    nominal = math.prod(chunk) * stored_as.itemsize
    declared = math.prod(shape) * stored_as.itemsize
    if nominal > LARGEST_CHUNK:
        raise UnsafeError(
            file.path, "a chunk of 'data' is too large to decode", expected=f"at most {LARGEST_CHUNK:,} bytes",
            found=f"{nominal:,}", remedy="h5repack -l CHUNK=1x3xN makes one chunk a sample",
        )  # fmt: skip
    if declared > LARGEST_RATIO * file.size:
        raise UnsafeError(
            file.path, f"'data' claims to be more than {LARGEST_RATIO:,} times the size of the file",
            expected=f"at most {LARGEST_RATIO * file.size:,} bytes", found=f"{declared:,}",
        )  # fmt: skip
    grid = (-(-shape[0] // chunk[0]), -(-shape[1] // chunk[1]), -(-shape[2] // chunk[2]))
    if math.prod(grid) > file.size:
        raise UnsafeError(
            file.path, "'data' claims more chunks than the file has bytes", expected=f"at most {file.size:,}",
            found=math.prod(grid),
        )  # fmt: skip
    places, sizes = _walk(dataset, chunk, grid)
    return ChunkMap(chunk, grid, places, sizes, Pipeline(stored_as.filters, nominal, stored_as.itemsize))


def _walk(
    dataset: Any, chunk: tuple[int, int, int], grid: tuple[int, int, int]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Places (-1 where there is no chunk) and sizes of all chunks."""
    places = np.full(math.prod(grid), -1, np.int64)
    sizes = np.zeros(math.prod(grid), np.uint32)
    limit = (1 << SKIPPED_AT) - 1

    def note(info: Any) -> None:
        at = info.chunk_offset
        place = at[0] // chunk[0]
        if len(at) == 3:
            place = (place * grid[1] + at[1] // chunk[1]) * grid[2] + at[2] // chunk[2]
        if 0 <= place < len(places) and info.byte_offset is not None and info.byte_offset < 1 << 62:
            places[place] = info.byte_offset
            sizes[place] = min(info.size, limit) | (info.filter_mask & 7) << SKIPPED_AT

    if len(places):
        dataset.chunk_iter(note)
    return places, sizes


def check_map(file: File, chunks: ChunkMap, unit: str) -> None:
    """Each chunk is there, inside the file and not too large.

    Raises:
        FormatError: Of the first that is not.
    """
    stored = (chunks.sizes & np.uint32((1 << SKIPPED_AT) - 1)).astype(np.int64)
    per_band = chunks.grid[1] * chunks.grid[2]

    def complain(wrong: NDArray[np.bool_], kind: type[FormatError], what: str, remedy: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            place = int(chunks.places[first])
            raise kind(
                file.path,
                f"the chunk of {unit} {first // per_band * chunks.shape[0]:,} {what}",
                offset=place if place >= 0 else None,
                remedy=remedy,
            )

    missing = "is missing: HDF5 readers see fill values instead"
    complain(chunks.places < 0, CorruptError, missing, "Write the file again")
    beyond = chunks.places + stored > file.size
    complain(beyond, TruncatedError, "lies beyond the end of the file", "Copy the file again")
    large = stored > chunks.pipeline.most_stored()
    complain(large, CorruptError, "is larger than it can be", "Copy the file again, or write it again")


R = TypeVar("R")


class Rows:
    """Tables of the same fields and width, as one. Picklable, shared by threads.

    Args:
        tables: Of the files, in order.
        jobs: Threads of `map`; None: one a core.

    Attributes:
        fields, width: Of every row.
        dtype: Native; wide enough for all files.
        starts: int64[files + 1], the number of each file's first row.
    """

    def __init__(self, tables: Sequence[Table], jobs: int | None = None) -> None:
        self.tables, self._jobs = list(tables), jobs
        _, self.fields, self.width = tables[0].shape
        self.dtype = np.result_type(*{table.dtype.newbyteorder("=") for table in tables})
        if self.dtype.kind not in "iu":  # int64 beside uint64
            raise UnsupportedError(
                tables[0].file.path, "the files mix int64 and uint64 ids", remedy="Read them one by one"
            )
        self.starts = offsets_of([len(table) for table in tables])
        deepest = max(table.rows_together for table in tables)
        self.together = max(1, WINDOW // (self.fields * self.width), min(deepest, (1 << 21) // self.width))
        """Rows to hold at once: about WINDOW values, or what one chunk holds anyway."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, first: int, last: int) -> Values:
        """Rows `first <= i < last`: dtype[last - first, fields, width]."""
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

    def place(self, row: int) -> tuple[Path, int, int]:
        """Where a row lies, for messages: its file, its number there, its byte offset."""
        k = int(np.searchsorted(self.starts, row, side="right")) - 1
        local = row - int(self.starts[k])
        return self.tables[k].file.path, local, self.tables[k].offset(local)

    def value_place(self, row: int, field: int, column: int) -> Place:
        """Where a value lies."""
        k = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.tables[k].place(row - int(self.starts[k]), field, column)

    def region(self, path: Path, offset: int) -> Region | None:
        """The values at a byte of a file, by the numbers of rows here; None when there are none."""
        for k, table in enumerate(self.tables):
            found = table.region(offset) if table.file.path == path else None
            if found is not None:
                first, last = self.starts[k : k + 2].tolist()
                return found._replace(rows=range(first + found.rows.start, min(last, first + found.rows.stop)))
        return None

    def map(self, function: Callable[[int, Values], R]) -> Iterator[R]:
        """`function(first, rows)` for consecutive blocks of all rows, in order, several at a time in threads."""
        blocks = list(windows(0, len(self), self.together))
        workers = self._jobs or os.cpu_count() or 1
        if workers == 1:
            yield from (function(first, self.read(first, last)) for first, last in blocks)
            return
        with ThreadPoolExecutor(workers) as pool:
            for a in range(0, len(blocks), 4 * workers):  # bounded: results are taken up before more is begun
                yield from pool.map(lambda block: function(block[0], self.read(*block)), blocks[a : a + 4 * workers])

    def close(self) -> None:
        for table in self.tables:
            table.close()
