"""litdata under the laws of every format; the oracle is json and numpy."""

import json

import numpy as np
import zstandard

from tokfmt.formats.litdata import FORMAT
from tokfmt.testing import FormatContract

DTYPES = {
    "no_header_numpy:5": "<u2",
    "no_header_numpy:6": "<u4",
    "no_header_tensor:16": "<i4",
    "no_header_tensor:20": "<u2",
}
CHUNK_KEYS = ["chunk_bytes", "chunk_size", "dim", "filename"]


def documents(folder):
    """Items of the chunks as stored."""
    index = json.loads((folder / "index.json").read_text())
    config, found = index["config"], []
    assert (config["encryption"], config["item_loader"]) == (None, "TokensLoader")
    assert json.loads(config["data_spec"]) == [1, {"type": None, "context": None, "children_spec": []}]
    (kind,) = config["data_format"]
    for chunk in index["chunks"]:
        assert sorted(chunk) == CHUNK_KEYS
        raw = (folder / chunk["filename"]).read_bytes()
        if config["compression"]:
            assert chunk["filename"].endswith(f".{config['compression']}.bin")
            raw = zstandard.decompress(raw)  # in one go: the size is in the frame
        count = int.from_bytes(raw[:4], "little")
        places = np.frombuffer(raw, "<u4", count + 1, 4).tolist()
        assert (count, len(raw)) == (chunk["chunk_size"], chunk["chunk_bytes"])
        assert (places[0], places[-1]) == (4 * (count + 2), len(raw))
        items = [np.frombuffer(raw[a:b], DTYPES[kind]).tolist() for a, b in zip(places, places[1:])]
        assert sum(map(len, items)) == chunk["dim"]
        found.append(items)
    return found


class TestFolder(FormatContract):
    format = FORMAT
    filename = "chunks"
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"chunk_tokens": 30}, {})
    long_options = {"chunk_tokens": 1 << 20}

    def oracle(self, path, options):
        chunks = documents(path)
        most = options.get("chunk_tokens", 1 << 24)
        for held, after in zip(chunks, chunks[1:]):
            size = sum(map(len, held))
            assert held and (size <= most or len(held) == 1) and size + len(after[0]) > most
        stored = [document for held in chunks for document in held]
        if self.eos_id == "none":
            return stored
        assert all(document[-1] == self.eos_id for document in stored)
        return [document[:-1] for document in stored]


class TestTensors(TestFolder):
    max_id = 2**31 - 1
    write_variants = ({"codes": "tensor"}, {"codes": "tensor", "chunk_tokens": 1})


class TestNoSeparator(TestFolder):
    eos_id = "none"
    write_variants = ({"eos": "none", "chunk_tokens": 7},)
    long_options = {"eos": "none"}


class TestCompressed(TestFolder):
    write_variants = ({"compression": "zstd", "chunk_tokens": 30}, {"compression": "zstd:9", "codes": "numpy"})
