"""Read folders whose files are listed in a JSON index: names, JSON and compressed files that may be malicious."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.core.reader import windows
from tokfmt.errors import (
    CorruptError,
    MissingDependencyError,
    OptionError,
    SourceChangedError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.files.file import File, Stream, open_file
from tokfmt.files.place import Place
from tokfmt.files.store import Identity
from tokfmt.formats.zstd_frames import decompressor, library, refuse_frame
from tokfmt.wording import printable

JSON_BYTES = 1 << 26
"""The largest index, in bytes: about 100,000 shards."""

_DEPTH, _VALUES = 100, 1 << 22  # nested levels and values of a JSON object, at most
_NESTING = np.zeros(256, np.int8)
_NESTING[[ord("["), ord("{")]], _NESTING[[ord("]"), ord("}")]] = 1, -1
_NAME, _PATH = 255, 1 << 11  # bytes of a name, characters of a path, at most
_RATIO, _SLACK = 1100, 1 << 20  # a file of N bytes decodes to at most 1,100 N bytes plus 1 MiB
LARGEST = 1 << 30
"""The largest decompressed size of a compressed file, in bytes."""

_KEPT = 1 << 28  # bytes of decompressed files kept in memory
_AT_ONCE = 1 << 23  # bytes per read of a hash
_IDS = 1 << 32  # above the largest ID
_XXH = ("xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128")


def inside(folder: Place, name: object, home: str = "folder") -> Place:
    """Return the path of a name from an index, which may contain subfolders but must stay within the folder.

    Args:
        folder: The folder of the index.
        name: The value from the index.
        home: The word for the folder in messages.

    Raises:
        UnsafeError: The path leaves the folder: through `..`, an absolute path, an address, or a symbolic link.
        CorruptError: The value is not a name.
    """
    if not isinstance(name, str) or not name:
        raise CorruptError(folder, "an entry of the index is not a name", expected="a name", found=str(name)[:60])
    parts = name.split("/")
    if max(len(part.encode("utf-8", "backslashreplace")) for part in parts) > _NAME or len(name) > _PATH:
        raise CorruptError(folder, "the index lists a name that no file can have", found=f"{name[:60]} ...")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise CorruptError(folder, "the index lists a name that no file can have", found=name[:60])
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "://" in name or "\0" in name:
        what = "the index lists a file outside of the folder"
        raise UnsafeError(folder, what, found=name[:200], remedy="Do not read it, unless you made it yourself")
    path = folder
    for part in parts:
        path /= part
        if not path.is_symlink():
            continue
        if path.real().relative(folder.real()) is None:
            remedy = f"If you trust it, copy what it points to into the {home}"
            raise UnsafeError(path, f"is a symbolic link that leaves the {home}", remedy=remedy)
    return path


def json_object(file: File, limit: int = JSON_BYTES) -> Mapping[str, Any]:
    """Read a file that is one JSON object of at most `limit` bytes.

    Raises:
        UnsafeError: The file is larger, has too many values, or is nested too deeply.
        CorruptError: The file is not a JSON object.
    """
    if file.size > limit:
        raise UnsafeError(file.path, "is too large for an index", expected=f"at most {limit:,} bytes", found=file.size)
    return parsed_object(file.path, file.read(0, file.size))


def parsed_object(path: Place, raw: bytes, again: str = "Copy it again") -> Mapping[str, Any]:
    """Parse the bytes of a JSON object; see `json_object`. `again` is the remedy of a corrupt one."""
    # Depth and values are counted before parsing: the depth that Python's parser survives depends on its version, and a
    # value of 2 bytes takes 64 or more once parsed. Brackets and commas in strings count too, and hardly matter.
    letters, depth, values = np.frombuffer(raw, np.uint8), 0, 0
    for a, b in windows(0, len(letters), 1 << 20):
        steps = _NESTING[letters[a:b]]
        levels = depth + np.cumsum(steps, dtype=np.int32)
        if int(levels.max()) > _DEPTH:
            raise UnsafeError(path, "is nested too deeply for metadata", expected=f"at most {_DEPTH} levels")
        depth, values = int(levels[-1]), values + int(np.count_nonzero(steps > 0) + raw.count(b",", a, b))
    if values > _VALUES:
        expected = f"at most {_VALUES:,} values"
        raise UnsafeError(path, "is too large for metadata", expected=expected, found=f"{values:,}")
    try:
        value = json.loads(raw.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else error.start
        raise CorruptError(path, "is not valid JSON", offset=at, remedy=again) from error
    except ValueError as error:  # a number with thousands of digits
        raise CorruptError(path, "is not valid JSON", remedy=again) from error
    if not isinstance(value, dict):
        raise CorruptError(path, "is not a JSON object", found=type(value).__name__, remedy=again)
    return value


def ids_in(
    path: Place, values: Sequence[Any] | NDArray[Any], *, lowest: int = 0, offset: int | None = None, of: str = ""
) -> NDArray[np.integer[Any]]:
    """Return the values of a list from JSON, or of an array of integers, as token IDs from `lowest` to below 2^32.
    `offset` is the byte offset of the list, and `of` what it is of, for messages.
    """
    is_array = isinstance(values, np.ndarray)
    if is_array or set(map(type, values)) <= {int}:
        with suppress(OverflowError):  # a number of more than 64 bits
            ids: NDArray[Any] = np.asarray(values, None if is_array else np.int64)
            if not ((ids < lowest) | (ids >= _IDS)).any():
                return ids
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    place, found = next((k, one) for k, one in enumerate(listed) if type(one) is not int or not lowest <= one < _IDS)
    what, expected = (
        f"{of + ' ' * bool(of)}is not a list of IDs at item {place:,}",
        f"a whole number from {lowest:,} to {_IDS - 1:,}",
    )
    raise CorruptError(path, what, offset=offset, expected=expected, found=printable(json.dumps(found)[:40]))


def whole_number(path: Place, what: str, value: object) -> int:
    """Return a count from JSON: an integer from 0 to 2^63 - 1.

    Args:
        path: The file, for the message.
        what: The message if the value is not such a number.
        value: The value from JSON.

    Raises:
        CorruptError: The value is not such a number; the message is `what`.
    """
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise CorruptError(path, what, expected="a whole number", found=str(value)[:60])
    return value


def _zstd(stream: Any, length: int) -> bytes:
    purpose = "reading zstd shards"
    try:
        found: bytes = decompressor(purpose).stream_reader(stream, read_across_frames=True).read(length)
    except library(purpose).ZstdError as error:
        raise ValueError from error
    return found


def _pyarrow(doing: str, codec: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingDependencyError("pyarrow", f"{doing} {codec} shards") from error
    return pa


def _by_arrow(codec: str) -> Callable[[Any, int], bytes]:
    """Return a decoder of a codec that only pyarrow provides. It decodes a whole file to a known size."""

    def decode(stream: Any, length: int) -> bytes:
        found: bytes = _pyarrow("reading", codec).Codec(codec).decompress(stream.read(), length - 1, asbytes=True)
        return found

    return decode


_DECODERS: Mapping[str, Callable[[Any, int], bytes]] = {
    "zstd": _zstd,
    "gz": lambda stream, length: gzip.GzipFile(fileobj=stream).read(length),
    "bz2": lambda stream, length: bz2.BZ2File(stream).read(length),
    "snappy": _by_arrow("snappy"),
    "br": _by_arrow("brotli"),
}
_DECODED = Recent[tuple[Place, Identity], bytes](_KEPT)
"""The cache of decompressed files, shared by all readers of this process."""


class Compressor(Protocol):
    """An object that compresses bytes piece by piece."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Whole:
    """A compressor for a codec of pyarrow, which can only compress all bytes at once."""

    def __init__(self, codec: str, level: int | None) -> None:
        self._codec, self._held = _pyarrow("writing", codec).Codec(codec, level), bytearray()

    def compress(self, data: bytes) -> bytes:
        self._held += data
        return b""

    def flush(self) -> bytes:
        found: bytes = self._codec.compress(bytes(self._held), asbytes=True)
        return found


_ENCODERS: Mapping[str, tuple[range, int, Callable[[int, int], Compressor]]] = {
    "zstd": (
        range(1, 23),
        4,
        lambda level, size: library("writing zstd shards").ZstdCompressor(level).compressobj(size),
    ),
    "gz": (range(10), 6, lambda level, _: zlib.compressobj(level, wbits=31)),
    "bz2": (range(1, 10), 9, lambda level, _: bz2.BZ2Compressor(level)),
    "snappy": (range(0), 0, lambda *_: _Whole("snappy", None)),
    "br": (range(12), 6, lambda level, _: _Whole("brotli", level)),
}
"""For each codec that tokfmt writes: its levels, its default level, and a function that makes a compressor of a level
and the number of bytes to compress."""


def compressor(given: str, known: Sequence[str], size: int) -> Compressor:
    """Return a compressor of a shard.

    Args:
        given: The option: CODEC or CODEC:LEVEL.
        known: The codecs that the format allows.
        size: Bytes of the shard.

    Raises:
        OptionError: The codec is not in `known`, or does not have that level.
        MissingDependencyError: The package of the codec is not installed.
    """
    codec, colon, level = given.partition(":")
    if codec in known:
        levels, default, make = _ENCODERS[codec]
        if not colon or (level.isdecimal() and int(level) in levels):
            return make(int(level) if colon else default, size)
    ranges = {name: _ENCODERS[name][0] for name in known}
    listed = ", ".join(f"{name}[:{one[0]}-{one[-1]}]" if one else name for name, one in ranges.items())
    raise OptionError(f"--to-opt compression={given}: expected one of {listed}", name="compression")


def decoded(path: Place, codec: str, raw: bytes, size: int) -> bytes:
    """Return what bytes of a file decode to.

    Args:
        path: The file, for messages.
        codec: zstd, gz, bz2, snappy or br.
        raw: The compressed bytes.
        size: The number of bytes that they have to decode to.

    Raises:
        UnsafeError: `size` is more than `decoding_limit` allows.
        CorruptError: They cannot be decoded, or to another number of bytes.
        MissingDependencyError: The package of the codec is not installed.
    """
    if size > (limit := decoding_limit(len(raw))):
        raise UnsafeError(path, "would decode to far more than its size", expected=f"at most {limit:,}", found=size)
    try:
        found = _DECODERS[codec](io.BytesIO(raw), size + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise CorruptError(path, f"is damaged: {codec} cannot decode it", remedy="Copy it again") from error
    if len(found) != size:
        what, counts = f"its {codec} data decode to another size", (f"{size:,} bytes", f"{len(found):,}")
        raise CorruptError(path, what, expected=counts[0], found=counts[1], remedy="Copy it again")
    return found


def decoding_limit(stored: int) -> int:
    """Return the most bytes that tokfmt decodes from a compressed file of `stored` bytes."""
    return min(LARGEST, _RATIO * stored + _SLACK)


class Packed(File):
    """A compressed file, read as its decompressed bytes. The first read decodes all of them; `head` only the first.

    Args:
        path: The file.
        codec: zstd, gz, bz2, snappy or br.
        size: The decompressed size in bytes that the index states.

    Raises:
        UnsafeError: `size` is more than `decoding_limit` allows.
        UnsupportedError: The codec is not one of these.
    """

    is_plain, is_decoded_whole = False, True

    def __init__(self, path: Place, codec: str, size: int) -> None:
        stored = open_file(path)
        self.__setstate__({"path": path, "identity": stored.identity})
        self.codec, self._size = codec, size
        stored.close()  # it is read once, whole
        if codec not in _DECODERS:
            known = ", ".join(_DECODERS)
            raise UnsupportedError(path, "has a compression that tokfmt cannot read", expected=known, found=codec)
        if size > (limit := decoding_limit(self.identity.size)):
            raise UnsafeError(path, "would decode to far more than its size", expected=f"at most {limit:,}", found=size)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "codec": self.codec, "_size": self._size}

    @property
    def size(self) -> int:
        return self._size

    def to_stored_offset(self, offset: int) -> int | None:  # noqa: ARG002 - not known in a compressed file
        return None

    def from_stored_offset(self, offset: int) -> int | None:  # noqa: ARG002
        return None

    def head(self, length: int) -> bytes:
        """Return the first `length` bytes, and decode no more than these if the codec can do so."""
        self._bound(0, length)
        found = self._decode(length) if self.codec not in ("snappy", "br") else self.read(0, length)
        if len(found) < length:
            raise self._too_short(length, len(found))
        return found

    def read(self, offset: int, length: int) -> bytes:
        self._bound(offset, length)
        return self._content()[offset : offset + length]

    def read_into(self, offset: int, buffer: memoryview) -> None:
        buffer.cast("B")[:] = self._content()[offset : offset + buffer.nbytes]

    def _content(self) -> bytes:
        key = self.path, self.identity
        if (kept := _DECODED.get(key)) is None:
            kept = self._decode(self._size + 1)
            if len(kept) != self._size:
                if len(kept) < self._size:
                    raise self._too_short(self._size, len(kept))
                expected = f"{self._size:,} bytes"
                raise UnsafeError(self.path, "decodes to another size", expected=expected, found="more")
            _DECODED.put(key, kept, len(kept))
        return kept

    def _too_short(self, expected: int, found: int) -> TruncatedError:
        what, counts = f"its {self.codec} data end too early", (f"{expected:,} bytes decoded", f"{found:,}")
        return TruncatedError(self.path, what, expected=counts[0], found=counts[1], remedy="Copy it again")

    def _decode(self, length: int) -> bytes:
        stored = open_file(self.path)
        if stored.identity != self.identity:
            raise SourceChangedError.while_read(self.path)
        try:
            if self.codec == "zstd":
                refuse_frame(stored, 0)
            return _DECODERS[self.codec](Stream(stored), length)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            what = f"is damaged: {self.codec} cannot decode it"
            raise CorruptError(self.path, what, remedy="Copy it again") from error
        finally:
            stored.close()


def begin_of(file: File, offset: int, length: int) -> bytes:
    """Read bytes near the beginning of a file; a compressed file is decoded only up to these."""
    return file.head(offset + length)[offset:] if isinstance(file, Packed) else file.read(offset, length)


def digest(file: File, kind: str) -> str:
    """Return the hash of a whole file in hexadecimal; "" if the kind of hash is not known."""
    if kind in _XXH:
        import xxhash

        made: Any = getattr(xxhash, kind)
    else:
        import hashlib  # OpenSSL takes 3 ms to load

        made = getattr(hashlib, kind, None) if kind in hashlib.algorithms_guaranteed and "shake" not in kind else None
    if made is None:
        return ""
    found = made()
    for a, b in windows(0, file.size, _AT_ONCE):
        found.update(file.read(a, b - a))
    return str(found.hexdigest())
