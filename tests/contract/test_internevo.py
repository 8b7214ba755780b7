"""internevo is only read; the oracle is json and numpy.save."""

import json

import numpy as np
import pytest

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.internevo import FORMAT
from tokfmt.testing import ReadOnlyContract


def lines(path, documents, dtype="<i4", order=None):
    """Write a file and its meta."""
    held = [json.dumps({"tokens": one}).encode() + b"\n" for one in documents]
    path.write_bytes(b"".join(held))
    starts = np.cumsum([0, *map(len, held)])[:-1]
    meta = np.array([(start, len(one)) for start, one in zip(starts, documents)], dtype).reshape(-1, 2)
    with open(f"{path}.meta", "wb") as out:
        np.save(out, meta[order] if order is not None else meta)
    return path


class TestFolder(ReadOnlyContract):
    format = FORMAT
    filename = "data"

    def make(self, path):
        (path / "train" / "en").mkdir(parents=True)
        lines(path / "train" / "en" / "a.bin", self.contents[:2])
        lines(path / "train" / "en" / "b.bin", self.contents[2:])


def test_a_negative_number_is_an_id_without_loss(tmp_path):
    path = lines(tmp_path / "x.bin", [[1, -5, 7], [], [-2, 3]])
    with tokfmt.open(path) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("internevo", [[1, 5, 7], [], [2, 3]])
    with pytest.raises(TokfmtError, match="has a negative ID: .*found -5.*loss=sign"):
        tokfmt.open(path, options={"loss": "refuse"})[:].tolist()
    tokfmt.convert(path, tmp_path / "out.ds", eos="none")
    assert np.fromfile(tmp_path / "out.ds.loss", bool).tolist() == [True, False, True, False, True]


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
