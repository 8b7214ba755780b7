"""Packs and blocks made one of several: token bytes are copied, and what is written is what the long way writes."""

import errno
import itertools
import json
import os
import pickle
import struct

import numpy as np
import pytest
from amount import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from paths import FIXTURES

import tokfmt
from tokfmt.core.output import Output
from tokfmt.errors import ConversionError, TruncatedError
from tokfmt.files.file import File

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


def merged(sources, out, **options):
    tokfmt.convert(sources, out, executor=options.pop("executor", "serial"), manifest=False, **options)
    return out.read_bytes()


@pytest.mark.usefixtures("kept_workers")
def test_processes_copy_as_well(tmp_path):
    sources = [put(tmp_path / f"{k}.pbin", random_documents(k, 30)) for k in range(3)]
    assert merged(sources, tmp_path / "out.pbin", executor="processes", jobs=2) == packed(
        [document for k in range(3) for document in random_documents(k, 30)]
    )


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 4]),
            st.lists(st.tuples(st.lists(st.integers(0, 299), max_size=6), st.booleans()), max_size=5),
        ),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_any_packs(tmp_path_factory, packs, data):
    """Several widths, empty packs and documents, separators missing here and there: as if all had been packed at once."""
    home, eos, sources, expected = tmp_path_factory.mktemp("packs"), 200, [], []
    for number, (width, documents) in enumerate(packs):
        stored = [[t % 256 if width == 1 else t for t in ids] + [eos] * ended for ids, ended in documents]
        ends = [one[-1] for one in stored if one]
        assume(len(ends) < 2 or eos in ends or len(set(ends)) > 1)  # All end with another ID: it is refused.
        sources.append(put(home / f"{number}.pbin", stored, width))
        expected += [[*d, eos] if d and d[-1] != eos else d for d in stored]
    count = len(expected)
    a, b = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    flat = [t for d in expected[a:b] for t in d]
    width = 1 if max(flat, default=0) < 256 else 2
    assert merged(sources, home / "out.pbin", eos=eos, select=f"{a}:{b}") == packed(expected[a:b], width)


def test_every_separator_is_looked_at(tmp_path):
    """One document of 20,000 ends otherwise, where the sample of 4,096 does not look; it alone gets a separator."""
    documents = [[7, EOS]] * 20_000
    documents[12_444] = [7, 8]
    sources = [put(tmp_path / "a.pbin", [[1, EOS]]), put(tmp_path / "b.pbin", documents)]
    documents[12_444] = [7, 8, EOS]
    assert merged(sources, tmp_path / "out.pbin") == packed([[1, EOS], *documents])
    assert sorted(os.listdir(tmp_path)) == ["a.pbin", "b.pbin", "out.pbin"]


def test_manifest_of_a_merge(tmp_path):
    sources = [put(tmp_path / f"{k}.pbin", random_documents(k, 9, top=40_000)) for k in range(2)]
    done = tokfmt.convert(sources, tmp_path / "out.pbin")
    said = json.loads((tmp_path / "out.pbin.tokfmt.json").read_bytes())
    assert done.max_id == said["max_id"] == said["eos_id"] == EOS
    assert said["sequences"] == 18
    assert [entry["bytes"] for entry in said["sources"]] == [path.stat().st_size for path in sources]


def test_failed_copy_is_one_message(tmp_path, monkeypatch):
    source, out = put(tmp_path / "in.pbin", random_documents(0, 30)), tmp_path / "out"
    out.touch()
    file = File(source)
    os.truncate(source, 500)
    with Output(out) as output, pytest.raises(TruncatedError, match=r"in\.pbin: the file ends too early"):
        output.copy(0, file, 400, 200)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full)
    monkeypatch.setattr(os, "pwrite", full)
    with Output(out) as output, pytest.raises(ConversionError, match="no space left"):
        output.copy(0, file, 0, 400)


def test_ids_that_no_block_holds(tmp_path):
    """A pack of 4 bytes a token has the same bytes as a block, but for ids of 2^31 and more."""
    source = put(tmp_path / "in.pbin", [[1, 2**31, EOS]], 4)
    with pytest.raises(tokfmt.TokfmtError, match="2,?147,?483,?648"):
        tokfmt.convert(source, tmp_path / "out", to_format="stage1", executor="serial", eos=EOS)
    assert os.listdir(tmp_path) == ["in.pbin"]


HERE = FIXTURES / "modalities"
EXPECTED = json.loads((HERE / "expected.json").read_text())
PACKS = {name: case for name, case in EXPECTED["pbin"].items() if not name.startswith("wild_")}


@pytest.mark.parametrize("name", PACKS)
def test_every_layout(name, tmp_path):
    """A golden after itself. In layout C and D the tokens lie as they are written; in A and B big-endian, if not bytes."""
    case = PACKS[name]
    documents = EXPECTED["doc_sets"][case["documents"]]
    eos = case["eod_id"]
    assert eos in (EOS, 255, 123027)
    out = merged([HERE / name] * 2, tmp_path / "out.pbin", eos=eos)
    closed = documents if all(d and d[-1] == eos for d in documents) else [[*d, eos] for d in documents]
    width = None if documents else 2
    assert out == packed(closed * 2, width)


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, None])
def test_where_the_kernel_does_not_copy(tmp_path, monkeypatch, number):
    """It refuses, from the beginning or after some bytes; or says that there is nothing more."""
    source, out = put(tmp_path / "in.pbin", random_documents(0, 30)), tmp_path / "out"
    out.touch()
    calls, real = [], os.copy_file_range

    def refusing(source, out, count, begin, at):
        calls.append(count)
        if len(calls) % 2:
            return real(source, out, min(count, 100), begin, at)
        if number is None:
            return 0
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "copy_file_range", refusing)
    with Output(out) as output:
        output.copy(0, File(source), 12, 500)
        output.copy(500, File(source), 12, 500)
    assert out.read_bytes() == source.read_bytes()[12:512] * 2
    assert len(calls) >= 2


def shard(path, stream):
    """An llm.c file of GPT-2's ids."""
    path.write_bytes(
        struct.pack("<3i", 20240520, 1, len(stream)).ljust(1024, b"\0") + np.array(stream, "<u2").tobytes()
    )
    return path


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
    "streams",
    [[[EOS, 1, 2, EOS, EOS, 3], [EOS, 4]], [[EOS, 1], [7, 2, EOS, 3]], [[EOS, EOS, EOS]]],
    ids=["two files", "a document that goes on", "empty ones"],
)
def test_separators_in_front(tmp_path, streams):
    """Two shards of llm.c become one, whose tokens are theirs."""
    sources = [shard(tmp_path / f"{k}.bin", stream) for k, stream in enumerate(streams)]
    tokfmt.convert(sources, tmp_path / "out.bin", to_format="llmc", executor="serial", manifest=False)
    stored = np.frombuffer((tmp_path / "out.bin").read_bytes(), "<u2", offset=1024)
    assert stored.tolist() == [token for stream in streams for token in stream]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out", {"to_format": "stage1", "to_options": {"seq_len": 64, "shard_size": 192}}),
        ("out.pbin", {"to_options": {"width": 4}}),
        ("out.pbin", {}),
        ("out.h5", {"to_options": {"layout": "corpus", "seq_len": 64}}),
    ],
    ids=["stage1", "pack", "narrow pack", "hdf5 corpus"],
)
def test_blocks(tmp_path, name, options):
    """The same through JSON lines; in blocks, the documents follow each other and padding is at the end."""
    sources = [tmp_path / "a", tmp_path / "b"]
    first, second = blocks(sources[0], 1, 10), blocks(sources[1], 2, 8)
    how = {"executor": "serial", "manifest": False}
    tokfmt.convert(sources, tmp_path / name, options={"seq_len": 64}, **how, **options)
    if name == "out":
        stream = np.concatenate([np.fromfile(file, "<i4") for file in sorted((tmp_path / name).iterdir())])
        real = np.concatenate((first[:-4], second[:-4]))
        assert stream[: len(real)].tolist() == real.tolist()
        assert (stream[len(real) :] == EOS).all()
    tokfmt.convert(sources, tmp_path / "lines.jsonl", options={"seq_len": 64}, **how)
    tokfmt.convert(tmp_path / "lines.jsonl", tmp_path / f"long{name}", eos=EOS, **how, **options)
    assert tree(tmp_path / name) == tree(tmp_path / f"long{name}")
