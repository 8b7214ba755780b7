"""Read a one-dimensional array of unsigned integers from a zarr store: its metadata, its chunks, any run of its items.

The metadata of zarr v2 (`.zarray`) and v3 (`zarr.json`) become one `Layout`, which is checked before anything is
decoded. Codecs and extensions that this module does not know are refused: a foreign codec could execute what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.core.reader import ByteOffset
from tokfmt.errors import CorruptError, FormatError, SourceChangedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.zarr_arrays import codecs
from tokfmt.formats.zarr_arrays.codecs import AGAIN, CHUNK_BYTES, COMPRESSORS
from tokfmt.formats.zarr_arrays.store import Blob, Origin, Store, json_of
from tokfmt.wording import printable

Json = Mapping[str, object]

_LENGTH = 1 << 56
_ALLOWED = "blosc, zstd, lz4, gzip, zlib or none"
_V3_NAMES = {name: name for name in ("blosc", "zstd", "gzip", "crc32c")}
_V3_NAMES |= {f"numcodecs.{name}": name for name in ("blosc", "zstd", "lz4", "gzip", "zlib")}
_V3_KEYS = {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
            "codecs", "attributes", "storage_transformers", "dimension_names", "consolidated_metadata"}  # fmt: skip
_PLAIN = "Write the array again with zarr and without it"
_COPY = "Copy the store again, or write it again"
_REWRITE = "Write the array again with zarr and one of these"


@dataclass(frozen=True, slots=True)
class Shard:
    """The shards of an array: files that hold several chunks, with an index of them at the start or end.

    Attributes:
        chunks: Number of chunks per shard.
        at_end: True if the index is at the end of the file.
        checksum: True if the index ends with a CRC-32C.
    """

    chunks: int
    at_end: bool
    checksum: bool

    @property
    def index_bytes(self) -> int:
        """Bytes of the index."""
        return 16 * self.chunks + 4 * self.checksum


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of an array in its store, from its metadata.

    Attributes:
        where: The metadata file, for messages.
        length: Number of items in the array.
        chunk: Number of items per chunk; every chunk decodes to all of them.
        itemsize: Bytes per item, 4 or 8.
        big_endian: True if items are big-endian.
        codecs: Names in the order of decoding.
        delta: True if each chunk holds its first item and then differences.
        fill: Value of the items of an absent chunk; None if no chunk may be absent.
        prefix: First part of the names of chunk files: "", "c/" or "c.".
        shard: Shards; None if each file holds one chunk.
    """

    where: Place
    length: int
    chunk: int
    itemsize: int
    big_endian: bool
    codecs: tuple[str, ...]
    delta: bool
    fill: int | None
    prefix: str
    shard: Shard | None = None

    @property
    def plain(self) -> bool:
        """True if a chunk holds its items without compression or differences; a checksum may follow them."""
        return not self.delta and all(name == "crc32c" for name in self.codecs)

    @property
    def chunks(self) -> int:
        """Number of chunks of the array."""
        return -(-self.length // self.chunk)

    @property
    def file_items(self) -> int:
        """Number of items per chunk file."""
        return self.chunk * (self.shard.chunks if self.shard else 1)

    @property
    def files(self) -> int:
        """Number of chunk files of the array."""
        return -(-self.length // self.file_items)


def read_layout(store: Store, key: str, itemsize: int, zarr_format: int, *, signed: bool = False) -> Layout:
    """Read and check the metadata of an array.

    Args:
        store: Store that holds the array.
        key: Key of the array, as "encoded_tokens" or "train/seq_starts".
        itemsize: Bytes per item that the format demands.
        zarr_format: 2 or 3.
        signed: Expect signed items (zarr 3 only). They are read as unsigned ones as well.

    Raises:
        FormatError: The metadata are missing, or differ from the specification.
    """
    name = f"{key}/{'.zarray' if zarr_format == 2 else 'zarr.json'}"
    raw, where = json_of(store, name), store.root / name
    if raw is None:
        raise CorruptError(where, "is missing: the array has no metadata", remedy="Copy the store again")
    if raw.get("zarr_format") != zarr_format:
        raise _wrong(where, "zarr_format", zarr_format, raw.get("zarr_format"))
    layout = _v2(where, raw, itemsize) if zarr_format == 2 else _v3(where, raw, itemsize, signed=signed)
    if layout.chunk * itemsize > CHUNK_BYTES:
        raise UnsafeError(
            where,
            "has chunks that are too large",
            expected=f"at most {CHUNK_BYTES:,} bytes",
            found=layout.chunk * itemsize,
            remedy="Write the array again with smaller chunks",
        )
    return layout


def _v2(where: Place, raw: Json, itemsize: int) -> Layout:
    """Return the layout that a `.zarray` describes."""
    dtype = raw.get("dtype")
    if dtype not in (f"<u{itemsize}", f">u{itemsize}"):
        raise _wrong(where, "dtype", f"<u{itemsize}", dtype)
    if raw.get("dimension_separator", ".") not in (".", "/"):
        raise _wrong(where, "dimension_separator", ". or /", raw["dimension_separator"])
    compressor = raw.get("compressor")
    name = compressor.get("id") if isinstance(compressor, dict) else compressor
    if compressor is not None and (not isinstance(name, str) or name not in COMPRESSORS):
        raise UnsafeError(
            where, "has a compressor that tokfmt does not read", expected=_ALLOWED, found=name, remedy=_REWRITE
        )
    return Layout(
        where,
        length=_length(where, raw),
        chunk=_one(where, "chunks", raw.get("chunks"), minimum=1),
        itemsize=itemsize,
        big_endian=dtype == f">u{itemsize}",
        codecs=() if compressor is None else (str(name),),
        delta=_filters(where, raw.get("filters"), itemsize),
        fill=_fill(where, raw, itemsize),
        prefix="",
    )


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
        if dtype not in (f"<i{itemsize}", f"<u{itemsize}"):
            raise UnsupportedError(
                where,
                "has a delta filter of another type",
                expected=f"<i{itemsize}",
                found=str(dtype)[:60],
                remedy=_PLAIN,
            )


def _v3(where: Place, raw: Json, itemsize: int, *, signed: bool) -> Layout:
    """Return the layout that a `zarr.json` describes."""
    for key, value in raw.items():
        if key not in _V3_KEYS and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(where, "has an extension that tokfmt does not read", found=key[:60], remedy=_PLAIN)
    if raw.get("node_type") != "array":
        raise _wrong(where, "node_type", "array", raw.get("node_type"))
    data_type = f"{'' if signed else 'u'}int{itemsize * 8}"
    if raw.get("data_type") != data_type:
        raise _wrong(where, "data_type", data_type, raw.get("data_type"))
    if raw.get("storage_transformers"):
        raise UnsupportedError(where, "has storage transformers, which tokfmt does not read", remedy=_PLAIN)
    grid, settings = _named(where, "chunk_grid", raw.get("chunk_grid"))
    if grid != "regular":
        raise _wrong(where, "chunk_grid", "regular", grid)
    size = _one(where, "chunk_shape", settings.get("chunk_shape"), minimum=1)
    codecs: Sequence[object] = _list(where, "codecs", raw.get("codecs"))
    chunk, shard = size, None
    if len(codecs) == 1 and _named(where, "codec", codecs[0])[0] == "sharding_indexed":
        chunk, shard, codecs = _sharding(where, _named(where, "codec", codecs[0])[1], size)
    big_endian, delta, names = _chain(where, codecs, itemsize)
    return Layout(
        where,
        length=_length(where, raw),
        chunk=chunk,
        itemsize=itemsize,
        big_endian=big_endian,
        codecs=names,
        delta=delta,
        fill=_fill(where, raw, itemsize),
        prefix=_prefix(where, raw.get("chunk_key_encoding")),
        shard=shard,
    )


def _sharding(where: Place, settings: Json, size: int) -> tuple[int, Shard, Sequence[object]]:
    """Return the chunk size, the shards and the inner codecs of a sharding codec."""
    chunk = _one(where, "chunk_shape", settings.get("chunk_shape"), minimum=1)
    if size % chunk:
        raise _wrong(where, "chunk_shape of a shard", f"a divisor of {size}", chunk)
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
    shard = Shard(size // chunk, at_end=location == "end", checksum=len(names) == 2)
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


def _prefix(where: Place, value: object) -> str:
    name, settings = _named(where, "chunk_key_encoding", value)
    separator = settings.get("separator", "/" if name == "default" else ".")
    if name not in ("default", "v2"):
        raise _wrong(where, "chunk_key_encoding", "default or v2", name)
    if separator not in (".", "/"):
        raise _wrong(where, "separator of chunk keys", ". or /", separator)
    return f"c{separator}" if name == "default" else ""


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


def _length(where: Place, raw: Json) -> int:
    length = _one(where, "shape", raw.get("shape"), minimum=0)
    if length > _LENGTH:
        raise UnsafeError(
            where, "declares more items than a disk holds", expected=f"at most {_LENGTH:,}", found=length, remedy=_COPY
        )
    return length


def _one(where: Place, what: str, value: object, minimum: int) -> int:
    """Return the only number of a one-dimensional shape; raise CorruptError for any other value."""
    if not isinstance(value, list) or len(value) != 1 or type(value[0]) is not int or value[0] < minimum:
        raise _wrong(where, what, f"one whole number of at least {minimum}", value)
    return value[0]


def _fill(where: Place, raw: Json, itemsize: int) -> int | None:
    fill = raw.get("fill_value")
    if fill is not None and (type(fill) is not int or not 0 <= fill < 1 << 8 * itemsize):
        raise _wrong(where, "fill_value", "null or a whole number that fits", fill)
    return fill


def _wrong(where: Place, what: str, expected: object, found: object) -> FormatError:
    text = "nothing" if found is None else str(found)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return CorruptError(where, f"has a wrong value of {what}", expected=str(expected), found=shown, remedy=_COPY)


Items = NDArray[np.unsignedinteger]

_KEPT = 1 << 26
"""Maximum bytes of decoded chunks that are kept, and of shard indexes."""

_OPEN = 64
"""Number of chunk files that stay open with their headers. To open one costs as much as to decode a sequence."""

_ABSENT = 1 << 20
"""Maximum items in absent chunks, plus 16 for each item in a chunk that exists."""

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
        itemsize: Bytes per item, 4 or 8.
        zarr_format: 2 or 3.
        fill: Read an absent chunk as the fill value.
        signed: See `read_layout`.
        length: Number of items that count, if the shape has room for more.

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
        itemsize: int,
        zarr_format: int,
        *,
        fill: bool,
        signed: bool = False,
        length: int | None = None,
    ) -> None:
        self.layout = read_layout(store, key, itemsize, zarr_format, signed=signed)
        if length is not None:
            self.layout = replace(self.layout, length=min(length, self.layout.length))
        self.key, self._store = key, store
        present = self._present()
        files = self.layout.files
        self.extra = present[present >= files]
        self.absent = self._missing(present[present < files])
        self._chunks = Recent[int, Items](_KEPT)
        self._indexes = Recent[int, NDArray[np.uint64]](_KEPT)
        self._open = Recent[int, tuple[Blob, codecs.BloscFrame]](_OPEN)
        self._only_zero = itemsize == _STARTS and self.layout.length == 1
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
        return CorruptError(
            self._store.root / self._chunk_key(first),
            f"is missing: {count:,} of {layout.files:,} chunks of {self.key} are not there, and its fill_value is null",
            remedy="Copy the store again",
        )

    @property
    def path(self) -> Place:
        """Path of the array's directory, for messages."""
        return self._store.root / self.key

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Dtype of the items that `read` returns: uint32 or uint64, native byte order."""
        return np.dtype(f"u{self.layout.itemsize}")

    def _present(self) -> NDArray[np.int64]:
        """Return the numbers of the chunk files that exist, ascending."""
        prefix = self.layout.prefix
        if prefix.endswith("/"):
            names, prefix = self._store.names(f"{self.key}/{prefix[:-1]}"), ""
        else:
            names = self._store.names(self.key)
        plain = (name[len(prefix) :] for name in names if name.startswith(prefix))
        numbers = (int(n) for n in plain if n.isascii() and n.isdigit() and len(n) < 18 and (n[0] != "0" or n == "0"))
        return np.sort(np.fromiter(numbers, np.int64))

    def _missing(self, present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of absent chunk files; raise if too many are absent."""
        layout, there = self.layout, len(present)
        if there == layout.files:
            return np.empty(0, np.int64)
        absent = min((layout.files - there) * layout.file_items, layout.length)
        self._bounded(layout.where, absent, there * layout.file_items)
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
            f"{what}: {count:,} of {of:,} chunks of {self.key} {'are' if count > 1 else 'is'} not there",
            remedy="Copy the store again; if its writer left out chunks that hold only the fill value, "
            f"--from-opt holes=fill reads them as {fill}",
        )

    def _bounded(self, path: Place, absent: int, present: int) -> None:
        """Raise UnsafeError if absent chunks hold far more items than existing ones; see `_ABSENT`."""
        if absent > _ABSENT + 16 * present:
            raise UnsafeError(
                path,
                f"declares {absent + present:,} items of {self.key}, but almost all of its chunks are absent",
                expected=f"at least {absent // 17:,} items in chunks that are there",
                found=present,
                remedy="Copy the store again",
            )

    def _chunk_key(self, number: int) -> str:
        return f"{self.key}/{self.layout.prefix}{number}"

    def stored_bytes(self) -> int:
        """Return the bytes of all chunk files together."""
        numbers = np.setdiff1d(np.arange(self.layout.files), self.absent, assume_unique=True)
        return sum(self._file(number).size for number in numbers.tolist())

    def read(self, start: int, stop: int) -> Items:
        """Return items `start <= i < stop` as a new array; 0 <= start <= stop <= layout.length."""
        out = np.empty(stop - start, self.dtype)
        size = self.layout.chunk
        for number in range(start // size, -(-stop // size)):
            base = number * size
            a, b = max(start, base), min(stop, base + size)
            self._part(number, a - base, b - base, out[a - start : b - start])
        return out

    def _part(self, number: int, a: int, b: int, out: Items) -> None:
        """Write items `a <= i < b` of a chunk to `out`."""
        layout = self.layout
        kept = self._chunks.get(number)
        if kept is None:
            if layout.codecs == ("blosc",) and not layout.delta and self._directly(number, a, b, out):
                return
            blob = self.blob(number)
            if blob is None:
                out[:] = layout.fill or 0
                return
            kept = self.decoded(blob)
            self._chunks.put(number, kept, kept.nbytes)
        out[:] = kept[a:b]

    def _directly(self, number: int, a: int, b: int, out: Items) -> bool:
        """Decode a whole chunk into `out`, or only the blocks of a small part; return False if neither applies."""
        layout, size = self.layout, self.layout.itemsize
        if b - a == layout.chunk and not layout.big_endian:
            blob = self.blob(number)
            if blob is not None:
                codecs.decode_blosc(blob, size, out.view(np.uint8))
            return blob is not None
        if 2 * (b - a) > layout.chunk:  # a caller that reads in order needs the rest next
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
        home, within = divmod(number, shard.chunks)
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
            used = index[: self.layout.chunks - number * shard.chunks]
            there = int(np.count_nonzero(used[:, 1] != _NOWHERE))
            self._bounded(file.path, (len(used) - there) * self.layout.chunk, there * self.layout.chunk)
            self._indexes.put(number, index, index.nbytes)
        return index

    def byte_offset(self, item: int) -> ByteOffset:
        """Return the byte offset of an item: exact if it is stored without compression, else that of its chunk."""
        layout = self.layout
        number, within = divmod(item, layout.chunk)
        blob = self.blob(number)
        detail = f"chunk {number:,} of {self.key}"
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
        return self._store.origin(self._chunk_key(chunk // (self.layout.shard.chunks if self.layout.shard else 1)))

    def position(self, path: Place, offset: int) -> int | None:
        """Return the item at a byte offset of a file, or the first of the chunk there; None if there is neither."""
        layout, found = self.layout, self._store.key_at(path, offset)
        lead = f"{self.key}/{layout.prefix}"
        name = found[0].removeprefix(lead) if found and found[0].startswith(lead) else ""
        if not found or not name.isdecimal() or not name.isascii() or int(name) >= layout.files:
            return None
        number, at = int(name), found[1]
        if not 0 <= at < self._file(number).size:
            return None
        if layout.shard is not None:
            index = self._shard_index(self._file(number), number, layout.shard).astype(np.int64)
            held = np.flatnonzero((index[:, 0] <= at) & (at < index[:, 0] + index[:, 1]))
            if not len(held):
                return None
            number, at = number * layout.shard.chunks + int(held[0]), at - int(index[held[0], 0])
        exact = layout.plain and self._store.origin(found[0]).exact
        within = at // layout.itemsize if exact else 0
        item = number * layout.chunk + within
        return item if within < layout.chunk and item < layout.length else None

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
