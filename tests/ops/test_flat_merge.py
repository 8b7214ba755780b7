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

import tokfmt
from tokfmt.core.errors import ConversionError, TruncatedError
from tokfmt.plugin import File, Output

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
