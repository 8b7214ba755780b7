"""Conversions to servers that others wrote, of each kind of store: their conditions, their deletes, their uploads in parts."""

import itertools
import json
import os

import pytest
from amount import FUZZ_ONLY, first
from paths import FIXTURES

import tokfmt
from tokfmt.errors import ConversionError, DestinationExistsError
from tokfmt.files.file import everything_in
from tokfmt.files.place import LocalPlace
from tokfmt.plugin import Url, open_file

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


class Meanwhile:
    """A progress that does something once, after the claim was written."""

    def __init__(self, act):
        self.acts = [act]

    def phase(self, *_):
        pass

    def advance(self, *_):
        if self.acts:
            self.acts.pop()()

    def note(self, text):
        pass


@pytest.mark.parametrize("overwrite", [False, True])
def test_one_run_has_the_claim(home, overwrite, tmp_path):
    ended, spool = [], tmp_path / "other"
    spool.mkdir()

    def other():
        try:
            tokfmt.convert(PACK, home / "x", to_format="mds", eos=50256, overwrite=overwrite, spool=spool)
        except ConversionError as error:
            ended.append(str(error))

    try:
        tokfmt.convert(PACK, home / "x", to_format="mds", eos=50256, shuffle=1, progress=Meanwhile(other))
    except ConversionError as error:
        ended.append(str(error))
    words = "so it publishes nothing" if overwrite else "another tokfmt is writing it"
    assert len(ended) == 1 and words in ended[0], ended
    with tokfmt.open(home / "x") as written, tokfmt.open(PACK) as source:
        assert (written[0].tolist() == source[0].tolist()) is overwrite
    assert not [name for name in content(home) if name.endswith("tokfmt-writing")]


@FUZZ_ONLY
def test_a_large_object_is_written_in_parts(home, tmp_path):
    with open(tmp_path / "train.bin", "wb") as file:
        file.truncate(70 << 20)
        file.seek(-(1 << 16), os.SEEK_END)
        file.write(b"\1" * (1 << 16))
    how = {"format": "nanogpt", "eos": "none", "manifest": False}
    for place in (home, LocalPlace(tmp_path)):
        tokfmt.convert(tmp_path / "train.bin", place / "large.pbin", **how)
    assert content(home)["large.pbin"] == (tmp_path / "large.pbin").read_bytes()
