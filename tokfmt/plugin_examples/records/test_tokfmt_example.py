"""The laws of every format, for example."""

import gzip
import json

import numpy as np
from tokfmt_example import FORMAT

from tokfmt.testing import FormatContract


class TestExample(FormatContract):
    format = FORMAT
    filename = "x.example"
    max_id = 2**32 - 1
    checksummed = accounted = True
    sharded = {"shard_size": 1}

    def oracle(self, path, options):
        """Read a directory with code that shares nothing with the format."""
        found = []
        for number in range(len(json.loads((path / "example.json").read_text())["records"])):
            words = np.frombuffer(gzip.decompress((path / f"{number:05d}.example.gz").read_bytes()), "<u4").tolist()
            while words:
                found.append(words[1 : 1 + words[0]])
                words = words[1 + words[0] :]
        return found
