"""Conversions to servers that others wrote, of each kind of store: their conditions, their deletes, their uploads in parts."""

import itertools
import json

import pytest

from tokfmt.errors import ConversionError
from tokfmt.files.claims import Claim, claim_url
from tokfmt.files.file import everything_in, open_file
from tokfmt.files.place import Url, writable_store
from tokfmt.stores import upload

NAMES = itertools.count()


@pytest.fixture(params=["moto_server", "azure_server", "google_server"])
def home(request, use, tmp_path, monkeypatch):
    """A bucket of the test."""
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path))
    served = use(request.getfixturevalue(request.param))
    if request.param == "google_server":  # obstore asks for a token before it writes, even without a signature.
        account = tmp_path / "account.json"
        keys = {"gcs_base_url": served.endpoint, "client_email": "", "private_key": "", "private_key_id": ""}
        account.write_text(json.dumps({**keys, "disable_oauth": True, "type": "service_account"}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
        monkeypatch.setenv("TOKFMT_STORE_OPTIONS", f"endpoint={served.endpoint}")
    name = f"written{next(NAMES)}"
    served.make_bucket(name)
    return Url.parse(served.address(name))


def content(place):
    """The bytes of all objects below an address, by name."""
    found = {}
    for one in everything_in(place):
        file = open_file(one)
        found[one.relative(place).as_posix()] = file.read(0, file.size)
    return found


def test_one_run_has_the_claim(home):
    store, destination = writable_store(home / "x"), home / "x.pbin"
    first, second = (Claim(store, destination, run, "modalities") for run in ("first", "second"))
    first.take(overwrite=False, note=pytest.fail)
    with pytest.raises(ConversionError, match="another tokfmt is writing it"):
        second.take(overwrite=False, note=pytest.fail)
    second.take(overwrite=True, note=pytest.fail)
    with pytest.raises(ConversionError, match="the claim of this run is now of"):
        first.check()
    second.check()
    second.release()
    assert store.identity(claim_url(destination).key) is None


def test_a_large_object_is_written_in_parts(home, tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "PUT_AT_ONCE", 1 << 20)
    monkeypatch.setattr(upload, "_PART", 5 << 20)
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (11 << 12))
    store = writable_store(home / "large")
    identity = store.put("large", path)
    assert store.identity("large") == identity and identity.size == 11 << 20
    assert content(home)["large"] == path.read_bytes()
    store.delete(["large", "none"])
    assert store.identity("large") is None
