"""The command line as users meet it: in subprocesses, on real files, every line that it prints."""

import sys

import forkserver
import pytest
from paths import FIXTURES

from tokfmt.cli.console import Watcher

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


LIMITED = """
import concurrent.futures, sys
from tokfmt.cli.main import run

def refused(self):
    raise {error}

concurrent.futures.ThreadPoolExecutor._adjust_thread_count = refused
run(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ('RuntimeError("can\'t start new thread")', "cannot start another thread: memory or processes are limited"),
        ("MemoryError()", "out of memory"),
        ('OSError(12, "Cannot allocate memory")', "out of memory"),
        ('ImportError("libx.so: failed to map segment from shared object")', "out of memory"),
    ],
)
@pytest.mark.parametrize("words", [["check", "--deep", str(PACK)], ["convert", str(PACK), "o.zarr", "-j", "4"]])
def test_out_of_memory_is_one_line_and_not_a_bug(tmp_path, error, says, words):
    """With `ulimit -v`, a command prints one line and leaves no file."""
    script = [sys.executable, "-c", LIMITED.replace("{error}", error), *words]
    done = forkserver.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 1), done.stderr
    assert says in done.stderr or "o.zarr: cannot be written: cannot allocate memory" in done.stderr
    assert list(tmp_path.iterdir()) == []


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
    monkeypatch.setattr("tokfmt.cli.console.time.monotonic", lambda: next(clock))
    watcher = Watcher(quiet=False)
    watcher.terminal = False
    watcher.phase("reading", total, "bytes")
    for step in steps:
        watcher.advance(step)
    assert capsys.readouterr().err.splitlines()[-1] == line
