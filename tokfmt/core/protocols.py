"""Optional capabilities of readers and writers, beyond the contract of a format. Check for them with `isinstance`.

Every capability is optional: a plug-in without any can still be converted, counted, shown and browsed.

    Capability of a reader                                                              used by
        HasByteOffsets        finds the file and the byte offset of a token             browse, diff, show
        RawCopyable           finds the bytes of uncompressed tokens, for a copy        convert
        CountsPadding         counts samples, padding removed and separators inserted   info, stats
        InsertsSeparators     inserts separators that its files do not hold             convert
        HasLabels             has rows with loss masks and labels                       show, browse
        HasMarks              has marks beside its tokens, such as loss masks           convert
        HasDocumentStarts     finds where documents begin in its rows                   show, browse
        ReadsScattered        reads many sequences from anywhere at once                convert
        ReadsIntervals        reads several intervals with few reads, or one fast       all commands, the API, training
        HasBounds             holds the offsets of all sequences in memory              the API, training
        MayContinue           detects that a sequence continues in the next file        commands with several sources
        KnownReadable         knows from file sizes that all tokens are readable        convert --allow-partial
    Capability of a view over readers
        MappedView            maps its positions to those of the readers it is over
    Capability of a reader of records
        HasRecordOffsets      finds the line of each record
        PartlyCounted         finds the first records without counting all
        CollectsInvalid       collects invalid records instead of raising
        SkipsDamaged          skips damaged records, and finds them by reading          convert --allow-partial
        Tabular               reads all columns of the rows that hold the texts         steps of datatrove
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import TokfmtError
from tokfmt.core.files import File
from tokfmt.core.place import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import CachedProtocolMeta, Damage, Ends, TokenReader
from tokfmt.core.records import Block, RecordReader, Spot


class ByteOffset(NamedTuple):
    """The file that stores a token or a record, and its byte offset there.

    Attributes:
        path: The file.
        offset: Byte offset of the first byte; for compressed data, of the chunk that holds it.
        width: Bytes of the token in the file; None if it is inside a compressed chunk.
        detail: The place in the terms of the format: chunk, row and column.
    """

    path: Place
    offset: int
    width: int | None
    detail: str = ""


@runtime_checkable
class HasByteOffsets(Protocol):
    """A stored reader that knows the byte offsets of its tokens."""

    def byte_offset(self, position: int) -> ByteOffset:
        """Return the byte offset of the token at a position of this axis, 0 <= position < info.tokens.

        Raises:
            IndexError: If the position leaves the axis.
        """

    def position(self, path: Place, offset: int) -> int | None:
        """Return the position of the token at a byte of a file; None if no token has this byte.

        For compressed data, it is the position of the first token of the chunk.
        """


class Line(NamedTuple):
    """The line of a record.

    Attributes:
        path: The file.
        number: Line number, from 1.
        offset: Byte offset in the text at which the line begins.
        decompressed: True if the text is the decompressed content of the file.
    """

    path: Place
    number: int
    offset: int
    decompressed: bool


@runtime_checkable
class HasRecordOffsets(Protocol):
    """A `RecordReader` that knows the byte offsets of its records."""

    @property
    def files(self) -> Sequence[Place]:
        """The files. `Block.file` is an index into them."""

    def file_counts(self) -> Sequence[int]:
        """Return the number of records of each file. Counts them on the first call."""

    def record_line(self, index: int) -> Line | None:
        """Return the line of a record; None if records are not lines. Reads the text before it.

        Raises:
            IndexError: If there is no such record.
        """

    def record_byte_offset(self, index: int) -> ByteOffset:
        """Return the byte offset of the line of a record; `width` is its length without the line end.

        The first call may count all records.

        Raises:
            IndexError: If there is no such record.
        """

    def record_at(self, path: Place, offset: int) -> int | None:
        """Return the record whose line holds a byte of a file; None without one."""


@runtime_checkable
class MappedView(Protocol):
    """A view over other readers, which maps positions exactly, in O(log n)."""

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        """Return the reader below, and its position of the token that is at `position` of this view.

        Returns:
            None for a separator that the view inserted.

        Raises:
            IndexError: If the position leaves the axis.
        """

    def from_source(self, reader: TokenReader, position: int) -> int | None:
        """Return the position in this view of a token of a reader below.

        Returns:
            For a separator that the view removed, the position of the next token. None if the token is not on this
            axis, or no token follows the separator.
        """

    def readers(self) -> Sequence[TokenReader]:
        """Return the readers directly below."""


class Piece(NamedTuple):
    """Consecutive uncompressed tokens in a file.

    Attributes:
        file: The file.
        offset: Byte offset of the first token.
        length: Length in bytes.
        dtype: Dtype of a token, with its byte order; unsigned.
    """

    file: File
    offset: int
    length: int
    dtype: np.dtype[Any]


@runtime_checkable
class RawCopyable(Protocol, metaclass=CachedProtocolMeta):
    """A reader whose tokens are stored uncompressed and consecutively in files."""

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Return the pieces of the tokens at positions `start <= p < stop`, in order; None if some are not stored raw.

        Reads no token. A view that examines the tokens that it reads has no pieces.

        Raises:
            IndexError: If the interval leaves the axis.
        """


def pieces_of(reader: object, start: int, stop: int) -> Sequence[Piece] | None:
    """Return the pieces of the tokens `start <= p < stop`; None if the reader does not know them.

    Args:
        reader: Any reader.
        start: First token position.
        stop: Position after the last token.
    """
    return reader.pieces(start, stop) if isinstance(reader, RawCopyable) else None


@runtime_checkable
class KnownReadable(Protocol, metaclass=CachedProtocolMeta):
    """A reader that knows without a read whether all its tokens are readable. Other readers are read completely."""

    @property
    def is_readable(self) -> bool:
        """True if no token has to be decoded, and all tokens are within the files."""


@runtime_checkable
class ReadsScattered(Protocol, metaclass=CachedProtocolMeta):
    """A reader that reads many sequences from anywhere in little more time than their bytes take."""

    def read_scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Read intervals into an array of the reader's dtype; see `read_scattered` for the arguments."""


def read_scattered(reader: TokenReader, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
    """Read intervals of an axis in any order, each of at least one token and within one sequence.

    Args:
        reader: Reader of the axis.
        begins: Start of each interval on the axis, int64[n].
        places: Start of each interval in `out`, int64[n].
        lengths: Tokens per interval, int64[n].
        out: The array that is filled; of the reader's dtype, or wider.
    """
    if isinstance(reader, ReadsScattered) and out.dtype == reader.info.dtype:
        reader.read_scattered(begins, places, lengths, out)
        return
    for begin, place, length in zip(begins.tolist(), places.tolist(), lengths.tolist(), strict=True):
        out[place : place + length] = reader.tokens(begin, begin + length)


@runtime_checkable
class ReadsIntervals(Protocol, metaclass=CachedProtocolMeta):
    """A reader that reads several intervals with fewer reads, if they are close together in the file."""

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        """Yield the tokens of each interval, as `tokens` returns them, in the given order.

        Raises:
            IndexError: If an interval leaves the axis.
        """

    def sequence_reader(
        self, ends: Ends, separator: int | None, general: Callable[[int], Tokens], *, is_before: bool = False
    ) -> Callable[[int], Tokens]:
        """Return a function that reads one sequence in as few steps as possible; see `File.sequence_reader`."""


@runtime_checkable
class HasBounds(Protocol, metaclass=CachedProtocolMeta):
    """A reader that may hold the offsets of all sequences in memory."""

    @property
    def bounds(self) -> Offsets | None:
        """The offsets, int64[sequences + 1]; None if they are not in memory."""


def read_intervals(reader: TokenReader, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
    """Yield the tokens of several intervals of an axis, in the given order."""
    return reader.intervals(wanted) if isinstance(reader, ReadsIntervals) else (reader.tokens(a, b) for a, b in wanted)


@dataclass(frozen=True, slots=True)
class PaddingCounts:
    """Counts of padding that was removed from an axis, and of separators that were inserted.

    Attributes:
        padding: Positions of the file that hold padding and are not on the axis; None if it was not counted.
        positions: All positions of the file.
        separators: Separators on the axis that the reader inserted.
        sample_length: Positions of each sample that the file stores the axis in; None if it stores no samples.
    """

    padding: int | None
    positions: int
    separators: int = 0
    sample_length: int | None = None


@runtime_checkable
class CountsPadding(Protocol):
    """A reader that joins samples, removes padding, or inserts separators."""

    def padding_counts(self) -> PaddingCounts:
        """Return the counts."""


@runtime_checkable
class InsertsSeparators(Protocol):
    """A reader of a stream that inserts separators which its files do not hold."""

    def is_inserted(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which positions of the stream hold a separator that the reader inserted."""


@runtime_checkable
class HasLabels(Protocol):
    """A reader with layout SAMPLES whose rows are stored with a loss mask and labels."""

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the loss mask, uint8[stop - start]: 1 where the label counts, also if the file stores the inverse."""

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the label of each token as stored, int64[stop - start]; -100 where it is ignored."""


@runtime_checkable
class HasPadding(Protocol):
    """A reader with layout SAMPLES that declares what is padding. No consumer decides it from IDs and masks."""

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]: True at padding, which is at the ends of rows."""


@runtime_checkable
class HasTargets(Protocol):
    """A reader with labels that knows which of its tokens are trained, also where marks cannot express the labels."""

    def targets(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]: True where a label that counts is this token."""


def are_shifted(reader: HasLabels) -> bool:
    """Return True if labels are the next tokens; False in a recipe whose labels are the tokens themselves."""
    return bool(getattr(reader, "shifted", True))


@runtime_checkable
class HasMarks(Protocol, metaclass=CachedProtocolMeta):
    """A reader of any layout that may have marks beside its tokens; see `core.loss_mask`."""

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return marks, uint8[stop - start] with the bits TARGET, MASKED_END and BEGINS; None if the dataset has none.

        Raises:
            IndexError: If the interval leaves the axis.
            ConversionError: If the data beside the tokens cannot be expressed as marks.
        """


def marks_of(reader: object, start: int = 0, stop: int = 0) -> NDArray[np.uint8] | None:
    """Return the marks of a reader, if it has any. The default, an empty interval, shows whether it has marks.

    Args:
        reader: Any reader.
        start: First token position.
        stop: Position after the last token.
    """
    return reader.marks(start, stop) if isinstance(reader, HasMarks) else None


@runtime_checkable
class MayContinue(Protocol):
    """A reader whose last sequence may continue in the dataset that is read next."""

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        """Check that the last sequence does not continue in the next dataset.

        Args:
            following: The reader of the next dataset, of any class, without views.
            eos_id: The separator, which may be on both sides of the border; None without one.

        Raises:
            FormatError: If it may continue: a token would be repeated, or a document cut.
        """


@runtime_checkable
class HasDocumentStarts(Protocol):
    """A reader with layout SAMPLES that states where documents begin in its rows, without separators."""

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]: True where a document begins."""


@runtime_checkable
class PartlyCounted(Protocol):
    """A `RecordReader` that finds the first records without counting all."""

    def count_up_to(self, last: int) -> int:
        """Return the number of records, counted up to record `last` only."""


def count_up_to(records: RecordReader, last: int) -> int:
    """Return the number of records, counted up to record `last` only.

    If the reader neither knows the number nor counts a part, its first records are read. `count` is not called.
    """
    if isinstance(records, PartlyCounted):
        return records.count_up_to(last)
    if records.info.records is not None:
        return records.info.records
    found, read = 0, records.texts if records.info.kind == "text" else records.ids
    for batch in (batch for block in records.blocks(1 << 20) for batch in read(block)):
        found += len(batch.texts) + (0 if batch.ragged is None else len(batch.ragged))
        if found >= last:
            break
    return found


@runtime_checkable
class Tabular(Protocol):
    """A `RecordReader` of texts that are a column of a table."""

    def texts_with_columns(self, block: Block) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the text of each row, and the row's other columns as Python objects by name."""


@runtime_checkable
class CollectsInvalid(Protocol):
    """A `RecordReader` that collects invalid records (`Hints.collect_invalid`), and describes them later."""

    def record_error(self, spot: Spot) -> TokfmtError:
        """Return the error of a line that a batch reported as invalid, with the line number and the byte offset."""

    def line(self, spot: Spot) -> tuple[Place, int]:
        """Return the file of a line, and the number of the line in it, from 1."""


@runtime_checkable
class SkipsDamaged(Protocol):
    """A `RecordReader` that skips damaged records with `Hints.allow_partial`."""

    def damaged_records(self) -> Sequence[Damage]:
        """Return the skipped records that `open` did not find. Reads the whole dataset."""
