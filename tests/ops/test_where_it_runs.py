"""`--executor auto`: processes for much text, threads for all else; and how many threads a tokenizer's own pool has."""

import subprocess
import sys

import pytest
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.ops.convert import run as conversion
from tokfmt.run.execute import POOLS

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
