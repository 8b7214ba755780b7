"""Statistics as a monoid: what two parts of a dataset show adds up, in any order, to what both show.

    sum(Stats of disjoint parts that cover the axis), closed  ==  Stats of the whole, closed

A part of a token axis need not end where a sequence does. Sequences that lie in it are counted there; one that goes on
beyond it is *loose*: where it lies is known, and `measure` looks at its two ends (and hashes it) afterwards. In a
stream nobody knows beforehand where sequences begin: a part keeps the first and last separator it has seen as a
`Span`; spans that touch are joined, and what lies between their separators is loose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.ops.fingerprint import Fingerprints, fingerprints_between
from tokfmt.ops.stats.counts import Counter, Counts
from tokfmt.ops.stats.duplicates import Seen
from tokfmt.ops.stats.table import Table

_PENDING = 1 << 16


class Loose(NamedTuple):
    """A sequence that is to be looked at later: where it lies on the stored axis, a separator at its end left out."""

    start: int
    stop: int


class Span(NamedTuple):
    """A part of a stream that was read: its bounds, and the first and last separator in it (-1, -1: none)."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """What is known of some parts of a dataset.

    Attributes:
        ids: How often each id occurs, separators included.
        lengths: Of the sequences that were looked at.
        first, last: First and last tokens of those that are not empty.
        masked: Positions that do not count in the loss.
        seen: Hashes of the sequences; nothing when they are not wanted.
        loose: Sequences to be looked at later, in order.
        spans: Parts of a stream, in order, no two of which touch.
        begun: Where each part of a stream begins, and how many sequences follow a separator in it.
    """

    ids: Counts = field(default_factory=Counts.empty)
    lengths: Table = field(default_factory=Table.empty)
    first: Counts = field(default_factory=Counts.empty)
    last: Counts = field(default_factory=Counts.empty)
    masked: int = 0
    seen: Seen = field(default_factory=Seen.nothing)
    loose: tuple[Loose, ...] = ()
    spans: tuple[Span, ...] = ()
    begun: tuple[tuple[int, int], ...] = ()

    def __add__(self, other: Stats) -> Stats:
        spans, between = joined(self.spans + other.spans)
        return Stats(
            ids=self.ids + other.ids,
            lengths=self.lengths + other.lengths,
            first=self.first + other.first,
            last=self.last + other.last,
            masked=self.masked + other.masked,
            seen=self.seen + other.seen,
            loose=tuple(sorted(self.loose + other.loose + between)),
            spans=spans,
            begun=tuple(sorted(self.begun + other.begun)),
        )


def joined(spans: Iterable[Span]) -> tuple[tuple[Span, ...], tuple[Loose, ...]]:
    """Put together spans that touch; what lies between the separators of two of them is a sequence."""
    done: list[Span] = []
    loose: list[Loose] = []
    for span in sorted(spans):
        if not done or done[-1].stop != span.start:
            done.append(span)
            continue
        before = done.pop()
        if before.last >= 0 and span.first > before.last + 1:
            loose.append(Loose(before.last + 1, span.first))
        first = before.first if before.first >= 0 else span.first
        done.append(Span(before.start, span.stop, first, max(before.last, span.last)))
    return tuple(done), tuple(loose)


class Tally:
    """Collects the statistics of one part, window by window.

    Args:
        duplicates: Fingerprint every sequence, so that those that occur again are found.
    """

    def __init__(self, *, duplicates: bool) -> None:
        self._duplicates = duplicates
        self._ids, self._first, self._last = Counter(), Counter(), Counter()
        self._lengths = Table.empty()
        self._pending: list[tuple[Offsets, Tokens, Tokens]] = []
        self._waiting = 0
        self._seen: list[Seen] = []
        self._loose: list[Loose] = []
        self._spans: list[Span] = []
        self._begun: list[tuple[int, int]] = []
        self._masked = 0

    def count(self, tokens: Tokens) -> None:
        """Tokens of the part; each once."""
        self._ids.add(tokens)

    def mask(self, positions: int) -> None:
        """So many more positions do not count in the loss."""
        self._masked += positions

    def sequences(self, tokens: Tokens, starts: Offsets, stops: Offsets, base: int) -> None:
        """Whole sequences.

        Args:
            tokens: A window that holds them.
            starts, stops: int64[n], where each lies in it.
            base: Position of the window on the axis.
        """
        if not len(starts):
            return
        lengths = stops - starts
        filled = lengths > 0
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        self._pending.append((lengths, tokens[starts], tokens[stops - 1]))
        self._waiting += len(lengths)
        if self._waiting >= _PENDING:
            self._settle()
        if self._duplicates and len(starts):
            found = fingerprints_between(tokens, starts, stops)
            self._seen.append(Seen.of(found, starts + base, stops - starts))

    def later(self, start: int, stop: int) -> None:
        """A sequence that is to be looked at later."""
        self._loose.append(Loose(start, stop))

    def span(self, span: Span, begun: int) -> None:
        """The part of a stream that was read, and how many separators in it have a sequence after them."""
        self._spans.append(span)
        self._begun.append((span.start, begun))

    def long(self, start: int, ends: Tokens, length: int, hashed: Fingerprints | None) -> None:
        """One sequence that was not read at once.

        Args:
            start: Its position.
            ends: Its first and last token.
            length: Tokens in it.
            hashed: Its fingerprint, uint64[1, 2], or None if it is known to be like no other.
        """
        self._pending.append((np.array([length]), ends[:1], ends[1:]))
        if hashed is not None:
            self._seen.append(Seen.of(hashed, np.array([start]), np.array([length])))

    def _settle(self) -> None:
        if self._pending:
            lengths, first, last = (np.concatenate(column) for column in zip(*self._pending, strict=True))
            self._lengths += Table.of(lengths)
            self._first.add(first)
            self._last.add(last)
            self._pending, self._waiting = [], 0

    def done(self) -> Stats:
        """The statistics of the part."""
        self._settle()
        seen = Seen.nothing()
        if self._seen:
            singles = np.concatenate([part.single for part in self._seen])
            long = {place: length for part in self._seen for place, length in part.long.items()}
            seen = Seen(singles, seen.several, long).folded()
        return Stats(
            self._ids.counts(), self._lengths, self._first.counts(), self._last.counts(), self._masked, seen,
            tuple(sorted(self._loose)), tuple(self._spans), tuple(self._begun),
        )  # fmt: skip
