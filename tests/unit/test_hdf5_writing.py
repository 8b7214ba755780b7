"""hdf5: what is written is what numpy and the HDF5 library make of the same stream."""

import itertools
import pickle
import zlib

import h5py
import numpy as np
import pytest

from tokfmt.core.format import Target
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.errors import CorruptError, OptionError, TokenRangeError
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5.writer import compressed
from tokfmt.plugin import Hints
from tokfmt.testing import read, sequences, write

EOS = 50256


def sample(width, top, seed=0):
    tokens = np.random.default_rng(seed).integers(0, top, width + 1).astype("<i4")
    return np.stack([tokens[:-1], np.ones(width, "<i4"), tokens[1:]])


@pytest.mark.parametrize("width", [1, 8, 300, 2048, 8192])
@pytest.mark.parametrize("shuffle", [False, True])
def test_chunks_decode(width, shuffle):
    rows = sample(width, 50_000)
    packed, raw = compressed(rows, shuffle=shuffle)
    found = np.frombuffer(packed if raw else zlib.decompress(packed), "u1")
    if shuffle:
        found = found.reshape(4, -1).T.reshape(-1)
    assert found.tobytes() == rows.tobytes()
    assert len(packed) <= rows.nbytes


def test_labels_cost_little():
    """The repeated row is found at any length, or the shuffle filter makes up for it: no more than what deflate -4 takes."""
    rng = np.random.default_rng(1)
    weights = 1 / np.arange(1, 50_001)
    for width, shuffle in ((512, False), (2048, False), (4096, False), (8192, True)):
        tokens = rng.choice(50_000, width + 1, p=weights / weights.sum()).astype("<i4")
        rows = np.stack([tokens[:-1], np.ones(width, "<i4"), tokens[1:]])
        packed, _ = compressed(rows, shuffle=shuffle)
        assert len(packed) <= 1.01 * len(zlib.compress(rows.tobytes(), 4))


def dataset():
    rng = np.random.default_rng(2)
    return Ragged.of([rng.integers(0, 50_000, n).tolist() for n in rng.integers(1, 700, 50)])


@pytest.mark.parametrize("stride", ["overlap", "disjoint"])
@pytest.mark.parametrize("width", [128, 5000])
def test_values(tmp_path, stride, width):
    """Field for field what the documentation says, and the attributes."""
    data = dataset()
    path = write(FORMAT, tmp_path / "x.h5", data, eos_id=EOS, options={"seq_len": width, "stride": stride, "pad": 9})
    stream = [t for s in data.tolist() for t in [*s, EOS]]
    step = width + (stride == "disjoint")
    starts = range(0, len(stream) - 1, step)
    want = np.full((len(starts), 3, width), 9, np.int32)
    want[:, 1] = 0
    for row, a in zip(want, starts, strict=True):
        tokens = stream[a : a + width + 1]
        row[0, : len(tokens) - 1], row[1, : len(tokens) - 1], row[2, : len(tokens) - 1] = tokens[:-1], 1, tokens[1:]
    with h5py.File(path) as file:
        assert np.array_equal(file["data"][:], want)
        assert file.attrs["n_examples"] == len(want)
        assert file.attrs["n_examples"].dtype == np.int64
        assert list(file) == ["data"]
        assert file["data"].dtype == np.dtype("<i4")
        assert file["data"].chunks == (1, 3, width)
        assert (file["data"].compression, file["data"].shuffle, file["data"].fletcher32) == (
            "gzip",
            width > 4096,
            False,
        )
        facts = dict(file["data"].attrs)
    assert facts == {
        "stride": stride.encode(), "eos_id": EOS, "pad_id": 9, "first_token": 0,
        "stream_tokens": len(stream) - (stride == "disjoint" and len(stream) % step == 1),
    }  # fmt: skip
    assert path.read_bytes()[8] == 0, "the oldest superblock, which every HDF5 reads"
    assert sequences(read(FORMAT, path)) == data.tolist()


def test_nothing(tmp_path):
    for number, options in enumerate([{"seq_len": 8}, {"layout": "corpus"}]):
        path = write(FORMAT, tmp_path / f"{number}.h5", Ragged.of([]), eos_id=EOS, options=options)
        with h5py.File(path) as file:
            assert file["data"].shape == ((0,) if number else (0, 3, 8))
            assert file.attrs.get("n_examples") == (None if number else 0)
        assert sequences(read(FORMAT, path)) == []


def test_files_of_a_directory(tmp_path):
    """Near-equal files, one stream through all; a missing one is told."""
    data = dataset()
    path = write(FORMAT, tmp_path / "d", data, eos_id=EOS, options={"seq_len": 64, "shard_size": 3840})
    files = sorted(path.iterdir())
    counts = []
    for name in files:
        with h5py.File(name) as file:
            counts.append(file.attrs["n_examples"])
            assert file["data"].attrs["first_token"] == sum(counts[:-1]) * 64
    assert max(counts) - min(counts) <= 1
    assert max(counts) <= 60
    assert len(counts) == -(-sum(counts) // 60)
    assert sequences(read(FORMAT, path)) == data.tolist()
    files[1].unlink()
    with pytest.raises(CorruptError, match="a file between data-00000.h5 and data-00002.h5 is missing"):
        FORMAT.open([path], FORMAT.read_options(), Hints())
    source = FORMAT.open([path], FORMAT.read_options(gaps="accept"), Hints())
    assert any("are only some of those that were written" in note for note in source.info.notes)
    tokens = list(itertools.chain.from_iterable(sequences(read(FORMAT, path, options={"gaps": "accept"}))))
    assert len(tokens) < sum(len(s) for s in data)


@pytest.mark.parametrize(("top", "dtype"), [(65535, "<u2"), (65536, "<u4"), (2**32 - 1, "<u4")])
def test_corpus_types(tmp_path, top, dtype):
    data = Ragged.of([[1, top], [2]])
    path = write(FORMAT, tmp_path / "x.h5", data, eos_id=0, options={"layout": "corpus"})
    with h5py.File(path) as file:
        assert file["data"].dtype == np.dtype(dtype)
        assert file["data"].chunks is None
        assert file["data"][:].tolist() == [1, top, 0, 2, 0]
        assert list(file.attrs) == []
    assert sequences(read(FORMAT, path)) == data.tolist()


@pytest.mark.parametrize(
    "options", [{"seq_len": 0}, {"seq_len": 1 << 23}, {"shard_size": 0}, {"pad": -1}, {"pad": 1 << 31}]
)
def test_options_out_of_range(tmp_path, options):
    with pytest.raises(OptionError, match="expected a whole number"):
        write(FORMAT, tmp_path / "x.h5", Ragged.of([[1]]), eos_id=EOS, options=options)


def test_separator_beyond_int32(tmp_path):
    with pytest.raises(TokenRangeError):
        write(FORMAT, tmp_path / "x.h5", Ragged.of([[1]]), eos_id=1 << 31)


def test_parts_are_gone(tmp_path):
    write(FORMAT, tmp_path / "x.h5", dataset(), eos_id=EOS, options={"seq_len": 32}, size=1000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.h5", "x.h5.scratch"]


@pytest.mark.parametrize("name", ["x.h5", "x"])
@pytest.mark.parametrize("keep", [False, True])
def test_files_do_not_depend_on_what_was_gathered_before_the_commit(tmp_path, name, keep):
    source = MemoryReader(Ragged.of([np.arange(1, n, dtype=np.uint32) for n in range(2, 120)]))
    options, written = FORMAT.write_options(seq_len=16, shard_size=1120), []
    for gathered in (0, 1, 9, None):
        path = tmp_path / f"{gathered}" / name
        path.parent.mkdir()
        writer = FORMAT.writer(path, options, Target(0, keep_parts=keep))
        regions = writer.regions(source, 300)
        assert len(regions) > 20
        writer.create(source)
        receipts = [writer.write(region, source) for region in regions]
        for receipt in receipts[:gathered]:
            writer.join_parts(source, receipt)
        assert pickle.loads(pickle.dumps(writer)).path == path  # though a file is open
        writer.commit(source, receipts)
        assert writer.parts.exists() is keep
        files = [path] if path.is_file() else sorted(path.iterdir())
        assert len(files) == (1 if name == "x.h5" else 7)
        written.append([file.read_bytes() for file in files])
    assert all(content == written[0] for content in written)
