"""Whatever keeps a loss mask and whatever reads one say the same of it, token by token."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joints.table import SERIAL

import tokfmt
from tokfmt.core.errors import FormatError
from tokfmt.core.loss_mask import TARGET

EOS = 9
KEEPERS = {"datatrove": "out.ds", "olmo": "out.npy", "parquet": "out.parquet", "arrow": "out.arrow"}
ORDERS = [{}, {"shuffle": 3}, {"select": "1:4"}]


def source(home, documents):
    """A file of datatrove, written by hand: of each document IDs and flags; separators count."""
    path = home / "in.ds"
    rows = [[*one, (EOS, 1)] for one in documents]
    flat = [pair for row in rows for pair in row]
    path.write_bytes(np.array([token for token, _ in flat], "<u2").tobytes())
    path.with_name("in.ds.loss").write_bytes(bytes(flag for _, flag in flat))
    path.with_name("in.ds.index").write_bytes(np.cumsum([len(row) for row in rows], dtype="<u8").tobytes())
    path.with_name("in.ds.metadata").write_text(f"x|2\n{len(flat)}\n{len(flat)} T")
    return path


def divided(ids, flags):
    """Documents of a stream, as pairs of an ID and its flag, without separators."""
    found = [[]]
    for token, flag in zip(ids, flags, strict=True):
        if token == EOS:
            found.append([])
        else:
            found[-1].append((token, flag))
    assert found.pop() == []
    return found


def by_open(path, home):
    with tokfmt.open(path, eos=EOS) as dataset:
        flags = dataset.reader.marks(0, dataset.info.tokens)
        assert flags is not None
        ids = dataset.tokens(0, dataset.info.tokens).tolist()
        bounds = dataset.offsets(0, len(dataset)).tolist()
        pairs = list(zip(ids, (flags & TARGET).tolist(), strict=True))
        return [pairs[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def refused_by_recipe(path, *, masked):
    """Samples that are packed have no mask of their own: that is refused, and accepted by its word.

    Args:
        path: The dataset.
        masked: A token does not count; else there may be nothing to lose.
    """
    if masked:
        with pytest.raises(FormatError, match="loss-mask"):
            tokfmt.recipe([path], to_eos=EOS)
    with tokfmt.recipe([path], to_eos=EOS, allow_loss="loss-mask") as found:
        return [one.tolist() for one in found]


def by_convert(path, home):
    out = home / "read.ds"
    tokfmt.convert(path, out, eos=EOS, manifest=False, overwrite=True, **SERIAL)
    return divided(np.fromfile(out, "<u2").tolist(), np.fromfile(home / "read.ds.loss", "u1").tolist())


READERS = {"open": by_open, "convert": by_convert}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: next(iter(order), "plain"))
@pytest.mark.parametrize("name", KEEPERS)
def test_joints(name, order):
    same = not os.environ.get("JOINTS")
    pair = st.tuples(st.integers(0, EOS - 1), st.integers(0, 1))

    @settings(
        max_examples=int(os.environ.get("JOINTS") or 5), database=None, derandomize=same,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(st.lists(pair, max_size=6), min_size=4, max_size=8), st.booleans())
    def law(documents, manifest):
        with tempfile.TemporaryDirectory() as place:
            home = Path(place)
            out = home / KEEPERS[name]
            how = {"to_format": name, "eos": EOS, "manifest": manifest, **SERIAL, **order}
            tokfmt.convert(source(home, documents), out, **how)
            if order.get("select"):
                documents = documents[1:4]
            found = {reader: read(out, home) for reader, read in READERS.items()}
            flags = [flag for one in found["open"] for _, flag in one[1:]]  # rows of Parquet predict no first token
            without = refused_by_recipe(out, masked=0 in flags)
        for reader, seen in found.items():
            assert (sorted(seen) if "shuffle" in order else seen) == (
                sorted(documents) if "shuffle" in order else documents
            ), reader
            assert without == [[token for token, _ in one] for one in seen]

    law()
