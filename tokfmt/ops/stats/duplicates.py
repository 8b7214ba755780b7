"""Sequences that occur more than once.

What is kept of a sequence is one row of three 64-bit words, 24 bytes: its hash of 128 bits, and a *tag*: where it
begins (44 bits) and its length (20 bits; longer ones say 2^20 - 1, and their lengths are kept apart). Rows that are
equal within one region of the pass become one row with a count, so a sequence that is repeated a billion times takes
one row a region. Many rows are dealt to 256 buckets by the top bits of the hash, and the buckets are sorted one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import resources
from tokfmt.core.messages import Message, Option
from tokfmt.core.ragged import Offsets
from tokfmt.ops.compare.fingerprint import Fingerprints
from tokfmt.ops.stats.report import Duplicates, RepeatedSequence
from tokfmt.ops.stats.tables import Table

TOO_MANY = Message(
    "duplicates were not looked for: of so many sequences that takes more than half of this "
    f"machine's memory (24 bytes each). {Option('no-duplicates')} leaves them out, {Option('sample')} "
    "looks at some"
)

Rows = NDArray[np.uint64]

TOP = 10
"""Groups of equal sequences that are listed."""

_LENGTH_BITS, PLACE_BITS = 20, 44
_LONG = (1 << _LENGTH_BITS) - 1
_FAR = (1 << PLACE_BITS) - 1
_BUCKETS = 256
_FEW = 1 << 16  # rows that are sorted at once
_ROW = 24  # bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Equal sequences.

    Attributes:
        count: How many there are.
        length: Tokens in each.
        position: Where the first begins, on the axis of the pass.
        dataset: Which of several datasets that is in, from 0.
    """

    count: int
    length: int
    position: int
    dataset: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the rows of all sequences show.

    Attributes:
        groups: Different sequences that occur more than once.
        surplus: Sequences beyond the first of each group.
        tokens: Tokens in these.
        largest: The groups of most sequences; the longer and the earlier first.
    """

    groups: int
    surplus: int
    tokens: int
    largest: tuple[Group, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Rows of some sequences; a sum holds the rows of both parts.

    Attributes:
        single: uint64[n, 3], sequences seen once in their part.
        several: uint64[m, 4], sequences seen more than once there: with how often, as the fourth word.
        long: Length by position, where the tag has no room for it.
    """

    single: Rows
    several: Rows
    long: dict[int, int]

    @staticmethod
    def nothing() -> Seen:
        """No sequence."""
        return Seen(np.empty((0, 3), np.uint64), np.empty((0, 4), np.uint64), {})

    @staticmethod
    def of(hashes: Fingerprints, positions: Offsets, lengths: Offsets) -> Seen:
        """Rows of sequences, none of which is empty."""
        many = np.flatnonzero(lengths >= _LONG)
        long = dict(zip(positions[many].tolist(), lengths[many].tolist(), strict=True))
        tags = np.minimum(positions, _FAR).astype(np.uint64) << np.uint64(_LENGTH_BITS)
        tags |= np.minimum(lengths, _LONG).astype(np.uint64)
        return Seen(np.column_stack([hashes, tags]), np.empty((0, 4), np.uint64), long)

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            np.concatenate([self.single, other.single]),
            np.concatenate([self.several, other.several]),
            self.long | other.long,
        )

    def folded(self) -> Seen:
        """The same, with rows of equal sequences put together, sorted by hash."""
        rows, counts = _grouped(np.concatenate([_counted(self.single), self.several]))
        several = counts > 1
        return Seen(rows[~several], np.column_stack([rows[several], counts[several]]), self.long)


class Store:
    """The rows of a dataset, 24 bytes a sequence; `len` is how many."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.long: dict[int, int] = {}

    def add(self, seen: Seen) -> None:
        """Keep the rows of a part, which must be folded."""
        self.rows += [np.ascontiguousarray(rows) for rows in (seen.single, seen.several) if len(rows)]
        self.long |= seen.long

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def buckets(self, count: int) -> Iterator[Rows]:
        """uint64[n, 4] a bucket, by the top bits of the hash: its rows, each with how often it was seen.

        Args:
            count: How many buckets; a power of two up to 256.
        """
        step = _BUCKETS // count
        bounds = [np.searchsorted(rows[:, 0] >> np.uint64(56), np.arange(0, _BUCKETS + 1, step)) for rows in self.rows]
        for bucket in range(count):
            found = [_counted(rows[at[bucket] : at[bucket + 1]]) for rows, at in zip(self.rows, bounds, strict=True)]
            yield np.concatenate([np.empty((0, 4), np.uint64), *found])


def too_many(sequences: int) -> bool:
    """Whether the rows of so many sequences take more than what may be held of this machine's memory."""
    return _ROW * sequences > resources.share()


def duplicates_of(
    stores: Sequence[Store | None], lengths: Table, told: Callable[[Group], RepeatedSequence]
) -> Duplicates | None:
    """What is said of sequences that occur more than once in some datasets; None where they were not looked for.

    Args:
        lengths: Of all sequences; empty ones are no duplicates.
        told: What is said of the largest groups.
    """
    kept = [store for store in stores if store is not None]
    if len(kept) < len(stores):
        return None
    found, filled = repeats(kept), lengths.total - lengths.count(0)
    return Duplicates(
        sequences=found.surplus,
        share=found.surplus / filled if filled else 0.0,
        tokens=found.tokens,
        token_share=found.tokens / lengths.weight if lengths.weight else 0.0,
        groups=found.groups,
        largest=[told(group) for group in found.largest],
    )


def repeats(stores: Sequence[Store]) -> Repeats:
    """What occurs more than once in some datasets together."""
    groups = surplus = tokens = 0
    largest: list[Group] = []
    count = 1 if sum(map(len, stores)) <= _FEW else _BUCKETS
    for parts in zip(*(store.buckets(count) for store in stores), strict=True):
        datasets = np.repeat(np.arange(len(parts), dtype=np.uint64), [len(part) for part in parts])
        rows, found = _grouped(np.concatenate(parts), datasets)
        several = np.flatnonzero(found > 1)
        rows, counts = rows[several], found[several].astype(np.int64)
        lengths = _lengths(rows, stores)
        groups += len(counts)
        surplus += int(counts.sum()) - len(counts)
        tokens += int(((counts - 1) * lengths).sum())
        largest = _largest(largest, rows, counts, lengths)
    return Repeats(groups, surplus, tokens, tuple(largest))


def _largest(known: list[Group], rows: Rows, counts: Offsets, lengths: Offsets) -> list[Group]:
    first = np.lexsort((rows[:, 2], rows[:, 3], -lengths, -counts))[:TOP]
    places = (rows[first, 2] >> np.uint64(_LENGTH_BITS)).tolist()
    columns = zip(counts[first].tolist(), lengths[first].tolist(), places, rows[first, 3].tolist(), strict=True)
    found = [Group(count, length, place, dataset) for count, length, place, dataset in columns]
    return heapq.nsmallest(TOP, known + found, key=lambda g: (-g.count, -g.length, g.dataset, g.position))


def _lengths(rows: Rows, stores: Sequence[Store]) -> Offsets:
    """Tokens in a sequence of each group."""
    lengths = (rows[:, 2] & np.uint64(_LONG)).astype(np.int64)
    for k in np.flatnonzero(lengths == _LONG).tolist():
        lengths[k] = stores[int(rows[k, 3])].long[int(rows[k, 2] >> np.uint64(_LENGTH_BITS))]
    return lengths


def _counted(rows: Rows) -> Rows:
    """Rows of three words, which stand for one sequence each, or of four as they are."""
    return rows if rows.shape[1] == 4 else np.column_stack([rows, np.ones(len(rows), np.uint64)])


def _grouped(rows: Rows, datasets: NDArray[np.uint64] | None = None) -> tuple[Rows, NDArray[np.uint64]]:
    """Each different sequence once, and how often it occurs.

    Args:
        rows: uint64[n, 4], the fourth word a count.
        datasets: uint64[n], which dataset each row is of.

    Returns:
        uint64[m, 3] sorted by hash, with the first position (four words, with the dataset it is in, if any are given);
        uint64[m].
    """
    lengths = rows[:, 2] & np.uint64(_LONG)
    order = np.argsort(rows[:, 0])
    same = _same(rows, lengths, order)
    if ((rows[order[1:], 0] == rows[order[:-1], 0]) & ~same).any():  # half a hash agrees and the rest does not
        order = np.lexsort((lengths, rows[:, 1], rows[:, 0]))
        same = _same(rows, lengths, order)
    begins = np.flatnonzero(np.concatenate(([True], ~same))) if len(rows) else np.empty(0, np.int64)
    if len(begins) == len(rows) and datasets is None:
        return rows[order][:, :3], rows[order, 3]
    places = rows[order, 2] >> np.uint64(_LENGTH_BITS)
    if datasets is not None:
        places |= datasets[order] << np.uint64(PLACE_BITS)
    if not len(begins):
        return np.empty((0, 3 if datasets is None else 4), np.uint64), np.empty(0, np.uint64)
    first = np.minimum.reduceat(places, begins)
    kept = rows[order[begins], :3]
    kept[:, 2] = (first & np.uint64(_FAR)) << np.uint64(_LENGTH_BITS) | lengths[order[begins]]
    if datasets is not None:
        kept = np.column_stack([kept, first >> np.uint64(PLACE_BITS)])
    return kept, np.add.reduceat(rows[order, 3], begins)


def _same(rows: Rows, lengths: NDArray[np.uint64], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether each row but the first, in this order, is of the same sequence as the one before it."""
    a, b = order[1:], order[:-1]
    found: NDArray[np.bool_] = (rows[a, 0] == rows[b, 0]) & (rows[a, 1] == rows[b, 1]) & (lengths[a] == lengths[b])
    return found
