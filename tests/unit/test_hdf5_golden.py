"""hdf5: what ModelZoo's own writers wrote, read back; the expectations were made by other code."""

import json

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.reader import Layout
from tokfmt.errors import SeparatorUnknownError, UnsupportedError
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5.options import ReadOptions
from tokfmt.plugin import Hints
from tokfmt.testing import sequences

HOME = FIXTURES / "hdf5"
EXPECTED = json.loads((HOME / "expected.json").read_bytes())["fixtures"]
READABLE = sorted(name for name, case in EXPECTED.items() if not name.endswith("shuffled"))


def split(stream, eos):
    found, current = [], []
    for token in [*stream, eos]:
        if token != eos:
            current.append(token)
        elif current:
            found.append(current)
            current = []
    return found


def wanted(case):
    if "recovered_segments" in case:
        return [s[:-1] if s[-1] == case["eos"] else s for s in case["recovered_segments"]]
    streams = [s["tokens"] for s in case["streams"]] if case.get("streams") else case["recovered_documents"]
    return [document for stream in streams for document in split(stream, case["eos"])]


def opened(name, **how):
    return tokfmt.open(HOME / name, format="hdf5", **how)


def told(name, **how):
    """What tokfmt noticed and inferred."""
    source = opened(name, **how)
    return (*source.notes, *source.inferred)


def test_all_are_here():
    assert len(EXPECTED) == 19
    assert len(READABLE) == 17
    assert all(list((HOME / name).glob("*.h5")) for name in EXPECTED)


@pytest.mark.parametrize("name", READABLE)
def test_documents(name):
    case = EXPECTED[name]
    source = opened(name, eos=case["eos"])
    assert sequences(source.reader) == wanted(case)
    ignored = sum(-100 in row[2] for file in case["files"] if case["kind"] == "sample" for row in file["data"])
    assert source.reader.info.nonstandard_masks == (15 if name == "summarization" else ignored)
    assert (ignored > 20) is (name == "hf_collator")


@pytest.mark.parametrize("name", ["new_packed_split_text", "new_padded_pad0", "new_packed_disjoint", "new_vsl"])
def test_separator_of_data_params(name):
    source = opened(name)
    assert (source.origin[0].separator.eos_id, source.origin[0].separator.source) == (50256, "data_params.json")
    assert sequences(source.reader) == wanted(EXPECTED[name])


@pytest.mark.parametrize("name", ["padded_eos", "padded_pad0", "padded_pad0_inverted", "summarization"])
def test_separator_of_padded_samples(name):
    source = opened(name)
    assert source.origin[0].separator.eos_id == 50256
    assert any("padded samples end with it" in note for note in (*source.notes, *source.inferred))
    assert sequences(source.reader) == wanted(EXPECTED[name])


def test_separator_unknown():
    with pytest.raises(SeparatorUnknownError, match="eos"):
        opened("packed_overlap")


@pytest.mark.parametrize(
    "name", ["packed_overlap", "packed_overlap_2proc", "new_padded_pad0", "hf_collator", "corpus_uint16"]
)
def test_without_separator(name):
    """--eos none: the streams as they are, eos inside; padded documents one by one."""
    case = EXPECTED[name]
    found = sequences(opened(name, eos="none").reader)
    assert found == ([s["tokens"] for s in case["streams"]] if case.get("streams") else case["recovered_documents"])


@pytest.mark.parametrize("name", ["shuffled", "new_shuffled"])
def test_shuffled(name):
    with pytest.raises(UnsupportedError, match="shuffled.*allow.loss.*view"):
        opened(name, eos=50256)
    source = opened(name, eos=50256, allow_loss=["order"])
    rows = [row for file in EXPECTED[name]["files"] for row in file["data"]]
    assert sequences(source.reader) == [inputs + labels[-1:] for inputs, _, labels in rows]
    assert source.reader.info.layout is Layout.SAMPLES
    assert source.reader.info.sample_length == 129


@pytest.mark.parametrize("name", ["packed_overlap", "padded_pad0", "shuffled", "vsl_old", "hf_collator"])
def test_samples(name):
    reader = opened(name, options={"view": "samples", "order": "trainer"}).reader
    files = sorted(EXPECTED[name]["files"], key=lambda file: file["file"])
    assert sequences(reader) == [row[0] for file in files for row in file["data"]]
    assert reader.info.sample_length == 128


@pytest.mark.parametrize("name", READABLE)
def test_raw_values(name):
    """Every value of every field, chunk by chunk, against what h5py read."""
    for file in EXPECTED[name]["files"]:
        table = FORMAT.inspect([HOME / name / file["file"]], ReadOptions(), Hints()).opened[0].table
        assert np.array_equal(table.rows(0, len(table)).reshape(file["shape"]), file["data"])


def test_trainer_order():
    """Files as text sorts them: a stream that jumps is cut at the jumps, and nothing is lost."""
    case = EXPECTED["multi_file"]
    writer = sequences(opened("multi_file", eos="none").reader)
    trainer = sequences(opened("multi_file", eos="none", options={"order": "trainer"}).reader)
    assert len(writer) == 1
    assert len(trainer) == 3  # 1 | 10 ... 13 | 2 ... 9
    by_name = {file["file"]: file["data"] for file in case["files"]}
    runs, previous = [], None
    for name in sorted(by_name):
        number = int(name.split("-")[-1].removesuffix(".h5"))
        if previous is None or number != previous + 1:
            runs.append([])
        runs[-1] += by_name[name]
        previous = number
    assert trainer == [[t for row in run for t in row[0]] + run[-1][2][-1:] for run in runs]


def test_notes():
    assert any("62 full samples do not end with a separator" in note for note in told("new_padded_pad0"))
    assert any("overlap by one token" in note for note in told("packed_overlap", eos=50256))
    assert any("inverted_mask" in note for note in told("padded_pad0_inverted", eos=50256))
    assert any("after a BOS" in note for note in told("hf_collator", eos=50256))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_check_finds_no_error(name):
    found = list(FORMAT.audit(HOME / name, ReadOptions()))
    assert [f for f in found if f.severity == "error"] == []
    noted = {"multi_file": {"TF325"}, "padded_pad0_inverted": {"TF340"}, "new_packed_disjoint": {"TF342"}}
    assert {f.code for f in found} == noted.get(name, set())
