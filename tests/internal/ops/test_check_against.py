"""`check --against`: what happened to documents on their way, compared with plain lists."""

from collections import Counter

import pytest
from amount import examples
from check_cases import asked, converted, own
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt import registry, show
from tokfmt.core.ragged import Ragged
from tokfmt.ops.check import check
from tokfmt.ops.check.cross_checks import compare
from tokfmt.ops.compare.fingerprint import fingerprints
from tokfmt.run.progress import Progress
from tokfmt.testing import write


def compared(here, there, **how):
    return compare(fingerprints(Ragged.of(here)), fingerprints(Ragged.of(there)), **how)


def look(path, **demands):
    (verdict,) = check(asked(path, **{**own(against=str(CORPUS)), **demands}))
    return verdict


DOCS = [[k, k + 1, k + 2] for k in range(40)]


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (DOCS, (0, 0, 0)),
        (DOCS[:30], (10, 0, 0)),
        (DOCS[:3] + DOCS[4:], (1, 0, 0)),
        (DOCS[:3] + DOCS[13:], (10, 0, 0)),
        (DOCS[:3] + [[7, 7]] + DOCS[3:], (0, 1, 0)),
        (DOCS[:3] + [[7, 7]] + DOCS[4:], (0, 0, 1)),
        (DOCS[:3] + [[3, 4]] + DOCS[4:20], (20, 0, 1)),
        ([[7, 7]] * 40, (0, 0, 40)),
        ([], (40, 0, 0)),
        (DOCS * 2, (0, 40, 0)),
    ],
)
def test_kinds(here, expected):
    found = compared(here, DOCS)
    assert (found.missing, found.extra, found.changed) == expected


def test_where():
    found = compared([[9, 9], *DOCS[1:3], *DOCS[5:9], [8, 8], *DOCS[9:20]], DOCS)
    assert [found.first(kind) for kind in ("changed", "missing", "extra")] == [(0, 0), (3, 3), (7, 9)]
    assert (found.changed, found.missing, found.extra, found.cut_off) == (1, 22, 1, False)
    assert compared(DOCS[:30], DOCS).cut_off


def longest_common(a, b):
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row
        row = [0]
        for k, y in enumerate(b):
            row.append(before[k] + 1 if x == y else max(before[k + 1], row[k]))
    return row[-1]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 30), max_size=60),
    st.lists(st.integers(0, 30), max_size=60),
    st.booleans(),
)
def test_laws(mine, theirs, related):
    """Equal only if equal; what is in both is never missing; no fewer in order than can be; counts add up."""
    mine = theirs[1::2] + mine[:5] + theirs[::2] if related else mine
    here, there = [[k] for k in mine], [[k] for k in theirs]
    found = compared(here, there)
    assert (found.missing == found.extra == found.changed == found.moved == 0) == (mine == theirs)
    both = sum((Counter(mine) & Counter(theirs)).values())
    assert found.missing + found.changed == len(theirs) - both
    assert found.extra + found.changed == len(mine) - both
    assert both - found.moved == longest_common(mine, theirs)
    unordered = compared(here, there, ignore_order=True)
    assert (unordered.missing, unordered.extra) == (len(theirs) - both, len(mine) - both)
    assert (unordered.moved, unordered.changed) == (0, 0)


@pytest.mark.parametrize("gap", [4_000, 4_096, 4_097, 4_500, 20_000, 39_000])
def test_a_gap_of_any_length_is_a_gap(gap):
    """What follows it is found again."""
    docs = [[k, k >> 8, 7] for k in range(40_000)]
    found = compared(docs[:700] + docs[700 + gap :], docs)
    assert (found.missing, found.extra, found.changed, found.moved) == (gap, 0, 0, 0)
    assert found.first("missing") == (700, 700)
    found = compared(docs, docs[:700] + docs[700 + gap :])
    assert (found.missing, found.extra, found.changed, found.moved) == (0, gap, 0, 0)


def test_nothing_is_written_to_scratch(tmp_path, monkeypatch):
    path = converted(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", None)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert not look(path, deep=True).counts
    assert not look(path, deep=True, jobs=1).counts


class Watching(Progress):
    """What somebody who waits is told: of each phase how much there is, and how much of that was done."""

    def __init__(self):
        self.phases = []

    def phase(self, name, total, unit):
        self.phases.append([name, total, unit, 0])

    def advance(self, amount):
        self.phases[-1][3] += amount


def test_comparison_and_search_report_progress(tmp_path):
    """Progress of comparisons, and of searches of `show`, reaches the total."""
    path = converted(tmp_path)
    for work in (
        lambda told: list(check(asked(path, **own(against=str(CORPUS))), told)),
        lambda told: list(show(path, "token:2,2,2", progress=told).shown),
        lambda told: list(show(CORPUS, "text:no such words", progress=told).shown),
    ):
        told = Watching()
        work(told)
        name, total, _, done = told.phases[-1]
        assert name in ("searching", f"comparing with {CORPUS.name}")
        assert 0 < total <= done, (told.phases, name)


def test_empty_documents_may_not_count():
    there = [[1], [], [2], [], []]
    found = compared([[1], [2]], there, skip_empty=True)
    assert (found.missing, found.changed, found.extra) == (0, 0, 0)
    assert compared([[1], [2]], there).missing == 3


def test_the_largest_id_that_a_store_records_is_compared(tmp_path, monkeypatch):
    """Where there is much, and places show nothing."""
    monkeypatch.setattr("tokfmt.ops.check.cross_checks._CHEAP", 0)
    monkeypatch.setattr("tokfmt.ops.check.cross_checks._PLACES", 2)
    monkeypatch.setattr("tokfmt.ops.check.cross_checks._PLACE", 10)
    sequences = [[1, 2, 3] * 50, [5, 50_000, 5], [1, 2, 3] * 50]
    write(registry.get("flat-tokens"), tmp_path / "x.zarr", Ragged.of(sequences))
    (verdict,) = tokfmt.check(tmp_path / "x.zarr", tokenizer=str(TOKENIZER))
    (found,) = [finding for finding in verdict.findings if finding.code == "TF921"]
    assert "its max_token_id is 50,000, and " in found.message
    assert found.severity == "warning"  # it is a bound: none has to be that large
