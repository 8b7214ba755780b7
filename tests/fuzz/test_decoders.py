"""Chunks and lines that are damaged: refused, or read as the decoders of others read them, within 64 MB more than before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amount import MUTATIONS, NIGHTLY, first
from paths import ROOT

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("decoders.py")
SHARE = {"blosc": 4, "deflate": 4, "hdf5": 20, "jsonl": 8}
"""One of so many mutations is of this kind: files and lines take longer."""


def run(script, what, count, at):
    words = [sys.executable, str(script), what, "0", str(count)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(SCRIPT.parent))), "AT": str(at)}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    return done, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("what", SHARE)
def test_damaged(what, tmp_path):
    """A finding is run again with `python tests/fuzz/decoders.py WHAT NUMBER 1`."""
    count = MUTATIONS // (1 if NIGHTLY and what != "hdf5" else SHARE[what])
    done, said = run(SCRIPT, what, count, tmp_path / "at")
    findings = [line for line in said if "mutant" in line]
    assert not findings, "\n".join(f"{f['mutant']}: {f['error']}\n{f['where']}" for f in findings[:10])
    assert done.returncode == 0, (
        f"died on mutant {(tmp_path / 'at').read_text()}: {done.returncode} {done.stderr[-2000:]}"
    )
    outcomes = said[-1]["outcomes"]
    assert sum(outcomes.values()) == count
    assert outcomes["data"] > count // 50, outcomes
    assert count - outcomes["data"] > count // 10, outcomes
    assert said[-1]["peak"] < 256 << 20


FAULTS = {
    "blosc": ("codecs.decode_blosc(blob, itemsize, out)", "codecs.decode_blosc(blob, itemsize, out); out[5] ^= 1"),
    "deflate": ("for number in reversed(applied)]", "for number in applied[-1:]]"),
    "hdf5": ("found = np.array(table.rows(0, 4))", "found = np.array(table.rows(0, 4)) + 1"),
    "jsonl": ("(field,), others)(chunk)", "(field,), True)(chunk)"),
}


@pytest.mark.parametrize("what", first(1, FAULTS))
def test_fuzzer_finds_a_wrong_decoder(what, tmp_path):
    """A decoder with an error is a finding."""
    program = SCRIPT.read_text()
    right, wrong = FAULTS[what]
    assert program.count(right) == 1
    script = tmp_path / "decoders_broken.py"
    script.write_text(program.replace(right, wrong))
    done, said = run(script, what, 200, tmp_path / "at")
    assert any("DiffersError" in line.get("error", "") for line in said), done.stderr
