"""Bytes to bytes: the codecs that are read, each bounded by the size that a chunk must have, and those written.

Nothing else is ever decoded: numcodecs knows codecs that execute what they read, so names go through `COMPRESSORS`
and never through its registry.

What blosc compressed has a header, which is checked before anything is decoded, and blocks that decode alone:

    byte      size      content
    0         1         format version, 2
    1         1         version of the codec's own format
    2         1         flags: 1 byte shuffle, 2 stored as is, 4 bit shuffle, 16 blocks not split; codec in bits 5-7
    3         1         item size
    4         4 LE      nbytes: decoded size
    8         4 LE      block size, decoded
    12        4 LE      cbytes: size of all this
    16        4 LE each where each block begins (not when stored as is)

Of a bit-shuffled block the streams are decompressed, but only the items that are asked for are put together: putting
all of it together takes longer than decompressing it, and a sequence is less than a hundredth of it.

    block of n items      content
    streams               one, or one for each byte of an item: i32 LE size, then LZ4; plain if as large as decoded
    decoded               8 * itemsize planes of n / 8 bytes: plane p holds bit p of item i in bit i % 8 of byte i // 8

Source: the c-blosc 1 format description, and that of bitshuffle.
"""

from __future__ import annotations

import functools
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.formats.zarr_arrays.store import Blob

AGAIN = "Copy it again"
CHUNK_BYTES = 1 << 27
"""A chunk decodes to at most 128 MiB."""

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 1 << 17
ZSTD_LEVEL, GZIP_LEVEL = 3, 6
_GZIP = zlib.MAX_WBITS | 16


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
        decode_blosc(blob, itemsize, out)
        return out
    if blob.size > 2 * CHUNK_BYTES:
        what = "is too large for a chunk"
        raise UnsafeError(blob.path, what, expected=f"{nbytes:,} bytes decoded", found=blob.size, remedy=AGAIN)
    data = blob.read(0, blob.size)
    for number, name in enumerate(codecs):
        size = nbytes + 4 * list(codecs[number + 1 :]).count("crc32c")
        if name == "blosc":
            out = np.empty(size, np.uint8)
            decode_blosc(Blob(blob.path, data, 0, len(data)), itemsize, out)
            data = out.tobytes()
        elif name == "crc32c":
            check_crc32c(blob.path, data)
            data = data[:-4]
        else:
            data = _DECODERS[name](blob.path, data, size)
    if len(data) != nbytes:
        kind, word = (TruncatedError, "shorter") if len(data) < nbytes else (CorruptError, "longer")
        what = f"is {word} than a chunk"
        raise kind(blob.path, what, expected=f"{nbytes:,} bytes", found=len(data), remedy=AGAIN)
    return np.frombuffer(data, np.uint8)


def _inflate(path: Path, data: bytes, size: int, wbits: int = zlib.MAX_WBITS) -> bytes:
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
    "gzip": functools.partial(_inflate, wbits=_GZIP),
    "zlib": _inflate,
}

COMPRESSORS = frozenset({"blosc", *_DECODERS})


@functools.cache
def _library() -> ModuleType:
    """`numcodecs.blosc`, imported when a chunk is decoded: formats are asked where it is not installed.

    Its own threads write blocks in the order they finish, so bytes would differ from run to run; and its threads share
    one lock. Without them it holds no lock and no GIL, and tasks run side by side.
    """
    from numcodecs import blosc

    blosc.use_threads = False
    found: ModuleType = blosc
    return found


def _to_blosc(items: NDArray[np.generic]) -> bytes:
    """A chunk as seqax writes it: lz4, level 5, bit shuffle, blosc's own choice of block size."""
    blosc = _library()
    return bytes(blosc.compress(items, b"lz4", 5, blosc.BITSHUFFLE, 0))


def _to_zstd(items: NDArray[np.generic]) -> bytes:
    from numcodecs import zstd

    return bytes(zstd.compress(items, ZSTD_LEVEL))


def _to_gzip(items: NDArray[np.generic]) -> bytes:
    stream = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP)
    return stream.compress(items.tobytes()) + stream.flush()


ENCODERS: dict[str, Callable[[NDArray[np.generic]], bytes]] = {
    "blosc": _to_blosc,
    "zstd": _to_zstd,
    "gzip": _to_gzip,
    "none": np.ndarray.tobytes,
}
"""A full chunk, little-endian uint32 or int64, as it is stored: the same bytes whatever runs beside it."""


# what blosc compressed

HEADER = 16
_LOOK = 512
_BYTES, _STORED, _BITS, _WHOLE = 1, 2, 4, 16
_LZ4 = 1
_LARGEST = 1 << 20
"""Bytes of a decoded block at most; the buffers of two are kept by every thread."""

_SMALL = 16
"""Worth it for at most one sixteenth of a block."""


class BloscFrame(NamedTuple):
    """A header as it stands, sizes in bytes; and the first bytes of the chunk, the index among them unless it is long.

    Attributes: see the table of bytes above; `raw` is what they come from.
    """

    version: int
    codec: int
    flags: int
    itemsize: int
    nbytes: int
    blocksize: int
    cbytes: int
    raw: bytes

    @property
    def blocks(self) -> int:
        """How many blocks."""
        return -(-self.nbytes // self.blocksize) if self.blocksize else 0


def blosc_header(blob: Blob) -> BloscFrame:
    """The header of a chunk, not compared with anything yet.

    Raises:
        TruncatedError: There are fewer bytes.
    """
    if blob.size < HEADER:
        raise TruncatedError(
            blob.path, "is too short for a blosc header", expected="at least 16 bytes", found=blob.size, remedy=AGAIN
        )
    raw = blob.read(0, min(blob.size, _LOOK))
    return BloscFrame._make((*struct.unpack("<4B3I", raw[:HEADER]), raw))


def blosc_errors(head: BloscFrame, blob: Blob, nbytes: int, itemsize: int) -> Iterator[tuple[int, FormatError]]:
    """What in a header contradicts the file or the array, with the byte of the field that does.

    Args:
        head: The header.
        blob: The chunk.
        nbytes: What it has to decode to.
        itemsize: Bytes of an item.
    """
    flags, cbytes, size = head.flags, head.cbytes, blob.size
    if head.version != 2:
        yield 0, _wrong(blob, "is not blosc data of version 2", 0, None, head.version)
    if cbytes > size:
        what = "ends before its blosc data does"
        yield 12, TruncatedError(blob.path, what, expected=f"{cbytes:,} bytes", found=size, remedy=AGAIN)
    elif cbytes < size:
        yield 12, _wrong(blob, "goes on behind its blosc data", cbytes, f"{cbytes:,} bytes", size)
    if head.nbytes != nbytes:
        yield 4, _wrong(blob, "does not decode to a whole chunk", 4, f"{nbytes:,} bytes", head.nbytes)
    if head.itemsize not in (1, itemsize):
        yield 3, _wrong(blob, "holds items of another size", 3, itemsize, head.itemsize)
    if not 0 < head.blocksize <= nbytes:
        yield 8, _wrong(blob, "has an impossible blosc block size", 8, f"1 to {nbytes:,}", head.blocksize)
    least = HEADER + (head.nbytes if flags & _STORED else 4 * head.blocks)
    if cbytes < least:
        yield 12, _wrong(blob, "is too short for its blocks", 12, f"at least {least:,} bytes", cbytes)


def blosc_frame(blob: Blob, nbytes: int, itemsize: int) -> BloscFrame:
    """The header of a chunk, checked; arguments as of `blosc_errors`.

    Raises:
        FormatError: The header contradicts the file or the array.
    """
    head = blosc_header(blob)
    for _, error in blosc_errors(head, blob, nbytes, itemsize):
        raise error
    return head


def decode_blosc(blob: Blob, itemsize: int, out: NDArray[np.uint8]) -> None:
    """The whole chunk into `out`, uint8[bytes of a chunk]."""
    blosc_frame(blob, len(out), itemsize)
    _decompress(blob, blob.array(0, blob.size), out)


def decode_blosc_part(blob: Blob, head: BloscFrame, start: int, stop: int) -> NDArray[np.uint8] | None:
    """Bytes `start <= p < stop` of the decoded chunk by reading and decoding only the blocks that hold them.

    Args:
        blob: The chunk.
        head: Its header, by `blosc_frame`.
        start, stop: Bytes, whole items.

    Returns:
        uint8[stop - start], or None when that saves nothing: there is one block.
    """
    if head.flags & _STORED:
        return blob.array(HEADER + start, stop - start)
    if head.blocks < 2:
        return None
    first, last = start // head.blocksize, -(-stop // head.blocksize)
    full = last * head.blocksize <= head.nbytes  # a shorter last block is laid out otherwise
    if full and last == first + 1 and stop > start:
        items = _few(blob, head, first, start, stop)
        if items is not None:
            return items
    if last == head.blocks:  # a shorter last block cannot stand alone: no frame is smaller than its block size
        first = min(first, last - 2)
    base = first * head.blocksize
    size = min(last * head.blocksize, head.nbytes) - base
    out = np.empty(size, np.uint8)
    _decompress(blob, _reframed(blob, head, first, last, size), out)
    return out[start - base : stop - base]


def _few(blob: Blob, head: BloscFrame, block: int, start: int, stop: int) -> NDArray[np.uint8] | None:
    """A small part of one block, if it is LZ4 of shuffled bits; None also when it is damaged: blosc then says so."""
    size = head.itemsize
    bits = head.flags & (_BYTES | _BITS) == _BITS  # with both flags, blosc shuffles bytes
    fits = head.blocksize <= _LARGEST and not head.blocksize % (8 * size)
    if head.flags >> 5 != _LZ4 or not bits or not fits or (stop - start) * _SMALL > head.blocksize:
        return None
    _, low, end = _places(blob, head, block, block + 1)
    stored = stored_buffer(end - low)
    blob.read_into(low, stored)
    base = block * head.blocksize
    streams = 1 if head.flags & _WHOLE else size
    return items_of(stored, streams, head.blocksize, size, (start - base) // size, (stop - base) // size)


def _places(blob: Blob, head: BloscFrame, first: int, last: int) -> tuple[NDArray[np.uint32], int, int]:
    """Where blocks `first <= i < last` begin, the first of these places, and where the last of them ends."""
    index = HEADER + 4 * head.blocks
    raw = head.raw if len(head.raw) >= index else blob.read(0, index)
    starts = np.frombuffer(raw, "<u4", head.blocks, HEADER)
    wanted = starts[first:last]
    low, high = int(wanted.min()), int(wanted.max())
    # blocks may lie in the order in which a writer's threads finished them: the last ends where any other begins
    stop = int(starts.min(where=starts > high, initial=head.cbytes))
    if low < index or high >= stop or stop > head.cbytes:
        raise CorruptError(blob.path, "has blosc blocks outside of the file", offset=HEADER, remedy=AGAIN)
    return wanted, low, stop


def _reframed(blob: Blob, head: BloscFrame, first: int, last: int, nbytes: int) -> bytes:
    """Blocks `first <= i < last` as a chunk of their own."""
    wanted, low, stop = _places(blob, head, first, last)
    moved = wanted - np.uint32(low - HEADER - 4 * len(wanted))
    header = head.raw[:4] + struct.pack("<3I", nbytes, head.blocksize, HEADER + 4 * len(wanted) + stop - low)
    return b"".join((header, moved.astype("<u4").tobytes(), blob.array(low, stop - low).data))


def _decompress(blob: Blob, data: bytes | NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    try:
        _library().decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise CorruptError(blob.path, "is damaged: blosc cannot decode it", remedy=AGAIN) from error


def _wrong(blob: Blob, what: str, offset: int, expected: object, found: object) -> FormatError:
    return CorruptError(blob.path, what, offset=offset, expected=expected, found=found, remedy=AGAIN)


class _Buffers(threading.local):
    """Two buffers a thread: as fresh memory they cost as much as decompressing."""

    stored = planes = np.empty(0, np.uint8)


_buffers = _Buffers()


def stored_buffer(size: int) -> NDArray[np.uint8]:
    """This thread's buffer for `size` bytes of compressed data; what was in it is lost."""
    if len(_buffers.stored) < size:
        _buffers.stored = np.empty(size, np.uint8)
    return _buffers.stored[:size]


def items_of(
    stored: NDArray[np.uint8], streams: int, blocksize: int, itemsize: int, start: int, stop: int
) -> NDArray[np.uint8] | None:
    """Bytes of items `start <= i < stop` of a block.

    Args:
        stored: The block as stored, of at least this size; overwritten.
        streams: How many streams it has.
        blocksize: Bytes, decoded.
        itemsize: Bytes of an item.
        start, stop: Items.

    Returns:
        uint8[(stop - start) * itemsize], or None when the block is damaged.
    """
    found = _streams(stored, streams, blocksize)
    if found is None:
        return None
    low, high = start >> 3, -(-stop >> 3)
    each = 8 * itemsize // streams
    some = np.concatenate([stream.reshape(each, -1)[:, low:high] for stream in found])
    bits = np.unpackbits(some, axis=1, bitorder="little")[:, start - 8 * low : stop - 8 * low]
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)


def _streams(stored: NDArray[np.uint8], streams: int, blocksize: int) -> list[NDArray[np.uint8]] | None:
    """What each stream of a block decodes to, in this thread's buffers."""
    if len(_buffers.planes) < blocksize:
        _buffers.planes = np.empty(blocksize, np.uint8)
    from numcodecs import lz4

    found, at, each = [], 0, blocksize // streams
    view, decoded_size = stored.data, struct.pack("<I", each)
    for number in range(streams):
        size = int.from_bytes(view[at : at + 4], "little", signed=True)
        at += 4
        if not 0 < size <= len(stored) - at:
            return None
        if size == each:
            found.append(stored[at : at + size])
        else:
            out = _buffers.planes[number * each : (number + 1) * each]
            view[at - 4 : at] = decoded_size  # which numcodecs wants before the data
            try:
                lz4.decompress(view[at - 4 : at + size], out)
            except (RuntimeError, ValueError):
                return None
            found.append(out)
        at += size
    return found
