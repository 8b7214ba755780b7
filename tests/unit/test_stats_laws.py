"""Statistics are a monoid: any partition, any order, any window gives the numbers that lists give."""

import functools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.errors import CorruptError
from tokfmt.ops.stats.duplicates import Seen, Store, repeats
from tokfmt.ops.stats.tables import Counts, Table, histogram, packing
from tokfmt.ops.stats.walk import Indexed, Tally
from tokfmt.plugin import Info, Layout, Separators, TokenReader

EOS = 9


class Lists(TokenReader):
    """A reader of lists."""

    def __init__(self, sequences, dtype=np.uint16, separators=Separators.NONE):
        self.axis = np.array([token for sequence in sequences for token in sequence], dtype)
        self.bounds = np.concatenate(([0], np.cumsum([len(s) for s in sequences]))).astype(np.int64)
        self.info = Info(Layout.DOCUMENTS, np.dtype(dtype), len(sequences), len(self.axis), separators=separators)

    def tokens(self, start, stop):
        assert 0 <= start <= stop <= len(self.axis)
        return self.axis[start:stop]

    def offsets(self, first, last):
        assert 0 <= first <= last < len(self.bounds)
        return self.bounds[first : last + 1]

    def close(self):
        pass


sequence = st.lists(st.integers(0, 8), max_size=12) | st.lists(st.integers(0, 8), min_size=30, max_size=60)


def test_a_sequence_that_is_not_ended():
    axis = Indexed(Lists([[1, EOS], [2, 3], [EOS]]), EOS, "x.pbin")
    with pytest.raises(CorruptError, match="sequence 1 does not end with the separator 9"):
        axis.walk(0, 5, Tally(duplicates=False))
    with pytest.raises(CorruptError, match="sequence 1 does not end"):
        Indexed(Lists([[1, EOS], [], [EOS]]), EOS, "x.pbin").walk(0, 3, Tally(duplicates=False))
    tally = Tally(duplicates=False)
    axis.walk(0, 3, tally)
    with pytest.raises(CorruptError, match="sequence 1 does not end with the separator 9: found 3"):
        (loose,) = tally.done().loose
        axis.content(loose, axis.stored.tokens(*loose))


ids = st.integers(0, 50) | st.integers(0, 2**64 - 1)


@settings(deadline=None)
@given(st.lists(st.lists(ids, max_size=30), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_counts_of_any_ids(parts, random):
    """Ids up to 2^64 are counted without an array of that size."""
    pieces = [Counts.of(np.array(part, np.uint64)) for part in parts]
    random.shuffle(pieces)
    total = functools.reduce(Counts.__add__, pieces)
    flat = [token for part in parts for token in part]
    assert total == Counts.of(np.array(flat, np.uint64))
    assert dict(zip(total.table().keys.tolist(), total.table().counts.tolist(), strict=True)) == Counter(flat)
    assert (total.distinct, total.largest) == (len(set(flat)), max(flat, default=-1))
    assert not total.clipped
    for token in flat[:3]:
        assert total.count(token) == flat.count(token)
        less = total.without(token, flat.count(token))
        assert less.count(token) == 0
        assert less.largest == max((other for other in flat if other != token), default=-1)


@given(st.lists(st.integers(0, 10**12) | st.integers(0, 30), max_size=60), st.integers(1, 99))
def test_tables(values, percent):
    table = Table.of(np.array(values[::2], np.int64)) + Table.of(np.array(values[1::2], np.int64))
    assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == Counter(values)
    assert (table.total, table.weight) == (len(values), sum(values))
    if values:
        assert table.percentile(percent) == sorted(values)[-(-percent * len(values) // 100) - 1]
        drawn = histogram(table)
        assert sum(drawn.counts) == len(values)
        assert drawn.edges == sorted(set(drawn.edges))
        assert drawn.edges[0] <= min(values) <= max(values) < drawn.edges[-1]
        assert len(drawn.counts) <= 48


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 50), st.booleans())
def test_packing_adds_up(lengths, size, separator):
    cost = packing(Table.of(np.array(lengths, np.int64)), size, separator=separator)
    stream = sum(lengths) + separator * len(lengths)
    for one in (cost.concatenated, cost.padded):
        assert one.samples * size == stream + one.padding
        assert 0 <= one.documents_cut <= len(lengths)


def test_half_a_hash_is_not_enough():
    """Rows that agree in the first 64 bits only, or in all but the length, are different sequences."""
    rows = np.array([[5, 1], [5, 2], [5, 1], [5, 1], [7, 7]], np.uint64)
    store = Store()
    store.add(Seen.of(rows, np.array([0, 10, 20, 30, 40]), np.array([3, 3, 3, 4, 2])).folded())
    found = repeats([store])
    assert (found.groups, found.surplus, found.tokens) == (1, 1, 3)
    assert found.largest[0].position == 0


def test_duplicates_of_long_sequences():
    """Lengths that the tag has no room for are kept apart."""
    length = (1 << 20) + 5
    hashes = np.array([[5, 1], [5, 1]], np.uint64)
    stores = [Store(), Store()]
    for k in range(2):
        stores[k].add(Seen.of(hashes[k : k + 1], np.array([7 * (k + 1)]), np.array([length])).folded())
    found = repeats(stores)
    assert (found.surplus, found.tokens) == (1, length)
    assert (found.largest[0].dataset, found.largest[0].position, found.largest[0].length) == (0, 7, length)


def test_store_takes_24_bytes_a_sequence():
    rng = np.random.default_rng(1)
    store = Store()
    count = 400_000
    for a in range(0, count, 100_000):
        hashes = rng.integers(0, 1 << 63, (100_000, 2)).astype(np.uint64) << np.uint64(1)
        store.add(Seen.of(hashes, np.arange(a, a + 100_000), np.full(100_000, 5)).folded())
    held = sum(rows.nbytes if rows.base is None else rows.base.nbytes for rows in store.rows)
    assert held <= 24 * count
    assert repeats([store]).groups == 0
