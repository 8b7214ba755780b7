"""llmc under the laws of every format; the oracle is struct, numpy.fromfile and a split."""

import struct

import numpy as np

import tokfmt
from tokfmt.formats.llmc import FORMAT
from tokfmt.testing import FormatContract


def begun(stream, eos):
    """Sequences that each begin with the separator, empty ones too."""
    assert not stream or stream[0] == eos
    found = []
    for token in stream:
        if token == eos:
            found.append([])
        else:
            found[-1].append(token)
    return found


def tokens(path):
    raw = path.read_bytes()
    magic, version, count, width = struct.unpack("<4i", raw[:16])
    assert (magic, version) in {(20240520, 1), (20240801, 7), (278895051, 1)}
    assert not any(raw[16:1024])
    width = {20240520: 2, 20240801: 4}.get(magic, width)
    assert len(raw) == 1024 + count * width
    return np.frombuffer(raw[1024:], f"<u{width}").tolist()


class TestGpt2(FormatContract):
    format = FORMAT
    filename = "x.bin"
    eos_id = 50256
    max_id = 65535
    write_variants = ({"variant": "gpt2"},)
    long_options = {"variant": "gpt2"}

    def oracle(self, path, options):
        return begun(tokens(path), self.eos_id)


class TestWide(TestGpt2):
    eos_id = 128000
    max_id = 2**32 - 1
    write_variants = ({"variant": "llama3"}, {"variant": "automodel"}, {})
    long_options = {"variant": "llama3"}


class TestShards(FormatContract):
    """Documents run on across shards."""

    format = FORMAT
    filename = "fineweb"
    sharded = {"shard_size": 1}
    eos_id = 0
    max_id = 2**32 - 1
    write_variants = ({"shard_size": 5},)
    long_options = {"shard_size": 1 << 20}

    def oracle(self, path, options):
        shards = sorted(path.iterdir())
        assert [p.name for p in shards] == [f"fineweb_train_{k:06d}.bin" for k in range(1, len(shards) + 1)]
        held = [tokens(p) for p in shards]
        assert all(len(part) == 5 for part in held[:-1])
        return begun([t for part in held for t in part], self.eos_id)


def test_a_shard_is_read_by_its_header_whatever_its_name(tmp_path):
    """`.npy` is also the name of NumPy arrays, which some trainers write as shards."""
    source = tmp_path / "x.jsonl"
    source.write_text('{"input_ids": [1, 2]}\n{"input_ids": [3]}\n')
    tokfmt.convert(source, tmp_path / "x_train_000001.bin", to_format="llmc", eos=50256)
    renamed = (tmp_path / "x_train_000001.bin").rename(tmp_path / "renamed.npy")
    (tmp_path / "x_train_000001.bin.tokfmt.json").unlink()
    with tokfmt.open(renamed) as dataset:
        assert dataset.format == "llmc"
        assert [one.tolist() for one in dataset] == [[1, 2], [3]]


def test_splits_are_shards_of_their_own_names(tmp_path):
    """val is shard 0, and is read when it is asked for."""
    source, folder = tmp_path / "x.jsonl", tmp_path / "fineweb"
    source.write_text("".join(f'{{"input_ids": [{k}, {k + 1}]}}\n' for k in range(20)))
    tokfmt.convert(
        source, folder, to_format="llmc", eos=50256, split="train=0.8,val=0.2", to_options={"shard_size": 20}
    )
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "fineweb_train_000001.bin",
        "fineweb_train_000002.bin",
        "fineweb_train_000003.bin",
        "fineweb_val_000000.bin",
    ]
    with tokfmt.open(folder, options={"split": "val"}) as val, tokfmt.open(folder, options={"split": "train"}) as train:
        held = [[one.tolist() for one in split] for split in (val, train)]
    assert sorted(held[0] + held[1]) == [[k, k + 1] for k in range(20)]
    assert begun(tokens(folder / names[-1]), 50256) == held[0]
    with tokfmt.open(folder) as usual:
        assert [one.tolist() for one in usual] == held[1]
