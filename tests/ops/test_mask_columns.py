"""Columns beside token IDs: labels, masks and borders of documents, in MDS, LitData and JSON Lines."""

import json
import shutil

import numpy as np
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
