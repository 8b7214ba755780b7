"""The shuffle: a bijection, the order that keys say, whatever the buckets, workers and windows."""

import pickle
import tempfile
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from amount import examples, first
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import Machine

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout, TokenReader, windows
from tokfmt.errors import TokfmtError
from tokfmt.plugin import offsets_of
from tokfmt.run import shuffle
from tokfmt.run.execute import SerialExecutor, make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.shuffle import shuffled
from tokfmt.testing import datasets, sequences

SHUFFLE = 1
"""The purpose of these draws, in the key of the generator."""
quick = settings(max_examples=examples(40), deadline=None)


@contextmanager
def shuffling(source, seed, *, bucket=None, executor="serial", jobs=1):
    with tempfile.TemporaryDirectory() as home, make_executor(executor, jobs) as pool:
        with shuffled(source, seed, Workers(pool, jobs, Path(home)), bucket=bucket) as reader:
            yield reader
        assert [p for p in Path(home).iterdir() if "shuffle" in p.name] == []


@quick
@given(datasets(), st.integers(0, 2**64 - 1), st.integers(1, 400))
def test_every_sequence_once_in_order_of_its_key(ragged, seed, bucket):
    lists = ragged.tolist()
    with shuffling(MemoryReader(ragged), seed, bucket=bucket) as reader:
        assert sequences(reader) == [lists[i] for i in order_of(len(lists), seed)]
        assert (reader.info.sequences, reader.info.tokens) == (len(lists), len(ragged.tokens))


@quick
@given(st.data(), datasets(max_sequences=30))
def test_the_axis_is_an_axis(data, ragged):
    with shuffling(MemoryReader(ragged), 1, bucket=64) as reader:
        n, total = reader.info.sequences, reader.info.tokens
        flat, offsets = reader.tokens(0, total), reader.offsets(0, n)
        assert flat.dtype == ragged.tokens.dtype
        assert (offsets.dtype, int(offsets[0]), int(offsets[-1])) == (np.int64, 0, total)
        a, b = sorted(data.draw(st.tuples(*[st.integers(0, total)] * 2)))
        assert np.array_equal(reader.tokens(a, b), flat[a:b])
        i, k = sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))
        assert np.array_equal(reader.offsets(i, k), offsets[i : k + 1])


def order_of(count, seed):
    """What the method says: by key, equal keys by number. Keys are what numpy's Philox draws."""
    keys = np.random.Philox(key=np.array([seed, SHUFFLE], np.uint64)).random_raw(count).tolist()
    return sorted(range(count), key=lambda i: (keys[i], i))


def in_order(ragged, order):
    """The sequences of an order."""
    offsets = ragged.offsets
    parts = [ragged.tokens[offsets[i] : offsets[i + 1]] for i in order]
    return Ragged(np.concatenate(parts), offsets_of(np.diff(offsets)[order]))


def some(count=3000, mean=40, seed=2, dtype=np.uint16):
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(0, 2 * mean, count))
    return Ragged(rng.integers(0, 251, int(offsets[-1]), dtype), offsets)


def test_a_sequence_of_three_windows():
    ids = (np.arange(3 << 20) % 251).astype(np.uint8)
    ragged = Ragged(np.concatenate([ids[:9], ids, ids[:5]]), np.array([0, 9, 9 + len(ids), 14 + len(ids)]))
    with shuffling(MemoryReader(ragged), 5) as reader:
        at = order_of(3, 5).index(1)
        a, b = reader.offsets(at, at + 1).tolist()
        assert np.array_equal(reader.tokens(a, b), ids)


def test_nothing_and_empties():
    for lists in ([], [[]], [[]] * 50):
        with shuffling(MemoryReader(Ragged.of(lists)), 4, bucket=100) as reader:
            assert sequences(reader) == lists
            assert reader.tokens(0, 0).tolist() == []


def test_every_permutation_of_four_is_as_likely():
    """2,400 seeds over 24 permutations: chi-square below 60 (23 degrees of freedom; p = 4e-5)."""
    counts = Counter(tuple(order_of(4, seed)) for seed in range(2400))
    assert len(counts) == 24
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 60


def test_places_are_uniform():
    """Where the first tenth of 20,000 sequences goes: 20 parts of the output, chi-square below 55 (19 degrees)."""
    count = 20_000
    ragged = Ragged(np.arange(count, dtype=np.uint32), np.arange(count + 1))
    with shuffling(MemoryReader(ragged), 1, bucket=50_000) as reader:
        order = reader.tokens(0, count)
    assert np.array_equal(np.sort(order), np.arange(count))
    places = np.flatnonzero(order < count // 10)
    parts = np.bincount(places * 20 // count, minlength=20)
    assert float(((parts - 100) ** 2 / 100).sum()) < 55
    neighbors = int((np.diff(order.astype(np.int64)) == 1).sum())
    assert neighbors < 10, "neighbors stay neighbors about once in a shuffle"


def test_seeds_differ():
    ragged = some(200, 5)
    found = []
    for seed in range(6):
        with shuffling(MemoryReader(ragged), seed) as reader:
            found.append(tuple(map(tuple, sequences(reader))))
    assert len(set(found)) == 6


class Computed(TokenReader):
    """A source that holds nothing: `count` sequences of eight tokens."""

    def __init__(self, count):
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint16), count, count * 8)

    def tokens(self, start, stop):
        return (np.arange(start, stop) >> 3).astype(np.uint16)

    def offsets(self, first, last):
        return np.arange(first, last + 1) * 8

    def close(self):
        pass


def peak_of(count):
    with tempfile.TemporaryDirectory() as home:
        tracemalloc.start()
        with shuffled(Computed(count), 1, Workers(SerialExecutor(), 1, Path(home)), bucket=1 << 21) as reader:
            total = 0
            for a, b in windows(0, reader.info.tokens):
                total += int(reader.tokens(a, b).astype(np.int64).sum())
            assert reader.offsets(count, count).tolist() == [count * 8]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert total == int((np.arange(count) & 0xFFFF).sum()) * 8
    return peak


def test_memory_does_not_grow_with_sequences():
    """A million sequences take what a quarter of a million take: windows and buckets, nothing a sequence."""
    small, large = peak_of(250_000), peak_of(1_000_000)
    assert large < 64 << 20
    assert large < small + (4 << 20), (small, large)


@pytest.mark.parametrize(("executor", "jobs"), [("serial", 1), ("threads", 3), ("processes", 2)])
@pytest.mark.parametrize("bucket", first(1, [1 << 22, None, 1 << 20]))
@pytest.mark.usefixtures("kept_workers")
def test_same_whatever_the_parallelism(executor, jobs, bucket):
    """Of 20 million tokens, which two tasks scatter."""
    ragged = some(50_000, 400, dtype=np.uint8)
    expected = in_order(ragged, np.array(order_of(len(ragged), 11)))
    assert len(shuffle.cuts(MemoryReader(ragged))) > 1
    with shuffling(MemoryReader(ragged), 11, bucket=bucket, executor=executor, jobs=jobs) as reader:
        assert np.array_equal(reader.offsets(0, len(ragged)), expected.offsets)
        with ThreadPoolExecutor(4) as pool:  # readers are shared by threads
            parts = list(pool.map(lambda w: reader.tokens(*w), windows(0, reader.info.tokens, 333_333)))
        assert np.array_equal(np.concatenate(parts), expected.tokens)
        assert np.array_equal(pickle.loads(pickle.dumps(reader)).tokens(5, 5000), expected.tokens[5:5000])


def test_a_bucket_that_many_threads_want():
    source = MemoryReader(Ragged.of([[k] * 50 for k in range(400)]))
    with shuffling(source, 5) as reader, ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda _: reader.tokens(0, 20_000).tolist(), range(8)))
    assert all(tokens == read[0] for tokens in read)


def test_shuffle_beyond_memory_is_refused_before_work(tmp_path, monkeypatch):
    """A machine of 16 KB holds no bucket."""
    machine = Machine(tmp_path, monkeypatch)
    machine.own.write_text("0::/\n")
    machine.write({"memory.max": str(1 << 14)})
    source = MemoryReader(Ragged.of([[k] * 50 for k in range(400)]))
    (tmp_path / "scratch").mkdir()
    with (
        SerialExecutor() as executor,
        pytest.raises(TokfmtError, match="would take about 0 GB of memory"),
        shuffled(source, 5, Workers(executor, 1, tmp_path / "scratch")),
    ):
        pass
    assert list((tmp_path / "scratch").iterdir()) == []


def test_tasks_may_run_again():
    """A killed worker's task is run again: its file is the same."""
    with tempfile.TemporaryDirectory() as home:
        job = shuffle.Scatter(MemoryReader(some()), 1, 9, Path(home))
        one = shuffle.scatter(job, (0, 100, 2000))
        before = one.path.read_bytes()
        one.path.write_bytes(b"half of it")
        shuffle.scatter(job, (0, 100, 2000))
        assert one.path.read_bytes() == before
