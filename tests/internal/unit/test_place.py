"""Places: addresses as values, words of users as places, and files of a store that somebody registered."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from stores import Memory

from tokfmt.core import listing, place
from tokfmt.core.errors import (
    FormatError,
    OptionError,
    SourceChangedError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.core.files import names_in, open_file, read_whole
from tokfmt.core.format import everything_in
from tokfmt.core.place import Url, local_path, place_of, register_store


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setattr(place, "_OPENERS", {})
    monkeypatch.setattr(place, "_OPEN", {})
    held = Memory({"a/x.bin": np.arange(1000, dtype="<u2").tobytes(), "a/b/y": b"why", "z": b""})
    register_store("mem", lambda url: {"bucket": held}[url.authority])
    return held


def test_words_of_users(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = Url("mem", "bucket", "a/x.bin")
    assert place_of("mem://bucket/a/x.bin") == place_of("MEM://bucket/a/x.bin") == place_of(url) == url
    for path in ("x.bin", "/a/x", "a b?", "C", "x:y", Path("x")):
        assert place_of(path) == Path(path)
    for text in ("ftp://b/k", "ftp:///k", "file:///etc"):
        with pytest.raises(OptionError, match=r"://.*: the scheme .* is not read .*mem.*\. Download or mount it first"):
            place_of(text)
    with pytest.raises(OptionError, match="^ftp://b/k: the scheme ftp is not read"):
        place_of(Path("ftp://b/k"))
    for path in ("mem:/bucket/x", Path("mem://bucket/x")):
        with pytest.raises(OptionError, match="^mem://bucket/x: a Path cannot hold an address.*Give it as a text"):
            place_of(path)
    for call in (lambda: local_path(url, "a text"), lambda: local_path(str(url), "a text")):
        with pytest.raises(UnsupportedError, match="^mem://bucket/a/x.bin: a text is read from a local path only"):
            call()
    for scheme in ("s3", "ftp", "mem"):
        (tmp_path / f"{scheme}:" / "b").mkdir(parents=True)
        assert place_of(f"{scheme}://b") == Path(f"{scheme}:/b"), "a path that exists is no address"
    with pytest.raises(OptionError, match="^ftp://b/k: the scheme ftp is not read"):
        open_file(Url.parse("ftp://b/k"))


def test_files_of_a_store(bucket):
    url = place_of("mem://bucket/a/x.bin")
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
        with pytest.raises(wrong, match=r"^mem://bucket/a"):
            call()
    bucket.held["a/x.bin"] = bytes(2000)
    for call in (file.check_unchanged, lambda: file.read(0, 1)):
        with pytest.raises(SourceChangedError):
            call()
    del bucket.held["a/x.bin"]
    with pytest.raises(SourceChangedError, match="disappeared"):
        file.check_unchanged()


def test_a_store_is_asked_as_a_directory_is(bucket):
    home = Url.parse("mem://bucket")
    assert sorted(names_in(home)) == ["a", "z"]
    assert everything_in(home) == [home / "a/b/y", home / "a/x.bin", home / "z"]
    assert (home / "z").is_file()
    assert (home / "a").is_dir()
    assert not (home / "z").is_symlink()
    assert not (home / "gone").exists()
    with pytest.raises(FormatError, match="^mem://bucket/gone: no such file"):
        names_in(home / "gone")
    bucket.asked.clear()
    with listing.kept():
        for _ in range(3):
            names_in(home / "a")
            assert (home / "a" / "x.bin").is_file()
            assert not (home / "a" / "gone").exists()
            assert (home / "a" / "x.bin").status().size == 2000
    assert bucket.asked == [("entries", "a"), ("status", "a/x.bin")]
