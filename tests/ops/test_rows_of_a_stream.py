"""Rows of one length that are pieces of a stream: `rows=blocks` joins them, and `--eos` splits the stream."""

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

import tokfmt

EOS = 7
WIDTH = 16


@pytest.fixture
def stream():
    """12 rows of 16; no row ends with a separator, and documents go on in the next row."""
    tokens = np.random.default_rng(3).integers(10, 900, 12 * WIDTH)
    tokens[[3, 4, 37, 90, 91, 130, 190]] = EOS
    return tokens


def documents(stream):
    found = [[]]
    for token in stream.tolist():
        found.append([]) if token == EOS else found[-1].append(token)
    return found[: len(found) - (not found[-1])]


def mds(path, stream):
    """One shard, by hand: the number of samples, their offsets, then size and bytes of each."""
    rows = [row.astype("<u4").tobytes() for row in stream.reshape(-1, WIDTH)]
    header = b'{"columns": ["tokens"]}'
    cells = [struct.pack("<I", len(row)) + row for row in rows]
    begin = 4 + 4 * (len(rows) + 1) + len(header)
    offsets = np.cumsum([begin, *map(len, cells)]).astype("<u4")
    raw = struct.pack("<I", len(rows)) + offsets.tobytes() + header + b"".join(cells)
    path.mkdir()
    (path / "shard.00000.mds").write_bytes(raw)
    named = {"basename": "shard.00000.mds", "bytes": len(raw), "hashes": {}}
    shard = {
        "column_encodings": ["bytes"], "column_names": ["tokens"], "column_sizes": [None], "compression": None,
        "format": "mds", "hashes": [], "raw_data": named, "samples": len(rows), "size_limit": 1 << 26, "version": 2,
        "zip_data": None,
    }  # fmt: skip
    write_json(path / "index.json", {"shards": [shard], "version": 2})
    return {"dtype": "uint32"}


def litdata(path, stream):
    """Rows as items of TokensLoader without a header, by a conversion that leaves them as they are."""
    return converted(path, stream, "litdata")


def levanter(path, stream):
    """A cache of the offsets and the data of rows."""
    root = zarr.open_group(path, mode="w", zarr_format=3)
    group = root.create_group("input_ids")
    count = len(stream) // WIDTH
    offsets = np.append(count, np.arange(1, count + 1) * WIDTH)
    for name, values in (("offsets", offsets.astype("<i8")), ("data", stream.astype("<i4"))):
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(1 << 12,))[:] = values
    write_json(path / "shard_ledger.json", {"total_num_rows": count, "shard_rows": {}, "is_finished": True})
    return {}


def parquet(path, stream):
    return converted(path.with_suffix(".parquet"), stream, "parquet")


def converted(path, stream, name):
    flat = path.parent / "rows.jsonl"
    flat.write_text("".join(f'{{"input_ids": {row.tolist()}}}\n' for row in stream.reshape(-1, WIDTH)))
    tokfmt.convert(flat, path, to_format=name, eos="none", to_eos="none", manifest=False)
    return {}


def write_json(path, content):
    Path(path).write_text(json.dumps(content))


@pytest.mark.parametrize("made", [mds, litdata, levanter, parquet])
def test_blocks_are_read_as_one_stream(made, stream, tmp_path):
    path = tmp_path / "x"
    options = made(path, stream)
    path = next(tmp_path.glob("x*"))
    with tokfmt.open(path, format=made.__name__, options=options, eos="none") as dataset:
        assert dataset[:].tolist() == stream.reshape(-1, WIDTH).tolist()
    how = {"format": made.__name__, "eos": EOS, "options": {**options, "rows": "blocks"}}
    with tokfmt.open(path, **how) as dataset:
        assert dataset[:].tolist() == documents(stream)
    done = tokfmt.convert(path, tmp_path / "train.bin", to_format="nanogpt", verify=True, **how)
    added = int(stream[-1] != EOS)
    assert np.fromfile(tmp_path / "train.bin", "<u2").tolist() == stream.tolist() + [EOS] * added
    assert (done.separators["kept"], done.separators["added"]) == (int(np.count_nonzero(stream == EOS)), added)
    assert tokfmt.info(path, **how).layout == "stream"


@pytest.mark.parametrize("eos", [None, EOS])
def test_the_manifest_of_rows_counts_what_is_in_them(eos, stream, tmp_path):
    """The samples of a recipe have their separators as content. Read in another way, they do not contradict it."""
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents(stream)))
    source = {"name": "x", "path": str(tmp_path / "x.jsonl"), "eos": EOS}
    (tmp_path / "mix.toml").write_text(
        f"tokfmt = 1\nseq_len = {WIDTH}\n[[source]]\n"
        + "".join(f"{key} = {value!r}\n" for key, value in source.items())
    )
    path = tmp_path / "x.parquet"
    tokfmt.convert(tmp_path / "mix.toml", path)
    rows = [row["input_ids"] for row in pq.read_table(path).to_pylist()]
    joined = np.concatenate(rows)
    with tokfmt.open(path, options={"rows": "blocks"}, eos=eos) as dataset:
        assert dataset[:].tolist()[: len(documents(stream))] == documents(joined)
    with tokfmt.open(path, eos=eos) as dataset:
        assert dataset[:].tolist() == [row[: len(row) - (eos is not None and row[-1] == EOS)] for row in rows]
    assert tokfmt.check(path, deep=True, eos=eos)[0].errors == 0
    assert tokfmt.check(path, deep=True, eos=eos, options={"rows": "blocks"})[0].errors == 0
