"""Whatever keeps a loss mask and whatever reads one say the same of it, token by token."""

import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from amount import only
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joints.table import SERIAL
from marks import TARGET

import tokfmt

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


def divided(ids, flags, ends):
    """Documents as pairs of an ID and its flag, without separators; an empty one may have none beside masks."""
    pairs = list(zip(ids, flags, strict=True))
    found = [pairs[a:b] for a, b in itertools.pairwise([0, *ends])]
    return [one[:-1] if one and one[-1][0] == EOS else one for one in found]


def by_open(path, home):
    with tokfmt.open(path, eos=EOS) as dataset:
        flags = dataset.reader.marks(0, dataset.info.tokens)
        assert flags is not None
        ids = dataset.tokens(0, dataset.info.tokens).tolist()
        bounds = dataset.offsets(0, len(dataset)).tolist()
        pairs = list(zip(ids, (flags & TARGET).tolist(), strict=True))
        return [pairs[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def by_recipe(path, home):
    with tokfmt.recipe([path], to_eos=EOS) as found:
        flags = found.reader.marks(0, found.info.tokens)
        ids = found.tokens(0, found.info.tokens).tolist()
        bounds = found.offsets(0, len(found)).tolist()
        pairs = list(zip(ids, [1] * len(ids) if flags is None else (flags & TARGET).tolist(), strict=True))
        return [pairs[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def by_convert(path, home):
    out = home / "read.ds"
    tokfmt.convert(path, out, eos=EOS, manifest=False, overwrite=True, **SERIAL)
    ids, flags, ends = (
        np.fromfile(home / f"read.ds{suffix}", kind).tolist()
        for suffix, kind in (("", "<u2"), (".loss", "u1"), (".index", "<u8"))
    )
    return divided(ids, flags, ends)


READERS = {"open": by_open, "convert": by_convert, "recipe": by_recipe}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: next(iter(order), "plain"))
@pytest.mark.parametrize("name", only(["olmo", "parquet"], KEEPERS))
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
        for reader, seen in found.items():
            assert (sorted(seen) if "shuffle" in order else seen) == (
                sorted(documents) if "shuffle" in order else documents
            ), reader

    law()
