"""Encode (offset, length) pairs as CPython's `pickle.dumps(list, protocol=4)` does, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.pickled_index.opcodes import (
    APPEND,
    APPENDS,
    BININT,
    BININT1,
    BININT2,
    EMPTY_LIST,
    FRAME,
    LONG1,
    MARK,
    MEMOIZE,
    PROTO,
    STOP,
    TUPLE2,
)

_BATCH = 1000  # entries between MARK and APPENDS
_FRAME = 1 << 16  # a frame is closed at the first integer at or after this many bytes
_SMALLEST_FRAME = 4
_WINDOW = 1 << 14  # entries encoded at once: the tables stay in cache

Ints = NDArray[np.int64]


def write_entries(count: int, batches: Iterable[tuple[Ints, Ints]]) -> Iterator[bytes]:
    """Stream the bytes of `pickle.dumps([(offset, length), ...], protocol=4)`.

    Args:
        count: Number of entries; known beforehand because a single entry is written differently.
        batches: offsets int64[n], lengths int64[n], as many as there are entries in all.

    Yields:
        Pieces of the pickle, in order.

    Raises:
        ValueError: `batches` do not hold `count` entries.
    """
    yield bytes([PROTO, 4])
    frames = _Frames()
    lead = bytes([EMPTY_LIST, MEMOIZE]) + (bytes([MARK]) if count > 1 else b"")
    yield from frames.add(np.frombuffer(lead, np.uint8), np.zeros(1, np.int64))
    done = 0
    for offsets, lengths in batches:
        for a in range(0, len(offsets), _WINDOW):
            part = slice(a, a + _WINDOW)
            yield from frames.add(*_encoded(offsets[part], lengths[part], done, count))
            done += len(offsets[part])
    if done != count:
        raise ValueError(f"{count} entries were announced, {done} given")
    yield from frames.finish(bytes([STOP]))


class _Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0

    def add(self, content: NDArray[np.uint8], borders: Ints) -> Iterator[bytes]:
        """Append bytes; `borders` are the places in them at which a frame may be closed, ascending."""
        start = 0
        while True:
            k = int(np.searchsorted(borders, start + _FRAME - self._size))
            if k == len(borders):
                break
            cut = int(borders[k])
            self._held.append(content[start:cut].tobytes())
            self._size += cut - start
            yield from self._frame()
            start = cut
        self._held.append(content[start:].tobytes())
        self._size += len(content) - start

    def finish(self, end: bytes) -> Iterator[bytes]:
        self._held.append(end)
        self._size += len(end)
        yield from self._frame()

    def _frame(self) -> Iterator[bytes]:
        if self._size >= _SMALLEST_FRAME:
            yield bytes([FRAME]) + self._size.to_bytes(8, "little")
        yield b"".join(self._held)
        self._held, self._size = [], 0


# an entry laid out at full width: two integers of up to 10 bytes, then TUPLE2 MEMOIZE and what closes the batch
_ROW = np.dtype([("offset", "<u8"), ("offset_end", "<u2"), ("length", "<u8"), ("length_end", "<u2"), ("close", "<u4")])
_CLOSE = int.from_bytes([TUPLE2, MEMOIZE, APPENDS, MARK], "little")
_CLOSE_SINGLE = int.from_bytes([TUPLE2, MEMOIZE, APPEND, 0], "little")
_PLAIN, _LAST, _BORDER = 2, 3, 4  # bytes of `close` that count: in a batch, at the end, between two batches

# by kind of integer: bytes in all, and the first byte or two
_SIZES = np.array([2, 3, 5, 7, 8, 9, 10], np.int64)
_HEADS = np.array([BININT1, BININT2, BININT, *(LONG1 | n << 8 for n in (5, 6, 7, 8))], np.uint64)
_BINT, _LONG = 2, 3

# [size of offset, size of length, size of close, byte of the row]: does the byte count?
_column = np.arange(10)
_integer = (_column < np.arange(11)[:, None]).astype(np.bool_)
_close = (np.arange(4) < np.arange(5)[:, None]).astype(np.bool_)
_USED = np.concatenate(
    [
        np.broadcast_to(_integer[:, None, None, :], (11, 11, 5, 10)),
        np.broadcast_to(_integer[None, :, None, :], (11, 11, 5, 10)),
        np.broadcast_to(_close[None, None, :, :], (11, 11, 5, 4)),
    ],
    axis=-1,
)


def _encoded(offsets: Ints, lengths: Ints, first: int, count: int) -> tuple[NDArray[np.uint8], Ints]:
    """Bytes of some entries, of which the first is number `first` of `count`, and where their integers begin.

    Each entry is laid out at full width in a row of a table; a mask then takes the bytes that count.
    """
    rows = np.empty(len(offsets), _ROW)
    sizes = np.empty((len(offsets), 2), np.int64)
    rows["offset"], rows["offset_end"], sizes[:, 0] = _integers(offsets)
    rows["length"], rows["length_end"], sizes[:, 1] = _integers(lengths)
    rows["close"] = _CLOSE if count > 1 else _CLOSE_SINGLE
    close = np.full(len(offsets), _PLAIN, np.int64)
    close[_BATCH - 1 - first % _BATCH :: _BATCH] = _BORDER
    if first + len(offsets) == count:
        close[-1:] = _LAST
    used = _USED[sizes[:, 0], sizes[:, 1], close]
    sizes[:, 1] += close
    ends = np.cumsum(sizes.ravel())
    return rows.view(np.uint8).reshape(used.shape)[used], np.concatenate(([0], ends[:-1]))


def _integers(values: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Ints]:
    """The first eight bytes of each integer as a word, its last two, and how many bytes count."""
    magnitude = values ^ (values >> 63)  # of a negative value: ~value, which has the bits that matter
    kind = (magnitude >= 1 << 8).astype(np.int64)
    kind += magnitude >= 1 << 16
    if len(values) and (int(magnitude.max()) >= 1 << 31 or int(values.min()) < 0):
        for bits in (31, 39, 47, 55):
            kind += magnitude >= 1 << bits
        kind[(values < 0) & (kind < _BINT)] = _BINT
    word = values.view(np.uint64)
    shift = np.where(kind >= _LONG, np.uint64(16), np.uint64(8))
    return _HEADS[kind] | word << shift, word >> np.uint64(48), _SIZES[kind]
