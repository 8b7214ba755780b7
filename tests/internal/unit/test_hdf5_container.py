"""hdf5: every way HDF5 has to lay out the same samples is read alike; what is no such way is refused."""

import h5py
import numpy as np
import pytest

from tokfmt.core.errors import UnsupportedError
from tokfmt.core.format import Confidence, look
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5.container import open_stored

WIDTH = 24
ROWS = np.random.default_rng(0).integers(0, 2**31 - 1, (50, 3, WIDTH)).astype("<i4")


def save(path, rows=ROWS, **how):
    libver = how.pop("libver", None)
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["n_examples"] = len(rows)
        file.create_dataset("data", data=rows, **how)
    return path


@pytest.mark.parametrize("block", [512, 2048])
def test_user_blocks_are_detected_and_refused(tmp_path, block):
    path = tmp_path / "anything"
    with h5py.File(path, "w", userblock_size=block) as file:
        file.create_dataset("data", data=ROWS)
    assert FORMAT.sniff(look(path)) is Confidence.CERTAIN
    with pytest.raises(UnsupportedError, match=f"{block:,} foreign bytes"):
        open_stored(path)


def test_sniffing(tmp_path):
    save(tmp_path / "a.h5")
    assert FORMAT.sniff(look(tmp_path / "a.h5")) is Confidence.CERTAIN
    assert FORMAT.sniff(look(tmp_path)) is Confidence.CERTAIN
    (tmp_path / "b.h5").write_bytes(b"no")
    assert FORMAT.sniff(look(tmp_path / "b.h5")) is None
    (tmp_path / "sub").mkdir()
    assert FORMAT.sniff(look(tmp_path / "sub")) is None
