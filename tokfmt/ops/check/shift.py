"""Is a document what lies some tokens beside where it should: the mark of shifted offsets?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader

_FARTHEST = 64
"""Tokens: twelve bytes are 3, 6 or 12 tokens, and nested merges add up."""

_ENOUGH = 8
_LOOK = 256


def shift_of(here: TokenReader, corpus: TokenReader, sequence: int, document: int) -> int:
    """How many tokens too early a document begins (negative: too late); 0 when it is not shifted.

    The stream of the corpus has one token after each document, whatever the separator is: it is not compared.
    """
    mine = _head(here, sequence)
    if len(mine) < _ENOUGH:
        return 0
    stream, known, begin = _stream(corpus, document)
    for tokens in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        at = begin - tokens
        if not tokens or at < 0 or at + _ENOUGH > len(stream):
            continue
        length = min(len(mine), len(stream) - at)
        told = known[at : at + length]
        same = (stream[at : at + length] == mine[:length])[told]
        if len(same) >= _ENOUGH and same.all():
            return tokens
    return 0


def _head(reader: TokenReader, number: int) -> NDArray[np.int64]:
    start, stop = reader.offsets(number, number + 1).tolist()
    return reader.tokens(start, min(stop, start + _LOOK)).astype(np.int64)


def _stream(corpus: TokenReader, document: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """The corpus around a document with a gap for each separator; which tokens are known; where the document begins."""
    pieces: list[NDArray[np.int64]] = []
    begin = 0
    for number in range(max(0, document - _FARTHEST), min(corpus.info.sequences, document + 8)):
        start, stop = corpus.offsets(number, number + 1).tolist()
        if number < document:
            start = max(start, stop - 2 * _FARTHEST)
        piece = corpus.tokens(start, min(stop, start + 2 * _LOOK)).astype(np.int64)
        if number == document:
            begin = sum(map(len, pieces))
        pieces.append(np.append(piece, -1))
    stream = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    return stream, stream >= 0, begin
