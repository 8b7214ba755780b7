"""One search under way: a thread that looks from the cursor to the end, then from the beginning; what it has found."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.find import Search
from tokfmt.ops.query import LengthQuery, Query
from tokfmt.tui.ground import Ground
from tokfmt.tui.hits import Found, Kept
from tokfmt.tui.jobs import Job
from tokfmt.tui.session import Where
from tokfmt.tui.viewport import Damage, Piece, Span, fetched, fetched_span
from tokfmt.tui.wanted import amount, by_characters, hits_of


class Finding:
    """A search.

    Args:
        words: As typed. query: What they mean.
        ground: Where to look.
        begin: The row to begin with.
        told: Called on the thread of the search: when there is the first hit, as it goes on, and at its end.

    Attributes:
        kept: The hits. failure: Why it ended early; "" when it did not.
        running: It looks; cancelled: It was stopped; busy: It has something left to tell.
        took: Seconds, when it has ended.
    """

    def __init__(self, words: str, query: Query, ground: Ground, begin: int, told: Callable[[Finding], object]) -> None:
        self.words, self.query, self.ground, self.begin = words, query, ground, begin
        self.kept, self.failure = Kept(), ""
        self.cancelled, self.took, self.running, self.busy = False, 0.0, True, True
        self._told = told
        self.job = Job(self._look, self._end, lambda: told(self))

    # the thread

    def _look(self, job: Job) -> None:
        self.job = job  # the search may end before whoever began it goes on
        job.phase("searching", *amount(self.ground, self.query))
        search = Search(stopped=lambda: self.cancelled, progress=job.advance)
        count = self.ground.port.count
        self._search(self.begin, count, search)
        if self.begin:
            self.kept.go_round()
            self._search(0, self.begin, search)

    def _search(self, first: int, last: int, search: Search) -> None:
        for hits in hits_of(self.ground, self.query, first, last, search):
            before = self.kept.hits
            self.kept.add(hits)
            if not before:
                self._told(self)
            if self.cancelled:
                return

    def _end(self, outcome: object) -> None:
        self.took = time.monotonic() - self.job.began
        if isinstance(outcome, TokfmtError):
            self.failure = " ".join(str(outcome).split())
        elif isinstance(outcome, Exception):
            self.failure = f"unexpected {type(outcome).__name__}: {outcome}. This is a bug in tokfmt"
        self.running = False
        self._told(self)
        self.busy = False

    # the thread of the screen

    @property
    def rate(self) -> float:
        """Units looked at in a second."""
        return self.job.done / max(1e-3, self.took or time.monotonic() - self.job.began)

    @property
    def marks(self) -> bool:
        """Its hits are places in a row; lengths are the row."""
        return not isinstance(self.query, LengthQuery)

    def cancel(self) -> None:
        """Stop; what was found stays."""
        if self.running:
            self.took = time.monotonic() - self.job.began
            self.cancelled, self.running, self.busy = True, False, False
            self.job.cancel()

    # both: these read, and are for a worker

    def at(self, where: Where, *, end: bool = False) -> int:
        """A place as the starts of hits count it; with `end`, the last of those if its unit is several of them."""
        row, unit = where
        if self._translated:
            start, stop = self._characters(row, unit, unit + 1)
            return max(start, stop - 1) if end else start
        span = fetched_span(self.ground.port, row)
        return unit + (span.start or 0 if isinstance(span, Span) else 0)

    def first(self, where: Where) -> Found | None:
        """The first hit from a place on."""
        return self.kept.following(where[0], self.at(where), 1, here=True)

    def where(self, found: Found) -> Where:
        """The place of a hit."""
        if self._translated:
            return found.row, self._units(found.row, [range(found.start, found.stop)])[0].start
        span = fetched_span(self.ground.port, found.row)
        return found.row, max(0, found.start - (span.start or 0)) if isinstance(span, Span) else 0

    def visible(self, row: int, first: int, last: int) -> list[range]:
        """The hits of a row among its units `first <= i < last`, as intervals of units."""
        if not self.marks:
            return []
        if self._translated:
            return self._units(row, self.kept.within(row, *self._characters(row, first, last)))
        span = fetched_span(self.ground.port, row)
        start = span.start or 0 if isinstance(span, Span) else 0
        found = self.kept.within(row, start + first, start + last)
        return [range(hit.start - start, hit.stop - start) for hit in found]

    # hits are characters, and tokens are shown

    @property
    def _translated(self) -> bool:
        return by_characters(self.ground, self.query) and self.ground.encoder is not None

    def _ends(self, row: int) -> tuple[bytes, list[int]]:
        """The bytes of a row, and where each of its tokens ends in them."""
        span = fetched_span(self.ground.port, row)
        piece = span if isinstance(span, Damage) else fetched(self.ground.port, row, 0, span.length)
        if not isinstance(piece, Piece) or self.ground.decoder is None:
            return b"", []
        found = self.ground.decoder.pieces(piece.units.tolist())
        spelled = [one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass") for one in found]
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
