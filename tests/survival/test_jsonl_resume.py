"""Killed at any moment, a conversion with --resume, or a task, continues, and gives the bytes of one that was not."""

import pytest
from amount import FUZZ_ONLY
from made_corpora import make
from paths import CORPUS, TOKENIZER

pytestmark = pytest.mark.slow

NAMES = {
    "jsonl": "x.jsonl",
    "modalities": "x.pbin",
    "stage1": "stage1_block_0000.bin",
    "hdf5": "x.h5",
    "flat-tokens": "x.zarr",
}
SMALL = {"stage1": {"seq_len": 64}, "hdf5": {"seq_len": 64}, "flat-tokens": {"chunk": 512, "starts_chunk": 64}}


def of_text(tmp_path, name, lines=60):
    (tmp_path / "a.jsonl").write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[:lines]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[lines : lines + 9]))
    return {
        "sources": [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], "name": NAMES[name],
        "to_options": SMALL.get(name, {}), "tokenizer": str(TOKENIZER), "region": 4096,
    }  # fmt: skip


def of_recipe(tmp_path, name):
    """Sources of each kind: to be read whole, drawn by an index, compressed; filtered, with quotas, equal texts left out."""
    from tokfmt.formats.jsonl.index import index_path, write_index

    make(tmp_path)
    write_index(tmp_path / "web.jsonl", index_path(tmp_path / "web.jsonl"))
    sources = [("web.jsonl", "tokens = 900"), ("books.jsonl.gz", "tokens = 800"), ("wiki.jsonl", "")]
    tables = "".join(f'[[source]]\npath = "{path}"\nfilter = "garbage"\n{quota}\n' for path, quota in sources)
    head = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\ndedup = "exact"\nshuffle = "documents"\n'
    (tmp_path / "mix.toml").write_text(head + tables)
    return {
        "sources": [str(tmp_path / "mix.toml")], "name": NAMES[name], "to_options": SMALL.get(name, {}), "region": 1024,
        "allow_loss": ["fields"], "smaller": 1,
    }  # fmt: skip


@FUZZ_ONLY
def test_killed_while_preparing(tmp_path, drive):
    """While records are read and filtered, drawn, written, published."""
    seen = drive("sweep", of_recipe(tmp_path, "modalities"), tmp_path, moments=6)
    assert seen["spared"], "nothing was saved"


@FUZZ_ONLY
def test_killed_again_and_again_while_preparing(tmp_path, drive):
    assert drive("relay", of_recipe(tmp_path, "modalities"), tmp_path)["runs"] > 1


@FUZZ_ONLY
@pytest.mark.parametrize("case", [of_recipe, of_text], ids=["recipe", "text"])
def test_shards_of_text_in_any_order(tmp_path, case, drive):
    """Each tokenises its part; --finish draws and writes, and is killed as well."""
    drive("tasks", case(tmp_path, "modalities"), tmp_path, order=[1, 0], moments=[30, 80])
