"""Reading JSON lines: lines, blocks, selections, indexes of every version, compression, fields, trouble."""

import gzip
import json
import pickle

import numpy as np
import pytest

from tokfmt.core.errors import (
    FormatError,
    MissingDependencyError,
    UnsafeError,
)
from tokfmt.core.format import Confidence, Hints, look
from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl import lines as jsonl_lines
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.run.execute import make_executor, run_tasks


def reader(*paths, allow_loss=("fields",), **options):
    return FORMAT.open(paths, ReadOptions(**options), Hints(allow_loss=frozenset(allow_loss)))


def texts(source, size=1 << 20, first=0, last=None):
    return [text for block in source.blocks(size, first, last) for batch in source.texts(block) for text in batch.texts]


def put(path, *lines, end="\n"):
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + end.encode() for line in lines))
    return path


def indexed(path, lines, keep, lengths=len):
    """Write lines and an index of some of them."""
    put(path, *lines)
    offsets = np.cumsum([0] + [len(line.encode()) + 1 for line in lines]).tolist()
    entries = [(offsets[i], lengths(lines[i].encode())) for i in keep]
    path.with_suffix(".idx").write_bytes(pickle.dumps(entries, protocol=4))
    return path


def test_lines_and_blocks_larger_and_smaller_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_lines, "PIECE", 64)
    expected = ["a" * n for n in (0, 1, 50, 63, 64, 65, 127, 128, 300, 1, 1, 1)]
    path = put(tmp_path / "x.jsonl", *(json.dumps({"text": text}) for text in expected))
    source = reader(path)
    for size in (1, 63, 64, 65, 200, 5000):
        assert texts(source, size) == expected
        assert texts(source, size, 3, 9) == expected[3:9]
    assert [source.record(i) for i in range(12)] == expected
    assert source.blocks(64)[0].start == 0
    assert source.blocks(64)[-1].stop == path.stat().st_size


def test_zstandard(tmp_path, monkeypatch):
    zstandard = pytest.importorskip("zstandard")
    content = b"".join(json.dumps({"text": f"{i}" * 40}).encode() + b"\n" for i in range(5000))
    path = tmp_path / "x.jsonl.zst"
    frames = [zstandard.compress(content[:1000]), b"\x50\x2a\x4d\x18\x03\0\0\0abc", zstandard.compress(content[1000:])]
    path.write_bytes(b"".join(frames))
    source = reader(path)
    assert texts(source) == [f"{i}" * 40 for i in range(5000)]
    assert texts(source, 1, 4990, 4992) == ["4990" * 40, "4991" * 40]
    assert source.info.notes == (
        "compressed lines are read from their start, so a record near the end takes as long as the whole file",
    )
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    for damaged, error in (
        (whole[:-1], "ends too early"), (whole[:3], "is not a zstandard file"), (whole[:-1] + b"x", "is damaged"),
        (whole[:100] + b"\xff" * 9 + whole[109:], "is damaged"), (whole + b"tail", "ends too early|is damaged"),
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=error):
            texts(reader(path))
    path.write_bytes(zstandard.compress(b" " * (600 << 20)))  # 20 KB
    with pytest.raises(UnsafeError, match="line 1 is longer than 1,000 bytes"):
        reader(path, max_line=1000)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tokfmt\[zstd\]'"):
        reader(path)


def test_compressed_by_content_not_by_name(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n', mtime=0))
    assert texts(reader(path)) == ["a"]
    assert FORMAT.sniff(look(path)) is Confidence.CERTAIN


def _block_texts(source, block):
    return [text for batch in source.texts(block) for text in batch.texts]


def test_readers_travel_to_other_processes(tmp_path):
    lines = [json.dumps({"text": f"{i}" * 9}) for i in range(200)]
    path = indexed(tmp_path / "x.jsonl", lines, range(0, 200, 2))
    source = reader(path, index="trust")
    blocks = source.blocks(2000, 3, 90)
    assert len(blocks) > 3
    with make_executor("processes", 2) as pool:
        parts = list(run_tasks(_block_texts, source, blocks, pool, 2, tmp_path))
    assert sorted(sum(parts, [])) == sorted(f"{i}" * 9 for i in range(6, 180, 2))


# detection


@pytest.mark.parametrize(
    ("name", "content", "confidence"),
    [
        ("x.jsonl", b'{"a": 1}\n', Confidence.CERTAIN),
        ("x.ndjson", b'\xef\xbb\xbf\n {"a": 1}', Confidence.CERTAIN),
        ("x.json", b'{"a": 1}\n{"a": 2}\n', Confidence.STRUCTURE),
        ("x.bin", b'{"a": 1}\r\n{"a": 2}\n', Confidence.STRUCTURE),
        ("x", b'{"text": "' + b"a" * 70_000 + b'"}\n', Confidence.PLAUSIBLE),
        ("x.jsonl", b'{"text": "' + b"a" * 70_000 + b'"}\n', Confidence.STRUCTURE),
        ("x.jsonl", b"", Confidence.STRUCTURE),
        ("x.jsonl", b"{broken\n", Confidence.NAME),
        ("x.jsonl", b"\xff\xfe{\0", Confidence.NAME),
        ("x.jsonl.gz", b"\x1f\x8bnot", Confidence.NAME),
        ("x.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), Confidence.STRUCTURE),
        ("x.jsonl.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), Confidence.CERTAIN),
        ("x", b"", None),
        ("x.json", b"", None),
        ("x.json", b'[\n{"a": 1}\n]\n', None),
        ("x.json", b'[{"a": 1}]\n', None),
        ("x.json", b'{\n "a": 1\n}\n', None),
        ("x.csv", b"a,b\n1,2\n", None),
        ("x.txt", b"plain\n", None),
        ("x", b"{}\n", None),
        ("x.idx", pickle.dumps([(0, 1)], protocol=4), None),
    ],
)
def test_sniff(tmp_path, name, content, confidence):
    (tmp_path / name).write_bytes(content)
    assert FORMAT.sniff(look(tmp_path / name)) == confidence


def test_sniff_directories(tmp_path):
    assert FORMAT.sniff(look(tmp_path)) is None
    (tmp_path / "a.jsonl.zst").touch()
    assert FORMAT.sniff(look(tmp_path)) is Confidence.STRUCTURE


@pytest.mark.parametrize("piece", [1, 7, 64, 1000, 1 << 18])
def test_gzip_in_pieces_of_any_size(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(jsonl_lines, "PIECE", piece)
    monkeypatch.setattr(jsonl_lines, "_GZIP_INPUT", max(50, piece // 10))
    content = b'{"text": "' + b"a" * 9000 + b'"}\n' + b'{"text": ""}\n' * 300 + b'{"text": "' + b"xyz" * 999 + b'"}\n'
    path = tmp_path / "x.jsonl.gz"
    for members in ([content], [content[:1], content[1:500], b"", content[500:]]):
        path.write_bytes(b"".join(map(gzip.compress, members)))
        assert b"".join(jsonl_lines.TextFile(path).pieces()) == content
        assert len(texts(reader(path))) == 302
