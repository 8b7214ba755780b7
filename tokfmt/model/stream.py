"""The spans of a stream, which only separators divide. They are found when a number or a position is asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import WINDOW, check_interval, largest_id, windows
from tokfmt.core.resources import cpus
from tokfmt.model.axis import Axis, Numbers
from tokfmt.model.batch import AFTER, BEFORE, Batch, Beside
from tokfmt.model.spans import Contents, Extents, Spans, TokensAt

How = Literal["after", "before", "between"]
_STEP = 1 << 8  # Sequences per base position of `Compact`.
_WIDEST_GAP = 255
_SCAN = 1 << 22  # Tokens that a thread scans at once.


class _Pieces(NamedTuple):
    """Whole sequences of a window, and the window, which begins at `base` and ends where the search is."""

    starts: Offsets
    stops: Offsets
    beside: Beside
    window: Tokens | None
    base: int


class Compact:
    """Contents in the order of the axis, at most one slot and seldom more apart: 5.03 bytes per sequence."""

    def __init__(self, blocks: Iterable[tuple[Offsets, Offsets, Beside]]) -> None:
        """Store the contents of all blocks, in order."""
        lengths, gaps, bases = [np.empty(0, np.uint32)], [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
        wide, bare = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)]
        self.count = end = 0
        for starts, stops, beside in blocks:
            if not len(starts):
                continue
            gap, length = starts - np.append(end, stops[:-1]), stops - starts
            beyond = np.flatnonzero((gap > _WIDEST_GAP) | (length >> 32 != 0))
            wide.append(np.column_stack((beyond + self.count, gap[beyond], length[beyond])))
            bases.append((starts - gap)[-self.count % _STEP :: _STEP])
            lengths.append(length.astype(np.uint32))
            gaps.append(np.minimum(gap, _WIDEST_GAP).astype(np.uint8))
            bare.append(np.flatnonzero(beside == 0) + self.count)
            self.count, end = self.count + len(starts), int(stops[-1])
        self._lengths, self._gaps, self._bases = np.concatenate(lengths), np.concatenate(gaps), np.concatenate(bases)
        self._wide, self._bare = np.concatenate(wide), np.concatenate(bare)

    def contents(self, first: int, last: int) -> tuple[Offsets, Offsets]:
        """Return the starts and the stops of the sequences `first <= i < last`."""
        begin = first - first % _STEP
        lengths, gaps = self._lengths[begin:last].astype(np.int64), self._gaps[begin:last].astype(np.int64)
        if len(self._wide):
            a, b = np.searchsorted(self._wide[:, 0], (begin, last))
            gaps[self._wide[a:b, 0] - begin], lengths[self._wide[a:b, 0] - begin] = self._wide[a:b, 1:].T
        stops = np.cumsum(gaps + lengths)
        if last > begin:
            stops += self._bases[begin // _STEP]
        return (stops - lengths)[first - begin :], stops[first - begin :]

    def contents_of(self, numbers: Numbers) -> tuple[Offsets, Offsets]:
        """Return the starts and the stops of sequences with given numbers. It decodes the blocks that hold them."""
        blocks, places = np.unique(numbers // _STEP, return_inverse=True)
        found = [self.contents(k * _STEP, min(self.count, (k + 1) * _STEP)) for k in blocks.tolist()]
        inside = numbers % _STEP + np.cumsum([0, *(len(starts) for starts, _ in found)])[places]
        starts, stops = (np.concatenate([one[k] for one in found] or [np.empty(0, np.int64)]) for k in (0, 1))
        return starts[inside], stops[inside]

    def is_closed(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which sequences have a separator."""
        if not len(self._bare):
            return np.ones(len(numbers), np.bool_)
        places = np.minimum(np.searchsorted(self._bare, numbers), len(self._bare) - 1)
        return np.asarray(self._bare[places] != numbers)

    def finder(self) -> Callable[[int], tuple[int, int]]:
        """Return a function that returns the start and the stop of one sequence, in as few steps as possible."""
        lengths, gaps, bases, wide = self._lengths, self._gaps, self._bases.data, bool(len(self._wide))
        add, held = np.add.reduce, self._lengths.data

        def find(number: int) -> tuple[int, int]:
            if wide:
                starts, stops = self.contents(number, number + 1)
                return int(starts[0]), int(stops[0])
            begin = number - number % _STEP
            within = slice(begin, number + 1)
            stop = bases[begin // _STEP] + int(add(lengths[within], dtype=np.int64)) + int(add(gaps[within]))
            return stop - held[number], stop

        return find

    def has_separator(self, number: int) -> bool:
        """Return whether one sequence has a separator."""
        return not self._bare.size or bool(self.is_closed(np.array([number]))[0])

    def at(self, position: int, closed: int) -> int | None:
        """Return the last sequence that starts at or before a position, its `closed` slots in front included."""
        block = int(np.searchsorted(self._bases, position, "right"))
        if not self.count:
            return None
        begin = max(0, block - 1) * _STEP
        last = min(self.count, begin + _STEP)
        starts = self.contents(begin, last)[0] - closed * self.is_closed(np.arange(begin, last))
        found = int(np.searchsorted(starts, position, "right"))
        return begin + found - 1 if begin + found else None


class Split(Spans):
    """The sequences of a stream: what lies between its separators.

    `how` states what a separator means. after: each ends a sequence, which may be empty; the tokens after the last are
    an unfinished sequence. before: each begins a sequence; the tokens before the first are the rest of one. between:
    runs of separators are padding, and no sequence is empty.

    The extent of a sequence is its content with its separator.
    """

    def __init__(
        self,
        axis: Axis,
        separator: int,
        how: How,
        opens: Numbers | None = None,
        jobs: int | None = None,
    ) -> None:
        """State the stream without a read.

        Args:
            axis: The stream.
            separator: Its separator.
            how: What the separator means.
            opens: Positions at which a sequence begins whatever is before it, such as the files of a dataset whose
                documents do not go on in the next.
            jobs: Threads that scan it; None: one per core.
        """
        self.axis, self.separator, self.how, self.jobs = axis, separator, how, jobs
        opens = np.empty(0, np.int64) if opens is None else np.unique(opens)
        self.opens = opens[(opens > 0) & (opens < axis.length)]
        self.bit = self.usual = BEFORE if how == "before" else AFTER
        self.max_id = -1
        self._compact: Compact | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def compact(self) -> Compact:
        """The contents of all sequences. The first call scans the stream, and finds `max_id`."""
        with self._lock:
            if self._compact is None:
                jobs = cpus() if self.jobs is None else self.jobs
                found = self._pieces(_SCAN if jobs > 1 else WINDOW, jobs, keeps_windows=False)
                self._compact = Compact((one.starts, one.stops, one.beside) for one in found)
        return self._compact

    @property
    def count(self) -> int:
        return self.compact.count

    def _closed(self, numbers: Numbers) -> NDArray[np.int64]:
        return self.compact.is_closed(numbers).astype(np.int64)

    def _extended(self, starts: Offsets, stops: Offsets, closed: NDArray[np.int64]) -> Extents:
        return (starts - closed, stops) if self.bit == BEFORE else (starts, stops + closed)

    def extents(self, first: int, last: int) -> Extents:
        check_interval(first, last, self.count, "sequences")
        return self._extended(*self.compact.contents(first, last), self._closed(np.arange(first, last)))

    def extents_of(self, numbers: Numbers) -> Extents:
        return self._extended(*self.compact.contents_of(numbers), self._closed(numbers))

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:  # noqa: ARG002
        closed = self._closed(numbers)
        beside = (closed * self.bit).astype(np.uint8)
        return (starts + closed, stops, beside) if self.bit == BEFORE else (starts, stops - closed, beside)

    def content(self, number: int, tokens: Tokens) -> Tokens:
        if not self.compact.has_separator(number):
            return tokens
        return tokens[1:] if self.bit == BEFORE else tokens[:-1]

    def finder(self) -> Callable[[int], Sequence[int]]:
        find, is_closed, is_before = self.compact.finder(), self.compact.has_separator, self.bit == BEFORE

        def extent(number: int) -> tuple[int, int]:
            start, stop = find(number)
            closed = is_closed(number)
            return (start - closed, stop) if is_before else (start, stop + closed)

        return extent

    def at(self, position: int) -> int | None:
        return self.compact.at(position, self.bit == BEFORE)

    def batches(
        self, axis: Axis, size: int = WINDOW, first: int = 0, last: int | None = None, longest: int | None = None
    ) -> Iterator[Batch]:
        """See `Spans.batches`. All sequences of a stream that is not scanned yet take one pass."""
        if first or last is not None or self._compact is not None:
            yield from super().batches(axis, size, first, last, longest)
            return
        for starts, stops, beside, window, base in self._pieces(size, 1, keeps_windows=True):
            if len(starts) and window is not None:
                yield Batch(first, window, base, starts - base, stops - base, beside)
                first += len(starts)

    def _pieces(self, size: int, jobs: int, *, keeps_windows: bool) -> Iterator[_Pieces]:
        """Yield the sequences that end in each window.

        A piece ends at a separator, which takes a slot, or before an opening or at the end of the axis, which take
        none. Its number of slots is the last bit of its key, so that an opening is before the separator at its place.
        """
        begin, begun, held = (
            0,
            False,
            list[Tokens](),
        )  # The piece that goes on, and the windows that hold its beginning.
        base = 0
        for window, found, (a, b) in self._searched(size, jobs):
            if keeps_windows:
                held.append(window)
            opens = self.opens[np.searchsorted(self.opens, a) : np.searchsorted(self.opens, b)] * 2
            keys = found * 2 + 1
            if len(opens) or b == self.axis.length:
                keys = np.sort(np.concatenate([keys, opens, [2 * b][: b == self.axis.length]]).astype(np.int64))
            if not len(keys):
                continue
            stops, slots = keys >> 1, keys & 1
            starts = np.append(begin, (stops + slots)[:-1])
            opened = np.append(begun, slots[:-1] == 1)
            closed = opened if self.how == "before" else slots == 1
            kept = stops > starts if self.how == "between" else (stops > starts) | closed
            whole = (np.concatenate(held) if len(held) > 1 else held[0]) if keeps_windows else None
            yield _Pieces(starts[kept], stops[kept], (closed[kept] * self.bit).astype(np.uint8), whole, base)
            begin, begun = int(stops[-1] + slots[-1]), bool(slots[-1])
            if whole is not None:
                after = begin - (self.how == "before" and begun)
                held, base = [whole[after - base :]], after

    def _searched(self, size: int, jobs: int) -> Iterator[tuple[Tokens, Offsets, tuple[int, int]]]:
        """Yield each window of the axis, the positions of its separators, and its bounds; also of an empty axis."""

        def search(bounds: tuple[int, int]) -> tuple[Tokens, Offsets]:
            window = self.axis.read(*bounds)
            tops.append(largest_id(window))
            return window, np.flatnonzero(window == self.separator) + bounds[0]

        tops = list[int]()
        cuts = list(windows(0, self.axis.length, size)) or [(0, 0)]
        if jobs == 1 or len(cuts) == 1:
            yield from ((*search(bounds), bounds) for bounds in cuts)
            self.max_id = max(tops)
            return
        with ThreadPoolExecutor(jobs) as pool:
            ahead = deque[Future[tuple[Tokens, Offsets]]](pool.submit(search, bounds) for bounds in cuts[: 2 * jobs])
            for number, bounds in enumerate(cuts):
                found = ahead.popleft().result()
                if number + 2 * jobs < len(cuts):
                    ahead.append(pool.submit(search, cuts[number + 2 * jobs]))
                yield (*found, bounds)
        self.max_id = max(tops)
