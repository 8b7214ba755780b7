"""Fingerprints: equal for equal sequences, whatever the dtype and the cuts; different for different ones."""

import itertools

import numpy as np
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.ops.compare.fingerprint import Running, fingerprints
from tokfmt.plugin import Ragged

quick = settings(max_examples=examples(60), deadline=None)


def keys(prints):
    return [tuple(row) for row in prints.tolist()]


@quick
@given(st.lists(st.sampled_from([0, 1, 5, 2**32 - 1, 2**32, 2**40 + 1]), max_size=90), st.data())
def test_wide_ids_and_cuts(row, data):
    tokens = np.array(row, np.uint64)
    whole = fingerprints(Ragged.of([row], np.dtype(np.uint64)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(row)), max_size=4)))
    running = Running()
    for a, b in itertools.pairwise([0, *cuts, len(row)]):
        running.add(tokens[a:b])
    assert np.frombuffer(running.digest(), ">u8").tolist() == whole[0].tolist()


def test_wide_ids_are_not_cut_off():
    for n in (1, 100):
        rows = [[1] * n, [1 + 2**32] * n, [1] * (n - 1) + [1 + 2**32], [1 + 2**33] * n]
        rows = rows if n > 1 else rows[:2]
        found = keys(fingerprints(Ragged.of(rows, np.dtype(np.uint64))))
        assert len(set(found)) == len(rows)


def test_different_sequences_differ_in_either_lane():
    """All sequences of up to 5 tokens over 0..4, every swap of two tokens, one odd token anywhere in up to 80."""
    rows = [list(p) for n in range(6) for p in itertools.product(range(5), repeat=n)]
    rows += [[9] * n + [t] + [9] * m for n in range(40) for m in range(40) for t in (1, 2, 32768, 65535)]
    base = list(range(100, 140))
    for i, j in itertools.combinations(range(40), 2):
        row = base.copy()
        row[i], row[j] = row[j], row[i]
        rows.append(row)
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    prints = fingerprints(Ragged.of(rows))
    for lane in range(2):
        assert len(np.unique(prints[:, lane])) == len(rows)
    bits = np.unpackbits(prints.view(np.uint8).reshape(len(rows), 16), axis=1).mean(0)
    assert (np.abs(bits - 0.5) < 0.1).all()  # no bit is stuck
