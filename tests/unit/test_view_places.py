"""Where tokens lie, against the bytes themselves: struct, zlib, h5py, zarr and json read them, no tokfmt code."""

import gzip
import json
import os
import pickle
import struct
import zlib

import h5py
import numpy as np
import pytest
import registered
import zarr
from amount import NIGHTLY
from paths import FIXTURES

import tokfmt
from tokfmt.errors import TokfmtError

PACKS = sorted(path.name for path in (FIXTURES / "modalities").glob("*.pbin"))
STORES = sorted(path.name for path in (FIXTURES / "flat-tokens").glob("*.zarr"))
HDF5 = sorted(path.name for path in (FIXTURES / "hdf5").iterdir() if path.is_dir())


def opened(path, **given):
    return tokfmt.open(path, **given).reader


def spread(count, most=200 if NIGHTLY else 24):
    return sorted(
        {*range(min(count, 40 if NIGHTLY else 6)), *np.linspace(0, count - 1, min(count, most)).astype(int).tolist()}
    )


def there_and_back(reader, positions):
    """Each position with its token and its place; from every byte of the token back to the position."""
    tokens = reader.tokens(0, reader.info.tokens).tolist()
    for position in positions:
        place = reader.locate(position)
        if place.width is not None:
            for byte in range(place.width):
                assert reader.find(place.path, place.offset + byte) == position
        yield position, tokens[position], place


def outside(reader, path):
    total = reader.info.tokens
    for wrong in (-1, total):
        with pytest.raises(IndexError):
            reader.locate(wrong)
    assert reader.find(path, -1) is None
    assert reader.find(path, 1 << 40) is None
    assert reader.find(path.parent / "another", 0) is None
    again = pickle.loads(pickle.dumps(reader))
    if total:
        assert again.locate(total - 1) == reader.locate(total - 1)


@pytest.mark.parametrize("name", PACKS)
def test_packs(name):
    path = FIXTURES / "modalities" / name
    expected = json.loads((FIXTURES / "modalities" / "expected.json").read_text())["pbin"][name]
    order = ">" if expected.get("endian", "le") == "be" else "<"
    stream = "P0" in name
    reader = opened(path, options=["layout=P0"], eos=50256) if stream else opened(path)
    raw = path.read_bytes()
    for _, token, place in there_and_back(reader, spread(reader.info.tokens)):
        assert place.path == path
        data = raw[place.offset : place.offset + place.width]
        padded = bytes(4 - len(data)) + data if order == ">" else data + bytes(4 - len(data))
        assert struct.unpack(f"{order}I", padded) == (token,)
    outside(reader, path)
    assert stream or reader.find(path, 0) is None
    assert stream or reader.find(path, len(raw) - 1) is None


@pytest.mark.parametrize("view", ["documents", "samples"])
def test_stage1(view):
    home = FIXTURES / "stage1" / "blocks"
    reader = opened(home, eos=50000, options=[f"view={view}"])
    raw = {path: path.read_bytes() for path in home.iterdir()}
    for _, token, place in there_and_back(reader, spread(reader.info.tokens, 2000)):
        assert struct.unpack_from("<i", raw[place.path], place.offset) == (token,)
        assert place.detail == f"sample {place.offset // 32768:,}, column {place.offset % 32768 // 4:,}"
    outside(reader, home / "stage1_block_0000.bin")


@pytest.mark.parametrize("name", STORES)
def test_stores(name):
    path = FIXTURES / "flat-tokens" / name
    for split in ("train", "validation", None):
        home = path / (split or "")
        if not (home / "encoded_tokens").is_dir():
            continue
        reader = opened(path, options=[f"split={split}"] if split else ())
        stored = zarr.open(home / "encoded_tokens", mode="r")[:]
        chunk = json.loads((home / "encoded_tokens" / ".zarray").read_text())["chunks"][0]
        for position, token, place in there_and_back(reader, spread(reader.info.tokens)):
            number = position // chunk
            assert place.path == home / "encoded_tokens" / str(number)
            assert (place.offset, place.width) == (0, None)
            assert place.detail.endswith(f"item {position % chunk:,}") and f"chunk {number:,} " in place.detail
            assert int(stored[position]) >> 1 == token
            assert reader.find(place.path, 5) == number * chunk
        if reader.info.tokens:
            outside(reader, home / "encoded_tokens" / "0")


@pytest.mark.parametrize(
    "name", ["control_raw", "control_sharded", "control_stored.zip", "control_deflated.zip", "control_plain"]
)
def test_stores_of_other_kinds(name):
    path = FIXTURES / "bad" / "flat-tokens" / name
    reader = opened(path)
    for _, token, place in there_and_back(reader, range(reader.info.tokens)):
        assert place.path.is_file()
        if place.width is not None:
            (stored,) = struct.unpack_from("<I", place.path.read_bytes(), place.offset)
            assert stored >> 1 == token
        else:
            assert reader.find(place.path, place.offset) <= place_position(reader, place)
    assert name != "control_raw" or place.width == 4
    assert name != "control_sharded" or place.width == 4


def place_position(reader, place):
    return next(p for p in range(reader.info.tokens) if reader.locate(p) == place)


def test_an_absent_chunk_lies_nowhere():
    reader = opened(FIXTURES / "bad" / "flat-tokens" / "control_absent_chunk_of_zeros", options={"holes": "fill"})
    places = [reader.locate(p) for p in range(reader.info.tokens)]
    absent = [place for place in places if "absent" in place.detail]
    assert absent and all(place.path.name == ".zarray" and place.width is None for place in absent)


def value_at(place):
    """The value of an HDF5 file at a place: its own bytes, or the chunk at its offset, decoded here."""
    names = {"input_ids": 0, "mask": 1, "labels": 2}
    with h5py.File(place.path) as file:
        data = file["data"]
        raw = place.path.read_bytes()
        if place.width is not None:
            return int(np.frombuffer(raw, data.dtype, 1, place.offset)[0])
        chunk, rest = place.detail.split(" of /data, row ")
        number = int(chunk.removeprefix("chunk ").replace(",", ""))
        row, field, column = rest.replace(",", "").replace("column ", "").split()
        row, column = int(row), int(column)
        info = data.id.get_chunk_info_by_coord((row, 0, 0))
        assert (info.byte_offset, number) == (place.offset, row // data.chunks[0])
        block = zlib.decompress(raw[info.byte_offset : info.byte_offset + info.size])
        values = np.frombuffer(block, data.dtype).reshape(data.chunks)
        assert np.array_equal(values[row % data.chunks[0]], data[row])
        return int(values[row % data.chunks[0], names[field], column])


@pytest.mark.parametrize(
    ("name", "view"),
    [(name, view) for name in HDF5 for view in ("documents", "samples") if (view, name[:6]) != ("samples", "corpus")],
)
def test_hdf5(name, view):
    home = FIXTURES / "hdf5" / name
    reader = None
    for path in (home, *sorted(home.rglob("*.h5"))):
        try:
            source = tokfmt.open(path, eos=50256, options=[f"view={view}"], allow_loss=["order"])
        except TokfmtError:
            continue
        reader = source.reader
        break
    assert reader is not None
    total = reader.info.tokens
    positions = spread(total)
    for position, token, place in there_and_back(reader, positions):
        found = value_at(place)
        assert found == token or (found == -100 and token == 50256)
        first = reader.find(place.path, place.offset)
        assert first is not None and first <= position
        if place.width is None:
            assert reader.locate(first).offset == place.offset
            before = reader.locate(first - 1) if first else None
            assert before is None or (before.path, before.offset) != (place.path, place.offset)
    outside(reader, place.path)


def test_hdf5_chunks_of_every_kind(tmp_path):
    """Raw chunks and contiguous values have bytes of their own; chunks that cut rows and fields are told apart."""
    rng = np.random.default_rng(1)
    data = rng.integers(1, 100, (6, 3, 8)).astype("<i4")
    data[:, 1] = 1
    for name, given in {
        "contiguous": {},
        "plain": {"chunks": (1, 3, 8)},
        "cut": {"chunks": (4, 1, 5), "compression": "gzip"},
        "cut_plain": {"chunks": (4, 2, 5)},
    }.items():
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=data, **given)
            file.attrs["n_examples"] = 6
        reader = opened(path, options=["view=samples"])
        assert (reader.locate(9).width is None) == (name == "cut")
        for position, token, place in there_and_back(reader, range(48)):
            assert token == data[position // 8, 0, position % 8]
            if place.width:
                assert struct.unpack_from("<i", path.read_bytes(), place.offset) == (token,)
            else:
                number = int(place.detail.split()[1])
                with h5py.File(path) as file:
                    at = (number // 6 * 4, number // 2 % 3, number % 2 * 5)
                    assert file["data"].id.get_chunk_info_by_coord(at).byte_offset == place.offset
                assert reader.find(path, place.offset) == at[0] * 8 + at[2]
        if name == "contiguous":
            mask = reader.locate(0).offset + 8 * 4
            assert reader.find(path, mask) is None


def test_a_golden_of_several_files():
    """Places name the file that holds the token."""
    home = FIXTURES / "hdf5" / "packed_overlap"
    reader = opened(home, eos=50256)
    places = [reader.locate(p) for p in np.linspace(0, reader.info.tokens - 1, 30).astype(int).tolist()]
    assert len({place.path for place in places}) > 1
    assert all(os.path.getsize(place.path) > place.offset for place in places)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_jsonl(tmp_path, indexed, end, bom):
    lists = [[1, 2, 3], [], [4], [5, 6] * 500, [7]]
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"input_ids": ids}).encode() for ids in lists]
    path.write_bytes(bom + end.encode().join(lines) + end.encode())
    raw = path.read_bytes()
    if indexed:
        entries, at = [], 0
        for line in raw.split(b"\n")[:-1]:
            entries.append((at, len(line)))
            at += len(line) + 1
        (tmp_path / "x.idx").write_bytes(pickle.dumps(entries))
    records = registered.opened(path)
    reader = registered.tokens_of(records)
    position = 0
    for number, ids in enumerate(lists):
        line = records.record_byte_offset(number)
        data = raw[line.offset : line.offset + line.width]
        assert json.loads(data.decode("utf-8-sig")) == {"input_ids": ids}
        for byte in (line.offset, line.offset + line.width, line.offset + line.width // 2):
            assert records.record_at(path, byte) == number
            assert reader.find(path, byte) == (position if ids else None)
        for k in range(len(ids)):
            place = reader.locate(position)
            assert (place.path, place.offset, place.width) == (path, line.offset, None)
            assert place.detail == f"token {k:,} of record {number}"
            position += 1
    assert records.record_at(path, len(raw)) is None
    with pytest.raises(IndexError):
        records.record_byte_offset(len(lists))


def test_jsonl_without_its_invalid_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"input_ids": [1]}\n{broken\n{"input_ids": [2]}\n')
    records = registered.opened(path, allow_loss=["invalid-lines"])
    assert [records.record_byte_offset(i).offset for i in range(2)] == [0, 27]
    assert [records.record_at(path, at) for at in (0, 20, 30)] == [0, None, 1]


def test_jsonl_of_several_files_and_compressed(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1]}\n')
    (tmp_path / "b.jsonl").write_text('{"input_ids": [2]}\n{"input_ids": [3]}\n')
    records = registered.opened(tmp_path)
    assert [records.record_byte_offset(i).path.name for i in range(3)] == ["a.jsonl", "b.jsonl", "b.jsonl"]
    assert records.record_at(tmp_path / "b.jsonl", 20) == 2
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"input_ids": [1]}\n'))
    place = registered.opened(path).record_byte_offset(0)
    assert (place.offset, place.width) == (0, None) and "decompressed" in place.detail
