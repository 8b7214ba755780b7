"""The same rows with the same columns, in each format of rows, are the documents, marks and notes of plain lists."""

import json
import pickle
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import registered
import zarr
from examples_of_tensorflow import example, framed
from model.rows_oracle import MASKS, read
from shards_by_hand import litdata_of, mds_of, turns_of

import tokfmt
from tokfmt.errors import FormatError, LossyConversionError, TokfmtError


def parquet(path, columns):
    pq.write_table(pa.table(columns), path / "x.parquet", row_group_size=2)
    return path / "x.parquet"


def arrow(path, columns):
    feather.write_feather(pa.table(columns), path / "x.arrow", chunksize=2)
    return path / "x.arrow"


def jsonl(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path / "x.jsonl"


def mds(path, columns):
    (path / "x").mkdir()
    mds_of(path / "x", columns)
    return path / "x"


def litdata(path, columns):
    (path / "x").mkdir()
    litdata_of(path / "x", columns)
    return path / "x"


def npz(path, columns):
    np.savez_compressed(path / "x.npz", **{name: np.array(rows) for name, rows in columns.items()})
    return path / "x.npz"


def hdf5(path, columns):
    with h5py.File(path / "x.h5", "w") as file:
        for name, rows in columns.items():
            file.create_dataset(name, data=np.array(rows), chunks=(1, 2), compression="gzip")
    return path / "x.h5"


def zarr_group(path, columns):
    group = zarr.open_group(path / "x.zarr", mode="w")
    for name, rows in columns.items():
        values = np.array(rows)
        told = {"chunks": (2, 3), "config": {"write_empty_chunks": True}}
        group.create_array(f"train/{name}", shape=values.shape, dtype=values.dtype, **told)[:] = values
    return path / "x.zarr"


ARRAYS = [npz, hdf5, zarr_group]


def examples(columns):
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [example(**{name: value for name, value in row.items() if value is not None}) for row in rows]


def tfrecord(path, columns):
    (path / "x.tfrecord").write_bytes(framed(*examples(columns)))
    return path / "x.tfrecord"


def arrayrecord(path, columns):
    format_: Any = registered.get("arrayrecord")
    writer: Any = format_.Writer

    class Examples(writer):
        def record(self, ids):
            return ids

    with open(path / "x.array_record", "wb") as out:
        Examples(path, format_.write_options(group_size=2), None).write_file(out, iter(examples(columns)))
    return path / "x.array_record"


FORMATS = [parquet, arrow, jsonl, mds, litdata, tfrecord, arrayrecord, *ARRAYS]
SCANNED = [parquet, arrow, mds, litdata, *ARRAYS]
"""Formats that read all records at their opening, and count what is left out."""
IDS = [[11, 12, 13, 3, 21, 22, 0, 0], [31, 32, 33, 34, 35, 36, 37, 3], [41, 3, 51, 52, 3, 0, 0, 0]]
LABELS = [[-100, -100, 13, 3, -100, 22, -100, -100], [-100] * 4 + [35, 36, 37, 3], [-100, 3, -100, 52, 3] + [-100] * 3]
COUNTS = [[int(label != -100) for label in row] for row in LABELS]
ATTENTION = [[1] * 6 + [0] * 2, [1] * 8, [1] * 5 + [0] * 3]
NUMBERED = [[1] * 4 + [2] * 2 + [0] * 2, [1] * 8, [1] * 2 + [2] * 3 + [0] * 3]
LEFT = [[7, 7, 1, 2, 3], [7, 4, 5, 6, 3]]
DIVIDING = ("inputs_segmentation", "position_ids", "seq_lengths")
CASES = {
    "padding": {"attention_mask": ATTENTION},
    "padding and labels": {"attention_mask": ATTENTION, "labels": LABELS},
    "padding and a mask": {"attention_mask": ATTENTION, "completion_mask": COUNTS},
    "padding at the left": {"input_ids": LEFT, "attention_mask": [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]]},
    "exclusion inside": {"attention_mask": [[1, 0, 1, 1, 1, 1, 0, 0], [1] * 8, [0, 1, 0, 0, 1, 0, 0, 0]]},
    "numbers": {"attention_mask": NUMBERED, "labels": LABELS},
    "segments": {"inputs_segmentation": NUMBERED},
    "positions": {
        "position_ids": [[0, 1, 2, 3, 0, 1, 0, 0], [*range(8)], [0, 1, 0, 1, 2, 0, 0, 0]],
        "labels": LABELS,
    },
    "positions and padding": {
        "position_ids": [[0, 1, 2, 3, 0, 1, 0, 0], [*range(8)], [0, 1, 0, 1, 2, 0, 0, 0]],
        "attention_mask": ATTENTION,
    },
    "lengths": {"seq_lengths": [[4, 4], [8], [2, 3, 3]]},
    "lengths and padding": {"seq_lengths": [[4, 2], [8], [2, 3]], "attention_mask": ATTENTION},
}


def expected_of(columns):
    """Return the documents, their labels, and what is left out, by the oracle of plain lists."""
    found, facts = [], dict.fromkeys(("padding", "ended", "fill", "inside", "masked", "jumps", "divided"), 0)
    beside = [name for name in columns if name != "input_ids"]
    for k, ids in enumerate(columns["input_ids"]):
        documents, left = read(ids, {name: columns[name][k] for name in beside})
        found += documents
        facts = {name: facts[name] + left[name] for name in facts}
    return found, facts


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("write", FORMATS)
def test_rows_mean_the_same_in_every_format(write, case, tmp_path):
    if write in ARRAYS and "lengths" in case:
        pytest.skip("an array has rows of one length")
    columns = {"input_ids": IDS, **CASES[case]}
    documents, facts = expected_of(columns)
    source = write(tmp_path, columns)
    with tokfmt.open(source, eos="none") as dataset:
        assert dataset[:].tolist() == [[token for token, _ in row] for row in documents]
    tokfmt.convert(source, tmp_path / "out.parquet", eos="none", verify=True)
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert out["input_ids"] == [[token for token, _ in row] for row in documents]
    if facts["inside"] or not {"labels", *MASKS}.isdisjoint(columns):
        assert out["labels"] == [[token if counts else -100 for token, counts in row] for row in documents]
    (verdict,) = tokfmt.check(source, deep=True)
    assert not [finding for finding in verdict.findings if finding.severity == "error"]
    left = {"padding": "at the ends of documents", "ended": "at the ends of rows", "divided": "hold several"}
    for name, words in left.items():
        number = "1 row" if (name, facts[name]) == ("divided", 1) else f"{facts[name]} "
        assert any(note.startswith(number) and words in note for note in verdict.notes) == bool(facts[name])
    if write in SCANNED:
        assert dataset.notes == verdict.notes
        assert tokfmt.info(source).padding == facts["padding"] + facts["ended"] + facts["fill"]
    numbers = {"rows": len(columns["input_ids"]), **{name: number for name, number in facts.items() if number}}
    stated = [tokfmt.stats(source, eos="none").datasets[0].columns]
    stated += [tokfmt.info(source).columns] if write in SCANNED else []
    for found in stated:
        assert {name: number for name, number in found.items() if "." not in name} == numbers
        by = next((name for name in columns if name in DIVIDING), "attention_mask")
        assert {name: number for name, number in found.items() if "dividing" in name} == (
            {f"dividing.{by}": facts["divided"]} if facts["divided"] else {}
        )


PADDED = [[11, 12, 3, 0, 21, 3, 0, 0], [31, 32, 33, 3, 0, 41, 42, 3], [51, 52, 9, 53, 3, 61, 3, 0]]
BEHIND = [[1, 1, 1, 0, 1, 1, 0, 0], [1, 1, 1, 1, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1, 0]]


@pytest.mark.parametrize("write", FORMATS)
def test_padding_behind_known_separators_divides_rows_which_exclude_nothing_else(write, tmp_path):
    source = write(tmp_path, {"input_ids": PADDED, "attention_mask": BEHIND})
    tokfmt.convert(source, tmp_path / "out.parquet", eos=3, verify=True)
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert out["input_ids"] == [[11, 12, 3], [21, 3], [31, 32, 33, 3], [41, 42, 3], [51, 52, 9, 53, 3, 61, 3]]
    assert out["labels"] == [*out["input_ids"][:4], [51, 52, -100, 53, 3, 61, 3]]
    with tokfmt.open(source, eos="none") as dataset:  # without a known separator, nothing is left out
        assert dataset[:].tolist() == [PADDED[0][:6], PADDED[1], PADDED[2][:7]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"labels": [[1, 2], [3]]}, "labels of another length"),
        ({"position_ids": [[0, 1], [1, 1]]}, "position_ids that neither go on"),
        ({"seq_lengths": [[2], [3]]}, "seq_lengths that are not those"),
        ({"labels": [[1, 2], [-100, 4]], "completion_mask": [[1, 1], [1, 1]]}, "that differ"),
    ],
)
@pytest.mark.parametrize("write", FORMATS)
def test_a_contradiction_is_a_finding_of_each_row_and_the_error_of_a_reader(write, columns, words, tmp_path):
    if write in ARRAYS and "length" in words:
        pytest.skip("an array has rows of one length")
    ids = [[1, 2], [3, 4]]
    source = write(tmp_path, {"input_ids": [*ids, *ids], **{name: rows * 2 for name, rows in columns.items()}})
    (verdict,) = tokfmt.check(source, deep=True)
    assert sum(words in finding.message for finding in verdict.findings) == 2
    with pytest.raises(FormatError, match=words):
        tokfmt.convert(source, tmp_path / "out.parquet", eos="none")


@pytest.mark.parametrize(
    ("write", "option", "code"),
    [(parquet, "column", "TF662"), (arrow, "column", "TF682"), (jsonl, "ids_field", "TF501")],
)
def test_a_list_of_ids_in_a_list_or_an_object_is_read_by_the_option_that_its_error_names(write, option, code, tmp_path):
    source = write(tmp_path, {"input_ids": [[ids] for ids in IDS], "url": ["x"] * 3})
    (verdict,) = tokfmt.check(source, deep=True)
    found = verdict.findings[0]
    assert (found.code, f"--from-opt {option}=input_ids.0 " in f"{found.message} {found.remedy}") == (code, True)
    (verdict,) = tokfmt.check(source, deep=True, options={option: "input_ids.0"})
    assert (verdict.findings, verdict.sequences, verdict.tokens) == ([], 3, 24)
    with tokfmt.open(source, options={option: "input_ids.0"}, eos="none") as dataset:
        assert dataset[:].tolist() == IDS
    if write is not jsonl:
        source = write(tmp_path, {"input_ids": [{"data": ids, "shape": [8]} for ids in IDS]})
        assert "--from-opt column=input_ids.data " in tokfmt.check(source)[0].findings[0].remedy


@pytest.mark.parametrize("write", [mds, litdata])
def test_a_completion_beside_a_prompt_of_shards_is_its_end_and_counts(write, tmp_path):
    source = write(tmp_path, {"prompt": [[1, 2], [4]], "completion": [[3], [5, 6]]})
    given = {"eos": "none", "options": ["column=prompt"]}
    tokfmt.convert(source, tmp_path / "out.parquet", **given)
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert out == {"input_ids": [[1, 2, 3], [4, 5, 6]], "labels": [[-100, -100, 3], [-100, 5, 6]]}
    with pytest.raises(LossyConversionError, match="loss-mask"):
        tokfmt.convert(source, tmp_path / "out.pbin", **given)


def test_two_texts_of_a_line_are_no_lists_of_ids(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"inputs": "a", "targets": "b"}\n')
    with pytest.raises(FormatError, match="text"):
        tokfmt.open(tmp_path / "x.jsonl")


PAIRS = [("prompt", "completion"), ("inputs", "targets")]


@pytest.mark.parametrize("names", PAIRS)
@pytest.mark.parametrize("write", [parquet, arrow, jsonl, tfrecord, arrayrecord])
def test_a_second_list_of_ids_is_the_completion_of_the_first(write, names, tmp_path):
    rows = [[1, 2], [4], [], [7, 8]], [[3], [5, 1 << 17], [6], []]
    source = write(tmp_path, dict(zip(names, rows, strict=True)))
    tokfmt.convert(source, tmp_path / "out.parquet", eos="none", verify=True)
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "input_ids": [[1, 2, 3], [4, 5, 1 << 17], [6], [7, 8]],
        "labels": [[-100, -100, 3], [-100, 5, 1 << 17], [6], [-100, -100]],
    }
    with pytest.raises(LossyConversionError, match="loss-mask"):
        tokfmt.convert(source, tmp_path / "out.pbin", eos="none")
    assert tokfmt.convert(source, tmp_path / "out.mds", to_format="mds", eos="none", allow_loss="loss-mask").tokens == 9


@pytest.mark.parametrize("write", [parquet, arrow, jsonl, tfrecord, arrayrecord])
def test_targets_of_maxtext_are_labels_and_another_list_is_an_error(write, tmp_path):
    ids, segments = [[1, 2, 3, 4, 0, 0]] * 2, [[1, 1, 2, 2, 0, 0]] * 2
    columns = {"inputs": ids, "inputs_segmentation": segments, "targets": [[2, 3, 4, 0, 0, 0]] * 2}
    with tokfmt.open(write(tmp_path, columns), eos="none") as dataset:
        assert dataset[:].tolist() == [[1, 2], [3, 4]] * 2
    source = write(tmp_path, {**columns, "targets": [[2, 3, 4, 0, 0, 0], [2, 3, 9, 0, 0, 0]]})
    (verdict,) = tokfmt.check(source, deep=True)
    assert sum("has targets that" in finding.message for finding in verdict.findings) == 1
    with pytest.raises(FormatError, match="has targets that"):
        tokfmt.convert(source, tmp_path / "out.parquet", eos="none")


@pytest.mark.parametrize("labels", [[0, 3, 0, 0, 6, 0], [0, 2, 3, 0, 0, 6]])  # moved by one, or not
@pytest.mark.parametrize("write", [parquet, arrow, jsonl, tfrecord, arrayrecord])
def test_masked_targets_of_maxtext_do_not_count(write, labels, tmp_path):
    columns = {
        "inputs": [[1, 2, 3, 4, 5, 6]] * 2,
        "inputs_segmentation": [[1, 1, 1, 2, 2, 2]] * 2,
        "targets": [labels] * 2,
    }
    counts = [-100, 2, 3] if labels[1] == 2 else [-100, -100, 3]
    source = write(tmp_path, columns)
    tokfmt.convert(source, tmp_path / "out.parquet", eos="none", verify=True)
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert out == {"input_ids": [[1, 2, 3], [4, 5, 6]] * 2, "labels": [counts, [-100, -100, 6]] * 2}
    by_segments = [*[int(label != 0) for label in labels[:-1]], int(labels[-1] != 0)]
    targets = [[2, 3, 4, 5, 6, 0] if labels[1] == 3 else [1, 2, 3, 4, 5, 6]] * 2
    source = write(tmp_path, {**columns, "targets": targets, "targets_segmentation": [by_segments] * 2})
    tokfmt.convert(source, tmp_path / "out2.parquet", eos="none", verify=True)
    assert pq.read_table(tmp_path / "out2.parquet").to_pydict() == out


@pytest.mark.parametrize("write", [parquet, arrow, jsonl, tfrecord, arrayrecord])
def test_inputs_that_are_targets_moved_right_are_an_error_whose_option_reads_them(write, tmp_path):
    columns = {"inputs": [[0, 1, 2, 0, 4, 0]], "targets": [[1, 2, 3, 4, 5, 0]]}
    columns |= {f"{name}_segmentation": [[1, 1, 1, 2, 2, 0]] for name in ("inputs", "targets")}
    source = write(tmp_path, columns)
    with pytest.raises(FormatError, match="without the last of their targets") as raised:
        tokfmt.convert(source, tmp_path / "out.parquet", eos="none")
    option = next(word for word in str(raised.value).split() if word.endswith("=targets"))
    with tokfmt.open(source, eos="none", options=[option]) as dataset:
        assert dataset[:].tolist() == [[1, 2, 3], [4, 5]]


def test_turns_of_samples_are_one_document_whose_responses_count(tmp_path):
    two = [{"input_ids": [1, 2], "labels": [3]}, {"input_ids": [4], "labels": [5, 6]}]
    one = [{"input_ids": [7], "labels": []}]
    source = tmp_path / "x"
    source.mkdir()
    turns_of(source, [two, [], one])
    tokfmt.convert(source, tmp_path / "out.parquet", eos="none", verify=True)
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "input_ids": [[1, 2, 3, 4, 5, 6], [], [7]],
        "labels": [[-100, -100, 3, -100, 5, 6], [], [-100]],
    }
    with pytest.raises(LossyConversionError, match="loss-mask"):
        tokfmt.convert(source, tmp_path / "out.pbin", eos="none")
    done = tokfmt.convert(source, tmp_path / "out.pbin", eos="none", allow_loss=["loss-mask", "empty-sequences"])
    assert done.tokens == 7


@pytest.mark.parametrize(
    "turns",
    [
        [{"input_ids": [1.0], "labels": [2]}], [{"input_ids": [True], "labels": []}], [{"input_ids": [1]}], {"a": 1}, 5,
        [{"input_ids": [-1], "labels": []}], [{"input_ids": [1 << 32], "labels": []}], [{"input_ids": 1, "labels": []}],
    ],
)  # fmt: skip
def test_turns_of_anything_but_ids_are_refused_with_their_sample(turns, tmp_path):
    turns_of(tmp_path, [[{"input_ids": [1], "labels": [2]}], turns])
    (verdict,) = tokfmt.check(tmp_path, deep=True)
    (finding,) = verdict.findings
    assert finding.severity == "error"
    assert "sample 1 " in f"{finding.message} "
    with pytest.raises(FormatError, match="sample 1"):
        tokfmt.open(tmp_path)


@pytest.mark.parametrize("write", ARRAYS)
def test_rows_of_arrays_are_samples_without_such_columns_or_if_asked(write, tmp_path):
    source = write(tmp_path, {"input_ids": [[1, 2], [3, 0]], "attention_mask": [[1, 1], [1, 0]]})
    with tokfmt.open(source, eos="none", options=["view=samples"]) as dataset:
        assert dataset[:].tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize("write", FORMATS)
def test_segments_of_bert_are_not_those_of_packed_rows(write, tmp_path):
    source = write(tmp_path, {"input_ids": [[1, 2, 3, 0]], "segment_ids": [[0, 0, 1, 0]]})
    with tokfmt.open(source, eos="none") as dataset:
        assert dataset[:].tolist() == [[1, 2, 3, 0]]


def test_what_is_no_column_of_rows_is_not_read_beside_them(tmp_path):
    ids, zeros = [[1, 2], [3, 4]], [[0, 0], [0, 0]]
    beside = {"segment_ids": zeros, "labels": [1, 0], "attention_mask": [[0.0, 0.0], [0.0, 0.0]]}
    np.savez(tmp_path / "x.npz", input_ids=ids, **beside)
    with tokfmt.open(tmp_path / "x.npz", eos="none") as dataset:
        assert dataset[:].tolist() == ids
        assert any(all(name in note for name in beside) for note in dataset.notes)


def test_a_mask_of_booleans_beside_an_array_is_read(tmp_path):
    np.savez(tmp_path / "x.npz", input_ids=[[0, 5, 6]], attention_mask=np.array([[False, True, True]]))
    with tokfmt.open(tmp_path / "x.npz", eos="none") as dataset:
        assert dataset[:].tolist() == [[5, 6]]


@pytest.mark.parametrize("write", FORMATS)
def test_labels_that_are_other_ids_are_findings_and_refused_when_they_are_converted(write, tmp_path):
    source = write(tmp_path, {"input_ids": [[1, 2, 3], [4, 5, 6]], "labels": [[1, 2, 3], [4, -100, 7]]})
    (verdict,) = tokfmt.check(source, deep=True)
    assert sum(finding.severity == "error" for finding in verdict.findings) == 1
    with pytest.raises(TokfmtError, match="--allow-loss loss-mask"):
        tokfmt.convert(source, tmp_path / "out.parquet", eos="none")
    if write in SCANNED:
        assert tokfmt.info(source).tokens == 6
    tokfmt.convert(source, tmp_path / "out.parquet", eos="none", allow_loss="loss-mask")


@pytest.mark.parametrize("write", [mds, litdata])
def test_ids_of_shards_are_found_by_their_bytes_and_those_of_shortened_rows_by_their_row(write, tmp_path):
    source = write(tmp_path, {"input_ids": [[5, 6, 7], [8, 9]], "attention_mask": [[1, 1, 1], [0, 1]]})
    raw = next(file for file in source.iterdir() if file.name != "index.json").read_bytes()
    with tokfmt.open(source, eos="none") as dataset:
        places = [dataset.reader.locate(position) for position in range(4)]
        assert [raw[place.offset] for place in places] == [5, 6, 7, 8]
        assert [place.width for place in places] == [8, 8, 8, None]
        assert [dataset.reader.find(place.path, place.offset) for place in places] == [0, 1, 2, 3]


@pytest.mark.parametrize("write", [mds, litdata])
def test_shards_without_their_labels_still_lose_their_padding(write, tmp_path):
    labels = [[-100, 2, -100], [4]]  # the second one has another length than its IDs
    columns = {"input_ids": [[1, 2, 0], [4, 5, 0]], "attention_mask": [[1, 1, 0]] * 2, "labels": labels}
    source = write(tmp_path, columns)
    done = tokfmt.convert(source, tmp_path / "again", to_format="litdata", eos="none", allow_loss="loss-mask")
    assert done.losses.keys() == {"loss-mask"}
    with tokfmt.open(tmp_path / "again", eos="none") as dataset:
        assert dataset[:].tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize("column", ["labels", "completion_mask"])
@pytest.mark.parametrize("write", FORMATS)
def test_masks_whose_loss_is_accepted_are_a_loss_of_the_result(write, column, tmp_path):
    values = [-100, -100, 13] if column == "labels" else [0, 0, 1]
    source = write(tmp_path, {"input_ids": [[11, 12, 13]] * 2, column: [values] * 2})
    done = tokfmt.convert(source, tmp_path / "out.npy", to_eos=3, eos="none", allow_loss="loss-mask")
    assert done.losses.keys() == {"loss-mask"} and column in done.losses["loss-mask"]


def test_a_shard_without_a_column_has_rows_without_it(tmp_path):
    both = tmp_path / "x"
    both.mkdir()
    shards = []
    for number, columns in enumerate(({"input_ids": [[1, 0]], "attention_mask": [[1, 0]]}, {"input_ids": [[2, 0]]})):
        mds_of(both, columns)
        (shard,) = json.loads((both / "index.json").read_text())["shards"]
        name = f"shard.{number + 5:05d}.mds"
        (both / "shard.00000.mds").rename(both / name)
        shards.append({**shard, "raw_data": {**shard["raw_data"], "basename": name}})
    (both / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    with tokfmt.open(both, eos="none") as dataset:
        assert dataset[:].tolist() == [[1], [2, 0]]
        assert any(note.startswith("1 row of 2 have no attention_mask") for note in dataset.notes)


def test_what_can_be_read_of_damaged_rows_is_kept(tmp_path):
    size = 1 << 15  # a group of rows each
    ids = [[k] * size for k in range(4)]
    labels = [*ids[:2], ids[2][:-1], ids[3]]  # the third one does not fit
    source = litdata(tmp_path, {"input_ids": ids, "labels": labels})
    done = tokfmt.convert(source, tmp_path / "out.parquet", eos="none", allow_partial=True)
    assert pq.read_table(tmp_path / "out.parquet")["input_ids"].to_pylist() == [*ids[:2], ids[3]]
    assert done.tokens == 3 * size


@pytest.mark.parametrize("write", [mds, litdata, npz])
def test_any_window_of_many_groups_is_what_the_whole_has(write, tmp_path):
    rows, width = 1500, 50
    ids = [[(7 * k + j) % 997 for j in range(width)] for k in range(rows)]
    attention = [[1] * (width - (k % 9 if k > rows // 2 else 0)) for k in range(rows)]
    attention = [row + [0] * (width - len(row)) for row in attention]  # no row of the first groups is padded
    source = write(tmp_path, {"input_ids": ids, "attention_mask": attention})
    kept = [row[: sum(mask)] for row, mask in zip(ids, attention, strict=True)]
    flat = sum(kept, [])
    with tokfmt.open(source, eos="none") as dataset:
        assert dataset[:].tolist() == kept
        assert [dataset[k].tolist() for k in (0, 1499, 751, 750, 3)] == [kept[k] for k in (0, 1499, 751, 750, 3)]
        for start in range(0, len(flat), 9_999):
            assert dataset.reader.tokens(start, min(start + 40_000, len(flat))).tolist() == flat[start : start + 40_000]


def test_no_rows_and_rows_of_nothing_are_read(tmp_path):
    nothing = np.zeros((0, 4), "i4")
    np.savez(tmp_path / "x.npz", input_ids=nothing, attention_mask=nothing)
    with tokfmt.open(tmp_path / "x.npz", eos="none") as dataset:
        assert dataset[:].tolist() == []
    source = mds(tmp_path, {"input_ids": [[], [0, 0], [1, 2]], "attention_mask": [[], [0, 0], [1, 0]]})
    with tokfmt.open(source, eos="none") as dataset:
        assert dataset[:].tolist() == [[], [], [1]]
        assert pickle.loads(pickle.dumps(dataset.reader)).tokens(0, 1).tolist() == [1]


def test_files_of_rows_are_joined(tmp_path):
    np.savez(tmp_path / "x.npz", input_ids=[[1, 2], [3, 0]], attention_mask=[[1, 1], [1, 0]])
    tokfmt.convert([tmp_path / "x.npz"] * 2, tmp_path / "out.parquet", eos="none")
    assert pq.read_table(tmp_path / "out.parquet")["input_ids"].to_pylist() == [[1, 2], [3]] * 2
