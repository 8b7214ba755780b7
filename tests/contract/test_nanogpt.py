"""nanogpt under the laws of every format; the oracle is numpy.fromfile and a split."""

import numpy as np

from tokfmt.formats.nanogpt import FORMAT
from tokfmt.testing import FormatContract


def ended(stream, eos):
    """Sequences that each end with the separator, empty ones too."""
    found, current = [], []
    for token in stream:
        if token == eos:
            found.append(current)
            current = []
        else:
            current.append(token)
    assert not current
    return found


class TestFile(FormatContract):
    format = FORMAT
    filename = "train.bin"
    eos_id = 50256
    max_id = 65535
    write_variants = ({},)

    def oracle(self, path, options):
        return ended(np.fromfile(path, f"<u{options.get('width', 2)}").tolist(), self.eos_id)


class TestWide(TestFile):
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"width": 4},)
    long_options = {"width": 4}

    def read_options(self, options):
        return {"width": 4}


class TestFolder(FormatContract):
    format = FORMAT
    filename = "openwebtext"
    eos_id = 0
    max_id = 65535
    write_variants = ({"split": "train"}, {"split": "val"})

    def oracle(self, path, options):
        return ended(np.fromfile(path / f"{options['split']}.bin", "<u2").tolist(), self.eos_id)
