"""Resources: processors and memory that this process may use, what freed blocks are kept, values that were used last.

In containers, and in jobs of clusters, it may use less than there is. Control groups of Linux say it, in one of two
ways, each group as much as those above it or less:

    /proc/self/cgroup            a line each: number:controllers:path; version 2 names no controllers
    /sys/fs/cgroup/PATH/         version 2: cpu.max ("150000 100000": quota and period, or "max 100000"), memory.max
    /sys/fs/cgroup/memory/PATH/  version 1: memory.limit_in_bytes; in cpu or cpu,cpuacct: cpu.cfs_quota_us (-1: none)

A container may not see the path, but finds its own group at the root.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WINDOW_BYTES = 1 << 24
"""A window of tokens at the widest, and as much again; never touched, so it takes no memory itself."""

_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_V1_PERIOD = "100000"  # microseconds, unless somebody has changed it


def cpus() -> int:
    """Processors; at least 1. A part of one counts as one."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = len(affinity(0)) if affinity else os.cpu_count() or 1
    for setting in _settings("cpu", "cpu.max", "cpu.cfs_quota_us"):
        quota, period = [*setting, _V1_PERIOD][:2]
        if quota.isdigit() and period.isdigit() and int(period):
            found = min(found, -(-int(quota) // int(period)))
    return max(1, found)


def memory() -> int:
    """Bytes of memory."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for setting in _settings("memory", "memory.max", "memory.limit_in_bytes"):
        if setting[0].isdigit():
            found = min(found, int(setting[0]))
    return found


def share() -> int:
    """Bytes that an answer may hold which grows with the number of sequences; beyond them, refuse or spill.

    Half of what the process may use.
    """
    return memory() // 2


def _settings(controller: str, second: str, first: str) -> Iterator[list[str]]:
    """The words of a setting in the process's group and each above it; `second` and `first` name it by version."""
    try:
        lines = _OWN.read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        base, name = (_GROUPS / controllers, first) if controllers else (_GROUPS, second)
        group = base / path.strip("/")
        while True:
            try:
                words = (group / name).read_text().split()
            except (OSError, ValueError):
                words = []
            if words:
                yield words
            if group in (base, group.parent):
                break
            group = group.parent


def keep_freed_memory() -> None:
    """Let the allocator keep up to 32 MiB of what is freed, at hand for the next window. Once a process.

    glibc gives large blocks back to the kernel as soon as they are freed, and gets them again page by page, zeroed: a
    third of the CPU of a conversion that does nothing but copy. What counts as large rises to the largest block that
    was freed so far, and twice as much is kept. Other allocators take no notice.
    """
    bytes(_WINDOW_BYTES)  # calloc; a bytearray would be filled with zeros, which takes 9 ms


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
