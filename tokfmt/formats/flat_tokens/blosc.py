"""One chunk compressed by blosc: its header is checked before anything is decoded, and blocks decode alone.

    byte      size      content
    0         1         format version, 2
    1         1         version of the codec's own format
    2         1         flags: 1 byte shuffle, 2 stored as is, 4 bit shuffle, 16 blocks not split; codec in bits 5-7
    3         1         item size
    4         4 LE      nbytes: decoded size
    8         4 LE      block size, decoded
    12        4 LE      cbytes: size of all this
    16        4 LE each where each block begins (not when stored as is)

Source: the c-blosc 1 format description.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numcodecs import blosc
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError
from tokfmt.formats.flat_tokens import planes
from tokfmt.formats.flat_tokens.store import Blob

# blosc's own threads write blocks in the order they finish, so bytes would differ from run to run; and its threads
# share one lock. Without them it holds no lock and no GIL, and tasks run side by side.
blosc.use_threads = False

HEADER = 16
AGAIN = "Copy it again"
_LOOK = 512
_BYTES, _STORED, _BITS, _WHOLE = 1, 2, 4, 16
_LZ4 = 1


class Frame(NamedTuple):
    """A checked header, sizes in bytes; and the first bytes of the chunk, the index among them unless it is long."""

    flags: int
    itemsize: int
    nbytes: int
    blocksize: int
    cbytes: int
    raw: bytes

    @property
    def blocks(self) -> int:
        """How many blocks."""
        return -(-self.nbytes // self.blocksize)


def frame(blob: Blob, nbytes: int, itemsize: int) -> Frame:
    """The header of a chunk.

    Args:
        blob: The chunk.
        nbytes: What it has to decode to.
        itemsize: Bytes of an item.

    Raises:
        FormatError: The header contradicts the file or the array.
    """
    if blob.size < HEADER:
        raise TruncatedError(
            blob.path, "is too short for a blosc header", expected="at least 16 bytes", found=blob.size, remedy=AGAIN
        )
    raw = blob.read(0, min(blob.size, _LOOK))
    version, _, flags, typesize, decoded, blocksize, cbytes = struct.unpack("<4B3I", raw[:HEADER])
    if version != 2:
        raise _wrong(blob, "is not blosc data of version 2", 0, None, version)
    if cbytes != blob.size:
        if cbytes > blob.size:
            what = "ends before its blosc data does"
            raise TruncatedError(blob.path, what, expected=f"{cbytes:,} bytes", found=blob.size, remedy=AGAIN)
        raise _wrong(blob, "goes on behind its blosc data", cbytes, f"{cbytes:,} bytes", blob.size)
    if decoded != nbytes:
        raise _wrong(blob, "does not decode to a whole chunk", 4, f"{nbytes:,} bytes", decoded)
    if typesize not in (1, itemsize):
        raise _wrong(blob, "holds items of another size", 3, itemsize, typesize)
    if not 0 < blocksize <= nbytes:
        raise _wrong(blob, "has an impossible blosc block size", 8, f"1 to {nbytes:,}", blocksize)
    head = Frame(flags, typesize, nbytes, blocksize, cbytes, raw)
    least = nbytes if flags & _STORED else 4 * head.blocks
    if cbytes < HEADER + least:
        raise _wrong(blob, "is too short for its blocks", 12, f"at least {HEADER + least:,} bytes", cbytes)
    return head


def decode(blob: Blob, itemsize: int, out: NDArray[np.uint8]) -> None:
    """The whole chunk into `out`, uint8[bytes of a chunk]."""
    frame(blob, len(out), itemsize)
    _decompress(blob, blob.array(0, blob.size), out)


def decode_part(blob: Blob, head: Frame, start: int, stop: int) -> NDArray[np.uint8] | None:
    """Bytes `start <= p < stop` of the decoded chunk by reading and decoding only the blocks that hold them.

    Args:
        blob: The chunk.
        head: Its header, by `frame`.
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


def _few(blob: Blob, head: Frame, block: int, start: int, stop: int) -> NDArray[np.uint8] | None:
    """A small part of one block, if it is LZ4 of shuffled bits; None also when it is damaged: blosc then says so."""
    size = head.itemsize
    bits = head.flags & (_BYTES | _BITS) == _BITS  # with both flags, blosc shuffles bytes
    if head.flags >> 5 != _LZ4 or not bits or not planes.worthwhile(head.blocksize, size, stop - start):
        return None
    _, low, end = _places(blob, head, block, block + 1)
    stored = planes.stored_buffer(end - low)
    blob.read_into(low, stored)
    base = block * head.blocksize
    streams = 1 if head.flags & _WHOLE else size
    return planes.items_of(stored, streams, head.blocksize, size, (start - base) // size, (stop - base) // size)


def _places(blob: Blob, head: Frame, first: int, last: int) -> tuple[NDArray[np.uint32], int, int]:
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


def _reframed(blob: Blob, head: Frame, first: int, last: int, nbytes: int) -> bytes:
    """Blocks `first <= i < last` as a chunk of their own."""
    wanted, low, stop = _places(blob, head, first, last)
    moved = wanted - np.uint32(low - HEADER - 4 * len(wanted))
    header = head.raw[:4] + struct.pack("<3I", nbytes, head.blocksize, HEADER + 4 * len(wanted) + stop - low)
    return b"".join((header, moved.astype("<u4").tobytes(), blob.array(low, stop - low).data))


def _decompress(blob: Blob, data: bytes | NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    try:
        blosc.decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise CorruptError(blob.path, "is damaged: blosc cannot decode it", remedy=AGAIN) from error


def encode(items: NDArray[np.generic]) -> bytes:
    """A chunk as seqax writes it: lz4, level 5, bit shuffle, blosc's own choice of block size."""
    return bytes(blosc.compress(items, b"lz4", 5, blosc.BITSHUFFLE, 0))


def _wrong(blob: Blob, what: str, offset: int, expected: object, found: object) -> FormatError:
    return CorruptError(blob.path, what, offset=offset, expected=expected, found=found, remedy=AGAIN)
