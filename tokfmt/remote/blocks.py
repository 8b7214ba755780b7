"""Blocks of objects in memory: what was read from a store is not read again while a process works with it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

SIZE = 1 << 16
"""Bytes of a block. At 30 ms a request, 64 KiB take as long as one byte."""
GAP = 1 << 20
"""Bytes between two wanted ranges that take less time to read than another request."""
LARGEST = 1 << 23
"""Bytes of one request: the body of a larger one would exceed the time that a request may take on a slow line."""
STREAMED = 1 << 22
"""Bytes of a read that is not kept: what `convert` and `stats` read once would displace all other blocks."""


class Blocks:
    """The most recently used blocks, by object and number. Thread-safe.

    An object is any hashable value that changes with its content: a store, a key and a tag.
    """

    def __init__(self, capacity: int) -> None:
        """Keep at most `capacity` bytes."""
        self.capacity, self.held = capacity, 0
        self._blocks: OrderedDict[tuple[Hashable, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, of: Hashable, number: int) -> bytes | None:
        """Return a block: `SIZE` bytes, or fewer at the end of the object; None if it is not held."""
        with self._lock:
            found = self._blocks.get((of, number))
            if found is not None:
                self._blocks.move_to_end((of, number))
            return found

    def put(self, of: Hashable, start: int, content: bytes, size: int) -> None:
        """Keep the complete blocks of a range.

        Args:
            of: The object.
            start: First byte of the range, a multiple of `SIZE`.
            content: The bytes of the range.
            size: Size of the object: its last block may be shorter.
        """
        with self._lock:
            for at in range(0, len(content), SIZE):
                block = content[at : at + SIZE]
                if len(block) < SIZE and start + at + len(block) < size:
                    break
                place = of, (start + at) // SIZE
                self.held += len(block) - len(self._blocks.get(place, b""))
                self._blocks[place] = block
                self._blocks.move_to_end(place)
            while self.held > self.capacity:
                self.held -= len(self._blocks.popitem(last=False)[1])


def joined(numbers: list[int]) -> list[tuple[int, int]]:
    """Join blocks to ranges that one request reads each.

    Args:
        numbers: Numbers of blocks, ascending.

    Returns:
        The first block of each range, and the block after its last. Ranges bridge gaps of up to `GAP` bytes, and hold
        at most `LARGEST` bytes.
    """
    found = list[tuple[int, int]]()
    for number in numbers:
        if found:
            first, end = found[-1]
            if (number - end) * SIZE <= GAP and (number + 1 - first) * SIZE <= LARGEST:
                found[-1] = first, number + 1
                continue
        found.append((number, number + 1))
    return found
