"""`tokfmt show --step` and `--sample`: what the model sees, against the documents that the fixtures are known to hold."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import forkserver
import pytest
from amount import FUZZ_ONLY, first
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.ops.show.step import show_step

MIX = FIXTURES / "recipe" / "mix.toml"


def documents(name):
    """The documents of the sources, from the lists beside the fixtures."""
    if name == "pack":
        expected = json.loads((FIXTURES / "modalities" / "expected.json").read_bytes())
        stored = expected["doc_sets"][expected["pbin"]["D_2byte_gpt2.pbin"]["documents"]]
        return [one[:-1] for one in stored]
    return [one.tolist() for one in tokfmt.open(FIXTURES / "megatron" / "gpt2_text_document.bin")]


RECIPES = {
    "several paths and a selection": 'seq_len = 64\n[[source]]\npath = ["a.pbin", "b.pbin"]\nselect = "5:-3"\n',
    "a quota": 'seq_len = 64\n[[source]]\npath = "a.pbin"\ntokens = 1000\n',
    "a quota of several passes": 'seq_len = 64\n[[source]]\npath = "b.pbin"\nepochs = 3\ntokens = 2500\n',
    "targets": 'seq_len = 64\nlabels = "starts"\n[[source]]\npath = "a.pbin"\n',
    "disjoint": 'seq_len = 64\nlabels = "disjoint"\ntail = "drop"\n[[source]]\npath = "a.pbin"\n',
    "best fit": 'seq_len = 64\npack = "bestfit"\nshuffle = "documents"\n[[source]]\npath = "a.pbin"\n',
    "one a sample": 'seq_len = 64\npack = "document"\nlong = "truncate"\n[[source]]\npath = "a.pbin"\n',
    "documents of a recipe": 'seq_len = 64\n[[source]]\npath = "documents.toml"\nselect = "3:"\n',
    "samples of recipes": 'seq_len = 32\npack = "stored"\n[[source]]\npath = "one.toml"\n[[source]]\npath = "two.toml"\n',
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    home = tmp_path_factory.mktemp("sources")
    for name, select in (("a", "0:120"), ("b", "150:")):
        corpus = FIXTURES / "text" / "corpus.jsonl"
        tokfmt.convert(corpus, home / f"{name}.pbin", tokenizer=str(TOKENIZER), select=select)
    nested = {
        "documents": 'shuffle = "documents"\n[[source]]\npath = "b.pbin"\n[[source]]\npath = "a.pbin"\ntokens = 900\n',
        "one": 'seq_len = 32\nshuffle = "samples"\n[[source]]\npath = "b.pbin"\n',
        "two": 'seq_len = 32\npack = "bestfit"\n[[source]]\npath = "a.pbin"\nselect = "7:60"\n',
    }
    for name, words in nested.items():
        (home / f"{name}.toml").write_text(f"tokfmt = 1\n{words}")
    return home


@pytest.mark.parametrize("name", first(4, RECIPES))
def test_every_part_equals_the_tokens_in_its_file(sources, name):
    (sources / "it.toml").write_text(f"tokfmt = 1\n{RECIPES[name]}")
    view = tokfmt.open(sources / "it.toml")
    stored = {str(sources / f"{one}.pbin"): tokfmt.open(sources / f"{one}.pbin")[:].tolist() for one in "ab"}
    for k in range(len(view)):
        (drawn,) = show_step(sources / "it.toml", sample=k).shown
        ids = []
        for part in drawn.parts:
            document = stored[part.path][part.stored]
            assert part.length == len(document)
            assert part.ids.tolist() == [*document, view.info.eos_id or 4095][part.start : part.stop]
            assert part.source.split("/")[-1] == Path(part.path).stem or "paths" in name
            ids += part.ids.tolist()
        inputs, labels = (view[k][field].tolist() for field in ("input_ids", "labels"))
        if name == "targets":
            assert ids == labels[: len(ids)] and set(labels[len(ids) :]) <= {-100}
        elif name == "disjoint":
            assert ids == [*inputs, labels[-1]]
        else:
            assert ids == inputs[: len(ids)] and drawn.padding == view.seq_len - len(ids)


@FUZZ_ONLY
def test_of_many_files_the_one_is_named_also_when_they_are_remembered(sources, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for k in range(70):
        tokfmt.convert(sources / "a.pbin", tmp_path / f"{k}.pbin", select=f"{k}:{k + 3}", manifest=False)
    (tmp_path / "many.toml").write_text('tokfmt = 1\nseq_len = 64\nto_eos = 4095\n[[source]]\npath = "*.pbin"\n')
    for _ in range(2):  # the second time from the cache
        for k in range(0, len(tokfmt.open(tmp_path / "many.toml")), 17):
            (drawn,) = show_step(tmp_path / "many.toml", sample=k).shown
            for part in drawn.parts:
                assert (Path(part.path), part.stored) == (tmp_path / f"{part.sequence // 3}.pbin", part.sequence % 3)
                document = [*tokfmt.open(part.path, eos=4095)[part.stored].tolist(), 4095]
                assert part.ids.tolist() == document[part.start : part.stop]


def test_on_a_terminal_it_is_cut_to_a_screen():
    ours, side = pty.openpty()
    with forkserver.Popen(
        [sys.executable, "-m", "tokfmt", "show", MIX, "--step", "0", "--batch-size", "20"],
        stdout=side, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(side)
        printed = b""
        while True:
            try:
                printed += os.read(ours, 1 << 16)
            except OSError:
                break
        assert "12 more samples in this step" in process.stderr.read()
    os.close(ours)
    lines = printed.decode().splitlines()
    assert sum(line.startswith("    ") for line in lines) > 8
    assert (
        max(len(line) for line in lines if line.startswith("    "))
        <= 2 * shutil.get_terminal_size((80, 24)).columns + 4
    )
