"""python -m benchmarks [WORD]: run the cases whose name holds WORD, peer and tokfmt alternately; print and keep the table.

The ratio is tokfmt's work per CPU second over the peer's (user + system, whole process, imports included), the median of three
alternate runs in one go. Goals are those of each case; what is above 1 is faster than the peer.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.data import make

RUNS = 3
RESULTS = Path(__file__).parent / "RESULTS.md"


def side(name, which):
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.side", name, which, out], capture_output=True, text=True,
            cwd=Path(__file__).resolve().parents[1],
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{name} ({which}) failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


def rate(run):
    return run["amount"] / run["cpu"]


def row(name):
    _, goal, unit = CASES[name]
    side(name, "prepare")
    runs = [(side(name, "peer"), side(name, "tokfmt")) for _ in range(RUNS)]
    ratio = statistics.median(rate(ours) / rate(peer) for peer, ours in runs)
    peer, ours = (statistics.median(rate(run[i]) for run in runs) for i in (0, 1))
    rss = max(run[1]["rss"] for run in runs) / 1e6
    wall = statistics.median(run[1]["wall"] for run in runs)
    met = "yes" if ratio >= float(goal.split()[-1]) else "no"
    return f"| {name} | {peer:,.3g} | {ours:,.3g} {unit}/cpu-s | {wall:.2f} | {rss:,.0f} | **{ratio:.2f}** | {goal} | {met} |"


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    make()
    lines = [
        "# Results of the last run of `make bench`",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, Linux, Python {platform.python_version()}; one job; medians of {RUNS} alternate runs.",
        "",
        "| work | peer | tokfmt | wall s | peak MB | ratio | goal | met |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines[4:]))
    for name in CASES:
        if word.lower() in name.lower():
            lines.append(row(name))
            print(lines[-1], flush=True)
    if not word:
        RESULTS.write_text("\n".join(lines) + "\n")


main()
