"""Writes of single objects to a server with faults: an object is whole or absent, and no upload is left."""

import os
import re
import signal
import threading

import pytest
from paths import FIXTURES
from remote.conftest import noise, within

import tokfmt
from tokfmt.core import place
from tokfmt.core.errors import OptionError, OutageError, UnsupportedError
from tokfmt.core.place import Url, destination_of, writable_store
from tokfmt.remote import requests, upload
from tokfmt.testing import tree

LARGE = noise(5 << 20)


@pytest.fixture
def parts(monkeypatch):
    """Uploads in parts of 1 MiB, for files above 2 MiB: obstore needs 5 MiB for all but the last."""
    monkeypatch.setattr(upload, "PUT_AT_ONCE", 2 << 20)
    monkeypatch.setattr(upload, "_PART", 1 << 20)
    monkeypatch.setattr(upload, "_PIECE", 1 << 18)


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


def methods(server):
    return [one.method for one in server.seen]


def test_a_small_object_is_one_request(server, bucket, store):
    identity = store.put("a/b", b"content")
    assert (bucket / "a/b").read_bytes() == b"content"
    assert methods(server) == ["PUT"]
    assert store.identity("a/b") == store.status("a/b").identity == identity
    assert store.put("empty", b"").size == 0 and (bucket / "empty").read_bytes() == b""
    assert store.identity("a") is None is store.identity("none")


def test_a_large_file_is_written_in_parts(server, bucket, store, large, parts):
    identity = store.put("large", large)
    assert (bucket / "large").read_bytes() == LARGE
    assert sorted(methods(server)) == ["BEGIN", "COMPLETE", "HEAD", *(f"PART{k}" for k in range(1, 6))]
    assert not server.parts and identity == store.identity("large")


def test_sizes_of_parts():
    assert upload.part_of(0) == 16 << 20 == upload.part_of(9000 * (16 << 20))
    assert -(-(5 << 40) // upload.part_of(5 << 40)) <= 10_000, "the largest object of S3"
    assert upload.held_by(64 << 20) <= upload.MOST_HELD >= upload.held_by(100 << 30)


def test_put_if_absent(bucket, store):
    first = store.put("x", b"one", if_absent=True)
    with pytest.raises(FileExistsError):
        store.put("x", b"two", if_absent=True)
    assert (bucket / "x").read_bytes() == b"one"
    assert store.put("x", b"one", if_absent=True) == first, "what a repeated request finds"


def test_put_if_match(bucket, store):
    first = store.put("x", b"one")
    second = store.put("x", b"two", if_match=first)
    for content in (b"three", b"four"):
        with pytest.raises(FileExistsError):
            store.put("x", content, if_match=first)
    store.delete(["x"])
    with pytest.raises(FileExistsError):
        store.put("x", b"three", if_match=second)
    assert not (bucket / "x").exists()


def test_a_large_file_that_must_be_absent(bucket, store, large, parts):
    (bucket / "x").write_bytes(b"here")
    with pytest.raises(FileExistsError):
        store.put("x", large, if_absent=True)
    assert (bucket / "x").read_bytes() == b"here"


def test_conditions_that_a_server_does_not_know(server, bucket, store):
    server.conditions = False
    with pytest.raises(UnsupportedError, match="^s3://bkt/x: cannot be written under a condition"):
        store.put("x", b"one", if_absent=True)
    assert store.put("x", b"one").size == 3


def test_deletes(bucket, store):
    for number in range(40):
        (bucket / f"{number}").touch()
    store.delete([*(f"{number}" for number in range(39)), "none"])
    assert [path.name for path in bucket.iterdir()] == ["39"]


def test_many_files_side_by_side(server, bucket, store, tmp_path):
    files = [(f"d/{number}", tmp_path / f"f{number}") for number in range(50)]
    for number, (_, path) in enumerate(files):
        path.write_bytes(noise(number, seed=number))
    found = dict[str, place.Identity]()
    store.upload(files, found.__setitem__)
    assert {key: (bucket / key).read_bytes() for key in found} == {key: path.read_bytes() for key, path in files}
    assert all(found[key] == store.identity(key) for key, _ in files)


@pytest.mark.parametrize("fault", ["500", "503", "429", "reset"])
@pytest.mark.parametrize("method", ["PUT", "BEGIN", "PART3", "COMPLETE"])
def test_a_fault_is_repaired_or_leaves_nothing(server, bucket, store, large, parts, method, fault):
    server.faults[f"{method} bkt/x"] = [fault]
    content = LARGE[:1000] if method == "PUT" else large
    try:
        store.put("x", content)
    except OutageError as error:  # An answer that was lost cannot be asked for again.
        assert (method, fault) == ("COMPLETE", "reset"), error
    else:
        assert (bucket / "x").read_bytes() == (LARGE[:1000] if method == "PUT" else LARGE)
    if method != "BEGIN":
        assert not server.parts


@pytest.mark.parametrize("method", ["PUT", "BEGIN", "PART3", "COMPLETE"])
def test_a_fault_that_lasts_leaves_no_object(server, bucket, store, large, parts, method):
    server.forever[f"{method} bkt/x"] = "500"
    with pytest.raises(OutageError, match="^s3://bkt/x: cannot be written: 500 InternalError") as caught:
        store.put("x", LARGE[:1000] if method == "PUT" else large)
    assert caught.value.exit_code == 4 and "127.0.0.1" not in str(caught.value)
    assert not list(bucket.iterdir()) and not server.parts


@pytest.mark.parametrize("fault", ["409", "412"])
def test_a_conflict_that_passes(server, bucket, store, fault):
    server.faults["PUT bkt/x"] = [fault]
    assert store.put("x", b"one", if_absent=True).size == 3
    server.forever["PUT bkt/y"] = fault
    with pytest.raises(FileExistsError):
        store.put("y", b"one", if_absent=True)


def test_a_lost_answer_of_a_conditional_write(server, bucket, store):
    """The object is there, and counts as written. obstore does not repeat such a write."""
    server.faults["PUT bkt/x"] = ["reset"]
    assert store.put("x", b"one", if_absent=True) == store.identity("x")
    server.faults["PUT bkt/x"] = ["reset"]
    assert store.put("x", b"two", if_match=store.identity("x")) == store.identity("x")
    assert (bucket / "x").read_bytes() == b"two"
    with pytest.raises(FileExistsError):
        store.put("x", b"one", if_absent=True)


@pytest.mark.parametrize("name", ["m.tokfmt-writing", "m/index.json", "m.tokfmt.json"])
def test_a_lost_answer_ends_no_conversion(server, bucket, tmp_path, name):
    server.faults[f"PUT bkt/{name}"] = ["reset"]
    tokfmt.convert(FIXTURES / "modalities/D_2byte_gpt2.pbin", "s3://bkt/m", to_format="mds", eos=50256)
    tokfmt.convert(FIXTURES / "modalities/D_2byte_gpt2.pbin", tmp_path / "m", to_format="mds", eos=50256)
    assert tree(bucket / "m") == tree(tmp_path / "m")
    assert sorted(path.name for path in bucket.iterdir()) == ["m", "m.tokfmt.json"]


def test_access_is_denied_without_a_secret(server, bucket, store):
    server.refused = True
    for call in (lambda: store.put("x", b"one"), lambda: store.delete(["x"]), lambda: store.upload([], print)):
        try:
            call()
        except OutageError as error:
            assert "access denied" in str(error) and "planted" not in f"{error!r} {error.__context__!r}"
    server.refused = False
    with pytest.raises(OutageError, match="bucket nobody does not exist"):
        writable_store(Url.parse("s3://nobody/x")).put("x", b"one")


def test_one_failure_stops_the_others(server, bucket, store, tmp_path, large, parts):
    (tmp_path / "small").write_bytes(b"small")
    server.forever["PUT bkt/bad"] = "400"
    server.delay = 0.05
    with pytest.raises(OutageError):
        store.upload([("large", large), ("bad", tmp_path / "small")], print)
    assert not (bucket / "large").exists() and not server.parts


def test_an_interrupted_wait_stops_the_upload(server, bucket, store, large, parts):
    """As Ctrl-C does: an exception in the caller, while parts are under way."""
    server.delay = 0.05

    class Stop(BaseException):
        pass

    def stop(key, identity):
        raise Stop

    large.with_name("small").write_bytes(b"small")
    with pytest.raises(Stop):
        store.upload([("small", large.with_name("small")), ("large", large)], stop)
    assert not (bucket / "large").exists() and not server.parts


def test_a_stalled_server_holds_nobody(server, bucket, store, monkeypatch):
    monkeypatch.setattr(requests, "_PATIENCE", 0.1)
    server.forever["PUT bkt/x"] = "stalled"
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        within(5, lambda: store.put("x", b"one"))
    timer.join()


def test_addresses_of_destinations(server):
    assert destination_of("s3://bkt/x.pbin") == Url.parse("s3://bkt/x.pbin")
    assert destination_of("x.pbin") == place.Path("x.pbin")
    for text, words in (
        ("http://host/x?sig=planted", "http://host/x: the scheme http is not written (expected s3, gs or az)"),
        ("https://host/x", "is not written"),
        ("hf://datasets/a/b", "run hf upload"),
        ("ftp://host/x", "the scheme ftp is not written"),
        ("s3:/bkt/x", "a Path cannot hold an address"),
    ):
        with pytest.raises(OptionError, match=re.escape(words)) as caught:
            destination_of(text)
        assert "planted" not in str(caught.value)
    with pytest.raises(OptionError, match="^s3://bkt: is a whole bucket. Name a key in it"):
        writable_store(Url.parse("s3://bkt"))
    with pytest.raises(OptionError, match="is not written"):
        writable_store(Url.parse(f"{server.endpoint}/x"))
    assert within(5, lambda: writable_store(Url.parse("s3://bkt/x"))).can == {"if-absent", "if-match"}
