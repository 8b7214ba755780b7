"""A view of chosen sequences, against lists."""

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.model import select as chosen
from tokfmt.model.select import Chosen
from tokfmt.testing import datasets, sequences

quick = settings(max_examples=examples(80), deadline=None)


@quick
@given(
    st.data(), datasets(max_sequences=20, max_length=9), st.sampled_from([0, 3, 1 << 16]), st.sampled_from([1, 7, 64])
)
def test_against_lists(data, ragged, gap, window):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(ragged), max_size=len(ragged))), np.bool_)
    names = ("_GAP", "WINDOW", "_MANY")
    before = [getattr(chosen, name) for name in names]
    try:
        chosen._GAP, chosen.WINDOW, chosen._MANY = gap, window, 3
        view = Chosen(MemoryReader(ragged), lambda first, last: mask[first:last])
        expected = [s for s, kept in zip(ragged.tolist(), mask, strict=True) if kept]
        flat = [t for s in expected for t in s]
        assert (view.info.sequences, view.info.tokens) == (len(expected), len(flat))
        a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(flat))] * 2)))
        assert view.tokens(a, b).tolist() == flat[a:b]
        assert view.tokens(0, len(flat)).dtype == view.info.dtype
    finally:
        for name, value in zip(names, before, strict=True):
            setattr(chosen, name, value)
    assert sequences(view) == expected
    for wrong in ((-1, 0), (0, len(flat) + 1), (1, 0)):
        with pytest.raises(IndexError):
            view.tokens(*wrong)


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
