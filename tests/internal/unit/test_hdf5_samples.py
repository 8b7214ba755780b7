"""Mask and labels of samples as they lie, against h5py."""

import h5py
import numpy as np
import pytest

from tokfmt.formats.hdf5.table import Table
from tokfmt.ops.source.open import open_source


def opened(path, *options):
    return open_source([path], options=["view=samples", *options]).reader


def made(path, mask, inputs=None, labels=None, **given):
    inputs = np.arange(1, mask.size + 1).reshape(mask.shape) if inputs is None else inputs
    labels = inputs + 1 if labels is None else labels
    with h5py.File(path, "w") as file:
        data = np.stack([inputs, mask, labels], axis=1).astype("<i4")
        file.create_dataset("data", data=data, chunks=given.get("chunks", (1, 3, mask.shape[1])), compression="gzip")
        file.attrs["n_examples"] = len(mask)
    return path


@pytest.mark.parametrize("chunks", [(1, 3, 8), (16, 3, 8), (5, 1, 4)])
def test_reads_only_the_rows_asked_for_and_once(tmp_path, monkeypatch, chunks):
    count = 400
    path = made(tmp_path / "x.h5", np.ones((count, 8), int), chunks=chunks)
    reader = opened(path, "mask=loss")
    read = []
    original = Table.read
    monkeypatch.setattr(Table, "read", lambda self, a, b: read.append((a, b)) or original(self, a, b))
    for ask in (reader.tokens, reader.masks, reader.labels):
        ask(100 * 8 + 3, 102 * 8 - 1)
    assert read == [(100, 102)]
    reader.tokens(0, 8)
    assert read == [(100, 102), (0, 1)]
    read.clear()
    auto = opened(path)
    read.clear()
    auto.masks(0, 8)
    assert sum(b - a for a, b in read) <= 64 + 2
