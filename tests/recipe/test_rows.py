"""What rows of samples are: a recipe that is stored and read again is the recipe, or it is refused."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt.core.errors import ConversionError, LossyConversionError, TokfmtError

EOS = 99
PLACES = (
    ("modalities", "out.pbin", {}), ("hdf5", "out.h5", {}), ("hdf5", "out", {"samples": 3}), ("stage1", "out", {}),
    ("stage1", "out", {"samples": 2}), ("flat-tokens", "out.zarr", {}), ("megatron", "out.bin", {}),
    ("nanogpt", "out.bin", {}), ("olmo", "out", {}), ("llmc", "out.bin", {}), ("litdata", "out", {}),
    ("mds", "out", {}), ("datatrove", "out", {}), ("parquet", "out.parquet", {}), ("arrow", "out", {}),
)  # fmt: skip
"""Formats, the name of what is written, and how it is."""


@st.composite
def recipes(draw):
    """The words of a recipe of one to three weighted sources, and the documents of each."""
    pack = draw(st.sampled_from(["stream", "document", "bestfit"]))
    labels = draw(st.sampled_from(["next", "starts", *(["disjoint"] if pack == "stream" else [])]))
    words = {"tokfmt": 1, "pack": pack, "seq_len": draw(st.integers(1, 9)), "labels": labels, "eos": EOS}
    shuffle = draw(st.sampled_from(["documents", "samples", None]))
    if draw(st.booleans()):
        words["epochs"] = 2
    if shuffle:
        words |= {"shuffle": shuffle, "seed": draw(st.integers(0, 9))}
    document = st.lists(st.integers(1, 60), min_size=1, max_size=15)
    sources = draw(st.lists(st.lists(document, min_size=1, max_size=20), min_size=1, max_size=3))
    return words, sources, draw(st.booleans())


def written(home, words, sources, weighted):
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    for k, documents in enumerate(sources):
        (home / f"s{k}.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
        lines += ["[[source]]", f'path = "s{k}.jsonl"', *([f"weight = 0.{k + 2}"] if weighted else [])]
    (home / "mix.toml").write_text("\n".join(lines) + "\n")
    return home / "mix.toml"


def read_back(path, out, name, how):
    """The lines of a stored recipe: as it is read by itself, masks of its samples left out if need be."""
    for drop in ((), ("loss-mask",)):
        try:
            tokfmt.convert(path, out, from_format=name, drop=drop, overwrite=True, jobs=1, **how)
        except ConversionError as error:
            assert "loss-mask" in str(error)
            continue
        return out.read_bytes()
    return None


@settings(max_examples=30, deadline=None)
@given(recipes(), st.booleans())
@pytest.mark.parametrize(("name", "file", "options"), PLACES)
def test_a_stored_recipe_is_the_recipe_or_refused(name, file, options, tmp_path_factory, mix, manifest):
    """With its manifest and without one; blocks have no place that says what samples are, the manifest alone does."""
    home = tmp_path_factory.mktemp("law")
    path = written(home, *mix)
    try:
        tokfmt.convert(path, home / "direct.jsonl", jobs=1)
    except TokfmtError as error:
        assert "give no sample" in str(error)
        return
    stored = home / file
    try:
        tokfmt.convert(path, stored, to_format=name, to_options=options, verify=True, jobs=1)
    except LossyConversionError as error:
        assert "(99) inside sequences" in str(error)
        return
    how = {}
    if not manifest:
        (home / f"{stored.name}.tokfmt.json").unlink()
        how = {"eos": EOS}
        if name == "stage1":
            how["from_options"] = {"view": "samples", "seq_len": mix[0]["seq_len"]}
    wanted = (home / "direct.jsonl").read_bytes()
    assert read_back(stored, home / "back.jsonl", name, how) == wanted
    shutil.rmtree(home)
