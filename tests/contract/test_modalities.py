"""modalities under the laws of every format; the oracle is struct, pickle and numpy."""

import json
import pickle
import struct

import numpy as np

import tokfmt
from tokfmt.formats.modalities import FORMAT
from tokfmt.testing import FormatContract


def documents(path, options):
    """Documents as stored, by the index that lies in the file."""
    raw = path.read_bytes()
    if options.get("layout") == "A":
        (length,), begin, base, width, order = struct.unpack(">Q", raw[:8]), 8, 8, options.get("width", 4), ">"
    else:
        (length, width), begin, base, order = struct.unpack("<QI", raw[:12]), 12, 0, "<"
    entries = pickle.loads(raw[begin + length :])
    assert raw[begin + length :] == pickle.dumps(entries, protocol=4)
    assert sum(size for _, size in entries) == length
    data = np.frombuffer(raw[begin : begin + length], f"{order}u{width}").tolist()
    assert options.get("width", width) == width
    return [data[(at - base) // width : (at - base + size) // width] for at, size in entries]


class TestPack(FormatContract):
    format = FORMAT
    filename = "x.pbin"
    eos_id = 50256
    max_id = 2**32 - 1
    write_variants = ({}, {"layout": "A"}, {"width": 4})

    def read_options(self, options):
        return {"width": 4} if options.get("layout") == "A" else {}

    def oracle(self, path, options):
        stored = documents(path, options)
        assert all(document[-1] == self.eos_id for document in stored if document)
        return [document[:-1] for document in stored]


class TestNarrow(TestPack):
    """One byte a token; region borders fall inside documents."""

    eos_id = 0
    max_id = 255
    region = 3
    write_variants = ({"width": 1}, {"width": 1, "layout": "A"})

    def read_options(self, options):
        return {"width": 1} if options.get("layout") == "A" else {}


def test_existing_final_separators_are_noted_and_not_counted(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in ([1, 9], [2], [9], [])))
    done = tokfmt.convert(source, tmp_path / "x.pbin", eos=9, verify=True)
    assert (done.sequences, done.tokens) == (4, 2)
    assert any("2 of 4 sequences end with the separator 9" in note for note in done.notes)
    with tokfmt.open(tmp_path / "x.pbin") as dataset:
        assert [list(ids) for ids in dataset] == [[1], [2], [], []]
