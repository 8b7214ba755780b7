"""Conversions to servers that others wrote, of each kind of store: their conditions, their deletes, their uploads in parts."""

import itertools
import json

import pytest
from amount import first
from paths import FIXTURES

import tokfmt
from tokfmt.errors import DestinationExistsError
from tokfmt.plugin import Url, everything_in, open_file

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
NAMES = itertools.count()


@pytest.fixture(params=first(1, ["moto_server", "azure_server", "google_server"]))
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


def test_a_dataset_is_written_and_replaced(home, tmp_path):
    how = {"to_format": "mds", "eos": 50256}
    for shard_size in (300, 600):
        options = {"shard_size": shard_size}
        tokfmt.convert(PACK, home / "out", to_options=options, overwrite=shard_size > 300, **how)
        tokfmt.convert(PACK, tmp_path / f"{shard_size}", to_options=options, **how)
        assert content(home / "out") == content(tmp_path / f"{shard_size}")
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(PACK, home / "out", **how)
    assert sorted(content(home)) == sorted(["out.tokfmt.json", *(f"out/{name}" for name in content(home / "out"))])
