"""Open an untrusted HDF5 file: read the headers of a dataset of integers, and locate its values.

The HDF5 library only reads headers here. It never reads a value, so it never uses a filter plug-in, a virtual source or
an external file. tokfmt refuses every feature by name that would make the library read outside of the file.

The superblock is read without the library.

    version 0 and 1                                    version 2 and 3
    0   8  signature                                   0   8  signature
    8   1  version                                     8   1  version
    13  1  bytes of an offset                          9   1  bytes of an offset
    14  1  bytes of a length                           10  1  bytes of a length
    16  2  K of group leaves                           11  1  consistency flags
    18  2  K of group nodes                            12  8  base address
    20  4  consistency flags                           20  8  address of the extension
    24  8  base address (version 1: 28)                28  8  end of the file
    32  8  free space (36)                             36  8  address of the root group
    40  8  end of the file (44)                        44  4  checksum
    48  8  driver information (52)
    56  .. root group: name, address of its header (60)

Source: the HDF5 file format specification, version 3.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import deflate  # noqa: F401 - it decodes most chunks: missing packages are named before a file is read
import numpy as np

from tokfmt.core.annotation import shown
from tokfmt.errors import CorruptError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.fields import Field
from tokfmt.files.file import File, Held, Stream, open_file
from tokfmt.files.place import LocalPlace, Place
from tokfmt.formats.hdf5_arrays.chunk_tree import ChunkTree, check_groups, root_of
from tokfmt.formats.hdf5_arrays.places import (
    DEFLATE,
    FLETCHER32,
    LARGEST_CHUNK,
    SHUFFLE,
    Places,
    box_of,
    layout_of,
    listed,
    unknown,
)
from tokfmt.formats.hdf5_arrays.table import Table, contiguous
from tokfmt.wording import printable

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_USER_BLOCKS = [512 << k for k in range(16)]
_LIBRARY_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError, SystemError)
_WRITING = 5  # consistency flags: open for writing, open for writing by one process and reading by others (SWMR)
_LZF = 32000  # a filter of h5py, which h5repack lacks
FILTER_NAMES = {4: "szip", 5: "nbit", 6: "scaleoffset", _LZF: "lzf", 32001: "blosc", 32004: "lz4", 32015: "zstd"}
_REPACK = "Make a readable file with h5repack -f GZIP=4 OLD.h5 NEW.h5"

_LISTED, _DEEPEST = 64, 2
_TYPES = {3: "text", 5: "opaque", 6: "records", 7: "references", 9: "lists"}  # classes of types without a plain name

R = TypeVar("R")
Attribute = int | float | str | None


SAMPLES, ARRAYS = (3, 1), (2, 1)
"""Numbers of dimensions of `data`, and of datasets that `open_arrays` opens."""


class Array(NamedTuple):
    """A dataset of one or two dimensions."""

    name: str  # name, with those of its groups
    shape: tuple[int, ...]  # shape as declared
    table: Table  # its rows


class Storage(NamedTuple):
    """The storage of a dataset."""

    shape: tuple[int, ...]  # shape as declared
    table: Table  # its rows; chunks are not yet compared with the file
    chunk: tuple[int, ...] | None  # shape of a chunk; None if contiguous
    filters: tuple[int, ...]  # filter numbers in the order of writing


def within(path: Place, look: Callable[[File, Any], R], opened: Callable[[Place], File] = open_file) -> R:
    """Open a file with the library and return `look(file, handle)`; for errors see `open_hdf5`."""
    file = opened(path)
    check_superblock(file)
    with library_errors(path):
        handle = open_library(file)
    try:
        with library_errors(path):
            found = look(file, handle)
    finally:
        handle.close()
    file.check_unchanged()
    return found


def check_superblock(file: File) -> None:
    """Check the signature, and that the file is as long as its superblock states."""
    head = file.read(0, min(file.size, 64))
    if not head.startswith(SIGNATURE):
        for at in _USER_BLOCKS:
            if at + 8 <= file.size and file.read(at, 8) == SIGNATURE:
                raise UnsupportedError(
                    file.path,
                    f"{at:,} foreign bytes (a user block) come before the HDF5 data",
                    offset=0,
                    remedy="Remove them with h5repack OLD.h5 NEW.h5",
                )
        what = "is empty" if not file.size else "is not an HDF5 file"
        remedy = "Copy it again" if file.path.suffix == ".h5" else "Give its format with --from NAME"
        raise CorruptError(file.path, what, offset=0, expected="\\x89HDF", remedy=remedy)
    version = head[8] if len(head) > 8 else 0
    at, width = {0: (40, 13), 1: (44, 13), 2: (28, 9), 3: (28, 9)}.get(version, (0, 0))
    if len(head) < max(at + 8, 9):
        raise TruncatedError(
            file.path, "the file ends inside the HDF5 superblock", offset=file.size, remedy="Copy the file again"
        )
    if not at:
        raise CorruptError(
            file.path,
            "the HDF5 superblock has an unknown version",
            offset=8,
            expected="0, 1, 2 or 3",
            found=version,
            remedy="Copy the file again",
        )
    if version == 3 and head[11] & _WRITING:
        raise _being_written(file)
    if head[width] != 8:  # no writer uses offsets of another width; the library reports the error
        return
    end = stated_end(file)
    if end > file.size:
        raise TruncatedError(
            file.path,
            "the file is shorter than its superblock states",
            offset=file.size,
            expected=end,
            found=file.size,
            remedy="Copy the file again; its writer may not have finished",
        )


def stated_end(file: File) -> int:
    """Return the length in bytes that a checked superblock states for the file."""
    at = {0: 40, 1: 44}.get(file.read(8, 1)[0], 28)
    return int.from_bytes(file.read(at, 8), "little")


def open_library(file: File, held: Held | None = None, stream: io.RawIOBase | None = None) -> Any:
    """Open a file with the HDF5 library, which reads `stream` in its place; return its h5py.File. `held` is what is
    held of it in memory.
    """
    look = held or file
    root_at = {0: 64, 1: 68}.get(look.read(8, 1)[0], 36) if look.size > 76 else 0
    check_groups(file.path, look, int.from_bytes(look.read(root_at, 8), "little") if root_at else 0, _DEEPEST)
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"  # turns filter plug-ins off for every value of HDF5_PLUGIN_PATH
    import h5py

    if stream is not None or not isinstance(file.path, LocalPlace):
        return h5py.File(stream or Exact(look), "r", rdcc_nbytes=0)
    for locking in (False, None, True):  # Where this process has the file open, the library asks for the same choice.
        try:
            handle = h5py.File(file.path, "r", locking=locking, rdcc_nbytes=0)
        except OSError as error:
            if locking or "flag values don't match" not in str(error):
                raise
        else:
            break
    if handle.id.get_intent() & h5py.h5f.ACC_RDWR:  # What the library holds in memory is not in the file yet.
        handle.close()
        raise _being_written(file, os.getpid())
    return handle


def _being_written(file: File, process: int | None = None) -> UnsupportedError:
    """Return the error of a file that a `process` (None: look for it) has open to write, or had when it was killed."""
    process = process or _locked_by(file)
    if process is None:
        what = "is marked as open for writing: its writer was killed, or still has it open"
        return UnsupportedError(file.path, what, remedy="If no process writes it, run h5clear -s FILE")
    who = "this process" if process == os.getpid() else f"process {process}"
    return UnsupportedError(file.path, f"is open for writing in {who}", remedy="Close it there first")


def _locked_by(file: File) -> int | None:
    """Return the process that holds a lock to write a local file; None if there is none, or the system lists none."""
    if not isinstance(file.path, LocalPlace):
        return None
    with suppress(OSError, ValueError), open("/proc/locks", encoding="ascii") as lines:
        inode = os.stat(file.path).st_ino
        for line in lines:  # 1: FLOCK  ADVISORY  WRITE 4242 fe:00:2164807 0 EOF
            words = line.split()
            if words[1] != "->" and words[3] == "WRITE" and int(words[5].rpartition(":")[2]) == inode:
                return int(words[4])
    return None


class Exact(Stream):
    """A file as a stream that never fills a buffer in part: the library would take the rest for bytes of the file."""

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer."""
        memoryview(buffer)[:] = self._file.read(self._at, len(buffer))
        self._at += len(buffer)
        return len(buffer)


@contextmanager
def library_errors(path: Place) -> Iterator[None]:
    """Turn the exceptions of the HDF5 library into a CorruptError."""
    try:
        yield
    except _LIBRARY_ERRORS as error:
        what = "the HDF5 library cannot read its headers"
        remedy = "Copy the file again, or update h5py if a newer one wrote it; h5dump -H shows more"
        raise CorruptError(path, what, remedy=remedy) from error


def storage_of(
    file: File,
    dataset: Any,
    *,
    name: str = "data",
    ranks: Sequence[int] = SAMPLES,
    cut: bool = False,
    header: int,
    later: bool = False,
) -> Storage:
    """Return dtype, shape, place, chunks and filters of a dataset.

    Args:
        file: The file.
        dataset: The dataset, opened by the library.
        name: Its name, for messages.
        ranks: Numbers of dimensions that it may have.
        cut: Accept values that end after the end of the file, because it was cut.
        header: Byte offset of its object header.
        later: Look up chunks, and compare them with the file, when they are read; if its index allows that.
    """
    from h5py import h5d

    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    if layout == h5d.VIRTUAL:  # Its shape may depend on other files.
        what, remedy = f"'{name}' is a virtual dataset: its values are in other files", "Give those files instead"
        raise UnsafeError(file.path, what, remedy=remedy)
    kind, shape = dtype_of(file, dataset.get_type(), name), shape_of(file, dataset, name, ranks)
    if properties.get_external_count():
        raise UnsafeError(
            file.path,
            f"the values of '{name}' are in other files (external storage)",
            remedy="Make one file with h5repack",
        )
    filters = filters_of(file, properties, kind.itemsize, name)
    if layout == h5d.CONTIGUOUS:
        place = _contiguous(file, dataset, math.prod(shape) * kind.itemsize, name, cut=cut)
        return Storage(shape, contiguous(file, box_of(shape), kind, place, name), None, filters)
    if layout != h5d.CHUNKED:
        what = f"'{name}' is stored in its own header (compact layout)"
        raise UnsupportedError(file.path, what, remedy="Make a readable file with h5repack -l CONTI OLD.h5 NEW.h5")
    chunk = tuple(int(n) for n in properties.get_chunk())
    rows = layout_of(file, box_of(shape), box_of(chunk), kind, filters, name)
    root = root_of(file, header)
    tree = None if root is None else ChunkTree(file, root, len(shape), rows, name)
    if tree is None:
        places = Places(file, rows, listed(dataset, rows))
    elif later:
        places = Places(file, rows, unknown(rows.chunks), tree.lookup)
    else:
        (found,) = tree.lookup([(0, rows.chunks)])
        places = Places(file, rows, found)
    return Storage(shape, Table(rows, places), chunk, filters)


def root_names(handle: Any) -> Iterator[str]:
    """Return the first 64 names in the root group."""
    return iter(_names_in(handle.id))


def _names_in(group: Any) -> list[str]:
    """Return the first 64 names in a group."""
    found: list[str] = []

    def note(name: bytes) -> bool | None:
        found.append(printable(name.decode("utf-8", "backslashreplace")))
        return len(found) == _LISTED or None

    group.links.iterate(note)
    return found


def _names_below(handle: Any) -> dict[str, Any]:
    """Return the first 64 names, those in groups with their groups, and each dataset or group; None for a link.

    Groups are looked into three levels deep, also those that a hard link leads to once more.
    """
    from h5py import h5g, h5l, h5o

    found, groups = dict[str, Any](), [("", handle.id)]
    for lead, group in groups:  # It grows by what is in groups.
        for name in _names_in(group)[: _LISTED - len(found)]:
            inside = None
            with suppress(*_LIBRARY_ERRORS):
                if group.links.get_info(name.encode()).type == h5l.TYPE_HARD:
                    inside = h5o.open(group, name.encode())
            found[lead + name] = inside
            if isinstance(inside, h5g.GroupID) and lead.count("/") < _DEEPEST:
                groups.append((f"{lead}{name}/", inside))
    return found


def opened(file: File, handle: Any, name: str) -> Any:
    """Open a dataset of a file that the library opened. Its name has those of its groups, as "train/tokens"."""
    from h5py import h5d, h5o

    owner, last = _owner(file, handle, name)
    dataset = h5o.open(owner, last.encode())  # `h5o.get_info` states its type too, but reads the index of chunks
    if not isinstance(dataset, h5d.DatasetID):
        raise CorruptError(file.path, f"'{printable(name)}' is not a dataset but a group or a type")
    return dataset


def _owner(file: File, handle: Any, name: str) -> tuple[Any, str]:
    """Return the group that holds an object of this name, and the name in the group; for errors see `opened`."""
    from h5py import h5g, h5l, h5o

    group, (*above, last) = handle.id, name.split("/")
    for number, part in enumerate([*above, last]):
        if group.links.get_info(part.encode()).type != h5l.TYPE_HARD:
            raise UnsafeError(
                file.path,
                f"'{printable(name)}' is a soft or external link, which may point outside of the file",
                remedy="Copy the dataset itself into the file",
            )
        inside = group if number == len(above) else h5o.open(group, part.encode())
        if not isinstance(inside, h5g.GroupID):
            raise CorruptError(file.path, f"'{printable(part)}' is not a group")
        group = inside
    return group, last


def open_arrays(
    path: Place, choose: Callable[[Sequence[str], Sequence[str], Sequence[str]], Sequence[str]]
) -> list[Array]:
    """Open datasets of one or two dimensions.

    Args:
        path: The file.
        choose: Returns the names of those to open. It gets all names, up to 64, those in groups with their groups;
            those of integers of one or two dimensions; and what each is, in words.
    """

    def look(file: File, handle: Any) -> list[Array]:
        there = _names_below(handle)
        arrays = [name for name, inside in there.items() if _is_array(inside)]
        kinds = [f"{name} ({_kind_of(inside)})" for name, inside in there.items()]
        return [_array(file, handle, name) for name in choose([*there], arrays, kinds)]

    return within(path, look)


def is_without_samples(file: File, head: bytes) -> bool:
    """Return whether a file has other datasets, but none of Cerebras: `data`, or `data_0` and so on. `head` usually
    holds the names: a store is not asked for them again.
    """
    with library_errors(file.path):
        handle = open_library(file, Held(file, [(0, len(head))], [head]))
        try:
            return len(handle.id) > 0 and b"data" not in handle.id and b"data_0" not in handle.id
        finally:
            handle.close()


def _is_array(inside: Any) -> bool:
    """Return whether an object is a dataset of integers of one or two dimensions in this file."""
    from h5py import h5d, h5t

    with suppress(*_LIBRARY_ERRORS):
        if not isinstance(inside, h5d.DatasetID) or inside.get_type().get_class() != h5t.INTEGER:
            return False
        # The shape of a virtual dataset may depend on other files.
        return inside.get_create_plist().get_layout() != h5d.VIRTUAL and inside.rank in ARRAYS
    return False


def _kind_of(inside: Any) -> str:
    """Return what an object is, in words: the shape and the type of a dataset."""
    from h5py import h5d, h5g

    with suppress(*_LIBRARY_ERRORS):
        if isinstance(inside, h5g.GroupID):
            return "group"
        if isinstance(inside, h5d.DatasetID) and inside.get_create_plist().get_layout() == h5d.VIRTUAL:
            return "virtual"
        if isinstance(inside, h5d.DatasetID):
            sizes = " x ".join(map(str, inside.shape or (1,)))
            return f"{sizes} {_TYPES.get(inside.get_type().get_class(), inside.dtype.name)}"
    return "link" if inside is None else "type"


def _array(file: File, handle: Any, name: str) -> Array:
    """Open a dataset of one or two dimensions; for errors see `open_arrays`."""
    dataset = opened(file, handle, name)
    owner, last = _owner(file, handle, name)
    header, later = owner.links.get_info(last.encode()).u, not file.path.is_local
    shape, table, _, _ = storage_of(file, dataset, name=name, ranks=ARRAYS, header=header, later=later)
    row = math.prod(shape[1:]) * table.dtype.itemsize
    if row > LARGEST_CHUNK:
        raise UnsafeError(
            file.path,
            f"a row of '{name}' is too large to read",
            expected=f"at most {LARGEST_CHUNK:,} bytes",
            found=f"{row:,}",
        )
    if isinstance(table.map, Places):
        table.map.check()
    return Array(name, shape, table)


def dtype_of(file: File, kind: Any, name: str = "data") -> np.dtype[np.integer[Any]]:
    """Return the dtype of an integer type of HDF5; raise UnsupportedError for any other type."""
    from h5py import h5t

    if kind.get_class() != h5t.INTEGER:
        raise UnsupportedError(
            file.path,
            f"'{name}' does not hold integers",
            expected="token IDs",
            found={h5t.FLOAT: "floats", h5t.STRING: "text", h5t.COMPOUND: "records"}.get(kind.get_class(), "others"),
        )
    size, order = kind.get_size(), kind.get_order()
    if size not in (1, 2, 4, 8) or kind.get_precision() != 8 * size or kind.get_offset():
        raise UnsupportedError(
            file.path,
            f"'{name}' holds integers of an unusual width",
            expected="all bits of 1, 2, 4 or 8 bytes",
            found=f"{kind.get_precision()} bits of {size} bytes",
        )
    sign = "u" if kind.get_sign() == h5t.SGN_NONE else "i"
    return np.dtype(f"{'>' if order == h5t.ORDER_BE else '<'}{sign}{size}")


def shape_of(file: File, dataset: Any, name: str = "data", ranks: Sequence[int] = SAMPLES) -> tuple[int, ...]:
    """Return the shape of a dataset of one of these ranks; raise UnsupportedError for any other."""
    from h5py import h5s

    space = dataset.get_space()
    if space.get_simple_extent_type() != h5s.SIMPLE:
        raise UnsupportedError(file.path, f"'{name}' is a single value or nothing, not an array")
    shape = tuple(int(n) for n in space.get_simple_extent_dims())
    if len(shape) not in ranks:
        samples = 3 in ranks
        raise UnsupportedError(
            file.path,
            f"'{name}' has {len(shape)} dimensions",
            expected="3 (samples) or 1 (a corpus)" if samples else "1 (a stream) or 2 (rows)",
            remedy="Samples are [samples, 3, tokens]: input_ids, mask, labels" if samples else None,
        )
    return shape


def filters_of(file: File, properties: Any, itemsize: int, dataset: str = "data") -> tuple[int, ...]:
    """Return the filter numbers of a dataset; raise if a filter is unknown, repeated or unusual."""
    found = [properties.get_filter(k)[:3] for k in range(properties.get_nfilters())]
    numbers = tuple(int(number) for number, _, _ in found)
    for number in numbers:
        if number not in (DEFLATE, SHUFFLE, FLETCHER32):
            name = FILTER_NAMES.get(number, f"number {number}")
            raise UnsupportedError(
                file.path,
                f"'{dataset}' is stored with the filter {name}",
                expected="deflate, shuffle, fletcher32",
                remedy="Write it again with h5py and compression='gzip'" if number == _LZF else _REPACK,
            )
        if numbers.count(number) > 1:
            raise UnsafeError(file.path, f"'{dataset}' is stored with the same filter twice", remedy=_REPACK)
    if SHUFFLE in numbers:
        width = found[numbers.index(SHUFFLE)][2]
        after = numbers[: numbers.index(SHUFFLE)]
        if list(width) != [itemsize] or after:
            raise UnsupportedError(file.path, f"'{dataset}' is stored with an unusual shuffle filter", remedy=_REPACK)
    return numbers


def _contiguous(file: File, dataset: Any, size: int, name: str, *, cut: bool) -> int:
    """Return the byte offset of contiguous values; raise if they were never written or are cut."""
    place = dataset.get_offset()
    if not size:
        return 0
    if place is None or dataset.get_storage_size() != size:
        raise CorruptError(
            file.path,
            f"'{name}' was never written: nothing is allocated for it",
            expected=f"{size:,} bytes",
            remedy="Write the file again",
        )
    if place + size > file.size and not cut:
        raise TruncatedError(
            file.path,
            f"'{name}' continues beyond the end of the file",
            offset=place,
            expected=f"{size:,} bytes",
            found=f"{max(0, file.size - place):,}",
            remedy="Copy the file again",
        )
    return int(place)


def attribute_of(owner: Any, name: str) -> Attribute:
    """Return an attribute that is an int, a float or a fixed-length text; "?" if of another kind, None if missing."""
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


_OLD = (("free space", 8), ("end of the file", 16), ("driver information", 24), ("root group", 40))
_NEW = (("extension", 20), ("end of the file", 28), ("root group", 36))
_UNDEFINED = (1 << 64) - 1


def superblock_fields(file: File) -> list[Field]:
    """Return the fields of the superblock, up to the end of the file; only the first ones if its version is unknown."""
    head = file.read(0, min(file.size, 96))
    signed = head.startswith(SIGNATURE)
    lead = shown(head[:8].decode("latin-1")) or "nothing"
    fields = [
        Field("signature", 0, min(8, len(head)), lead, "" if signed else "should be \\x89HDF\\r\\n\\x1a\\n", not signed)
    ]
    if not signed or len(head) < 16:
        return fields if len(head) >= 16 or not signed else [*fields, _cut(len(head))]
    version = head[8]
    known = version in (0, 1, 2, 3)
    fields.append(Field("version", 8, 1, str(version), "" if known else "should be 0, 1, 2 or 3", not known))
    if not known:
        return fields
    sizes = (13, 14) if version < 2 else (9, 10)
    for name, at in zip(("offset size", "length size"), sizes, strict=True):
        fields.append(Field(name, at, 1, str(head[at]), "bytes", head[at] not in (2, 4, 8)))
    if head[sizes[0]] != 8:
        return fields
    shift = 4 if version == 1 else 0
    if version < 2:
        for name, at in (("K of group leaves", 16), ("K of group nodes", 18)):
            fields.append(_number(head, name, at, 2))
        fields.append(_number(head, "consistency flags", 20, 4))
    else:
        fields.append(_number(head, "consistency flags", 11, 1))
    places = [("base address", 24 + shift), *((name, 24 + shift + at) for name, at in _OLD)]
    for name, at in places if version < 2 else (("base address", 12), *_NEW):
        fields.append(_address(file, head, name, at))
    return fields if version < 2 else [*fields, _number(head, "checksum", 44, 4)]


def _number(head: bytes, name: str, at: int, size: int) -> Field:
    value = int.from_bytes(head[at : at + size], "little")
    return Field(name, at, size, f"{value:,}") if at + size <= len(head) else _cut(len(head), name)


def _address(file: File, head: bytes, name: str, at: int) -> Field:
    value = int.from_bytes(head[at : at + 8], "little")
    if at + 8 > len(head):
        return _cut(len(head), name)
    if value == _UNDEFINED:
        return Field(name, at, 8, "undefined", "not present")
    beyond = value > file.size
    meaning = f"beyond the file's {file.size:,} bytes: it was cut" if beyond else "byte address"
    return Field(name, at, 8, f"{value:,}", meaning, beyond)


def _cut(size: int, name: str = "superblock") -> Field:
    return Field(name, size, 0, "nothing", "the file ends inside the superblock", wrong=True)
