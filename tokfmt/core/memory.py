"""A reader of a dataset that is held in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import Info, Layout, TokenReader, check_interval, largest_id


class MemoryReader(TokenReader):
    """A dataset held in memory, for tests and small inputs. It is also the simplest example of a reader."""

    def __init__(self, ragged: Ragged, marks: NDArray[np.uint8] | None = None) -> None:
        """Take the sequences, and the marks of their tokens (see `core.loss_mask`) if there are any."""
        self.ragged, self._marks = ragged, marks
        self.info = Info(
            Layout.DOCUMENTS, ragged.tokens.dtype, len(ragged), len(ragged.tokens), max_id=largest_id(ragged.tokens)
        )

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, len(self.ragged.tokens))
        return self.ragged.tokens[start:stop]

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, len(self.ragged), "sequences")
        return self.ragged.offsets[first : last + 1]

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        return None if self._marks is None else self._marks[start:stop]

    def close(self) -> None:
        """Do nothing, because no file is open."""
