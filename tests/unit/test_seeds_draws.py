"""Draws depend on seed, purpose and position only; these numbers are a promise."""

from itertools import islice

import numpy as np
import pytest

from tokfmt.base.seeds import SAMPLE, SHUFFLE, SPLIT, check_seed, draws, random_order
from tokfmt.errors import OptionError


def philox(key, counter):
    """Philox4x64-10 in plain integers, from the paper."""
    mask = (1 << 64) - 1
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * c[0], 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * c[2], 1 << 64)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c


@pytest.mark.parametrize(("seed", "purpose"), [(0, SHUFFLE), (7, SPLIT), (2**64 - 1, SHUFFLE)])
def test_against_the_paper(seed, purpose):
    expected = [word for block in range(5) for word in philox((seed, purpose), (block + 1, 0, 0, 0))]
    assert draws(seed, purpose, 0, 20).tolist() == expected
    far = 10**12 + 3
    assert draws(seed, purpose, far, far + 1).tolist() == [philox((seed, purpose), (far // 4 + 1, 0, 0, 0))[far % 4]]


def test_known_numbers():
    assert draws(7, SHUFFLE, 0, 3).tolist() == [16278639771243212573, 6807555713146629974, 9538252321840362231]


def test_any_window_is_a_window_of_the_whole():
    whole = draws(5, SPLIT, 0, 100)
    for first in range(0, 100, 7):
        for last in range(first, 100, 5):
            assert np.array_equal(draws(5, SPLIT, first, last), whole[first:last])


def test_purposes_and_seeds_differ():
    seen = {tuple(draws(seed, purpose, 0, 4).tolist()) for seed in range(50) for purpose in (SHUFFLE, SPLIT)}
    assert len(seen) == 100


def test_invalid_seeds_are_refused():
    assert check_seed(2**64 - 1, "--seed") == 2**64 - 1
    for wrong in (-1, 2**64):
        with pytest.raises(OptionError, match=rf"--shuffle: .* found {wrong:,}$"):
            check_seed(wrong, "--shuffle")


def test_a_sample_is_the_same_for_ever():
    """Drawn by the project's own numbers, which no release of a library changes."""
    first = [list(islice(random_order(1000, seed, SAMPLE), 5)) for seed in (0, 7)]
    assert first == [[298, 890, 576, 3, 689], [361, 864, 806, 584, 144]]
    assert sorted(random_order(777, 3, SAMPLE)) == list(range(777))
