"""What each source gives to a recipe, as --explain says it, beside a count over every sample and document."""

from collections import Counter

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe.held import explain, languages, sources
from recipe.mixes import Documents, counted, cut, mixes, whole_passes

from tokfmt.mix.amounts import amounts_of


def told(found):
    """The same of amounts."""
    every = {k: amount.tokens for k, amount in enumerate(found)}
    every |= {(k, j): inner.tokens for k, amount in enumerate(found) for j, inner in enumerate(amount.inner)}
    return Counter({key: tokens for key, tokens in every.items() if tokens})


@settings(max_examples=examples(150), deadline=None)
@given(mixes(), st.data())
def test_contributions_equal_counts_of_the_result(view, data):
    if view is None:
        return
    count = view.info.sequences
    assert told(amounts_of(view)) == counted(view, range(count))
    low, high = sorted((data.draw(st.integers(0, count)), data.draw(st.integers(0, count))))
    assert told(amounts_of(view, low, high)) == counted(view, range(low, high))
    whole, *rows = explain(view)
    top = [row for row in rows if row.depth == 1]
    assert [row.drawn for row in top] == [counted(view, range(count))[k] for k in range(len(top))]
    assert whole.drawn == sum(row.drawn for row in top)
    assert sum(row.share for row in top) == pytest.approx(1 if whole.drawn else 0)
    if isinstance(view, Documents):
        assert whole.drawn == view.info.tokens
        assert [row.cut for row in rows] == [None] * len(rows)
        return
    padded = view.samples(range(count), ["document_ids"])["document_ids"] == -1
    assert whole.padded == padded.sum()
    missing = cut(view)
    assert [row.cut for row in top] == [sum(k == j for j, _ in missing) for k in range(len(top))]
    if view.file.weighted:
        names = [view.where(sample).source for sample in range(count)]
        assert [row.samples for row in top] == [names.count(row.name) for row in top]
        by_source = [padded[[name == row.name for name in names]].sum() for row in top]
        assert [row.padded for row in top] == by_source


@settings(max_examples=examples(80), deadline=None)
@given(mixes())
def test_passes_of_documents_are_those_handed_out_over_those_there_are(view):
    if not isinstance(view, Documents):
        return
    out = Counter()
    for number in range(view.info.sequences):
        ((k, sequence, *_),) = view.spans(number)
        out[k, sequence] += 1
    for k, row in enumerate(row for row in explain(view) if row.depth == 1):
        source = view.sources[k]
        there = len(set(source.drawn.array.tolist())) if source.drawn is not None else source.info.sequences
        assert row.sequences == there
        assert row.passes == pytest.approx(sum(n for (j, _), n in out.items() if j == k) / max(1, there))


@settings(max_examples=examples(60), deadline=None)
@given(sources, languages(), st.integers(1, 4), st.sampled_from(["none", "samples", "documents"]))
def test_whole_passes_are_whole_numbers(found, words, epochs, shuffle):
    view = whole_passes(found, words, epochs, shuffle)
    if view is None:
        return
    whole, *rows = explain(view)
    assert {row.passes for row in rows if row.drawn} == {epochs}
    if all(row.drawn for row in rows):
        assert whole.passes == epochs
