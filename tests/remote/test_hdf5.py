"""HDF5 files in a bucket: the sequences, rows and errors of local files, and few bytes and rounds for a few samples."""

import shutil

import h5py
import numpy as np
import pytest
from amount import EVERY, every, pairs
from paths import FIXTURES

import tokfmt
from tokfmt.errors import SourceChangedError, TokfmtError, TruncatedError, UnreachableError
from tokfmt.formats.hdf5.stored import open_hdf5
from tokfmt.formats.hdf5_arrays.table import Rows
from tokfmt.plugin import Url

HOME = FIXTURES / "hdf5"
GOOD = sorted(one.name for one in HOME.iterdir() if one.is_dir())
BAD = sorted(one.name for one in (FIXTURES / "bad/hdf5").iterdir() if one.suffix == ".h5")


def outcome(path, **options):
    """All sequences, with masks and labels if there are some; or what is wrong, without the name of the place."""
    try:
        with tokfmt.open(path, **options) as dataset:
            return [{name: array.tolist() for name, array in one.items()} if isinstance(one, dict) else one.tolist()
                    for one in dataset]  # fmt: skip
    except TokfmtError as error:
        return type(error).__name__, str(error).replace(str(path), "")


@pytest.mark.parametrize(("view", "name"), pairs(["documents", "samples"], GOOD))
def test_every_sequence_is_that_of_the_local_files(fresh, bucket, name, view):
    shutil.copytree(HOME / name, bucket / name)
    options = {"options": {"view": view}, "eos": 50256, "allow_loss": ["order"]}
    assert outcome(f"s3://bkt/{name}", **options) == outcome(HOME / name, **options)


def test_files_are_given_one_by_one(fresh, bucket):
    shutil.copytree(HOME / "multi_file", bucket / "multi_file")
    names = [f"dataset-partition-{number}.h5" for number in (2, 1, 11)]
    given = [[f"{home}/{name}" for name in names] for home in ("s3://bkt/multi_file", HOME / "multi_file")]
    stored, local = ([ids.tolist() for ids in tokfmt.open(paths, eos=50256)] for paths in given)
    assert stored == local


@pytest.mark.parametrize("name", BAD if EVERY else BAD[::5])
def test_a_bad_file_has_the_same_error(held, name):
    """Filters, links and storage that tokfmt refuses are refused; nothing is read outside of the object."""
    held.held[name] = (FIXTURES / "bad/hdf5" / name).read_bytes()
    options = {"options": {"view": "samples"}}
    here = outcome(FIXTURES / "bad/hdf5" / name, **options)
    assert outcome(f"mem://bucket/{name}", **options) == here


def written(path, count, width=256, **how):
    """A file of samples that overlap, and their tokens."""
    tokens = np.random.default_rng(0).integers(1, 30_000, count * width + 1).astype("<i4")
    inputs, labels = tokens[:-1].reshape(count, width), tokens[1:].reshape(count, width)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.stack([inputs, np.ones_like(inputs), labels], axis=1), **how)
        file.attrs["n_examples"] = count
    return tokens


def test_rows_from_anywhere_are_asked_for_together(held, tmp_path):
    """64 samples take three looks at the index, because it has three levels, and one call for all bytes."""
    tokens = written(tmp_path / "x.h5", 4000, chunks=(1, 3, 256), compression="gzip")
    held.held["x.h5"] = (tmp_path / "x.h5").read_bytes()
    rows = Rows([open_hdf5(Url.parse("mem://bucket/x.h5"), few=True).table])
    held.calls = 0
    numbers = list(range(0, 4000, 63))
    found = rows.several([(number, number + 1) for number in numbers])
    assert held.calls == 4
    assert all(
        np.array_equal(one[0, 0], tokens[256 * k : 256 * (k + 1)]) for k, one in zip(numbers, found, strict=True)
    )


@pytest.mark.parametrize("chunk", [(1, 3, 256), (7, 3, 256), (1, 2, 100), (16, 1, 64)])
@pytest.mark.parametrize("few", [False, True])
def test_several_intervals_are_the_rows(held, tmp_path, chunk, few):
    written(tmp_path / "x.h5", 300, chunks=chunk, compression="gzip", shuffle=True)
    held.held["x.h5"] = (tmp_path / "x.h5").read_bytes()
    with h5py.File(tmp_path / "x.h5") as file:
        values = file["data"][:]
    rows = Rows([open_hdf5(Url.parse("mem://bucket/x.h5"), few=few).table] * 2)
    intervals = [(0, 1), (290, 320), (5, 5), (130, 137), (599, 600), (0, 600)]
    both = np.concatenate([values, values])
    for (first, last), found in zip(intervals, rows.several(intervals), strict=True):
        assert np.array_equal(found, both[first:last])
        assert np.array_equal(rows.read(first, last), both[first:last])


def test_a_server_that_fails_for_good(fresh, bucket):
    shutil.copytree(HOME / "doc_example", bucket / "doc_example")
    tokfmt.open("s3://bkt/doc_example", eos=50256)
    fresh.forever["bkt/doc_example/data_file.h5"] = "503"
    with pytest.raises(UnreachableError, match="^s3://bkt/doc_example/data_file.h5: cannot be reached: 503"):
        tokfmt.open("s3://bkt/doc_example", eos=50256)


def test_a_file_that_was_cut(held):
    content = (HOME / "doc_example/data_file.h5").read_bytes()
    held.held["x.h5"] = content[:-40]
    with pytest.raises(TruncatedError, match="^mem://bucket/x.h5: the file is shorter than its superblock states"):
        tokfmt.open("mem://bucket/x.h5", eos=50256)


def test_a_check_asks_each_question_once(fresh, bucket):
    """Without that, the check of this one file lists its directory 48 times."""
    shutil.copytree(HOME / "doc_example", bucket / "doc_example")
    (stored,), (local,) = (tokfmt.check(f"{home}/doc_example", deep=True, eos=50256) for home in ("s3://bkt", HOME))
    assert [(one.code, one.message) for one in stored.findings] == [(one.code, one.message) for one in local.findings]
    assert (stored.sequences, stored.tokens) == (local.sequences, local.tokens)
    assert len(fresh.seen) < 16, [(one.method, one.key) for one in fresh.seen]


@pytest.mark.parametrize(
    "how",
    [every({}), {"chunks": (1, 3, 256), "compression": "gzip", "compression_opts": 0}],
    ids=["contiguous", "chunked"],
)
def test_show_reads_little(fresh, bucket, how):
    """A few stretches show what the samples are, and only the first samples are read."""
    tokens = written(bucket / "x.h5", 16_000, **how)
    (shown,) = list(tokfmt.show("s3://bkt/x.h5", 0, eos=int(tokens[5])).shown)
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


def test_an_array_of_any_name_is_that_of_the_local_file(held, tmp_path):
    """Rows in chunks that divide them as well, whose places are looked up in the index."""
    rows = np.arange(1, 4001).reshape(100, 40)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("ids", data=rows, chunks=(3, 7), compression="gzip")
    held.held["x.h5"] = (tmp_path / "x.h5").read_bytes()
    assert outcome("mem://bucket/x.h5", format="array") == rows.tolist()
