"""What is kept of the file system while sources are opened: the same answers, asked once."""

import os

import numpy as np
import pytest
from reads import asked_of

import tokfmt
from tokfmt import show
from tokfmt.core import listing
from tokfmt.plugin import LocalPlace, everything_in, names_in


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
