"""The machine that the figures are of, and what else ran on it."""

import os
import platform
from pathlib import Path

from benchmarks.data import HOME


def described():
    """Lines for the head of the results."""
    processor = _field("/proc/cpuinfo", "model name") or platform.machine()
    memory = int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) >> 20
    load = os.getloadavg()[0]
    yield f"{os.cpu_count()} cores of {processor}, {memory} GiB of memory, {platform.machine()}; {platform.system()} {platform.release()};"
    yield f"Python {platform.python_version()}; file system {_file_system()}; one-minute load {load:.1f} at the start."


def clock():
    """CPU seconds that the machine has been busy, and that it could have been."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), sum(ticks) / os.sysconf("SC_CLK_TCK")


def others(before, own):
    """The share of the machine that programs other than this one used, which itself used `own` CPU seconds, since `before`."""
    busy, total = (now - then for now, then in zip(clock(), before, strict=True))
    return max(0.0, busy - own) / total if total else 0.0


def _field(path, name):
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _file_system():
    """Of the directory of the data."""
    HOME.mkdir(exist_ok=True)
    found = ("", "?")
    for mount in Path("/proc/mounts").read_text().splitlines():
        place, kind = mount.split()[1:3]
        if os.path.commonpath([place, HOME]) == place and len(place) >= len(found[0]):
            found = (place, kind)
    return found[1]
