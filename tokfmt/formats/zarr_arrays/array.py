"""Read an array of integers with one or two dimensions from a zarr store: its metadata, and where its chunks are.

The metadata of zarr v2 (`.zarray`) and v3 (`zarr.json`) become one `ChunkLayout`, which is checked before anything is
decoded. Codecs and extensions that this module does not know are refused: a foreign codec could execute what it reads.
Chunk files are numbered in row-major order, and so are the chunks of a shard.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.errors import CorruptError, FormatError, SourceChangedError, UnsafeError, UnsupportedError
from tokfmt.files.file import natural_key
from tokfmt.files.place import Place
from tokfmt.formats.chunks import (
    KEPT_BYTES,
    Chunked,
    ChunkLayout,
    ChunkMap,
    Origin,
    Shape,
    check_memory,
    coordinates,
    number_of,
)
from tokfmt.formats.codecs import AGAIN, CHUNK_BYTES, Stored, check_crc32c
from tokfmt.formats.zarr_arrays.store import METADATA, Store, json_of
from tokfmt.wording import printable

Json = Mapping[str, object]

_LENGTH = 1 << 56
_V2_NAMES = ("blosc", "zstd", "lz4", "gzip", "zlib")
_V3_NAMES = {name: name for name in ("blosc", "zstd", "gzip", "crc32c")}
_V3_NAMES |= {f"numcodecs.{name}": name for name in _V2_NAMES}
_V3_KEYS = {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
            "codecs", "attributes", "storage_transformers", "dimension_names", "consolidated_metadata"}  # fmt: skip
_PLAIN = "Write the array again with zarr and without it"
_PLAIN_ORDER = "Write the array again with zarr and order='C'"
_COPY = "Copy the store again, or write it again"
_REWRITE = "Write the array again with zarr and one of these"
_LISTED, _DEEPEST = 64, 2

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
"""The names of all dtypes that an array of token IDs may have."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of the chunk files of an array, and of its shards: files of several chunks, with an index of them."""

    prefix: str  # first part of the names of chunk files: "", "c/" or "c."
    separator: str  # between the numbers in the name of a chunk file: "." or "/"
    shard: Shape | None = None  # number of chunks per shard along each dimension; None if each file holds one chunk
    at_end: bool = True  # True if the index is at the end of a shard
    checksum: bool = False  # True if the index ends with a CRC-32C


def metadata_key(key: str, zarr_format: int) -> str:
    """Return the key of the metadata of an array; the array at the root of a store has the key ""."""
    return f"{key}/{'.zarray' if zarr_format == 2 else 'zarr.json'}".removeprefix("/")


def dtype_of(raw: Json, zarr_format: int) -> np.dtype[np.integer[Any]] | None:
    """Return the dtype of an array of integers, with its byte order in zarr v2; None of any other array."""
    stated = str(raw.get("dtype" if zarr_format == 2 else "data_type"))
    is_integer = re.fullmatch(r"[<>|][iu][1248]", stated) if zarr_format == 2 else stated in INTEGERS
    return np.dtype(stated) if is_integer else None


def arrays_in(store: Store, zarr_format: int) -> dict[str, Json]:
    """Return the metadata of the arrays of a store by key, of up to 64 arrays and groups, three levels deep.

    The array that is the whole store has the key "".

    Args:
        store: The store.
        zarr_format: 2 or 3.
    """
    arrays, nodes = dict[str, Json](), [""]
    for key in nodes:  # It grows by what is in groups.
        raw = json_of(store, metadata_key(key, zarr_format))
        if raw is not None and (zarr_format == 2 or raw.get("node_type") == "array"):
            arrays[key] = raw
        elif key.count("/") < _DEEPEST:
            names = (name for name in store.names(key) if not name.startswith(".") and name not in METADATA)
            below = (f"{key}/{name}".removeprefix("/") for name in sorted(names, key=natural_key))
            nodes += islice(below, max(0, _LISTED - len(nodes)))
    return arrays


def read_layout(
    store: Store,
    key: str,
    zarr_format: int,
    dtypes: Sequence[str] = INTEGERS,
    ranks: Sequence[int] = (1,),
    stated: Json | None = None,
) -> tuple[ChunkLayout, Keys]:
    """Read and check the metadata of an array.

    Args:
        store: Store that holds the array.
        key: Key of the array, as "encoded_tokens" or "train/seq_starts"; "" if it is the whole store.
        zarr_format: 2 or 3.
        dtypes: Names of the dtypes that it may have, in either byte order.
        ranks: Numbers of dimensions that it may have: 1, or 2.
        stated: The metadata, if they were read already.
    """
    name = metadata_key(key, zarr_format)
    raw, where = json_of(store, name) if stated is None else stated, store.root / name
    if raw is None:
        raise CorruptError(where, "is missing: the array has no metadata", remedy="Copy the store again")
    if raw.get("zarr_format") != zarr_format:
        raise _wrong(where, "zarr_format", zarr_format, raw.get("zarr_format"))
    layout, keys = (_v2 if zarr_format == 2 else _v3)(where, key or store.root.name, raw, dtypes, ranks)
    check_memory(layout)
    return layout, keys


def _v2(where: Place, key: str, raw: Json, dtypes: Sequence[str], ranks: Sequence[int]) -> tuple[ChunkLayout, Keys]:
    """Return the layout and the names of chunk files that a `.zarray` describes."""
    dtype = dtype_of(raw, 2)
    if dtype is None or dtype.name not in dtypes:
        raise _wrong(where, "dtype", _listed([np.dtype(name).str for name in dtypes]), raw.get("dtype"))
    separator = raw.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise _wrong(where, "dimension_separator", ". or /", separator)
    compressor = raw.get("compressor")
    name = compressor.get("id") if isinstance(compressor, dict) else compressor
    if compressor is not None and (not isinstance(name, str) or name not in _V2_NAMES):
        what, expected = "has a compressor that tokfmt does not read", f"{', '.join(_V2_NAMES)} or none"
        raise UnsafeError(where, what, expected=expected, found=name, remedy=_REWRITE)
    shape = _shape(where, raw, ranks)
    if len(shape) > 1 and raw.get("order", "C") != "C":
        what = "stores its chunks column by column, which tokfmt does not read"
        raise UnsupportedError(where, what, expected="order C", found=raw.get("order"), remedy=_PLAIN_ORDER)
    chunk = _numbers(where, "chunks", raw.get("chunks"), (len(shape),), minimum=1)
    codecs = (() if compressor is None else (str(name),)) + _filters(where, raw.get("filters"), dtype.itemsize)
    return ChunkLayout(where, key, shape, chunk, dtype, codecs, _fill(where, raw, dtype)), Keys("", str(separator))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "integers"


def _filters(where: Place, value: object, itemsize: int) -> tuple[str, ...]:
    """Return the filters of zarr v2: one delta filter, or none; raise otherwise."""
    filters = value if isinstance(value, list) else [] if value is None else [value]
    names = [entry.get("id") if isinstance(entry, dict) else entry for entry in filters]
    if names not in ([], ["delta"]):
        raise UnsafeError(
            where,
            "has filters that tokfmt does not read",
            expected="one delta or none",
            found=", ".join(str(name) for name in names)[:60],
            remedy=_PLAIN,
        )
    for entry in filters:
        _delta(where, entry if isinstance(entry, dict) else {}, itemsize)
    return ("delta",) * len(filters)


def _delta(where: Place, settings: Json, itemsize: int) -> None:
    """Raise UnsupportedError if a delta filter has another type than the array."""
    stored = settings.get("astype", settings.get("dtype"))
    for dtype in (settings.get("dtype"), stored):
        if not re.fullmatch(rf"[<|][iu]{itemsize}", str(dtype)):
            raise UnsupportedError(
                where,
                "has a delta filter of another type",
                expected=f"<i{itemsize}",
                found=str(dtype)[:60],
                remedy=_PLAIN,
            )


def _v3(where: Place, key: str, raw: Json, dtypes: Sequence[str], ranks: Sequence[int]) -> tuple[ChunkLayout, Keys]:
    """Return the layout and the names of chunk files that a `zarr.json` describes."""
    for field, value in raw.items():
        if field not in _V3_KEYS and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(where, "has an extension that tokfmt does not read", found=field[:60], remedy=_PLAIN)
    if raw.get("node_type") != "array":
        raise _wrong(where, "node_type", "array", raw.get("node_type"))
    dtype = dtype_of(raw, 3)
    if dtype is None or dtype.name not in dtypes:
        raise _wrong(where, "data_type", _listed(dtypes), raw.get("data_type"))
    if raw.get("storage_transformers"):
        raise UnsupportedError(where, "has storage transformers, which tokfmt does not read", remedy=_PLAIN)
    grid, settings = _named(where, "chunk_grid", raw.get("chunk_grid"))
    if grid != "regular":
        raise _wrong(where, "chunk_grid", "regular", grid)
    shape = _shape(where, raw, ranks)
    chunk = _numbers(where, "chunk_shape", settings.get("chunk_shape"), (len(shape),), minimum=1)
    codecs: Sequence[object] = _list(where, "codecs", raw.get("codecs"))
    keys = Keys(*_prefix(where, raw.get("chunk_key_encoding")))
    if len(codecs) == 1 and _named(where, "codec", codecs[0])[0] == "sharding_indexed":
        chunk, keys, codecs = _sharding(where, _named(where, "codec", codecs[0])[1], chunk, keys)
    big_endian, names = _chain(where, codecs, dtype.itemsize)
    stored = dtype.newbyteorder(">" if big_endian else "<")
    return ChunkLayout(where, key, shape, chunk, stored, names, _fill(where, raw, dtype)), keys


def _sharding(where: Place, settings: Json, size: Shape, keys: Keys) -> tuple[Shape, Keys, Sequence[object]]:
    """Return the shape of a chunk, the names with the shards, and the inner codecs of a sharding codec."""
    chunk = _numbers(where, "chunk_shape", settings.get("chunk_shape"), (len(size),), minimum=1)
    if any(whole % part for whole, part in zip(size, chunk, strict=True)):
        divisors, parts = (", ".join(map(str, shape)) for shape in (size, chunk))
        raise _wrong(where, "chunk_shape of a shard", f"a divisor of {divisors}", parts)
    index = [_named(where, "codec", c) for c in _list(where, "index_codecs", settings.get("index_codecs"))]
    names = [name for name, _ in index]
    order = {name: f"{settings.get('endian', 'little')}-endian " for name, settings in index if name == "bytes"}
    if names not in (["bytes"], ["bytes", "crc32c"]) or order["bytes"] != "little-endian ":
        raise UnsupportedError(
            where,
            "has a shard index that tokfmt does not read",
            expected="little-endian bytes, crc32c",
            found=", ".join(printable(f"{order.get(name, '')}{name}"[:60]) for name in names),
            remedy=_PLAIN,
        )
    location = settings.get("index_location", "end")
    if location not in ("start", "end"):
        raise _wrong(where, "index_location", "start or end", location)
    grid = tuple(whole // part for whole, part in zip(size, chunk, strict=True))
    if 16 * math.prod(grid) + 4 > CHUNK_BYTES:
        what, found = "has too many chunks in a shard", math.prod(grid)
        raise UnsafeError(where, what, expected="at most 8,388,607", found=found)
    keys = replace(keys, shard=grid, at_end=location == "end", checksum=len(names) == 2)
    return chunk, keys, _list(where, "codecs", settings.get("codecs"))


def _chain(where: Place, codecs: Sequence[object], itemsize: int) -> tuple[bool, tuple[str, ...]]:
    """Return True for big-endian items, and the codecs in the order of decoding."""
    chain = [_named(where, "codec", codec) for codec in codecs]
    delta = bool(chain) and chain[0][0] == "numcodecs.delta"
    if delta:
        _delta(where, chain.pop(0)[1], itemsize)
    if not chain or chain[0][0] != "bytes":
        raise _refused(where, chain[0][0] if chain else "none", "bytes")
    endian = chain[0][1].get("endian", "little")
    if endian not in ("little", "big"):
        raise _wrong(where, "endian", "little or big", endian)
    unknown = [name for name, _ in chain[1:] if name not in _V3_NAMES]
    if unknown:
        raise _refused(where, unknown[0], ", ".join(_V3_NAMES))
    names = [_V3_NAMES[name] for name, _ in chain[1:]]
    if sum(name != "crc32c" for name in names) > 1:
        raise UnsupportedError(
            where, "compresses chunks twice, which tokfmt does not read", found=", ".join(names), remedy=_PLAIN
        )
    return endian == "big", (*reversed(names), *(("delta",) * delta))


def _refused(where: Place, name: str, expected: str) -> FormatError:
    return UnsafeError(where, "has a codec that tokfmt does not read", expected=expected, found=name, remedy=_REWRITE)


def _prefix(where: Place, value: object) -> tuple[str, str]:
    """Return the first part of the names of chunk files, and what separates their numbers."""
    name, settings = _named(where, "chunk_key_encoding", value)
    separator = settings.get("separator", "/" if name == "default" else ".")
    if name not in ("default", "v2"):
        raise _wrong(where, "chunk_key_encoding", "default or v2", name)
    if separator not in (".", "/"):
        raise _wrong(where, "separator of chunk keys", ". or /", separator)
    return f"c{separator}" if name == "default" else "", str(separator)


def _named(where: Place, what: str, value: object) -> tuple[str, Json]:
    """Return the name and the configuration of a v3 extension point, which may be a name alone."""
    name, settings = (value.get("name"), value.get("configuration", {})) if isinstance(value, dict) else (value, {})
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise _wrong(where, what, "a name and its configuration", value)
    return name, settings


def _list(where: Place, what: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(where, what, "a list", value)
    return value


def _shape(where: Place, raw: Json, ranks: Sequence[int]) -> Shape:
    shape = _numbers(where, "shape", raw.get("shape"), ranks, minimum=0)
    if math.prod(shape) > _LENGTH:
        what, expected = "declares more items than a disk holds", f"at most {_LENGTH:,}"
        raise UnsafeError(where, what, expected=expected, found=math.prod(shape), remedy=_COPY)
    return shape


def _numbers(where: Place, what: str, value: object, ranks: Sequence[int], minimum: int) -> Shape:
    """Return the numbers of a shape of one of these ranks; raise CorruptError for any other value."""
    found = value if isinstance(value, list) and len(value) in ranks else [None]
    if any(type(one) is not int or one < minimum for one in found):
        expected = " or ".join("one whole number" if rank == 1 else "two whole numbers" for rank in ranks)
        raise _wrong(where, what, f"{expected} of at least {minimum}", value)
    return tuple(found)


def _fill(where: Place, raw: Json, dtype: np.dtype[np.integer[Any]]) -> int | None:
    fill, limits = raw.get("fill_value"), np.iinfo(dtype)
    if fill is not None and (type(fill) is not int or not limits.min <= fill <= limits.max):
        raise _wrong(where, "fill_value", "null or a whole number that fits", fill)
    return fill


def _wrong(where: Place, what: str, expected: object, found: object) -> FormatError:
    text = "nothing" if found is None else str(found)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return CorruptError(where, f"has a wrong value of {what}", expected=str(expected), found=shown, remedy=_COPY)


_ABSENT = 1 << 20
"""Maximum items in absent chunks, plus 16 for each item in a chunk that exists."""

_WHOLE = re.compile("0|[1-9][0-9]{0,16}")  # a number in the name of a chunk file

_WHOLLY, _RATIO = 1 << 30, 1100
"""Bytes of an array that is read as a whole, and their maximum ratio to the stored bytes if there are more of them:
compressors of token IDs reach no more."""

_STARTS = 8
"""Bytes of an entry of `seq_starts`."""

_NOWHERE = (1 << 64) - 1  # byte offset and size of an absent chunk in a shard index


class ZarrChunks(ChunkMap):
    """The chunks of an array in a store.

    An absent chunk looks like one that a copy lost, so reading it is an error unless `fill` is set. zarr leaves out
    chunks that hold only the fill value if `write_empty_chunks` is off; seqax (as far as seen) and tokfmt do not. One
    exception: every writer leaves out the only item of an empty dataset's `seq_starts`, which can only be 0.

    Attributes:
        keys: The names of chunk files.
        file_grid: Number of chunk files along each dimension.
        files: Number of chunk files.
        fill: Absent chunks are read as the fill value.
        absent: int64[n], numbers of the chunk files that do not exist.
        extra: int64[n], numbers of chunk files beyond the shape, which hold nothing of the array.
    """

    def __init__(self, store: Store, key: str, layout: ChunkLayout, keys: Keys, *, fill: bool) -> None:
        self.layout, self.keys, self.fill, self._store, self._key = layout, keys, fill, store, key
        shard = keys.shard or (1,) * len(layout.grid)
        self.file_grid = tuple(-(-n // m) for n, m in zip(layout.grid, shard, strict=True))
        self.files, self._file_items = math.prod(self.file_grid), math.prod(shard) * layout.items
        self._indexes = Recent[int, NDArray[np.uint64]](KEPT_BYTES)
        self._only_zero = layout.dtype.itemsize == _STARTS and layout.length == 1
        present = self._present()
        self.extra = present[present >= self.files]
        self.absent = self._missing(present[present < self.files])

    @property
    def hole(self) -> CorruptError | None:
        """The error for absent chunk files; None without any."""
        count, fill = len(self.absent), self.layout.fill
        if not count or (self._only_zero and fill is not None):
            return None
        first = int(self.absent[0])
        if fill is not None:
            return self.hole_at(first, count)
        what = f"is missing: {count:,} of {self.files:,} chunks of {self.layout.name} are not there"
        what, remedy = f"{what}, and its fill_value is null", "Copy the store again"
        return CorruptError(self._store.root / self._file_key(first), what, remedy=remedy)

    def hole_at(self, first: int, count: int, shard: Place | None = None) -> CorruptError:
        """Return the error for `count` absent chunk files, of which `first` is the first; or for chunks that a `shard`
        lacks.
        """
        layout, of = self.layout, self.layout.chunks if shard else self.files
        what = f"chunk {first:,} is not in its shard" if shard else "is missing"
        return CorruptError(
            shard or self._store.root / self._file_key(first),
            f"{what}: {count:,} of {of:,} chunks of {layout.name} {'are' if count > 1 else 'is'} not there",
            remedy="Copy the store again; if its writer left out chunks that hold only the fill value, "
            f"--from-opt holes=fill reads them as {layout.fill or 0}",
        )

    def complete(self) -> None:
        """Raise CorruptError if chunk files are absent that are not read as the fill value, or the array has none."""
        hole = self.hole
        if hole is not None and (not self.fill or self.layout.fill is None):
            raise hole

    def shard(self, number: int) -> Place | None:
        """Return the path of the existing shard that should hold a chunk; None without one."""
        home = self._home(number)[0]
        return None if self.keys.shard is None or self._is_absent(home) else self.stored_file(home).path

    def find(self, number: int) -> Stored | None:
        home, within = self._home(number)
        if self._is_absent(home):
            self.complete()
            return None
        file = self.stored_file(home)
        if self.keys.shard is None:
            return file
        offset, size = (int(v) for v in self._index(file, home)[within])
        if offset == size == _NOWHERE:
            if not (self.fill or self._only_zero):
                raise self.hole_at(number, 1, file.path)
            return None
        if offset + size > file.size:
            what, expected = (
                f"has a shard index whose chunk {within:,} ends outside of the file",
                f"at most {file.size:,}",
            )
            raise CorruptError(file.path, what, expected=expected, found=offset + size, remedy=AGAIN)
        return file.part(offset, size)

    def origin(self, number: int, stored: Stored) -> Origin:
        home = self._store.origin(self._file_key(self._home(number)[0]))
        return home._replace(start=home.start + stored.start) if home.exact else home

    def at(self, path: Place, offset: int) -> tuple[int, int] | None:
        keys, grid, found = self.keys, self.file_grid, self._store.key_at(path, offset)
        lead = self._below(keys.prefix)
        name = found[0].removeprefix(lead) if found and found[0].startswith(lead) else ""
        parts = [int(part) for part in name.split(keys.separator) if _WHOLE.fullmatch(part)]
        if not found or len(parts) != len(grid) or any(a >= n for a, n in zip(parts, grid, strict=True)):
            return None
        home, at = number_of(parts, grid), found[1]
        if found[0] != self._file_key(home) or not 0 <= at < self.stored_file(home).size:
            return None
        if keys.shard is None:
            return home, at
        index = self._index(self.stored_file(home), home).astype(np.int64)
        held = np.flatnonzero((index[:, 0] <= at) & (at < index[:, 0] + index[:, 1]))
        if not len(held):
            return None
        inner = zip(parts, coordinates(int(held[0]), keys.shard), keys.shard, strict=True)
        place, grid = [outer * n + within for outer, within, n in inner], self.layout.grid
        is_inside = all(a < n for a, n in zip(place, grid, strict=True))
        return (number_of(place, grid), at - int(index[held[0], 0])) if is_inside else None

    def stored_file(self, number: int) -> Stored:
        """Return the bytes of an existing chunk file."""
        key = self._file_key(number)
        found = self._store.blob(key)
        if found is None:
            raise SourceChangedError(self._store.root / key, "disappeared while it was being read")
        return found

    def close(self) -> None:
        self._indexes.clear()

    def _below(self, name: str) -> str:
        """Return the key of a file or directory of the array."""
        return f"{self._key}/{name}" if self._key else name

    def _file_key(self, number: int) -> str:
        return self._below(self.keys.prefix + self.keys.separator.join(map(str, coordinates(number, self.file_grid))))

    def _home(self, number: int) -> tuple[int, int]:
        """Return the number of the file that holds a chunk, and the number of the chunk in it."""
        shard = self.keys.shard
        if shard is None:
            return number, 0
        both = [divmod(at, n) for at, n in zip(coordinates(number, self.layout.grid), shard, strict=True)]
        return number_of([file for file, _ in both], self.file_grid), number_of([at for _, at in both], shard)

    def _is_absent(self, number: int) -> bool:
        at = int(np.searchsorted(self.absent, number)) if len(self.absent) else 0
        return at < len(self.absent) and int(self.absent[at]) == number

    def _present(self) -> NDArray[np.int64]:
        """Return the numbers of the chunk files that exist, ascending; at least `files` if beyond the shape."""
        prefix, separator, grid = self.keys.prefix, self.keys.separator, self.file_grid
        folder, lead = (self._below(prefix[:-1]), "") if prefix.endswith("/") else (self._key, prefix)
        names: Iterator[str] = iter(self._store.names(folder))
        if len(grid) > 1 and separator == "/":
            outer = [name for name in names if _WHOLE.fullmatch(name)]
            names = (f"{first}/{name}" for first in outer for name in self._store.names(f"{folder}/{first}"))
        plain = (name[len(lead) :].split(separator) for name in names if name.startswith(lead))
        found = [
            [int(part) for part in parts]
            for parts in plain
            if len(parts) == len(grid) and all(map(_WHOLE.fullmatch, parts))
        ]
        numbers = (
            number_of(at, grid) if len(grid) == 1 or all(a < n for a, n in zip(at, grid, strict=True)) else self.files
            for at in found
        )
        return np.sort(np.fromiter(numbers, np.int64))

    def _missing(self, present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of absent chunk files; raise if too many are absent."""
        there, length = len(present), self.layout.length
        if there == self.files:
            return np.empty(0, np.int64)
        absent = min((self.files - there) * self._file_items, length)
        self._bounded(self.layout.where, absent, min(there * self._file_items, length))
        return np.setdiff1d(np.arange(self.files), present, assume_unique=True)

    def _bounded(self, path: Place, absent: int, present: int) -> None:
        """Raise UnsafeError if absent chunks hold far more items than existing ones; see `_ABSENT`."""
        if absent > _ABSENT + 16 * present:
            what = f"declares {absent + present:,} items of {self.layout.name}, but almost all of its chunks are absent"
            expected = f"at least {absent // 17:,} items in chunks that are there"
            raise UnsafeError(path, what, expected=expected, found=present, remedy="Copy the store again")

    def _index(self, file: Stored, number: int) -> NDArray[np.uint64]:
        """Return the index of a shard: uint64[chunks, 2], byte offset and size of each chunk."""
        index = self._indexes.get(number)
        if index is None:
            keys, layout = self.keys, self.layout
            shard = keys.shard or (1,)
            count = math.prod(shard)
            size = 16 * count + 4 * keys.checksum
            if file.size < size:
                what = "is too short for its shard index"
                raise CorruptError(file.path, what, expected=f"{size:,} bytes", found=file.size, remedy=AGAIN)
            raw = file.read(file.size - size if keys.at_end else 0, size)
            if keys.checksum:
                check_crc32c(file.path, raw)
            index = np.frombuffer(raw, "<u8", 2 * count).reshape(-1, 2)
            sides = zip(coordinates(number, self.file_grid), shard, layout.grid, strict=True)
            axes = [at * n + np.arange(n) < total for at, n, total in sides]
            used = index[axes[0] if len(axes) == 1 else np.logical_and.outer(*axes).reshape(-1)]
            there = int(np.count_nonzero(used[:, 1] != _NOWHERE))
            self._bounded(file.path, (len(used) - there) * layout.items, there * layout.items)
            self._indexes.put(number, index, index.nbytes)
        return index


class Array(Chunked):
    """An array of a zarr store with checked metadata.

    Attributes:
        key: Key of the array in the store.
        path: Path of the array's directory, for messages.
    """

    map: ZarrChunks

    def __init__(
        self,
        store: Store,
        key: str,
        zarr_format: int,
        dtypes: Sequence[str] = INTEGERS,
        ranks: Sequence[int] = (1,),
        stated: Json | None = None,
        *,
        fill: bool,
        length: int | None = None,
    ) -> None:
        """Read the metadata of an array; see `read_layout`. With `fill`, an absent chunk is read as the fill value.
        `length` is the number of items that count, if the shape of one dimension has room for more.
        """
        layout, keys = read_layout(store, key, zarr_format, dtypes, ranks, stated)
        if length is not None:
            layout = replace(layout, shape=(min(length, layout.length),))
        super().__init__(layout, ZarrChunks(store, key, layout, keys, fill=fill))
        self.key, self.path = key, store.root / key

    def filled(self) -> Array:
        """Return the same array, whose absent chunks are read as the fill value if it has one."""
        found = copy(self)
        found.map = copy(self.map)
        found.map.fill = True
        return found

    def complete(self) -> Array:
        """Return the array; raise as `ZarrChunks.complete`."""
        self.map.complete()
        return self

    def stored_bytes(self) -> int:
        """Return the bytes of all chunk files together."""
        there = np.setdiff1d(np.arange(self.map.files), self.map.absent, assume_unique=True)
        return sum(self.map.stored_file(number).size for number in there.tolist())

    def check_memory(self) -> None:
        """Raise UnsafeError if the whole array takes over 1 GiB of memory and over 1,100 times its stored bytes."""
        if self.size_bytes > _WHOLLY and self.size_bytes > _RATIO * self.stored_bytes():
            raise UnsafeError(
                self.path,
                f"would take {self.size_bytes:,} bytes of memory",
                found=f"{self.stored_bytes():,} bytes stored",
                remedy=f"Write {self.name} again without a compressor, if it is to be trusted",
            )
