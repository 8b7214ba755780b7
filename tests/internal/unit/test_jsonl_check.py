"""Findings of `check` on JSON lines and their indexes."""

import pytest

from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Parser


def check(path, **options):
    return list(FORMAT.check(path, ReadOptions(**options)))


@pytest.mark.parametrize("line", [b"\n", b" \t\n", b"\r\n"])
def test_pieces_that_hold_nothing_but_blank_lines(tmp_path, monkeypatch, line):
    """They are counted, and no parser sees them."""
    path, count = tmp_path / "x.jsonl", (1 << 20) // len(line)
    path.write_bytes(b'{"text": "a"}\n' + line * count + b'{"text": "b"}\n')
    looked, parse = [], Parser.__call__
    monkeypatch.setattr(Parser, "__call__", lambda self, lines: looked.append(len(lines)) or parse(self, lines))
    found = [finding for finding in check(path) if finding.code == "TF519"]
    assert [finding.message.split(" (")[0] for finding in found] == [f"{count:,} lines are blank"]
    assert "line 2" in found[0].message
    assert sum(looked) < count
