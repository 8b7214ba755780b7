"""Folders of shards that an index in JSON lists: what is safe to read of names, JSON and compressed files of others."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt.core.axis import windows
from tokfmt.core.errors import (
    CorruptError,
    MissingDependencyError,
    SourceChangedError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.core.files import File, Identity
from tokfmt.core.memory import Recent
from tokfmt.core.ragged import Offsets

JSON_BYTES = 1 << 26
"""Of an index: some 100,000 shards."""

_DEPTH = 100
_NAME, _PATH = 255, 1 << 11  # bytes that a name may have, letters of a path
_RATIO, _SLACK, _LARGEST = 1100, 1 << 20, 1 << 30
_KEPT = 1 << 28
_AT_ONCE = 1 << 23  # bytes
_XXH = ("xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128")


def inside(folder: Path, name: object, home: str = "folder") -> Path:
    """The path of a name from an index. It may have folders in it, but stays within the folder (in messages, `home`).

    Raises:
        UnsafeError: It leaves the folder: by `..`, by an absolute path, by an address, or by a symbolic link.
        CorruptError: It is no name.
    """
    if not isinstance(name, str) or not name:
        raise CorruptError(folder, "the index names no file", expected="a name", found=str(name)[:60])
    parts = name.split("/")
    if max(len(part.encode("utf-8", "backslashreplace")) for part in parts) > _NAME or len(name) > _PATH:
        raise CorruptError(folder, "the index names a file by a name that no file has", found=f"{name[:60]} ...")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise CorruptError(folder, "the index names a file by a name that no file has", found=name[:60])
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "://" in name or "\0" in name:
        what = "the index names a file outside of the folder"
        raise UnsafeError(folder, what, found=name[:200], remedy="Do not read it, unless you made it yourself")
    path = folder
    for part in parts:
        path /= part
        if not os.path.islink(path):
            continue
        real, own = os.path.realpath(path), os.path.realpath(folder)
        if os.path.commonpath([real, own]) != own:
            remedy = f"Copy what it points to into the {home}, if it is to be trusted"
            raise UnsafeError(path, f"is a symbolic link that leaves the {home}", remedy=remedy)
    return path


def json_object(file: File, most: int = JSON_BYTES) -> Mapping[str, Any]:
    """A JSON object of at most so many bytes.

    Raises:
        UnsafeError: It is larger, or nested too deeply.
        CorruptError: It is no JSON object.
    """
    if file.size > most:
        raise UnsafeError(file.path, "is too large for an index", expected=f"at most {most:,} bytes", found=file.size)
    return parsed_object(file.path, file.read(0, file.size))


def parsed_object(path: Path, raw: bytes, again: str = "Copy it again") -> Mapping[str, Any]:
    """The same of bytes at hand."""
    # how deep Python's parser goes before it gives up depends on its version; brackets in strings hardly matter
    opened = np.isin(np.frombuffer(raw, np.uint8), (ord("["), ord("{"))).astype(np.int32)
    opened -= np.isin(np.frombuffer(raw, np.uint8), (ord("]"), ord("}")))
    if len(raw) and int(np.cumsum(opened).max()) > _DEPTH:
        raise UnsafeError(path, "is nested too deeply for metadata", expected=f"at most {_DEPTH} levels")
    try:
        value = json.loads(raw.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else error.start
        raise CorruptError(path, "is not valid JSON", offset=at, remedy=again) from error
    except ValueError as error:  # a number of thousands of digits
        raise CorruptError(path, "is not valid JSON", remedy=again) from error
    if not isinstance(value, dict):
        raise CorruptError(path, "is not a JSON object", found=type(value).__name__, remedy=again)
    return value


def whole_number(path: Path, what: str, value: object) -> int:
    """A number from JSON that counts something.

    Raises:
        CorruptError: It is none, negative, or no int64.
    """
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise CorruptError(path, what, expected="a whole number", found=str(value)[:60])
    return value


def _zstd(stream: io.BytesIO, length: int) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependencyError("zstandard", "zstd", "reading zstd shards") from error
    try:
        found: bytes = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True).read(length)
    except zstandard.ZstdError as error:
        raise ValueError from error
    return found


def _by_arrow(codec: str) -> Callable[[io.BytesIO, int], bytes]:
    """Codecs whose packages tokfmt does not bring; pyarrow has them. They decode wholly, to a size that is told."""

    def decode(stream: io.BytesIO, length: int) -> bytes:
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingDependencyError("pyarrow", "arrow", f"reading {codec} shards") from error
        found: bytes = pa.Codec(codec).decompress(stream.getvalue(), length - 1, asbytes=True)
        return found

    return decode


_DECODERS: Mapping[str, Callable[[io.BytesIO, int], bytes]] = {
    "zstd": _zstd,
    "gz": lambda stream, length: gzip.GzipFile(fileobj=stream).read(length),
    "bz2": lambda stream, length: bz2.BZ2File(stream).read(length),
    "snappy": _by_arrow("snappy"),
    "br": _by_arrow("brotli"),
}
_DECODED = Recent[tuple[Path, Identity], bytes](_KEPT)
"""Of all packed files together, for this process."""


class Packed(File):
    """A compressed file, read as the bytes that it holds. They are decoded when they are first asked for.

    `head` decodes the first of them alone.

    Args:
        path: The file.
        codec: zstd, gz, bz2, snappy or br.
        size: Bytes that it must hold.

    Raises:
        UnsafeError: That is more than such a file can hold, or than 1 GiB.
        UnsupportedError: Another codec.
    """

    plain = False

    def __init__(self, path: Path, codec: str, size: int) -> None:
        super().__init__(path)
        self.close()  # it is read once, whole
        self.codec, self._size = codec, size
        if codec not in _DECODERS:
            known = ", ".join(_DECODERS)
            raise UnsupportedError(path, "is compressed in a way that is not read", expected=known, found=codec)
        most = min(_LARGEST, _RATIO * self.identity.size + _SLACK)
        if size > most:
            raise UnsafeError(path, "would decode to far more than it is", expected=f"at most {most:,}", found=size)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "codec": self.codec, "_size": self._size}

    @property
    def size(self) -> int:
        return self._size

    def lies_at(self, offset: int) -> int | None:  # noqa: ARG002 - nobody knows
        return None

    def read_from(self, offset: int) -> int | None:  # noqa: ARG002
        return None

    def head(self, length: int) -> bytes:
        """The first bytes, of which no more are decoded."""
        self._bound(0, length)
        found = self._decode(length) if self.codec not in ("snappy", "br") else self.read(0, length)
        if len(found) < length:
            raise self._ends(len(found), length - len(found))
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
                kind = TruncatedError if len(kept) < self._size else UnsafeError
                found = len(kept) if len(kept) < self._size else "more"
                raise kind(self.path, "decodes to another size", expected=f"{self._size:,} bytes", found=found)
            _DECODED.put(key, kept, len(kept))
        return kept

    def _decode(self, length: int) -> bytes:
        stored = File(self.path)
        if stored.identity != self.identity:
            raise SourceChangedError(self.path, "changed while it was being read")
        try:
            return _DECODERS[self.codec](io.BytesIO(stored.read(0, stored.size)), length)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise CorruptError(self.path, f"is damaged: {self.codec} cannot decode it") from error
        finally:
            stored.close()


def digest(file: File, kind: str) -> str:
    """Of a whole file; "" of a kind that is not known."""
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


class Values(File):
    """The ids of one shard, sample after sample, as if they were a file. They are read where they lie.

    Args:
        shard: The shard, compressed or not.
        places: int64[samples], bytes at which the ids of each begin.
        bounds: int64[samples + 1], bytes of ids before each.
        said: Hashes of the file, compared when something is first read.
    """

    plain = False  # they are not all of it

    def __init__(self, shard: File, places: Offsets, bounds: Offsets, said: Mapping[str, str]) -> None:
        self.path, self.identity, self._fd = shard.path, shard.identity, None
        self.shard, self.places, self.bounds, self.said = shard, places, bounds, dict(said)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_fd"}

    @property
    def size(self) -> int:
        return int(self.bounds[-1])

    def lies_at(self, offset: int) -> int | None:
        k = int(np.searchsorted(self.bounds, offset, side="right")) - 1
        return self.shard.lies_at(int(self.places[k]) + offset - int(self.bounds[k]))

    def read_from(self, offset: int) -> int | None:
        k = int(np.searchsorted(self.places, offset, side="right")) - 1
        if not self.shard.plain or k < 0:
            return None
        at = int(self.bounds[k]) + offset - int(self.places[k])
        return at if at < int(self.bounds[k + 1]) else None

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.verify()
        out, stop = np.frombuffer(buffer, np.uint8), offset + buffer.nbytes
        first = int(np.searchsorted(self.bounds, offset, side="right")) - 1
        last = int(np.searchsorted(self.bounds, stop))
        bounds = np.clip(self.bounds[first : last + 1], offset, stop)
        starts = self.places[first:last] + bounds[:-1] - self.bounds[first:last]
        ends = starts + np.diff(bounds)
        begin, span = int(starts[0]), int(ends[-1] - starts[0])
        dense = self.shard.array(begin, span, "u1") if span <= 2 * len(out) + _SLACK else None
        for start, end, at in zip(starts.tolist(), ends.tolist(), (bounds[:-1] - offset).tolist(), strict=True):
            part = self.shard.array(start, end - start, "u1") if dense is None else dense[start - begin : end - begin]
            out[at : at + end - start] = part

    def verify(self) -> None:
        """Compare the file with its hashes, once.

        Raises:
            CorruptError: One differs.
        """
        for kind, said in self.said.items():
            found = digest(File(self.path), kind)
            if found and found != said:
                raise CorruptError(self.path, f"does not fit its {kind}", expected=said, found=found)
        self.said = {}

    def close(self) -> None:
        self.shard.close()
