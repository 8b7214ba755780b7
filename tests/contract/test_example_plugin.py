"""The packages of `tokfmt plugin new` and the example with an index, under the laws of every format, and installed."""

import json
import os
import re
import shutil
import struct
import sys
import tomllib
from pathlib import Path

import forkserver
import pytest
import tokfmt_strata
from made_plugins import REEL, TAPE, test_tokfmt_reel, test_tokfmt_tape
from plugged import plugged

import tokfmt
from tokfmt import plugin
from tokfmt.testing import FormatContract

EXAMPLES = Path(tokfmt.__file__).with_name("plugin_examples")


TestTape = test_tokfmt_tape.TestTape
TestReel = test_tokfmt_reel.TestReel


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


def install(site, package):
    """Install a package as an installer does: its module, and its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    for module in package.glob("tokfmt_*.py"):
        shutil.copy(module, site)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, points),) = project["entry-points"].items()
    lines = [f"{name} = {place}\n" for name, place in points.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_an_example_is_of_this_version_of_the_contract(example):
    text = (EXAMPLES / example / "tokfmt_example.py").read_text()
    assert re.findall(r"plugin\.VERSION != (\d+)", text) == [str(plugin.VERSION)]
    assert re.findall(r"for version (\d+) of tokfmt\.plugin", text) == [str(plugin.VERSION)]


def installed(home, package):
    """Install a package; return a function that runs tokfmt with it."""
    install(home / "site", package)

    def tokfmt(*words, code=0):
        command = [sys.executable, "-m", "tokfmt", *map(str, words)]
        env = {**os.environ, "PYTHONPATH": str(home / "site")}
        done = forkserver.run(command, env=env, capture_output=True, text=True, cwd=home)
        assert done.returncode == code, done.stderr
        return done.stdout

    return tokfmt


def test_installed_it_is_a_format_like_any_other(tmp_path):
    tokfmt = installed(tmp_path, TAPE)
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


def test_installed_records_go_everywhere(tmp_path):
    """Compressed records in shards, to jsonl, to other formats, through every look."""
    tokfmt = installed(tmp_path, REEL)
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
