"""Killed, interrupted or failed, a conversion leaves no destination; run again, it succeeds."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

FLAGS = [[], ["--executor", "processes"]]


@pytest.fixture
def blocks(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 1500).astype("<i4")
    ids[::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    return tmp_path


def start(home, flags):
    words = [sys.executable, "-m", "tokfmt", "convert", "in.bin", "out.h5", "-q", *flags]
    return subprocess.Popen(words, cwd=home, stderr=subprocess.PIPE, text=True)


def wait_until_writing(home, process):
    for _ in range(2000):
        if any(p.stat().st_size for p in home.glob(".out.h5.tokfmt-*/build/*") if p.is_file()):
            return
        assert process.poll() is None, "the conversion ended before it could be interrupted"
        time.sleep(0.01)
    raise AssertionError("nothing was written in 20 s")


def visible(home):
    return sorted(p.name for p in home.iterdir() if not p.name.startswith("."))


@pytest.mark.parametrize("flags", FLAGS, ids=["threads", "processes"])
def test_sigkill(blocks, flags):
    process = start(blocks, flags)
    wait_until_writing(blocks, process)
    process.kill()
    process.wait()
    assert visible(blocks) == ["in.bin"]
    again = start(blocks, flags)
    assert again.wait(timeout=120) == 0, again.stderr.read()
    assert visible(blocks) == ["in.bin", "out.h5", "out.h5.tokfmt.json"]
    assert list(blocks.glob(".out.h5*")) == [], "the dead leftover was not removed"
    again.stderr.close()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("flags", FLAGS, ids=["threads", "processes"])
def test_signals_clean_up(blocks, flags, number):
    process = start(blocks, flags)
    wait_until_writing(blocks, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert said == f"tokfmt: error: interrupted by {number.name}; nothing was left behind\n"
    assert [p.name for p in blocks.iterdir()] == ["in.bin"]


def test_a_full_disk_is_one_line(blocks):
    """RLIMIT_FSIZE stands in for the disk: the same path, without root."""
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); from tokfmt.cli.main import run; run(sys.argv[1:])"
    )
    for out in ("out.pbin", "out.zarr", "out.h5", "out.jsonl"):
        done = subprocess.run(
            [sys.executable, "-c", limited, "convert", "in.bin", out, "-q"], cwd=blocks, capture_output=True, text=True
        )
        assert done.returncode == 4, (out, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "the file would be larger than allowed here" in done.stderr
        assert os.listdir(blocks) == ["in.bin"], out


def test_a_source_that_changes_is_an_error(blocks):
    process = start(blocks, [])
    wait_until_writing(blocks, process)
    with open(blocks / "in.bin", "ab") as source:
        source.write(b"\0" * 4)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert said == "tokfmt: error: in.bin: changed while it was being read. Run again when it is still\n"
    assert [p.name for p in blocks.iterdir()] == ["in.bin"]
