"""Chosen records of a format of another package are written as JSON lines, as the browser takes them along."""

import dataclasses
import json
import os

import numpy as np
import pytest
from made_plugins import tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt.core.errors import ConversionError
from tokfmt.ops.show.export import export
from tokfmt.plugin import Hints, RecordBatch

LISTS = [[k, k + 1, 10][: k % 4] for k in range(60)]


class Of(tokfmt_reel.Format):
    """Reels that another reader reads."""

    def __init__(self, reader):
        self.open = reader


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


def test_chosen_records_are_json_lines(reel, tmp_path):
    for reader, name, expected in ((tokfmt_reel.Reader, "input_ids", LISTS), (Texts, "text", None)):
        path = reel(reader)
        opened = reader([path], None, Hints())
        export(opened, np.array([3, 7, 59]), tmp_path / f"{name}.jsonl", paths=[path], format=tokfmt_reel.FORMAT)
        expected = expected or [f"{ids}\n\x0a é" for ids in LISTS]
        assert records(tmp_path / f"{name}.jsonl", name) == [expected[k] for k in (3, 7, 59)]


def test_an_export_replaces_neither_its_source_nor_what_is_no_file(tmp_path):
    source = tmp_path / "x.jsonl"
    source.write_text('{"input_ids": [1, 2]}\n' * 5)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "home").mkdir()
    with tokfmt.open(source, eos="none") as dataset:
        for name, says in (("home", "it is a directory"), ("fifo", "it is a FIFO")):
            with pytest.raises(ConversionError, match=says):
                export(dataset, [0], tmp_path / name, overwrite=True)
        with pytest.raises(ConversionError, match="source"):
            export(dataset, [0], source, paths=[source], overwrite=True)
    assert source.read_text() == '{"input_ids": [1, 2]}\n' * 5
