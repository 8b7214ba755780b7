"""datatrove under the laws of every format; the oracle is numpy.fromfile."""

import shutil
import tracemalloc

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError
from tokfmt.formats.datatrove import FORMAT
from tokfmt.testing import FormatContract


def documents(path):
    """Documents as stored: every value of the index is the end of one."""
    ends = np.fromfile(f"{path}.index", "<u8").tolist()
    tokenizer, width = (path.parent / f"{path.name}.metadata").read_text().splitlines()[0].rsplit("|", 1)
    tokens = np.fromfile(path, f"<u{width}").tolist()
    assert (tokenizer, (ends or [0])[-1]) == ("unknown", len(tokens))
    assert (path.parent / f"{path.name}.metadata").read_text().splitlines()[1] == str(len(tokens))
    return [tokens[a:b] for a, b in zip([0, *ends], ends)]


class TestFile(FormatContract):
    format = FORMAT
    filename = "x.ds"
    shard = "{k:05d}_x.ds"
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"width": 4}, {})

    def oracle(self, path, options):
        stored = documents(path)
        assert all(document[-1] == self.eos_id for document in stored if document)
        return [document[:-1] for document in stored]


class TestFolder(TestFile):
    filename = "tokens"

    def oracle(self, path, options):
        return super().oracle(path / "00000_unshuffled.ds", options)


class TestNoSeparator(FormatContract):
    """Empty documents are repeated ends."""

    format = FORMAT
    filename = "x.ds"
    eos_id = "none"
    max_id = 65535
    write_variants = ({"width": 2},)

    def oracle(self, path, options):
        return documents(path)


def test_every_file_is_listed_once_under_any_name(tmp_path):
    """Sizes and checksums count each; what is not listed is not guarded against being overwritten."""
    for name in ("x.ds", "tokens"):
        names = [name, f"{name}.index", f"{name}.metadata", f"{name}.loss"]
        for each in names:
            (tmp_path / each).write_bytes(b"")
        assert [file.name for file in FORMAT.files(tmp_path / name)] == names
    assert [file.name for file in FORMAT.files(tmp_path)] == ["x.ds", "x.ds.index", "x.ds.metadata", "x.ds.loss"]


def test_a_file_of_tokens_that_is_gone_is_named(tmp_path):
    """Its index or mask tells that it was there; a total of what was merged is metadata of no file."""
    assert FORMAT.members(FIXTURES / "datatrove/merged") == [
        FIXTURES / "datatrove/merged" / f"00{k}_merged.ds" for k in (0, 1)
    ]
    for lost in ("000_merged.ds", "001_merged.ds"):
        folder = tmp_path / lost[:3]
        shutil.copytree(FIXTURES / "datatrove/merged", folder)
        (folder / lost).unlink()
        (verdict,) = tokfmt.check(folder)
        assert [(one.code, one.path, one.message) for one in verdict.findings] == [
            ("TF721", str(folder / lost), "no such file")
        ]
        for path in (folder, folder / f"{lost}.index"):
            with pytest.raises(FormatError, match=rf"{lost}: no such file"):
                tokfmt.open(path)
        (folder / f"{lost}.index").rename(folder / f"{lost}.loss")
        with pytest.raises(FormatError, match=lost):
            tokfmt.open(folder)


def test_an_index_takes_8_bytes_an_entry(tmp_path):
    """Also one of entries over no tokens; of files together 16."""
    for name in ("a.ds", "b.ds"):
        (tmp_path / name).touch()
        np.zeros(1 << 20, "<u8").tofile(tmp_path / f"{name}.index")
    for path, most in ((tmp_path / "a.ds", 16 << 20), (tmp_path, 36 << 20)):
        tracemalloc.start()
        with tokfmt.open(path, eos="none") as dataset:
            assert not dataset.info.tokens
            peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most
