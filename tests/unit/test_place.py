"""Places: addresses as values, words of users as places, and files of a store that somebody registered."""

import copy
import os
import pickle
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import Memory

from tokfmt.errors import FormatError, OptionError, SourceChangedError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File, read_whole
from tokfmt.files.place import LocalPlace, close_stores, local_path, register_store, status_of
from tokfmt.plugin import Identity, Kind, Status, Url, open_file, place_of

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
KEYS = st.lists(NAMES, max_size=4).map("/".join)
BUCKETS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=12)
CONTAINERS = st.tuples(BUCKETS, BUCKETS).map("/".join)  # Of an account that the address names.
URLS = st.builds(Url, st.sampled_from(["s3", "gs", "hf"]), BUCKETS, KEYS) | st.builds(
    Url, st.just("az"), CONTAINERS, KEYS
)


@given(URLS)
def test_addresses_are_read_as_they_are_written(url):
    assert Url.parse(str(url)) == url == Url.parse(f"{url}/")
    assert str(url) == url.address == url.as_posix()
    assert pickle.loads(pickle.dumps(url)) == copy.deepcopy(url) == url
    assert {url: 1}[Url.parse(str(url))] == 1


@given(URLS, NAMES)
def test_addresses_answer_as_paths_do(url, name):
    path = PurePosixPath("/", url.key)
    assert (url.name, url.stem, url.suffix) == (path.name, path.stem, path.suffix)
    assert url.parts[1:] == path.parts[1:]
    assert url.parent.key == str(path.parent)[1:]
    below = url / name
    assert (below.name, below.parent) == (name, url)
    assert url.relative(below) is None
    assert below.relative(url) == PurePosixPath(name)
    assert url / str(below.relative(url)) == below
    assert below.with_name("new.idx").with_suffix(".bin") == url / "new.bin"
    for change in (lambda one: one.with_name(name), lambda one: one.with_suffix(".idx")):
        assert outcome(change, url) == outcome(change, path)


def outcome(change, one):
    try:
        return change(one).parts[1:]
    except ValueError as error:
        return type(error)


@given(URLS, URLS)
def test_one_address_lies_below_another_as_its_names_do(one, other):
    same = (one.scheme, one.authority) == (other.scheme, other.authority)
    below = PurePosixPath("/", one.key).is_relative_to(PurePosixPath("/", other.key))
    assert (one.relative(other) is not None) == (same and below)
    assert one.relative(LocalPlace("/")) is None


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_text_is_an_address_or_refused(text):
    for said in (text, f"s3://{text}", f"https://{text}"):
        try:
            url = Url.parse(said)
        except OptionError:
            continue
        assert Url.parse(url.address) == url


def test_address_is_not_a_path():
    url = Url.parse("s3://b/a/x.bin")
    for function in (os.stat, os.path.exists, open, Path, os.fspath):
        with pytest.raises(TypeError):
            function(url)
    with pytest.raises(AttributeError):
        url.key = "other"
    with pytest.raises(OptionError, match="is an absolute path"):
        url / "/etc/passwd"
    for below in ("..", "c/../../d", "c//d"):
        with pytest.raises(OptionError, match="in a key cannot be addressed"):
            url / below


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("s3://b//c", "s3://b//c: an empty part in a key cannot be addressed"),
        ("s3://b/a//c", "s3://b/a//c: an empty part in a key cannot be addressed"),
        ("s3://b/a/../c", "s3://b/a/../c: a part . or .. in a key cannot be addressed"),
        ("s3:/b/c", "s3:/b/c: is not an address, such as s3://BUCKET/KEY"),
        ("b/c", "b/c: is not an address, such as s3://BUCKET/KEY"),
    ],
)
def test_keys_that_a_path_would_change_are_refused(text, what):
    """A Path would turn the first three into other keys."""
    with pytest.raises(OptionError) as error:
        Url.parse(text)
    assert str(error.value) == what


def test_a_question_mark_ends_the_key_of_a_page_only():
    assert Url.parse("s3://b/part-?.bin").key == "part-?.bin"
    page = Url.parse("HTTPS://user:word@host:8080/a/x.bin?key=secret&b=1")
    assert (page.scheme, page.authority, page.key, page.query) == (
        "https",
        "user:word@host:8080",
        "a/x.bin",
        "key=secret&b=1",
    )
    assert page.with_suffix(".idx").address == "https://user:word@host:8080/a/x.idx"
    for shown in (str(page), repr(page), f"{page}", page.as_posix(), str(FormatError(page, "is wrong"))):
        assert "host:8080/a/x.bin" in shown
        assert "secret" not in shown
        assert "word" not in shown


def test_local_identities(tmp_path):
    path = LocalPlace(tmp_path / "x")
    path.write_bytes(b"123")
    found = path.stat()
    assert status_of(found) == Status(Kind.FILE, Identity(3, f"{found.st_mtime_ns}:{found.st_ino}"))
    assert open_file(path).identity == File(path).identity == path.status().identity
    for changed in (lambda: path.write_bytes(b"1234"), lambda: os.utime(path, ns=(5, 5)), lambda: replaced(path)):
        before = path.status_now()
        changed()
        assert path.status_now() != before


def replaced(path):
    path.with_name("new").write_bytes(path.read_bytes())
    os.utime(path.with_name("new"), ns=(5, 5))
    path.with_name("new").replace(path)


@pytest.fixture
def bucket():
    store = Memory({"a/x.bin": np.arange(1000, dtype="<u2").tobytes(), "a/b/y": b"why", "z": b""})
    register_store("words", lambda url: {"bucket": store}[url.authority])
    close_stores()
    return store


def test_words_of_users(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = Url("words", "bucket", "a/x.bin")
    assert place_of("words://bucket/a/x.bin") == place_of("WORDS://bucket/a/x.bin") == place_of(url) == url
    for path in ("x.bin", "/a/x", "a b?", "C", "x:y", Path("x")):
        assert place_of(path) == Path(path)
    for text in ("ftp://b/k", "ftp:///k", "file:///etc"):
        with pytest.raises(
            OptionError, match=r"://.*: the scheme .* is not read .*words.*\. Download or mount it first"
        ):
            place_of(text)
    with pytest.raises(OptionError, match="^ftp://b/k: the scheme ftp is not read"):
        place_of(Path("ftp://b/k"))
    for path in ("words:/bucket/x", Path("words://bucket/x")):
        with pytest.raises(OptionError, match="^words://bucket/x: a Path cannot hold an address.*Give it as a text"):
            place_of(path)
    for call in (lambda: local_path(url, "a text"), lambda: local_path(str(url), "a text")):
        with pytest.raises(UnsupportedError, match="^words://bucket/a/x.bin: a text is read from a local path only"):
            call()
    for scheme in ("s3", "ftp", "words"):
        (tmp_path / f"{scheme}:" / "b").mkdir(parents=True)
        assert place_of(f"{scheme}://b") == Path(f"{scheme}:/b"), "a path that exists is no address"
    with pytest.raises(OptionError, match="^ftp://b/k: the scheme ftp is not read"):
        open_file(Url.parse("ftp://b/k"))


def test_files_of_a_store(bucket):
    url = place_of("words://bucket/a/x.bin")
    file = pickle.loads(pickle.dumps(open_file(url)))
    assert (file.path, file.size, file.read(4, 2)) == (url, 2000, b"\2\0")
    assert file.ids(20, 3, np.dtype("<u2")).tolist() == [10, 11, 12]
    assert [bytes(one) for one in file.read_ranges([(2, 4), (0, 2)])] == [b"\1\0", b"\0\0"]
    assert read_whole(url.parent / "b" / "y", 3) == b"why"
    file.check_unchanged()
    for wrong, call in [
        (TruncatedError, lambda: file.read(1999, 2)),
        (UnsafeError, lambda: read_whole(url, 1999)),
        (FormatError, lambda: open_file(url.parent)),
        (FormatError, lambda: open_file(url / "below")),
    ]:
        with pytest.raises(wrong, match=r"^words://bucket/a"):
            call()
    bucket.held["a/x.bin"] = bytes(2000)
    for call in (file.check_unchanged, lambda: file.read(0, 1)):
        with pytest.raises(SourceChangedError):
            call()
    del bucket.held["a/x.bin"]
    with pytest.raises(SourceChangedError, match="disappeared"):
        file.check_unchanged()
