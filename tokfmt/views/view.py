"""What all views over one reader share: a view states only what it changes."""

from __future__ import annotations

from tokfmt.core.axis import Info, TokenReader, check_position
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
