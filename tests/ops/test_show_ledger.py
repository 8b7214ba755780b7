"""Ledgers: the record that each piece of each sequence is said to come from holds these tokens, looked up by plain Python."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from commands import run
from made_corpora import FIELDS, SUFFIXES, prose, text_of, written
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.commands.show.show import SourceRequest, show_origins
from tokfmt.commands.show.step import show_step
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    FormatError,
    OptionError,
    SourceChangedError,
    TokfmtError,
    TruncatedError,
)

EOS = 4095
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


def documents_of(path):
    with tokfmt.open(path, eos=EOS) as dataset:
        return [row.tolist() for row in dataset]


def ledger_of(path):
    return Path(f"{path}.ledger").read_bytes(), Path(f"{path}.ledger.json").read_bytes()


def sources(tmp_path):
    """Two files of lines under one pattern, one with an index; a Parquet file of several row groups; a pack."""
    import random

    draw, texts = random.Random(2), []
    for k in range(90):
        texts.append("" if k % 17 == 0 else prose(draw, draw.randrange(3, 60)))
    (tmp_path / "web").mkdir()
    for name, some in (("a", texts[:30]), ("b", texts[30:50])):
        lines = [json.dumps({"text": text}) for text in some]
        lines.insert(3, "")  # a blank line is no record
        (tmp_path / "web" / f"{name}.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"text": texts[50:80]}), tmp_path / "p.parquet", row_group_size=7)
    (tmp_path / "rest.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[80:]))
    tokfmt.convert(tmp_path / "rest.jsonl", tmp_path / "rest.pbin", tokenizer=str(TOKENIZER), eos=EOS)


@pytest.mark.parametrize("whole", ["texts", "texts/*.txt"])
def test_a_text_is_known_by_its_digest(tmp_path, whole):
    """What a recipe reads stands in the manifest; another text of the same size is another."""
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text(f"the text {name}\n")
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "{whole}"\n', "utf-8"
    )
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "c.pbin", ledger=True)
    said = json.loads((tmp_path / "c.pbin.tokfmt.json").read_text())
    named = [tmp_path / "mix.toml", *([tmp_path / "texts"] if whole == "texts" else sorted(tmp_path.glob(whole)))]
    assert [one["path"] for one in said["sources"]] == list(map(str, named))
    assert all(one["xxh3_128"] for one in said["sources"])
    listed = json.loads((tmp_path / "c.pbin.ledger.json").read_text())["sources"]
    assert [one["xxh3_128"] for one in listed] == [
        xxhash.xxh3_128_hexdigest((tmp_path / "texts" / f"{name}.txt").read_bytes()) for name in "ab"
    ]
    (tmp_path / "texts" / "b.txt").write_text("the text c\n")
    (first,) = show_origins(SourceRequest.of(tmp_path / "c.pbin"), "0").shown
    assert first.origins[0].path.endswith("a.txt")
    with pytest.raises(SourceChangedError, match=r"b\.txt: has changed since the ledger was written, by its bytes"):
        list(show_origins(SourceRequest.of(tmp_path / "c.pbin"), "1").shown)


def test_source_given_by_its_prefix(tmp_path):
    """A prefix of a blend list has its manifest and its digest."""
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4]}\n')
    (tmp_path / "sub").mkdir()
    tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "web_text.bin", to_format="megatron", eos=EOS)
    (tmp_path / "sub" / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "../web_text"\n')
    tokfmt.convert(tmp_path / "sub" / "mix.toml", tmp_path / "sub" / "c.pbin", ledger=True)
    (source,) = json.loads((tmp_path / "sub" / "c.pbin.ledger.json").read_text())["sources"]
    assert source["paths"] == ["../web_text.bin"]
    assert source["xxh3_128"]
    first, second = show_origins(SourceRequest.of(tmp_path / "sub" / "c.pbin"), "0:2").shown
    assert [origin.record for one in (first, second) for origin in one.origins] == [0, 1]


def test_a_source_of_ids_is_known_by_its_digest(tmp_path):
    """Another of the same size is another."""
    for name, ids in (("a", [1, 2, 3]), ("b", [4, 5, 6])):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"input_ids": ids}) + "\n")
        tokfmt.convert(tmp_path / f"{name}.jsonl", tmp_path / f"{name}.pbin", eos=EOS)
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "a.pbin"\n')
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "c.pbin", ledger=True)
    for suffix in ("", ".tokfmt.json"):
        shutil.copy(tmp_path / f"b.pbin{suffix}", tmp_path / f"a.pbin{suffix}")
    with pytest.raises(SourceChangedError, match="has changed since the ledger was written, by its manifest"):
        list(show_origins(SourceRequest.of(tmp_path / "c.pbin"), "0").shown)


def test_the_line_and_the_byte(corpora, tmp_path):
    """Of plain and of compressed text; of rows the row group; by way of a dataset that was itself prepared."""
    some = ("books", "papers", "law")
    tokfmt.convert(written(corpora, some, {}, to_eos=EOS), tmp_path / "text.pbin", ledger=True)
    (tmp_path / "again.toml").write_text(
        f'tokfmt = 1\nto_eos = {EOS}\nshuffle = "documents"\n[[source]]\npath = "text.pbin"\n'
    )
    tokfmt.convert(tmp_path / "again.toml", tmp_path / "again.zarr", ledger=True)
    stored = documents_of(tmp_path / "text.pbin")
    for dataset in ("text.pbin", "again.zarr"):
        seen = set()
        for shown in show_origins(SourceRequest.of(tmp_path / dataset, eos=EOS), "0:").shown:
            (origin,) = shown.origins
            text = text_of(origin.path)
            line = text[origin.byte_offset :].split(b"\n")[0]
            assert origin.line == text[: origin.byte_offset].count(b"\n") + 1
            assert line == text.splitlines()[origin.record]
            assert origin.decompressed == (origin.source in SUFFIXES)
            read = json.loads(line)
            read = read["body"]["text"] if origin.source in FIELDS else read["text"]
            assert PLAIN.encode(read, add_special_tokens=False).ids == shown.ids
            assert (origin.start, origin.stop) == (0, shown.length)
            if dataset == "again.zarr":
                ((path, number),) = origin.via
                assert os.path.samefile(path, tmp_path / "text.pbin")
                assert stored[number] == shown.ids
            seen.add(origin.source)
        assert seen == set(some)


def test_a_step_ends_at_the_text(corpora, tmp_path):
    """Of a recipe over what was prepared: each part of each sample, and where its tokens are in the text."""
    tokfmt.convert(written(corpora, ("papers", "law"), {}, to_eos=EOS), tmp_path / "text.pbin", ledger=True)
    (tmp_path / "train.toml").write_text(
        f'tokfmt = 1\nseq_len = 50\nshuffle = "samples"\nto_eos = {EOS}\n[[source]]\npath = "text.pbin"\nselect = "1:"\n'
    )
    for step in range(4):
        for sample in show_step(tmp_path / "train.toml", step=step, batch_size=3).shown:
            for part in sample.parts:
                (origin,) = part.origins
                line = json.loads(text_of(origin.path)[origin.byte_offset :].split(b"\n")[0])
                text = line["body"]["text"] if origin.source in FIELDS else line["text"]
                ids = [*PLAIN.encode(text, add_special_tokens=False).ids, EOS]
                held = ids[part.start : part.stop]
                assert part.ids.tolist() == held
                assert ids[origin.start : origin.stop] == [one for one in held if one != EOS]
    Path(f"{tmp_path}/text.pbin.ledger.json").unlink()
    (drawn,) = show_step(tmp_path / "train.toml", sample=0).shown
    assert {part.origins for part in drawn.parts} == {()}


def test_a_row_of_a_parquet_file(tmp_path):
    sources(tmp_path)
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "p.parquet"\n')
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.pbin", ledger=True, eos=EOS)
    (shown,) = show_origins(SourceRequest.of(tmp_path / "a.pbin"), "17").shown
    (origin,) = shown.origins
    assert (origin.record, origin.line, origin.detail) == (17, None, "row 3 of row group 2")


def prepared(corpora, tmp_path):
    recipe = written(corpora, ["law"], to_eos=EOS)
    tokfmt.convert(recipe, tmp_path / "a.pbin", ledger=True)
    return recipe, tmp_path / "a.pbin"


def test_a_ledger_goes_with_its_dataset(corpora, tmp_path):
    recipe, path = prepared(corpora, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    tokfmt.convert(recipe, path, overwrite=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pbin", "a.pbin.tokfmt.json"]
    with pytest.raises(FormatError, match="has no ledger. Convert its recipe with --ledger"):
        show_origins(SourceRequest.of(path), "0")
    (tmp_path / "a.pbin.ledger").write_bytes(b"mine")
    with pytest.raises(ConversionError, match="has the name of the ledger, and is not one"):
        tokfmt.convert(recipe, path, overwrite=True)
    assert (tmp_path / "a.pbin.ledger").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "key", ["name", "kind", "paths", "format", "bytes", "eos", "options", "text", "split", "allow_loss"]
)
def test_a_ledger_whose_sources_are_damaged(corpora, tmp_path, key):
    """A value of no source is refused before anything is opened; one that a source could have ends in an error, or is read."""
    _, path = prepared(corpora, tmp_path)
    about = json.loads(Path(f"{path}.ledger.json").read_bytes())

    def refusal(change):
        sources = [dict(one) for one in about["sources"]]
        for one in sources:
            change(one)
        Path(f"{path}.ledger.json").write_text(json.dumps({**about, "sources": sources}))
        try:
            list(show_origins(SourceRequest.of(path), "0:").shown)
        except TokfmtError as error:
            return str(error)
        return ""

    assert "is not a ledger of tokfmt" in refusal(lambda one: one.pop(key))
    for value in (3.5, [7], {"a": 1}):
        assert "is not a ledger of tokfmt" in refusal(lambda one: one.update({key: value}))
    for value in ("", [], [""], ["no word"], None, 0):
        assert "\n" not in refusal(lambda one: one.update({key: value}))


def test_a_ledger_that_does_not_fit(corpora, tmp_path):
    _, path = prepared(corpora, tmp_path)
    rows, about = ledger_of(path)

    def refused(kind, match):
        with pytest.raises(kind, match=match):
            list(show_origins(SourceRequest.of(path), "0:").shown)

    for size in (0, 100, 256, len(rows) - 1):
        Path(f"{path}.ledger").write_bytes(rows[:size])
        refused(TruncatedError, r"a.pbin.ledger: is cut: expected .* Convert the recipe again with --ledger")
    Path(f"{path}.ledger").write_bytes(rows + b"\0")
    refused(CorruptError, "does not match a.pbin.ledger.json")
    Path(f"{path}.ledger").write_bytes(rows[:256] + b"\xff" * (len(rows) - 256))
    list(show_origins(SourceRequest.of(path), "0:").shown)  # no row is of sequence 0: nothing is said of it
    Path(f"{path}.ledger").unlink()
    refused(FormatError, "a.pbin.ledger")
    Path(f"{path}.ledger").write_bytes(rows)
    for text in (b"", b"[]", b"{}", about[:-40], about.replace(b"sequences", b"sequence", 1)):
        Path(f"{path}.ledger.json").write_bytes(text)
        refused(CorruptError, "is not a ledger of tokfmt")
    Path(f"{path}.ledger.json").write_bytes(about)
    list(show_origins(SourceRequest.of(path), "0:").shown)
    other = tmp_path / "b.pbin"
    tokfmt.convert(path, other, select="1:", eos=EOS)
    shutil.copy(other, path)
    shutil.copy(f"{other}.tokfmt.json", f"{path}.tokfmt.json")
    refused(CorruptError, "belongs to another a.pbin than the one that is there, by its bytes")


def test_sources_that_have_changed_since(tmp_path):
    sources(tmp_path)
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "rest.jsonl"\n')
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.pbin", ledger=True, eos=EOS)
    with open(tmp_path / "rest.jsonl", "a") as file:
        file.write('{"text": "more"}\n')
    with pytest.raises(SourceChangedError, match="has changed since the ledger was written: expected"):
        list(show_origins(SourceRequest.of(tmp_path / "a.pbin"), "0").shown)
    (tmp_path / "rest.jsonl").unlink()
    with pytest.raises(FormatError, match="rest.jsonl"):
        list(show_origins(SourceRequest.of(tmp_path / "a.pbin"), "0").shown)


def test_the_whole_moves(tmp_path):
    """Paths are relative to the dataset."""
    (tmp_path / "one").mkdir()
    sources(tmp_path / "one")
    (tmp_path / "one" / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "rest.jsonl"\n'
    )
    tokfmt.convert(tmp_path / "one" / "mix.toml", tmp_path / "one" / "a.pbin", ledger=True, eos=EOS)
    (tmp_path / "one").rename(tmp_path / "two")
    (shown,) = show_origins(SourceRequest.of(tmp_path / "two" / "a.pbin"), "1").shown
    assert shown.origins[0].path.endswith("two/rest.jsonl")


@pytest.mark.parametrize("named", ["web_text", "web_text.idx", "web_text.bin"])
def test_parts_of_a_step_have_origins_however_the_source_is_named(tmp_path, named):
    """A ledger belongs to a dataset, whichever of its names a recipe gives."""
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4]}\n')
    (tmp_path / "docs.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "a.jsonl"\n')
    tokfmt.convert(tmp_path / "docs.toml", tmp_path / "web_text.bin", to_format="megatron", ledger=True)
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nseq_len = 6\n[[source]]\npath = "{named}"\n')
    (sample,) = show_step(tmp_path / "mix.toml", sample=0).shown
    parts = list(sample.parts)
    assert [[(Path(one.path).name, one.record) for one in part.origins] for part in parts] == [
        [("a.jsonl", 0)],
        [("a.jsonl", 1)],
    ]
    (tmp_path / "a.jsonl").unlink()  # The samples do not need it.
    (without,) = show_step(tmp_path / "mix.toml", sample=0).shown
    for part, before in zip(without.parts, parts, strict=True):
        assert part.ids.tolist() == before.ids.tolist()
        assert part.origins == ()
        assert "a.jsonl" in part.unread
    (asked,) = show_step(tmp_path / "mix.toml", sample=0, origins=True).shown
    with pytest.raises(FormatError, match=r"a\.jsonl"):
        list(asked.parts)


def test_origins_beside_the_text_of_a_step(tmp_path):
    sources(tmp_path)
    recipe = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "web/*.jsonl"\n'
    (tmp_path / "docs.toml").write_text(recipe)
    tokfmt.convert(tmp_path / "docs.toml", tmp_path / "web.pbin", ledger=True)
    (tmp_path / "mix.toml").write_text('tokfmt = 1\nseq_len = 16\n[[source]]\npath = "web.pbin"\n')
    both = run("show", tmp_path / "mix.toml", "--sample", "0", "--origin", "--text", check=0).stdout
    (sample,) = show_step(tmp_path / "mix.toml", sample=0).shown
    for part in sample.parts:
        assert part.text in both
        assert all(Path(origin.path).name in both for origin in part.origins)
        assert part.origins


def test_a_recipe_of_text_without_a_tokenizer_takes_that_of_the_command(tmp_path):
    sources(tmp_path)
    text = 'tokfmt = 1\n{}[[source]]\npath = "web/*.jsonl"\n'
    (tmp_path / "plain.toml").write_text(text.format(""))
    (tmp_path / "named.toml").write_text(text.format(f'tokenizer = "{TOKENIZER}"\n'))
    tokfmt.convert(tmp_path / "named.toml", tmp_path / "named.pbin", ledger=True)
    tokfmt.convert(tmp_path / "plain.toml", tmp_path / "plain.pbin", ledger=True, tokenizer=str(TOKENIZER))
    assert (tmp_path / "plain.pbin").read_bytes() == (tmp_path / "named.pbin").read_bytes()
    assert ledger_of(tmp_path / "plain.pbin")[0] == ledger_of(tmp_path / "named.pbin")[0]
    with pytest.raises(OptionError, match="tokenizer"):
        tokfmt.convert(tmp_path / "plain.toml", tmp_path / "other.pbin")
