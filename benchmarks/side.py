"""One side of one case in a process of its own: python -m benchmarks.side CASE peer|tokfmt OUT"""

import json
import resource
import sys
import time
from pathlib import Path

from benchmarks.cases import CASES, load


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    name, side, out = sys.argv[1:]
    load()
    pair = CASES[name].pair()
    if side == "prepare":
        getattr(pair, "prepare", lambda: None)()
        sys.exit()
    began = time.monotonic()
    amount = getattr(pair, side)(Path(out))
    wall = time.monotonic() - began
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = seconds(resource.getrusage(resource.RUSAGE_SELF)) + seconds(children)
    # of this process not ru_maxrss, which a child inherits from whoever started it
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"amount": amount, "cpu": cpu, "wall": wall, "rss": max(peak, children.ru_maxrss) << 10}))
