"""A signal whose handler runs in a finalizer, or in a callback of Python's own, where what it raises is dropped."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from paths import ROOT

SCRIPT = """
import gc, os, signal, sys, time, weakref
from tokfmt.commands.convert import write

number, how, times = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def hit():
    os.kill(os.getpid(), number)
    for _ in range(100): pass  # the handler runs by now, in here

class Held:
    def __del__(self):
        hit() if how == "finalizer" else None

class Other: pass

def broken():
    class Bad:
        def __del__(self):
            raise ValueError("a finalizer of somebody's")
    Bad()

def in_a_finalizer():
    if how == "weakref":
        held = Other()
        kept = weakref.ref(held, lambda _: hit())
        del held
    elif how == "gc":
        gc.callbacks.append(lambda phase, info: (gc.callbacks.clear(), hit()))  # once, not again as Python ends
        gc.collect()
    elif how == "broken":
        broken()
    else:
        Held()

plan = write.plan
def planned(*job):
    try:
        for _ in range(times):
            in_a_finalizer()
        for _ in range(0 if how == "broken" else 2000):
            time.sleep(0.005)
    finally:
        print("cleaned", flush=True)
    return plan(*job)
write.plan = planned

from tokfmt.cli.main import run
run(["convert", "in.bin", "out.pbin", "-q", "--from", "stage1"])
"""


def convert(home, number, how, times=1):
    ids = np.arange(8192 * 2, dtype="<i4")
    ids.tofile(home / "in.bin")
    (home / "script.py").write_text(SCRIPT)
    words = [sys.executable, "script.py", str(int(number)), how, str(times)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout == "cleaned\n"
    return done


@pytest.mark.parametrize(
    ("number", "how"), first(1, [(signal.SIGINT, "finalizer"), (signal.SIGTERM, "weakref"), (signal.SIGHUP, "gc")])
)
def test_it_ends_the_run_all_the_same(tmp_path, number, how):
    done = convert(tmp_path, number, how)
    assert done.stderr == f"tokfmt: error: interrupted by {number.name}; nothing was left behind\n"
    assert done.returncode == 128 + number
    assert sorted(os.listdir(tmp_path)) == ["in.bin", "script.py"]


def test_again_and_again(tmp_path):
    """Each of many finalizers swallows one: the last of them counts."""
    done = convert(tmp_path, signal.SIGTERM, "finalizer", times=50)
    assert done.stderr == "tokfmt: error: interrupted by SIGTERM; nothing was left behind\n"
    assert done.returncode == 143


@FUZZ_ONLY
def test_errors_of_other_finalizers_are_shown(tmp_path):
    done = convert(tmp_path, 0, "broken")
    assert "ValueError: a finalizer of somebody's" in done.stderr
    assert "Exception ignored in" in done.stderr
    assert done.returncode == 0
    assert (tmp_path / "out.pbin").exists()
