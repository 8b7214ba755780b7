"""Runs of a Nanoset: samples, steps and ranks as nanotron recorded them; no file holds the order."""

import json

import commands
import pytest
from run_goldens import RUNS, ids_of, read_by_ranks, recorded, shown, words_of

import tokfmt

HOME = RUNS / "nanotron_nanoset"
FACTS = {
    "framework": "nanoset", "dataset_folders": "data/harbour,data/meadow,data/lantern", "sequence_length": 64,
    "seed": 1234, "samples": 640,
}  # fmt: skip
SETS = {"noweights": {}, "weights": {"dataset_weights": "0.5,0.3,0.2"}}


def described(folder, **more):
    """A TOML file with the facts of the run."""
    facts = {**FACTS, "root": str(HOME), **more}
    path = folder / "run.toml"
    path.write_text("tokfmt = 1\n[run]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in facts.items()))
    return path


@pytest.mark.parametrize("name", SETS)
def test_every_sample_is_what_nanotron_read(name, tmp_path):
    run = tokfmt.open(described(tmp_path, **SETS[name]))
    for number, sample in recorded("nanotron_nanoset", f"expected_{name}.json")["samples"].items():
        assert run[int(number)].tolist() == sample["tokens"][:64]


@pytest.mark.parametrize("name", SETS)
def test_pieces_name_documents_of_folders(name, tmp_path):
    run = described(tmp_path, **SETS[name])
    record = recorded("nanotron_nanoset", f"expected_{name}.json")["samples"]
    for number in (0, 55, 639):
        (found,) = shown(run, "--sample", number)
        assert ids_of(found) == record[str(number)]["tokens"]
        wanted = [
            (source, document, offset, length) for source, document, offset, length in record[str(number)]["pieces"]
        ]
        assert [
            (one["source"], one["sequence"], one["start"], one["stop"] - one["start"]) for one in found["parts"]
        ] == wanted


@pytest.mark.parametrize("name", SETS)
def test_each_rank_reads_its_share_of_a_step(name, tmp_path):
    record = recorded("nanotron_nanoset", f"expected_{name}.json")
    run = described(tmp_path, **SETS[name])
    for step in record["steps"][::17]:
        ranks = record["arguments"][step["phase"]]["data_parallel"]
        found = read_by_ranks(run, step["step"], batch_size=8, world_size=ranks)
        assert found == [[sample for micro in rank for sample in micro] for rank in step["ranks"]]


@pytest.mark.parametrize("name", SETS)
def test_a_document_is_found_in_the_samples_that_read_it(name, tmp_path):
    run, truth = described(tmp_path, **SETS[name]), {}
    for number, sample in recorded("nanotron_nanoset", f"expected_{name}.json")["samples"].items():
        for source, document, _, length in sample["pieces"]:
            if length:
                truth.setdefault((source, document), set()).add(int(number))
    for (source, document), samples in sorted(truth.items())[::11]:
        done = commands.run("show", run, "--seen", f"{source}#{document}", "--json", check=0)
        assert {one["sample"] for one in json.loads(done.stdout)["reads"]} == samples


@pytest.mark.parametrize("key", ["dataset_folders", "sequence_length", "seed"])
def test_a_missing_fact_is_named_with_the_file_that_has_it(key, tmp_path):
    facts = {name: value for name, value in FACTS.items() if name != key}
    done = commands.run("info", tmp_path, "--from", "run", *words_of({"root": HOME, **facts}), check=2)
    assert key in done.stderr and "config.yaml" in done.stderr


@pytest.mark.parametrize("weights", ["1,2", "nan,1,1", "-1,2,2", "0,0,0", "inf,1,1"])
def test_a_weight_of_each_folder(weights, tmp_path):
    done = commands.run("info", described(tmp_path, dataset_weights=weights))
    assert done.returncode in (2, 3) and "dataset_weights" in done.stderr
