"""Read and write the pickled list of (offset, length) of Modalities' `.pbin` and `.idx` files without an unpickler.

    stream   80 v | [95 u64] | 5d memo | batches | 2e        v = 2 .. 5; protocol 4 is what CPython 3.8-3.13 write
    batch    28 entries 65                                   MARK, up to 1,000 entries, APPENDS
             entry 61                                        a single entry: APPEND
    entry    int int 86 memo                                 TUPLE2
    int      4b u8 | 4d u16 | 4a i32 | 8a n (n bytes)        little-endian; 8a is two's complement (LONG1)
    memo     94 | 71 u8 | 72 u32 | nothing                   MEMOIZE; BINPUT and LONG_BINPUT before protocol 4
    frame    95 u64                                          at any opcode border, also between the integers of a pair

The decoder accepts only what is in this table, so no file can execute code, import a name or allocate memory. The
encoder gives the bytes of CPython's `pickle.dumps(entries, protocol=4)`: a frame ends at the first integer border at or
after 64 KiB. The empty list (`80 04 5d 94 2e`) has no frame, as it would hold fewer than 4 bytes.

Both directions stream: memory does not depend on the number of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.pickled_index.decode import (
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
    EntryTable,
    Ints,
    Stretch,
    entry_position,
    read_entries,
    start_fields,
)

__all__ = ["EntryTable", "Stretch", "entry_position", "read_entries", "start_fields", "write_entries"]

_BATCH = 1000  # entries between MARK and APPENDS
_FRAME = 1 << 16  # bytes after which a frame ends, at the next integer
_SMALLEST_FRAME = 4  # bytes
_WINDOW = 1 << 14  # entries per step of encoding: the tables stay in cache


def write_entries(count: int, batches: Iterable[tuple[Ints, Ints]]) -> Iterator[bytes]:
    """Yield the bytes of `pickle.dumps([(offset, length), ...], protocol=4)`.

    Args:
        count: Number of entries, which is needed first because a single entry has another encoding.
        batches: Offsets int64[n] and lengths int64[n]; `count` entries in all.

    Yields:
        Pieces of the pickle, in order.
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
        raise ValueError(f"the batches hold {done} entries (expected {count})")
    yield from frames.finish(bytes([STOP]))


class _Frames:
    """A stream of bytes that is cut into frames."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0

    def add(self, content: NDArray[np.uint8], borders: Ints) -> Iterator[bytes]:
        """Append bytes and yield complete frames; `borders` are the ascending offsets at which a frame may end."""
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


_CLOSE = int.from_bytes([TUPLE2, MEMOIZE, APPENDS, MARK], "little")
_CLOSE_SINGLE = int.from_bytes([TUPLE2, MEMOIZE, APPEND], "little")
_PLAIN, _LAST, _BORDER = 2, 3, 4  # bytes of it that are used: in a batch, at the end, between two batches

# For each kind of integer: its size in bytes, and its first byte or two.
_SIZES = np.array([2, 3, 5, 7, 8, 9, 10], np.int64)
_HEADS = np.array([BININT1, BININT2, BININT, *(LONG1 | n << 8 for n in (5, 6, 7, 8))], np.uint64)
_LIMITS = (8, 16, 31, 39, 47, 55)  # bits of a magnitude that need the next kind
_BINT, _LONG = 2, 3
_WORD = 8

Words = NDArray[np.uint64] | np.uint64
Sizes = Ints | int


def _encoded(offsets: Ints, lengths: Ints, first: int, count: int) -> tuple[NDArray[np.uint8], Ints]:
    """Encode some entries; the first is entry `first` of `count`.

    The parts of an entry are words of 8 bytes. Each word is written at its byte offset, in order, and the next word
    overwrites its unused bytes.

    Returns:
        The bytes, and the offsets of the integers in them.
    """
    close = np.full(len(offsets), _PLAIN, np.int64)
    close[_BATCH - 1 - first % _BATCH :: _BATCH] = _BORDER
    if first + len(offsets) == count:
        close[-1:] = _LAST
    offset, length = _integers(offsets), _integers(lengths)
    ends = [(np.uint64(_CLOSE if count > 1 else _CLOSE_SINGLE), close)]
    columns = [*offset, *length, *ends]
    words = np.empty((len(offsets), len(columns)), np.dtype("<u8"))
    sizes = np.empty(words.shape, np.int64)
    for k, (word, size) in enumerate(columns):
        words[:, k], sizes[:, k] = word, size
    places = np.cumsum(sizes.ravel())
    out = np.empty((int(places[-1]) if len(places) else 0) + _WORD, np.uint8)
    places -= sizes.ravel()
    anywhere = np.ndarray((len(out) - _WORD + 1,), np.dtype("<u8"), out, strides=(1,))
    anywhere[places] = words.ravel()
    return out[:-_WORD], places.reshape(words.shape)[:, [0, len(offset)]].ravel()


def _integers(values: Ints) -> list[tuple[Words, Sizes]]:
    """Return the first eight bytes of each integer as a word, with the number of used bytes, and the rest if needed."""
    word = values.view(np.uint64)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kind: Any = _kind_of(low)
    if low < 0 or kind != _kind_of(high):
        magnitude = values ^ (values >> 63)  # ~value for a negative value, which has the bits that decide
        top = max(high, ~low)
        kind = np.zeros(len(values), np.uint8)
        for bits in _LIMITS:
            if top >= 1 << bits:
                kind += magnitude >= 1 << bits
        kind[(values < 0) & (kind < _BINT)] = _BINT
        shift: Any = np.where(kind >= _LONG, np.uint64(16), np.uint64(8))
    else:
        shift = np.uint64(16 if kind >= _LONG else 8)
    first, size = _HEADS[kind] | word << shift, _SIZES[kind]
    if int(size.max()) <= _WORD:
        return [(first, size)]
    return [(first, np.minimum(size, _WORD)), (word >> np.uint64(48), np.maximum(size - _WORD, 0))]


def _kind_of(value: int) -> int:
    """Return the kind of a number that is not negative."""
    return sum(value >= 1 << bits for bits in _LIMITS)
