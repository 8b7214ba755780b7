"""Bytes to bytes: the codecs that are read, each bounded by the size that a chunk must have, and those written.

Nothing else is ever decoded: numcodecs knows codecs that execute what they read, so names go through `COMPRESSORS`
and never through its registry.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.formats.zarr_arrays import blosc
from tokfmt.formats.zarr_arrays.blosc import AGAIN
from tokfmt.formats.zarr_arrays.store import Blob

CHUNK_BYTES = 1 << 27
"""A chunk decodes to at most 128 MiB."""

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 1 << 17
ZSTD_LEVEL, GZIP_LEVEL = 3, 6


def decode(blob: Blob, codecs: Sequence[str], nbytes: int, itemsize: int) -> NDArray[np.uint8]:
    """A chunk's bytes.

    Args:
        blob: The chunk as stored.
        codecs: Names in the order of decoding; at most one compressor.
        nbytes: What it must decode to.
        itemsize: Bytes of an item.

    Returns:
        uint8[nbytes]

    Raises:
        FormatError: It is damaged, or of another size.
    """
    if tuple(codecs) == ("blosc",):
        out = np.empty(nbytes, np.uint8)
        blosc.decode(blob, itemsize, out)
        return out
    if blob.size > 2 * CHUNK_BYTES:
        what = "is too large for a chunk"
        raise UnsafeError(blob.path, what, expected=f"{nbytes:,} bytes decoded", found=blob.size, remedy=AGAIN)
    data = blob.read(0, blob.size)
    for number, name in enumerate(codecs):
        size = nbytes + 4 * list(codecs[number + 1 :]).count("crc32c")
        if name == "blosc":
            out = np.empty(size, np.uint8)
            blosc.decode(Blob(blob.path, data, 0, len(data)), itemsize, out)
            data = out.tobytes()
        elif name == "crc32c":
            check_crc32c(blob.path, data)
            data = data[:-4]
        else:
            data = _DECODERS[name](blob.path, data, size)
    if len(data) < nbytes:
        what = "is shorter than a chunk"
        raise TruncatedError(blob.path, what, expected=f"{nbytes:,} bytes", found=len(data), remedy=AGAIN)
    if len(data) > nbytes:
        what = "is longer than a chunk"
        raise CorruptError(blob.path, what, expected=f"{nbytes:,} bytes", found=len(data), remedy=AGAIN)
    return np.frombuffer(data, np.uint8)


def _inflate(path: Path, data: bytes, size: int, wbits: int) -> bytes:
    stream = zlib.decompressobj(wbits)
    try:
        out = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptError(path, "is damaged: zlib cannot decode it", remedy=AGAIN) from error
    if len(out) > size:
        raise UnsafeError(path, "decodes to more than a chunk", expected=f"{size:,} bytes", remedy=AGAIN)
    if not stream.eof:
        raise TruncatedError(path, "ends inside its compressed data", remedy=AGAIN)
    if stream.unused_data:
        at = len(data) - len(stream.unused_data)
        raise CorruptError(path, "goes on behind its compressed data", offset=at, remedy=AGAIN)
    return out


def _zlib(path: Path, data: bytes, size: int) -> bytes:
    return _inflate(path, data, size, zlib.MAX_WBITS)


def _gzip(path: Path, data: bytes, size: int) -> bytes:
    return _inflate(path, data, size, zlib.MAX_WBITS | 16)


def _lz4(path: Path, data: bytes, size: int) -> bytes:
    from numcodecs import lz4

    said = struct.unpack("<i", data[:4])[0] if len(data) >= 4 else 0
    if said != size:
        raise _other_size(path, size, said)
    return _decompressed(path, lz4.decompress, data, "lz4")


def _zstd(path: Path, data: bytes, size: int) -> bytes:
    from numcodecs import zstd

    said, most = _zstd_sizes(path, data)
    if said is not None and said != size:
        raise _other_size(path, size, said)
    if said is None and most > 2 * size + (1 << 20):  # a writer that streams leaves the size out; blocks bound it
        what = "could decode to far more than a chunk"
        raise UnsafeError(path, what, expected=f"{size:,} bytes", found=most, remedy="Write the array again with zarr")
    return _decompressed(path, zstd.decompress, data, "zstd")


def _other_size(path: Path, size: int, said: int) -> FormatError:
    what = "does not decode to a whole chunk"
    return CorruptError(path, what, expected=f"{size:,} bytes", found=said, remedy=AGAIN)


def _decompressed(path: Path, decompress: Callable[[bytes], bytes], data: bytes, name: str) -> bytes:
    try:
        return bytes(decompress(data))
    except (RuntimeError, ValueError) as error:
        raise CorruptError(path, f"is damaged: {name} cannot decode it", remedy=AGAIN) from error


def _zstd_sizes(path: Path, data: bytes) -> tuple[int | None, int]:
    """Of the one frame that `data` is: the decoded size it states, if it does, and an upper bound from its blocks."""
    if len(data) < 6 or struct.unpack("<I", data[:4])[0] != _ZSTD_MAGIC:
        raise CorruptError(path, "is not zstd data", offset=0, remedy=AGAIN)
    flags = data[4]
    single = bool(flags & 32)
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    width = (int(single), 2, 4, 8)[flags >> 6]
    said = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0) if width else None
    at, most, last = at + width, 0, 0
    while not last:
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        most += size if kind < 2 else _ZSTD_BLOCK
        at += 3 + (1 if kind == 1 else size)
        if at > len(data):
            raise TruncatedError(path, "ends inside its zstd data", remedy=AGAIN)
    at += 4 if flags & 4 else 0
    if at != len(data):
        raise CorruptError(path, "goes on behind its zstd data", offset=at, remedy=AGAIN)
    return said, most


def check_crc32c(path: Path, data: bytes) -> None:
    """Raise unless the last four bytes are the CRC-32C of what stands before them."""
    import google_crc32c

    if len(data) < 4:
        raise TruncatedError(path, "is too short for a checksum", expected="4 bytes", found=len(data), remedy=AGAIN)
    if google_crc32c.value(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise CorruptError(path, "does not fit its CRC-32C checksum", offset=len(data) - 4, remedy=AGAIN)


_DECODERS: dict[str, Callable[[Path, bytes, int], bytes]] = {
    "zstd": _zstd,
    "lz4": _lz4,
    "gzip": _gzip,
    "zlib": _zlib,
}

COMPRESSORS = frozenset({"blosc", *_DECODERS})


def _to_zstd(items: NDArray[np.generic]) -> bytes:
    from numcodecs import zstd

    return bytes(zstd.compress(items, ZSTD_LEVEL))


def _to_gzip(items: NDArray[np.generic]) -> bytes:
    stream = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return stream.compress(items.tobytes()) + stream.flush()


ENCODERS: dict[str, Callable[[NDArray[np.generic]], bytes]] = {
    "blosc": blosc.encode,
    "zstd": _to_zstd,
    "gzip": _to_gzip,
    "none": np.ndarray.tobytes,
}
"""A full chunk, little-endian uint32 or int64, as it is stored: the same bytes whatever runs beside it."""
