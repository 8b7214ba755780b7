"""datatrove under the laws of every format; the oracle is numpy.fromfile."""

import numpy as np

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
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"width": 4}, {})

    def oracle(self, path, options):
        stored = documents(path)
        assert all(document[-1] == self.eos_id for document in stored)
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
    write_variants = ({"eos": "none", "width": 2},)
    long_options = {"eos": "none"}

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
