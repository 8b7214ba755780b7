"""Packs and blocks made one of several: token bytes are copied, and what is written is what the long way writes."""

import errno
import itertools
import json
import os
import pickle
import struct

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import SourceChangedError
from tokfmt.core.output import Output
from tokfmt.formats import flat
from tokfmt.formats.flat import FlatReader, FlatWriter

HERE = FIXTURES / "modalities"
EXPECTED = json.loads((HERE / "expected.json").read_text())
PACKS = {name: case for name, case in EXPECTED["pbin"].items() if not name.startswith("wild_")}
EOS = 50256


def packed(documents, width=None):
    """The bytes of a pack of layout D, documents as stored."""
    flat = np.array([token for document in documents for token in document], np.uint64)
    if width is None:
        top = int(flat.max()) if len(flat) else EOS
        width = 1 if top < 1 << 8 else 2 if top < 1 << 16 else 4
    lengths = [len(document) * width for document in documents]
    offsets = [0, *itertools.accumulate(lengths)][:-1]
    index = pickle.dumps(list(zip(offsets, lengths, strict=True)), protocol=4)
    return struct.pack("<QI", len(flat) * width, width) + flat.astype(f"<u{width}").tobytes() + index


def put(path, documents, width=None):
    path.write_bytes(packed(documents, width))
    return path


def random_documents(seed, count, top=EOS, eos=EOS):
    rng = np.random.default_rng(seed)
    return [[*rng.integers(0, top, int(n)).tolist(), eos] for n in rng.integers(0, 60, count)]


@pytest.fixture
def scanned(monkeypatch):
    """Everything is read once before it is written, also where any id that the source can hold is as wide."""
    monkeypatch.setattr(FlatWriter, "wants_max_id", lambda writer, source: writer.needs_max_id)


@pytest.fixture
def copied(monkeypatch, scanned):
    """Bytes that were copied as they stand."""
    seen = []

    def copy(out, offset, file, begin, length, real=Output.copy):
        seen.append(length)
        real(out, offset, file, begin, length)

    monkeypatch.setattr(Output, "copy", copy)
    return seen


def the_long_way(monkeypatch):
    """Take separators away, put them in again, decode and encode every token."""
    for short_cut in ("_is_seamless", "_takes_all"):
        monkeypatch.setattr(f"tokfmt.model.laid.Laid.{short_cut}", lambda laid: False)
    for home in ("flat", "hdf5.writer"):
        monkeypatch.setattr(f"tokfmt.formats.{home}.copy_region", lambda *region: None)


def merged(sources, out, **options):
    tokfmt.convert(sources, out, executor=options.pop("executor", "serial"), manifest=False, **options)
    return out.read_bytes()


@pytest.mark.parametrize("name", PACKS)
def test_every_layout(name, tmp_path, copied):
    """A golden after itself. In layout C and D the tokens lie as they are written; in A and B big-endian, if not bytes."""
    case = PACKS[name]
    documents = EXPECTED["doc_sets"][case["documents"]]
    eos = case["eod_id"]
    assert eos in (EOS, 255, 123027)
    out = merged([HERE / name] * 2, tmp_path / "out.pbin", eos=eos)
    closed = documents if all(d and d[-1] == eos for d in documents) else [[*d, eos] for d in documents]
    width = None if documents else 2
    assert out == packed(closed * 2, width)
    as_it_is = case["token_bytes"] == 1 or (case["endian"] == "le" and case["token_bytes"] in (2, 4))
    assert sum(copied) == (2 * case["n_tokens"] * case["token_bytes"] if as_it_is and closed is documents else 0)


MERGES = {
    "E and its parts": ["E_D_2byte_gpt2.pbin", "D_2byte_gpt2.pbin", "E_C_by_HEAD_2byte_gpt2.pbin", "C_2byte_gpt2.pbin"],
    "empty in between": ["D_2byte_gpt2.pbin", "D_2byte_empty.pbin", "E_D_empty_first_2byte.pbin"],
    "other byte order": ["D_2byte_gpt2.pbin", "B_2byte_gpt2.pbin", "C_2byte_gpt2.pbin"],
    "other width": ["A_4byte_gpt2.pbin", "D_2byte_gpt2.pbin", "A_2byte_gpt2.pbin"],
    "one of all that is there": ["D_2byte_gpt2_shuffled_seed7.pbin"],
}
WAYS = {
    "plain": {},
    "jobs": {"jobs": 3, "executor": "threads"},
    "verified": {"verify": True},
    "selected": {"select": "1:-2"},
    "resumable": {"resume": True},
    "shuffled": {"shuffle": 4},
    "wide": {"to_options": {"width": 4}},
    "old": {"to_options": {"layout": "A"}},
    "without separators": {"to_eos": "none"},
}


@pytest.mark.parametrize("names", MERGES.values(), ids=MERGES)
def test_the_same_as_the_long_way(names, tmp_path, monkeypatch):
    sources = [HERE / name for name in names]
    short = {way: merged(sources, tmp_path / f"{way}.pbin", eos=EOS, **how) for way, how in WAYS.items()}
    the_long_way(monkeypatch)
    for way, how in WAYS.items():
        assert short[way] == merged(sources, tmp_path / f"long {way}.pbin", eos=EOS, **how), way
    assert short["plain"] == short["jobs"] == short["verified"] == short["resumable"]


@pytest.mark.usefixtures("scanned")
@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, None])
def test_where_the_kernel_does_not_copy(tmp_path, monkeypatch, number):
    """It refuses, from the beginning or after some bytes; or says that there is nothing more."""
    sources = [put(tmp_path / f"{k}.pbin", random_documents(k, 30)) for k in range(2)]
    calls, real = [], os.copy_file_range

    def refusing(source, out, count, begin, at):
        calls.append(count)
        if len(calls) % 2:
            return real(source, out, min(count, 100), begin, at)
        if number is None:
            return 0
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "copy_file_range", refusing)
    expected = packed(random_documents(0, 30) + random_documents(1, 30))
    assert merged(sources, tmp_path / "out.pbin") == expected
    assert len(calls) >= 2


@pytest.mark.usefixtures("scanned")
def test_a_source_that_changes_while_it_is_copied(tmp_path, monkeypatch):
    sources = [put(tmp_path / f"{k}.pbin", random_documents(k, 30)) for k in range(2)]
    real = os.copy_file_range

    def changing(*args):
        os.utime(sources[1], ns=(1, 1))
        return real(*args)

    monkeypatch.setattr(os, "copy_file_range", changing)
    with pytest.raises(SourceChangedError, match=r"1\.pbin: changed while it was being read"):
        merged(sources, tmp_path / "out.pbin")
    assert sorted(os.listdir(tmp_path)) == ["0.pbin", "1.pbin"]


@pytest.mark.parametrize(("width", "times"), [(2, 2), (4, 3)])
def test_number_of_reads_per_token(tmp_path, monkeypatch, width, times):
    """Tokens are read once, or twice if a scan has to find the largest ID; opening reads few."""
    sources = [put(tmp_path / f"{k}.pbin", random_documents(k, 3000), width) for k in range(2)]
    read, real, several = [], FlatReader.tokens, FlatReader.intervals
    monkeypatch.setattr(FlatReader, "tokens", lambda reader, a, b: read.append(b - a) or real(reader, a, b))
    monkeypatch.setattr(
        FlatReader, "intervals", lambda reader, all_: read.extend(b - a for a, b in all_) or several(reader, all_)
    )
    merged(sources, tmp_path / "out.pbin", eos=EOS)
    tokens = sum(len(document) for k in range(2) for document in random_documents(k, 3000))
    assert times * tokens * 0.99 <= sum(read) <= times * tokens


# llm.c, stage1 and HDF5 through the same seam


def shard(path, stream):
    """An llm.c file of GPT-2's ids."""
    path.write_bytes(
        struct.pack("<3i", 20240520, 1, len(stream)).ljust(1024, b"\0") + np.array(stream, "<u2").tobytes()
    )
    return path


@pytest.mark.parametrize(
    ("streams", "copies"),
    [
        ([[EOS, 1, 2, EOS, EOS, 3], [EOS, 4]], 8),
        ([[EOS, 1], [7, 2, EOS, 3]], 6),
        ([[7, 2, EOS, 3]], 0),  # what precedes the first separator gets one of its own
        ([[EOS, EOS, EOS]], 3),
    ],
    ids=["two files", "a document that goes on", "headless", "empty ones"],
)
@pytest.mark.parametrize("select", [None, "1:"])
def test_separators_in_front(tmp_path, monkeypatch, copied, streams, copies, select):
    sources, encoded = [shard(tmp_path / f"{k}.bin", stream) for k, stream in enumerate(streams)], []
    monkeypatch.setattr(
        flat, "check_ids", lambda ids, *about, real=flat.check_ids: encoded.append(ids) or real(ids, *about)
    )
    how = {"to_format": "llmc", "executor": "serial", "manifest": False, "select": select}
    tokfmt.convert(sources, tmp_path / "out.bin", **how)
    if copies:
        assert copied
        assert not encoded
    assert select or sum(copied) == 2 * copies
    the_long_way(monkeypatch)
    tokfmt.convert(sources, tmp_path / "long.bin", **how)
    assert encoded
    assert (tmp_path / "out.bin").read_bytes() == (tmp_path / "long.bin").read_bytes()


def blocks(home, seed, samples, eos=EOS):
    """A directory of two blocks in which one separator follows each document, and the rest of the last sample is padding."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, EOS, samples * 64).astype("<i4")
    ids[np.unique(rng.integers(0, len(ids) // 2, 40)) * 2 + 1] = eos
    ids[-5:] = eos
    home.mkdir()
    half = samples // 2 * 64
    ids[:half].tofile(home / "stage1_block_0000.bin")
    ids[half:].tofile(home / "stage1_block_0001.bin")
    return ids


def tree(path):
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "copies", "options"),
    [
        ("out", True, {"to_format": "stage1", "to_options": {"seq_len": 64, "shard_size": 192}}),
        ("out.pbin", True, {"to_options": {"width": 4}}),
        ("out.pbin", False, {}),
        ("out.h5", False, {"to_options": {"layout": "corpus", "seq_len": 64}}),
    ],
    ids=["stage1", "pack", "narrow pack", "hdf5 corpus"],
)
def test_blocks(tmp_path, monkeypatch, copied, name, copies, options):
    sources = [tmp_path / "a", tmp_path / "b"]
    first, second = blocks(sources[0], 1, 10), blocks(sources[1], 2, 8)
    how = {"options": {"seq_len": 64}, "executor": "serial", "manifest": False, **options}
    tokfmt.convert(sources, tmp_path / name, **how)
    assert bool(copied) is copies
    if name == "out":
        stream = np.concatenate([np.fromfile(file, "<i4") for file in sorted((tmp_path / name).iterdir())])
        real = np.concatenate((first[:-4], second[:-4]))
        assert stream[: len(real)].tolist() == real.tolist()
        assert (stream[len(real) :] == EOS).all()
    the_long_way(monkeypatch)
    tokfmt.convert(sources, tmp_path / f"long{name}", **how)
    assert tree(tmp_path / name) == tree(tmp_path / f"long{name}")


def test_a_pack_becomes_an_array(tmp_path, monkeypatch, copied):
    source = put(tmp_path / "in.pbin", [[1, 300, EOS], [2, EOS]] * 50)
    how = {"to_options": {"layout": "corpus", "seq_len": 64}, "executor": "serial", "manifest": False}
    tokfmt.convert(source, tmp_path / "out.h5", **how)
    assert sum(copied) == 2 * 250
    the_long_way(monkeypatch)
    tokfmt.convert(source, tmp_path / "long.h5", **how)
    assert tree(tmp_path / "out.h5") == tree(tmp_path / "long.h5")
