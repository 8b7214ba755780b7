"""What each source gives to a recipe, as --explain says it, beside a count over every sample and document."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe.held import Held, languages, sources

from tokfmt.core.errors import TokfmtError
from tokfmt.recipes.amounts import amounts
from tokfmt.recipes.documents import Documents, Source, quotas
from tokfmt.recipes.language import parse_recipe
from tokfmt.recipes.order import ORDER_SAMPLES, Permutation
from tokfmt.recipes.samples import Samples
from tokfmt.recipes.tree import explain

EOS = 99


@pytest.fixture(scope="module", autouse=True)
def small_windows():
    """Walks in windows of a few sequences, and best fit in groups of a few pieces."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tokfmt.recipes.packing._AT_ONCE", 5)
        patched.setattr("tokfmt.recipes.packing.GROUP", 6)
        patched.setattr("tokfmt.recipes.amounts._AT_ONCE", 4)
        yield


def source_of(name, reader):
    return Source(name, (Path(name),), "held", reader, None, [name, id(reader)], {"name": name})


def nested(found, words):
    """A recipe of documents over sources in memory."""
    file = parse_recipe({**words, "source": [{"path": f"n{k}"} for k in range(len(found))]}, Path("inner.toml"))
    return Documents(file, [source_of(f"n{k}", Held(one)) for k, one in enumerate(found)], None)


@st.composite
def mixes(draw, weighted=True):
    """A recipe over one to three sources, one of which may be a recipe; with quotas, weights, epochs, a budget."""
    found = draw(sources)
    readers = [Held(one) for one in found]
    if draw(st.booleans()):
        words = {"shuffle": draw(st.sampled_from(["none", "documents"])), "epochs": draw(st.integers(1, 3))}
        readers[draw(st.integers(0, len(found) - 1))] = nested(draw(sources), {**words, "seed": 5})
    table = draw(st.one_of(languages(), st.just({})))
    choices = ["none", "documents", *(["samples"] if table else [])]
    table |= {"shuffle": draw(st.sampled_from(choices)), "seed": draw(st.integers(0, 9))}
    weighted = weighted and bool(table.get("seq_len")) and draw(st.booleans())
    entries = []
    for k, reader in enumerate(readers):
        entry = {"path": f"s{k}", "epochs": draw(st.integers(1, 3))}
        if weighted:
            entry["weight"] = draw(st.integers(1, 5))
        elif reader.info.tokens and draw(st.booleans()):
            entry["tokens"] = draw(st.integers(1, reader.info.tokens * entry["epochs"]))
        entries.append(entry)
    if draw(st.booleans()):
        table["tokens"] = draw(st.integers(1, 2 * sum(reader.info.tokens for reader in readers)))
    file = parse_recipe({**table, "source": entries}, Path("mix.toml"))
    held = [source_of(f"s{k}", reader) for k, reader in enumerate(readers)]
    try:
        held = quotas(file, held)
        return Samples(file, held) if file.seq_len else Documents(file, held, None)
    except TokfmtError:  # less than was asked for, or no sample
        return None


def counted(view, numbers):
    """Tokens by source and by source of a source, one span after the other."""
    found = Counter()
    for number in numbers:
        for k, sequence, start, stop in view.spans(number):
            found[k] += stop - start
            inner = view.sources[k].whole or view.sources[k].reader
            if isinstance(inner, Documents):
                ((j, *_),) = inner.spans(sequence)
                found[k, j] += stop - start
    return found


def told(found):
    """The same of amounts."""
    every = {k: amount.tokens for k, amount in enumerate(found)}
    every |= {(k, j): inner.tokens for k, amount in enumerate(found) for j, inner in enumerate(amount.inner)}
    return Counter({key: tokens for key, tokens in every.items() if tokens})


def cut(view):
    """Documents in the result that lie in more than one sample of a pass; documents by source and number."""
    drawn = {}
    for sample in range(view.count):
        turn, _, number = view._place(sample)
        drawn.setdefault(id(turn.packing), set()).add(number)
    found = set()
    for turn in view._turns:
        where = {}  # by where a document begins on the row, as a quota may have it there twice
        for number in range(turn.packing.samples):
            for a, b in turn.packing.intervals(number):
                at = a
                for k, sequence, start, stop in turn.packing.axis.spans(a, b):
                    where.setdefault((at - start, k, sequence), set()).add(number)
                    at += stop - start
        taken = drawn.get(id(turn.packing), set())
        found |= {(k, q) for (_, k, q), numbers in where.items() if len(numbers) > 1 and numbers & taken}
    return found


@settings(max_examples=examples(150), deadline=None)
@given(mixes(), st.data())
def test_contributions_equal_counts_of_the_result(view, data):
    if view is None:
        return
    count = view.info.sequences
    assert told(amounts(view)) == counted(view, range(count))
    low, high = sorted((data.draw(st.integers(0, count)), data.draw(st.integers(0, count))))
    assert told(amounts(view, low, high)) == counted(view, range(low, high))
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
    entries = [{"path": f"s{k}", "epochs": epochs} for k in range(len(found))]
    file = parse_recipe({**words, "shuffle": shuffle, "source": entries}, Path("mix.toml"))
    try:
        view = Samples(file, [source_of(f"s{k}", Held(one)) for k, one in enumerate(found)])
    except TokfmtError:
        return
    whole, *rows = explain(view)
    assert {row.passes for row in rows if row.drawn} == {epochs}
    if all(row.drawn for row in rows):
        assert whole.passes == epochs


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_the_inverse_of_a_permutation(size, seed, place):
    order = Permutation(size, seed, ORDER_SAMPLES, place)
    assert order.inverse(order.many(np.arange(size))).tolist() == list(range(size))
