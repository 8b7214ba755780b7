"""`--executor auto`: processes for much text or many HDF5 samples, else threads; and how many threads a tokenizer's own pool has."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.ops.convert import convert as conversion
from tokfmt.run.execute import POOLS, SharedPayload, may_spawn

TEXT, PACK = FIXTURES / "text" / "corpus.jsonl", FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


@pytest.mark.parametrize(
    ("jobs", "worth", "where"), [(2, 1000, "processes"), (1, 1000, "threads"), (2, 1 << 40, "threads")]
)
def test_much_text_is_encoded_in_processes(tmp_path, monkeypatch, jobs, worth, where):
    monkeypatch.setattr(conversion, "_WORTH", worth)
    how = {"tokenizer": str(TOKENIZER), "jobs": jobs, "manifest": False}
    done = tokfmt.convert(TEXT, tmp_path / "auto.pbin", executor="auto", **how)
    assert (done.plan["executor"], done.plan["jobs"]) == (where, jobs)
    tokfmt.convert(TEXT, tmp_path / "serial.pbin", executor="serial", **how)
    assert (tmp_path / "auto.pbin").read_bytes() == (tmp_path / "serial.pbin").read_bytes()


@pytest.mark.parametrize(
    ("jobs", "worth", "where"), [(2, 1000, "processes"), (1, 1000, "threads"), (2, 1 << 40, "threads")]
)
def test_many_samples_are_packed_in_processes(tmp_path, monkeypatch, jobs, worth, where):
    """They are gathered under the interpreter's lock meanwhile, for which threads would wait."""
    monkeypatch.setattr(conversion, "_WORTH", worth)
    how = {"seq_len": 32, "allow_loss": ["empty-sequences", "embedded-separators"], "jobs": jobs, "manifest": False}
    done = tokfmt.convert(PACK, tmp_path / "auto.h5", executor="auto", **how)
    assert (done.plan["executor"], done.plan["jobs"]) == (where, jobs)
    tokfmt.convert(PACK, tmp_path / "serial.h5", executor="serial", **how)
    assert (tmp_path / "auto.h5").read_bytes() == (tmp_path / "serial.h5").read_bytes()


def test_ids_and_copied_lines_stay_in_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_WORTH", 1)
    how = {"executor": "auto", "jobs": 2, "dry_run": True}
    assert tokfmt.convert(PACK, tmp_path / "x.zarr", **how).plan["executor"] == "threads"
    assert tokfmt.convert(TEXT, tmp_path / "x.jsonl", **how).plan["executor"] == "threads"


_SAID = """
import os, sys
from tokfmt.cli.main import run
try:
    run(["convert", *sys.argv[1:], "--quiet"])
except SystemExit:
    print(os.environ["RAYON_NUM_THREADS"], os.environ["FASTOKENS_BPE_THREADS"])
"""


@pytest.mark.parametrize(("jobs", "given", "threads"), [(3, None, "3"), (3, "5", "5")])
def test_a_tokenizer_takes_no_more_threads_than_jobs(tmp_path, monkeypatch, jobs, given, threads):
    for pool in POOLS:
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


@pytest.mark.parametrize(
    "thing",
    [Path("data/__main__/x.bin"), {"path": "__main__.jsonl"}, {"__main__": ["__main__", "__main__", len, Path()]}],
    ids=["path", "file", "word"],
)
def test_a_path_with_the_word_in_it_is_nothing_of_the_main_module(thing, tmp_path):
    """Workers would run the user's script for it."""
    assert SharedPayload.pack(thing, tmp_path).main == {}
    assert may_spawn(thing)


class Scripted:
    """Stands in the main module, as what a script defines does."""


@pytest.mark.parametrize("before", [[], ["__main__"], ["Scripted", "__main__"], [Path("a"), Path, "__main__", 1, Path]])
def test_objects_of_the_main_module_are_found_in_any_container(before, monkeypatch):
    monkeypatch.setattr(Scripted, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Scripted", Scripted, raising=False)
    for thing in (Scripted, Scripted()):
        assert not may_spawn([*before, thing])
        assert not may_spawn([*before, "__main__", thing, "__main__"])
