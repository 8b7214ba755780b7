"""hdf5 under the laws of every format; the oracle is h5py and numpy, and knows the stride from the variant."""

import h5py
import numpy as np

from tokfmt.formats.hdf5 import FORMAT
from tokfmt.testing import FormatContract


def split_stream(stream, eos):
    """Non-empty runs between separators."""
    documents, current = [], []
    for token in stream:
        if token == eos:
            documents += [current] if current else []
            current = []
        else:
            current.append(token)
    return documents + ([current] if current else [])


def stream_of(samples, stride):
    """The tokens of samples [n, 3, width]: of each its inputs, and the last label where no sample repeats it."""
    tokens = []
    for i, (inputs, mask, labels) in enumerate(samples.tolist()):
        valid = sum(mask)
        assert mask == [1] * valid + [0] * (len(mask) - valid)
        assert labels[: valid - 1] == inputs[1:valid]
        assert len(set(inputs[valid:] + labels[valid:])) <= 1
        tokens += inputs[:valid]
        if stride == "disjoint" or i == len(samples) - 1:
            tokens.append(labels[valid - 1])
        else:
            assert labels[-1] == samples[i + 1, 0, 0]
    return tokens


class TestFile(FormatContract):
    format = FORMAT
    filename = "x.h5"
    eos_id = 50256
    empty = False
    write_variants = (
        {"seq_len": 8},
        {"seq_len": 8, "stride": "disjoint", "shuffle": True},
        {"layout": "corpus"},
        {"seq_len": 1, "pad": 0},
    )

    def oracle(self, path, options):
        with h5py.File(path) as file:
            data = file["data"][:]
            if options.get("layout") == "corpus":
                assert data.dtype in (np.uint16, np.uint32)
                return split_stream(data.tolist(), self.eos_id)
            assert file.attrs["n_examples"] == len(data)
            assert file["data"].chunks == (1, 3, options["seq_len"])
            assert data.dtype == np.dtype("<i4")
            return split_stream(stream_of(data, options.get("stride")), self.eos_id)


class TestDirectory(FormatContract):
    format = FORMAT
    filename = "samples"
    sharded = {"seq_len": 1, "shard_size": 1}
    many = 240
    sparse_tokens = 1 << 23
    eos_id = 0
    empty = False
    write_variants = ({"seq_len": 4, "shard_size": 12}, {"layout": "corpus", "seq_len": 4, "shard_size": 12})
    long_options = {"seq_len": 1024, "shard_size": 512_000}
    flipped = 12  # of each file; TestFile flips more

    def oracle(self, path, options):
        files = sorted(path.iterdir())
        assert [p.name for p in files] == [f"data-{i:05d}.h5" for i in range(len(files))]
        parts = []
        for name in files:
            with h5py.File(name) as file:
                parts.append(file["data"][:])
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        data = np.concatenate(parts)
        if options.get("layout") == "corpus":
            return split_stream(data.tolist(), self.eos_id)
        return split_stream(stream_of(data, "overlap"), self.eos_id)
