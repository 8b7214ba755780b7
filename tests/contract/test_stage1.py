"""stage1 under the laws of every format; the oracle is numpy.fromfile and a split."""

import shutil

import numpy as np
from paths import FIXTURES

import tokfmt
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
    write_variants = ({"seq_len": 8, "samples": 1 << 20}, {})

    def read_options(self, options):
        return {key: options[key] for key in ("seq_len",) if key in options}

    def oracle(self, path, options):
        raw = np.fromfile(path, "<i4")
        assert len(raw) % options.get("seq_len", 8192) == 0
        return split_stream(raw.tolist(), self.eos_id)


class TestDirectory(FormatContract):
    format = FORMAT
    filename = "blocks"
    sharded = {"seq_len": 1, "samples": 1}
    eos_id = 0
    empty = False
    write_variants = ({"seq_len": 4, "samples": 5},)
    long_options = {"seq_len": 1024, "samples": 500}

    def read_options(self, options):
        return {"seq_len": options["seq_len"]}

    def oracle(self, path, options):
        blocks = sorted(path.iterdir())
        assert [p.name for p in blocks] == [f"stage1_block_{i:04d}.bin" for i in range(len(blocks))]
        raw = [np.fromfile(p, "<i4") for p in blocks]
        assert all(len(r) == 20 for r in raw[:-1])
        return split_stream(np.concatenate(raw).tolist(), self.eos_id)


def test_a_folder_that_begins_with_a_later_block_is_noted(tmp_path):
    """It can be read: the stream is whole from there on; a block by itself says nothing."""
    folder = tmp_path / "blocks"
    shutil.copytree(FIXTURES / "stage1/blocks", folder)
    for number, block in enumerate(sorted(folder.iterdir(), reverse=True)):
        block.rename(folder / f"stage1_block_{9 - number:04d}.bin")
    (verdict,) = tokfmt.check(folder)
    first = int(min(block.name[13:17] for block in folder.iterdir()))
    told = f"begins with block {first}: are those before it missing?"
    assert [(one.code, one.severity, one.message) for one in verdict.findings] == [("TF204", "warning", told)]
    with tokfmt.open(folder) as dataset:
        assert told in dataset.notes
    assert tokfmt.check(folder, options={"gaps": "accept"})[0].findings == []
    assert tokfmt.check(folder / "stage1_block_0009.bin")[0].findings == []
