"""Ledgers: the record that each piece of each sequence is said to come from holds these tokens, looked up by plain Python."""

import tracemalloc
from pathlib import Path

import pytest
from made_corpora import FIELDS, NAMES, SUFFIXES, make
from paths import TOKENIZER

import tokfmt
from tokfmt.ops import provenance
from tokfmt.ops.convert.convert import finish
from tokfmt.ops.source.open import open_one
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.progress import Progress

EOS = 4095
QUOTAS = {"web": 30_000, "code": 9_000, "forum": 5_000, "news": 2_500, "papers": 1_500, "chat": 3_000}


def written(home, names, quotas=QUOTAS, **keys):
    """A recipe of text."""
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', *(f"{key} = {value}" for key, value in keys.items())]
    for name in names:
        lines += ["[[source]]", f'path = "{name}{SUFFIXES.get(name, ".jsonl")}"', 'filter = "garbage"']
        lines += [f"tokens = {quotas[name]}"] if name in quotas else []
        lines += [f'text = "{FIELDS[name]}"'] if name in FIELDS else []
    (home / "mix.toml").write_text("\n".join(lines) + "\n")
    return home / "mix.toml"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpora")
    make(home)
    return home


def ledger_of(path):
    return Path(f"{path}.ledger").read_bytes(), Path(f"{path}.ledger.json").read_bytes()


def test_shards_and_finish(corpora, tmp_path):
    """The ledger of shards that are finished is that of one run."""
    recipe = written(corpora, NAMES, dedup='"exact"', seed=5, shuffle='"documents"')
    tokfmt.convert(recipe, tmp_path / "whole.pbin", ledger=True)
    for index in (1, 0):
        tokfmt.convert(recipe, tmp_path / "parts.pbin", task=(index, 2), ledger=True)
        assert not (tmp_path / "parts.pbin.ledger").exists()
    finish(tmp_path / "parts.pbin")
    assert ledger_of(tmp_path / "parts.pbin") == ledger_of(tmp_path / "whole.pbin")


def test_memory_does_not_grow_with_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_AT_ONCE", 1 << 10)
    peaks = []
    for count in (5_000, 60_000):
        path = tmp_path / f"{count}.jsonl"
        path.write_text('{"input_ids": [1, 2]}\n' * count)
        tokfmt.convert(path, tmp_path / f"{count}.pbin", eos=EOS)
        (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nshuffle = "documents"\n[[source]]\npath = "{count}.pbin"\n')
        reader = open_one(SourceRequest((tmp_path / "mix.toml",))).reader
        tracemalloc.start()
        told = provenance.write_rows(tmp_path, reader, reader, reader, {}, Progress())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert told["rows"] == count
    assert peaks[1] < peaks[0] + 300_000  # the rows take 36 bytes each, 2.2 MB
