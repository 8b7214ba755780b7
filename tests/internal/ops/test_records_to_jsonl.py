"""Records of a format of another package: jsonl gets JSON lines of them, and nothing of them is lost without a word."""

import dataclasses
import json

import numpy as np
import pytest
from made_plugins import tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt.core.errors import LossyConversionError
from tokfmt.core.format import Hints
from tokfmt.core.records import RecordBatch, SkippedRecords
from tokfmt.ops.show.export import export

LISTS = [[k, k + 1, 10][: k % 4] for k in range(60)]


class Of(tokfmt_reel.Format):
    """Reels that another reader reads."""

    def __init__(self, reader):
        self.open = reader


class Masked(tokfmt_reel.Reader):
    """Each record has a mask beside its ids."""

    def ids(self, block):
        for batch in super().ids(block):
            count = len(batch.ragged)
            yield batch._replace(skipped=SkippedRecords(others=count, first=(0, 0), fields={"mask": count}))


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
    return [json.loads(line)[name] for line in path.read_bytes().splitlines()]


def test_other_fields_are_lost_only_with_allow_loss(reel, tmp_path):
    for name in ("o.jsonl", "o.pbin"):
        with pytest.raises(
            LossyConversionError, match=r'fields beside "ids" of 60 records .*"mask" in 60\).*--allow-loss fields'
        ):
            tokfmt.convert(reel(Masked), tmp_path / name, eos=99)
        assert not (tmp_path / name).exists()
        done = tokfmt.convert(reel(Masked), tmp_path / name, eos=99, allow_loss=["fields"])
        assert "fields" in done.losses


def test_chosen_records_are_json_lines(reel, tmp_path):
    """What the browser takes along."""
    for reader, name, expected in ((tokfmt_reel.Reader, "input_ids", LISTS), (Texts, "text", None)):
        path = reel(reader)
        opened = reader([path], None, Hints())
        export(opened, np.array([3, 7, 59]), tmp_path / f"{name}.jsonl", paths=[path], format=tokfmt_reel.FORMAT)
        expected = expected or [f"{ids}\n\x0a é" for ids in LISTS]
        assert records(tmp_path / f"{name}.jsonl", name) == [expected[k] for k in (3, 7, 59)]
