"""What all views over one reader share: a view states only what it changes."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, TokenReader, check_interval, check_position
from tokfmt.core.dtypes import U8
from tokfmt.core.errors import ConversionError
from tokfmt.core.protocols import marks_of
from tokfmt.core.ragged import Offsets, Tokens


class View:
    """A reader over one other, with the same axis and the same sequences until a view says otherwise.

    Positions beneath ascend with those here, or `above` has to be said anew.

    Attributes:
        source: The reader beneath.
        passes_on: What lies beneath and is not on this axis has the position of what follows it here, as a separator
            that was taken away; else it has none.
    """

    passes_on = False

    def __init__(self, source: TokenReader, info: Info | None = None) -> None:
        """`info`: of this axis, if not that of the source."""
        self.source, self._info = source, info or source.info

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Those of the source: whatever finds tokens finds what is beside them. See `protocols.Marked`."""
        check_interval(start, stop, self._info.tokens)
        if marks_of(self.source) is None:
            return None
        beside = copy.copy(self)
        vars(beside).update(source=_Beside(self.source), _info=replace(self._info, dtype=U8))
        return np.asarray(beside.tokens(start, stop), np.uint8)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        """See `protocols.Underlying`."""
        check_position(position, self._info.tokens)
        return self.source, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        """See `protocols.Underlying`. By bisection: O(log tokens) calls of `beneath`."""
        low, high = 0, self._info.tokens
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.beneath(middle)[1] < position else (low, middle)
        if reader is not self.source or low == self._info.tokens:
            return None
        return low if self.passes_on or self.beneath(low)[1] == position else None

    def readers(self) -> tuple[TokenReader]:
        """See `protocols.Underlying`."""
        return (self.source,)

    def close(self) -> None:
        self.source.close()


class _Beside(View):
    """The marks of a reader in place of its tokens."""

    def tokens(self, start: int, stop: int) -> Tokens:
        found = marks_of(self.source, start, stop)
        return np.empty(0, np.uint8) if found is None else found


_ABOVE = np.uint64(56)
"""Bits of a joined id below its marks."""


class Joined(View):
    """Each token with its marks in one id of 64 bits, for what moves tokens and knows nothing of marks."""

    def __init__(self, source: TokenReader) -> None:
        super().__init__(source, replace(source.info, dtype=np.dtype(np.uint64), max_id=None))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids, marks = self.source.tokens(start, stop).astype(np.uint64), marks_of(self.source, start, stop)
        if marks is None or (ids >> _ABOVE).any():
            raise ConversionError(f"an id of {1 << 56:,} or more has no room for marks beside it")
        return ids | marks.astype(np.uint64) << _ABOVE


class Parted(View):
    """The tokens, and the marks, of joined ids."""

    def __init__(self, source: TokenReader, dtype: np.dtype[np.unsignedinteger]) -> None:
        super().__init__(source, replace(source.info, dtype=dtype))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids = self.source.tokens(start, stop) & np.uint64((1 << 56) - 1)
        return ids.astype(self._info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        return (self.source.tokens(start, stop) >> _ABOVE).astype(np.uint8)
