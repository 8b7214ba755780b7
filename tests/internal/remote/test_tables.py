"""Parquet and Arrow files in a store: one round for the columns of a row group, or for the heads of all batches."""

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from tokfmt.core.place import Url
from tokfmt.formats.arrow.container import ArrowContainer, ParquetContainer

ROWS = [np.random.default_rng(k).integers(0, 50_000, 300).astype("i4") for k in range(2000)]
IDS = pa.array(ROWS, pa.list_(pa.int32()))
TABLE = pa.table({"input_ids": IDS, "text": ["x" * 100] * len(ROWS), "labels": IDS})


@pytest.fixture
def parquet(held, tmp_path):
    pyarrow.parquet.write_table(TABLE, tmp_path / "x.parquet", row_group_size=500, data_page_size=1 << 16)
    held.held["x.parquet"] = (tmp_path / "x.parquet").read_bytes()
    return ParquetContainer(Url.parse("mem://bucket/x.parquet"))


def test_a_row_group_that_is_too_large_to_hold_is_read_in_parts(held, parquet, monkeypatch):
    monkeypatch.setattr("tokfmt.formats.arrow.container._HELD", 1000)
    batches = parquet.batches(parquet.groups[0], ["input_ids"])
    assert np.array_equal(np.concatenate([batch.column(0).flatten().to_numpy() for batch in batches]), np.concatenate(ROWS[:500]))  # fmt: skip


@pytest.fixture
def file(held, tmp_path):
    with pyarrow.ipc.new_file(str(tmp_path / "x.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=100)
    held.held["x.arrow"] = (tmp_path / "x.arrow").read_bytes()
    return "mem://bucket/x.arrow"


def test_the_footer_tells_the_heads_of_all_batches(held, file, monkeypatch):
    announced = []
    monkeypatch.setattr(held, "prefetch", lambda _, ranges, __, *, keep: announced.append(ranges), raising=False)
    container = ArrowContainer(Url.parse(file))
    (heads,) = announced
    batches = container.messages[1:]
    assert heads == [(message.begin, message.begin + message.head) for message in batches]
