"""The spans of a stream, which only separators divide. They are found when a number or a position is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import cpus
from tokfmt.base.threads import in_threads
from tokfmt.core.findings import ignore
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import WINDOW, Axis, check_interval, largest_id, windows
from tokfmt.files.file import Ends
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, BEFORE, Batch, Sides
from tokfmt.model.spans import Contents, Extents, Spans, TokensAt

How = Literal["after", "before", "between"]
_BITS = 8
_STEP = 1 << _BITS  # Sequences per base position of `Compact`.
_SCAN = 1 << 20  # Tokens that a thread scans at once.


class _Pieces(NamedTuple):
    """Whole sequences of a window, and the window, which begins at `base` and ends where the search is."""

    starts: Offsets
    stops: Offsets
    beside: Sides
    window: Tokens | None
    base: int


class Compact:
    """Contents in the order of the axis: 5.03 bytes per sequence if at most 255 slots are between two.

    The stop of each content is held relative to the start of its block of 256 sequences, and the gap in front of it
    beside it. Each array is wider if one of its numbers does not fit.
    """

    def __init__(self, blocks: Iterable[tuple[Offsets, Offsets, Sides]]) -> None:
        """Store the contents of all blocks, in order."""
        ends: list[NDArray[Any]] = [np.empty(0, np.uint32)]
        gaps: list[NDArray[Any]] = [np.empty(0, np.uint8)]
        bases, bare = [np.zeros(1, np.int64)], [np.empty(0, np.int64)]
        self.count = before = base = 0
        self.empty = (0, -1)
        for starts, stops, beside in blocks:
            if not len(starts):
                continue
            firsts = np.append(before, stops[:-1])  # where the sequence before ends
            begins = firsts[-self.count % _STEP :: _STEP].copy()
            places = (np.arange(len(starts)) + self.count % _STEP) // _STEP - (self.count % _STEP > 0)  # -1: `base`
            ends.append(_narrow(stops - np.append(begins, base)[places], np.uint32))
            gaps.append(_narrow(starts - firsts, np.uint8))
            bases.append(begins)
            bare.append(np.flatnonzero(beside == 0) + self.count)
            if len(empty := np.flatnonzero(starts == stops)):
                known, first = self.empty
                self.empty = known + len(empty), first if known else self.count + int(empty[0])
            self.count, before = self.count + len(starts), int(stops[-1])
            base = int(begins[-1]) if len(begins) else base
        self._gaps, self._bases = np.concatenate(gaps), np.concatenate(bases)[1:]
        self._bare = np.concatenate(bare)
        del gaps, bases, bare
        self._ends = np.concatenate(ends)
        self.tiles = not len(self._bare) and bool((self._gaps[1:] == 1).all())
        """True if each sequence has a separator, and nothing else is between two."""
        self.first_gap = int(self._gaps[0]) if self.count else 0

    def contents(self, first: int, last: int) -> tuple[Offsets, Offsets]:
        """Return the starts and the stops of the sequences `first <= i < last`."""
        cuts = self.cuts(first, last)
        return cuts[:-1] + self._gaps[first:last], cuts[1:]

    def cuts(self, first: int, last: int) -> Offsets:
        """Return where the sequence in front of `first` stops, and each of the sequences `first <= i < last`."""
        begin = max(0, first - 1)
        if begin == last:
            return np.zeros(1, np.int64)
        blocks = self._bases[begin // _STEP : (last - 1) // _STEP + 1]
        sizes = np.full(len(blocks), _STEP)
        sizes[0] -= begin % _STEP
        sizes[-1] -= len(blocks) * _STEP - begin % _STEP - (last - begin)
        stops: Offsets = self._ends[begin:last] + np.repeat(blocks, sizes)
        return stops if first else np.append(0, stops)

    def contents_of(self, numbers: Numbers) -> tuple[Offsets, Offsets]:
        """Return the starts and the stops of sequences with given numbers."""
        stops: Offsets = self._ends[numbers] + self._bases[numbers // _STEP]
        before = numbers - (numbers > 0)
        ends: Offsets = np.where(numbers > 0, self._ends[before] + self._bases[before // _STEP], 0)
        return ends + self._gaps[numbers], stops

    def is_closed(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which sequences have a separator."""
        if not len(self._bare):
            return np.ones(len(numbers), np.bool_)
        places = np.minimum(np.searchsorted(self._bare, numbers), len(self._bare) - 1)
        return np.asarray(self._bare[places] != numbers)

    def finder(self, before: int = 0, after: int = 0) -> Callable[[int], tuple[int, int]]:
        """Return a function that finds the start and stop of one sequence, `before` and `after` slots wider."""
        ends, gaps, bases, bare = self._ends.data, self._gaps.data, self._bases.data, frozenset(self._bare.tolist())

        def find(number: int) -> tuple[int, int]:
            stop = bases[number >> _BITS] + ends[number]
            start = gaps[number]
            if number:
                start += bases[number - 1 >> _BITS] + ends[number - 1]
            return (start, stop) if bare and number in bare else (start - before, stop + after)

        return find

    def ends(self, after: int) -> Ends:
        """Return where each content stops, `after` slots behind it included."""
        return Ends(self._bases.data, self._ends.data, _BITS, after)

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


def _narrow(values: Offsets, dtype: type[np.unsignedinteger]) -> NDArray[np.integer]:
    """Return values in a dtype; in int64 if one does not fit."""
    return values.astype(dtype) if int(values.max()) <= np.iinfo(dtype).max else values


class Split(Spans):
    """The sequences of a stream: what lies between its separators.

    `how` states what a separator means. after: each ends a sequence, which may be empty; the tokens after the last are
    an unfinished sequence. before: each begins a sequence; the tokens before the first are the rest of one. between:
    runs of separators are padding, and no sequence is empty.

    The extent of a sequence is its content with its separator.
    """

    checked = True

    def __init__(
        self,
        axis: Axis,
        separator: int,
        how: How,
        opens: Numbers | None = None,
        jobs: int | None = None,
        scanned: Callable[[int], None] = ignore,
        inserted: Callable[[Offsets], NDArray[np.bool_]] | None = None,
    ) -> None:
        """State the stream without a read. `opens` are positions at which a sequence begins whatever is before it, such
        as the files of a dataset whose documents do not go on in the next. `scanned` is called with the number of
        further tokens that were scanned. `inserted` says which separators are in no file, given their positions.
        """
        self.axis, self.separator, self.how, self.jobs, self._scanned = axis, separator, how, jobs, scanned
        self._inserted = inserted
        opens = np.empty(0, np.int64) if opens is None else np.unique(opens)
        self.opens = opens[(opens > 0) & (opens < axis.length)]
        self.bit = self.usual = BEFORE if how == "before" else AFTER
        self.max_id = -1
        self._compact: Compact | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key not in {"_lock", "_scanned"}}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _lock=threading.Lock(), _scanned=ignore)

    @property
    def compact(self) -> Compact:
        """The contents of all sequences. The first call scans the stream, and finds `max_id` and `empty`."""
        with self._lock:
            if self._compact is None:
                jobs = cpus() if self.jobs is None else self.jobs
                found = self._pieces(_SCAN if jobs > 1 else WINDOW, jobs, keeps_windows=False)
                self._compact = Compact((one.starts, one.stops, one.beside) for one in found)
                self.empty = self._compact.empty
        return self._compact

    @property
    def count(self) -> int:  # type: ignore[override]
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
        is_before = int(self.bit == BEFORE)
        return self.compact.finder(is_before, 1 - is_before)

    def ends(self) -> Ends | None:
        return self.compact.ends(int(self.bit == AFTER)) if self.seamless else None

    @property
    def seamless(self) -> bool:  # type: ignore[override]
        return self.compact.tiles

    def cuts(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.count, "sequences")
        after = int(self.bit == AFTER)
        cuts = self.compact.cuts(first, last) + after
        if not first:  # No sequence is in front of the first.
            cuts[0] += self.compact.first_gap - 1
        return cuts

    def at(self, position: int) -> int | None:
        return self.compact.at(position, self.bit == BEFORE)

    def batches(
        self, axis: Axis, size: int = WINDOW, first: int = 0, last: int | None = None, longest: int | None = None
    ) -> Iterator[Batch]:
        """All sequences of a stream that is not scanned yet take one pass."""
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
            stops, slots = found, np.ones(len(found), np.int8)
            if len(opens) or b == self.axis.length:
                keys = np.sort(
                    np.concatenate([found * 2 + 1, opens, [2 * b][: b == self.axis.length]]).astype(np.int64)
                )
                stops, slots = keys >> 1, (keys & 1).astype(np.int8)
            if not len(stops):
                continue
            starts = np.append(begin, (stops + slots)[:-1])
            opened = np.append(begun, slots[:-1] == 1)
            closed = opened if self.how == "before" else slots == 1
            if self._inserted is not None and len(closed):
                closed = closed & ~self._inserted(stops)
            kept: slice | NDArray[np.bool_] = slice(None)
            if self.how == "between" or not closed.all():
                kept = stops > starts if self.how == "between" else (stops > starts) | closed
            whole = (np.concatenate(held) if len(held) > 1 else held[0]) if keeps_windows else None
            beside = closed[kept].view(np.uint8) * np.uint8(self.bit)
            yield _Pieces(starts[kept], stops[kept], beside, whole, base)
            begin, begun = int(stops[-1] + slots[-1]), bool(slots[-1])
            if whole is not None:
                after = begin - (self.how == "before" and begun)
                held, base = [whole[after - base :]], after

    def _searched(self, size: int, jobs: int) -> Iterator[tuple[Tokens, Offsets, tuple[int, int]]]:
        """Yield each window of the axis, the positions of its separators, and its bounds; also of an empty axis."""

        def search(bounds: tuple[int, int]) -> tuple[Tokens, Offsets]:
            window = self.axis.tokens(*bounds)
            tops.append(largest_id(window))
            return window, np.flatnonzero(window == self.separator) + bounds[0]

        tops = list[int]()
        cuts = list(windows(0, self.axis.length, size)) or [(0, 0)]
        results = in_threads(search, cuts, jobs if len(cuts) > 1 else 1)
        for bounds, (window, separators) in zip(cuts, results, strict=True):
            yield window, separators, bounds
            self._scanned(bounds[1] - bounds[0])
        self.max_id = max(tops)
