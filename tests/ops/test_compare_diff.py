"""diff: what differs is found, named and located; what is the same is the same in every format."""

import json
import tracemalloc

import numpy as np
import pytest
from commands import run
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.commands.compare.alignment import align, first_unlike
from tokfmt.commands.compare.fingerprint import AxisSide, hands
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import OptionError


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


class Giant(TokenReader):
    """One sequence of so many tokens, computed as it is read, with one odd token."""

    def __init__(self, length, odd=-1):
        self.odd = odd
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


class Masked(MemoryReader):
    """Samples with masks."""

    def __init__(self, ragged, masks):
        super().__init__(ragged)
        self.kept = np.asarray(masks, np.uint8)

    has_labels = True

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


def test_too_many_equal_ones_are_paired_as_they_come():
    """Nine million pairs: none is lost, and what is not exact is stated."""
    base = [*rows(10), *([[7]] * 3_000), *rows(10, seed=1)]
    other = [*base[:9], *base[10:1_500], [9], *base[1_500:]]
    one = found(base, other)
    assert int(one.runs[:, 2].sum()) + len(one.moves) == len(base) - 1
    assert all(base[i] == other[j] for i, j in one.moves.tolist())
    told = list(one.differences())
    assert sum(d.kind == "only_in_a" for d in told) - sum(d.kind == "only_in_b" for d in told) == 0


def lines_of(path, rows, key="input_ids"):
    path.write_text("".join(json.dumps({key: row}) + "\n" for row in rows))
    return path


def test_changed_sequences_are_listed_with_both_sides_before_those_that_moved(tmp_path):
    rows = [[1000 + k] * 9 for k in range(40)]
    other = [list(row) for row in rows]
    for k in (12, 20, 33):
        other[k][4] = 7
    other = [*other[3:], [5, 5], *other[:3]]
    a, b = lines_of(tmp_path / "a.jsonl", rows), lines_of(tmp_path / "b.jsonl", other)
    kinds = ["changed", "changed", "changed", "only_in_b", "moved", "moved", "moved"]
    for limit in (0, 100, 2, 5):
        report = tokfmt.diff(a, b, limit=limit)
        assert report.counts == {"changed": 3, "only_in_b": 1, "moved": 3}
        assert [one.kind for one in report.differences] == kinds[: limit or None]
        assert report.more == 7 - len(report.differences)
        found = [(one.a.sequence, one.b.sequence, one.values) for one in report.excerpts]
        assert found == [(k, k - 3, (1000 + k, 7)) for k in (12, 20, 33)][: limit or None]
    out = run("diff", a, b, "--limit", "0", check=1).stdout
    assert all(f"[{1000 + k}]" in out for k in (12, 20, 33))
    assert out.rindex("[7]") < out.index("sequence 0 of A is sequence 38 of B")


def test_ids_of_two_tokenizers_without_manifests_are_compared_as_texts(tmp_path):
    """Equal texts have other IDs; without the tokenizers, the report names the option that compares them."""
    texts = [f"the text {k} of a corpus" for k in range(12)]
    corpus = lines_of(tmp_path / "corpus.jsonl", texts, "text")
    old, new = str(TOKENIZER), str(FIXTURES / "chats" / "plain")
    for name, tokenizer in (("old", old), ("new", new)):
        tokfmt.convert(corpus, tmp_path / f"{name}.pbin", tokenizer=tokenizer, manifest=False)
    a, b = tmp_path / "old.pbin", tmp_path / "new.pbin"
    report = tokfmt.diff(a, b)
    assert report.counts == {"changed": 12}
    assert any("--from-tokenizer" in note for note in report.a.notes)
    same = tokfmt.diff(a, b, from_tokenizer=old, tokenizer=new)
    assert (same.identical, same.unit) == (True, "bytes")
    assert tokfmt.diff(a, corpus, from_tokenizer=old).identical
    assert run("diff", b, a, "--from-tokenizer", new, "--tokenizer", old).returncode == 0
    lines_of(corpus, ["another", *texts[1:]], "text")
    assert tokfmt.diff(a, corpus, from_tokenizer=old).counts == {"changed": 1}
    for wrong in ({"a": corpus}, {"tokenizer": None}, {"samples": True}):
        with pytest.raises(OptionError, match="tokenizer"):
            tokfmt.diff(**({"a": a, "b": b, "from_tokenizer": old, "tokenizer": new} | wrong))
