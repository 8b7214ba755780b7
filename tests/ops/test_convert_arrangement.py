"""--shuffle and --split NAME=SHARE,...: every format, every executor, whole or not at all."""

import json
import os
from itertools import accumulate
from unittest import mock

import numpy as np
import pytest
import registered
from amount import FUZZ_ONLY
from arranged import EOS, NAMES, SPLITS, content, convert
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.commands.convert.arrangement import Arrangement, arrangement_of, split_path
from tokfmt.core.ragged import Ragged
from tokfmt.errors import VerificationError
from tokfmt.testing import tree, write

SHUFFLE, SPLIT = 1, 2
"""What numbers are drawn for, in the key of the generator."""
each = pytest.mark.parametrize("name", NAMES)


def parts(home, name):
    """Split to path and name of the split to read."""
    found = {}
    for split in ("train", "validation", "test"):
        path = (
            home / NAMES[name] if name == "flat-tokens" else split_path(home / NAMES[name], registered.get(name), split)
        )
        found[split] = (path, split if name == "flat-tokens" else None)
    return found


def test_a_sequence_stays_in_its_split(lists, pack, tmp_path):
    """Neither a shuffle by any seed nor the target format moves a sequence from one split to another."""
    found = set()
    for number, (name, how) in enumerate(
        [("modalities", {}), ("modalities", {"shuffle": 1}), ("hdf5", {"shuffle": 2})]
    ):
        home = tmp_path / str(number)
        home.mkdir()
        convert(pack, home / NAMES[name], name, split=SPLITS, **how)
        found.add(tuple(str(sorted(content(name, path, o))) for path, o in parts(home, name).values()))
    assert len(found) == 1


@each
def test_nothing_at_all(name, tmp_path):
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of([]), eos_id=EOS)
    (tmp_path / "out").mkdir()
    done = convert(source, tmp_path / "out" / NAMES[name], name, split=SPLITS, shuffle=1)
    assert (done.sequences, [split["tokens"] for split in done.splits.values()]) == (0, [0, 0, 0])
    for path, _ in parts(tmp_path / "out", name).values():
        assert path.exists()


def test_shares_that_are_fine():
    for split in ("a=1", "a=0.3333333333,b=0.3333333333,c=0.3333333334", "a=.5, b=5e-1", "a=0.9999999999,b=1e-9"):
        assert arrangement_of(None, split, None).shares.seed == 0
    assert arrangement_of(None, "train", None) == Arrangement()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_every_sequence_goes_to_one_split(seed, weights):
    shares = ",".join(f"s{k}={weight / sum(weights):.12f}" for k, weight in enumerate(weights))
    found = arrangement_of(None, shares, seed).shares
    whole = found.split_of(0, 200)
    assert set(whole.tolist()) <= set(range(len(weights)))
    assert found.split_of(17, 90).tolist() == whole[17:90].tolist()


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("modalities", "out.pbin", "out.train.pbin"),
        ("modalities", "out.bin", "out.bin.train"),
        ("hdf5", "d/out.h5", "d/out.train.h5"),
        ("hdf5", "d/out", "d/out.train"),
        ("hdf5", "v1.2/", "v1.2.train"),
        ("stage1", "stage1_block_0000.bin", "stage1_block_0000.train.bin"),
        ("jsonl", "a.b.jsonl", "a.b.train.jsonl"),
    ],
)
def test_names_of_destinations(name, path, expected, tmp_path):
    found = split_path(tmp_path / path, registered.get(name), "train")
    assert str(found.relative_to(tmp_path)) == expected


def draws(seed, purpose, count):
    """One number for each sequence, of a generator that depends on a counter."""
    return np.random.Philox(key=purpose << 64 | seed, counter=0).random_raw(count).tolist()


def shuffled(lists, seed):
    keys = draws(seed, SHUFFLE, len(lists))
    return [lists[i] for i in sorted(range(len(lists)), key=lambda i: keys[i])]


def dealt(lists, shares, seed):
    """The lists of each split, by the definition."""
    bounds = [share * 2**64 for share in accumulate(shares)]
    drawn = draws(seed, SPLIT, len(lists))
    number = [sum(draw >= bound for bound in bounds[:-1]) for draw in drawn]
    return [[s for s, k in zip(lists, number, strict=True) if k == part] for part in range(len(shares))]


@each
def test_split_to(name, lists, pack, tmp_path):
    done = convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5)
    expected = dealt(lists, (0.7, 0.2, 0.1), 5)
    for (split, (path, option)), wanted in zip(parts(tmp_path, name).items(), expected, strict=True):
        assert content(name, path, option) == wanted
        assert done.splits[split]["sequences"] == len(wanted)
        assert done.splits[split]["tokens"] == sum(map(len, wanted))
        manifest = json.loads((path.parent / f"{path.name}.tokfmt.json").read_bytes())
        shares = {"train": 0.7, "validation": 0.2, "test": 0.1}
        assert manifest["split"] == {"shares": shares, "seed": 5, "by": "number"}
        assert manifest["splits"][split]["sequences"] == len(wanted)
        assert manifest["sequences"] == (300 if name == "flat-tokens" else len(wanted))
    count = 1 if name == "flat-tokens" else 3
    assert len(os.listdir(tmp_path)) == 2 * count, "destinations and manifests, nothing else"


@each
def test_split_and_shuffle(name, lists, pack, tmp_path):
    convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5, shuffle=1)
    for (path, option), wanted in zip(parts(tmp_path, name).values(), dealt(lists, (0.7, 0.2, 0.1), 5), strict=True):
        assert content(name, path, option) == shuffled(wanted, 1)


def test_dry_run_counts_each_split(lists, pack, tmp_path):
    done = convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, shuffle=1, dry_run=True)
    expected = dealt(lists, (0.7, 0.2, 0.1), 0)
    assert [split["sequences"] for split in done.splits.values()] == [len(part) for part in expected]
    assert [split["destination"] for split in done.splits.values()] == [
        str(path) for path, _ in parts(tmp_path, "modalities").values()
    ]
    assert os.listdir(tmp_path) == []


@each
@pytest.mark.usefixtures("kept_workers")
@FUZZ_ONLY
def test_same_bytes_whatever_the_parallelism(name, pack, tmp_path):
    def run(executor, jobs):
        home = tmp_path / f"{executor}-{jobs}"
        home.mkdir()
        how = {"shuffle": 3, "split": SPLITS, "seed": 0, "manifest": False, "verify": False}
        convert(pack, home / NAMES[name], name, executor=executor, jobs=jobs, **how)
        return {path.relative_to(home): tree(path) for path in home.iterdir()}

    expected = run("serial", 1)
    for executor, jobs in (("threads", 3), ("processes", 2)):
        assert run(executor, jobs) == expected


def test_a_wrong_second_split_leaves_nothing(pack, tmp_path):
    """It is changed right before it is verified."""
    opened, seen = os.open, set()

    def damage(path, flags, *more, **named):
        place = os.fspath(path)
        if ".tokfmt-work" in place and place.endswith(".pbin") and flags & os.O_ACCMODE == os.O_RDONLY:
            if len(seen | {place}) == 2 and place not in seen:
                with open(place, "r+b") as file:
                    file.seek(12)
                    file.write(b"\1\1")
            seen.add(place)
        return opened(path, flags, *more, **named)

    with mock.patch.object(os, "open", damage), pytest.raises(VerificationError):
        convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    assert os.listdir(tmp_path) == []
