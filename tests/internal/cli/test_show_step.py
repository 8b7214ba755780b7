"""`tokfmt show --step` and `--sample`: what the model sees, against the documents that the fixtures are known to hold."""

import contextlib
import io
import json
import os
import signal
from typing import NamedTuple

import pytest
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli import main

MIX = FIXTURES / "recipe" / "mix.toml"
EOS = 50256


def documents(name):
    """The documents of the sources, from the lists beside the fixtures."""
    if name == "pack":
        expected = json.loads((FIXTURES / "modalities" / "expected.json").read_bytes())
        stored = expected["doc_sets"][expected["pbin"]["D_2byte_gpt2.pbin"]["documents"]]
        return [one[:-1] for one in stored]
    return [one.tolist() for one in tokfmt.open(FIXTURES / "megatron" / "gpt2_text_document.bin")]


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def run(*words):
    """The command in this process, which spares it the start; `_run` is what turns errors into lines and codes."""
    out, err = io.StringIO(), io.StringIO()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main._run(["show", *map(str, words)])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return Done(code, out.getvalue(), err.getvalue())


def found(*words):
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
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
        assert [one for part in parts for one in part["shown"]] == whole


def test_one_sample_by_number_and_from_the_end():
    count = len(tokfmt.open(MIX))
    assert found(MIX, "--sample", 5)["shown"] == found(MIX, "--step", 5, "--batch-size", 1)["shown"]
    assert found(MIX, "--sample", -1)["shown"][0]["sample"] == count - 1


def test_passes_are_numbered():
    count = len(tokfmt.open(MIX))
    epochs = {found(MIX, "--sample", k)["shown"][0]["epoch"] for k in range(count)}
    assert epochs == {0, 1}
    late = next(k for k in range(count) if found(MIX, "--sample", k)["shown"][0]["epoch"])
    assert "drawn from pack, pass 2" in run(MIX, "--sample", late).stdout


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
    assert run(texts, "--sample", 3, "--tokenizer", TOKENIZER, "--text").stdout == "".join(
        f"{one['text']}\n" for one in told
    )
    assert run(texts, "--sample", 3, "--ids").stdout == "".join(" ".join(map(str, one["ids"])) + "\n" for one in told)


def test_the_heading_and_the_whole_step_when_piped():
    done = run(MIX, "--step", 0, "--batch-size", 16, "--rank", 1, "--world-size", 2)
    assert "recipe: 46 samples of 128 tokens; step 0 of batches of 16, rank 1 of 2: samples 8 to 15\n" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("#")] == [
        f"#{k}" for k in range(8, 16)
    ]
    done = run(MIX, "--step", 0, "--batch-size", 16, "--limit", 3)
    assert "note: 13 more samples in this step; --limit 0 shows all" in done.stderr
    assert done.stdout.count("drawn from") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--step", 1), "no samples are selected. Add --sample K, or --step S with --batch-size B"),
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
    assert done.exit_code == 2
    assert said in done.stderr


def test_step_of_a_dataset_without_samples_is_refused():
    done = run(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "--sample", 1)
    assert done.exit_code == 2
    assert "is not a recipe of samples, so it has no steps" in done.stderr


def test_a_recipe_with_text_has_steps_once_it_is_stored(tmp_path):
    words = f'tokfmt = 1\nseq_len = 64\ntokenizer = "{TOKENIZER}"\n'
    (tmp_path / "text.toml").write_text(f'{words}[[source]]\npath = "{FIXTURES / "text" / "corpus.jsonl"}"\n')
    done = run(tmp_path / "text.toml", "--step", 0, "--batch-size", 4)
    assert done.exit_code == 2
    assert "text.toml DST stores it" in done.stderr
