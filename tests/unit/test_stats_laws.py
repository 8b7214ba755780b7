"""Statistics are a monoid: any partition, any order, any window gives the numbers that lists give."""

import functools
from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import Machine
from walks import place_of_text, survey_of

import tokfmt
from tokfmt.commands.stats.duplicates import PLACE_BITS, TOO_MANY, Seen, Store, groups_of, repeats
from tokfmt.commands.stats.tables import KEPT, Counts, Table, histogram, packing
from tokfmt.commands.stats.texts import TextStats, TextSurvey
from tokfmt.commands.stats.walk import Indexed, Streamed, Tally
from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import CorruptError, OptionError
from tokfmt.plugin import Separators

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


def test_more_ids_than_are_kept():
    """Which of 400,000 IDs are kept does not depend on the parts; their counts are exact, the number of all is estimated."""
    rng = np.random.default_rng(0)
    known = rng.integers(1 << 21, 1 << 63, 400_000).astype(np.uint64)
    tokens = known[rng.integers(0, len(known), 1_000_000)]
    pieces = [Counts.of(part) for part in np.array_split(tokens, 7)]
    total, other = functools.reduce(Counts.__add__, pieces), functools.reduce(Counts.__add__, pieces[::-1])
    assert total == other == Counts.of(tokens)
    assert total.clipped
    assert len(total.sparse) == KEPT
    ids, counts = np.unique(tokens, return_counts=True)
    table = total.table()
    assert np.array_equal(counts[np.searchsorted(ids, table.keys.astype(np.uint64))], table.counts)
    assert total.distinct == pytest.approx(len(ids), rel=0.1)
    assert total.largest == int(ids[-1])


@pytest.mark.parametrize(("count", "is_left_out"), [(1000, False), (5000, True)])
@pytest.mark.parametrize("name", ["x.jsonl", "x.bin"])
def test_duplicates_never_fill_memory(tmp_path, monkeypatch, name, count, is_left_out):
    """Beyond a share of memory they are left out, with a note, whether that is known beforehand or not."""
    rows = [[1, 2]] * 3 + [[k, k + 1] for k in range(count - 3)]
    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": {row}}}\n' for row in rows))
    np.array([token for row in rows for token in (*row, 60_000)], "<i4").tofile(tmp_path / "x.bin")
    machine = Machine(tmp_path, monkeypatch)
    machine.own.write_text("0::/\n")
    machine.write({"memory.max": str(2 * 24 * 3000)})
    how = {} if name == "x.jsonl" else {"format": "stage1", "eos": 60_000}
    (facts,) = tokfmt.stats([tmp_path / name], jobs=1, **how).datasets
    assert facts.sequences == count
    assert (facts.duplicates is None) == is_left_out
    assert (TOO_MANY in facts.notes) == is_left_out
    if is_left_out:
        with pytest.raises(OptionError, match="more than half of this machine's memory"):
            tokfmt.stats([tmp_path / name], jobs=1, **how, duplicate_groups=tmp_path / "groups.jsonl")
        assert not (tmp_path / "groups.jsonl").exists()


def test_a_group_of_most_sequences_takes_8_bytes_per_member():
    """Many equal sequences are one row per region, and their positions."""
    store, count = Store(), 1 << 17
    for a in range(0, 3 * count, count):
        hashes = np.full((count, 2), 5, np.uint64)
        store.add(Seen.of(hashes, np.arange(a, a + count) * 7, np.full(count, 7)).folded(members=True))
    assert 24 * len(store) <= 8 * 3 * count + 3 * 32
    (group,) = (groups := groups_of([store])).lengths.tolist()
    assert (group, groups.members.tolist()) == (7, [7 * k for k in range(3 * count)])


@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(sequence, max_size=12), st.integers(0, 4), st.integers(1, 90), st.randoms(use_true_random=False),
    st.sampled_from([1, 3, 16, 1000]),
    st.sampled_from(["plain", "trailing", Separators.BETWEEN, Separators.AFTER, Separators.BEFORE]), st.booleans(),
)  # fmt: skip
def test_any_regions_in_any_order(drawn, again, region, random, window, kind, loose):
    """Any regions and windows, done in any order, give what lists give; of repeated sequences the first one is named."""
    documents = drawn + drawn[:again]
    if kind == "plain":
        stored, axis = documents, Indexed(Lists(documents), None, "x")
    elif kind == "trailing":
        stored = [[*document, EOS] for document in documents]
        axis = Indexed(Lists(stored), EOS, "x")
    else:
        before = kind is Separators.BEFORE
        stored = [[EOS, *document] if before else [*document, EOS] for document in documents]
        if loose and before and documents and documents[0]:
            stored[0] = documents[0]
        if loose and not before and documents and documents[-1]:
            stored[-1] = documents[-1]
        axis = Streamed(Lists([sum(stored, [])], separators=kind), EOS)
    survey = survey_of(axis, region=region, window=window, shuffle=random.shuffle)
    filled = [tuple(document) for document in documents if document]
    stats, groups = survey.stats, Counter(filled)
    tables = (stats.lengths, stats.ids.table(), stats.first.table(), stats.last.table())
    assert [dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) for table in tables] == [
        Counter(map(len, documents)),
        Counter(sum(stored, [])),
        Counter(document[0] for document in filled),
        Counter(document[-1] for document in filled),
    ]
    repeated = repeats([survey.store])
    assert repeated.surplus == len(filled) - len(groups)
    for group in repeated.largest:
        number = axis.number(group.position, survey.begun)
        assert documents.index(documents[number]) == number
        assert (len(documents[number]), documents.count(documents[number])) == (group.length, group.count)
    listed = groups_of([survey.store]).numbered([partial(axis.numbers, begun=survey.begun)])
    places = defaultdict(list)
    for number, document in enumerate(map(tuple, documents)):
        places[document].append(number)
    ranked = [document for document in groups if groups[document] > 1]
    ranked.sort(key=lambda document: (-groups[document], -len(document), places[document]))
    assert listed.members.tolist() == [number for document in ranked for number in places[document]]
    assert listed.counts.tolist() == [groups[document] for document in ranked]
    assert listed.lengths.tolist() == list(map(len, ranked))


def test_long_sequences_are_hashed_only_when_another_is_as_long():
    long = np.random.default_rng(2).integers(0, 8, 200).tolist()
    for other, repeated in ((long, 1), ([*long[:-1], 8], 0), (long[:-1], 0)):
        axis = Indexed(Lists([[1], long, [2], other]), None, "x")
        survey = survey_of(axis, region=1 << 20, window=16, shuffle=list)
        assert repeats([survey.store]).surplus == repeated
        assert survey.stats.lengths.total == 4
        if len(other) != len(long):
            assert len(survey.store) == sum(len(rows) for rows, _ in survey.store.buckets(256)) == 2


@pytest.mark.parametrize("blocks", [1, 2, 3, 1000, 1 << 18])
def test_a_text_has_its_number_in_any_block(blocks):
    """A block may hold more records than fit in 26 bits: that of a compressed file is all of it."""
    few = min(blocks, 3)
    survey = TextSurvey(None, TextStats(counts=tuple((block, 5) for block in range(few))), None, blocks)
    far = np.array([0, place_of_text(few - 1, 1 << 25, blocks)])
    assert survey.numbers(far).tolist() == [0, 5 * (few - 1) + (1 << 25)]
    assert place_of_text(blocks - 1, 1 << 25, blocks) < 1 << PLACE_BITS
    if blocks == 1:
        assert survey.numbers(np.array([1 << 30])).tolist() == [1 << 30]
