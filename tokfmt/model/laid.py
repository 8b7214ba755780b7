"""What a destination stores, as an axis: contents with the separators and leads that it writes.

Regions of parallel writers, samples and windows of a training are intervals of this axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tokfmt.core.errors import OptionError
from tokfmt.core.format import REGION, Region
from tokfmt.core.place import Place
from tokfmt.core.protocols import ByteOffset
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import WINDOW, check_interval, check_position, windows
from tokfmt.core.text_format import counted
from tokfmt.model.axis import Axis, Numbers
from tokfmt.model.batch import AFTER, BEFORE, LEAD, SEP, Batch, Beside, Ledger, Target, refuse_embedded
from tokfmt.model.dataset import Dataset

STEP = 1 << 12
"""Sequences per position that is held."""
_AT_ONCE = 1 << 18


class NotPresumedError(Exception):
    """A sequence differs from what the positions of a laid out axis presume.

    Attributes:
        sequence: Its number.
    """

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


class Stored(NamedTuple):
    """Tokens of a laid out axis, and what became of separators and leads of the sequences that begin in them."""

    tokens: Tokens
    ledger: Ledger


class Laid(Axis):
    """The axis of a destination. A read presumes positions, or knows them.

    Positions are presumed if they follow from the extents alone: every sequence that was looked at was closed, or
    none was. A read of a sequence that differs raises NotPresumedError; `exact` then returns the axis with positions
    by a look at the end of every sequence. 8 bytes are held per 4,096 sequences.

    Attributes:
        dataset: The source.
        target: What is written beside contents.
        is_exact: Positions are known.
        bases: Position of every 4,096th sequence, and the length: int64.
        exception: If positions are known and could be presumed: the first sequence that takes more or fewer slots than
            presumed; None without one.
    """

    def __init__(self, dataset: Dataset, target: Target, *, exact: bool = False) -> None:
        """Find the positions; a stream is scanned.

        Args:
            dataset: The source.
            target: What is written beside contents.
            exact: Look at the end of every sequence, also if positions could be presumed.

        Raises:
            OptionError: Separators are written as they are stored and mark boundaries, and a sequence that is not the
                last has none.
        """
        self.dataset, self.target, self.count = dataset, target, len(dataset)
        lacking = target.only_closed and target.kind != "index"
        self.is_exact = exact or lacking or not dataset.spans.presumes
        if lacking:
            self._refuse_lacking()
        self.exception: int | None = None
        parts = [np.zeros(1, np.int64)]
        for first, last in windows(0, self.count, _AT_ONCE):
            sizes = self._sizes(first, last, self.is_exact)
            if self.is_exact and dataset.spans.presumes and self.exception is None:
                differs = sizes != self._sizes(first, last, is_exact=False)
                self.exception = first + int(np.argmax(differs)) if differs.any() else None
            parts.append(np.add.reduceat(sizes, np.arange(0, last - first, STEP)))
        self.bases = np.cumsum(np.concatenate(parts))
        self.length, self.dtype = int(self.bases[-1]), target.widest(dataset.axis.dtype)

    def exact(self) -> Laid:
        """Return the same axis with positions by a look at the end of every sequence."""
        return self if self.is_exact else Laid(self.dataset, self.target, exact=True)

    def offsets(self, first: int, last: int) -> Offsets:
        """Return the position of each sequence `first <= i < last`, and the end of the last, int64."""
        check_interval(first, last, self.count, "sequences")
        begin = first - first % STEP
        offsets: Offsets = offsets_of(self._sizes(begin, last, self.is_exact)) + self.bases[begin // STEP]
        return offsets[first - begin :]

    def sequence_at(self, position: int) -> tuple[int, int]:
        """Return the sequence that holds a position, and the position in it.

        Raises:
            IndexError: If the position leaves the axis.
        """
        check_position(position, self.length)
        block = int(np.searchsorted(self.bases, position, "right")) - 1
        offsets = self.offsets(block * STEP, min(self.count, (block + 1) * STEP))
        k = int(np.searchsorted(offsets, position, "right")) - 1
        return block * STEP + k, position - int(offsets[k])

    def regions(self, size: int = REGION) -> list[Region]:
        """Cut the axis into regions of `size` tokens, the last of which may be shorter.

        `Region.sequences` are those that begin in the region: each sequence is in one, also if nothing of it is stored.
        """
        cuts = [start for start, _ in windows(0, self.length, size)] or [0] * (self.count > 0)
        firsts = [self._first_from(start) for start in cuts]
        stops = [*cuts[1:], self.length]
        return [
            Region(k, range(first, last), range(start, stop))
            for k, (start, stop, first, last) in enumerate(
                zip(cuts, stops, firsts, [*firsts[1:], self.count], strict=False)
            )
        ]

    def _first_from(self, position: int) -> int:
        """Return the first sequence that begins at or after a position."""
        if not position:
            return 0
        return self.sequence_at(position - 1)[0] + 1

    def walk(self, region: Region) -> Iterator[Stored]:
        """Yield the tokens of a region, in order, in windows of about 2^20 tokens.

        Raises:
            NotPresumedError: A sequence differs from what the positions presume.
            LossyConversionError: The destination cannot store a sequence.
        """
        start, stop = region.tokens.start, region.tokens.stop
        first, last = region.sequences.start, region.sequences.stop
        if start < stop:
            number, inside = self.sequence_at(start)
            if number < first:  # It begins in the region before.
                begin = start - inside
                for stored in self._sequence(number, inside, stop - begin):
                    yield stored._replace(ledger=Ledger())
        at = int(self.offsets(first, first)[0]) if first < last else 0
        for batch in self.dataset.batches(WINDOW, first, last, WINDOW):
            if len(batch) == 1 and not len(batch.window):  # It is empty, or too long for one window.
                yield from self._sequence(batch.first, 0, stop - at)
                at = int(self.offsets(batch.first + 1, batch.first + 1)[0])
                continue
            self._check(batch)
            laid = batch.laid_out(self.target)
            yield Stored(laid.tokens[: max(0, stop - at)], laid.ledger)
            at += len(laid.tokens)

    def _is_long(self, number: int) -> bool:
        """Return whether a sequence is read in several windows."""
        start, stop = self.dataset.spans.extent(number)
        return stop - start > WINDOW

    def _sequence(self, number: int, start: int, stop: int) -> Iterator[Stored]:
        """Yield the slots `start <= p < stop` of one sequence, which may be long. The first window has its ledger."""
        if not self._is_long(number):
            (batch,) = self.dataset.batches(WINDOW, number, number + 1)
            self._check(batch)
            laid = batch.laid_out(self.target)
            yield Stored(laid.tokens[start:stop], laid.ledger)
            return
        # Its two ends tell what is written around it.
        begin, end = self.dataset.spans.extent(number)
        axis, starts = self.dataset.axis, self.dataset.contents(number, number + 1)
        content, after = int(starts[0][0]), int(starts[1][0])
        head, tail = axis.read(begin, content + 1), axis.read(after - 1, end)
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
        length, ledger = after - content, laid.ledger
        total = lead_in + length + len(around[1])
        for a, b in windows(start, min(stop, total)):
            inner = max(0, a - lead_in), min(length, b - lead_in)
            tokens = axis.read(content + inner[0], content + inner[1]) if inner[0] < inner[1] else axis.read(0, 0)
            refuse_embedded(self.target, tokens, number, inner[0])
            parts = (around[0][a:b], tokens, around[1][max(0, a - lead_in - length) : max(0, b - lead_in - length)])
            yield Stored(np.concatenate(parts).astype(self.dtype, copy=False), ledger)
            ledger = Ledger()

    def _ids(self) -> tuple[int | None, int | None]:
        gap = self.dataset.gap
        return None if len(gap.ids) > 1 else gap.id, gap.lead

    def read(self, start: int, stop: int) -> Tokens:
        """See `Axis.read`. Raises NotPresumedError as `walk` does."""
        check_interval(start, stop, self.length)
        if start == stop:
            return np.empty(0, self.dtype)
        last, _ = self.sequence_at(stop - 1)
        region = Region(0, range(self._first_from(start), last + 1), range(start, stop))
        found = [stored.tokens for stored in self.walk(region)]
        tokens = found[0] if len(found) == 1 else np.concatenate(found)
        return tokens.astype(self.dtype, copy=False)

    def locate(self, position: int) -> ByteOffset:
        """See `Axis.locate`.

        Raises:
            LookupError: The destination adds the token.
        """
        number, inside = self.sequence_at(position)
        starts, stops, beside = self.dataset.contents(number, number + 1)
        separator, lead = (bool(flags[0]) for flags in self.target.beside(stops - starts, beside))
        before = separator and self.target.side == BEFORE
        content = inside - before - lead
        if 0 <= content < int(stops[0] - starts[0]):
            return self.dataset.axis.locate(int(starts[0]) + content)
        bit = LEAD if lead and inside == before else SEP
        if not beside[0] & bit:
            raise LookupError(f"the destination adds the token at position {position:,}")
        place = int(starts[0]) - 1
        if bit == SEP:
            place = int(stops[0]) if beside[0] & AFTER else place - bool(beside[0] & LEAD)
        return self.dataset.axis.locate(place)

    def find(self, place: Place, byte: int) -> int | None:
        """See `Axis.find`. Finds tokens of contents."""
        found = self.dataset.at_byte(place, byte)
        number, inside = found or (0, None)
        if inside is None:
            return None
        starts, stops, beside = self.dataset.contents(number, number + 1)
        separator, lead = (bool(flags[0]) for flags in self.target.beside(stops - starts, beside))
        return int(self.offsets(number, number)[0]) + lead + (separator and self.target.side == BEFORE) + inside

    def check(self) -> None:
        self.dataset.check()

    def close(self) -> None:
        self.dataset.close()

    def _sizes(self, first: int, last: int, is_exact: bool) -> Numbers:
        starts, stops, beside = self.dataset.spans.read(first, last, self.dataset.axis if is_exact else None)
        return self._size(stops - starts, beside)

    def _size(self, lengths: Numbers, beside: Beside) -> Numbers:
        separator, lead = self.target.beside(lengths, beside)
        return lengths + separator + lead

    def _check(self, batch: Batch) -> None:
        """Raise NotPresumedError if a sequence of a batch takes more or fewer slots than presumed."""
        usual, beside = self.dataset.spans.usual, batch.beside
        if self.is_exact or not len(beside) or int(beside.min()) == int(beside.max()) == usual:
            return
        numbers = np.arange(batch.first, batch.first + len(batch))
        starts, stops, beside = self.dataset.spans.trim(numbers, *batch.extents(), None)
        if (beside != batch.beside).any():
            differs = self._size(stops - starts, beside) != self._size(batch.stops - batch.starts, batch.beside)
            if differs.any():
                raise NotPresumedError(batch.first + int(np.argmax(differs)))

    def _refuse_lacking(self) -> None:
        """Refuse to write separators as they are stored if a sequence that is not the last has none: D9."""
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
