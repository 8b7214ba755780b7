"""Parquet and Arrow files in a store: one round for the columns of a row group, or for the heads of all batches."""

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.arrow.container import ArrowContainer, ParquetContainer
from tokfmt.plugin import Url

ROWS = [np.random.default_rng(k).integers(0, 50_000, 300).astype("i4") for k in range(2000)]
IDS = pa.array(ROWS, pa.list_(pa.int32()))
TABLE = pa.table({"input_ids": IDS, "text": ["x" * 100] * len(ROWS), "labels": IDS})


@pytest.fixture
def parquet(held, tmp_path):
    pyarrow.parquet.write_table(TABLE, tmp_path / "x.parquet", row_group_size=500, data_page_size=1 << 16)
    held.held["x.parquet"] = (tmp_path / "x.parquet").read_bytes()
    return ParquetContainer(Url.parse("mem://bucket/x.parquet"))


def test_the_columns_of_a_row_group_are_asked_for_together(held, parquet):
    """The pages of a column are walked, checked and decoded from what one round brought; no byte comes twice."""
    held.calls, held.asked[:] = 0, []
    batches = parquet.batches(parquet.groups[2], ["input_ids", "labels"])
    found = np.concatenate([batch.column(0).flatten().to_numpy() for batch in batches])
    assert np.array_equal(found, np.concatenate(ROWS[1000:1500]))
    assert held.calls == 1
    (_, _, begin, end), (_, _, after, last) = held.asked
    assert begin < end <= after < last and end - begin < len(held.held["x.parquet"]) / 6


@pytest.fixture
def file(held, tmp_path):
    with pyarrow.ipc.new_file(str(tmp_path / "x.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=100)
    held.held["x.arrow"] = (tmp_path / "x.arrow").read_bytes()
    return "mem://bucket/x.arrow"


def test_a_batch_takes_one_round(held, file):
    container = ArrowContainer(Url.parse(file))
    container.schema  # noqa: B018 -- it is read once
    held.calls, held.asked[:] = 0, []
    (batch,) = container.batches(container.groups[7], ["input_ids"])
    assert np.array_equal(batch.column(0).flatten().to_numpy(), np.concatenate(ROWS[700:800]))
    assert held.calls == 1


@pytest.mark.parametrize(
    "name", sorted(one.name for one in (FIXTURES / "parquet").iterdir() if one.suffix == ".parquet")
)
def test_fixtures(held, name):
    held.held[name] = (FIXTURES / "parquet" / name).read_bytes()

    def outcome(path):
        try:
            options = {"allow_loss": ["null-rows"]}
            return [ids if isinstance(ids, str) else list(ids) for ids in tokfmt.open(path, **options)]
        except TokfmtError as error:
            return type(error), str(error).replace(str(path), "")

    assert outcome(f"mem://bucket/{name}") == outcome(FIXTURES / "parquet" / name)
