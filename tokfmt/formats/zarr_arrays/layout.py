"""What describes an array of a store, checked before anything is decoded.

zarr v2 (`.zarray`) and v3 (`zarr.json`) become one `Layout`. Whatever is not known here is refused: a codec from
elsewhere could execute what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokfmt.core.errors import CorruptError, FormatError, UnsafeError, UnsupportedError
from tokfmt.formats.zarr_arrays.codecs import CHUNK_BYTES, COMPRESSORS
from tokfmt.formats.zarr_arrays.store import Store, json_of

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
    """Chunks side by side in one file, with an index of them at its start or end.

    Attributes:
        chunks: Chunks in a shard.
        at_end: Where the index lies.
        checksum: The index ends with a CRC-32C.
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
    """How an array lies in its store.

    Attributes:
        where: The metadata file, for messages.
        length: Items in the array.
        chunk: Items in a chunk; every chunk decodes to all of them.
        itemsize: Bytes of an item, 4 or 8.
        big_endian: Byte order of the items.
        codecs: Names in the order of decoding.
        delta: Each chunk holds differences.
        fill: What an absent chunk reads as; None when no chunk may be absent.
        prefix: Of chunk files: "" or "c/" or "c.".
        shard: Set when a file holds several chunks.
    """

    where: Path
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
        """Whether items stand in a chunk as they are; a checksum behind them changes nothing."""
        return not self.delta and all(name == "crc32c" for name in self.codecs)

    @property
    def chunks(self) -> int:
        """How many chunks."""
        return -(-self.length // self.chunk)

    @property
    def file_items(self) -> int:
        """Items in a chunk file."""
        return self.chunk * (self.shard.chunks if self.shard else 1)

    @property
    def files(self) -> int:
        """How many chunk files."""
        return -(-self.length // self.file_items)


def read_layout(store: Store, key: str, itemsize: int, zarr_format: int, *, signed: bool = False) -> Layout:
    """The layout of the array `key`.

    Args:
        store: Where.
        key: "encoded_tokens", "train/seq_starts" ...
        itemsize: Bytes of an item, by the specification.
        zarr_format: 2 or 3.
        signed: Items are signed; of zarr 3 only. They are read as unsigned ones all the same.

    Raises:
        FormatError: It is not there, or not what the specification says.
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
            where, "has chunks that are too large", expected=f"at most {CHUNK_BYTES:,} bytes",
            found=layout.chunk * itemsize, remedy="Write the array again with smaller chunks",
        )  # fmt: skip
    return layout


def _v2(where: Path, raw: Json, itemsize: int) -> Layout:
    dtype = raw.get("dtype")
    if dtype not in (f"<u{itemsize}", f">u{itemsize}"):
        raise _wrong(where, "dtype", f"<u{itemsize}", dtype)
    if raw.get("dimension_separator", ".") not in (".", "/"):
        raise _wrong(where, "dimension_separator", ". or /", raw["dimension_separator"])
    compressor = raw.get("compressor")
    codecs = () if compressor is None else (_compressor(where, compressor),)
    return Layout(
        where,
        length=_length(where, raw),
        chunk=_one(where, "chunks", raw.get("chunks"), least=1),
        itemsize=itemsize,
        big_endian=dtype == f">u{itemsize}",
        codecs=codecs,
        delta=_filters(where, raw.get("filters"), itemsize),
        fill=_fill(where, raw, itemsize),
        prefix="",
    )


def _compressor(where: Path, value: object) -> str:
    name = value.get("id") if isinstance(value, dict) else value
    if not isinstance(name, str) or name not in COMPRESSORS:
        raise UnsafeError(where, "names a compressor that is not read", expected=_ALLOWED, found=name, remedy=_REWRITE)
    return name


def _filters(where: Path, value: object, itemsize: int) -> bool:
    filters = value if isinstance(value, list) else [] if value is None else [value]
    names = [entry.get("id") if isinstance(entry, dict) else entry for entry in filters]
    if names not in ([], ["delta"]):
        raise UnsafeError(
            where, "names filters that are not read", expected="one delta or none",
            found=", ".join(str(name) for name in names)[:60], remedy=_PLAIN,
        )  # fmt: skip
    for entry in filters:
        _delta(where, entry if isinstance(entry, dict) else {}, itemsize)
    return bool(filters)


def _delta(where: Path, settings: Json, itemsize: int) -> None:
    stored = settings.get("astype", settings.get("dtype"))
    for dtype in (settings.get("dtype"), stored):
        if dtype not in (f"<i{itemsize}", f"<u{itemsize}"):
            raise UnsupportedError(
                where, "has a delta filter of another type", expected=f"<i{itemsize}", found=str(dtype)[:60],
                remedy=_PLAIN,
            )  # fmt: skip


def _v3(where: Path, raw: Json, itemsize: int, *, signed: bool) -> Layout:
    for key, value in raw.items():
        if key not in _V3_KEYS and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(where, "has an extension that is not read", found=key[:60], remedy=_PLAIN)
    if raw.get("node_type") != "array":
        raise _wrong(where, "node_type", "array", raw.get("node_type"))
    data_type = f"{'' if signed else 'u'}int{itemsize * 8}"
    if raw.get("data_type") != data_type:
        raise _wrong(where, "data_type", data_type, raw.get("data_type"))
    if raw.get("storage_transformers"):
        raise UnsupportedError(where, "has storage transformers, which are not read", remedy=_PLAIN)
    grid, settings = _named(where, "chunk_grid", raw.get("chunk_grid"))
    if grid != "regular":
        raise _wrong(where, "chunk_grid", "regular", grid)
    size = _one(where, "chunk_shape", settings.get("chunk_shape"), least=1)
    codecs: Sequence[object] = _list(where, "codecs", raw.get("codecs"))
    shard = None
    if len(codecs) == 1 and _named(where, "codec", codecs[0])[0] == "sharding_indexed":
        chunk, shard, codecs = _sharding(where, _named(where, "codec", codecs[0])[1], size)
    else:
        chunk = size
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


def _sharding(where: Path, settings: Json, size: int) -> tuple[int, Shard, Sequence[object]]:
    chunk = _one(where, "chunk_shape", settings.get("chunk_shape"), least=1)
    if size % chunk:
        raise _wrong(where, "chunk_shape of a shard", f"a divisor of {size}", chunk)
    index = [_named(where, "codec", c) for c in _list(where, "index_codecs", settings.get("index_codecs"))]
    names = [name for name, _ in index]
    if names not in (["bytes"], ["bytes", "crc32c"]) or index[0][1].get("endian", "little") != "little":
        raise UnsupportedError(
            where, "has a shard index that is not read", expected="bytes, crc32c", found=", ".join(names), remedy=_PLAIN
        )
    location = settings.get("index_location", "end")
    if location not in ("start", "end"):
        raise _wrong(where, "index_location", "start or end", location)
    shard = Shard(size // chunk, at_end=location == "end", checksum=len(names) == 2)
    if shard.index_bytes > CHUNK_BYTES:
        raise UnsafeError(where, "has too many chunks in a shard", expected="at most 8,388,607", found=shard.chunks)
    return chunk, shard, _list(where, "codecs", settings.get("codecs"))


def _chain(where: Path, codecs: Sequence[object], itemsize: int) -> tuple[bool, bool, tuple[str, ...]]:
    """Byte order, delta, and the names of the codecs behind `bytes` in the order of decoding."""
    chain = [_named(where, "codec", codec) for codec in codecs]
    delta = bool(chain) and chain[0][0] == "numcodecs.delta"
    if delta:
        _delta(where, chain.pop(0)[1], itemsize)
    if not chain or chain[0][0] != "bytes":
        raise _refused(where, chain[0][0] if chain else "none", "bytes")
    endian = chain[0][1].get("endian", "little")
    if endian not in ("little", "big"):
        raise _wrong(where, "endian", "little or big", endian)
    names = []
    for name, _ in chain[1:]:
        if name not in _V3_NAMES:
            raise _refused(where, name, ", ".join(_V3_NAMES))
        names.append(_V3_NAMES[name])
    if sum(name != "crc32c" for name in names) > 1:
        raise UnsupportedError(
            where, "compresses chunks twice, which is not read", found=", ".join(names), remedy=_PLAIN
        )
    return endian == "big", delta, tuple(reversed(names))


def _refused(where: Path, name: str, expected: str) -> FormatError:
    return UnsafeError(where, "names a codec that is not read", expected=expected, found=name, remedy=_REWRITE)


def _prefix(where: Path, value: object) -> str:
    name, settings = _named(where, "chunk_key_encoding", value)
    separator = settings.get("separator", "/" if name == "default" else ".")
    if name not in ("default", "v2"):
        raise _wrong(where, "chunk_key_encoding", "default or v2", name)
    if separator not in (".", "/"):
        raise _wrong(where, "separator of chunk keys", ". or /", separator)
    return f"c{separator}" if name == "default" else ""


def _named(where: Path, what: str, value: object) -> tuple[str, Json]:
    """Name and configuration of a v3 extension point, which may be just a name."""
    name, settings = (value.get("name"), value.get("configuration", {})) if isinstance(value, dict) else (value, {})
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise _wrong(where, what, "a name and its configuration", value)
    return name, settings


def _list(where: Path, what: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(where, what, "a list", value)
    return value


def _length(where: Path, raw: Json) -> int:
    length = _one(where, "shape", raw.get("shape"), least=0)
    if length > _LENGTH:
        raise UnsafeError(
            where, "declares more items than a disk holds", expected=f"at most {_LENGTH:,}", found=length, remedy=_COPY
        )
    return length


def _one(where: Path, what: str, value: object, least: int) -> int:
    """The only number of a one-dimensional shape."""
    if not isinstance(value, list) or len(value) != 1 or type(value[0]) is not int or value[0] < least:
        raise _wrong(where, what, f"one whole number of at least {least}", value)
    return value[0]


def _fill(where: Path, raw: Json, itemsize: int) -> int | None:
    fill = raw.get("fill_value")
    if fill is not None and (type(fill) is not int or not 0 <= fill < 1 << 8 * itemsize):
        raise _wrong(where, "fill_value", "null or a whole number that fits", fill)
    return fill


def _wrong(where: Path, what: str, expected: object, found: object) -> FormatError:
    said = "nothing" if found is None else str(found)
    shown = said if len(said) <= 60 else said[:57] + "..."
    return CorruptError(where, f"has a wrong value of {what}", expected=str(expected), found=shown, remedy=_COPY)
