"""What is asked for decides what is read: `show` and `open` of a few sequences do not walk the dataset."""

import gzip
import itertools
import json
import sys

import forkserver
import numpy as np
import pytest
import xxhash
from model.separated import split_at
from paths import TOKENIZER

import tokfmt
from tokfmt import show
from tokfmt.core.files import File
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.model.select import Beginning
from tokfmt.ops.convert import manifests
from tokfmt.ops.show import show as shows
from tokfmt.ops.source import open as opening
from tokfmt.text.engine import TextEncoder

COUNT = 30_000  # 15 MB


@pytest.fixture(autouse=True)
def nothing_is_little(monkeypatch):
    monkeypatch.setattr(shows, "_LITTLE", 0)
    monkeypatch.setattr(opening, "_LITTLE", 0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpus")
    lines = [json.dumps({"text": f"document {i} of many " + "x" * (i % 900), "id": i}) + "\n" for i in range(COUNT)]
    (home / "c.jsonl").write_text("".join(lines))
    (home / "c.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), 1))
    (home / "parts").mkdir()
    for k in range(10):
        (home / "parts" / f"p{k}.jsonl").write_text("".join(lines[k * COUNT // 10 : (k + 1) * COUNT // 10]))
    return home


@pytest.fixture
def read(monkeypatch):
    """Bytes read from files, and texts encoded."""
    counts = {"bytes": 0, "texts": 0}
    real, encode, array = File.read_into, TextEncoder.encode, File.array

    def read_into(self, offset, buffer):
        counts["bytes"] += len(buffer)
        return real(self, offset, buffer)

    def encoded(self, texts):
        counts["texts"] += len(texts)
        return encode(self, texts)

    def arrays(self, offset, count, dtype):
        counts["bytes"] += count * np.dtype(dtype).itemsize
        return array(self, offset, count, dtype)

    monkeypatch.setattr(File, "read_into", read_into)
    monkeypatch.setattr(File, "array", arrays)
    monkeypatch.setattr(TextEncoder, "encode", encoded)
    return counts


def texts_of(preview):
    return [shown.text for shown in preview.shown]


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "parts"])
@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
@pytest.mark.parametrize(("selection", "numbers"), [("0", [0]), (None, range(5)), ("7:9", [7, 8]), ("400", [400])])
def test_the_first_sequences_of_text(corpus, read, name, tokenizer, selection, numbers):
    found = texts_of(show(corpus / name, selection, tokenizer=tokenizer))
    assert found == [f"document {i} of many " + "x" * (i % 900) for i in numbers]
    assert read["texts"] == (len(numbers) if tokenizer else 0)
    if name != "c.jsonl.gz":  # whose pieces are what the library gives
        assert read["bytes"] < 1_000_000 * (1 + len(numbers))  # a few pieces of 256 KiB for each, of 15 MB


def test_what_counts_from_the_end_needs_all(corpus):
    assert texts_of(show(corpus / "c.jsonl", "-1", tokenizer=str(TOKENIZER)))[0].startswith(f"document {COUNT - 1} ")
    assert show(corpus / "c.jsonl", "-1").sequences == COUNT
    assert show(corpus / "c.jsonl", "0:3").sequences is None


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "parts"])
def test_open_encodes_what_is_asked_for(corpus, read, name):
    with tokfmt.open(corpus / name, tokenizer=str(TOKENIZER)) as dataset:
        first = dataset[0].tolist()
        assert read["texts"] == 1
        some = dataset[3:6].tolist()
        assert read["texts"] == 4
        assert len(dataset) == COUNT
        last = dataset[-1].tolist()
        assert read["texts"] == 5
        with pytest.raises(IndexError, match=f"no sequence {COUNT} "):
            dataset[COUNT]
        every = [sequence.tolist() for sequence in dataset]
        assert (every[0], every[3:6], every[-1], len(every)) == (first, some, last, COUNT)
        assert dataset.info.sequences == COUNT
        assert dataset.tokens(0, len(first)).tolist() == first


def test_open_takes_another_field(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"body": "some text", "id": 1}\n')
    with tokfmt.open(tmp_path / "x.jsonl", tokenizer=str(TOKENIZER), text_field="body") as dataset:
        assert len(dataset[0])


def test_a_stream_is_scanned_as_far_as_asked(tmp_path, read):
    ids = np.random.default_rng(3).integers(0, 50_000, 1 << 22).astype("<i4")
    ids[199::200] = 50256
    ids.tofile(tmp_path / "stage1_block_0000.bin")
    (tmp_path / "d").mkdir()
    (tmp_path / "stage1_block_0000.bin").rename(tmp_path / "d" / "stage1_block_0000.bin")
    preview = show(tmp_path / "d", "2:4", eos=50256)
    assert [shown.ids for shown in preview.shown] == [ids[400:599].tolist(), ids[600:799].tolist()]
    assert (preview.sequences, preview.tokens, preview.eos_id) == (None, None, 50256)
    assert read["bytes"] < 9 << 20  # two windows and the probes, of 16 MiB
    assert show(tmp_path / "d", "-1", eos=50256).sequences == len(ids) // 200 + 1


@pytest.mark.parametrize("window", [1, 3, 1 << 20])
def test_the_beginning_of_a_stream_holds_what_the_whole_begins_with(monkeypatch, window):
    generator = np.random.default_rng(window)
    monkeypatch.setattr(
        "tokfmt.model.select.windows", lambda a, b, _size=0: ((k, min(b, k + window)) for k in range(a, b, window))
    )
    for _ in range(60):
        stream = generator.integers(0, 3, generator.integers(1, 40))
        stored = MemoryReader(Ragged.of([stream]))
        whole = [stream[a:b].tolist() for a, b in pieces(stream)]
        for documents in range(1, len(whole) + 2):
            beginning = Beginning(stored, 0, documents)
            view = split_at(beginning, 0, jobs=1)
            found = [view.tokens(*view.offsets(i, i + 1).tolist()).tolist() for i in range(view.info.sequences)]
            assert found[:documents] == whole[:documents]
            assert beginning.whole or len(found) == documents


def pieces(stream):
    cuts = [-1, *np.flatnonzero(stream == 0).tolist()]
    cuts += [len(stream)] if cuts[-1] + 1 < len(stream) else []
    return [(a + 1, b) for a, b in itertools.pairwise(cuts)]


def test_the_command_says_no_number_it_did_not_count(tmp_path):
    line = json.dumps({"text": "y" * 1000}) + "\n"
    (tmp_path / "x.jsonl").write_text(line * 6000)
    run = forkserver.run(
        [sys.executable, "-m", "tokfmt", "show", tmp_path / "x.jsonl", "1"], capture_output=True, text=True, check=True
    )
    assert run.stderr.startswith(f"{tmp_path}/x.jsonl: jsonl (")
    assert "records" not in run.stderr


def test_sources_are_read_once_unless_little_or_asked(tmp_path, read, monkeypatch):
    """They may be terabytes, and their checksums cost a pass of their own."""
    source, out = tmp_path / "stage1_block_0000.bin", tmp_path / "out.pbin"
    tokens = np.random.default_rng(1).integers(0, 50_000, 25 * 8192, np.int32)
    tokens[::500] = 50256
    tokens.tofile(source)
    found = []
    for little, asked in ((0, False), (0, True), (1 << 26, False)):
        monkeypatch.setattr(manifests, "LITTLE", little)
        read["bytes"] = 0
        tokfmt.convert(source, out, eos=50256, jobs=2, overwrite=True, checksums=asked)
        said = json.loads((tmp_path / "out.pbin.tokfmt.json").read_bytes())["sources"][0]
        assert said["bytes"] == source.stat().st_size
        found.append((read["bytes"], said["xxh3_128"]))
    (least, none), asked_for, little_one = found
    assert none is None
    assert asked_for == little_one
    assert asked_for == (least + source.stat().st_size, xxhash.xxh3_128(source.read_bytes()).hexdigest())
