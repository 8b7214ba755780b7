"""olmo under the laws of every format; the oracle is numpy.fromfile and csv."""

import csv
import gzip

import numpy as np
import pytest

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import LossyConversionError, TokfmtError
from tokfmt.formats.olmo import FORMAT
from tokfmt.testing import FormatContract, read, sequences, write


def documents(path, width):
    """Documents as stored, by the rows."""
    tokens = np.fromfile(path, f"<u{width}").tolist()
    with gzip.open(path.with_suffix(".csv.gz"), "rt", newline="") as rows:
        spans = [(int(start), int(end)) for start, end in csv.reader(rows)]
    ends = [end for _, end in spans]
    assert [start for start, _ in spans] == [0, *ends][:-1] or not spans
    assert (ends or [0])[-1] == len(tokens)
    return [tokens[start:end] for start, end in spans]


def ended(stored, eos):
    assert all(document[-1] == eos and eos not in document[:-1] for document in stored)
    return [document[:-1] for document in stored]


class TestFile(FormatContract):
    format = FORMAT
    filename = "part-0-00000.npy"
    eos_id = 100257
    max_id = 2**32 - 1
    write_variants = ({"width": 4}, {"width": 8})

    def oracle(self, path, options):
        return ended(documents(path, options["width"]), self.eos_id)


class TestNarrow(TestFile):
    eos_id = 255
    max_id = 65535
    write_variants = ({"width": 2},)

    def oracle(self, path, options):
        return ended(documents(path, 2), self.eos_id)


class TestFolder(FormatContract):
    format = FORMAT
    filename = "tokens"
    sharded = {"shard_size": 1, "width": 2}
    eos_id = 50256
    max_id = 65535
    write_variants = ({"shard_size": 30, "width": 2},)

    def oracle(self, path, options):
        files = sorted(path.glob("*.npy"))
        assert [file.name for file in files] == [f"part-0-{k:05d}.npy" for k in range(len(files))]
        found = [documents(file, 2) for file in files]
        for held, after in zip(found, found[1:]):
            assert held
            held_tokens = sum(map(len, held))
            assert held_tokens <= 30 or len(held) == 1
            assert held_tokens + len(after[0]) > 30
        return ended([document for held in found for document in held], self.eos_id)


def test_embedded_separator_needs_allow_loss(tmp_path):
    """OLMo-core scans local files for the separator, and would split the document there."""
    source = tmp_path / "x.jsonl"
    source.write_text('{"input_ids": [1, 9, 2]}\n{"input_ids": [3, 9]}\n{"input_ids": []}\n')
    with pytest.raises(LossyConversionError, match=r"1 separator \(9\) inside sequences \(first: sequence 0"):
        tokfmt.convert(source, tmp_path / "x.npy", eos=9, to_format="olmo")
    assert not (tmp_path / "x.npy").exists()
    tokfmt.convert(source, tmp_path / "x.npy", eos=9, to_format="olmo", allow_loss="embedded-separators", verify=True)
    assert documents(tmp_path / "x.npy", 2) == [[1, 9, 2, 9], [3, 9], [9]]  # one ends with it already


def test_ids_of_eight_bytes(tmp_path):
    edge = Ragged.of([[2**63 - 1, 1], [2**32]], np.dtype(np.uint64))
    path = write(FORMAT, tmp_path / "x.npy", edge, eos_id=0)
    assert documents(path, 8) == [[2**63 - 1, 1, 0], [2**32, 0]]
    assert sequences(read(FORMAT, path, eos_id=0)) == edge.tolist()
    with pytest.raises(TokfmtError, match="9,223,372,036,854,775,808"):
        write(FORMAT, tmp_path / "y.npy", Ragged.of([[2**63]], np.dtype(np.uint64)), eos_id=0)


def test_labels_and_attention_masks_beside_raw_tokens_are_no_tokens(tmp_path):
    """As an older convert_sft_data_for_olmocore.py of open-instruct wrote them."""
    for name, values in {"token_ids": [5, 6, 9], "labels": [-100, 6, 9], "attention_mask": [1, 1, 1]}.items():
        np.array(values, "<i4").tofile(tmp_path / f"{name}.npy")
    with pytest.raises(TokfmtError, match="2 other files, such as attention_mask.npy"):
        tokfmt.open(tmp_path, options={"width": 4}, eos=9)
    with tokfmt.open(tmp_path, options={"width": 4}, eos=9, allow_loss=["other-files"]) as dataset:
        assert dataset[:].tolist() == [[5, 6]]
