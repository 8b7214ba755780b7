"""Recipes in a bucket, and training from one: the samples of local files, through faults of the server, or an error."""

import shutil
from typing import Any

import numpy as np
import pytest
from paths import FIXTURES
from remote.conftest import forget

import tokfmt
from tokfmt.errors import UnreachableError
from tokfmt.mix import deferred as sources
from tokfmt.stores import clients

RECIPE = """tokfmt = 1
seq_len = 64
seed = 1
shuffle = "samples"
[[source]]
name = "pack"
path = "modalities/D_2byte_gpt2.pbin"
weight = 0.5
[[source]]
name = "pair"
path = {pair}
weight = 0.5
"""
PAIR = "bkt/megatron/gpt2_text_document.bin"


@pytest.fixture
def mix(fresh, bucket, tmp_path, monkeypatch):
    """The same recipe in the bucket and in a local directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for home, pair in ((bucket, '"s3://bkt/megatron/gpt2_text_document.bin"'), (tmp_path / "here", '["megatron/gpt2_text_document.bin"]')):  # fmt: skip
        for name in ("modalities", "megatron"):
            shutil.copytree(FIXTURES / name, home / name)
        (home / "mix.toml").write_text(RECIPE.format(pair=pair))
    return "s3://bkt/mix.toml", tmp_path / "here/mix.toml"


def samples_of(recipe) -> Any:
    return tokfmt.open(recipe)


def test_facts_on_sources_are_kept_by_the_identity_of_objects(mix, fresh, bucket, monkeypatch):
    """Opened again, a source is not read; when its object changes, it is."""
    monkeypatch.setattr(sources, "_SEQUENCES", 1)
    first = samples_of(mix[0])
    assert [source.kept for source in first._samples.sources] == [True, True]
    del fresh.seen[:]
    tokfmt.open(mix[0])
    read = {one.key: one.stop for one in fresh.bodies() if one.start}
    assert not read, "only statuses, which are first blocks"
    content = bytearray((bucket / "modalities/D_2byte_gpt2.pbin").read_bytes())
    content[20] ^= 1
    (bucket / "modalities/D_2byte_gpt2.pbin").write_bytes(content)
    changed = tokfmt.open(mix[0])
    assert any(not np.array_equal(a["input_ids"], b["input_ids"]) for a, b in zip(changed, tokfmt.open(mix[1]), strict=True))  # fmt: skip


@pytest.fixture
def loader():
    return pytest.importorskip("tokfmt.torch").Loader


def batches(loader):
    return [batch["input_ids"].tolist() for batch in loader]


@pytest.fixture
def patience(monkeypatch):
    """The seconds without a byte after which a request is repeated. The disk keeps no answers."""
    monkeypatch.setattr(clients, "SILENCE", 0.3)
    monkeypatch.setenv("TOKFMT_CACHE_SIZE", "0")


@pytest.mark.parametrize("fault", ["503", "reset", "cut", "stalled body", "stalled head"])
def test_a_server_that_recovers_during_training(patience, mix, loader, fresh, fault):
    whole = batches(loader(mix[1], batch_size=8))
    reading = loader(mix[0], batch_size=8, prefetch=2)
    forget()
    for key in (PAIR, "bkt/modalities/D_2byte_gpt2.pbin"):
        fresh.faults[key] = [fault]
    assert batches(reading) == whole
    assert not any(fresh.faults.values()), "a fault met a request"


@pytest.mark.parametrize("fault", ["503", "stalled body"])
def test_a_server_that_fails_for_good_ends_training(mix, loader, fresh, patience, fault):
    reading = loader(mix[0], batch_size=8, prefetch=2)
    forget()
    for key in (PAIR, "bkt/modalities/D_2byte_gpt2.pbin"):
        fresh.forever[key] = fault
    with pytest.raises(UnreachableError, match=f"^s3://({PAIR}|bkt/modalities/D_2byte_gpt2.pbin): cannot be reached"):
        batches(reading)
    fresh.forever.clear()
    again = loader(mix[0], batch_size=8)
    again.load_state_dict(reading.state_dict())
    assert batches(again) == batches(loader(mix[1], batch_size=8)), "no sample counts as handed out"
