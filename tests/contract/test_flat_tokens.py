"""flat-tokens under the laws of every format; the oracle is zarr-python and numpy."""

import gc
import itertools
import tracemalloc

import numpy as np
import zarr
from amount import NIGHTLY

import tokfmt
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.testing import FormatContract


def sequences_of(group):
    """The specification in seven lines, through zarr-python."""
    tokens, starts = group["encoded_tokens"], group["seq_starts"]
    assert (tokens.dtype, starts.dtype) == (np.dtype("u4"), np.dtype("u8"))
    encoded, bounds = tokens[:], starts[:].astype(np.int64)
    assert bounds[0] == 0
    assert bounds[-1] == len(encoded)
    assert np.flatnonzero(encoded & 1).tolist() == np.unique(bounds[bounds < len(encoded)]).tolist()
    top = group.attrs["max_token_id"]
    assert type(top) is int
    assert top == (int(encoded.max()) >> 1 if len(encoded) else 0)
    return [(encoded[a:b] >> 1).tolist() for a, b in itertools.pairwise(bounds)]


class TestFlatTokens(FormatContract):
    format = FORMAT
    filename = "x.zarr"
    flipped = 64 if NIGHTLY else 8  # of each of many files
    write_variants = (
        {"chunk": 8, "starts_chunk": 4},
        {"split": "none", "chunk": 16},
        {"zarr_format": 3, "chunk": 8},
        {"codec": "zstd", "chunk": 8},
    )

    def oracle(self, path, options):
        zarr_format = options.get("zarr_format", 2)
        root = zarr.open_group(path, mode="r", zarr_format=zarr_format, use_consolidated=False)
        split = options.get("split", "train")
        return sequences_of(root if split == "none" else root[split])


def test_chunks_are_freed_with_their_dataset(tmp_path):
    """Not at the next collection of cycles: many datasets in turn would keep 8 MB each until then."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2]}\n')
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.zarr", jobs=1)
    gc.disable()
    tracemalloc.start()
    try:
        with tokfmt.open(tmp_path / "x.zarr") as dataset:
            assert [one.tolist() for one in dataset] == [[1, 2]]
        del dataset
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 8 << 20 < peak
