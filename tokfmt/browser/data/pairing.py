"""Align the rows of two datasets step by step, and find the tokens that differ between two rows.

A step is a pair of rows, or one row that the other side lacks. Until the alignment is known, rows with equal numbers
are pairs. Only runs of steps that differ are stored, in 40 bytes each. Threads can share a `Pairing`.

For a pair of rows, a worker finds the tokens that differ, and the token of one row for each token of the other. It
compares the rows as arrays up to the first difference, and matches up to LOOKED tokens after it. Runs of four tokens
that occur once in both rows are matched, as many as both rows have in one order. Between these, stretches of equal
length are compared token by token. The time is that of sorting.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import cpus
from tokfmt.browser.data.rows import Damage, Piece, RowSource, Viewport, damage_of, fetched, fetched_span
from tokfmt.browser.data.session import Session
from tokfmt.browser.data.workers import CancelledError, Job, said
from tokfmt.commands.compare.alignment import Alignment, Kind, Step, align, increasing
from tokfmt.commands.compare.diff import OpenedPair, counted, open_both
from tokfmt.commands.compare.fingerprint import hands
from tokfmt.errors import TokfmtError
from tokfmt.source.request import SourceRequest

_STEPS: tuple[Step, ...] = ("changed", "only_in_a", "only_in_b", "moved", "arrived", "swapped")
_IN_A = tuple(step not in ("only_in_b", "arrived") for step in _STEPS)
_IN_B = tuple(step not in ("only_in_a", "moved") for step in _STEPS)


@dataclass(frozen=True, slots=True)
class Pair:
    """The rows of a step.

    Attributes:
        a: Number of the row of A; None if A lacks it.
        b: Number of the row of B; None if B lacks it.
        differs: The rows are known to differ.
        elsewhere: For a row that moved, its number on the other side.
    """

    a: int | None
    b: int | None
    differs: bool
    elsewhere: int | None = None

    def row(self, side: int) -> int | None:
        """Return the number of the row of A (0) or B (1)."""
        return self.b if side else self.a


class Pairing:
    """The steps of two datasets of `counts` rows."""

    def __init__(self, counts: tuple[int, int], alignment: Alignment | None = None) -> None:
        self.counts = counts
        self._lock = threading.RLock()
        self._alignment: Alignment | None = None
        # for each run: its first step, its first rows, its kind, its number of steps
        self._steps, self._a, self._b, self._kind, self._count = (array("q") for _ in range(5))
        if alignment is not None:
            self.settle(alignment)

    def settle(self, alignment: Alignment) -> None:
        """Use an alignment, which is complete."""
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
        """Return the number of steps, as far as is known."""
        with self._lock:
            step, a, b = self._end(len(self._steps) - 1)
            return step + max(0, self.counts[0] - a, self.counts[1] - b)

    def _end(self, run: int) -> tuple[int, int, int]:
        """Return the step and the rows after a run; zeros for run -1."""
        if run < 0:
            return 0, 0, 0
        count, kind = self._count[run], self._kind[run]
        return self._steps[run] + count, self._a[run] + count * _IN_A[kind], self._b[run] + count * _IN_B[kind]

    def pair(self, step: int) -> Pair:
        """Return the rows of a step."""
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
        """Return the step of a row of A (0) or B (1)."""
        starts, mine = (self._b, _IN_B) if side else (self._a, _IN_A)
        with self._lock:
            run = bisect_right(starts, row) - 1
            if run >= 0 and mine[self._kind[run]] and row < starts[run] + self._count[run]:
                return self._steps[run] + row - starts[run]
            end = self._end(run)
            return end[0] + row - end[1 + side]

    def following(self, step: int) -> int | None:
        """Return the next step that is known to differ, if any."""
        with self._lock:
            run = bisect_right(self._steps, step) - 1
            if run >= 0 and step + 1 < self._end(run)[0]:
                return step + 1
            return self._steps[run + 1] if run + 1 < len(self._steps) else None

    def preceding(self, step: int) -> int | None:
        """Return the last step before this one that is known to differ, if any."""
        with self._lock:
            run = bisect_left(self._steps, step) - 1
            return None if run < 0 else min(step, self._end(run)[0]) - 1


Sessions = tuple[Session, Session]


class Comparison:
    """Align the views of two sessions, as `tokfmt diff` does.

    Args:
        sessions: The sessions of A and B.
        progressed: Called in the thread of the comparison at most ten times a second and at the end; it must pass the
            news to the thread of the screen.

    Attributes:
        pairing: The steps; rows with equal numbers are pairs until the alignment is known.
        alike: Number of equal rows so far.
        unlike_from: The first row that differs, which is known before the alignment.
        differing: Number of differences of each kind, after the end.
        exact: See `Alignment`.
        state: "walking", "done", "stopped" or "failed".
        failure: The error of state "failed".
    """

    def __init__(self, sessions: Sessions, progressed: Callable[[], object]) -> None:
        self.sessions, self._progressed = sessions, progressed
        self.ports = sessions[0].port, sessions[1].port
        self.pairing = Pairing((self.ports[0].count, self.ports[1].count))
        self.alike, self.state, self.failure = 0, "walking", ""
        self.unlike_from: int | None = None
        self.differing: Mapping[Kind, int] = {}
        self.exact = True
        self._open = _opening(sessions)
        self.job = Job(self._walk, self._end, progressed)

    @property
    def differing_words(self) -> str:
        """Return the number of differences of each kind in words: `2 changed, 409 only in A`."""
        return counted(self.differing)

    @property
    def walking(self) -> bool:
        """Return whether the comparison is running."""
        return self.state == "walking"

    def stop(self) -> bool:
        """Stop the comparison; return False if it has ended."""
        if not self.walking:
            return False
        self.job.cancel()
        self.state = "stopped"
        return True

    def _walk(self, job: Job) -> str:
        jobs = cpus()
        both = self._open(job, jobs=jobs)
        try:
            job.phase("comparing", both.a.tokens + both.b.tokens, both.unit)
            with hands(jobs) as workers:
                found = align(both.a, both.b, workers, job.advance, self._begun)
            self.pairing.settle(found)
            self.alike, self.differing, self.exact = found.same, found.differing, found.exact
            return "done"
        finally:
            both.close()

    def _begun(self, alike: int) -> None:
        self.alike = alike
        if (alike, alike) != self.pairing.counts:
            self.unlike_from = alike
        self._progressed()

    def _end(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self.failure = said(outcome)
            self.state = "failed"
        elif self.walking:
            self.state = str(outcome)
        self._progressed()


def _opening(sessions: Sessions) -> Callable[..., OpenedPair]:
    """Return a function that opens both datasets as they are shown now, with the other arguments of `open_both`."""
    asked = sessions[0].request
    a, b = (
        SourceRequest(
            session.request.paths[:1],
            session.format_name,
            asked.eos,
            asked.options,
            asked.text_field,
            session.split or session.request.split,
            bos=asked.bos,
        )
        for session in sessions
    )
    choice = next((session.choice for session in sessions if session.vocabulary and session.choice), None)
    samples = all(session.shown == "samples" for session in sessions)
    return partial(open_both, a, b, tokenizer=choice.name if choice else None, samples=samples)


def common_view(sessions: Sessions, other_than: str = "") -> str:
    """Return the name of a view that both sessions have, documents before samples; "" without one."""
    names = [[view.name for view in session.opened.views] for session in sessions]
    shared = [name for name in ("documents", "records", "rows", "samples") if all(name in some for some in names)]
    return next((name for name in shared if name != other_than), "")


def unit_of(sessions: Sessions) -> str:
    """Return the noun for a row of either session: "document", for example, or "sequence" if they differ."""
    names = {session.view.singular for session in sessions}
    return names.pop() if len(names) == 1 else "sequence"


# which tokens of two rows differ

LOOKED = 1 << 16
"""Number of tokens matched after the first difference."""

_FIRST, _MOST = 1 << 12, 1 << 20  # tokens compared at once: at first, and at most


@dataclass(frozen=True, slots=True)
class Hunk:
    """The tokens `a <= i < a_stop` of one row that replace `b <= j < b_stop` of the other."""

    a: int
    a_stop: int
    b: int
    b_stop: int

    def side(self, side: int) -> range:
        """Return the tokens of A (0) or B (1)."""
        return range(self.b, self.b_stop) if side else range(self.a, self.a_stop)


@dataclass(frozen=True, slots=True)
class Marks:
    """The differences between two rows.

    Attributes:
        hunks: The differences in order.
        known: Number of tokens of A and of B that were compared; None for all.
    """

    hunks: Sequence[Hunk] = ()
    known: tuple[int, int] | None = None
    _starts: tuple[list[int], list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [hunk.a for hunk in self.hunks], [hunk.b for hunk in self.hunks]
        object.__setattr__(self, "_starts", starts)

    def between(self, side: int, first: int, last: int) -> list[range]:
        """Return the ranges of tokens that differ and touch `first <= i < last`."""
        starts = self._starts[side]
        a, b = max(0, bisect_right(starts, first) - 1), bisect_left(starts, last)
        return [hunk.side(side) for hunk in self.hunks[a:b]]

    def across(self, side: int, token: int) -> int:
        """Return the token of the other side for a token of this side."""
        found = bisect_right(self._starts[side], token) - 1
        if found < 0:
            return token
        mine, other = self.hunks[found].side(side), self.hunks[found].side(1 - side)
        if token < mine.stop or token == mine.start:  # the second if only the other side has tokens
            return min(other.start + token - mine.start, max(other.start, other.stop - 1))
        return other.stop + token - mine.stop

    def following(self, side: int, token: int) -> Hunk | None:
        """Return the first hunk after a token, if any."""
        found = bisect_right(self._starts[side], token)
        return self.hunks[found] if found < len(self.hunks) else None

    def near(self, side: int, token: int) -> Hunk:
        """Return the hunk that holds a token, or else the next one, or the last one. There must be one."""
        held = bisect_right(self._starts[side], token) - 1
        if held >= 0 and token < max(self.hunks[held].side(side).stop, self._starts[side][held] + 1):
            return self.hunks[held]
        return self.hunks[min(held + 1, len(self.hunks) - 1)]

    def preceding(self, side: int, token: int) -> Hunk | None:
        """Return the last hunk that begins before a token, if any."""
        found = bisect_left(self._starts[side], token) - 1
        return self.hunks[found] if found >= 0 else None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a port."""

    port: RowSource
    number: int

    def length(self) -> int:
        """Return the number of units.

        Raises:
            TokfmtError: The row is damaged.
        """
        span = fetched_span(self.port, self.number)
        if isinstance(span, Damage):
            raise TokfmtError(span.why)
        return span.length

    def piece(self, start: int, stop: int) -> Piece:
        """Read some units without the cache of the screen.

        Raises:
            TokfmtError: The row is damaged.
        """
        port = self.port
        span = fetched_span(port, self.number)
        if isinstance(port, Viewport) and not isinstance(span, Damage) and span.start is not None:
            return port.read(span.start + start, span.start + stop)
        found = fetched(port, self.number, start, stop)
        if isinstance(found, Damage):
            raise TokfmtError(found.why)
        return found


def marks_of(a: Row, b: Row, wanted: Callable[[], bool] = lambda: True) -> Marks | Damage:
    """Return the differences between two rows; `wanted` returns false to stop between windows."""
    try:
        first = first_unlike(a, b, wanted)
        lengths = a.length(), b.length()
        if first is None:
            return Marks()
        ends = min(lengths[0], first + LOOKED), min(lengths[1], first + LOOKED)
        x, y = _keys(a.piece(first, ends[0]), b.piece(first, ends[1]))
    except TokfmtError as error:
        return damage_of(error)
    whole = ends == lengths
    hunks = [
        Hunk(first + p.start, first + p.stop, first + q.start, first + q.stop) for p, q in unlike(x, y, whole=whole)
    ]
    return Marks(hunks, None if whole else ends)


def first_unlike(a: Row, b: Row, wanted: Callable[[], bool] = lambda: True) -> int | None:
    """Return the first token at which two rows differ in ID, mask or label; None if they are equal.

    If one row is the beginning of the other, this is its length.

    Raises:
        TokfmtError: One of the rows is damaged.
        CancelledError: `wanted` returned false.
    """
    lengths, start, size = (a.length(), b.length()), 0, _FIRST
    while start < min(lengths):
        if not wanted():
            raise CancelledError("cancelled")
        stop = min(start + size, *lengths)
        found = _differing(a.piece(start, stop), b.piece(start, stop))
        if found.any():
            return start + int(np.argmax(found))
        start, size = stop, min(4 * size, _MOST)
    return None if lengths[0] == lengths[1] else min(lengths)


def _differing(a: Piece, b: Piece) -> NDArray[np.bool_]:
    """Return bool[units]: true where two pieces of equal length differ in ID, or in mask or label if both have them."""
    found = np.asarray(a.units != b.units)
    if a.masks is not None and b.masks is not None:
        found |= a.masks != b.masks
    if a.labels is not None and b.labels is not None:
        found |= a.labels != b.labels
    return found


def _keys(a: Piece, b: Piece) -> tuple[Keys, Keys]:
    """Return one number per token: its ID, or the rank of its (ID, mask, label) among those of both pieces."""
    if a.masks is None or b.masks is None or a.labels is None or b.labels is None:
        return a.units, b.units
    rows = [np.stack([p.units.astype(np.int64), p.masks, p.labels], axis=1) for p in (a, b)]  # type: ignore[list-item]
    found = np.unique(np.concatenate(rows), axis=0, return_inverse=True)[1].reshape(-1)
    return found[: len(rows[0])], found[len(rows[0]) :]


_GRAM = 4
_PAIRS = 64  # limit of the length of gaps in which every pair of tokens is compared

Keys = NDArray[np.generic]


def unlike(x: Keys, y: Keys, *, whole: bool) -> Iterator[tuple[range, range]]:
    """Yield the stretches of x and y that replace each other, in order.

    Args:
        x: Number of each token of A, [n].
        y: Number of each token of B, [m].
        whole: Both rows end here, so that a common end is equal.
    """
    end = _alike(x[::-1], y[::-1]) if whole else 0
    x, y = x[: len(x) - end], y[: len(y) - end]
    i = j = 0
    for p, q, length in [*_anchors(x, y), (len(x), len(y), 0)]:
        within = max(i - p, j - q, 0)  # tokens of the anchor that are matched already
        if within and (within >= length or i - p != j - q):
            continue
        yield from _gap(x, y, range(i, p + within), range(j, q + within))
        i, j = p + length, q + length


def _alike(x: Keys, y: Keys) -> int:
    """Return the length of the common beginning."""
    count = min(len(x), len(y))
    unlike = np.flatnonzero(x[:count] != y[:count])
    return int(unlike[0]) if len(unlike) else count


def _gap(x: Keys, y: Keys, p: range, q: range) -> Iterator[tuple[range, range]]:
    before = _alike(x[p.start : p.stop], y[q.start : q.stop])
    p, q = p[before:], q[before:]
    after = _alike(x[p.start : p.stop][::-1], y[q.start : q.stop][::-1])
    p, q = p[: len(p) - after], q[: len(q) - after]
    if not p and not q:
        return
    u, v = x[p.start : p.stop], y[q.start : q.stop]
    if len(p) == len(q):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], u != v, [False]]).astype(np.int8))).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            yield p[start:stop], q[start:stop]
    elif max(len(p), len(q)) <= _PAIRS:
        for kind, a, a_stop, b, b_stop in SequenceMatcher(None, u.tolist(), v.tolist(), autojunk=False).get_opcodes():
            if kind != "equal":
                yield p[a:a_stop], q[b:b_stop]
    else:
        yield p, q


def _anchors(x: Keys, y: Keys) -> list[tuple[int, int, int]]:
    """Return (position in x, position in y, length) of stretches that occur once in both, in the order of both."""
    if min(len(x), len(y)) < _GRAM:
        return []
    (places_x, hashes_x), (places_y, hashes_y) = _once(x), _once(y)
    _, i, j = np.intersect1d(hashes_x, hashes_y, assume_unique=True, return_indices=True)
    i, j = places_x[i], places_y[j]
    same = np.ones(len(i), np.bool_)
    for k in range(_GRAM):
        same &= x[i + k] == y[j + k]
    i, j = i[same], j[same]
    order = np.argsort(i)
    i, j = i[order], j[order]
    kept = increasing(j)
    i, j = i[kept], j[kept]
    new = (np.diff(i) != np.diff(j)) | (np.diff(i) > _GRAM)  # else the run extends the previous one
    starts, stops = np.flatnonzero(np.append(True, new)[: len(i)]), np.flatnonzero(np.append(new, True)[: len(i)])
    lengths = i[stops] - i[starts] + _GRAM
    return list(zip(i[starts].tolist(), j[starts].tolist(), lengths.tolist(), strict=True))


def _once(x: Keys) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Return the positions and the hashes of the runs of four tokens that occur once."""
    count = len(x) - _GRAM + 1
    hashes = np.zeros(count, np.uint64)
    for k in range(_GRAM):
        hashes = (hashes ^ x[k : k + count].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    values, places, counts = np.unique(hashes, return_index=True, return_counts=True)
    return places[counts == 1], values[counts == 1]
