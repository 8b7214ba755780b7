"""mds under the laws of every format; the oracle is json and struct."""

import bz2
import contextlib
import gzip
import hashlib
import json
import os
import struct

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import ConversionError, OptionError
from tokfmt.formats.mds import FORMAT
from tokfmt.plugin import Hints, Target
from tokfmt.testing import FormatContract

KEYS = {
    "column_encodings", "column_names", "column_sizes", "compression", "format", "hashes", "raw_data", "samples", "size_limit",
    "version", "zip_data",
}  # fmt: skip
UNPACKED = {
    "zstd": lambda raw, size: zstandard.decompress(raw),  # in one go: the size is in the frame
    "gz": lambda raw, size: gzip.decompress(raw),
    "bz2": lambda raw, size: bz2.decompress(raw),
    "snappy": lambda raw, size: pa.decompress(raw, size, "snappy", asbytes=True),
    "br": lambda raw, size: pa.decompress(raw, size, "brotli", asbytes=True),
}


def hashes(shard, raw):
    return {kind: hashlib.new(kind, raw).hexdigest() for kind in shard["hashes"]}


def documents(folder):
    """Samples of the shards as stored."""
    index, found = json.loads((folder / "index.json").read_text()), []
    assert index["version"] == 2
    for shard in index["shards"]:
        assert set(shard) == KEYS
        file = shard["zip_data"] or shard["raw_data"]
        raw = (folder / file["basename"]).read_bytes()
        assert (file["bytes"], file["hashes"]) == (len(raw), hashes(shard, raw))
        if shard["zip_data"]:
            codec = shard["compression"].split(":")[0]
            assert file["basename"] == f"{shard['raw_data']['basename']}.{codec}"
            assert not (folder / shard["raw_data"]["basename"]).exists()
            raw = UNPACKED[codec](raw, shard["raw_data"]["bytes"])
            assert shard["raw_data"]["hashes"] == hashes(shard, raw)
        assert len(raw) == shard["raw_data"]["bytes"]
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
    sharded = {"shard_size": 1}
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"shard_size": 30}, {}, {"hashes": "none", "shard_size": 1})
    long_options = {"shard_size": 1 << 20}

    def oracle(self, path, options):
        shards = documents(path)
        most = options.get("shard_size", 1 << 24)
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
    peak_bytes = 48 << 20


class TestNoSeparator(TestFolder):
    eos_id = "none"
    write_variants = ({"eos": "none", "shard_size": 7},)
    long_options = {"eos": "none"}


class TestCompressed(TestFolder):
    write_variants = (
        {"compression": "zstd", "shard_size": 30}, {"compression": "br:2", "hashes": "none"}, {"compression": "gz:1"},
        {"compression": "bz2"}, {"compression": "snappy"},
    )  # fmt: skip


@pytest.mark.parametrize("said", ["lzma", "zstd:23", "zstd:", "zstd:-1", "snappy:1", "bz2:0"])
def test_unknown_compression_is_refused(tmp_path, said):
    with pytest.raises(
        OptionError, match=rf"compression={said}: expected one of zstd\[:1-22\], gz\[:0-9\], .*snappy, br"
    ):
        FORMAT.writer(tmp_path / "x", FORMAT.write_options(compression=said), Target(5))


def test_shard_beyond_the_decoding_ratio_is_not_written(tmp_path):
    """The reader would refuse it as a decompression bomb."""
    (tmp_path / "x.jsonl").write_text(json.dumps({"input_ids": [7] * 3_000_000}))
    with pytest.raises(ConversionError, match=r"6,\d{3},\d{3} bytes compress to .* Write it without compression"):
        tokfmt.convert(
            tmp_path / "x.jsonl", tmp_path / "x", to_format="mds", eos=9, to_options=["compression=zstd"], jobs=1
        )
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize(
    ("name", "each"), [("packed256_static", 0), ("ndarray_int32", 4), ("written", 4)], ids=["fixed", "theirs", "ours"]
)
def test_opening_reads_the_index_and_no_samples(tmp_path, monkeypatch, name, each):
    """Bytes beyond the index: none where that tells all, else the place of each sample and one head a shard.

    Of each small file, the head is read as well: it may be a placeholder of Git LFS.
    """
    path = FIXTURES / "mds" / name
    if name == "written":
        path = tmp_path / "x"
        tokfmt.convert(FIXTURES / "mds" / "ndarray_int32", path, to_format="mds", eos=50256, jobs=1)
    shards, seen = json.loads((path / "index.json").read_text())["shards"], []
    for call in ("pread", "preadv"):
        real = getattr(os, call)
        monkeypatch.setattr(os, call, lambda *args, real=real: (found := real(*args), seen.append(found))[0])
    with contextlib.closing(FORMAT.open([path], FORMAT.read_options(), Hints())) as reader:
        read = sum(found if isinstance(found, int) else len(found) for found in seen)
        places = sum(each * (shard["samples"] + 2) + bool(each) for shard in shards)
        heads = sum(min(file.stat().st_size, 1023) for file in path.rglob("*") if file.is_file())
        assert read == (path / "index.json").stat().st_size + places + heads
        assert (
            reader.offsets(0, reader.info.sequences)[-1]
            == reader.info.tokens
            == len(reader.tokens(0, reader.info.tokens))
        )
