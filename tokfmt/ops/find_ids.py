"""Find a run of ids at the speed of memory.

Ids are compared as they are stored, never widened. Where separators were taken away by a view, that mask would cost
more than the comparison: the axis beneath, which has one after each sequence, is searched instead, and only what is
found is mapped back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import axis
from tokfmt.core.axis import TokenReader, sequence_at
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.ops.find import Hits, Part, Search
from tokfmt.views.separated import Restorable

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
