"""--resume, --task and --finish as users meet them; what was changed in between is refused by name."""

import os
import signal
import subprocess
import sys

import forkserver
import numpy as np
import pytest
from processes import running

import tokfmt
from tokfmt.ops.convert import resume
from tokfmt.testing import tree

SCRIPT = """
import os, resource, signal, sys
from tokfmt.core import format
from tokfmt.ops.convert import request, resume, verify
from tokfmt.run import plan, shuffle
from tokfmt.text import ingest

LARGE, SMALL = format.REGION, 1 << 14
made = request.Request.__init__
made.__defaults__ = tuple(SMALL if value == LARGE else value for value in made.__defaults__)
format.REGION = shuffle.REGION = verify.REGION = ingest._SMALLEST = SMALL
after, number, limit = map(int, os.environ.get("WHEN", "0/0/0").split("/"))
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

class Journal(plan.Journal):
    def add(self, *line):
        global after
        super().add(*line)
        after -= 1
        if not after:
            self.sync()
            os.kill(os.getpid(), number)

plan.Journal = resume.Journal = Journal
from tokfmt.cli.main import run

if __name__ == "__main__":
    run(sys.argv[1:])
"""
"""`tokfmt` with small regions and blocks; gets a signal after so many lines of its journal; files of limited size."""


@pytest.fixture
def home(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 60).astype("<i4")
    ids[700::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    (tmp_path / "small.py").write_text(SCRIPT)
    return tmp_path


def start(home, *words, after=0, by=0, limit=0, popen=forkserver.Popen):
    read = ["--from", "stage1"] if "in.bin" in words and "--from" not in words else []  # random ids look like no text's
    words = [sys.executable, home / "small.py", "convert", *words, *read]
    env = {**os.environ, "WHEN": f"{after}/{int(by)}/{limit}"}
    return popen(words, cwd=home, stderr=subprocess.PIPE, text=True, env=env)


def convert(home, *words, check=0, **how):
    with running(start(home, *words, **how)) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == check, said
    assert "Traceback" not in said
    return said


def interrupted(home, *words, by=signal.SIGKILL, after=5):
    """A conversion that is ended when `after` parts of it are journaled; what it said."""
    return convert(home, *words, after=after, by=by, check=-9 if by is signal.SIGKILL else 128 + by)


def hidden(home):
    return sorted(p.name for p in home.iterdir() if p.name.startswith("."))


HOME = ".out.h5.tokfmt-resume"
WORDS = ("in.bin", "out.h5", "--resume", "--seq-len", "512")


@pytest.mark.parametrize("begun", [False, True])
def test_signal_while_kept_work_is_examined(home, monkeypatch, begun):
    """Nothing is left if nothing was kept; otherwise all of it is left."""
    if begun:
        interrupted(home, *WORDS)
    before = tree(home / HOME) if begun else {}

    def stopped(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(resume, "read_conversion", stopped)
        tokfmt.convert(home / "in.bin", home / "out.h5", format="stage1", seq_len=512, resume=True)
    assert hidden(home) == ([HOME] if begun else [])
    after = tree(home / HOME) if begun else {}
    assert {**after, "lock": None} == {**before, "lock": None}, "but for its last holder"
