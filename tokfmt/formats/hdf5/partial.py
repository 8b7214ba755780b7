"""Read the complete rows of HDF5 files that were cut; see `Hints.allow_partial`.

The library does not open a file that is shorter than its superblock states. Here it reads zeros after the end of the
file. Its results count only if it read none of these zeros: then all headers and the chunk map are before the cut.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokfmt.core.reader import Damage
from tokfmt.errors import NO_DAMAGE, FormatError, TruncatedError
from tokfmt.files.file import File, Stream, open_file
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.stored import Hdf5File, header_at, header_of, open_data, open_hdf5
from tokfmt.formats.hdf5_arrays.container import library_errors, open_library, stated_end, storage_of
from tokfmt.formats.hdf5_arrays.places import Places
from tokfmt.formats.hdf5_arrays.table import Table, contiguous
from tokfmt.wording import counted, printable

_HEAD = 96  # bytes of a superblock, where no chunk can be


def open_first(paths: Sequence[Place]) -> tuple[list[Hdf5File], list[Damage]]:
    """Open the files of one stream up to the first damaged one, of which only the first rows count.

    Returns:
        The files, and what is lost.
    """
    found, damage = list[Hdf5File](), list[Damage]()
    for k, path in enumerate(paths):
        try:
            stored, lost = _open(path)
        except NO_DAMAGE:
            raise
        except FormatError as error:
            if not found:
                raise
            stored, lost = None, Damage(error.sentence)
        if stored is not None:
            found.append(stored)
        if lost is not None:
            damage.append(lost)
            if behind := paths[k + 1 :]:
                what = f"{counted(len(behind), 'file')} from {printable(behind[0].name)} on may begin inside a document"
                unused = sum(one.status().size for one in behind if one.is_file())
                damage.append(Damage(what, unused=unused))
            break
    return found, damage


def _open(path: Place) -> tuple[Hdf5File, Damage | None]:
    """Open a file; if it was cut, only its complete rows, and report what is lost."""
    try:
        return open_hdf5(path), None
    except TruncatedError as error:
        file = open_file(path)
        padded = _Padded(file, stated_end(file))
        with library_errors(path):
            handle = open_library(file, stream=padded)
            try:
                stored = _first_rows(file, handle)
            finally:
                handle.close()
        if padded.read_beyond or not len(stored.table):
            error.advise("The headers that locate its rows are lost")
            raise
        file.check_unchanged()
        return stored, Damage(error.sentence)


def _first_rows(file: File, handle: Any) -> Hdf5File:
    """Return the rows of `data` that end before the end of the file."""
    dataset = open_data(file, handle)
    shape, table, chunk, filters = storage_of(file, dataset, cut=True, header=header_at(handle))
    if isinstance(table.map, Places):
        places = _first_chunks(file, table.map)
        places.check()
        table = Table(places.layout, places)
    else:
        rows, *others = table.shape
        rows = min(rows, max(0, file.size - table.offset(0)) // max(1, math.prod(others) * table.dtype.itemsize))
        table = contiguous(file, (rows, others[0], others[1]), table.layout.dtype, table.offset(0))
    stored = header_of(file, handle, dataset, table, chunk, filters)
    count = None if stored.n_examples is None else len(table)  # the attribute counts the rows that are lost as well
    return replace(stored, shape=(len(table), *shape[1:]), n_examples=count)


def _first_chunks(file: File, places: Places) -> Places:
    """Return the chunks of the bands before the first band with an incomplete chunk."""
    lost = np.flatnonzero((places.places < _HEAD) | (places.places + places.sizes > file.size))
    return places.bands(int(lost[0]) // places.layout.band if len(lost) else places.layout.grid[0])


class _Padded(Stream):
    """A file padded with zeros to the length that its superblock states.

    Attributes:
        read_beyond: True once any of these zeros was read.
    """

    def __init__(self, file: File, size: int) -> None:
        super().__init__(file)
        self._size, self.read_beyond = size, False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset, whence = self._size + offset, os.SEEK_SET
        return super().seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        count = left if size < 0 else min(size, left)
        held = max(0, min(count, self._file.size - self._at))
        content = self._file.read(self._at, held)
        self.read_beyond |= held < count
        self._at += count
        return content + bytes(count - held)
