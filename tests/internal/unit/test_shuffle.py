"""The shuffle: a bijection, the order that keys say, whatever the buckets, workers and windows."""

import itertools
import pickle
import tempfile
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.errors import ConversionError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged, offsets_of, reordered
from tokfmt.core.reader import Info, Layout, windows
from tokfmt.core.seeds import SHUFFLE, draws
from tokfmt.plugin import TokenReader
from tokfmt.run import shuffle
from tokfmt.run.execute import SerialExecutor, make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.shuffle import shuffled
from tokfmt.testing import datasets, sequences

quick = settings(max_examples=examples(40), deadline=None)


@contextmanager
def shuffling(source, seed, *, bucket=None, executor="serial", jobs=1):
    with tempfile.TemporaryDirectory() as home, make_executor(executor, jobs) as pool:
        with shuffled(source, seed, Workers(pool, jobs, Path(home)), bucket=bucket) as reader:
            yield reader
        assert [p for p in Path(home).iterdir() if "shuffle" in p.name] == []


def order_of(count, seed):
    """What the method says: by key, equal keys by number."""
    keys = draws(seed, SHUFFLE, 0, count).tolist()
    return sorted(range(count), key=lambda i: (keys[i], i))


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
        for wrong in ((-1, 0), (0, total + 1), (1, 0)):
            with pytest.raises(IndexError):
                reader.tokens(*wrong)
        with pytest.raises(IndexError):
            reader.offsets(0, n + 1)


def some(count=3000, mean=40, seed=2, dtype=np.uint16):
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(0, 2 * mean, count))
    return Ragged(rng.integers(0, 60_000, int(offsets[-1])).astype(dtype), offsets)


@pytest.mark.parametrize(("executor", "jobs"), [("serial", 1), ("threads", 3), ("processes", 2)])
@pytest.mark.parametrize("bucket", [500, 20_000, None])
@pytest.mark.usefixtures("kept_workers")
def test_same_whatever_the_parallelism(executor, jobs, bucket, monkeypatch):
    monkeypatch.setattr(shuffle, "REGION", 7000)  # several tasks; worker processes get theirs from the parent's cuts
    ragged = some()
    expected = reordered(ragged, np.array(order_of(len(ragged), 11)))
    with shuffling(MemoryReader(ragged), 11, bucket=bucket, executor=executor, jobs=jobs) as reader:
        assert np.array_equal(reader.offsets(0, len(ragged)), expected.offsets)
        with ThreadPoolExecutor(4) as pool:  # readers are shared by threads
            parts = list(pool.map(lambda w: reader.tokens(*w), windows(0, reader.info.tokens, 1111)))
        assert np.array_equal(np.concatenate(parts), expected.tokens)
        assert np.array_equal(pickle.loads(pickle.dumps(reader)).tokens(5, 5000), expected.tokens[5:5000])


@pytest.mark.parametrize("long", [8, 35])
def test_long_sequences_are_read_from_the_source(long, monkeypatch):
    monkeypatch.setattr(shuffle, "LONG", long)
    ragged = some(400, 20)
    lists = ragged.tolist()
    longs = [s for s in lists if len(s) > long]
    with shuffling(MemoryReader(ragged), 3, bucket=3000) as reader:
        assert sequences(reader) == [lists[i] for i in order_of(len(lists), 3)]
        spilled = sum(int(spill.tokens[-1]) for spill in reader._buckets.spills)
        assert spilled == len(ragged.tokens) - sum(map(len, longs))
        assert longs


def test_a_sequence_of_three_windows():
    ids = (np.arange(3 << 20) % 251).astype(np.uint8)
    ragged = Ragged(np.concatenate([ids[:9], ids, ids[:5]]), np.array([0, 9, 9 + len(ids), 14 + len(ids)]))
    with shuffling(MemoryReader(ragged), 5) as reader:
        at = order_of(3, 5).index(1)
        a, b = reader.offsets(at, at + 1).tolist()
        assert np.array_equal(reader.tokens(a, b), ids)


@pytest.mark.parametrize("bucket", [None, 900])
def test_equal_keys_keep_the_order_of_the_source(bucket, monkeypatch):
    """Whatever the order in which tasks end."""

    def few(seed, purpose, first, last):
        return np.arange(first, last, dtype=np.uint64) * np.uint64(7919) % np.uint64(5) << np.uint64(61)

    tasks = shuffle.journaled
    monkeypatch.setattr(shuffle, "journaled", lambda *job: reversed(list(tasks(*job))))
    monkeypatch.setattr(shuffle, "draws", few)
    monkeypatch.setattr(shuffle, "REGION", 300)
    lists = [[i] for i in range(1000)]
    with shuffling(MemoryReader(Ragged.of(lists)), 0, bucket=bucket) as reader:
        assert sequences(reader) == sorted(lists, key=lambda s: s[0] * 7919 % 5)


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


def test_reordered():
    ragged = some(500, 10)
    order = np.array([7, 7, 0, 499, 250])
    assert reordered(ragged, order).tolist() == [ragged[int(i)].tolist() for i in order]
    assert reordered(ragged, np.empty(0, np.int64)).tolist() == []
    for many in itertools.islice(windows(0, 500, 100), 2):
        assert reordered(ragged, np.arange(*many)).tolist() == ragged.tolist()[slice(*many)]


def test_a_bucket_is_loaded_once_whoever_wants_it(tmp_path, monkeypatch):
    source = MemoryReader(Ragged.of([[k] * 50 for k in range(400)]))
    loads = []
    real = shuffle._Buckets._load

    def load(self, bucket):
        loads.append(bucket)
        time.sleep(0.02)
        return real(self, bucket)

    monkeypatch.setattr(shuffle._Buckets, "_load", load)
    with SerialExecutor() as executor, shuffled(source, 5, Workers(executor, 1, tmp_path)) as reader:
        assert reader._buckets.count == 1
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: reader.tokens(0, 20_000).tolist(), range(8)))
    assert loads == [0]
    assert all(tokens == found[0] for tokens in found)


def test_shuffle_beyond_memory_is_refused_before_work(tmp_path, monkeypatch):
    source = MemoryReader(Ragged.of([[k] * 50 for k in range(400)]))
    monkeypatch.setattr(shuffle, "share", lambda: 1000)
    with (
        SerialExecutor() as executor,
        pytest.raises(ConversionError, match="would take about 0 GB of memory"),
        shuffled(source, 5, Workers(executor, 1, tmp_path)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
