"""Datasets of readers, and readers of datasets. They go when no reader is left.

`from_reader` takes the stored axis of any reader, and `as_reader` returns the axis of contents that commands read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError
from tokfmt.core.place import Place
from tokfmt.core.protocols import ByteOffset, marks_of, read_intervals
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import U8, Info, Layout, Separators, TokenReader, check_interval, check_position
from tokfmt.model.axis import ArrayAxis, Axis
from tokfmt.model.batch import AFTER, BEFORE, SEP, Target
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.laid import Laid, NotPresumedError
from tokfmt.model.spans import Bounds, Ended, Spans
from tokfmt.model.stream import How, Split
from tokfmt.views.view import byte_offset_of, position_of

_MASKED_END = np.uint8(2)
_HOW: dict[Separators, How] = {
    Separators.AFTER: "after",
    Separators.BEFORE: "before",
    Separators.BETWEEN: "between",
}


class ReaderAxis(Axis):
    """The stored axis of a reader."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.length, self.dtype = reader, reader.info.tokens, reader.info.dtype

    def read(self, start: int, stop: int) -> Tokens:
        return self.reader.tokens(start, stop)

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        return read_intervals(self.reader, wanted)

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.length)
        found = byte_offset_of(self.reader, position)
        if found is None:
            raise LookupError(f"the reader does not know the byte of position {position}")
        return found

    def find(self, place: Place, byte: int) -> int | None:
        return position_of(self.reader, place, byte)

    def close(self) -> None:
        self.reader.close()


class ReaderMarks(ReaderAxis):
    """The marks of a reader, on the same positions."""

    def __init__(self, reader: TokenReader) -> None:
        super().__init__(reader)
        self.dtype = U8

    def read(self, start: int, stop: int) -> Tokens:
        found = marks_of(self.reader, start, stop)
        return np.empty(0, np.uint8) if found is None else found

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        return Axis.intervals(self, wanted)


class ReaderBounds(Axis):
    """The offsets of a reader, as the axis of an index."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self.length, self.dtype = reader, reader.info.sequences + 1, np.dtype(np.uint64)

    def read(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.length)
        return self.reader.offsets(start, stop - 1).view(np.uint64) if start < stop else np.empty(0, np.uint64)

    def locate(self, position: int) -> ByteOffset:
        raise LookupError(f"the reader does not know the byte of entry {position}")


def from_reader(reader: TokenReader, eos_id: int | None = None, *, each: bool = False) -> Dataset:
    """Return the dataset of a reader.

    Args:
        reader: The reader of a stored axis.
        eos_id: Its separator; None: sequences are read as they are stored.
        each: Look at the end of each sequence of an index. Else all are presumed to end with the separator.
    """
    info, axis = reader.info, ReaderAxis(reader)
    spans: Spans = Bounds(ReaderBounds(reader) if info.sequences else ArrayAxis(np.zeros(1, np.int64)))
    gap = Gap(eos_id, of=info.sequences)
    if eos_id is not None and info.separators.alone:
        spans = Split(axis, eos_id, _HOW[info.separators])
        gap = Gap(eos_id, "before" if info.separators is Separators.BEFORE else "after", alone=True)
    elif eos_id is not None and info.separators is Separators.TRAILING:
        spans = Ended(spans, eos_id).looked_at(axis) if each else Ended(spans, eos_id, presumed=AFTER)
    marks = None if marks_of(reader) is None else ReaderMarks(reader)
    return Dataset(axis, spans, gap, marks, {"info": info})


class DatasetReader:
    """A reader of the contents of a dataset."""

    def __init__(self, dataset: Dataset, info: Info) -> None:
        """Lay out the contents alone; see `as_reader`."""
        self.dataset, self.laid = dataset, Laid(dataset, Target())
        if dataset.gap.alone:
            info = replace(info, layout=Layout.DOCUMENTS, sample_length=None, free_of=dataset.gap.id)
        self.info = replace(
            info,
            sequences=self.laid.count,
            tokens=self.laid.length,
            separators=Separators.NONE,
            eos_id=dataset.gap.id if dataset.gap.id is not None else info.eos_id,
        )

    @property
    def trimmed(self) -> int:
        """Number of slots of the dataset that are not content."""
        return self.dataset.axis.length - self.info.tokens

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        try:
            return self.laid.read(start, stop)
        except NotPresumedError as error:
            what = f"sequence {error.sequence:,} does not end with the separator {self.dataset.gap.id}"
            raise CorruptError("dataset", what) from error

    def sequence_reader(self) -> Callable[[int], Tokens]:
        """See `protocols.ReadsSequences`. Each sequence is trimmed by its own tokens."""
        return lambda number: self.dataset[number]

    def offsets(self, first: int, last: int) -> Offsets:
        return self.laid.offsets(first, last)

    def sequence_at(self, position: int, shift: int = 0) -> int:
        """See `reader.sequence_at`."""
        low, high = 0, self.info.sequences
        while high - low > 1:
            middle = (low + high) // 2
            at = int(self.offsets(middle, middle)[0]) + shift * middle
            low, high = (middle, high) if at <= position else (low, middle)
        return low

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """See `protocols.HasMarks`. The last token of a sequence has the mark of its separator."""
        check_interval(start, stop, self.info.tokens)
        if self.dataset.marks is None:
            return None
        if start == stop:
            return np.empty(0, np.uint8)
        first, last = self.laid.sequence_at(start)[0], self.laid.sequence_at(stop - 1)[0] + 1
        parts = []
        for batch in self.dataset.batches(first=first, last=last):
            assert batch.read_marks is not None
            window, found = batch.read_marks(), batch.marks(Target())
            assert found is not None
            closed = np.flatnonzero((batch.beside & AFTER != 0) & (batch.stops > batch.starts))
            masked = closed[window[batch.stops[closed]] & 1 == 0]
            found = found.copy()
            found[np.cumsum(batch.stops - batch.starts)[masked] - 1] |= _MASKED_END
            parts.append(found)
        begin = int(self.offsets(first, first)[0])
        return np.concatenate(parts)[start - begin : stop - begin]

    def byte_offset(self, position: int) -> ByteOffset:
        """See `protocols.HasByteOffsets`."""
        return self.laid.locate(position)

    def position(self, path: Place, offset: int) -> int | None:
        """See `protocols.HasByteOffsets`. A separator has the position of the next token."""
        found = self.laid.find(path, offset)
        beside = self.dataset.at_byte(path, offset) if found is None else None
        if beside is None:
            return found
        after = int(self.laid.offsets(beside[0], beside[0] + 1)[int(self._closes(beside[0]))])
        return after if after < self.info.tokens else None

    def _closes(self, number: int) -> bool:
        """Return whether what is beside a sequence is after it."""
        return not self.dataset.contents(number, number + 1)[2][0] & SEP & BEFORE

    def close(self) -> None:
        self.dataset.close()


def as_reader(dataset: Dataset, info: Info | None = None) -> DatasetReader:
    """Return a reader of the contents of a dataset, without separators and leads.

    Args:
        dataset: The dataset.
        info: Facts about it (default: those of the reader that it is of, or none).
    """
    stated = dataset.facts.get("info") if info is None else info
    known = stated if isinstance(stated, Info) else Info(Layout.DOCUMENTS, dataset.axis.dtype, 0, 0)
    return DatasetReader(dataset, known)
