"""The words around the first hit of a search, which the list shows in place of the beginning of a row."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tokfmt.base.resources import Recent
from tokfmt.browser.data.layout import HEAD, Kind, TokenStyle, Words, glyphs, words_in
from tokfmt.browser.data.rows import Damage, Piece, fetched, fetched_span
from tokfmt.browser.data.search import SearchJob

_AFTER = 2 * HEAD  # units that are read from the start of a hit on
_KEPT = 1024
_MOMENT = 0.05  # seconds after which the screen gets the excerpts that are made


class Excerpt(NamedTuple):
    """Units of a row around its first hit."""

    first: int  # position of the first unit in the row
    piece: Piece  # the units
    hit: range  # the first hit of the row, as an interval of positions
    hits: frozenset[int]  # the positions that belong to a hit

    def words(self, token_style: TokenStyle, width: int) -> list[Words]:
        """Return the words around the hit in at most `width` cells. An ellipsis replaces the words before them."""
        found = glyphs(self.piece.units, self.first, token_style)
        if not found.texts or width < 1:
            return []
        at = min(bisect_left(found.tokens, self.hit.start), len(found.texts) - 1)
        if at and found.tokens[at] > max(self.hit.start, self.hit.stop - 1):
            at -= 1  # a character that begins in an earlier token
        marked = {at, *(i for i, token in enumerate(found.tokens) if token in self.hits)}
        room = max(width // 3, width - sum(found.cells[at:]))  # for the words before the hit
        end = bisect_left(found.tokens, self.hit.stop)
        whole = sum(found.cells[:at]) <= room or sum(found.cells[:end]) <= width
        if not self.first and whole:
            return words_in(found, 0, width, marked)
        start, used = at, 1  # the cell of the ellipsis
        while start and used + found.cells[start - 1] <= room:
            start, used = start - 1, used + found.cells[start - 1]
        while not start and start < at and found.kinds[start] is Kind.BYTES:
            start += 1  # the end of a character that begins before the units
        # a whole word is first, if one begins before the hit
        start = next((i for i in range(start, at + 1) if i and found.texts[i - 1].isspace()), start)
        return [Words("…", Kind.TEXT), *words_in(found, start, width - 1, marked)]


class Excerpts:
    """The excerpts of the rows that a search finds, each made when its row comes on the screen."""

    def __init__(self, search: SearchJob) -> None:
        self.search = search
        self._held = Recent[int, tuple[Excerpt | None, bool]](_KEPT)  # and whether all hits were known

    def peek(self, row: int) -> Excerpt | None:
        """Return the excerpt of a row; None if it has none, or none yet."""
        held = self._held.get(row)
        return None if held is None else held[0]

    def missing(self, rows: Iterable[int]) -> list[int]:
        """Return the rows with a hit whose excerpts are not made, or were made before the search found all hits."""
        if not self.search.marks:
            return []
        running, found = self.search.running, list[int]()
        for row in rows:
            held = self._held.get(row)
            if (held is None or not (held[1] or running)) and self.search.results.has(row):
                found.append(row)
        return found

    def load(self, rows: Sequence[int]) -> None:
        """Make the excerpts of rows, as many as a moment allows, and at least one. Reads."""
        until = time.monotonic() + _MOMENT
        for row in rows:
            complete = not self.search.running
            self._held.put(row, (self._made(row), complete))
            if time.monotonic() > until:
                return

    def _made(self, row: int) -> Excerpt | None:
        search, port = self.search, self.search.scope.port
        hit, span = search.first_in(row), fetched_span(port, row)
        if hit is None or isinstance(span, Damage):
            return None
        first, last = max(0, hit.start - HEAD), min(hit.start + _AFTER, span.length)
        piece = fetched(port, row, first, last)
        if isinstance(piece, Damage):
            return None
        parts = (range(max(one.start, first), min(one.stop, last)) for one in (hit, *search.visible(row, first, last)))
        return Excerpt(first, piece, hit, frozenset(unit for part in parts for unit in part))
