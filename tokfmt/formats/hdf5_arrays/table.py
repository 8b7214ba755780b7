"""Read the rows of a dataset of integers, of one file or of several, without the HDF5 library.

A rank-3 dataset has rows [fields, width]; one of rank 2 has one field, and a rank-1 dataset has rows of one value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import cpus
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import WINDOW, ByteOffset, check_interval, windows
from tokfmt.errors import UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.chunks import KEPT_BYTES, Chunked, ChunkLayout, coordinates
from tokfmt.formats.hdf5_arrays.places import Box, Contiguous, Places
from tokfmt.wording import printable

FIELDS = ("input_ids", "mask", "labels", "attention_span", "position_ids")

Values = NDArray[np.integer[Any]]


class Region(NamedTuple):
    """A box of values of a table: ranges of rows, fields and columns, which may extend beyond the table."""

    rows: range
    fields: range
    columns: range


def field_name(field: int) -> str:
    """Return the name of a field of a sample."""
    return FIELDS[field] if field < len(FIELDS) else f"field {field}"


class Table(Chunked):
    """The rows of one file, by number."""

    map: Places | Contiguous

    def __len__(self) -> int:
        return self.layout.shape[0]

    @property
    def file(self) -> File:
        """The file."""
        return self.map.file

    @property
    def shape(self) -> Box:
        """[rows, fields, width]; [values, 1, 1] for rank 1."""
        rows, fields, width = self.layout.shape
        return rows, fields, width

    def offset(self, row: int) -> int:
        """Return the byte offset of a row, or of the first chunk that holds a part of it."""
        if isinstance(self.map, Contiguous):
            return self.map.begin + row * self._row * self.dtype.itemsize
        return self.map.find(self._numbers(row, row + 1)[0]).start

    def know(self, intervals: Sequence[tuple[int, int]]) -> None:
        """Look up the chunks of several intervals of rows at once, if they are not known yet."""
        if isinstance(self.map, Places):
            self.map.know([self._numbers(first, last) for first, last in intervals])

    def value_offset(self, row: int, field: int, column: int) -> ByteOffset:
        """Return the byte offset of a value, or of its chunk if the chunk is compressed."""
        _, fields, width = self.layout.shape
        found = self.byte_offset((row * fields + field) * width + column)
        value = f"row {row:,}, {field_name(field)}, column {column:,}" if fields * width > 1 else f"value {row:,}"
        chunk = "" if isinstance(self.map, Contiguous) else f"{found.detail.partition(', item ')[0]}, "
        return found._replace(detail=f"{chunk}{value}")

    def region(self, offset: int) -> Region | None:
        """Return the value at a byte offset of the file, or all values of the compressed chunk there; None if none."""
        layout, found = self.layout, self.map.at(self.file.path, offset)
        if found is None:
            return None
        if layout.is_plain(self.map.skipped(found[0])):
            item = self.position(self.file.path, offset)
            return None if item is None else Region(*(range(n, n + 1) for n in coordinates(item, layout.shape)))
        at = zip(coordinates(found[0], layout.grid), layout.chunk, strict=True)
        return Region(*(range(n * size, (n + 1) * size) for n, size in at))


def contiguous(file: File, shape: Box, dtype: np.dtype[np.integer[Any]], begin: int, name: str = "data") -> Table:
    """Return the rows of a dataset whose values are one run of bytes from `begin` on."""
    rows, fields, width = shape
    one = max(1, rows), max(1, fields), max(1, width)
    layout = ChunkLayout(file.path, f"/{printable(name)}", shape, one, dtype)
    return Table(layout, Contiguous(file, begin, layout.length * dtype.itemsize))


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
                pieces.append(self.tables[k].rows(first - base, stop - base).astype(self.dtype, copy=False))
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
        return self.tables[k].value_offset(row - int(self.starts[k]), field, column)

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
