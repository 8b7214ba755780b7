"""Where tokens lie, against the bytes themselves: struct, zlib, h5py, zarr and json read them, no tokfmt code."""

import json
import pickle

import pytest

from tokfmt.ops.source.ingest import tokenized
from tokfmt.ops.source.open import open_source


def opened(path, **given):
    return open_source([path], **given).reader


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_jsonl(tmp_path, indexed, end, bom):
    lists = [[1, 2, 3], [], [4], [5, 6] * 500, [7]]
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"input_ids": ids}).encode() for ids in lists]
    path.write_bytes(bom + end.encode().join(lines) + end.encode())
    raw = path.read_bytes()
    if indexed:
        entries, at = [], 0
        for line in raw.split(b"\n")[:-1]:
            entries.append((at, len(line)))
            at += len(line) + 1
        (tmp_path / "x.idx").write_bytes(pickle.dumps(entries))
    records = opened(path)
    reader = tokenized(records, None)
    position = 0
    for number, ids in enumerate(lists):
        line = records.record_byte_offset(number)
        data = raw[line.offset : line.offset + line.width]
        assert json.loads(data.decode("utf-8-sig")) == {"input_ids": ids}
        for byte in (line.offset, line.offset + line.width, line.offset + line.width // 2):
            assert records.record_at(path, byte) == number
            assert reader.find(path, byte) == (position if ids else None)
        for k in range(len(ids)):
            place = reader.locate(position)
            assert (place.path, place.offset, place.width) == (path, line.offset, None)
            assert place.detail == f"token {k:,} of record {number}"
            position += 1
    assert records.record_at(path, len(raw)) is None
    with pytest.raises(IndexError):
        records.record_byte_offset(len(lists))


def test_jsonl_without_its_invalid_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"input_ids": [1]}\n{broken\n{"input_ids": [2]}\n')
    records = open_source([path], allow_loss=["invalid-lines"]).reader
    assert [records.record_byte_offset(i).offset for i in range(2)] == [0, 27]
    assert [records.record_at(path, at) for at in (0, 20, 30)] == [0, None, 1]


def test_jsonl_of_several_files_and_compressed(tmp_path):
    import gzip

    (tmp_path / "a.jsonl").write_text('{"input_ids": [1]}\n')
    (tmp_path / "b.jsonl").write_text('{"input_ids": [2]}\n{"input_ids": [3]}\n')
    records = opened(tmp_path)
    assert [records.record_byte_offset(i).path.name for i in range(3)] == ["a.jsonl", "b.jsonl", "b.jsonl"]
    assert records.record_at(tmp_path / "b.jsonl", 20) == 2
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"input_ids": [1]}\n'))
    place = opened(path).record_byte_offset(0)
    assert (place.offset, place.width) == (0, None) and "decompressed" in place.detail
