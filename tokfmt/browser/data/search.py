"""Search in the browser: its scope, the meaning of its words, a running search, and its bounded results."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.layout import bytes_of
from tokfmt.browser.data.rows import Damage, Piece, Span, Viewport, fetched, fetched_span
from tokfmt.browser.data.session import SearchScope, Where
from tokfmt.browser.data.workers import Job, said
from tokfmt.commands.search.query import (
    LARGEST,
    AnyQuery,
    DensityQuery,
    EndQuery,
    Hits,
    LengthQuery,
    NotQuery,
    NumberQuery,
    PlainQuery,
    Query,
    SameQuery,
    Search,
    TextQuery,
    TokenQuery,
    UnusedQuery,
    affirmed,
    needs_tokenizer,
    parse_query,
)
from tokfmt.commands.search.search import Content, check_number, find_equal, find_many, find_others, find_records
from tokfmt.core.format import Encoder
from tokfmt.core.memory import MemoryReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import CorruptError, OptionError, UnendedError
from tokfmt.text.ingest import encoded_batches
from tokfmt.wording import counted

_BLOCK = 1 << 22  # bytes
_IDS = re.compile(r"\s*\d[\d_]*(?:[\s,]+\d[\d_]*)*\s*")
_WORDED = re.compile(
    r"\s*(?:not\s+)*(?:(?:token|text|regex)\s*:|(?:any|first|last|same|seq)\s*:\s*\d"
    r"|(?:len|length|id|padding|masked|b/t)\s*[<>=]|[\d\s_.,kKmMgGtTi]*[<>=]+\s*(?:len|length|id|b/t)\b)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\s*\w+\s*[:<>=]")  # a query, whose name may be misspelled

_NAMED_AT_MOST = 5


def by_characters(scope: SearchScope, query: Query) -> bool:
    """Return whether hits are intervals of characters of a record, even if its units are tokens."""
    return scope.of_text and (scope.port.encoder is None or isinstance(affirmed(query), TextQuery))


def amount(scope: SearchScope, query: Query) -> tuple[int, str]:
    """Return the amount to search, and its unit."""
    if isinstance(scope.reader, RecordReader):
        return scope.reader.info.size, "bytes"
    info = scope.reader.info
    return (info.sequences, "rows") if query.whole else (info.tokens, "tokens")


def hits_of(scope: SearchScope, query: Query, first: int, last: int, search: Search) -> Iterator[Hits]:
    """Find the hits in rows `first <= i < last`; in records, they count from the beginning of each record."""
    if not isinstance(scope.reader, RecordReader):
        return find_many(scope.reader, query, search, decoder=scope.decoder, first=first, last=last)
    if by_characters(scope, query):
        return (Hits.of((hit,)) for hit in find_records(scope.reader, query, search, first=first, last=last))
    return _in_ids(scope, scope.reader, query, range(first, last), search)


def _in_ids(scope: SearchScope, reader: RecordReader, query: Query, rows: range, search: Search) -> Iterator[Hits]:
    number, within = rows.start, Search(search.each, patience=search.patience)
    plain: PlainQuery = affirmed(query)
    equal = _contents(scope, reader, plain) if isinstance(plain, SameQuery) else ()
    for block in reader.blocks(_BLOCK, rows.start, rows.stop):
        for found in _batches(scope.port.encoder, reader, block):
            if search.stopped():
                return
            count = found.info.sequences
            if isinstance(plain, SameQuery):
                batches = find_equal(found, equal, within, 0, count)
            elif isinstance(plain, NumberQuery):
                batches = find_many(found, plain.moved(-number), within)
            else:
                batches = find_many(found, plain, within, decoder=scope.decoder)
            if isinstance(query, NotQuery):
                batches = find_others(found, batches, within, 0, count)
            for hits in batches:
                bounds = found.ragged.offsets[hits.sequences]
                yield Hits(hits.sequences + number, hits.starts - bounds, hits.stops - bounds)
            number += count
        search.progress(block.stop - block.start)


def _contents(scope: SearchScope, reader: RecordReader, query: SameQuery) -> list[Content]:
    """Return the tokens of the records that a query names."""
    from tokfmt.source.ingest import encoded

    found = []
    for number in query.numbers:
        check_number(number, scope.port.count)
        one = MemoryReader(encoded(reader, scope.port.encoder, number, number + 1))
        found.append(Content(one, 0, one.info.tokens))
    return found


def _batches(encoder: Encoder | None, reader: RecordReader, block: Block) -> Iterator[MemoryReader]:
    return map(MemoryReader, encoded_batches(reader, encoder, block))


EXAMPLES = [
    ("words", "These characters of the text"),
    ("regex:w.*s", "A regular expression in the text"),
    ("token:464,3290", "These IDs in a row"),
    ("any:464,3290", "One of these IDs"),
    ("id>=50257", "An ID of a range"),
    ("first:464", "An ID at the begin"),
    ("last:0", "An ID at the end"),
    ("len>4096", "Lengths; also 10<=len<20"),
    ("padding>0", "Padding of a sample"),
    ("masked>0", "Positions of a sample without loss"),
    ("b/t<1.5", "Bytes of text per token"),
    ("same:17", "The rows that equal a row"),
    ("seq:3,20:30", "Rows by number"),
    ("not len>4096", "What a search does not find"),
]
"""Each search of `/` and `f` by an example, with its meaning."""


def hint(scope: SearchScope) -> str:
    """Return all searches of some rows, each by an example."""
    holds = dict.fromkeys(("words", "regex:w.*s"), scope.of_text or scope.decoder is not None)
    of_tokens = ("token:464,3290", "any:464,3290", "id>=50257", "first:464", "last:0")
    holds |= dict.fromkeys(of_tokens, scope.port.unit == "token")
    holds |= dict.fromkeys(("padding>0", "masked>0"), scope.singular == "sample")
    holds |= {"b/t<1.5": scope.port.unit == "token" and scope.decoder is not None}
    return " · ".join(example for example, _ in EXAMPLES if holds.get(example, True))


def parse_search(words: str, scope: SearchScope) -> Query:
    """Return the query that words mean: as for `tokfmt show`, or plain text, or IDs if the rows have no text."""
    typed, texts = words.strip(), scope.of_text or scope.decoder is not None
    ids = scope.port.unit == "token"
    if not typed:
        raise OptionError(hint(scope))
    if ids and not texts and _IDS.fullmatch(typed):
        query = parse_query(f"token:{typed}")
    elif _WORDED.match(typed) or (not texts and _NAMED.match(typed)):
        query = parse_query(typed)
    elif not texts:
        raise OptionError(f"text needs --tokenizer. Search for {hint(scope)}")
    else:
        query = parse_query(f"text:{typed}")
    plain = affirmed(query)
    if isinstance(plain, (TokenQuery, AnyQuery, EndQuery, DensityQuery)) and not ids:
        raise OptionError("token IDs of text need --tokenizer")
    if needs_tokenizer(plain) and not texts:
        raise OptionError(f"text needs --tokenizer. Search for {hint(scope)}")
    return query


def meaning(words: str, scope: SearchScope) -> str:
    """Return the target of a search in words."""
    query = parse_search(words, scope)
    if isinstance(query, NotQuery):
        return f"not {_meaning(query.negated, scope, '')}"
    return _meaning(query, scope, words.strip())


def _meaning(query: PlainQuery, scope: SearchScope, plain: str) -> str:
    unit = scope.port.unit
    if isinstance(query, TokenQuery):
        return f"the token {query.ids[0]}" if len(query.ids) == 1 else f"these {len(query.ids)} tokens in a row"
    if isinstance(query, TextQuery):
        if _IDS.fullmatch(plain) and unit == "token":
            ids = ",".join(re.split(r"[,\s]+", plain))
            return f"this text; token:{ids} searches for {'the ID' if ids.isdecimal() else 'these IDs'}"
        return "this text" if query.literal is not None else "this regular expression"
    if isinstance(query, AnyQuery):
        return _ids_meant(query)
    if isinstance(query, EndQuery):
        ids = "the ID" if len(query.ids) == 1 else "one of the IDs"
        return f"{scope.singular}s that {'end' if query.is_last else 'begin'} with {ids} {_some(query.ids)}"
    if isinstance(query, SameQuery):
        return f"{scope.singular}s equal to {scope.singular} {_some(query.numbers)}"
    if isinstance(query, NumberQuery):
        return counted(sum(b - a for a, b in query.between(0, scope.port.count)), scope.singular)
    if isinstance(query, DensityQuery):
        limits = "or more" if query.high is None else f"to {query.high:.4g}"
        return f"{query.low:.4g} {limits} bytes of text per token"
    what = f"{unit}s" if not isinstance(query, UnusedQuery) else f"{'masked' if query.masked else 'padding'} {unit}s"
    if query.high is None:
        return f"{query.low:,} {what} or more"
    return (
        counted(query.low, what.removesuffix("s"))
        if query.low == query.high
        else f"{query.low:,} to {query.high:,} {what}"
    )


def _some(numbers: Sequence[int]) -> str:
    more = " …" if len(numbers) > _NAMED_AT_MOST else ""
    return ", ".join(f"{number:,}" for number in numbers[:_NAMED_AT_MOST]) + more


def _ids_meant(query: AnyQuery) -> str:
    low, high = query.spans[0]
    if len(query.spans) > 1:
        return f"any of {sum(b - a + 1 for a, b in query.spans):,} IDs"
    if high >= LARGEST:
        return f"the ID {low:,} and above"
    return f"the ID {low:,}" if low == high else f"an ID from {low:,} to {high:,}"


MOST = 1 << 20
"""Limit of hits kept of a search, 24 bytes each; more hits are counted."""

MOST_ROWS = 1 << 22
"""Limit of rows kept of a filter, 8 bytes each."""

_BEGIN = 256
Numbers = NDArray[np.int64]


class Column:
    """A table of int64 with `width` columns, which grows up to `limit` rows."""

    def __init__(self, width: int, limit: int) -> None:
        self.count, self._limit = 0, limit
        self._held = np.empty((width, _BEGIN), np.int64)

    def add(self, *columns: Numbers) -> None:
        """Append the rows that fit."""
        added = min(len(columns[0]), self._limit - self.count)
        if self.count + added > self._held.shape[1]:
            room = min(self._limit, max(2 * self._held.shape[1], self.count + added))
            grown = np.empty((len(self._held), room), np.int64)
            grown[:, : self.count] = self._held[:, : self.count]
            self._held = grown
        for held, column in zip(self._held, columns, strict=True):
            held[self.count : self.count + added] = column[:added]
        self.count += added

    @property
    def columns(self) -> NDArray[np.int64]:
        """Return int64[width, rows]. Its content never changes; a later result may have more rows."""
        return self._held[:, : self.count]


@dataclass(frozen=True, slots=True)
class Found:
    """A hit."""

    row: int  # number of the row
    start: int  # start of the hit, as in `commands.search.query.Hit`
    stop: int  # stop of the hit, as in `commands.search.query.Hit`
    number: int  # number among the kept hits, from 0
    wrapped: bool  # the move to it went around an end


_AROUND = 1 << 62  # in the kept numbers of rows before the first one of a search, so that they ascend as it finds them


class SearchResults:
    """The hits of a search from a row to the end, and then from the beginning. Threads can share it."""

    def __init__(self, begin: int = 0, most: int = MOST, most_rows: int = MOST_ROWS) -> None:
        self._lock, self._begin, self._last = threading.Lock(), begin, -1
        self._kept, self._rows = Column(3, most), Column(1, most_rows)
        self.hits = self.sequences = 0  # the number of hits, and that of rows with one, kept or not
        self.round = False  # the search passed the end

    def add(self, found: Hits) -> None:
        """Count hits, and keep them while they fit. After the first hit that does not fit, none is kept."""
        if not len(found):
            return
        with self._lock:
            rows = np.where(found.sequences < self._begin, found.sequences | _AROUND, found.sequences)
            fresh = rows[np.diff(rows, prepend=self._last) != 0]
            self._last = int(rows[-1])
            self.hits, self.sequences = self.hits + len(found), self.sequences + len(fresh)
            self._kept.add(rows, found.starts, found.stops)
            self._rows.add(fresh)

    @property
    def held(self) -> int:
        """Return the number of kept hits."""
        return self._kept.count

    @property
    def rows_held(self) -> int:
        """Return the number of kept rows."""
        return self._rows.count

    @property
    def capped(self) -> bool:
        """Return whether some hits are not kept."""
        return self.held < self.hits

    def rows(self) -> Numbers:
        """Return the kept rows, ascending."""
        with self._lock:
            (rows,) = self._rows.columns
        first = int(np.searchsorted(rows, _AROUND))
        return rows if first == len(rows) else np.concatenate([rows[first:] ^ _AROUND, rows[:first]])

    def has(self, row: int) -> bool:
        """Return whether a row has a kept hit."""
        with self._lock:
            low, high = self._interval(self._rows.columns[0], row)
        return low < high

    def _interval(self, rows: Numbers, row: int) -> tuple[int, int]:
        kept = row | _AROUND if row < self._begin else row
        return int(np.searchsorted(rows, kept)), int(np.searchsorted(rows, kept, side="right"))

    def following(self, row: int, at: int, step: int, *, here: bool = False) -> Found | None:
        """Return the hit after (step 1) or before (-1) a position, or `here` at it, around the ends; else None."""
        with self._lock:
            rows, starts, stops = self._kept.columns
        if not len(rows):
            return None
        total, (low, high) = len(rows), self._interval(rows, row)
        first = total - int(np.searchsorted(rows, _AROUND))  # the number of the hit that was found first
        rank = low + int(np.searchsorted(starts[low:high], at, side="right" if (step > 0) != here else "left"))
        number = (rank if step > 0 else rank - 1) + first - (total if row < self._begin else 0)
        k = (number - first) % total
        found, wrapped = int(rows[k]) & ~_AROUND, not 0 <= number < total
        return Found(found, int(starts[k]), int(stops[k]), number % total, wrapped)

    def within(self, row: int, start: int, stop: int, limit: int = 4096) -> list[range]:
        """Return the kept hits of a row that touch an interval, at most `limit`."""
        with self._lock:
            rows, starts, stops = self._kept.columns
        low, high = self._interval(rows, row)
        a = low + int(np.searchsorted(stops[low:high], start, side="right"))  # stops ascend like starts
        b = min(low + int(np.searchsorted(starts[low:high], stop)), a + limit)
        return list(map(range, starts[a:b].tolist(), stops[a:b].tolist()))

    def of(self, row: int) -> range | None:
        """Return the first kept hit of a row; None without one."""
        return next(iter(self.within(row, -1, 1 << 62, 1)), None)


PATIENCE = 10.0
"""Seconds for a regular expression in one text. A cancelled search may run this long in its thread."""


class SearchJob:
    """A search for the query that words mean in a thread, which begins with a row, and goes around the end.

    The thread calls `progressed` at the first hit, on progress, and at the end; `busy` is True until the last call has
    returned. `failure` is the error that ended the search early, or that of the rows that it left out.
    """

    def __init__(
        self, words: str, query: Query, scope: SearchScope, begin: int, progressed: Callable[[SearchJob], object]
    ) -> None:
        self.words, self.query, self.scope, self.begin = words, query, scope, begin
        self.results, self.failure, self._left_out = SearchResults(begin), "", 0
        self.cancelled, self.running, self.busy = False, True, True
        self._progressed = progressed
        self._listed: tuple[SearchJob | None, int] = None, 0
        self.job = Job(self._look, self._end, lambda: progressed(self))

    # in the thread of the search

    def _look(self, job: Job) -> None:
        self.job = job  # the search may end before the constructor assigns it
        job.phase("searching", *amount(self.scope, self.query))
        search = Search(stopped=lambda: self.cancelled, progress=job.advance, patience=PATIENCE)
        port = self.scope.port
        if isinstance(affirmed(self.query), (LengthQuery, SameQuery)) and isinstance(port, Viewport):
            port.look_at_ends()  # These compare lengths, and read few tokens.
        try:
            self._search(self.begin, port.count, search)
            if self.begin:
                self.results.round = True
                self._search(0, self.begin, search)
        except UnendedError:
            if not isinstance(port, Viewport) or not port.look_at_ends():
                raise
            self.results = SearchResults(self.begin)
            self._look(job)

    def _search(self, first: int, last: int, search: Search) -> None:
        """Search rows. Damaged records are left out and counted; a record that is looked for may not be damaged."""
        try:
            for hits in hits_of(self.scope, self.query, first, last, search):
                before = self.results.hits
                self.results.add(hits)
                if not before:
                    self._progressed(self)
                if self.cancelled:
                    return
                first = int(hits.sequences[-1]) + 1 if len(hits) else first
        except CorruptError as error:
            if isinstance(affirmed(self.query), SameQuery) or not isinstance(self.scope.reader, RecordReader):
                raise
            if last - first > 1:
                middle = (first + last) // 2
                self._search(first, middle, search)
                self._search(middle, last, search)
            else:
                self._left_out += 1
                self.failure = f"{counted(self._left_out, 'record')} cannot be read: {' '.join(str(error).split())}"

    def _end(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self.failure = " ".join(said(outcome).split())
        self.running = False
        self._progressed(self)
        self.busy = False

    # in the thread of the screen

    @property
    def marks(self) -> bool:
        """Return whether hits are intervals of a row, not whole rows."""
        return not self.query.whole

    def listed_by(self, other: SearchJob) -> int | None:
        """Return the number of rows with a kept hit that another search lists; None while one of both is running."""
        if self.running or other.running:
            return None
        if self._listed[0] is not other:
            rows, listed = self.results.rows(), other.results.rows()
            at = np.searchsorted(listed, rows)
            self._listed = other, int(np.count_nonzero(listed[at[at < len(listed)]] == rows[at < len(listed)]))
        return self._listed[1]

    def cancel(self) -> None:
        """Stop the search, and keep its hits."""
        if self.running:
            self.cancelled, self.running, self.busy = True, False, False
            self.job.cancel()

    # in both: these methods read, and are for a worker

    def _start(self, row: int) -> int:
        """Return the first position of a row on the token axis; 0 without one."""
        span = fetched_span(self.scope.port, row)
        return span.start or 0 if isinstance(span, Span) else 0

    def at(self, where: Where, *, end: bool = False) -> int:
        """Return a position in the unit of the starts of hits; with `end`, the last one that the unit covers."""
        row, unit = where
        if self._translated:
            start, stop = self._characters(row, unit, unit + 1)
            return max(start, stop - 1) if end else start
        return unit + self._start(row)

    def first(self, where: Where) -> Found | None:
        """Return the first hit at or after a position."""
        return self.results.following(where[0], self.at(where), 1, here=True)

    def following(self, place: Where, step: int, listed: SearchJob | None) -> Found | None:
        """Return the next hit of a position, or the previous one with step -1, only in rows of `listed` if given."""
        for _ in range(self.results.held):
            found = self.results.following(*place, step)
            if found is None or listed is None or listed.results.has(found.row):
                return found
            place = (found.row, found.start)
        return None

    def where(self, found: Found) -> Where:
        """Return the row and the unit of a hit."""
        if self._translated:
            return found.row, self._units(found.row, [range(found.start, found.stop)])[0].start
        return found.row, max(0, found.start - self._start(found.row))

    def first_in(self, row: int) -> range | None:
        """Return the first kept hit of a row, as an interval of units; None without one."""
        found = self.results.of(row)
        if found is None or not self.marks:
            return None
        if self._translated:
            return self._units(row, [found])[0]
        start = self._start(row)
        return range(found.start - start, found.stop - start)

    def visible(self, row: int, first: int, last: int) -> list[range]:
        """Return the hits of a row in its units `first <= i < last`, as intervals of units."""
        if not self.marks:
            return []
        if self._translated:
            return self._units(row, self.results.within(row, *self._characters(row, first, last)))
        start = self._start(row)
        found = self.results.within(row, start + first, start + last)
        return [range(hit.start - start, hit.stop - start) for hit in found]

    # hits are intervals of characters, while the screen shows tokens

    @property
    def _translated(self) -> bool:
        return by_characters(self.scope, self.query) and self.scope.port.encoder is not None

    def _ends(self, row: int) -> tuple[bytes, list[int]]:
        """Return the bytes of a row, and the end of each token in them."""
        span = fetched_span(self.scope.port, row)
        piece = span if isinstance(span, Damage) else fetched(self.scope.port, row, 0, span.length)
        if not isinstance(piece, Piece) or self.scope.decoder is None:
            return b"", []
        spelled = bytes_of(self.scope.decoder, piece.units)
        return b"".join(spelled), list(accumulate(map(len, spelled)))

    def _units(self, row: int, spans: list[range]) -> list[range]:
        data, ends = self._ends(row)
        text = data.decode("utf-8", "surrogateescape")
        out = []
        for span in spans:
            low = len(text[: span.start].encode("utf-8", "surrogateescape"))
            high = low + len(text[span.start : span.stop].encode("utf-8", "surrogateescape"))
            a = bisect_right(ends, low)
            out.append(range(a, a if low == high else bisect_right(ends, high - 1) + 1))
        return out

    def _characters(self, row: int, first: int, last: int) -> tuple[int, int]:
        data, ends = self._ends(row)
        text = [0, *ends]
        a, b = (len(data[: text[min(i, len(ends))]].decode("utf-8", "replace")) for i in (first, last))
        return a, b
