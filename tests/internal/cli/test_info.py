"""`tokfmt info`: what a dataset is, in at most 15 lines, from a bounded read."""

import gzip
import json

import numpy as np
import pytest
from paths import CORPUS, FIXTURES

import tokfmt
from tokfmt.ops import info as infos

FIRST = json.loads(CORPUS.read_text().partition("\n")[0])["text"]


@pytest.fixture
def huge(tmp_path):
    """A terabyte of zeros after three documents: a sparse file that takes no space."""
    path = tmp_path / "train.bin"
    path.write_bytes(np.array([5, 6, 7, 50256, 8, 9, 50256, 1], np.uint16).tobytes())
    with path.open("r+b") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 2)
        file.write(b"\x50\xc4")  # 50256, as a writer leaves it that was not killed
    return path


def test_the_manifest_states_what_is_not_read(huge, monkeypatch, tmp_path):
    (tmp_path / "x").mkdir()
    tokfmt.convert(
        FIXTURES / "llmc/edu_fineweb_train_000001.bin", tmp_path / "x" / "val.bin", to_format="nanogpt", eos=50256
    )
    whole = tokfmt.info(tmp_path / "x" / "val.bin", format="nanogpt")
    monkeypatch.setattr(infos, "_COUNTED", 16)
    part = tokfmt.info(tmp_path / "x" / "val.bin", format="nanogpt")
    assert (whole.counts_from, part.counts_from) == ("dataset", "manifest")
    assert (whole.sequences, whole.tokens, whole.ids) == (part.sequences, part.tokens, part.ids)


def test_large_text_is_not_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(infos, "_RECORDS", 0)
    monkeypatch.setattr(infos, "_PACKED", 0)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(CORPUS.read_bytes()))
    for path in (CORPUS, tmp_path / "c.jsonl.gz"):
        found = tokfmt.info(path)
        assert (found.sequences, found.text) == (None, FIRST[:200])
