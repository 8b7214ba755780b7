"""Memory of the process: what freed blocks are kept, how much an answer may hold, values that were used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tokfmt.core.machine import memory

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WINDOW_BYTES = 1 << 24
"""A window of tokens at the widest, and as much again; never touched, so it takes no memory itself."""

_SHARE = 2  # one part in so many


def keep_freed_memory() -> None:
    """Let the allocator keep up to 32 MiB of what is freed, at hand for the next window. Once a process.

    glibc gives large blocks back to the kernel as soon as they are freed, and gets them again page by page, zeroed: a
    third of the CPU of a conversion that does nothing but copy. What counts as large rises to the largest block that
    was freed so far, and twice as much is kept. Other allocators take no notice.
    """
    bytes(_WINDOW_BYTES)  # calloc; a bytearray would be filled with zeros, which takes 9 ms


def share() -> int:
    """Bytes that an answer may hold which grows with the number of sequences; beyond them, refuse or spill.

    Half of what the process may use.
    """
    return memory() // _SHARE


class Recent(Generic[K, V]):
    """A cache of the values used last, up to a total size, and of the last one whatever its size.

    Shared by threads. A pickle of it is empty.

    Args:
        most: Total size, in whatever `put` counts: bytes, or values.
    """

    def __init__(self, most: int) -> None:
        self.most, self._size = most, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value of a key, None when it is not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Keep a value; those that were not used for longest make room."""
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = value, size
            self._size += size - before
            while len(self._values) > 1 and self._size > self.most:
                self._size -= self._values.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def __reduce__(self) -> tuple[type[Recent[K, V]], tuple[int]]:
        return Recent, (self.most,)
