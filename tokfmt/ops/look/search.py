"""Find sequences: by the ids in them, by their text, by their length. `show` and the browser search with this.

Everything streams over windows of at most 1 Mi tokens, in either direction, and may be stopped between two of them; no
sequence is too long. A hit lies within one sequence. Lengths are answered from the offsets, without a token read.

Ids are compared as they are stored, never widened. Where separators were taken away by a view, that mask would cost
more than the comparison: the axis beneath, which has one after each sequence, is searched instead, and only what is
found is mapped back.

Records of text that nobody tokenised are searched by a regular expression, or by their length in characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import axis
from tokfmt.core.axis import TokenReader, check_interval, sequence_at
from tokfmt.core.errors import OptionError
from tokfmt.core.protocols import Restorable
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.ops.look.query import (
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
from tokfmt.ops.look.search_text import find_text
from tokfmt.text.decoding import ByteLevelDecoder, VocabularyDecoder
from tokfmt.views.concat import Concat
from tokfmt.views.select import Slice

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
        reader: Where to look.
        query: See `ops.look.query`.
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
        search: How.

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
        raise OptionError("text: searches the text of a sequence, and there are ids only: it needs --tokenizer")
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
        for u, v in axis.windows(low, high + 1):  # empty sequences may be many more than tokens
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
    return (max(start, stop - axis.WINDOW), stop) if backwards else (start, min(start + axis.WINDOW, stop))


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
        raise OptionError("token: searches ids, and this is text: give --tokenizer, or search text:'...'")
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
