"""Columns beside token IDs: labels, masks and borders of documents, in MDS, LitData and JSON Lines."""

import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import FIXTURES
from shards_by_hand import litdata_of, mds_of

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
    wrong = r"(item|sample) 0 has labels that are other IDs than its tokens: expected 3 or -100, found 9\..*--allow-loss loss-mask"
    with pytest.raises(FormatError, match=wrong):
        tokfmt.convert(source, tmp_path / "x.parquet", **given)
    assert tokfmt.convert(source, tmp_path / "x.parquet", allow_loss="loss-mask", **given).tokens == 28


@pytest.mark.parametrize(("write", "item"), [(litdata_of, "item"), (mds_of, "sample")])
def test_masks_of_folders_that_contradict_each_other_are_refused_until_an_option_chooses(write, item, tmp_path):
    source, ids = tmp_path / "x", [[1, 2], [3, 4, 5]]
    source.mkdir()
    masks = {
        "completion_mask": [[0, 1], [0, 0, 1]],
        "labels": [[-100, 2], [-100, 4, 5]],
        "loss_mask": [[1, 0], [0, 1, 0]],
    }
    write(source, {"input_ids": ids, **masks})

    def read(**words):
        tokfmt.convert(source, tmp_path / "x.parquet", eos="none", overwrite=True, verify=True, **words)
        return [
            [int(label > 0) for label in row] for row in pq.read_table(tmp_path / "x.parquet")["labels"].to_pylist()
        ]

    with pytest.raises(
        FormatError, match=rf"{item} 1 has labels and completion_mask that differ: .* its token 1 .*=all"
    ):
        read()
    for choice, counts in {
        "labels": [[0, 1], [0, 1, 1]],
        "completion_mask": [[0, 1], [0, 0, 1]],
        "all": [[0, 1], [0, 0, 1]],
        "own": [[1, 0], [0, 1, 0]],
        "next": [[0, 1], [0, 0, 1]],
    }.items():
        assert read(options={"loss_mask": choice}) == counts


@pytest.mark.parametrize(("write", "item"), [(litdata_of, "item"), (mds_of, "sample")])
def test_a_check_lists_every_item_whose_labels_do_not_fit(write, item, tmp_path):
    ids, wrong = [[i, i + 1, i + 2] for i in range(400)], range(7, 400, 8)
    for labels, words in (
        ([0, 0, 0], "labels that are other IDs than its tokens: expected {} or -100, found 0"),
        ([-100], "labels of another length: expected 3, found 1"),
    ):
        write(tmp_path, {"input_ids": ids, "labels": [labels if i in wrong else row for i, row in enumerate(ids)]})
        (report,) = tokfmt.check(tmp_path, deep=True)
        assert [finding.message for finding in report.findings if finding.severity == "error"] == [
            f"{item} {i} has {words.format(i)}" for i in wrong
        ]


def test_labels_of_another_length_and_fields_without_names_are_refused(tmp_path):
    source = tmp_path / "x"
    shutil.copytree(FIXTURES / "litdata" / "sft", source)
    raw = np.frombuffer((source / "chunk-0-0.bin").read_bytes(), np.uint8).copy()
    raw[24:32].view("<u4")[:] = 48, 64  # the labels, and the IDs, of the first item
    (source / "chunk-0-0.bin").write_bytes(raw.tobytes())
    with pytest.raises(FormatError, match="item 0 has labels of another length: expected 8, found 6"):
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


def test_columns_of_another_length_are_reported(tmp_path):
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
