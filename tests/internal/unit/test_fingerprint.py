"""Fingerprints: equal for equal sequences, whatever the dtype and the cuts; different for different ones."""

import numpy as np
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core import reader as token_axis
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.ops.compare.fingerprint import SHORT, AxisSide, fingerprints, hands

quick = settings(max_examples=examples(60), deadline=None)
lengths = st.lists(st.sampled_from([0, 1, 2, 3, SHORT - 1, SHORT, SHORT + 1, 200]), max_size=8)


def sequences(lengths, seed, top):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, top, n, dtype=np.uint64).tolist() for n in lengths]


def keys(prints):
    return [tuple(row) for row in prints.tolist()]


@quick
@given(lengths, st.integers(0, 99), st.sampled_from([2, 256]))
def test_neither_dtype_nor_neighbors_nor_cuts_matter(lengths, seed, top):
    rows = sequences(lengths, seed, top)
    alone = [keys(fingerprints(Ragged.of([row])))[0] for row in rows]
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        ragged = Ragged.of(rows, np.dtype(dtype))
        assert keys(fingerprints(ragged)) == alone
        for window in (7, 70, 10_000):
            with_window = token_axis.WINDOW
            token_axis.WINDOW = window
            try:
                with hands(1) as workers:
                    found = AxisSide(MemoryReader(ragged)).fingerprints(0, workers, lambda tokens: None)
                    ends = Ragged.of([[*row, 99] for row in rows], np.dtype(dtype))
                    bare = AxisSide(MemoryReader(ends), ignored_end=99).fingerprints(0, workers, lambda tokens: None)
            finally:
                token_axis.WINDOW = with_window
            assert keys(found) == alone
            if not any(row and row[-1] == 99 for row in rows):
                assert keys(bare) == alone
