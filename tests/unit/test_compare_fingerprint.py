"""Fingerprints: equal for equal sequences, whatever the dtype and the cuts; different for different ones."""

import itertools

import numpy as np
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.commands.compare.fingerprint import SHORT, AxisSide, Running, fingerprints, fingerprints_between, hands
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.plugin import offsets_of

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


def on_axis(reader, **how):
    with hands(1) as workers:
        return keys(AxisSide(reader, **how).fingerprints(0, workers, lambda tokens: None))


@quick
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, SHORT - 1, SHORT, SHORT + 1, 200]), max_size=8),
    st.integers(0, 99),
    st.sampled_from([2, 256]),
)
def test_neither_dtype_nor_neighbors_matter(lengths, seed, top):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, top, n, dtype=np.uint64).tolist() for n in lengths]
    alone = [keys(fingerprints(Ragged.of([row])))[0] for row in rows]
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        ragged = Ragged.of(rows, np.dtype(dtype))
        assert keys(fingerprints(ragged)) == alone
        assert on_axis(MemoryReader(ragged)) == alone
        if not any(row and row[-1] == 99 for row in rows):
            ended = Ragged.of([[*row, 99] for row in rows], np.dtype(dtype))
            assert on_axis(MemoryReader(ended), ignored_end=99) == alone


def test_windows_do_not_matter():
    """Sequences that cross a window of a million tokens, that fill one, and that are longer than two."""
    rng = np.random.default_rng(5)
    lengths = np.array([999_990, 30, 0, 2_500_000, 1, 1 << 20, *rng.integers(0, 3 * SHORT, 2000)])
    offsets = offsets_of(lengths)
    tokens = rng.integers(0, 256, int(offsets[-1]), np.uint8)
    alone = [keys(fingerprints(Ragged.of([tokens[a:b]])))[0] for a, b in itertools.pairwise(offsets.tolist())]
    assert on_axis(MemoryReader(Ragged(tokens, offsets))) == alone


@quick
@given(
    st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=5) | st.lists(st.integers(0, 1), min_size=1, max_size=90),
        max_size=40,
    ),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
)
def test_equal_sequences_have_equal_hashes_wherever_they_lie(sequences, dtype):
    rows = [[2], *sequences, [1, 1], *sequences[::-1]]
    offsets = offsets_of([len(row) for row in rows])
    hashes = fingerprints_between(np.array(sum(rows, []), dtype), offsets[:-1], offsets[1:])
    by_row = {}
    for row, value in zip(rows, keys(hashes), strict=True):
        assert by_row.setdefault(tuple(row), (*value, len(row))) == (*value, len(row))
    assert len(set(by_row.values())) == len(by_row)
