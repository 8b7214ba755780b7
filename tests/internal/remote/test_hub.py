"""Datasets of the Hugging Face Hub are read as local ones, at one commit, and no other server gets the token."""

import shutil
from typing import Any

import pytest
from paths import FIXTURES
from remote import fake_hub
from remote.conftest import forget

from tokfmt.files.place import Url, close_stores
from tokfmt.stores import open_store

REPOSITORY = "datasets/org/corpus"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    home = tmp_path / "hub"
    for name in ("stage1", "parquet", "mds", "modalities", "levanter"):
        shutil.copytree(FIXTURES / name, home / REPOSITORY / name)
    shutil.copytree(FIXTURES / "modalities", home / "models/org/corpus")
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_TOKEN_PATH",
        "TOKFMT_STORE_OPTIONS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "1")
    monkeypatch.setenv("TOKFMT_CACHE_DIR", str(tmp_path / "cache"))
    forget()
    with fake_hub.serving(home) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.site.endpoint)
        close_stores()
        yield served
    close_stores()


def test_an_address_that_ends_is_resolved_again(hub):
    store: Any = open_store(Url.parse("hf://datasets"))
    key = "org/corpus/modalities/D_2byte_gpt2.pbin"
    content = (hub.home / "datasets" / key).read_bytes()
    identity = store.status(key).identity
    assert identity == (len(content), fake_hub.COMMIT)
    assert store._get(key, 0, 9, identity) == content[:9]
    hub.signature = "sig-1"
    assert store._get(key, 5, 99, identity) == content[5:99]
    assert len([line for line in hub.site.seen if "/resolve/" in line[1]]) == 2
