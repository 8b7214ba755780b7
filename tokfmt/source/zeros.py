"""Find out whether a dataset ends in zeros: a file that was not written to its end, or not copied."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokfmt.core.reader import WINDOW, Layout, TokenReader
from tokfmt.errors import TokfmtError
from tokfmt.model.readers import dataset_of

FEWEST = 1 << 10
"""Zeros in a row that no text has: half a page of a disk as uint16."""
_MOST = 1 << 24  # zeros that are counted
_ROWS = 2  # rows that are all zeros; padding may be 0


class ZerosAtEnd(NamedTuple):
    """The zeros at the end of a dataset."""

    first: int  # position of the first that was seen
    is_begin: bool  # there is none before it

    def sentence(self, reader: TokenReader) -> str:
        """Return a sentence without the path of the dataset."""
        end, least = reader.info.tokens, "" if self.is_begin else "at least "
        sequences = f"sequences {reader.sequence_at(self.first):,} to {reader.sequence_at(end - 1):,}"
        zeros = f"{least}its last {end - self.first:,} tokens are zeros ({sequences})"
        return f"{zeros}: it was not written to its end, or not copied"


def zeros_at_end(reader: TokenReader) -> ZerosAtEnd | None:
    """Look at the last IDs of a dataset. If all are 0, read those before them until there is another."""
    fewest, end = fewest_zeros(reader), reader.info.tokens
    try:
        if end < fewest or is_zero_usual(reader) or reader.tokens(end - fewest, end).any():
            return None
        first, seen = end - fewest, np.empty(0, np.int64)
        while first > max(0, end - _MOST) and not len(seen):
            a = max(0, first - WINDOW)
            seen = np.flatnonzero(reader.tokens(a, first))
            first = a + (int(seen[-1]) + 1 if len(seen) else 0)
    except TokfmtError:  # reported where all tokens are read
        return None
    return ZerosAtEnd(first, is_begin=first == 0 or bool(len(seen)))


def is_zero_usual(reader: TokenReader) -> bool:
    """Return whether 0 is the separator."""
    return 0 in (reader.info.eos_id, dataset_of(reader).gap.id)


def fewest_zeros(reader: TokenReader) -> int:
    """Return how many zeros in a row are a finding."""
    info = reader.info
    row = -(-info.tokens // info.sequences) if info.layout is not Layout.DOCUMENTS and info.sequences else 0
    return max(FEWEST, _ROWS * row)
