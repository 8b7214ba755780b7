"""Views: each against plain lists."""

from dataclasses import replace

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.model.select import Concat, NonEmpty, Picked, Slice
from tokfmt.plugin import MemoryReader, Ragged
from tokfmt.testing import datasets, sequences

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
    facts = {"pad_id": 3, "split": "a", "other_splits": ("b",), "nonstandard_masks": 0, "loss_masks": "masks"}

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
    for wrong in ((-1, 0), (0, len(flat) + 1), (1, 0)):
        with pytest.raises(IndexError):
            view.tokens(*wrong)
