"""Readers over other readers: some of their sequences, in any order, or the sequences of several.

A range (`Slice`), the non-empty ones, those of a mask (`Chosen`) or of given numbers (`Picked`), the beginning of a
stream; `Concat` joins several readers, `Known` adds the facts of a scan, and `Rows` cuts an axis into rows of one
length. Positions on their axes follow each other without gaps, so a read of tokens costs no more than beneath.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import SHUFFLE, draws
from tokfmt.core.ragged import Offsets, Ragged, Tokens, gathered, offsets_of, reordered
from tokfmt.core.reader import U8, WINDOW, Info, Layout, Piece, Separators, TokenReader, check_position, windows
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset, concat
from tokfmt.model.readers import dataset_of


class View(TokenReader):
    """A reader over another reader. It has the same axis and sequences, except for what a subclass changes.

    Positions in the source ascend with those of the view; otherwise, a subclass overrides `from_source`.
    """

    def __init__(self, source: TokenReader, info: Info | None = None) -> None:
        """Hold the source, and `info` of this axis if it differs from that of the source."""
        self.source, self.info, self.marks_ends = source, info or source.info, source.marks_ends

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last)

    def sequence_at(self, position: int) -> int:
        """Ask the source if it has the same offsets."""
        same = type(self).offsets is View.offsets
        return self.source.sequence_at(position) if same else super().sequence_at(position)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the source, mapped as the view maps tokens; see `TokenReader.marks`."""
        if self.source.marks(0, 0) is None:
            return None
        beside = copy.copy(self)
        vars(beside).update(source=_Beside(self.source), info=replace(self.info, dtype=U8))
        return np.asarray(beside.tokens(start, stop), np.uint8)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.source, position

    def find(self, place: Place, byte: int) -> int | None:
        position = self.source.find(place, byte)
        return None if position is None else self.from_source(position)

    def from_source(self, position: int) -> int | None:
        """Return the position here of a position of the source, in O(log tokens) calls of `to_source`; None without."""
        low, high = 0, self.info.tokens
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.to_source(middle)[1] < position else (low, middle)
        if low == self.info.tokens:
            return None
        return low if self.to_source(low)[1] == position else None

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        self.source.check_ends_before(following, eos_id)

    def close(self) -> None:
        self.source.close()


class Indexed(View):
    """A view that holds the offsets of its sequences: `_offsets`, int64[sequences + 1]."""

    _offsets: Offsets

    def offsets(self, first: int, last: int) -> Offsets:
        return self._offsets[first : last + 1]


class Slice(View):
    """Sequences `first <= i < last` of a source."""

    def __init__(self, source: TokenReader, first: int, last: int) -> None:
        self.first, self.last = first, last
        self._start = int(source.offsets(first, first)[0])
        self._stop = int(source.offsets(last, last)[0])
        super().__init__(
            source, replace(source.info, sequences=last - first, tokens=self._stop - self._start, max_id=None)
        )

    def as_dataset(self, *, drawn: bool = False) -> Dataset:
        return dataset_of(self.source, drawn=drawn).slice(self.first, self.last)

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start + self._start, stop + self._start)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first + self.first, last + self.first) - self._start

    def sequence_at(self, position: int) -> int:
        found = self.source.sequence_at(position + self._start)
        return max(0, min(found, self.last - 1) - self.first)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._stop - self._start)
        return self.source, position + self._start

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        return self.source.pieces(start + self._start, stop + self._start)


class Leading(Indexed):
    """The first tokens of a stream, as one row."""

    def __init__(self, source: TokenReader, tokens: int) -> None:
        self._offsets = np.array([0, tokens][: 1 + bool(tokens)], np.int64)
        super().__init__(source, replace(source.info, sequences=len(self._offsets) - 1, tokens=tokens, max_id=None))


_FIRST = 1 << 14  # Tokens of the first window of a scan that may end soon. The next ones are larger.


class Beginning(Indexed):
    """The first tokens of a stored stream, up to the end of a number of documents."""

    def __init__(self, stored: TokenReader, eos_id: int, documents: int) -> None:
        """Scan the stream up to the end of `documents` documents, each with its separator.

        If these are more than a quarter of the stream, it is the whole stream, so that little is scanned twice.
        """
        tokens, seen, b = stored.info.tokens, 0, 0
        before = stored.info.separators is Separators.BEFORE
        needed = documents + before  # The separator before the next document ends the last one.
        while b < min(tokens, stored.info.tokens // 4):
            a, b = b, min(tokens, b + min(max(b, _FIRST), WINDOW))
            separators = np.flatnonzero(stored.tokens(a, b) == eos_id)
            if seen + len(separators) >= needed:
                tokens = a + int(separators[needed - seen - 1]) + (not before)
            seen += len(separators)
        self._offsets = np.array([0, tokens][: 1 + bool(tokens)], np.int64)
        beginning = stored.info.beginning or tokens < stored.info.tokens
        count = len(self._offsets) - 1
        super().__init__(stored, replace(stored.info, tokens=tokens, sequences=count, beginning=beginning))

    @property
    def whole(self) -> bool:
        """True if it is the whole stream."""
        return self.info.tokens == self.source.info.tokens


class NonEmpty(Indexed):
    """A source without its empty sequences. The token axis does not change. Holds 8 bytes per sequence."""

    def __init__(self, source: TokenReader) -> None:
        parts = [np.empty(0, np.int64)]
        for a, b in windows(0, source.info.sequences):
            offsets = source.offsets(a, b)
            parts.append(offsets[:-1][np.diff(offsets) > 0])
        self._offsets = np.concatenate([*parts, [source.info.tokens]])
        super().__init__(source, replace(source.info, sequences=len(self._offsets) - 1))


class Known(View):
    """A source that was scanned to its end, so that its largest token ID is known."""

    def __init__(self, source: TokenReader, max_id: int) -> None:
        super().__init__(source, replace(source.info, max_id=max_id))
        self.max_id = max_id

    def as_dataset(self, *, drawn: bool = False) -> Dataset:
        found = dataset_of(self.source, drawn=drawn)
        return replace(found, spans=found.spans.after_reading())

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        return self.source.pieces(start, stop)


class _Beside(View):
    """The marks of a reader instead of its tokens."""

    def tokens(self, start: int, stop: int) -> Tokens:
        found = self.source.marks(start, stop)
        return np.empty(0, np.uint8) if found is None else found


_GAP = 1 << 16  # It is faster to read fewer unneeded tokens than this than to read again.
_MANY = 1 << 16  # Sequences whose offsets are read at once.

Mask = Callable[[int, int], NDArray[np.bool_]]


class Chosen(Indexed):
    """The sequences of a source that a mask selects, in order.

    Holds 8 bytes per selected sequence, and 16 per run of consecutive ones. `Info.max_id` is that of the whole source:
    an upper bound.
    """

    def __init__(self, source: TokenReader, mask: Mask, *, apart: bool = False) -> None:
        """Read the offsets of the selected sequences. Calls the mask twice for every window of sequences. `mask(first,
        last)` returns bool[last - first]: True for sequences that are selected. With `apart`, tokens between selected
        sequences are never read, because they may be damaged.
        """
        self._most = 0 if apart else _GAP
        count = runs = before = 0
        for a, b in windows(0, source.info.sequences, _MANY):
            chosen = mask(a, b)
            begins = chosen & ~np.concatenate(([bool(before)], chosen[:-1]))
            count, runs, before = count + int(chosen.sum()), runs + int(begins.sum()), int(chosen[-1])
        self._offsets = np.zeros(count + 1, np.int64)
        self._at, self._shift = np.empty(runs, np.int64), np.empty(runs, np.int64)
        self._fill(source, mask)
        super().__init__(source, replace(source.info, sequences=count, tokens=int(self._offsets[-1])))

    def _fill(self, source: TokenReader, mask: Mask) -> None:
        count, runs, before = 0, 0, False
        for a, b in windows(0, source.info.sequences, _MANY):
            chosen, bounds = mask(a, b), source.offsets(a, b)
            numbers = np.flatnonzero(chosen)
            offsets = self._offsets[count : count + len(numbers) + 1]
            np.cumsum(np.diff(bounds)[numbers], out=offsets[1:])
            offsets[1:] += offsets[0]
            begins = np.flatnonzero((chosen & ~np.concatenate(([before], chosen[:-1])))[numbers])
            self._at[runs : runs + len(begins)] = offsets[begins]
            self._shift[runs : runs + len(begins)] = bounds[numbers[begins]] - offsets[begins]
            count, runs, before = count + len(numbers), runs + len(begins), bool(chosen[-1])

    def tokens(self, start: int, stop: int) -> Tokens:
        if start == stop:
            return np.empty(0, self.info.dtype)
        first = int(self._at.searchsorted(start, side="right")) - 1
        last = int(self._at.searchsorted(stop))
        if last == first + 1:  # The interval is in one run, as every sequence is.
            shift = int(self._shift[first])
            return self.source.tokens(start + shift, stop + shift)
        starts = np.maximum(self._at[first:last], start)
        lengths = np.diff(starts, append=stop)
        filled = lengths > 0
        begins = (starts + self._shift[first:last])[filled]
        found = self._read(begins, begins + lengths[filled])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def read_scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Each sequence is in one run."""
        runs = self._at.searchsorted(begins, side="right") - 1
        self.source.read_scattered(begins + self._shift[runs], places, lengths, out)

    def _read(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Tokens]:
        """Return the tokens of disjoint intervals of the source, in order. Intervals that are close take one read."""
        found, k = [], 0
        far = np.append(np.flatnonzero(begins[1:] - ends[:-1] > self._most) + 1, len(begins))
        while k < len(begins):
            within = int(np.searchsorted(ends, begins[k] + WINDOW, side="right"))
            j = max(k + 1, min(within, int(far[np.searchsorted(far, k, side="right")])))
            a, b = int(begins[k]), int(ends[j - 1])
            tokens = self.source.tokens(a, b)
            if j > k + 1:
                steps = np.zeros(b - a + 1, np.int8)
                steps[begins[k:j] - a] += 1
                steps[ends[k:j] - a] -= 1
                tokens = tokens[np.cumsum(steps, dtype=np.int8)[:-1].view(np.bool_)]
            found.append(tokens)
            k = j
        return found

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        run = int(np.searchsorted(self._at, position, side="right")) - 1
        return self.source, position + int(self._shift[run])


class Intervals(Indexed):
    """Intervals of a source as sequences, in the given order. They may overlap or repeat.

    Holds 16 bytes per interval. `Info.max_id` is that of the whole source: an upper bound.
    """

    def __init__(self, source: TokenReader, starts: Offsets, lengths: Offsets) -> None:
        """Hold the intervals, int64[n], each within the source."""
        self._starts, self._offsets = starts, offsets_of(lengths)
        super().__init__(source, replace(source.info, sequences=len(starts), tokens=int(self._offsets[-1])))

    def tokens(self, start: int, stop: int) -> Tokens:
        if start == stop:
            return np.empty(0, self.info.dtype)
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop))
        places = np.clip(self._offsets[first : last + 1], start, stop)
        begins = self._starts[first:last] + places[:-1] - self._offsets[first:last]
        lengths = np.diff(places)
        if len(begins) == 1:
            return self.source.tokens(int(begins[0]), int(begins[0]) + stop - start)
        return self._gathered(begins, lengths)

    def _gathered(self, begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> Tokens:
        """Return the tokens of intervals of the source, concatenated. Intervals that are close take one read."""
        order = np.argsort(begins, kind="stable")
        begins, lengths = begins[order], lengths[order]
        ends = np.maximum.accumulate(begins + lengths)
        found, k = [], 0
        while k < len(order):
            far = np.flatnonzero(begins[k + 1 :] - ends[k:-1] > _GAP)
            near = k + 1 + (int(far[0]) if len(far) else len(order))
            j = min(near, max(k + 1, int(np.searchsorted(ends, begins[k] + WINDOW, side="right"))), len(order))
            a, b = int(begins[k]), int(ends[j - 1])
            found.append(gathered(self.source.tokens(a, b), begins[k:j] - a, lengths[k:j]).tokens)
            k = j
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return reordered(Ragged(np.concatenate(found), offsets_of(lengths)), back).tokens

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        number = int(np.searchsorted(self._offsets, position, side="right")) - 1
        return self.source, position - int(self._offsets[number]) + int(self._starts[number])

    def from_source(self, position: int) -> int | None:
        """If several intervals hold the token, return the position in the first."""
        lengths = np.diff(self._offsets)
        there = np.flatnonzero((self._starts <= position) & (position < self._starts + lengths))
        return int(self._offsets[there[0]]) + position - int(self._starts[there[0]]) if len(there) else None


class Picked(Intervals):
    """The sequences of a source with given numbers, in the given order. A number may repeat."""

    def __init__(self, source: TokenReader, numbers: NDArray[np.int64]) -> None:
        """Read the offsets of the sequences."""
        starts, lengths = np.empty((2, len(numbers)), np.int64)
        order = np.argsort(numbers, kind="stable")
        at = 0
        while at < len(order):
            first = int(numbers[order[at]])
            stop = at + int(np.searchsorted(numbers[order[at : at + _MANY]], first + _MANY))
            near = numbers[order[at:stop]] - first
            bounds = source.offsets(first, first + int(near[-1]) + 1)
            starts[order[at:stop]] = bounds[near]
            lengths[order[at:stop]] = bounds[near + 1] - bounds[near]
            at = stop
        super().__init__(source, starts, lengths)


class Shuffled(Picked):
    """All sequences of a source in the order of a seed. `run.shuffle` gives the same order."""

    def __init__(self, source: TokenReader, seed: int) -> None:
        self.seed = seed
        super().__init__(source, np.argsort(draws(seed, SHUFFLE, 0, source.info.sequences), kind="stable"))


class Rows(View):
    """The tokens of `source` in rows of `length` tokens. The last row may be shorter."""

    def __init__(self, source: TokenReader, length: int) -> None:
        info = source.info
        rows = -(-info.tokens // length)
        super().__init__(source, replace(info, layout=Layout.SAMPLES, sequences=rows, sample_length=length))
        self.width = length

    def offsets(self, first: int, last: int) -> Offsets:
        return np.minimum(np.arange(first, last + 1, dtype=np.int64) * self.width, self.info.tokens)


_SHARED_FACTS: dict[str, object] = {
    "pad_id": None,
    "split": None,
    "other_splits": (),
    "odd": None,
    "loss_masks": "",
    "unmasked": False,
}
"""Attributes of `Info` that several sources share if their values are equal, with the value if they are not."""


class Concat(TokenReader):
    """The sequences of all sources, in order. No sequence crosses from one source to the next."""

    def __init__(self, sources: Sequence[TokenReader]) -> None:
        self.sources = list(sources)
        infos = [source.info for source in self.sources]
        self._starts = offsets_of([info.tokens for info in infos])
        self._firsts = offsets_of([info.sequences for info in infos])
        known = [info.max_id for info in infos if info.max_id is not None]
        free_of = {info.free_of for info in infos}
        lengths = {info.sample_length for info in infos}
        self.info = replace(
            infos[0],
            dtype=np.result_type(*(info.dtype for info in infos)),
            sequences=int(self._firsts[-1]),
            tokens=int(self._starts[-1]),
            max_id=max(known) if len(known) == len(infos) else None,
            sample_length=infos[0].sample_length if len(lengths) == 1 else None,
            free_of=infos[0].free_of if len(free_of) == 1 else None,
            segmented=any(info.segmented for info in infos),
            inner=tuple(one for info in infos for one in info.inner),
            inferred=tuple(fact for info in infos for fact in info.inferred),
            notes=tuple(note for info in infos for note in info.notes),
            **_agreed(infos),
        )

    def as_dataset(self, *, drawn: bool = False) -> Dataset:
        return concat([dataset_of(source, drawn=drawn) for source in self.sources])

    def tokens(self, start: int, stop: int) -> Tokens:
        dtype = self.info.dtype
        pieces = [self.sources[k].tokens(a, b).astype(dtype, copy=False) for k, a, b in self._parts(start, stop)]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, self.info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """In a source without marks, every token counts."""
        if all(source.marks(0, 0) is None for source in self.sources):
            return None
        pieces = [np.empty(0, np.uint8)]
        for k, a, b in self._parts(start, stop):
            found = self.sources[k].marks(a, b)
            pieces.append(np.ones(b - a, np.uint8) if found is None else found)
        return np.concatenate(pieces)

    def read_scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Read source by source."""
        sources = np.searchsorted(self._starts, begins, side="right") - 1
        for k in np.unique(sources).tolist():
            of = sources == k
            self.sources[k].read_scattered(begins[of] - self._starts[k], places[of], lengths[of], out)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        found: list[Piece] = []
        for k, a, b in self._parts(start, stop):
            pieces = self.sources[k].pieces(a, b)
            if pieces is None:
                return None
            found += pieces
        return found

    def offsets(self, first: int, last: int) -> Offsets:
        pieces = [np.empty(0, np.int64)]
        for k in _touched(self._firsts, first, last):
            base = int(self._firsts[k])
            a, b = max(first - base, 0), min(last, int(self._firsts[k + 1])) - base
            pieces.append(self.sources[k].offsets(a, b)[:-1] + self._starts[k])
        return np.concatenate([*pieces, [self._end_before(last)]])

    def sequence_at(self, position: int) -> int:
        k = max(0, int(np.searchsorted(self._starts[:-1], position, side="right")) - 1)
        found = int(self._firsts[k]) + self.sources[k].sequence_at(position - int(self._starts[k]))
        return max(0, min(found, self.info.sequences - 1))

    def _end_before(self, last: int) -> int:
        """Return the offset at which sequence `last` begins, or the end of the axis."""
        if last == self.info.sequences:
            return self.info.tokens
        k = int(np.searchsorted(self._firsts, last, side="right")) - 1
        local = last - int(self._firsts[k])
        return int(self.sources[k].offsets(local, local)[0]) + int(self._starts[k])

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        k = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self.sources[k], position - int(self._starts[k])

    def find(self, place: Place, byte: int) -> int | None:
        for source, start in zip(self.sources, self._starts.tolist(), strict=False):
            if (position := source.find(place, byte)) is not None:
                return int(start) + position
        return None

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield the source, and the interval on its own axis, of each part of an interval of the axis."""
        for k in _touched(self._starts, start, stop):
            base = int(self._starts[k])
            yield k, max(start - base, 0), min(stop, int(self._starts[k + 1])) - base

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _agreed(infos: Sequence[Info]) -> dict[str, Any]:
    """Return the attributes of `Info` on which all sources agree."""
    found: dict[str, Any] = {}
    for name, nothing in _SHARED_FACTS.items():
        values = [getattr(info, name) for info in infos]
        found[name] = values[0] if all(value == values[0] for value in values) else nothing
    extras = infos[0].extras.items()
    return {**found, "extras": {key: one for key, one in extras if all(i.extras.get(key) == one for i in infos)}}


def _touched(bounds: Offsets, start: int, stop: int) -> range:
    """Return the sources that an interval touches. Empty sources in between may be included."""
    if start == stop:
        return range(0)
    first = int(np.searchsorted(bounds, start, side="right")) - 1
    return range(first, int(np.searchsorted(bounds, stop, side="left")))
