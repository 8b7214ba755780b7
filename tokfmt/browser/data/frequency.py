"""How often each token ID is in a small dataset, for the facts about the token under the cursor."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.rows import RowSource
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted

MOST = 1 << 21
"""Limit of the tokens, and of the rows, of a dataset whose IDs are counted without a key."""

_TEXT = 1 << 20  # bytes of text that is tokenized for this
_LARGEST = 1 << 24  # IDs
_BLOCK = 1 << 20  # bytes


class Frequency(NamedTuple):
    """The frequency of an ID."""

    rank: int  # 1 for the most frequent ID; equally frequent ones share a rank
    tokens: int  # number of tokens with the ID
    rows: int  # number of rows that have it

    def words(self, singular: str) -> str:
        """Return the frequency in words; `singular` is the noun for a row."""
        return f"{counted(self.tokens, 'time')} in {counted(self.rows, singular)}, rank {self.rank:,}"


class Frequencies(NamedTuple):
    """The counts of all IDs: tokens, and rows that have the ID, as int64[largest ID + 1]."""

    tokens: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of(self, token: int) -> Frequency | None:
        """Return the frequency of an ID; None if it is not in the dataset."""
        count = int(self.tokens[token]) if token < len(self.tokens) else 0
        if not count:
            return None
        return Frequency(1 + int(np.count_nonzero(self.tokens > count)), count, int(self.rows[token]))


def frequencies_of(port: RowSource) -> Frequencies | None:
    """Count the IDs of all rows; None if there are too many, or the rows have characters. Reads."""
    if port.unit != "token" or not port.whole:
        return None
    try:
        ids, offsets = _all_ids(port)
    except TokfmtError:
        return None  # the row that cannot be read shows the error
    largest = int(ids.max(initial=0))
    if largest >= _LARGEST:
        return None
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    once = np.unique(row * (largest + 1) + ids.astype(np.int64)) % (largest + 1)
    return Frequencies(np.bincount(ids), np.bincount(once))


def _all_ids(port: RowSource) -> tuple[Tokens, Offsets]:
    """Return the IDs of all rows, and the offset of each row in them; those of no row of a large dataset."""
    reader = port.reader
    if not isinstance(reader, RecordReader):
        offsets = reader.offsets(0, port.count if max(reader.info.tokens, port.count) <= MOST else 0)
        return reader.tokens(int(offsets[0]), int(offsets[-1])), offsets - offsets[0]
    from tokfmt.text.ingest import encoded_batches

    blocks = reader.blocks(_BLOCK) if reader.info.size <= _TEXT else ()
    batches = (encoded_batches(reader, port.encoder, block) for block in blocks)
    ragged = Ragged.of((ids for batch in chain.from_iterable(batches) for ids in batch), np.dtype(np.uint64))
    return ragged.tokens, ragged.offsets
