"""`stats` of every golden gives the numbers that lists give."""

import json

import h5py
import numpy as np
from paths import FIXTURES

import tokfmt


def measured(*paths, tokenizer=None, **how):
    return json.loads(json.dumps(tokfmt.stats(paths, tokenizer=tokenizer, **{"jobs": 1, **how}).as_json()))


def raw_of(name):
    """input_ids, mask and labels of all rows, read by h5py alone; files in name order."""
    files = sorted((FIXTURES / "hdf5" / name).glob("*.h5"))
    parts = []
    for file in files:
        with h5py.File(file) as opened:
            parts.append(opened["data"][:])
    return np.concatenate(parts)


def test_masked_positions():
    """Positions whose mask is 0 are masked, where the reader gives masks."""
    from tokfmt.ops.source.open import open_source

    source = FIXTURES / "hdf5" / "padded_pad0"
    reader = open_source([source], options=("view=samples",)).reader
    found = measured(source, options={"view": "samples"})
    if reader.has_labels:
        assert found["masked"]["count"] == int((raw_of("padded_pad0")[:, 1] == 0).sum())
    else:
        assert found["masked"] is None
