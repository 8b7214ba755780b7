"""The formats of the page "Write a format" and one with an index, under the laws of every format, and installed."""

import ast
import gzip
import json
import re
import struct
import sys
import zlib
from pathlib import Path

import forkserver
import numpy as np
import pytest
import tokfmt_strata
from dummy_plugin import installed
from made_plugins import LAWS, PAGE, QUILT, REEL, TAPE, test_tokfmt_tape, tokfmt_quilt, tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt import plugin
from tokfmt.testing import FormatContract, ReadOnlyContract

TestTape = test_tokfmt_tape.TestTape


class TestReel(FormatContract):
    format = tokfmt_reel.FORMAT
    filename = "x.reel"
    max_id = 2**32 - 1
    checksummed = accounted = True
    sharded = {"shard_size": 1}

    def oracle(self, path, options):
        found = []
        for number in range(len(json.loads((path / "reel.json").read_text())["records"])):
            words = np.frombuffer(gzip.decompress((path / f"{number:05d}.reel.gz").read_bytes()), "<u4").tolist()
            while words:
                found.append(words[1 : 1 + words[0]])
                words = words[1 + words[0] :]
        return found


def quilt(sequences):
    """The bytes of a file, without code of tokfmt."""
    ids = [token for sequence in sequences for token in sequence]
    padded = np.array(ids + [0] * (-len(ids) % 4096), "<u4")
    chunks = [zlib.compress(chunk.tobytes()) for chunk in padded.reshape(-1, 4096)]
    at, ends = 24 + 8 * len(chunks) + 4 * len(sequences), []
    for chunk in chunks:
        ends.append(at := at + len(chunk))
    head = struct.pack("<8sQQ", b"QUILT---", len(ids), len(sequences)) + struct.pack(f"<{len(ends)}Q", *ends)
    return head + struct.pack(f"<{len(sequences)}I", *map(len, sequences)) + b"".join(chunks)


class TestQuilt(ReadOnlyContract):
    format = tokfmt_quilt.FORMAT
    filename = "x.quilt"
    contents = [[7, 8, 9], [], list(range(9000)), [12]]

    def make(self, path):
        path.write_bytes(quilt(self.contents))


class TestStrata(FormatContract):
    format = tokfmt_strata.FORMAT
    filename = "x.strata"
    max_id = 2**16 - 1

    def oracle(self, path, options):
        raw = path.read_bytes()
        magic, sequences, tokens = struct.unpack_from("<8sQQ", raw)
        lengths = struct.unpack_from(f"<{sequences}I", raw, 24)
        assert (magic, tokens, len(raw)) == (b"STRATA01", sum(lengths), 24 + 4 * sequences + 2 * tokens)
        ids = iter(struct.unpack_from(f"<{tokens}H", raw, 24 + 4 * sequences))
        return [[next(ids) for _ in range(length)] for length in lengths]


def test_lengths_that_contradict_the_header_are_refused(tmp_path, monkeypatch):
    plugged(monkeypatch, tokfmt_strata.FORMAT)
    path = tmp_path / "x.strata"
    path.write_bytes(struct.pack("<8sQQII", b"STRATA01", 2, 3, 1, 1) + bytes(6))
    with pytest.raises(plugin.CorruptError, match="the lengths do not add up: expected 3, found 2"):
        tokfmt.open(path)
    assert [one.code for one in tokfmt.check(path)[0].findings] == ["STRATA1"]


def with_format(home, name, code):
    """Install a format of the page; return a function that runs tokfmt with it."""
    env = installed(home, name, f"tokfmt_{name}", code=code)

    def tokfmt(*words, code=0):
        command = [sys.executable, "-m", "tokfmt", *map(str, words)]
        done = forkserver.run(command, env=env, capture_output=True, text=True, cwd=home)
        assert done.returncode == code, done.stderr
        return done.stdout

    return tokfmt


def test_installed_it_is_a_format_like_any_other(tmp_path):
    tokfmt = with_format(tmp_path, "tape", TAPE)
    assert "tape" in [one["name"] for one in json.loads(tokfmt("formats", "--json"))["formats"]]
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input_ids": {list(range(n))}}}\n' for n in range(40)))
    eos = ("--eos", "50256")
    tokfmt("convert", "in.jsonl", "s.tape", "--shuffle", "1", "-q", *eos)
    tokfmt("diff", "in.jsonl", "s.tape", "--ignore-order")
    tokfmt("convert", "in.jsonl", "o.tape", "--verify", "-q", *eos)
    tokfmt("diff", "in.jsonl", "o.tape")
    assert "tokens" in tokfmt("show", "o.tape", "--raw")
    raw = (tmp_path / "o.tape").read_bytes()
    (tmp_path / "cut.tape").write_bytes(raw[:-6])
    findings = json.loads(tokfmt("check", "cut.tape", "--json", code=1))["datasets"][0]["findings"]
    assert [finding["code"] for finding in findings] == ["TAPE2"]
    assert "was cut" in tokfmt("check", "--explain", "TAPE2")


def test_installed_chunks_are_read_at_random_and_damage_is_found(tmp_path):
    """A sequence of a chunk, the byte of a token and the token at a byte, a conversion, and a chunk that is damaged."""
    tokfmt = with_format(tmp_path, "quilt", QUILT)
    lists = [list(range(n, 2 * n)) for n in range(200)]
    raw = quilt(lists)
    (tmp_path / "in.quilt").write_bytes(raw)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input_ids": {ids}}}\n' for ids in lists))
    assert json.loads(tokfmt("show", "in.quilt", "150", "--json"))["shown"][0]["ids"] == lists[150]
    tokfmt("convert", "in.quilt", "o.jsonl", "--verify", "-q")
    tokfmt("diff", "o.jsonl", "in.jsonl")
    with (tmp_path / "in.quilt").open("r+b") as file:  # the second of five chunks
        second = struct.unpack_from("<Q", raw, 24)[0]
        file.seek(second + 9)
        file.write(bytes(9))
    assert json.loads(tokfmt("show", "in.quilt", "3", "--json"))["shown"][0]["ids"] == lists[3]
    findings = json.loads(tokfmt("check", "in.quilt", "--deep", "--json", code=1))["datasets"][0]["findings"]
    assert {(finding["code"], finding["offset"]) for finding in findings} == {("QUILT1", second)}


def test_bytes_and_tokens_of_chunks_are_found_from_each_other(tmp_path, monkeypatch):
    plugged(monkeypatch, tokfmt_quilt.FORMAT)
    raw = quilt([[5] * 4096, [6]])
    (tmp_path / "x.quilt").write_bytes(raw)
    first, _ = struct.unpack_from("<2Q", raw, 24)
    with tokfmt.open(tmp_path / "x.quilt") as dataset:
        place = dataset.reader.locate(4096)
        assert (place.offset, place.width, place.detail) == (first, None, "chunk 1 of tokens, item 0")
        assert dataset.reader.find(place.path, first + 1) == 4096


def test_installed_records_go_everywhere(tmp_path):
    """Compressed records in shards, to jsonl, to other formats, through every look."""
    tokfmt = with_format(tmp_path, "reel", REEL)
    lists = [list(range(n)) for n in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input_ids": {ids}}}\n' for ids in lists))
    tokfmt("convert", "in.jsonl", "o.reel", "--to-opt", "shard_size=100", "--verify", "-q", "--executor", "processes")
    told = json.loads(tokfmt("convert", "o.reel", "o.jsonl", "--verify", "--json"))
    assert (told["sequences"], told["tokens"]) == (40, 780)
    assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "in.jsonl").read_bytes()
    tokfmt("convert", "o.reel", "o.pbin", "--eos", "50256", "--verify", "-q")
    tokfmt("diff", "o.reel", "o.pbin")
    assert json.loads(tokfmt("stats", "o.reel", "--json"))["tokens"] == 780
    assert json.loads(tokfmt("show", "o.reel", "3", "--json"))["shown"][0]["ids"] == [0, 1, 2]
    tokfmt("check", "o.reel", "--deep")
    shard = tmp_path / "o.reel" / "00003.reel.gz"
    shard.write_bytes(shard.read_bytes()[:-1])
    findings = json.loads(tokfmt("check", "o.reel", "--deep", "--json", code=1))["datasets"][0]["findings"]
    assert "REEL2" in [finding["code"] for finding in findings]


def test_the_module_for_plug_ins_has_all_that_it_lists():
    """Every name is there, public, and documented where it is defined; the version is a number."""
    assert type(plugin.VERSION) is int
    assert len(set(plugin.__all__)) == len(plugin.__all__)
    own = {name for name in vars(plugin) if not name.startswith("_")}
    assert own == set(plugin.__all__)
    for name in plugin.__all__:
        named = getattr(plugin, name)
        assert not callable(named) or named.__doc__, name


def test_formats_need_one_module():
    """The page and the format with an index import `tokfmt.plugin` and `tokfmt.testing` alone, and names that it lists."""
    for program in (TAPE, QUILT, REEL, LAWS, Path(tokfmt_strata.__file__).read_text()):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module == "tokfmt.plugin":
                assert {name.name for name in node.names} <= set(plugin.__all__)
            elif isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "tokfmt":
                assert node.module == "tokfmt.testing" or [name.name for name in node.names] == ["plugin"]
            assert not isinstance(node, ast.Import) or not any("tokfmt" in name.name for name in node.names)
    assert re.findall(r"plugin\.VERSION != (\d+)", TAPE + QUILT + REEL) == [str(plugin.VERSION)] * 3
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`tokfmt\.plugin\.(\w+)", prose)) <= set(plugin.__all__)
