"""HDF5 files of which few sequences are read: chunks looked up one by one, samples looked at in some places."""

import h5py
import numpy as np
import pytest
from paths import FIXTURES
from reads import asked_of

from tokfmt import show
from tokfmt.core import files
from tokfmt.core.errors import FormatError, TokfmtError
from tokfmt.formats.hdf5 import beginning, reader
from tokfmt.formats.hdf5.container import open_stored
from tokfmt.formats.hdf5.table import Table

EOS = 50256


# chunks, looked up in the B-tree


def chunk_map(path):
    """Place, size and filter mask of each chunk, in row-major order, by the library."""
    found = []
    with h5py.File(path) as file:
        file["data"].id.chunk_iter(lambda info: found.append((tuple(info.chunk_offset), info)))
    return [(info.byte_offset, info.size, info.filter_mask) for _, info in sorted(found, key=lambda one: one[0])]


def known(path, cuts):
    """The same by lookups, and whether they were made in the B-tree."""
    where = open_stored(path, few=True).table._where
    for first, last in cuts:
        where.know(first, last)
    stored = [(int(where.places[k]), where.stored(k), where.skipped(k)) for k in range(len(where.places))]
    return stored, where.find is not None


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
    expected = chunk_map(path)
    count = len(expected)
    found, by_tree = known(path, [(count // 2, count // 2 + 1), (count - 1, count), (0, count)])
    assert found == expected
    assert by_tree == (libver != "latest")
    table, rows = open_stored(path, few=True).table, values.reshape(shape if len(shape) == 3 else (-1, 1, 1))
    for first, last in ((shape[0] // 2, min(shape[0], shape[0] // 2 + 5)), (shape[0] - 1, shape[0]), (0, shape[0])):
        assert np.array_equal(table.read(first, last), rows[first:last])
    for row in {0, shape[0] - 1}:
        assert open_stored(path, few=True).table.byte_offset(row, 0, 0) == open_stored(path).table.byte_offset(
            row, 0, 0
        )


def chunked(path, **how):
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("data", (2000, 3, 4), "<i4", chunks=(1, 3, 4), **how)
        data[:1500] = 1
        file.attrs["n_examples"] = 2000
    return path


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_tree_is_an_error_or_read_as_the_library_reads_it(tmp_path, seed):
    path = chunked(tmp_path / "x.h5", compression="gzip")
    content, generator = bytearray(path.read_bytes()), np.random.default_rng(seed)
    root = open_stored(path, few=True).table._where.find.__self__.root
    nodes = [at for at in range(len(content) - 8) if content[at : at + 5] == b"TREE\1"]
    at = root if seed % 2 else nodes[int(generator.integers(len(nodes)))]
    for byte in generator.integers(0, 200, 3).tolist():
        content[at + byte] = int(generator.integers(256))
    path.write_bytes(content)
    with asked_of(tmp_path) as asked:
        try:
            table = open_stored(path, few=True).table
            for row in range(0, 1500, 100):
                table.read(row, row + 1)
        except FormatError:
            pass
    assert len(asked.reads) < 2000


# samples, looked at in some places


@pytest.fixture
def all_are_long(monkeypatch):
    """Every dataset is long, and a few samples of it are looked at."""

    def apply():
        monkeypatch.setattr(beginning, "KEPT_BYTES", 0)
        monkeypatch.setattr(reader, "FIRST", 1 << 12)
        monkeypatch.setattr(beginning, "_LOOKED_AT", 1 << 17)
        monkeypatch.setattr(files, "_GAP", 1 << 10)  # the nodes of the index of a long file are far apart

    return apply


def seen(path, selection, **given):
    """What `show` says of a dataset and of sequences of it, or the error."""
    try:
        preview = show(path, selection, **given)
        facts = {key: value for key, value in preview.extras.items() if "nonstandard" not in key}
        return preview.eos_id, facts, [one.ids for one in preview.shown]
    except TokfmtError as error:
        return type(error)


HOMES = sorted({path.parent for path in (FIXTURES / "hdf5").rglob("*.h5")})


@pytest.mark.parametrize("home", HOMES, ids=lambda home: str(home.relative_to(FIXTURES / "hdf5")))
def test_datasets_of_other_writers_are_the_same(home, all_are_long):
    wanted = {(selection, eos): seen(home, selection, eos=eos) for selection in ("0", "3:5") for eos in (None, EOS)}
    all_are_long()
    for (selection, eos), whole in wanted.items():
        assert seen(home, selection, eos=eos) == whole


def stream(count, seed=0):
    """Text-like tokens: each ID is followed by one of four, documents of about 300."""
    generator = np.random.default_rng(seed)
    after = generator.integers(0, 3000, (3000, 4))
    steps, ids = generator.integers(0, 4, count), np.zeros(count, "<i4")
    for k in range(1, count):
        ids[k] = after[ids[k - 1], steps[k]]
    ids[generator.integers(0, count, count // 300)] = EOS
    return ids


STREAM = stream(400_000)


def samples_of(kind, width=128):
    """Input IDs, mask and labels of samples, as writers of each kind cut them."""
    step = width + (kind in ("disjoint", "padded"))
    count = (len(STREAM) - 1) // step - 1
    windows = np.stack([STREAM[k * step : k * step + width + 1] for k in range(count)])
    inputs, labels, mask = windows[:, :-1].copy(), windows[:, 1:].copy(), np.ones((count, width), "<i4")
    if kind == "shuffled":
        order = np.random.default_rng(1).permutation(count)
        inputs, labels = inputs[order], labels[order]
    if kind == "padded":  # each is a document
        real = np.random.default_rng(2).integers(20, width - 5, count)
        behind = np.arange(width) >= real[:, None]
        labels[np.arange(count), real - 1] = EOS
        inputs[behind], labels[behind], mask[behind] = 0, 0, 0
    return np.stack([inputs, mask, labels], axis=1).astype("<i4")


def written(path, kind, **how):
    values = samples_of(kind)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=values, **how)
        file.attrs["n_examples"] = len(values)
    return path


@pytest.mark.parametrize("how", [{}, {"chunks": (1, 3, 128), "compression": "gzip"}], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("kind", ["overlap", "disjoint", "padded"])
def test_some_samples_show_what_all_do(tmp_path, kind, how, all_are_long):
    path = written(tmp_path / "x.h5", kind, **how)
    selections = ("0", "5", "40:42", "300")
    whole = [seen(path, selection, eos=EOS) for selection in selections]
    assert whole[0][1]["stride"] == {"padded": "per-document"}.get(kind, kind)
    all_are_long()
    assert [seen(path, selection, eos=EOS) for selection in selections] == whole
    with asked_of(tmp_path) as asked:
        preview = show(path, 5, eos=EOS)
        list(preview.shown)
    assert (preview.sequences, preview.tokens) == (None, None)
    assert any("samples were read to infer that; tokfmt check reads all" in note for note in preview.notes)
    assert asked.bytes_of() < path.stat().st_size / 2
    assert "nonstandard_masks" not in preview.extras


def test_the_last_sequences_are_found_by_reading_all(tmp_path, all_are_long):
    path = written(tmp_path / "x.h5", "overlap")
    count = show(path, 0, eos=EOS).sequences
    whole = seen(path, str(count - 1), eos=EOS)
    all_are_long()
    assert seen(path, str(count - 1), eos=EOS) == whole
    assert seen(path, "-1", eos=EOS) == whole


def test_what_only_all_samples_show_is_not_said(tmp_path, all_are_long):
    """That samples were shuffled: a few are only seen not to go on."""
    path = written(tmp_path / "x.h5", "shuffled")
    with pytest.raises(FormatError, match="its samples were shuffled"):
        show(path, 5, eos=EOS)
    all_are_long()
    preview = show(path, 5, eos=EOS)
    assert preview.extras["stride"] == "rows"
    assert any("nothing shows that samples continue each other" in note for note in preview.notes)
    values = samples_of("shuffled")
    assert [one.ids for one in preview.shown] == [[*values[5, 0].tolist(), int(values[5, 2, -1])]]


def test_a_file_of_10_gb(tmp_path, monkeypatch):
    """Its samples are made when they are read: 64 MB of them at most, of 10 GB."""
    count, width, read = 420_000, 2048, []
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((count, 3, width))
        h5py.h5d.create(file.id, b"data", h5py.h5t.STD_I32LE, space, plan)
        file.attrs["n_examples"] = count
    assert path.stat().st_size > 10e9

    def rows(self, first, last):
        read.append((last - first) * 3 * width * 4)
        at = np.arange(first * width, last * width + 1)
        ids = np.where(at % 701 == 700, EOS, at * 7919 % 50_000).astype(np.int32)
        inputs, labels = (part.reshape(-1, width) for part in (ids[:-1], ids[1:]))
        return np.stack([inputs, np.ones_like(inputs), labels], axis=1)

    monkeypatch.setattr(Table, "read", rows)
    monkeypatch.setattr(Table, "take", lambda table, wanted, _: rows(table, wanted.first, wanted.last))
    with asked_of(tmp_path) as asked:
        preview = show(path, 5, eos=EOS)
        (shown,) = preview.shown
        ids = shown.ids
    assert ids == (np.arange(5 * 701, 6 * 701 - 1) * 7919 % 50_000).tolist()
    assert preview.extras["stride"] == "overlap"
    assert sum(read) + asked.bytes_of() < 64e6
