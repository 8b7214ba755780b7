"""Find a regular expression in the text of sequences.

The text of a sequence is what its tokens stand for, one after the other, read as UTF-8; a byte that is no UTF-8 stays a
byte of its own (a lone surrogate to the regular expression), and never becomes U+FFFD. A pattern without special
characters is looked for in the bytes, and only where a look-up by id leaves a chance (see `Sieve`).

Limits: a sequence of more than 64 Ki tokens is decoded in pieces, each with 4,096 tokens after it and 64 before it. A
match longer than those 4,096 tokens may be cut at their end, and a look further ahead or back sees the end of the text
there. Going backwards, occurrences that overlap at the border of two pieces may both be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.ops.look.query import Hit, Part, Search, TextQuery, stretches
from tokfmt.text.decoding import TextDecoder

PIECE = 1 << 16
"""Tokens decoded at once."""
AFTER = 1 << 12
BEFORE = 1 << 6
"""Tokens around a piece of a longer sequence."""

_SEQUENCES = 1 << 14
_KNOWN = 1 << 20  # ids whose spelling is kept; garbage may have any number of them

Span = tuple[int, int]


class Spelling(dict[int, bytes]):
    """The bytes that each id stands for; `⟨id⟩` where it stands for none."""

    def __init__(self, decoder: TextDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def __missing__(self, token: int) -> bytes:
        if len(self) > _KNOWN:
            self.clear()
        piece = self.decoder.pieces([token])[0]
        self[token] = spelled = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")
        return spelled


@dataclass(frozen=True, slots=True)
class Matcher:
    """Finds a query in bytes; `patience` as in `Search`."""

    query: TextQuery
    patience: float | None = None

    def spans(self, data: bytes, start: int = 0, stop: int | None = None) -> Iterator[Span]:
        """Byte spans of the matches that begin at `start <= p < stop` (None: anywhere from start), left to right."""
        if self.query.literal is not None:
            yield from _literal(data, self.query.literal.encode("utf-8", "surrogatepass"), start, stop)
            return
        text = data.decode("utf-8", "surrogateescape")
        char, byte = 0, 0
        for first, last in self.query.spans(text, _characters(data, start), self.patience):
            begin = byte + _width(text, char, first)
            if stop is not None and begin >= stop:
                return
            char, byte = last, begin + _width(text, first, last)
            yield begin, byte


def _literal(data: bytes, needle: bytes, start: int, stop: int | None) -> Iterator[Span]:
    limit = len(data) if stop is None else min(len(data), stop + len(needle) - 1)
    at = data.find(needle, start, limit)
    while at >= 0:
        yield at, at + len(needle)
        at = data.find(needle, at + len(needle), limit)


def _width(text: str, start: int, stop: int) -> int:
    """Bytes of some characters."""
    part = text[start:stop]
    return stop - start if part.isascii() else len(part.encode("utf-8", "surrogateescape"))


def _characters(data: bytes, start: int) -> int:
    """Characters that begin before a byte."""
    for lead in range(start - 1, max(-1, start - 4), -1):
        if data[lead] >> 6 == 0b10:  # continues a character
            continue
        whole = data[lead : lead + 1 + (data[lead] >= 0xC0) + (data[lead] >= 0xE0) + (data[lead] >= 0xF0)]
        if (
            len(whole) > start - lead and len(whole.decode("utf-8", "surrogateescape")) == 1
        ):  # and it goes on beyond that byte
            return len(data[:lead].decode("utf-8", "surrogateescape")) + 1
        break
    return len(data[:start].decode("utf-8", "surrogateescape"))


@dataclass(slots=True)
class _Walk:
    """One search on its way."""

    part: Part
    matcher: Matcher
    spelling: Spelling
    search: Search
    sieve: Sieve | None

    def hits(self) -> Iterator[Hit]:
        for first, last in self._groups():
            if self.search.stopped():
                return
            bounds = self.part.reader.offsets(first, last)
            if last == first + 1 and bounds[1] - bounds[0] > PIECE:
                yield from self._long(first, int(bounds[0]), int(bounds[1]))
                continue
            tokens = self.part.reader.tokens(int(bounds[0]), int(bounds[-1]))
            yield from self._whole(first, bounds, tokens)
            self.search.progress(len(tokens))

    def _groups(self) -> Iterator[Span]:
        """Consecutive sequences of together at most PIECE tokens, or one that is longer."""
        for a, b in stretches(self.part.first, self.part.last, _SEQUENCES, backwards=self.search.backwards):
            bounds, cuts = self.part.reader.offsets(a, b), [0]
            while cuts[-1] < b - a:
                fit = int(np.searchsorted(bounds, bounds[cuts[-1]] + PIECE, side="right")) - 1
                cuts.append(max(cuts[-1] + 1, fit))
            groups = list(zip(cuts, cuts[1:], strict=False))
            for u, v in reversed(groups) if self.search.backwards else groups:
                yield a + u, a + v

    def _whole(self, first: int, bounds: Offsets, tokens: Tokens) -> Iterator[Hit]:
        """The hits of whole sequences."""
        numbers = np.arange(len(bounds) - 1)
        if self.sieve is not None:
            at = self.sieve.places(tokens) + bounds[0]
            numbers = np.unique(np.searchsorted(bounds, at, side="right") - 1)
        for i in numbers[::-1].tolist() if self.search.backwards else numbers.tolist():
            a, b = int(bounds[i]), int(bounds[i + 1])
            words = self._words(tokens[a - bounds[0] : b - bounds[0]])
            yield from self._told(first + i, a, words, self.matcher.spans(b"".join(words)))

    def _words(self, tokens: Tokens) -> list[bytes]:
        return list(map(self.spelling.__getitem__, tokens.tolist()))

    def _long(self, sequence: int, start: int, stop: int) -> Iterator[Hit]:
        """The hits of one sequence, piece by piece."""
        carried = 0  # bytes at the beginning of this piece that belong to a match of the last one
        for a, b in stretches(start, stop, PIECE, backwards=self.search.backwards):
            if self.search.stopped():
                return
            left, right = max(start, a - BEFORE), min(stop, b + AFTER)
            tokens = self.part.reader.tokens(left, right)
            if self.sieve is not None and not carried and not len(self.sieve.places(tokens)):
                self.search.progress(b - a)
                continue
            words = self._words(tokens)
            begin = sum(map(len, words[: a - left]))
            end = begin + sum(map(len, words[a - left : b - left]))
            spans = list(self.matcher.spans(b"".join(words), begin + carried, None if b == stop else end))
            covered = spans[-1][1] if spans else begin + carried
            carried = 0 if self.search.backwards else max(0, covered - end)
            found = False
            for hit in self._told(sequence, left, words, iter(spans)):
                found = True
                yield hit
            self.search.progress(b - a)
            if found and self.search.each:
                return

    def _told(self, sequence: int, start: int, words: list[bytes], spans: Iterator[Span]) -> Iterator[Hit]:
        """Spans of bytes as hits: the tokens that hold them."""
        ends: list[int] | None = None
        hits = []
        for a, b in spans:
            ends = list(accumulate(map(len, words))) if ends is None else ends
            low = bisect_right(ends, a)
            high = low if a == b else bisect_right(ends, b - 1) + 1
            hits.append(Hit(sequence, start + low, start + high))
            if self.search.each and not self.search.backwards:
                break
        ordered = hits[::-1] if self.search.backwards else hits
        yield from ordered[:1] if self.search.each else ordered


def find_text(part: Part, query: TextQuery, decoder: Any, search: Search) -> Iterator[Hit]:
    """Matches of a regular expression in the text of each sequence; a hit is the tokens that hold the match."""
    spelling = Spelling(decoder)
    sieve = None if query.literal is None else Sieve(query.literal.encode("utf-8", "surrogatepass"), spelling)
    return _Walk(part, Matcher(query, search.patience), spelling, search, sieve).hits()


_MOST = 1 << 20  # ids looked up; what is beyond is decoded

_HOLDS, _ENDS, _FOLLOWS, _UNKNOWN = 1, 2, 4, 8


class Sieve:
    """Where a string of bytes can begin in a row of ids, without decoding them: two look-ups a token.

    A match begins in a token that holds the whole string, or that ends with its first bytes; then the token after it
    goes on with it. That leaves few places, which are decoded.
    """

    def __init__(self, needle: bytes, spelling: Mapping[int, bytes]) -> None:
        """Prepare.

        Args:
            needle: What is looked for, at least one byte.
            spelling: What each id stands for.
        """
        self.needle, self.spelling = needle, spelling
        self._roles = np.empty(0, np.uint8)

    def places(self, tokens: Tokens) -> NDArray[np.int64]:
        """Positions in `tokens` where a match may begin, ascending; int64."""
        if not len(tokens):
            return np.empty(0, np.int64)
        index = tokens if tokens.dtype.itemsize < 8 else np.minimum(tokens, _MOST).astype(np.int64)
        roles = self._looked_up(index, min(int(tokens.max()), _MOST))
        begins = roles & _HOLDS
        begins[:-1] |= (roles[:-1] >> 1) & (roles[1:] >> 2) & 1
        return np.flatnonzero(begins)

    def _looked_up(self, index: NDArray[np.integer], top: int) -> NDArray[np.uint8]:
        """The role of each token; ids met for the first time are learned."""
        if top >= len(self._roles):
            self._roles = np.append(self._roles, np.full(top + 1 - len(self._roles), _UNKNOWN, np.uint8))
            self._roles[_MOST:] = _HOLDS | _ENDS | _FOLLOWS
        roles = self._roles.take(index, mode="clip")
        new = roles == _UNKNOWN
        if new.any():
            for token in np.unique(index[new]).tolist():
                self._roles[token] = self._role(self.spelling[token])
            roles = self._roles.take(index, mode="clip")
        return roles

    def _role(self, piece: bytes) -> int:
        needle = self.needle
        if not piece:
            return _FOLLOWS
        role = _HOLDS if needle in piece else 0
        if any(piece.endswith(needle[:k]) for k in range(1, min(len(piece) + 1, len(needle)))):
            role |= _ENDS
        rests = (needle[k:] for k in range(1, len(needle)))
        if any(rest.startswith(piece) or piece.startswith(rest) for rest in rests):
            role |= _FOLLOWS
        return role
