"""`tokfmt show --step` and `--sample`: what the model sees, against the documents that the fixtures are known to hold."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import commands
import forkserver
import pytest
from amount import FUZZ_ONLY, first
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.commands.show.step import show_step

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
    (alone,) = show_step(sources / "it.toml", sample=1).shown
    of_second = [repr(part) for part in alone.parts]
    for k, drawn in enumerate(show_step(sources / "it.toml", step=0, batch_size=len(view)).shown):
        parts = list(drawn.parts)
        assert k != 1 or [repr(part) for part in parts] == of_second
        ids = []
        for part in parts:
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


EOS = 50256


def run(*words):
    return commands.run("show", *words)


def found(*words):
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_step_names_every_position_of_every_document():
    view = tokfmt.open(MIX)
    for step in range(len(view) // 4):
        told = found(MIX, "--step", step, "--batch-size", 4)
        assert (told["schema"], told["first"], told["last"]) == ("tokfmt.show-step/1", 4 * step, 4 * step + 4)
        assert told["fingerprint"] == view.fingerprint
        for sample in told["shown"]:
            ids = []
            for part in sample["parts"]:
                document = [*documents(part["source"])[part["sequence"]], EOS]
                assert part["ids"] == document[part["start"] : part["stop"]]
                assert part["length"] == len(document) - 1
                assert part["source"] == sample["drawn_from"]
                assert os.path.samefile(
                    part["path"],
                    FIXTURES
                    / {"pack": "modalities/D_2byte_gpt2.pbin", "megatron": "megatron/gpt2_text_document.bin"}[
                        part["source"]
                    ],
                )
                assert ".." not in part["path"].split("recipe")[-1]
                ids += part["ids"]
            row = view[sample["sample"]]["input_ids"].tolist()
            assert row == ids + [EOS] * sample["padding"]


def test_the_parts_of_ranks_are_the_batch():
    whole = found(MIX, "--step", 1, "--batch-size", 8)["shown"]
    for world in (2, 4, 8):
        parts = [
            found(MIX, "--step", 1, "--batch-size", 8, "--rank", rank, "--world-size", world) for rank in range(world)
        ]
        assert [{**one, "rank": 0} for part in parts for one in part["shown"]] == whole
        every = found(MIX, "--step", 1, "--batch-size", 8, "--world-size", world)
        assert every["rank"] is None
        assert every["shown"] == [one for part in parts for one in part["shown"]]
        assert [one["rank"] for one in every["shown"]] == [k * world // 8 for k in range(8)]


def test_the_origins_of_a_step_are_its_lines_without_tokens():
    words = ("show", MIX, "--step", "3", "--batch-size", "4")
    complete, origins = (commands.run(*words, *more, check=0).stdout.splitlines() for more in ((), ("--origin",)))
    assert origins == [line for line in complete if line.strip() and not line.startswith("    ")]
    assert sum(line.startswith("#") for line in origins) == 4


def test_one_sample_by_number_and_from_the_end():
    count = len(tokfmt.open(MIX))
    (alone,) = found(MIX, "--sample", 5)["shown"]
    assert [{**alone, "rank": 0}] == found(MIX, "--step", 5, "--batch-size", 1)["shown"]
    assert found(MIX, "--sample", -1)["shown"][0]["sample"] == count - 1


def test_epochs_are_numbered():
    count = len(tokfmt.open(MIX))
    epochs = {found(MIX, "--sample", k)["shown"][0]["epoch"] for k in range(count)}
    assert epochs == {0, 1}
    late = next(k for k in range(count) if found(MIX, "--sample", k)["shown"][0]["epoch"])
    assert "drawn from pack, epoch 1" in run(MIX, "--sample", late).stdout


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    home = tmp_path_factory.mktemp("texts")
    tokfmt.convert(FIXTURES / "text" / "corpus.jsonl", home / "corpus.pbin", tokenizer=str(TOKENIZER))
    (home / "mix.toml").write_text('tokfmt = 1\nseq_len = 64\n[[source]]\npath = "corpus.pbin"\n')
    return home / "mix.toml"


def test_with_a_tokenizer_it_ends_at_the_text(texts):
    lines = (FIXTURES / "text" / "corpus.jsonl").read_text().splitlines()
    told = found(texts, "--sample", 3, "--tokenizer", TOKENIZER)["shown"][0]["parts"]
    for part in told:
        text = json.loads(lines[part["sequence"]])["text"]
        assert part["text"].strip("\ufffd") in text or "\\x" in part["text"]
        assert part["start"] > 0 or text.startswith(part["text"][:20])
    shown = run(texts, "--sample", 3, "--tokenizer", TOKENIZER)
    assert f"corpus sequence {told[0]['sequence']}: " in shown.stdout
    assert told[0]["text"].splitlines()[0] in shown.stdout
    assert "by the manifests of the sources of " in (by_manifest := run(texts, "--sample", 3)).stderr
    assert by_manifest.stdout == shown.stdout
    assert run(texts, "--sample", 3, "--text").stdout == "".join(f"{one['text']}\n" for one in told)
    assert run(texts, "--sample", 3, "--ids").stdout == "".join(" ".join(map(str, one["ids"])) + "\n" for one in told)


def test_the_heading_and_the_whole_step_when_piped():
    done = run(MIX, "--step", 0, "--batch-size", 16, "--rank", 1, "--world-size", 2)
    assert (
        "recipe: 46 samples of 128 tokens; step 0 (from 0) of batches of 16, rank 1 of 2: samples 8 to 15\n"
        in done.stderr
    )
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("#")] == [
        f"#{k}" for k in range(8, 16)
    ]
    done = run(MIX, "--step", 0, "--batch-size", 4, "--world-size", 2)
    of_ranks = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("#", "rank"))]
    assert [one if one[0] == "rank" else one[0] for one in of_ranks] == [
        ["rank", "0"], "#0", "#1", ["rank", "1"], "#2", "#3"
    ]  # fmt: skip
    done = run(MIX, "--step", 0, "--batch-size", 16, "--limit", 3)
    assert "note: 13 more samples in this step; --limit 0 shows all" in done.stderr
    assert done.stdout.count("drawn from") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--step", 1), "Add --batch-size B"),
        (("--rank", 1), "no samples are selected"),
        (("--sample", 1, "--step", 1, "--batch-size", 2), "no samples are selected"),
        (("--step", 99, "--batch-size", 4), "step 99 is beyond the last whole batch, step 10"),
        (("--sample", 99), "has samples 0 to 45"),
        (("--step", 0, "--batch-size", 3, "--world-size", 2), "cannot be divided evenly among 2 ranks"),
        (("--step", 0, "--batch-size", 4, "--rank", 2, "--world-size", 2), "rank 2 of 2"),
        (("--sample", 1, "--raw"), "--raw cannot be combined with"),
        (("3", "--sample", 1), "SEL cannot be combined with"),
        (("--sample", 1, "--text"), "--text needs a tokenizer. Add --tokenizer"),
    ],
)
def test_impossible_steps_are_refused(words, said):
    done = run(MIX, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_step_of_a_dataset_without_samples_is_refused():
    done = run(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "--sample", 1)
    assert done.returncode == 2
    assert "is not a recipe of samples, so it has no steps" in done.stderr


def test_a_recipe_with_text_has_steps_once_it_is_stored(tmp_path):
    words = f'tokfmt = 1\nseq_len = 64\ntokenizer = "{TOKENIZER}"\n'
    (tmp_path / "text.toml").write_text(f'{words}[[source]]\npath = "{FIXTURES / "text" / "corpus.jsonl"}"\n')
    done = run(tmp_path / "text.toml", "--step", 0, "--batch-size", 4)
    assert done.returncode == 2
    assert "text.toml DST stores it" in done.stderr
