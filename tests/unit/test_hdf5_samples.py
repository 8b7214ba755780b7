"""Mask and labels of samples as they lie, against h5py."""

import pickle

import h5py
import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.formats.hdf5.files import arrange, files_in

HOME = FIXTURES / "hdf5"
INVERTED = {"padded_pad0_inverted"}
NAMES = sorted(path.name for path in HOME.iterdir() if path.is_dir() and not path.name.startswith("corpus"))


def stored(path):
    """All rows, in the order in which their writer wrote the files."""
    paths = [p for stream in arrange(files_in([path]), "writer") for p in stream]
    return np.concatenate([h5py.File(p)["data"][:] for p in paths])


def homes(name):
    return sorted({path.parent for path in (HOME / name).rglob("*.h5")})


def opened(path, *options):
    return tokfmt.open(path, options=["view=samples", *options]).reader


@pytest.mark.parametrize("name", NAMES)
def test_every_variant(name):
    for home in homes(name):
        rows, reader = stored(home), opened(home)
        total = reader.info.tokens
        assert reader.has_labels
        assert reader.has_begins == (rows.shape[1] == 5)
        counted = (rows[:, 1] == 0) if name in INVERTED else (rows[:, 1] != 0)
        for a, b in ((0, total), (0, 0), (total // 3, total // 2), (total - 1, total), (5, 6)):
            assert reader.tokens(a, b).tolist() == rows[:, 0].reshape(-1)[a:b].tolist()
            assert reader.masks(a, b).tolist() == counted.reshape(-1)[a:b].astype(int).tolist()
            assert reader.labels(a, b).tolist() == rows[:, 2].reshape(-1)[a:b].tolist()
        assert (reader.masks(0, 1).dtype, reader.labels(0, 1).dtype) == (np.uint8, np.int64)
        if rows.shape[1] == 5:
            begins = (rows[:, 4] == 0) & ((rows[:, 1] != 0) | (rows[:, 3] != 0))
            assert reader.begins(3, total).tolist() == begins.reshape(-1)[3:].tolist()
        for wrong in ((-1, 0), (1, 0), (0, total + 1)):
            for ask in (reader.tokens, reader.masks, reader.labels):
                with pytest.raises(IndexError):
                    ask(*wrong)
        again = pickle.loads(pickle.dumps(reader))
        assert again.masks(0, total).tolist() == reader.masks(0, total).tolist()


def made(path, mask, inputs=None, labels=None, **given):
    inputs = np.arange(1, mask.size + 1).reshape(mask.shape) if inputs is None else inputs
    labels = inputs + 1 if labels is None else labels
    with h5py.File(path, "w") as file:
        data = np.stack([inputs, mask, labels], axis=1).astype("<i4")
        file.create_dataset("data", data=data, chunks=given.get("chunks", (1, 3, mask.shape[1])), compression="gzip")
        file.attrs["n_examples"] = len(mask)
    return path


def padded(count, width, real):
    """Samples of which every second is padded with 0 from `real` on; inputs, labels, and where padding lies."""
    inputs = np.arange(1, count * width + 1).reshape(count, width)
    labels, padding = inputs + 1, np.zeros((count, width), bool)
    padding[::2, real:] = True
    return np.where(padding, 0, inputs), np.where(padding, 0, labels), padding


@pytest.mark.parametrize("one_means_padding", [True, False])
def test_both_polarities_and_what_overrides_them(tmp_path, one_means_padding):
    inputs, labels, padding = padded(10, 8, 5)
    mask = padding if one_means_padding else ~padding
    path = made(tmp_path / "x.h5", mask.astype(int), inputs, labels)
    flat = (~padding).reshape(-1).astype(int).tolist()
    assert opened(path).masks(0, 80).tolist() == flat
    assert opened(path, "mask=inverted").masks(0, 80).tolist() == (mask == 0).reshape(-1).astype(int).tolist()
    assert opened(path, "mask=loss").masks(0, 80).tolist() == mask.reshape(-1).astype(int).tolist()


def test_an_inverted_file_without_padding(tmp_path):
    assert opened(made(tmp_path / "x.h5", np.zeros((6, 8), int))).masks(0, 48).all()
    assert opened(made(tmp_path / "y.h5", np.ones((6, 8), int))).masks(0, 48).all()


def test_a_prompt_that_is_mostly_masked_is_no_inverted_file(tmp_path):
    mask = np.zeros((6, 8), int)
    mask[:, 6:] = 1
    assert opened(made(tmp_path / "x.h5", mask)).masks(0, 48).tolist() == mask.reshape(-1).tolist()


def test_ignored_labels_stay_as_they_are(tmp_path):
    inputs = np.arange(1, 17).reshape(2, 8)
    labels = inputs + 1
    labels[1, 3:] = -100
    path = made(tmp_path / "x.h5", (labels != -100).astype(int), inputs, labels)
    assert opened(path).labels(8, 16).tolist() == labels[1].tolist()


def test_what_fills_up_samples():
    told = {name: opened(homes(name)[0]).info.pad_id for name in ("new_padded_pad0", "padded_eos")}
    assert told["new_padded_pad0"] == 0
    assert told["padded_eos"] in (None, 50256)
    stage1 = tokfmt.open(FIXTURES / "stage1" / "in.bin", options=["view=samples"], eos=50000, format="stage1").reader
    assert stage1.info.pad_id == 50000
    assert not stage1.has_labels


@pytest.mark.skipif(h5py.version.hdf5_version_tuple < (2,), reason="HDF5 before 2.0 cannot read this file")
def test_other_samples_have_no_mask():
    reader = opened(FIXTURES / "bad" / "hdf5" / "control_foreign_dpo.h5")
    assert not reader.has_labels
