"""Layouts, damage and findings of packs: what was left by killed writers, merges, wrong options; and the check."""

import itertools
import pickle
import struct
import tracemalloc

import pytest

from tokfmt.core.format import Confidence, Hints, look
from tokfmt.core.ragged import Ragged
from tokfmt.formats.modalities import FORMAT
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.ops.source.open import open_source
from tokfmt.testing import sequences, write

EOS = 50256
DOCUMENTS = [[5, 6, 7, EOS], [8, EOS], [9, 10, 11, 12, 13, EOS], [14, 15, EOS]]


def data(documents, kind):
    return b"".join(struct.pack(f"{kind[0]}{len(d)}{kind[1]}", *d) for d in documents)


def index(documents, width, base=0, shifts=None):
    starts = itertools.accumulate((len(d) * width for d in documents), initial=base)
    shifts = shifts or [0] * len(documents)
    return pickle.dumps([(a + s, len(d) * width) for a, d, s in zip(starts, documents, shifts, strict=False)], 4)


def stored(path, **options):
    return sequences(FORMAT.open([path], ReadOptions(**options), Hints()))


def layout(path, **options):
    return FORMAT.open([path], ReadOptions(**options), Hints()).info.extras["layout"]


def codes(path, **options):
    return [finding.code for finding in FORMAT.check(path, ReadOptions(**options))]


@pytest.fixture
def made(tmp_path):
    def make(*parts):
        path = tmp_path / "x.pbin"
        path.write_bytes(b"".join(parts))
        return path

    return make


# killed writers and headers that disagree


@pytest.mark.parametrize(
    ("header", "kind", "base", "name"),
    [
        (struct.pack("<QI", 0, 2), "<H", 0, "D"),
        (struct.pack("<QI", 0, 2), "<H", 12, "C"),
        (struct.pack(">QI", 0, 2), ">H", 12, "B"),
        (struct.pack(">Q", 0), ">I", 8, "A"),
        (struct.pack(">I", 0), ">I", 4, "P"),
    ],
)
def test_killed_before_the_last_step(made, header, kind, base, name):
    path = made(header, data(DOCUMENTS, kind), index(DOCUMENTS, struct.calcsize(kind), base))
    assert FORMAT.sniff(look(path)) is Confidence.NAME
    assert stored(path) == DOCUMENTS
    assert layout(path) == name
    assert codes(path)[0] == "TF105"
    [note] = FORMAT.open([path], ReadOptions(), Hints()).info.notes
    assert note.startswith("the header states 0 bytes of data (its writer was killed")


def test_layout_a_whose_first_token_looks_like_a_width(made):
    for first in (1, 2, 3, 4, 1 << 24, 2 << 24):
        documents = [[first, 7, EOS], [first, EOS]]
        path = made(struct.pack(">Q", 20), data(documents, ">I"), index(documents, 4, 8))
        assert stored(path) == documents
        assert layout(path) == "A"
        assert FORMAT.sniff(look(path)) is Confidence.CERTAIN


def test_nothing(tmp_path):
    empty = write(FORMAT, tmp_path / "d.pbin", Ragged.of([]), eos_id="none")
    assert empty.read_bytes() == struct.pack("<QI", 0, 1) + b"\x80\x04]\x94."
    old = write(FORMAT, tmp_path / "a.pbin", Ragged.of([]), eos_id=EOS, options={"layout": "A"})
    assert old.read_bytes() == bytes(8) + b"\x80\x04]\x94."
    for path in (empty, old):
        assert FORMAT.sniff(look(path)) is Confidence.CERTAIN
        assert stored(path) == []
        assert codes(path) in ([], ["TF114", "TF119"])


# size


def test_one_document_of_64_gib(tmp_path):
    """A sparse file: nothing is read or allocated but the index and what is asked for."""
    tokens = 1 << 35
    path = tmp_path / "big.pbin"
    with path.open("wb") as out:
        out.write(struct.pack("<QI", 2 * tokens, 2))
        out.seek(12 + 2 * tokens - 4)
        out.write(struct.pack("<HH", 7, EOS))
        out.write(pickle.dumps([(0, 2 * tokens)], 4))
    tracemalloc.start()
    assert FORMAT.sniff(look(path)) is Confidence.CERTAIN
    reader = open_source([path], eos=EOS).reader
    assert reader.info.tokens == tokens - 1
    assert reader.tokens(tokens - 3, tokens - 1).tolist() == [0, 7]
    assert codes(path) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
