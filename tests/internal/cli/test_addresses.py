"""Addresses: refused as destinations, and as sources if no store has their scheme, in the same words everywhere."""

import pytest
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.core.errors import OptionError
from tokfmt.formats.jsonl.index import write_index

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
RECIPE = """tokfmt = 1
tokenizer = "{tokenizer}"
[[source]]
path = "text.jsonl"
filter = "garbage"
"""
STORES = ["s3://bucket/", "gs://bucket/", "hf://datasets/org/", "https://host/"]
UNKNOWN = ["ftp://host/", "oci://bucket/"]


@pytest.fixture
def home(tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": "a b"}\n')
    (tmp_path / "mix.toml").write_text(RECIPE.format(tokenizer=TOKENIZER))
    for store in [*STORES, *UNKNOWN]:  # what the address is as a path
        (tmp_path / store).mkdir(parents=True)
    return tmp_path


def test_in_python(home, monkeypatch):
    monkeypatch.chdir(home)
    with pytest.raises(OptionError, match="^hf://bucket/out.pbin: the scheme hf is not written"):
        tokfmt.convert(PACK, "hf://bucket/out.pbin")
    with pytest.raises(OptionError, match="^oci://bucket/x.idx: the scheme oci is not written"):
        write_index(home / "text.jsonl", "oci://bucket/x.idx")
    with pytest.raises(OptionError, match="^oci://bucket/x.pbin: the scheme oci is not read"):
        tokfmt.open("oci://bucket/x.pbin")
