"""An HDF5 file opened with distrust: what its headers say of the dataset `data`, and where its values lie.

The HDF5 library only reads headers here; it never sees a value, so no filter plug-in, virtual source or external file
is ever touched. Everything that would make it reach out of the file is refused by name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError, printable
from tokfmt.core.files import File
from tokfmt.formats.hdf5.chunk_map import chunk_map
from tokfmt.formats.hdf5.filters import DEFLATE, FLETCHER32, SHUFFLE, Pipeline
from tokfmt.formats.hdf5.table import ChunkMap, Table

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_USER_BLOCKS = [512 << k for k in range(16)]
_DATA_FACTS = ("stride", "eos_id", "pad_id", "first_token", "stream_tokens")
_LIBRARY_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError, SystemError)
FILTER_NAMES = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32001: "blosc", 32004: "lz4", 32015: "zstd"}
_REPACK = "h5repack -f GZIP=4 OLD.h5 NEW.h5 makes one that can be read"

Attribute = int | float | str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """What one file holds.

    Attributes:
        path: The file.
        shape: Of `data`, as declared; of rank 3 or 1.
        table: Its rows.
        names: Names in the root group, up to 64.
        n_examples: The root attribute: an int, a float or a str as stored, None when it is not there.
        facts: Those of tokfmt's own attributes on `data` that are there, unchecked.
        chunk: Its chunk shape, None when contiguous.
        filters: Filter numbers in the order of writing.
    """

    path: Path
    shape: tuple[int, ...]
    table: Table
    names: frozenset[str]
    n_examples: Attribute
    facts: Mapping[str, Attribute]
    chunk: tuple[int, ...] | None
    filters: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def foreign(self) -> str:
        """What else than GPT samples, packed sequences (VSL) or a corpus this is; "" when it is one of them."""
        if self.rank == 1 or self.shape[1] == 3:
            return ""
        if self.shape[1] == 5:
            return "multimodal samples" if "img_path" in self.names else ""
        if self.shape[1] == 2 and "labels" in self.names:
            return "masked language model samples (MLM)"
        known = {4: "packed masked language model samples (VSL MLM)", 6: "preference samples (DPO)"}
        return known.get(self.shape[1], f"samples of {self.shape[1]:,} fields")


def open_stored(path: Path) -> Stored:
    """Open one file.

    Raises:
        FormatError: It is not a regular HDF5 file, or its dataset `data` is not one that can be trusted and read.
    """
    file = File(path)
    check_superblock(file)
    with library_errors(path):
        handle = open_library(path)
    try:
        with library_errors(path):
            stored = _stored(file, handle)
    finally:
        handle.close()
    file.check_unchanged()
    return stored


def check_superblock(file: File) -> None:
    """The signature, and the size that the superblock says the file has.

    Raises:
        FormatError: No HDF5 file, one behind a user block, or one that was cut.
    """
    head = file.read(0, min(file.size, 64))
    if not head.startswith(SIGNATURE):
        for at in _USER_BLOCKS:
            if at + 8 <= file.size and file.read(at, 8) == SIGNATURE:
                raise UnsupportedError(
                    file.path, f"{at:,} foreign bytes (a user block) stand before the HDF5 data", offset=0,
                    remedy="h5repack OLD.h5 NEW.h5 takes them away",
                )  # fmt: skip
        what = "is empty" if not file.size else "is not an HDF5 file"
        raise CorruptError(file.path, what, offset=0, expected="\\x89HDF", remedy="Name its format with --from")
    version = head[8] if len(head) > 8 else 0
    at, width = {0: (40, 13), 1: (44, 13), 2: (28, 9), 3: (28, 9)}.get(version, (0, 0))
    if len(head) < max(at + 8, 9):
        raise TruncatedError(file.path, "the file ends inside the HDF5 superblock", offset=file.size,
                             remedy="Copy the file again")  # fmt: skip
    if not at:
        raise CorruptError(
            file.path, "the HDF5 superblock has an unknown version", offset=8, expected="0, 1, 2 or 3", found=version,
            remedy="Copy the file again",
        )  # fmt: skip
    if head[width] != 8:  # offsets of another width than anybody writes: the library says what is wrong
        return
    end = int.from_bytes(head[at : at + 8], "little")
    if end > file.size:
        raise TruncatedError(
            file.path, "the file is shorter than its superblock says", offset=file.size, expected=end,
            found=file.size, remedy="Copy the file again; its writer may not have finished",
        )  # fmt: skip


def open_library(path: Path) -> Any:
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"  # no filter plug-ins, whatever HDF5_PLUGIN_PATH says
    import h5py

    return h5py.File(os.fspath(path), "r", locking=False, rdcc_nbytes=0)


@contextmanager
def library_errors(path: Path) -> Iterator[None]:
    """Turn what the HDF5 library raises into a CorruptError."""
    try:
        yield
    except _LIBRARY_ERRORS as error:
        raise CorruptError(
            path, "the HDF5 library cannot read its headers", remedy="Copy the file again; h5dump -H says more"
        ) from error


def _stored(file: File, handle: Any) -> Stored:
    from h5py import h5d

    names = frozenset(root_names(handle))
    _check_link(file, handle, names)
    dataset = h5d.open(handle.id, b"data")
    dtype = dtype_of(file, dataset.get_type())
    shape = shape_of(file, dataset)
    properties = dataset.get_create_plist()
    if properties.get_external_count():
        raise UnsafeError(
            file.path, "the values of 'data' lie in other files (external storage)", remedy="h5repack makes one file"
        )
    boxed = box_of(shape)
    where: int | ChunkMap
    filters = filters_of(file, properties, dtype.itemsize)
    layout, chunk = properties.get_layout(), None
    if layout == h5d.CONTIGUOUS:
        where = _contiguous(file, dataset, math.prod(shape) * dtype.itemsize)
    elif layout == h5d.CHUNKED:
        chunk = tuple(int(n) for n in properties.get_chunk())
        where = chunk_map(file, dataset, boxed, box_of(chunk), Pipeline(filters, 0, dtype.itemsize))
    else:
        raise _other_layout(file, layout == h5d.VIRTUAL)
    return header_of(file, handle, dataset, Table(file, boxed, dtype, where), chunk, filters)


def header_of(
    file: File,
    handle: Any,
    dataset: Any,
    table: Table,
    chunk: tuple[int, ...] | None = None,
    filters: tuple[int, ...] = (),
) -> Stored:
    """What the headers say of `data`, which is a dataset, beside how it is stored."""
    return Stored(
        file.path,
        shape_of(file, dataset),
        table,
        frozenset(root_names(handle)),
        attribute_of(handle.id, "n_examples"),
        {name: value for name in _DATA_FACTS if (value := attribute_of(dataset, name)) is not None},
        chunk,
        filters,
    )


def root_names(handle: Any) -> Iterator[str]:
    """Names in the root group, the first 64."""
    found: list[str] = []

    def note(name: bytes) -> bool | None:
        found.append(printable(name.decode("utf-8", "backslashreplace")))
        return len(found) == 64 or None

    handle.id.links.iterate(note)
    return iter(found)


def _check_link(file: File, handle: Any, names: frozenset[str]) -> None:
    from h5py import h5l, h5o

    if b"data" not in handle.id:
        if "data_0" in names:
            raise UnsupportedError(file.path, "holds samples of mixed shapes (data_0, data_1, ...), not one dataset",
                                   remedy="tokfmt reads files with one dataset 'data'")  # fmt: skip
        listed = ", ".join(sorted(names)[:8]) or "nothing"
        raise CorruptError(file.path, "holds no dataset 'data'", found=listed)
    if handle.id.links.get_info(b"data").type != h5l.TYPE_HARD:
        raise UnsafeError(
            file.path, "'data' is a soft or external link, which may lead out of the file",
            remedy="Copy the dataset itself into the file",
        )  # fmt: skip
    if h5o.get_info(handle.id, b"data").type != h5o.TYPE_DATASET:
        raise CorruptError(file.path, "'data' is not a dataset but a group or a type")


def dtype_of(file: File, kind: Any) -> np.dtype[np.integer[Any]]:
    from h5py import h5t

    if kind.get_class() != h5t.INTEGER:
        raise UnsupportedError(
            file.path, "'data' does not hold integers", expected="token ids",
            found={h5t.FLOAT: "floats", h5t.STRING: "text", h5t.COMPOUND: "records"}.get(kind.get_class(), "others"),
        )  # fmt: skip
    size, order = kind.get_size(), kind.get_order()
    if size not in (1, 2, 4, 8) or kind.get_precision() != 8 * size or kind.get_offset():
        raise UnsupportedError(
            file.path,
            "'data' holds integers of an unusual width",
            expected="all bits of 1, 2, 4 or 8 bytes",
            found=f"{kind.get_precision()} bits of {size} bytes",
        )
    sign = "u" if kind.get_sign() == h5t.SGN_NONE else "i"
    return np.dtype(f"{'>' if order == h5t.ORDER_BE else '<'}{sign}{size}")


def shape_of(file: File, dataset: Any) -> tuple[int, ...]:
    from h5py import h5s

    space = dataset.get_space()
    if space.get_simple_extent_type() != h5s.SIMPLE:
        raise UnsupportedError(file.path, "'data' is a single value or nothing, not an array")
    shape = tuple(int(n) for n in space.get_simple_extent_dims())
    if len(shape) not in (1, 3):
        raise UnsupportedError(
            file.path, f"'data' has {len(shape)} dimensions", expected="3 (samples) or 1 (a corpus)",
            remedy="Samples are [samples, 3, tokens]: input_ids, mask, labels",
        )  # fmt: skip
    return shape


def box_of(lengths: tuple[int, ...]) -> tuple[int, int, int]:
    """Lengths of rank 3 or 1 as [rows, fields, width]."""
    return (lengths[0], lengths[1], lengths[2]) if len(lengths) == 3 else (lengths[0], 1, 1)


def filters_of(file: File, properties: Any, itemsize: int) -> tuple[int, ...]:
    found = [properties.get_filter(k)[:3] for k in range(properties.get_nfilters())]
    numbers = tuple(int(number) for number, _, _ in found)
    for number in numbers:
        if number not in (DEFLATE, SHUFFLE, FLETCHER32):
            name = FILTER_NAMES.get(number, f"number {number}")
            raise UnsupportedError(
                file.path, f"'data' is stored with the filter {name}", expected="deflate, shuffle, fletcher32",
                remedy=_REPACK,
            )  # fmt: skip
        if numbers.count(number) > 1:
            raise UnsafeError(file.path, "'data' is stored with the same filter twice", remedy=_REPACK)
    if SHUFFLE in numbers:
        width = found[numbers.index(SHUFFLE)][2]
        after = numbers[: numbers.index(SHUFFLE)]
        if list(width) != [itemsize] or after:
            raise UnsupportedError(file.path, "'data' is stored with an unusual shuffle filter", remedy=_REPACK)
    return numbers


def _contiguous(file: File, dataset: Any, size: int) -> int:
    place = dataset.get_offset()
    if not size:
        return 0
    if place is None or dataset.get_storage_size() != size:
        raise CorruptError(
            file.path, "'data' was never written: nothing is allocated for it", expected=f"{size:,} bytes",
            remedy="Write the file again",
        )  # fmt: skip
    if place + size > file.size:
        raise TruncatedError(
            file.path, "'data' goes on beyond the end of the file", offset=place, expected=f"{size:,} bytes",
            found=f"{max(0, file.size - place):,}", remedy="Copy the file again",
        )  # fmt: skip
    return int(place)


def _other_layout(file: File, virtual: bool) -> FormatError:
    if virtual:
        return UnsafeError(
            file.path, "'data' is a virtual dataset: its values lie in other files", remedy="Name those files instead"
        )
    return UnsupportedError(file.path, "'data' is stored in its own header (compact layout)", remedy=_REPACK)


def attribute_of(owner: Any, name: str) -> Attribute:
    """A small attribute: an int, a float, a fixed-length text; "?" for what is none of these; None if missing."""
    from h5py import h5a, h5t

    key = name.encode()
    if not h5a.exists(owner, key):
        return None
    attribute = h5a.open(owner, key)
    kind, shape = attribute.get_type(), attribute.shape
    if kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.STRING) or shape not in ((), (1,)) or kind.get_size() > 64:
        return "?"
    if kind.get_class() == h5t.STRING and kind.is_variable_str():
        return "?"
    value = np.empty(shape, attribute.dtype)
    attribute.read(value)
    plain = value.reshape(-1)[0].item()
    return plain.decode("utf-8", "backslashreplace") if isinstance(plain, bytes) else plain
