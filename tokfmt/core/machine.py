"""What of the machine this process may use: less than there is in containers, and in jobs of clusters.

Control groups of Linux say it, in one of two ways, each group as much as those above it or less:

    /proc/self/cgroup            a line each: number:controllers:path; version 2 names no controllers
    /sys/fs/cgroup/PATH/         version 2: cpu.max ("150000 100000": quota and period, or "max 100000"), memory.max
    /sys/fs/cgroup/memory/PATH/  version 1: memory.limit_in_bytes; in cpu or cpu,cpuacct: cpu.cfs_quota_us (-1: none)

A container may not see the path, but finds its own group at the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

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
