"""python -m benchmarks [WORD] [--append]: run the cases whose name holds WORD, peer and tokfmt alternately; print and keep the table.

The whole table is kept in RESULTS.md; of some cases, the rows take the place of theirs with --append.

Every side of every run is a process of its own, imports included; the two sides take turns in one go, so that what else the
machine does meets both. Of the ratios of the runs the median counts. What is above 1 is faster than the peer.
"""

import compileall
import math
import statistics
import sys
import sysconfig
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.cases import CASES, load
from benchmarks.data import make
from benchmarks.run import RowFailed, side

RUNS = 3
LONG = 40  # seconds after which a row is not run again
RESULTS = Path(__file__).parent / "RESULTS.md"
COLUMNS = ("work", "measure", "CPU s", "wall s", "peak MB", "peer", "tokfmt", "ratio", "goal", "reached", "others")
EXPLAINED = """\
- A `ratio` above 1 means that tokfmt is faster than the peer.
- `CPU s`, `wall s` and `peak MB` are `peer / tokfmt`, of one process each, its children included. `peak MB` is the largest process.
- `peer` and `tokfmt` are rates, or the seconds for one item. The two sides do not always do the same amount of work.
- `others` is the share of the machine that other programs used during the row. Ratios by wall time need it to be near 0.
- Conversions write manifests, which is the default.
- Modules of both sides are compiled beforehand, as pip does.

"""


def row(case):
    side(case, "prepare")
    before, own = machine.clock(), time.process_time()
    runs, began = [], time.monotonic()
    most = getattr(case.pair, "runs", RUNS)
    while len(runs) < most and (not runs or time.monotonic() - began < LONG):
        runs.append((side(case, "peer"), side(case, "tokfmt")))
    spent = sum(one["cpu"] for run in runs for one in run) + time.process_time() - own
    return case, runs, machine.others(before, spent)


def cells(case, runs, others):
    peer, ours = ([run[i] for run in runs] for i in (0, 1))
    if any(one["amount"] is None for one in peer):
        return without_peer(case, ours, others)
    ratio = statistics.median(case.worth(b) / case.worth(a) for a, b in runs)

    def both(key, scale, digits):
        return " / ".join(
            f"{statistics.median(one[key] for one in which) * scale:,.{digits}f}" for which in (peer, ours)
        )

    rates = [case.worded(statistics.median(case.worth(one) for one in which)) for which in (peer, ours)]
    met = case.met(ratio, *(statistics.median(case.worth(one) for one in which) for which in (peer, ours)),
                   [max(one["rss"] for one in which) for which in (peer, ours)])  # fmt: skip
    return (case.name, case.measure, both("cpu", 1, 2), both("wall", 1, 2), both("rss", 1e-6, 0), *rates,
            f"**{ratio:.2f}**", case.goal, "yes" if met else "no", f"{others:.0%}")  # fmt: skip


def without_peer(case, ours, others):
    """The row of a peer that cannot be installed here: tokfmt's own figures, and the goals that are of these alone."""
    worth = statistics.median(case.worth(one) for one in ours)
    figures = [f"– / {statistics.median(one[key] for one in ours) * scale:,.{digits}f}"
               for key, scale, digits in (("cpu", 1, 2), ("wall", 1, 2), ("rss", 1e-6, 0))]  # fmt: skip
    met = case.met(math.inf, math.inf, worth, [0, max(one["rss"] for one in ours)])
    return (case.name, case.measure, *figures, "cannot be installed", case.worded(worth), "–", case.goal,
            "yes" if met else "no", f"{others:.0%}")  # fmt: skip


def line(words):
    return f"| {' | '.join(words)} |"


def main():
    words = [word for word in sys.argv[1:] if word != "--append"]
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    word = (words[0] if words else "").lower()
    load()
    make()
    for home in (Path(__file__).parents[1] / "tokfmt", sysconfig.get_path("purelib")):
        compileall.compile_dir(home, quiet=2)  # as pip does; else what is new is compiled in every run of every side
    began = time.monotonic()
    head = [
        "# Results of the last run of `make bench`",
        "",
        "With this table you can compare tokfmt with the method of a peer, one kind of work per row.",
        "",
        "```",
        "make bench",
        "make bench ONLY=hdf5",
        "```",
        "",
        *machine.described(),
        f"Each value is the median of up to {RUNS} alternate runs; a row that takes long has fewer.",
        "",
    ]
    print("\n".join(head))
    table = [line(COLUMNS), line(["---"] * len(COLUMNS))]
    print("\n".join(table), flush=True)
    failed = False
    for case in CASES.values():
        if word in case.name.lower():
            try:
                table.append(line(cells(*row(case))))
                print(table[-1], flush=True)
            except RowFailed as error:  # the other rows are worth having
                failed = True
                print(error, file=sys.stderr)
    took = f"The whole table took {(time.monotonic() - began) / 60:.1f} minutes."
    if not word:
        RESULTS.write_text("\n".join([*head, *table, "", EXPLAINED + took]) + "\n")
    elif "--append" in sys.argv:
        append(table[2:])
    sys.exit(failed)


def append(rows):
    """Rows run again take the place of those of the same work in RESULTS.md; new ones come last."""
    kept = RESULTS.read_text().splitlines()
    for row in rows:
        name = row.split(" | ")[0]
        at = next((i for i, old in enumerate(kept) if old.split(" | ")[0] == name), None)
        if at is not None:
            kept[at] = row
        else:
            kept.insert(max(i for i, old in enumerate(kept) if old.startswith("| ")) + 1, row)
    RESULTS.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
