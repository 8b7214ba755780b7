"""Hits of a search as the browser keeps them: bounded, in the order of the axis, all of them counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.ops.find import Hits

MOST = 1 << 20
"""Hits kept of a search, 24 bytes each; those beyond are counted."""

MOST_ROWS = 1 << 22
"""Rows kept of a filter, 8 bytes each."""

_BEGIN = 256
Numbers = NDArray[np.int64]


class Column:
    """Numbers int64 in `width` columns that grow, up to `most` rows."""

    def __init__(self, width: int, most: int) -> None:
        self.count, self._most = 0, most
        self._held = np.empty((width, _BEGIN), np.int64)

    def add(self, *columns: Numbers) -> None:
        """Append what there is room for."""
        taken = min(len(columns[0]), self._most - self.count)
        if self.count + taken > self._held.shape[1]:
            room = min(self._most, max(2 * self._held.shape[1], self.count + taken))
            grown = np.empty((len(self._held), room), np.int64)
            grown[:, : self.count] = self._held[:, : self.count]
            self._held = grown
        for held, column in zip(self._held, columns, strict=True):
            held[self.count : self.count + taken] = column[:taken]
        self.count += taken

    @property
    def columns(self) -> NDArray[np.int64]:
        """int64[width, rows]. What is in it never changes; later ones may be longer."""
        return self._held[:, : self.count]


class Leg:
    """Hits of consecutive rows, ascending."""

    def __init__(self, most: int, most_rows: int) -> None:
        self.kept, self.rows = Column(3, most), Column(1, most_rows)
        self.hits = self.sequences = 0
        self._last = -1

    def add(self, found: Hits) -> None:
        """Count some, and keep them while there is room. Those that do not fit are never mixed with later ones."""
        fresh = found.sequences[np.diff(found.sequences, prepend=self._last) != 0]
        self._last = int(found.sequences[-1])
        self.hits, self.sequences = self.hits + len(found), self.sequences + len(fresh)
        self.kept.add(found.sequences, found.starts, found.stops)
        self.rows.add(fresh)

    def rank(self, row: int, at: int, *, right: bool) -> int:
        """How many hits lie before a place (with `right`: or at it)."""
        rows, starts, _ = self.kept.columns
        low, high = int(np.searchsorted(rows, row)), int(np.searchsorted(rows, row, side="right"))
        return low + int(np.searchsorted(starts[low:high], at, side="right" if right else "left"))


@dataclass(frozen=True, slots=True)
class Found:
    """A hit, as kept.

    Attributes:
        row: Its row. start, stop: As in `ops.find.Hit`.
        number: Of the hit among those kept, from 0; wrapped: The search for it went around an end.
    """

    row: int
    start: int
    stop: int
    number: int
    wrapped: bool


class Kept:
    """The hits of a search that began in the middle, went to the end and then from the beginning. Threads share it.

    Args:
        most: Hits kept. most_rows: Rows kept.
    """

    def __init__(self, most: int = MOST, most_rows: int = MOST_ROWS) -> None:
        self._lock = threading.Lock()
        self._legs = [Leg(most, most_rows)]  # in the order of searching
        self._most, self._most_rows = most, most_rows

    def add(self, found: Hits) -> None:
        """Keep more of the leg that is searched."""
        if len(found):
            with self._lock:
                self._legs[-1].add(found)

    def go_round(self) -> None:
        """The rest is searched from the beginning."""
        with self._lock:
            first = self._legs[0]
            self._legs.append(Leg(self._most - first.kept.count, self._most_rows - first.rows.count))

    @property
    def round(self) -> bool:
        """The end was reached: what is found now lies before the beginning of the search."""
        return len(self._legs) > 1

    @property
    def hits(self) -> int:
        """Counted."""
        return sum(leg.hits for leg in self._legs)

    @property
    def sequences(self) -> int:
        """Rows with a hit, counted."""
        return sum(leg.sequences for leg in self._legs)

    @property
    def held(self) -> int:
        """Hits kept."""
        return sum(leg.kept.count for leg in self._legs)

    @property
    def rows_held(self) -> int:
        """Rows kept."""
        return sum(leg.rows.count for leg in self._legs)

    @property
    def capped(self) -> bool:
        """There were more hits than are kept."""
        return self.held < self.hits

    def rows(self) -> Numbers:
        """The rows kept, ascending."""
        with self._lock:
            parts = [leg.rows.columns[0] for leg in reversed(self._legs)]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def has(self, row: int) -> bool:
        """Whether a row has a hit."""
        with self._lock:
            return any(_holds(leg.rows.columns[0], row) for leg in self._legs)

    def following(self, row: int, at: int, step: int, *, here: bool = False) -> Found | None:
        """The next hit (the one before, with step -1) of a place, going around the ends; None when there is none.

        Args:
            row, at: The place; `at` counts as the starts of hits do.
            step: 1 or -1.
            here: One that begins at the place will do.
        """
        with self._lock:
            right = (step > 0) != here
            rank = sum(leg.rank(row, at, right=right) for leg in self._legs)
            total = sum(leg.kept.count for leg in self._legs)
            number = rank if step > 0 else rank - 1
            return self._at(number % total, wrapped=not 0 <= number < total) if total else None

    def within(self, row: int, start: int, stop: int, most: int = 4096) -> list[range]:
        """The hits of a row that touch an interval, as kept: at most so many."""
        found: list[range] = []
        with self._lock:
            for leg in self._legs:
                rows, starts, stops = leg.kept.columns
                low, high = int(np.searchsorted(rows, row)), int(np.searchsorted(rows, row, side="right"))
                # stops ascend as starts do
                a = low + int(np.searchsorted(stops[low:high], start, side="right"))
                b = min(low + int(np.searchsorted(starts[low:high], stop)), a + most)
                found += map(range, starts[a:b].tolist(), stops[a:b].tolist())
        return found

    def _at(self, number: int, *, wrapped: bool) -> Found:
        left = number
        for leg in reversed(self._legs):
            if left < leg.kept.count:
                break
            left -= leg.kept.count
        row, start, stop = leg.kept.columns[:, left].tolist()
        return Found(row, start, stop, number, wrapped)


def _holds(rows: Numbers, row: int) -> bool:
    at = int(np.searchsorted(rows, row))
    return at < len(rows) and int(rows[at]) == row
