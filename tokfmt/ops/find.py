"""Find sequences: by the ids in them, by their text, by their length. `show` and the browser search with this.

Everything streams over windows of at most 1 Mi tokens, in either direction, and may be stopped between two of them; no
sequence is too long. A hit lies within one sequence. Lengths are answered from the offsets, without a token read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader, check_interval, windows
from tokfmt.core.errors import OptionError
from tokfmt.ops.query import LengthQuery, Query, TokenQuery
from tokfmt.views.concat import Concat
from tokfmt.views.select import Slice

MANY = 1 << 16
"""Sequences whose offsets are looked at at once."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that was found.

    Attributes:
        sequence: Its number.
        start, stop: Token positions on the axis (not within the sequence). For a query of lengths, all of the sequence.
            For records of text: characters within the record.
    """

    sequence: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Hits side by side, in the order in which they were found: the columns of `Hit`, int64[hits]."""

    sequences: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @staticmethod
    def of(hits: Iterable[Hit]) -> Hits:
        """From single ones."""
        rows = np.array([(hit.sequence, hit.start, hit.stop) for hit in hits], np.int64).reshape(-1, 3)
        return Hits(rows[:, 0], rows[:, 1], rows[:, 2])

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.sequences.tolist(), self.starts.tolist(), self.stops.tolist())


def never() -> bool:
    """Nobody stops the search."""
    return False


def unwatched(amount: int) -> None:
    """Nobody watches the search."""


@dataclass(frozen=True, slots=True)
class Search:
    """How to search.

    Attributes:
        each: Only the first hit of each sequence (the last one when going backwards).
        backwards: From the end to the beginning; hits come in that order.
        stopped: Asked between windows; the search ends when it says yes.
        progress: Told how many more tokens (sequences, for lengths; bytes, for records) were looked at.
    """

    each: bool = False
    backwards: bool = False
    stopped: Callable[[], bool] = never
    progress: Callable[[int], None] = unwatched


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sequences of a reader beneath a view, and what to add to come back to the view.

    Attributes:
        reader: The reader beneath.
        first, last: Sequence numbers in it.
        sequence, token: What numbers and positions above are larger by.
    """

    reader: TokenReader
    first: int
    last: int
    sequence: int = 0
    token: int = 0


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
        query: See `ops.query`.
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
        from tokfmt.ops.find_ids import find_ids

        return find_ids(part, query.ids, search)
    from tokfmt.ops.find_text import find_text
    from tokfmt.text.decoding import ByteLevelDecoder, VocabularyDecoder

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


def stretches(first: int, last: int, size: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive pieces of at most `size`, from either end."""
    if not backwards:
        yield from windows(first, last, size)
        return
    for b in range(last, first, -size):
        yield max(first, b - size), b


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
