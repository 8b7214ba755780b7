"""Reading JSON lines: lines, blocks, selections, indexes of every version, compression, fields, trouble."""

import gzip
import itertools
import json
import pickle
import shutil
import tracemalloc

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import FIXTURES

from tokfmt.core.records import RecordReader
from tokfmt.errors import (
    CorruptError,
    FormatError,
    LossyConversionError,
    MissingDependencyError,
    OptionError,
    UnsafeError,
)
from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl import lines as jsonl_lines
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.plugin import Confidence, Hints, Probe

LINES = FIXTURES / "jsonl"
INDEXES = json.loads((LINES / "expected.json").read_bytes())["idx"]


def reader(*paths, allow_loss=("fields",), **options):
    return FORMAT.open(paths, ReadOptions(**options), Hints(allow_loss=frozenset(allow_loss)))


def texts(source, size=1 << 20, first=0, last=None):
    return [text for block in source.blocks(size, first, last) for batch in source.texts(block) for text in batch.texts]


def ids(source, size=1 << 20, first=0, last=None):
    return [
        ids
        for block in source.blocks(size, first, last)
        for batch in source.ids(block)
        for ids in batch.ragged.tolist()
    ]


def raw(source, size=1 << 20, first=0, last=None):
    return [line for block in source.blocks(size, first, last) for batch in source.lines(block) for line in batch.lines]


def invalid(source, size=1 << 20):
    return sum(batch.invalid for block in source.blocks(size) for batch in source.texts(block))


def blank(source, size=1 << 20):
    return sum(batch.skipped.blank for block in source.blocks(size) for batch in source.texts(block))


def put(path, *lines, end="\n"):
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + end.encode() for line in lines))
    return path


def said(path):
    """The texts of a file by json and split, which shares nothing with the reader."""
    found = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [json.loads(line)["text"] for line in (found[:-1] if not found[-1] else found)]


VALID = ["ascii", "bom", "corpus", "corpus_ascii", "crlf", "nan", "no_trailing_newline", "with_empty_text"]


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("index", ["auto", "none"])
def test_goldens(name, index):
    source = reader(LINES / f"{name}.jsonl", index=index)
    assert isinstance(source, RecordReader)
    assert source.info.kind == "text"
    expected = said(LINES / f"{name}.jsonl")
    for size in (1, 100, 1 << 20):
        assert texts(source, size) == expected
    assert source.count() == len(expected)
    assert source.info.records == (len(expected) if index == "auto" else None)
    assert [source.record(i) for i in range(len(expected))] == expected
    for first, last in ((0, 1), (1, len(expected)), (len(expected) - 1, None), (1, 1), (0, None)):
        assert texts(source, 50, first, last) == expected[first:last]
    for bad in (-1, len(expected)):
        with pytest.raises(IndexError):
            source.record(bad)


HISTORY = sorted(name for name in INDEXES if name.startswith("idx_history/"))


@pytest.mark.parametrize("name", HISTORY, ids=lambda name: name.removeprefix("idx_history/"))
def test_every_version_of_the_index_names_the_same_documents(name, tmp_path):
    stem = name.split("/")[1].split(".")[0]
    text = shutil.copy(LINES / f"{stem}.jsonl", tmp_path / "x.jsonl")
    shutil.copy(LINES / name, tmp_path / "x.idx")
    content = text.read_bytes()
    expected = [
        json.loads(content[offset : (content + b"\n").index(b"\n", offset)])["text"] for offset, n in INDEXES[name] if n
    ]
    missing = len(said(text)) - len(expected)
    assert missing == ("2023-11-07" in name and stem == "no_trailing_newline")
    if missing:
        with pytest.raises(CorruptError, match="leaves out a line of x.jsonl that is JSON"):
            reader(text)
    source = reader(text, index="trust" if missing else "auto")
    assert texts(source) == texts(source, 64) == expected
    assert source.count() == len(expected)
    assert any("leaves out 1 line;" in note for note in source.info.notes) == bool(missing)


@pytest.mark.parametrize("name", ["empty_line", "faulty"])
def test_an_index_made_without_the_faulty_lines(name, tmp_path):
    text = shutil.copy(LINES / f"{name}.jsonl", tmp_path / "x.jsonl")
    if name == "faulty":
        with pytest.raises(CorruptError, match="line 2 is"):
            texts(reader(text))
    else:
        assert len(texts(reader(text))) == 3, "blank lines are no documents, and no error"
    shutil.copy(LINES / f"{name}.drop.idx", tmp_path / "x.idx")
    source = reader(text)
    assert len(texts(source)) == 3
    notes = ("x.idx leaves out 2 lines that are blank or not JSON; --from-opt index=none reads all",)
    assert source.info.notes == notes
    dropping = reader(text, index="none", allow_loss=("fields", "invalid-lines"))
    assert texts(dropping) == texts(source)
    assert (invalid(dropping), dropping.count(), dropping.info.records) == (2 if name == "faulty" else 0, 3, None)
    assert blank(dropping) == 2 - invalid(dropping)


def indexed(path, lines, keep, lengths=len):
    """Write lines and an index of some of them."""
    put(path, *lines)
    offsets = np.cumsum([0] + [len(line.encode()) + 1 for line in lines]).tolist()
    entries = [(offsets[i], lengths(lines[i].encode())) for i in keep]
    path.with_suffix(".idx").write_bytes(pickle.dumps(entries, protocol=4))
    return path


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_indexes_that_leave_lines_out(tmp_path_factory, data):
    count = data.draw(st.integers(0, 9))
    lines = [
        json.dumps({"text": f"{i}" + "ä" * data.draw(st.integers(0, 5))}, ensure_ascii=False) for i in range(count)
    ]
    keep = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
    path = indexed(tmp_path_factory.mktemp("x") / "x.jsonl", lines, keep)
    expected = [json.loads(lines[i])["text"] for i in keep]
    left_out = count - len(keep)
    if left_out:
        first = sum(len(lines[i].encode()) + 1 for i in range(next(i for i in range(count) if i not in keep)))
        with pytest.raises(CorruptError, match=rf"leaves out .* JSON \(.*at byte {first}\).*index=none.*index=trust"):
            reader(path)
    source = reader(path, index="trust")
    assert [note.split("; ")[0] for note in source.info.notes] == (
        [f"x.idx leaves out {left_out} line{'s' if left_out > 1 else ''}"] if left_out else []
    )
    if not expected:
        assert list(source.blocks(1 << 20)) == [] or texts(source) == [] if source.kind == "text" else ids(source) == []
        return
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(keep))] * 2)))
    size = data.draw(st.sampled_from([1, 20, 1000]))
    assert texts(source, size) == expected
    assert texts(source, size, first, last) == expected[first:last]
    assert [source.record(i) for i in range(first, last)] == expected[first:last]


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_no_index_hides_a_document(tmp_path_factory, data):
    """Whatever entries are made longer, shorter, empty or are taken away: the documents of the file, or an error."""
    lines = ['{"text": "%s"}' % ("a" * data.draw(st.integers(0, 4))) for _ in range(data.draw(st.integers(1, 9)))]
    path = indexed(tmp_path_factory.mktemp("x") / "x.jsonl", lines, range(len(lines)))
    entries = pickle.loads(path.with_suffix(".idx").read_bytes())
    changed = data.draw(st.lists(st.sampled_from(range(len(entries))), max_size=3))
    for k in changed:
        length = data.draw(st.sampled_from([0, 1, 5, 12, 13, 14, 40, path.stat().st_size, 10**9, 2**62]))
        entries[k] = (entries[k][0], length)
    entries = entries[: data.draw(st.integers(0, len(entries)))] if data.draw(st.booleans()) else entries
    path.with_suffix(".idx").write_bytes(pickle.dumps(entries, protocol=4))
    expected = said(path)
    try:
        assert texts(reader(path, kind="text"), 20) == expected
        refused = False
    except CorruptError as error:
        refused = True
        assert "index=none" in str(error)
    errors = {f.code for f in FORMAT.audit(path, ReadOptions(kind="text")) if f.severity == "error"}
    assert bool(errors) is refused, "check says as much as the reader"
    assert texts(reader(path, kind="text", index="none")) == expected


def test_an_index_of_another_file_is_found_where_it_is_read(tmp_path):
    """Opening looks at 64 entries; reading at each."""
    lines = [json.dumps({"text": "a" * (i % 7)}) for i in range(500)]
    path = indexed(tmp_path / "x.jsonl", lines, range(500))
    entries = pickle.loads(path.with_suffix(".idx").read_bytes())
    entries[77] = (entries[77][0] + 1, 3)
    path.with_suffix(".idx").write_bytes(pickle.dumps(entries, protocol=4))
    source = reader(path, kind="text")
    for found in (lambda: texts(source), lambda: source.record(77), lambda: texts(source, 100, 0, 77)):
        with pytest.raises(
            CorruptError, match=rf"x\.idx: entry 77 points to byte {entries[77][0]:,}, where no line begins"
        ):
            found()
    assert texts(source, 100, 100, 102) == ["aa", "aaa"]


def test_an_index_of_another_toolkit_is_no_index(tmp_path):
    put(tmp_path / "x.jsonl", '{"text": "a"}')
    for magic in (b"TNTIDX\0\0", b"MMIDIDX\0\0"):
        (tmp_path / "x.idx").write_bytes(magic + bytes(30))
        assert texts(reader(tmp_path / "x.jsonl")) == ["a"]
    assert texts(reader(tmp_path / "x.jsonl")) == ["a"]


# kinds and fields


def test_the_first_record_decides(tmp_path):
    assert reader(put(tmp_path / "a.jsonl", '{"text": "a"}')).info.kind == "text"
    assert reader(put(tmp_path / "b.jsonl", '{"input_ids": [1]}')).info.kind == "ids"
    assert reader(put(tmp_path / "c.jsonl", '{"input_ids": []}')).info.kind == "ids"
    assert reader(put(tmp_path / "d.jsonl")).info.kind == "ids"
    both = reader(put(tmp_path / "e.jsonl", '{"input_ids": [7], "text": "a"}'))
    assert ids(both) == [[7]]
    assert both.info.inferred == (
        'records have both "input_ids" and "text": read as IDs; --from-opt kind=text reads "text"',
    )
    assert texts(reader(tmp_path / "e.jsonl", kind="text")) == ["a"]
    assert texts(reader(put(tmp_path / "f.jsonl", '{"input_ids": "x", "text": "a"}'))) == ["a"]
    dropping = reader(put(tmp_path / "g.jsonl", "{", "", '{"id": 3}', '{"text": "a"}'), allow_loss=("invalid-lines",))
    assert (dropping.info.kind, texts(dropping), invalid(dropping)) == ("text", ["a"], 2)


def test_nothing_is_a_dataset_of_no_ids(tmp_path):
    source = reader(put(tmp_path / "x.jsonl"))
    assert (source.info.kind, source.count(), list(source.blocks(10)), source.info.size) == ("ids", 0, [], 0)


def test_dotted_fields(tmp_path):
    path = put(tmp_path / "x.jsonl", '{"meta": {"text": "a", "ids": [1]}, "n": 1}')
    for field in (".meta.text", "meta.text"):
        assert texts(reader(path, text_field=field)) == ["a"]
    assert ids(reader(path, ids_field=".meta.ids")) == [[1]]
    for field in ("", ".", "a..b", "a.", "a\\b", "a\\"):
        with pytest.raises(OptionError, match="is not a field"):
            reader(path, text_field=field)


@settings(max_examples=examples(60), deadline=None)
@given(
    keys=st.lists(st.one_of(st.integers(0, 2), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)),
                  min_size=1, max_size=3),
    beside=st.booleans(),
)  # fmt: skip
def test_any_path_to_a_text(tmp_path_factory, keys, beside):
    """Names with dots, quotes, backslashes and line breaks; elements of lists; records with other fields or none."""
    keys = ["a", *keys]
    value = "the text"
    for key in reversed(keys):
        value = [None] * key + [value] if isinstance(key, int) else {key: value, **({f"{key}'": 1} if beside else {})}
    path = put(tmp_path_factory.mktemp("x") / "x.jsonl", json.dumps(value), json.dumps(value, ensure_ascii=False))
    field = ".".join(str(key).replace("\\", "\\\\").replace(".", "\\.") for key in keys)
    source = reader(path, kind="text", text_field=field)
    assert texts(source) == ["the text"] * 2
    assert source.record(1) == "the text"
    assert source.info.field == field
    alone = not beside and not any(isinstance(key, int) and key for key in keys)
    strict = reader(path, kind="text", text_field=field, allow_loss=())
    if alone:
        assert texts(strict) == ["the text"] * 2
    else:
        with pytest.raises(LossyConversionError, match="fields beside"):
            texts(strict)


def test_other_fields_are_a_loss(tmp_path):
    path = put(tmp_path / "x.jsonl", '{"text": "a"}', '{"text": "b", "id": 1}')
    source = reader(path, allow_loss=())
    with pytest.raises(
        LossyConversionError,
        match=r'x\.jsonl: cannot store fields beside "text" in line 2 \("id"\)\. .*--allow-loss fields',
    ):
        texts(source)
    assert raw(source) == path.read_bytes().splitlines()  # copied lines keep their fields
    assert source.record(1) == "b"
    with pytest.raises(LossyConversionError):
        texts(reader(path, allow_loss=("invalid-lines",)))


def test_an_id_beyond_32_bits_is_never_dropped(tmp_path):
    path = put(tmp_path / "x.jsonl", '{"input_ids": [1]}', '{"input_ids": [4294967296]}')
    for allow_loss in ((), ("invalid-lines",)):
        with pytest.raises(CorruptError, match="line 2 has the token ID 4,294,967,296") as caught:
            ids(reader(path, allow_loss=allow_loss))
        assert caught.value.offset == 19


def test_an_id_that_is_not_kept_is_not_named(tmp_path):
    path = put(tmp_path / "x.jsonl", '{"input_ids": [1]}', f'{{"input_ids": [{"9" * 30}]}}')
    with pytest.raises(CorruptError, match="line 2 has a token ID of more than 24 digits"):
        ids(reader(path))


# lines


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_any_lines_in_any_blocks(tmp_path_factory, data):
    """Random valid and invalid lines, line ends, block sizes, selections; the oracle is split and json."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    good = text.map(lambda t: json.dumps({"text": t}, ensure_ascii=bool(len(t) % 2)))
    bad = st.sampled_from(["", " ", "{", '{"text": 1}', '{"text": "\\ud83d"}', "[]", "\ufeff{}"])
    lines = data.draw(st.lists(st.one_of(good, good, bad), max_size=12))
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    content = "".join(a + b for a, b in zip(lines, ends, strict=True)).encode()
    content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + content
    if data.draw(st.booleans()):
        content = content.removesuffix(b"\n").removesuffix(b"\r")
    home = tmp_path_factory.mktemp("x")
    path = home / "x.jsonl"
    path.write_bytes(content)
    (home / "x.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))

    found = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = found[:-1] if not found[-1] else found
    expected, kept = [], []
    for line in found:
        try:
            value = json.loads(line.decode())["text"]
            value.encode()
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        expected.append(value)
        kept.append(line.removesuffix(b"\r"))
    blanks = sum(not line.strip(b" \r") for line in found)
    size = data.draw(st.sampled_from([1, 7, 30, 1000]))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(expected))] * 2)))
    for name in ("x.jsonl", "x.jsonl.gz"):
        source = reader(home / name, kind="text", allow_loss=("invalid-lines", "fields"))
        assert source.count() == len(expected)
        assert texts(source, size) == expected
        assert raw(source, size) == kept
        assert invalid(source, size) == len(found) - len(expected) - blanks
        assert blank(source, size) == blanks
        assert texts(source, size, first, last) == expected[first:last]
        assert raw(source, size, first, last) == kept[first:last]
        assert [source.record(i) for i in range(first, last)] == expected[first:last]
        strict = reader(home / name, kind="text")
        if len(expected) == len(found) - blanks:
            assert texts(strict, size) == expected
        else:
            with pytest.raises(FormatError, match=r"line \d"):
                texts(strict, size)


def test_errors_name_the_line_and_the_byte(tmp_path):
    lines = ['{"text": "ä"}'] * 1000
    path = put(tmp_path / "x.jsonl", *lines, "{broken", *lines)
    source = reader(path)
    for size in (1, 100, 1 << 20):
        with pytest.raises(
            CorruptError, match=r"line 1,001 is not valid JSON .* at byte 15,001: found the character b"
        ) as caught:
            texts(source, size)
        assert caught.value.offset == 15_001
    with pytest.raises(CorruptError, match=r"line 1,001 .*--allow-loss invalid-lines"):
        source.record(1000)
    assert source.record(1001) == "ä"


def test_a_long_line_is_refused_before_it_is_held(tmp_path):
    path = tmp_path / "x.jsonl"
    with open(path, "wb") as file:
        file.write(b'{"text": "a"}\n')
        file.truncate(1 << 40)
    source = reader(path, max_line=1 << 22)
    tracemalloc.start()
    with pytest.raises(UnsafeError, match=r"line 2 is longer than 4,194,304 bytes at byte 14"):
        texts(source, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


# files


def test_files_and_directories_are_one_dataset(tmp_path):
    home = tmp_path / "parts"
    home.mkdir()
    for number in (10, 9, 1):
        put(home / f"part-{number}.jsonl", f'{{"text": "{number}.0"}}', f'{{"text": "{number}.1"}}')
    (home / "part-11.jsonl.gz").write_bytes(gzip.compress(b'{"text": "11.0"}\n{"text": "11.1"}', mtime=0))
    indexed(home / "part-2.jsonl", [f'{{"text": "2.{i}"}}' for i in range(4)], [1, 3])
    (home / "readme.md").touch()
    (home / ".part-3.jsonl").write_text("{")
    source = reader(home, index="trust")
    expected = ["1.0", "1.1", "2.1", "2.3", "9.0", "9.1", "10.0", "10.1", "11.0", "11.1"]
    assert texts(source) == expected
    assert source.count() == 10
    assert not source.info.random_access
    assert source.info.extras["files"] == 5
    assert [source.record(i) for i in range(10)] == expected
    for first in range(10):
        for last in range(first, 11):
            assert texts(source, 5, first, last) == expected[first:last]
    paths = [home / "part-10.jsonl", home / "part-1.jsonl", home]
    assert texts(reader(*paths, index="trust")) == ["10.0", "10.1", "1.0", "1.1", *expected]
    with pytest.raises(CorruptError, match=r"part-10\.jsonl: line 3"):
        put(home / "part-10.jsonl", '{"text": "a"}', '{"text": "b"}', "{")
        texts(reader(home, index="trust"))


def test_a_byte_order_mark_an_index_and_invalid_lines_together(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n{\n{"text": "b"}\n')
    path.with_suffix(".idx").write_bytes(pickle.dumps([(0, 16), (17, 1), (19, 13)], protocol=4))
    source = reader(path, allow_loss=("invalid-lines",))
    assert texts(source, 1, 0, 2) == texts(source, 99) == ["a", "b"]
    assert texts(source, 99, 0, 1) == ["a"]
    assert [source.record(i) for i in range(2)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_damaged_compression_is_an_error_or_harmless(tmp_path, kind):
    content = b"".join(json.dumps({"text": f"{i}" * 9}).encode() + b"\n" for i in range(40))
    if kind == "gz":
        whole = gzip.compress(content, mtime=0)
    else:
        zstandard = pytest.importorskip("zstandard")
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    path = tmp_path / f"x.jsonl.{kind}"
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            try:
                found = b"".join(jsonl_lines.TextFile(path).pieces())
            except FormatError as error:
                assert "\n" not in str(error)
            else:
                assert found == content


PIECE = jsonl_lines.PIECE


def test_lines_and_blocks_larger_and_smaller_than_a_piece(tmp_path):
    expected = ["a" * n for n in (0, 1, 50, PIECE - 13, PIECE - 12, PIECE, 2 * PIECE, 1, 1, 1)]
    path = put(tmp_path / "x.jsonl", *(json.dumps({"text": text}) for text in expected))
    source = reader(path)
    for size in (1, PIECE - 1, PIECE, PIECE + 1, 20 * PIECE):
        assert texts(source, size) == expected
        assert texts(source, size, 3, 9) == expected[3:9]
    assert [source.record(i) for i in range(10)] == expected
    assert source.blocks(PIECE)[0].start == 0
    assert source.blocks(PIECE)[-1].stop == path.stat().st_size


def test_zstandard(tmp_path, monkeypatch):
    zstandard = pytest.importorskip("zstandard")
    content = b"".join(json.dumps({"text": f"{i}" * 40}).encode() + b"\n" for i in range(5000))
    path = tmp_path / "x.jsonl.zst"
    frames = [zstandard.compress(content[:1000]), b"\x50\x2a\x4d\x18\x03\0\0\0abc", zstandard.compress(content[1000:])]
    path.write_bytes(b"".join(frames))
    source = reader(path)
    assert texts(source) == [f"{i}" * 40 for i in range(5000)]
    assert texts(source, 1, 4990, 4992) == ["4990" * 40, "4991" * 40]
    assert source.info.notes == (
        "compressed lines are read from their start, so a record near the end takes as long as the whole file",
    )
    assert FORMAT.open((path,), ReadOptions(), Hints(collect_invalid=True)).info.notes == ()  # a conversion
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    for damaged, error in (
        (whole[:-1], "ends too early"), (whole[:3], "is not a zstandard file"), (whole[:-1] + b"x", "is damaged"),
        (whole[:100] + b"\xff" * 9 + whole[109:], "is damaged"), (whole + b"tail", "ends too early|is damaged"),
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=error):
            texts(reader(path))
    path.write_bytes(zstandard.compress(b" " * (600 << 20)))  # 20 KB
    with pytest.raises(UnsafeError, match="line 1 is longer than 1,000 bytes"):
        reader(path, max_line=1000)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(MissingDependencyError, match=r"pip install zstandard"):
        reader(path)


def probe(path):
    """What a format is given to look at."""
    if path.is_dir():
        return Probe(path, True, entries=tuple(sorted(one.name for one in path.iterdir())))
    content = path.read_bytes()
    return Probe(path, False, len(content), content[: 1 << 16], content[-(1 << 16) :])


def test_compressed_by_content_not_by_name(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n', mtime=0))
    assert texts(reader(path)) == ["a"]
    assert FORMAT.sniff(probe(path)) is Confidence.CERTAIN


def test_readers_travel_to_other_processes(tmp_path):
    lines = [json.dumps({"text": f"{i}" * 9}) for i in range(200)]
    path = put(tmp_path / "x.jsonl", *lines)
    offsets = np.cumsum([0] + [len(line) + 1 for line in lines]).tolist()
    (tmp_path / "x.idx").write_bytes(pickle.dumps([(offsets[i], len(lines[i])) for i in range(0, 200, 2)], protocol=4))
    source = reader(path, index="trust")
    blocks = source.blocks(2000, 3, 90)
    assert len(blocks) > 3
    there = pickle.loads(pickle.dumps(source))
    found = [text for block in blocks for batch in there.texts(block) for text in batch.texts]
    assert found == [f"{i}" * 9 for i in range(6, 180, 2)]


@pytest.mark.parametrize(
    ("name", "content", "confidence"),
    [
        ("x.jsonl", b'{"a": 1}\n', Confidence.CERTAIN),
        ("x.ndjson", b'\xef\xbb\xbf\n {"a": 1}', Confidence.CERTAIN),
        ("x.json", b'{"a": 1}\n{"a": 2}\n', Confidence.STRUCTURE),
        ("x.bin", b'{"a": 1}\r\n{"a": 2}\n', Confidence.STRUCTURE),
        ("x", b'{"text": "' + b"a" * 70_000 + b'"}\n', Confidence.PLAUSIBLE),
        ("x.jsonl", b'{"text": "' + b"a" * 70_000 + b'"}\n', Confidence.STRUCTURE),
        ("x.jsonl", b"", Confidence.STRUCTURE),
        ("x.jsonl", b"{broken\n", Confidence.NAME),
        ("x.jsonl", b"\xff\xfe{\0", Confidence.NAME),
        ("x.jsonl.gz", b"\x1f\x8bnot", Confidence.NAME),
        ("x.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), Confidence.STRUCTURE),
        ("x.jsonl.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), Confidence.CERTAIN),
        ("x", b"", None),
        ("x.json", b"", None),
        ("x.json", b'[\n{"a": 1}\n]\n', None),
        ("x.json", b'[{"a": 1}]\n', None),
        ("x.json", b'{\n "a": 1\n}\n', None),
        ("x.csv", b"a,b\n1,2\n", None),
        ("x.txt", b"plain\n", None),
        ("x", b"{}\n", None),
        ("x.idx", pickle.dumps([(0, 1)], protocol=4), None),
    ],
)
def test_sniff(tmp_path, name, content, confidence):
    (tmp_path / name).write_bytes(content)
    assert FORMAT.sniff(probe(tmp_path / name)) == confidence


def test_sniff_directories(tmp_path):
    assert FORMAT.sniff(probe(tmp_path)) is None
    (tmp_path / "a.jsonl.zst").touch()
    assert FORMAT.sniff(probe(tmp_path)) is Confidence.STRUCTURE


@pytest.mark.parametrize("cuts", [[], [1], [1, 500, 500], [PIECE - 1, PIECE, PIECE + 1]])
def test_gzip_in_members_of_any_size(tmp_path, cuts):
    content = b'{"text": "' + b"a" * PIECE + b'"}\n' + b'{"text": ""}\n' * 300 + b'{"text": "' + b"xyz" * 999 + b'"}\n'
    path = tmp_path / "x.jsonl.gz"
    bounds = [0, *cuts, len(content)]
    path.write_bytes(b"".join(gzip.compress(content[a:b]) for a, b in itertools.pairwise(bounds)))
    assert b"".join(jsonl_lines.TextFile(path).pieces()) == content
    assert len(texts(reader(path))) == 302
