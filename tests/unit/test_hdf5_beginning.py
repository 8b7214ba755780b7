"""HDF5 files of which few sequences are read: chunks looked up one by one, samples looked at in some places."""

import h5py
import numpy as np
import pytest
from amount import first as beginning
from made_corpora import text_like
from reads import asked_of

import tokfmt
from tokfmt.errors import CorruptError, FormatError
from tokfmt.files.file import File
from tokfmt.formats.hdf5.stored import open_hdf5
from tokfmt.formats.hdf5_arrays.chunk_tree import root_of


def chunked(path, **how):
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("data", (2000, 3, 4), "<i4", chunks=(1, 3, 4), **how)
        data[:1500] = 1
        file.attrs["n_examples"] = 2000
    return path


def test_a_chunk_that_is_missing_is_an_error_when_it_is_read(tmp_path):
    table = open_hdf5(chunked(tmp_path / "x.h5"), few=True).table
    assert (table.rows(0, 1400) == 1).all()
    with pytest.raises(CorruptError, match="the chunk of sample 1,500 is missing"):
        table.rows(1499, 1501)


def test_an_object_header_that_is_not_understood_is_left_to_the_library(tmp_path):
    path = chunked(tmp_path / "x.h5")
    with h5py.File(path) as file:
        header = file.id.links.get_info(b"data").u
    assert root_of(File(path), header) is not None
    for at in (header + 1, 0, path.stat().st_size - 3, path.stat().st_size + 9):
        assert root_of(File(path), at) is None


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
@pytest.mark.parametrize(
    ("shape", "chunk"),
    [
        ((1000, 3, 8), (1, 3, 8)),
        ((999, 3, 8), (4, 3, 8)),
        ((300, 3, 9), (1, 1, 4)),
        ((20_000, 3, 2), (1, 3, 2)),
        ((5000,), (7,)),
        ((1, 3, 8), (1, 3, 8)),
    ],
)
def test_lookups_find_what_the_library_does(tmp_path, shape, chunk, libver):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        values = np.random.default_rng(0).integers(0, 9, shape).astype("<i4")
        data = file.create_dataset("data", data=values, chunks=chunk, compression="gzip", shuffle=True)
        data.attrs["a"] = "x" * 3000  # so that the header goes on elsewhere
        file.attrs["n_examples"] = shape[0]
    places = {}
    with h5py.File(path) as file:
        file["data"].id.chunk_iter(lambda info: places.update({tuple(info.chunk_offset): info.byte_offset}))
    rows = values.reshape(shape if len(shape) == 3 else (-1, 1, 1))
    for first, last in ((shape[0] // 2, min(shape[0], shape[0] // 2 + 5)), (shape[0] - 1, shape[0]), (0, shape[0])):
        table = open_hdf5(path, few=True).table
        assert np.array_equal(table.rows(first, last), rows[first:last])
        at = first // chunk[0] * chunk[0]
        assert table.offset(first) == places[(at, 0, 0)[: len(shape)]]
        assert table.value_offset(first, 0, 0) == open_hdf5(path).table.value_offset(first, 0, 0)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_a_tree_without_an_end_is_an_error(tmp_path, few, deep):
    """A node of the tree is its own child: the HDF5 library ends the process."""
    path = chunked(tmp_path / "x.h5")
    with h5py.File(path) as file:
        root = root_of(File(path), file.id.links.get_info(b"data").u)
    content = bytearray(path.read_bytes())
    content[root + 5] = 200 if deep else content[root + 5]
    content[root + 24 + 40 : root + 24 + 48] = root.to_bytes(8, "little")  # behind a key of 40 bytes
    path.write_bytes(content)
    with pytest.raises(CorruptError, match="the index of the chunks of 'data' is damaged"):
        open_hdf5(path, few=few).table.rows(0, 1)
    (report,) = tokfmt.check(path, format="hdf5")
    assert report.errors


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("seed", beginning(12, range(40)))
def test_a_damaged_tree_is_an_error_or_read_as_the_library_reads_it(tmp_path, seed, few):
    path = chunked(tmp_path / "x.h5", compression="gzip")
    with h5py.File(path) as file:
        header = file.id.links.get_info(b"data").u
    content, generator = bytearray(path.read_bytes()), np.random.default_rng(seed)
    nodes = [at for at in range(len(content) - 8) if content[at : at + 5] == b"TREE\1"]
    at = root_of(File(path), header) if seed % 2 else nodes[int(generator.integers(len(nodes)))]
    for byte in generator.integers(0, 200, 3).tolist():
        content[at + byte] = int(generator.integers(256))
    path.write_bytes(content)
    with asked_of(tmp_path) as asked:
        try:
            table = open_hdf5(path, few=few).table
            for row in range(0, 1500, 100):
                table.rows(row, row + 1)
        except FormatError:
            pass
    assert len(asked.reads) < 2000


# samples of more than 64 MiB, looked at in some places

EOS, WIDTH, COUNT = 50256, 1024, 6000


@pytest.fixture(scope="module")
def stream():
    """Text-like tokens: each ID is followed by one of four, documents of about 300."""
    return text_like((COUNT + 1) * (WIDTH + 1), 400_000, EOS)


def written(path, stream, kind, **how):
    """Samples as writers of each kind cut them."""
    step = WIDTH + (kind != "overlap")
    windows = np.lib.stride_tricks.sliding_window_view(stream, WIDTH + 1)[::step][:COUNT]
    rows = np.empty((COUNT, 3, WIDTH), "<i4")
    rows[:, 0], rows[:, 1], rows[:, 2] = windows[:, :-1], 1, windows[:, 1:]
    if kind == "padded":  # each is a document
        real = np.random.default_rng(2).integers(20, WIDTH - 5, COUNT)
        rows[np.arange(COUNT), 2, real - 1] = EOS
        behind = np.arange(WIDTH) >= real[:, None]
        for field in range(3):
            rows[:, field][behind] = 0
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=rows, **how)
        file.attrs["n_examples"] = COUNT
    return path


CHUNKED = {"chunks": (1, 3, WIDTH), "compression": "gzip", "compression_opts": 0}


@pytest.mark.parametrize(("kind", "how"), [("overlap", CHUNKED), ("disjoint", {}), ("padded", CHUNKED)])
def test_some_samples_show_what_all_do(tmp_path, stream, kind, how):
    path = written(tmp_path / "x.h5", stream, kind, **how)
    with tokfmt.open(path, eos=EOS) as dataset:
        count, wanted = len(dataset), {number: dataset[number].tolist() for number in (0, 5, 40, 41, 300)}
    with asked_of(tmp_path) as asked:
        preview = tokfmt.show(path, 5, eos=EOS)
        assert [one.ids for one in preview.shown] == [wanted[5]]
    assert (preview.sequences, preview.tokens) == (None, None)
    assert preview.extras["stride"] == {"padded": "per-document"}.get(kind, kind)
    assert "masked_sequences" not in preview.extras
    assert any("samples were read to infer that; tokfmt check reads all" in note for note in preview.notes)
    assert asked.bytes_of() < path.stat().st_size / 2
    for selection, numbers in (("0", [0]), ("40:42", [40, 41]), ("300", [300])):
        assert [one.ids for one in tokfmt.show(path, selection, eos=EOS).shown] == [wanted[k] for k in numbers]
    (last,) = tokfmt.show(path, -1, eos=EOS).shown
    assert last.index == count - 1
