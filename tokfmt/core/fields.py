"""Fields: the annotated pieces of files that `show --raw` and the browser list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Pointer(NamedTuple):
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
    target: Pointer | None = None


class Fields(Protocol):
    """Any number of fields, read as they are asked for.

    Attributes:
        count: How many; may be 10^8. The first time it is asked for, a long index is read to its end once.
    """

    @property
    def count(self) -> int: ...

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """Fields `first <= i < last`, fewer where the section ends before.

        Reads as far as `last`, and O(last - first) where it was read before. What is damaged is a field with `wrong`.
        """


class Section(Fields, Protocol):
    """The fields of a part of a dataset.

    Attributes:
        title: "header", "index", "chunks of encoded_tokens", ...
        path: The file that `Field.offset` counts in.
    """

    @property
    def title(self) -> str: ...
    @property
    def path(self) -> Path: ...
