"""What places answer while datasets are opened: the same as the file system and stores do, which are asked once."""

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from reads import asked_of
from stores import Memory

import tokfmt
from tokfmt import show
from tokfmt.errors import FormatError, TokfmtError
from tokfmt.files.file import everything_in
from tokfmt.files.listing import Listing
from tokfmt.files.place import LocalPlace, register_store
from tokfmt.plugin import Url, names_in


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
    "status": lambda path: LocalPlace(path).status_now(),
}


def answer(function, path):
    try:
        return function(path)
    except (OSError, ValueError) as error:
        return type(error), getattr(error, "errno", None)


@pytest.mark.parametrize("listed", [False, True])
def test_answers_are_those_of_the_file_system(tree, listed, monkeypatch):
    monkeypatch.chdir(tree)
    for home in (tree, LocalPlace()):
        with Listing() as listing:
            asking = home.asking(listing)
            if listed:
                assert sorted(map(str, everything_in(asking))) == sorted(map(str, everything_below(home)))
            for question, function in QUESTIONS.items():
                for name in PLACES:
                    for _ in range(2):
                        asked = answer(getattr(LocalPlace, question), asking / name)
                        assert asked == answer(function, home / name), (question, name)


def everything_below(home):
    """Files and links below a directory, and directories that hold nothing."""
    for base, directories, names in os.walk(home):
        yield from (Path(base, name) for name in names)
        yield from (Path(base, name) for name in directories if os.path.islink(os.path.join(base, name)))
        if not names and not directories:
            yield Path(base)


def test_each_question_is_asked_once(tree):
    everything = [str(path.relative(tree)) for path in everything_in(tree)]
    with asked_of(tree) as asked, Listing() as listing:
        for _ in range(3):
            home = tree.asking(listing)
            everything_in(home)
            names_in(home / "a")
            for name in everything:
                (home / name).is_file(), (home / name).exists(), (home / "top").status()
    assert len(asked.listings) == len(set(asked.listings)) == 7
    assert len(asked.statuses) == len(set(asked.statuses))


def test_answers_end_with_the_context(tmp_path):
    listing = Listing()
    home = LocalPlace(tmp_path).asking(listing)
    for at_first in ([], ["x"]):
        with pytest.raises(ZeroDivisionError), listing:
            assert names_in(home) == at_first
            with listing:
                (home / "x").touch()
                assert names_in(home) == at_first
            assert (home / "x").exists() == bool(at_first)
            raise ZeroDivisionError
        assert names_in(home) == ["x"]
        assert (home / "x").exists()


def test_a_place_that_carries_none_asks(tmp_path):
    home = LocalPlace(tmp_path)
    with Listing() as listing:
        assert names_in(home.asking(listing)) == []
        (home / "x").touch()
        assert names_in(home) == names_in(home.asking(listing).asking(None)) == ["x"]


PLACES_OF_ALL_KINDS = [LocalPlace("/d/x.bin"), LocalPlace("d/x.bin"), Url.parse("s3://bucket/d/x.bin")]


@pytest.mark.parametrize("place", PLACES_OF_ALL_KINDS, ids=str)
def test_places_that_follow_from_one_carry_its_listing(place):
    asking = place.asking(Listing())
    for follow in (
        lambda one: one.parent, lambda one: one / "y", lambda one: one.with_name("y"), lambda one: one.with_suffix(".y"),
        lambda one: one.parent / "y" / "z", lambda one: one.normalized(),
        lambda one: one.real(),
    ):  # fmt: skip
        assert follow(asking).listing is asking.listing
        assert follow(asking) == follow(place)
        assert follow(place).listing is None


@pytest.mark.parametrize("place", PLACES_OF_ALL_KINDS, ids=str)
def test_a_listing_is_neither_compared_nor_pickled(place):
    asking = place.asking(Listing())
    assert asking == place and hash(asking) == hash(place) and repr(asking) == repr(place)
    for copied in (pickle.loads(pickle.dumps(asking)), copy.deepcopy(asking), asking.asking(None)):
        assert copied == place
        assert copied.listing is None
        assert type(copied) is type(place)


def test_little_of_a_large_directory_is_kept():
    store = Memory({f"a/{k}": b"" for k in range(65_537)})
    register_store("large", lambda _: store)
    with Listing() as listing:
        home = Url.parse("large://bucket/a").asking(listing)
        for _ in range(2):
            assert len(names_in(home)) == 65_537
        for k in range(4_200):
            (home / str(k)).status()
        assert (home / "65536").exists()
        assert len(listing.statuses) == 4_096
        assert listing.directories == {home: None}
    assert not listing.statuses
    assert not listing.directories


def test_a_store_is_asked_as_a_directory_is():
    store = Memory({"a/x.bin": b"1234", "a/b/y": b"why", "z": b""})
    register_store("listed", lambda _: store)
    home = Url.parse("listed://bucket")
    assert sorted(names_in(home)) == ["a", "z"]
    assert everything_in(home) == [home / "a/b/y", home / "a/x.bin", home / "z"]
    assert (home / "z").is_file()
    assert (home / "a").is_dir()
    assert not (home / "z").is_symlink()
    assert not (home / "gone").exists()
    with pytest.raises(FormatError, match=r"^listed://bucket/gone: no such file"):
        names_in(home / "gone")
    store.asked.clear()
    with Listing() as listing:
        asking = home.asking(listing)
        for _ in range(3):
            names_in(asking / "a")
            assert (asking / "a" / "x.bin").is_file()
            assert not (asking / "a" / "gone").exists()
            assert (asking / "a" / "x.bin").status().size == 4
    assert store.asked == [("entries", "a"), ("status", "a/x.bin")]


def test_a_store_is_listed_once(tmp_path):
    source, store = tmp_path / "s.jsonl", tmp_path / "x.zarr"
    source.write_text("".join(f'{{"input_ids": {np.arange(k, k + 50).tolist()}}}\n' for k in range(900)))
    tokfmt.convert(source, store, eos=5000, to_options={"chunk": 1000})
    files = len(everything_in(store))
    with asked_of(tmp_path) as asked:
        list(show(store, 400).shown)
    assert sorted(asked.listings) == sorted({str(path.parent) for path in everything_in(store)})
    assert len(asked.statuses) <= files + 12


def test_a_process_that_stays_sees_what_changed(tmp_path):
    """As a browser does, and a Loader: each opening asks anew, also by the place of an earlier one."""
    source, store = tmp_path / "s.jsonl", LocalPlace(tmp_path / "x.zarr").asking(Listing())
    for first in (0, 5):
        source.write_text("".join(f'{{"input_ids": [{first + k}, 7]}}\n' for k in range(4)))
        tokfmt.convert(source, store, eos=99, overwrite=True)
        assert tokfmt.open(store)[0].tolist() == [first, 7]
    assert tokfmt.info(store).files == len(everything_in(store))
    (store / "train" / "encoded_tokens" / "0").unlink()
    with pytest.raises(TokfmtError):
        tokfmt.open(store)
