"""Web servers: redirects that tokfmt follows and refuses, servers without ranges or tags, names that are encoded."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from paths import FIXTURES
from remote.faulty import Handler

import tokfmt
from tokfmt.errors import (
    FormatError,
    UnsupportedError,
)
from tokfmt.files.place import Url, close_stores
from tokfmt.stores import open_store, web

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


def test_a_large_page_without_ranges_is_refused(server, bucket, monkeypatch):
    (bucket / "x").write_bytes(bytes(200_000))
    monkeypatch.setattr(web, "MOST_COPIED", 100_000)
    with plain(server.home) as endpoint:
        with pytest.raises(
            UnsupportedError, match=r"x: is larger than 100.0 kB, and its server serves no ranges. Download"
        ):
            open_store(Url.parse(endpoint)).status("bkt/x")


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
