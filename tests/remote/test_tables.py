"""Parquet and Arrow files in a store: one round for the columns of a row group, or for the heads of all batches."""

import pickle
import struct

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import tokfmt
from tokfmt.errors import TokfmtError

ROWS = [np.random.default_rng(k).integers(0, 50_000, 300).astype("i4") for k in range(2000)]
IDS = pa.array(ROWS, pa.list_(pa.int32()))
TABLE = pa.table({"input_ids": IDS, "text": ["x" * 100] * len(ROWS), "labels": IDS})


@pytest.mark.parametrize("how", [{"compression": "none"}, {"compression": "zstd"}, {"use_dictionary": False, "data_page_version": "2.0"}])  # fmt: skip
def test_every_row(held, tmp_path, how):
    pyarrow.parquet.write_table(TABLE, tmp_path / "x.parquet", row_group_size=700, **how)
    held.held["x.parquet"] = (tmp_path / "x.parquet").read_bytes()
    for stored, row in zip(tokfmt.open("mem://bucket/x.parquet"), ROWS, strict=True):
        assert np.array_equal(stored, row)


@pytest.fixture
def file(held, tmp_path):
    with pyarrow.ipc.new_file(str(tmp_path / "x.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=100)
    held.held["x.arrow"] = (tmp_path / "x.arrow").read_bytes()
    return "mem://bucket/x.arrow"


@pytest.mark.parametrize("length", [0, -1, 1 << 30, 40, 300])
def test_a_footer_that_lies_is_not_followed(held, file, length):
    """Its claims only announce ranges: the error is that of a local file."""
    content = bytearray(held.held["x.arrow"])
    content[-10:-6] = length.to_bytes(4, "little", signed=True)
    held.held["x.arrow"] = bytes(content)
    with pytest.raises(TokfmtError, match=r"^mem://bucket/x.arrow: the footer cannot be read"):
        tokfmt.open(file)


def test_a_check_of_a_large_pack_asks_for_few_places(held):
    """The ends of documents are read in 64 places, side by side; of a local pack, in 16,384."""
    count, length = 20_000, 600
    tokens = np.full((count, length), 7, "<u2")
    tokens[:, -1] = 50256
    index = pickle.dumps([(2 * length * k, 2 * length) for k in range(count)], protocol=4)
    held.held["x.pbin"] = struct.pack("<QI", tokens.nbytes, 2) + tokens.tobytes() + index
    (report,) = tokfmt.check("mem://bucket/x.pbin")
    assert report.exit_code == 0
    blocks = {one[2] >> 16 for one in held.asked if one[0] == "read"}
    assert held.calls < 100 and len(blocks) < 200, "of 366 blocks"
