"""Which rows of two datasets belong together, as far as a walk has found out: steps from top to bottom.

A step is a pair of rows, or one row that the other side lacks. Only stretches that differ are kept, run by run: between
them both go in step, and beyond the last one they are taken to, until the walk gets there. Threads share it.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from tokfmt.ops.alignment import Change

RUNS = 1 << 18
"""Stretches held: 10 MB."""

ONLY_A, ONLY_B, CHANGED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Pair:
    """Rows that belong together; None on the side that lacks one. `differs`: as far as is known."""

    a: int | None
    b: int | None
    differs: bool

    def row(self, side: int) -> int | None:
        """Of A (0) or B (1)."""
        return self.b if side else self.a


class Pairing:
    """The steps of two datasets of `counts` rows."""

    def __init__(self, counts: tuple[int, int]) -> None:
        self.counts = counts
        self.differing = {CHANGED: 0, ONLY_A: 0, ONLY_B: 0}
        self._lock = threading.RLock()
        # of each run: its first step and rows, which sides have it, how many steps
        self._steps, self._a, self._b, self._kind, self._count = (array("q") for _ in range(5))

    @property
    def full(self) -> bool:
        """No more differences can be held."""
        return len(self._steps) >= RUNS

    @property
    def total(self) -> int:
        """Steps, as far as is known."""
        with self._lock:
            step, a, b = self._end(len(self._steps) - 1)
            return step + max(0, self.counts[0] - a, self.counts[1] - b)

    def add(self, change: Change) -> None:
        """The next difference that the walk found."""
        kind = (ONLY_A if change.a is not None else 0) | (ONLY_B if change.b is not None else 0)
        with self._lock:
            self.differing[kind] += 1
            last = len(self._steps) - 1
            step, a, b = self._end(last)
            if last >= 0 and (change.at_a, change.at_b, kind) == (a, b, self._kind[last]):
                self._count[last] += 1
                return
            values = (step + change.at_a - a, change.at_a, change.at_b, kind, 1)
            for column, value in zip((self._steps, self._a, self._b, self._kind, self._count), values, strict=True):
                column.append(value)

    def _end(self, run: int) -> tuple[int, int, int]:
        """Step and rows behind a run; those of the beginning for -1."""
        if run < 0:
            return 0, 0, 0
        count, kind = self._count[run], self._kind[run]
        return (
            self._steps[run] + count,
            self._a[run] + (count if kind & ONLY_A else 0),
            self._b[run] + (count if kind & ONLY_B else 0),
        )

    def pair(self, step: int) -> Pair:
        """The rows of a step."""
        with self._lock:
            run = bisect_right(self._steps, step) - 1
            end, a, b = self._end(run)
            if step < end:
                k, kind = step - self._steps[run], self._kind[run]
                return Pair(
                    self._a[run] + k if kind & ONLY_A else None, self._b[run] + k if kind & ONLY_B else None, True
                )
        a, b = a + step - end, b + step - end
        found_a, found_b = (a if a < self.counts[0] else None), (b if b < self.counts[1] else None)
        return Pair(found_a, found_b, found_a is None or found_b is None)

    def step_of(self, side: int, row: int) -> int:
        """The step of a row of A (0) or B (1)."""
        starts, mine = (self._b, ONLY_B) if side else (self._a, ONLY_A)
        with self._lock:
            run = bisect_right(starts, row) - 1
            if run >= 0 and self._kind[run] & mine and row < starts[run] + self._count[run]:
                return self._steps[run] + row - starts[run]
            end = self._end(run)
            return end[0] + row - end[1 + side]

    def following(self, step: int) -> int | None:
        """The next step that is known to differ."""
        with self._lock:
            run = bisect_right(self._steps, step) - 1
            if run >= 0 and step + 1 < self._end(run)[0]:
                return step + 1
            return self._steps[run + 1] if run + 1 < len(self._steps) else None

    def preceding(self, step: int) -> int | None:
        """The last step before this one that is known to differ."""
        with self._lock:
            run = bisect_left(self._steps, step) - 1
            return None if run < 0 else min(step, self._end(run)[0]) - 1
