"""Runs of OLMo 1: samples, steps and ranks as OLMo recorded them, by the order file, the seed, or the record of ranks."""

import gzip
import json
import shutil

import commands
import pytest
from run_goldens import RUNS, assert_reads, findings, read_by_ranks, recorded, words_of

import tokfmt

HOME = RUNS / "olmo1"
SETS = ("drop", "pad")
FACTS = {
    "framework": "olmo", "paths": "data/harbour.npy,data/meadow.npy,data/lantern.npy", "dtype": "uint16",
    "sequence_length": 64, "batch_size": 8, "seed": 1234, "eos_token_id": 0, "pad_id": 1,
}  # fmt: skip


def described(folder, name, **more):
    """A TOML file with the facts of the run."""
    facts = {**FACTS, "root": str(HOME), "cache": str(folder), "drop_last": name == "drop", **more}
    path = folder / "run.toml"
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in facts.items() if value is not None]
    path.write_text("tokfmt = 1\n[run]\n" + "".join(lines))
    return path


def steps_of(name, phase):
    return [one for one in recorded("olmo1", f"expected_{name}.json")["steps"] if one["phase"] == phase]


def start_of(steps):
    return {"epoch": steps[0]["epoch"], "sample_in_epoch": steps[0]["start_index"], "world_size": steps[0]["world"]}


@pytest.mark.parametrize("phase", ["first", "second", "resumed"])
@pytest.mark.parametrize("name", SETS)
def test_each_rank_reads_its_share_of_every_step(name, phase, tmp_path):
    steps = steps_of(name, phase)
    run = described(tmp_path, name, consumed=0, samples=8 * len(steps), **start_of(steps))
    samples = recorded("olmo1", f"expected_{name}.json")["samples"]
    for k, step in enumerate(steps):
        assert_reads(run, k, step["ranks"], samples)
    assert commands.run("show", run, "--step", len(steps)).returncode == 2


@pytest.mark.parametrize("name", SETS)
def test_rows_are_the_samples_of_steps(name, tmp_path):
    samples = recorded("olmo1", f"expected_{name}.json")["samples"]
    reader = tokfmt.open(described(tmp_path, name, world_size=2))
    for k, step in enumerate(steps_of(name, "first")[:39]):
        numbers = [number for places in zip(*step["ranks"], strict=True) for number in places]
        assert [reader[8 * k + column].tolist() for column in range(8)] == [
            samples[str(one)]["tokens"] for one in numbers
        ]


@pytest.mark.parametrize("name", SETS)
def test_the_order_file_answers_without_a_seed(name, tmp_path):
    """It is of the last epoch, and of the ranks after the restart."""
    steps = steps_of(name, "resumed")
    shutil.copytree(HOME / f"train_data_{name}", tmp_path / "train_data")
    run = described(tmp_path, name, seed=None, consumed=0, **start_of(steps))
    for k, step in enumerate(steps):
        assert read_by_ranks(run, k) == step["ranks"]
    assert "from files" in commands.run("info", run, check=0).stdout
    assert findings(run) == set()
    beyond = commands.run("show", run, "--step", 60, "--from-opt", "samples=1000", check=2)
    assert "seed" in beyond.stderr
    assert findings(run, world_size=5) == {"TF812"}


@pytest.mark.parametrize("name", SETS)
def test_a_check_compares_the_order_file_with_the_seed(name, tmp_path):
    steps = steps_of(name, "resumed")
    folder = shutil.copytree(HOME / f"train_data_{name}", tmp_path / "train_data")
    run = described(tmp_path, name, **start_of(steps))
    assert findings(run) == set()
    assert findings(run, seed=9) == {"TF815"}
    order = bytearray((folder / "global_indices.npy").read_bytes())
    order[40:48] = order[48:56]
    (folder / "global_indices.npy").write_bytes(order)
    assert findings(run) == {"TF815"}
    (folder / "global_indices.npy").write_bytes(order[:-4])
    assert findings(run) == {"TF812"}


def written_record(folder, steps, first=1, stop=None):
    """The record of ranks as OLMo writes it: a line of each step, counted from 1."""
    there = folder / "data-indices"
    there.mkdir()
    for rank in range(len(steps[0]["ranks"])):
        lines = ["\t".join(map(str, (first + k, *step["ranks"][rank]))) + "\n" for k, step in enumerate(steps)]
        content = gzip.compress("".join(lines).encode())
        (there / f"rank{rank}.tsv.gz").write_bytes(content[:stop])
    return there


@pytest.mark.parametrize("name", SETS)
def test_the_record_of_ranks_answers_without_seed_batch_and_ranks(name, tmp_path):
    steps = [*steps_of(name, "first"), *steps_of(name, "second")]
    there = written_record(tmp_path, steps, first=11)
    run = described(tmp_path, name, seed=None, batch_size=None, drop_last=None)
    for k, step in enumerate(steps):
        assert read_by_ranks(run, 10 + k) == step["ranks"]
    assert commands.run("show", run, "--step", 9).returncode == 2
    words = words_of({"root": HOME, **{key: FACTS[key] for key in ("paths", "dtype", "sequence_length")}})
    assert f"{len(steps) * 8:,}" in commands.run("info", there, *words, check=0).stdout


def test_a_record_that_was_cut_has_the_steps_of_all_ranks(tmp_path):
    steps = steps_of("drop", "first")
    there = written_record(tmp_path, steps)
    content = (there / "rank1.tsv.gz").read_bytes()
    (there / "rank1.tsv.gz").write_bytes(content[: len(content) // 2])
    run = described(tmp_path, "drop")
    done = commands.run("info", run, check=0)
    assert "record ends" in done.stdout + done.stderr
    assert read_by_ranks(run, 3) == steps[3]["ranks"]


@pytest.mark.parametrize(
    "content",
    [
        b"1\t2\t3\n2\t999\n",
        b"1\t-1\n",
        b"0\t1\n",
        b"one\t2\n",
        b"1\t2\n3\t4\n",
        b"\n",
        b"1\t" + b"9" * 5000 + b"\n",
        b"",
    ],
)
def test_a_wrong_record_is_an_error(content, tmp_path):
    there = written_record(tmp_path, steps_of("drop", "first"))
    (there / "rank1.tsv.gz").write_bytes(gzip.compress(content))
    run = described(tmp_path, "drop")
    assert findings(run) == {"TF812"} and commands.run("info", run).returncode in (2, 3)


def test_a_record_of_other_ranks_is_an_error(tmp_path):
    there = written_record(tmp_path, steps_of("drop", "first"))
    (there / "rank1.tsv.gz").rename(there / "rank2.tsv.gz")
    assert findings(described(tmp_path, "drop")) == {"TF812"}


@pytest.mark.parametrize("name", SETS)
def test_a_document_is_found_in_the_samples_that_read_it(name, tmp_path):
    record, truth = recorded("olmo1", f"expected_{name}.json"), {}
    for k, step in enumerate([*steps_of(name, "first"), *steps_of(name, "second")]):
        for rank, numbers in enumerate(step["ranks"]):
            for number in numbers:
                for source, document, _, _ in record["samples"][str(number)]["pieces"]:
                    truth.setdefault((source, document), set()).add((k, rank))
    run = described(tmp_path, name, world_size=2, samples=45 * 8 if name == "drop" else 46 * 8)
    for (source, document), reads in sorted(truth.items())[::17]:
        done = commands.run("show", run, "--seen", f"{source}#{document}", "--json", check=0)
        assert {(one["step"], one["rank"]) for one in json.loads(done.stdout)["reads"]} == reads


@pytest.mark.parametrize("key", ["paths", "dtype", "sequence_length", "batch_size", "drop_last", "seed"])
def test_a_missing_fact_is_named_with_the_file_that_has_it(key, tmp_path):
    done = commands.run("info", described(tmp_path, "drop", **{key: None}), check=2)
    assert f"--from-opt {key}=" in done.stderr and "config.yaml" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"sequence_length": 1 << 20}, "sequence_length"),
        ({"world_size": 400}, "world_size"),
        ({"sample_in_epoch": 400}, "sample_in_epoch"),
        ({"batch_schedule": "0:8"}, "batch_size"),
        ({"dtype": "float32"}, "dtype"),
    ],
)
def test_a_wrong_fact_is_named(wrong, word, tmp_path):
    done = commands.run("info", described(tmp_path, "drop", **wrong))
    assert done.returncode in (2, 3) and word in done.stderr


def test_no_path_is_opened_outside_of_root(tmp_path):
    run = described(tmp_path, "drop", paths=["../../etc/harbour.npy"])
    assert "outside" in commands.run("info", run).stderr


def test_documents_that_nothing_divides_have_a_note(tmp_path):
    """Without a separator and a .csv.gz, a token file is one document."""
    for separator in (0, None):
        done = commands.run("info", described(tmp_path, "drop", eos_token_id=separator), "--json", check=0)
        assert any("eos_token_id" in note for note in json.loads(done.stdout)["notes"]) == (separator is None)
