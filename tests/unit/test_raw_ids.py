"""Tokens whose bytes stand in the wrong order are reported as such: no separator is inferred of them."""

import numpy as np
import pytest

from tokfmt.core.raw_ids import byte_swapped


@pytest.mark.parametrize("vocabulary", [300, 1_000, 32_000, 50_257, 65_536])
@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_byte_order_is_inferred_from_ids(vocabulary, dtype):
    ids = np.random.default_rng(2).zipf(1.2, 200_000) % vocabulary
    ids = ids.astype(dtype)
    assert not byte_swapped(ids)
    assert not byte_swapped(np.arange(vocabulary, dtype=dtype))
    shows = dtype == "<u4" or 512 <= vocabulary < 61_440
    assert byte_swapped(ids.byteswap()) == shows


def test_a_few_ids_show_nothing():
    assert not byte_swapped(np.asarray([], "<u2"))
    assert not byte_swapped(np.asarray([256 * k for k in range(200)], "<u2"))
