"""Chosen records of a format of another package are written as JSON lines, as the browser takes them along."""

import os

import numpy as np
import pytest
from made_plugins import tokfmt_reel
from reels import LISTS, Texts, records

import tokfmt
from tokfmt.commands.show.export import export
from tokfmt.errors import ConversionError
from tokfmt.plugin import Hints


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
