"""Pair sequences that only one side has by likeness: the share of runs of three values that both hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.integer]

MOST = 2_000
"""Sequences of each side that are paired at most."""
_RUN = 3
_LEAST = 0.3  # likeness of a pair, from 0 to 1
_COMMON = 200  # sequences with one run, from which on the run says little and is passed over


def pairs(a: Sequence[Values], b: Sequence[Values]) -> list[tuple[int, int, float]]:
    """Return the indexes of the most similar sequences of both sides with their likeness, each in one pair at most."""
    mine, others = [_runs(one) for one in a], [_runs(one) for one in b]
    holders = defaultdict[tuple[int, ...], list[int]](list)
    for j, runs in enumerate(others):
        for run in runs:
            holders[run].append(j)
    found = list[tuple[float, int, int]]()
    for i, runs in enumerate(mine):
        shared = Counter(j for run in runs if len(holders.get(run, ())) < _COMMON for j in holders.get(run, ()))
        for j, count in shared.items():
            likeness = count / (len(runs) + len(others[j]) - count)
            if likeness >= _LEAST:
                found.append((likeness, i, j))
    taken_a, taken_b, chosen = set[int](), set[int](), list[tuple[int, int, float]]()
    for likeness, i, j in sorted(found, key=lambda one: (-one[0], one[1], one[2])):
        if i not in taken_a and j not in taken_b:
            taken_a.add(i)
            taken_b.add(j)
            chosen.append((i, j, likeness))
    return sorted(chosen)


def _runs(values: Values) -> set[tuple[int, ...]]:
    listed = values.tolist()
    if len(listed) < _RUN:
        return {tuple(listed)}
    return {tuple(listed[k : k + _RUN]) for k in range(len(listed) - _RUN + 1)}
