"""Runs on LitData: every step as upstream gave it, of one folder and of several; no file holds the order."""

import json
import shutil

import commands
import numpy as np
import pytest
from run_goldens import RUNS, ids_of, read_by_ranks, recorded, shown

import tokfmt

HOME = RUNS / "litdata"
STEPS = 43  # of an epoch


def described(folder, **more):
    """A TOML file with the facts of the run."""
    facts = {
        "framework": "litdata", "root": str(HOME), "input_dir": "data/harbour", "batch_size": 4, "num_workers": 2,
        "seed": 42, "shuffle": True, "samples": 2 * 4 * STEPS, **more,
    }  # fmt: skip
    path = folder / "run.toml"
    stated = {key: value for key, value in facts.items() if value is not None}
    path.write_text("tokfmt = 1\n[run]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in stated.items()))
    return path


@pytest.mark.parametrize("name", ["shuffle", "noshuffle"])
def test_every_step_of_two_epochs(name, tmp_path):
    """The rows are the items of each recorded step in turn; a place that the last step of an epoch lacks is padding."""
    run = tokfmt.open(described(tmp_path, shuffle=name == "shuffle"))
    items = tokfmt.open(HOME / "data" / "harbour", eos="none")
    width = run.info.sample_length
    for epoch, steps in enumerate(recorded("litdata", "expected.json")["epochs"][name]):
        for k, step in enumerate(steps):
            for column, number in enumerate(step):
                truth = items[number].tolist()
                assert run[4 * (epoch * STEPS + k) + column].tolist() == truth + [0] * (width - len(truth))
    assert len(run) == 2 * 4 * STEPS


@pytest.mark.parametrize("name", ["shuffle", "noshuffle"])
def test_steps_are_shown_by_number(name, tmp_path):
    run = described(tmp_path, shuffle=name == "shuffle")
    first, second = recorded("litdata", "expected.json")["epochs"][name]
    for k in (0, 1, STEPS - 1):
        assert read_by_ranks(run, k) == [first[k]]
        assert read_by_ranks(run, STEPS + k) == [second[k]]


def test_a_stretch_is_found_by_the_samples_before_it_or_by_the_state(tmp_path):
    second = recorded("litdata", "expected.json")["epochs"]["shuffle"][1]
    run = described(tmp_path, consumed=4 * (STEPS + 5))
    assert read_by_ranks(run, STEPS + 7) == [second[7]]
    run = described(tmp_path, epoch=2, sample_in_epoch=20)
    assert read_by_ranks(run, 2) == [second[7]]


def test_several_folders_by_weight(tmp_path):
    """Of each sample, upstream recorded its first ID and the number of its document."""
    run = described(
        tmp_path, input_dir=[f"data/{name}" for name in ("harbour", "meadow", "lantern")], weights=[0.5, 0.3, 0.2],
        samples=None,
    )  # fmt: skip
    rows, record = tokfmt.open(run), recorded("litdata", "expected.json")["combined"]
    for k, step in enumerate(record):
        assert [rows[4 * k + column][0] for column in range(len(step))] == [first for first, _ in step]
    assert len(rows) == 4 * len(record)
    for k in (0, 30, len(record) - 1):
        found = shown(run, "--step", k)
        assert [[ids_of(one)[0], one["parts"][0]["sequence"]] for one in found] == record[k]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("drop_last", [True, False, None])
def test_ranks_read_each_sample_at_most_once(ranks, drop_last, tmp_path):
    """Without dropping, all items of an epoch are read; else whole batches of each rank, as many as fit."""
    run = described(tmp_path, batch_size=4 * ranks, world_size=ranks, drop_last=drop_last, samples=None)
    steps = len(tokfmt.open(run)) // (4 * ranks)
    taken = [number for k in range(steps) for rank in read_by_ranks(run, k) for number in rank]
    assert len(set(taken)) == len(taken)
    dropped = ranks > 1 if drop_last is None else drop_last
    assert len(taken) == (170 // 4 // ranks * 4 * ranks if dropped else 170)


def test_blocks_of_a_token_loader(tmp_path):
    """A sample is a block of a chunk, with its last ID as the last label; the rest of a chunk is not read."""
    source = tmp_path / "texts.jsonl"
    lengths = np.random.default_rng(3).integers(1, 40, 60).tolist()
    source.write_text("".join(json.dumps({"input_ids": list(range(k, k + n))}) + "\n" for k, n in enumerate(lengths)))
    commands.run(
        "convert",
        source,
        tmp_path / "data",
        "--to",
        "litdata",
        "--to-eos",
        "none",
        "--to-opt",
        "shard_size=300",
        check=0,
    )
    chunks = json.loads((tmp_path / "data" / "index.json").read_text())["chunks"]
    ids, begin, truth = tokfmt.open(tmp_path / "data", eos="none"), 0, set()
    stream = np.concatenate([ids[k] for k in range(len(ids))])
    for chunk in chunks:
        for at in range(begin, begin + chunk["dim"] - 15, 16):
            truth.add(tuple(stream[at : at + 16].tolist()))
        begin += chunk["dim"]
    assert len(chunks) > 2
    run = described(
        tmp_path, root=str(tmp_path), input_dir="data", block_size=16, batch_size=2, num_workers=3, samples=None
    )
    found = [tuple(ids_of(one)) for k in range(len(tokfmt.open(run)) // 2) for one in shown(run, "--step", k)]
    assert set(found) == truth and len(found) == sum(chunk["dim"] // 16 for chunk in chunks)
    for document in (0, 17, len(ids) - 1):
        done = commands.run("show", run, "--seen", f"data#{document}", "--json", check=0)
        for read in json.loads(done.stdout)["reads"]:
            (one,) = shown(run, "--sample", read["sample"])
            assert document in [part["sequence"] for part in one["parts"]]


def test_every_sample_is_found_in_the_steps_that_read_it(tmp_path):
    run, truth = described(tmp_path), {}
    for epoch, steps in enumerate(recorded("litdata", "expected.json")["epochs"]["shuffle"]):
        for k, step in enumerate(steps):
            for number in step:
                truth.setdefault(number, set()).add(epoch * STEPS + k)
    for number in sorted(truth)[::17]:
        done = commands.run("show", run, "--seen", f"harbour#{number}", "--json", check=0)
        assert {read["step"] for read in json.loads(done.stdout)["reads"]} == truth[number]


@pytest.mark.parametrize("key", ["input_dir", "batch_size", "shuffle"])
def test_a_missing_fact_is_named_with_the_place_that_has_it(key, tmp_path):
    done = commands.run("info", described(tmp_path, **{key: None}), check=2)
    assert f"--from-opt {key}=" in done.stderr


def test_long_chunks_need_the_window_of_their_shuffle(tmp_path):
    """Versions without item_shuffle_window shuffle a chunk as one block, so that nothing is presumed."""
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"input_ids": [k]}) + "\n" for k in range(600)))
    commands.run("convert", source, tmp_path / "data", "--to", "litdata", "--to-eos", "none", check=0)
    facts = {"root": str(tmp_path), "input_dir": "data", "num_workers": 1, "samples": None, "batch_size": 600}
    done = commands.run("info", described(tmp_path, **facts), check=2)
    assert "item_shuffle_window" in done.stderr
    taken = {}
    for window in (0, 1, 256, 600):
        run = tokfmt.open(described(tmp_path, item_shuffle_window=window, **facts))
        taken[window] = [int(run[k][0]) for k in range(600)]
        assert sorted(taken[window]) == list(range(600))
    assert taken[0] == taken[1] == taken[600] != taken[256]
    blocks = [{number // 256 for number in taken[256][at : at + 88]} for at in (0, 88, 512)]
    assert all(len(block) == 1 for block in blocks)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"batch_size": 7, "world_size": 2}, "batch_size"),
        ({"sample_in_epoch": 5000}, "sample_in_epoch"),
        ({"batch_size": 2**31 - 2}, "batch_size"),
        ({"batch_size": 400, "drop_last": True}, "batch_size"),
        ({"nodes": 2}, "nodes"),
        ({"input_dir": ["data/harbour", "data/meadow"]}, "weights"),
        ({"input_dir": ["data/harbour", "data/meadow"], "weights": [1, 2, 3]}, "weights"),
        ({"block_size": 1}, "block_size"),
    ],
)
def test_a_wrong_fact_is_named(wrong, word, tmp_path):
    done = commands.run("info", described(tmp_path, **wrong))
    assert done.returncode in (2, 3) and word in done.stderr


@pytest.mark.parametrize("chunks", [[], [5], [{"chunk_size": -1}], [{"chunk_size": 2**70}], None])
def test_an_index_that_lists_other_samples_is_an_error(chunks, tmp_path):
    shutil.copytree(HOME / "data", tmp_path / "data")
    index = tmp_path / "data" / "harbour" / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "chunks": chunks}))
    done = commands.run("stats", described(tmp_path, root=str(tmp_path)))
    assert done.returncode == (3 if chunks != [] else 2)
