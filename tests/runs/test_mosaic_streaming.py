"""Runs on MosaicML Streaming: steps and ranks as upstream gave them; no file holds the order."""

import json

import commands
import pytest
from run_goldens import RUNS, ids_of, read_by_ranks, recorded, shown

import tokfmt

HOME = RUNS / "mosaic_streaming"
SCENARIOS = [
    "py1e", "py1s", "py1br", "py2s", "naive", "noshuffle", "absolute_py1e", "fixed_py1s", "stratified", "per_stream",
]  # fmt: skip


def described(folder, name, phase, **more):
    """A TOML file with the facts of a phase of a run."""
    facts = recorded("mosaic_streaming", f"expected_{name}.json")["arguments"]
    loader = facts[phase]
    ranks = loader["nodes"] * loader["ranks_per_node"]
    stated = {
        "framework": "mosaic-streaming", "root": str(HOME), "pad_id": 1,
        "streams": [f"mds/{stream['name']}" for stream in facts["streams"]],
        "batch_size": ranks * loader["batch_size"], "world_size": ranks, "nodes": loader["nodes"],
        "num_workers": loader["workers_per_rank"], "samples": 10**6,
        **{key: facts[key] for key in (
            "shuffle", "shuffle_algo", "shuffle_seed", "num_canonical_nodes", "shuffle_block_size", "batching_method",
            "epoch_size", "sampling_method",
        ) if facts.get(key) is not None},
    }  # fmt: skip
    if facts["weights"] == "prop":
        stated["proportion"] = [0.5, 0.3, 0.2]
    elif facts["weights"] == "abs":
        stated["choose"] = [stream["choose"] for stream in facts["streams"]]
    stated.update(more)
    path = folder / "run.toml"
    path.write_text("tokfmt = 1\n[run]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in stated.items()))
    return path


def steps_of(name, phase):
    return [step for step in recorded("mosaic_streaming", f"expected_{name}.json")["steps"] if step["phase"] == phase]


@pytest.mark.parametrize("phase", ["first", "resumed"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_rank_reads_its_share_of_every_step(name, phase, tmp_path):
    steps = steps_of(name, phase)
    start = {"epoch": steps[0]["epoch"], "sample_in_epoch": steps[0].get("sample_in_epoch", 0)}
    run = described(tmp_path, name, phase, **start)
    tokens = recorded("mosaic_streaming", "samples.json")["samples"]
    reader = tokfmt.open(run)
    for k in sorted({0, 1, len(steps) // 3, len(steps) // 2, *range(len(steps) - 2, len(steps))}):
        assert read_by_ranks(run, k) == [rank for rank in steps[k]["ranks"] if rank]
    batch = sum(len(rank) for rank in steps[0]["ranks"])
    for k, step in enumerate(steps):
        numbers = [number for rank in step["ranks"] for number in rank]
        if len(numbers) == batch:
            for column, number in enumerate(numbers):
                truth = tokens[str(number)]["tokens"]
                found = reader[k * batch + column].tolist()
                assert found[: len(truth)] == truth and set(found[len(truth) :]) <= {1}


def test_a_stretch_is_found_by_the_samples_before_it(tmp_path):
    steps = steps_of("py1e", "first")
    second = next(k for k, step in enumerate(steps) if step["epoch"] == 1)
    run = described(tmp_path, "py1e", "first", consumed=8 * (second + 3))
    assert read_by_ranks(run, second + 3) == steps[second + 3]["ranks"]
    assert read_by_ranks(run, second + 20) == steps[second + 20]["ranks"]


def test_a_real_loader_read_the_documents_that_its_order_says(tmp_path):
    record = recorded("mosaic_streaming", "expected_loader.json")
    samples = recorded("mosaic_streaming", "samples.json")["samples"]
    run = described(tmp_path, "py1e", "first", batch_size=4, world_size=1, nodes=1)
    for k in (0, 7, 50, len(record["steps"]) - 1):
        names = [samples[str(one["number"])] for one in shown(run, "--step", k)]
        assert [f"{one['source']}-{one['doc']:04d}" for one in names] == record["steps"][k]["docs"]


def test_pieces_are_samples_of_streams(tmp_path):
    run = described(tmp_path, "py1br", "first")
    record = recorded("mosaic_streaming", "samples.json")["samples"]
    for number in (0, 100, 279):
        (found,) = shown(run, "--sample", number)
        truth = record[str(found["number"])]
        assert ids_of(found) == truth["tokens"]
        assert [(one["source"], one["sequence"], one["start"]) for one in found["parts"]] == [
            (truth["source"], truth["doc"], 0)
        ]


def test_every_sample_is_found_in_the_steps_that_read_it(tmp_path):
    samples = recorded("mosaic_streaming", "samples.json")["samples"]
    run, truth = described(tmp_path, "py1s", "first", samples=2 * 280), {}
    steps = steps_of("py1s", "first")
    for k, step in enumerate(steps):
        for rank, numbers in enumerate(step["ranks"]):
            for number in numbers:
                truth.setdefault(number, set()).add((k, rank))
    for number in sorted(truth)[::23]:
        one = samples[str(number)]
        done = commands.run("show", run, "--seen", f"{one['source']}#{one['doc']}", "--json", check=0)
        found = {(read["step"], read["rank"]) for read in json.loads(done.stdout)["reads"]}
        assert {read for read in found if read[0] < len(steps)} == truth[number]


@pytest.mark.parametrize("key", ["streams", "batch_size", "shuffle"])
def test_a_missing_fact_is_named_with_the_place_that_has_it(key, tmp_path):
    path = described(tmp_path, "py1e", "first")
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith(f"{key} ")))
    done = commands.run("info", path, check=2)
    assert f"--from-opt {key}=" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"proportion": [1, 2]}, "proportion"),
        ({"choose": ["x", 1, 2], "proportion": []}, "choose"),
        ({"proportion": [0, 0, 0]}, "proportion"),
        ({"batch_size": 7}, "batch_size"),
        ({"sample_in_epoch": 5000}, "sample_in_epoch"),
        ({"choose": [0.1, 0.1, 0.1], "proportion": []}, "choose"),
        ({"choose": [1e12, 1, 1], "proportion": []}, "1,000,000,000,002"),
        ({"proportion": [1e308, 1e308, 1]}, "proportion"),
        ({"batch_size": 2**22, "num_workers": 2}, "8,388,608"),
        ({"num_workers": 65536, "batch_size": 1024}, "67,108,864"),
        ({"num_canonical_nodes": 3, "nodes": 2}, "num_canonical_nodes"),
    ],
)
def test_a_wrong_fact_is_named(wrong, word, tmp_path):
    done = commands.run("info", described(tmp_path, "py1e", "first", **wrong), check=2)
    assert word in done.stderr
