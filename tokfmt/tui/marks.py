"""Which tokens of two rows differ, and which token of one belongs to which of the other. Reads; for a worker.

The rows are compared as arrays up to the first difference. From there on, up to LOOKED tokens of either are matched
(see `matching`); nothing else is read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.jobs import CancelledError
from tokfmt.tui.matching import Keys, unlike
from tokfmt.tui.viewport import Damage, Piece, Port, Viewport, damage_of, fetched, fetched_span

LOOKED = 1 << 16
"""Tokens looked at behind the first difference."""

_FIRST, _MOST = 1 << 12, 1 << 20  # compared at once


@dataclass(frozen=True, slots=True)
class Hunk:
    """Tokens `a <= i < a_stop` of one row in place of `b <= j < b_stop` of the other."""

    a: int
    a_stop: int
    b: int
    b_stop: int

    def side(self, side: int) -> range:
        """The tokens of A (0) or B (1)."""
        return range(self.b, self.b_stop) if side else range(self.a, self.a_stop)


@dataclass(frozen=True, slots=True)
class Marks:
    """What differs between two rows.

    Attributes:
        hunks: In order.
        known: Tokens of A and of B up to which that was looked for; None for all.
    """

    hunks: Sequence[Hunk] = ()
    known: tuple[int, int] | None = None
    _starts: tuple[list[int], list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [hunk.a for hunk in self.hunks], [hunk.b for hunk in self.hunks]
        object.__setattr__(self, "_starts", starts)

    def between(self, side: int, first: int, last: int) -> list[range]:
        """The tokens that differ among `first <= i < last`."""
        starts = self._starts[side]
        a, b = max(0, bisect_right(starts, first) - 1), bisect_left(starts, last)
        return [hunk.side(side) for hunk in self.hunks[a:b]]

    def across(self, side: int, token: int) -> int:
        """The token on the other side that stands for one of this side."""
        found = bisect_right(self._starts[side], token) - 1
        if found < 0:
            return token
        mine, other = self.hunks[found].side(side), self.hunks[found].side(1 - side)
        if token < mine.stop or token == mine.start:  # the second where only the other side has something
            return min(other.start + token - mine.start, max(other.start, other.stop - 1))
        return other.stop + token - mine.stop

    def following(self, side: int, token: int) -> Hunk | None:
        """The first hunk behind a token."""
        found = bisect_right(self._starts[side], token)
        return self.hunks[found] if found < len(self.hunks) else None

    def preceding(self, side: int, token: int) -> Hunk | None:
        """The last hunk that begins before a token."""
        found = bisect_left(self._starts[side], token) - 1
        return self.hunks[found] if found >= 0 else None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a port."""

    port: Port
    number: int

    def length(self) -> int:
        """Its units. Raises: TokfmtError: damaged."""
        span = fetched_span(self.port, self.number)
        if isinstance(span, Damage):
            raise TokfmtError(span.why)
        return span.length

    def piece(self, start: int, stop: int) -> Piece:
        """Some units, past the cache of what is shown. Raises: TokfmtError: damaged."""
        port = self.port
        span = fetched_span(port, self.number)
        if isinstance(port, Viewport) and not isinstance(span, Damage) and span.start is not None:
            return port.read(span.start + start, span.start + stop)
        found = fetched(port, self.number, start, stop)
        if isinstance(found, Damage):
            raise TokfmtError(found.why)
        return found


def marks_of(a: Row, b: Row, wanted: Callable[[], bool] = lambda: True) -> Marks | Damage:
    """What differs; `wanted` is asked between windows whether anybody still wants to know."""
    try:
        first = first_unlike(a, b, wanted)
        lengths = a.length(), b.length()
        if first is None:
            return Marks()
        ends = min(lengths[0], first + LOOKED), min(lengths[1], first + LOOKED)
        x, y = _keys(a.piece(first, ends[0]), b.piece(first, ends[1]))
    except TokfmtError as error:
        return damage_of(error)
    whole = ends == lengths
    hunks = [
        Hunk(first + p.start, first + p.stop, first + q.start, first + q.stop) for p, q in unlike(x, y, whole=whole)
    ]
    return Marks(hunks, None if whole else ends)


def first_unlike(a: Row, b: Row, wanted: Callable[[], bool] = lambda: True) -> int | None:
    """The first token at which two rows differ, in id, mask or label; the length of the shorter one if it ends there.

    Raises:
        TokfmtError: One of them is damaged.
        CancelledError: Nobody wants to know.
    """
    lengths, start, size = (a.length(), b.length()), 0, _FIRST
    while start < min(lengths):
        if not wanted():
            raise CancelledError("cancelled")
        stop = min(start + size, *lengths)
        found = _differing(a.piece(start, stop), b.piece(start, stop))
        if found.any():
            return start + int(np.argmax(found))
        start, size = stop, min(4 * size, _MOST)
    return None if lengths[0] == lengths[1] else min(lengths)


def _differing(a: Piece, b: Piece) -> NDArray[np.bool_]:
    """Where two pieces of one length differ in anything that both have."""
    found = np.asarray(a.units != b.units)
    if a.masks is not None and b.masks is not None:
        found |= a.masks != b.masks
    if a.labels is not None and b.labels is not None:
        found |= a.labels != b.labels
    return found


def _keys(a: Piece, b: Piece) -> tuple[Keys, Keys]:
    """One number for what each token carries: its id, or the number of its id, mask and label among all of them."""
    if a.masks is None or b.masks is None or a.labels is None or b.labels is None:
        return a.units, b.units
    rows = [np.stack([p.units.astype(np.int64), p.masks, p.labels], axis=1) for p in (a, b)]  # type: ignore[list-item]
    found = np.unique(np.concatenate(rows), axis=0, return_inverse=True)[1].reshape(-1)
    return found[: len(rows[0])], found[len(rows[0]) :]
