"""The HDF5 files themselves: made with the library, filled with chunks that are compressed already.

The library runs in one process here and decides every byte that is not a chunk; times are not tracked, so the same
chunks give the same file. `libver` is held back so that HDF5 1.10 reads what HDF5 2 writes.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt.core.dtypes import Dtype
from tokfmt.core.publish import write_error

RAW = 1 << 31
"""Set in a part's sizes for a chunk that is not compressed."""
_LIBRARY_VERSIONS = ("earliest", "v110")


@dataclass(frozen=True, slots=True)
class Facts:
    """tokfmt's own attributes of `data`; see `facts`."""

    stride: str
    eos_id: int
    pad_id: int | None
    first_token: int
    stream_tokens: int


def read_part(path: Path, count: int) -> Iterator[tuple[bytes, bool]]:
    """Every one of the `count` chunks of a part, in order, and whether it is raw."""
    try:
        with open(path, "rb") as file:
            file.seek(-4 * count, os.SEEK_END)
            sizes = np.frombuffer(file.read(4 * count), np.uint32).tolist()
            file.seek(0)
            for size in sizes:
                yield file.read(size & (RAW - 1)), bool(size & RAW)
    except OSError as error:
        raise write_error(path, error) from error


def remove_part(path: Path) -> None:
    """A part whose chunks are where they belong."""
    try:
        os.unlink(path)
    except OSError as error:
        raise write_error(path, error) from error


class SampleFile:
    """A sample file that is being filled.

    Args:
        path: It does not exist yet.
        shape: Samples, and tokens in each.
        facts: For the attributes.
        shuffle: Whether the chunks went through the shuffle filter.
    """

    def __init__(self, path: Path, shape: tuple[int, int], facts: Facts, *, shuffle: bool) -> None:
        count, width = shape
        self.path, self._filled = path, 0
        self._deflate = 1 << int(shuffle)  # its bit in the filter mask
        with _worded(path):
            self._file = _new(path)
            self._file.attrs.create("n_examples", np.int64(count))
            data = self._file.create_dataset(
                "data",
                shape=(count, 3, width),
                maxshape=None if count else (None, 3, width),
                dtype="<i4",
                chunks=(1, 3, width),
                compression="gzip",
                shuffle=shuffle,
                track_times=False,
            )
            _annotate(data, facts)
            self._store = data.id.write_direct_chunk

    def add(self, chunks: Iterator[tuple[bytes, bool]]) -> None:
        """The next samples, and whether each is raw."""
        with _worded(self.path):
            for sample, (chunk, raw) in enumerate(chunks, self._filled):
                self._store((sample, 0, 0), chunk, self._deflate if raw else 0)
                self._filled = sample + 1

    def close(self) -> None:
        """Write what the library still holds."""
        with _worded(self.path):
            self._file.close()


def empty_corpus(path: Path, tokens: int, dtype: Dtype, facts: Facts) -> None:
    """Write a corpus file of zeros, its space allocated in one piece."""
    with _worded(path), _new(path) as file:
        from h5py import Dataset, h5d, h5p, h5s, h5t

        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_layout(h5d.CONTIGUOUS)
        properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5d.FILL_TIME_NEVER)
        properties.set_obj_track_times(False)
        kind = h5t.py_create(dtype.newbyteorder("<"))
        made = h5d.create(file.id, b"data", kind, h5s.create_simple((tokens,)), properties)
        _annotate(Dataset(made), facts)


def corpus_place(path: Path) -> int:
    """Byte offset of a corpus file's first token."""
    import h5py

    with h5py.File(os.fspath(path), "r", locking=False) as file:
        return int(file["data"].id.get_offset())


def _annotate(data: Any, facts: Facts) -> None:
    data.attrs.create("stride", np.bytes_(facts.stride))
    numbers = {name: getattr(facts, name) for name in ("eos_id", "pad_id", "first_token", "stream_tokens")}
    for name, value in numbers.items():
        if value is not None:
            data.attrs.create(name, np.int64(value))


def _new(path: Path) -> Any:
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
    import h5py

    return h5py.File(os.fspath(path), "x", libver=_LIBRARY_VERSIONS, locking=False)


@contextmanager
def _worded(path: Path) -> Iterator[None]:
    """The library's errors as ConversionError."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        found = re.search(r"errno = (\d+)", str(error))
        code = int(found[1]) if found else getattr(error, "errno", None) or errno.EIO
        raise write_error(path, OSError(code, os.strerror(code))) from error
