"""hdf5: every way HDF5 has to lay out the same samples is read alike; what is no such way is refused."""

import os
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest

import tokfmt
from tokfmt.errors import CorruptError, TruncatedError, UnsupportedError
from tokfmt.formats.hdf5.stored import open_hdf5
from tokfmt.testing import sequences

WIDTH = 24
ROWS = np.random.default_rng(0).integers(0, 2**31 - 1, (50, 3, WIDTH)).astype("<i4")


def save(path, rows=ROWS, **how):
    libver = how.pop("libver", None)
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["n_examples"] = len(rows)
        file.create_dataset("data", data=rows, **how)
    return path


LAYOUTS = {
    "documented": {"chunks": (1, 3, WIDTH), "compression": "gzip"},
    "level 9": {"chunks": (1, 3, WIDTH), "compression": 9},
    "shuffle": {"chunks": (1, 3, WIDTH), "compression": "gzip", "shuffle": True},
    "fletcher": {"chunks": (1, 3, WIDTH), "compression": "gzip", "fletcher32": True},
    "all filters": {"chunks": (1, 3, WIDTH), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher alone": {"chunks": (1, 3, WIDTH), "fletcher32": True},
    "uncompressed": {"chunks": (1, 3, WIDTH)},
    "contiguous": {},
    "many rows a chunk": {"chunks": (1000, 3, WIDTH), "maxshape": (None, 3, WIDTH), "compression": "gzip"},
    "one field a chunk": {"chunks": (1, 1, WIDTH), "compression": "gzip"},
    "odd chunks": {"chunks": (7, 2, 10), "compression": "gzip", "shuffle": True},
    "auto chunks": {"chunks": True, "compression": "gzip"},
    "one value a chunk": {"chunks": (1, 1, 1)},
    "extensible": {"chunks": (1, 3, WIDTH), "maxshape": (None, 3, WIDTH), "compression": "gzip"},
    "latest": {"chunks": (1, 3, WIDTH), "compression": "gzip", "libver": "latest"},
    "latest extensible": {
        "chunks": (1, 3, WIDTH),
        "maxshape": (None, 3, WIDTH),
        "compression": "gzip",
        "libver": "latest",
    },
    "latest two ways": {"chunks": (1, 3, 8), "maxshape": (None, 3, None), "compression": "gzip", "libver": "latest"},
    "latest uncompressed": {"chunks": (1, 3, WIDTH), "libver": "latest"},
    "latest one chunk": {"chunks": ROWS.shape, "compression": "gzip", "libver": "latest"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path, layout):
    rows = ROWS[:6] if layout == "one value a chunk" else ROWS
    table = open_hdf5(save(tmp_path / "a.h5", rows, **LAYOUTS[layout])).table
    assert np.array_equal(table.rows(0, len(rows)), rows)
    for first, last in ((0, 0), (3, 4), (2, 6), (len(rows) - 1, len(rows))):
        assert np.array_equal(table.rows(first, last), rows[first:last])


@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<u2", ">u2", "u1", "i1", "<i8", ">u8", "<u4"])
@pytest.mark.parametrize("how", [{}, {"chunks": (1, 3, WIDTH), "compression": "gzip", "shuffle": True}])
def test_types(tmp_path, dtype, how):
    rows = (ROWS % 100).astype(dtype)
    table = open_hdf5(save(tmp_path / "a.h5", rows, **how)).table
    found = table.rows(0, 50)
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(found, rows)


def test_files_of_different_types(tmp_path):
    save(tmp_path / "a-0.h5", (ROWS[:5] % 200).astype("u1"))
    save(tmp_path / "a-1.h5", (ROWS[5:9] % 1000).astype("<i8"))
    source = tokfmt.open(tmp_path, format="hdf5", options={"view": "samples"})
    assert sequences(source.reader) == [*(ROWS[:5, 0] % 200).tolist(), *(ROWS[5:9, 0] % 1000).tolist()]
    assert any("different types (int64, uint8)" in note for note in source.notes)
    save(tmp_path / "a-2.h5", ROWS[:2].astype("u8"))
    with pytest.raises(UnsupportedError, match="mix int64 and uint64"):
        tokfmt.open(tmp_path, format="hdf5", options={"view": "samples"})


def test_raw_chunks(tmp_path):
    """A chunk that deflate could not shrink is stored raw, and its filter mask says so."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", ROWS.shape, "<i4", chunks=(1, 3, WIDTH), compression="gzip", shuffle=True)
        for i, row in enumerate(ROWS):
            shuffled = row.reshape(-1).view("u1").reshape(-1, 4).T.tobytes()
            chunk = [shuffled, row.tobytes(), zlib.compress(shuffled), zlib.compress(row.tobytes())][i % 4]
            data.id.write_direct_chunk((i, 0, 0), chunk, filter_mask=[2, 3, 0, 1][i % 4])
    with h5py.File(path) as file:
        assert np.array_equal(file["data"][:], ROWS)
    assert np.array_equal(open_hdf5(path).table.rows(0, 50), ROWS)


def test_fletcher_finds_a_flipped_bit(tmp_path):
    path = save(tmp_path / "a.h5", chunks=(1, 3, WIDTH), fletcher32=True)
    stored = open_hdf5(path)
    content = bytearray(path.read_bytes())
    content[stored.table.offset(7) + 5] ^= 4
    path.write_bytes(content)
    with pytest.raises(CorruptError, match="chunk of sample 7 is damaged: it does not fit its Fletcher checksum"):
        open_hdf5(path).table.rows(0, 50)


def test_threads_and_pickles(tmp_path):
    """One table, many threads, another process's copy: always the same values."""
    rng = np.random.default_rng(1)
    for how in (LAYOUTS["documented"], LAYOUTS["odd chunks"], LAYOUTS["many rows a chunk"]):
        table = open_hdf5(save(tmp_path / "a.h5", **how)).table
        copy = pickle.loads(pickle.dumps(table))
        cuts = [sorted(rng.integers(0, 51, 2).tolist()) for _ in range(200)]
        with ThreadPoolExecutor(4) as pool:
            for (a, b), found in zip(cuts, pool.map(lambda cut: table.rows(*cut), cuts), strict=True):
                assert np.array_equal(found, ROWS[a:b])
        assert np.array_equal(copy.rows(3, 30), ROWS[3:30])


def test_a_reader_is_picklable(tmp_path):
    path = save(tmp_path / "a.h5", chunks=(1, 3, WIDTH))
    for options in ({"view": "samples"}, {"stride": "per-document"}):
        reader = tokfmt.open(path, eos=5, options=options).reader
        copy = pickle.loads(pickle.dumps(reader))
        assert copy.info == reader.info
        assert np.array_equal(copy.tokens(5, 900), reader.tokens(5, 900))


def test_truncated_anywhere(tmp_path):
    """Cut after any byte: an error, never wrong values, never zeros."""
    path = save(tmp_path / "a.h5", ROWS[:4], chunks=(1, 3, WIDTH), compression="gzip")
    content = path.read_bytes()
    for size in [*range(120), *range(120, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises((CorruptError, TruncatedError)):
            open_hdf5(path).table.rows(0, 4)


def test_headers_are_bounded(tmp_path):
    """A small file that claims to be large is refused before anything is allocated."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (2**40, 3, 2048), "<i4", chunks=(1, 3, 2048), compression="gzip")
    with pytest.raises(Exception, match="claims more than 1,100 times the size of the file"):
        open_hdf5(path)


def test_no_plugins(tmp_path):
    save(tmp_path / "a.h5", chunks=(1, 3, WIDTH))
    open_hdf5(tmp_path / "a.h5")
    assert os.environ["HDF5_PLUGIN_PRELOAD"] == "::"


def test_big_chunks_keep_memory_bounded(tmp_path):
    import tracemalloc

    rows = np.zeros((6000, 3, 512), np.int32)
    table = open_hdf5(save(tmp_path / "a.h5", rows, chunks=(1000, 3, 512), compression="gzip")).table
    tracemalloc.start()
    for row in range(0, 6000, 250):
        table.rows(row, row + 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 90 << 20


def test_a_large_corpus_takes_no_memory(tmp_path):
    """8 GB, sparse: nothing is read but what is asked for."""
    import tracemalloc

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", (1 << 32,), "<u2", fillvalue=None)
        file["data"][-3:] = [5, 6, 7]
    tracemalloc.start()
    reader = tokfmt.open(tmp_path / "a.h5", format="hdf5", eos="none").reader
    assert reader.tokens((1 << 32) - 4, 1 << 32).tolist() == [0, 5, 6, 7]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("block", [512, 2048])
def test_user_blocks_are_detected_and_refused(tmp_path, block):
    path = tmp_path / "anything"
    with h5py.File(path, "w", userblock_size=block) as file:
        file.create_dataset("data", data=ROWS)
    with pytest.raises(UnsupportedError, match=f"{block:,} foreign bytes"):
        tokfmt.open(path)


@pytest.mark.parametrize("name", ["data", "a/data"])
def test_a_group_that_leads_back_to_itself_is_an_error(tmp_path, name):
    """A node of the tree of its names is its own child: the HDF5 library ends the process."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file[name] = ROWS[:, 0]
    content = bytearray((tmp_path / "x.h5").read_bytes())
    node = content.rindex(b"TREE\0")
    content[node + 5] = 1  # its level; the first child is behind a key of 8 bytes
    content[node + 32 : node + 40] = node.to_bytes(8, "little")
    (tmp_path / "x.h5").write_bytes(content)
    with pytest.raises(CorruptError, match="is its own descendant") as raised:
        tokfmt.open(tmp_path / "x.h5")
    assert raised.value.offset == node
    assert tokfmt.check(tmp_path / "x.h5")[0].errors
