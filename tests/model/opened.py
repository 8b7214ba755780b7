"""What commands read of each golden, and the stored axis below it."""

import os

from amount import NIGHTLY

import tokfmt
from tokfmt.core.reader import TokenReader
from tokfmt.errors import TokfmtError
from tokfmt.model.readers import ContentReader

HOMES = (
    "datatrove", "flat-tokens", "hdf5", "levanter", "litdata", "llmc", "mds", "megatron", "modalities", "nanogpt",
    "olmo", "parquet", "stage1", "array", "arrayrecord", "internevo", "litgpt-packed", "tfrecord", "webdataset",
)  # fmt: skip
GIVEN = ({}, {"eos": 50256}, {"eos": "none"})[: 2 + NIGHTLY]
"""The ways in which each is opened."""


def entries(home):
    """Every file and folder that may be a dataset; in `make fuzz`, also inside of others. Of a pair, the first."""
    for folder, folders, files in os.walk(home):
        names = sorted(files + folders) if NIGHTLY or folder == str(home) else []
        yield from (os.path.join(folder, name) for name in names if not name.endswith((".idx", ".index", ".json")))


def readers(home, ways=GIVEN):
    """Yield a name, the reader of commands, the reader of the stored axis, and the separator that is taken off it."""
    for path in entries(home):
        for given in ways:
            try:
                view = tokfmt.open(path, **given).reader
            except (TokfmtError, OSError):
                continue
            if not isinstance(view, TokenReader):
                continue
            name = f"{os.path.relpath(path, home)} {given}"
            if isinstance(view, ContentReader) and view.dataset.gap.id is not None:
                yield name, view, view.source, view.dataset.gap.id
            else:
                yield name, view, view, None
