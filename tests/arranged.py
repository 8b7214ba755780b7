"""Lists of IDs, and a pack of them that tests deal to splits and shuffle, in formats of which each file is small."""

import numpy as np
import pytest
import registered

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.testing import read, sequences, write

EOS = 50256
NAMES = {"jsonl": "x.jsonl", "modalities": "x.pbin", "stage1": "x", "hdf5": "x.h5", "flat-tokens": "x.zarr"}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 64, "starts_chunk": 8}}
READ = {"stage1": {"seq_len": 8}}
SPLITS = "train=0.7,validation=0.2,test=0.1"


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(8)
    return [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 60, 300)]


@pytest.fixture(scope="module")
def pack(lists, tmp_path_factory):
    return write(
        registered.get("modalities"), tmp_path_factory.mktemp("source") / "in.pbin", Ragged.of(lists), eos_id=EOS
    )


def content(name, path, split=None):
    options = {**READ.get(name, {}), **({"split": split} if split else {})}
    reader = read(registered.get(name), path, eos_id=EOS, options=options)
    found = sequences(reader)
    reader.close()
    return found


def convert(source, destination, name, **options):
    return tokfmt.convert(
        source, destination, to_format=name, eos=EOS, to_options=SMALL.get(name, {}), **{"verify": True, **options}
    )
