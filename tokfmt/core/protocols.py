"""What formats, readers and writers may offer beyond their contract, all of it here and asked for with `isinstance`.

A plug-in that offers none is converted, counted, shown and browsed all the same.

    Of a reader
        Located           knows in which byte of which file a token lies          browse, diff, show
        Verbatim          knows where tokens lie as they are, to be copied        convert
        Filled            leaves padding out, or puts separators in               stats
        Sampled           has rows with loss mask and labels                      show, browse
        Marked            has marks beside its tokens: what counts in the loss    convert
        Segmented         says where documents begin in its rows                  show, browse
        Scattered         reads many sequences from anywhere at once              convert
        Ranged            reads several intervals with few reads                  all, on opening
        Continuing        knows whether the next dataset may go on with it        all of several sources
        Vouched           knows from its files' sizes that all can be read        convert --allow-partial
    Of a view over readers
        Underlying        knows where its positions lie beneath
        Restorable        took separators away, and knows the axis that has them
    Of a reader of records
        LocatedRecords    knows where the line of each begins
        Reaching          finds the first records without counting all
        Collecting        sets records with trouble aside
        Screened          leaves damaged records out, and finds them by reading   convert --allow-partial
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import TokfmtError
from tokfmt.core.files import File
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import CachedProtocolMeta, Damage, TokenReader
from tokfmt.core.records import Spot


class ByteOffset(NamedTuple):
    """The file that stores a token or a record, and the byte offset of it there.

    Attributes:
        path: The file.
        offset: The byte offset of the first byte; of compressed data, of the first byte of the chunk that holds it.
        width: Bytes of the token in the file, or None when it lies inside a compressed chunk.
        detail: Where in the format's own terms, in words: which chunk, row and column.
    """

    path: Path
    offset: int
    width: int | None
    detail: str = ""


@runtime_checkable
class Located(Protocol):
    """A stored reader that knows the byte offsets of its tokens."""

    def byte_offset(self, position: int) -> ByteOffset:
        """The byte offset of the token at a position of this axis. 0 <= position < info.tokens.

        Raises:
            IndexError: The position leaves the axis.
        """

    def position(self, path: Path, offset: int) -> int | None:
        """The position whose token holds a byte of a file (or the first of a chunk); None outside of the tokens."""


class Line(NamedTuple):
    """The line of a record.

    Attributes:
        path: The file.
        number: From 1.
        offset: Byte of the text at which it begins.
        decompressed: The text is what came out of the file, not what lies in it.
    """

    path: Path
    number: int
    offset: int
    decompressed: bool


@runtime_checkable
class LocatedRecords(Protocol):
    """A `RecordReader` that knows where its records lie."""

    @property
    def files(self) -> Sequence[Path]:
        """Those that `Block.file` counts."""

    def file_counts(self) -> Sequence[int]:
        """Records of each file. Counts them if nobody did."""

    def record_line(self, index: int) -> Line | None:
        """The line of a record; None where records are no lines. Reads the text before it.

        Raises:
            IndexError: There is no such record.
        """

    def record_byte_offset(self, index: int) -> ByteOffset:
        """The byte offset at which the line of a record begins; `width` is its length without the line end.

        Counts the records if that was not done before.

        Raises:
            IndexError: There is no such record.
        """

    def record_at(self, path: Path, offset: int) -> int | None:
        """The record whose line holds a byte of a file; None where there is none."""


@runtime_checkable
class Underlying(Protocol):
    """A view over other readers. What it answers is exact, in O(log n)."""

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        """The reader beneath, and its position of the token that is at `position` here.

        None for a separator that the view put in, which is nowhere beneath.

        Raises:
            IndexError: The position leaves the axis.
        """

    def from_source(self, reader: TokenReader, position: int) -> int | None:
        """The position here of a token of a reader beneath.

        A separator that was taken away has the position of what follows it. None where the token is not on this axis,
        or where nothing follows a separator.
        """

    def readers(self) -> Sequence[TokenReader]:
        """The readers directly beneath."""


class Piece(NamedTuple):
    """Consecutive tokens as they lie in a file.

    Attributes:
        file: Where.
        offset: Byte at which they begin.
        length: Bytes that they take.
        dtype: Width and byte order of each; unsigned.
    """

    file: File
    offset: int
    length: int
    dtype: np.dtype[Any]


@runtime_checkable
class RawCopyable(Protocol, metaclass=CachedProtocolMeta):
    """A reader whose tokens lie in files, one after the other, uncompressed."""

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Where the tokens at positions `start <= p < stop` lie, in order; None when some lie nowhere as they are.

        Reads no token. A view that looks at tokens as they pass (`views.view.WithoutTrailing`) does not offer
        this; the one that stands for it once everything was read (`Restorable`) does.

        Raises:
            IndexError: The interval leaves the axis.
        """


def pieces_of(reader: object, start: int, stop: int) -> Sequence[Piece] | None:
    """Where a reader's tokens lie, if it knows."""
    return reader.pieces(start, stop) if isinstance(reader, RawCopyable) else None


@runtime_checkable
class Vouched(Protocol, metaclass=CachedProtocolMeta):
    """A reader that knows without reading whether all its tokens can be read; others are read to find out."""

    @property
    def vouched(self) -> bool:
        """Nothing has to be decoded, and everything lies within its files."""


@runtime_checkable
class Scattered(Protocol, metaclass=CachedProtocolMeta):
    """A reader that reads many sequences from anywhere for little more than their bytes cost."""

    def scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Read intervals into an array of the reader's dtype; for arguments see `read_scattered`."""


def read_scattered(reader: TokenReader, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
    """Read intervals of an axis, in any order, each of one token at least and within one sequence.

    Args:
        reader: Of the axis.
        begins: Where each begins on it; places: and where in `out`. int64[n].
        lengths: Tokens of each, int64[n].
        out: Filled at these places; of the reader's dtype, or a wider one.
    """
    if isinstance(reader, Scattered) and out.dtype == reader.info.dtype:
        reader.scattered(begins, places, lengths, out)
        return
    for begin, place, length in zip(begins.tolist(), places.tolist(), lengths.tolist(), strict=True):
        out[place : place + length] = reader.tokens(begin, begin + length)


@runtime_checkable
class Ranged(Protocol, metaclass=CachedProtocolMeta):
    """A reader that reads several intervals with fewer reads than one by one, where they lie close together."""

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        """The tokens of each interval, as `tokens` gives them, in the order given.

        Raises:
            IndexError: An interval leaves the axis.
        """


def read_intervals(reader: TokenReader, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
    """The tokens of several intervals of an axis, in the order given."""
    return reader.intervals(wanted) if isinstance(reader, Ranged) else (reader.tokens(a, b) for a, b in wanted)


@runtime_checkable
class Restorable(Protocol, metaclass=CachedProtocolMeta):
    """A view that took separators away, and knows the axis that has them still."""

    def restored(self, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:
        """A reader of this axis with `eos_id` after each sequence, or None if none is at hand.

        Args:
            eos_id: The separator.
            read: The whole axis has been read before: what is looked at as it is read need not be again, so that
                tokens may be copied unread (`RawCopyable`).
            before: The separator stands before each sequence, not after it.
        """


def restored(view: object, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:
    """The axis of a view with its separators, if it knows it."""
    return view.restored(eos_id, read=read, before=before) if isinstance(view, Restorable) else None


@dataclass(frozen=True, slots=True)
class PaddingCounts:
    """What was left out of an axis, and what was put in.

    Attributes:
        padding: Positions of the file that hold padding and are not on the axis; None if nobody counted.
        positions: Of how many.
        separators: Separators on the axis that were put there by the reader.
    """

    padding: int | None
    positions: int
    separators: int = 0


@runtime_checkable
class Filled(Protocol):
    """A reader that leaves padding out, or puts separators in. Optional; asked for with `isinstance`."""

    def filling(self) -> PaddingCounts:
        """See `PaddingCounts`."""


@runtime_checkable
class Sampled(Protocol):
    """A reader with layout SAMPLES whose rows are stored with loss mask and labels."""

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: 1 where the token's label counts in the loss, whatever polarity the file has."""

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """The label of each token, as stored: int64[stop - start]; -100 is what collators put where none counts."""


@runtime_checkable
class Marked(Protocol, metaclass=CachedProtocolMeta):
    """A reader of any layout that may have marks beside its tokens; see `core.loss_mask`."""

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """uint8[stop - start], of bits TARGET, MASKED_END and BEGINS; None where the dataset has none.

        Raises:
            IndexError: The interval leaves the axis.
            ConversionError: What is stored beside the tokens says more than marks can.
        """


def marks_of(reader: object, start: int = 0, stop: int = 0) -> NDArray[np.uint8] | None:
    """A reader's marks, if it has any; of an empty interval that tells whether it has."""
    return reader.marks(start, stop) if isinstance(reader, Marked) else None


@runtime_checkable
class Continuing(Protocol):
    """A reader whose last sequence may go on in the dataset that is read after it."""

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        """Check that nothing speaks for that.

        Args:
            following: The reader of that dataset, without views; of any kind.
            eos_id: The separator, which may stand on both sides of the border; None if there is none.

        Raises:
            FormatError: It may go on: then a token would be repeated, or a document cut.
        """


@runtime_checkable
class Segmented(Protocol):
    """A reader with layout SAMPLES whose rows say where documents begin, other than by a separator."""

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """bool[stop - start]: where a document begins."""


@runtime_checkable
class Reaching(Protocol):
    """A `RecordReader` that need not count all records to find the first of them."""

    def reach(self, last: int) -> int:
        """How many records there are, counted no farther than to record `last`."""


@runtime_checkable
class Collecting(Protocol):
    """A `RecordReader` that sets records with trouble aside (`Hints.collect`) and words them later."""

    def trouble(self, spot: Spot) -> TokfmtError:
        """The error of a line that a batch set aside as invalid, in words that name it by number and byte."""

    def line(self, spot: Spot) -> tuple[Path, int]:
        """A file and the number, from 1, of a line in it."""


@runtime_checkable
class Screened(Protocol):
    """A `RecordReader` that leaves damaged records out with `Hints.partial`."""

    def damaged_records(self) -> Sequence[Damage]:
        """The records left out that opening alone does not show. Reads all of the dataset."""
