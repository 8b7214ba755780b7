"""The rows of all files, one after the other, by number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from tokfmt.core.axis import WINDOW, check_interval, windows
from tokfmt.core.errors import UnsupportedError
from tokfmt.core.inside import Place
from tokfmt.core.ragged import offsets_of
from tokfmt.formats.hdf5.table import Region, Table, Values

R = TypeVar("R")


class Rows:
    """Tables of the same fields and width, as one. Picklable, shared by threads.

    Attributes:
        fields, width: Of every row.
        dtype: Native; wide enough for all files.
        starts: int64[files + 1], the number of each file's first row.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = list(tables)
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
        workers = os.cpu_count() or 1
        with ThreadPoolExecutor(workers) as pool:
            for a in range(0, len(blocks), 4 * workers):  # bounded: results are taken up before more is begun
                yield from pool.map(lambda block: function(block[0], self.read(*block)), blocks[a : a + 4 * workers])

    def close(self) -> None:
        for table in self.tables:
            table.close()
