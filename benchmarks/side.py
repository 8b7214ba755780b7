"""One side of one case in a process of its own: python -m benchmarks.side CASE peer|tokfmt OUT"""

import json
import resource
import sys
import time
from pathlib import Path

from benchmarks.cases import CASES

if __name__ == "__main__":
    name, side, out = sys.argv[1:]
    pair = CASES[name][0]()
    if side == "prepare":
        getattr(pair, "prepare", lambda: None)()
        sys.exit()
    began = time.monotonic()
    amount = getattr(pair, side)(Path(out))
    wall = time.monotonic() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # not ru_maxrss, which a child inherits from whoever started it
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"amount": amount, "cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "rss": int(peak) << 10}))
