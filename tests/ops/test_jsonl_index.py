"""`tokfmt index` writes byte for byte what Modalities writes."""

import json
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import FIXTURES

from tokfmt.errors import DestinationExistsError, FormatError, OptionError, UnsupportedError
from tokfmt.formats.jsonl.index import write_index

LINES = FIXTURES / "jsonl"
NAMES = sorted(path.stem for path in LINES.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_goldens(name, tmp_path):
    whole, dropped = LINES / f"{name}.idx", LINES / f"{name}.drop.idx"
    target = tmp_path / "x.idx"
    if whole.exists():
        report = write_index(LINES / f"{name}.jsonl", target)
        assert target.read_bytes() == whole.read_bytes()
        assert (report.entries, report.skipped) == (len(pickle.loads(whole.read_bytes())), 0)
    else:
        with pytest.raises(FormatError, match=r"--skip-invalid"):
            write_index(LINES / f"{name}.jsonl", target)
        assert os.listdir(tmp_path) == []
        report = write_index(LINES / f"{name}.jsonl", target, skip_invalid=True)
        assert target.read_bytes() == dropped.read_bytes()
    assert os.listdir(tmp_path) == ["x.idx"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty_line", "line 2 is empty at byte 88. Remove it; --skip-invalid leaves such lines out of the index"),
        ("empty_file", "is empty. --skip-invalid writes an index without entries"),
        ("latin1", "line 1 is not UTF-8 at byte 14: found byte 0xdf. Convert the file to UTF-8; --skip-invalid leaves such lines out of the index"),
        ("faulty", "line 2 is not valid JSON (expecting property name enclosed in double quotes) at byte 89: found the character b. "
                   "Correct it; --skip-invalid leaves such lines out of the index"),
    ],
)  # fmt: skip
def test_messages(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(LINES)
    with pytest.raises(FormatError) as caught:
        write_index(Path(f"{name}.jsonl"), tmp_path / "x.idx")
    assert str(caught.value) == f"{name}.jsonl: {message}"


def oracle(content):
    """Entries as Modalities makes them: readline, cut the line feed, json.loads."""
    entries, at = [], 0
    for line in content.split(b"\n"):
        if at < len(content):
            try:
                json.loads(line)
                entries.append((at, len(line)))
            except ValueError:
                pass
        at += len(line) + 1
    return entries


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.sampled_from([b"", b" ", b"{}", b'{"a": NaN}', b"[1, 2]", b"{", b'{"a": 1}{"b": 2}', b'{"a":', b"1}", b'"\xc3\xa4"', b'"\xff"', b"\r",
                         b"{}\r", b"\xef\xbb\xbf{}", b'"\\ud83d"', b"1 2", b'{"text": "abc"}', b'{"x": {"y": []}}', b"\xef\xbb\xbf"]),
        max_size=8,
    ),
    st.booleans(),
)  # fmt: skip
def test_any_lines(tmp_path_factory, lines, ended):
    home = tmp_path_factory.mktemp("x")
    content = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    (home / "x.jsonl").write_bytes(content)
    expected = oracle(content)
    report = write_index(home / "x.jsonl", skip_invalid=True)
    assert pickle.loads((home / "x.idx").read_bytes()) == expected
    assert (home / "x.idx").read_bytes() == pickle.dumps(expected, protocol=4)
    assert report.entries == len(expected)
    count = content.count(b"\n") + (not content.endswith(b"\n") and content not in (b"", b"\xef\xbb\xbf"))
    assert report.skipped == count - len(expected)
    if report.skipped or not expected:
        with pytest.raises(FormatError):
            write_index(home / "x.jsonl", overwrite=True)
        assert pickle.loads((home / "x.idx").read_bytes()) == expected
    else:
        write_index(home / "x.jsonl", home / "y.idx")
        assert (home / "y.idx").read_bytes() == (home / "x.idx").read_bytes()


@pytest.mark.parametrize("validate", [True, False])
def test_progress(tmp_path, validate):
    (tmp_path / "x.jsonl").write_bytes(b"{}\n" * (1 << 18))
    told = []
    write_index(tmp_path / "x.jsonl", validate=validate, advance=told.append)
    assert len(told) > 1 or not validate
    assert sum(told) == (3 << 18) - 1  # to the end of the last line


def test_without_validation(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"{broken\n\xff\n{}\r\nlast")
    assert write_index(tmp_path / "x.jsonl", validate=False).entries == 4
    assert pickle.loads((tmp_path / "x.idx").read_bytes()) == [(0, 7), (8, 1), (10, 3), (14, 4)]
    (tmp_path / "x.jsonl").write_bytes(b"{}\n\n{}\n")
    with pytest.raises(FormatError, match="line 2 is empty at byte 3"):
        write_index(tmp_path / "x.jsonl", validate=False, overwrite=True)
    assert write_index(tmp_path / "x.jsonl", validate=False, overwrite=True, skip_invalid=True).skipped == 1
    assert pickle.loads((tmp_path / "x.idx").read_bytes()) == [(0, 2), (4, 2)]


def test_an_index_that_exists_stays(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"{}\n")
    (tmp_path / "x.idx").write_bytes(b"old")
    with pytest.raises(DestinationExistsError, match="--overwrite"):
        write_index(tmp_path / "x.jsonl")
    assert (tmp_path / "x.idx").read_bytes() == b"old"
    write_index(tmp_path / "x.jsonl", overwrite=True)
    assert pickle.loads((tmp_path / "x.idx").read_bytes()) == [(0, 2)]
    assert sorted(os.listdir(tmp_path)) == ["x.idx", "x.jsonl"]


def test_refusals(tmp_path):
    with pytest.raises(FormatError, match=r"plain\.jsonl\.gz: is not a gzip file"):
        write_index(FIXTURES / "bad" / "jsonl" / "plain.jsonl.gz", tmp_path / "x.idx")
    with pytest.raises(UnsupportedError, match="is gzip data; only plain text can have an index"):
        write_index(FIXTURES / "bad" / "jsonl" / "control_members.jsonl.gz", tmp_path / "x.idx")
    with pytest.raises(FormatError, match="no such file"):
        write_index(tmp_path / "absent.jsonl")
    (tmp_path / "x.idx").write_bytes(b"{}\n")
    with pytest.raises(OptionError, match="would replace the text"):
        write_index(tmp_path / "x.idx", overwrite=True)


def test_many_lines_in_little_memory(tmp_path):
    lines = [json.dumps({"text": "a" * (i % 50)}).encode() for i in range(200_000)]
    content = b"\n".join(lines)
    (tmp_path / "x.jsonl").write_bytes(content)
    tracemalloc.start()
    write_index(tmp_path / "x.jsonl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20
    entries, at = [], 0
    for line in lines:
        entries.append((at, len(line)))
        at += len(line) + 1
    assert (tmp_path / "x.idx").read_bytes() == pickle.dumps(entries, protocol=4)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r", b"a", b"abcd", b"abcd\r", b"x" * 23]), max_size=20),
    st.booleans(),
    st.one_of(st.just([]), st.integers(1, 60).map(lambda k: [b"y" * ((1 << 18) - k)]), st.integers(1, 9).map(lambda k: [b"abcde"] * ((1 << 14) - k))),
)  # fmt: skip
def test_lines_that_are_only_found(tmp_path_factory, lines, ended, before):
    """Also across pieces of the file; lines of nothing but a carriage return, or the mark at the start, are empty."""
    home = tmp_path_factory.mktemp("x")
    content = b"\n".join([*before, *lines]) + (b"\n" if ended and lines else b"")
    (home / "x.jsonl").write_bytes(content)
    expected, at = [], 0
    for line in content.split(b"\n"):
        stripped = line.removesuffix(b"\r")
        if (stripped.removeprefix(b"\xef\xbb\xbf") if at == 0 else stripped) and at < len(content):
            expected.append((at, len(line)))
        at += len(line) + 1
    write_index(home / "x.jsonl", validate=False, skip_invalid=True)
    assert pickle.loads((home / "x.idx").read_bytes()) == expected
