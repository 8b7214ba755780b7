"""Read the rows of a dataset of integers, of one file or of several, without the HDF5 library.

    layout       place of a row
    contiguous   offset + row * bytes per row
    chunked      that of its chunks; see `chunks`

A rank-3 dataset has rows [fields, width]; one of rank 2 has one field, and a rank-1 dataset has rows of one value.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent, cpus
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import WINDOW, ByteOffset, check_interval, windows
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.hdf5_arrays.chunks import SKIPPED_AT, ChunkMap, DamagedChunkError
from tokfmt.wording import printable

FIELDS = ("input_ids", "mask", "labels", "attention_span", "position_ids")
KEPT_BYTES = 1 << 26
"""Decoded bytes of chunks that are kept. A dataset with fewer bytes is decoded once, however often it is read."""
_BYTES: np.dtype[np.uint8] = np.dtype(np.uint8)

Values = NDArray[np.integer[Any]]


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
        name: Name of the dataset, for messages.
        keeps: True if decoded chunks are kept, up to `KEPT_BYTES`.
    """

    def __init__(
        self,
        file: File,
        shape: tuple[int, int, int],
        dtype: np.dtype[np.integer[Any]],
        where: int | ChunkMap,
        name: str = "data",
    ) -> None:
        self.file, self.shape, self.dtype, self._where, self.name = file, shape, dtype, where, name
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
        chunks.know((chunk, chunk + 1))
        return int(chunks.places[chunk])

    def byte_offset(self, row: int, field: int, column: int) -> ByteOffset:
        """Return the byte offset of a value, or of its chunk if the chunk is compressed."""
        where, size = self._where, self.dtype.itemsize
        value = f"value {row:,}" if self.shape[1:] == (1, 1) else f"row {row:,}, {field_name(field)}, column {column:,}"
        if isinstance(where, int):
            at = where + ((row * self.shape[1] + field) * self.shape[2] + column) * size
            return ByteOffset(self.file.path, at, size, value)
        (deep, fields, width), grid = where.shape, where.grid
        chunk = (row // deep * grid[1] + field // fields) * grid[2] + column // width
        where.know((chunk, chunk + 1))
        at = int(where.places[chunk])
        if where.plain(chunk):
            at += ((row % deep * fields + field % fields) * width + column % width) * size
        detail = f"chunk {chunk:,} of /{printable(self.name)}, {value}"
        return ByteOffset(self.file.path, at, size if where.plain(chunk) else None, detail)

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
                where.know((first, last))  # a single row needs no copy
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
            self._where.know(*(self._numbers(self._where, first, last) for first, last in intervals))

    def want(self, first: int, last: int) -> Wanted:
        """Return the byte ranges that hold rows `first <= i < last`, for `take`."""
        where, held = self._where, dict[int, Values]()
        if isinstance(where, int):
            ranges = [(self.offset(first), self.offset(last))] if math.prod(self.shape[1:]) and first < last else []
            return Wanted(first, last, ranges, held)
        a, b = self._numbers(where, first, last)
        where.know((a, b))
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


class Items:
    """The values of a table with one field, numbered in row-major order. Picklable."""

    def __init__(self, table: Table) -> None:
        self._table, self._width = table, table.shape[2]

    @property
    def length(self) -> int:
        """Number of values."""
        return math.prod(self._table.shape)

    @property
    def dtype(self) -> np.dtype[np.integer[Any]]:
        """Dtype of the values, in native byte order."""
        return self._table.dtype.newbyteorder("=")

    def read(self, start: int, stop: int) -> Values:
        """Return values `start <= i < stop`."""
        if start == stop:
            return np.empty(0, self.dtype)
        first = start // self._width
        rows = self._table.read(first, -(-stop // self._width)).reshape(-1)
        return rows[start - first * self._width : stop - first * self._width]

    def byte_offset(self, item: int) -> ByteOffset:
        """See `Table.byte_offset`."""
        row, column = divmod(item, self._width)
        return self._table.byte_offset(row, 0, column)

    def position(self, path: Place, offset: int) -> int | None:
        """Return the value at a byte offset of the file, or the first of the chunk there; None if there is neither."""
        found = self._table.region(offset) if path == self._table.file.path else None
        return None if found is None else found.rows.start * self._width + found.columns.start

    def close(self) -> None:
        """See `Table.close`."""
        self._table.close()


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
        keeps = few or sum(table.size_bytes for table in tables) <= KEPT_BYTES
        for table in tables if few or len(tables) > 1 else ():
            table.share(tables[0], keeps=keeps)
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
