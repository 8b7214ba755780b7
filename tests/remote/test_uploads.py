"""Writes of single objects to a server with faults: an object is whole or absent, and no upload is left."""

import pytest
from amount import FUZZ_ONLY, only
from paths import FIXTURES
from remote.conftest import noise

import tokfmt
from tokfmt.errors import OutageError, UnsupportedError
from tokfmt.stores import upload
from tokfmt.testing import tree


def methods(server):
    return [one.method for one in server.seen]


def test_a_small_object_is_one_request(server, bucket, store):
    identity = store.put("a/b", b"content")
    assert (bucket / "a/b").read_bytes() == b"content"
    assert methods(server) == ["PUT"]
    assert store.identity("a/b") == store.status("a/b").identity == identity
    assert store.put("empty", b"").size == 0 and (bucket / "empty").read_bytes() == b""
    assert store.identity("a") is None is store.identity("none")


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


def test_conditions_that_a_server_does_not_know(server, bucket, store):
    server.conditions.clear()
    with pytest.raises(UnsupportedError, match="^s3://bkt/x: cannot be written under a condition"):
        store.put("x", b"one", if_absent=True)
    assert store.put("x", b"one").size == 3


def test_deletes(bucket, store):
    for number in range(40):
        (bucket / f"{number}").touch()
    store.delete([*(f"{number}" for number in range(39)), "none"])
    assert [path.name for path in bucket.iterdir()] == ["39"]


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


def test_another_writer_right_after_an_upload_in_parts_is_reported(server, bucket, store, tmp_path):
    size = (64 << 20) + 1
    with open(tmp_path / "file", "wb") as file:
        file.truncate(size)

    def replace(method, key):
        if method == "COMPLETE":
            (server.home / key).write_bytes(b"other")

    server.after = replace
    with pytest.raises(OutageError, match=f"^s3://bkt/x: .*another writer.*expected {size:,} bytes, found 5"):
        store.put("x", tmp_path / "file")
    assert (bucket / "x").read_bytes() == b"other"


@pytest.mark.parametrize("name", ["m.tokfmt-writing", "m/index.json", "m.tokfmt.json"])
def test_a_lost_answer_ends_no_conversion(server, bucket, tmp_path, name):
    server.faults[f"PUT bkt/{name}"] = ["reset"]
    tokfmt.convert(FIXTURES / "modalities/D_2byte_gpt2.pbin", "s3://bkt/m", to_format="mds", eos=50256)
    tokfmt.convert(FIXTURES / "modalities/D_2byte_gpt2.pbin", tmp_path / "m", to_format="mds", eos=50256)
    assert tree(bucket / "m") == tree(tmp_path / "m")
    assert sorted(path.name for path in bucket.iterdir()) == ["m", "m.tokfmt.json"]


@pytest.fixture(scope="module")
def more():
    """More bytes than one request has."""
    return noise(upload.PUT_AT_ONCE + (5 << 20))


@pytest.fixture
def large(tmp_path, more):
    path = tmp_path / "large"
    path.write_bytes(more)
    return path


def test_a_large_file_is_written_in_parts(server, bucket, store, large, more):
    identity = store.put("large", large)
    assert (bucket / "large").read_bytes() == more
    assert sorted(methods(server)) == [
        "BEGIN",
        "COMPLETE",
        "HEAD",
        *(f"PART{k}" for k in range(1, 1 - -len(more) // (16 << 20))),
    ]
    assert not server.parts and identity == store.identity("large")


@FUZZ_ONLY
def test_a_large_file_that_must_be_absent(bucket, store, large):
    (bucket / "x").write_bytes(b"here")
    with pytest.raises(FileExistsError):
        store.put("x", large, if_absent=True)
    assert (bucket / "x").read_bytes() == b"here"


@pytest.mark.parametrize("fault", only(["503"], ["500", "503", "429", "reset"]))
@pytest.mark.parametrize("method", only(["PUT", "PART3"], ["PUT", "BEGIN", "PART3", "COMPLETE"]))
def test_a_fault_is_repaired_or_leaves_nothing(server, bucket, store, large, more, method, fault):
    server.faults[f"{method} bkt/x"] = [fault]
    content = more[:1000] if method == "PUT" else large
    try:
        store.put("x", content)
    except OutageError as error:  # An answer that was lost cannot be asked for again.
        assert (method, fault) == ("COMPLETE", "reset"), error
    else:
        assert (bucket / "x").read_bytes() == (more[:1000] if method == "PUT" else more)
    if method != "BEGIN":
        assert not server.parts


@pytest.mark.parametrize("method", only(["PUT", "PART3"], ["PUT", "BEGIN", "PART3", "COMPLETE"]))
def test_a_fault_that_lasts_leaves_no_object(server, bucket, store, large, more, method):
    server.forever[f"{method} bkt/x"] = "500"
    with pytest.raises(OutageError, match="^s3://bkt/x: cannot be written: 500 InternalError") as caught:
        store.put("x", more[:1000] if method == "PUT" else large)
    assert caught.value.exit_code == 4 and "127.0.0.1" not in str(caught.value)
    assert not list(bucket.iterdir()) and not server.parts


@FUZZ_ONLY
def test_one_failure_stops_the_others(server, bucket, store, tmp_path, large):
    (tmp_path / "small").write_bytes(b"small")
    server.forever["PUT bkt/bad"] = "400"
    server.delay = 0.05
    with pytest.raises(OutageError):
        store.upload([("large", large), ("bad", tmp_path / "small")], print)
    assert not (bucket / "large").exists() and not server.parts


def test_an_interrupted_wait_stops_the_upload(server, bucket, store, large):
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
