"""Compare two token axes in step, and find the step again where one has a sequence more.

Identical stretches are compared as arrays, at the speed of memory. Where two sequences differ, the fingerprints of
those that follow tell where both go on alike: with 8 equal sequences in a row, else with the nearest equal one.

Limits: sequences are looked for within the next 2^20; what was inserted beyond is told as changed. Of data that agree
nowhere for so long, the far look is repeated only after as many sequences, so that time stays proportional to the data.
Memory: 16 bytes for each sequence looked ahead on either side, at most 32 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import axis
from tokfmt.core.axis import TokenReader
from tokfmt.ops.fingerprint import Fingerprints, fingerprints_of

AHEAD = (32, 1 << 10, 1 << 15, 1 << 20)
"""Sequences looked ahead at, one after the other, until the step is found again."""

RUN = 8
"""Equal sequences in a row that count as having found it."""

_FIRST, _MOST = 1 << 8, 1 << 16  # sequences compared at once: few after a difference, then more
_SMALL = 1 << 14  # tokens compared at once: the same
_ALL_PAIRS = 64  # sequences of which every pair is compared

Read = Callable[[int, int], NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Side:
    """One dataset.

    Attributes:
        reader: Its sequences.
        channels: What each token carries, read by positions: its id first, then loss mask and labels where these are
            compared as well. Both sides have the same ones.
    """

    reader: TokenReader
    channels: Sequence[Read]

    @property
    def count(self) -> int:
        """Number of sequences."""
        return self.reader.info.sequences


@dataclass(frozen=True, slots=True)
class Change:
    """What is not alike.

    Attributes:
        a, b: Sequence numbers; None on the side that lacks it.
        at_a, at_b: Where in either dataset that is.
        print_a, print_b: Fingerprints, of those that are there.
    """

    a: int | None
    b: int | None
    at_a: int
    at_b: int
    print_a: bytes = b""
    print_b: bytes = b""


@dataclass(slots=True)
class _Ahead:
    """Fingerprints of the sequences that come next, each computed once."""

    reader: TokenReader
    first: int = 0
    known: Fingerprints = field(default_factory=lambda: np.empty((0, 2), np.uint64))

    def look(self, first: int, count: int) -> Fingerprints:
        """Those of `count` sequences from `first` on, fewer at the end. `first` never goes back."""
        self.known = self.known[first - self.first :]
        self.first = first
        wanted = min(count, self.reader.info.sequences - first)
        if wanted > len(self.known):
            more = fingerprints_of(self.reader, first + len(self.known), first + wanted)
            self.known = np.concatenate([self.known, *more])
        return self.known[:wanted]


class Alignment:
    """One walk through two datasets.

    Attributes:
        same: Sequences found alike so far.
    """

    def __init__(
        self, a: Side, b: Side, executor: Executor | None, progress: Callable[[int], None], *, jobs: int = 1
    ) -> None:
        """Begin.

        Args:
            a, b: The datasets.
            executor: Threads that compare long stretches, or None.
            progress: Told how many more tokens of A were passed.
            jobs: Windows compared at once.
        """
        self.a, self.b, self.executor, self.jobs, self.progress = a, b, executor, jobs, progress
        self.same = 0
        self._ahead_a, self._ahead_b = _Ahead(a.reader), _Ahead(b.reader)
        self._far_from = [0] * len(AHEAD)  # where in A a look so far ahead is allowed again

    def changes(self) -> Iterator[Change]:
        """What differs, in order."""
        i = j = 0
        while i < self.a.count and j < self.b.count:
            alike = self._alike(i, j)
            self.same += alike
            i, j = i + alike, j + alike
            if i < self.a.count and j < self.b.count:
                skip_a, skip_b = self._resynchronise(i, j)
                yield from self._differing(i, j, skip_a, skip_b)
                i, j = i + skip_a, j + skip_b
        for first in range(i, self.a.count, _MOST):
            yield from self._differing(first, j, min(_MOST, self.a.count - first), 0)
        for first in range(j, self.b.count, _MOST):
            yield from self._differing(i, first, 0, min(_MOST, self.b.count - first))

    def _alike(self, i: int, j: int) -> int:
        """How many sequences from i in A and j in B on are alike."""
        total, size = 0, _FIRST
        while i + total < self.a.count and j + total < self.b.count:
            count = min(size, self.a.count - i - total, self.b.count - j - total)
            bounds_a = self.a.reader.offsets(i + total, i + total + count)
            bounds_b = self.b.reader.offsets(j + total, j + total + count)
            other = np.flatnonzero(np.diff(bounds_a) != np.diff(bounds_b))
            equal = int(other[0]) if len(other) else count  # of equal length
            start_a, start_b = int(bounds_a[0]), int(bounds_b[0])
            found = self.first_difference(start_a, start_b, int(bounds_a[equal]) - start_a)
            if found >= 0:
                return total + int(np.searchsorted(bounds_a - start_a, found, side="right")) - 1
            total += equal
            if equal < count:
                return total
            size = min(4 * size, _MOST)
        return total

    def first_difference(self, start_a: int, start_b: int, length: int) -> int:
        """How many tokens are alike from two positions on, or -1 when all `length` are."""

        def compared(window: tuple[int, int]) -> int:
            begin, end = window
            wrong = [
                int(np.argmax(unlike))
                for read_a, read_b in zip(self.a.channels, self.b.channels, strict=True)
                if (unlike := read_a(start_a + begin, start_a + end) != read_b(start_b + begin, start_b + end)).any()
            ]
            return begin + min(wrong) if wrong else -1

        together = self.jobs if self.executor is not None and length > 4 * axis.WINDOW else 1
        rest = _growing(length)
        while group := list(islice(rest, together)):
            for window, found in zip(group, self._mapped(compared, group), strict=True):
                if found >= 0:
                    return found
                self.progress(window[1] - window[0])
        return -1

    def _mapped(self, function: Callable[[tuple[int, int]], int], group: Sequence[tuple[int, int]]) -> Iterator[int]:
        if self.executor is None or len(group) == 1:
            return map(function, group)
        return self.executor.map(function, group)

    def _resynchronise(self, i: int, j: int) -> tuple[int, int]:
        """How many sequences of A and of B to pass until both go on alike; at least one of one of them."""
        weak: tuple[int, int] | None = None
        for level, count in enumerate(AHEAD):
            if level and i < self._far_from[level]:
                break
            self._far_from[level] = i + count
            prints_a, prints_b = self._ahead_a.look(i, count), self._ahead_b.look(j, count)
            if not level and _swapped(prints_a, prints_b):
                return 2, 2
            found, strong = _meeting(prints_a[:, 0], prints_b[:, 0])
            if strong and found is not None:
                self._far_from[level:] = [0] * (len(AHEAD) - level)
                return found
            weak = weak or found
            if i + len(prints_a) == self.a.count and j + len(prints_b) == self.b.count:
                break
        return weak or (len(prints_a), len(prints_b))

    def _differing(self, i: int, j: int, skip_a: int, skip_b: int) -> Iterator[Change]:
        """The changes within a stretch of A and one of B that do not match as a whole."""
        prints_a, prints_b = self._ahead_a.look(i, skip_a), self._ahead_b.look(j, skip_b)
        paired = min(skip_a, skip_b)
        alike = (prints_a[:paired] == prints_b[:paired]).all(1)
        for k in range(max(skip_a, skip_b)):
            if k < paired and alike[k] and self._alike_in_all(i + k, j + k):
                self.same += 1
                continue
            yield Change(
                i + k if k < skip_a else None,
                j + k if k < skip_b else None,
                min(i + k, i + skip_a),
                min(j + k, j + skip_b),
                prints_a[k].tobytes() if k < skip_a else b"",
                prints_b[k].tobytes() if k < skip_b else b"",
            )
        if skip_a:
            bounds = self.a.reader.offsets(i, i + skip_a)
            self.progress(int(bounds[-1] - bounds[0]))

    def _alike_in_all(self, i: int, j: int) -> bool:
        """Whether two sequences of equal ids are alike in what else they carry."""
        if len(self.a.channels) == 1:
            return True
        start, stop = self.a.reader.offsets(i, i + 1).tolist()
        return self.first_difference(start, int(self.b.reader.offsets(j, j)[0]), stop - start) < 0


def _growing(length: int) -> Iterator[tuple[int, int]]:
    """Consecutive windows, small ones first: after one difference the next is often near."""
    start, size = 0, min(_SMALL, axis.WINDOW)
    while start < length:
        stop = min(start + size, length)
        yield start, stop
        start, size = stop, min(2 * size, axis.WINDOW)


def _meeting(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> tuple[tuple[int, int] | None, bool]:
    """Where two rows of fingerprints go on alike: how many of each come before, and whether that is sure."""
    if len(a) <= _ALL_PAIRS and len(b) <= _ALL_PAIRS:
        x, y = np.nonzero(a[:, None] == b[None, :])
    else:
        _, x, y = np.intersect1d(a, b, return_indices=True)  # the first of each
    keep = (x + y) > 0
    x, y = x[keep], y[keep]
    if not len(x):
        return None, False
    sure = np.ones(len(x), np.bool_)
    for k in range(RUN):
        sure &= (x + k < len(a)) & (y + k < len(b))
        sure[sure] = a[x[sure] + k] == b[y[sure] + k]
    score = (x + y) * 2 + (x != y)  # near first; of equally near ones that in step
    best = np.argmin(np.where(sure, score, np.iinfo(np.int64).max) if sure.any() else score)
    return (int(x[best]), int(y[best])), bool(sure[best])


def _swapped(a: Fingerprints, b: Fingerprints) -> bool:
    """Whether the next two sequences stand in each other's place."""
    return len(a) > 1 and len(b) > 1 and bool((a[:2] == b[1::-1]).all())
