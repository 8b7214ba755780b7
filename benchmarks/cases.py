"""What a case is, and which modules hold cases: each a peer's method, restated in a few lines, and tokfmt doing the same work.

A module of cases is one more name in `MODULES`. A case is a class with two methods, `peer(out)` and `tokfmt(out)`, both given an
empty directory, and perhaps `prepare()`, which runs before and is not measured. What they return depends on the measure:

    measure   returned                         ratio                                goal, any of these joined by commas
    cpu       amount of work                   of amounts per CPU second            >= 4.5        the ratio
    wall      amount of work                   of amounts per second                <= 0.25 ms    tokfmt's seconds
    seconds   seconds for one of a thing       of seconds, the peer's over ours     <= +60 ms     seconds more than the peer
    bytes     bytes for one of a thing         of bytes, the peer's over ours       <= 5 B        tokfmt's bytes
    rate      amounts per CPU second, as the   of these                             <= 200 MB     peak of memory
              side itself has measured them                                         <= +40 MB     more of it than the peer
                                                                                    >= 300 M/s    tokfmt's millions a second

A case may say in `runs` how often it is run at most, and in `fresh` how many bytes each side writes to the page cache;
so much memory is touched before it runs.
A peer that cannot be installed here returns None, and its row says so.
"""

import os
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from benchmarks.data import EOS, HOME

MODULES = (
    "indexes",
    "text",
    "flat_tokens",
    "hdf5",
    "plain",
    "merging",
    "scaling",
    "statistics",
    "overlap",
    "two_jobs",
    "browsing",
    "training",
    "preparing",
    "access",
    "megatron",
    "runs",
    "model",
    "columns",
    "remote",
)

CASES = {}


@dataclass(frozen=True)
class Case:
    name: str
    pair: type
    goal: str
    unit: str
    measure: str

    def worth(self, run):
        """The more the better: amounts per second of what is measured."""
        if self.measure == "rate":
            return run["amount"]
        return 1 / run["amount"] if self.measure in ("seconds", "bytes") else run["amount"] / run[self.measure]

    def worded(self, worth):
        if self.measure == "seconds":
            return f"{1 / worth * 1e3:,.3g} ms"
        if self.measure == "bytes":
            return f"{1 / worth:,.2f} B"
        return f"{worth:,.3g} {self.unit}/{'s' if self.measure == 'wall' else 'cpu-s'}"

    def met(self, ratio, peer, ours, rss):
        """Whether the goal is reached; `rss` are bytes of the peer and ours."""
        for term in self.goal.split(","):
            sign, figure, *unit = term.split()
            if not unit:
                value = ratio
            elif unit == ["MB"]:
                value = (rss[1] - (rss[0] if figure.startswith("+") else 0)) / 1e6
            elif unit == ["B"]:
                value = 1 / ours
            elif unit == ["M/s"]:
                value = ours / 1e6
            else:
                value = 1e3 / ours - (1e3 / peer if figure.startswith("+") else 0)
            if not (value >= float(figure) if sign == ">=" else value <= float(figure)):
                return False
        return True


def case(name, goal, unit, measure="cpu"):
    def register(pair):
        CASES[name] = Case(name, pair, goal, unit, measure)
        return pair

    return register


def load(name=None):
    """Fill CASES, as far as the one of that name: what modules behind it import is no part of its work."""
    for module in MODULES:
        if name not in CASES:
            import_module(f"benchmarks.{module}")


def convert(*words, jobs=1, **how):
    import tokfmt
    from tokfmt.run.execute import POOLS

    for pool in POOLS:  # as the command line does
        os.environ[pool] = str(jobs)
    return tokfmt.convert(*words, jobs=jobs, **how)  # with a manifest, as is the default


def documents():
    """The stream of the stage1 block, and where its documents end."""
    stream = np.fromfile(HOME / "stage1_block_0000.bin", "<i4")
    return stream, np.flatnonzero(stream == EOS)


def p50(one, items):
    """Median seconds of `one(item)`, each item once, in a process that has just begun to read."""
    import time

    times = []
    for item in items:
        began = time.perf_counter()
        one(item)
        times.append(time.perf_counter() - began)
    return float(np.median(times))
