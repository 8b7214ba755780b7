"""stage1 under the laws of every format; the oracle is numpy.fromfile and a split."""

import os
import shutil

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import TruncatedError
from tokfmt.formats.stage1 import FORMAT
from tokfmt.testing import FormatContract


def split_stream(stream, eos):
    """Non-empty runs between separators."""
    documents, current = [], []
    for token in stream:
        if token == eos:
            documents += [current] if current else []
            current = []
        else:
            current.append(token)
    return documents + ([current] if current else [])


class TestBlock(FormatContract):
    format = FORMAT
    filename = "stage1_block_0000.bin"
    eos_id = 50256
    empty = False
    write_variants = ({"seq_len": 8, "shard_size": 1 << 23}, {})

    def read_options(self, options):
        return {key: options[key] for key in ("seq_len",) if key in options}

    def oracle(self, path, options):
        raw = np.fromfile(path, "<i4")
        assert len(raw) % options.get("seq_len", 8192) == 0
        return split_stream(raw.tolist(), self.eos_id)


class TestDirectory(FormatContract):
    format = FORMAT
    filename = "blocks"
    sharded = {"seq_len": 1, "shard_size": 1}
    eos_id = 0
    empty = False
    write_variants = ({"seq_len": 4, "shard_size": 20},)
    long_options = {"seq_len": 1024, "shard_size": 512_000}

    def read_options(self, options):
        return {"seq_len": options["seq_len"]}

    def oracle(self, path, options):
        blocks = sorted(path.iterdir())
        assert [p.name for p in blocks] == [f"stage1_block_{i:04d}.bin" for i in range(len(blocks))]
        raw = [np.fromfile(p, "<i4") for p in blocks]
        assert all(len(r) == 20 for r in raw[:-1])
        return split_stream(np.concatenate(raw).tolist(), self.eos_id)


def test_a_folder_that_begins_with_a_later_block_is_noted(tmp_path):
    """It can be read: the stream is whole from there on, but for what it begins with."""
    folder = tmp_path / "blocks"
    shutil.copytree(FIXTURES / "stage1/blocks", folder)
    for number, block in enumerate(sorted(folder.iterdir(), reverse=True)):
        block.rename(folder / f"stage1_block_{9 - number:04d}.bin")
    (verdict,) = tokfmt.check(folder)
    first = int(min(block.name[13:17] for block in folder.iterdir()))
    fragment = "without the blocks before it, its first document may be a fragment"
    told = f"begins with block {first}: {fragment}"
    assert [(one.code, one.severity, one.message) for one in verdict.findings] == [("TF204", "warning", told)]
    with tokfmt.open(folder) as dataset:
        assert told in dataset.notes
    assert tokfmt.check(folder, options={"gaps": "accept"})[0].findings == []
    alone = folder / "stage1_block_0009.bin"
    (verdict,) = tokfmt.check(alone)
    assert [(one.code, one.severity) for one in verdict.findings] == [("TF204", "warning")]
    assert verdict.findings[0].message == f"is block 9: {fragment}"
    assert tokfmt.check(alone, options={"gaps": "accept"})[0].findings == []
    with tokfmt.open(alone) as dataset:
        assert any(fragment in note for note in dataset.notes)


@pytest.mark.parametrize("kept", [0, 8192 * 4])
def test_a_block_that_is_cut_before_the_last_is_refused(tmp_path, kept):
    """Even at the border of a sample; by its folder and by its name."""
    folder = tmp_path / "blocks"
    folder.mkdir()
    ids = np.random.default_rng(1).integers(1, 900, (3, 2 * 8192)).astype("<i4")
    ids[:, ::100] = 50256
    for number, block in enumerate(ids):
        block.tofile(folder / f"stage1_block_{number:04d}.bin")
    whole = len(tokfmt.open(folder))
    os.truncate(folder / "stage1_block_0001.bin", kept)
    for paths in (folder, sorted(folder.iterdir())):
        with pytest.raises(TruncatedError, match="0001.bin: is not the last block.*gaps"):
            tokfmt.open(paths)
        with tokfmt.open(paths, options={"gaps": "accept"}) as dataset:
            assert 0 < len(dataset) < whole
            assert any("stage1_block_0001.bin is not the last block" in note for note in dataset.notes)
    assert "TF208" in {one.code for one in tokfmt.check(folder)[0].findings if one.severity == "error"}
    accepted = tokfmt.check(folder, options={"gaps": "accept"})[0].findings
    assert "TF208" in {one.code for one in accepted if one.severity == "warning"}
