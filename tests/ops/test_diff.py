"""diff: what differs is found, named and located; what is the same is the same in every format."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.core import axis
from tokfmt.core.axis import Info, Layout
from tokfmt.core.errors import OptionError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.ops import alignment, moves
from tokfmt.ops.alignment import Alignment, Side
from tokfmt.ops.compared import Request
from tokfmt.ops.diff import diff
from tokfmt.ops.fingerprint import fingerprints
from tokfmt.ops.moves import Tally
from tokfmt.ops.multiset import surpluses

PACKS = FIXTURES / "modalities"


def side(rows, dtype=np.uint32):
    reader = MemoryReader(Ragged.of(rows, np.dtype(dtype)))
    return Side(reader, [reader.tokens])


def tally(a, b, limit=10_000):
    walk = Alignment(side(a), side(b, np.uint16), None, lambda n: None)
    found = Tally(limit)
    found.add(walk.changes())
    found.settle()
    return walk.same, found


def kinds(a, b):
    return [(d.kind, d.a, d.b, d.with_a, d.with_b) for d in tally(a, b)[1].listed]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, rng.integers(0, 9)).tolist() + [1000 + i] for i in range(n)]


def test_what_differs_is_located():
    base = rows(100)
    assert tally(base, base) == (100, Tally(10_000))
    changed = [r.copy() for r in base]
    changed[40][0] += 1
    assert kinds(base, changed) == [("changed", 40, 40, None, None)]
    longer = [*base[:40], [*base[40], 7], *base[41:]]
    assert kinds(base, longer) == [("changed", 40, 40, None, None)]
    for at in (0, 17, 98, 99):
        less = [r for i, r in enumerate(base) if i != at]
        assert kinds(base, less) == [("only_in_a", at, None, None, None)]
        assert kinds(less, base) == [("only_in_b", None, at, None, None)]
    for x, y in ((0, 1), (98, 99), (50, 51), (3, 90), (10, 12)):
        swapped = base.copy()
        swapped[x], swapped[y] = base[y], base[x]
        assert kinds(base, swapped) == [("swapped", x, x, y, y)]
    moved = [*base[:20], *base[21:60], base[20], *base[60:]]
    assert kinds(base, moved) == [("moved", 20, 59, None, None)]
    empties = [*base[:50], [], *base[50:]]
    assert kinds(base, empties) == [("only_in_b", None, 50, None, None)]
    assert kinds([], base[:2]) == [("only_in_b", None, 0, None, None), ("only_in_b", None, 1, None, None)]


def test_a_shard_is_missing():
    base = rows(3000)
    same, found = tally(base, base[:500] + base[2500:])
    assert (same, dict(found.counts)) == (1000, {"only_in_a": 2000})
    every_third = [r for i, r in enumerate(base) if i % 3]
    same, found = tally(base, every_third)
    assert (same, dict(found.counts)) == (2000, {"only_in_a": 1000})


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), max_size=3), max_size=12),
    st.lists(st.lists(st.integers(0, 2), max_size=3), max_size=12),
    st.booleans(),
)
def test_nothing_is_lost_and_nothing_told_twice(a, b, near):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(axis, "WINDOW", 3)
        patch.setattr(alignment, "_FIRST", 2)
        patch.setattr(alignment, "_SMALL", 1)
        if near:
            patch.setattr(alignment, "AHEAD", (2, 4))
            patch.setattr(alignment, "_ALL_PAIRS", 2)
            patch.setattr(alignment, "RUN", 2)
        b = a[: len(a) // 2] + b if near else b
        same, found = tally(a, b)
    count = found.counts
    both = same + count["changed"] + count["moved"] + 2 * count["swapped"]
    assert (same == len(a) == len(b)) == (a == b)
    left_a, left_b = [], []
    for d in found.listed:
        if d.kind == "changed":
            assert a[d.a] != b[d.b]
            left_a.append(a[d.a]), left_b.append(b[d.b])
        elif d.kind == "moved":
            assert a[d.a] == b[d.b]
        elif d.kind == "swapped":
            assert (a[d.a], a[d.with_a]) == (b[d.with_b], b[d.b]) != (b[d.b], b[d.with_b])
        elif d.kind == "only_in_a":
            left_a.append(a[d.a])
        else:
            left_b.append(b[d.b])
    changed = count["changed"]
    assert len(left_a) - changed == count["only_in_a"] == len(a) - both
    assert len(left_b) - changed == count["only_in_b"] == len(b) - both
    more_a, more_b = surpluses(*(fingerprints(Ragged.of(x)) for x in (a, b)), 100)
    assert sorted(a[i] for i in more_a.examples) == surplus(a, b)
    assert sorted(b[i] for i in more_b.examples) == surplus(b, a)
    assert (more_a.count, more_b.count) == (len(more_a.examples), len(more_b.examples))
    assert sorted(left_a) == surplus(a, b)


def surplus(a, b):
    rest = a.copy()
    for row in b:
        if row in rest:
            rest.remove(row)
    return sorted(rest)


class Giant:
    """One sequence of so many tokens, computed as it is read, with one odd token."""

    def __init__(self, length, odd=-1):
        self.length, self.odd = length, odd
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint16), 1, length)

    def tokens(self, start, stop):
        out = (np.arange(start, stop, dtype=np.uint32) & 0xFFF).astype(np.uint16)
        if start <= self.odd < stop:
            out[self.odd - start] = 5000
        return out

    def offsets(self, first, last):
        return np.array([0, self.length][first : last + 1])

    def close(self):
        pass


def test_one_giant_sequence_in_bounded_memory():
    a, b = Giant(60_000_000), Giant(60_000_000, odd=59_999_999)
    tracemalloc.start()
    walk = Alignment(Side(a, [a.tokens]), Side(b, [b.tokens]), None, lambda n: None)
    found = Tally(10)
    found.add(walk.changes())
    found.settle()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(d.kind, d.a, d.b) for d in found.listed] == [("changed", 0, 0)]
    assert walk.first_difference(0, 0, 60_000_000) == 59_999_999
    assert peak < 60e6


def test_more_differences_than_are_held(monkeypatch):
    monkeypatch.setattr(moves, "HELD", 3)
    base = rows(20)
    same, found = tally(base, [[*r, 1] for r in base], limit=2)
    assert (same, dict(found.counts), len(found.listed), found.complete) == (0, {"changed": 20}, 2, False)


GOLDENS = [
    "modalities/A_2byte_gpt2.pbin",
    "modalities/B_1byte_byte256.pbin",
    "modalities/C_2byte_gpt2.pbin",
    "modalities/D_4byte_wide.pbin",
    "modalities/D_2byte_gpt2.pbin",
    "flat-tokens/empties.zarr",
    "flat-tokens/multi_chunk.zarr",
    "hdf5/corpus_uint16",
    "stage1/blocks",
]


@pytest.mark.parametrize("golden", GOLDENS)
def test_conversions_are_identical(tmp_path, golden):
    source = FIXTURES / golden
    eos = 50256 if golden.startswith("hdf5") else 2**30 if golden.startswith("flat-tokens") else None
    split = "train" if golden.startswith("flat-tokens") else None
    for target in ("o.zarr", "o.pbin", "o.jsonl"):
        out = tmp_path / target
        tokfmt.convert(source, out, eos=eos, split=split)
        report = diff(Request(source, out, eos=eos, split=split))
        assert report.identical, report.first
        assert (report.same, report.counts) == (report.a.sequences, {})
        assert diff(Request(out, source, eos=eos, split=split), ignore_order=True).identical


@pytest.mark.parametrize("target", ["stage1", "o.h5"])
def test_conversions_to_formats_of_separators(tmp_path, target):
    pack, out = tmp_path / "o.pbin", tmp_path / target
    tokfmt.convert(CORPUS, pack, tokenizer=str(TOKENIZER))
    words = {"to_format": "stage1"} if target == "stage1" else {"to_options": {"layout": "corpus"}}
    tokfmt.convert(pack, out, drop=["empty-sequences"], **words)
    report = diff(Request(pack, out))
    assert (report.identical, report.same) == (True, 184)


def test_text_with_text_and_with_ids(tmp_path):
    pack = tmp_path / "o.pbin"
    tokfmt.convert([CORPUS], pack, tokenizer=str(TOKENIZER))
    assert diff(Request(CORPUS, pack, tokenizer=str(TOKENIZER))).identical
    lines = CORPUS.read_text().splitlines()
    record = json.loads(lines[20])
    record["text"] += "x"
    other = tmp_path / "o.jsonl"
    other.write_text("\n".join([*lines[:20], json.dumps(record), *lines[21:]]) + "\n")
    as_text = diff(Request(CORPUS, other))
    assert (as_text.unit, as_text.counts) == ("bytes", {"changed": 1})
    assert as_text.first.values == (None, ord("x"))
    assert as_text.first.position == len(record["text"].encode()) - 1
    as_ids = diff(Request(pack, other, tokenizer=str(TOKENIZER)))
    assert as_ids.counts == {"changed": 1}
    assert as_ids.first.b.text.endswith("x")
    with pytest.raises(OptionError, match="--tokenizer"):
        diff(Request(pack, other))


def test_samples_as_stored(tmp_path):
    source = FIXTURES / "hdf5" / "packed_overlap"
    assert diff(Request(source, source, samples=True)).identical
    shuffled = FIXTURES / "hdf5" / "shuffled"
    assert diff(Request(source, shuffled, samples=True)).counts.keys() <= {"moved", "swapped"}
    with pytest.raises(OptionError, match="--samples"):
        diff(Request(PACKS / "D_2byte_gpt2.pbin", source, samples=True))
    with pytest.raises(OptionError, match="--ignore-order"):
        diff(Request(source, source, samples=True), ignore_order=True)


class Masked(MemoryReader):
    """Samples with masks."""

    def __init__(self, ragged, masks):
        super().__init__(ragged)
        self.kept = np.asarray(masks, np.uint8)

    def masks(self, start, stop):
        return self.kept[start:stop]

    def labels(self, start, stop):
        return self.tokens(start, stop).astype(np.int64)


def test_a_mask_that_differs_is_a_change():
    ragged = Ragged.of([[1, 2], [1, 2], [3, 4]])
    masks = [1] * 6, [1, 1, 1, 0, 1, 1]
    sides = [Side(r, [r.tokens, r.masks, r.labels]) for r in (Masked(ragged, m) for m in masks)]
    walk = Alignment(*sides, None, lambda n: None)
    found = Tally(10)
    found.add(walk.changes())
    assert (walk.same, len(found._held), found._held[0].a, found._held[0].b) == (2, 1, 1, 1)
    found.settle()
    assert dict(found.counts) == {"changed": 1}


def test_order_ignored():
    a, b = PACKS / "D_2byte_gpt2.pbin", PACKS / "D_2byte_gpt2_shuffled_seed7.pbin"
    assert diff(Request(a, b), ignore_order=True).identical
    assert not diff(Request(a, b)).identical
    report = diff(Request(a, PACKS / "D_2byte_gpt2_filtered_mod3.pbin"), ignore_order=True, limit=3)
    assert (report.counts, report.surplus[0].examples) == ({"only_in_a": 28}, (1, 2, 4))
