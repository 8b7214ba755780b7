"""A separator that a dataset states is a fact: where a sequence does not end with it, the dataset is damaged."""

import re
import struct

import numpy as np
import pytest
from plugged import plugged

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import CorruptError
from tokfmt.plugin import Code, Columns, Confidence, Cut, Extent, FileLayout, FlatFormat, FlatWriter, Separators, Struct
from tokfmt.testing import write

HEADER = Struct(magic="V4", tokens="<u8", sequences="<u8", eos_id="<u4")
LISTS = [[k, k + 1, k + 2][: 1 + k % 3] for k in range(3000)]


class Writer(FlatWriter):
    """The header tells tokens, documents and separator of the one file."""

    separators, begin, suffix, dtypes = Separators.TRAILING, HEADER.size, ".bound", ("<u4",)

    def header(self, cut, dtype):
        count = cut.last - cut.first
        return HEADER.write(magic=b"BND1", tokens=cut.tokens, sequences=count, eos_id=self.target.eos_id)

    def index(self, stored, dtype):
        at = self.begin + 4 * stored.info.tokens
        yield self.path, at, stored.offsets(0, stored.info.sequences).astype("<u8")


class Bound(FlatFormat):
    name, title, extensions = "bound", "ids, an index, and a separator that the header states", (".bound",)
    Writer, unreadable = Writer, "B1"

    def codes(self):
        return {"B1": Code("damaged", "It cannot be read.")}

    def recognize(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(b"BND1") else None

    def examine_file(self, file, options, hints):
        told = HEADER.read(file)
        columns = Columns(HEADER.size + 4 * told["tokens"], starts=("<u8", told["sequences"] + 1))
        extent = Extent(file, HEADER.size, told["tokens"], np.dtype("<u4"))
        starts = columns.read(file, "starts").astype(np.int64)
        return FileLayout(extents=[extent], starts=starts, separators=Separators.TRAILING, eos_id=told["eos_id"])


@pytest.fixture
def path(tmp_path, monkeypatch):
    return write(plugged(monkeypatch, Bound()), tmp_path / "x.bound", Ragged.of(LISTS), eos_id=50256)


def moved(path, number, by):
    """Move where a sequence begins."""
    raw = bytearray(path.read_bytes())
    at = len(raw) - 8 * (len(LISTS) + 1 - number)
    raw[at : at + 8] = struct.pack("<Q", struct.unpack_from("<Q", raw, at)[0] + by)
    path.write_bytes(bytes(raw))


def test_valid_dataset_is_read(path, tmp_path):
    assert [ids.tolist() for ids in tokfmt.open(path)] == LISTS
    done = tokfmt.convert(path, tmp_path / "o.jsonl", verify=True)
    said = {"eos_id": 50256, "from": "format", "seen": "each of 3,000 sequences ends with it", "inferred": False}
    assert done.separator == said


@pytest.mark.parametrize("number", [1, 1200, 1501, 2998])
def test_an_offset_that_is_damaged_is_an_error(path, tmp_path, number):
    """Wherever it is, and whether all are looked at when it is opened or not."""
    moved(path, number, 1)
    for use in (
        lambda: tokfmt.convert(path, tmp_path / "o.jsonl"),
        lambda: tokfmt.convert(path, tmp_path / "o.pbin"),
        lambda: [ids.tolist() for ids in tokfmt.open(path)],
    ):
        with pytest.raises(CorruptError, match=r"do(es)? not end with the separator 50256.*(--eos none|eos=.none)"):
            use()
    found = tokfmt.check(path, deep=True)
    assert any("not end with the separator 50256" in finding.message for one in found for finding in one.findings)
    assert len(tokfmt.open(path, eos="none")) == len(LISTS)


@pytest.mark.parametrize("number", [1200, 1501])
def test_an_empty_sequence_has_no_separator(path, number):
    """Two of the same offset: nothing of the sequence before may be taken for its separator."""
    length = len(LISTS[number - 1]) + 1
    moved(path, number, -length)
    with pytest.raises(CorruptError, match="not end with the separator"):
        list(tokfmt.open(path))


def test_the_header_of_several_files_knows_no_sequences():
    assert Cut(3, 10, 25).tokens == 15
    assert (Cut(3, 10, 25).first, Cut(3, 10, 25).last) == (0, 0)


@pytest.mark.parametrize("deep", [False, True])
def test_a_stream_that_nothing_divides_is_reported_by_check(deep, tmp_path):
    """Tokens of datatrove that lost their index: `check` says what every other command says."""
    np.arange(300, dtype="<u2").tofile(tmp_path / "x.ds")
    (tmp_path / "x.ds.metadata").write_text("gpt2|2\n300\n300 T")
    (verdict,) = tokfmt.check(tmp_path / "x.ds", deep=deep)
    assert [
        note
        for note in verdict.notes
        if note.startswith("read as one sequence of 300 tokens: the separator is not known")
    ]
    (verdict,) = tokfmt.check(tmp_path / "x.ds", deep=deep, eos=7)
    assert verdict.notes == ()


def test_every_command_proposes_the_separator_that_ends_a_stream_and_is_often_in_it(tmp_path):
    ids = np.tile(np.arange(1, 11, dtype="<u2"), 40)
    ids[9::10] = 7  # 40 at the ends of documents, 40 inside
    np.save(tmp_path / "x.npy", ids)
    (tmp_path / "o").mkdir()
    ids.tofile(tmp_path / "o" / "part-0-00000.npy")
    for source, options in ((tmp_path / "x.npy", {}), (tmp_path / "o", {"width": 2})):
        (verdict,) = tokfmt.check(source, options=options)
        tables = tokfmt.stats(source, options=options).datasets[0]
        for notes in (tokfmt.info(source, options=options).notes, verdict.notes, tables.notes):
            (note,) = (note for note in notes if "separator" in note)
            assert re.search(r"\b7 .*\b80\b.*--eos 7\b", note)
