"""Resources: the processors and the memory that this process may use, the allocator, and a cache of recent values.

In a container or a job of a cluster, the process may use less than the machine has. Control groups of Linux state the
limits, in one of two versions. Each group is limited by the groups above it as well:

    /proc/self/cgroup            one line each: number:controllers:path; version 2 lists no controllers
    /sys/fs/cgroup/PATH/         version 2: cpu.max ("150000 100000": quota and period, or "max 100000"), memory.max
    /sys/fs/cgroup/memory/PATH/  version 1: memory.limit_in_bytes; in cpu or cpu,cpuacct: cpu.cfs_quota_us (-1: none)

A container may not see the path, but has its own group at the root.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WINDOW_BYTES = 1 << 24
"""Twice the size of a window of tokens of the widest dtype. The block is never touched, so it takes no memory."""

_M_ARENA_MAX = -8  # Of malloc.h.

_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_V1_PERIOD = "100000"  # Microseconds, the default of the kernel.


def cpus() -> int:
    """Return the number of processors, at least 1. A fraction is rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = len(affinity(0)) if affinity else os.cpu_count() or 1
    for setting in _settings(_OWN, _GROUPS, "cpu", "cpu.max", "cpu.cfs_quota_us"):
        quota, period = [*setting, _V1_PERIOD][:2]
        if quota.isdigit() and period.isdigit() and int(period):
            found = min(found, -(-int(quota) // int(period)))
    return max(1, found)


def memory() -> int:
    """Return the memory in bytes."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for setting in _settings(_OWN, _GROUPS, "memory", "memory.max", "memory.limit_in_bytes"):
        if setting[0].isdigit():
            found = min(found, int(setting[0]))
    return found


def share() -> int:
    """Return the bytes that data may take that grows with the number of sequences: half of the memory."""
    return memory() // 2


@cache  # They are asked for several times in each command.
def _settings(own: Path, groups: Path, controller: str, second: str, first: str) -> list[list[str]]:
    """Return the words of a setting (its names in version 2 and 1) in the process's group and each group above it."""
    try:
        lines = own.read_text().splitlines()
    except (OSError, ValueError):
        return []
    found = list[list[str]]()
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        base, name = (groups / controllers, first) if controllers else (groups, second)
        group = base / path.strip("/")
        while True:
            with contextlib.suppress(OSError, ValueError):
                found.append((group / name).read_text().split())
            if group in (base, group.parent):
                break
            group = group.parent
    return [words for words in found if words]


@cache  # A second call would fill 32 MiB of memory that the allocator has kept with zeros, which takes 2.5 ms.
def keep_freed_memory() -> None:
    """Make the allocator keep up to 32 MiB of freed memory for the next window, once for each process.

    Call it where a process begins to read much: in the command line, before a job of Python, and in workers.

    glibc returns large blocks to the kernel as soon as they are freed, and gets them again page by page, zeroed. This
    takes a third of the CPU time of a conversion that only copies. The size that counts as large rises to the largest
    block freed so far, and glibc keeps twice as much. Other allocators ignore the call.
    """
    bytes(_WINDOW_BYTES)  # This calls calloc. A bytearray would be filled with zeros, which takes 9 ms.


def share_freed_memory() -> None:
    """Make all threads of this process use one pool of freed memory, before they start.

    glibc gives each thread a pool of its own, and keeps up to 64 MiB in each. Sixteen threads that each receive 8 MiB
    at a time would hold five times what they use. Other allocators have no such function.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


class Recent(Generic[K, V]):
    """A cache of the most recently used values, up to a total size. The last value is kept whatever its size.

    Thread-safe. A pickle of it is empty. The limit is the total size, in the unit of `put`: bytes, or values.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self._size = limit, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it is not cached."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Cache a value, and drop the least recently used ones beyond the total size."""
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = value, size
            self._size += size - before
            while len(self._values) > 1 and self._size > self.limit:
                self._size -= self._values.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def __reduce__(self) -> tuple[type[Recent[K, V]], tuple[int]]:
        return Recent, (self.limit,)
