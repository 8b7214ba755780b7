"""Find sequences that occur more than once.

Sequences are equal if their lengths and their fingerprints of 128 bits are: their tokens are not compared. Each
sequence is a row of three 64-bit words, 24 bytes:

    words 0, 1   its fingerprint, 128 bits
    word 2       its tag: the position at which it begins (44 bits), and its length (20 bits)

A length of 2^20 - 1 or more is stored as 2^20 - 1 in the tag, and the real length is kept in a dict. Equal rows of one
region of the pass become one row with a count, so a sequence that is repeated a billion times takes one row per region.
If the members of groups are kept, each sequence of such a row takes 8 more bytes, its position. Many rows are
distributed to 256 buckets by the top bits of the fingerprint, and the buckets are sorted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base import resources
from tokfmt.commands.compare.fingerprint import Fingerprints
from tokfmt.commands.stats.report import Duplicates, RepeatedSequence
from tokfmt.commands.stats.tables import Table
from tokfmt.core.ragged import Offsets, gathered, offsets_of
from tokfmt.errors import OptionError

TOO_MANY = (
    "duplicates were not counted: for so many sequences that takes more than half of this machine's memory (24 bytes "
    "each). --no-duplicates leaves them out, --sample reads some sequences"
)

TOO_MANY_MEMBERS = (
    "groups of equal sequences take more than half of this machine's memory (24 bytes per sequence, and 64 per "
    "member of a group). Leave them out, or read fewer datasets at once"
)

Rows = NDArray[np.uint64]

_NO_PLACES: Offsets = np.empty(0, np.int64)

LISTED_GROUPS = 10
"""Number of groups of equal sequences that are listed."""

_LENGTH_BITS, PLACE_BITS = 20, 44
_LONG = (1 << _LENGTH_BITS) - 1
_FAR = (1 << PLACE_BITS) - 1
_BUCKETS = 256
_FEW = 1 << 16  # rows that are sorted at once, without buckets
_ROW = 24  # bytes per row
MEMBERS_PER_ROW = 3
"""Number of members of groups that take the memory of a row."""

_MEMBER = 64  # bytes per member of a group, while all are sorted and numbered


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """A group of equal sequences."""

    count: int  # sequences
    length: int  # of each in tokens
    position: int  # where the first begins on the stored axis
    dataset: int  # index of the dataset that holds the first


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeated sequences of some datasets."""

    groups: int  # different sequences that occur more than once
    surplus: int  # sequences after the first of each group
    tokens: int  # in these
    largest: tuple[DuplicateGroup, ...]  # with most sequences; among equal groups, longer and earlier ones come first


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The rows of some sequences; a sum holds the rows of both operands."""

    single: Rows  # uint64[n, 3], sequences that occur once in their region
    several: Rows  # uint64[m, 4], those that occur more often in their region; the fourth word is the count
    long: dict[int, int]  # lengths that do not fit into the tag, by position
    members: Offsets  # positions of `several`, row by row and ascending in each; empty if they are not kept

    @staticmethod
    def nothing() -> Seen:
        """Return no rows."""
        return Seen(np.empty((0, 3), np.uint64), np.empty((0, 4), np.uint64), {}, _NO_PLACES)

    @staticmethod
    def of(hashes: Fingerprints, positions: Offsets, lengths: Offsets) -> Seen:
        """Return the rows of sequences that are not empty, given uint64[n, 2], where they begin, and lengths."""
        many = np.flatnonzero(lengths >= _LONG)
        long = dict(zip(positions[many].tolist(), lengths[many].tolist(), strict=True))
        tags = np.minimum(positions, _FAR).astype(np.uint64) << np.uint64(_LENGTH_BITS)
        tags |= np.minimum(lengths, _LONG).astype(np.uint64)
        return Seen(np.column_stack([hashes, tags]), np.empty((0, 4), np.uint64), long, _NO_PLACES)

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            np.concatenate([self.single, other.single]),
            np.concatenate([self.several, other.several]),
            self.long | other.long,
            np.concatenate([self.members, other.members]),
        )

    def folded(self, *, members: bool = False) -> Seen:
        """Return the rows of `single` by fingerprint, one per group of equal sequences, with their members or not."""
        rows = _counted(self.single)
        groups = _grouped(rows)
        several, places = groups.counts > 1, _NO_PLACES
        if members:
            places = _places(rows[groups.repeated()])
            places = places[_in_groups(groups.counts[several], places)]
        repeated = np.column_stack([groups.rows[several], groups.counts[several].astype(np.uint64)])
        return Seen(groups.rows[~several], repeated, self.long, places)


class Store:
    """The rows of a dataset; `len` is the number of rows of 24 bytes that take as much memory."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.members: list[Offsets] = []
        self.long: dict[int, int] = {}

    def add(self, seen: Seen) -> None:
        """Keep the rows of a region, which must be folded."""
        for rows, members in ((seen.single, _NO_PLACES), (seen.several, seen.members)):
            if len(rows):
                self.rows.append(np.ascontiguousarray(rows))
                self.members.append(members)
        self.long |= seen.long

    def __len__(self) -> int:
        return sum(map(len, self.rows)) + sum(map(len, self.members)) // MEMBERS_PER_ROW

    def buckets(self, count: int, *, members: bool = False) -> Iterator[tuple[Rows, Offsets]]:
        """Yield the rows of each bucket with their counts, and their members; top bits of the fingerprint give it.
        `count` is a power of two up to 256. The rows are uint64[n, 4]; the members are their positions row by row.
        """
        step = _BUCKETS // count
        bounds = [np.searchsorted(rows[:, 0] >> np.uint64(56), np.arange(0, _BUCKETS + 1, step)) for rows in self.rows]
        firsts = [
            at if rows.shape[1] == 3 or not members else offsets_of(rows[:, 3])[at]
            for rows, at in zip(self.rows, bounds, strict=True)
        ]
        for bucket in range(count):
            parts, places = [np.empty((0, 4), np.uint64)], [_NO_PLACES]
            for rows, positions, at, first in zip(self.rows, self.members, bounds, firsts, strict=True):
                some = rows[at[bucket] : at[bucket + 1]]
                parts.append(_counted(some))
                if members:
                    own = slice(first[bucket], first[bucket + 1])
                    places.append(_places(some) if rows.shape[1] == 3 else positions[own])
            yield np.concatenate(parts), np.concatenate(places)


def too_many(sequences: int, most: int | None = None) -> bool:
    """Return True if there are more than `most` sequences, or if their rows take over half of the machine's memory."""
    return _ROW * sequences > resources.share() or (most is not None and sequences > most)


def duplicates_of(
    repeated: Repeats | None, lengths: Table, describe: Callable[[DuplicateGroup], RepeatedSequence]
) -> Duplicates | None:
    """Return the values of a report on repeated sequences that are not empty; None if they were not counted."""
    if repeated is None:
        return None
    filled = lengths.total - lengths.count(0)
    return Duplicates(
        sequences=repeated.surplus,
        share=repeated.surplus / filled if filled else 0.0,
        tokens=repeated.tokens,
        token_share=repeated.tokens / lengths.weight if lengths.weight else 0.0,
        groups=repeated.groups,
        largest=[describe(group) for group in repeated.largest],
    )


def repeats(stores: Sequence[Store | None]) -> Repeats | None:
    """Return the sequences that occur more than once in all datasets; None if one was not counted."""
    present = [store for store in stores if store is not None]
    if len(present) < len(stores):
        return None
    groups = surplus = tokens = 0
    largest = _NO_GROUPS
    for rows, datasets, _ in _buckets_of(present, members=False):
        frequencies = _grouped(rows, datasets)
        several = np.flatnonzero(frequencies.counts > 1)
        first, counts = frequencies.rows[several], frequencies.counts[several]
        lengths = _lengths(first, present)
        groups += len(counts)
        surplus += int(counts.sum()) - len(counts)
        tokens += int(((counts - 1) * lengths).sum())
        places, datasets_of = first[:, 2] >> np.uint64(_LENGTH_BITS), first[:, 3]
        fresh = np.stack([counts, lengths, places.astype(np.int64), datasets_of.astype(np.int64)])
        largest = np.concatenate([largest, fresh], axis=1)
        if largest.shape[1] > 4 * LISTED_GROUPS:
            largest = _largest(largest)
    columns = _largest(largest).tolist()
    return Repeats(groups, surplus, tokens, tuple(map(DuplicateGroup, *columns)))


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of equal sequences with all members. Those with most members come first, then longer and earlier ones."""

    lengths: Offsets  # int64[groups], in tokens; in characters for text
    offsets: Offsets  # int64[groups + 1], where the members of each group begin in `members`, and the end of the last
    members: Offsets  # numbers of the sequences, ascending for each dataset of a group
    datasets: NDArray[np.unsignedinteger]  # uint[members], the datasets that hold them, ascending in each group
    total: int  # of all groups, listed or not

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def counts(self) -> Offsets:
        """int64[groups], the number of members of each group."""
        return np.diff(self.offsets)

    @property
    def first(self) -> Offsets:
        """int64[groups], the first member of each group."""
        return self.members[self.offsets[:-1]]

    def numbered(self, numbers: Sequence[Callable[[Offsets], Offsets]]) -> Groups:
        """Return the groups with the numbers of sequences in place of their positions."""
        renumbered = np.empty(len(self.members), np.int64)
        for dataset, number in enumerate(numbers):
            at = np.flatnonzero(self.datasets == dataset)
            at = at[np.argsort(self.members[at])]
            renumbered[at] = number(self.members[at])
        return replace(self, members=renumbered)


def groups_of(stores: Sequence[Store], listed: int | None = None) -> Groups:
    """Return the groups of equal sequences of some datasets together; `members` holds the positions of sequences."""
    room = resources.share() - _ROW * sum(map(len, stores))
    columns = [(_NO_PLACES, _NO_PLACES, _NO_PLACES)]
    datasets = [np.empty(0, np.min_scalar_type(len(stores)))]
    for rows, of, members in _buckets_of(stores, members=True):
        groups = _grouped(rows, of)
        several = groups.counts > 1
        counts = groups.counts[several]
        room -= _MEMBER * int(counts.sum())
        if room < 0:
            raise OptionError(TOO_MANY_MEMBERS)
        repeated = groups.repeated()
        each = rows[repeated, 3].astype(np.int64)
        positions = _intervals(members, offsets_of(rows[:, 3])[repeated], each)
        holders = np.repeat(of[repeated].astype(datasets[0].dtype), each)
        order = _in_groups(counts, holders, positions)
        columns.append((_lengths(groups.rows[several], stores), counts, positions[order]))
        datasets.append(holders[order])
    lengths, counts, positions = map(np.concatenate, zip(*columns, strict=True))
    return _ranked(lengths, counts, positions, np.concatenate(datasets), listed)


def _intervals(values: Offsets, starts: Offsets, lengths: Offsets) -> Offsets:
    """Return intervals of an array, concatenated in the given order."""
    return gathered(values.view(np.uint64), starts, lengths).tokens.view(np.int64)


def _in_groups(counts: Offsets, *keys: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the order that sorts members by the keys, the last one first, within their groups."""
    return np.lexsort((*keys[::-1], np.repeat(np.arange(len(counts)), counts)))


def _ranked(
    lengths: Offsets,
    counts: Offsets,
    positions: Offsets,
    datasets: NDArray[np.unsignedinteger],
    listed: int | None,
) -> Groups:
    """Return groups in order."""
    begins = offsets_of(counts)[:-1]
    order = np.lexsort((positions[begins], datasets[begins], -lengths, -counts))[:listed]
    holders = gathered(datasets, begins[order], counts[order])
    members = _intervals(positions, begins[order], counts[order])
    return Groups(lengths[order], holders.offsets, members, holders.tokens, len(lengths))


_NO_GROUPS: NDArray[np.int64] = np.empty((4, 0), np.int64)


def _largest(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the groups to list, in order: int64[4, n], the attributes of `DuplicateGroup`."""
    counts, lengths, places, datasets = groups
    return groups[:, np.lexsort((places, datasets, -lengths, -counts))[:LISTED_GROUPS]]


def _lengths(rows: Rows, stores: Sequence[Store]) -> Offsets:
    """Return the length in tokens of the sequences of each group."""
    lengths = (rows[:, 2] & np.uint64(_LONG)).astype(np.int64)
    for k in np.flatnonzero(lengths == _LONG).tolist():
        lengths[k] = stores[int(rows[k, 3])].long[int(rows[k, 2] >> np.uint64(_LENGTH_BITS))]
    return lengths


def _counted(rows: Rows) -> Rows:
    """Return rows of four words: rows of three words get the count 1."""
    return rows if rows.shape[1] == 4 else np.column_stack([rows, np.ones(len(rows), np.uint64)])


def _places(rows: Rows) -> Offsets:
    return (rows[:, 2] >> np.uint64(_LENGTH_BITS)).astype(np.int64)


def _buckets_of(stores: Sequence[Store], *, members: bool) -> Iterator[tuple[Rows, NDArray[np.uint64], Offsets]]:
    """Yield the rows of each bucket of all stores, the store of each, and their members; see `Store.buckets`."""
    count = 1 if sum(map(len, stores)) <= _FEW else _BUCKETS
    for parts in zip(*(store.buckets(count, members=members) for store in stores), strict=True):
        rows, places = zip(*parts, strict=True)
        datasets = np.repeat(np.arange(len(rows), dtype=np.uint64), list(map(len, rows)))
        yield np.concatenate(rows), datasets, np.concatenate(places)


class _Grouped(NamedTuple):
    """Different sequences, each once."""

    # uint64[m, 3], sorted by fingerprint, with the first position; of several datasets a fourth word has its dataset
    rows: Rows
    counts: Offsets  # int64[m], occurrences of each
    order: NDArray[np.intp]  # intp[n], the order of the given rows in which equal sequences are neighbors
    begins: NDArray[np.intp]  # intp[m], where each different sequence begins in that order

    def repeated(self) -> NDArray[np.intp]:
        """Return the given rows of the sequences that occur more than once, in order."""
        return self.order[np.repeat(self.counts > 1, np.diff(self.begins, append=len(self.order)))]


def _grouped(rows: Rows, datasets: NDArray[np.uint64] | None = None) -> _Grouped:
    """Return each different sequence once, and the number of its occurrences. The fourth word of a row is a count."""
    lengths = rows[:, 2] & np.uint64(_LONG)
    order = np.argsort(rows[:, 0])
    same = _same(rows, lengths, order)
    if ((rows[order[1:], 0] == rows[order[:-1], 0]) & ~same).any():  # equal first words of different sequences
        order = np.lexsort((lengths, rows[:, 1], rows[:, 0]))
        same = _same(rows, lengths, order)
    begins = np.flatnonzero(np.concatenate(([True], ~same))) if len(rows) else np.empty(0, np.intp)
    if len(begins) == len(rows) and datasets is None:
        return _Grouped(rows[order][:, :3], rows[order, 3].astype(np.int64), order, begins)
    if not len(begins):
        return _Grouped(np.empty((0, 3 if datasets is None else 4), np.uint64), _NO_PLACES, order, begins)
    places = rows[order, 2] >> np.uint64(_LENGTH_BITS)
    if datasets is not None:
        places |= datasets[order] << np.uint64(PLACE_BITS)
    first = np.minimum.reduceat(places, begins)
    groups = rows[order[begins], :3]
    groups[:, 2] = (first & np.uint64(_FAR)) << np.uint64(_LENGTH_BITS) | lengths[order[begins]]
    if datasets is not None:
        groups = np.column_stack([groups, first >> np.uint64(PLACE_BITS)])
    return _Grouped(groups, np.add.reduceat(rows[order, 3], begins).astype(np.int64), order, begins)


def _same(rows: Rows, lengths: NDArray[np.uint64], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for each row but the first, in this order, if it has the same sequence as the row before it."""
    a, b = order[1:], order[:-1]
    alike: NDArray[np.bool_] = (rows[a, 0] == rows[b, 0]) & (rows[a, 1] == rows[b, 1]) & (lengths[a] == lengths[b])
    return alike
