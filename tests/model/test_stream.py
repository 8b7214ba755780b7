"""The contents of a stream in five bytes each are what two arrays of eight bytes say."""

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.model.stream import Compact

WIDEST = {"usual": (2, 50), "gaps": (300, 9), "long gaps": (70_000, 9), "long": (2, 2**33)}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(WIDEST)), st.integers(0, 2000), st.integers(0, 2**32), st.lists(st.integers(0, 2000)))
def test_contents_are_those_that_were_found(kind, count, seed, cuts):
    """In blocks of any size, as a scan finds them, with gaps and lengths of any width."""
    random, (gap, length) = np.random.default_rng(seed), WIDEST[kind]
    gaps, lengths = random.integers(0, gap, count), random.integers(0, length, count)
    stops = np.cumsum(gaps + lengths)
    starts, beside = stops - lengths, random.integers(0, 2, count).astype(np.uint8)
    bounds = [0, *sorted(min(cut, count) for cut in cuts), count]
    held = Compact((starts[a:b], stops[a:b], beside[a:b]) for a, b in zip(bounds, bounds[1:], strict=False))
    assert held.count == count
    first, last = sorted(random.integers(0, count + 1, 2).tolist())
    found = held.contents(first, last)
    assert np.array_equal(found, (starts[first:last], stops[first:last]))
    assert found[0].dtype == found[1].dtype == np.int64
    if not count:
        return
    numbers = random.integers(0, count, 40)
    assert np.array_equal(held.contents_of(numbers), (starts[numbers], stops[numbers]))
    assert held.is_closed(numbers).tolist() == (beside[numbers] > 0).tolist()
    find = held.finder(0, 1)
    for number in numbers.tolist():
        assert find(number) == (starts[number], stops[number] + (beside[number] > 0))


@pytest.mark.parametrize(("gap", "bytes_each"), [(1, 5.1), (1000, 12.1)])
def test_bytes_per_sequence(gap, bytes_each):
    starts = np.arange(100_000) * (gap + 9) + gap
    held = Compact([(starts, starts + 9, np.ones(len(starts), np.uint8))])
    arrays = [value for value in vars(held).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < bytes_each * len(starts)
