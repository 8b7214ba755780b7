"""Web servers: redirects that tokfmt follows and refuses, servers without ranges or tags, names that are encoded."""

import json
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES
from remote.conftest import open_store
from remote.faulty import Handler
from stores import close_stores

import tokfmt
from tokfmt.errors import (
    FormatError,
    SourceChangedError,
    UnknownFormatError,
    UnreachableError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.plugin import Identity, Url
from tokfmt.stores import blocks, redirects

PACK = "modalities/D_2byte_gpt2.pbin"


@pytest.fixture(autouse=True)
def fresh(server):
    close_stores()
    yield
    close_stores()


class Plain(SimpleHTTPRequestHandler):
    """Python's own web server: it serves no ranges. `tags` says what it states of a version."""

    protocol_version = "HTTP/1.1"
    tags = True

    def log_message(self, *_):
        pass

    def send_header(self, name, value):
        if name != "Last-Modified" or self.tags:
            super().send_header(name, value)


class Untagged(Plain):
    tags = False


@contextmanager
def plain(home, handler=Plain):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=home)) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def pack(bucket):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    return f"bkt/{PACK}"


def same(address):
    stored, local = tokfmt.open(address), tokfmt.open(FIXTURES / PACK)
    return len(stored) == len(local) > 0 and all(np.array_equal(*pair) for pair in zip(stored, local)) and stored


def test_a_redirect_is_followed_once(server, bucket, pack):
    (bucket / "moved").touch()
    server.forever["bkt/moved"], server.redirect = "302", f"/{pack}?X-Amz-Signature=planted"
    store, content = open_store(Url.parse(server.endpoint)), (FIXTURES / PACK).read_bytes()
    assert list(store.read_ranges("bkt/moved", [(5, 9), (9000, 9009)], store.status("bkt/moved").identity)) == [
        content[5:9], content[9000:9009]
    ]  # fmt: skip
    (look,) = [one for one in server.seen if one.key == "bkt/moved"]
    assert look.start == 0, "ranges are requested from where it leads"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("http://localhost:1/x", "leads to localhost, which is an address of a private network. Give that address yourself"),
        ("http://169.254.169.254/latest/meta-data", "leads to 169.254.169.254, which is an address of a private network"),
        ("http://[fe80::1]/x", "leads to fe80::1, which"), ("http://10.0.0.1/x", "leads to 10.0.0.1, which"),
        ("http://2130706433/x", "leads to 2130706433, which"), ("http://[::ffff:127.0.0.1]/", "leads to ::ffff:127.0.0.1, which"),
        ("file:///etc/passwd", "leads to an address that is not on the web: expected https, found file"),
    ],
)  # fmt: skip
def test_a_redirect_that_is_refused(server, pack, target, words):
    server.forever[pack], server.redirect = "302", target
    with pytest.raises(UnsafeError) as caught:
        tokfmt.open(f"{server.endpoint}/{pack}")
    assert words in str(caught.value)


def test_a_redirect_in_a_circle(server, pack):
    server.forever[pack], server.redirect = "302", f"/{pack}"
    with pytest.raises(UnsafeError, match="more than 5 times"):
        tokfmt.open(f"{server.endpoint}/{pack}")
    assert len(server.seen) == 6


def test_a_password_stays_with_its_server(server, pack):
    server.faults[pack], server.redirect = (
        ["302"],
        f"{server.endpoint.replace('127.0.0.1', 'user:pw@127.0.0.1')}/{pack}",
    )
    store = open_store(Url.parse(f"{server.endpoint.replace('//', '//me:planted@')}"))
    assert store.status(pack).size
    assert [one.headers["authorization"] for one in server.seen] == ["Basic bWU6cGxhbnRlZA=="] * 1 + [
        "Basic dXNlcjpwdw=="
    ]


def test_a_copy_is_made_again_if_the_page_changes(server, bucket):
    (bucket / "x").write_bytes(b"one")
    with plain(server.home) as endpoint:
        store = open_store(Url.parse(endpoint))
        first = store.status("bkt/x").identity
        (bucket / "x").write_bytes(b"three")
        assert store.status("bkt/x").identity == Identity(5, first.tag) or store.status("bkt/x").identity != first
        assert list(store.read_ranges("bkt/x", [(1, 4)], store.status("bkt/x").identity)) == [b"hre"]
        with pytest.raises(SourceChangedError):
            list(store.read_ranges("bkt/x", [(0, 3)], first))


def test_a_server_that_states_no_version(server, pack):
    with plain(server.home, Untagged) as endpoint:
        dataset = same(f"{endpoint}/{pack}")
    assert [note for note in dataset.info.notes if note.endswith("cannot tell whether D_2byte_gpt2.pbin changes")]


@pytest.mark.parametrize("fault", ["cut", "reset", "503", "short"])
def test_the_first_look_is_repeated(server, bucket, fault):
    (bucket / "x").write_bytes(bytes(range(250)) * 1000)
    server.faults["bkt/x"] = [fault]
    store = open_store(Url.parse(server.endpoint))
    assert store.status("bkt/x").size == 250_000 and len(server.seen) == 2
    server.forever["bkt/x"] = fault
    with pytest.raises(UnreachableError):
        store.status("bkt/x")


class Busy(Plain):
    """A server that refuses the first requests, and says when it wants the next one."""

    after, left, asked = "0", 0, 0

    def do_GET(self):
        type(self).asked += 1
        if type(self).left:
            type(self).left -= 1
            self.send_response(429)
            self.send_header("Retry-After", self.after)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        return super().do_GET()


@pytest.mark.parametrize(("after", "asked"), [("0", 11), ("3600", 1), ("Fri, 01 Jan 2100 00:00:00 GMT", 1)])
def test_a_server_that_says_when_to_ask_again(tmp_path, monkeypatch, after, asked):
    """A server that is to be asked only after the limit is not asked again."""
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "3")
    (tmp_path / "x.pbin").write_bytes((FIXTURES / PACK).read_bytes())
    busy: Any = type("Busy", (Busy,), {"after": after, "left": 10})
    with plain(tmp_path, busy) as address:
        if asked == 1:
            with pytest.raises(UnreachableError, match="429"):
                tokfmt.open(f"{address}/x.pbin")
        else:
            tokfmt.open(f"{address}/x.pbin")
    assert busy.asked >= asked if asked > 1 else busy.asked == 1


def test_an_address_that_is_not_there(server):
    with pytest.raises(FormatError, match="no such"):
        tokfmt.open(f"{server.endpoint}/bkt/none.pbin")


FOLDERS = [(name, one.name) for name in ("litdata", "mds") for one in sorted((FIXTURES / name).iterdir())]
FOLDERS = [(name, one) for name, one in FOLDERS if (FIXTURES / name / one / "index.json").is_file()]


@pytest.mark.parametrize(("name", "folder"), FOLDERS, ids=str)
def test_a_folder_whose_index_lists_its_files(server, bucket, name, folder):
    """Its format must be stated, as the server lists nothing. The index then says which files it has."""
    local = FIXTURES / name / folder
    shutil.copytree(local, bucket / folder)
    address = f"{server.endpoint}/bkt/{folder}"
    try:
        with tokfmt.open(local, format=name) as opened:
            expected = [one.tolist() for one in opened]
    except FormatError as error:
        with pytest.raises(type(error)):
            tokfmt.open(address, format=name)
        return
    with tokfmt.open(address, format=name) as opened:
        assert [one.tolist() for one in opened] == expected
    there, here = tokfmt.info(address, format=name), tokfmt.info(local, format=name)
    assert (there.files, there.size_bytes) == (here.files, here.size_bytes)
    with pytest.raises(UnknownFormatError, match=rf"/index.json: is a file of the {name} dataset .* --from {name}"):
        tokfmt.open(f"{address}/index.json")


def test_a_folder_that_changes_or_lacks_a_file(server, bucket, tmp_path):
    shutil.copytree(FIXTURES / "mds/ndarray_int32", bucket / "mds")
    address = f"{server.endpoint}/bkt/mds"
    count = len(list((bucket / "mds").iterdir()))
    tokfmt.convert(address, tmp_path / "out.jsonl", format="mds", eos="none")
    (source,) = json.loads((tmp_path / "out.jsonl.tokfmt.json").read_text())["sources"]
    assert source["files"] == count
    close_stores()
    (bucket / "mds/shard.00000.mds").unlink()
    with pytest.raises(FormatError, match=r"/shard.00000.mds: is missing"):
        tokfmt.open(address, format="mds")


def test_a_redirect_from_https_to_http_is_refused():
    answer = redirects.Answer("https://example.org/x", 302, {"Location": "http://example.org/x"}, None)
    with pytest.raises(UnsafeError, match="leads to http://example.org, which is not encrypted"):
        redirects.next_address(Url.parse("https://example.org/x"), answer)


def test_a_server_without_ranges_is_read_whole_once(tmp_path, pack, server):
    with plain(server.home) as endpoint:
        dataset = same(f"{endpoint}/{pack}")
    assert dataset, "nothing is asked of the server again"
    (note,) = [note for note in dataset.info.notes if "ranges" in note]
    assert note.startswith(f"{endpoint.removeprefix('http://')} serves no ranges: read D_2byte_gpt2.pbin whole, ")


@FUZZ_ONLY  # needs a real web server, which `make fuzz` installs
@pytest.mark.parametrize("size", [0, 1, blocks.SIZE, blocks.SIZE + 1])
def test_pages_of_any_size(server, bucket, size, web_server, use):
    content = (bytes(range(250)) * 1000)[:size]
    (bucket / "a b%c").write_bytes(content)
    store = open_store(Url.parse(server.endpoint))
    identity = store.status("bkt/a%20b%25c").identity
    assert list(store.read_ranges("bkt/a%20b%25c", [(0, size), (size // 2, size)], identity)) == [
        content,
        content[size // 2 :],
    ]


class Huge(Plain):
    """Pages of 2 GB, of which no byte is sent."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(2 << 30))
        self.end_headers()
        self.close_connection = True


def test_a_large_page_without_ranges_is_refused(server):
    words = r"x: is larger than 1.1 GB, and its server serves no ranges. Download"
    with plain(server.home, Huge) as endpoint, pytest.raises(UnsupportedError, match=words):
        open_store(Url.parse(endpoint)).status("bkt/x")


def test_what_is_beside_a_signed_page_may_be_denied(server, pack, monkeypatch):
    """The signature is for one page: S3 denies the manifest beside it, which is then taken for absent."""
    answer = Handler.answer

    def only_signed(self, *, body):
        return answer(self, body=body) if "Signature=" in self.path else self.refuse(403, "AccessDenied")

    monkeypatch.setattr(Handler, "answer", only_signed)
    address = f"{server.endpoint}/bkt/{PACK}"
    with pytest.raises(FormatError, match="access denied"):
        tokfmt.open(address)
    close_stores()
    signed, local = (
        tokfmt.open(one, eos=50256, ignore_manifest=True) for one in (f"{address}?Signature=planted", FIXTURES / PACK)
    )
    assert [list(one) for one in signed] == [list(one) for one in local]
    assert len(tokfmt.open(f"{address}?Signature=planted", eos=50256)) == len(local)
