"""What a destination stores, as an axis: contents with the separators and leads that it writes.

The regions of parallel writers, samples, and windows of a training are intervals of this axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import WINDOW, Axis, ByteOffset, Dtype, check_interval, check_position, windows
from tokfmt.errors import CorruptError, IncompleteWriteError, OptionError, UnendedError
from tokfmt.files.place import Place
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, BEFORE, LEAD, SEP, Batch, Boundaries, Sides, refuse_embedded
from tokfmt.model.dataset import Dataset
from tokfmt.wording import counted

STEP = 1 << 12
"""Sequences per position that is held."""
_AT_ONCE = 1 << 18
REMEDY = "tokfmt convert, without --task, reads each sequence by its own end, and closes it. Read what it writes"
"""What cures a sequence without the separator where positions were given out that presume it."""
KEPT = "--eos none reads the sequences as they are stored, with the IDs that end them"
"""The remedy if sequences do not end with the separator that a file states."""


def changed() -> IncompleteWriteError:
    """Return the error of a separator that is no longer where it was found."""
    return IncompleteWriteError("the files changed since their separators were counted. Run again")


class _Places(NamedTuple):
    """Where one sequence is in the source, and what the destination writes beside it."""

    start: int  # first slot of the content
    stop: int  # slot after it
    separator: bool  # the destination writes a separator
    lead: bool  # the destination writes a lead
    lead_in: int  # tokens that the destination writes in front of the content
    separator_slot: int | None  # slot of its separator; None without one
    lead_slot: int | None  # slot of its lead; None without one


class Laid(Axis):
    """The axis of a destination. A read presumes positions, or knows them.

    Positions are presumed if they follow from the extents alone: every sequence that was looked at was closed, or
    none was. A read of a sequence that differs raises UnendedError; positions are exact after a look at the end of
    every sequence. 8 bytes are held per 4,096 sequences.
    """

    length: int = 0

    def __init__(self, dataset: Dataset, target: Boundaries, *, exact: bool = False, even: bool = False) -> None:
        """Find the positions; a stream is scanned. With `exact`, the end of every sequence is looked at, also if
        positions could be presumed. With `even`, no sequence is presumed to be empty. If all are presumed to be closed,
        positions then follow from single entries of the index, which is not read for them. Separators that are written
        as they are stored and mark boundaries must follow every sequence but the last.
        """
        # dataset: the source
        # target: what is written beside contents
        self.dataset, self.target, self.count = dataset, target, dataset.spans.count
        lacking = target.only_closed and target.kind != "index"
        self.is_exact = exact or lacking or not dataset.spans.presumes  # positions are known
        if lacking:
            self._refuse_lacking()
        self._seamless = self._is_seamless()
        adds = target.kind in {"after", "before"} or (target.kind == "index" and dataset.spans.filled)
        adds = adds and target.id is not None and not target.only_closed and self._takes_all()
        start, stop, spans = 0, 0, dataset.spans
        if self.count and (spans.tiles or self._seamless):
            start, stop = int(spans.cuts(0, 0)[0]), int(spans.cuts(self.count, self.count)[0])
        self._even = even and (self._seamless or adds) and not self.is_exact and self.count > 0
        if self._seamless and stop - start < self.count:  # Fewer slots than separators: some sequence is empty.
            self._even = False
        refuses = target.kind != "index" and not {"embedded-separators", "empty-sequences"} <= target.accepted
        self._adds = target.id is not None and not refuses and self._takes_all()
        parts = [np.zeros(1, np.int64)]
        for first, last in windows(0, 0 if self._even else self.count, _AT_ONCE):
            sizes = self._sizes(first, last)
            parts.append(np.add.reduceat(sizes, np.arange(0, last - first, STEP)))
        self.bases = np.cumsum(np.concatenate(parts))  # position of every 4,096th sequence, and the length: int64
        self._from, self._added = start, int(adds) - int(target.id is None)
        self.length = stop - start + self.count * self._added if self._even else int(self.bases[-1])
        same = self._seamless and target.id is not None and stop - start == self.length
        self.same_from = start if same else None
        """The slot of the source that position 0 is, if the destination stores the slots as they are."""
        alone = dataset.gap.alone and dataset.gap.lead is None
        self._is_plain = target.id is None and target.lead is None and (alone or self._seamless) and not exact
        """Contents alone are stored, and nothing but separators is between them in the source."""

    @cached_property
    def dtype(self) -> Dtype:  # type: ignore[override]
        return self.target.widest(self.dataset.axis.dtype)

    def _takes_all(self) -> bool:
        """Return whether the source has nothing beside contents, by a rule that looks at no token."""
        spans, target = self.dataset.spans, self.target
        return spans.tiles and spans.usual == 0 and spans.ending is None and target.lead is None and self.count > 0

    def _is_seamless(self) -> bool:
        """Return whether only separators are between contents, and the destination stores these, or none."""
        spans, gap, target = self.dataset.spans, self.dataset.gap, self.target
        if not self.count or gap.id is None or gap.lead is not None or target.lead is not None:
            return False
        if target.id is not None and (gap.id != target.id or target.side != spans.usual):
            return False
        return spans.seamless

    def offsets(self, first: int, last: int, stop: int | None = None) -> Offsets:
        """Return the position of each sequence `first <= i < last` before `stop`, and the end of the last."""
        check_interval(first, last, self.count, "sequences")
        offsets: Offsets
        if self._even:
            offsets = self.dataset.spans.cuts(first, last) - self._from + self._added * np.arange(first, last + 1)
        else:
            begin = first - first % STEP
            offsets = (offsets_of(self._sizes(begin, last)) + self.bases[begin // STEP])[first - begin :]
        if stop is not None:
            offsets = offsets[: int(np.searchsorted(offsets[:-1], stop - 1, "right")) + 1]
        if self._even and (self._seamless or self.target.kind == "index"):
            empty = np.flatnonzero(np.diff(offsets) == self._added)
            if len(empty):
                raise self._unended(first + int(empty[0]))
        return offsets

    def _sequences(self, start: int, stop: int) -> tuple[int, Offsets]:
        """Return the first sequence of a non-empty interval, the offset of each one in it, and the end of the last.
        With a `stop` above `length`, the sequences without a position at the end are among them.
        """
        first = self.sequence_at(start) if start else 0
        if stop > self.length:
            return first, self.offsets(first, self.count)
        offsets = self.offsets(first, min(self.count, first + min(STEP, stop - start)), stop)
        if offsets[-1] < stop:
            offsets = self.offsets(first, self.sequence_at(stop - 1) + 1, stop)
        return first, offsets

    def _start(self, number: int) -> int:
        """Return the position of a sequence."""
        return int(self.offsets(number, number)[0])

    def sequence_at(self, position: int) -> int:
        """Return the last sequence that begins at or before a position; 0 without one. See `reader.sequence_at`."""
        low, high = 0, self.count
        if not self._even:  # It is in one of the blocks of which the position is held.
            block = max(0, int(np.searchsorted(self.bases[:-1], position, "right")) - 1) * STEP
            offsets = self.offsets(block, min(high, block + STEP))[:-1]
            return block + max(0, int(np.searchsorted(offsets, position, "right")) - 1)
        cuts = self.dataset.spans.cuts
        while high - low > STEP:
            middle = (low + high) // 2
            is_after = int(cuts(middle, middle)[0]) - self._from + self._added * middle > position
            low, high = (low, middle) if is_after else (middle, high)
        starts = cuts(low, high)[:-1] - self._from + self._added * np.arange(low, high)
        return low + max(0, int(np.searchsorted(starts, position, "right")) - 1)

    def walk(self, start: int, stop: int) -> Iterator[Tokens]:
        """Yield tokens in order, in windows of about 2^20; an end other than presumed raises UnendedError."""
        if start == stop:
            return
        first = self.sequence_at(start) if start else 0
        inside, last = start - self._start(first), self.sequence_at(stop - 1) + 1
        # Sequences of which nothing is stored are looked at as well.
        last = max(last, self.sequence_at(stop) if stop < self.length else self.count)
        if inside:
            yield from self._sequence(first, inside, stop - start + inside)
            first += 1
        at = self._start(first) if first < last else 0
        for batch in self.dataset.batches(WINDOW, first, last, WINDOW):
            if len(batch) == 1 and not len(batch.window):  # It is empty, or too long for one window.
                yield from self._sequence(batch.first, 0, stop - at)
                at = self._start(batch.first + 1)
                continue
            self._check(batch)
            laid = batch.laid_out(self.target)
            yield laid.tokens[: max(0, stop - at)]
            at += len(laid.tokens)

    def _is_long(self, number: int) -> bool:
        """Return whether a sequence is read in several windows."""
        start, stop = self.dataset.spans.extent(number)
        return stop - start > WINDOW

    def _sequence(self, number: int, start: int, stop: int) -> Iterator[Tokens]:
        """Yield the slots `start <= p < stop` of one sequence, which may be long."""
        if not self._is_long(number):
            (batch,) = self.dataset.batches(WINDOW, number, number + 1)
            self._check(batch)
            laid = batch.laid_out(self.target)
            yield laid.tokens[start:stop]
            return
        # Its two ends tell what is written around it.
        begin, end = self.dataset.spans.extent(number)
        axis, starts = self.dataset.axis, self.dataset.contents(number, number + 1)
        content, after = int(starts[0][0]), int(starts[1][0])
        head, tail = axis.tokens(begin, content + 1), axis.tokens(after - 1, end)
        edges = Batch(
            number,
            np.concatenate([head, tail]),
            None,
            np.array([content - begin]),
            np.array([content - begin + 2]),
            starts[2],
            *self._ids(),
        )
        self._check(edges)
        laid = edges.laid_out(self.target)
        separator, lead = self.target.beside(np.array([2]), starts[2])
        lead_in = int(lead[0]) + int(separator[0] and self.target.side == BEFORE)
        around = (laid.tokens[:lead_in], laid.tokens[lead_in + 2 :])
        length = after - content
        total = lead_in + length + len(around[1])
        for a, b in windows(start, min(stop, total)):
            inner = max(0, a - lead_in), min(length, b - lead_in)
            tokens = axis.tokens(content + inner[0], content + inner[1]) if inner[0] < inner[1] else axis.tokens(0, 0)
            refuse_embedded(self.target, tokens, number, inner[0])
            parts = (around[0][a:b], tokens, around[1][max(0, a - lead_in - length) : max(0, b - lead_in - length)])
            yield np.concatenate(parts).astype(self.dtype, copy=False)

    def _ids(self) -> tuple[int | None, int | None]:
        gap = self.dataset.gap
        return None if len(gap.ids) > 1 else gap.id, gap.lead

    def tokens(self, start: int, stop: int) -> Tokens:
        """Raises UnendedError as `walk` does."""
        check_interval(start, stop, self.length)
        if start == stop:
            return np.empty(0, self.dtype)
        if self.same_from is not None:
            return self._as_stored(start, stop, self.same_from).astype(self.dtype, copy=False)
        if self._is_plain:
            return self._contents(start, stop)
        if self._adds:
            return self._with_added(start, stop)
        found = list(self.walk(start, stop))
        tokens = found[0] if len(found) == 1 else np.concatenate(found)
        return tokens.astype(self.dtype, copy=False)

    def _as_stored(self, start: int, stop: int, shift: int) -> Tokens:
        """Return slots of the source, after a check of the separators that are presumed among them."""
        tokens = self.dataset.axis.tokens(start + shift, stop + shift)
        if not self.is_exact and not self.dataset.spans.checked:
            first, offsets = self._sequences(start, stop)
            ends = offsets[1:] - 1 - start
            inside = (ends >= 0) & (ends < stop - start)
            wrong = np.flatnonzero(tokens[ends[inside]] != self.target.id)
            if len(wrong):
                raise self._unended(first + int(np.flatnonzero(inside)[wrong[0]]))
        return tokens

    def _contents(self, start: int, stop: int) -> Tokens:
        """Return contents between which nothing but separators is."""
        dataset, alone = self.dataset, self.dataset.gap.alone
        # The interval ends at the next token, so that the separators between two reads are looked at as well.
        first, offsets = self._sequences(start, stop if alone else stop + 1)
        last = first + len(offsets) - 2
        axis, separator, pieces = dataset.axis, dataset.gap.id, list[Tokens]()
        if alone:  # None of their tokens is the separator.
            if self._even:  # One separator is in front of each other sequence, and of the first one if it is before.
                shift = self._from + (dataset.spans.usual == BEFORE)
                begin, end = start + shift + first, stop + shift + last
            else:
                starts = dataset.contents(first, last + 1)[0]
                begin, end = int(starts[0]) + start - int(offsets[0]), int(starts[-1]) + stop - int(offsets[-2])
            for a, b in windows(begin, end):
                window = axis.tokens(a, b)
                pieces.append(window[window != separator])
        else:
            if self._even:
                cuts = offsets + self._from - self._added * np.arange(first, last + 2)
            else:
                cuts = dataset.spans.cuts(first, last + 1)
            starts, stops = cuts[:-1], cuts[1:]
            begin = int(starts[0]) + start - int(offsets[0])
            end = int(starts[-1]) + stop - int(offsets[-2]) if stop < self.length else int(stops[-1])
            for a, b in windows(begin, end):
                window, numbers = axis.tokens(a, b), np.arange(*np.searchsorted(stops, (a + 1, b + 1)))
                ends = stops[numbers] - 1 - a
                if not dataset.spans.checked and (wrong := np.flatnonzero(window[ends] != separator)).size:
                    raise self._unended(first + int(numbers[wrong[0]]))
                plain = np.ones(b - a, np.bool_)
                plain[ends] = False
                pieces.append(window[plain])
        tokens = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if len(tokens) != stop - start:
            raise changed()
        return tokens

    def _with_added(self, start: int, stop: int) -> Tokens:
        """Return contents with the separators that the destination adds. Each slot of the source is read once."""
        first, bounds = self._sequences(start, stop)
        starts, stops = self.dataset.spans.extents(first, first + len(bounds) - 1)
        added = np.diff(bounds) > stops - starts
        places = (bounds[:-1] if self.target.side == BEFORE else bounds[1:] - 1)[added]
        within = places[(places >= start) & (places < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[within - start] = False
        begin = int(starts[0] + start - bounds[0]) - int(np.count_nonzero(places < start))
        out = np.full(stop - start, self.target.id, self.dtype)
        out[plain] = self.dataset.axis.tokens(begin, begin + stop - start - len(within))
        return out

    def slot_of(self, position: int) -> int | None:
        """Return the slot of the source that holds the token at a position; None if the destination adds the token."""
        check_position(position, self.length)
        if self.same_from is not None:
            return position + self.same_from
        number = self.sequence_at(position)
        if self._even and self._seamless:  # As in `_contents`.
            return position + self._from + number + (self.dataset.spans.usual == BEFORE)
        place, inside = self._places(number), position - self._start(number)
        if 0 <= inside - place.lead_in < place.stop - place.start:
            return place.start + inside - place.lead_in
        is_lead = place.lead and inside == place.lead_in - 1
        slot, id_ = (place.lead_slot, self.target.lead) if is_lead else (place.separator_slot, self.target.id)
        return slot if slot is not None and int(self.dataset.axis.tokens(slot, slot + 1)[0]) == id_ else None

    def position_of(self, slot: int) -> int | None:
        """Return the position of the token in a slot of the source; None if it is not stored."""
        number = self.dataset.spans.at(slot)
        if number is None:
            return None
        place, base = self._places(number), int(self.offsets(number, number)[0])
        if place.start <= slot < place.stop:
            return base + place.lead_in + slot - place.start
        before = self.target.side == BEFORE
        found: int | None = None
        if slot == place.separator_slot and place.separator:
            found = base if before else base + place.lead_in + place.stop - place.start
        elif slot == place.lead_slot and place.lead:
            found = base + place.lead_in - 1
        return found if found is not None and self.slot_of(found) == slot else None

    def _places(self, number: int) -> _Places:
        starts, stops, beside = self.dataset.contents(number, number + 1)
        separator, lead = (bool(flags[0]) for flags in self.target.beside(stops - starts, beside))
        start, stop, bits = int(starts[0]), int(stops[0]), int(beside[0])
        behind = stop if bits & AFTER else start - 1 - bool(bits & LEAD)
        lead_in = lead + (separator and self.target.side == BEFORE)
        return _Places(
            start, stop, separator, lead, lead_in, behind if bits & SEP else None, start - 1 if bits & LEAD else None
        )

    def locate(self, position: int) -> ByteOffset | None:
        """A token that the destination adds is in no file."""
        slot = self.slot_of(position)
        return None if slot is None else self.dataset.axis.locate(slot)

    def find(self, place: Place, byte: int) -> int | None:
        slot = self.dataset.axis.find(place, byte)
        return None if slot is None else self.position_of(slot)

    def close(self) -> None:
        self.dataset.axis.close()

    def _unended(self, number: int) -> CorruptError:
        """Return the error of a sequence that has no separator, or another lead, where it is presumed to have one."""
        (begin, end), axis, gap = self.dataset.spans.extent(number), self.dataset.axis, self.dataset.gap
        what, at, remedy = f"does not end with the separator {gap.id}", end - 1, REMEDY
        if gap.id is None:
            what = "is empty, and the file states that none is"
        if gap.lead is not None:
            starts, _, beside = self.dataset.contents(number, number + 1)
            is_led = bool(beside[0] & LEAD)
            if is_led is not bool(self.dataset.spans.read(number, number + 1, None)[2][0] & LEAD):
                others = f"{'none' if is_led else 'each'} of the others that were looked at does"
                what = f"{'begins' if is_led else 'does not begin'} with {gap.lead}, and {others}"
                at, remedy = int(starts[0]) - is_led, "--bos none reads the IDs that begin sequences as content"
        found = int(axis.tokens(at, at + 1)[0]) if begin < end else "an empty sequence"
        path = str(self.dataset.facts.get("path", "dataset"))
        if self._is_stated and remedy == REMEDY:
            return CorruptError(path, f"sequence {number:,} {what}", found=found, remedy=KEPT)
        error = UnendedError(path, f"sequence {number:,} {what}", found=found, remedy=remedy)
        error.sequence = number
        return error

    @property
    def _is_stated(self) -> bool:
        """The file states the separator."""
        return getattr(self.dataset.facts.get("info"), "eos_id", None) == self.dataset.gap.id is not None

    @property
    def presumes(self) -> bool:
        """Positions presume that each sequence ends with a separator, which neither the file nor a look at all says."""
        spans = self.dataset.spans
        is_known = self.is_exact or spans.checked or self.dataset.gap.is_known or self._is_stated
        return not is_known and spans.ending is not None and spans.usual == AFTER

    def check_ends(self, numbers: Numbers) -> None:
        """Read one token of each of some sequences; one that does not end as presumed raises UnendedError."""
        if self.presumes:
            beside = self.dataset.spans.trim(numbers, *self.dataset.spans.extents_of(numbers), self.dataset.axis)[2]
            if (wrong := np.flatnonzero(beside != self.dataset.spans.usual)).size:
                raise self._unended(int(numbers[wrong[0]]))

    def _sizes(self, first: int, last: int) -> Numbers:
        if self.target.kind == "index" and self.target.id is not None and self._takes_all():
            lengths = np.diff(self.dataset.spans.cuts(first, last))
            return lengths if self.target.only_closed else lengths + (lengths > 0)
        starts, stops, beside = self.dataset.spans.read(first, last, self.dataset.axis if self.is_exact else None)
        return self._size(stops - starts, beside)

    def _size(self, lengths: Numbers, beside: Sides) -> Numbers:
        separator, lead = self.target.beside(lengths, beside)
        return lengths + separator + lead

    def _check(self, batch: Batch) -> None:
        """Raise UnendedError if a sequence of a batch takes more or fewer slots than presumed."""
        usual, beside = self.dataset.spans.usual, batch.beside
        if self.is_exact or not len(beside) or int(beside.min()) == int(beside.max()) == usual:
            return
        numbers = np.arange(batch.first, batch.first + len(batch))
        starts, stops, beside = self.dataset.spans.trim(numbers, *batch.extents(), None)
        if (beside != batch.beside).any():
            differs = self._size(stops - starts, beside) != self._size(batch.stops - batch.starts, batch.beside)
            if differs.any():
                raise self._unended(batch.first + int(np.argmax(differs)))

    def _refuse_lacking(self) -> None:
        """Refuse to write separators as they are stored if a sequence that is not the last has none."""
        count, first = 0, -1
        for a, b in windows(0, max(0, self.count - 1), _AT_ONCE):
            lacking = np.flatnonzero(self.dataset.contents(a, b)[2] & SEP == 0)
            if len(lacking):
                first = first if count else a + int(lacking[0])
                count += len(lacking)
        if count:
            what = f"--to-eos as-stored: {counted(count, 'sequence')} without a separator (first: sequence {first:,}), "
            what += f"and in {self.target.name} only separators mark where a sequence ends. --to-eos ID writes one"
            raise OptionError(what, name="to_eos")
