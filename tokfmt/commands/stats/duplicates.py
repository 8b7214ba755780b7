"""Find sequences that occur more than once.

Each sequence is a row of three 64-bit words, 24 bytes:

    words 0, 1   its fingerprint, 128 bits
    word 2       its tag: the position at which it begins (44 bits), and its length (20 bits)

A length of 2^20 - 1 or more is stored as 2^20 - 1 in the tag, and the real length is kept in a dict. Equal rows of one
region of the pass become one row with a count, so a sequence that is repeated a billion times takes one row per region.
Many rows are distributed to 256 buckets by the top bits of the fingerprint, and the buckets are sorted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.base import resources
from tokfmt.commands.compare.fingerprint import Fingerprints
from tokfmt.commands.stats.report import Duplicates, RepeatedSequence
from tokfmt.commands.stats.tables import Table
from tokfmt.core.ragged import Offsets

TOO_MANY = (
    "duplicates were not counted: for so many sequences that takes more than half of this machine's memory (24 bytes "
    "each). --no-duplicates leaves them out, --sample reads some sequences"
)

Rows = NDArray[np.uint64]

LISTED_GROUPS = 10
"""Number of groups of equal sequences that are listed."""

_LENGTH_BITS, PLACE_BITS = 20, 44
_LONG = (1 << _LENGTH_BITS) - 1
_FAR = (1 << PLACE_BITS) - 1
_BUCKETS = 256
_FEW = 1 << 16  # rows that are sorted at once, without buckets
_ROW = 24  # bytes per row


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """A group of equal sequences.

    Attributes:
        count: The number of sequences.
        length: The length of each in tokens.
        position: The position on the stored axis at which the first begins.
        dataset: The index of the dataset that holds the first.
    """

    count: int
    length: int
    position: int
    dataset: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeated sequences of some datasets.

    Attributes:
        groups: The number of different sequences that occur more than once.
        surplus: The number of sequences after the first of each group.
        tokens: The number of tokens in these.
        largest: The groups with most sequences; among equal groups, longer and earlier sequences come first.
    """

    groups: int
    surplus: int
    tokens: int
    largest: tuple[DuplicateGroup, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The rows of some sequences; a sum holds the rows of both operands.

    Attributes:
        single: uint64[n, 3], sequences that occur once in their region.
        several: uint64[m, 4], sequences that occur more than once in their region; the fourth word is the count.
        long: The lengths that do not fit into the tag, by position.
    """

    single: Rows
    several: Rows
    long: dict[int, int]

    @staticmethod
    def nothing() -> Seen:
        """Return no rows."""
        return Seen(np.empty((0, 3), np.uint64), np.empty((0, 4), np.uint64), {})

    @staticmethod
    def of(hashes: Fingerprints, positions: Offsets, lengths: Offsets) -> Seen:
        """Return the rows of sequences that are not empty.

        Args:
            hashes: uint64[n, 2], their fingerprints.
            positions: int64[n], the positions at which they begin.
            lengths: int64[n], their lengths in tokens.
        """
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
        """Return the rows sorted by fingerprint, with one row per group of equal sequences."""
        rows, counts = _grouped(np.concatenate([_counted(self.single), self.several]))
        several = counts > 1
        return Seen(rows[~several], np.column_stack([rows[several], counts[several]]), self.long)


class Store:
    """The rows of a dataset, 24 bytes per sequence; `len` is the number of rows."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.long: dict[int, int] = {}

    def add(self, seen: Seen) -> None:
        """Keep the rows of a region, which must be folded."""
        self.rows += [np.ascontiguousarray(rows) for rows in (seen.single, seen.several) if len(rows)]
        self.long |= seen.long

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def buckets(self, count: int) -> Iterator[Rows]:
        """Yield the rows of each bucket with their counts, uint64[n, 4]; top bits of the fingerprint give the bucket.

        Args:
            count: The number of buckets; a power of two up to 256.
        """
        step = _BUCKETS // count
        bounds = [np.searchsorted(rows[:, 0] >> np.uint64(56), np.arange(0, _BUCKETS + 1, step)) for rows in self.rows]
        for bucket in range(count):
            parts = [_counted(rows[at[bucket] : at[bucket + 1]]) for rows, at in zip(self.rows, bounds, strict=True)]
            yield np.concatenate([np.empty((0, 4), np.uint64), *parts])


def too_many(sequences: int, most: int | None = None) -> bool:
    """Return True if there are more than `most` sequences, or if their rows take over half of the machine's memory."""
    return _ROW * sequences > resources.share() or (most is not None and sequences > most)


def duplicates_of(
    repeated: Repeats | None, lengths: Table, describe: Callable[[DuplicateGroup], RepeatedSequence]
) -> Duplicates | None:
    """Return the values of a report on repeated sequences; None if they were not counted.

    Args:
        repeated: The repeated sequences.
        lengths: The lengths of all sequences. Empty sequences are not duplicates.
        describe: Describes one of the largest groups.
    """
    if repeated is None:
        return None
    filled = lengths.total - lengths.count(0)
    return Duplicates(
        sequences=repeated.surplus,
        share=repeated.surplus / filled if filled else 0.0,
        tokens=repeated.tokens,
        token_share=repeated.tokens / lengths.weight if lengths.weight else 0.0,
        groups=repeated.groups,
        largest=[describe(group) for group in repeated.largest[:LISTED_GROUPS]],
    )


def repeats(stores: Sequence[Store | None], listed: int = LISTED_GROUPS) -> Repeats | None:
    """Return the sequences that occur more than once in some datasets together.

    Args:
        stores: The rows of each dataset; None if duplicates were not counted for it.
        listed: The number of groups to list.

    Returns:
        The sequences; None if they were not counted for every dataset.
    """
    present = [store for store in stores if store is not None]
    if len(present) < len(stores):
        return None
    groups = surplus = tokens = 0
    largest = _NO_GROUPS
    count = 1 if sum(map(len, present)) <= _FEW else _BUCKETS
    for parts in zip(*(store.buckets(count) for store in present), strict=True):
        datasets = np.repeat(np.arange(len(parts), dtype=np.uint64), [len(part) for part in parts])
        rows, frequencies = _grouped(np.concatenate(parts), datasets)
        several = np.flatnonzero(frequencies > 1)
        rows, counts = rows[several], frequencies[several].astype(np.int64)
        lengths = _lengths(rows, present)
        groups += len(counts)
        surplus += int(counts.sum()) - len(counts)
        tokens += int(((counts - 1) * lengths).sum())
        places = (rows[:, 2] >> np.uint64(_LENGTH_BITS)).astype(np.int64)
        fresh = np.stack([counts, lengths, places, rows[:, 3].astype(np.int64)])
        largest = np.concatenate([largest, fresh], axis=1)
        if largest.shape[1] > 4 * listed:
            largest = _largest(largest, listed)
    columns = _largest(largest, listed).tolist()
    return Repeats(groups, surplus, tokens, tuple(map(DuplicateGroup, *columns)))


_NO_GROUPS: NDArray[np.int64] = np.empty((4, 0), np.int64)


def _largest(groups: NDArray[np.int64], listed: int) -> NDArray[np.int64]:
    """Return the groups to list, in order: int64[4, n], the attributes of `DuplicateGroup`."""
    counts, lengths, places, datasets = groups
    return groups[:, np.lexsort((places, datasets, -lengths, -counts))[:listed]]


def _lengths(rows: Rows, stores: Sequence[Store]) -> Offsets:
    """Return the length in tokens of the sequences of each group."""
    lengths = (rows[:, 2] & np.uint64(_LONG)).astype(np.int64)
    for k in np.flatnonzero(lengths == _LONG).tolist():
        lengths[k] = stores[int(rows[k, 3])].long[int(rows[k, 2] >> np.uint64(_LENGTH_BITS))]
    return lengths


def _counted(rows: Rows) -> Rows:
    """Return rows of four words: rows of three words get the count 1."""
    return rows if rows.shape[1] == 4 else np.column_stack([rows, np.ones(len(rows), np.uint64)])


def _grouped(rows: Rows, datasets: NDArray[np.uint64] | None = None) -> tuple[Rows, NDArray[np.uint64]]:
    """Return each different sequence once, and the number of its occurrences.

    Args:
        rows: uint64[n, 4]; the fourth word is a count.
        datasets: uint64[n], the dataset of each row; None for one dataset.

    Returns:
        uint64[m, 3], the rows sorted by fingerprint, with the first position. If `datasets` is given, uint64[m, 4]: the
        fourth word is the dataset of the first position. And uint64[m], the counts.
    """
    lengths = rows[:, 2] & np.uint64(_LONG)
    order = np.argsort(rows[:, 0])
    same = _same(rows, lengths, order)
    if ((rows[order[1:], 0] == rows[order[:-1], 0]) & ~same).any():  # equal first words of different sequences
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
    groups = rows[order[begins], :3]
    groups[:, 2] = (first & np.uint64(_FAR)) << np.uint64(_LENGTH_BITS) | lengths[order[begins]]
    if datasets is not None:
        groups = np.column_stack([groups, first >> np.uint64(PLACE_BITS)])
    return groups, np.add.reduceat(rows[order, 3], begins)


def _same(rows: Rows, lengths: NDArray[np.uint64], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for each row but the first, in this order, if it has the same sequence as the row before it."""
    a, b = order[1:], order[:-1]
    alike: NDArray[np.bool_] = (rows[a, 0] == rows[b, 0]) & (rows[a, 1] == rows[b, 1]) & (lengths[a] == lengths[b])
    return alike
