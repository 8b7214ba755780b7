"""What is kept of the file system while sources are opened: the same answers, asked once."""

import os
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY
from reads import asked_of
from stores import Memory

import tokfmt
from tokfmt import show
from tokfmt.core import listing
from tokfmt.core.errors import TokfmtError
from tokfmt.plugin import LocalPlace, everything_in, names_in, place_of, register_store


@pytest.fixture
def tree(tmp_path):
    """Files, directories, links of all kinds, a FIFO, names that need care."""
    home = LocalPlace(tmp_path / "home")
    for name in ("a/b/c", "a/empty", "d", "many"):
        (home / name).mkdir(parents=True)
    for name in ("a/x", "a/b/y", "d/z.bin", "top", "d/ü", *(f"many/{k}" for k in range(20))):
        (home / name).write_bytes(b"1")
    (home / "to_file").symlink_to("top")
    (home / "to_directory").symlink_to("d")
    (home / "to_nothing").symlink_to("gone")
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "fifo")
    return home


def test_each_question_is_asked_once(tree):
    with asked_of(tree) as asked, listing.kept():
        for _ in range(3):
            everything_in(tree)
            names_in(tree / "a")
            for path in everything_below_once(tree):
                path.is_file(), path.exists(), (tree / "top").status()
    assert len(asked.listings) == len(set(asked.listings)) == 7
    assert len(asked.statuses) == len(set(asked.statuses))


def everything_below_once(tree, kept=[]):  # noqa: B006 - listed before anything is counted
    return kept or kept.extend(everything_in(tree)) or kept


def test_answers_end_with_the_context(tmp_path):
    tmp_path = LocalPlace(tmp_path)
    with pytest.raises(ZeroDivisionError), listing.kept():
        assert names_in(tmp_path) == []
        with listing.kept():
            (tmp_path / "x").touch()
            assert names_in(tmp_path) == []
        assert not (tmp_path / "x").exists()
        raise ZeroDivisionError
    assert names_in(tmp_path) == ["x"]
    assert (tmp_path / "x").exists()


def test_a_store_is_listed_once(tmp_path):
    source, store = tmp_path / "s.jsonl", tmp_path / "x.zarr"
    source.write_text("".join(f'{{"input_ids": {np.arange(k, k + 50).tolist()}}}\n' for k in range(900)))
    tokfmt.convert(source, store, eos=5000, to_options={"chunk": 1000})
    files = len(everything_in(store))
    with asked_of(tmp_path) as asked:
        list(show(store, 400).shown)
    assert sorted(asked.listings) == sorted({str(path.parent) for path in everything_in(store)})
    assert len(asked.statuses) <= files + 12


PLACES = (
    "", "a", "a/b", "a/b/y", "top", "top/below", "gone", "gone/below", "to_file", "to_directory", "to_directory/z.bin",
    "to_nothing", "loop", "loop/x", "fifo", "d/ü", "many/7", "many/70", "a/", "a/..", ".", "x" * 200, "nul\0l",
)  # fmt: skip
QUESTIONS = {
    "is_file": lambda path: Path(path).is_file(),
    "is_dir": lambda path: Path(path).is_dir(),
    "exists": lambda path: Path(path).exists(),
    "is_symlink": os.path.islink,
    "is_there": os.path.lexists,
    "status": lambda path: LocalPlace(path).status_now(),
}


def answer(function, path):
    try:
        return function(path)
    except (OSError, ValueError) as error:
        return type(error), getattr(error, "errno", None)


@pytest.mark.parametrize("listed", [False, True])
def test_kept_answers_are_those_of_the_file_system(tree, listed, monkeypatch):
    monkeypatch.chdir(tree)
    for home in (tree, Path()):
        paths = [LocalPlace(home / place) for place in PLACES]
        with listing.kept():
            if listed:
                assert sorted(map(str, everything_in(home))) == sorted(map(str, everything_below(home)))
            for question, function in QUESTIONS.items():
                for path in paths:
                    asked = getattr(LocalPlace, question)
                    assert answer(asked, path) == answer(function, path), (question, path)
                    assert answer(asked, path) == answer(function, path), (question, path)


def everything_below(home):
    """Files and links below a directory, and directories that hold nothing."""
    for base, directories, names in os.walk(home):
        yield from (Path(base, name) for name in names)
        yield from (Path(base, name) for name in directories if os.path.islink(os.path.join(base, name)))
        if not names and not directories:
            yield Path(base)


@FUZZ_ONLY
def test_nothing_of_a_large_directory_is_kept(tmp_path):
    home = LocalPlace(tmp_path)
    for k in range((1 << 16) + 1):
        os.close(os.open(tmp_path / str(k), os.O_CREAT))
    with listing.kept():
        assert len(names_in(home)) == (1 << 16) + 1
        (tmp_path / "new").touch()
        assert "new" in names_in(home)
        assert (home / "new").is_file()


def test_a_process_that_stays_sees_what_changed(tmp_path):
    """As a browser does, and a Loader: each opening asks anew."""
    source, store = tmp_path / "s.jsonl", tmp_path / "x.zarr"
    for first in (0, 5):
        source.write_text("".join(f'{{"input_ids": [{first + k}, 7]}}\n' for k in range(4)))
        tokfmt.convert(source, store, eos=99, overwrite=True)
        assert tokfmt.open(store)[0].tolist() == [first, 7]
    (store / "train" / "encoded_tokens" / "0").unlink()
    with pytest.raises(TokfmtError):
        tokfmt.open(store)


def test_a_store_is_asked_as_a_directory_is():
    store = Memory({"a/x.bin": bytes(2000), "a/b/y": b"why", "z": b""})
    register_store("listed", lambda _: store)
    home = place_of("listed://bucket")
    assert sorted(names_in(home)) == ["a", "z"]
    assert everything_in(home) == [home / "a/b/y", home / "a/x.bin", home / "z"]
    assert (home / "z").is_file()
    assert (home / "a").is_dir()
    assert not (home / "z").is_symlink()
    assert not (home / "gone").exists()
    with pytest.raises(TokfmtError, match="^listed://bucket/gone: no such file"):
        names_in(home / "gone")
    store.asked.clear()
    with listing.kept():
        for _ in range(3):
            names_in(home / "a")
            assert (home / "a" / "x.bin").is_file()
            assert not (home / "a" / "gone").exists()
            assert (home / "a" / "x.bin").status().size == 2000
    assert store.asked == [("entries", "a"), ("status", "a/x.bin")]
