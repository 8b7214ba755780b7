"""arrayrecord under the laws of every format; the oracle walks chunks from the first to the footer, which it does not need."""

import json
import shutil
import struct

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.files.place import place_of
from tokfmt.formats.arrayrecord import FORMAT
from tokfmt.plugin import Hints
from tokfmt.testing import FormatContract

BLOCK = 65_536
HOME = FIXTURES / "arrayrecord"


def numbers(data):
    value = shift = 0
    for byte in data:
        value, shift = value + byte % 128 * 2**shift, shift + 7
        if byte < 128:
            yield value
            value = shift = 0


def chunks(raw):
    """Type, number of records, and data of each chunk, up to the postscript."""
    content = b"".join(raw[at + 24 : at + BLOCK] for at in range(0, len(raw) - BLOCK, BLOCK))
    at = 0
    while at < len(content):
        _, size, _, kind, _ = struct.unpack_from("<5Q", content, at)
        yield chr(kind % 256), kind // 256, content[at + 40 : at + 40 + size]
        at += 40 + size
    assert at == len(content)


def records(raw):
    """The records of each chunk; the last chunk that is not padding is the footer."""
    found = []
    for kind, count, data in chunks(raw):
        if kind == "r":
            assert data[0] == 0
            length = next(numbers(data[1:]))
            begin = 1 + next(k for k, byte in enumerate(data[1:], 1) if byte < 128)
            sizes = list(numbers(data[begin : begin + length]))
            assert len(sizes) == count
            ends = begin + length + np.cumsum([0, *sizes])
            found.append([data[a:b] for a, b in zip(ends, ends[1:])])
    assert len(raw) % BLOCK == 0 and found[-1][0][2:4] == b"\x08\x01" and len(found[-1]) == len(found)
    return found[:-1]


def ids_of(record, name):
    """The IDs of an Example with one feature: the message inside of five others, of one field each."""
    for tag in (10, 10, (10, 18), 26, 10):
        if not record:
            return []
        if isinstance(tag, tuple):
            assert record.startswith(b"\x0a" + bytes([len(name)]) + name.encode())
            record, (_, tag) = record[2 + len(name) :], tag
        assert record[0] == tag
        size = next(numbers(record[1:]))
        record = record[len(record) - size :]
    return list(numbers(record))


class TestFile(FormatContract):
    format = FORMAT
    filename = "x.array_record"
    max_id = 2**32 - 1
    checksummed = True
    write_variants = ({}, {"group_size": 3, "field": "inputs"})
    sparse_tokens, peak_bytes = 1 << 18, 12 << 20  # a hash in Python is slow where memory is traced
    flipped = 16
    region = 64

    def oracle(self, path, options):
        groups = records(path.read_bytes())
        size = options.get("group_size", 1)
        assert all(len(group) == size for group in groups[:-1]) and all(0 < len(group) <= size for group in groups[-1:])
        held = [record for group in groups for record in group]
        if dtype := options.get("bare"):
            return [np.frombuffer(record, np.dtype(dtype).newbyteorder("<")).tolist() for record in held]
        return [ids_of(record, options.get("field", "input_ids")) for record in held]

    def read_options(self, options):
        return {"bare": options["bare"]} if "bare" in options else {}


class TestFolder(TestFile):
    filename = "records"
    sharded = {"shard_size": 1}
    checksummed = False  # nothing states how many files there are
    write_variants = ({"shard_size": 7}, {"bare": "int64", "group_size": 2})
    long_options = {"shard_size": 1 << 16}
    many = 40

    def oracle(self, path, options):
        return [one for file in sorted(path.iterdir()) for one in super(TestFolder, self).oracle(file, options)]


def test_the_bytes_of_upstream(tmp_path):
    """Records across blocks, and of no bytes: what is written is what array_record wrote of the same records."""
    cases = {case["name"]: case for case in json.loads((HOME / "expected.json").read_text())["cases"]}
    across = [[start + i % 50 for i in range(count)] for start, count in cases["across_blocks"]["ranges"]]
    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": {one}}}\n' for one in across))
    out = tmp_path / "x.array_record"
    tokfmt.convert(tmp_path / "x.jsonl", out, to_options={"bare": "int32", "group_size": 2}, eos="none")
    assert out.read_bytes() == (HOME / "across_blocks.array_record").read_bytes()


def test_a_chunk_is_not_cut_where_records_are_written(tmp_path):
    """4,096 records are written at once. The index has their number before one is read."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1]}\n' * 4100)
    out = tmp_path / "x.array_record"
    tokfmt.convert(tmp_path / "x.jsonl", out, to_options={"group_size": 4096}, eos="none", executor="serial")
    assert [len(group) for group in records(out.read_bytes())] == [4096, 4]
    assert FORMAT.open([place_of(out)], FORMAT.read_options(), Hints()).info.records == 4100


def test_text_is_tokenized(tmp_path):
    folder = shutil.copytree(HOME / "c4", tmp_path / "c4")
    (folder / "features.json").write_text("{}")  # of TFDS
    tokfmt.convert(folder, tmp_path / "x.jsonl")
    assert [json.loads(line)["text"] for line in (tmp_path / "x.jsonl").read_text().splitlines()] == [
        "hello",
        "world",
        "é",
    ]
    (tmp_path / "c4-train.array_record-00001-of-00002").write_bytes(
        (HOME / "c4" / "c4-train.array_record-00001-of-00002").read_bytes()
    )
    with pytest.raises(TokfmtError, match="lacks files.*expected 2 files, found 1"):
        tokfmt.open(tmp_path, format="arrayrecord")


def test_a_file_that_was_not_closed(tmp_path):
    """Its chunks are kept up to where they end, and a footer is not taken for records."""
    raw = (HOME / "across_blocks.array_record").read_bytes()
    path = tmp_path / "x.array_record"
    for size, kept in ((len(raw) - BLOCK, 4), (100_000, 2), (100, 0)):
        path.write_bytes(raw[:size])
        with pytest.raises(TokfmtError, match="has no postscript"):
            tokfmt.open(path, options={"bare": "int32"})
        if kept:
            with tokfmt.open(path, options={"bare": "int32"}, allow_partial=True, eos="none") as dataset:
                assert [len(one) for one in dataset[:]] == [3, 20000, 2, 9000][:kept]


def test_rows_of_a_recipe(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": [{k}, {k + 1}, {k + 2}]}}\n' for k in range(1, 30)))
    (tmp_path / "x.toml").write_text(
        'tokfmt = 1\nseq_len = 8\nto_eos = 0\nlabels = "same"\n[[source]]\npath = "x.jsonl"\n'
    )
    with tokfmt.open(tmp_path / "x.toml") as mixed:
        expected = [one["input_ids"].tolist() for one in mixed]
    tokfmt.convert(tmp_path / "x.toml", tmp_path / "rows.array_record")
    with tokfmt.open(tmp_path / "rows.array_record", eos="none") as dataset:
        assert dataset[:].tolist() == expected
