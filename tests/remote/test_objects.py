"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import pickle
import re
from typing import Any

import pytest
from amount import FUZZ_ONLY, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import FIXTURES
from remote.conftest import noise, open_store

import tokfmt
from tokfmt.errors import FormatError, OptionError, SourceChangedError, TokfmtError, UnreachableError
from tokfmt.plugin import Identity, Kind, Url

MIB = 1 << 20
LARGE = noise(12 * MIB)


@pytest.fixture
def large(bucket, store):
    """An object of 12 MiB, and its identity."""
    (bucket / "x.bin").write_bytes(LARGE)
    return store.status("x.bin").identity


@FUZZ_ONLY
def test_ten_thousand_objects_take_ten_lists(server, bucket, store):
    (bucket / "d").mkdir()
    for number in range(10_001):
        (bucket / f"d/{number}").touch()
    assert len(list(store.entries("d"))) == 10_001
    assert [one.method for one in server.seen] == ["LIST"] * 11


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 12 * MIB), st.integers(0, 3 * MIB)), max_size=6))
def test_any_ranges_are_the_bytes_of_the_file(store, large, spans):
    ranges = [(start, min(start + length, len(LARGE))) for start, length in spans]
    assert list(store.read_ranges("x.bin", ranges, large)) == [LARGE[start:stop] for start, stop in ranges]


@pytest.mark.parametrize("odd", ["iso/zzz//x.log", "iso/zzz/../x.log", "iso/zzz/./x.log", "iso/aaa//x"])
def test_an_odd_key_hides_no_other_object(server, bucket, fresh, tmp_path, odd):
    """The library refuses a list with such a key. Objects are then asked for one by one, and a folder names the key."""
    pack = FIXTURES / "modalities/D_2byte_gpt2.pbin"
    for name in ("iso/aaa/good.pbin", "iso/bbb/good.pbin"):
        (bucket / name).parent.mkdir(parents=True)
        (bucket / name).write_bytes(pack.read_bytes())
    server.odd["bkt"] = [odd]
    assert len(tokfmt.open("s3://bkt/iso/aaa/good.pbin")) == len(tokfmt.open(pack))
    tokfmt.convert("s3://bkt/iso/bbb/good.pbin", "s3://bkt/iso/out.pbin", eos=50256)
    tokfmt.convert("s3://bkt/iso/bbb/*.pbin", "s3://bkt/iso/a.pbin", eos=50256)
    assert (bucket / "iso/a.pbin").read_bytes() == (bucket / "iso/out.pbin").read_bytes()
    above, _, part = odd.rpartition("/")[0].rpartition("/")
    with pytest.raises(FormatError, match=re.escape(f"key {above}/{part}/")) as caught:
        tokfmt.open(f"s3://bkt/{above}")
    assert not isinstance(caught.value, UnreachableError)


def test_ranges_are_joined_and_kept(server, store, large):
    del server.seen[:]
    ranges = [(5 * MIB, 5 * MIB + 4), (5 * MIB + 300_000, 5 * MIB + 300_004), (9 * MIB, 9 * MIB + 1)]
    for _ in range(2):
        assert list(store.read_ranges("x.bin", ranges, large)) == [LARGE[start:stop] for start, stop in ranges]
    assert len(server.seen) == 2, "two are near each other, and nothing is read twice"
    assert all(one.headers["if-match"] == large.tag for one in server.seen)


@pytest.mark.parametrize("fault", ["500", "503", "429", "cut", "reset", "short", "shifted", "no range"])
def test_a_fault_is_repaired(server, store, large, fault):
    """As many requests more as there were faults; a body that breaks goes on at the byte where it broke."""
    del server.seen[:]
    server.faults["bkt/x.bin"] = [fault]
    assert list(store.read_ranges("x.bin", [(100, 5 * MIB)], large)) == [LARGE[100 : 5 * MIB]]
    first, second = (one.start for one in server.seen)
    assert first == 100 and (second == 100 + (5 * MIB - 100) // 2 if fault == "cut" else second >= 100)
    assert second > 100 or fault != "reset", "what came before the reset is not asked for again"
    assert all(one.headers["if-match"] == large.tag for one in server.seen)


@pytest.mark.parametrize("fault", ["500", "503", "429", "cut", "reset"])
def test_an_outage_of_many_tries_is_outlived(server, bucket, store, monkeypatch, fault):
    """The time decides, not the number of tries; also in the middle of bodies, and in the first look."""
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "6")
    (bucket / "y").write_bytes(LARGE[: 3 * MIB])
    store = open_store(Url.parse("s3://bkt"))
    server.faults["bkt/y"] = [fault] * 11
    identity = store.status("y").identity
    server.faults["bkt/y"] = [fault] * 11
    assert list(store.read_ranges("y", [(100, 3 * MIB)], identity)) == [LARGE[100 : 3 * MIB]]
    assert not server.faults["bkt/y"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("503", "cannot be reached: 503 SlowDown after {requests} tries"),
        ("short", "sends other bytes than the range"),
        ("shifted", "sends other bytes than the range"),
        ("no range", "sends other bytes than the range"),
    ],
)
def test_a_fault_that_lasts_is_reported(server, store, large, fault, words):
    server.forever["bkt/x.bin"] = fault
    del server.seen[:]
    with pytest.raises(UnreachableError) as caught:
        list(store.read_ranges("x.bin", [(0, 5 * MIB)], large))
    assert words.format(requests=len(server.seen)) in str(caught.value)
    assert caught.value.exit_code == 3 and str(caught.value).startswith("s3://bkt/x.bin: ")
    assert "127.0.0.1" not in str(caught.value), "the words are tokfmt's"


@pytest.mark.parametrize("small", [True, False])
def test_two_versions_are_never_mixed(server, bucket, store, large, small):
    stop = 9 * MIB if small else 12 * MIB
    (bucket / "x.bin").write_bytes(noise(12 * MIB, seed=1))
    with pytest.raises(SourceChangedError):
        list(store.read_ranges("x.bin", [(stop - (5 if small else 6 * MIB), stop)], large))
    assert store.status("x.bin").identity != large, "a new look is a new version"


@pytest.mark.parametrize("number", range(2))
def test_a_version_that_changes_between_two_requests_of_one_read(server, store, large, number):
    server.faults["bkt/x.bin"] = ["", ""]
    server.faults["bkt/x.bin"][number] = "no tag" if number else "changed"
    with pytest.raises(SourceChangedError):
        list(store.read_ranges("x.bin", [(0, 8 * MIB), (8 * MIB, 12 * MIB), (100, 5 * MIB)], large))


def test_an_object_without_a_tag_is_not_kept(server, bucket, store):
    (bucket / "y").write_bytes(LARGE[:200_000])
    server.forever["bkt/y"] = "no tag"
    identity = store.status("y").identity
    assert identity.tag.startswith("modified 2026-11-24")
    del server.seen[:]
    for _ in range(2):
        assert list(store.read_ranges("y", [(70_000, 70_010)], identity)) == [LARGE[70_000:70_010]]
    assert len(server.seen) == 2


@pytest.mark.parametrize("given", [False, True])
def test_access_is_denied_without_a_secret(server, bucket, monkeypatch, given):
    (bucket / "x").write_bytes(b"x")
    server.anonymous = False
    if given:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "PLANTEDKEY")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
        assert open_store(Url.parse("s3://bkt")).status("x").size == 1
        assert "PLANTEDKEY" in server.seen[-1].headers["authorization"]
    found = []
    for call in (lambda store: store.status("x"), lambda store: list(store.entries(""))):
        store = open_store(Url.parse("s3://bkt"))
        if given:
            server.refused = True
        with pytest.raises(FormatError, match="access denied") as caught:
            call(store)
        found.append(f"{caught.value} {caught.value!r} {caught.value.__context__!r} {vars(store)!r}")
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(store)
    assert not [text for text in found if re.search("planted|PLANTED", text)]
    assert ("credentials of the environment" if given else "AWS_PROFILE") in found[0]


def test_a_bucket_that_does_not_exist(server):
    for call in (
        lambda store: store.status("k"),
        lambda store: store.status(""),
        lambda store: list(store.entries("k")),
    ):
        with pytest.raises(FormatError, match=r"^s3://nobody.*: bucket nobody does not exist"):
            call(open_store(Url.parse("s3://nobody")))


def test_pages_of_a_web_server(server, bucket):
    (bucket / "x").write_bytes(LARGE[:100_000])
    store = open_store(Url.parse(server.endpoint))
    identity = store.status("bkt/x").identity
    assert list(store.read_ranges("bkt/x", [(1, 70_000)], identity)) == [LARGE[1:70_000]]
    for key in ("bkt", "bkt/none"):
        with pytest.raises(FileNotFoundError):
            store.status(key)
    with pytest.raises(FormatError, match="lists no files"):
        list(store.entries("bkt"))
    signed = open_store(Url.parse(f"{server.endpoint}/bkt/x?X-Amz-Signature=planted"))
    assert list(signed.read_ranges("", [(5, 9)], signed.status("").identity)) == [LARGE[5:9]]
    server.forever["bkt/x"] = "503"
    with pytest.raises(UnreachableError) as caught:
        signed.status("")
    assert "planted" not in f"{caught.value!r}"


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        ("http://127.0.0.1:1", UnreachableError, "cannot be reached: the connection is refused"),
        ("http://example.org", OptionError, "is not encrypted. --store-opt allow_http=true accepts it"),
        ("s3://b", OptionError, "expected s3://BUCKET/KEY"),
    ],
)
def test_addresses_that_lead_nowhere(server, address, error, words):
    with pytest.raises(error, match=re.escape(words)):
        open_store(Url.parse(address)).status("k")


@pytest.mark.parametrize("first", ["look", "list", "head"])
def test_the_region_is_learned_from_the_server(server, bucket, monkeypatch, first):
    """The answer to a HEAD, which writers send first, has no body that says so."""
    (bucket / "x").write_bytes(b"x")
    server.region = "eu-west-3"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store: Any = open_store(Url.parse("s3://bkt"))
    if first == "list":
        assert [one.name for one in store.entries("")] == ["x"]
    elif first == "head":
        assert store.identity("x").size == 1
    assert store.status("x").size == 1
    wrong = [one for one in server.seen if "/us-east-1/" in one.headers.get("authorization", "")]
    assert len(wrong) == 1, "later requests go to the right region at once"


def test_errors_of_tokfmt_alone(server, store, large):
    """What a reader catches is a TokfmtError or an OSError, for every fault at every request."""
    for fault in ("503", "cut", "short", "shifted", "no range", "changed", "no tag"):
        server.forever["bkt/x.bin"] = fault
        with pytest.raises((TokfmtError, OSError)):
            list(store.read_ranges("x.bin", [(0, 5 * MIB)], Identity(large.size, '"other"')))


@pytest.mark.parametrize("name", ["0.idx", "a0.idx", "1.idx", "!.idx", "~.idx", ".idx", "é.idx"])
def test_names_beside_any_name(bucket, store, name):
    (bucket / "d").mkdir()
    for other in (name, f"{name}.json", "zz"):
        (bucket / "d" / other).write_bytes(b"x")
    found = store.beside(f"d/{name}")
    assert name.startswith(found.stem) and found.last is None
    assert found.entries.keys() == {name, f"{name}.json"} and not found.below


def test_what_is_there(bucket, store):
    (bucket / "d/e").mkdir(parents=True)
    (bucket / "d/e/y").write_bytes(b"yy")
    (bucket / "d/z").write_bytes(b"")
    assert store.status("d/e/y").kind is Kind.FILE and store.status("d/e/y").size == 2
    assert store.status("d/z").size == 0
    assert store.status("d").kind is Kind.DIRECTORY is store.status("").kind
    inner, empty = store.entries("d")
    assert (inner.name, inner.kind) == ("e", Kind.DIRECTORY)
    assert (empty.name, empty.kind, empty.identity) == ("z", Kind.FILE, store.status("d/z").identity)
    for call in (store.status, lambda key: list(store.entries(key))):
        with pytest.raises(FileNotFoundError):
            call("nowhere")
