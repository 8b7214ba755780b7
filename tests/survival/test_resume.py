"""Killed at any moment, a conversion with --resume, or a task, continues, and gives the bytes of one that was not."""

import json

import numpy as np
import pytest
import registered
from amount import FUZZ_ONLY, every, only
from paths import CORPUS, TOKENIZER

from tokfmt.core.ragged import Ragged
from tokfmt.testing import write

pytestmark = pytest.mark.slow

NAMES = {
    "jsonl": "x.jsonl",
    "modalities": "x.pbin",
    "stage1": "stage1_block_0000.bin",
    "hdf5": "x.h5",
    "flat-tokens": "x.zarr",
}
SMALL = {"stage1": {"seq_len": 64}, "hdf5": {"seq_len": 64}, "flat-tokens": {"chunk": 512, "starts_chunk": 64}}
EACH = pytest.mark.parametrize("name", only(("modalities", "flat-tokens"), NAMES))
"""A file and a directory in `make test`, and all in `make fuzz`."""


@pytest.fixture
def pack(tmp_path):
    rng = np.random.default_rng(11)
    lists = [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 200, 80)]
    return write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of(lists), eos_id=50256)


def of_pack(pack, name):
    return {
        "sources": [str(pack)], "name": NAMES[name], "to_options": SMALL.get(name, {}), "eos": 50256, "region": 1024,
    }  # fmt: skip


def of_text(tmp_path, name, lines=60):
    (tmp_path / "a.jsonl").write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[:lines]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[lines : lines + 9]))
    return {
        "sources": [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], "name": NAMES[name],
        "to_options": SMALL.get(name, {}), "tokenizer": str(TOKENIZER), "region": 4096,
    }  # fmt: skip


@FUZZ_ONLY
@EACH
def test_killed_at_many_moments(tmp_path, pack, name, drive):
    drive("sweep", of_pack(pack, name), tmp_path, moments=6)


@EACH
def test_killed_again_and_again(tmp_path, pack, name, drive):
    assert drive("relay", of_pack(pack, name), tmp_path)["runs"] > 1


@pytest.mark.parametrize("name", only(["modalities"], NAMES))
def test_killed_while_tokenizing(tmp_path, name, drive):
    drive("sweep", of_text(tmp_path, name), tmp_path, moments=4)


SPLIT = {"split": "train=0.6,validation=0.4"}
ARRANGED = {"shuffled": {"shuffle": 5}, "split": SPLIT, "both": {"shuffle": 5, **SPLIT}}


@pytest.mark.parametrize(
    ("name", "how"),
    only(
        [("modalities", "both"), ("flat-tokens", "split")],
        [*((name, "both") for name in NAMES), ("stage1", "shuffled"), ("hdf5", "split"), ("flat-tokens", "split")],
    ),
)
def test_killed_while_arranging(tmp_path, pack, name, how, drive):
    """Spills and regions of each split are journaled: what is done stays done."""
    case = {**of_pack(pack, name), **ARRANGED[how], "spill": 2048, "flush": 0}  # at once, however slow the machine is
    seen = drive("sweep", case, tmp_path, moments=4)
    assert seen["outputs"] == (2 if how != "shuffled" and name != "flat-tokens" else 1)
    assert seen["spared"] >= seen["tasks"] // 2, "little was saved at the end"


@pytest.mark.parametrize("name", only(["modalities"], ["modalities", "flat-tokens"]))
def test_killed_again_and_again_while_arranging(tmp_path, pack, name, drive):
    case = {**of_pack(pack, name), **ARRANGED["both"], "spill": 2048}
    assert drive("relay", case, tmp_path)["runs"] > 1


@FUZZ_ONLY
def test_killed_while_tokenizing_for_a_shuffle(tmp_path, drive):
    case = {**of_text(tmp_path, "modalities"), **ARRANGED["both"], "spill": 4096}
    drive("sweep", case, tmp_path, moments=4)


@pytest.mark.parametrize("how", only(["both"], ARRANGED))
def test_killed_while_arranging_lines(tmp_path, how, drive):
    case = {**of_text(tmp_path, "jsonl"), **ARRANGED[how], "tokenizer": None, "spill": 4096}
    drive("sweep", case, tmp_path, moments=4)


@pytest.mark.parametrize("name", only(["modalities"], ["modalities", "hdf5", "stage1"]))
def test_killed_while_merging(tmp_path, pack, name, drive):
    """Several sources of two formats."""
    other = tmp_path / "more.jsonl"
    other.write_text("".join(json.dumps({"input_ids": [i % 50_000] * (i % 90 + 1)}) + "\n" for i in range(60)))
    case = of_pack(pack, name)
    case["sources"] = [str(pack), str(other), str(pack)]
    drive("sweep", case, tmp_path, moments=4)


@pytest.mark.parametrize("arranged", [every({}), ARRANGED["both"]], ids=["plain", "both"])
def test_killed_while_writing_a_directory_of_samples(tmp_path, pack, arranged, drive):
    """HDF5 in several files, as trainers read it."""
    case = {**of_pack(pack, "hdf5"), **arranged, "name": "samples", "to": "hdf5", "spill": 2048}
    case["to_options"] = {"seq_len": 64, "shard_size": 1280}
    drive("sweep", case, tmp_path, moments=4)


def test_killed_while_copying_lines(tmp_path, drive):
    case = {**of_text(tmp_path, "jsonl"), "tokenizer": None}
    drive("sweep", case, tmp_path, moments=4)


@pytest.mark.parametrize("name", only(["flat-tokens"], NAMES))
def test_shards_in_any_order(tmp_path, pack, name, drive):
    said = drive("tasks", of_pack(pack, name), tmp_path, order=[2, 0, 3, 1], moments=[20, 60, 75, 90])["said"]
    assert [line.partition(": ")[2].partition(". Run")[0] for line in said] == [
        "it has no tasks. Write them first with --task I/N",
        "tasks 0, 1, 3 of 4 are missing",
        "tasks 1, 3 of 4 are missing",
        "task 1 of 4 is missing",
    ]
    assert said[-1].endswith("--task 1/4")
