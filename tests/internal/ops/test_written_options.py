"""What a dataset was written with, by the manifest beside it, is what it is read with; nobody has to say it again."""

import json
import random
from dataclasses import fields
from pathlib import Path

import pytest
from made_corpora import prose
from paths import TOKENIZER

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import CorruptError, DetectionError
from tokfmt.ops.check.check import CheckRequest, check
from tokfmt.ops.check.fix import fix
from tokfmt.ops.convert.convert import finish
from tokfmt.ops.show.parts import sections
from tokfmt.ops.show.show import show_origins
from tokfmt.ops.source.manifest import manifest_path
from tokfmt.ops.source.request import SourceRequest

VALUES = {
    ("jsonl", "text_field"): ("body.text", "content"),
    ("jsonl", "ids_field"): ("tokens", "a.b"),
    ("modalities", "layout"): ("A", "D"),
    ("modalities", "width"): ("2", "4"),
    ("stage1", "seq_len"): ("64", "512", "1024"),
    ("hdf5", "stride"): ("overlap", "disjoint"),
    ("flat-tokens", "split"): ("train", "validation", "none"),
    ("arrow", "column"): ("tokens",),
    ("arrow", "split"): ("validation",),
    ("datatrove", "width"): ("2", "4"),
    ("litdata", "seq_len"): ("16",),
    ("llmc", "split"): ("train", "val"),
    ("mds", "column"): ("tokens",),
    ("mds", "dtype"): ("uint16", "uint32", "int32"),
    ("mds", "hashes"): ("sha1", "none"),
    ("megatron", "dtype"): ("uint16", "int32"),
    ("nanogpt", "split"): ("train", "val"),
    ("nanogpt", "width"): ("2", "4"),
    ("olmo", "width"): ("2", "4", "8"),
    ("parquet", "column"): ("tokens",),
    ("parquet", "split"): ("validation",),
}
"""Values that a writer takes, of each option that its reader has as well."""


def shared(format_):
    return {one.name for one in fields(format_.read_options)} & {one.name for one in fields(format_.write_options)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents of ids, also such whose every second id is small, as ids of four bytes look."""
    draw = random.Random(3)
    path = tmp_path_factory.mktemp("corpus") / "in.npy"
    documents = [
        [draw.randrange(1, 4000) if k % 2 == 0 else 3 for k in range(draw.randrange(1, 100) * 2 - 1)] for _ in range(60)
    ]
    source = path.with_name("in.jsonl")
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    tokfmt.convert(source, path, to_format="olmo", eos=4095)
    return path, documents


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """Samples of 512 tokens that were prepared from text, with a ledger."""
    home = tmp_path_factory.mktemp("prepared")
    with (home / "web.jsonl").open("w") as file:
        draw = random.Random(5)
        for _ in range(40):
            file.write(json.dumps({"text": prose(draw, 120)}) + "\n")
    (home / "mix.toml").write_text(f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "web.jsonl"\n')
    done = tokfmt.convert(
        home / "mix.toml", home / "blocks", to_format="stage1", to_options=["seq_len=512"], ledger=True
    )
    return home / "blocks", done


def test_every_shared_option_has_a_case():
    there = {(format_.name, name) for format_ in registry.list_formats() for name in shared(format_)}
    assert set(VALUES) == there


@pytest.mark.parametrize("name", sorted({name for name, _ in VALUES} | {"litdata", "megatron"}))
@pytest.mark.parametrize("named", ["data", "data.bin"])
def test_manifest_gives_the_format_of_any_name(corpus, tmp_path, name, named):
    """Raw IDs with an unusual separator have no recognizable content; the manifest identifies them."""
    path, documents = corpus
    out = Path(tokfmt.convert(path, tmp_path / named, to_format=name, eos=4095).destination)
    with tokfmt.open(out) as dataset:
        assert (dataset.format, [list(ids) for ids in dataset]) == (name, documents)
    assert tokfmt.diff(path, out).identical
    assert tokfmt.check(out, deep=True)[0].errors == 0
    assert sections(out).format == name
    told = manifest_path(out)
    told.write_text(told.read_text().replace('"bytes": ', '"bytes": 1'))
    with pytest.raises((CorruptError, DetectionError)):
        tokfmt.open(out)


def test_unknown_format_in_a_manifest_is_ignored(tmp_path):
    (tmp_path / "data.bin").write_bytes(bytes(range(1, 10)))
    for told in ("nanogtp", None, 7, ["nanogpt"]):
        content = {"schema": "tokfmt.manifest/1", "format": told, "output": {"files": 1, "bytes": 9}}
        manifest_path(tmp_path / "data.bin").write_text(json.dumps(content))
        with pytest.raises(DetectionError):
            tokfmt.open(tmp_path / "data.bin")


def test_shards_of_a_prefix_are_finished_by_the_prefix(corpus, tmp_path):
    path, documents = corpus
    for k in range(2):
        tokfmt.convert(path, tmp_path / "data", to_format="megatron", eos=4095, task=(k, 2))
    assert finish(tmp_path / "data").sequences == len(documents)
    with tokfmt.open(tmp_path / "data") as dataset:
        assert [list(ids) for ids in dataset] == documents


def _fields(raw):
    return [[str(field) for field in part.fields(0, 99)] for part in raw.sections]


def test_samples_of_another_length_are_known_everywhere(blocks, tmp_path):
    path, done = blocks
    with tokfmt.open(path) as dataset:
        documents = [list(ids) for ids in dataset]
        assert any("read with seq_len=512, by the manifest of blocks" in note for note in dataset.notes)
    with tokfmt.open(path, options={"seq_len": 512}) as said:
        assert [list(ids) for ids in said] == documents
        assert not any("seq_len=512" in note for note in said.notes)
    assert len(documents) == done.sequences == 40
    assert tokfmt.stats(path).datasets[0].sequences == 40
    assert tokfmt.check(path, deep=True)[0].findings == []
    assert tokfmt.diff(path.parent / "mix.toml", path).identical
    shown = show_origins(SourceRequest.of(path), "0")
    assert [Path(one.path).name for one in next(iter(shown.shown)).origins] == ["web.jsonl"]
    assert tokfmt.convert(path, tmp_path / "again.pbin").sequences == 40
    raw = _fields(sections(path))
    assert raw == _fields(sections(path, options={"seq_len": 512}))


def test_a_repaired_copy_is_read_as_the_dataset_was(tmp_path):
    (tmp_path / "in.txt").write_text("some words, and more of them")
    out = tmp_path / "out.jsonl"
    tokfmt.convert(tmp_path / "in.txt", tmp_path / "ids.pbin", tokenizer=str(TOKENIZER))
    tokfmt.convert(tmp_path / "ids.pbin", out, tokenizer=str(TOKENIZER), to_options={"text_field": "body"})
    content = json.loads(Path(f"{out}.tokfmt.json").read_text())
    out.write_bytes("\ufeff".encode() + out.read_bytes())
    del content["output"]
    Path(f"{out}.tokfmt.json").write_text(json.dumps(content))
    request = CheckRequest(SourceRequest((out,)), deep=True)
    (verdict,) = check(request)
    fixed = fix(verdict, tmp_path / "fixed.jsonl", request)
    assert fixed.done
    assert tokfmt.stats(tmp_path / "fixed.jsonl").datasets[0].sequences == 1


def test_recipe_recomputes_its_order_if_a_source_is_read_otherwise(corpus, tmp_path, monkeypatch):
    """The key of the cached order includes the read options of the manifests."""
    monkeypatch.setattr("tokfmt.recipes.cache.SMALL", 0)
    tokfmt.convert(corpus[0], tmp_path / "train.bin", to_format="nanogpt", to_options=["width=2"], eos=4095)
    recipe = tmp_path / "mix.toml"
    recipe.write_text(
        'tokfmt = 1\nto_eos = 4095\nshuffle = "documents"\n[[source]]\npath = "train.bin"\nformat = "nanogpt"\n'
    )
    with tokfmt.open(tmp_path / "train.bin", format="nanogpt") as plain, tokfmt.open(recipe) as mixed:
        first = sorted(map(list, mixed))
        assert first == sorted(map(list, plain)) and len(first) == len(corpus[1])
    (tmp_path / "train.bin.tokfmt.json").unlink()
    with tokfmt.open(recipe) as mixed:  # Tokens of two bytes are read as those of four.
        assert sorted(map(list, mixed)) != first
