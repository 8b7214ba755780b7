"""Find sequences by their IDs, text, length, content or number, for `tokfmt show` and the browser.

A search reads windows of at most 1 Mi tokens in either direction, and can be stopped between two windows. Sequences may
have any length, and a hit is always within one sequence.

- **Lengths** and **numbers** come from the offsets; no token is read.
- **Equal content** is compared token by token, only between sequences of one length.
- **IDs** are compared in the stored dtype. If a view removes separators, removing them would cost more than the
  comparison. The axis under the view, with a separator after each sequence, is searched instead, and hits are mapped
  back.
- **Records of text** are searched by a regular expression, or by their length in characters.
- **Text** of a sequence is the bytes of its tokens, joined and read as UTF-8. A byte that is not UTF-8 is a lone
  surrogate for the regular expression, never U+FFFD. A pattern without special characters is searched in the bytes
  of the few places that a look-up by ID leaves (see `Sieve`).

Limits of text: a sequence of more than 64 Ki tokens is decoded in pieces, each with 64 tokens before it and 4,096 after
it. A match that is longer than these 4,096 tokens may be cut at their end. A lookahead or lookbehind sees the end
of the text there. Going backwards, overlapping matches at the border of two pieces may both be returned.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.search.query import (
    AnyQuery,
    DensityQuery,
    EndQuery,
    Hit,
    Hits,
    LengthQuery,
    NotQuery,
    NumberQuery,
    PlainQuery,
    Query,
    SameQuery,
    Search,
    SearchPart,
    TextQuery,
    TokenQuery,
    UnusedQuery,
    affirmed,
    never,
    stretches,
)
from tokfmt.core import reader as token_axis
from tokfmt.core.loss_mask import counted_of, of_rows, padding_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import Layout, TokenReader, check_interval
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError
from tokfmt.model.readers import stored_reader
from tokfmt.model.select import Concat, Slice
from tokfmt.text.decoding import ByteLevelDecoder, TextDecoder, VocabularyDecoder

_ALL = Search()
_FEW = 1 << 12
MANY = 1 << 16
"""Sequences whose offsets are read at once."""
_MANY_TOKENS = 1 << 24  # after which the sequences that are not found are passed on


def find(
    reader: TokenReader,
    query: Query,
    search: Search = _ALL,
    *,
    decoder: object = None,
    first: int = 0,
    last: int | None = None,
) -> Iterator[Hit]:
    """Search as `find_many` does, and yield each hit when it is found."""
    return chain.from_iterable(find_many(reader, query, search, decoder=decoder, first=first, last=last))


def find_many(
    reader: TokenReader,
    query: Query,
    search: Search,
    *,
    decoder: object = None,
    first: int = 0,
    last: int | None = None,
) -> Iterator[Hits]:
    """Search the sequences `first <= i < last`, and yield the hits of each window as columns, in order."""
    last = reader.info.sequences if last is None else last
    check_interval(first, last, reader.info.sequences, "sequences")
    if isinstance(query, NotQuery):
        return _not_found(reader, query, search, decoder, first, last)
    if isinstance(query, SameQuery):
        return find_equal(reader, contents_of(reader, query), search, first, last)
    if isinstance(query, NumberQuery):
        return _by_number(reader, query, search, first, last)
    if isinstance(query, UnusedQuery):
        return find_unused(reader, query, search, first, last)
    if isinstance(query, DensityQuery):
        return _by_density(reader, query, decoder, search, first, last)
    parts = list(_parts(SearchPart(reader, first, last)))
    return _found(parts[::-1] if search.backwards else parts, query, decoder, search)


_InPart = TokenQuery | AnyQuery | EndQuery | TextQuery | LengthQuery
"""Queries that are answered part by part, because the dtype of the IDs may differ between the parts of a view."""


def _found(parts: list[SearchPart], query: _InPart, decoder: object, search: Search) -> Iterator[Hits]:
    for part in parts:
        for hits in _in_part(part, query, decoder, search):
            yield Hits(hits.sequences + part.sequence, hits.starts + part.token, hits.stops + part.token)


def _in_part(part: SearchPart, query: _InPart, decoder: object, search: Search) -> Iterator[Hits]:
    if isinstance(query, LengthQuery):
        return find_lengths(part, query, search)
    if isinstance(query, TokenQuery):
        return find_ids(part, query.ids, search)
    if isinstance(query, AnyQuery):
        return find_any(part, query, search)
    if isinstance(query, EndQuery):
        return find_ends(part, query, search)
    _check_decoder(decoder, "text")
    return (Hits.of((hit,)) for hit in find_text(part, query, decoder, search))


def _check_decoder(decoder: object, kind: str) -> None:
    if not isinstance(decoder, (ByteLevelDecoder, VocabularyDecoder)) and not hasattr(decoder, "pieces"):
        raise OptionError(f"{kind}: is about text, and this dataset holds only IDs. Add --tokenizer", name=kind)


def _parts(part: SearchPart) -> Iterator[SearchPart]:
    """Yield the parts that a view joins or cuts, because the dtype of the IDs may differ between them."""
    reader = part.reader
    if isinstance(reader, Slice):
        base = int(reader.source.offsets(reader.first, reader.first)[0])
        shifted = SearchPart(
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
                yield from _parts(SearchPart(source, a, b, part.sequence + sequence, part.token + token))
            sequence, token = sequence + count, token + source.info.tokens
    elif part.first < part.last:
        yield part


def find_lengths(part: SearchPart, query: LengthQuery, search: Search) -> Iterator[Hits]:
    """Yield the sequences with a length in the range of the query; a hit is the complete sequence."""
    for a, b in stretches(part.first, part.last, MANY, backwards=search.backwards):
        if search.stopped():
            return
        bounds = part.reader.offsets(a, b)
        lengths = np.diff(bounds)
        fits = lengths >= query.low
        if query.high is not None:
            fits &= lengths <= query.high
        yield from _complete(fits, a, bounds, search)
        search.progress(b - a)


def _complete(fits: NDArray[np.bool_], first: int, bounds: Offsets, search: Search) -> Iterator[Hits]:
    """Yield those of consecutive sequences that fit, each complete."""
    order = np.flatnonzero(fits)[:: -1 if search.backwards else 1]
    if len(order):
        yield Hits(first + order, bounds[order], bounds[order + 1])


def find_others(reader: TokenReader, batches: Iterable[Hits], search: Search, first: int, last: int) -> Iterator[Hits]:
    """Yield those of the sequences `first <= i < last` that have no hit, each complete."""
    fits = np.ones(last - first, np.bool_)
    for hits in batches:
        fits[hits.sequences - first] = False
    if not search.stopped():
        yield from _complete(fits, first, reader.offsets(first, last), search)


def _not_found(
    reader: TokenReader, query: NotQuery, search: Search, decoder: object, first: int, last: int
) -> Iterator[Hits]:
    """Yield the sequences that a query does not find, each complete."""
    within, info = Search(each=True, stopped=search.stopped, patience=search.patience), reader.info
    size = min(MANY, _MANY_TOKENS * info.sequences // max(info.tokens, 1))
    for a, b in stretches(first, last, max(1, size), backwards=search.backwards):
        if search.stopped():
            return
        found = find_many(reader, query.negated, within, decoder=decoder, first=a, last=b)
        yield from find_others(reader, found, search, a, b)
        search.progress(b - a)


def _by_number(reader: TokenReader, query: NumberQuery, search: Search, first: int, last: int) -> Iterator[Hits]:
    spans = query.between(first, last)
    for span in reversed(spans) if search.backwards else spans:
        for a, b in stretches(*span, MANY, backwards=search.backwards):
            if search.stopped():
                return
            bounds = reader.offsets(a, b)
            step = -1 if search.backwards else 1
            yield Hits(np.arange(a, b)[::step], bounds[:-1][::step], bounds[1:][::step])
            search.progress(b - a)


def find_ends(part: SearchPart, query: EndQuery, search: Search) -> Iterator[Hits]:
    """Yield the first (or last) token of each sequence whose ID is one of the query."""
    wanted = np.array([one for one in query.ids if one <= np.iinfo(part.reader.info.dtype).max], np.uint64)
    for a, b in stretches(part.first, part.last, MANY, backwards=search.backwards):
        if search.stopped():
            return
        bounds = part.reader.offsets(a, b)
        filled = np.flatnonzero(bounds[1:] > bounds[:-1])
        at = bounds[filled + 1] - 1 if query.is_last else bounds[filled]
        is_wanted = np.zeros(len(at), np.bool_)
        for begin, end in _near(at, at + 1):
            tokens = part.reader.tokens(int(at[begin]), int(at[end - 1]) + 1)
            is_wanted[begin:end] = np.isin(tokens[at[begin:end] - at[begin]], wanted)
        order = np.flatnonzero(is_wanted)[:: -1 if search.backwards else 1]
        if len(order):
            yield Hits(a + filled[order], at[order], at[order] + 1)
        search.progress(int(bounds[-1] - bounds[0]))


def find_unused(reader: TokenReader, query: UnusedQuery, search: Search, first: int, last: int) -> Iterator[Hits]:
    """Yield the samples with a number of padding or masked positions in the range of the query, each complete."""
    if reader.info.layout is not Layout.SAMPLES:
        raise _without_samples(query)
    each = max(1, token_axis.WINDOW // max(1, reader.info.sample_length or 1))
    for a, b in stretches(first, last, each, backwards=search.backwards):
        if search.stopped():
            return
        bounds = reader.offsets(a, b)
        counts = _unused(reader, query, bounds)
        fits = counts >= query.low
        if query.high is not None:
            fits &= counts <= query.high
        yield from _complete(fits, a, bounds, search)
        search.progress(b - a)


def _without_samples(query: UnusedQuery) -> OptionError:
    kind = "masked" if query.masked else "padding"
    return OptionError(f"{kind}: is a number of each sample, and this dataset holds no samples", name=kind)


def _unused(reader: TokenReader, query: UnusedQuery, bounds: Offsets) -> Positions:
    """Return the number of masked or padding positions of each of consecutive samples, int64."""
    start, stop = int(bounds[0]), int(bounds[-1])
    if not query.masked:
        return of_rows(padding_of(reader, start, stop), bounds)
    counted = counted_of(reader, start, stop)
    return of_rows(None if counted is None else ~counted, bounds)


def _by_density(
    reader: TokenReader, query: DensityQuery, decoder: Any, search: Search, first: int, last: int
) -> Iterator[Hits]:
    _check_decoder(decoder, "b/t")
    for a, b in stretches(first, last, _FEW, backwards=search.backwards):
        ratios = densities(reader, decoder, a, b, search.stopped)
        if search.stopped():
            return
        fits = (ratios >= query.low) & (ratios <= (np.inf if query.high is None else query.high))
        yield from _complete(fits, a, reader.offsets(a, b), search)
        search.progress(b - a)


def densities(
    reader: TokenReader, decoder: TextDecoder, first: int, last: int, stopped: Callable[[], bool] = never
) -> NDArray[np.float64]:
    """Return the bytes of text per token of the sequences `first <= i < last`; NaN of empty ones."""
    bounds = reader.offsets(first, last)
    sums, lengths = np.zeros(last - first, np.int64), np.diff(bounds)
    for start, stop in token_axis.windows(int(bounds[0]), int(bounds[-1])):
        if stopped():
            break
        ids, numbers = np.unique(reader.tokens(start, stop), return_inverse=True)
        sizes = np.array([len(piece if isinstance(piece, bytes) else piece.encode()) for piece in decoder.pieces(ids)])
        sums += np.diff(np.append(0, np.cumsum(sizes[numbers]))[np.clip(bounds, start, stop) - start])
    return np.where(lengths > 0, sums / np.maximum(lengths, 1), np.nan)


@dataclass(frozen=True, slots=True)
class Content:
    """The tokens of one sequence, read when they are compared."""

    reader: TokenReader
    start: int
    stop: int

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.stop - self.start


def contents_of(reader: TokenReader, query: SameQuery) -> list[Content]:
    """Return the content of each sequence that a query names."""
    count, contents = reader.info.sequences, []
    for number in query.numbers:
        check_number(number, count)
        start, stop = reader.offsets(number, number + 1).tolist()
        contents.append(Content(reader, start, stop))
    return contents


def check_number(number: int, count: int) -> None:
    """Raise OptionError if a dataset with `count` sequences has no sequence `number`."""
    if number >= count:
        raise OptionError(
            f"same:{number}: there are {count:,} sequences. Name one from 0 to {count - 1:,}", name="same"
        )


def find_equal(
    reader: TokenReader, contents: Sequence[Content], search: Search, first: int, last: int
) -> Iterator[Hits]:
    """Yield the sequences with the same tokens as one of several others; a hit is the complete sequence."""
    lengths = np.unique(np.array([content.length for content in contents], np.int64))
    for a, b in stretches(first, last, MANY, backwards=search.backwards):
        if search.stopped():
            return
        bounds = reader.offsets(a, b)
        at = np.flatnonzero(np.isin(np.diff(bounds), lengths))
        is_equal = np.zeros(b - a, np.bool_)
        for begin, end in _near(bounds[at], bounds[at + 1]):
            if search.stopped():
                return
            group = at[begin:end]
            is_equal[group] = _equal(reader, bounds, group, contents)
        yield from _complete(is_equal, a, bounds, search)
        search.progress(b - a)


_GAP = 1 << 14  # tokens between two intervals up to which both are read at once


def _near(starts: Positions, stops: Positions) -> Iterator[tuple[int, int]]:
    """Yield runs (first, after the last) of ascending intervals that are near and together fit into a window."""
    far = np.flatnonzero(starts[1:] - stops[:-1] > _GAP) + 1
    for low, high in itertools.pairwise([0, *far.tolist(), len(starts)]):
        begin = low
        while begin < high:
            fit = int(np.searchsorted(stops[:high], starts[begin] + token_axis.WINDOW, side="right"))
            yield begin, max(begin + 1, fit)
            begin = max(begin + 1, fit)


def _equal(reader: TokenReader, bounds: Offsets, at: Positions, contents: Sequence[Content]) -> NDArray[np.bool_]:
    """Return for each of some sequences that are read together if it equals one of `contents`."""
    low, high = int(bounds[at[0]]), int(bounds[at[-1] + 1])
    is_equal = np.zeros(len(at), np.bool_)
    if high - low > token_axis.WINDOW:  # one sequence
        is_equal[0] = any(_same_tokens(reader, low, high, content) for content in contents)
        return is_equal
    tokens, starts, lengths = reader.tokens(low, high), bounds[at] - low, bounds[at + 1] - bounds[at]
    for content in contents:
        needle: Tokens | None = None
        maybe = np.flatnonzero((lengths == content.length) & ~is_equal)
        for k in range(0, content.length, max(1, content.length // _PROBES)):  # most differ in one of a few tokens
            if not len(maybe):
                break
            needle = content.reader.tokens(content.start, content.stop) if needle is None else needle
            maybe = maybe[tokens[starts[maybe] + k] == needle[k]]
        for i in maybe.tolist():
            begin = int(starts[i])
            is_equal[i] = needle is None or np.array_equal(tokens[begin : begin + content.length], needle)
    return is_equal


_PROBES = 8


def _same_tokens(reader: TokenReader, start: int, stop: int, content: Content) -> bool:
    return stop - start == content.length and all(
        np.array_equal(reader.tokens(start + a, start + b), content.reader.tokens(content.start + a, content.start + b))
        for a, b in token_axis.windows(0, content.length)
    )


_FEW = 4  # up to this number of hits in a window, the sequence of each is looked up by itself

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Searched:
    """The axis that is searched: the reader's own, or one with a separator after each sequence."""

    stored: TokenReader
    separators: int  # after each sequence, 0 or 1

    def sequences(self, at: Positions) -> tuple[Positions, Positions, Positions]:
        """Return the number, start and end (without separator) of the sequence of each of ascending positions."""
        if len(at) <= _FEW:
            numbers = np.array([self.stored.sequence_at(p) for p in at.tolist()], np.int64)
            bounds = np.array([self.stored.offsets(i, i + 1) for i in numbers.tolist()]).reshape(-1, 2)
            return numbers, bounds[:, 0], bounds[:, 1] - self.separators
        low, high = (self.stored.sequence_at(int(p)) for p in at[[0, -1]])
        columns = []
        for u, v in token_axis.windows(low, high + 1):  # there may be many more empty sequences than tokens
            bounds = self.stored.offsets(u, v)
            inside = at[np.searchsorted(at, bounds[0]) : np.searchsorted(at, bounds[-1])]
            local = np.searchsorted(bounds, inside, side="right") - 1
            columns.append((local + u, bounds[local], bounds[local + 1] - self.separators))
        return tuple(np.concatenate(column) for column in zip(*columns, strict=True))  # type: ignore[return-value]


def _searched(reader: TokenReader) -> _Searched:
    eos_id = reader.info.eos_id
    stored = stored_reader(reader, eos_id)
    return _Searched(reader, 0) if stored is None else _Searched(stored, 1)


def find_ids(part: SearchPart, ids: tuple[int, ...], search: Search) -> Iterator[Hits]:
    """Yield every run of `ids` within one sequence; runs may overlap."""
    info = part.reader.info
    if max(ids) > np.iinfo(info.dtype).max or info.free_of in ids:
        return
    searched = _searched(part.reader)
    needle, anchor = np.array(ids, searched.stored.info.dtype), -1

    def matches(tokens: Tokens) -> Positions:
        nonlocal anchor
        if anchor < 0:  # the search starts from the rarest ID of the run in this window
            anchor = int(np.argmin([np.count_nonzero(tokens == token) for token in needle]))
        return _matches(tokens, needle, anchor)

    yield from _found_at(searched, part, len(ids), matches, search)


def find_any(part: SearchPart, query: AnyQuery, search: Search) -> Iterator[Hits]:
    """Yield every token with an ID of the query."""
    searched = _searched(part.reader)
    top = int(np.iinfo(searched.stored.info.dtype).max)
    spans = [(low, min(high, top)) for low, high in query.spans if low <= top]
    lows, highs = (np.array([span[k] for span in spans], searched.stored.info.dtype) for k in (0, 1))

    def matches(tokens: Tokens) -> Positions:
        at = np.searchsorted(lows, tokens, side="right")
        begins = np.flatnonzero(at)
        return begins[tokens[begins] <= highs[at[begins] - 1]]

    if spans:
        yield from _found_at(searched, part, 1, matches, search)


def _found_at(
    searched: _Searched, part: SearchPart, width: int, matches: Callable[[Tokens], Positions], search: Search
) -> Iterator[Hits]:
    """Yield hits of `width` tokens; `matches` returns the indexes in a window at which they begin."""
    start, stop = (int(searched.stored.offsets(i, i)[0]) for i in (part.first, part.last))
    end = stop
    while start < stop and not search.stopped():
        a, b = _next(start, stop, backwards=search.backwards)
        at = matches(searched.stored.tokens(a, min(b + width - 1, end))) + a
        if len(at):
            numbers, begins, ends = searched.sequences(at)
            chosen = _chosen(numbers, at + width <= ends, search)
            if len(chosen):
                p = at[chosen] - searched.separators * numbers[chosen]
                yield Hits(numbers[chosen], p, p + width)
            if search.each and len(chosen):  # the rest of that sequence is skipped
                a, b = min(a, int(begins[chosen[-1]])), max(b, int(ends[chosen[-1]]))
        before = stop - start
        start, stop = (start, min(stop, a)) if search.backwards else (max(start, b), stop)
        search.progress(before - max(0, stop - start))


def _next(start: int, stop: int, *, backwards: bool) -> tuple[int, int]:
    return (max(start, stop - token_axis.WINDOW), stop) if backwards else (start, min(start + token_axis.WINDOW, stop))


def _chosen(numbers: Positions, within: NDArray[np.bool_], search: Search) -> Positions:
    """Return the indexes of the hits to return, in the order of the search."""
    rows = np.flatnonzero(within)
    rows = rows[::-1] if search.backwards else rows
    if search.each and len(rows):
        rows = rows[np.diff(numbers[rows], prepend=-1) != 0]
    return rows


def _matches(tokens: Tokens, needle: Tokens, anchor: int) -> Positions:
    """Return the indexes at which the run begins in a window, ascending; int64."""
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
    """Search the records `first <= i < last` of text; the positions of a hit are characters within the record."""
    plain: PlainQuery = affirmed(query)
    if isinstance(plain, UnusedQuery):
        raise _without_samples(plain)
    if isinstance(plain, DensityQuery):
        raise OptionError("b/t: counts tokens, and this is text. Add --tokenizer", name="b/t")
    if isinstance(plain, (TokenQuery, AnyQuery, EndQuery)):
        raise OptionError("token: searches IDs, and this is text. Add --tokenizer, or search text:'...'")
    if isinstance(plain, NumberQuery):
        spans = plain.between(first, records.count() if last is None else last)
        for a, b in reversed(spans) if search.backwards else spans:
            yield from _records_between(records, _every, search, a, b)
        return
    matches = _text_matcher(records, plain, search)
    if isinstance(query, NotQuery):
        matches = _unmatched(matches)
    yield from _records_between(records, matches, search, first, last)


Matches = Callable[[str, int], Sequence[Hit]]
"""A function that returns the hits in a text, given with the number of its record."""


def _records_between(
    records: RecordReader, matches: Matches, search: Search, first: int, last: int | None
) -> Iterator[Hit]:
    if not search.backwards:
        yield from _forwards(records, matches, search, first, last)
        return
    for a, b in stretches(first, records.count() if last is None else last, _BACK, backwards=True):
        yield from reversed(list(_forwards(records, matches, search, a, b)))
        if search.stopped():
            return


def _forwards(records: RecordReader, matches: Matches, search: Search, first: int, last: int | None) -> Iterator[Hit]:
    number = first
    for block in records.blocks(_BLOCK, first, last):
        for batch in records.texts(block):
            if search.stopped():
                return
            for text in batch.texts:
                yield from matches(text, number)
                number += 1
        search.progress(block.stop - block.start)


def _every(text: str, number: int) -> Sequence[Hit]:
    return (Hit(number, 0, len(text)),)


def _text_matcher(records: RecordReader, query: TextQuery | LengthQuery | SameQuery, search: Search) -> Matches:
    if isinstance(query, TextQuery):
        return lambda text, number: _in_text(text, number, query, search)
    if isinstance(query, LengthQuery):
        low, high = query.low, query.high
        return lambda text, number: (
            _every(text, number) if low <= len(text) and (high is None or len(text) <= high) else ()
        )
    count = records.count()
    for number in query.numbers:
        check_number(number, count)
    wanted = {records.record(number) for number in query.numbers}
    return lambda text, number: _every(text, number) if text in wanted else ()


def _unmatched(matches: Matches) -> Matches:
    return lambda text, number: () if matches(text, number) else _every(text, number)


def _in_text(text: str, number: int, query: TextQuery, search: Search) -> Sequence[Hit]:
    if query.literal is not None and query.literal not in text:
        return ()
    hits = [Hit(number, *span) for span in query.spans(text, patience=search.patience)]
    return hits if not search.each else hits[-1:] if search.backwards else hits[:1]


PIECE = 1 << 16
"""Tokens decoded at once."""
AFTER = 1 << 12
"""Tokens decoded after a piece of a longer sequence."""
BEFORE = 1 << 6
"""Tokens decoded before a piece of a longer sequence."""

_SEQUENCES = 1 << 14
_KNOWN = 1 << 20  # IDs whose bytes are kept; random data may hold any number of different IDs

Span = tuple[int, int]


class Spelling(dict[int, bytes]):
    """The bytes of each ID, decoded on first use; `⟨id⟩` for an ID without a token."""

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
    """A search for a text query in bytes; `patience` as in `Search`."""

    query: TextQuery
    patience: float | None = None

    def spans(self, data: bytes, start: int = 0, stop: int | None = None) -> Iterator[Span]:
        """Yield the byte spans of the matches that begin at `start <= p < stop`, left to right; None is the end."""
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
    """Return the number of bytes of the characters `start <= k < stop`."""
    part = text[start:stop]
    return stop - start if part.isascii() else len(part.encode("utf-8", "surrogateescape"))


def _characters(data: bytes, start: int) -> int:
    """Return the number of characters that begin before a byte."""
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
    """A search for text in one part of a dataset."""

    part: SearchPart
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
        """Yield runs of consecutive sequences of together at most PIECE tokens, or one longer sequence."""
        for a, b in stretches(self.part.first, self.part.last, _SEQUENCES, backwards=self.search.backwards):
            bounds, cuts = self.part.reader.offsets(a, b), [0]
            while cuts[-1] < b - a:
                fit = int(np.searchsorted(bounds, bounds[cuts[-1]] + PIECE, side="right")) - 1
                cuts.append(max(cuts[-1] + 1, fit))
            groups = list(zip(cuts, cuts[1:], strict=False))
            for u, v in reversed(groups) if self.search.backwards else groups:
                yield a + u, a + v

    def _whole(self, first: int, bounds: Offsets, tokens: Tokens) -> Iterator[Hit]:
        """Yield the hits in sequences that are decoded completely."""
        numbers = np.arange(len(bounds) - 1)
        if self.sieve is not None:
            at = self.sieve.places(tokens) + bounds[0]
            numbers = np.unique(np.searchsorted(bounds, at, side="right") - 1)
        for i in numbers[::-1].tolist() if self.search.backwards else numbers.tolist():
            a, b = int(bounds[i]), int(bounds[i + 1])
            words = self._words(tokens[a - bounds[0] : b - bounds[0]])
            yield from self._hits_of(first + i, a, words, self.matcher.spans(b"".join(words)))

    def _words(self, tokens: Tokens) -> list[bytes]:
        return list(map(self.spelling.__getitem__, tokens.tolist()))

    def _long(self, sequence: int, start: int, stop: int) -> Iterator[Hit]:
        """Yield the hits in one long sequence, piece by piece."""
        carried = 0  # bytes at the beginning of this piece that belong to a match of the piece before
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
            is_hit = False
            for hit in self._hits_of(sequence, left, words, iter(spans)):
                is_hit = True
                yield hit
            self.search.progress(b - a)
            if is_hit and self.search.each:
                return

    def _hits_of(self, sequence: int, start: int, words: list[bytes], spans: Iterator[Span]) -> Iterator[Hit]:
        """Turn spans of bytes into hits: the tokens that hold the bytes."""
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


def find_text(part: SearchPart, query: TextQuery, decoder: Any, search: Search) -> Iterator[Hit]:
    """Yield the matches of a regular expression in the text of each sequence; a hit is the tokens of the match."""
    spelling = Spelling(decoder)
    sieve = None if query.literal is None else Sieve(query.literal.encode("utf-8", "surrogatepass"), spelling)
    return _Walk(part, Matcher(query, search.patience), spelling, search, sieve).hits()


_MOST = 1 << 20  # IDs with a role; larger IDs are always decoded

_HOLDS, _ENDS, _FOLLOWS, _UNKNOWN = 1, 2, 4, 8


class Sieve:
    """A filter that finds where a string of bytes can begin in IDs, with two look-ups per token instead of decoding.

    A match begins in a token that holds the complete string, or that ends with its first bytes while the next token
    continues it. Only these few positions are decoded.
    """

    def __init__(self, needle: bytes, spelling: Mapping[int, bytes]) -> None:
        self.needle, self.spelling = needle, spelling
        self._roles = np.empty(0, np.uint8)

    def places(self, tokens: Tokens) -> NDArray[np.int64]:
        """Return the indexes in `tokens` at which a match may begin, ascending; int64."""
        if not len(tokens):
            return np.empty(0, np.int64)
        index = tokens if tokens.dtype.itemsize < 8 else np.minimum(tokens, _MOST).astype(np.int64)
        roles = self._looked_up(index, min(int(tokens.max()), _MOST))
        begins = roles & _HOLDS
        begins[:-1] |= (roles[:-1] >> 1) & (roles[1:] >> 2) & 1
        return np.flatnonzero(begins)

    def _looked_up(self, index: NDArray[np.integer], top: int) -> NDArray[np.uint8]:
        """Return the role of each token, and compute the roles of new IDs."""
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
