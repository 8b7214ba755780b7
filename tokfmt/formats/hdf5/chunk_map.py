"""Where all chunks of a dataset lie: asked of the HDF5 library once, checked against the file, kept as two arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.core.files import File
from tokfmt.formats.hdf5.filters import Pipeline
from tokfmt.formats.hdf5.table import SKIPPED_AT, ChunkMap, unit_of

LARGEST_CHUNK = 1 << 26
LARGEST_RATIO = 1100  # deflate cannot do better than 1,032 to 1


def chunk_map(
    file: File, dataset: Any, shape: tuple[int, int, int], chunk: tuple[int, int, int], stored_as: Pipeline
) -> ChunkMap:
    """The chunk map of a dataset, each chunk of which is there, inside the file and not too large.

    Raises:
        FormatError: As `read_map`; or chunks are missing, too large or outside the file.
    """
    found = read_map(file, dataset, shape, chunk, stored_as)
    _check_map(file, found, unit_of(shape))
    return found


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


def _check_map(file: File, chunks: ChunkMap, unit: str) -> None:
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
