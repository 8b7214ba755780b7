"""Chunks of hostile bytes: a FormatError or the right number of bytes, never more memory than a chunk."""

import struct
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zstandard
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.formats import codecs
from tokfmt.formats.codecs import Stored

ITEMS = np.arange(4096, dtype="<u4") * 7 % 1000
SIZE = ITEMS.nbytes


def blob(data):
    return Stored(Path("c"), data, 0, len(data))


def decode(data, *names):
    return codecs.decode(blob(data), names, SIZE, 4)


ENCODED = {
    "blosc": numcodecs.Blosc("lz4", 5, 2, 1024).encode(ITEMS),
    "zstd": numcodecs.Zstd(3, checksum=True).encode(ITEMS),
    "lz4": numcodecs.LZ4().encode(ITEMS),
    "gzip": numcodecs.GZip(3).encode(ITEMS),
    "zlib": numcodecs.Zlib(3).encode(ITEMS),
}


MANY = 70_001
BLOCKS = numcodecs.Blosc("lz4", 5, 2, 1 << 13).encode(np.resize(ITEMS, MANY))


@pytest.mark.parametrize("name", ENCODED)
def test_right(name):
    assert np.array_equal(decode(ENCODED[name], name).view("<u4"), ITEMS)


@pytest.mark.parametrize("name", ENCODED)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damaged(name, data):
    raw = bytearray(ENCODED[name])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw), len(raw) // 2, 20, 3]))])
    try:
        assert len(decode(raw, name)) == SIZE
    except FormatError as error:
        assert "\n" not in str(error)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damaged_blocks(data):
    raw = bytearray(BLOCKS)
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.one_of(st.integers(0, 100), st.integers(0, len(raw) - 1)))] = data.draw(st.integers(0, 255))
    start = data.draw(st.integers(0, MANY - 1))
    stop = data.draw(st.one_of(st.integers(start + 1, min(MANY, start + 100)), st.integers(start + 1, MANY)))
    try:
        part = part_of(blob(bytes(raw)), 4 * MANY, 4, 4 * start, 4 * stop)
        assert part is None or len(part) == 4 * (stop - start)
    except FormatError as error:
        assert "\n" not in str(error)


def part_of(chunk, nbytes, itemsize, start, stop):
    return codecs.decode_blosc_part(chunk, codecs.blosc_frame(chunk, nbytes, itemsize), start, stop)


@pytest.mark.parametrize("blocksize", [1 << 10, 5000, 1 << 13, 1 << 15])
@pytest.mark.parametrize("random", [False, True])
def test_every_part(blocksize, random):
    items = np.random.default_rng(0).integers(0, 2**32, 70_001).astype("<u4") if random else np.resize(ITEMS, 70_001)
    raw = items.view(np.uint8)
    chunk = blob(numcodecs.Blosc("lz4", 5, 2, blocksize).encode(items))
    assert codecs.blosc_frame(chunk, len(raw), 4).blocks > 1
    for start in [*range(0, len(raw), 3332), len(raw) - 4]:
        for stop in (start + 4, start + 10_000, len(raw)):
            part = part_of(chunk, len(raw), 4, start, min(stop, len(raw)))
            assert part is not None
            assert np.array_equal(part, raw[start:stop])


@pytest.mark.parametrize("codec", ["lz4", "lz4hc", "zstd", "zlib", "blosclz"])
@pytest.mark.parametrize("shuffle", [0, 1, 2])
@pytest.mark.parametrize("typesize", [1, 4])
@pytest.mark.parametrize("content", ["ids", "random", "zeros"])
def test_few_items_of_every_kind_of_block(codec, shuffle, typesize, content):
    """Shuffled bits of LZ4 are put together without blosc; all others by it: the same items either way."""
    rng = np.random.default_rng(1)
    items = {
        "ids": np.minimum(rng.zipf(1.2, 70_001), 100_000).astype("<u4"),
        "random": rng.integers(0, 2**32, 70_001).astype("<u4"),
        "zeros": np.zeros(70_001, "<u4"),
    }[content]
    raw = items.view(np.uint8)
    chunk = blob(numcodecs.Blosc(codec, 5, shuffle, 1 << 15).encode(raw if typesize == 1 else items))
    head = codecs.blosc_frame(chunk, len(raw), 4)
    assert head.itemsize == typesize
    for start in rng.integers(0, 70_000, 40).tolist() + [8191, 8192, 8185, 70_000]:
        stop = min(start + int(rng.integers(1, 500)), 70_001)
        part = codecs.decode_blosc_part(chunk, head, 4 * start, 4 * stop)
        assert np.array_equal(part.view("<u4"), items[start:stop])


@pytest.mark.parametrize("flags", range(8))
def test_few_items_whatever_the_header_says_of_the_shuffle(flags):
    """A part is what blosc makes of the whole, also where a damaged header has several shuffles (found by the fuzzer)."""
    raw = bytearray(BLOCKS)
    raw[2] = raw[2] & ~7 | flags
    chunk = blob(bytes(raw))
    try:
        whole = np.frombuffer(numcodecs.blosc.decompress(bytes(raw)), np.uint8)
    except RuntimeError:
        with pytest.raises(FormatError):
            part_of(chunk, 4 * MANY, 4, 4 * 5000, 4 * 5010)
        return
    assert np.array_equal(part_of(chunk, 4 * MANY, 4, 4 * 5000, 4 * 5010), whole[4 * 5000 : 4 * 5010])


def test_damage_in_a_block_of_which_few_items_are_wanted():
    """What is not one stream after another is left to blosc, which says what is wrong with it."""
    raw = bytearray(BLOCKS)
    first = struct.unpack_from("<I", raw, 16)[0]
    struct.pack_into("<i", raw, first, 1 << 30)
    with pytest.raises(CorruptError, match="blosc cannot decode it"):
        part_of(blob(bytes(raw)), 4 * MANY, 4, 40, 80)


def test_zstd_of_a_writer_that_streams():
    """No size in the frame: the blocks bound it."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    raw = stream.compress(ITEMS.tobytes()) + stream.flush()
    assert zstandard.get_frame_parameters(raw).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert np.array_equal(decode(raw, "zstd").view("<u4"), ITEMS)
    bomb = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    raw = bomb.compress(bytes(50 << 20)) + bomb.flush()
    with pytest.raises(UnsafeError, match="far more than a chunk"):
        decode(raw, "zstd")
    with pytest.raises(CorruptError, match="continues after"):
        decode(ENCODED["zstd"] * 2, "zstd")


@pytest.mark.parametrize("size", [256, 65_791, 65_792, 1 << 20])
def test_sizes_of_zstd_frames(size):
    """Each width of the size field."""
    data = bytes(range(256)) * (size // 256 + 1)
    raw = numcodecs.Zstd(1).encode(data[:size])
    assert len(codecs.decode(blob(raw), ("zstd",), size, 1)) == size


@pytest.mark.parametrize("name", ["gzip", "zlib", "zstd", "blosc"])
def test_something_behind(name):
    with pytest.raises(CorruptError, match=f"continues after .* at byte {len(ENCODED[name]):,}"):
        decode(ENCODED[name] + b"\0", name)


def test_a_bomb_in_gzip():
    with pytest.raises(UnsafeError, match="more than a chunk"):
        decode(zlib.compress(bytes(100 << 20)), "zlib")


def test_crc32c():
    raw = ITEMS.tobytes()
    good = raw + struct.pack("<I", numcodecs.checksum32.CRC32C().checksum(np.frombuffer(raw, np.uint8)))
    assert np.array_equal(decode(good, "crc32c").view("<u4"), ITEMS)
    assert np.array_equal(decode(zlib.compress(good), "zlib", "crc32c").view("<u4"), ITEMS)
    with pytest.raises(CorruptError, match="CRC-32C"):
        decode(b"\1" + good[1:], "crc32c")
    with pytest.raises(TruncatedError):
        decode(b"\1", "crc32c")


@pytest.mark.parametrize("codec", ["blosc", "zstd", "gzip", "none"])
def test_written_chunks_are_the_same_each_time(codec):
    first = codecs.ENCODERS[codec](ITEMS)
    assert codecs.ENCODERS[codec](ITEMS.copy()) == first
    assert np.array_equal(codecs.decode(blob(first), () if codec == "none" else (codec,), SIZE, 4).view("<u4"), ITEMS)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 96, 4099])
def test_fletcher_sums(size):
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8).tobytes()
    first = second = 0
    for (word,) in struct.iter_unpack(">H", data + bytes(size % 2)):
        first = (first + word) % 65535
        second = (second + first) % 65535
    sums = struct.pack("<I", second << 16 | first)
    assert codecs.decode(blob(data + sums), ("fletcher32",), size, 1).tobytes() == data
    with pytest.raises(CorruptError):
        codecs.decode(blob(data + struct.pack("<I", second << 16 | first ^ 1)), ("fletcher32",), size, 1)


@pytest.mark.parametrize(("size", "works"), [(96, True), (95, False), (97, False), (1 << 22, False), (0, False)])
def test_a_chunk_inflates_to_its_size_and_nothing_else(size, works):
    content = blob(zlib.compress(bytes(size)))
    if works:
        assert codecs.decode(content, ("deflate",), 96, 4).tobytes() == bytes(96)
        return
    with pytest.raises(CorruptError):
        codecs.decode(content, ("deflate",), 96, 4)
