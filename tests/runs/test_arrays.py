"""Arrays of orders: what is built again is built once, and what is damaged is found, as with sets and lists."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokfmt.errors import LoaderWarning
from tokfmt.runs.arrays import Held, Wrapped, kept, random_permutation, repeated


@given(st.lists(st.integers(-1, 12), max_size=12))
def test_entries_that_no_permutation_has(entries):
    wrong = [k for k, entry in enumerate(entries) if not 0 <= entry < len(entries) or entry in entries[:k]]
    assert repeated(Held(np.array(entries, np.int64))) == ((wrong[0], wrong[-1]) if wrong else None)


@given(st.permutations(range(40)), st.integers(0, 39))
def test_ranges_of_numbers_are_searched_one_after_another(entries, place):
    assert repeated(Held(np.array(entries)), 7) is None
    entries[place] = entries[0]
    assert repeated(Held(np.array(entries)), 7) == ((place, place) if place else None)


@pytest.mark.parametrize(("count", "seed"), [(0, 1), (1, 1), (2, 3), (1000, 2**33 + 5)])
def test_the_permutation_of_torch(count, seed):
    """Swaps with draws of the generator, one after another."""
    draws = np.random.RandomState(seed & 0xFFFFFFFF).randint(0, 2**32, max(count - 1, 0), np.uint32).tolist()
    truth = list(range(count))
    for at, draw in enumerate(draws):
        other = at + draw % (count - at)
        truth[at], truth[other] = truth[other], truth[at]
    assert random_permutation(count, seed).tolist() == truth


def test_a_long_array_is_announced_and_built_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made, count = [], 1 << 18

    def parts():
        made.append(1)
        for first in range(0, count, 1 << 16):
            yield [np.arange(first, first + (1 << 16), dtype=np.uint32)]

    with pytest.warns(LoaderWarning, match="262,144"):
        (built,) = kept(("a", 1), count, ["numbers.u32"], parts, least=1 << 17)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (again,) = kept(("a", 1), count, ["numbers.u32"], parts, least=1 << 17)
    assert len(made) == 1 and np.array_equal(built.read(0, count), np.arange(count))
    assert np.array_equal(again.take(np.array([5, 77_777])), [5, 77_777])
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.u32")) == 4 * count
    with pytest.warns(LoaderWarning):
        kept(("a", 2), count, ["numbers.u32"], parts, least=1 << 17)
    assert len(made) == 2


def test_numbers_begin_again_at_the_end_of_their_source():
    wrapped = Wrapped(Held(np.array([0, 1, 2, 3, 4])), Held(np.array([0, 1, 0, 1, 0])), [3, 2])
    assert wrapped.read(0, 5).tolist() == [0, 1, 2, 1, 1] and wrapped.take(np.array([4, 3])).tolist() == [1, 1]
