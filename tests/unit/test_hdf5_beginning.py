"""HDF5 files of which few sequences are read: chunks looked up one by one, samples looked at in some places."""

import h5py
import pytest

from tokfmt.core.errors import CorruptError
from tokfmt.formats.hdf5.chunk_tree import root_of
from tokfmt.formats.hdf5.container import open_stored
from tokfmt.plugin import File


def chunked(path, **how):
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("data", (2000, 3, 4), "<i4", chunks=(1, 3, 4), **how)
        data[:1500] = 1
        file.attrs["n_examples"] = 2000
    return path


def test_a_chunk_that_is_missing_is_an_error_when_it_is_read(tmp_path):
    table = open_stored(chunked(tmp_path / "x.h5"), few=True).table
    assert (table.read(0, 1400) == 1).all()
    with pytest.raises(CorruptError, match="the chunk of sample 1,500 is missing"):
        table.read(1499, 1501)


def test_an_object_header_that_is_not_understood_is_left_to_the_library(tmp_path):
    path = chunked(tmp_path / "x.h5")
    with h5py.File(path) as file:
        header = file.id.links.get_info(b"data").u
    assert root_of(File(path), header) is not None
    for at in (header + 1, 0, path.stat().st_size - 3, path.stat().st_size + 9):
        assert root_of(File(path), at) is None
