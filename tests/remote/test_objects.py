"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import pickle
import re

import pytest
from amount import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote.conftest import noise

from tokfmt.core.errors import FormatError, OptionError, SourceChangedError, TokfmtError, UnreachableError
from tokfmt.core.place import Entry, Identity, Kind, Url
from tokfmt.remote import blocks, objects, open_store
from tokfmt.remote.failures import Asked, failure
from tokfmt.remote.options import StoreOptions, configure

MIB = 1 << 20
LARGE = noise(12 * MIB)


@pytest.fixture
def large(bucket, store):
    """An object of 12 MiB, and its identity."""
    (bucket / "x.bin").write_bytes(LARGE)
    return store.status("x.bin").identity


def test_what_is_there(bucket, store):
    (bucket / "d/e").mkdir(parents=True)
    (bucket / "d/e/y").write_bytes(b"yy")
    (bucket / "d/z").write_bytes(b"")
    assert store.status("d/e/y").kind is Kind.FILE and store.status("d/e/y").size == 2
    assert store.status("d/z").size == 0
    assert store.status("d").kind is Kind.DIRECTORY is store.status("").kind
    assert list(store.entries("d")) == [
        Entry("e", Kind.DIRECTORY), Entry("z", Kind.FILE, store.status("d/z").identity)
    ]  # fmt: skip
    for call in (store.status, lambda key: list(store.entries(key))):
        with pytest.raises(FileNotFoundError):
            call("nowhere")


def test_ten_thousand_objects_take_ten_lists(server, bucket, store):
    (bucket / "d").mkdir()
    for number in range(10_001):
        (bucket / f"d/{number}").touch()
    assert len(list(store.entries("d"))) == 10_001
    assert [one.method for one in server.seen] == ["LIST"] * 11


def test_the_first_look_is_one_request(server, bucket, store):
    (bucket / "x").write_bytes(LARGE[: 3 * blocks.SIZE])
    identity = store.status("x").identity
    assert list(store.read_ranges("x", [(0, 100), (blocks.SIZE - 5, blocks.SIZE)], identity)) == [
        LARGE[:100], LARGE[blocks.SIZE - 5 : blocks.SIZE]
    ]  # fmt: skip
    assert [(one.method, one.start, one.stop) for one in server.seen] == [("GET", 0, blocks.SIZE)]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 12 * MIB), st.integers(0, 3 * MIB)), max_size=6))
def test_any_ranges_are_the_bytes_of_the_file(store, large, spans):
    ranges = [(start, min(start + length, len(LARGE))) for start, length in spans]
    assert list(store.read_ranges("x.bin", ranges, large)) == [LARGE[start:stop] for start, stop in ranges]


def test_ranges_are_joined_and_kept(server, store, large):
    del server.seen[:]
    ranges = [(5 * MIB, 5 * MIB + 4), (5 * MIB + 300_000, 5 * MIB + 300_004), (9 * MIB, 9 * MIB + 1)]
    for _ in range(2):
        assert list(store.read_ranges("x.bin", ranges, large)) == [LARGE[start:stop] for start, stop in ranges]
    assert len(server.seen) == 2, "two are near each other, and nothing is read twice"
    assert all(one.headers["if-match"] == large.tag for one in server.seen)


def test_a_long_read_is_cut_and_not_kept(server, store, large):
    del server.seen[:]
    for _ in range(2):
        assert list(store.read_ranges("x.bin", [(0, len(LARGE))], large)) == [LARGE]
    assert sorted(one.start for one in server.seen) == [0, 0, blocks.LARGEST, blocks.LARGEST]


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


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("503", "cannot be reached: 503 SlowDown after"),
        ("short", "sends other bytes than the range"),
        ("shifted", "sends other bytes than the range"),
        ("no range", "sends other bytes than the range"),
    ],
)
def test_a_fault_that_lasts_is_reported(server, store, large, fault, words):
    server.forever["bkt/x.bin"] = fault
    with pytest.raises(UnreachableError, match=words) as caught:
        list(store.read_ranges("x.bin", [(0, 5 * MIB)], large))
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dns error: failed to lookup address information", "host example.org is unknown"),
        ("invalid peer certificate: UnknownIssuer", "the certificate of example.org is not trusted"),
        ("status code: 403 <Code>RequestTimeTooSkewed</Code>", "the clock of this machine is wrong"),
        (
            "status code: 403 <Code>RequestTimeTooSkewed</Code><RequestTime>20261125T120000Z</RequestTime>"
            "<ServerTime>2026-11-25T12:17:10Z</ServerTime>",
            "the clock of this machine is 17 minutes behind. Set the clock",
        ),
        ("status code: 400 <Code>ExpiredToken</Code>", "the credentials of profile work have expired. Renew them"),
        (
            "status code: 403 <Code>AccessDenied</Code> user planted is not authorized to perform: s3:GetObject on planted",
            "access denied for the credentials of profile work (s3:GetObject)",
        ),
        ("status code: 401 Unauthorized", "access denied for the credentials of profile work"),
        ("operation timed out, after 3 retries", "cannot be reached: no answer in time after 4 tries. Run again later"),
        ("something else https://planted", "cannot be reached: the connection failed. Run again later"),
    ],
)
def test_words_of_failures(text, words):
    error = failure(Url.parse("https://example.org/k"), RuntimeError(text), Asked("profile work"))
    assert isinstance(error, FormatError) and words in str(error) and "planted" not in str(error)


@pytest.mark.parametrize("list_first", [False, True])
def test_the_region_is_learned_from_the_server(server, bucket, monkeypatch, list_first):
    (bucket / "x").write_bytes(b"x")
    server.region = "eu-west-3"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = open_store(Url.parse("s3://bkt"))
    if list_first:
        assert [one.name for one in store.entries("")] == ["x"]
    assert store.status("x").size == 1
    wrong = [one for one in server.seen if "/us-east-1/" in one.headers.get("authorization", "")]
    assert len(wrong) == 1, "later requests go to the right region at once"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("endpont=x", "Did you mean endpoint?"),
        ("secret_access_key=planted", "secrets are not taken from options"),
        ("anonymous=perhaps", "expected true or false"),
        ("anonymous", "expected NAME=VALUE"),
    ],
)
def test_options_that_are_refused(words, message):
    with pytest.raises(OptionError, match=re.escape(message)) as caught:
        StoreOptions.parse([words])
    assert "planted" not in str(caught.value) and caught.value.exit_code == 2


def test_options_reach_the_server_and_the_workers(server, bucket, monkeypatch):
    (bucket / "x").write_bytes(b"x")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = StoreOptions.parse([f"endpoint={server.endpoint}", "anonymous=true", "requester-pays=yes"])
    assert StoreOptions.parse(options.words()) == options
    configure(options)
    assert open_store(Url.parse("s3://bkt")).status("x").size == 1
    assert "authorization" not in server.seen[-1].headers
    configure(StoreOptions())
    assert StoreOptions.parse([]) == StoreOptions()


def test_a_profile_has_keys_an_endpoint_and_a_region(server, bucket, monkeypatch, tmp_path):
    (bucket / "x").write_bytes(b"x")
    server.anonymous = False
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    config, shared = tmp_path / "config", tmp_path / "credentials"
    config.write_text(
        f"[profile work]\nregion = eu-west-3\nservices = mine\n\n[services mine]\ns3 =\n  endpoint_url = {server.endpoint}\n"
    )
    shared.write_text("[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert open_store(Url.parse("s3://bkt")).status("x").size == 1
    assert re.search("WORKKEY/[0-9]+/eu-west-3/s3", server.seen[-1].headers["authorization"])
    configure(StoreOptions(profile="missing"))
    with pytest.raises(OptionError, match="profile=missing: is not a profile"):
        open_store(Url.parse("s3://bkt"))


def test_identities_are_of_every_byte():
    assert not objects._is_strong(Identity(3, 'W/"abc"')) and objects._is_strong(Identity(3, '"abc"'))


def test_blocks_are_bounded():
    held = blocks.Blocks(4 * blocks.SIZE)
    held.put("a", 0, LARGE[: 3 * blocks.SIZE + 5], 3 * blocks.SIZE + 5)
    assert [len(held.get("a", [n])[n]) for n in range(4)] == [blocks.SIZE] * 3 + [5]
    held.put("b", blocks.SIZE, LARGE[: blocks.SIZE + 7], 10 * blocks.SIZE)
    assert held.get("b", [1, 2]) == {1: LARGE[: blocks.SIZE]}, "a part of a block is not a block"
    held.put("b", 0, LARGE[: 4 * blocks.SIZE], 10 * blocks.SIZE)
    assert held.held <= held.capacity and not held.holds("a", [0]) and held.holds("b", [3])


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


def test_directories_beside_a_name(bucket, store, monkeypatch):
    for path in ("d/a.zarr/t/0", "d/a.zarr/t/1", "d/a.zarr/u/v/0", "d/a.zarr/zz", "d/b/0"):
        (bucket / path).parent.mkdir(parents=True, exist_ok=True)
        (bucket / path).write_bytes(b"x")
    found = store.beside("d/a.zarr")
    assert found.entries.keys() == {"a.zarr"} and found.entries["a.zarr"].kind is Kind.DIRECTORY
    kinds = {path: {name: one.kind.value for name, one in held.items()} for path, held in found.below.items()}
    assert kinds == {
        "a.zarr": {"t": "directory", "u": "directory", "zz": "file"}, "a.zarr/t": {"0": "file", "1": "file"},
        "a.zarr/u": {"v": "directory"}, "a.zarr/u/v": {"0": "file"},
    }  # fmt: skip
    monkeypatch.setattr("tokfmt.remote.objects._PAGE", 3)
    found = store.beside("d/a.zarr")
    assert found.below.keys() == {"a.zarr/t"} and found.last == "a.zarr", "what the page does not end is not known"
