"""A few items of a bit-shuffled blosc block: its streams are decompressed, but only what is asked for is put together.

Putting all of a block together takes longer than decompressing it, and a sequence is less than a hundredth of it.

    block of n items      content
    streams               one, or one for each byte of an item: i32 LE size, then LZ4, or as it is if as large as decoded
    decoded, 8 * itemsize planes of n / 8 bytes: plane p holds bit p of every item, item i in bit i % 8 of byte i // 8

Source: the c-blosc 1 format description, and that of bitshuffle.
"""

from __future__ import annotations

import struct
import threading

import numpy as np
from numcodecs import lz4
from numpy.typing import NDArray

LARGEST = 1 << 20
"""Bytes of a decoded block at most; the buffers of two are kept by every thread."""

_SMALL = 16
"""Worth it for at most one sixteenth of a block."""


class _Buffers(threading.local):
    """Two buffers a thread: as fresh memory they cost as much as decompressing."""

    def __init__(self) -> None:
        self.stored = np.empty(0, np.uint8)
        self.planes = np.empty(0, np.uint8)


_buffers = _Buffers()


def stored_buffer(size: int) -> NDArray[np.uint8]:
    """This thread's buffer for `size` bytes of compressed data; what was in it is lost."""
    if len(_buffers.stored) < size:
        _buffers.stored = np.empty(size, np.uint8)
    return _buffers.stored[:size]


def worthwhile(blocksize: int, itemsize: int, size: int) -> bool:
    """Whether `size` bytes of a block, decoded, are few enough."""
    return blocksize <= LARGEST and not blocksize % (8 * itemsize) and size * _SMALL <= blocksize


def items_of(
    stored: NDArray[np.uint8], streams: int, blocksize: int, itemsize: int, start: int, stop: int
) -> NDArray[np.uint8] | None:
    """Bytes of items `start <= i < stop` of a block.

    Args:
        stored: The block as stored, of at least this size.
        streams: How many streams it has.
        blocksize: Bytes, decoded.
        itemsize: Bytes of an item.
        start, stop: Items.

    Returns:
        uint8[(stop - start) * itemsize], or None when the block is damaged.
    """
    planes = _decompressed(stored.data, streams, blocksize)
    if planes is None:
        return None
    low, high = start >> 3, -(-stop >> 3)
    some = planes.reshape(8 * itemsize, -1)[:, low:high]
    bits = np.unpackbits(some, axis=1, bitorder="little")[:, start - 8 * low : stop - 8 * low]
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)


def _decompressed(stored: memoryview, streams: int, blocksize: int) -> NDArray[np.uint8] | None:
    """The planes of a block, in this thread's buffer."""
    if len(_buffers.planes) < blocksize:
        _buffers.planes = np.empty(blocksize, np.uint8)
    planes, at, each = _buffers.planes[:blocksize], 0, blocksize // streams
    decoded_size = struct.pack("<I", each)  # numcodecs wants it before the data
    for number in range(streams):
        out = planes[number * each : (number + 1) * each]
        size = int.from_bytes(stored[at : at + 4], "little", signed=True)
        at += 4
        if not 0 < size <= len(stored) - at:
            return None
        if size == each:
            out[:] = stored[at : at + size]
        else:
            try:
                lz4.decompress(decoded_size + stored[at : at + size], out)
            except (RuntimeError, ValueError):
                return None
        at += size
    return planes
