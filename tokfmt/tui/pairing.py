"""Which rows of two datasets belong together, step by step from top to bottom: an alignment, laid side by side.

A step is a pair of rows, or one row that the other side lacks. Until both are aligned they are taken to go in step.
Only stretches that differ are kept, run by run: 40 bytes each. Threads share it.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.compare.alignment import Alignment, Kind, Step, align
from tokfmt.ops.compare.diff import Compared, open_both
from tokfmt.ops.compare.fingerprint import hands
from tokfmt.ops.source.request import SourceRequest
from tokfmt.tui.rows import Damage, fetched
from tokfmt.tui.session import Session
from tokfmt.tui.token_diff import Row, first_unlike
from tokfmt.tui.workers import Job

_STEPS: tuple[Step, ...] = ("changed", "only_in_a", "only_in_b", "moved", "arrived", "swapped")
_IN_A = tuple(step not in ("only_in_b", "arrived") for step in _STEPS)
_IN_B = tuple(step not in ("only_in_a", "moved") for step in _STEPS)


@dataclass(frozen=True, slots=True)
class Pair:
    """Rows that belong together.

    Attributes:
        a, b: Their numbers; None on the side that lacks one.
        differs: As far as is known.
        elsewhere: Of a row that has moved: its number on the other side.
    """

    a: int | None
    b: int | None
    differs: bool
    elsewhere: int | None = None

    def row(self, side: int) -> int | None:
        """Of A (0) or B (1)."""
        return self.b if side else self.a


class Pairing:
    """The steps of two datasets of `counts` rows."""

    def __init__(self, counts: tuple[int, int], alignment: Alignment | None = None) -> None:
        self.counts = counts
        self._lock = threading.RLock()
        self._alignment: Alignment | None = None
        # of each run: its first step and rows, how it differs, how many steps
        self._steps, self._a, self._b, self._kind, self._count = (array("q") for _ in range(5))
        if alignment is not None:
            self.settle(alignment)

    def settle(self, alignment: Alignment) -> None:
        """Both are aligned."""
        with self._lock:
            self._alignment = alignment
            step, i, j = 0, 0, 0
            for stretch in alignment.stretches():
                kind = _STEPS.index(stretch.step)
                if self._steps and (stretch.a, stretch.b, kind) == (i, j, self._kind[-1]):
                    self._count[-1] += stretch.length
                    step, i, j = self._end(len(self._steps) - 1)
                    continue
                step += stretch.a - i
                values = (step, stretch.a, stretch.b, kind, stretch.length)
                for column, value in zip((self._steps, self._a, self._b, self._kind, self._count), values, strict=True):
                    column.append(value)
                step, i, j = self._end(len(self._steps) - 1)

    @property
    def total(self) -> int:
        """Steps, as far as is known."""
        with self._lock:
            step, a, b = self._end(len(self._steps) - 1)
            return step + max(0, self.counts[0] - a, self.counts[1] - b)

    def _end(self, run: int) -> tuple[int, int, int]:
        """Step and rows behind a run; those of the beginning for -1."""
        if run < 0:
            return 0, 0, 0
        count, kind = self._count[run], self._kind[run]
        return self._steps[run] + count, self._a[run] + count * _IN_A[kind], self._b[run] + count * _IN_B[kind]

    def pair(self, step: int) -> Pair:
        """The rows of a step."""
        with self._lock:
            run = bisect_right(self._steps, step) - 1
            end, a, b = self._end(run)
            if step < end:
                k, kind = step - self._steps[run], self._kind[run]
                here = self._a[run] + k if _IN_A[kind] else None
                there = self._b[run] + k if _IN_B[kind] else None
                return Pair(here, there, differs=True, elsewhere=self._elsewhere(here, there))
        a, b = a + step - end, b + step - end
        found_a, found_b = (a if a < self.counts[0] else None), (b if b < self.counts[1] else None)
        return Pair(found_a, found_b, differs=found_a is None or found_b is None)

    def _elsewhere(self, a: int | None, b: int | None) -> int | None:
        if self._alignment is None or (a is None) == (b is None):
            return None
        return self._alignment.elsewhere(0, a) if a is not None else self._alignment.elsewhere(1, b or 0)

    def step_of(self, side: int, row: int) -> int:
        """The step of a row of A (0) or B (1)."""
        starts, mine = (self._b, _IN_B) if side else (self._a, _IN_A)
        with self._lock:
            run = bisect_right(starts, row) - 1
            if run >= 0 and mine[self._kind[run]] and row < starts[run] + self._count[run]:
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


Sessions = tuple[Session, Session]


@dataclass(frozen=True, slots=True)
class First:
    """The first difference.

    Attributes:
        step: Of the pairing; pair: its rows.
        token: The first that differs; None where a row is only on one side.
        values: Both ids there; None where a row has ended.
    """

    step: int
    pair: Pair
    token: int | None = None
    values: tuple[int | None, int | None] = (None, None)


class Comparison:
    """Aligns the views that two sessions show, as `tokfmt diff` does.

    Args:
        sessions: A and B.
        told: Called on the walk's thread, at most ten times a second, and at the end; must hand over to the screen.

    Attributes:
        pairing: Which rows belong together; in step until all is known.
        first: The first difference, when there is one.
        alike: Rows alike so far.
        unlike_from: The first row from which on they are not alike, known before the others are aligned.
        differing: How many differences of each kind, when all is known.
        exact: See `Alignment`.
        state: "walking", "done", "stopped" or "failed".
        failure: Why.
    """

    def __init__(self, sessions: Sessions, told: Callable[[], object]) -> None:
        self.sessions, self._told = sessions, told
        self.ports = sessions[0].port, sessions[1].port
        self.pairing = Pairing((self.ports[0].count, self.ports[1].count))
        self.first: First | None = None
        self.alike, self.state, self.failure = 0, "walking", ""
        self.unlike_from: int | None = None
        self.differing: Mapping[Kind, int] = {}
        self.exact = True
        self._open = _opening(sessions)
        self.job = Job(self._walk, self._end, told)

    @property
    def walking(self) -> bool:
        """More may be found."""
        return self.state == "walking"

    def stop(self) -> bool:
        """Call the walk off; False when it has ended."""
        if not self.walking:
            return False
        self.job.cancel()
        self.state = "stopped"
        return True

    def _walk(self, job: Job) -> str:
        jobs = os.cpu_count() or 1
        both = self._open(job, jobs=jobs)
        try:
            job.phase("comparing", both.a.tokens + both.b.tokens, both.unit)
            with hands(jobs) as workers:
                found = align(both.a, both.b, workers, job.advance, self._begun)
            self.pairing.settle(found)
            self.alike, self.differing, self.exact = found.same, found.differing, found.exact
            self.first = self._first()
            return "done"
        finally:
            both.close()

    def _begun(self, alike: int) -> None:
        self.alike = alike
        if (alike, alike) != self.pairing.counts:
            self.unlike_from = alike
        self._told()

    def _first(self) -> First | None:
        step = self.pairing.following(-1)
        if step is None:
            return None
        pair = self.pairing.pair(step)
        if pair.a is None or pair.b is None:
            return First(step, pair)
        rows = Row(self.ports[0], pair.a), Row(self.ports[1], pair.b)
        try:
            token = first_unlike(*rows)
        except TokfmtError:
            return First(step, pair)
        return First(step, pair, token, (_value(rows[0], token), _value(rows[1], token)))

    def _end(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            known = isinstance(outcome, TokfmtError)
            self.failure = str(outcome) if known else f"unexpected {type(outcome).__name__}: {outcome}"
            self.state = "failed"
        elif self.walking:
            self.state = str(outcome)
        self._told()


def _value(row: Row, token: int | None) -> int | None:
    found = None if token is None else fetched(row.port, row.number, token, token + 1)
    return None if found is None or isinstance(found, Damage) or not len(found.units) else int(found.units[0])


def _opening(sessions: Sessions) -> Callable[..., Compared]:
    """Opens both to be compared as they are shown now; takes what is left of `open_both`."""
    asked = sessions[0].request
    a, b = (
        SourceRequest(
            session.request.paths[:1], session.format_name, asked.eos, asked.options, asked.text_field,
            session.split or session.request.split,
        )
        for session in sessions
    )  # fmt: skip
    choice = next((session.choice for session in sessions if session.vocabulary and session.choice), None)
    samples = all(session.shown == "samples" for session in sessions)
    return partial(open_both, a, b, tokenizer=choice.name if choice else None, samples=samples)


def common_view(sessions: Sessions, other_than: str = "") -> str:
    """The name of a view that both have, documents rather than samples; "" when there is none."""
    names = [[view.name for view in session.opened.views] for session in sessions]
    shared = [name for name in ("documents", "records", "rows", "samples") if all(name in some for some in names)]
    return next((name for name in shared if name != other_than), "")


def unit_of(sessions: Sessions) -> str:
    """What a row of either is called: "document", or "sequence" where they differ."""
    names = {session.view.singular for session in sessions}
    return names.pop() if len(names) == 1 else "sequence"


def comparable(sessions: Sessions) -> bool:
    """Whether their tokens can be held against each other."""
    return sessions[0].port.unit == sessions[1].port.unit
