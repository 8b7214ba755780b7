"""Web servers: redirects that tokfmt follows and refuses, servers without ranges or tags, names that are encoded."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from paths import FIXTURES
from remote.faulty import Handler

import tokfmt
from tokfmt.core.errors import (
    FormatError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.core.place import Url, close_stores
from tokfmt.core.text_format import human_bytes
from tokfmt.remote import blocks, open_store, redirects, web

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


def test_a_redirect_from_https_to_http_is_refused():
    answer = redirects.Answer("https://example.org/x", 302, {"Location": "http://example.org/x"}, None)
    with pytest.raises(UnsafeError, match="leads to http://example.org, which is not encrypted"):
        redirects.next_address(Url.parse("https://example.org/x"), answer)


def test_a_server_without_ranges_is_read_whole_once(tmp_path, pack, server):
    with plain(server.home) as endpoint:
        dataset = same(f"{endpoint}/{pack}")
    assert dataset, "nothing is asked of the server again"
    (note,) = [note for note in dataset.info.notes if "ranges" in note]
    human = human_bytes((FIXTURES / PACK).stat().st_size)
    assert note == f"{endpoint.removeprefix('http://')} serves no ranges: read D_2byte_gpt2.pbin whole, {human}"


def test_a_large_page_without_ranges_is_refused(server, bucket, monkeypatch):
    (bucket / "x").write_bytes(bytes(200_000))
    monkeypatch.setattr(web, "MOST_COPIED", 100_000)
    with plain(server.home) as endpoint:
        with pytest.raises(
            UnsupportedError, match=r"x: is larger than 100.0 kB, and its server serves no ranges. Download"
        ):
            open_store(Url.parse(endpoint)).status("bkt/x")


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


def test_what_is_beside_a_signed_page_may_be_denied(server, pack, monkeypatch):
    """The signature is for one page: S3 denies the manifest beside it, which is then taken for absent."""
    answer = Handler.answer

    def only_signed(self, *, body):
        return answer(self, body=body) if "Signature=" in self.path else self.refuse(403, "AccessDenied")

    monkeypatch.setattr(web, "_SIGNED", set())
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
