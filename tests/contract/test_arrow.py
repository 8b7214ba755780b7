"""parquet and arrow under the laws of every format; the oracle is pyarrow itself."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from tokfmt.formats.arrow import ARROW, PARQUET
from tokfmt.testing import FormatContract


def split_at(rows, eos):
    """Sequences of a stream of rows that each end with the separator."""
    found, current = [], []
    for token in (token for row in rows for token in row):
        if token == eos:
            found.append(current)
            current = []
        else:
            current.append(token)
    assert not current
    return found


class TestParquet(FormatContract):
    format = PARQUET
    filename = "x.parquet"
    shard = "x{k:05d}.parquet"
    write_variants = ({}, {"dtype": "int64", "column": "tokens"})

    def oracle(self, path, options):
        return pq.read_table(path)[options.get("column", "input_ids")].to_pylist()


class TestParquetFolder(FormatContract):
    format = PARQUET
    filename = "folder"
    max_id = 2**32 - 1
    write_variants = ({"dtype": "uint32", "shard_size": 100}, {"dtype": "uint32", "split": "test"})
    long_options = {"dtype": "uint32"}

    def oracle(self, path, options):
        assert {p.name.split("-")[0] for p in path.iterdir()} == {options.get("split", "train")}
        return [row for p in sorted(path.iterdir()) for row in pq.read_table(p)["input_ids"].to_pylist()]


class TestBlocks(FormatContract):
    format = PARQUET
    filename = "x.parquet"
    eos_id = 50256
    write_variants = ({"seq_len": 8},)
    long_options = {"seq_len": 2048}

    def oracle(self, path, options):
        rows = pq.read_table(path)["input_ids"].to_pylist()
        assert all(len(row) == 8 for row in rows[:-1])
        return split_at(rows, self.eos_id)


class TestStream(FormatContract):
    format = ARROW
    filename = "x.arrow"
    shard = "data-{k:05d}.arrow"

    def oracle(self, path, options):
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()["input_ids"].to_pylist()


class TestSaved(FormatContract):
    format = ARROW
    filename = "saved"
    write_variants = ({"shard_size": 100}, {"split": "validation"})

    def oracle(self, path, options):
        home = path / options["split"] if "split" in options else path
        if "split" in options:
            assert json.loads((path / "dataset_dict.json").read_text()) == {"splits": [options["split"]]}
        names = [file["filename"] for file in json.loads((home / "state.json").read_text())["_data_files"]]
        tables = [pa.ipc.open_stream((home / name).read_bytes()).read_all() for name in names]
        return pa.concat_tables(tables)["input_ids"].to_pylist()
