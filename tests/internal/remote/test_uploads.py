"""Writes of single objects to a server with faults: an object is whole or absent, and no upload is left."""

import os
import signal
import threading

import pytest
from remote.conftest import noise, within

from tokfmt.core.errors import OutageError
from tokfmt.remote import requests, upload

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


def test_a_large_file_is_written_in_parts(server, bucket, store, large, parts):
    identity = store.put("large", large)
    assert (bucket / "large").read_bytes() == LARGE
    assert sorted(methods(server)) == ["BEGIN", "COMPLETE", "HEAD", *(f"PART{k}" for k in range(1, 6))]
    assert not server.parts and identity == store.identity("large")


def test_a_large_file_that_must_be_absent(bucket, store, large, parts):
    (bucket / "x").write_bytes(b"here")
    with pytest.raises(FileExistsError):
        store.put("x", large, if_absent=True)
    assert (bucket / "x").read_bytes() == b"here"


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
