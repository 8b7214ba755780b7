"""mds under the laws of every format; the oracle is json and struct."""

import hashlib
import json
import struct

import numpy as np

from tokfmt.formats.mds import FORMAT
from tokfmt.testing.contract import FormatContract

KEYS = {
    "column_encodings", "column_names", "column_sizes", "compression", "format", "hashes", "raw_data", "samples", "size_limit",
    "version", "zip_data",
}  # fmt: skip


def documents(folder):
    """Samples of the shards as stored."""
    index, found = json.loads((folder / "index.json").read_text()), []
    assert index["version"] == 2
    for shard in index["shards"]:
        assert set(shard) == KEYS
        raw = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(raw) == shard["raw_data"]["bytes"]
        assert shard["raw_data"]["hashes"] == {kind: hashlib.new(kind, raw).hexdigest() for kind in shard["hashes"]}
        (count,) = struct.unpack_from("<I", raw)
        places = struct.unpack_from(f"<{count + 1}I", raw, 4)
        assert (count, places[0], places[-1]) == (shard["samples"], 4 * (count + 2), len(raw))
        ((kind, dtype),) = [encoding.split(":") for encoding in shard["column_encodings"]]
        assert (kind, shard["column_sizes"]) == ("ndarray", [None])
        samples = []
        for a, b in zip(places, places[1:]):
            size, shape, length = struct.unpack_from("<IBI", raw, a)
            assert (size, shape) == (b - a - 4, 4 | 2)
            ids = np.frombuffer(raw[a + 9 : b], np.dtype(dtype).newbyteorder("<")).tolist()
            assert len(ids) == length
            samples.append(ids)
        found.append(samples)
    return found


class TestFolder(FormatContract):
    format = FORMAT
    filename = "shards"
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"shard_tokens": 30}, {}, {"hashes": "none", "shard_tokens": 1})
    long_options = {"shard_tokens": 1 << 20}

    def oracle(self, path, options):
        shards = documents(path)
        most = options.get("shard_tokens", 1 << 24)
        for held, after in zip(shards, shards[1:]):
            size = sum(map(len, held))
            assert held and (size <= most or len(held) == 1) and size + len(after[0]) > most
        stored = [document for held in shards for document in held]
        if self.eos_id == "none":
            return stored
        assert all(document[-1] == self.eos_id for document in stored)
        return [document[:-1] for document in stored]


class TestSigned(TestFolder):
    max_id = 2**31 - 1
    write_variants = ({"dtype": "int32", "column": "tokens"},)
    long_options = {"dtype": "int32"}


class TestNoSeparator(TestFolder):
    eos_id = "none"
    write_variants = ({"eos": "none", "shard_tokens": 7},)
    long_options = {"eos": "none"}
