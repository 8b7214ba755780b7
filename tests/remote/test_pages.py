"""The Python of docs/remote.md, and that of docs/train.md that reads a bucket, with a server of this machine."""

import importlib.util
import re
import shutil
from typing import Any

import pytest
from paths import FIXTURES, ROOT

import tokfmt

SHOWN = "https://minio.example:9000"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


def here(code, server):
    """The block with the bucket and the address of the server."""
    return code.replace("s3://bucket/", "s3://bkt/").replace(SHOWN, server.endpoint)


def test_the_page_on_stores(server, tmp_path, monkeypatch):
    for suffix in ("bin", "idx"):
        shutil.copy(FIXTURES / "megatron" / f"gpt2_text_document.{suffix}", tmp_path / "served/bkt" / f"train.{suffix}")
    (code,) = blocks("remote.md")
    assert SHOWN in code
    monkeypatch.delenv("AWS_ENDPOINT_URL")  # the option alone leads to the server
    scope: dict[str, Any] = {"tokfmt": tokfmt}
    exec(f"found = {here(code, server)}", scope)
    with tokfmt.open(FIXTURES / "megatron" / "gpt2_text_document.bin") as local:
        assert [one.tolist() for one in scope["found"]] == [one.tolist() for one in local]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_training_from_a_bucket(server, tmp_path):
    (code,) = (block for block in blocks("train.md") if "s3://" in block)
    shutil.copy(FIXTURES / "modalities/D_2byte_gpt2.pbin", tmp_path / "served/bkt/pack.pbin")
    recipe = 'tokfmt = 1\nseq_len = 8\nshuffle = "samples"\nseed = 1\n[[source]]\npath = "pack.pbin"\neos = 50256\n'
    (tmp_path / "served/bkt/mix.toml").write_text(recipe)
    scope = {}
    exec(here(code, server).replace("512", "4").replace("prefetch=8", "prefetch=8, rank=0, world_size=1"), scope)
    batch = next(iter(scope["loader"]))
    assert batch["input_ids"].shape == (4, 8)
