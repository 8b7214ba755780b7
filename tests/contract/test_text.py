"""Text files as sources: each document to the last byte, however it is cut, compressed, asked for or told where it is."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import registered
import zstandard
from finishing import finish
from hypothesis import given
from hypothesis import strategies as st
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.errors import CorruptError, DetectionError, FormatError, OptionError, SourceChangedError, UnsafeError
from tokfmt.files.place import LocalPlace
from tokfmt.formats.text import ReadOptions, TextReader
from tokfmt.plugin import Hints

PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))

MARK = "<|endoftext|>"
EOS = 4095


def ids(text):
    return PLAIN.encode(text, add_special_tokens=False).ids


def texts_of(reader, size=1 << 20, first=0, last=None):
    return [text for block in reader.blocks(size, first, last) for batch in reader.texts(block) for text in batch.texts]


LINES = st.lists(
    st.sampled_from(["---", "----", "--", "", "a", "é", " ---", "--- ", "---\r", "\ufeff", "b c" * 9]), max_size=30
)


@given(
    lines=LINES,
    ended=st.booleans(),
    mark=st.sampled_from(["---", "a", " ---"]),
    size=st.integers(1, 40),
    bom=st.booleans(),
)
def test_joined_with_the_separator_documents_are_the_text(tmp_path_factory, lines, ended, mark, size, bom):
    """Cut anywhere, compressed or not, and by number: always the same documents; an oracle of lines says which."""
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    home = LocalPlace(tmp_path_factory.mktemp("texts"))
    data = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    (home / "a.txt").write_bytes(data)
    (home / "b.txt.gz").write_bytes(gzip.compress(data))
    expected, held = [], ""
    given_lines = (data.removeprefix(b"\xef\xbb\xbf")).decode().split("\n")
    given_lines = [line + "\n" for line in given_lines[:-1]] + ([given_lines[-1]] if given_lines[-1] else [])
    for line in given_lines:
        if line.removesuffix("\n").removesuffix("\r") == mark:
            expected.append(held)
            held = ""
        else:
            held += line
    expected += [held] if held else []
    for name in ("a.txt", "b.txt.gz"):
        reader = TextReader([home / name], ReadOptions(separator=mark), Hints())
        assert texts_of(reader) == texts_of(reader, size) == expected
        assert reader.count() == len(expected)
        for number in range(len(expected)):
            assert reader.record(number) == expected[number]
            assert texts_of(reader, size, number) == expected[number:]
            assert texts_of(reader, size, 0, number + 1) == expected[: number + 1]
            place = reader.record_line(number)
            raw = (home / "a.txt").read_bytes()
            assert raw[place.offset :].startswith(expected[number].encode())
            assert place.number == raw[: place.offset].count(b"\n") + 1
            if name == "a.txt" and expected[number]:
                assert reader.record_at(home / name, place.offset) == number
    if "\r" not in text and not bom and not text.startswith("\ufeff"):
        joined = f"{mark}\n".join(expected)
        assert text in (joined, f"{joined}{mark}\n", f"{joined}{mark}")


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


def test_a_file_a_document_or_a_line_between(home):
    """A directory, a pattern, and one file that is split become the same ids; that it was guessed is said."""
    place, texts = home
    expected = [ids(text) for text in texts]
    split = {"options": {"separator": MARK}}
    for name, source, how in (
        ("a", place / "texts", {}), ("b", str(place / "texts" / "t*"), {}), ("c", place / "all.txt", split),
    ):  # fmt: skip
        done = tokfmt.convert(source, place / f"{name}.pbin", tokenizer=str(TOKENIZER), **how)
        with tokfmt.open(place / f"{name}.pbin", eos=EOS) as dataset:
            assert [row.tolist() for row in dataset] == expected, name
        assert any("each text file is read as one document" in note for note in done.notes) == (name != "c")
    done = tokfmt.convert(place / "all.txt", place / "d.pbin", tokenizer=str(TOKENIZER))
    assert done.sequences == 1
    assert any(f"has lines {MARK}, which stay in its text" in note for note in done.notes)
    tokfmt.convert(place / "texts", place / "x.jsonl")
    assert [json.loads(line)["text"] for line in (place / "x.jsonl").read_text().splitlines()] == texts


def test_stats_and_open_of_text_files(home):
    place, texts = home
    report = tokfmt.stats(place / "texts", tokenizer=str(TOKENIZER))
    assert sum(len(ids(text)) for text in texts) == report.datasets[0].tokens
    with tokfmt.open(place / "all.txt", tokenizer=str(TOKENIZER), options={"separator": MARK}) as dataset:
        assert len(dataset) == 30
        assert dataset[17].tolist() == ids(texts[17])


@pytest.mark.parametrize("size", [7, 400])
def test_a_file_that_shrinks_is_noticed(tmp_path, size):
    """Its blocks are cut by the size that it had: once that went round in circles."""
    path = tmp_path / "x.txt"
    path.write_text("a line\n---\n" * 90)
    reader = TextReader([path], ReadOptions(separator="---"), Hints())
    path.write_text("a line\n---\n" * 20)
    with pytest.raises(SourceChangedError, match=r"x\.txt: changed while it was being read"):
        texts_of(reader, size)


@pytest.mark.parametrize(
    ("name", "content", "options", "error", "says"),
    [
        ("x.txt", b"fine\nfin\xe9\n", {}, CorruptError, "x.txt: is not UTF-8 at byte 8: expected UTF-8, found 0xe9"),
        ("x.txt", b"fine\n---\nfin\xe9\n", {"separator": "---"}, CorruptError, "at byte 12"),
        ("x.txt", b"fine" * 99, {"max_document": 99}, UnsafeError, "a document is longer than 99 bytes"),
        ("x.txt.gz", gzip.compress(b"fine" * 99, mtime=0)[:-9], {}, FormatError, "the gzip data ends too early"),
        ("x.txt", b"fine", {"separator": "a\nb"}, OptionError, "is more than one line"),
    ],
)  # fmt: skip
def test_errors(tmp_path, name, content, options, error, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=says):
        tokfmt.convert(tmp_path / name, tmp_path / "x.pbin", tokenizer=str(TOKENIZER), options=options)
    assert [path.name for path in tmp_path.iterdir()] == [name]


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
            registered.detect(tmp_path)
    else:
        assert registered.detect(tmp_path).name == format_


def test_content_overrides_the_name_of_a_text_file(tmp_path):
    """Any format can have the name of a text file."""
    (tmp_path / "a.txt").write_text('{"text": "a"}\n')
    assert registered.detect(tmp_path / "a.txt").name == "jsonl"
    (tmp_path / "b.txt").write_bytes(b"\0\1\2")
    with pytest.raises(DetectionError):
        registered.detect(tmp_path / "b.txt")
    with pytest.raises(OptionError, match="does not write text files"):
        tokfmt.convert(tmp_path / "a.txt", tmp_path / "c.txt", to_format="text", tokenizer=str(TOKENIZER))
