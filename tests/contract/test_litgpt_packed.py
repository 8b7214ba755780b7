"""litgpt-packed is only read; the oracle is struct and numpy."""

import struct

import numpy as np
import pytest

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.litgpt_packed import FORMAT
from tokfmt.testing import ReadOnlyContract

DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def chunk(path, ids, code=8):
    head = struct.pack("<7sQBQ", b"LITPKDS", 1, code, len(ids))
    path.write_bytes(head + np.array(ids, DTYPES[code]).tobytes())


class TestChunks(ReadOnlyContract):
    """A stream runs on across chunks; its documents are read below."""

    format = FORMAT
    filename = "packed"
    contents = ([7, 8, 9, 0, 10, 11, 0, 12, 0],)

    def make(self, path):
        path.mkdir()
        (stream,) = self.contents
        for number, start in enumerate(range(0, len(stream), 4)):
            chunk(path / f"train_{number:010d}.bin", stream[start : start + 4])


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype(tmp_path, code):
    chunk(tmp_path / "x_0000000000.bin", [5, 6, 1, 7, 1], code)
    with tokfmt.open(tmp_path / "x_0000000000.bin", eos=1) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("litgpt-packed", [[5, 6], [7]])


def test_streams_and_what_fills_them(tmp_path):
    """Process 10 is not a part of process 1, and chunk 10 comes after chunk 9."""
    chunk(tmp_path / "s_1_0000000000.bin", [5, 1, *[2] * 9])
    chunk(tmp_path / "s_10_0000000000.bin", [6, 1, 7, 1, 1])
    with tokfmt.open(tmp_path, eos=1) as dataset:
        assert dataset[:].tolist() == [[5], [6], [7], []]
        assert any("2 streams are read one after the other" in note for note in dataset.info.notes)
    with tokfmt.open(tmp_path, eos=1, options={"prefix": "s_1", "fill": "keep"}) as dataset:
        assert dataset[:].tolist() == [[5], [2] * 9]
    for options in ({"fill": "drop"}, {"fill_id": 1}):
        with tokfmt.open(tmp_path, eos=1, options={"prefix": "s_10", **options}) as dataset:
            assert dataset[:].tolist() == [[6], [7]]
    with pytest.raises(TokfmtError, match="holds no stream s_2: found s_1, s_10"):
        tokfmt.open(tmp_path, options={"prefix": "s_2"})
