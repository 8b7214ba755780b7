"""How often each token ID is in a small dataset, for the facts about the token under the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.rows import RecordSource, RowSource
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted

MOST = 1 << 21
"""Limit of the tokens of a dataset whose IDs are counted without a key."""

_TEXT = 1 << 20  # bytes of text that is tokenized for this
_LARGEST = 1 << 24  # IDs
_AT_ONCE = 1 << 12  # rows
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
    tokens = rows = np.zeros(0, np.int64)
    try:
        for ids, offsets in _batches(port):
            if len(ids) and int(ids.max()) >= _LARGEST:
                return None
            found = np.bincount(ids)
            row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            once = np.unique(row * len(found) + ids.astype(np.int64)) % max(1, len(found))
            tokens, rows = _plus(tokens, found), _plus(rows, np.bincount(once, minlength=len(found)))
    except TokfmtError:
        return None  # the row that cannot be read shows the error
    return Frequencies(tokens, rows)


def _batches(port: RowSource) -> Iterator[tuple[Tokens, Offsets]]:
    """Yield the IDs of rows, and the offset of each row in them; nothing of a large dataset."""
    reader = port.reader
    if not isinstance(reader, RecordReader):
        for first in range(0, port.count if reader.info.tokens <= MOST else 0, _AT_ONCE):
            offsets = reader.offsets(first, min(first + _AT_ONCE, port.count))
            yield reader.tokens(int(offsets[0]), int(offsets[-1])), offsets - offsets[0]
        return
    from tokfmt.text.ingest import encoded_batches

    for block in reader.blocks(_BLOCK) if reader.info.size <= _TEXT else ():
        for ragged in encoded_batches(reader, port.encoder if isinstance(port, RecordSource) else None, block):
            yield ragged.tokens, ragged.offsets


def _plus(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.zeros(max(len(a), len(b)), np.int64)
    found[: len(a)] += a
    found[: len(b)] += b
    return found
