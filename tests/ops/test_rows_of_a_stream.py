"""Rows of one length that are pieces of a stream: `rows=blocks` joins them, and `--eos` splits the stream."""

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

import tokfmt
from tokfmt.errors import OptionError

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


def megatron(path, stream):
    """An index whose sequences are rows, as Pythia publishes them."""
    rows = stream.reshape(-1, WIDTH)
    path = path.with_name("x_document.bin")
    path.write_bytes(rows.astype("<u2").tobytes())
    count, starts = len(rows), np.arange(len(rows)) * 2 * WIDTH
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1)
    lengths = np.full(count, WIDTH, "<i4").tobytes()
    index = lengths + starts.astype("<i8").tobytes() + np.arange(count + 1, dtype="<i8").tobytes()
    path.with_suffix(".idx").write_bytes(head + index)
    return {}


def converted(path, stream, name):
    flat = path.parent / "rows.jsonl"
    flat.write_text("".join(f'{{"input_ids": {row.tolist()}}}\n' for row in stream.reshape(-1, WIDTH)))
    tokfmt.convert(flat, path, to_format=name, eos="none", to_eos="none", manifest=False)
    return {}


def array(path, stream):
    np.save(path.with_suffix(".npy"), stream.reshape(-1, WIDTH))
    return {}


def write_json(path, content):
    Path(path).write_text(json.dumps(content))


FLAT = [mds, litdata, levanter, megatron]


@pytest.mark.parametrize("made", [*FLAT, parquet])
def test_blocks_are_read_as_one_stream(made, stream, tmp_path):
    path = tmp_path / "x"
    options = made(path, stream)
    path = min(tmp_path.glob("x*"))
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


@pytest.mark.parametrize("made", FLAT)
def test_tokens_that_a_block_repeats_are_left_out(made, stream, tmp_path):
    """A trainer's rows have the first token of the next row as their last label."""
    step = WIDTH - 1
    whole = stream[: 12 * step + 1]
    rows = np.concatenate([whole[at * step : at * step + WIDTH] for at in range(12)])
    options = made(tmp_path / "x", rows) | {"rows": "blocks"}
    path = min(tmp_path.glob("x*"))
    how = {"format": made.__name__, "eos": EOS}
    assert any("overlap=1" in note for note in tokfmt.info(path, options=options, **how).notes)
    with tokfmt.open(path, options={**options, "overlap": 1}, **how) as dataset:
        assert dataset[:].tolist() == documents(whole)
        places = [dataset.reader.locate(position) for position in (0, len(dataset[0]))]
        assert places[1] is not None
    for overlap, many in ((WIDTH, None), (0, documents(rows))):
        if many is None:
            with pytest.raises(OptionError, match=f"overlap={overlap}"):
                tokfmt.open(path, options={**options, "overlap": overlap}, **how)
        else:
            with tokfmt.open(path, options={**options, "overlap": overlap}, **how) as dataset:
                assert dataset[:].tolist() == many


@pytest.mark.parametrize(("made", "options"), [(parquet, {"rows": "blocks"}), (array, {"view": "documents"})])
@pytest.mark.parametrize("step", [WIDTH - 1, WIDTH])
def test_tokens_that_are_read_twice_are_noted(made, options, step, stream, tmp_path):
    """Nor is a note given where no row repeats one."""
    rows = np.concatenate([stream[at * step : at * step + WIDTH] for at in range(12)])
    made(tmp_path / "x", rows)
    (path,) = (one for one in tmp_path.glob("x*"))
    done = tokfmt.convert(path, tmp_path / "out.jsonl", format=made.__name__, eos=EOS, options=options)
    assert any("overlap=1" in note for note in done.notes) == (step < WIDTH)


def test_rows_are_not_reported_as_cut_documents(stream, tmp_path):
    """Some end with the separator by chance. Through a table, the others do not get one in silence."""
    stream[[WIDTH - 1, 5 * WIDTH - 1]] = EOS
    megatron(tmp_path / "x", stream)
    path = tmp_path / "x_document.bin"
    assert set(tokfmt.check(path, deep=True, eos=EOS)[0].counts) == {"TF946"}
    tokfmt.convert(path, tmp_path / "x.parquet", eos=EOS)
    back = tokfmt.convert(tmp_path / "x.parquet", tmp_path / "back_document.bin")
    assert back.separators["added"] == 12
    assert any("10 of its sequences" in note and "--to-eos none" in note for note in back.notes)
    tokfmt.convert(tmp_path / "x.parquet", tmp_path / "none_document.bin", to_eos="none")
    assert len(np.fromfile(tmp_path / "none_document.bin", "<u2")) == len(stream) - 2
