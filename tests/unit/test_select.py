"""Views: each against plain lists."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.separated import split_at, with_separators, without_trailing

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.model.select import Chosen, Concat, Known, NonEmpty, Picked, Slice
from tokfmt.plugin import offsets_of
from tokfmt.testing import datasets, sequences

EOS = 9
quick = settings(max_examples=examples(60), deadline=None)


def check_windows(reader, flat, data):
    n = len(flat)
    assert reader.info.tokens == n
    a, b = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    assert reader.tokens(a, b).tolist() == flat[a:b]
    assert reader.tokens(0, n).dtype == reader.info.dtype


@quick
@given(st.data(), st.lists(datasets(20, max_sequences=4), min_size=1, max_size=4))
def test_concat(data, parts):
    view = Concat([MemoryReader(part) for part in parts])
    lists = [s for part in parts for s in part.tolist()]
    assert sequences(view) == lists
    check_windows(view, [t for s in lists for t in s], data)
    i, k = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    lengths = [len(s) for s in lists]
    assert view.offsets(i, k).tolist() == [sum(lengths[:j]) for j in range(i, k + 1)]


def test_facts_of_several_sources_are_those_of_all():
    """What one source alone tells is not told of what they are together."""
    facts = {"pad_id": 3, "split": "a", "other_splits": ("b",), "odd": (0, -1), "loss_masks": "masks"}

    def source(**how):
        reader = MemoryReader(Ragged.of([[1, 2]]))
        reader.info = replace(reader.info, **facts, **how)
        return reader

    one, same, other = (source(extras={"width": 2, "order": order}) for order in ("le", "le", "be"))
    assert Concat([one, same]).info.extras == {"width": 2, "order": "le"}
    told = Concat([one, other, MemoryReader(Ragged.of([[7]]))]).info
    assert Concat([one, other]).info.extras == {"width": 2}
    assert told.extras == {}
    assert (told.pad_id, told.split, told.other_splits, told.nonstandard_masks, told.loss_masks) == (
        None,
        None,
        (),
        None,
        "",
    )
    assert {name: getattr(Concat([one, other]).info, name) for name in facts} == facts


@quick
@given(st.data(), datasets(20))
def test_slice_and_nonempty(data, ragged):
    lists = ragged.tolist()
    i, k = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    assert sequences(Slice(MemoryReader(ragged), i, k)) == lists[i:k]
    assert sequences(NonEmpty(MemoryReader(ragged))) == [s for s in lists if s]


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.sampled_from([1, 9, 300]))
def test_any_window_of_picked_sequences(data, length):
    """Near ones and far ones, in any order, also twice."""
    count = 300_000 // length
    ids = np.arange(count * length, dtype=np.uint32)
    source = MemoryReader(Ragged(ids, np.arange(0, count * length + 1, length)))
    numbers = data.draw(st.lists(st.integers(0, 40) | st.integers(0, count - 1), max_size=30))
    flat = [token for number in numbers for token in range(number * length, (number + 1) * length)]
    view = Picked(source, np.array(numbers, np.int64))
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(flat))] * 2)))
    assert view.tokens(a, b).tolist() == flat[a:b]
    for position in range(0, len(flat), 1 + length // 3):
        reader, there = view.to_source(position)
        assert reader.tokens(there, there + 1).tolist() == [flat[position]]
        assert flat[view.from_source(there)] == flat[position]


def stored_stream(lists):
    """A reader of one stream: the separator after each list."""
    flat = [t for s in lists for t in [*s, EOS]]
    return MemoryReader(Ragged.of([flat] if flat else []))


def documents(flat):
    """The sequences of a stream. One between two separators is empty, and no separator need follow the last."""
    found = [[]]
    for token in flat:
        found.append([]) if token == EOS else found[-1].append(token)
    return found if found[-1] else found[:-1]


@quick
@given(st.data(), datasets(20, avoid=EOS), st.integers(0, 3), st.booleans())
def test_separators_taken_away_and_put_in_again(data, ragged, padding, ended):
    """The short cut through the stored axis gives what the long way gives."""
    lists = ragged.tolist()
    flat = [t for s in lists for t in [*s, EOS]] + [EOS] * padding
    flat = flat if ended else flat[:-1]
    stream = split_at(MemoryReader(Ragged.of([flat] if flat else [])), EOS)
    trailing = without_trailing(MemoryReader(Ragged.of([[*s, EOS] for s in lists])), EOS, "x")
    for view, kept in ((stream, documents(flat)), (trailing, lists), (Known(trailing, 3), lists)):
        again = with_separators(view, EOS)
        check_windows(again, [t for s in kept for t in [*s, EOS]], data)
        assert sequences(again) == [[*s, EOS] for s in kept]
        other = with_separators(view, EOS + 1)
        assert sequences(other) == [[*s, EOS + 1] for s in kept]


def test_views_of_nothing():
    nothing = MemoryReader(Ragged.of([]))
    for view in (
        with_separators(nothing, EOS),
        without_trailing(nothing, EOS, "x"),
        split_at(nothing, EOS),
        NonEmpty(nothing),
    ):
        assert (view.info.sequences, view.info.tokens) == (0, 0)
        assert view.tokens(0, 0).tolist() == []
        assert view.offsets(0, 0).tolist() == [0]


def test_views_travel():
    view = Known(split_at(stored_stream([[1, 2], [3]]), EOS), 3)
    again = pickle.loads(pickle.dumps(view))
    assert sequences(again) == [[1, 2], [3]]
    assert again.info.max_id == 3


def test_a_stream_of_several_scans_is_split():
    """A thread scans a million tokens at once, and separators lie at random places of them."""
    lengths = np.random.default_rng(4).integers(0, 9, 700_000)
    offsets = offsets_of(lengths + 1)
    flat = np.ones(int(offsets[-1]), np.uint8)
    flat[offsets[1:] - 1] = EOS
    view = split_at(MemoryReader(Ragged(flat, np.array([0, len(flat)]))), EOS)
    assert np.array_equal(view.offsets(0, len(lengths)), offsets_of(lengths))
    assert np.array_equal(view.tokens(0, view.info.tokens), np.ones(int(lengths.sum()), np.uint8))


@quick
@given(st.data(), datasets(max_sequences=20, max_length=9))
def test_chosen(data, ragged):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(ragged), max_size=len(ragged))), np.bool_)
    view = Chosen(MemoryReader(ragged), lambda first, last: mask[first:last])
    lists = [s for s, kept in zip(ragged.tolist(), mask, strict=True) if kept]
    flat = [t for s in lists for t in s]
    assert view.info.sequences == len(lists)
    check_windows(view, flat, data)
    assert sequences(view) == lists


@pytest.mark.parametrize("share", [0, 1e-5, 1e-3, 0.5, 1])
def test_chosen_of_many(share):
    """More sequences than are looked at at once, more tokens than a window, gaps that are read and that are not."""
    rng = np.random.default_rng(6)
    offsets = offsets_of(rng.integers(0, 10, 300_000))
    ids = np.arange(int(offsets[-1]), dtype=np.uint32)
    mask = rng.random(300_000) < share
    view = Chosen(MemoryReader(Ragged(ids, offsets)), lambda first, last: mask[first:last])
    expected = ids[np.repeat(mask, np.diff(offsets))]
    assert (view.info.sequences, view.info.tokens) == (mask.sum(), len(expected))
    assert np.array_equal(view.tokens(0, len(expected)), expected)
    assert np.array_equal(view.offsets(0, view.info.sequences), offsets_of(np.diff(offsets)[mask]))
    for start, stop in np.sort(rng.integers(0, len(expected) + 1, (20, 2))).tolist():
        assert np.array_equal(view.tokens(start, stop), expected[start:stop])


def test_near_sequences_are_read_together_and_far_ones_are_not():
    class Counting(MemoryReader):
        reads = []

        def tokens(self, start, stop):
            self.reads.append((start, stop))
            return super().tokens(start, stop)

    ids = np.arange(600_000, dtype=np.uint32)
    source = Counting(Ragged(ids, np.arange(0, 600_001, 100)))
    numbers = np.arange(6000)
    every_second = Chosen(source, lambda first, last: numbers[first:last] % 2 == 0)
    assert np.array_equal(every_second.tokens(0, 300_000), ids[ids // 100 % 2 == 0])
    assert len(source.reads) == 1
    source.reads.clear()
    rare = Chosen(source, lambda first, last: numbers[first:last] % 2000 == 0)
    assert np.array_equal(rare.tokens(0, 300), ids[ids // 100 % 2000 == 0])
    assert source.reads == [(0, 100), (200_000, 200_100), (400_000, 400_100)]
