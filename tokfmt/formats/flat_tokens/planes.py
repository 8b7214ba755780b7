"""A few items of a bit-shuffled blosc block: its streams are decompressed, but only what is asked for is put together.

Putting all of a block together takes longer than decompressing it, and a sequence is less than a hundredth of it.

    block of n items      content
    streams               one, or one for each byte of an item: i32 LE size, then LZ4; plain if as large as decoded
    decoded               8 * itemsize planes of n / 8 bytes: plane p holds bit p of item i in bit i % 8 of byte i // 8

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
        stored: The block as stored, of at least this size; overwritten.
        streams: How many streams it has.
        blocksize: Bytes, decoded.
        itemsize: Bytes of an item.
        start, stop: Items.

    Returns:
        uint8[(stop - start) * itemsize], or None when the block is damaged.
    """
    found = _decompressed(stored, streams, blocksize)
    if found is None:
        return None
    low, high = start >> 3, -(-stop >> 3)
    each = 8 * itemsize // streams
    some = np.concatenate([stream.reshape(each, -1)[:, low:high] for stream in found])
    bits = np.unpackbits(some, axis=1, bitorder="little")[:, start - 8 * low : stop - 8 * low]
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)


def _decompressed(stored: NDArray[np.uint8], streams: int, blocksize: int) -> list[NDArray[np.uint8]] | None:
    """What each stream of a block decodes to, in this thread's buffers."""
    if len(_buffers.planes) < blocksize:
        _buffers.planes = np.empty(blocksize, np.uint8)
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
