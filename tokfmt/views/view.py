"""Views over one reader: the base class, views that insert or remove separators, and streams split at a separator."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError
from tokfmt.core.place import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import U8, Info, TokenReader, check_interval, check_position, windows


class View(TokenReader):
    """A reader over another reader. It has the same axis and sequences, except for what a subclass changes.

    Positions in the source ascend with those of the view; otherwise, a subclass overrides `from_source`.

    Attributes:
        source: The reader below.
    """

    def __init__(self, source: TokenReader, info: Info | None = None) -> None:
        """Hold the source, and `info` of this axis if it differs from that of the source."""
        self.source, self.info = source, info or source.info

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last)

    def sequence_at(self, position: int) -> int:
        """See `TokenReader.sequence_at`. Ask the source if it has the same offsets."""
        same = type(self).offsets is View.offsets
        return self.source.sequence_at(position) if same else super().sequence_at(position)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the source, mapped as the view maps tokens; see `TokenReader.marks`."""
        check_interval(start, stop, self.info.tokens)
        if self.source.marks(0, 0) is None:
            return None
        beside = copy.copy(self)
        vars(beside).update(source=_Beside(self.source), info=replace(self.info, dtype=U8))
        return np.asarray(beside.tokens(start, stop), np.uint8)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        """See `TokenReader.to_source`."""
        check_position(position, self.info.tokens)
        return self.source, position

    def find(self, place: Place, byte: int) -> int | None:
        position = self.source.find(place, byte)
        return None if position is None else self.from_source(position)

    def from_source(self, position: int) -> int | None:
        """Return the position here of a position of the source, in O(log tokens) calls of `to_source`; None without."""
        low, high = 0, self.info.tokens
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.to_source(middle)[1] < position else (low, middle)
        if low == self.info.tokens:
            return None
        return low if self.to_source(low)[1] == position else None

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        self.source.check_ends_before(following, eos_id)

    def close(self) -> None:
        self.source.close()


class Indexed(View):
    """A view that holds the offsets of its sequences: `_offsets`, int64[sequences + 1]."""

    _offsets: Offsets

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]


class Beginning(Indexed):
    """The first tokens of a stored stream, up to the end of a number of documents."""

    def __init__(self, stored: TokenReader, eos_id: int, documents: int) -> None:
        """Scan the stream up to the end of `documents` documents."""
        tokens, found = stored.info.tokens, 0
        for a, b in windows(0, stored.info.tokens):
            ends = np.flatnonzero(stored.tokens(a, b) == eos_id)
            if found + len(ends) >= documents:
                tokens = a + int(ends[documents - found - 1]) + 1
                break
            found += len(ends)
        self._offsets = np.array([0, tokens][: 1 + bool(tokens)], np.int64)
        beginning = stored.info.beginning or tokens < stored.info.tokens
        count = len(self._offsets) - 1
        super().__init__(stored, replace(stored.info, tokens=tokens, sequences=count, beginning=beginning))

    @property
    def whole(self) -> bool:
        """True if it is the whole stream."""
        return self.info.tokens == self.source.info.tokens

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.source.tokens(start, stop)


class _Beside(View):
    """The marks of a reader instead of its tokens."""

    def tokens(self, start: int, stop: int) -> Tokens:
        found = self.source.marks(start, stop)
        return np.empty(0, np.uint8) if found is None else found


_ABOVE = np.uint64(56)
"""Number of bits of a packed ID below its marks."""


class PackMarks(View):
    """Tokens with their marks in one ID of 64 bits, for code that moves tokens and does not know marks."""

    def __init__(self, source: TokenReader) -> None:
        super().__init__(source, replace(source.info, dtype=np.dtype(np.uint64), max_id=None))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids, marks = self.source.tokens(start, stop).astype(np.uint64), self.source.marks(start, stop)
        if marks is None or (ids >> _ABOVE).any():
            raise ConversionError(f"a token ID of {1 << 56:,} or more has no room for marks beside it")
        return ids | marks.astype(np.uint64) << _ABOVE


class UnpackMarks(View):
    """The tokens and the marks of packed IDs."""

    def __init__(self, source: TokenReader, dtype: np.dtype[np.unsignedinteger]) -> None:
        super().__init__(source, replace(source.info, dtype=dtype))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids = self.source.tokens(start, stop) & np.uint64((1 << 56) - 1)
        return ids.astype(self.info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        return (self.source.tokens(start, stop) >> _ABOVE).astype(np.uint8)
