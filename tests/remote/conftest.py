"""A server with faults for each test, with a bucket `bkt`, and servers of others that start when a test first needs one.

No test asks a server of another machine.
"""

import functools
import os
import socket
import time

import numpy as np
import pytest
from paths import FIXTURES
from remote import faulty, servers
from stores import Counting

pytest.importorskip("obstore")

from tokfmt.files import place
from tokfmt.files.place import Url, close_stores
from tokfmt.stores import account, open_store
from tokfmt.stores.ahead import AHEAD
from tokfmt.stores.ranges import BLOCKS

VARIABLES = [
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "TOKFMT_STORE_OPTIONS"),
]


def forget():
    """What this process knows of objects, as if it were another one."""
    BLOCKS.clear()
    AHEAD.clear()
    account.taken()


@pytest.fixture(autouse=True)
def uncounted():
    """The browser of a later test in this process shows no requests of this one."""
    yield
    account.taken()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of the protocol of S3 that every s3:// address of the test is on."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "1")
    forget()
    close_stores()  # those of the servers of other tests
    (tmp_path / "served/bkt").mkdir(parents=True)
    with faulty.serving(tmp_path / "served") as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL", served.endpoint)
        close_stores()  # a thread of an earlier test may have opened one meanwhile
        yield served
        with socket.create_connection(("127.0.0.1", served.server_port), timeout=10):
            pass  # nothing in this process closed the socket of the server


@pytest.fixture
def fresh(server):
    """The server, without the stores of an earlier test."""
    close_stores()
    yield server
    close_stores()


@pytest.fixture
def spool(fresh, tmp_path, monkeypatch):
    """The directory of spools, which are of the test."""
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
def held(monkeypatch):
    """A store in memory that every mem:// address of the test is in."""
    monkeypatch.setattr(place, "_OPENERS", {})
    monkeypatch.setattr(place, "_OPEN", [{}])
    store = Counting({})
    place.register_store("mem", lambda _: store)
    return store


@pytest.fixture
def bucket(server):
    """The directory of the bucket `bkt`."""
    return server.home / "bkt"


@pytest.fixture
def store(server):
    return open_store(Url.parse("s3://bkt"))


@pytest.fixture(scope="session")
def moto_server():
    """An S3 that accepts all credentials."""
    with servers.moto() as served:
        yield served


@pytest.fixture(scope="session")
def azure_server():
    """An Azure Blob Storage with one account."""
    with servers.azurite() as served:
        yield served


@pytest.fixture(scope="session")
def google_server():
    """A Google Cloud Storage that accepts all requests."""
    with servers.google() as served:
        yield served


@pytest.fixture(scope="session")
def web_server(tmp_path_factory):
    """A web server of the fixtures, which answers requests for ranges and lists nothing."""
    with servers.nginx(FIXTURES, tmp_path_factory.mktemp("nginx")) as served:
        yield served


@pytest.fixture
def use(monkeypatch):
    """Let the addresses of this test lead to a server of the session."""

    def use(served):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in served.variables.items():
            monkeypatch.setenv(name, value)
        close_stores()
        return served

    yield use
    close_stores()


@functools.cache
def tree(place):
    """The bytes of all files at or below a path, by their names."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place.parent).as_posix(): path.read_bytes() for path in files}


def everything(bucket):
    return {path.relative_to(bucket).as_posix(): path.read_bytes() for path in bucket.rglob("*") if path.is_file()}


def noise(count, seed=0):
    """So many bytes that do not repeat."""
    return np.random.default_rng(seed).bytes(count)


def within(seconds, call):
    """What a call gives, and that it took less time."""
    began = time.monotonic()
    found = call()
    assert time.monotonic() - began < seconds
    return found


def when(server, method, name, act):
    """Call a function once, before the first write of that method to a key."""
    left = [act]

    def before(got, key):
        if (got, key) == (method, f"bkt/{name}") and left:
            left.pop()()

    server.before = before


@pytest.fixture
def on_machine(tmp_path, monkeypatch):
    """Go on as on another machine, which has an empty spool."""

    def go(name):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))

    monkeypatch.delenv("TOKFMT_SPOOL", raising=False)
    return go
