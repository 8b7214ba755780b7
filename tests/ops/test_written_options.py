"""What a dataset was written with, by the manifest beside it, is what it is read with; nobody has to say it again."""

import json
import random
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import forkserver
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import registered
from amount import pairs
from commands import run
from finishing import finish
from made_corpora import prose
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import CorruptError, DetectionError, FormatError, OptionError

VALUES = {
    ("jsonl", "ids_field"): ("tokens", "a.b"),
    ("modalities", "layout"): ("A", "D"),
    ("modalities", "width"): ("2", "4"),
    ("stage1", "seq_len"): ("64", "512", "1024"),
    ("hdf5", "stride"): ("overlap", "disjoint"),
    ("flat-tokens", "split"): ("train", "validation", "none"),
    ("tfrecord", "bare"): ("int32", "int64"),
    ("tfrecord", "field"): ("inputs",),
    ("arrayrecord", "bare"): ("int32",),
    ("arrayrecord", "field"): ("inputs", "ids"),
    ("arrow", "column"): ("tokens",),
    ("arrow", "split"): ("validation",),
    ("datatrove", "width"): ("2", "4"),
    ("litdata", "seq_len"): ("16",),
    ("mds", "column"): ("tokens",),
    ("mds", "dtype"): ("uint16", "uint32", "int32"),
    ("mds", "hashes"): ("sha1", "none"),
    ("nanogpt", "width"): ("2", "4"),
    ("olmo", "width"): ("2", "4", "8"),
    ("parquet", "column"): ("tokens",),
    ("parquet", "split"): ("validation",),
}
"""Values that a writer takes, of each option that its reader has as well."""

NAMES = {
    "jsonl": "out.jsonl", "modalities": "out.pbin", "stage1": "blocks", "hdf5": "out.h5", "flat-tokens": "out.zarr",
    "arrow": "out.arrow", "datatrove": "out.ds", "litdata": "out_chunks", "llmc": "out.bin", "mds": "out_mds", "nanogpt": "train.bin",
    "olmo": "out.npy", "parquet": "out.parquet", "tfrecord": "out.tfrecord", "arrayrecord": "out.array_record",
}  # fmt: skip
CASES = [(name, option, value) for (name, option), values in VALUES.items() for value in values]


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


@pytest.mark.parametrize(("name", "option", "value"), CASES)
def test_manifest_replaces_the_read_option(corpus, tmp_path, name, option, value):
    path, documents = corpus
    out = tmp_path / (NAMES[name] if option != "split" or name == "flat-tokens" else "out")
    tokfmt.convert(path, out, to_format=name, to_options=[f"{option}={value}"], eos=4095, verify=True)
    with tokfmt.open(out) as dataset:
        assert (dataset.format, [list(ids) for ids in dataset]) == (name, documents)
        assert tokfmt.check(out, deep=True)[0].errors == 0


@pytest.mark.parametrize("field", ["body.text", "content"])
def test_text_is_found_in_the_field_it_was_written_to(blocks, tmp_path, field):
    out = tmp_path / "out.jsonl"
    tokfmt.convert(
        blocks[0], out, tokenizer=str(TOKENIZER), to_format="jsonl", to_options={"text-field": field}, verify=True
    )
    assert tokfmt.stats(out).datasets[0].sequences == 40
    assert tokfmt.check(out, deep=True)[0].findings == []


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("options", "words"), [({"text_field": "body"}, {}), ({"ids_field": "tokens"}, {"tokenizer": str(TOKENIZER)})]
)
def test_an_option_of_what_is_not_written_is_refused(blocks, tmp_path, options, words, dry_run):
    with pytest.raises(OptionError) as caught:
        tokfmt.convert(blocks[0], tmp_path / "out.jsonl", to_options=options, dry_run=dry_run, **words)
    assert (caught.value.name, (tmp_path / "out.jsonl").exists()) == (next(iter(options)), False)


BOTH = {"input_ids": [1, 2], "tokens": [3], "text": "a", "body": "b"}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_field_that_an_option_names_is_read_whatever_else_is_there(tmp_path, suffix):
    path, ids = tmp_path / f"x.{suffix}", "ids_field" if suffix == "jsonl" else "column"
    if suffix == "jsonl":
        path.write_text(json.dumps(BOTH) + "\n")
    else:
        table = pa.table({name: [value] for name, value in BOTH.items()})
        (pq.write_table if suffix == "parquet" else feather.write_feather)(table, path)
    for name in ("text", "body"):
        with tokfmt.open(path, text_field=name, tokenizer=str(TOKENIZER)) as dataset:
            assert dataset.text(0) == BOTH[name]
    for name in ("input_ids", "tokens"):
        with tokfmt.open(path, options={ids: name}) as dataset:
            assert dataset[0].tolist() == BOTH[name]
    for options in ({"text_field": "nothere"}, {ids: "nothere"}, {"text_field": ""}, {ids: ""}):
        with pytest.raises((OptionError, FormatError)):
            tokfmt.open(path, options=options)[0]


def test_an_option_without_effect_is_named(blocks, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    with tokfmt.open(tmp_path / "x.jsonl", bos=1, tokenizer=str(TOKENIZER)) as dataset:
        assert any("bos" in note and "no effect" in note for note in dataset.notes)
    with tokfmt.open(blocks[0], text_field="body") as dataset:
        assert any("text" in note and "no effect" in note for note in dataset.notes)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("record", "option"), [({"input_ids": [1]}, "ids_field"), ({"text": "a"}, "text-field")])
def test_missing_field_is_refused(tmp_path, record, option, dry_run):
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(OptionError, match=r"=other: lines are copied as they are, with the field '(text|input_ids)'"):
        tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to_options={option: "other"}, dry_run=dry_run)
    assert not (tmp_path / "out.jsonl").exists()
    (name,) = record
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to_options={option: name})


def test_precedence_of_options_manifest_and_file(blocks):
    with tokfmt.open(blocks[0], options=["seq-len=1024"]) as dataset:
        assert any("partial sample of 512 of 1,024" in note for note in dataset.notes)


@pytest.fixture
def copy(blocks, tmp_path):
    """The blocks again, and their manifest, to be changed."""
    shutil.copytree(blocks[0], tmp_path / "blocks")
    return (
        tmp_path / "blocks",
        tmp_path / "blocks.tokfmt.json",
        json.loads(Path(f"{blocks[0]}.tokfmt.json").read_text()),
    )


def test_a_manifest_of_other_files_is_not_believed(copy):
    path, beside, content = copy
    content["output"]["bytes"] += 1
    beside.write_text(json.dumps(content))
    with pytest.raises(CorruptError, match="contradicts its manifest"), tokfmt.open(path):
        pass
    with tokfmt.open(path, ignore_manifest=True) as dataset:
        assert any("partial sample" in note and "of 8,192" in note for note in dataset.notes)
    assert {one.code for one in tokfmt.check(path)[0].findings} >= {"TF911"}


@pytest.mark.parametrize(
    "options",
    [
        None, 7, [], {"to": None}, {"to": "seq_len=512"}, {"to": [7, None]}, {"to": ["seq_len"]},
        {"to": ["seq_len=many"]}, {"to": ["seq_len=-1"]}, {"to": ["seq_len="]}, {"to": ["view=samples", "gaps=x"]},
        {"to": {"seq_len": 512}}, {"to": ["seq_len=8192"]}, {"to": ["nothing=1"]},
    ],
)  # fmt: skip
def test_unknown_statements_of_a_manifest_are_ignored(copy, options):
    path, beside, content = copy
    beside.write_text(json.dumps({**content, "options": options}))
    with tokfmt.open(path) as dataset:
        assert any("partial sample" in note and "of 8,192" in note for note in dataset.notes)


def test_files_that_join_are_read_with_what_all_their_manifests_say(corpus, tmp_path):
    path, documents = corpus
    for name in ("a", "b"):
        tokfmt.convert(path, tmp_path / f"{name}.jsonl", to_format="jsonl", to_options={"ids_field": "tokens"})
    out = tokfmt.convert([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.pbin")
    assert out.sequences == 2 * len(documents)


def test_stats_of_what_was_prepared_know_its_tokenizer_where_it_is_as_it_was(blocks, copy):
    path, done = blocks
    (told,) = tokfmt.stats(path).datasets
    assert told.ids.vocab_size == 4096
    assert told.ids.most_frequent[0].text is not None
    assert any(f"tokenizer {TOKENIZER}, by the manifest of blocks" in note for note in told.notes)
    other, beside, content = copy
    made_by = content["tokenizer"]
    absent = {**made_by, "name": "/not/there", "path": "not/there"}
    for made in ({**made_by, "digest": "0" * 64}, absent, None):
        beside.write_text(json.dumps({**content, "tokenizer": made}))
        (silent,) = tokfmt.stats(other).datasets
        assert (silent.sequences, silent.ids.vocab_size) == (told.sequences, None)
        assert not any("tokenizer" in note for note in silent.notes)
    (of_both, _) = tokfmt.stats([path, other]).datasets
    assert of_both.ids.vocab_size is None


def test_note_on_many_datasets_is_printed_once(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("some words")
    words = [sys.executable, "-m", "tokfmt", "stats", *(str(tmp_path / f"{number}.txt") for number in range(3))]
    said = forkserver.run(words, check=True, capture_output=True, text=True).stderr
    lines = [line for line in said.splitlines() if "read as one document" in line]
    assert lines == [
        f"note: {tmp_path}/0.txt and 2 more: each text file is read as one document; "
        "--from-opt separator=LINE splits at a line"
    ]


@pytest.mark.parametrize(("name", "file", "eos", "options"), [
    ("nanogpt", "train.bin", 50, {}),
    ("stage1", "stage1_block_0000.bin", 50256, {"seq_len": 16, "shard_size": 64}),
])  # fmt: skip
def test_one_file_is_read_as_the_manifest_of_its_directory_says(tmp_path, name, file, eos, options):
    """Its separator and the length of its samples; not its counts, which are of all files."""
    lines = [json.dumps({"input_ids": [i, i + 1]}) + "\n" for i in range(60, 100)]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "out", to_format=name, eos=eos, to_options=options)
    path = tmp_path / "out" / file
    with tokfmt.open(path) as one, tokfmt.open(tmp_path / "out") as all_:
        assert 20 < len(one) <= len(all_) == 40
        assert [list(ids) for ids in one[:20]] == [list(ids) for ids in all_[:20]]
        assert one.info.eos_id == eos
        assert any("seq_len=16, by the manifest of out" in note for note in one.notes) == (name == "stage1")
    if name == "stage1":
        assert tokfmt.check(path)[0].findings == []
    (tmp_path / "out" / "stage1_block_0009.bin").write_bytes(path.read_bytes())  # the manifest is of other files
    with tokfmt.open(path, format=name) as one:
        assert not any("by the manifest" in note for note in one.notes)


@pytest.mark.parametrize(("name", "width"), [(name, int(value)) for name, option, value in CASES if option == "width"])
def test_verify_reads_the_width_that_was_written(tmp_path, name, width):
    """So few ids do not show how wide they are."""
    (tmp_path / "in.jsonl").write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [7]}\n')
    out = tmp_path / NAMES[name]
    tokfmt.convert(tmp_path / "in.jsonl", out, to_format=name, eos=9, to_options={"width": width}, verify=True)
    with tokfmt.open(out) as dataset:
        assert [ids.tolist() for ids in dataset] == [[1, 2, 3], [7]]


STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.bin"])
def test_a_split_that_is_read_goes_to_one_file(tmp_path, name):
    """`--split` names a split of the source; a file has none to name."""
    words = {"to_format": "nanogpt", "eos": 50_000} if name == "x.bin" else {}
    tokfmt.convert(STORE, tmp_path / name, split="validation", **words)
    there = {"options": {"split": "validation"}}
    with tokfmt.open(tmp_path / name) as found, tokfmt.open(STORE, **there) as held:
        assert [one.tolist() for one in found] == [one.tolist() for one in held]


def test_the_split_of_the_destination_may_have_another_name(tmp_path):
    words = {"split": "validation", "to_format": "llmc", "eos": 50_000}
    tokfmt.convert(STORE, tmp_path / "x", to_options={"split": "val"}, **words)
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["x_val_000000.bin"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x.parquet", {}),
        ("x.arrow", {}),
        ("x.bin", {"to_format": "nanogpt"}),
        ("x_train_000000.bin", {"to_format": "llmc"}),
    ],
)
def test_several_splits_are_not_written_to_one_file(tmp_path, name, words):
    (tmp_path / "in.jsonl").write_text('{"input_ids": [1, 2]}\n{"input_ids": [3]}\n')
    with pytest.raises(OptionError, match=rf"{name} is one file .*Name a folder"):
        tokfmt.convert(tmp_path / "in.jsonl", tmp_path / name, split="train=0.5,val=0.5", eos=9, **words)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def shared(format_):
    return {one.name for one in fields(format_.read_options)} & {one.name for one in fields(format_.write_options)}


def test_every_shared_option_has_a_case():
    there = {(format_.name, name) for format_ in registered.list_formats() for name in shared(format_)}
    assert {*VALUES, ("megatron", "dtype"), ("jsonl", "text_field")} == there


@pytest.mark.parametrize(
    ("name", "named"), pairs(sorted({name for name, _ in VALUES} | {"litdata", "megatron"}), ["data", "data.bin"])
)
def test_manifest_gives_the_format_of_any_name(corpus, tmp_path, name, named):
    """Raw IDs with an unusual separator have no recognizable content; the manifest identifies them."""
    path, documents = corpus
    out = Path(tokfmt.convert(path, tmp_path / named, to_format=name, eos=4095).destination)
    with tokfmt.open(out) as dataset:
        assert (dataset.format, [list(ids) for ids in dataset]) == (name, documents)
    assert tokfmt.diff(path, out).identical
    assert tokfmt.check(out, deep=True)[0].errors == 0
    assert tokfmt.info(out).format == name
    told = Path(f"{out}.tokfmt.json")
    told.write_text(told.read_text().replace('"bytes": ', '"bytes": 1'))
    with pytest.raises((CorruptError, DetectionError)):
        tokfmt.open(out)


def test_unknown_format_in_a_manifest_is_ignored(tmp_path):
    (tmp_path / "data.bin").write_bytes(bytes(range(1, 10)))
    for told in ("nanogtp", None, 7, ["nanogpt"]):
        content = {"schema": "tokfmt.manifest/1", "format": told, "output": {"files": 1, "bytes": 9}}
        (tmp_path / "data.bin.tokfmt.json").write_text(json.dumps(content))
        with pytest.raises(DetectionError):
            tokfmt.open(tmp_path / "data.bin")


def test_shards_of_a_prefix_are_finished_by_the_prefix(corpus, tmp_path):
    path, documents = corpus
    for k in range(2):
        tokfmt.convert(path, tmp_path / "data", to_format="megatron", eos=4095, task=(k, 2))
    assert finish(tmp_path / "data").sequences == len(documents)
    with tokfmt.open(tmp_path / "data") as dataset:
        assert [list(ids) for ids in dataset] == documents


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
    shown = json.loads(run("show", path, "0", "--origin", "--json", check=0).stdout)
    assert "web.jsonl" in json.dumps(shown)
    assert tokfmt.convert(path, tmp_path / "again.pbin").sequences == 40
    plain, stated = (run("show", path, "--raw", *words, check=0) for words in ((), ("--from-opt", "seq_len=512")))
    assert plain.stdout == stated.stdout


def test_a_repaired_copy_is_read_as_the_dataset_was(tmp_path):
    (tmp_path / "in.txt").write_text("some words, and more of them")
    out = tmp_path / "out.jsonl"
    tokfmt.convert(tmp_path / "in.txt", tmp_path / "ids.pbin", tokenizer=str(TOKENIZER))
    tokfmt.convert(tmp_path / "ids.pbin", out, tokenizer=str(TOKENIZER), to_options={"text_field": "body"})
    content = json.loads(Path(f"{out}.tokfmt.json").read_text())
    out.write_bytes("\ufeff".encode() + out.read_bytes())
    del content["output"]
    Path(f"{out}.tokfmt.json").write_text(json.dumps(content))
    run("check", out, "--deep", "--fix", tmp_path / "fixed.jsonl", check=0)
    assert tokfmt.stats(tmp_path / "fixed.jsonl").datasets[0].sequences == 1


def test_recipe_recomputes_its_order_if_a_source_is_read_otherwise(corpus, tmp_path):
    """The key of the cached order, which is kept for so many documents, includes the read options of the manifests."""
    np.tile(np.fromfile(corpus[0], "<u2"), 2400).tofile(tmp_path / "in.npy")
    source = {"format": "olmo", "options": {"width": 2}, "eos": 4095}
    tokfmt.convert(tmp_path / "in.npy", tmp_path / "train.bin", to_format="nanogpt", to_options=["width=2"], **source)
    recipe = tmp_path / "mix.toml"
    recipe.write_text(
        'tokfmt = 1\nto_eos = 4095\nshuffle = "documents"\n[[source]]\npath = "train.bin"\nformat = "nanogpt"\n'
    )

    def largest():
        with tokfmt.open(recipe) as mixed:
            return mixed.tokens(0, 1000).max()

    assert largest() < 4095
    (tmp_path / "train.bin.tokfmt.json").unlink()
    assert largest() > 65_535, "tokens of two bytes are read as those of four"
