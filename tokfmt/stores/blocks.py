"""Blocks of objects in memory: what was read from a store is not read again while a process works with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from tokfmt.base.resources import Recent

Buffer = bytes | memoryview

SIZE = 1 << 16
"""Bytes of a block. At 30 ms a request, 64 KiB take as long as one byte."""
GAP = 1 << 20
"""Bytes between two wanted ranges that take less time to read than another request."""
LARGEST = 1 << 23
"""Bytes of one request: the body of a larger one would exceed the time that a request may take on a slow line."""
STREAMED = 1 << 20
"""Bytes of a range that is not kept: what `convert` and `stats` read once would displace all other blocks."""
MANY = 1 << 22
"""Bytes of several ranges that are not kept."""


class Blocks:
    """The most recently used blocks, by object and number. Thread-safe.

    An object is any hashable value that changes with its content: a store, a key and a tag.
    """

    def __init__(self, capacity: int) -> None:
        """Keep at most `capacity` bytes."""
        self._kept = Recent[tuple[Hashable, int], bytes](capacity)

    def get(self, of: Hashable, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return those blocks of an object that are held, by number: `SIZE` bytes each, or fewer at its end."""
        found = ((number, self._kept.get((of, number))) for number in numbers)
        return {number: block for number, block in found if block is not None}

    def put(self, of: Hashable, start: int, content: Buffer, size: int) -> None:
        """Keep the complete blocks of a range that begins with a block; the last of an object may be short."""
        view = memoryview(content)
        for at in range(0, len(view), SIZE):
            block = bytes(view[at : at + SIZE])
            if len(block) == SIZE or start + len(view) >= size:
                self._kept.put((of, (start + at) // SIZE), block, len(block))

    def clear(self) -> None:
        """Drop all blocks. A forked child does: another thread of its parent may have held the lock."""
        self._kept = Recent(self._kept.limit)


def numbers_of(start: int, stop: int) -> range:
    """Return the numbers of the blocks that hold a range."""
    return range(start // SIZE, -(-stop // SIZE)) if start < stop else range(0)


def joined(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Join blocks to ranges that one request reads each. The blocks ascend. The result is the first block of each
    range, and the block after its last. Ranges bridge gaps of up to `GAP` bytes, and hold at most `LARGEST` bytes.
    """
    ranges = list[tuple[int, int]]()
    for number in numbers:
        if ranges:
            first, end = ranges[-1]
            if (number - end) * SIZE <= GAP and (number + 1 - first) * SIZE <= LARGEST:
                ranges[-1] = first, number + 1
                continue
        ranges.append((number, number + 1))
    return ranges
