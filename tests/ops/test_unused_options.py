"""Options of formats that the opened dataset does not use are noted; what is noted changes nothing."""

import dataclasses
import json
import typing

import numpy as np
import pytest
import registered
from paths import FIXTURES

import tokfmt
from tokfmt.errors import TokfmtError

EXAMPLES = {
    "array": ("plain", "npz", "tatm", "zarr_rows_v3.zarr"), "arrayrecord": ("raw_i4.array_record", "example_inputs.array_record"),
    "parquet": ("int32.parquet", "packed512_fixed_size_list.parquet"), "litdata": ("torch_int32", "sft"),
    "llmc": ("edu_fineweb_train_000001.bin",), "mds": ("ndarray_int32", "packed256_static", "sft"),
    "megatron": ("gpt2_text_document.bin", "gpt2_text_sentence.bin"), "nanogpt": ("openwebtext",), "olmo": ("part-0-00000.npy",),
    "tfrecord": ("",), "webdataset": ("",), "hdf5": ("corpus_int32",), "modalities": ("D_2byte_gpt2.pbin",),
}  # fmt: skip


def values(hint, default):
    """Some values of the type of an option that are not its default."""
    kinds = [one for part in typing.get_args(hint) or (hint,) for one in typing.get_args(part) or (part,)]
    words = [one for one in kinds if isinstance(one, str | int)] + [1, 2] * (int in kinds) + ["labels"] * (str in kinds)
    return [one for one in words if one != default][:3]


def seen(path, name, options):
    """All that opening a dataset shows, or its error; and the options that a note says are without effect."""
    try:
        with tokfmt.open(
            path, format=name, eos="none", options=options, allow_loss=["fields", "other-files"]
        ) as dataset:
            info, ids = dataset.info, [one.tolist() for one in dataset]
    except TokfmtError as error:
        return str(error), []
    noted = [one for one in options if any(f"--from-opt {one} has no effect" in note for note in info.notes)]
    facts = {key: value for key, value in dataclasses.asdict(info).items() if key != "notes"}
    return (repr(facts), ids), noted


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_option_that_is_noted_as_unused_changes_nothing(name):
    kind, tried = registered.get(name).read_options, 0
    hints = typing.get_type_hints(kind)
    paths = [
        path
        for example in EXAMPLES[name]
        for path in ([FIXTURES / name / example] if example else sorted((FIXTURES / name).iterdir())[:6])
    ]
    for path in paths:
        plain, noted = seen(path, name, {})
        assert noted == []
        if isinstance(plain, str):
            continue
        for field in dataclasses.fields(kind):
            for value in values(hints[field.name], field.default):
                found, noted = seen(path, name, {field.name: value})
                assert not noted or found == plain, (path, field.name, value)
                tried += 1
    assert tried


@pytest.mark.parametrize(
    ("name", "example", "unused"),
    [
        (
            "array",
            "x.npy",
            ("order", "header", "row", "member", "view", "overlap", "bounds", "unit", "fill", "loss_mask"),
        ),
        ("megatron", "gpt2_text_document.bin", ("overlap",)),
        ("mds", "ndarray_int32", ("overlap", "dtype")),
        ("litdata", "torch_int32", ("overlap",)),
        ("arrayrecord", "example_inputs.array_record", ("prefix",)),
    ],
)
def test_options_of_other_kinds_of_a_format_are_noted(name, example, unused, tmp_path):
    path = FIXTURES / name / example
    if name == "array":
        path = tmp_path / example
        np.save(path, np.arange(40, dtype="<u2"))
    hints = typing.get_type_hints(kind := registered.get(name).read_options)
    usual = {field.name: field.default for field in dataclasses.fields(kind)}
    for option in unused:
        (value, *_) = values(hints[option], usual[option])
        assert seen(path, name, {option: value})[1] == [option]


def test_text_with_a_loss_mask_and_what_is_used_or_usual(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": "words"}) + "\n")
    done = tokfmt.convert(path, tmp_path / "y.jsonl", options={"loss_mask": "labels"})
    assert any("--from-opt loss_mask has no effect" in note for note in done.notes)
    for options in ({"width": 2}, {"side": "after"}, {"side": "before"}):
        assert seen(FIXTURES / "nanogpt" / "openwebtext", "nanogpt", options)[1] == []
