"""The laws of every format, for example."""

import numpy as np
from tokfmt_example import FORMAT

from tokfmt.testing import FormatContract


class TestExample(FormatContract):
    format = FORMAT
    filename = "x.example"
    eos_id = 50256
    max_id = 2**32 - 1

    def oracle(self, path, options):
        """Read a file with code that shares nothing with the format."""
        documents = [[]]
        for token in np.fromfile(path, "<u4", offset=20).tolist():
            if token == self.eos_id:
                documents.append([])
            else:
                documents[-1].append(token)
        return documents[:-1]
