"""The `tokfmt` command itself, killed or interrupted while it writes; test_every_operation.py has the moments, this the whole process."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from amount import FUZZ_ONLY, only
from processes import running

pytestmark = pytest.mark.slow

EXECUTORS = ["threads", "processes"]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def blocks(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 1500).astype("<i4")
    ids[700::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    return tmp_path


def start(home, executor):
    words = [sys.executable, "-m", "tokfmt", "convert", "in.bin", "out.h5", "-q", "--from", "stage1"]
    words += ["--executor", executor]
    return subprocess.Popen(words, cwd=home, stderr=subprocess.PIPE, text=True)


def wait_until_writing(home, process):
    for _ in range(6000):
        if any(p.stat().st_size for p in home.glob(".out.h5.tokfmt-*/build/*") if p.is_file()):
            return
        assert process.poll() is None, "the conversion ended before it could be interrupted"
        time.sleep(0.01)
    raise AssertionError("nothing was written in 60 s")


def visible(home):
    return sorted(p.name for p in home.iterdir() if not p.name.startswith("."))


@pytest.mark.parametrize("executor", only(["processes"], EXECUTORS))
def test_sigkill(blocks, executor):
    with running(start(blocks, executor)) as process:
        wait_until_writing(blocks, process)
    assert visible(blocks) == ["in.bin"]
    with running(start(blocks, executor)) as again:
        assert again.wait(timeout=120) == 0, again.stderr.read()
    assert visible(blocks) == ["in.bin", "out.h5", "out.h5.tokfmt.json"]
    assert list(blocks.glob(".out.h5*")) == [], "the dead leftover was not removed"


@FUZZ_ONLY
@pytest.mark.parametrize(
    ("executor", "number"),
    only(
        [("threads", signal.SIGINT), ("processes", signal.SIGTERM)],
        [(executor, number) for executor in EXECUTORS for number in SIGNALS],
    ),
)
def test_signals_clean_up(blocks, executor, number):
    with running(start(blocks, executor)) as process:
        wait_until_writing(blocks, process)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert said == f"tokfmt: error: interrupted by {number.name}; nothing was left behind\n"
    assert [p.name for p in blocks.iterdir()] == ["in.bin"]
