"""`--executor auto`: processes for much text or many HDF5 samples, else threads; and how many threads a tokenizer's own pool has."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from amount import first
from paths import FIXTURES, TOKENIZER

import tokfmt

pytestmark = pytest.mark.slow

TEXT, PACK = FIXTURES / "text" / "corpus.jsonl", FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def where(source, destination, **how):
    return tokfmt.convert(source, destination, executor="auto", dry_run=True, **how).plan["executor"]


def test_much_text_is_encoded_in_processes(tmp_path):
    """From 64 MiB, if there are several workers; lines that are copied, and IDs, need none."""
    line, much = json.dumps({"text": "some words " * 10_000}) + "\n", tmp_path / "much.jsonl"
    much.write_text(line * ((65 << 20) // len(line) + 1))
    encodes = {"tokenizer": str(TOKENIZER), "jobs": 2}
    assert where(much, tmp_path / "x.pbin", **encodes) == "processes"
    assert where(much, tmp_path / "x.pbin", **{**encodes, "jobs": 1}) == "threads"
    assert where(TEXT, tmp_path / "x.pbin", **encodes) == "threads"
    assert where(much, tmp_path / "x.jsonl", jobs=2) == "threads"
    assert where(PACK, tmp_path / "x.zarr", jobs=2) == "threads"


_SAID = """
import os, sys
from tokfmt.cli.main import run
try:
    run(["convert", *sys.argv[1:], "--quiet"])
except SystemExit:
    print(os.environ["RAYON_NUM_THREADS"], os.environ["FASTOKENS_BPE_THREADS"])
"""


@pytest.mark.parametrize(("jobs", "given", "threads"), first(1, [(3, "5", "5"), (3, None, "3")]))
def test_a_tokenizer_takes_no_more_threads_than_jobs(tmp_path, monkeypatch, jobs, given, threads):
    for pool in ("RAYON_NUM_THREADS", "FASTOKENS_BPE_THREADS"):
        monkeypatch.delenv(pool, raising=False)
        if given:
            monkeypatch.setenv(pool, given)
    words = [str(TEXT), str(tmp_path / "x.pbin"), "--tokenizer", str(TOKENIZER), "--jobs", str(jobs)]
    said = subprocess.run([sys.executable, "-c", _SAID, *words], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [threads, threads]


STREAM = FIXTURES / "hdf5" / "padded_eos"
ASKED = {
    "convert": lambda home, jobs: tokfmt.convert(STREAM, home / "o.zarr", jobs=jobs, verify=True),
    "convert to gz": lambda home, jobs: tokfmt.convert(STREAM, home / "o.jsonl.gz", jobs=jobs),
    "convert lines to gz": lambda home, jobs: tokfmt.convert(
        TEXT, home / "o.jsonl.gz", jobs=jobs, shuffle=1, allow_loss=["fields"]
    ),
    "stats": lambda home, jobs: tokfmt.stats(STREAM, jobs=jobs),
    "check": lambda home, jobs: list(tokfmt.check(STREAM, deep=True, jobs=jobs)),
    "check ids": lambda home, jobs: list(tokfmt.check(PACK, deep=True, tokenizer=str(TOKENIZER), jobs=jobs)),
    "check against": lambda home, jobs: list(tokfmt.check(PACK, against=PACK, jobs=jobs)),
    "diff": lambda home, jobs: tokfmt.diff(PACK, STREAM, jobs=jobs),
    "diff without order": lambda home, jobs: tokfmt.diff(PACK, PACK, ignore_order=True, jobs=jobs),
    "diff of texts": lambda home, jobs: tokfmt.diff(TEXT, TEXT, jobs=jobs),
}


@pytest.mark.parametrize("command", ASKED)
def test_as_many_threads_as_jobs(command, tmp_path, monkeypatch):
    """No more of them, when opening too; and no fewer where there is something to do."""
    begun, made = [], ThreadPoolExecutor.__init__

    def init(self, max_workers=None, *how, **named):
        begun.append(max_workers)
        made(self, max_workers, *how, **named)

    monkeypatch.setattr(ThreadPoolExecutor, "__init__", init)
    for jobs in (1, 3):
        begun.clear()
        (tmp_path / f"{jobs}").mkdir()
        ASKED[command](tmp_path / f"{jobs}", jobs)
        assert set(begun) <= {jobs}, jobs
        assert begun or jobs == 1


_SCRIPT = """
import sys
import tokfmt
from tokfmt.commands.convert import convert as conversion
conversion._WORTH = 1000
how = {"seq_len": 32, "allow_loss": ["empty-sequences", "embedded-separators"], "jobs": 2, "manifest": False}
GUARD:
    done = tokfmt.convert(sys.argv[1], sys.argv[2], executor="auto", **how)
    tokfmt.convert(sys.argv[1], "serial.h5", executor="serial", **how)
    assert open(sys.argv[2], "rb").read() == open("serial.h5", "rb").read()
    print(done.plan["executor"])
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_needs_a_guard(tmp_path, guarded):
    """Without it, the error names the remedy, and neither the script nor a worker writes the destination."""
    guard = "if __name__ == '__main__'" if guarded else "if True"
    (tmp_path / "script.py").write_text(_SCRIPT.replace("GUARD", guard))
    words = [sys.executable, "script.py", str(PACK.absolute()), "auto.h5"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if guarded:
        assert (done.returncode, done.stdout.split()) == (0, ["processes"]), done.stderr
        return
    assert done.returncode == 1 and not done.stdout
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("tokfmt.errors.OutageError"))
    assert 'if __name__ == "__main__":' in error and 'executor="threads"' in error
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_notebook_needs_no_guard(tmp_path):
    """It has no file, as what `-c` runs has none."""
    words = [sys.executable, "-c", _SCRIPT.replace("GUARD", "if True"), str(PACK.absolute()), "auto.h5"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, ["processes"]), done.stderr


def test_objects_of_a_script_reach_its_workers(tmp_path):
    (tmp_path / "script.py").write_text("""
import operator
from pathlib import Path
from tokfmt.run.execute import make_executor, may_spawn, run_tasks

class Shared:
    def __add__(self, number):
        return number + 1

if __name__ == "__main__":
    with make_executor("processes", 2) as executor:
        print(*sorted(run_tasks(operator.add, Shared(), [1, 2, 3], executor, 2, Path())))
    print(may_spawn([1]), may_spawn([Shared()]), may_spawn([lambda: 1]))
""")
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 3 4", "True True False"]
