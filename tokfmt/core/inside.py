"""Looking inside: what readers and formats may offer beyond their contract, for people who look.

All of it is optional, and asked for with `isinstance`: a plug-in that offers none is browsed and shown all the same.

    Located           a reader that knows in which byte of which file a stored token lies
    LocatedRecords    the same of records that are not tokens yet: where the line of each begins
    Underlying        a view that knows where its positions lie on the axis beneath
    Sampled           a reader of samples that are stored with loss mask and labels
    Segmented         a reader of samples that says where documents begin in them
    Annotated         a format that can name the parts of its files: header fields, index entries, chunks

`Info.extras["pad_id"]` is the id that fills up samples, where the reader knows it. Of a dataset with splits
`extras["split"]` is the one that is read, and `extras["other_splits"]` names the others; the read option is `split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader


class Place(NamedTuple):
    """Where a token lies.

    Attributes:
        path: The file.
        offset: Of its first byte; for compressed data, of the first byte of the chunk that holds it.
        width: Bytes of the token in the file, or None when it lies inside a compressed chunk.
        detail: Where in the format's own terms, in words: which chunk, row and column.
    """

    path: Path
    offset: int
    width: int | None
    detail: str = ""


@runtime_checkable
class Located(Protocol):
    """A stored reader that knows the places of its tokens."""

    def place(self, position: int) -> Place:
        """Where the token at a position of this axis lies. 0 <= position < info.tokens.

        Raises:
            IndexError: The position leaves the axis.
        """

    def position(self, path: Path, offset: int) -> int | None:
        """The position whose token holds a byte of a file (or the first of a chunk); None outside of the tokens."""


@runtime_checkable
class LocatedRecords(Protocol):
    """A `RecordReader` that knows where its records lie."""

    def record_place(self, index: int) -> Place:
        """Where the line of a record begins; `width` is its length without line end. Counts records if nobody did.

        Raises:
            IndexError: There is no such record.
        """

    def record_at(self, path: Path, offset: int) -> int | None:
        """The record whose line holds a byte of a file; None where there is none."""


@runtime_checkable
class Underlying(Protocol):
    """A view over other readers. What it answers is exact, in O(log n)."""

    def beneath(self, position: int) -> tuple[TokenReader, int] | None:
        """The reader beneath, and its position of the token that is at `position` here.

        None for a separator that the view put in, which is nowhere beneath.

        Raises:
            IndexError: The position leaves the axis.
        """

    def above(self, reader: TokenReader, position: int) -> int | None:
        """The position here of a token of a reader beneath.

        A separator that was taken away has the position of what follows it. None where the token is not on this axis,
        or where nothing follows a separator.
        """

    def readers(self) -> Sequence[TokenReader]:
        """The readers directly beneath."""


@runtime_checkable
class Sampled(Protocol):
    """A reader with layout SAMPLES whose rows are stored with loss mask and labels."""

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: 1 where the token's label counts in the loss, whatever polarity the file has."""

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """The label of each token, as stored: int64[stop - start]; -100 is what collators put where none counts."""


@runtime_checkable
class Segmented(Protocol):
    """A reader with layout SAMPLES whose rows say where documents begin, other than by a separator."""

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """bool[stop - start]: where a document begins."""


class Target(NamedTuple):
    """A token that a field points to.

    Attributes:
        path: The file.
        offset: A byte of a token; of compressed data, of the chunk that holds it.
        beyond: How many tokens after that one (the first of the chunk) it is.
    """

    path: Path
    offset: int
    beyond: int = 0


class Field(NamedTuple):
    """One annotated piece of a file.

    Attributes:
        name: As the format's specification calls it ("data length", "entry 5", "chunk 3").
        offset: Of its first byte, None when it is not at one place (an attribute read through a library).
        length: In bytes, 0 when it is not at one place.
        value: What it says, as text for people; control characters escaped.
        meaning: What that means, in a few words; "" when the name says it.
        wrong: It breaks the format's rules (see `Format.check` for the finding).
        path: The file that `offset` counts in, when it is not the section's.
        target: The token it is about, if not the one at `offset`: where the sequence of an index entry begins.
    """

    name: str
    offset: int | None
    length: int
    value: str
    meaning: str = ""
    wrong: bool = False
    path: Path | None = None
    target: Target | None = None


class Section(Protocol):
    """A part of a dataset with any number of fields, read as they are asked for.

    Attributes:
        title: "header", "index", "chunks of encoded_tokens", ...
        path: The file that `Field.offset` counts in.
        count: Number of fields; may be 10^8. The first time it is asked for, a long index is read to its end once.
    """

    @property
    def title(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def count(self) -> int: ...

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """Fields `first <= i < last`, fewer where the section ends before.

        Reads as far as `last`, and O(last - first) where it was read before. What is damaged is a field with `wrong`.
        """


@runtime_checkable
class Annotated(Protocol):
    """A format that names the parts of its files."""

    def sections(self, path: Path, options: Any) -> Sequence[Section]:
        """The parts, in the order of the file. Opens at once: what is long is decoded when its fields are read.

        Never raises for damaged content: a part that cannot be read has one field that says so, with `wrong`.
        """


def place_of(reader: TokenReader, position: int) -> Place | None:
    """Where the token at a position of any axis lies, through all views; None when nobody knows."""
    while isinstance(reader, Underlying):
        found = reader.beneath(position)
        if found is None:
            return None
        reader, position = found
    return reader.place(position) if isinstance(reader, Located) else None


def position_of(reader: TokenReader, path: Path, offset: int) -> int | None:
    """The position on any axis of the token that holds a byte of a file; None where there is none."""
    if isinstance(reader, Underlying):
        for below in reader.readers():
            found = position_of(below, path, offset)
            if found is not None:
                return reader.above(below, found)
        return None
    return reader.position(path, offset) if isinstance(reader, Located) else None
