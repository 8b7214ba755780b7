"""hdf5: streams put together again from samples of any stride, width and padding; data made here with numpy and h5py."""

from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

from tokfmt.core.format import Hints
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5 import table as table_module
from tokfmt.formats.hdf5.options import ReadOptions

EOS = 7


def windows(stream, width, stride):
    """Windows T of width + 1 tokens; the last may be shorter."""
    step = width + (stride == "disjoint")
    return [stream[a : a + width + 1] for a in range(0, len(stream) - 1, step)]


def samples(tokens_of, width, *, pad=EOS, inverted=False):
    """[n, 3, width] of windows."""
    rows = np.full((len(tokens_of), 3, width), pad, np.int32)
    rows[:, 1] = int(inverted)
    for row, tokens in zip(rows, tokens_of, strict=True):
        valid = len(tokens) - 1
        row[0, :valid], row[1, :valid], row[2, :valid] = tokens[:-1], int(not inverted), tokens[1:]
    return rows


def save(path, rows, *, count=None, attrs=(), **how):
    how = {"chunks": (1, *rows.shape[1:]), "compression": "gzip"} | how if rows.ndim == 3 and len(rows) else how
    with h5py.File(path, "w") as file:
        if rows.ndim == 3:
            file.attrs["n_examples"] = len(rows) if count is None else count
        data = file.create_dataset("data", data=rows, **how)
        for name, value in attrs:
            data.attrs[name] = value
    return path


def test_opening_starts_no_more_threads_than_asked_for(tmp_path, monkeypatch):
    path = save(tmp_path / "a.h5", samples(windows(list(range(10, 400)), 8, "disjoint"), 8))
    started = []
    monkeypatch.setattr(table_module, "ThreadPoolExecutor", lambda n: started.append(n) or ThreadPoolExecutor(n))
    FORMAT.open([path], ReadOptions(stride="disjoint"), Hints(jobs=1)).close()
    assert started == []
    FORMAT.open([path], ReadOptions(stride="disjoint"), Hints(jobs=3)).close()
    assert set(started) == {3}
