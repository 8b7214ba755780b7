"""Fields: the annotated parts of files that `show --raw` and the browser list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tokfmt.files.place import Place


class Pointer(NamedTuple):
    """A token that a field refers to."""

    path: Place
    offset: int  # byte offset in a token; for compressed data, of the chunk that holds the token
    beyond: int = 0  # number of tokens from that token (or the first of the chunk) to this one


class Field(NamedTuple):
    """One annotated part of a file."""

    name: str  # name in the specification of the format ("data length", "entry 5", "chunk 3")
    offset: int | None  # byte offset; None if it is not at one place (such as an attribute that a library reads)
    length: int  # length in bytes; 0 if it is not at one place
    value: str  # value as text; control characters are escaped
    meaning: str = ""  # explanation in a few words; "" if the name is enough
    wrong: bool = False  # value breaks the rules of the format (`Format.check` reports the finding)
    path: Place | None = None  # file of `offset`, if it is not that of the section
    # the token that it refers to, if not the one at `offset`, such as the start of a sequence
    target: Pointer | None = None


class Fields(Protocol):
    """Any number of fields, decoded on request."""

    @property
    def count(self) -> int:
        """Their number, up to 10^8. The first call may read a long index once to its end."""
        ...

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """Return fields `first <= i < last`, fewer at the end of the section.

        The first call reads up to `last`; later calls take O(last - first). Damaged content is a field with `wrong`.
        """


class Section(Fields, Protocol):
    """The fields of a part of a dataset."""

    @property
    def title(self) -> str: ...
    @property
    def path(self) -> Place: ...
