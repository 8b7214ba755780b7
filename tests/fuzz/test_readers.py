"""Every reader and checker on damaged goldens, within 256 MB and 5 s of CPU each: data, or one line of a TokfmtError."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forkserver
import pytest
from amount import FUZZ_ONLY, MUTATIONS, NIGHTLY
from paths import ROOT

pytestmark = pytest.mark.slow

FORMATS = [
    "stage1", "modalities", "hdf5", "jsonl", "flat-tokens", "megatron", "llmc", "nanogpt", "olmo", "datatrove", "litdata", "mds",
    "levanter", "litgpt-packed", "internevo", "webdataset", "tfrecord", "arrayrecord", "array", "parquet", "arrow", "text", "run",
]  # fmt: skip
BATCH = 50_000


def mutants(format_, first, count, at):
    """What the process says of so many mutants; it may die on one."""
    words = [sys.executable, str(Path(__file__).with_name("mutants.py")), format_, str(first), str(count)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "AT": str(at)}
    done = forkserver.run(words, capture_output=True, text=True, env=env, timeout=None)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done, said


@pytest.mark.parametrize("format_", FORMATS)
def test_damaged(format_, tmp_path):
    """A finding is run again with `python tests/fuzz/mutants.py FORMAT NUMBER 1`."""
    count = MUTATIONS // (len(FORMATS) if NIGHTLY else 10)
    for first in range(0, count, BATCH):
        done, said = mutants(format_, first, min(BATCH, count - first), tmp_path / "at")
        findings = [line for line in said if "mutant" in line]
        assert not findings, "\n".join(f"{f['mutant']}: {f['error']}\n{f['where']}" for f in findings[:10])
        assert done.returncode == 0, (
            f"died on mutant {(tmp_path / 'at').read_text()}: {done.returncode} {done.stderr[-2000:]}"
        )
        if not NIGHTLY:  # too few to meet each outcome
            continue
        outcomes = said[-1]["outcomes"]
        least = count // 64
        # Blocks and streams can only be cut. The end of an ArrayRecord file is read first, and moves with most damage.
        wrong = "TruncatedError" if format_ in ("stage1", "nanogpt", "arrayrecord") else "CorruptError"
        assert min(outcomes["data"], outcomes[wrong]) > least, outcomes


@FUZZ_ONLY
def test_fuzzer_finds_hangs_memory_and_unexpected_errors(tmp_path, monkeypatch):
    """The alarm and the memory limit work, and an error of another class is a finding."""
    program = (Path(__file__).with_name("mutants.py")).read_text()
    faults = ["while True: pass", "bytearray(1 << 30)", "raise KeyError('x')", "os.kill(os.getpid(), signal.SIGSEGV)"]
    expected = ["TooSlow()", "MemoryError()", "KeyError('x')", None]
    for fault, error in zip(faults, expected, strict=True):
        broken = program.replace(
            '    try:\n        return f"{file.name}", read(',
            f'    try:\n        {fault}\n        return f"{{file.name}}", read(',
        )
        broken = broken.replace("SECONDS = 5", "SECONDS = 0.1").replace(
            "Path(__file__).resolve().parents[2]", f"Path({str(ROOT)!r})"
        )
        assert fault in broken
        script = tmp_path / "mutants.py"
        script.write_text(broken)
        words = [sys.executable, str(script), "stage1", "7", "1"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "AT": str(tmp_path / "at")}
        done = subprocess.run(words, capture_output=True, text=True, env=env)
        if error is None:
            assert done.returncode == -11
        else:
            assert json.loads(done.stdout.splitlines()[0])["error"] == error
        assert (tmp_path / "at").read_text() == "7"
