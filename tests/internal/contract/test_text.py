"""Text files as sources: each document to the last byte, however it is cut, compressed, asked for or told where it is."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import DetectionError, OptionError
from tokfmt.core.format import Hints
from tokfmt.formats.text import ReadOptions, TextReader
from tokfmt.ops.convert.convert import finish
from tokfmt.ops.provenance import ROW
from tokfmt.ops.show.parts import sections

PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))

MARK = "<|endoftext|>"
EOS = 4095


def ids(text):
    return PLAIN.encode(text, add_special_tokens=False).ids


@pytest.fixture
def home(tmp_path):
    texts = [f"Text {number}:\n" + "words of it, Ærø, 字\n" * (number % 7) for number in range(30)]
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(texts):
        name = tmp_path / "texts" / f"t{number}.{'md' if number % 5 == 0 else 'txt'}"
        if number % 3 == 1:
            name.with_name(f"{name.name}.gz").write_bytes(gzip.compress(text.encode()))
        elif number % 3 == 2:
            name.with_name(f"{name.name}.zst").write_bytes(zstandard.compress(text.encode()))
        else:
            name.write_bytes(text.encode())
    (tmp_path / "texts" / "README.md").write_text("what this is")
    (tmp_path / "all.txt").write_text(f"{MARK}\n".join(texts))
    return tmp_path, texts


def test_shards_jobs_and_a_selection(home):
    place, texts = home
    words = {"tokenizer": str(TOKENIZER), "options": {"separator": MARK}}
    tokfmt.convert(place / "all.txt", place / "whole.pbin", jobs=1, **words)
    tokfmt.convert(place / "all.txt", place / "jobs.pbin", jobs=3, executor="threads", **words)
    for index in (1, 0):
        tokfmt.convert(place / "all.txt", place / "parts.pbin", task=(index, 2), **words)
    finish(place / "parts.pbin")
    assert len({(place / f"{name}.pbin").read_bytes() for name in ("whole", "jobs", "parts")}) == 1
    tokfmt.convert(place / "texts", place / "some.pbin", tokenizer=str(TOKENIZER), select="7:19")
    with tokfmt.open(place / "some.pbin", eos=EOS) as dataset:
        assert [row.tolist() for row in dataset] == [ids(text) for text in texts[7:19]]


@pytest.mark.parametrize("shuffle", ["none", "documents"])
def test_in_a_recipe_with_a_ledger(home, shuffle):
    """Every row ends at its file, line and byte."""
    place, texts = home
    (place / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\nshuffle = "{shuffle}"\n[[source]]\npath = "texts"\n'
        f'[[source]]\npath = "all.txt"\noptions = {{ separator = "{MARK}" }}\ntokens = 300\n'
    )
    done = tokfmt.convert(place / "mix.toml", place / "out.pbin", eos=EOS, ledger=True)
    rows = np.load(place / "out.pbin.ledger")
    listed = json.loads((place / "out.pbin.ledger.json").read_text())["sources"]
    assert rows.dtype == ROW
    assert len(rows) == done.sequences > len(texts)
    with tokfmt.open(place / "out.pbin", eos=EOS) as dataset:
        for row, found in zip(rows, dataset, strict=True):
            source = listed[row["source"]]
            reader = TextReader(
                [place / source["paths"][0]],
                ReadOptions(**dict(word.split("=", 1) for word in source["options"])),
                Hints(),
            )
            assert ids(reader.record(int(row["record"]))) == found.tolist()
    assert [Path(one["paths"][0]).name for one in listed][:4] == ["t0.md", "t1.txt.gz", "t2.txt.zst", "t3.txt"]


def test_the_parts_of_files(home):
    """Each document where it lies, and bytes that are it; of a directory, a file that is no UTF-8 is said."""
    place, texts = home
    raw = sections(place / "all.txt", options={"separator": MARK})
    start, documents = raw.sections
    assert (start.title, documents.title, documents.count) == ("start of all.txt", "documents", len(texts))
    for number, (field, text) in enumerate(zip(documents.fields(0, 99), texts, strict=True)):
        assert (field.name, raw.bytes_of(documents, field, 1 << 20)) == (f"document {number}", text.encode())
        assert field.meaning == f"{len(text):,} characters of all.txt"
    (documents,) = sections(place / "texts").sections
    assert [field.meaning.split()[0] for field in documents.fields(0, 99)] == [f"{len(text):,}" for text in texts]
    (place / "bad").mkdir()
    for name, content in (("a.txt", b"good"), ("b.txt", b"caf\xe9")):
        (place / "bad" / name).write_bytes(content)
    (documents,) = sections(place / "bad").sections
    assert [field.wrong for field in documents.fields(0, 9)] == [False, True]
    assert "is not UTF-8" in documents.fields(1, 2)[0].value


@pytest.mark.parametrize(
    ("names", "format_"),
    [
        (["a.txt"], "text"), (["a.md", "b.rst.gz"], "text"), (["README.md", "a.txt"], "text"),
        (["README.md"], None), (["a.txt", "b.csv"], None), (["a.txt", "b.jsonl"], "jsonl"),
    ],
)  # fmt: skip
def test_directories_that_hold_nothing_else(tmp_path, names, format_):
    for name in names:
        (tmp_path / name).write_text('{"text": "a"}\n' if name.endswith("jsonl") else "a\n")
    if format_ is None:
        with pytest.raises(DetectionError, match="no format recognizes"):
            registry.detect(tmp_path)
    else:
        assert registry.detect(tmp_path).name == format_


def test_content_overrides_the_name_of_a_text_file(tmp_path):
    """Any format can have the name of a text file."""
    (tmp_path / "a.txt").write_text('{"text": "a"}\n')
    assert registry.detect(tmp_path / "a.txt").name == "jsonl"
    (tmp_path / "b.txt").write_bytes(b"\0\1\2")
    with pytest.raises(DetectionError):
        registry.detect(tmp_path / "b.txt")
    with pytest.raises(OptionError, match="does not write text files"):
        tokfmt.convert(tmp_path / "a.txt", tmp_path / "c.txt", to_format="text", tokenizer=str(TOKENIZER))
