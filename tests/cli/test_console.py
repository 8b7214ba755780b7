"""What the command line prints while it works, and how it prints the names of files."""

import re
import time

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.cli.console import Watcher, annotate, defused


@pytest.mark.parametrize(
    ("total", "steps", "line"),
    [
        (100, [25], "reading: 25 % of 100 bytes, 2 bytes/s, 30 s left"),
        (0, [25], "reading: 25 bytes, 2 bytes/s"),  # nothing tells how much it is
        (100, [90, 30], "reading: 120 bytes, 6 bytes/s"),  # it was an estimate
        (100, [0], "reading: 0 bytes, 0 bytes/s"),
    ],
)
def test_lines_of_progress(monkeypatch, capsys, total, steps, line):
    clock = iter([0.0, 0.0, *(10.0 * k for k in range(1, 9))])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    watcher = Watcher(quiet=False)
    watcher.terminal = False
    watcher.phase("reading", total, "bytes")
    for step in steps:
        watcher.advance(step)
    assert capsys.readouterr().err.splitlines()[-1] == line


@given(st.text(st.sampled_from(":#[ \n\r\tax\x0b\u2028"), max_size=30))
@settings(max_examples=examples(300))
def test_a_name_never_controls_the_runner_of_a_workflow(text):
    printed = defused(text)
    assert "##[" not in printed
    assert not any(line.strip().startswith("::") for line in re.split(r"[\r\n]", printed))
    if "##[" not in text and "::" not in text:
        assert printed == text


def test_annotations_are_escaped(capsys, monkeypatch):
    annotate("error", "a.bin", "t", "outside of a workflow")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate("error", "a,b:c%.bin", "t", "x\ny % z")
    assert capsys.readouterr().out == "::error file=a%2Cb%3Ac%25.bin,title=t::x%0Ay %25 z\n"
