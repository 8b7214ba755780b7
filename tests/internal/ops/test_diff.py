"""diff: what differs is found, named and located; what is the same is the same in every format."""

import json

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import FIXTURES

import tokfmt
from tokfmt.core import reader as token_axis
from tokfmt.core.errors import OptionError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.ops.compare import alignment
from tokfmt.ops.compare.alignment import align, surpluses
from tokfmt.ops.compare.fingerprint import AxisSide, fingerprints, hands

PACKS = FIXTURES / "modalities"


def differ(a, b, eos=None, split=None, **how):
    return tokfmt.diff(a, b, eos=eos, split=split, **how)


def side(rows, dtype=np.uint32):
    return AxisSide(MemoryReader(Ragged.of(rows, np.dtype(dtype))))


def found(a, b, jobs=1):
    with hands(jobs) as workers:
        return align(side(a), side(b, np.uint16), workers)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, rng.integers(0, 9)).tolist() + [1000 + i] for i in range(n)]


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
