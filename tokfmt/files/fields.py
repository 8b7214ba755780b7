"""Fields: the annotated parts of files that `show --raw` and the browser list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tokfmt.files.place import Place


class Pointer(NamedTuple):
    """A token that a field refers to.

    Attributes:
        path: The file.
        offset: Byte offset in a token; for compressed data, of the chunk that holds the token.
        beyond: Number of tokens from that token (or the first of the chunk) to this one.
    """

    path: Place
    offset: int
    beyond: int = 0


class Field(NamedTuple):
    """One annotated part of a file.

    Attributes:
        name: The name in the specification of the format ("data length", "entry 5", "chunk 3").
        offset: Byte offset; None if it is not at one place (such as an attribute that a library reads).
        length: Length in bytes; 0 if it is not at one place.
        value: The value as text; control characters are escaped.
        meaning: Explanation in a few words; "" if the name is enough.
        wrong: The value breaks the rules of the format (`Format.check` reports the finding).
        path: The file of `offset`, if it is not that of the section.
        target: The token that the field refers to, if not the one at `offset`: an index entry refers to the start of a
            sequence.
    """

    name: str
    offset: int | None
    length: int
    value: str
    meaning: str = ""
    wrong: bool = False
    path: Place | None = None
    target: Pointer | None = None


class Fields(Protocol):
    """Any number of fields, decoded on request.

    Attributes:
        count: Number of fields, up to 10^8. The first call may read a long index once to its end.
    """

    @property
    def count(self) -> int: ...

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """Return fields `first <= i < last`, fewer at the end of the section.

        The first call reads up to `last`; later calls take O(last - first). Damaged content is a field with `wrong`.
        """


class Section(Fields, Protocol):
    """The fields of a part of a dataset.

    Attributes:
        title: "header", "index", "chunks of encoded_tokens", ...
        path: The file of `Field.offset`.
    """

    @property
    def title(self) -> str: ...
    @property
    def path(self) -> Place: ...
