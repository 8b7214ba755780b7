"""Align two datasets: find the sequences that are equal in order, those that moved, and those of one side only.

`diff` and `check --against` use this alignment.

1. Common beginnings are compared as arrays, at the speed of memory.
2. From the first difference on, every sequence has a fingerprint. A longest common subsequence of the fingerprints is
   the sequences that are equal in order. Equal sequences that remain on both sides have moved.
3. The other sequences are changed, or are on one side only.

Equal sequences are paired by that subsequence. A missing sequence is therefore never reported as moved because an equal
sequence is at another position.

Memory: 96 bytes per sequence of either side after the first difference. More than half of the machine's memory is
refused. Time: that of a sort, times the number of equal sequences. If there are too many equal sequences, only some
pairs of them are compared, and `exact` is False.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base import resources
from tokfmt.commands.compare.fingerprint import AxisSide, Fingerprints, Read, Side
from tokfmt.core import reader as token_axis
from tokfmt.errors import OptionError
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Workers

HELD = 96
"""Bytes held per sequence of either side after the first difference."""

PAIRS = 1 << 23
"""The maximum number of pairs of equal sequences that are all compared, in addition to one per sequence."""

_FIRST, _MOST = 1 << 8, 1 << 16  # sequences compared at once: few at first, because a difference is often early
_SMALL = 1 << 14  # tokens of the first window that is compared, for the same reason
_CHUNK = 1 << 16
_PARTS = 64  # parts of a multiset, which are matched one after the other

Positions = NDArray[np.int64]
Kind = Literal["changed", "only_in_a", "only_in_b", "moved", "swapped"]
Step = Literal["changed", "only_in_a", "only_in_b", "moved", "arrived", "swapped"]


@dataclass(frozen=True, slots=True)
class Surplus:
    """The sequences that one side has more often than the other.

    Attributes:
        count: The number of additional sequences.
        examples: The numbers of some of them, ascending.
    """

    count: int
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, in the words of `tokfmt diff --json`.

    Attributes:
        kind: "changed": different sequences at the same place. "moved": an equal sequence at another place. "swapped":
            two sequences that have exchanged their places. "only_in_a", "only_in_b": a sequence of one side only.
        a, b: The sequence numbers; None on the side that lacks the sequence.
        at_a, at_b: The numbers at which the difference is in either dataset.
        with_a, with_b: The numbers of the other sequence of "swapped", else None.
    """

    kind: Kind
    a: int | None
    b: int | None
    at_a: int
    at_b: int
    with_a: int | None = None
    with_b: int | None = None


class Stretch(NamedTuple):
    """Consecutive sequences that differ in the same way."""

    step: Step  # "moved" is of A, and elsewhere in B; "arrived" the reverse
    a: int  # on a side that lacks the sequence, the number that it would have
    b: int
    length: int


@dataclass(frozen=True)
class Alignment:
    """The alignment of two datasets A and B."""

    counts: tuple[int, int]
    # int64[n, 3], ascending: the first of A, the first of B, and the length of a run that is equal in order
    runs: Positions
    moves: Positions  # int64[m, 2], ascending in A: a sequence of A and an equal one of B elsewhere
    exact: bool = True  # `runs` is a longest common subsequence: the fewest sequences moved

    @property
    def same(self) -> int:
        """The number of sequences that are equal in order, without those that were swapped with their neighbor."""
        return int(self.runs[:, 2].sum()) - len(self._neighbors)

    @cached_property
    def differing(self) -> dict[Kind, int]:
        """The number of differences by kind; "swapped" counts pairs."""
        starts, stops = self._gaps
        moved = [np.bincount(gaps, minlength=len(starts)) for gaps in self._gaps_of_moves]
        left = [stops[:, side] - starts[:, side] - moved[side] for side in (0, 1)]
        both = int(np.minimum(left[0], left[1]).sum())
        swapped = len(self._swaps)
        far = swapped - len(self._neighbors)
        counts: dict[Kind, int] = {
            "changed": both,
            "only_in_a": int(left[0].sum()) - both,
            "only_in_b": int(left[1].sum()) - both,
            "moved": len(self.moves) - swapped - far,
            "swapped": swapped,
        }
        return {kind: count for kind, count in counts.items() if count}

    def differences(self) -> Iterator[Difference]:
        """Yield every difference in the order of A."""
        for step, a, b, count in self.stretches():
            if step in ("moved", "swapped"):
                yield from self._moved(a, b)
            elif step != "arrived":
                for k in range(count):
                    here, there = a + k * (step != "only_in_b"), b + k * (step != "only_in_a")
                    yield Difference(
                        step,
                        None if step == "only_in_b" else here,
                        None if step == "only_in_a" else there,
                        here,
                        there,
                    )

    def _moved(self, a: int, b: int) -> Iterator[Difference]:
        swap = self._swaps.get(a)
        if swap is not None:
            yield swap
        elif a not in self._seconds:
            at = int(np.searchsorted(self.moves[:, 0], a))
            yield Difference("moved", a, int(self.moves[at, 1]), a, b)

    def stretches(self) -> Iterator[Stretch]:
        """Yield the differences side by side: every sequence that is not in a run belongs to one stretch."""
        starts, stops = self._gaps
        moved = self.moves[:, 0], np.sort(self.moves[:, 1])
        edges = [(np.searchsorted(m, starts[:, k]), np.searchsorted(m, stops[:, k])) for k, m in enumerate(moved)]
        for gap in np.flatnonzero((stops > starts).any(1)).tolist():
            rows = [list(m[low[gap] : high[gap]].tolist()) for m, (low, high) in zip(moved, edges, strict=True)]
            yield from self._steps(starts[gap].tolist(), stops[gap].tolist(), rows[0], rows[1])

    def _steps(self, first: list[int], last: list[int], gone: list[int], came: list[int]) -> Iterator[Stretch]:
        """Yield the stretches of one gap between runs. The moved sequences of A and B in the gap are ascending."""
        (i, j), (end_a, end_b) = first, last
        gone, came = [*gone, end_a][::-1], [*came, end_b][::-1]
        while i < end_a or j < end_b:
            moved, arrived = i < end_a and i == gone[-1], j < end_b and j == came[-1]
            if moved and arrived and self._in_place(i, j):
                yield Stretch("swapped", i, j, 1)
                i, j = i + 1, j + 1
                gone.pop(), came.pop()
            elif moved:
                yield Stretch("moved", i, j, 1)
                i += 1
                gone.pop()
            elif arrived:
                yield Stretch("arrived", i, j, 1)
                j += 1
                came.pop()
            elif i < end_a and j < end_b:
                count = min(gone[-1] - i, came[-1] - j)
                yield Stretch("changed", i, j, count)
                i, j = i + count, j + count
            elif i < end_a:
                yield Stretch("only_in_a", i, j, gone[-1] - i)
                i = gone[-1]
            else:
                yield Stretch("only_in_b", i, j, came[-1] - j)
                j = came[-1]

    def _in_place(self, a: int, b: int) -> bool:
        """Return True if a moved sequence of A and one of B are at one of the two places of a swap."""
        swap = self._swaps.get(a) or self._seconds.get(a)
        return swap is not None and (a, b) in ((swap.a, swap.b), (swap.with_a, swap.with_b))

    @cached_property
    def _gaps(self) -> tuple[Positions, Positions]:
        """The starts and the stops in A and B of the gaps between runs, int64[gaps, 2] each, with both ends."""
        runs = self.runs
        starts = np.concatenate((np.zeros((1, 2), np.int64), runs[:, :2] + runs[:, 2:]))
        return starts, np.concatenate((runs[:, :2], np.array([self.counts], np.int64)))

    @cached_property
    def _gaps_of_moves(self) -> tuple[Positions, Positions]:
        """The gap of A in which each move begins, and the gap of B in which it ends."""
        starts = self._gaps[0]
        gaps = [np.searchsorted(starts[:, side], self.moves[:, side], side="right") - 1 for side in (0, 1)]
        return gaps[0], gaps[1]

    @cached_property
    def _swaps(self) -> dict[int, Difference]:
        """The swaps, by the sequence of A that moved, or by the first if both moved."""
        return {**self._apart, **self._neighbors}

    @cached_property
    def _apart(self) -> dict[int, Difference]:
        """The swaps of two moves of which each ends where the other begins, by the first sequence of A."""
        moves, (gap_a, gap_b) = self.moves, self._gaps_of_moves
        count = len(moves)
        if not count:
            return {}
        order = np.argsort(moves[:, 1])
        slot_a = gap_a * (count + 1) + _ranks(gap_a)
        slot_b = np.empty(count, np.int64)
        slot_b[order] = gap_b[order] * (count + 1) + _ranks(gap_b[order])
        into = order[
            np.minimum(np.searchsorted(slot_b[order], slot_a), count - 1)
        ]  # the move that ends where each move begins
        pairs = np.flatnonzero((slot_b[into] == slot_a) & (slot_a[into] == slot_b) & (moves[into, 0] > moves[:, 0]))
        swaps = {}
        for k in pairs.tolist():
            (a, goes), (other, comes) = moves[k].tolist(), moves[into[k]].tolist()
            swaps[a] = Difference("swapped", a, comes, a, comes, other, goes)
        return swaps

    @cached_property
    def _neighbors(self) -> dict[int, Difference]:
        """The swaps of a moved sequence with a neighbor that is in a run, by the sequence of A that moved."""
        swaps: dict[int, Difference] = {}
        used = {number for swap in self._apart.values() for number in (swap.a, swap.with_a)}
        a, b = self.moves[:, 0], self.moves[:, 1]
        for over in (1, -1):
            at = np.searchsorted(self.runs[:, 0], a + over, side="right") - 1
            run = self.runs[np.maximum(at, 0)] if len(self.runs) else np.zeros((len(a), 3), np.int64)
            within = (at >= 0) & (a + over < run[:, 0] + run[:, 2])
            meets = within & (run[:, 1] + a + over - run[:, 0] == b - over)
            for k in np.flatnonzero(meets).tolist():
                low, high = sorted((int(a[k]), int(a[k]) + over))
                if low not in used and high not in used:
                    used |= {low, high}
                    first = min(int(b[k]), int(b[k]) - over)
                    swaps[int(a[k])] = Difference("swapped", low, first, low, first, high, first + 1)
        return swaps

    @cached_property
    def _seconds(self) -> dict[int | None, Difference]:
        """The swaps of two moved sequences, by the second sequence of A."""
        return {swap.with_a: swap for swap in self._apart.values()}


def align(
    a: Side,
    b: Side,
    workers: Workers,
    progress: Callable[[int], None] = lambda _: None,
) -> Alignment:
    """Align two datasets. `progress` gets the number of tokens of both sides that were passed since the last call."""
    head = 0
    if isinstance(a, AxisSide) and isinstance(b, AxisSide) and a.ignored_end is None and b.ignored_end is None:
        head = alike_from_start(a, b, workers, lambda tokens: progress(2 * tokens))
    check_room(a.count + b.count - 2 * head, head)
    if head == a.count == b.count:
        return aligned(_NONE, _NONE, head)
    return aligned(a.fingerprints(head, workers, progress), b.fingerprints(head, workers, progress), head)


def check_room(count: int, first: int) -> None:
    """Raise OptionError if `count` sequences after the first difference need more than half of the memory."""
    if count * HELD > resources.share():
        raise OptionError(
            f"{count:,} sequences follow the first difference (sequence {first:,}). Aligning them takes "
            f"{count * HELD:,} bytes of memory, and half of this machine's is {resources.share():,}. "
            "--ignore-order needs less"
        )


_NONE = np.empty((0, 2), np.uint64)


def aligned(a: Fingerprints, b: Fingerprints, head: int = 0) -> Alignment:
    """Align the fingerprints, uint64[n, 2], of two datasets behind their first `head` sequences, which are equal."""
    before = _common(a, b)
    after = _common(a[before:][::-1], b[before:][::-1])
    x, y = _numbered(a[before : len(a) - after], b[before : len(b) - after])
    i, j, exact = _in_order(x, y)
    left_x, left_y = _others(len(x), i), _others(len(y), j)
    p, q = _paired(x[left_x], y[left_y])
    moves = np.stack([left_x[p], left_y[q]], axis=1) + head + before
    single = np.stack([i, j], axis=1) + head + before
    ends = np.array([[len(a) - after, len(b) - after]]) + head
    runs = _runs(head + before, single, ends, after)
    return Alignment((len(a) + head, len(b) + head), runs, moves, exact or not len(moves))


def alike_from_start(a: AxisSide, b: AxisSide, workers: Workers, progress: Callable[[int], None]) -> int:
    """Return the number of sequences at the beginning of both sides that are equal; their values are compared."""
    total, size = 0, _FIRST
    while total < min(a.count, b.count):
        count = min(size, a.count - total, b.count - total)
        bounds_a, bounds_b = a.reader.offsets(total, total + count), b.reader.offsets(total, total + count)
        other = np.flatnonzero(np.diff(bounds_a) != np.diff(bounds_b))
        equal = int(other[0]) if len(other) else count  # of equal length
        start_a, start_b = int(bounds_a[0]), int(bounds_b[0])
        reads = [
            (_from(read_a, start_a), _from(read_b, start_b))
            for read_a, read_b in zip(a.channels, b.channels, strict=True)
        ]
        position = first_unlike(reads, int(bounds_a[equal]) - start_a, workers, progress)
        if position >= 0:
            return total + int(np.searchsorted(bounds_a - start_a, position, side="right")) - 1
        total += equal
        if equal < count:
            return total
        size = min(4 * size, _MOST)
    return total


def _from(read: Read, begin: int) -> Read:
    return lambda start, stop: read(begin + start, begin + stop)


def first_unlike(
    reads: Sequence[tuple[Read, Read]],
    length: int,
    workers: Workers,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Return the first position below `length` at which a pair of channels differs; -1 if none does.

    Windows are compared in parallel. The first windows are small, because a difference is often near the start.
    """

    def compared(window: tuple[int, int]) -> int:
        begin, end = window
        wrong = [
            int(np.argmax(unlike))
            for read_a, read_b in reads
            if (unlike := read_a(begin, end) != read_b(begin, end)).any()
        ]
        return begin + min(wrong) if wrong else -1

    serial = isinstance(workers.executor, SerialExecutor) or length <= 4 * token_axis.WINDOW
    rest = _growing(length)
    while group := list(islice(rest, 1 if serial else 2 * workers.jobs)):
        apply = map if len(group) == 1 else workers.executor.map
        for window, position in zip(group, apply(compared, group), strict=True):
            if position >= 0:
                return position
            progress(window[1] - window[0])
    return -1


def _growing(length: int) -> Iterator[tuple[int, int]]:
    start, size = 0, min(_SMALL, token_axis.WINDOW)
    while start < length:
        stop = min(start + size, length)
        yield start, stop
        start, size = stop, min(2 * size, token_axis.WINDOW)


# with the order ignored


def surpluses(a: Fingerprints, b: Fingerprints, limit: int) -> tuple[Surplus, Surplus]:
    """Compare two datasets as multisets of sequences. A surplus has the numbers of up to `limit` sequences."""
    counts, examples = [0, 0], [np.empty(0, np.int64), np.empty(0, np.int64)]
    for part in range(_PARTS):
        mine = [_of_part(side, part) for side in (a, b)]
        x, y = _numbered(a[mine[0]], b[mine[1]])
        for side, paired in enumerate(_paired(x, y)):
            extra = mine[side][_others(len(mine[side]), paired)]
            counts[side] += len(extra)
            examples[side] = np.sort(np.concatenate([examples[side], extra[:limit]]))[:limit]
    both = [Surplus(n, tuple(some.tolist())) for n, some in zip(counts, examples, strict=True)]
    return both[0], both[1]


def _of_part(prints: Fingerprints, part: int) -> Positions:
    """Return the sequences of one of _PARTS parts, by the top bits of their fingerprints, read by windows."""
    numbers = [
        first
        + np.flatnonzero(
            prints[first : first + token_axis.WINDOW, 0] >> np.uint64(64 - _PARTS.bit_length() + 1) == part
        )
        for first in range(0, len(prints), token_axis.WINDOW)
    ]
    return np.concatenate(numbers) if numbers else np.empty(0, np.int64)


# numbers instead of fingerprints


def _common(a: Fingerprints, b: Fingerprints) -> int:
    """Return the number of equal fingerprints at the beginning of both."""
    length = min(len(a), len(b))
    for first in range(0, length, _MOST):
        last = min(first + _MOST, length)
        unlike = np.flatnonzero((a[first:last] != b[first:last]).any(1))
        if len(unlike):
            return first + int(unlike[0])
    return length


def _numbered(a: Fingerprints, b: Fingerprints) -> tuple[Positions, Positions]:
    """Return a number for each fingerprint; equal fingerprints have equal numbers."""
    prints = np.concatenate([a, b])
    order = np.lexsort((prints[:, 1], prints[:, 0]))
    prints = prints[order]
    fresh = np.zeros(len(prints), np.int64)
    if len(prints):
        fresh[1:] = (prints[1:] != prints[:-1]).any(1)
    numbers = np.empty(len(prints), np.int64)
    numbers[order] = np.cumsum(fresh)
    return numbers[: len(a)], numbers[len(a) :]


def _in_order(x: Positions, y: Positions) -> tuple[Positions, Positions, bool]:
    """Return the indexes in x and y of a common subsequence, and True if it is certain to be a longest one."""
    size = int(max(x.max(initial=-1), y.max(initial=-1))) + 1
    count_x, count_y = np.bincount(x, minlength=size), np.bincount(y, minlength=size)
    at_x, at_y = np.flatnonzero(count_y[x]), np.flatnonzero(count_x[y])  # numbers that both sides have
    short_x, short_y = x[at_x], y[at_y]
    pairs = count_x * count_y
    limit = PAIRS + len(short_x) + len(short_y)
    if float(pairs.sum(dtype=np.float64)) <= limit:
        p, q = _longest(short_x, short_y)
        return at_x[p], at_y[q], True
    few = np.argsort(pairs, kind="stable")
    few = few[np.cumsum(pairs[few], dtype=np.float64) <= limit]
    light = np.zeros(size, np.bool_)
    light[few] = True
    light_x, light_y = np.flatnonzero(light[short_x]), np.flatnonzero(light[short_y])
    p, q = _longest(short_x[light_x], short_y[light_y])
    p, q = light_x[p], light_y[q]
    # numbers with too many pairs are paired in order, in each stretch between the pairs that were found
    between = [_within(short, anchors, light, size) for short, anchors in ((short_x, p), (short_y, q))]
    more_p, more_q = _paired(between[0][1], between[1][1])
    p, q = np.concatenate([p, between[0][0][more_p]]), np.concatenate([q, between[1][0][more_q]])
    order = np.argsort(p)
    p, q = p[order], q[order]
    ascending = increasing(q)
    return at_x[p[ascending]], at_y[q[ascending]], False


def _within(x: Positions, anchors: Positions, light: NDArray[np.bool_], size: int) -> tuple[Positions, Positions]:
    """Return the indexes of numbers with many pairs, and a key per index: the number, and the anchors around it."""
    heavy = np.flatnonzero(~light[x])
    return heavy, np.searchsorted(anchors, heavy) * size + x[heavy]


def _longest(x: Positions, y: Positions) -> tuple[Positions, Positions]:
    """Return a longest common subsequence over all pairs of equal numbers (Hunt and Szymanski)."""
    begin, length = 0, min(len(x), len(y))
    unlike = np.flatnonzero(x[:length] != y[:length])
    begin = int(unlike[0]) if len(unlike) else length
    x, y = x[begin:], y[begin:]
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], x)
    each = np.searchsorted(y[order], x, side="right") - starts
    ends = np.cumsum(each)
    p = np.repeat(np.arange(len(x)), each)
    q = order[np.repeat(starts + ends - 1, each) - np.arange(len(p))]  # for each index of x, those of y descending
    ascending = increasing(q)
    in_step = np.flatnonzero(x[: len(y)] == y[: len(x)])
    p, q = (in_step, in_step) if len(in_step) == len(ascending) else (p[ascending], q[ascending])
    head = np.arange(begin)
    return np.concatenate([head, p + begin]), np.concatenate([head, q + begin])


def increasing(values: Positions) -> Positions:
    """Return the indexes of a longest strictly increasing subsequence (patience sorting)."""
    tails, holders = array("q"), array("q")
    before = np.empty(len(values), np.int64)
    k = 0
    for first in range(0, len(values), _CHUNK):
        predecessors = []
        for value in values[first : first + _CHUNK].tolist():
            at = len(tails) if not tails or value > tails[-1] else bisect_left(tails, value)
            if at == len(tails):
                tails.append(value)
                holders.append(k)
            else:
                tails[at], holders[at] = value, k
            predecessors.append(holders[at - 1] if at else -1)
            k += 1
        before[first : first + len(predecessors)] = predecessors
    out = np.empty(len(tails), np.int64)
    at = holders[-1] if holders else -1
    for place in range(len(out) - 1, -1, -1):
        out[place] = at
        at = int(before[at])
    return out


def _paired(x: Positions, y: Positions) -> tuple[Positions, Positions]:
    """Return the indexes of equal numbers, ascending in x: the first in x with the first in y, and so on."""
    keys = []
    size = max(len(x), len(y)) + 1
    _, both = np.unique(np.concatenate([x, y]), return_inverse=True)
    for numbers in (both[: len(x)], both[len(x) :]):
        order = np.argsort(numbers, kind="stable")
        rank = np.empty(len(numbers), np.int64)
        rank[order] = _ranks(numbers[order])
        keys.append(numbers * size + rank)
    _, p, q = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    order = np.argsort(p)
    return p[order], q[order]


def _ranks(ordered: Positions) -> Positions:
    """Return for each of ascending numbers how many equal numbers come before it."""
    return np.arange(len(ordered)) - np.searchsorted(ordered, ordered, side="left")


def _others(count: int, taken: Positions) -> Positions:
    left = np.ones(count, np.bool_)
    left[taken] = False
    return np.flatnonzero(left)


def _runs(head: int, single: Positions, ends: Positions, after: int) -> Positions:
    """Return the runs of a common beginning, single pairs, and a common end as one array, int64[n, 3]."""
    breaks = np.flatnonzero((np.diff(single, axis=0) != 1).any(1)) + 1 if len(single) else np.empty(0, np.int64)
    firsts = np.concatenate(([0], breaks)).astype(np.int64) if len(single) else breaks
    lengths = np.diff(np.concatenate((firsts, [len(single)]))) if len(single) else firsts
    middle = np.concatenate([single[firsts], lengths[:, None]], axis=1)
    rows = [np.array([[0, 0, head]]), middle, np.concatenate([ends, [[after]]], axis=1)]
    runs = np.concatenate([rows_ for rows_ in rows if len(rows_)]).astype(np.int64)
    return runs[runs[:, 2] > 0]
