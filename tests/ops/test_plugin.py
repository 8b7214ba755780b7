"""A format from another package is found by its entry point, like tokfmt's own."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from paths import FIXTURES

from tokfmt import registry

MODULE = '''
"""A dummy format: ids as decimal lines."""
from dataclasses import dataclass
import numpy as np
from tokfmt.core.axis import batches
from tokfmt.core.errors import CorruptError
from tokfmt.core.format import Confidence, Receipt, Region
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged

@dataclass(frozen=True)
class Options:
    """None."""

class Writer:
    needs_eos = separated = needs_max_id = False
    def __init__(self, path): self.path = path
    def lost(self, source): return []
    def regions(self, source, size): return [Region(0, range(source.info.sequences), range(source.info.tokens))]
    def create(self, source): pass
    def write(self, region, source):
        with open(self.path, "w") as out:
            out.write("#lines\\n")
            for batch in batches(source, 0, source.info.sequences):
                out.writelines(" ".join(map(str, s.tolist())) + "\\n" for s in batch)
        return Receipt(0, -1, 0)
    def commit(self, source, receipts): pass

class Lines:
    name, title, extensions, joins = "lines", "Ids as decimal lines", (".lines",), False
    carries, cannot = "everything", "nothing"
    read_options = write_options = Options
    def sniff(self, probe): return Confidence.CERTAIN if probe.head.startswith(b"#lines\\n") else None
    def open(self, paths, options, hints):
        return MemoryReader(Ragged.of([list(map(int, l.split())) for l in open(paths[0]).readlines()[1:]]))
    def writer(self, path, options, target): return Writer(path)
    def check(self, path, options): return iter(())

FORMAT = Lines()
'''


def test_a_plugin_is_a_format_like_any_other(tmp_path):
    site = tmp_path / "site"
    info = site / "tokfmt_lines-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "tokfmt_lines.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tokfmt-lines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tokfmt.formats]\nlines = tokfmt_lines:FORMAT\n")
    env = {**os.environ, "PYTHONPATH": str(site)}

    def tokfmt(*words):
        done = subprocess.run(
            [sys.executable, "-m", "tokfmt", *map(str, words)], env=env, capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "lines" in [f["name"] for f in json.loads(tokfmt("formats", "--json"))["formats"]]
    tokfmt("convert", FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "o.lines")
    tokfmt("convert", "o.lines", "back.pbin", "--eos", "50256")
    again, first = (json.loads(tokfmt("show", p, ":", "--json")) for p in ("back.pbin", "o.lines"))
    assert [s["ids"] for s in again["shown"]] == [s["ids"] for s in first["shown"]]
    assert again["sequences"] == 42


def test_formats_are_what_the_distributions_declare():
    declared = {point.name: point.value for point in entry_points(group=registry.GROUP)}
    assert declared.keys() >= {"jsonl", "modalities", "stage1", "hdf5", "flat-tokens"}
    assert registry._points() == declared


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[console_scripts]\na = b:c\n[tokfmt.formats]\n# one\n\nx = p.q:R.S [extra]\n[other]\ny = z:w\n", [("x", "p.q:R.S")]),
        ("x = before:any\n[tokfmt.formats]\nno equals\n", []),
        ("\xff", []),
    ],
)  # fmt: skip
def test_what_a_distribution_declares(tmp_path, text, found):
    file = tmp_path / "entry_points.txt"
    file.write_bytes(text.encode("latin-1"))
    assert list(registry._declared(str(file))) == found


def test_a_distribution_that_declares_nothing(tmp_path):
    assert list(registry._declared(str(tmp_path / "entry_points.txt"))) == []
