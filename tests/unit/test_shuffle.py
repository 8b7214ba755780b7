"""The shuffle: a bijection, the order that keys say, whatever the buckets, workers and windows."""

import tempfile
from pathlib import Path

import numpy as np

from tokfmt.plugin import MemoryReader, Ragged, offsets_of
from tokfmt.run import shuffle


def some(count=3000, mean=40, seed=2, dtype=np.uint16):
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(0, 2 * mean, count))
    return Ragged(rng.integers(0, 60_000, int(offsets[-1])).astype(dtype), offsets)


def test_tasks_may_run_again():
    """A killed worker's task is run again: its file is the same."""
    with tempfile.TemporaryDirectory() as home:
        job = shuffle.Scatter(MemoryReader(some()), 1, 9, Path(home))
        one = shuffle.scatter(job, (0, 100, 2000))
        before = one.path.read_bytes()
        one.path.write_bytes(b"half of it")
        shuffle.scatter(job, (0, 100, 2000))
        assert one.path.read_bytes() == before
