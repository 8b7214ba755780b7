"""Zstandard data with a long window, with frames that readers skip, or with a dictionary."""

import gzip
import json
import struct

import pytest
import zstandard

import tokfmt
from tokfmt.errors import CorruptError, TokfmtError, UnsupportedError

LINES = b"".join(json.dumps({"text": f"document {k}"}).encode() + b"\n" for k in range(600))
SKIPPED = struct.pack("<II", 0x184D2A50, 4) + bytes(4)


def with_window(bits):
    """The lines in a frame that states a window of 2^bits bytes, and no size, as `zstd --long=bits` of a pipe writes it."""
    made = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    frame = bytearray(made.compress(LINES) + made.flush())
    assert frame[4] >> 5 == 0  # a descriptor without size and with the window in the next byte
    frame[5] = bits - 10 << 3
    if bits <= 31:
        assert zstandard.get_frame_parameters(bytes(frame)).window_size == 1 << bits
    return bytes(frame)


def texts(path):
    done = tokfmt.convert(path, path.with_suffix(".out.jsonl"))
    assert done.sequences == 600
    return path.with_suffix(".out.jsonl").read_bytes()


@pytest.mark.parametrize("bits", [23, 27, 28, 30])
def test_long_window(tmp_path, bits):
    (tmp_path / "x.jsonl.zst").write_bytes(with_window(bits))
    assert texts(tmp_path / "x.jsonl.zst") == LINES
    (report,) = tokfmt.check(tmp_path / "x.jsonl.zst", deep=True)
    assert not report.counts


def test_window_beyond_the_bound(tmp_path):
    """It is valid, so the remedy is not to copy it again, and nothing of it is saved."""
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(with_window(31))
    for partial in (False, True):
        with pytest.raises(UnsupportedError, match=r"--long=31, which takes 2 GiB.*zstd -d --long=31") as raised:
            tokfmt.convert(path, tmp_path / "x.jsonl", allow_partial=partial)
        assert "Copy" not in str(raised.value)
    path.write_bytes(with_window(20) + with_window(31))  # the second frame, whose offset is not a multiple of anything
    with pytest.raises(UnsupportedError, match="--long=31"):
        tokfmt.convert(path, tmp_path / "x.jsonl")


def test_window_that_no_decoder_has(tmp_path):
    (tmp_path / "x.jsonl.zst").write_bytes(with_window(41))
    with pytest.raises(CorruptError, match="damaged"):
        tokfmt.convert(tmp_path / "x.jsonl.zst", tmp_path / "x.jsonl")


@pytest.mark.parametrize("name", ["x.jsonl.zst", "x"])
def test_skipped_frames(tmp_path, name):
    """pzstd begins with one."""
    frame = zstandard.ZstdCompressor().compress(LINES[: len(LINES) // 2])
    rest = zstandard.ZstdCompressor().compress(LINES[len(LINES) // 2 :])
    (tmp_path / name).write_bytes(SKIPPED + frame + SKIPPED + rest + SKIPPED)
    assert texts(tmp_path / name) == LINES


def test_dictionary(tmp_path):
    samples = [b'{"text": "document %d"}' % k for k in range(3000)]
    dictionary = zstandard.train_dictionary(2048, samples)
    (tmp_path / "x.jsonl.zst").write_bytes(zstandard.ZstdCompressor(dict_data=dictionary).compress(LINES))
    with pytest.raises(UnsupportedError, match=rf"dictionary {dictionary.dict_id()}.*zstd -d -D") as raised:
        tokfmt.convert(tmp_path / "x.jsonl.zst", tmp_path / "x.jsonl")
    assert "Copy" not in str(raised.value)


@pytest.mark.parametrize("how", ["window", "dictionary"])
def test_shard(tmp_path, how):
    """The same is said of a compressed shard of MDS."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2, 3]}\n')
    tokfmt.convert(
        tmp_path / "x.jsonl",
        tmp_path / "x",
        to_format="mds",
        to_options={"compression": "zstd", "hashes": "none"},
        to_eos="none",
    )
    shard = tmp_path / "x" / "shard.00000.mds.zstd"
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(shard.read_bytes())
    dictionary = zstandard.train_dictionary(1024, [b"sample %d" % (k % 97) for k in range(3000)])
    made = zstandard.ZstdCompressor(dict_data=dictionary if how == "dictionary" else None).compressobj()
    frame = bytearray(made.compress(raw) + made.flush())
    if how == "window":
        frame[5] = 31 - 10 << 3
    shard.write_bytes(frame)
    (tmp_path / "x.tokfmt.json").unlink()
    with pytest.raises(UnsupportedError, match="--long=31" if how == "window" else "dictionary"):
        tokfmt.stats(tmp_path / "x", options={"hashes": "ignore"}, eos=0)


def test_other_data(tmp_path):
    """What is not read is not called something else than JSON lines."""
    (tmp_path / "x.zst").write_bytes(with_window(31))
    with pytest.raises(TokfmtError, match="no JSON lines were found.*--long=31"):
        tokfmt.info(tmp_path / "x.zst")
    (tmp_path / "y.gz").write_bytes(gzip.compress(LINES))
    assert tokfmt.info(tmp_path / "y.gz").format == "jsonl"
