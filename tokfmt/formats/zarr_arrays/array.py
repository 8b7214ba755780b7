"""Read an array of integers with one or two dimensions from a zarr store: its metadata, its chunks, any run of items.

The metadata of zarr v2 (`.zarray`) and v3 (`zarr.json`) become one `Layout`, which is checked before anything is
decoded. Codecs and extensions that this module does not know are refused: a foreign codec could execute what it reads.
Items are numbered in row-major order, and so are the chunks of an array, its chunk files, and the chunks of a shard.
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
from tokfmt.core.reader import ByteOffset
from tokfmt.errors import CorruptError, FormatError, SourceChangedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File, natural_key
from tokfmt.files.place import Place
from tokfmt.formats.zarr_arrays import codecs
from tokfmt.formats.zarr_arrays.codecs import AGAIN, CHUNK_BYTES, COMPRESSORS
from tokfmt.formats.zarr_arrays.store import METADATA, Blob, Origin, Store, json_of
from tokfmt.wording import printable

Json = Mapping[str, object]

_LENGTH = 1 << 56
_ALLOWED = "blosc, zstd, lz4, gzip, zlib or none"
_V3_NAMES = {name: name for name in ("blosc", "zstd", "gzip", "crc32c")}
_V3_NAMES |= {f"numcodecs.{name}": name for name in ("blosc", "zstd", "lz4", "gzip", "zlib")}
_V3_KEYS = {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
            "codecs", "attributes", "storage_transformers", "dimension_names", "consolidated_metadata"}  # fmt: skip
_PLAIN = "Write the array again with zarr and without it"
_PLAIN_ORDER = "Write the array again with zarr and order='C'"
_COPY = "Copy the store again, or write it again"
_REWRITE = "Write the array again with zarr and one of these"
_LISTED, _DEEPEST = 64, 2
_ROW_BYTES = 1 << 26  # of a row of an array with two dimensions, at most
_PADDING = 16  # items of all chunks for each item of an array with two dimensions, at most, plus those of a chunk

Shape = tuple[int, ...]

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
"""The names of all dtypes that an array of token IDs may have."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The shards of an array: files that hold several chunks, with an index of them at the start or end.

    Attributes:
        grid: Number of chunks per shard along each dimension.
        at_end: True if the index is at the end of the file.
        checksum: True if the index ends with a CRC-32C.
    """

    grid: Shape
    at_end: bool
    checksum: bool

    @property
    def chunks(self) -> int:
        """Number of chunks per shard."""
        return math.prod(self.grid)

    @property
    def index_bytes(self) -> int:
        """Bytes of the index."""
        return 16 * self.chunks + 4 * self.checksum


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of an array in its store, from its metadata.

    Attributes:
        where: The metadata file, for messages.
        shape: Number of items along each dimension.
        chunk_shape: Number of items of a chunk along each dimension; every chunk decodes to all of them.
        dtype: Dtype of the items, with its byte order.
        codecs: Names in the order of decoding.
        delta: True if each chunk holds its first item and then differences.
        fill: Value of the items of an absent chunk; None if no chunk may be absent.
        prefix: First part of the names of chunk files: "", "c/" or "c.".
        separator: Between the two numbers in the name of a chunk file: "." or "/".
        shard: Shards; None if each file holds one chunk.
    """

    where: Place
    shape: Shape
    chunk_shape: Shape
    dtype: np.dtype[np.integer[Any]]
    codecs: tuple[str, ...]
    delta: bool
    fill: int | None
    prefix: str
    separator: str
    shard: Shard | None = None

    @property
    def length(self) -> int:
        """Number of items in the array."""
        return math.prod(self.shape)

    @property
    def chunk(self) -> int:
        """Number of items per chunk."""
        return math.prod(self.chunk_shape)

    @property
    def itemsize(self) -> int:
        """Bytes per item."""
        return self.dtype.itemsize

    @property
    def big_endian(self) -> bool:
        """True if items are big-endian."""
        return self.dtype.byteorder == ">"

    @property
    def plain(self) -> bool:
        """True if a chunk holds its items without compression or differences; a checksum may follow them."""
        return not self.delta and all(name == "crc32c" for name in self.codecs)

    @property
    def grid(self) -> Shape:
        """Number of chunks along each dimension."""
        return tuple(-(-n // m) for n, m in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def chunks(self) -> int:
        """Number of chunks of the array."""
        return math.prod(self.grid)

    @property
    def file_grid(self) -> Shape:
        """Number of chunk files along each dimension."""
        return tuple(-(-n // m) for n, m in zip(self.grid, self.shard.grid, strict=True)) if self.shard else self.grid

    @property
    def file_items(self) -> int:
        """Number of items per chunk file."""
        return self.chunk * (self.shard.chunks if self.shard else 1)

    @property
    def files(self) -> int:
        """Number of chunk files of the array."""
        return math.prod(self.file_grid)

    @property
    def band_bytes(self) -> int:
        """Decoded bytes of all chunks that hold a part of one row; those of one chunk if there is one dimension."""
        return math.prod(self.grid[1:]) * self.chunk * self.itemsize

    def file_key(self, number: int) -> str:
        """Return the name of a chunk file in the directory of the array."""
        return self.prefix + self.separator.join(map(str, _coordinates(number, self.file_grid)))

    def home(self, number: int) -> tuple[int, int]:
        """Return the number of the file that holds a chunk, and the number of the chunk in it."""
        if self.shard is None:
            return number, 0
        both = [divmod(at, n) for at, n in zip(_coordinates(number, self.grid), self.shard.grid, strict=True)]
        return _number([file for file, _ in both], self.file_grid), _number([at for _, at in both], self.shard.grid)

    def chunk_of(self, file: int, within: int) -> int | None:
        """Return the number of a chunk of a file; None if it is beyond the array."""
        if self.shard is None:
            return file if file < self.files else None
        inner, outer = _coordinates(within, self.shard.grid), _coordinates(file, self.file_grid)
        at = [a * n + b for a, b, n in zip(outer, inner, self.shard.grid, strict=True)]
        return _number(at, self.grid) if all(a < n for a, n in zip(at, self.grid, strict=True)) else None

    def in_chunk(self, item: int) -> tuple[int, int]:
        """Return the number of the chunk that holds an item, and the number of the item in it."""
        both = [divmod(at, n) for at, n in zip(_coordinates(item, self.shape), self.chunk_shape, strict=True)]
        return _number([chunk for chunk, _ in both], self.grid), _number([at for _, at in both], self.chunk_shape)

    def item_of(self, number: int, within: int) -> int | None:
        """Return the number of an item of a chunk; None if it is padding, beyond the shape."""
        inner, outer = _coordinates(within, self.chunk_shape), _coordinates(number, self.grid)
        at = [a * n + b for a, b, n in zip(outer, inner, self.chunk_shape, strict=True)]
        return _number(at, self.shape) if all(a < n for a, n in zip(at, self.shape, strict=True)) else None


def _coordinates(number: int, grid: Shape) -> Shape:
    """Return the coordinates of a cell of a grid of one or two dimensions, by its number in row-major order."""
    return (number,) if len(grid) == 1 else divmod(number, grid[1])


def _number(coordinates: Sequence[int], grid: Shape) -> int:
    """Return the number of a cell of a grid of one or two dimensions, by its coordinates."""
    return coordinates[0] if len(grid) == 1 else coordinates[0] * grid[1] + coordinates[1]


def metadata_key(key: str, zarr_format: int) -> str:
    """Return the key of the metadata of an array; the array at the root of a store has the key ""."""
    return f"{key}/{'.zarray' if zarr_format == 2 else 'zarr.json'}".removeprefix("/")


def dtype_of(raw: Json, zarr_format: int) -> np.dtype[np.integer[Any]] | None:
    """Return the dtype of an array of integers, with its byte order in zarr v2; None of any other array.

    Args:
        raw: The metadata.
        zarr_format: 2 or 3.
    """
    stated = str(raw.get("dtype" if zarr_format == 2 else "data_type"))
    is_integer = re.fullmatch(r"[<>|][iu][1248]", stated) if zarr_format == 2 else stated in INTEGERS
    return np.dtype(stated) if is_integer else None


def arrays_in(store: Store, zarr_format: int) -> dict[str, Json]:
    """Return the metadata of the arrays of a store by key, of up to 64 arrays and groups, three levels deep.

    The array that is the whole store has the key "".

    Args:
        store: The store.
        zarr_format: 2 or 3.

    Raises:
        FormatError: Metadata are not a JSON object, or too large.
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
) -> Layout:
    """Read and check the metadata of an array.

    Args:
        store: Store that holds the array.
        key: Key of the array, as "encoded_tokens" or "train/seq_starts"; "" if it is the whole store.
        zarr_format: 2 or 3.
        dtypes: Names of the dtypes that it may have, in either byte order.
        ranks: Numbers of dimensions that it may have: 1, or 2.
        stated: The metadata, if they were read already.

    Raises:
        FormatError: The metadata are missing, or differ from the specification.
    """
    name = metadata_key(key, zarr_format)
    raw, where = json_of(store, name) if stated is None else stated, store.root / name
    if raw is None:
        raise CorruptError(where, "is missing: the array has no metadata", remedy="Copy the store again")
    if raw.get("zarr_format") != zarr_format:
        raise _wrong(where, "zarr_format", zarr_format, raw.get("zarr_format"))
    layout = (_v2 if zarr_format == 2 else _v3)(where, raw, dtypes, ranks)
    _check_memory(layout)
    return layout


def _check_memory(layout: Layout) -> None:
    """Raise UnsafeError if chunks, or rows, are too large to decode."""
    large, smaller = layout.chunk * layout.itemsize, "Write the array again with smaller chunks"
    if large > CHUNK_BYTES:
        expected = f"at most {CHUNK_BYTES:,} bytes"
        raise UnsafeError(layout.where, "has chunks that are too large", expected=expected, found=large, remedy=smaller)
    row = math.prod(layout.shape[1:]) * layout.itemsize
    if row > _ROW_BYTES:
        expected = f"at most {_ROW_BYTES:,} bytes"
        raise UnsafeError(layout.where, "has rows that are too large to read", expected=expected, found=f"{row:,}")
    if layout.chunks * layout.chunk > _PADDING * layout.length + CHUNK_BYTES:
        what, expected = "has chunks that are almost all padding", f"at most {_PADDING} items for each item"
        raise UnsafeError(layout.where, what, expected=expected, found=layout.chunks * layout.chunk, remedy=smaller)


def _v2(where: Place, raw: Json, dtypes: Sequence[str], ranks: Sequence[int]) -> Layout:
    """Return the layout that a `.zarray` describes."""
    dtype = dtype_of(raw, 2)
    if dtype is None or dtype.name not in dtypes:
        raise _wrong(where, "dtype", _listed([np.dtype(name).str for name in dtypes]), raw.get("dtype"))
    separator = raw.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise _wrong(where, "dimension_separator", ". or /", separator)
    compressor = raw.get("compressor")
    name = compressor.get("id") if isinstance(compressor, dict) else compressor
    if compressor is not None and (not isinstance(name, str) or name not in COMPRESSORS):
        raise UnsafeError(
            where, "has a compressor that tokfmt does not read", expected=_ALLOWED, found=name, remedy=_REWRITE
        )
    shape = _shape(where, raw, ranks)
    if len(shape) > 1 and raw.get("order", "C") != "C":
        what = "stores its chunks column by column, which tokfmt does not read"
        raise UnsupportedError(where, what, expected="order C", found=raw.get("order"), remedy=_PLAIN_ORDER)
    return Layout(
        where,
        shape=shape,
        chunk_shape=_numbers(where, "chunks", raw.get("chunks"), (len(shape),), minimum=1),
        dtype=dtype,
        codecs=() if compressor is None else (str(name),),
        delta=_filters(where, raw.get("filters"), dtype.itemsize),
        fill=_fill(where, raw, dtype),
        prefix="",
        separator=str(separator),
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "integers"


def _filters(where: Place, value: object, itemsize: int) -> bool:
    """Return True if the filters of zarr v2 are one delta filter, False without any; raise otherwise."""
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
    return bool(filters)


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


def _v3(where: Place, raw: Json, dtypes: Sequence[str], ranks: Sequence[int]) -> Layout:
    """Return the layout that a `zarr.json` describes."""
    for key, value in raw.items():
        if key not in _V3_KEYS and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(where, "has an extension that tokfmt does not read", found=key[:60], remedy=_PLAIN)
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
    size = _numbers(where, "chunk_shape", settings.get("chunk_shape"), (len(shape),), minimum=1)
    codecs: Sequence[object] = _list(where, "codecs", raw.get("codecs"))
    chunk, shard = size, None
    if len(codecs) == 1 and _named(where, "codec", codecs[0])[0] == "sharding_indexed":
        chunk, shard, codecs = _sharding(where, _named(where, "codec", codecs[0])[1], size)
    big_endian, delta, names = _chain(where, codecs, dtype.itemsize)
    prefix, separator = _prefix(where, raw.get("chunk_key_encoding"))
    return Layout(
        where,
        shape=shape,
        chunk_shape=chunk,
        dtype=dtype.newbyteorder(">" if big_endian else "<"),
        codecs=names,
        delta=delta,
        fill=_fill(where, raw, dtype),
        prefix=prefix,
        separator=separator,
        shard=shard,
    )


def _sharding(where: Place, settings: Json, size: Shape) -> tuple[Shape, Shard, Sequence[object]]:
    """Return the shape of a chunk, the shards and the inner codecs of a sharding codec."""
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
    shard = Shard(grid, at_end=location == "end", checksum=len(names) == 2)
    if shard.index_bytes > CHUNK_BYTES:
        raise UnsafeError(where, "has too many chunks in a shard", expected="at most 8,388,607", found=shard.chunks)
    return chunk, shard, _list(where, "codecs", settings.get("codecs"))


def _chain(where: Place, codecs: Sequence[object], itemsize: int) -> tuple[bool, bool, tuple[str, ...]]:
    """Return True for big-endian items, True for delta, and the codecs after `bytes` in the order of decoding."""
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
    return endian == "big", delta, tuple(reversed(names))


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


Items = NDArray[np.unsignedinteger]

_KEPT, KEPT_BAND = 1 << 26, 1 << 28
"""Maximum bytes of decoded chunks that are kept, and of shard indexes; of the chunks of a band of rows, which are read
together."""

_OPEN = 64
"""Number of chunk files that stay open with their headers. To open one costs as much as to decode a sequence."""

_ABSENT = 1 << 20
"""Maximum items in absent chunks, plus 16 for each item in a chunk that exists."""

_WHOLE = re.compile("0|[1-9][0-9]{0,16}")  # a number in the name of a chunk file

_WHOLLY, _RATIO = 1 << 30, 1100
"""Bytes of an array that is read as a whole, and their maximum ratio to the stored bytes if there are more of them:
compressors of token IDs reach no more."""

_STARTS = 8
"""Bytes of an entry of `seq_starts`."""

_NOWHERE = (1 << 64) - 1  # byte offset and size of an absent chunk in a shard index


class Array:
    """An array with checked metadata. Picklable; several threads may share it.

    An absent chunk looks like one that a copy lost, so reading it is an error unless `fill` is set. zarr leaves out
    chunks that hold only the fill value if `write_empty_chunks` is off; seqax (as far as seen) and tokfmt do not. One
    exception: every writer leaves out the only item of an empty dataset's `seq_starts`, which can only be 0.

    Args:
        store: Store that holds the array.
        key: Key of the array in the store.
        zarr_format: 2 or 3.
        dtypes: See `read_layout`.
        ranks: See `read_layout`.
        stated: See `read_layout`.
        fill: Read an absent chunk as the fill value.
        length: Number of items that count, if the shape of one dimension has room for more.

    Attributes:
        layout: Checked metadata.
        key: Key of the array in the store.
        fill: Absent chunks are read as the fill value.
        absent: int64[n], numbers of the chunk files that do not exist.
        extra: int64[n], numbers of chunk files beyond the shape, which hold nothing of the array.
    """

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
        layout = read_layout(store, key, zarr_format, dtypes, ranks, stated)
        if length is not None:
            layout = replace(layout, shape=(min(length, layout.length),))
        self.layout, self.key, self._store = layout, key, store
        present = self._present()
        self.extra = present[present >= layout.files]
        self.absent = self._missing(present[present < layout.files])
        self._chunks = Recent[int, Items](max(_KEPT, min(KEPT_BAND, layout.band_bytes)))
        self._indexes = Recent[int, NDArray[np.uint64]](_KEPT)
        self._open = Recent[int, tuple[Blob, codecs.BloscFrame]](_OPEN)
        self._items, self._width = layout.chunk, layout.itemsize
        self._only_zero = layout.itemsize == _STARTS and layout.length == 1
        self.fill = fill

    def filled(self) -> Array:
        """Return the same array, whose absent chunks are read as the fill value if it has one."""
        found = copy(self)
        found.fill = True
        return found

    def complete(self) -> Array:
        """Return the array.

        Raises:
            CorruptError: Chunk files are absent, and are not read as the fill value, or the array has none.
        """
        hole = self.hole
        if hole is not None and (not self.fill or self.layout.fill is None):
            raise hole
        return self

    @property
    def hole(self) -> CorruptError | None:
        """The error for absent chunk files; None without any."""
        count, layout = len(self.absent), self.layout
        if not count or (self._only_zero and layout.fill is not None):
            return None
        first = int(self.absent[0])
        if layout.fill is not None:
            return self.hole_at(first, count)
        what = f"is missing: {count:,} of {layout.files:,} chunks of {self.name} are not there"
        return CorruptError(
            self._store.root / self._chunk_key(first),
            f"{what}, and its fill_value is null",
            remedy="Copy the store again",
        )

    @property
    def path(self) -> Place:
        """Path of the array's directory, for messages."""
        return self._store.root / self.key

    @property
    def length(self) -> int:
        """Number of items."""
        return self.layout.length

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Dtype of the items that `read` returns: unsigned, native byte order. Signed items keep their bits."""
        return np.dtype(f"u{self._width}")

    @property
    def name(self) -> str:
        """Key of the array, or the name of the store for an array that is the whole store, for messages."""
        return self.key or self._store.root.name

    def _below(self, name: str) -> str:
        """Return the key of a file or directory of the array."""
        return f"{self.key}/{name}" if self.key else name

    def _present(self) -> NDArray[np.int64]:
        """Return the numbers of the chunk files that exist, ascending; at least `layout.files` if beyond the shape."""
        layout, prefix = self.layout, self.layout.prefix
        folder, lead = (self._below(prefix[:-1]), "") if prefix.endswith("/") else (self.key, prefix)
        names: Iterator[str] = iter(self._store.names(folder))
        if len(layout.shape) > 1 and layout.separator == "/":
            outer = [name for name in names if _WHOLE.fullmatch(name)]
            names = (f"{first}/{name}" for first in outer for name in self._store.names(f"{folder}/{first}"))
        plain = (name[len(lead) :].split(layout.separator) for name in names if name.startswith(lead))
        grid = layout.file_grid
        found = [
            [int(part) for part in parts]
            for parts in plain
            if len(parts) == len(grid) and all(map(_WHOLE.fullmatch, parts))
        ]
        numbers = (
            _number(at, grid) if len(grid) == 1 or all(a < n for a, n in zip(at, grid, strict=True)) else layout.files
            for at in found
        )
        return np.sort(np.fromiter(numbers, np.int64))

    def _missing(self, present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of absent chunk files; raise if too many are absent."""
        layout, there = self.layout, len(present)
        if there == layout.files:
            return np.empty(0, np.int64)
        absent = min((layout.files - there) * layout.file_items, layout.length)
        self._bounded(layout.where, absent, min(there * layout.file_items, layout.length))
        return np.setdiff1d(np.arange(layout.files), present, assume_unique=True)

    def hole_at(self, first: int, count: int, shard: Place | None = None) -> CorruptError:
        """Return the error for absent chunks.

        Args:
            first: Number of the first absent chunk file, or of the chunk if `shard` is given.
            count: Number of absent chunk files or chunks.
            shard: The existing shard that should hold the chunk.
        """
        layout, fill = self.layout, self.layout.fill or 0
        of = layout.chunks if layout.shard and shard else layout.files
        what = f"chunk {first:,} is not in its shard" if shard else "is missing"
        return CorruptError(
            shard or self._store.root / self._chunk_key(first),
            f"{what}: {count:,} of {of:,} chunks of {self.name} {'are' if count > 1 else 'is'} not there",
            remedy="Copy the store again; if its writer left out chunks that hold only the fill value, "
            f"--from-opt holes=fill reads them as {fill}",
        )

    def _bounded(self, path: Place, absent: int, present: int) -> None:
        """Raise UnsafeError if absent chunks hold far more items than existing ones; see `_ABSENT`."""
        if absent > _ABSENT + 16 * present:
            raise UnsafeError(
                path,
                f"declares {absent + present:,} items of {self.name}, but almost all of its chunks are absent",
                expected=f"at least {absent // 17:,} items in chunks that are there",
                found=present,
                remedy="Copy the store again",
            )

    def _chunk_key(self, number: int) -> str:
        return self._below(self.layout.file_key(number))

    def stored_bytes(self) -> int:
        """Return the bytes of all chunk files together."""
        numbers = np.setdiff1d(np.arange(self.layout.files), self.absent, assume_unique=True)
        return sum(self._file(number).size for number in numbers.tolist())

    def check_memory(self) -> None:
        """Raise UnsafeError if the whole array takes over 1 GiB of memory and over 1,100 times its stored bytes."""
        size = self.layout.length * self.layout.itemsize
        if size > _WHOLLY and size > _RATIO * self.stored_bytes():
            raise UnsafeError(
                self.path,
                f"would take {size:,} bytes of memory",
                found=f"{self.stored_bytes():,} bytes stored",
                remedy=f"Write {self.name} again without a compressor, if it is to be trusted",
            )

    def read(self, start: int, stop: int) -> Items:
        """Return items `start <= i < stop` as a new array; 0 <= start <= stop <= layout.length."""
        layout = self.layout
        if len(layout.shape) > 1 and start < stop:
            width = layout.shape[1]
            first = start // width
            rows = self._rows(first, -(-stop // width)).reshape(-1)
            return rows[start - first * width : stop - first * width]
        out = np.empty(stop - start, self.dtype)
        size = self._items
        for number in range(start // size, -(-stop // size)):
            base = number * size
            a, b = max(start, base), min(stop, base + size)
            self._part(number, a - base, b - base, out[a - start : b - start])
        return out

    def _rows(self, first: int, last: int) -> Items:
        """Return rows `first <= i < last` of an array of two dimensions."""
        layout, out = self.layout, np.empty((last - first, self.layout.shape[1]), self.dtype)
        (deep, wide), (_, across) = layout.chunk_shape, layout.grid
        for band in range(first // deep, -(-last // deep)):
            a, b = max(first, band * deep), min(last, (band + 1) * deep)
            for column in range(across):
                items = self._whole(band * across + column)
                target = out[a - first : b - first, column * wide : (column + 1) * wide]
                if items is None:
                    target[...] = self._filler
                else:
                    target[...] = items.reshape(deep, wide)[a - band * deep : b - band * deep, : target.shape[1]]
        return out

    @property
    def _filler(self) -> int:
        """The bits of the fill value as an unsigned item."""
        return (self.layout.fill or 0) % (1 << 8 * self.layout.itemsize)

    def _whole(self, number: int) -> Items | None:
        """Return all items of a chunk, which is kept; None if it is absent and reads as the fill value."""
        kept = self._chunks.get(number)
        if kept is None:
            blob = self.blob(number)
            if blob is None:
                return None
            kept = self.decoded(blob)
            self._chunks.put(number, kept, kept.nbytes)
        return kept

    def _part(self, number: int, a: int, b: int, out: Items) -> None:
        """Write items `a <= i < b` of a chunk to `out`."""
        layout = self.layout
        is_blosc = layout.codecs == ("blosc",) and not layout.delta
        if is_blosc and self._chunks.get(number) is None and self._directly(number, a, b, out):
            return
        kept = self._whole(number)
        out[:] = self._filler if kept is None else kept[a:b]

    def _directly(self, number: int, a: int, b: int, out: Items) -> bool:
        """Decode a whole chunk into `out`, or only the blocks of a small part; return False if neither applies."""
        layout, size = self.layout, self._width
        if b - a == self._items and not layout.big_endian:
            blob = self.blob(number)
            if blob is not None:
                codecs.decode_blosc(blob, size, out.view(np.uint8))
            return blob is not None
        if 2 * (b - a) > self._items:  # a caller that reads in order needs the rest next
            return False
        opened = self._opened(number)
        raw = codecs.decode_blosc_part(*opened, a * size, b * size) if opened else None
        if raw is None:
            return False
        out[:] = self._native(raw)
        return True

    def _opened(self, number: int) -> tuple[Blob, codecs.BloscFrame] | None:
        """Return a chunk and its blosc header; None if the chunk is absent."""
        opened = self._open.get(number)
        if opened is None:
            blob = self.blob(number)
            if blob is None:
                return None
            opened = blob, codecs.blosc_frame(blob, self.layout.chunk * self.layout.itemsize, self.layout.itemsize)
            if isinstance(blob.source, File):
                self._open.put(number, opened)
        return opened

    def decoded(self, blob: Blob) -> Items:
        """Return all items of a chunk, in native byte order and with the differences summed."""
        layout = self.layout
        raw = codecs.decode(blob, layout.codecs, layout.chunk * layout.itemsize, layout.itemsize)
        items = self._native(raw)
        return np.cumsum(items, dtype=self.dtype) if layout.delta else items

    def _native(self, raw: NDArray[np.uint8]) -> Items:
        items: Items = raw.view(self.dtype.newbyteorder(">" if self.layout.big_endian else "<"))
        return items.astype(self.dtype, copy=False)

    def blob(self, number: int) -> Blob | None:
        """Return the stored bytes of a chunk; None if it is absent and reads as the fill value."""
        shard = self.layout.shard
        if shard is None:
            return None if self._is_filled(number) else self._file(number)
        home, within = self.layout.home(number)
        if self._is_filled(home):
            return None
        file = self._file(home)
        offset, size = (int(v) for v in self._shard_index(file, home, shard)[within])
        if offset == size == _NOWHERE:
            if not (self.fill or self._only_zero):
                raise self.hole_at(number, 1, file.path)
            return None
        if offset + size > file.size:
            raise CorruptError(
                file.path,
                f"has a shard index whose chunk {within:,} ends outside of the file",
                expected=f"at most {file.size:,}",
                found=offset + size,
                remedy="Copy it again",
            )
        return file.part(offset, size)

    def _shard_index(self, file: Blob, number: int, shard: Shard) -> NDArray[np.uint64]:
        """Return the index of a shard: uint64[chunks, 2], byte offset and size of each chunk."""
        index = self._indexes.get(number)
        if index is None:
            size = shard.index_bytes
            if file.size < size:
                what = "is too short for its shard index"
                raise CorruptError(file.path, what, expected=f"{size:,} bytes", found=file.size, remedy=AGAIN)
            raw = file.read(file.size - size if shard.at_end else 0, size)
            if shard.checksum:
                codecs.check_crc32c(file.path, raw)
            index = np.frombuffer(raw, "<u8", 2 * shard.chunks).reshape(-1, 2)
            used = index[self._used(number)]
            there = int(np.count_nonzero(used[:, 1] != _NOWHERE))
            self._bounded(file.path, (len(used) - there) * self.layout.chunk, there * self.layout.chunk)
            self._indexes.put(number, index, index.nbytes)
        return index

    def _used(self, number: int) -> NDArray[np.bool_]:
        """Return bool[chunks per shard]: which chunks of a shard are within the shape."""
        layout = self.layout
        inner = layout.shard.grid if layout.shard else layout.grid
        places = _coordinates(number, layout.file_grid)
        axes = [a * n + np.arange(n) < total for a, n, total in zip(places, inner, layout.grid, strict=True)]
        return axes[0] if len(axes) == 1 else np.logical_and.outer(*axes).reshape(-1)

    def byte_offset(self, item: int) -> ByteOffset:
        """Return the byte offset of an item: exact if it is stored without compression, else that of its chunk."""
        layout = self.layout
        number, within = layout.in_chunk(item)
        blob = self.blob(number)
        detail = f"chunk {number:,} of {self.name}"
        if blob is None:
            return ByteOffset(
                layout.where, 0, None, f"{detail} is absent and reads as its fill value {layout.fill or 0}"
            )
        origin = self.origin(number)
        detail = f"{detail}, item {within:,}"
        if not origin.exact:
            return ByteOffset(origin.path, origin.start, None, f"{detail}, in a compressed member of the zip")
        if not layout.plain:
            return ByteOffset(origin.path, origin.start + blob.start, None, detail)
        return ByteOffset(origin.path, origin.start + blob.start + within * layout.itemsize, layout.itemsize, detail)

    def origin(self, chunk: int) -> Origin:
        """Return the place of the file that holds an existing chunk."""
        return self._store.origin(self._chunk_key(self.layout.home(chunk)[0]))

    def position(self, path: Place, offset: int) -> int | None:
        """Return the item at a byte offset of a file, or the first of the chunk there; None if there is neither."""
        layout, found = self.layout, self._store.key_at(path, offset)
        lead = self._below(layout.prefix)
        name = found[0].removeprefix(lead) if found and found[0].startswith(lead) else ""
        parts = [int(part) for part in name.split(layout.separator) if _WHOLE.fullmatch(part)]
        grid = layout.file_grid
        if not found or len(parts) != len(grid) or any(a >= n for a, n in zip(parts, grid, strict=True)):
            return None
        home, at, within = _number(parts, grid), found[1], 0
        if found[0] != self._chunk_key(home) or not 0 <= at < self._file(home).size:
            return None
        if layout.shard is not None:
            index = self._shard_index(self._file(home), home, layout.shard).astype(np.int64)
            held = np.flatnonzero((index[:, 0] <= at) & (at < index[:, 0] + index[:, 1]))
            if not len(held):
                return None
            within, at = int(held[0]), at - int(index[held[0], 0])
        number = layout.chunk_of(home, within)
        if number is None:
            return None
        exact = layout.plain and self._store.origin(found[0]).exact
        item = at // layout.itemsize if exact else 0
        return layout.item_of(number, item) if item < layout.chunk else None

    def _is_filled(self, number: int) -> bool:
        """Return True if a chunk file is absent and reads as the fill value.

        Raises:
            CorruptError: It is absent, and is not read as the fill value.
        """
        if not self.is_absent(number):
            return False
        self.complete()
        return True

    def is_absent(self, number: int) -> bool:
        """Return True if a chunk file does not exist."""
        at = int(np.searchsorted(self.absent, number))
        return at < len(self.absent) and int(self.absent[at]) == number

    def _file(self, number: int) -> Blob:
        blob = self._store.blob(self._chunk_key(number))
        if blob is None:
            raise SourceChangedError(self._store.root / self._chunk_key(number), "disappeared while it was being read")
        return blob

    def close(self) -> None:
        """Release decoded chunks, shard indexes and open files."""
        self._chunks.clear()
        self._indexes.clear()
        self._open.clear()
