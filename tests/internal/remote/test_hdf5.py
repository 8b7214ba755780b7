"""HDF5 files in a bucket: the sequences, rows and errors of local files, and few bytes and rounds for a few samples."""

import h5py
import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt import show
from tokfmt.core.errors import SourceChangedError
from tokfmt.remote import blocks

HOME = FIXTURES / "hdf5"


def written(path, count, width=256, **how):
    """A file of samples that overlap, and their tokens."""
    tokens = np.random.default_rng(0).integers(1, 30_000, count * width + 1).astype("<i4")
    inputs, labels = tokens[:-1].reshape(count, width), tokens[1:].reshape(count, width)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.stack([inputs, np.ones_like(inputs), labels], axis=1), **how)
        file.attrs["n_examples"] = count
    return tokens


@pytest.mark.parametrize("how", [{}, {"chunks": (1, 3, 256), "compression": "gzip"}], ids=["contiguous", "chunked"])
def test_show_reads_little(fresh, bucket, how, monkeypatch):
    """A few stretches show what the samples are, and only the first samples are read."""
    monkeypatch.setattr(
        blocks, "GAP", 1 << 16
    )  # the stretches of a long file are further apart than one request bridges
    tokens = written(bucket / "x.h5", 16_000, **how)
    (shown,) = list(show("s3://bkt/x.h5", 0, eos=int(tokens[5])).shown)
    assert np.array_equal(shown.ids, tokens[:5])
    size = (bucket / "x.h5").stat().st_size
    asked = sum(min(one.stop, size) - one.start for one in fresh.bodies("bkt/x.h5"))
    assert asked < size / 3, (asked, size)
    assert len(fresh.seen) < 64, [(one.method, one.start, one.stop) for one in fresh.bodies()]


@pytest.mark.parametrize("at", range(12))
def test_an_error_of_the_store_passes_the_library(held, at, monkeypatch):
    """It stays the error that it is, wherever the library is when it comes."""
    held.held["x.h5"] = (HOME / "multi_file/dataset-partition-1.h5").read_bytes()
    read, calls = held.read_ranges, iter(range(100))

    def fails(key, ranges, identity):
        if next(calls) == at:
            raise SourceChangedError(key, "changed")
        return read(key, ranges, identity)

    monkeypatch.setattr(held, "read_ranges", fails)
    with pytest.raises(SourceChangedError, match="^mem://bucket/x.h5: changed while it was being read"):
        list(tokfmt.open("mem://bucket/x.h5", eos=50256))
        raise AssertionError("fewer reads")
