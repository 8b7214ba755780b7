"""Parquet and Arrow read what upstream wrote: documents and texts by their digests, masks and boundaries; bad ones are refused."""

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import registered
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, TokfmtError

HOME = FIXTURES / "parquet"
CASES = {case["name"]: case for case in json.loads((HOME / "expected.json").read_text())["cases"]}
TEXTS = json.loads((HOME / "texts.json").read_text())
BAD = {
    "start_not_zero_BAD": ("TF665", "row 1 .* does not begin with 0"),
    "mask_short_BAD": ("TF665", "row 0 .* loss_mask of another length: expected 127, found 126"),
    "start_at_end_BAD": ("TF665", "row 0 .* at or beyond its end"),
    "start_decreases_BAD": ("TF665", "row 0 .* decreases"),
    "text_binary_BAD": ("TF666", "row 2 .* not UTF-8 at byte 0"),
    "tokens_null_element_BAD": ("TF664", "row 0 .* NULL among its IDs"),
    "tokens_negative_BAD": ("TF664", "row 1 .* belongs in labels.* found -100"),
    "tokens_too_big_BAD": ("TF664", "row 1 .* found 1,099,511,627,776"),
    "tokens_floats_BAD": ("TF662", "not a list of IDs"),
    "tokens_list_of_lists_BAD": ("TF662", "not a list of IDs"),
}
GOOD = [name for name, case in CASES.items() if name not in BAD and case.get("kind") != "text"]
TEXT = [name for name, case in CASES.items() if name not in BAD and case.get("kind") == "text"]


def options_of(case):
    named = case.get("ambiguous") or "." in case.get("column", "")
    return {"column": case["column"]} if named else {}


def digest(ids):
    return hashlib.sha256(np.asarray(ids, "<u4").tobytes()).hexdigest()


def test_the_goldens_are_there():
    assert (len(CASES), len(GOOD), len(TEXT)) == (40, 18, 12)
    for case in CASES.values():
        for file in case["files"]:
            assert hashlib.sha256((HOME / file["path"]).read_bytes()).hexdigest() == file["sha256"]


@pytest.mark.parametrize("name", GOOD)
def test_documents(name):
    case = CASES[name]
    allow_loss = ["null-rows"] if case.get("null_rows") else []
    with tokfmt.open(HOME / case["entry"], options=options_of(case), allow_loss=allow_loss) as dataset:
        documents = [dataset[k].tolist() for k in range(len(dataset))]
        assert documents == [row.tolist() for row in dataset]
        assert dataset.info.tokens == case["n_tokens"]
    assert [len(document) for document in documents] == case["doc_lengths"]
    assert [digest(document)[:16] for document in documents] == case["doc_sha256_le_u32"]
    assert digest([token for document in documents for token in document]) == case["tokens_sha256_le_u32"]


def texts_of(reader, size=1 << 12, **which):
    return [text for block in reader.blocks(size, **which) for batch in reader.texts(block) for text in batch.texts]


@pytest.mark.parametrize("name", [name for name in GOOD if CASES[name].get("kind") == "packed"])
def test_packed_rows_have_masks_and_boundaries(name):
    case = CASES[name]
    reader = registered.opened(HOME / case["entry"], options={"view": "samples"})
    offsets, total = reader.offsets(0, reader.info.sequences), reader.info.tokens
    assert np.diff(offsets).tolist() == case["row_lengths"]
    begins, labels = reader.begins(0, total), reader.next_labels(0, total)
    mask = (labels != -100).astype("u1")
    assert hashlib.sha256(mask.tobytes()).hexdigest() == case["loss_mask_sha256"]
    assert np.add.reduceat(begins, offsets[:-1]).tolist() == case["row_docs"]
    assert np.diff([*np.flatnonzero(begins), total]).tolist() == case["doc_lengths"]
    counted = np.flatnonzero(labels != -100)
    assert np.array_equal(labels[counted], reader.tokens(0, total)[counted + 1])
    assert (mask[counted] == 1).all()


@pytest.mark.parametrize("name", TEXT)
def test_texts(name):
    case = CASES[name]
    path, options = HOME / case["entry"], options_of(case)
    if case["n_null"]:
        with pytest.raises(FormatError, match="NULL"):
            texts_of(registered.opened(path, options=options))
    reader = registered.opened(path, options=options, allow_loss=["null-rows"])
    expected = [text or "" for text in TEXTS[name]]
    assert reader.count() == len(expected) == case["n_texts"]
    for size in (1, 1 << 10, 1 << 30):
        assert texts_of(reader, size) == expected
    assert texts_of(reader, 1, first=3 % len(expected), last=len(expected) - 1) == expected[3 % len(expected) : -1]
    assert [reader.record(k) for k in range(len(expected))] == expected


@pytest.mark.parametrize("name", [name for name in TEXT if CASES[name].get("ambiguous")])
def test_several_columns_of_text_are_listed(name):
    with pytest.raises(FormatError, match=r"several columns of text: found .*(lang|prompt): string.*column=NAME"):
        registered.opened(HOME / CASES[name]["entry"])


def test_splits_are_named():
    for entry in ("dataset_dict", "text/hub"):
        assert registered.opened(HOME / entry).info.other_splits == ("validation",)
        assert registered.opened(HOME / entry, options={"split": "validation"}).info.split == "validation"
    with pytest.raises(FormatError, match="no split test: found train, validation"):
        registered.opened(HOME / "dataset_dict", options={"split": "test"})


def test_borders_inside_of_rows_are_not_lost_in_silence(tmp_path):
    path = HOME / "packed" / "int32.idx.parquet"
    for options in ({}, {"view": "samples"}):
        with pytest.raises(TokfmtError, match="loss masks .*documents begin inside" if options else "loss masks"):
            tokfmt.convert(path, tmp_path / "x.jsonl", options=options)
    done = tokfmt.convert(path, tmp_path / "x.jsonl", allow_loss="loss-mask")
    assert (done.sequences, done.tokens) == (16, 710)


def test_labels_are_those_of_their_ids_and_a_loader_moves_them(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    path = HOME / CASES["parquet_int64_mask_labels"]["entry"]
    reader: Any = tokfmt.open(path, options={"view": "samples"}).reader
    offsets = reader.offsets(0, 30)
    for row, labels in enumerate(pq.read_table(path)["labels"].to_pylist()):
        span = int(offsets[row]), int(offsets[row + 1])
        assert reader.labels(*span).tolist() == labels
        assert reader.next_labels(*span).tolist() == [*labels[1:], -100]
    with pytest.raises(TokfmtError, match="loss-mask"):
        tokfmt.convert(path, tmp_path / "x.pbin", eos=50256)


def test_labels_of_a_row_group_without_a_token(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids, labels = (pa.array(rows, pa.list_(pa.int32())) for rows in ([[], [], [1, 2, 3]], [[], [], [1, -100, 3]]))
    pq.write_table(pa.table({"input_ids": ids, "labels": labels}), tmp_path / "x.parquet", row_group_size=2)
    with tokfmt.open(tmp_path / "x.parquet", options={"view": "samples"}) as dataset:
        assert [one.tolist() for one in dataset] == [[], [], [1, 2, 3]]
        reader: Any = dataset.reader
        assert reader.next_labels(0, 3).tolist() == [-100, 3, -100]


def test_blocks_are_split_only_when_told():
    path = HOME / "packed512_fixed_size_list.parquet"
    with tokfmt.open(path) as rows:
        assert (len(rows), rows.info.sample_length) == (24, 512)
        assert "--eos ID" in rows.info.notes[0]
    with tokfmt.open(HOME / "int32.parquet") as documents, tokfmt.open(path, eos=50256) as found:
        assert [row.tolist() for row in found][:-1] == [row.tolist()[:-1] for row in documents][: len(found) - 1]


def test_text_goes_to_lines_as_it_stands(tmp_path):
    tokfmt.convert(HOME / "text" / "fineweb_like.parquet", tmp_path / "x.jsonl")
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line)["text"] for line in lines] == TEXTS["text_fineweb_like"]


def test_datasets_reads_what_is_written_and_is_read(tmp_path, monkeypatch):
    """Both ways with Hugging Face's own library, where it is installed: folders, dicts of splits, Parquet."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    source = HOME / "save_to_disk"
    with tokfmt.open(source) as dataset:
        expected = [row.tolist() for row in dataset]
    tokfmt.convert(source, tmp_path / "saved", to_format="arrow")
    tokfmt.convert(source, tmp_path / "dict", to_format="arrow", split="train=0.5,test=0.5")
    tokfmt.convert(source, tmp_path / "x.parquet")
    saved = datasets.load_from_disk(str(tmp_path / "saved"))
    assert saved["input_ids"][:] == expected
    split = datasets.load_from_disk(str(tmp_path / "dict"))
    assert sorted(split["train"]["input_ids"][:] + split["test"]["input_ids"][:]) == sorted(expected)
    read = datasets.load_dataset("parquet", data_files=[str(tmp_path / "x.parquet")], split="train")
    assert read["input_ids"][:] == expected
    assert read.features == saved.features
    datasets.DatasetDict(train=saved, test=saved.select([3, 1])).save_to_disk(tmp_path / "theirs")
    saved.to_parquet(tmp_path / "theirs.parquet")
    with tokfmt.open(tmp_path / "theirs", options={"split": "test"}) as dataset:
        assert [row.tolist() for row in dataset] == [expected[3], expected[1]]
    with tokfmt.open(tmp_path / "theirs.parquet") as dataset:
        assert [row.tolist() for row in dataset] == expected


@pytest.mark.parametrize("name", [*GOOD, *TEXT])
def test_good_ones_have_no_findings(name):
    """But for rows that are null, which is noted."""
    case = CASES[name]
    nulls = bool(case.get("null_rows") or case.get("n_null"))
    (verdict,) = tokfmt.check(HOME / case["entry"], deep=not nulls, options=options_of(case))
    assert list(verdict.counts) in ([], ["TF663"] if nulls else [])
    format_ = registered.detect(HOME / case["entry"])
    for section in format_.sections(HOME / case["entry"], format_.read_options()):
        assert not any(field.wrong for field in section.fields(0, section.count))


@pytest.mark.parametrize("name", BAD)
def test_bad_ones_are_refused_and_found(name):
    code, words = BAD[name]
    path = HOME / CASES[name]["entry"]
    with pytest.raises(FormatError, match=words):
        reader = registered.opened(path)
        texts_of(reader) if name == "text_binary_BAD" else reader.tokens(0, reader.info.tokens)
    (verdict,) = tokfmt.check(path, deep=True)
    assert code in verdict.counts


def test_a_record_batch_of_a_flat_column_is_a_document(tmp_path):
    """As fms-fsdp and data-prep-kit write files of Arrow. A stream of such a column has no documents."""
    schema = pa.schema([pa.field("tokens", pa.uint32())])
    documents = [[5, 6, 7], [], [2**32 - 1], list(range(70_000))]
    for name, make in (("x.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with make(str(tmp_path / name), schema) as out:
            for document in documents:
                out.write(pa.record_batch([pa.array(document, pa.uint32())], schema))
    with tokfmt.open(tmp_path / "x.arrow") as dataset:
        assert dataset[:].tolist() == documents
        assert dataset.info.tokens == 70_004
    (report,) = tokfmt.check(tmp_path / "x.arrow", deep=True)
    assert not report.findings
    with pytest.raises(TokfmtError, match="has no column of IDs"):
        tokfmt.open(tmp_path / "stream.arrow")
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), schema) as out:
        out.write(pa.record_batch([pa.array([1, None], pa.uint32())], schema))
    with pytest.raises(FormatError, match="NULL among its IDs"):
        tokfmt.open(tmp_path / "x.arrow")[:]
