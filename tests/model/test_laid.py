"""What a destination stores, read in windows, is what a list of tokens says; a sequence that differs is never passed over."""

from dataclasses import replace

import numpy as np
import pytest
from amount import examples, pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from model.axes import ArrayAxis
from model.naive import BOS, DOCUMENTS, EOS, indexed, laid, streamed, trimmed

from tokfmt.errors import UnendedError
from tokfmt.model import AFTER, Boundaries, Bounds, Dataset, Ended, Gap, Laid, Led, Ledger, concat


def windows_of(axis, size):
    return [axis.tokens(at, min(at + size, axis.length)).tolist() for at in range(0, axis.length, size)]


def in_windows(dataset, target, size, tokens, fates):
    """Positions by a look are right. Presumed ones are right as well, or a read in order raises."""
    ledger = Ledger()
    for batch in dataset.batches(size):
        ledger = ledger.plus(batch.laid_out(target).ledger)
    assert [list(counts) for counts in ledger] == fates
    exact = Laid(dataset, target, exact=True)
    assert exact.length == len(tokens)
    assert sum(windows_of(exact, size), []) == tokens
    for even in (False, True):
        axis = Laid(dataset, target, even=even)
        try:
            found = sum(windows_of(axis, size), [])
        except UnendedError as error:
            assert not axis.is_exact
            assert 0 <= error.sequence < len(dataset)
        else:
            assert found == tokens or not axis.length  # Nothing is read of nothing.


INDEXED = st.sampled_from(
    [
        Boundaries(EOS),
        Boundaries(9),
        Boundaries(None),
        Boundaries(EOS, only_closed=True),
        Boundaries(EOS, lead=3, leads="all"),
    ]
)
STREAMS = st.sampled_from([Boundaries(9, kind) for kind in ("after", "before")])


@settings(max_examples=examples(20))
@given(DOCUMENTS, INDEXED | STREAMS, st.sampled_from([0, AFTER]), st.integers(1, 30))
def test_whatever_is_presumed_the_bytes_are_the_same(documents, target, presumed, size):
    if target.id == 9:
        documents = [[token for token in document if token != 9] for document in documents]
    dataset, sequences = indexed(documents, EOS, presumed=presumed)
    tokens, _, fates = laid(sequences, target)
    in_windows(dataset, target, size, tokens, fates)


@settings(max_examples=examples(20))
@given(DOCUMENTS, INDEXED, st.sampled_from([0, AFTER]), st.booleans(), st.integers(1, 30))
def test_whatever_leads_are_presumed_the_bytes_are_the_same(documents, target, presumed, has_leads, size):
    dataset, _ = indexed(documents, EOS, presumed=presumed)
    dataset = replace(dataset, spans=Led(dataset.spans, BOS, has_leads), gap=Gap(EOS, lead=BOS))
    tokens, _, fates = laid([trimmed(document, EOS, BOS) for document in documents], target)
    in_windows(dataset, target, size, tokens, fates)


@pytest.mark.parametrize(("exception", "has_leads"), pairs([0, 4999, 9999], [False, True]))
def test_the_first_sequence_with_another_lead_is_named(exception, has_leads):
    documents = [[BOS] * ((k == exception) is not has_leads) + [k % 4 + 1, 8, EOS] for k in range(10_000)]
    dataset, _ = indexed(documents, EOS, presumed=AFTER)
    dataset = replace(dataset, spans=Led(dataset.spans, BOS, has_leads), gap=Gap(EOS, lead=BOS))
    axis = Laid(dataset, Boundaries(EOS))
    assert not axis.is_exact
    with pytest.raises(UnendedError) as error:
        windows_of(axis, 1000)
    assert error.value.sequence == exception
    assert error.value.found == (exception % 4 + 1 if has_leads else BOS)
    looked_at = replace(dataset, spans=dataset.spans.looked_at(dataset.axis))
    assert sum(windows_of(Laid(looked_at, Boundaries(EOS, lead=BOS)), 1000), []) == sum(documents, [])


@settings(max_examples=examples(20))
@given(DOCUMENTS, DOCUMENTS, INDEXED, st.integers(1, 30))
def test_several_sources_each_presumed_for_itself(first, second, target, size):
    one, before = indexed(first, EOS, presumed=AFTER)
    other, after = indexed(second, EOS, presumed=0)
    dataset = concat([one, other])
    tokens, _, fates = laid(before + after, target)
    in_windows(dataset, target, size, tokens, fates)


def documents_of(count, exceptions=()):
    return [[k % 5 + 1, 8] + [EOS] * (k not in exceptions) for k in range(count)]


def test_without_an_exception_no_end_is_looked_at_and_each_token_is_read_once():
    documents = documents_of(10_000)
    dataset, _ = indexed(documents, EOS, presumed=AFTER)
    reads, read = [], dataset.axis.tokens
    dataset.axis.tokens = lambda a, b: reads.append((a, b)) or read(a, b)
    axis = Laid(dataset, Boundaries(9))
    assert (axis.is_exact, reads) == (False, [])
    assert axis.offsets(5000, 5001).tolist() == [15_000, 15_003]
    assert axis.sequence_at(15_001) == 5000
    assert len(axis.bases) == 10_000 // 4096 + 2
    assert reads == []
    windows_of(axis, 1000)
    assert sum(b - a for a, b in reads) == pytest.approx(30_000, rel=0.2)  # windows share a sequence at their borders


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("exception", [0, 4999, 9999])
def test_the_first_exception_is_named(exception, even):
    dataset, _ = indexed(documents_of(10_000, {exception}), EOS, presumed=AFTER)
    for target in (Boundaries(EOS), Boundaries(None)):
        axis = Laid(dataset, target, even=even)
        with pytest.raises(UnendedError) as error:
            windows_of(axis, 1000)
        assert error.value.sequence == exception
    assert Laid(dataset, Boundaries(EOS), exact=True).length == Laid(dataset, Boundaries(EOS)).length + 1


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(
    "documents", [[[8], [EOS], [3, EOS]], [[3, EOS], [EOS], [8], [4, EOS]], [[4, EOS], [EOS], [8]]]
)
def test_a_sequence_of_one_token_is_no_separator(documents, even):
    """Presumed to be a separator alone, it would leave no token behind: each is looked at between two others."""
    dataset, _ = indexed(documents, EOS, presumed=AFTER)
    for size in (1, 2, 9):
        with pytest.raises(UnendedError) as error:
            windows_of(Laid(dataset, Boundaries(None), even=even), size)
        assert error.value.sequence == documents.index([8])


def test_mixed_ends_are_exact_from_the_beginning():
    dataset, sequences = indexed(documents_of(100, {3}), EOS, presumed=None)
    axis = Laid(dataset, Boundaries(EOS))
    assert axis.is_exact
    tokens, _, fates = laid(sequences, Boundaries(EOS))
    in_windows(dataset, Boundaries(EOS), 7, tokens, fates)


@pytest.mark.parametrize("how", ["after", "before", "between"])
def test_a_stream_is_always_exact(how):
    tokens = [1, 7, 2, 3, 7, 4, 7, 5]
    dataset, sequences = streamed(tokens, how)
    for target in (Boundaries(None), Boundaries(7), Boundaries(9, "after")):
        expected, _, fates = laid(sequences, target)
        in_windows(dataset, target, 3, expected, fates)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("target", [Boundaries(EOS), Boundaries(9, "before", lead=3, leads="all"), Boundaries(None)])
def test_a_sequence_longer_than_a_window_is_held_in_windows(closed, target):
    """Memory does not depend on the length of a sequence, and regions inside of it read their own part alone."""
    length = 3 << 20
    content = np.arange(length, dtype="u4") % 5
    stored = np.concatenate([[1, EOS], content, [EOS] * closed, [2, EOS]]).astype("u4")
    bounds = np.array([0, 2, 2 + length + closed, 4 + length + closed])
    dataset = Dataset(ArrayAxis(stored), Ended(Bounds(ArrayAxis(bounds)), EOS, presumed=AFTER), Gap(EOS))
    axis = Laid(dataset, target, exact=True)
    found, at = [], 0
    for part in axis.walk(0, axis.length):
        assert len(part) <= (1 << 20) + 2
        found.append(part)
    expected = [[1], content, [2]]
    lead = [[target.lead]] * (target.lead is not None)
    separator = [[target.id]] * (target.id is not None)
    order = separator + lead if target.kind == "before" else lead
    after = [] if target.kind == "before" else separator
    whole = np.concatenate([part for one in expected for part in (*order, one, *after)])
    assert np.array_equal(np.concatenate(found), whole)
    for at in (0, 1, 5, 1 << 20, (2 << 20) + 3, length - 8):
        assert axis.tokens(at, at + 9).tolist() == whole[at : at + 9].tolist()
    for at in [*range(8), *range(length, len(whole))]:
        assert axis.tokens(at, at + 1).tolist() == [whole[at]]
    if not closed and target.id is not None:
        with pytest.raises(UnendedError):
            Laid(dataset, target).tokens(length - 5, length + 3)
