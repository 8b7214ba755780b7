"""litgpt-packed under the laws of every format; the oracle is struct, numpy.frombuffer and a split."""

import struct

import numpy as np
import pytest

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.litgpt_packed import FORMAT
from tokfmt.testing import FormatContract

DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def tokens(path):
    raw = path.read_bytes()
    magic, version, code, count = struct.unpack("<7sQBQ", raw[:24])
    assert (magic, version) == (b"LITPKDS", 1)
    found = np.frombuffer(raw[24:], DTYPES[code])
    assert len(found) == count
    return found.tolist()


def ended(stream, eos):
    """Sequences that each end with the separator, empty ones too."""
    found, held = [], []
    for token in stream:
        if token == eos:
            found.append(held)
            held = []
        else:
            held.append(token)
    assert not held
    return found


class TestChunks(FormatContract):
    """Documents run on across chunks."""

    format = FORMAT
    filename = "packed"
    eos_id = 0
    max_id = 2**31 - 1
    sharded = {"shard_size": 1}
    write_variants = ({"shard_size": 5}, {"shard_size": 1 << 16, "prefix": "c4"})
    long_options = {"shard_size": 1 << 20}

    def oracle(self, path, options):
        chunks = sorted(path.iterdir())
        prefix = options.get("prefix", "train")
        assert [p.name for p in chunks] == [f"{prefix}_{k:010d}.bin" for k in range(len(chunks))]
        held = [tokens(p) for p in chunks]
        assert all(len(part) == options["shard_size"] for part in held[:-1])
        return ended([t for part in held for t in part], self.eos_id)


def chunk(path, ids, code=8):
    head = struct.pack("<7sQBQ", b"LITPKDS", 1, code, len(ids))
    path.write_bytes(head + np.array(ids, DTYPES[code]).tobytes())


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype(tmp_path, code):
    chunk(tmp_path / "x_0000000000.bin", [5, 6, 1, 7, 1], code)
    with tokfmt.open(tmp_path / "x_0000000000.bin", eos=1) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("litgpt-packed", [[5, 6], [7]])


def test_streams_and_what_fills_them(tmp_path):
    """Process 10 is not a part of process 1, and chunk 10 comes after chunk 9."""
    chunk(tmp_path / "s_1_0000000000.bin", [5, 1, *[2] * 9])
    chunk(tmp_path / "s_10_0000000000.bin", [6, 1, 7, 1, 1])
    with tokfmt.open(tmp_path, eos=1) as dataset:
        assert dataset[:].tolist() == [[5], [6], [7], []]
        assert any("2 streams are read one after the other" in note for note in dataset.info.notes)
    with tokfmt.open(tmp_path, eos=1, options={"prefix": "s_1", "fill": "keep"}) as dataset:
        assert dataset[:].tolist() == [[5], [2] * 9]
    for options in ({"fill": "drop"}, {"fill_id": 1}):
        with tokfmt.open(tmp_path, eos=1, options={"prefix": "s_10", **options}) as dataset:
            assert dataset[:].tolist() == [[6], [7]]
    with pytest.raises(TokfmtError, match="holds no stream s_2: found s_1, s_10"):
        tokfmt.open(tmp_path, options={"prefix": "s_2"})


def test_the_last_chunk_is_filled_on_request(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": [{k}, {k + 1}]}}\n' for k in range(10, 17)))
    words = {"to_format": "litgpt-packed", "eos": 2}
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "out", to_options={"shard_size": 8, "fill_id": 1}, **words)
    held = [tokens(path) for path in sorted((tmp_path / "out").iterdir())]
    assert list(map(len, held)) == [8, 8, 8]
    assert held[-1][-3:] == [1, 1, 1]
    with tokfmt.open(tmp_path / "out") as dataset:
        assert dataset[:].tolist() == [[k, k + 1] for k in range(10, 17)]
