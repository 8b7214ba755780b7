"""internevo under the laws of every format; the oracle is json and numpy.load."""

import json

import numpy as np
import pytest
from amount import NIGHTLY

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.internevo import FORMAT
from tokfmt.testing import FormatContract


def listed(path):
    """The numbers of the lines that a meta lists."""
    raw, meta = path.read_bytes(), np.load(f"{path}.meta", allow_pickle=False)
    for start, length in meta[:, [0, -1]] if meta.size else ():
        tokens = json.loads(raw[start : raw.index(b"\n", start)])["tokens"]
        assert len(tokens) == length
        yield tokens


class TestFolder(FormatContract):
    format = FORMAT
    filename = "data"
    eos_id = None
    max_id = 2**32 - 1
    sharded = {"shard_size": 1}
    write_variants = ({"shard_size": 7}, {"shard_size": 1 << 20, "type": "code"})
    long_options = {"shard_size": 1 << 16}
    flipped = 64 if NIGHTLY else 24  # of each of many files
    sparse_tokens, peak_bytes = 1 << 19, 12 << 20  # JSON is slow where memory is traced

    def oracle(self, path, options):
        files = sorted(path.rglob("*.bin"))
        assert {file.parent for file in files} == {path / "train" / options.get("type", "en")}
        assert [np.load(f"{file}.meta", allow_pickle=False).dtype for file in files] == [np.int64] * len(files)
        return [[abs(token) for token in one] for file in files for one in listed(file)]


def lines(path, documents, dtype="<i4", order=None):
    """Write a file and its meta."""
    held = [json.dumps({"tokens": one}).encode() + b"\n" for one in documents]
    path.write_bytes(b"".join(held))
    starts = np.cumsum([0, *map(len, held)])[:-1]
    meta = np.array([(start, len(one)) for start, one in zip(starts, documents)], dtype).reshape(-1, 2)
    with open(f"{path}.meta", "wb") as out:
        np.save(out, meta[order] if order is not None else meta)
    return path


def test_a_negative_number_is_an_id_without_loss(tmp_path):
    path = lines(tmp_path / "x.bin", [[1, -5, 7], [], [-2, 3]])
    with tokfmt.open(path) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("internevo", [[1, 5, 7], [], [2, 3]])
    with pytest.raises(TokfmtError, match="has a negative ID: .*found -5.*loss=sign"):
        tokfmt.open(path, options={"loss": "refuse"})[:].tolist()
    tokfmt.convert(path, tmp_path / "out", to_format="internevo", eos="none")
    (written,) = (tmp_path / "out").rglob("*.bin")
    assert list(listed(written)) == [[1, -5, 7], [], [-2, 3]]


def test_id_0_cannot_count_in_the_loss(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 0, 2], "labels": [-100, 0, 2]}\n')
    words = {"to_format": "internevo", "eos": "none"}
    with pytest.raises(TokfmtError, match="1 token of ID 0 from position 1 on"):
        tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "out", **words)
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "out", allow_loss="loss-mask", **words)
    (written,) = (tmp_path / "out").rglob("*.bin")
    assert list(listed(written)) == [[1, 0, 2]]


def test_the_meta_decides(tmp_path):
    documents = [[k, k + 1, k + 2][: k % 4] for k in range(9)]
    order = np.array([7, 3, 3, 0])
    path = lines(tmp_path / "x.bin", documents, "<i8", order)
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [documents[k] for k in order]
    findings = {one.code: one.message for one in tokfmt.check(path, deep=True)[0].findings}
    assert "has 6 lines that the meta does not list" in findings["TF845"]


def test_documents_that_were_appended_twice(tmp_path):
    path = lines(tmp_path / "x.bin", [[1, 2], [3], [1, 2], [3]])
    findings = {one.code: one.message for one in tokfmt.check(path)[0].findings}
    assert "holds each of its 2 documents twice" in findings["TF843"]


@pytest.mark.parametrize("pair", ["x.bin", "x.bin.meta"])
def test_either_file_is_the_dataset(tmp_path, pair):
    lines(tmp_path / "x.bin", [[1, 2]])
    with tokfmt.open(tmp_path / pair, format="internevo") as dataset:
        assert dataset[:].tolist() == [[1, 2]]
