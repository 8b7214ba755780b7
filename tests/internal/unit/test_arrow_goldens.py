"""Parquet and Arrow read what upstream wrote: documents and texts by their digests, masks and boundaries; bad ones are refused."""

import hashlib
import json

import numpy as np
import pytest
from paths import FIXTURES

from tokfmt import registry
from tokfmt.core.errors import FormatError
from tokfmt.ops.source.open import open_source

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


def texts_of(reader, size=1 << 12, **which):
    return [text for block in reader.blocks(size, **which) for batch in reader.texts(block) for text in batch.texts]


@pytest.mark.parametrize("name", [name for name in GOOD if CASES[name].get("kind") == "packed"])
def test_packed_rows_have_masks_and_boundaries(name):
    case = CASES[name]
    reader = open_source([HOME / case["entry"]], options={"view": "samples"}).reader
    offsets, total = reader.offsets(0, reader.info.sequences), reader.info.tokens
    assert np.diff(offsets).tolist() == case["row_lengths"]
    mask, begins, labels = reader.masks(0, total), reader.begins(0, total), reader.labels(0, total)
    assert hashlib.sha256(mask.tobytes()).hexdigest() == case["loss_mask_sha256"]
    assert np.add.reduceat(begins, offsets[:-1]).tolist() == case["row_docs"]
    assert np.diff([*np.flatnonzero(begins), total]).tolist() == case["doc_lengths"]
    counted = np.flatnonzero(labels != -100)
    assert np.array_equal(labels[counted], reader.tokens(0, total)[counted + 1])
    assert (mask[counted] == 1).all()


@pytest.mark.parametrize("name", TEXT)
def test_texts(name):
    case = CASES[name]
    opened = [HOME / case["entry"]], {"options": options_of(case)}
    if case["n_null"]:
        with pytest.raises(FormatError, match="NULL"):
            texts_of(open_source(opened[0], **opened[1]).reader)
    reader = open_source(opened[0], allow_loss=["null-rows"], **opened[1]).reader
    expected = [text or "" for text in TEXTS[name]]
    assert reader.count() == len(expected) == case["n_texts"]
    for size in (1, 1 << 10, 1 << 30):
        assert texts_of(reader, size) == expected
    assert texts_of(reader, 1, first=3 % len(expected), last=len(expected) - 1) == expected[3 % len(expected) : -1]
    assert [reader.record(k) for k in range(len(expected))] == expected


@pytest.mark.parametrize("name", [name for name in TEXT if CASES[name].get("ambiguous")])
def test_several_columns_of_text_are_listed(name):
    with pytest.raises(FormatError, match=r"several columns of text: found .*(lang|prompt): string.*column=NAME"):
        open_source([HOME / CASES[name]["entry"]])


@pytest.mark.parametrize("name", BAD)
def test_bad_ones_are_refused_and_reported(name):
    code, words = BAD[name]
    path = HOME / CASES[name]["entry"]
    with pytest.raises(FormatError, match=words):
        reader = open_source([path]).reader
        texts_of(reader) if name == "text_binary_BAD" else reader.tokens(0, reader.info.tokens)
    format_ = registry.detect(path)
    assert [finding.code for finding in format_.check(path, format_.read_options())] == [code]


@pytest.mark.parametrize("name", [*GOOD, *TEXT])
def test_nothing_is_found_in_good_ones(name):
    case = CASES[name]
    path = HOME / case["entry"]
    format_ = registry.detect(path)
    found = list(format_.check(path, format_.read_options(**options_of(case))))
    assert [finding.code for finding in found] in ([], ["TF663"] if case.get("null_rows") or case.get("n_null") else [])
    for section in format_.sections(path, format_.read_options()):
        assert not any(field.wrong for field in section.fields(0, section.count))


def test_splits_are_named():
    for entry, others in (("dataset_dict", ("validation",)), ("text/hub", ("validation",))):
        source = open_source([HOME / entry])
        assert source.reader.info.other_splits == others
        assert open_source([HOME / entry], options={"split": "validation"}).reader.info.split == "validation"
    with pytest.raises(FormatError, match="no split test: found train, validation"):
        open_source([HOME / "dataset_dict"], options={"split": "test"})
