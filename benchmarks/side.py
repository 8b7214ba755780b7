"""One side of one case in a process of its own: python -m benchmarks.side CASE peer|tokfmt OUT"""

import json
import resource
import sys
import threading
import time
from pathlib import Path

from benchmarks.cases import CASES, load


def watch(most):
    """Note the most anonymous memory that this process has had, in kB, as often as it can be asked."""
    while True:
        now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
        most[0] = max(most[0], now)
        time.sleep(0.005)


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    name, side, out = sys.argv[1:]
    load(name)
    pair = CASES[name].pair()
    if side == "prepare":
        getattr(pair, "prepare", lambda: None)()
        sys.exit()
    anonymous = [0]
    if getattr(pair, "anonymous", False):
        threading.Thread(target=watch, args=(anonymous,), daemon=True).start()
    began = time.monotonic()
    amount = getattr(pair, side)(Path(out))
    wall = time.monotonic() - began
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = seconds(resource.getrusage(resource.RUSAGE_SELF)) + seconds(children)
    # of this process not ru_maxrss, which a child inherits from whoever started it
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    most = anonymous[0] or max(peak, children.ru_maxrss)
    print(json.dumps({"amount": amount, "cpu": cpu, "wall": wall, "rss": most << 10}))
