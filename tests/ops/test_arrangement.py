"""--shuffle and --split NAME=SHARE,...: every format, every executor, whole or not at all."""

import gzip
import json
import os

import numpy as np
import pytest
import registered
from arranged import SPLITS, content, convert

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import ConversionError, DestinationExistsError, LossyConversionError, OptionError
from tokfmt.testing import write


@pytest.mark.parametrize("resume", [False, True])
def test_lines_dealt_to_compressed_files(tmp_path, resume):
    """As compressed as their names say, whatever was arranged."""
    lines = [json.dumps({"text": "x" * (i % 97), "n": i}).encode() for i in range(500)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    how = {"shuffle": 1, "split": "a=0.4,b=0.6"}
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "o.jsonl", **how)
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "o.jsonl.gz", resume=resume, verify=True, **how)
    for name in "ab":
        packed, plain = (tmp_path / f"o.{name}.jsonl{suffix}" for suffix in (".gz", ""))
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert not [path.name for path in tmp_path.iterdir() if "plain" in path.name or path.name.startswith(".")]


# what is asked for


@pytest.mark.parametrize(
    ("split", "name"),
    [
        ("train=0.9,validation=0.2", "split"),
        ("train=0.9", "split"),
        ("train=0.5,validation=0.499999", "split"),
        ("train=1,train=0", "train"),
        ("train=1,validation=0", "validation"),
        ("train=1.5,validation=-0.5", "train"),
        ("train=much,validation=0.5", "train"),
        ("train=nan,validation=0.5", "train"),
        ("train=1e-999999999,b=1", "train"),
        ("train=0.5,validation", "validation"),
        ("train=0.5,,validation=0.5", ""),
        ("../up=0.5,b=0.5", "../up"),
        ("=0.5,b=0.5", ""),
    ],
)
def test_invalid_shares_are_refused(split, name, pack, tmp_path):
    with pytest.raises(OptionError) as error:
        tokfmt.convert(pack, tmp_path / "x.zarr", split=split)
    assert error.value.name == name and "--split" in str(error.value)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


def test_seeds_and_options_that_contradict(pack, tmp_path):
    for how, says in (
        ({"seed": 1}, "seed: nothing is dealt out"),
        ({"seed": 1, "split": "train"}, "seed: nothing is dealt out"),
        ({"shuffle": -1}, "--shuffle: expected a whole number"),
        ({"split": "a=1", "seed": 2**64}, "expected a whole number"),
        ({"split": "a=1", "to_options": ["split=none"]}, "--to-opt split=NAME names one split"),
    ):
        with pytest.raises(OptionError, match=says):
            tokfmt.convert(pack, tmp_path / "x.zarr", **how)
    assert os.listdir(tmp_path) == []


def test_shares_are_kept(tmp_path):
    """Of 40,000 sequences, 1 % is 400, give or take five standard deviations (20 each)."""
    source = write(
        registered.get("modalities"), tmp_path / "in.pbin", Ragged(np.arange(40_000), np.arange(40_001)), eos_id=0
    )
    counts = set()
    for seed in range(3):
        done = tokfmt.convert(
            source, tmp_path / "x.zarr", split="train=0.99,validation=0.01", seed=seed, overwrite=True, eos=0,
            executor="serial",
        )  # fmt: skip
        assert not [note for note in done.notes if "seed" in note], "the seed was chosen: nothing to say"
        counts.add(done.splits["validation"]["sequences"])
        assert abs(done.splits["validation"]["sequences"] - 400) < 100
        assert done.sequences == 40_000
    assert len(counts) > 1


def test_split_without_a_seed_is_noted(pack, tmp_path):
    done = convert(pack, tmp_path / "x.zarr", "flat-tokens", split="a=1")
    assert done.notes[-1] == "sequences were dealt to splits by seed 0; override with --seed N"


def test_splits_of_the_source(pack, tmp_path):
    """A store with two splits: --from-opt says which is dealt out again."""
    convert(pack, tmp_path / "x.zarr", "flat-tokens", split="train=0.5,validation=0.5")
    with pytest.raises(LossyConversionError, match="--from-opt split=NAME reads one"):
        convert(tmp_path / "x.zarr", tmp_path / "y.zarr", "flat-tokens", split="train=0.5,test=0.5")
    done = convert(
        tmp_path / "x.zarr", tmp_path / "y.zarr", "flat-tokens", split="train=0.5,test=0.5",
        options={"split": "validation"},
    )  # fmt: skip
    assert done.sequences == len(content("flat-tokens", tmp_path / "x.zarr", "validation"))


# all or none


def test_a_destination_that_exists_refuses_all(pack, tmp_path):
    (tmp_path / "x.validation.pbin").write_bytes(b"mine")
    with pytest.raises(DestinationExistsError, match="x.validation.pbin"):
        convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    assert os.listdir(tmp_path) == ["x.validation.pbin"]
    convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, overwrite=True)
    assert len([p for p in os.listdir(tmp_path) if p.endswith(".pbin")]) == 3


def missing(path):
    """The paths of the splits whose manifest another one names."""
    found = [finding for report in tokfmt.check(path) for finding in report.findings if finding.code == "TF910"]
    assert all(finding.severity == "error" and "has no manifest" in finding.message for finding in found)
    return [os.path.basename(finding.path) for finding in found]


@pytest.mark.parametrize(("name", "suffix"), [("modalities", ".pbin"), ("stage1", ""), ("megatron", ".bin")])
def test_a_split_without_a_manifest_that_others_name(pack, tmp_path, name, suffix):
    """Manifests of splits appear when all splits are there; without any, nothing names a split."""
    convert(pack, tmp_path / f"x.y{suffix}", name, split=SPLITS)
    paths = [tmp_path / f"x.y.{split}{suffix}" for split in ("train", "validation", "test")]
    assert all(path.exists() for path in paths)
    assert [missing(path) for path in paths] == [[], [], []]
    manifests = [path.with_name(f"{path.name}.tokfmt.json") for path in paths]
    manifests[1].unlink()
    assert [missing(path) for path in paths] == [[], [paths[1].name], []]
    for path in manifests[::2]:
        path.unlink()
    assert [missing(path) for path in paths] == [[], [], []]


def test_a_manifest_that_an_interrupted_run_left(pack, tmp_path):
    convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    hidden = tmp_path / ".x.test.pbin.tokfmt-work"
    hidden.mkdir(mode=0o700)
    (hidden / "lock").touch()
    (tmp_path / "x.test.pbin.tokfmt.json").rename(hidden / "x.test.pbin.tokfmt.json.draft")
    (tmp_path / "x.train.pbin.tokfmt.json").unlink()
    (tmp_path / "x.validation.pbin.tokfmt.json").unlink()
    for name in ("x.train.pbin", "x.validation.pbin", "x.test.pbin"):
        assert missing(tmp_path / name) == [name]
    convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, manifest=False, overwrite=True)
    assert missing(tmp_path / "x.test.pbin") == [], "the run removed what was left"


def test_a_destination_is_never_a_source(pack, tmp_path):
    (tmp_path / "x.train.pbin").write_bytes(pack.read_bytes())
    with pytest.raises(ConversionError, match=r"x\.train\.pbin: is also a source"):
        convert(tmp_path / "x.train.pbin", tmp_path / "x.pbin", "modalities", split=SPLITS, overwrite=True)
