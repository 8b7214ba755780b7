"""--shuffle and --split NAME=SHARE,...: every format, every executor, whole or not at all."""

import json
import os
from itertools import accumulate

import numpy as np
import pytest

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import (
    VerificationError,
)
from tokfmt.core.ragged import Ragged
from tokfmt.core.seeds import SHUFFLE, SPLIT, draws
from tokfmt.ops.convert.arrangement import arrangement_of, split_path
from tokfmt.ops.convert.convert import convert_files
from tokfmt.ops.convert.request import Request
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.progress import Progress
from tokfmt.testing import read, sequences, tree, write

EOS = 50256
NAMES = {"jsonl": "x.jsonl", "modalities": "x.pbin", "stage1": "x", "hdf5": "x.h5", "flat-tokens": "x.zarr"}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 64, "starts_chunk": 8}}
READ = {"stage1": {"seq_len": 8}}
SPLITS = "train=0.7,validation=0.2,test=0.1"
each = pytest.mark.parametrize("name", NAMES)


def shuffled(lists, seed):
    keys = draws(seed, SHUFFLE, 0, len(lists)).tolist()
    return [lists[i] for i in sorted(range(len(lists)), key=lambda i: keys[i])]


def dealt(lists, shares, seed):
    """The lists of each split, by the definition."""
    bounds = [share * 2**64 for share in accumulate(shares)]
    drawn = draws(seed, SPLIT, 0, len(lists)).tolist()
    number = [sum(draw >= bound for bound in bounds[:-1]) for draw in drawn]
    return [[s for s, k in zip(lists, number, strict=True) if k == part] for part in range(len(shares))]


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(8)
    return [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 60, 300)]


@pytest.fixture(scope="module")
def pack(lists, tmp_path_factory):
    return write(
        registry.get("modalities"), tmp_path_factory.mktemp("source") / "in.pbin", Ragged.of(lists), eos_id=EOS
    )


def content(name, path, split=None):
    options = {**READ.get(name, {}), **({"split": split} if split else {})}
    reader = read(registry.get(name), path, eos_id=EOS, options=options)
    found = sequences(reader)
    reader.close()
    return found


def convert(source, destination, name, **options):
    return tokfmt.convert(
        source, destination, to_format=name, eos=EOS, to_options=SMALL.get(name, {}), **{"verify": True, **options}
    )


def parts(home, name):
    """Split to path and name of the split to read."""
    found = {}
    for split in ("train", "validation", "test"):
        path = (
            home / NAMES[name] if name == "flat-tokens" else split_path(home / NAMES[name], registry.get(name), split)
        )
        found[split] = (path, split if name == "flat-tokens" else None)
    return found


@each
def test_split_to(name, lists, pack, tmp_path):
    done = convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5)
    expected = dealt(lists, (0.7, 0.2, 0.1), 5)
    for (split, (path, option)), wanted in zip(parts(tmp_path, name).items(), expected, strict=True):
        assert content(name, path, option) == wanted
        assert done.splits[split]["sequences"] == len(wanted)
        assert done.splits[split]["tokens"] == sum(map(len, wanted))
        manifest = json.loads((path.parent / f"{path.name}.tokfmt.json").read_bytes())
        assert manifest["split"] == {"shares": {"train": 0.7, "validation": 0.2, "test": 0.1}, "seed": 5}
        assert manifest["splits"][split]["sequences"] == len(wanted)
        assert manifest["sequences"] == (300 if name == "flat-tokens" else len(wanted))
    count = 1 if name == "flat-tokens" else 3
    assert len(os.listdir(tmp_path)) == 2 * count, "destinations and manifests, nothing else"


@each
def test_split_and_shuffle(name, lists, pack, tmp_path):
    convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5, shuffle=1)
    for (path, option), wanted in zip(parts(tmp_path, name).values(), dealt(lists, (0.7, 0.2, 0.1), 5), strict=True):
        assert content(name, path, option) == shuffled(wanted, 1)


@each
@pytest.mark.usefixtures("kept_workers")
def test_same_bytes_whatever_the_parallelism(name, pack, tmp_path):
    def run(executor, jobs, region):
        home = tmp_path / f"{executor}-{jobs}-{region}"
        home.mkdir()
        request = Request(
            SourceRequest((pack,), eos=EOS), home / NAMES[name], to=name, jobs=jobs, executor=executor, region=region,
            to_options=SMALL.get(name, {}), manifest=False, arrangement=arrangement_of(3, SPLITS, 0),
        )  # fmt: skip
        convert_files(request, Progress())
        return {path.relative_to(home): tree(path) for path in home.iterdir()}

    expected = run("serial", 1, 1 << 24)
    for executor, jobs, region in (("threads", 3, 999), ("processes", 2, 4096)):
        assert run(executor, jobs, region) == expected


def test_dry_run_counts_each_split(lists, pack, tmp_path):
    done = convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, shuffle=1, dry_run=True)
    expected = dealt(lists, (0.7, 0.2, 0.1), 0)
    assert [split["sequences"] for split in done.splits.values()] == [len(part) for part in expected]
    assert [split["destination"] for split in done.splits.values()] == [
        str(path) for path, _ in parts(tmp_path, "modalities").values()
    ]
    assert os.listdir(tmp_path) == []


def test_a_wrong_second_split_leaves_nothing(pack, tmp_path, monkeypatch):
    from tokfmt.ops.convert import verify

    calls = []

    def second_fails(prepared, path, *rest):
        calls.append(path)
        if len(calls) == 2:
            raise VerificationError("differs")

    monkeypatch.setattr(verify, "verify_tokens", second_fails)
    with pytest.raises(VerificationError):
        convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    assert os.listdir(tmp_path) == []
