"""An axis in rows of one length, whatever its sequences are: what can be shown before anybody knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokfmt.core.axis import Info, Layout, TokenReader, check_interval, check_position
from tokfmt.core.ragged import Offsets, Tokens


class Rows:
    """The tokens of `source` in rows of `length`; the last may be shorter."""

    def __init__(self, source: TokenReader, length: int) -> None:
        self.source, self.length = source, length
        info = source.info
        self._info = replace(info, layout=Layout.SAMPLES, sequences=-(-info.tokens // length), sample_length=length)

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.minimum(np.arange(first, last + 1, dtype=np.int64) * self.length, self._info.tokens)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        """See `core.inside.Underlying`."""
        check_position(position, self._info.tokens)
        return self.source, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        """See `core.inside.Underlying`."""
        return position if reader is self.source else None

    def readers(self) -> Sequence[TokenReader]:
        """See `core.inside.Underlying`."""
        return (self.source,)

    def close(self) -> None:
        self.source.close()
