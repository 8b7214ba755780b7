"""diff: what differs is found, named and located; what is the same is the same in every format."""

import json
import tracemalloc

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.core import reader as token_axis
from tokfmt.core.errors import OptionError
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout
from tokfmt.ops.compare import alignment
from tokfmt.ops.compare.alignment import align, first_unlike, surpluses
from tokfmt.ops.compare.diff import diff
from tokfmt.ops.compare.fingerprint import AxisSide, fingerprints, hands
from tokfmt.ops.source.request import SourceRequest
from tokfmt.views.memory import MemoryReader

PACKS = FIXTURES / "modalities"


def differ(a, b, eos=None, split=None, **how):
    return diff(*(SourceRequest((path,), eos=eos, split=split) for path in (a, b)), **how)


def side(rows, dtype=np.uint32):
    return AxisSide(MemoryReader(Ragged.of(rows, np.dtype(dtype))))


def found(a, b, jobs=1):
    with hands(jobs) as workers:
        return align(side(a), side(b, np.uint16), workers)


def kinds(a, b):
    return [(d.kind, d.a, d.b, d.with_a, d.with_b) for d in found(a, b).differences()]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, rng.integers(0, 9)).tolist() + [1000 + i] for i in range(n)]


def test_differences_are_located():
    base = rows(100)
    assert (found(base, base).same, found(base, base).differing) == (100, {})
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
    one = found(base, base[:500] + base[2500:])
    assert (one.same, one.differing) == (1000, {"only_in_a": 2000})
    one = found(base, [r for i, r in enumerate(base) if i % 3])
    assert (one.same, one.differing) == (2000, {"only_in_a": 1000})


def test_removed_sequence_is_not_reported_as_moved():
    """Many texts are equal; the only difference is that some of them are removed."""
    base = [[], *rows(500), *([[7]] * 60), *rows(500, seed=1), [], [7]] * 2
    gone = [row for i, row in enumerate(base) if row or i % 3]
    one = found(base, gone)
    assert one.differing == {"only_in_a": len(base) - len(gone)}
    assert one.same == len(gone)
    twins = [row for i, row in enumerate(base) if row != [7] or i % 4]
    assert found(base, twins).differing == {"only_in_a": len(base) - len(twins)}
    assert found(twins, base).differing == {"only_in_b": len(base) - len(twins)}


def longest_common(a, b):
    """Length of a longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for x in a:
        before, row = row, [0]
        for k, y in enumerate(b):
            row.append(before[k] + 1 if x == y else max(before[k + 1], row[k]))
    return row[-1]


def edited(base, edits):
    """A copy: `drop`, `insert`, `change`, `swap`, `move`, `repeat`, each with two places and a value."""
    out = list(base)
    for name, i, j, value in edits:
        i, j = (i % len(out), j % len(out)) if out else (0, 0)
        if name == "insert" or not out:
            out.insert(i, value)
        elif name == "drop":
            del out[i]
        elif name == "change":
            out[i] = value
        elif name == "swap":
            out[i], out[j] = out[j], out[i]
        elif name == "move":
            out.insert(j, out.pop(i))
        else:
            out.insert(j, out[i])
    return out


ROWS = st.lists(st.integers(0, 6), max_size=3)
EDITS = st.tuples(
    st.sampled_from(["drop", "insert", "change", "swap", "move", "repeat"]),
    st.integers(0, 99),
    st.integers(0, 99),
    ROWS,
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ROWS, max_size=24), st.lists(EDITS, max_size=6), st.booleans(), st.lists(ROWS, max_size=12) | st.none())
def test_the_counts_are_those_of_a_longest_common_subsequence(base, edits, unlike, other):
    a = [[i, *row] for i, row in enumerate(base)] if unlike else base
    b = edited(a, edits) if other is None else other
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_axis, "WINDOW", 3)
        patch.setattr(alignment, "_FIRST", 2)
        patch.setattr(alignment, "_SMALL", 1)
        one = found(a, b, jobs=1 + len(edits) % 3)
    in_both = len(a) - len(surplus(a, b))
    in_order = longest_common(a, b)
    assert one.exact
    assert int(one.runs[:, 2].sum()) == in_order
    assert len(one.moves) == in_both - in_order  # nothing has moved that could stay where it is
    told = list(one.differences())
    count = {
        kind: sum(d.kind == kind for d in told) for kind in ("changed", "moved", "swapped", "only_in_a", "only_in_b")
    }
    assert one.differing == {kind: n for kind, n in count.items() if n}
    assert in_order - count["swapped"] <= one.same <= in_order
    both = one.same + count["changed"] + count["moved"] + 2 * count["swapped"]
    assert len(a) == both + count["only_in_a"]
    assert len(b) == both + count["only_in_b"]
    assert (one.same == len(a) == len(b)) == (a == b)
    left_a, left_b = [], []
    for d in told:
        if d.kind == "changed":
            assert a[d.a] != b[d.b]
        elif d.kind == "moved":
            assert a[d.a] == b[d.b]
        elif d.kind == "swapped":
            assert (a[d.a], a[d.with_a]) == (b[d.with_b], b[d.b]) != (b[d.b], b[d.with_b])
        if d.kind in ("changed", "only_in_a"):
            left_a.append(a[d.a])
        if d.kind in ("changed", "only_in_b"):
            left_b.append(b[d.b])
    assert sorted(left_a) == surplus(a, b)
    assert sorted(left_b) == surplus(b, a)
    more_a, more_b = surpluses(*(fingerprints(Ragged.of(x)) for x in (a, b)), 100)  # type: ignore[call-arg]
    assert sorted(a[i] for i in more_a.examples) == surplus(a, b)
    assert sorted(b[i] for i in more_b.examples) == surplus(b, a)
    assert (more_a.count, more_b.count) == (len(more_a.examples), len(more_b.examples))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ROWS, max_size=16), st.lists(EDITS, max_size=4))
def test_too_many_equal_ones_are_paired_as_they_come(a, edits):
    b = edited(a, edits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "PAIRS", -len(a) - len(b))
        one = found(a, b)
    in_order = int(one.runs[:, 2].sum())
    assert in_order <= longest_common(a, b)
    assert in_order == longest_common(a, b) or not one.exact
    assert in_order + len(one.moves) == len(a) - len(surplus(a, b))
    assert all(a[i] == b[j] for i, j in one.moves.tolist())


def surplus(a, b):
    rest = a.copy()
    for row in b:
        if row in rest:
            rest.remove(row)
    return sorted(rest)


def test_sequences_after_the_first_difference_must_fit_memory(monkeypatch):
    monkeypatch.setattr(alignment.resources, "share", lambda: 96 * 30)
    base = rows(40)
    assert found(base[:30], base[:20]).differing == {"only_in_a": 10}
    with pytest.raises(OptionError, match="40 sequences follow the first difference .sequence 20.*--ignore-order"):
        found(base[:40], [*base[:20], *base[:20]])


def test_fingerprints_beyond_a_share_of_memory_go_to_disk(monkeypatch):
    a, b = PACKS / "D_2byte_gpt2.pbin", PACKS / "D_2byte_gpt2_filtered_mod3.pbin"
    plain = differ(a, b, ignore_order=True)
    monkeypatch.setattr(alignment.resources, "share", lambda: 64)
    assert differ(a, b, ignore_order=True) == plain
    with hands(1) as workers:
        small, large = (side(rows(n)).fingerprints(0, workers, lambda _: None) for n in (1, 2))
    assert [isinstance(prints, np.memmap) for prints in (small, large)] == [False, True]


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


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_giant_sequence_in_bounded_memory(jobs):
    a, b = Giant(60_000_000), Giant(60_000_000, odd=59_999_999)
    tracemalloc.start()
    with hands(jobs) as workers:
        one = align(AxisSide(a), AxisSide(b), workers)
        assert first_unlike([(a.tokens, b.tokens)], 60_000_000, workers) == 59_999_999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(d.kind, d.a, d.b) for d in one.differences()] == [("changed", 0, 0)]
    assert peak < 90e6


@pytest.mark.parametrize("jobs", [1, 2])
def test_long_sequences_that_differ(tmp_path, monkeypatch, jobs):
    """The first difference is looked for by the same threads that compared: they must still be there."""
    monkeypatch.setattr(token_axis, "WINDOW", 1 << 14)
    long = np.arange(100_000, dtype=np.uint32) % 50_000
    assert len(long) > 4 * token_axis.WINDOW, "shorter ones are compared without threads"
    for name, odd in (("a", 1), ("b", 2)):
        data = long.copy()
        data[-7] = odd
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"input_ids": data.tolist()}) + "\n")
        tokfmt.convert(tmp_path / f"{name}.jsonl", tmp_path / f"{name}.pbin", eos=50256)
    report = differ(tmp_path / "a.pbin", tmp_path / "b.pbin", jobs=jobs)
    assert (report.counts, report.first.position, report.first.values) == ({"changed": 1}, 99_993, (1, 2))
    assert differ(tmp_path / "a.jsonl", tmp_path / "b.pbin", jobs=jobs).first == report.first


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
    if golden.startswith("modalities"):
        eos = json.loads((PACKS / "expected.json").read_bytes())["pbin"][source.name]["eod_id"]
    split = "train" if golden.startswith("flat-tokens") else None
    for target in ("o.zarr", "o.pbin", "o.jsonl"):
        out = tmp_path / target
        tokfmt.convert(source, out, eos=eos, split=split)
        report = differ(source, out, eos=eos, split=split)
        assert report.identical, report.first
        assert (report.same, report.counts) == (report.a.sequences, {})
        assert differ(out, source, eos=eos, split=split, ignore_order=True).identical


def test_losses_of_conversions_are_refused_by_diff(tmp_path):
    """The option would have no effect: every sequence is compared."""
    with pytest.raises(OptionError, match='allow_loss="empty-sequences": every sequence is compared as it is'):
        tokfmt.diff(CORPUS, CORPUS, allow_loss="empty-sequences")


@pytest.mark.parametrize("target", ["stage1", "o.h5"])
def test_conversions_to_formats_of_separators(tmp_path, target):
    pack, out = tmp_path / "o.pbin", tmp_path / target
    tokfmt.convert(CORPUS, pack, tokenizer=str(TOKENIZER))
    words = {"to_format": "stage1"} if target == "stage1" else {"to_options": {"layout": "corpus"}}
    tokfmt.convert(pack, out, allow_loss=["empty-sequences"], **words)
    report = differ(pack, out)
    assert (report.identical, report.same) == (True, 184)


def test_text_with_text_and_with_ids(tmp_path):
    pack = tmp_path / "o.pbin"
    tokfmt.convert([CORPUS], pack, tokenizer=str(TOKENIZER))
    assert differ(CORPUS, pack, tokenizer=str(TOKENIZER)).identical
    lines = CORPUS.read_text().splitlines()
    record = json.loads(lines[20])
    record["text"] += "x"
    other = tmp_path / "o.jsonl"
    other.write_text("\n".join([*lines[:20], json.dumps(record), *lines[21:]]) + "\n")
    as_text = differ(CORPUS, other)
    assert (as_text.unit, as_text.counts) == ("bytes", {"changed": 1})
    assert as_text.first.values == (None, ord("x"))
    assert as_text.first.position == len(record["text"].encode()) - 1
    as_ids = differ(pack, other, tokenizer=str(TOKENIZER))
    assert as_ids.counts == {"changed": 1}
    assert as_ids.first.b.text.endswith("x")
    with pytest.raises(OptionError, match="--tokenizer"):
        differ(pack, other)


def test_samples_as_stored(tmp_path):
    source = FIXTURES / "hdf5" / "packed_overlap"
    assert differ(source, source, samples=True).identical
    shuffled = FIXTURES / "hdf5" / "shuffled"
    assert differ(source, shuffled, samples=True).counts.keys() <= {"moved", "swapped"}
    with pytest.raises(OptionError, match="--samples"):
        differ(PACKS / "D_2byte_gpt2.pbin", source, samples=True)
    with pytest.raises(OptionError, match="--ignore-order"):
        differ(source, source, samples=True, ignore_order=True)


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
    sides = [AxisSide(r, [r.tokens, r.masks, r.labels]) for r in (Masked(ragged, m) for m in masks)]
    with hands(1) as workers:
        one = align(*sides, workers)  # type: ignore[call-arg]
    assert (one.same, one.differing) == (2, {"changed": 1})
    assert [(d.a, d.b) for d in one.differences()] == [(1, 1)]


def test_order_ignored():
    a, b = PACKS / "D_2byte_gpt2.pbin", PACKS / "D_2byte_gpt2_shuffled_seed7.pbin"
    assert differ(a, b, eos=50256, ignore_order=True).identical
    assert not differ(a, b, eos=50256).identical
    report = differ(a, PACKS / "D_2byte_gpt2_filtered_mod3.pbin", eos=50256, ignore_order=True, limit=3)
    assert (report.counts, report.surplus[0].examples) == ({"only_in_a": 28}, (1, 2, 4))
