"""Records of a format of another package, `reel`, as readers with other properties read them."""

import dataclasses
import json

import pytest
from made_plugins import tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt.core.inspection import Inspection
from tokfmt.core.records import RecordBatch

LISTS = [[k, k + 1, 10][: k % 4] for k in range(60)]


class Inspected(Inspection):
    """Reels whose reader finds out everything."""

    def __init__(self, make):
        self.reader = make

    def reader(self):
        """Replaced by what makes the reader."""


class Of(tokfmt_reel.Format):
    """Reels that another reader reads."""

    def __init__(self, reader):
        self.made = reader

    def inspect(self, paths, options, hints):
        return Inspected(lambda: self.made(paths, options, hints))


class Texts(tokfmt_reel.Reader):
    """Text, whose records as they lie in the file are not JSON lines."""

    def __init__(self, paths, options, hints):
        super().__init__(paths, options, hints)
        self.info = dataclasses.replace(vars(self)["info"], kind="text", field="words")

    def texts(self, block):
        for batch in super().ids(block):
            yield RecordBatch(texts=[f"{ids}\n\x0a é" for ids in batch.ragged.tolist()])


@pytest.fixture
def reel(tmp_path, monkeypatch):
    """A dataset, and what makes `reel` mean another reader of it."""
    (tmp_path / "i.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in LISTS))
    plugged(monkeypatch, tokfmt_reel.FORMAT)
    tokfmt.convert(tmp_path / "i.jsonl", tmp_path / "i.reel", to_options={"shard_size": 20}, verify=True)
    assert len(list((tmp_path / "i.reel").glob("*.reel.gz"))) > 3
    return lambda reader=tokfmt_reel.Reader: plugged(monkeypatch, Of(reader)) and tmp_path / "i.reel"


def records(path, name="input_ids"):
    """The values of a field of JSON lines."""
    return [json.loads(line)[name] for line in path.read_bytes().splitlines()]
