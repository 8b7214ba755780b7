"""Spans: where each sequence of a dataset is on its axis, and which tokens beside a content are not content.

Spans know numbers alone. They are given tokens: of the whole axis, of a window that was read anyway, or none.

    Bounds   sequence i is bounds[i] .. bounds[i + 1]
    Ended    spans of an index whose sequences may end with a separator
    Led      spans whose contents may begin with a lead
    Shorter  spans of an index of which some are one slot shorter
    Sliced   consecutive sequences of the same dataset
    Taken    other sequences of the same dataset: a selection, another order, repeats
    Chain    the spans of several datasets, one after the other on a `Joined` axis

`stream.Split` has the spans of a stream, which only separators divide.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import WINDOW, Axis, check_interval, windows
from tokfmt.files.file import Ends
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, LEAD, Batch, Sides

_AT_ONCE = 1 << 18  # Sequences of a batch at most, and entries of an index that are read at once.
_ZERO = np.zeros(1, np.int64)
_LOOSE = 1 << 12  # Slots between the extents of a batch that are read with it.

Extents = tuple[Offsets, Offsets]
"""The start and the stop of each extent, int64[n] each."""
Contents = tuple[Offsets, Offsets, Sides]
"""The start and the stop of each content, int64[n] each, and what is beside it."""


class TokensAt(Protocol):
    """Tokens by position: an axis, or a window of one."""

    def __getitem__(self, positions: Numbers, /) -> Tokens: ...


class Spans(ABC):
    """The extent of each sequence, and its content. 0 <= start <= stop <= axis.length.

    Starts need not ascend, and spans may repeat and overlap.
    """

    count: int  # for a stream, asking scans it
    checked: bool = False  # a look at every end, or the search for separators, shows what `trim` returns without tokens
    # `trim` without tokens is right for every sequence that was looked at; False: some are exceptions
    presumes: bool = True
    usual: int | None = 0  # what is presumed beside a content; None if that differs between sequences
    tiles: bool = False  # each extent begins where the one before ends
    filled: bool = False  # no extent is empty, as the files state beside their index
    # Extents follow each other on the axis, each with a separator on the side `usual` and without a lead. It may be
    # presumed; see `checked`. An empty extent has no separator.
    seamless: bool = False
    ending: int | None = None  # the ID that `content` takes off the end, if that is all it does
    # whether contents begin with a lead that is taken off: True if every one that was looked at does, False if none
    # does; None if some do
    led: bool | None = False
    max_id: int = -1  # on the axis, if a search for separators has read all of it; else -1
    # empty sequences that this search found: their number, and the first (-1 without one)
    empty: tuple[int, int] = (0, -1)

    @abstractmethod
    def extents(self, first: int, last: int) -> Extents:
        """Return the extents of the sequences `first <= i < last`, without a read of a token."""

    @abstractmethod
    def extents_of(self, numbers: Numbers) -> Extents:
        """Return the extents of sequences with given numbers, in the given order."""

    def cuts(self, first: int, last: int) -> Offsets:
        """Return the start of each extent `first <= i < last`, and the stop of the last, of extents without gaps."""
        starts, stops = self.extents(first, last)
        if first < last:
            return np.append(starts, stops[-1])
        return np.array([self.extent(first)[0] if first < self.count else self.extent(first - 1)[1]])

    def extent(self, number: int) -> tuple[int, int]:
        """Return the extent of one sequence."""
        starts, stops = self.extents(number, number + 1)
        return int(starts[0]), int(stops[0])

    def finder(self) -> Callable[[int], Sequence[int]]:
        """Return a function that does what `extent` does, in as few steps as possible. It cannot be pickled."""
        return self.extent

    def ends(self) -> Ends | None:
        """Return the stop of each extent, if they are in memory and each extent begins where the one before stops."""
        return None

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:  # noqa: ARG002
        """Return the contents of extents, by their tokens (indexes into those), or else as presumed."""
        return starts, stops, np.zeros(len(starts), np.uint8)

    def content(self, number: int, tokens: Tokens) -> Tokens:  # noqa: ARG002
        """Return the content of one sequence, given the tokens of its extent."""
        return tokens

    def unled(self) -> Spans:
        """Return the spans of contents with their leads."""
        return self

    def after_reading(self) -> Spans:
        """Return these spans, knowing that every sequence was read, and that none differs from what is presumed."""
        return self

    def read(self, first: int, last: int, tokens: TokensAt | None) -> Contents:
        """Return the contents of the sequences `first <= i < last`; see `trim`."""
        return self.trim(np.arange(first, last), *self.extents(first, last), tokens)

    def at(self, position: int) -> int | None:
        """Return the last sequence whose extent starts at or before a position; None without one.

        By default, bisect starts that ascend.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.extent(middle)[0] <= position else (low, middle)
        return low - 1 if low else None

    def _around(self, position: int) -> int | None:
        """Return the first sequence whose extent holds a position; None without one. It reads the whole index."""
        for first, last in windows(0, self.count, _AT_ONCE):
            starts, stops = self.extents(first, last)
            around = (starts <= position) & (position < stops)
            if around.any():
                return first + int(np.argmax(around))
        return None

    def batches(
        self, axis: Axis, size: int = WINDOW, first: int = 0, last: int | None = None, longest: int | None = None
    ) -> Iterator[Batch]:
        """Yield whole sequences in order, in batches of about `size` tokens. Each extent is read once. Without `last`,
        they go to the end, before `count` is known. A sequence with a longer extent than `longest` is a batch without a
        token, which is not read.
        """
        last, limit = self.count if last is None else last, _LOOSE
        check_interval(first, last, self.count, "sequences")
        while first < last:
            starts, stops = self.extents(first, min(last, first + limit))
            ends = stops - starts[0] if self.tiles else np.cumsum(stops - starts)
            count = max(1, int(np.searchsorted(ends, size, "right")))
            # Twice as many sequences as filled this batch, or as many again if they did not fill it.
            limit = min(_AT_ONCE, 2 * (count if count < len(starts) else limit))
            total = int(ends[count - 1])
            if longest is not None and total > longest and count == 1:
                nothing = np.zeros(1, np.int64)
                yield Batch(first, axis.tokens(0, 0), None, nothing, nothing, np.zeros(1, np.uint8))
            else:
                yield self._batch(axis, first, starts[:count], stops[:count], total)
            first += count

    def _batch(self, axis: Axis, first: int, starts: Offsets, stops: Offsets, total: int) -> Batch:
        numbers, base = np.arange(first, first + len(starts)), int(starts[0])
        is_ordered = self.tiles or bool((starts[1:] >= stops[:-1]).all())
        if is_ordered and int(stops[-1]) - base <= total + total // 2 + _LOOSE:
            window = axis.tokens(base, int(stops[-1]))
            return Batch(first, window, base, *self.trim(numbers, starts - base, stops - base, window))
        lengths = stops - starts
        bounds = offsets_of(lengths)
        window = axis.gather(starts, lengths)
        contents = self.trim(numbers, bounds[:-1], bounds[1:], window)
        return Batch(first, window, None, *contents)


class Bounds(Spans):
    """Sequence i is bounds[i] .. bounds[i + 1]. The index is an axis of integers, of which windows are read."""

    tiles = True

    def __init__(self, bounds: Axis, *, filled: bool = False) -> None:
        """Hold the index, ascending integers of 8 bytes, one more than sequences; `filled`, no two are equal."""
        self.bounds, self.count, self.filled = bounds, bounds.length - 1, filled

    def cuts(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.count, "sequences")
        return self.bounds.tokens(first, last + 1).view(np.int64)

    def extents(self, first: int, last: int) -> Extents:
        cuts = self.cuts(first, last)
        return cuts[:-1], cuts[1:]

    def extents_of(self, numbers: Numbers) -> Extents:
        return tuple(self.bounds.at(numbers + k).view(np.int64) for k in (0, 1))  # type: ignore[return-value]

    def extent(self, number: int) -> tuple[int, int]:
        start, stop = self.bounds.tokens(number, number + 2).tolist()
        return start, stop

    def ends(self) -> Ends | None:
        held = self.bounds.values
        return None if held is None or not self.count else Ends(_ZERO.data, held.data[1:], 62)

    def finder(self) -> Callable[[int], Sequence[int]]:
        read = self.bounds.tokens
        return lambda number: read(number, number + 2).tolist()


class _Trimmed(Spans):
    """Spans with the extents of other spans, of which a subclass takes something off."""

    spans: Spans

    def cuts(self, first: int, last: int) -> Offsets:
        return self.spans.cuts(first, last)

    def extents(self, first: int, last: int) -> Extents:
        return self.spans.extents(first, last)

    def extents_of(self, numbers: Numbers) -> Extents:
        return self.spans.extents_of(numbers)

    def extent(self, number: int) -> tuple[int, int]:
        return self.spans.extent(number)

    def finder(self) -> Callable[[int], Sequence[int]]:
        return self.spans.finder()

    def at(self, position: int) -> int | None:
        return self.spans.at(position)


class Ended(_Trimmed):
    """Spans of an index, each trimmed by its own tokens: a separator is taken off its end, at most once."""

    def __init__(self, spans: Spans, separator: int, presumed: int | None = None) -> None:
        """State the ID that ends all (AFTER), none (0), or some (None) of the sequences that were looked at."""
        self.spans, self.separator, self.presumed = spans, separator, presumed
        self.presumes, self.usual, self.tiles = presumed is not None, presumed, spans.tiles
        self.count, self.ending = spans.count, separator
        self.seamless = self.tiles and presumed == AFTER
        self._closed: NDArray[np.uint8] | None = None

    def looked_at(self, axis: Axis) -> Ended:
        """Return the same spans after a look at every end, with one bit for each if some differ."""
        parts, all_closed = [np.empty(0, np.uint8)], True
        for first, last in windows(0, self.count, _AT_ONCE):
            closed = self.read(first, last, axis)[2] & AFTER
            parts, all_closed = [*parts, np.packbits(closed)], all_closed and bool(closed.all())
        found = Ended(self.spans, self.separator, AFTER if all_closed else None)
        found._closed = None if all_closed else np.concatenate(parts)
        return found

    def ends(self) -> Ends | None:
        return self.spans.ends()

    def after_reading(self) -> Spans:
        found = copy.copy(self)
        found.checked = True
        return found

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:
        if self._closed is not None:
            beside = _bit(self._closed, numbers)
            return starts, stops - beside, beside * np.uint8(AFTER)
        ended = _has(self.separator, self.presumed == AFTER, starts, stops, stops - 1, tokens)
        return starts, stops - ended, ended.view(np.uint8)

    def content(self, number: int, tokens: Tokens) -> Tokens:  # noqa: ARG002
        return tokens[:-1] if tokens.size and tokens.item(-1) == self.separator else tokens


def _has(
    id_: int, presumed: bool, starts: Offsets, stops: Offsets, places: Offsets, tokens: TokensAt | None
) -> NDArray[np.bool_]:
    """Return which extents have an ID at a place, or are presumed to without tokens. An empty extent has none."""
    held: NDArray[np.bool_] = stops > starts
    if tokens is None:
        return held if presumed else np.zeros_like(held)
    if held.all():
        return np.asarray(tokens[places] == id_)
    held[held] = tokens[places[held]] == id_
    return held


def _bits_of(spans: Spans, bit: int, axis: Axis) -> NDArray[np.uint8]:
    """Return which sequences have a token beside their content, by a look at each: one bit for each sequence."""
    parts = [np.empty(0, np.uint8)]
    for first, last in windows(0, spans.count, _AT_ONCE):
        parts.append(np.packbits(spans.read(first, last, axis)[2] & bit))
    return np.concatenate(parts)


def _bit(bits: NDArray[np.uint8], numbers: Numbers) -> NDArray[np.uint8]:
    """Return the bit of each of some sequences, 0 or 1."""
    found: NDArray[np.uint8] = bits[numbers >> 3] >> (7 - (numbers & 7)).astype(np.uint8) & np.uint8(1)
    return found


class Led(_Trimmed):
    """Spans of any kind whose contents may begin with a lead, such as a BOS, which is taken off, at most once.

    What the separator of a sequence is, the spans under it know. A content of one token that is the lead is empty.
    """

    def __init__(self, spans: Spans, lead: int, presumed: bool | None = None) -> None:
        """State the ID that begins all (True), none (False), or some (None) of those that were looked at."""
        self.spans, self.lead, self.presumed = spans, lead, presumed
        self.presumes = spans.presumes and presumed is not None
        self.usual = None if spans.usual is None or presumed is None else spans.usual | LEAD * presumed
        self._led: NDArray[np.uint8] | None = None

    @property
    def count(self) -> int:  # type: ignore[override]
        return self.spans.count

    @property
    def led(self) -> bool | None:  # type: ignore[override]
        return self.presumed

    def unled(self) -> Spans:
        return self.spans

    @property
    def max_id(self) -> int:  # type: ignore[override]
        return self.spans.max_id

    @property
    def empty(self) -> tuple[int, int]:  # type: ignore[override]
        return self.spans.empty

    def looked_at(self, axis: Axis) -> Led:
        """Return the same spans after a look at the beginning of every content. They hold one bit for each."""
        found = Led(self.spans, self.lead)
        found._led, found.presumes, found.checked = _bits_of(self, LEAD, axis), self.spans.presumes, self.spans.checked
        return found

    def after_reading(self) -> Spans:
        found = copy.copy(self)
        found.spans, found.checked = self.spans.after_reading(), True
        return found

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:
        starts, stops, beside = self.spans.trim(numbers, starts, stops, tokens)
        if self._led is not None:
            led = _bit(self._led, numbers)
        else:
            led = _has(self.lead, bool(self.presumed), starts, stops, starts, tokens).view(np.uint8)
        return starts + led, stops, beside | led * np.uint8(LEAD)

    def content(self, number: int, tokens: Tokens) -> Tokens:
        tokens = self.spans.content(number, tokens)
        return tokens[1:] if tokens.size and tokens.item(0) == self.lead else tokens


class Shorter(Spans):
    """Spans of an index, some of which lack their last slot. They hold one bit for each."""

    def __init__(self, spans: Spans, lacking: NDArray[np.bool_]) -> None:
        """State which extents lack their last slot; these are not empty."""
        self.spans, self.count, self._lacking = spans, spans.count, np.packbits(lacking)

    def extents(self, first: int, last: int) -> Extents:
        starts, stops = self.spans.extents(first, last)
        return starts, stops - _bit(self._lacking, np.arange(first, last))

    def extents_of(self, numbers: Numbers) -> Extents:
        starts, stops = self.spans.extents_of(numbers)
        return starts, stops - _bit(self._lacking, numbers)

    def at(self, position: int) -> int | None:
        return self.spans.at(position)


class Sliced(Spans):
    """Consecutive sequences of the same dataset."""

    def __init__(self, spans: Spans, first: int, last: int) -> None:
        """Hold the sequences `first <= i < last`."""
        self.spans, self.first, self.count = spans, first, last - first
        self.checked, self.seamless, self.filled = spans.checked, spans.seamless, spans.filled
        self.presumes, self.usual, self.tiles, self.ending = spans.presumes, spans.usual, spans.tiles, spans.ending

    def cuts(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.count, "sequences")
        return self.spans.cuts(first + self.first, last + self.first)

    def extents(self, first: int, last: int) -> Extents:
        check_interval(first, last, self.count, "sequences")
        return self.spans.extents(first + self.first, last + self.first)

    def extents_of(self, numbers: Numbers) -> Extents:
        return self.spans.extents_of(numbers + self.first)

    def extent(self, number: int) -> tuple[int, int]:
        return self.spans.extent(number + self.first)

    def finder(self) -> Callable[[int], Sequence[int]]:
        find, first = self.spans.finder(), self.first
        return lambda number: find(number + first)

    def after_reading(self) -> Spans:
        return Sliced(self.spans.after_reading(), self.first, self.first + self.count)

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:
        return self.spans.trim(numbers + self.first, starts, stops, tokens)

    def content(self, number: int, tokens: Tokens) -> Tokens:
        return self.spans.content(number + self.first, tokens)

    def at(self, position: int) -> int | None:
        """None if the position is in no sequence of these, repeats included."""
        found = self.spans.at(position)
        if found is None or 0 <= found - self.first < self.count:
            return None if found is None else found - self.first
        return None if self.tiles else self._around(position)


class Taken(Spans):
    """Other sequences of the same dataset: a selection, a split, another order, repeats."""

    def __init__(self, spans: Spans, numbers: NDArray[np.integer]) -> None:
        """Hold the numbers of the sequences, each any number of times, of any integer dtype."""
        self.spans, self.numbers, self.presumes, self.usual = spans, numbers, spans.presumes, spans.usual
        self.count, self.ending = len(numbers), spans.ending

    def extents(self, first: int, last: int) -> Extents:
        check_interval(first, last, self.count, "sequences")
        numbers = self.numbers[first:last].astype(np.int64, copy=False)
        if len(numbers) and int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1 and (np.diff(numbers) == 1).all():
            return self.spans.extents(int(numbers[0]), int(numbers[-1]) + 1)
        return self.spans.extents_of(numbers)

    def extents_of(self, numbers: Numbers) -> Extents:
        return self.spans.extents_of(self.numbers[numbers].astype(np.int64, copy=False))

    def extent(self, number: int) -> tuple[int, int]:
        return self.spans.extent(int(self.numbers[number]))

    def finder(self) -> Callable[[int], Sequence[int]]:
        find, numbers = self.spans.finder(), np.ascontiguousarray(self.numbers).data
        return lambda number: find(numbers[number])

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:
        return self.spans.trim(self.numbers[numbers].astype(np.int64, copy=False), starts, stops, tokens)

    def content(self, number: int, tokens: Tokens) -> Tokens:
        return self.spans.content(int(self.numbers[number]), tokens)

    def at(self, position: int) -> int | None:
        """Return the first place of that sequence, or else the first sequence around the position."""
        places = np.flatnonzero(self.numbers == self.spans.at(position))
        return int(places[0]) if len(places) else self._around(position)


class Chain(Spans):
    """The spans of several datasets, one after the other on a `Joined` axis. Each is trimmed by its own rule."""

    def __init__(self, spans: Sequence[Spans], axes: Sequence[Axis]) -> None:
        """Hold the spans and the axis of each dataset. The axes are those of the joined axis."""
        self.spans, self._axes = list(spans), list(axes)
        self._shifts = offsets_of([axis.length for axis in axes])
        self.presumes, self.checked = (all(getattr(span, name) for span in spans) for name in ("presumes", "checked"))
        self.usual = spans[0].usual if len({span.usual for span in spans}) == 1 else None

    @cached_property
    def seamless(self) -> bool:  # type: ignore[override]
        """Each dataset takes its whole axis."""
        if self.usual is None or not all(span.seamless for span in self.spans):
            return False
        held = [(one, axis.length) for one, axis in zip(self.spans, self._axes, strict=False) if one.count]
        return len(held) == len(self.spans) and all(
            one.extent(0)[0] == 0 and one.extent(one.count - 1)[1] == length for one, length in held
        )

    def after_reading(self) -> Spans:
        return Chain([span.after_reading() for span in self.spans], self._axes)

    @cached_property
    def firsts(self) -> Offsets:
        """The number of the first sequence of each dataset, and of all: int64[datasets + 1]."""
        return offsets_of([span.count for span in self.spans])

    @cached_property
    def count(self) -> int:  # type: ignore[override]
        return int(self.firsts[-1])

    def _holder(self, number: int) -> int:
        return int(np.searchsorted(self.firsts, number, "right")) - 1

    def extents(self, first: int, last: int) -> Extents:
        check_interval(first, last, self.count, "sequences")
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for k in range(self._holder(first), len(self.spans)):
            base, end = int(self.firsts[k]), int(self.firsts[k + 1])
            if base >= last:
                break
            starts, stops = self.spans[k].extents(max(first, base) - base, min(last, end) - base)
            found.append((starts + self._shifts[k], stops + self._shifts[k]))
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def extents_of(self, numbers: Numbers) -> Extents:
        starts, stops = np.empty((2, len(numbers)), np.int64)
        for k, inside in self._parts(numbers):
            begins, ends = self.spans[k].extents_of(numbers[inside] - self.firsts[k])
            starts[inside], stops[inside] = begins + self._shifts[k], ends + self._shifts[k]
        return starts, stops

    def extent(self, number: int) -> tuple[int, int]:
        k = self._holder(number)
        start, stop = self.spans[k].extent(number - int(self.firsts[k]))
        return start + int(self._shifts[k]), stop + int(self._shifts[k])

    def trim(self, numbers: Numbers, starts: Offsets, stops: Offsets, tokens: TokensAt | None) -> Contents:
        starts, stops, beside = starts.copy(), stops.copy(), np.zeros(len(starts), np.uint8)
        for k, inside in self._parts(numbers):
            starts[inside], stops[inside], beside[inside] = self.spans[k].trim(
                numbers[inside] - self.firsts[k], starts[inside], stops[inside], tokens
            )
        return starts, stops, beside

    def _parts(self, numbers: Numbers) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
        """Yield each dataset with the places of its numbers: a slice if all numbers are of one dataset."""
        if not len(numbers):
            return
        low, high = self._holder(int(numbers.min())), self._holder(int(numbers.max()))
        if low == high:
            yield low, slice(None)
            return
        holders = np.searchsorted(self.firsts, numbers, "right") - 1
        for k in range(low, high + 1):
            if len(inside := np.flatnonzero(holders == k)):
                yield k, inside

    def content(self, number: int, tokens: Tokens) -> Tokens:
        k = self._holder(number)
        return self.spans[k].content(number - int(self.firsts[k]), tokens)

    def at(self, position: int) -> int | None:
        k = int(np.searchsorted(self._shifts[:-1], position, "right")) - 1
        number = self.spans[k].at(position - int(self._shifts[k])) if k >= 0 else None
        return None if number is None else number + int(self.firsts[k])

    def batches(
        self, axis: Axis, size: int = WINDOW, first: int = 0, last: int | None = None, longest: int | None = None
    ) -> Iterator[Batch]:
        """Before the sequences are counted, no batch spans two datasets."""
        if first or last is not None or "firsts" in vars(self):
            yield from super().batches(axis, size, first, last, longest)
            return
        for one, part, shift in zip(self.spans, self._axes, self._shifts.tolist(), strict=False):
            after: int = first
            for batch in one.batches(part, size, longest=longest):
                base = None if batch.base is None else batch.base + shift
                window = batch.window.astype(axis.dtype, copy=False)
                yield replace(batch, first=first + batch.first, base=base, window=window)
                after = first + batch.first + len(batch)
            first = after
