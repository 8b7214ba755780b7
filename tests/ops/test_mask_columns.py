"""Columns beside token IDs: labels, masks and borders of documents, in MDS, LitData and JSON Lines."""

import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, LossyConversionError

DOCUMENTS = [[1000 * number + position for position in range(length)] for number, length in enumerate((7, 3, 12, 1, 5))]
"""What fixtures/make_sft.py wrote: the first half of each is a prompt."""
LABELS = [[-100] * (len(ids) // 2) + ids[len(ids) // 2 :] for ids in DOCUMENTS]
ROWS = [{"input_ids": ids, "labels": labels} for ids, labels in zip(DOCUMENTS, LABELS, strict=True)]
PLACES = {"litdata": ("chunk-0-0.bin", 70), "mds": ("shard.00000.mds", 341)}
"""The file of each folder, and the byte of its first label that is a token."""


@pytest.mark.parametrize("name", PLACES)
def test_labels_of_folders_are_loss_masks(name, tmp_path):
    source = FIXTURES / name / "sft"
    tokfmt.convert(source, tmp_path / "x.parquet", eos="none", verify=True)
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == ROWS
    with pytest.raises(LossyConversionError, match=r"loss masks of its (items|samples) \(labels\)"):
        tokfmt.convert(source, tmp_path / "x.pbin", eos="none")
    done = tokfmt.convert(source, tmp_path / "x.pbin", eos="none", allow_loss="loss-mask")
    assert done.losses.keys() == {"loss-mask"}


@pytest.mark.parametrize("name", PLACES)
def test_a_label_that_is_another_id_is_refused_with_its_place(name, tmp_path):
    source, (file, byte) = tmp_path / name, PLACES[name]
    shutil.copytree(FIXTURES / name / "sft", source)
    raw = bytearray((source / file).read_bytes())
    raw[byte] = 9
    (source / file).write_bytes(raw)
    given = {"eos": "none", "options": [] if name == "litdata" else ["hashes=ignore"]}
    wrong = "labels of token 3 of the file: expected 3, its ID, or -100, found 9. --allow-loss loss-mask"
    with pytest.raises(FormatError, match=wrong):
        tokfmt.convert(source, tmp_path / "x.parquet", **given)
    assert tokfmt.convert(source, tmp_path / "x.parquet", allow_loss="loss-mask", **given).tokens == 28


def test_labels_of_another_length_and_fields_without_names_are_refused(tmp_path):
    source = tmp_path / "x"
    shutil.copytree(FIXTURES / "litdata" / "sft", source)
    raw = np.frombuffer((source / "chunk-0-0.bin").read_bytes(), np.uint8).copy()
    raw[24:32].view("<u4")[:] = 48, 64  # the labels, and the IDs, of the first item
    (source / "chunk-0-0.bin").write_bytes(raw.tobytes())
    with pytest.raises(FormatError, match="labels of item 0, which has another number of IDs: expected 8, found 6"):
        tokfmt.open(source)
    index = json.loads((source / "index.json").read_text())
    for context, error in (
        (
            '["a", "b", "c", "d"]',
            r"the field of token IDs is not known: found .*b \(no_header_tensor:18\).*column=NAME",
        ),
        ("null", r"the field of token IDs is not known: found .*1 \(no_header_tensor:18\), 2"),
    ):
        spec = json.loads(index["config"]["data_spec"])
        spec[1]["context"] = context
        changed = {**index, "config": {**index["config"], "data_spec": json.dumps(spec)}}
        (source / "index.json").write_text(json.dumps(changed))
        with pytest.raises(FormatError, match=error):
            tokfmt.open(source)


def test_columns_that_differ_or_have_another_length_are_reported(tmp_path):
    both = {"input_ids": [[1, 2, 3]], "labels": [[-100, 2, 3]], "completion_mask": [[0, 0, 1]]}
    pq.write_table(pa.table(both), tmp_path / "both.parquet")
    done = tokfmt.convert(tmp_path / "both.parquet", tmp_path / "x.parquet")
    assert "labels and completion_mask differ at 1 position: a token counts in the loss if each" in done.notes[0]
    assert pq.read_table(tmp_path / "x.parquet")["labels"].to_pylist() == [[-100, -100, 3]]
    short = {"input_ids": [[1, 2], [1, 2, 3]], "assistant_masks": [[0, 1], [0, 1]]}
    pq.write_table(pa.table(short), tmp_path / "short.parquet")
    with pytest.raises(FormatError, match="row 1 of row group 0 has assistant_masks of another length.*Correct that"):
        tokfmt.open(tmp_path / "short.parquet")


def test_a_folder_of_compressed_json_is_one_of_lines_unless_others_are_there(tmp_path):
    for number in (10, 9):
        (tmp_path / f"{number}.json.gz").write_bytes(gzip.compress(b'{"input_ids": [%d]}\n' % number))
    assert [ids.tolist() for ids in tokfmt.open(tmp_path)] == [[9], [10]]
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1]}\n')
    with pytest.raises(FormatError, match="is read as jsonl, and holds 2 other files"):
        tokfmt.open(tmp_path)
