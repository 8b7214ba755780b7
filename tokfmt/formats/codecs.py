"""Decode and encode chunks: bytes to bytes. Every decoder is bounded by the size that a chunk must have.

Only the codecs in `CODECS` are decoded, never one that the registry of numcodecs or the HDF5 library finds by name: a
foreign codec could execute what it reads.

A blosc chunk has a header, which is checked before anything is decoded, and blocks that decode independently:

    byte      size      content
    0         1         format version, 2
    1         1         version of the codec's own format
    2         1         flags: 1 byte shuffle, 2 stored as is, 4 bit shuffle, 16 blocks not split; codec in bits 5-7
    3         1         item size
    4         4 LE      nbytes: decoded size
    8         4 LE      block size, decoded
    12        4 LE      cbytes: size of the whole chunk with this header
    16        4 LE each byte offset of each block (absent if stored as is)

To read a few items of a bit-shuffled block, `items_of` decompresses its streams and assembles only these items. To
assemble the whole block takes longer than to decompress it, and a sequence is usually less than a hundredth of it.

    block of n items      content
    streams               one, or one for each byte of an item: i32 LE size, then LZ4; not compressed if size = decoded
    decoded               8 * itemsize planes of n / 8 bytes: plane p holds bit p of item i in bit i % 8 of byte i // 8

Source: the format descriptions of c-blosc 1 and of bitshuffle; the HDF5 file format specification, version 3.
"""

from __future__ import annotations

import functools
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.files.file import File
from tokfmt.files.place import Place

AGAIN = "Copy it again"
CHUNK_BYTES = 1 << 27
"""Maximum bytes of a decoded chunk: 128 MiB."""
CHECKSUMS = ("crc32c", "fletcher32")
"""Codecs that add four bytes after the content and do not change it."""

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 1 << 17
ZSTD_LEVEL, GZIP_LEVEL = 3, 6
_GZIP = zlib.MAX_WBITS | 16
_WORDS = 1 << 20  # words of a Fletcher checksum that are summed at once


class Stored(NamedTuple):
    """A run of stored bytes: a part of an open file, or of a decompressed member of a zip."""

    path: Place  # for messages
    source: File | bytes
    start: int  # byte offset in `source`
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from a byte offset; the caller keeps within `size`."""
        if isinstance(self.source, File):
            return self.source.read(self.start + offset, length)
        return self.source[self.start + offset : self.start + offset + length]

    def array(self, offset: int, length: int) -> NDArray[np.uint8]:
        """Return the same bytes as uint8[length], with one copy less."""
        if isinstance(self.source, File):
            return self.source.array(self.start + offset, length, np.dtype(np.uint8)).view(np.uint8)
        return np.frombuffer(self.source, np.uint8, length, self.start + offset)

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill `out` with the bytes from a byte offset; the caller keeps within `size`."""
        if isinstance(self.source, File):
            self.source.read_into(self.start + offset, out.data)
        else:
            out[:] = np.frombuffer(self.source, np.uint8, len(out), self.start + offset)

    def part(self, offset: int, length: int) -> Stored:
        """Return a part of these bytes; the caller keeps within `size`."""
        return Stored(self.path, self.source, self.start + offset, length)


def decode(stored: Stored, codecs: Sequence[str], nbytes: int, itemsize: int) -> NDArray[np.uint8]:
    """Decode a chunk to exactly `nbytes` bytes; `codecs` are in the order of decoding, with one compressor at most."""
    if len(codecs) == 1 and codecs[0] == "blosc":
        out = np.empty(nbytes, np.uint8)
        decode_blosc(stored, itemsize, out)
        return out
    if stored.size > 2 * CHUNK_BYTES:
        what = "is too large for a chunk"
        raise UnsafeError(stored.path, what, expected=f"{nbytes:,} bytes decoded", found=stored.size, remedy=AGAIN)
    data: Any = stored.read(0, stored.size)
    for number, name in enumerate(codecs):
        sums = sum(after in CHECKSUMS for after in codecs[number + 1 :]) if number + 1 < len(codecs) else 0
        data = CODECS[name](stored.path, data, nbytes + 4 * sums, itemsize)
    if len(data) != nbytes:
        kind, word = (TruncatedError, "shorter") if len(data) < nbytes else (CorruptError, "longer")
        what = f"is {word} than a chunk"
        raise kind(stored.path, what, expected=f"{nbytes:,} bytes", found=len(data), remedy=AGAIN)
    return np.frombuffer(data, np.uint8)


def _inflate(path: Place, data: bytes, size: int, _: int, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Decompress zlib or gzip data to at most `size` bytes; raise if the data are longer, cut or damaged."""
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
        raise CorruptError(path, "continues after its compressed data", offset=at, remedy=AGAIN)
    return out


def _lz4(path: Place, data: bytes, size: int, _: int) -> bytes:
    from numcodecs import lz4

    stated = struct.unpack("<i", data[:4])[0] if len(data) >= 4 else 0
    if stated != size:
        raise _other_size(path, size, stated)
    return _decompressed(path, lz4.decompress, data, "lz4")


def _zstd(path: Place, data: bytes, size: int, _: int) -> bytes:
    from numcodecs import zstd

    stated, bound = _zstd_sizes(path, data)
    if stated is not None and stated != size:
        raise _other_size(path, size, stated)
    if stated is None and bound > 2 * size + (1 << 20):  # streaming writers leave the size out; the blocks bound it
        what = "could decode to far more than a chunk"
        raise UnsafeError(path, what, expected=f"{size:,} bytes", found=bound, remedy="Write the array again with zarr")
    return _decompressed(path, zstd.decompress, data, "zstd")


def _other_size(path: Place, size: int, stated: int) -> FormatError:
    what = "does not decode to a whole chunk"
    return CorruptError(path, what, expected=f"{size:,} bytes", found=stated, remedy=AGAIN)


def _decompressed(path: Place, decompress: Callable[[bytes], bytes], data: bytes, name: str) -> bytes:
    try:
        return bytes(decompress(data))
    except (RuntimeError, ValueError) as error:
        raise CorruptError(path, f"is damaged: {name} cannot decode it", remedy=AGAIN) from error


def _zstd_sizes(path: Place, data: bytes) -> tuple[int | None, int]:
    """Return the decoded size that a zstd frame states (None if it does not), and an upper bound from its blocks."""
    if len(data) < 6 or struct.unpack("<I", data[:4])[0] != _ZSTD_MAGIC:
        raise CorruptError(path, "is not zstd data", offset=0, remedy=AGAIN)
    flags = data[4]
    single = bool(flags & 32)
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    width = (int(single), 2, 4, 8)[flags >> 6]
    stated = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0) if width else None
    at, bound, last = at + width, 0, 0
    while not last:
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        bound += size if kind < 2 else _ZSTD_BLOCK
        at += 3 + (1 if kind == 1 else size)
        if at > len(data):
            raise TruncatedError(path, "ends inside its zstd data", remedy=AGAIN)
    at += 4 if flags & 4 else 0
    if at != len(data):
        raise CorruptError(path, "continues after its zstd data", offset=at, remedy=AGAIN)
    return stated, bound


def check_crc32c(path: Place, data: bytes) -> None:
    """Raise CorruptError unless the last four bytes are the CRC-32C of the bytes before them."""
    import google_crc32c

    if len(data) < 4:
        raise TruncatedError(path, "is too short for a checksum", expected="4 bytes", found=len(data), remedy=AGAIN)
    if google_crc32c.value(bytes(data[:-4])) != struct.unpack("<I", data[-4:])[0]:
        raise CorruptError(path, "does not fit its CRC-32C checksum", offset=len(data) - 4, remedy=AGAIN)


def _crc32c(path: Place, data: bytes, _: int, __: int) -> bytes:
    check_crc32c(path, data)
    return data[:-4]


def _blosc(path: Place, data: bytes, size: int, itemsize: int) -> NDArray[np.uint8]:
    out = np.empty(size, np.uint8)
    decode_blosc(Stored(path, bytes(data), 0, len(data)), itemsize, out)
    return out


def _deflate(path: Place, data: bytes, size: int, _: int) -> bytearray:
    import deflate

    try:
        out: bytearray = deflate.zlib_decompress(data, size)
    except deflate.DeflateError as error:  # raised for an invalid stream and for one that is longer than `size`
        raise CorruptError(path, f"does not inflate to {size:,} bytes", remedy=AGAIN) from error
    if len(out) != size:
        raise CorruptError(path, f"inflates to {len(out):,} bytes instead of {size:,}", remedy=AGAIN)
    return out


def _shuffle(path: Place, data: bytes, size: int, itemsize: int) -> NDArray[np.uint8]:
    if len(data) % itemsize:
        raise CorruptError(path, f"decodes to {len(data):,} bytes instead of {size:,}", remedy=AGAIN)
    return np.frombuffer(data, np.uint8).reshape(itemsize, -1).T.reshape(-1)


def _fletcher32(path: Place, data: bytes, _: int, __: int) -> NDArray[np.uint8]:
    """Check the HDF5 Fletcher checksum over big-endian 16-bit words, and remove it."""
    if len(data) < 4:
        raise TruncatedError(path, "is too short for a checksum", expected="4 bytes", found=len(data), remedy=AGAIN)
    body, claimed = np.frombuffer(data, np.uint8)[:-4], int.from_bytes(bytes(data[-4:]), "little")
    words = (np.append(body, np.uint8(0)) if len(body) % 2 else body).view(">u2")
    total, first, second = len(words), 0, 0
    for a in range(0, total, _WORDS):
        part = words[a : a + _WORDS].astype(np.uint64)
        weights = np.arange(total - a, total - a - len(part), -1, dtype=np.int64).astype(np.uint64) % 65535
        first, second = first + int(part.sum()), second + int((part * weights).sum())
    if ((claimed >> 16) % 65535, (claimed & 0xFFFF) % 65535) != (second % 65535, first % 65535):  # 0 is 65535
        raise CorruptError(path, "does not fit its Fletcher checksum", offset=len(body), remedy=AGAIN)
    return body


CODECS: dict[str, Callable[[Place, Any, int, int], Any]] = {
    "blosc": _blosc,
    "zstd": _zstd,
    "lz4": _lz4,
    "gzip": functools.partial(_inflate, wbits=_GZIP),
    "zlib": _inflate,
    "crc32c": _crc32c,
    "deflate": _deflate,
    "shuffle": _shuffle,
    "fletcher32": _fletcher32,
}


@functools.cache
def _library() -> ModuleType:
    """Import `numcodecs.blosc` on first use and turn its threads off. Detection must work where it is not installed.

    The threads of blosc write blocks in the order in which they finish, so bytes would differ from run to run, and they
    share one lock. Without threads, blosc holds neither a lock nor the GIL, and tasks run in parallel.
    """
    from numcodecs import blosc

    blosc.use_threads = False
    found: ModuleType = blosc
    return found


def _to_blosc(items: NDArray[np.generic]) -> bytes:
    """Compress a chunk as seqax does: lz4, level 5, bit shuffle, block size chosen by blosc."""
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
"""Encoders of a full chunk of little-endian uint32 or int64. Their bytes do not depend on other threads or tasks."""


HEADER = 16  # bytes
_LOOK = 512  # bytes that are read with a header, so that short indexes need no second read
_BYTES, _STORED, _BITS, _WHOLE = 1, 2, 4, 16  # flags of the header
_LZ4 = 1
_LARGEST = 1 << 20
"""Maximum bytes of a decoded block whose items are read one by one. Each thread keeps two buffers of that size."""

_SMALL = 16
"""Items are read one by one if they fill at most one sixteenth of a block; otherwise blosc is faster."""


class BloscFrame(NamedTuple):
    """The header of a blosc chunk, unchecked; see the table of bytes above.

    Attributes:
        version: Version of the blosc format.
        codec: Version of the codec's own format.
        flags: Shuffle, storage, split and codec.
        itemsize: Bytes per item.
        nbytes: Decoded bytes of the chunk.
        blocksize: Decoded bytes per block.
        cbytes: Bytes of the chunk as stored.
        raw: First bytes of the chunk, at most 512; they hold the index unless it is longer.
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
        """Number of blocks."""
        return -(-self.nbytes // self.blocksize) if self.blocksize else 0


def blosc_frame(stored: Stored, nbytes: int, itemsize: int) -> BloscFrame:
    """Read the header of a chunk, and compare it with the file and the array.

    Raises:
        FormatError: A field of the header contradicts one of them; the error names the first.
    """
    size = stored.size
    if size < HEADER:
        what = "is too short for a blosc header"
        raise TruncatedError(stored.path, what, expected="at least 16 bytes", found=size, remedy=AGAIN)
    raw = bytes(stored.read(0, min(size, _LOOK)))
    head = BloscFrame._make((*struct.unpack("<4B3I", raw[:HEADER]), raw))
    flags, cbytes = head.flags, head.cbytes
    if head.version == 2 and cbytes > size:
        what = "ends before its blosc data does"
        raise TruncatedError(stored.path, what, expected=f"{cbytes:,} bytes", found=size, remedy=AGAIN)
    least = HEADER + (head.nbytes if flags & _STORED else 4 * head.blocks)
    for wrong, what, offset, expected, found in (
        (head.version != 2, "is not blosc data of version 2", 0, None, head.version),
        (cbytes < size, "continues after its blosc data", cbytes, f"{cbytes:,} bytes", size),
        (head.nbytes != nbytes, "does not decode to a whole chunk", 4, f"{nbytes:,} bytes", head.nbytes),
        (head.itemsize not in (1, itemsize), "holds items of another size", 3, itemsize, head.itemsize),
        (not 0 < head.blocksize <= nbytes, "has an impossible blosc block size", 8, f"1 to {nbytes:,}", head.blocksize),
        (cbytes < least, "is too short for its blocks", 12, f"at least {least:,} bytes", cbytes),
    ):
        if wrong:
            raise CorruptError(stored.path, what, offset=offset, expected=expected, found=found, remedy=AGAIN)
    return head


def decode_blosc(stored: Stored, itemsize: int, out: NDArray[np.uint8]) -> None:
    """Decode a whole chunk into `out`, uint8[bytes of a decoded chunk]."""
    blosc_frame(stored, len(out), itemsize)
    _decompress(stored, stored.array(0, stored.size), out)


def decode_blosc_part(stored: Stored, head: BloscFrame, start: int, stop: int) -> NDArray[np.uint8] | None:
    """Return a part of the decoded chunk; read and decode only the blocks that hold it.

    Args:
        stored: The chunk.
        head: Its header, from `blosc_frame`.
        start: First byte of the part in the decoded chunk, a multiple of the item size.
        stop: End of the part, a multiple of the item size.

    Returns:
        uint8[stop - start], or None if the chunk has only one block, so that nothing is saved.
    """
    if head.flags & _STORED:
        return stored.array(HEADER + start, stop - start)
    if head.blocks < 2:
        return None
    first, last = start // head.blocksize, -(-stop // head.blocksize)
    full = last * head.blocksize <= head.nbytes  # a shorter last block has another layout
    if full and last == first + 1 and stop > start:
        items = _few(stored, head, first, start, stop)
        if items is not None:
            return items
    if last == head.blocks:  # a shorter last block cannot be a frame alone: no frame is smaller than its block size
        first = min(first, last - 2)
    base = first * head.blocksize
    size = min(last * head.blocksize, head.nbytes) - base
    out = np.empty(size, np.uint8)
    _decompress(stored, _reframed(stored, head, first, last, size), out)
    return out[start - base : stop - base]


def _few(stored: Stored, head: BloscFrame, block: int, start: int, stop: int) -> NDArray[np.uint8] | None:
    """Return a small part of one block of bit-shuffled LZ4, else None; also if it is damaged, which blosc reports."""
    size = head.itemsize
    bits = head.flags & (_BYTES | _BITS) == _BITS  # with both flags, blosc shuffles bytes
    fits = head.blocksize <= _LARGEST and not head.blocksize % (8 * size)
    if head.flags >> 5 != _LZ4 or not bits or not fits or (stop - start) * _SMALL > head.blocksize:
        return None
    _, low, end = _places(stored, head, block, block + 1)
    packed = stored_buffer(end - low)
    stored.read_into(low, packed)
    base = block * head.blocksize
    streams = 1 if head.flags & _WHOLE else size
    return items_of(packed, streams, head.blocksize, size, (start - base) // size, (stop - base) // size)


def _places(stored: Stored, head: BloscFrame, first: int, last: int) -> tuple[NDArray[np.uint32], int, int]:
    """Return the byte offsets of blocks `first <= i < last`, the smallest of them, and the end of the last."""
    index = HEADER + 4 * head.blocks
    raw = head.raw if len(head.raw) >= index else stored.read(0, index)
    starts = np.frombuffer(raw, "<u4", head.blocks, HEADER)
    wanted = starts[first:last]
    low, high = int(wanted.min()), int(wanted.max())
    # Blocks are stored in the order in which the writer's threads finished: the last ends where any other begins.
    stop = int(starts.min(where=starts > high, initial=head.cbytes))
    if low < index or high >= stop or stop > head.cbytes:
        raise CorruptError(stored.path, "has blosc blocks outside of the file", offset=HEADER, remedy=AGAIN)
    return wanted, low, stop


def _reframed(stored: Stored, head: BloscFrame, first: int, last: int, nbytes: int) -> bytes:
    """Return blocks `first <= i < last` as a separate chunk with its own header and index."""
    wanted, low, stop = _places(stored, head, first, last)
    moved = wanted - np.uint32(low - HEADER - 4 * len(wanted))
    header = head.raw[:4] + struct.pack("<3I", nbytes, head.blocksize, HEADER + 4 * len(wanted) + stop - low)
    return b"".join((header, moved.astype("<u4").tobytes(), stored.array(low, stop - low).data))


def _decompress(stored: Stored, data: bytes | NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    try:
        _library().decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise CorruptError(stored.path, "is damaged: blosc cannot decode it", remedy=AGAIN) from error


class _Buffers(threading.local):
    """Two buffers per thread: to allocate them each time costs as much as to decompress."""

    stored = planes = np.empty(0, np.uint8)


_buffers = _Buffers()


def stored_buffer(size: int) -> NDArray[np.uint8]:
    """Return this thread's buffer for `size` bytes of compressed data; the next call overwrites it."""
    if len(_buffers.stored) < size:
        _buffers.stored = np.empty(size, np.uint8)
    return _buffers.stored[:size]


def items_of(
    stored: NDArray[np.uint8], streams: int, blocksize: int, itemsize: int, start: int, stop: int
) -> NDArray[np.uint8] | None:
    """Return the bytes of items `start <= i < stop` of a bit-shuffled LZ4 block.

    Args:
        stored: The block as stored, or more bytes; overwritten.
        streams: Number of streams in the block.
        blocksize: Decoded bytes of the block.
        itemsize: Bytes per item.
        start: First item.
        stop: Item after the last.

    Returns:
        uint8[(stop - start) * itemsize], or None if the block is damaged.
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
    """Decode each stream of a block in this thread's buffers; None if one is damaged."""
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
            view[at - 4 : at] = decoded_size  # numcodecs expects the decoded size before the data
            try:
                lz4.decompress(view[at - 4 : at + size], out)
            except (RuntimeError, ValueError):
                return None
            found.append(out)
        at += size
    return found
