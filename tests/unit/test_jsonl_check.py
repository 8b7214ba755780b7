"""Findings of `check` on JSON lines and their indexes."""

import gzip
import pickle
import shutil
import tracemalloc

import pytest
from paths import FIXTURES

from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl.index import read_index, write_index
from tokfmt.formats.jsonl.lines import TextFile
from tokfmt.formats.jsonl.options import ReadOptions

LINES = FIXTURES / "jsonl"
A, B = b'{"text": "a"}\n', '{"text": "bä"}\n'.encode()


def check(path, **options):
    return list(FORMAT.audit(path, ReadOptions(**options)))


def codes(found):
    return [(f.code, f.offset) for f in found]


def put(path, content, entries=None):
    path.write_bytes(content)
    if entries is not None:
        path.with_suffix(".idx").write_bytes(pickle.dumps(entries, protocol=4))
    return path


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (A + B, []),
        (b"", []),
        (A + b"{\n\n" + B + b'{"text": 3}\n[]', [("TF501", 15), ("TF501", 33), ("TF501", 45), ("TF519", None)]),
        (A + b'{"text": "\xff"}\n', [("TF503", 24)]),
        (b'{"text": "\\ud83d"}\n', [("TF504", 0)]),
        (b'{"text": "a", "b": ' + b"[" * 600 + b"]" * 600 + b"}\n", [("TF505", 0)]),
        (b'{"input_ids": [1]}\n{"input_ids": [4294967296]}\n', [("TF506", 19)]),
        (b"\xef\xbb\xbf" + A, [("TF507", 0)]),
        (A + B[:-1] + b"\r\n" + A, [("TF508", None)]),
        (A[:-1] + b"\r\n" + B[:-1], []),
        (A[:-1] + b"\r\n" + B, [("TF508", None)]),
        (A + b'{"text": ""}\n' * 2, [("TF509", None)]),
        (b'{"input_ids": []}\n', [("TF509", None)]),
        (A + b'{"text": 1, "text": "b"}\n' + A, [("TF510", 14)]),
        (b'{"text": "a", "b": {"text": 1}}\n{"text": "\\"text\\" \\"text\\""}\n', []),
    ],
)
def test_lines(tmp_path, content, found):
    assert codes(check(put(tmp_path / "x.jsonl", content))) == found
    if found and found[0][0] == "TF507":
        return
    zipped = put(tmp_path / "x.jsonl.gz", gzip.compress(content))
    assert codes(check(zipped)) == found


def test_messages(tmp_path):
    (finding,) = check(put(tmp_path / "x.jsonl", A + b'{"body": 1}\n'))
    assert (finding.severity, finding.message) == ("error", 'line 2 has no field "text": found the field "body"')
    (finding,) = check(put(tmp_path / "x.jsonl", A + b'{"text": ""}\n'))
    assert finding.message == "1 text is empty (first: line 2)"
    assert "Modalities" in finding.remedy


def test_what_cannot_be_read(tmp_path):
    put(tmp_path / "x.jsonl.gz", gzip.compress(A * 99)[:-9])
    (finding,) = check(tmp_path / "x.jsonl.gz", kind="text")
    assert (finding.code, finding.message) == ("TF502", "the gzip data ends too early at byte 37")
    (finding,) = check(tmp_path / "absent.jsonl")
    assert (finding.code, finding.message) == ("TF502", "no such file")
    (finding,) = check(put(tmp_path / "x.jsonl", A * 9 + b'{"text": "' + b"a" * 99), max_line=50)
    assert finding.code == "TF516"
    home = tmp_path / "parts"
    home.mkdir()
    (finding,) = check(home)
    assert finding.code == "TF502"
    put(home / "a.jsonl", A + b"{")
    put(home / "b.jsonl", A + b"[")
    assert [f.path[-7:] for f in check(home)] == ["a.jsonl", "b.jsonl"]


VERSIONS = {
    "2023-11-03_e8a40fd4": "I0", "2023-11-07_3322c809": "I1", "2024-02-06_91ec38e9": "I4", "2024-03-07_0f3846a8": "I4",
    "2024-11-20_40b0467e": "I5",
}  # fmt: skip


@pytest.mark.parametrize("index", sorted((LINES / "idx_history").iterdir()), ids=lambda path: path.name)
def test_versions_of_the_index(index, tmp_path):
    stem, version, _ = index.name.split(".")
    shutil.copy(LINES / f"{stem}.jsonl", tmp_path / "x.jsonl")
    shutil.copy(index, tmp_path / "x.idx")
    found = [f for f in check(tmp_path / "x.jsonl") if f.path.endswith(".idx")]
    expected = VERSIONS.get(version, "today's")
    if stem == "no_trailing_newline":  # nothing tells I0 from I6, and I4 from I5
        expected = {"I0": "today's", "I4": "I4 or I5", "I5": "I4 or I5"}.get(expected, expected)
    elif expected == "I1" or (stem == "ascii" and expected == "I5"):
        expected = "today's"
    if version.startswith("2023-11-07") and stem == "no_trailing_newline":  # it hides the last line
        hidden = found.pop(0)
        assert (hidden.code, hidden.severity) == ("TF513", "error")
    said = [f.message.removeprefix("is an index of version ").split(" (")[0] for f in found]
    assert (said or ["today's"]) == [expected]
    assert {f.code for f in found} <= {"TF514"}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([(0, 13), (14, 15), (30, 13)], []),
        ([(0, 13), (30, 13)], [("TF513", "leaves out a line of x.jsonl that is JSON (at byte 14): it is older than the text, or belongs to another one")]),
        ([], [("TF513", "leaves out 3 lines of x.jsonl that are JSON (the first at byte 0): it is older than the text, or belongs to another one")]),
        ([(0, 13), (15, 15)], [("TF512", "1 of 2 entries do not begin a line of x.jsonl (first: offset 15): it is the index of another file or an older one")]),
        ([(14, 15), (0, 13), (44, 13), (99, 1)], [("TF512", "2 of 4 entries do not begin a line of x.jsonl (first: offset 44): it is the index of another file or an older one")]),
        ([(0, 13), (14, 9), (30, 13)], [("TF515", "the lengths of 1 entries are neither bytes nor characters of their lines")]),
        ([(-1, 13)], [("TF511", "index entry 0 holds a number that is not an offset or length at byte 13: expected 0 to 2^63-1, found -1")]),
    ],
)  # fmt: skip
def test_indexes(tmp_path, entries, found):
    path = put(tmp_path / "x.jsonl", A + B + A, entries)
    assert [(f.code, f.message) for f in check(path)] == found
    assert check(path, index="none") == []


def test_an_index_of_a_text_without_lines(tmp_path):
    """A byte order mark alone is no line, so an entry of it begins none."""
    found = check(put(tmp_path / "x.jsonl", b"\xef\xbb\xbf", [(0, 3)]))
    assert codes(found) == [("TF507", 0), ("TF512", None)]


def test_an_index_that_is_judged_is_held_once(tmp_path):
    """16 bytes a line, beside batches of it and what arrays that grow have in reserve; it was 73 and more."""
    count, line = 1 << 18, b'{"text":"a"}\n'
    path = tmp_path / "x.jsonl"
    path.write_bytes(line * count)
    write_index(path)
    text = TextFile(path)
    tracemalloc.start()
    index = read_index(text, trusted=False, lengths=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(index.offsets), index.problems) == (count, {})
    assert peak < 48 * count


@pytest.mark.parametrize("line", [b"\n", b" \t\n", b"\r\n"])
def test_pieces_that_hold_nothing_but_blank_lines(tmp_path, line):
    count = (1 << 20) // len(line)
    path = put(tmp_path / "x.jsonl", A + line * count + A)
    (found,) = [finding for finding in check(path) if finding.code == "TF519"]
    assert found.message.startswith(f"{count:,} lines are blank (first: line 2)")
