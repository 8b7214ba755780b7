"""Tokenizers to choose from, and one row as two tokenizers cut it."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.pairing import Hunk, Marks
from tokfmt.browser.data.rows import Damage, Viewport, fetched, fetched_span, padded_from
from tokfmt.browser.data.session import Choice, Session, Vocabulary
from tokfmt.browser.data.state import tokenizers_of_all
from tokfmt.browser.data.workers import Job
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError, TokfmtError

NONE = "none"
"""The word for no tokenizer."""


def known_tokenizers(session: Session) -> list[Choice]:
    """Return the tokenizers to choose from: the one in use, and those of other datasets, the last used first."""
    used = [] if session.choice is None else [session.choice]
    found = {_place(one.name): one for one in used}
    for name in tokenizers_of_all():
        found.setdefault(_place(name), Choice(name, "used before"))
    return list(found.values())


def _place(name: str) -> str:
    """Return the path of a tokenizer that is a file or a directory here, else its name."""
    return os.path.realpath(name) if os.path.exists(name) else name


MOST_UNITS = 1 << 16  # units of a row that are compared

_ROWS, _BYTES = 256, 1 << 20  # rows, and bytes of their text, of the mean


class Cut(NamedTuple):
    """A text as a tokenizer cuts it.

    Attributes:
        tokens: The IDs.
        ends: The end of each token, in bytes of the text.
    """

    tokens: Tokens
    ends: Sequence[int]

    @property
    def port(self) -> Viewport:
        """Return the tokens as the only row of a dataset."""
        return Viewport(MemoryReader(Ragged.of([self.tokens])))

    @property
    def starts(self) -> Sequence[int]:
        """Return the start of each token."""
        return [0, *self.ends[:-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Both(Marks):
    """One row as two tokenizers cut it; the marks are on tokens that only one of them has.

    Attributes:
        row: Number of the row.
        size: Bytes of its text.
        cuts: The row by A and by B.
        whole: The row is not longer than what is compared.
        units: The position in the row of each token of A; None if none is left out.
    """

    row: int
    size: int
    cuts: tuple[Cut, Cut]
    whole: bool
    units: NDArray[np.int64] | None = None

    def token_of(self, unit: int) -> int:
        """Return the token of A at a position in the row, or the next one."""
        token = unit if self.units is None else int(np.searchsorted(self.units, unit))
        return max(0, min(token, len(self.cuts[0].tokens) - 1))

    def across(self, side: int, token: int) -> int:
        """Return the token of the other side that holds the first byte of a token of A (0) or B (1)."""
        return self.beside(side, token).start

    def beside(self, side: int, token: int) -> range:
        """Return the tokens of the other side that have bytes of a token of A (0) or B (1), or the one at its place."""
        mine, other = self.cuts[side], self.cuts[1 - side]
        if not len(mine.ends) or not len(other.ends):
            return range(1)
        token = min(token, len(mine.ends) - 1)
        start, stop = mine.ends[token - 1] if token else 0, mine.ends[token]
        first = min(bisect_right(other.ends, start), len(other.ends) - 1)
        last = bisect_left(other.ends, stop, first)  # the token with the last byte
        return range(first, max(first, min(last, len(other.ends) - 1)) + 1)


def _hunks(a: Cut, b: Cut) -> Iterator[Hunk]:
    """Yield the runs of tokens of A and of B between those that have the same bytes."""
    x, y = (list(zip(cut.starts, cut.ends, strict=True)) for cut in (a, b))
    i = j = 0
    while i < len(x) or j < len(y):
        first = i, j
        while i < len(x) and j < len(y) and x[i] != y[j]:
            (_, end), (_, other) = x[i], y[j]
            i, j = i + (end <= other), j + (other <= end)
        if i == len(x) or j == len(y):
            i, j = len(x), len(y)
        if first != (i, j):
            yield Hunk(first[0], i, first[1], j)
        i, j = i + 1, j + 1


def _cut(vocabulary: Vocabulary, tokens: Tokens, text: bytes) -> Cut:
    spelled = _spelled(vocabulary, tokens)
    # tokenizers of the kind of SentencePiece put a blank before a text
    before = int(bool(spelled) and spelled[0][:1] == b" " != text[:1])
    return Cut(tokens, [max(0, end - before) for end in accumulate(map(len, spelled))])


def _spelled(vocabulary: Vocabulary, tokens: Tokens) -> list[bytes]:
    found = vocabulary.decoder.pieces(tokens.tolist())
    return [one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one for one in found]


def text_of_row(session: Session, row: int) -> tuple[str, bool, Tokens | None, NDArray[np.int64] | None]:
    """Return the text of a row. Reads.

    Returns:
        The text, without special tokens, separators and padding; whether it is not cut; its tokens if the dataset
        stores them, and their positions in the row.

    Raises:
        TokfmtError: The row cannot be read.
    """
    view, vocabulary = session.view, session.vocabulary
    if isinstance(view.reader, RecordReader) and view.reader.info.kind == "text":
        record = view.reader.record(row)
        text = record if isinstance(record, str) else ""
        return text[:MOST_UNITS], len(text) <= MOST_UNITS, None, None
    port = view.port
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        raise TokfmtError(span.why)
    if vocabulary is None:
        raise OptionError("IDs have no text without a tokenizer")
    end = min(span.length, padded_from(port, row))
    piece = fetched(port, row, 0, min(end, MOST_UNITS))
    if isinstance(piece, Damage):
        raise TokfmtError(piece.why)
    separator = session.opened.separator.eos_id
    left_out = [*vocabulary.specials, *([] if separator is None else [separator])]
    units = np.flatnonzero(~np.isin(piece.units, left_out))
    tokens = piece.units[units]
    text = b"".join(_spelled(vocabulary, tokens)).decode("utf-8", "replace")
    return text, end <= MOST_UNITS, tokens, units


def both_of(session: Session, row: int, a: Vocabulary, b: Vocabulary) -> Both:
    """Return a row as two tokenizers cut it; IDs of the dataset are those of A. Reads.

    Raises:
        TokfmtError: The row cannot be read, or a tokenizer cannot encode it.
    """
    text, whole, tokens, units = text_of_row(session, row)
    mine = tokens if tokens is not None else _encoded(a, text)
    data = text.encode("utf-8", "surrogatepass")
    cuts = _cut(a, mine, data), _cut(b, _encoded(b, text), data)
    return Both(hunks=list(_hunks(*cuts)), row=row, size=len(data), cuts=cuts, whole=whole, units=units)


def _encoded(vocabulary: Vocabulary, text: str) -> Tokens:
    if vocabulary.encoder is None:
        raise OptionError("the tokenizer was loaded without its encoder")
    return vocabulary.encoder.encode([text]).tokens


class Totals(NamedTuple):
    """The tokens of A and of B over the first rows of a dataset.

    Attributes:
        rows: Number of rows.
        size: Bytes of their text.
        tokens: Tokens of A and of B.
    """

    rows: int
    size: int
    tokens: tuple[int, int]


def totals_of(session: Session, a: Vocabulary, b: Vocabulary, job: Job) -> Totals:
    """Count the tokens of two tokenizers over the first 256 rows, or the first mebibyte of their text. Reads.

    Raises:
        TokfmtError: A row cannot be read.
    """
    rows = size = x = y = 0
    for row in range(min(_ROWS, session.view.port.count)):
        both = both_of(session, row, a, b)
        rows, size = rows + 1, size + both.size
        x, y = x + len(both.cuts[0].tokens), y + len(both.cuts[1].tokens)
        job.advance(1)
        if size >= _BYTES:
            break
    return Totals(rows, size, (x, y))


def rate(size: int, tokens: int) -> str:
    """Return the bytes per token in words."""
    return f"{size / tokens:.2f} bytes per token" if tokens else "no tokens"


def more_words(x: int, y: int) -> str:
    """Return how many more or fewer tokens B needs than A."""
    if not x or x == y:
        return "as many tokens"
    return f"{abs(y - x) / x:.1%} {'more' if y > x else 'fewer'} tokens in B"
