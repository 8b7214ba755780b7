"""Find sequences: by the ids in them, by their text, by their length. `show` and the browser search with this.

Everything streams over windows of at most 1 Mi tokens, in either direction, and may be stopped between two of them; no
sequence is too long. A hit lies within one sequence. Lengths are answered from the offsets, without a token read.

Ids are compared as they are stored, never widened. Where separators were taken away by a view, that mask would cost
more than the comparison: the axis beneath, which has one after each sequence, is searched instead, and only what is
found is mapped back.

Records of text that nobody tokenised are searched by a regular expression, or by their length in characters.

The text of a sequence is what its tokens stand for, one after the other, read as UTF-8; a byte that is no UTF-8 stays a
byte of its own (a lone surrogate to the regular expression), and never becomes U+FFFD. A pattern without special
characters is looked for in the bytes, and only where a look-up by id leaves a chance (see `Sieve`). Limits: a sequence
of more than 64 Ki tokens is decoded in pieces, each with 4,096 tokens after it and 64 before it. A match longer than
those 4,096 tokens may be cut at their end, and a look further ahead or back sees the end of the text there. Going
backwards, occurrences that overlap at the border of two pieces may both be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import reader as token_axis
from tokfmt.core.errors import OptionError
from tokfmt.core.messages import Option
from tokfmt.core.protocols import Restorable
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import TokenReader, check_interval, sequence_at
from tokfmt.core.records import RecordReader
from tokfmt.ops.search.query import (
    Hit,
    Hits,
    LengthQuery,
    Part,
    Query,
    Search,
    TextQuery,
    TokenQuery,
    never,
    stretches,
    unwatched,
)
from tokfmt.text.decoding import ByteLevelDecoder, TextDecoder, VocabularyDecoder
from tokfmt.views.select import Concat, Slice

MANY = 1 << 16
"""Sequences whose offsets are looked at at once."""


def find(
    reader: TokenReader,
    query: Query,
    *,
    decoder: object = None,
    first: int = 0,
    last: int | None = None,
    each: bool = False,
    backwards: bool = False,
    stopped: Callable[[], bool] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Hit]:
    """Find what a query asks for in sequences `first <= i < last`, in order, as it is found.

    Args:
        query: See `ops.search.query`.
        decoder: A `text.decoding.TextDecoder`; needed by queries of text.
        first, last: Sequence numbers; None for the end.
        each, backwards, stopped, progress: See `Search`.

    Raises:
        OptionError: A query of text, and no decoder.
        IndexError: The interval leaves the dataset.
        FormatError: The file does not hold what its header promised.
    """
    search = Search(each, backwards, stopped or never, progress or unwatched)
    found = find_many(reader, query, search, decoder=decoder, first=first, last=last)
    return (hit for hits in found for hit in hits)


def find_many(
    reader: TokenReader,
    query: Query,
    search: Search,
    *,
    decoder: object = None,
    first: int = 0,
    last: int | None = None,
) -> Iterator[Hits]:
    """As `find`, but hits come as many at a time as were found together: for who keeps or counts millions of them.

    Args:
        reader, query, decoder, first, last: As for `find`.

    Raises:
        As `find` does.
    """
    last = reader.info.sequences if last is None else last
    check_interval(first, last, reader.info.sequences, "sequences")
    parts = list(_parts(Part(reader, first, last)))
    return _found(parts[::-1] if search.backwards else parts, query, decoder, search)


def _found(parts: list[Part], query: Query, decoder: object, search: Search) -> Iterator[Hits]:
    for part in parts:
        for hits in _in_part(part, query, decoder, search):
            yield Hits(hits.sequences + part.sequence, hits.starts + part.token, hits.stops + part.token)


def _in_part(part: Part, query: Query, decoder: object, search: Search) -> Iterator[Hits]:
    if isinstance(query, LengthQuery):
        return find_lengths(part, query, search)
    if isinstance(query, TokenQuery):
        return find_ids(part, query.ids, search)
    if not isinstance(decoder, (ByteLevelDecoder, VocabularyDecoder)) and not hasattr(decoder, "pieces"):
        raise OptionError(
            f"text: searches the text of a sequence, and there are ids only: it needs {Option('tokenizer')}"
        )
    return (Hits.of((hit,)) for hit in find_text(part, query, decoder, search))


def _parts(part: Part) -> Iterator[Part]:
    """The parts of a view that lie side by side beneath it: there each has its own width of ids."""
    reader = part.reader
    if isinstance(reader, Slice):
        base = int(reader.source.offsets(reader.first, reader.first)[0])
        shifted = Part(
            reader.source,
            part.first + reader.first,
            part.last + reader.first,
            part.sequence - reader.first,
            part.token - base,
        )
        yield from _parts(shifted)
    elif isinstance(reader, Concat):
        sequence = token = 0
        for source in reader.sources:
            count = source.info.sequences
            a, b = max(part.first - sequence, 0), min(part.last - sequence, count)
            if a < b:
                yield from _parts(Part(source, a, b, part.sequence + sequence, part.token + token))
            sequence, token = sequence + count, token + source.info.tokens
    elif part.first < part.last:
        yield part


def find_lengths(part: Part, query: LengthQuery, search: Search) -> Iterator[Hits]:
    """Sequences by length."""
    for a, b in stretches(part.first, part.last, MANY, backwards=search.backwards):
        if search.stopped():
            return
        bounds = part.reader.offsets(a, b)
        lengths = np.diff(bounds)
        fits = lengths >= query.low
        if query.high is not None:
            fits &= lengths <= query.high
        found = np.flatnonzero(fits)
        order = found[::-1] if search.backwards else found
        if len(order):
            yield Hits(a + order, bounds[order], bounds[order + 1])
        search.progress(b - a)


_FEW = 4  # hits of a window that are looked up one by one

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Searched:
    """The axis that is searched: the reader's own (shift 0), or one with a separator after each sequence (shift 1)."""

    view: TokenReader
    stored: TokenReader
    shift: int

    def bounds(self, first: int, last: int) -> Offsets:
        """Where sequences begin, int64[last - first + 1]."""
        offsets = self.view.offsets(first, last)
        return offsets + np.arange(first, last + 1) if self.shift else offsets

    def sequences(self, at: Positions) -> tuple[Positions, Positions, Positions]:
        """Number, begin and end (without separator) of the sequence that holds each of some ascending positions."""
        if len(at) <= _FEW:
            numbers = np.array([sequence_at(self.view, p, self.shift) for p in at.tolist()], np.int64)
            bounds = np.array([self.bounds(i, i + 1) for i in numbers.tolist()]).reshape(-1, 2)
            return numbers, bounds[:, 0], bounds[:, 1] - self.shift
        low, high = (sequence_at(self.view, int(p), self.shift) for p in at[[0, -1]])
        found = []
        for u, v in token_axis.windows(low, high + 1):  # empty sequences may be many more than tokens
            bounds = self.bounds(u, v)
            inside = at[np.searchsorted(at, bounds[0]) : np.searchsorted(at, bounds[-1])]
            local = np.searchsorted(bounds, inside, side="right") - 1
            found.append((local + u, bounds[local], bounds[local + 1] - self.shift))
        return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _searched(reader: TokenReader) -> _Searched:
    eos_id = reader.info.eos_id
    stored = reader.restored(eos_id) if eos_id is not None and isinstance(reader, Restorable) else None
    return _Searched(reader, reader, 0) if stored is None else _Searched(reader, stored, 1)


def find_ids(part: Part, ids: tuple[int, ...], search: Search) -> Iterator[Hits]:
    """Every place where `ids` stand one right after the other, within one sequence; occurrences may overlap."""
    info = part.reader.info
    if max(ids) > np.iinfo(info.dtype).max or info.free_of in ids:
        return
    searched = _searched(part.reader)
    needle = np.array(ids, searched.stored.info.dtype)
    anchor = None
    start, stop = (int(searched.bounds(i, i)[0]) for i in (part.first, part.last))
    end = stop
    while start < stop and not search.stopped():
        a, b = _next(start, stop, backwards=search.backwards)
        tokens = searched.stored.tokens(a, min(b + len(ids) - 1, end))
        anchor = _rarest(tokens, needle) if anchor is None else anchor
        at = _matches(tokens, needle, anchor) + a
        if len(at):
            numbers, begins, ends = searched.sequences(at)
            chosen = _chosen(numbers, at + len(ids) <= ends, search)
            if len(chosen):
                p = at[chosen] - searched.shift * numbers[chosen]
                yield Hits(numbers[chosen], p, p + len(ids))
            if search.each and len(chosen):  # what is left of that sequence needs no look
                a, b = min(a, int(begins[chosen[-1]])), max(b, int(ends[chosen[-1]]))
        before = stop - start
        start, stop = (start, min(stop, a)) if search.backwards else (max(start, b), stop)
        search.progress(before - max(0, stop - start))


def _next(start: int, stop: int, *, backwards: bool) -> tuple[int, int]:
    return (max(start, stop - token_axis.WINDOW), stop) if backwards else (start, min(start + token_axis.WINDOW, stop))


def _chosen(numbers: Positions, within: NDArray[np.bool_], search: Search) -> Positions:
    """Which hits to tell, in order."""
    kept = np.flatnonzero(within)
    kept = kept[::-1] if search.backwards else kept
    if search.each and len(kept):
        kept = kept[np.diff(numbers[kept], prepend=-1) != 0]
    return kept


def _rarest(tokens: Tokens, needle: Tokens) -> int:
    """Which id of the run is the rarest here: the one to look for first."""
    return int(np.argmin([np.count_nonzero(tokens == token) for token in needle]))


def _matches(tokens: Tokens, needle: Tokens, anchor: int) -> Positions:
    """Where the run begins in a window, ascending; int64."""
    begins = len(tokens) - len(needle) + 1
    if begins <= 0:
        return np.empty(0, np.int64)
    at = np.flatnonzero(tokens[anchor : anchor + begins] == needle[anchor])
    for j, token in enumerate(needle):
        if j != anchor and len(at):
            at = at[tokens[at + j] == token]
    return at


_BLOCK = 1 << 24  # bytes
_BACK = 1 << 12  # records searched at once when going backwards


def find_records(
    records: RecordReader, query: Query, search: Search, *, first: int = 0, last: int | None = None
) -> Iterator[Hit]:
    """Records `first <= i < last` that a query asks for; positions are characters within the record.

    Going backwards (or from the middle) counts the records first.

    Raises:
        OptionError: A query of ids.
        FormatError: A line that is not valid.
    """
    if not isinstance(query, (TextQuery, LengthQuery)):
        raise OptionError(f"token: searches ids, and this is text: give {Option('tokenizer')}, or search text:'...'")
    if not search.backwards:
        yield from _forwards(records, query, search, first, last)
        return
    for a, b in stretches(first, records.count() if last is None else last, _BACK, backwards=True):
        yield from reversed(list(_forwards(records, query, search, a, b)))
        if search.stopped():
            return


def _forwards(
    records: RecordReader, query: TextQuery | LengthQuery, search: Search, first: int, last: int | None
) -> Iterator[Hit]:
    number = first
    for block in records.blocks(_BLOCK, first, last):
        for batch in records.texts(block):
            if search.stopped():
                return
            for text in batch.texts:
                yield from _in_text(text, number, query, search)
                number += 1
        search.progress(block.stop - block.start)


def _in_text(text: str, number: int, query: TextQuery | LengthQuery, search: Search) -> Iterator[Hit]:
    if isinstance(query, LengthQuery):
        if len(text) >= query.low and (query.high is None or len(text) <= query.high):
            yield Hit(number, 0, len(text))
        return
    if query.literal is not None and query.literal not in text:
        return
    found = [Hit(number, *span) for span in query.spans(text, patience=search.patience)]
    yield from found if not search.each else found[-1:] if search.backwards else found[:1]


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
