"""Run one side of a case in a process of its own."""

import json
import mmap
import subprocess
import sys
import tempfile
from pathlib import Path


class RowFailed(Exception):
    """One side of a case ended with an error; the message is what it printed."""


def warm_memory(size):
    """Write to so many bytes that are free: memory that a host took back from this machine costs whoever has it first."""
    if not size:
        return
    with mmap.mmap(-1, size) as memory:
        page = bytes(1 << 20)
        for at in range(0, size, len(page)):
            memory[at : at + len(page)] = page


def side(case, which):
    """What the process printed: amount, cpu, wall (seconds), rss (bytes)."""
    warm_memory(getattr(case.pair, "fresh", 0))
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.side", case.name, which, out], capture_output=True, text=True,
            cwd=Path(__file__).resolve().parents[1],
        )  # fmt: skip
    if done.returncode:
        raise RowFailed(f"{case.name} ({which}) failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None
