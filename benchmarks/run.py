"""Run one side of a case in a process of its own."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def side(case, which):
    """What the process printed: amount, cpu, wall (seconds), rss (bytes)."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.side", case.name, which, out], capture_output=True, text=True,
            cwd=Path(__file__).resolve().parents[1],
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{case.name} ({which}) failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None
