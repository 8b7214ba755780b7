"""Tasks of machines that share only the bucket, beside each other and beside other runs: complete, or an error."""

import json

import numpy as np
import pytest

import tokfmt
from tokfmt.commands.convert.convert import finish
from tokfmt.errors import UnsupportedError
from tokfmt.stores.objects import ObjectStore
from tokfmt.testing import tree

HOW = {"to_format": "mds", "eos": 50256, "to_options": {"shard_size": 4000}}
OPTIONS = {"mds": HOW, "litdata": {**HOW, "to_format": "litdata"}, "llmc": {**HOW, "to_format": "llmc"}}


@pytest.fixture
def sources(bucket, tmp_path):
    """Two datasets of 30,000 tokens each, and what is made of them locally."""
    for name, seed in (("in", 0), ("other", 1)):
        lines = np.random.default_rng(seed).integers(0, 50_000, (300, 100)).tolist()
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in lines))
        tokfmt.convert(tmp_path / f"{name}.jsonl", bucket / f"{name}.pbin", eos=50256, manifest=False)


@pytest.fixture
def local(sources, bucket, tmp_path):
    def made(source="in", kind="mds"):
        place = tmp_path / "local" / source / kind
        if not place.exists():
            place.mkdir(parents=True)
            tokfmt.convert(bucket / f"{source}.pbin", place / "m", manifest=False, **OPTIONS[kind])
        return tree(place / "m")

    return made


@pytest.fixture
def on_machine(tmp_path, monkeypatch):
    """Go on as on another machine, which has an empty spool."""

    def go(name):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))

    monkeypatch.delenv("TOKFMT_SPOOL", raising=False)
    return go


@pytest.fixture
def task(on_machine, sources):
    def run(number, source="in", kind="mds", **more):
        on_machine(f"node{number}")
        tokfmt.convert(f"s3://bkt/{source}.pbin", "s3://bkt/m", task=(number, 2), **OPTIONS[kind], **more)

    return run


def others(bucket):
    """Objects that are neither sources nor of the dataset."""
    files = {path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()}
    return {name for name in files - {"in.pbin", "other.pbin", "m.tokfmt.json"} if not name.startswith("m/")}


def test_a_store_that_knows_no_if_match(bucket, local, task, on_machine, monkeypatch):
    """The claim is written, and --finish does not make it its own."""
    put = ObjectStore.put

    def absent_only(self, key, content, **how):
        if how.get("if_match"):
            raise UnsupportedError(key, "knows no If-Match")
        return put(self, key, content, **how)

    monkeypatch.setattr(ObjectStore, "put", absent_only)
    for number in range(2):
        task(number)
    on_machine("last")
    finish("s3://bkt/m")
    assert tree(bucket / "m") == local() and not others(bucket)
