"""Statistics are a monoid: any partition, any order, any window gives the numbers that lists give."""

import functools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core import reader as core_axis
from tokfmt.core.reader import Info, Layout, Separators
from tokfmt.ops.stats import duplicates, tables, texts, walk
from tokfmt.ops.stats.duplicates import Store, repeats
from tokfmt.ops.stats.tables import Counts, Table
from tokfmt.ops.stats.walk import Indexed, Stats, Streamed, Tally, measure
from tokfmt.plugin import TokenReader
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress

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


def small_windows(size):
    """Walk in windows of so many tokens."""
    patch = pytest.MonkeyPatch()
    patch.setattr(walk, "WINDOW", size)
    patch.setattr(walk, "windows", lambda a, b, s=size: core_axis.windows(a, b, min(s, size)))
    return patch


def parts_of(axis, cuts):
    total = axis.info.tokens
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < total}), total]
    for a, b in zip(bounds, bounds[1:], strict=False):
        tally = Tally(duplicates=True)
        axis.walk(a, b, tally)
        yield tally.done()


def summary(stats, axis):
    """Everything that is told of a sum of parts, once what no part saw whole has been looked at."""
    job = walk._Job(axis, np.dtype(np.uint16))
    store = Store()
    store.add(stats.seen.folded())
    total = stats
    for batch in walk._batches(axis.leftover(stats), Table.of(np.arange(1000).repeat(2))):
        part = walk._count_loose(job, batch)
        store.add(part.seen)
        total += part
    total = axis.with_empties(total)
    lengths = dict(zip(total.lengths.keys.tolist(), total.lengths.counts.tolist(), strict=True))
    ids, first, last = (
        dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True))
        for table in (total.ids.table(), total.first.table(), total.last.table())
    )
    return lengths, ids, first, last, repeats([store])


def wanted(documents, stored):
    filled = [tuple(d) for d in documents if d]
    groups = Counter(filled)
    surplus = sum(groups.values()) - len(groups)
    return (
        dict(Counter(len(d) for d in documents)),
        dict(Counter(stored)),
        dict(Counter(d[0] for d in filled)),
        dict(Counter(d[-1] for d in filled)),
        surplus,
    )


sequence = st.lists(st.integers(0, 8), max_size=12) | st.lists(st.integers(0, 8), min_size=30, max_size=60)
cuts = st.lists(st.integers(0, 400), max_size=8)
STREAMS = [Separators.BETWEEN, Separators.AFTER, Separators.BEFORE]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(sequence, max_size=12), st.integers(0, 4), cuts, st.randoms(use_true_random=False),
    st.sampled_from([1, 3, 16, 1000]), st.sampled_from(["plain", "trailing", *STREAMS]), st.booleans(),
)  # fmt: skip
def test_any_partition_any_order(drawn, again, cuts, random, window, kind, loose):
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
    flat = [token for one in stored for token in one]
    patch = small_windows(window)
    try:
        parts = list(parts_of(axis, cuts))
        random.shuffle(parts)
        left = functools.reduce(Stats.__add__, parts, Stats())
        random.shuffle(parts)
        right = functools.reduce(lambda a, b: b + a, parts, Stats())
        half = len(parts) // 2
        middle = sum(parts[1:half], parts[0]) + sum(parts[half + 1 :], parts[half]) if len(parts) > 1 else left
        whole = next(parts_of(axis, []))
        found = summary(whole, axis)
        lengths, ids, first, last, surplus = wanted(documents, flat)
        assert found[:4] == (lengths, ids, first, last)
        assert found[4].surplus == surplus
        for one in (left, right, middle):
            assert summary(one, axis) == found
        for group in found[4].largest:
            begin = documents[axis.number(group.position, left.begun)]
            assert len(begin) == group.length
            assert documents.count(begin) == group.count
            assert begin not in documents[: axis.number(group.position, left.begun)]
        places = np.sort([group.position for group in found[4].largest]).astype(np.int64)
        numbers = [axis.number(place, left.begun) for place in places.tolist()]
        assert axis.numbers(places, left.begun).tolist() == numbers
    finally:
        patch.undo()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(sequence, min_size=1, max_size=12), st.integers(1, 6), st.integers(1, 90),
    st.randoms(use_true_random=False), st.booleans(),
)  # fmt: skip
def test_any_regions_done_in_any_order(drawn, again, region, random, stream):
    """What `measure` names for a repeated sequence is the first of them, in whatever order its regions are done."""
    documents = [[1], *drawn, *drawn[:again]]
    stored = [[*document, EOS] for document in documents]
    axis = (
        Streamed(Lists([sum(stored, [])], separators=Separators.BETWEEN), EOS)
        if stream
        else Indexed(Lists(stored), EOS, "x")
    )

    def any_order(workers, function, shared, items):
        found = [function(shared, item) for item in items]
        random.shuffle(found)
        yield from found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "map", any_order)
        patch.setattr(walk, "_size", lambda axis: region)
        survey = measure([axis], Workers(SerialExecutor(), 1, Path()), progress=Progress())[0]
    lengths, *_, surplus = wanted(documents, [])
    assert dict(zip(survey.stats.lengths.keys.tolist(), survey.stats.lengths.counts.tolist(), strict=True)) == lengths
    found = repeats([survey.store])
    assert found.surplus == surplus
    for group in found.largest:
        number = axis.number(group.position, survey.begun)
        assert documents.index(documents[number]) == number
        assert (len(documents[number]), documents.count(documents[number])) == (group.length, group.count)


ids = st.integers(0, 50) | st.integers(0, 2**64 - 1)


def test_more_ids_than_are_kept(monkeypatch):
    """Which ids are kept does not depend on the parts; their counts are exact, the number of all is estimated."""
    monkeypatch.setattr(tables, "KEPT", 1 << 10)
    rng = np.random.default_rng(0)
    known = rng.integers(1 << 21, 1 << 63, 20_000).astype(np.uint64)
    tokens = known[rng.integers(0, len(known), 100_000)]
    pieces = [Counts.of(part) for part in np.array_split(tokens, 7)]
    total, other = functools.reduce(Counts.__add__, pieces), functools.reduce(Counts.__add__, pieces[::-1])
    assert total == other == Counts.of(tokens)
    assert total.clipped
    assert len(total.sparse) == 1 << 10
    exact = Counter(tokens.tolist())
    table = total.table()
    assert all(exact[key] == count for key, count in zip(table.keys.tolist(), table.counts.tolist(), strict=True))
    assert total.distinct == pytest.approx(len(exact), rel=0.1)
    assert total.largest == max(exact)


def test_duplicates_never_fill_memory(monkeypatch):
    """Beyond a share of memory they are left out, with a note, whether that is known beforehand or not."""
    sequences = [[1, 2]] * 3 + [[k, k + 1] for k in range(40)]
    ended = [[*one, EOS] for one in sequences]
    axes = [Indexed(Lists(sequences), None, "x"), Streamed(Lists([sum(ended, [])], separators=Separators.BETWEEN), EOS)]
    for axis in axes:
        for room, left_out in ((24 * 50, False), (24 * 20, True)):
            monkeypatch.setattr(duplicates.resources, "share", lambda room=room: room)
            with monkeypatch.context() as patch:
                patch.setattr(walk, "_size", lambda axis: 7)
                found = measure(
                    [axis, axes[0]][: 1 + left_out], Workers(SerialExecutor(), 1, Path()), progress=Progress()
                )
            assert [survey.store is None for survey in found] == [left_out] * len(found)
            assert [survey.notes for survey in found] == [(duplicates.TOO_MANY,) * left_out] * len(found)
            assert found[0].stats.lengths.total == (len(sequences) if axis is axes[0] else sum(ended, []).count(EOS))


@pytest.mark.parametrize("blocks", [1, 2, 3, 1000, 1 << 18])
def test_a_text_has_its_number_in_any_block(blocks):
    """A block may hold more records than fit in 26 bits: that of a compressed file is all of it."""
    bits = texts._local_bits(blocks)
    counts = tuple((k, 5) for k in range(min(blocks, 3)))
    survey = texts.TextSurvey(None, texts.TextStats(counts=counts), None, blocks)
    last = min(blocks, 3) - 1
    far = np.array([0, (last << bits) + (1 << 25)])
    assert survey.numbers(far).tolist() == [0, 5 * last + (1 << 25)]
    assert ((blocks - 1) << bits) + (1 << 25) < 1 << duplicates.PLACE_BITS
    if blocks == 1:
        assert survey.numbers(np.array([1 << 30])).tolist() == [1 << 30]


def test_long_sequences_are_hashed_only_when_another_is_as_long():
    patch = small_windows(16)
    try:
        rng = np.random.default_rng(2)
        long = rng.integers(0, 9, 200).tolist()
        for other, repeated in ((long, 1), (long[:-1] + [8 - long[-1] if long[-1] != 4 else 3], 0), (long[:-1], 0)):
            axis = Indexed(Lists([[1], long, [2], other]), None, "x")
            survey = measure([axis], Workers(SerialExecutor(), 1, Path()), progress=Progress())[0]
            assert repeats([survey.store]).surplus == repeated
            assert survey.stats.lengths.total == 4
            if len(other) != len(long):
                assert len(survey.store) == sum(map(len, survey.store.buckets(256))) == 2
    finally:
        patch.undo()
