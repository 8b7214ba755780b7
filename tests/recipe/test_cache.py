"""What is found out of sources once a machine: the same samples, nothing opened that is not read, never out of date."""

import errno
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time

import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from reads import asked_of

import tokfmt
from tokfmt.errors import LoaderWarning
from tokfmt.mix import cache

FILES = 70


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    lines = [json.dumps({"input_ids": rng.integers(1, 99, rng.integers(1, 30)).tolist()}) for _ in range(40)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "f0_document.bin", to_format="megatron", eos=0, manifest=False)
    for k in range(1, FILES):
        for suffix in ("bin", "idx"):
            shutil.copy(tmp_path / f"f0_document.{suffix}", tmp_path / f"f{k}_document.{suffix}")
    return tmp_path


def opened(corpus, **words):
    return tokfmt.recipe(
        [str(corpus / "f*_document.bin")], **{"seq_len": 32, "to_eos": 0, "shuffle": "samples", **words}
    )


FIELDS = ["input_ids", "labels", "position_ids", "document_ids", "cu_seqlens"]


def test_a_file_that_changes_later_is_noticed_when_it_is_read(corpus):
    opened(corpus)
    view = opened(corpus)
    content = (corpus / "f5_document.bin").read_bytes()
    (corpus / "f5_document.bin").write_bytes(content + b"  ")
    with pytest.raises(tokfmt.TokfmtError, match="changed while"):
        view.samples(range(len(view)))


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b"\xff", b'{"seen": 3}', b'[[["x"]]]', b"null"])
def test_a_damaged_cache_is_found_out_again(corpus, damage):
    before = opened(corpus).samples(range(5))
    kept = list((corpus / "cache/tokfmt/recipes").glob("*.json"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(damage)
    after = opened(corpus).samples(range(5))
    assert all((after[name] == before[name]).all() for name in after)


def test_a_cache_that_cannot_be_written_to_is_done_without(corpus, monkeypatch):
    (corpus / "file").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(corpus / "file"))
    assert len(opened(corpus)) == len(opened(corpus)) > 0


def test_a_user_without_a_home(corpus, monkeypatch):
    """In containers: the number of a user whom nobody knows."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.chdir(corpus)
    before = sorted(corpus.iterdir())
    assert len(opened(corpus)) > 0
    assert sorted(corpus.iterdir()) == before


def test_a_full_cache_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def full(fd):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", full)
    (column,) = cache.columns("k" * 40, 1 << 21, ["x"], lambda: iter([(np.arange(200_000),)]))
    assert column.path is None
    assert (column.array == np.arange(200_000)).all()
    assert [path.suffix for path in (tmp_path / "tokfmt/recipes").iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_to_is_a_note(corpus, monkeypatch):
    """Once, whatever was to be kept; none where it can be written, or where nothing was to be kept."""
    assert not [note for note in opened(corpus).notes if "cache" in note]
    (corpus / "file").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(corpus / "file"))
    small = tokfmt.recipe([corpus / "f0_document.bin"], seq_len=32, to_eos=0)
    assert not [note for note in small.notes if "cache" in note]
    inner = f'tokfmt = 1\nto_eos = 0\n[[source]]\npath = "{corpus}/f*_document.bin"\n'
    (corpus / "inner.toml").write_text(inner)
    outer = {"sources": [corpus / "inner.toml"], "seq_len": 32, "to_eos": 0}
    for view in (opened(corpus, shuffle="documents"), tokfmt.open(corpus / "inner.toml"), tokfmt.recipe(**outer)):
        (note,) = (note for note in view.notes if "cache" in note)
        assert f"{corpus}/file/tokfmt/recipes: Not a directory" in note
        assert note.endswith("Set XDG_CACHE_HOME to a directory that you may write to")


BUILDS = """
import time
import numpy as np
from tokfmt.mix import cache

def parts():
    yield (np.arange(200_000),) * 2
    print("written", flush=True)
    time.sleep(60)
    yield (np.arange(200_000),) * 2

cache.columns("a" * 40, 1 << 21, ["x", "y"], parts)
"""


def test_cache_removes_files_of_killed_processes_only(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def kept(key):
        return cache.columns(key * 40, 1 << 21, ["x", "y"], lambda: iter([(np.arange(200_000),) * 2]))[0].path

    def hidden():
        return sorted(path.name[1:2] for path in (tmp_path / "tokfmt/recipes").iterdir() if path.name.startswith("."))

    process = forkserver.Popen([sys.executable, "-c", BUILDS], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "written\n"
    kept("b")
    assert hidden() == ["a", "a"], "it still writes them"
    process.kill()
    process.communicate()
    kept("c")
    assert hidden() == []
    (tmp_path / "tokfmt/recipes" / f".{'a' * 40}-x.i64.left").write_bytes(b"")
    kept("a")
    assert hidden() == []


def test_unused_cache_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def kept(key):
        return cache.columns(key * 40, 1 << 21, ["x"], lambda: iter([(np.arange(200_000),)]))[0].path

    old, used = kept("a"), kept("b")
    cache.remember("c" * 40, 1)
    cache.remember("d" * 40, 2)
    for path in old.parent.iterdir():
        os.utime(path, (0, 0))
    assert kept("b") == used
    assert cache.recalled("c" * 40) == 1
    new = kept("e")
    assert {path for path in new.parent.iterdir() if path.suffix != ".lock"} == {
        used, new, new.with_name("c" * 40 + ".json")
    }  # fmt: skip


def test_small_recipes_leave_nothing_in_the_cache(corpus):
    view = tokfmt.recipe([corpus / "f0_document.bin"], seq_len=32, to_eos=0, pack="bestfit", shuffle="documents")
    view.samples(range(3), FIELDS)
    assert not (corpus / "cache").exists()


def test_arrays_are_written_once_by_many_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def parts():
        calls.append(1)
        yield (np.arange(10),)
        yield (np.arange(10, 200_000),)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: cache.columns("k" * 40, 1 << 21, ["x"], parts)[0], range(4)))
    assert len(calls) == 1
    for column in (*found, pickle.loads(pickle.dumps(found[0]))):
        assert (column.array == np.arange(200_000)).all()
    assert sorted(path.suffix for path in (tmp_path / "tokfmt/recipes").iterdir()) == [".i64", ".lock"]


@pytest.fixture
def shared_cache(tmp_path, monkeypatch):
    """A directory in which others may rename."""
    (tmp_path / "shared" / "tokfmt").mkdir(parents=True)
    for path in (tmp_path / "shared", tmp_path / "shared" / "tokfmt"):
        path.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    return tmp_path / "shared" / "tokfmt"


def test_a_link_in_place_of_the_cache_leads_nowhere(tmp_path, shared_cache):
    """What lies behind the link is old: nothing has used it for a year."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "thesis.tex").write_text("three years")
    os.utime(private / "thesis.tex", (1, 1))
    (shared_cache / "recipes").symlink_to(private)
    notes = {}
    (column,) = cache.columns("0" * 40, 0, ["x"], lambda: iter([[np.arange(5)]]), notes, keep=True)
    assert column.array.tolist() == [0, 1, 2, 3, 4]
    assert os.listdir(private) == ["thesis.tex"]
    assert len(notes) == 1
    assert cache.recalled("0" * 40) is None


TOKENS, WIDTH = 4_200_000, 2000


def write(kind, home):
    """Documents whose tokens take long to decode in another order, 8,400 of 500 tokens, as a dataset of a kind."""
    ids = np.random.default_rng(3).integers(1, 60_000, TOKENS).astype(np.int32)
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = pa.ListArray.from_arrays(np.arange(0, TOKENS + 1, 500, dtype=np.int32), ids)
    table = pa.table({"input_ids": rows})
    if kind == "parquet":
        parquet.write_table(table, home / "x.parquet", row_group_size=4500)
    else:
        with pa.OSFile(str(home / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=4500)
    return home / f"x.{kind}", ids


def copies(home):
    return sorted(path.suffix for path in (home / "cache/tokfmt/recipes").glob("*-tokens.*"))


def until_copied(view, home, before=0):
    """Read samples until their tokens are copied."""
    for _ in range(10_000):
        if len(copies(home)) != before:
            return
        view.samples(range(3))
    raise AssertionError("nothing is copied")


@pytest.mark.parametrize(
    ("kind", "shuffle", "width"),
    [("parquet", "samples", ".u16"), pytest.param("arrow", "documents", ".u32", marks=FUZZ_ONLY)],
)
def test_tokens_that_take_long_to_decode_are_copied_once(kind, shuffle, width, tmp_path, monkeypatch):
    """In two bytes each, if the source states its largest ID, as the footers of Parquet do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, ids = write(kind, tmp_path)

    def opened():
        return tokfmt.recipe([path], seq_len=WIDTH, shuffle=shuffle, to_eos=0)

    view = opened()
    (note,) = (note for note in view.notes if "take long" in note)
    assert f"shuffled samples of {kind} take long to decode" in note and "MB" in note
    some = range(3)
    before = view.samples(some)
    with pytest.warns(LoaderWarning, match=rf"copying .*MB of tokens of x \({kind}\) to the cache, once"):
        until_copied(view, tmp_path)
    after, again = view.samples(some), opened()
    assert copies(tmp_path) == [width]
    assert not [note for note in again.notes if "take long" in note]
    for found in (after, again.samples(some), pickle.loads(pickle.dumps(view)).samples(some)):
        assert all(np.array_equal(found[name], before[name]) for name in before)
    begun = time.thread_time()
    again.samples(range(16))
    assert 16 * WIDTH / (time.thread_time() - begun) > 1e6, "millions of tokens per second, also on a busy machine"
    stream = np.concatenate([ids.reshape(-1, 500), np.zeros((len(ids) // 500, 1), np.int32)], 1).reshape(-1)
    if shuffle == "samples":
        for sample in range(0, len(again), 500):
            ((_, first, at, _), *_) = again.spans(sample)
            begin = first * 501 + at
            found = again.samples([sample])["input_ids"][0]
            assert np.array_equal(found[: len(stream) - begin], stream[begin : begin + WIDTH])


def test_tokens_in_order_are_not_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, _ = write("parquet", tmp_path)
    view = tokfmt.recipe([path], seq_len=WIDTH, to_eos=0)
    assert not view.notes
    view.samples(range(len(view)))
    assert not copies(tmp_path)


def test_where_no_copy_fits_the_speed_is_stated(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path, _ = write("parquet", tmp_path)
    view = tokfmt.recipe([path], seq_len=WIDTH, shuffle="samples", to_eos=0)
    (note,) = (note for note in view.notes if "shuffled samples" in note)
    assert re.search(r"are read at about [\d.]+ million tokens per second, and a copy .* does not fit", note)
    assert len(view.samples(range(3))["labels"]) == 3


@FUZZ_ONLY
def test_a_copy_is_of_the_files_that_are_there(tmp_path, monkeypatch):
    """A file that was written again has a copy of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(2):
        path, _ = write("parquet", tmp_path)
        view = tokfmt.recipe([path], seq_len=WIDTH, shuffle="samples", to_eos=0)
        with pytest.warns(LoaderWarning, match="copying"):
            until_copied(view, tmp_path, number)


@pytest.mark.parametrize(
    "words",
    first(
        3, [{"pack": "bestfit"}, {"labels": "starts", "to_eos": None}, {"shuffle": "documents"}, {}, {"to_eos": "none"}]
    ),
    ids=lambda words: next(iter(words.values()), "stream"),
)
def test_the_same_from_the_cache(corpus, words):
    """Nothing of the sources is opened to open the recipe again."""
    first = opened(corpus, **words)
    every = first.samples(range(len(first)), FIELDS)
    spans = [first.spans(k) for k in range(0, len(first), 17)]
    with asked_of(corpus) as asked:
        again = opened(corpus, **words)
    assert sources_of(asked) == set()
    assert again.fingerprint == first.fingerprint
    for view in (again, pickle.loads(pickle.dumps(again))):
        got = view.samples(range(len(view)), FIELDS)
        assert all((got[name] == every[name]).all() for name in FIELDS)
        assert [view.spans(k) for k in range(0, len(view), 17)] == spans


def sources_of(asked):
    """The files of the corpus that were opened."""
    return {os.path.basename(path) for path in asked.opened if path.endswith((".bin", ".idx"))}


def test_a_first_batch_opens_the_files_it_reads_and_no_others(corpus):
    opened(corpus)
    with asked_of(corpus) as asked:
        opened(corpus).samples(range(4))
    assert 0 < len(sources_of(asked)) <= 8


@pytest.mark.parametrize("what", ["data", "index", "manifest", "another file", "a file less"])
def test_changed_source_is_opened_again(corpus, what):
    before = opened(corpus)
    length = len(before)
    if what == "another file":
        for suffix in ("bin", "idx"):
            shutil.copy(corpus / f"f0_document.{suffix}", corpus / f"f{FILES}_document.{suffix}")
    elif what == "a file less":
        for suffix in ("bin", "idx"):
            (corpus / f"f3_document.{suffix}").unlink()
    elif what == "manifest":
        (corpus / "f3_document.bin.tokfmt.json").write_text("{}")
    else:
        path = corpus / ("f3_document.bin" if what == "data" else "f3_document.idx")
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    with asked_of(corpus) as asked:
        after = len(opened(corpus))
    assert sources_of(asked)
    assert (after > length, after < length) == (what == "another file", what == "a file less")
