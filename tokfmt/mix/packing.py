"""Cut the joined axis of sources into samples.

A packing returns the *runs* of each sample: intervals of the axis, each placed at a column of the sample. A run may be
followed by one more position, the label of its last token. Tokens, labels, boundaries and spans follow from the runs.

    stream     one run per sample, cut every `seq_len`; if documents are shuffled, one run per document
    document   one run per sample: a sequence, or a part of a long one
    bestfit    several runs per sample, each a sequence or a part of a long one; see `best_fit`
    stored     a stored sample
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import windows
from tokfmt.mix.cache import Numbers, columns, key_of
from tokfmt.mix.documents import Axis
from tokfmt.mix.language import RecipeFile
from tokfmt.mix.order import ORDER_DOCUMENTS, permutation

_AT_ONCE = 1 << 18  # sequences
GROUP = 1 << 24
"""The number of parts that best fit plans together, so that memory is bounded."""
_NONE = np.empty(0, np.int64)


class Run(NamedTuple):
    """An interval of the axis in a sample."""

    column: int  # in the sample, where it begins
    start: int  # on the axis
    length: int  # in tokens
    more: bool  # the next position on the axis is the label of its last token


class SequencesInSamples(NamedTuple):
    """The sequences in some samples of a pass, each sequence once."""

    sequences: Numbers  # int64[n], indexes on the axis
    tokens: Numbers  # int64[n], positions of each in these samples
    cut: NDArray[np.bool_]  # bool[n], the sequence is in more than one sample of the pass, of which one is among these


Selection = Callable[[int, int], NDArray[np.bool_]]
"""A function of a and b that returns bool[b - a]: True for the selected samples `a <= s < b` of a pass."""


class Packing(Protocol):
    """A cut of a list of sources into samples."""

    axis: Axis
    samples: int  # of one pass
    tokens: int  # positions of the axis in the samples of one pass, without those that are labels only
    inner: bool  # sequences can begin inside runs

    def runs(self, sample: int) -> Sequence[Run]:
        """Return the runs of a sample, in order of columns."""

    def intervals(self, sample: int) -> Sequence[tuple[int, int]]:
        """Return the intervals of the axis that a sample advances by, in order of columns."""

    def holding(self, start: int, stop: int) -> Numbers:
        """Return the samples of a pass, ascending, with some positions of a sequence, `start <= p < stop`."""

    def left_out(self) -> dict[str, int]:
        """Return the number of positions of the axis that are in no sample of a pass, by reason."""

    def sequences_in(self, selection: Selection) -> Iterator[SequencesInSamples]:
        """Yield the sequences in the selected samples of a pass, in windows of sequences."""


class Stream:
    """The packing `stream`: sequences in order, cut every `step` positions.

    With the labels `next` and `disjoint`, the last label is the token after the inputs. With `disjoint`, the next
    sample begins after that token.
    """

    inner = True

    def __init__(self, axis: Axis, recipe: RecipeFile) -> None:
        self.axis, self.convention = axis, recipe.convention
        self.width = recipe.seq_len or 1
        self.after = int(self.convention in ("next", "disjoint"))
        self.step = self.width + int(self.convention == "disjoint")
        full, rest = divmod(axis.tokens, self.step)
        if self.convention == "next":
            full, rest = divmod(max(axis.tokens - 1, 0), self.step)
        partial = rest > int(self.convention == "disjoint") and recipe.tail != "drop"
        self.samples = full + partial
        self.tokens = min(self.samples * self.step, axis.tokens)

    def runs(self, sample: int) -> Sequence[Run]:
        start = sample * self.step
        there = min(self.width + self.after, self.axis.tokens - start)
        more = self.after > 0 and (there > self.width or self.convention == "disjoint")
        return [Run(0, start, there - more, more)]

    def intervals(self, sample: int) -> Sequence[tuple[int, int]]:
        start = sample * self.step
        return [(start, min(start + self.step, self.axis.tokens))]

    def holding(self, start: int, stop: int) -> Numbers:
        return np.arange(start // self.step, min((stop - 1) // self.step + 1, self.samples))

    def left_out(self) -> dict[str, int]:
        rest = self.axis.tokens - self.tokens
        if self.convention == "next" and rest == 1:
            rest = 0  # the last label
        return {"tail": rest} if rest else {}

    def sequences_in(self, selection: Selection) -> Iterator[SequencesInSamples]:
        for a, b, tokens, cut in self._windows(self.axis.starts.array, selection):
            yield SequencesInSamples(np.arange(a, b), tokens, cut)

    def _windows(self, starts: Numbers, selection: Selection) -> Iterator[tuple[int, int, Numbers, NDArray[np.bool_]]]:
        """Yield `a`, `b`, and for sequences `a <= k < b` their positions in the selected samples and their cuts."""
        a, count, step = 0, len(starts) - 1, self.step
        while a < count:
            b = int(np.searchsorted(starts, starts[a] + _AT_ONCE * step, side="right")) - 1
            b = min(max(b, a + 1), a + _AT_ONCE, count)
            bounds = np.minimum(starts[a : b + 1], self.tokens)
            low, high = int(bounds[0]) // step, -(-int(bounds[-1]) // step)
            meant = np.append(selection(low, high), False) if low < high else np.zeros(1, np.bool_)
            sample, inside = np.divmod(bounds - low * step, step)
            before = offsets_of(meant[:-1].view(np.int8))[sample] * step + np.where(meant[sample], inside, 0)
            tokens = np.diff(before)
            yield a, b, tokens, (sample[:-1] < (bounds[1:] - 1) // step - low) & (tokens > 0)
            a = b


class ShuffledStream(Stream):
    """A stream whose sequences are shuffled once, by the seed; samples are cut from the shuffled stream."""

    def __init__(self, axis: Axis, recipe: RecipeFile, list_number: int, key: str) -> None:
        """Shuffle the sequences; `list_number` is the number of the list among those that are packed separately."""
        super().__init__(axis, recipe)
        self.list_number, self.seed = list_number, recipe.seed
        key = key_of(key, "documents", recipe.seed, list_number)
        names = ("order", "ordered")
        self._order, self._starts = columns(key, 16 * (axis.sequences + 1), names, self._walk, axis.unkept)

    def _walk(self) -> Iterator[tuple[Numbers, Numbers]]:
        order, position = permutation(max(1, self.axis.sequences), self.seed, ORDER_DOCUMENTS, self.list_number), 0
        for a, b in windows(0, self.axis.sequences, _AT_ONCE):
            sequences = order.many(np.arange(a, b))
            starts = self.axis.starts.array
            begins = offsets_of(starts[sequences + 1] - starts[sequences]) + position
            yield sequences, begins[:-1]
            position = int(begins[-1])
        yield np.empty(0, np.int64), np.array([position], np.int64)

    def runs(self, sample: int) -> Sequence[Run]:
        ((_, start, length, more),) = super().runs(sample)
        runs, column = [], 0
        for a, b in self._drawn(start, start + length + more):
            runs.append(Run(column, a, b - a, False))
            column += b - a
        if more:  # The last of `length` + 1 positions is the label of the one before it.
            runs[-1] = runs[-1]._replace(length=runs[-1].length - 1, more=True)
        return runs

    def _drawn(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of the axis of an interval of the shuffled stream."""
        if start >= stop:
            return
        bounds = self._starts.array
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        last = int(np.searchsorted(bounds, stop, side="left"))
        begins = self.axis.starts.array[self._order.array[first:last]].tolist()
        for begin, (a, b) in zip(begins, itertools.pairwise(bounds[first : last + 1].tolist()), strict=True):
            yield begin + max(start, a) - a, begin + min(stop, b) - a

    def holding(self, start: int, stop: int) -> Numbers:
        sequence = int(np.searchsorted(self.axis.starts.array, start, side="right")) - 1
        order = permutation(max(1, self.axis.sequences), self.seed, ORDER_DOCUMENTS, self.list_number)
        begin = int(self._starts.array[order.inverse(np.array([sequence]))[0]])
        return super().holding(begin, begin + stop - start)

    def intervals(self, sample: int) -> Sequence[tuple[int, int]]:
        ((start, stop),) = super().intervals(sample)
        return list(self._drawn(start, stop))

    def sequences_in(self, selection: Selection) -> Iterator[SequencesInSamples]:
        for a, b, tokens, cut in self._windows(self._starts.array, selection):
            yield SequencesInSamples(self._order.array[a:b], tokens, cut)


class Planned:
    """The packings `document` (one part per sample) and `bestfit` (several parts per sample, by a plan).

    A part (in the code: piece) is a sequence, or a part of a long one. A part without a target is left out: one token,
    if labels are the next tokens, or the tokens themselves, which the model shifts. Arrays in the cache hold:

    - the start of each part on the axis,
    - its length · 2, plus 1 if it is cut, so that its last label is the next position,
    - for `bestfit`, the parts in the order of samples, and the index of the first part of each sample.
    """

    inner = False

    def __init__(self, axis: Axis, recipe: RecipeFile, list_number: int, key: str) -> None:
        self.axis, self.recipe, self.list_number = axis, recipe, list_number
        self.width, self.fits = recipe.seq_len or 1, recipe.pack == "bestfit"
        self.shuffled = recipe.shuffle == "documents"
        names = ("pieces", "lengths", "order", "samples", "totals")
        drawn = (recipe.seed, list_number) if self.shuffled else ()
        key = key_of(key, recipe.pack, self.width, recipe.convention, recipe.long, *drawn)
        size_bytes = 32 * (axis.sequences + axis.tokens // self.width + 2)
        arrays = columns(key, size_bytes, names, self._walk, axis.unkept)
        self._starts, self._lengths, self._order, self._firsts, totals = arrays
        self.tokens, self._truncated, self._targetless = map(int, totals.array)
        self.samples = len(self._firsts) - 1 if self.fits else len(self._starts)

    def _walk(self) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]]:
        none, totals, count = np.empty(0, np.int64), np.zeros(3, np.int64), 0
        passed: list[tuple[Numbers, Numbers]] = []

        def lengths() -> Iterator[Numbers]:
            nonlocal count, totals
            for starts, lengths, counted in self._pieces():
                totals, count = totals + counted, count + len(starts)
                passed.append((starts, lengths))
                yield lengths >> 1

        planned = best_fit(lengths(), self.width) if self.fits else ((none, none) for _ in lengths())
        for order, firsts in planned:
            yield from ((*piece, none, none, none) for piece in passed)
            passed.clear()
            yield none, none, order, firsts, none
        yield none, none, none, np.array([count], np.int64) if self.fits else none, totals

    def _counted(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield sequences in the order of their parts, and the number of parts of each."""
        bounds = self.axis.starts.array
        order = permutation(max(1, self.axis.sequences), self.recipe.seed, ORDER_DOCUMENTS, self.list_number)
        for a, b in windows(0, self.axis.sequences, _AT_ONCE):
            sequences = order.many(np.arange(a, b)) if self.shuffled else np.arange(a, b)
            pieces = -(-(bounds[sequences + 1] - bounds[sequences] - self._predicts) // self.width)
            yield sequences, np.minimum(pieces, 1) if self.recipe.long == "truncate" else pieces

    @property
    def _predicts(self) -> int:
        """The number of positions of a sequence that are no targets, because no token before them predicts them."""
        return int(self.recipe.convention in ("next", "same"))

    def _pieces(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Yield the starts of parts, length · 2 + cut, and the totals (tokens, truncated, targetless)."""
        bounds, width = self.axis.starts.array, self.width
        follows, truncates = self.recipe.convention == "next", self.recipe.long == "truncate"
        for sequences, pieces in self._counted():
            begins, whole = bounds[sequences], bounds[sequences + 1] - bounds[sequences]
            first = offsets_of(pieces)
            which = np.repeat(np.arange(len(sequences)), pieces)
            inside = (np.arange(first[-1]) - first[which]) * width
            lengths = np.minimum(whole[which] - inside, width)
            ends = inside + lengths
            cut = (ends < whole[which]) & follows
            rest = np.maximum(whole - pieces * width, 0)
            rest -= (pieces > 0) & (rest > 0) & follows  # the label of the last position is used
            truncated = int(rest[pieces > 0].sum()) if truncates else 0
            totals = [int(lengths.sum()), truncated, int(rest.sum()) - truncated]
            yield begins[which] + inside, lengths * 2 + cut, np.array(totals, np.int64)

    def sequences_in(self, selection: Selection) -> Iterator[SequencesInSamples]:
        first, meant = 0, self._selected_pieces(selection) if self.fits else selection
        for sequences, pieces in self._counted():
            ends = np.cumsum(pieces)
            stop = first + int(ends[-1])
            tokens_before = offsets_of((self._lengths.array[first:stop] >> 1) * meant(first, stop))
            tokens = tokens_before[ends] - tokens_before[ends - pieces]
            yield SequencesInSamples(sequences, tokens, (pieces > 1) & (tokens > 0))
            first = stop

    def _selected_pieces(self, selection: Selection) -> Selection:
        """Return the selection of the parts of selected samples of best fit, group by group, called in order."""
        group, flags_of_group = -1, np.empty(0, np.bool_)

        def selected(a: int, b: int) -> NDArray[np.bool_]:
            nonlocal group, flags_of_group
            flags = np.empty(b - a, np.bool_)
            while a < b:
                if a // GROUP != group:
                    group = a // GROUP
                    flags_of_group = self._of_group(group * GROUP, selection)
                end = min(b, (group + 1) * GROUP)
                flags[len(flags) - (b - a) :][: end - a] = flags_of_group[a - group * GROUP : end - group * GROUP]
                a = end
            return flags

        return selected

    def _of_group(self, first: int, selection: Selection) -> NDArray[np.bool_]:
        """Return the selection of the parts of one group; no sample has parts of two groups."""
        firsts, stop = self._firsts.array, min(first + GROUP, len(self._order))
        flags = np.zeros(stop - first, np.bool_)
        low, high = np.searchsorted(firsts, (first, stop)).tolist()
        for a, b in windows(low, high, _AT_ONCE):
            pieces = self._order.array[firsts[a] : firsts[b]]
            flags[pieces - first] = np.repeat(selection(a, b), np.diff(firsts[a : b + 1]))
        return flags

    def runs(self, sample: int) -> Sequence[Run]:
        if not self.fits:
            length, cut = divmod(int(self._lengths.array[sample]), 2)
            return [Run(0, int(self._starts.array[sample]), length, bool(cut))]
        first, last = self._firsts.array[sample : sample + 2].tolist()
        runs, column, pieces = [], 0, self._order.array[first:last]
        starts, lengths = self._starts.array[pieces].tolist(), self._lengths.array[pieces].tolist()
        for start, length in zip(starts, lengths, strict=True):
            runs.append(Run(column, start, length >> 1, bool(length & 1)))
            column += length >> 1
        return runs

    def intervals(self, sample: int) -> Sequence[tuple[int, int]]:
        return [(run.start, run.start + run.length) for run in self.runs(sample)]

    def holding(self, start: int, stop: int) -> Numbers:
        pieces = _places(self._starts.array, lambda some: (start <= some) & (some < stop))
        if not self.fits:
            return pieces
        places = _places(self._order.array, lambda some: np.isin(some, pieces))
        return np.unique(np.searchsorted(self._firsts.array, places, side="right") - 1)

    def left_out(self) -> dict[str, int]:
        counts = {"truncated": self._truncated, "targetless": self._targetless}
        return {word: count for word, count in counts.items() if count}


class StoredSamples:
    """The packing `stored`: samples as they are stored."""

    inner = True

    def __init__(self, axis: Axis, recipe: RecipeFile) -> None:
        self.axis, self.width = axis, recipe.seq_len or 1
        self.samples, self.tokens = axis.sequences, axis.tokens

    def runs(self, sample: int) -> Sequence[Run]:
        return [Run(0, sample * self.width, self.width, False)]

    def intervals(self, sample: int) -> Sequence[tuple[int, int]]:
        return [(sample * self.width, (sample + 1) * self.width)]

    def holding(self, start: int, stop: int) -> Numbers:
        return np.arange(start // self.width, -(-stop // self.width))

    def left_out(self) -> dict[str, int]:
        return {}

    def sequences_in(self, selection: Selection) -> Iterator[SequencesInSamples]:
        for a, b in windows(0, self.samples, _AT_ONCE):
            yield SequencesInSamples(np.arange(a, b), selection(a, b) * np.int64(self.width), np.zeros(b - a, np.bool_))


def _places(numbers: Numbers, wanted: Callable[[Numbers], NDArray[np.bool_]]) -> Numbers:
    """Return the places of the numbers that are wanted, by a search in windows."""
    found = [a + np.flatnonzero(wanted(numbers[a:b])) for a, b in windows(0, len(numbers))]
    return np.concatenate(found) if found else _NONE


def packed(axis: Axis, recipe: RecipeFile, list_number: int, key: str) -> Packing:
    """Return the packing of a list of sources."""
    if recipe.pack == "stored":
        return StoredSamples(axis, recipe)
    if recipe.pack in ("document", "bestfit"):
        return Planned(axis, recipe, list_number, key)
    if recipe.pack not in (None, "stream"):
        raise NotImplementedError(recipe.pack)
    return ShuffledStream(axis, recipe, list_number, key) if recipe.shuffle == "documents" else Stream(axis, recipe)


def best_fit(lengths: Iterable[Numbers], width: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Plan samples by best fit decreasing, group by group. About 20 bytes are held per part of a group.

    Parts are placed by falling length. Each goes to the open sample with the least room that is enough. Lengths are
    whole numbers up to `width`, so the parts of one length are placed together:

    1. An open sample with room r takes floor(r / length) of them, because after the first it has the least room.
    2. The next open sample with the same room follows, by number.
    3. Then follow the samples with more room.

    Each room is emptied a few times, so a plan costs about `width` numpy steps over its parts, not a search per part.
    No part is longer than `width`. After each array of lengths it yields a pair of empty arrays; for each group, the
    numbers of its parts in the order of samples, and the indexes of the parts that are the first of a sample.
    """
    group, count, base = list[NDArray[np.int32]](), 0, 0
    for some_lengths in lengths:
        done = 0
        while done < len(some_lengths):
            group.append(some_lengths[done : done + GROUP - count].astype(np.int32))
            count, done = count + len(group[-1]), done + len(group[-1])
            if count == GROUP:
                yield from _planned(group, width, base)
                count, base = 0, base + count
        yield _NONE, _NONE
    if count:
        yield from _planned(group, width, base)


def _planned(group: list[NDArray[np.int32]], width: int, base: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Plan one group. The list of lengths is emptied, so that no array is held twice."""
    lengths = np.concatenate(group)
    group.clear()
    sample = fitted(lengths, width)
    del lengths
    order, counts = _ordered(sample, int(sample.max()) + 1)
    yield _NONE, offsets_of(counts)[:-1] + base
    for a, b in windows(0, len(order)):
        yield order[a:b].astype(np.int64) + base, _NONE


def fitted(lengths: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """Return the sample of each part, int32[n]; samples are numbered by their first part."""
    count = len(lengths)
    order, counts = _ordered(width - lengths, width + 1)
    sample = np.empty(count, np.int32)
    rooms = _Rooms(width)
    at = 0
    for room in np.flatnonzero(counts).tolist():
        alike = order[at : at + int(counts[room])]
        at += len(alike)
        _place(alike, width - room, rooms, sample)
    del order
    first = np.full(rooms.samples, count, np.int32)
    for a, b in windows(0, count):
        np.minimum.at(first, sample[a:b], np.arange(a, b, dtype=np.int32))
    rank = np.empty(rooms.samples, np.int32)
    rank[np.argsort(first)] = np.arange(rooms.samples, dtype=np.int32)
    return rank[sample]


def _ordered(values: NDArray[np.int32], kinds: int) -> tuple[NDArray[np.int32], Numbers]:
    """Return the stable order of values below `kinds` and their counts, by a counting sort in windows."""
    counts = np.zeros(kinds, np.int64)
    for a, b in windows(0, len(values)):
        counts += np.bincount(values[a:b], minlength=kinds)
    order, nexts = np.empty(len(values), np.int32), np.cumsum(counts) - counts
    for a, b in windows(0, len(values)):
        local = np.argsort(values[a:b], kind="stable")
        sorted_, here = values[a:b][local], np.bincount(values[a:b], minlength=kinds)
        order[(nexts - np.cumsum(here) + here)[sorted_] + np.arange(b - a)] = local + a
        nexts += here
    return order, counts


class _Rooms:
    """The open samples, by their room."""

    def __init__(self, width: int) -> None:
        # samples: that were opened
        self.width, self.samples = width, 0
        self._by_room: list[list[NDArray[np.int32]]] = [[] for _ in range(width + 1)]
        self._set = np.zeros(width + 2, np.bool_)

    def minimum(self, length: int) -> int:
        """Return the least room of an open sample that is enough for a length; 0 without one."""
        extra = int(np.argmax(self._set[length:]))
        return length + extra if self._set[length + extra] else 0

    def take(self, room: int, count: int) -> NDArray[np.int32]:
        """Remove and return up to `count` open samples of a room, the first by number."""
        parts = self._by_room[room]
        ids = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        taken, rest = ids[:count], ids[count:]
        self._by_room[room] = [rest] if len(rest) else []
        self._set[room] = bool(len(rest))
        return taken

    def open(self, count: int) -> NDArray[np.int32]:
        """Open new samples, and return their numbers."""
        ids = np.arange(self.samples, self.samples + count, dtype=np.int32)
        self.samples += count
        return ids

    def put(self, ids: NDArray[np.int32], room: int) -> None:
        """Add samples with a room; full samples are dropped."""
        if len(ids) and room:
            self._by_room[room].append(ids)
            self._set[room] = True


def _place(pieces: NDArray[np.int32], length: int, rooms: _Rooms, sample: NDArray[np.int32]) -> None:
    """Place the parts of one length, in order."""
    done = 0
    while done < len(pieces):
        room = rooms.minimum(length)
        each = (room or rooms.width) // length
        wanted = -(-(len(pieces) - done) // each)
        ids = rooms.take(room, wanted) if room else rooms.open(wanted)
        room = room or rooms.width
        whole = min(len(ids), (len(pieces) - done) // each)
        sample[pieces[done : done + whole * each]] = np.repeat(ids[:whole], each)
        rooms.put(ids[:whole], room - each * length)
        done += whole * each
        if whole < len(ids):  # the last sample takes the remaining parts
            rest = len(pieces) - done
            sample[pieces[done:]] = ids[whole]
            rooms.put(ids[whole:], room - rest * length)
            done = len(pieces)
