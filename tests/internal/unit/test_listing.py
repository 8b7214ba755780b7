"""What is kept of the file system while sources are opened: the same answers, asked once."""

import os
from pathlib import Path

import pytest

import tokfmt
from tokfmt.core import listing
from tokfmt.core.errors import TokfmtError
from tokfmt.core.files import names_in, walk
from tokfmt.core.format import everything_in
from tokfmt.core.place import LocalPlace, status_of
from tokfmt.ops.source.discover import find_sources
from tokfmt.ops.source.request import SourceRequest


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
    "status": lambda path: status_of(os.stat(path)),
}


def answer(function, path):
    try:
        return function(path)
    except (OSError, ValueError) as error:
        return type(error), getattr(error, "errno", None)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("most", [1 << 16, 3])
def test_kept_answers_are_those_of_the_file_system(tree, listed, most, monkeypatch):
    monkeypatch.setattr(listing, "_MOST", most)
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


@pytest.mark.parametrize("most", [1 << 16, 3])
def test_walks_are_those_of_python(tree, most, monkeypatch):
    monkeypatch.setattr(listing, "_MOST", most)
    expected = {base: sorted(names) for base, _, names in os.walk(tree)}
    for scope in (listing.kept, lambda: os.scandir(tree)):
        with scope():
            found = [(str(base), sorted(names)) for base, names in walk(tree)]
        assert dict(found) == expected
        assert found[-1][0] == str(tree)
        order = [base for base, _ in found]
        assert all(order.index(base) < order.index(os.path.dirname(base)) for base in order[:-1])
    with pytest.raises(OSError, match="gone"):
        list(walk(tree / "gone"))


def test_nothing_of_a_large_directory_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "_MOST", 100)
    monkeypatch.setattr(listing, "_STATUSES", 100)
    for k in range(150):
        (tmp_path / str(k)).touch()
    with listing.kept():
        assert len(names_in(tmp_path)) == 150
        (tmp_path / "new").touch()
        assert "new" in names_in(tmp_path)
        for k in range(150):
            (tmp_path / str(k)).status()
        assert len(listing._KEPT.get().statuses) == 100
        assert listing._KEPT.get().directories == {tmp_path: None}


def test_a_process_that_stays_sees_what_changed(tmp_path):
    """As a browser does, and a Loader: each opening asks anew."""
    source, store = tmp_path / "s.jsonl", tmp_path / "x.zarr"
    for first in (0, 5):
        source.write_text("".join(f'{{"input_ids": [{first + k}, 7]}}\n' for k in range(4)))
        tokfmt.convert(source, store, eos=99, overwrite=True)
        assert tokfmt.open(store)[0].tolist() == [first, 7]
    (found,) = find_sources(SourceRequest((store,)))
    (store / "train" / "encoded_tokens" / "0").unlink()
    (after,) = find_sources(SourceRequest((store,)))
    assert len(after.files) == len(found.files) - 1
    with pytest.raises(TokfmtError):
        tokfmt.open(store)
