"""Readers of a dataset, and the dataset of a reader.

from_reader     the dataset of the stored axis of any reader
ContentReader   the axis of contents of a dataset, which commands read
dataset_of      the dataset under readers that select and join contents
laid_reader     the axis of a destination, which writers store
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import ignore
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import U8, U64, Axis, Info, Layout, Piece, Separators, TokenReader
from tokfmt.files.place import Place
from tokfmt.model.batch import AFTER, BEFORE, MASKED_END, SEP, UNENDED, Batch, Boundaries
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.laid import Laid, changed
from tokfmt.model.spans import Bounds, Ended, Spans
from tokfmt.model.stream import How, Split

_HOW: dict[Separators, How] = {
    Separators.AFTER: "after",
    Separators.BEFORE: "before",
    Separators.BETWEEN: "after",
}


class Marks(Axis):
    """The marks of a reader, on the same positions."""

    dtype = U8

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.length = reader, reader.info.tokens

    def tokens(self, start: int, stop: int) -> Tokens:
        found = self.reader.marks(start, stop)
        return np.empty(0, np.uint8) if found is None else found


class Offsets(Axis):
    """The offsets of a reader, as the axis of an index."""

    dtype = U64

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.length = reader, reader.info.sequences + 1

    @property
    def values(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        return self.reader.bounds

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.reader.offsets(start, stop - 1).view(np.uint64) if start < stop else np.empty(0, np.uint64)


def from_reader(
    reader: TokenReader,
    eos_id: int | None = None,
    *,
    presumed: int | None = AFTER,
    where: Separators | None = None,
    jobs: int | None = None,
    scanned: Callable[[int], None] = ignore,
    path: Place | str = "dataset",
) -> Dataset:
    """Return the dataset of a reader. Without `eos_id`, sequences are read as they are stored. `presumed` is what ends
    each sequence of an index: AFTER, the separator; 0, another token; None: look at each. `where` is what a separator
    means (default: what the reader says). `scanned` is called with the number of further tokens of a stream that were
    scanned.
    """
    info, where = reader.info, where or reader.info.separators
    gap = Gap(eos_id, of=info.sequences)
    spans: Spans
    if eos_id is not None and where.alone:
        spans = Split(
            reader,
            eos_id,
            _HOW[where],
            jobs=jobs,
            scanned=scanned,
            inserted=reader.is_inserted if reader.inserts_separators else None,
        )
        gap = Gap(eos_id, "before" if where is Separators.BEFORE else "after", alone=True)
    else:
        spans = Bounds(Offsets(reader), filled=reader.none_empty)
        if eos_id is not None and where is Separators.TRAILING:
            spans = Ended(spans, eos_id, presumed=presumed)
            spans = spans.looked_at(reader) if presumed is None else spans
    marks = None if reader.marks(0, 0) is None else Marks(reader)
    return Dataset(reader, spans, gap, marks, {"info": info, "path": path})


class _Reader(Laid, TokenReader):
    """What readers of contents and of the axis of a destination have in common."""

    def as_dataset(self, *, drawn: bool = False) -> Dataset:  # noqa: ARG002 - it has the separators of its sources
        return self.dataset

    @property
    def source(self) -> TokenReader:
        """The reader of the stored axis, if the dataset is that of one reader."""
        (reader,) = self.dataset.axis.readers()
        return reader

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        if self.dataset.marks is None:
            return None
        if start == stop:
            return np.empty(0, np.uint8)
        first, last = self.sequence_at(start), self.sequence_at(stop - 1) + 1
        begin = int(self.offsets(first, first)[0])
        batches = self.dataset.batches(first=first, last=last)
        parts = [self._marks(batch, batch.read_marks()) for batch in batches if batch.read_marks is not None]
        return np.concatenate(parts)[start - begin : stop - begin]

    def _marks(self, batch: Batch, window: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the marks of a batch on this axis, given those of its window."""
        return batch.laid_out_marks(self.target, window)

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        slot = self.slot_of(position)
        if slot is None:
            return None
        for reader in self.dataset.axis.readers():
            if slot < reader.length:
                return reader, slot
            slot -= reader.length
        return None

    def find(self, place: Place, byte: int) -> int | None:
        """A separator that is not on this axis has the position of the next token."""
        slot = self.dataset.axis.find(place, byte)
        return None if slot is None else self._from_slot(slot)

    def _from_slot(self, slot: int) -> int | None:
        found = self.position_of(slot)
        if found is not None:
            return found
        number, at = self.dataset.spans.at(slot), 0
        if number is None:  # In front of all sequences, or in none of those that are selected.
            at = 0 if len(self.dataset) and slot < self.dataset.spans.extent(0)[0] else self.info.tokens
        else:
            stops = self.dataset.contents(number, number + 1)[1]
            at = int(self.offsets(number, number + 1)[int(slot >= stops[0])])
        return at if at < self.info.tokens else None


def is_divided(reader: object) -> bool:
    """Return whether separators were divided from the contents that a reader reads."""
    return isinstance(reader, ContentReader) and reader.dataset.gap.id is not None


def is_unfinished(reader: TokenReader) -> bool:
    """Return whether a stream of several sequences, each before its separator, ends without one."""
    if not isinstance(reader, ContentReader) or not reader.dataset.gap.alone or reader.dataset.spans.seamless:
        return False
    last, gap = reader.info.sequences - 1, reader.dataset.gap
    if last < 1:
        return False
    beside = reader.dataset.contents(last, last + 1)[2]
    return gap.side == "after" and not reader.info.beginning and not beside[0] & SEP


class ContentReader(_Reader):
    """A reader of the contents of a dataset, without separators and leads."""

    marks_ends = True

    def __init__(self, dataset: Dataset, info: Info | None = None) -> None:
        """Lay out the contents alone. Its facts are `info` (default: those of the reader that it is of, or none)."""
        super().__init__(dataset, Boundaries(), even=dataset.gap.even)
        stated = dataset.facts.get("info") if info is None else info
        info = stated if isinstance(stated, Info) else Info(Layout.DOCUMENTS, dataset.axis.dtype, 0, 0)
        if dataset.gap.alone:
            top = dataset.spans.max_id if dataset.spans.max_id >= 0 else None
            info = replace(info, layout=Layout.DOCUMENTS, sample_length=None, free_of=dataset.gap.id, max_id=top)
        self.info = replace(
            info,
            sequences=self.count,
            tokens=self.length,
            max_id=None if info.max_id == dataset.gap.lead else info.max_id,
            separators=Separators.NONE,
            eos_id=dataset.gap.id if dataset.gap.id is not None else info.eos_id,
        )

    @property
    def is_split(self) -> bool:  # type: ignore[override]
        return self.dataset.gap.alone

    @property
    def trimmed(self) -> int:  # type: ignore[override]
        """Number of slots of the dataset that are separators, or in padding."""
        leads = 0 if self.dataset.gap.lead is None else self.dataset.slots().leads
        return self.dataset.axis.length - self.info.tokens - leads

    def one_reader(self) -> Callable[[int], Tokens]:
        dataset = self.dataset
        spans, find, trim, read = dataset.spans, dataset.spans.finder(), dataset.spans.content, dataset.axis.tokens
        separator, edge = dataset.gap.id, 0 if spans.usual == BEFORE else -1
        is_closed = not dataset.gap.alone and spans.ending is not None and spans.usual == AFTER
        is_certain = is_closed and dataset.gap.even and not self.presumes

        def general(number: int) -> Tokens:
            tokens = read(*find(number))
            content = trim(number, tokens)
            if len(content) < len(tokens) and tokens.item(edge) != separator:
                raise changed()
            if is_certain and len(content) == len(tokens):  # The file changed.
                raise self._unended(number)
            return content

        def led(number: int) -> Tokens:
            tokens = read(*find(number))
            extent = np.array([number]), np.zeros(1, np.int64), np.array([len(tokens)])
            starts, stops, beside = (values.item() for values in spans.trim(*extent, tokens))
            if beside & SEP and tokens.item(0 if beside & BEFORE else -1) not in dataset.gap.ids:
                raise changed()
            if not self.is_exact and np.diff(self.offsets(number, number + 1)).item() != stops - starts:
                raise self._unended(number)
            return tokens[starts:stops]

        if dataset.gap.lead is not None:
            return led
        ends = spans.ends()
        if ends is None:
            return general
        return dataset.axis.sequence_reader(ends, separator, general, is_before=spans.usual == BEFORE)

    def _marks(self, batch: Batch, window: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The last token of a sequence has the mark of its separator."""
        found, ends = super()._marks(batch, window).copy(), np.cumsum(batch.stops - batch.starts) - 1
        closed = np.flatnonzero((batch.beside & AFTER != 0) & (batch.stops > batch.starts))
        found[ends[closed[window[batch.stops[closed]] & 1 == 0]]] |= MASKED_END
        if batch.lacking:
            found[ends[(batch.beside & SEP == 0) & (batch.stops > batch.starts)]] |= UNENDED
        return found


class LaidReader(_Reader):
    """A reader of the axis of a destination: contents with the separators that it stores."""

    def __init__(self, dataset: Dataset, target: Boundaries, info: Info) -> None:
        """Lay out a dataset; see `laid_reader`."""
        super().__init__(dataset, target, even=dataset.gap.even)
        top, separator = info.max_id, target.id
        # of sequences without a separator, if no leads are written
        self.bare = self.count - (self.length - info.tokens)
        self.info = replace(
            info,
            sequences=self.count,
            tokens=self.length,
            dtype=self.dtype,
            max_id=None if top is None else max(top, separator or 0, target.lead or 0),
            separators=_SIDES[target.side] if separator is not None else Separators.NONE,
            eos_id=separator if separator is not None else info.eos_id,
            free_of=info.free_of if separator is None else None,
        )

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Return the slots of the source, if the destination stores them as they are."""
        if self.same_from is None or not self.dataset.spans.checked:
            return None
        start, stop, found = start + self.same_from, stop + self.same_from, list[Piece]()
        for reader in self.dataset.axis.readers():
            a, b = max(0, start), min(stop, reader.length)
            if a < b:
                pieces = reader.pieces(a, b)
                if pieces is None:
                    return None
                found += pieces
            start, stop = start - reader.length, stop - reader.length
        return found


_SIDES = {AFTER: Separators.TRAILING, BEFORE: Separators.BEFORE}


def dataset_of(reader: TokenReader, *, drawn: bool = False) -> Dataset:
    """Return the dataset under a reader of contents, or one without separators of what is no view."""
    found = cast("Dataset | None", reader.as_dataset(drawn=drawn))
    return from_reader(reader) if found is None else found


def stored_reader(reader: TokenReader, separator: int | None, *, raw: bool = False) -> LaidReader | None:
    """Return the slots of the files under contents, if each is followed by a separator there and by nothing else. If
    `raw`, the files are read without a look at separators; the result is None if these are only presumed.
    """
    dataset = dataset_of(reader)
    if separator is None or dataset.gap.id != separator or dataset.spans.usual != AFTER:
        return None
    if raw and dataset.gap.is_known:
        dataset = replace(dataset, spans=dataset.spans.after_reading())
    found = LaidReader(dataset, Boundaries(separator, "after", accepted=_ALL), reader.info)
    return None if found.same_from is None else found


def laid_reader(reader: TokenReader, target: Boundaries) -> LaidReader:
    """Return contents with the separators that a destination stores. What it cannot store is for others to refuse."""
    dataset, target = dataset_of(reader), target._replace(accepted=_ALL)
    found = LaidReader(dataset, target, reader.info)
    if found.bare and not dataset.gap.ids and (drawn := dataset_of(reader, drawn=True)).gap.ids:
        return LaidReader(drawn, target, reader.info)  # A recipe: its sources show which empty sequences have one.
    return found


def with_own_separators(reader: TokenReader, separator: int | None) -> TokenReader:
    """Return contents with a separator after each that has one in the source, as a token of the sequence."""
    if separator is None:
        return reader
    found = LaidReader(dataset_of(reader), Boundaries(separator, "index", only_closed=True), reader.info)
    is_closed = found.info.tokens - reader.info.tokens == reader.info.sequences
    found.info = replace(found.info, separators=Separators.TRAILING if is_closed else Separators.NONE)
    return found


_ALL = frozenset({"embedded-separators", "empty-sequences"})


def sequence_reader(reader: TokenReader) -> Callable[[int], Tokens]:
    """Return a function that reads one sequence of a reader of contents, given its number, 0 <= number < sequences.

    A short read from the cache takes little longer than a call. Every decision that is the same for all sequences is
    made once. The function holds caches and file descriptors of this process, so it cannot be pickled.
    """
    if isinstance(reader, ContentReader):
        return reader.one_reader()
    dataset = from_reader(reader)
    if reader.decoded_parts:  # Nothing is left out of a sequence, so that the lengths of the others do not matter.
        find = dataset.spans.finder()
        return lambda number: reader.tokens(*find(number))
    return ContentReader(dataset).one_reader()
