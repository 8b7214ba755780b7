"""mds under the laws of every format; the oracle is json and struct."""

import bz2
import contextlib
import gzip
import hashlib
import json
import os
import shutil
import struct

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from paths import FIXTURES

import tokfmt
from tokfmt.errors import ConversionError, CorruptError, FormatError, OptionError, TokfmtError
from tokfmt.formats.mds import FORMAT
from tokfmt.plugin import Hints
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
        assert all(document[-1] == self.eos_id for document in stored if document)
        return [document[:-1] for document in stored]


class TestSigned(TestFolder):
    max_id = 2**31 - 1
    write_variants = ({"dtype": "int32", "column": "tokens"},)
    long_options = {"dtype": "int32"}
    peak_bytes = 48 << 20


class TestNoSeparator(TestFolder):
    eos_id = "none"
    write_variants = ({"shard_size": 7},)


class TestCompressed(TestFolder):
    write_variants = (
        {"compression": "zstd", "shard_size": 30}, {"compression": "br:2", "hashes": "none"}, {"compression": "gz:1"},
        {"compression": "bz2"}, {"compression": "snappy"},
    )  # fmt: skip


@pytest.mark.parametrize("said", ["lzma", "zstd:23", "zstd:", "zstd:-1", "snappy:1", "bz2:0"])
def test_unknown_compression_is_refused(said):
    with pytest.raises(
        OptionError, match=rf"compression={said}: expected one of zstd\[:1-22\], gz\[:0-9\], .*snappy, br"
    ):
        FORMAT.writer_traits(FORMAT.write_options(compression=said))


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
    """Bytes beyond the index: none where that tells all, else the place of each sample and one head a shard."""
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
        assert read == (path / "index.json").stat().st_size + places
        assert (
            reader.offsets(0, reader.info.sequences)[-1]
            == reader.info.tokens
            == len(reader.tokens(0, reader.info.tokens))
        )


def shard(documents, columns, encodings, *, header=True, number=0):
    """A shard as MosaicML streaming writes it: a count, offsets, JSON, and samples of columns without fixed sizes."""
    about = {
        "column_encodings": encodings, "column_names": columns, "column_sizes": [None] * len(columns), "compression": None,
        "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2,
    }  # fmt: skip
    text = json.dumps(about, sort_keys=True).encode() if header else b""
    samples = []
    for ids in documents:
        cells = {
            "tokens": struct.pack("<BI", 4 | 2, len(ids)) + np.array(ids, "<u4").tobytes(),
            "id": str(ids).encode(),
        }
        some = [cells[name] for name in columns]
        samples.append(b"".join([struct.pack("<I", len(cell)) for cell in some] + some))
    begin = 4 * (len(samples) + 2) + len(text)
    places = np.cumsum([begin, *map(len, samples)]).astype("<u4")
    return struct.pack("<I", len(samples)) + places.tobytes() + text + b"".join(samples)


DOCUMENTS = [[[1, 2, 3], [4]], [[5, 70000], [6, 7, 8]], [[9]]]


def folder_of(folder, *, codec="", columns=("tokens",), header=True):
    folder.mkdir()
    encodings = ["ndarray:uint32" if name == "tokens" else "str" for name in columns]
    for number, documents in enumerate(DOCUMENTS):
        raw = shard(documents, list(columns), encodings, header=header)
        path = folder / f"shard.{number:05d}.mds"
        packed = {"": raw, "zstd": zstandard.compress(raw), "gz": gzip.compress(raw), "bz2": bz2.compress(raw)}[codec]
        path.with_name(path.name + f".{codec}" * bool(codec)).write_bytes(packed)
    return folder


def read(path, **how):
    with tokfmt.open(path, eos="none", **how) as dataset:
        return [ids.tolist() for ids in dataset], dataset.notes


@pytest.mark.parametrize("codec", ["", "zstd", "gz", "bz2"])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("columns", [("tokens",), ("id", "tokens")], ids=len)
def test_lost_index(tmp_path, codec, empty, columns):
    """Each shard states its columns. The index alone states how many shards there are."""
    folder = folder_of(tmp_path / "x", codec=codec, columns=columns)
    if empty:
        (folder / "index.json").touch()
    wanted = [ids for documents in DOCUMENTS for ids in documents]
    for how in ({}, {"format": "mds"}):
        found, notes = read(folder, **how)
        assert found == wanted
        assert any("3 shards are read by their own headers" in note and "missing" in note for note in notes)
    (report,) = tokfmt.check(folder, deep=True)
    assert (
        report.counts.keys() == {"TF768", *(["TF919"] if empty else ())}
        and not report.errors
        and report.sequences == len(wanted)
    )


def test_lost_index_and_shard(tmp_path):
    folder = folder_of(tmp_path / "x")
    (folder / "shard.00001.mds").unlink()
    with pytest.raises(CorruptError, match=r"shard.00001.mds: is missing"):
        read(folder)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:6], lambda raw: b"\xff" * 4 + raw[4:]])
def test_lost_index_and_damage(tmp_path, damage):
    path = folder_of(tmp_path / "x") / "shard.00001.mds"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError) as raised:
        read(path.parent)
    assert raised.value.path == str(path)


def test_lost_index_of_shards_that_state_nothing(tmp_path):
    """MDSWriter of others, and tokfmt, may leave the JSON out."""
    folder = folder_of(tmp_path / "x", header=False)
    with pytest.raises(FormatError, match="does not state its columns.*index.json"):
        read(folder, format="mds")
    with pytest.raises(TokfmtError, match=r"without (the )?index.json"):
        read(folder)


@pytest.mark.parametrize("codec", ["", "zstd"])
@pytest.mark.parametrize("indexed", [False, True])
def test_single_shard(tmp_path, codec, indexed):
    """It can be looked at alone, with the entry of the index or with its own header."""
    folder = folder_of(tmp_path / "x", codec=codec, header=not indexed)
    name = "shard.00001.mds" + (".zstd" if codec else "")
    if indexed:
        shards = []
        for number, documents in enumerate(DOCUMENTS):
            raw = {
                "basename": f"shard.{number:05d}.mds",
                "bytes": len(shard(documents, ["tokens"], [""], header=False)),
                "hashes": {},
            }
            packed = {**raw, "basename": raw["basename"] + ".zstd"} if codec else None
            shards.append({
                "column_encodings": ["ndarray:uint32"], "column_names": ["tokens"], "column_sizes": [None],
                "compression": codec or None, "format": "mds", "hashes": [], "raw_data": raw, "samples": len(documents),
                "size_limit": 1 << 26, "version": 2, "zip_data": packed,
            })  # fmt: skip
        (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
        assert len(read(folder)[0]) == 5
    found, notes = read(folder / name)
    assert found == DOCUMENTS[1] and not any("not in index.json" in note for note in notes)
    assert tokfmt.info(folder / name).format == "mds"
    assert not tokfmt.check(folder / name, deep=True)[0].errors


@pytest.mark.parametrize("below", [False, True])
def test_index_that_lists_nothing(tmp_path, below):
    folder = folder_of(tmp_path / "x")
    if below:
        (tmp_path / "y").mkdir()
        folder.rename(tmp_path / "y" / "part.00000")
        folder = tmp_path / "y"
    (folder / "index.json").write_text('{"version": 2, "shards": []}')
    for partial in (False, True):
        with pytest.raises(CorruptError, match="lists no shards, and 3 shards are there"):
            read(folder, allow_partial=partial)
    assert tokfmt.check(folder)[0].errors == 1


def test_index_of_a_dataset_of_nothing(tmp_path):
    (tmp_path / "index.json").write_text('{"version": 2, "shards": []}')
    assert read(tmp_path)[0] == []


def merged(tmp_path, *, names):
    """Two folders with indexes of their own, and an index of both above them, whose names have their folders or not."""
    entries = []
    for number in range(2):
        part = tmp_path / f"part.{number:05d}"
        shutil.copytree(FIXTURES / "mds" / "bytes_uint16", part)
        for entry in json.loads((part / "index.json").read_text())["shards"]:
            entry["raw_data"]["basename"] = f"{part.name}/" * names + entry["raw_data"]["basename"]
            entries.append(entry)
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return tmp_path


def test_merged_folders(tmp_path):
    """The indexes of the parts are not shards."""
    _, notes = read(merged(tmp_path, names=True), options={"dtype": "uint16"})
    assert not any("not in index.json" in note for note in notes)


def test_merged_folders_with_wrong_names(tmp_path):
    """The shards are not missing: the index is wrong."""
    with pytest.raises(CorruptError, match=r"index.json lists it.*part.00000, part.00001.*Correct index.json"):
        read(merged(tmp_path, names=False), options={"dtype": "uint16"})
