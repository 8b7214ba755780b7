"""The laws of the model on random datasets, against lists."""

import pickle

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.axes import ArrayAxis, Listed, Pieces
from model.naive import ALONE, BOS, DOCUMENTS, EOS, TARGETS, datasets, indexed, laid, marked, streamed

from tokfmt.errors import LossyConversionError
from tokfmt.model import (
    AFTER,
    LEAD,
    SEP,
    Boundaries,
    Bounds,
    Dataset,
    Ended,
    Gap,
    Joined,
    Laid,
    Ledger,
    Split,
    concat,
    led,
)


def contents(dataset):
    return [dataset[k].tolist() for k in range(len(dataset))]


def batched(dataset, size, **which):
    found = []
    for batch in dataset.batches(size, **which):
        tokens, lengths = batch.content()
        assert batch.first == len(found) + which.get("first", 0)
        found += [part.tolist() for part in np.split(tokens, np.cumsum(lengths))[:-1]]
    return found


@settings(max_examples=examples(300))
@given(datasets(), st.integers(1, 60))
def test_sequences_are_read_alone_and_in_batches(pair, size):
    dataset, sequences = pair
    expected = [one.content for one in sequences]
    assert batched(dataset, size) == expected  # before anything was counted
    assert len(dataset) == len(expected)
    assert contents(dataset) == expected
    assert batched(dataset, size) == expected
    starts, stops, beside = dataset.contents(0, len(expected))
    assert ((starts >= 0) & (starts <= stops) & (stops <= dataset.axis.length)).all()
    assert [bool(bits & SEP) for bits in beside.tolist()] == [one.separator is not None for one in sequences]
    assert [bool(bits & LEAD) for bits in beside.tolist()] == [one.lead is not None for one in sequences]
    tokens = dataset.axis.tokens(0, dataset.axis.length)
    for one, start, stop, bits in zip(sequences, starts.tolist(), stops.tolist(), beside.tolist()):
        assert tokens[start:stop].tolist() == one.content
        if bits & SEP:
            assert tokens[stop if bits & AFTER else start - 1 - bool(bits & LEAD)] == one.separator
        if bits & LEAD:
            assert tokens[start - 1] == one.lead


@settings(max_examples=examples(300))
@given(datasets(), TARGETS, st.integers(1, 60))
def test_a_batch_is_laid_out_with_its_ledger(pair, target, size):
    dataset, sequences = pair
    tokens, ends, fates = laid(sequences, target)
    found, found_ends, ledger = [], [], Ledger()
    for batch in dataset.batches(size):
        out = batch.laid_out(target)
        found_ends += (out.ends + len(found)).tolist()
        found += out.tokens.tolist()
        assert sum(out.ledger.separators) == sum(out.ledger.leads) == len(batch)
        ledger = ledger.plus(out.ledger)
    assert (found, found_ends) == (tokens, ends)
    assert [list(counts) for counts in ledger] == fates


@pytest.mark.parametrize("lead", [4, 5])
def test_leads_of_joined_datasets_are_told_apart(lead):
    """One source has the lead 4 and another one 5: either is replaced where it is not the lead of the destination."""
    parts = [led(streamed([own, 9], "after")[0], own, each=True) for own in (4, 5)]
    laid_out = [batch.laid_out(Boundaries(lead=lead)) for batch in concat(parts).batches(60)]
    assert [token for out in laid_out for token in out.tokens.tolist()] == [lead, 9, lead, 9]
    assert sum(out.ledger.leads.kept for out in laid_out) == sum(out.ledger.leads.replaced for out in laid_out) == 1


@settings(max_examples=examples(300))
@given(datasets(), TARGETS, st.data())
def test_a_laid_out_axis_is_read_anywhere(pair, target, data):
    dataset, sequences = pair
    tokens, ends, fates = laid(sequences, target)
    axis = Laid(dataset, target, exact=True)
    assert axis.length == len(tokens)
    assert axis.bases.tolist() == [0, *[len(tokens)] * bool(sequences)]
    first = data.draw(st.integers(0, len(sequences)))
    last = data.draw(st.integers(first, len(sequences)))
    assert axis.offsets(first, last).tolist() == [0, *ends][first : last + 1]
    for _ in range(3):
        start = data.draw(st.integers(0, len(tokens)))
        stop = data.draw(st.integers(start, len(tokens)))
        assert axis.tokens(start, stop).tolist() == tokens[start:stop]
    for position in range(len(tokens)):
        number = axis.sequence_at(position)
        assert [0, *ends][number] <= position < ends[number]
    size = data.draw(st.integers(1, 20))
    found = [axis.walk(at, min(at + size, len(tokens))) for at in range(0, len(tokens), size)]
    assert [token for parts in found for part in parts for token in part.tolist()] == tokens
    ledger = Ledger()
    for batch in dataset.batches(size):
        ledger = ledger.plus(batch.laid_out(target).ledger)
    assert [list(counts) for counts in ledger] == fates


@settings(max_examples=examples(200))
@given(datasets(), st.integers(0, (1 << 64) - 1))
def test_pickled_and_shuffled(pair, seed):
    dataset, sequences = pair
    expected = [one.content for one in sequences]
    assert contents(pickle.loads(pickle.dumps(dataset))) == expected
    shuffled = dataset.take(np.random.default_rng(seed).permutation(len(dataset)))
    assert sorted(contents(shuffled)) == sorted(expected)
    assert batched(shuffled, 20) == contents(shuffled)
    assert batched(shuffled, 20, first=len(expected) // 2) == contents(shuffled)[len(expected) // 2 :]


@settings(max_examples=examples(200))
@given(datasets(), st.integers(1, 30))
def test_batches_are_the_walk_in_order(pair, size):
    dataset, sequences = pair
    walked = [token for batch in dataset.batches(size) for token in batch.content()[0].tolist()]
    assert walked == [token for one in sequences for token in one.content]


@settings(max_examples=examples(200))
@given(st.sampled_from(["after", "before", "between"]), st.lists(st.integers(5, 8), max_size=60), st.booleans())
def test_slots_are_contents_separators_leads_and_padding(how, tokens, is_indexed):
    dataset, sequences = indexed([tokens], EOS, BOS) if is_indexed else streamed(tokens, how)
    slots = dataset.slots()
    assert sum(slots) == dataset.axis.length
    assert slots.contents == sum(len(one.content) for one in sequences)
    assert slots.closed == sum(one.separator is not None for one in sequences)
    assert slots.leads == sum(one.lead is not None for one in sequences)
    assert slots.padding == 0 or how == "between"


@settings(max_examples=examples(200))
@given(datasets([kind for kind in ALONE if kind != "listed"]))
def test_the_sequence_around_each_slot(pair):
    """`at` finds a sequence whose extent holds the slot, if one does. What overlaps has several."""
    dataset, sequences = pair
    starts, stops, beside = dataset.contents(0, len(sequences))
    lows = starts - (beside & LEAD > 0) - (beside & SEP > 1)
    highs = stops + (beside & AFTER)
    for slot in range(dataset.axis.length):
        holders = np.flatnonzero((lows <= slot) & (slot < highs)).tolist()
        if holders:
            assert dataset.spans.at(slot) in holders


def test_a_byte_beside_all_sequences_that_were_taken():
    """A repeat of a repeat is found, and what another source holds is not beside the last sequence of this one."""
    one, other = indexed([[1, 7], [2, 7]])[0], indexed([[3, 7], [4, 7]])[0]
    twice = one.take(np.array([1, 1]))
    assert [twice.take(np.array([1])).spans.at(slot) for slot in range(4)] == [None, None, 0, 0]
    assert [twice.slice(1, 2).spans.at(slot) for slot in range(4)] == [None, None, 0, 0]
    joined = concat([one, other.take(np.array([1]))])
    assert [joined.spans.at(slot) for slot in range(8)] == [0, 0, 1, 1, None, None, 2, 2]


@settings(max_examples=examples(150))
@given(DOCUMENTS, st.data())
def test_an_index_that_is_a_view(documents, data):
    """Starts in any order, which repeat and overlap, and documents of pieces that are not neighbors."""
    tokens = np.array([token for document in documents for token in document], "u2")
    starts = np.array(data.draw(st.lists(st.integers(0, len(tokens)), max_size=20)), np.int64)
    lengths = np.array([data.draw(st.integers(0, min(9, len(tokens) - start))) for start in starts], np.int64)
    expected = [tokens[a : a + k].tolist() for a, k in zip(starts, lengths)]
    listed = Dataset(ArrayAxis(tokens), Listed(ArrayAxis(starts * 2), ArrayAxis(lengths), 2))
    assert contents(listed) == batched(listed, 12) == expected
    trimmed = Dataset(listed.axis, Ended(listed.spans, EOS), Gap(EOS))
    assert contents(trimmed) == batched(trimmed, 12) == [one[:-1] if one[-1:] == [EOS] else one for one in expected]
    axis = Pieces(ArrayAxis(tokens), starts, lengths)
    assert axis.tokens(0, axis.length).tolist() == [token for one in expected for token in one]
    tiled = Dataset(axis, Bounds(ArrayAxis(np.cumsum([0, *lengths]))))
    assert contents(tiled) == batched(tiled, 12) == expected
    order = np.arange(len(starts))[::-1]
    assert batched(listed.take(order), 12) == expected[::-1]


@settings(max_examples=examples(150))
@given(st.lists(st.lists(st.integers(0, 300), max_size=12), max_size=5), st.data())
def test_axes_joined_are_one_axis(parts, data):
    dtypes = [np.dtype(data.draw(st.sampled_from(["u2", "u4"]))) for _ in parts]
    axis = Joined([ArrayAxis(np.array(part, dtype)) for part, dtype in zip(parts, dtypes)])
    whole = [token for part in parts for token in part]
    assert axis.length == len(whole)
    for _ in range(4):
        start = data.draw(st.integers(0, len(whole)))
        stop = data.draw(st.integers(start, len(whole)))
        assert axis.tokens(start, stop).tolist() == whole[start:stop]
        assert axis.tokens(start, stop).dtype == axis.dtype
    if whole:
        positions = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9)), np.int64)
        assert axis.at(positions).tolist() == [whole[p] for p in positions]


@settings(max_examples=examples(150))
@given(datasets(), st.integers(1, 30), TARGETS)
def test_marks_go_with_their_tokens(pair, size, target):
    """A mark is that of its slot, wherever the token goes; a separator that is added behind it does not count."""
    dataset, sequences = pair
    lacks = not dataset.gap.alone
    expected = [mark for one in sequences for mark in marked(one, target, lacks)]
    if dataset.marks is None:
        assert all(batch.marks(target) is None for batch in dataset.batches(size))
        return
    assert [mark for batch in dataset.batches(size) for mark in batch.marks(target).tolist()] == expected


def test_several_separators_are_told_apart_by_their_tokens():
    """Replaced or kept is a fact of each sequence, also where two sources end theirs with different IDs."""
    one, _ = indexed([[1, 2, 7], [3, 7]], 7)
    other, _ = indexed([[1, 9], [9], [2]], 9)
    joined = concat([one, other])
    for dataset in (joined, joined.take(np.array([4, 3, 2, 1, 0]))):
        total = Ledger()
        for batch in dataset.batches():
            total = total.plus(batch.laid_out(Boundaries(7)).ledger)
        assert total.separators == (2, 2, 1, 0, 0)
    assert joined.gap.id is None and joined.gap.ids == [7, 9]


def test_equal_separators_on_two_sides_are_one():
    after, before = streamed([1, 2, 7, 3, 7], "after")[0], streamed([7, 4, 7, 5], "before")[0]
    joined = concat([after, before])
    assert joined.gap.id == 7
    for dataset in (joined, joined.take(np.array([3, 0, 2, 1]))):
        for target in (Boundaries(7), Boundaries(7, "after"), Boundaries(7, "before")):
            found = [batch.laid_out(target) for batch in dataset.batches()]
            total = Ledger()
            for one in found:
                total = total.plus(one.ledger)
            assert total.separators.kept == 4
    (out,) = [batch.laid_out(Boundaries(7, "before")) for batch in joined.batches(first=0, last=4)]
    assert out.tokens.tolist() == [7, 1, 2, 7, 3, 7, 4, 7, 5]


AFTERS, BEFORES = [1, 2, 7, 7, 3, 7], [7, 1, 2, 7, 7, 3]


@pytest.mark.parametrize(
    ("dataset", "kind", "tokens"),
    [
        (indexed([[1, 2, 7], [7], [3, 7]])[0], "index", AFTERS),
        (indexed([[3, 7], [7], [1, 2, 7]])[0].take(np.array([2, 1, 0])), "index", AFTERS),
        (streamed(AFTERS, "after")[0], "after", AFTERS),
        (streamed(BEFORES, "before")[0], "before", BEFORES),
        (indexed([[5, 1, 7], [5, 7], [3, 7]], EOS, BOS)[0], "index", [5, 1, 7, 5, 7, 3, 7]),
        (streamed([7, 7, 1, 2, 7, 3, 7], "between")[0], "between", [1, 2, 7, 3, 7]),
    ],
)
def test_what_is_stored_as_wanted_is_the_window_itself(dataset, kind, tokens):
    """The raw copy: no token is copied, also where sequences were gathered. An ID is replaced in its slot."""
    for _ in range(2):  # in one pass, and after the sequences were counted
        (batch,) = dataset.batches()
        out = batch.laid_out(Boundaries(7, kind, dataset.gap.lead))
        assert np.shares_memory(out.tokens, batch.window)
        assert out.tokens.tolist() == tokens
        other = batch.laid_out(Boundaries(70_000, kind, dataset.gap.lead))
        assert not np.shares_memory(other.tokens, batch.window)
        assert other.tokens.tolist() == [70_000 if token == 7 else token for token in tokens]
        assert other.ends.tolist() == out.ends.tolist()
        len(dataset)


@pytest.mark.parametrize(
    ("kind", "sequences", "what", "facts"),
    [
        ("after", [[1, 7, 2]], "embedded-separators", ["sequence 0", "position 1"]),
        (
            "before",
            [[1, 2], [3], [7, 2], [2, 7]],
            "embedded-separators",
            ["2 separators 7", "sequence 2", "position 0", "--bos 7"],
        ),
        ("between", [[1], [2, 7]], "embedded-separators", ["sequence 1", "position 1"]),
        ("between", [[1], [], [2], []], "empty-sequences", ["sequence 1"]),
    ],
)
def test_what_separators_cannot_mark_is_refused(kind, sequences, what, facts):
    dataset, _ = indexed(sequences, None)
    (batch,) = dataset.batches()
    target = Boundaries(7, kind, name="format x")

    def read_all(target):
        axis = Laid(dataset, target)
        axis.tokens(0, axis.length)

    for write in (batch.laid_out, read_all):
        with pytest.raises(LossyConversionError, match="format x") as error:
            write(target)
        assert error.value.losses == [what]
        assert all(fact in str(error.value) for fact in facts)
    batch.laid_out(Boundaries(7, kind, accepted=frozenset([what])))


def test_nobody_can_write_into_an_axis():
    values = np.arange(5, dtype="u2")
    axis = ArrayAxis(values)
    with pytest.raises(ValueError, match="read-only"):
        axis.tokens(0, 5)[0] = 9
    for wrong in (np.array([-1]), np.array([5])):
        with pytest.raises(IndexError):
            axis.at(wrong)


def test_selections_by_slice_and_list():
    dataset, _ = indexed([[k] for k in range(1, 7)], None)
    assert contents(dataset[1:4]) == [[2], [3], [4]]
    assert contents(dataset[[5, 0]]) == [[6], [1]]
    assert contents(dataset[::-2]) == [[6], [4], [2]]
    assert dataset[-1].tolist() == [6]
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            dataset[wrong]
    with pytest.raises(IndexError):
        dataset[[0, 6]]
    assert dataset[4:][1].tolist() == [6]


class Counting(ArrayAxis):
    """An axis that counts the slots that are read."""

    slots = 0

    def tokens(self, start, stop):
        Counting.slots += stop - start
        return super().tokens(start, stop)


def test_a_stream_is_not_scanned_for_its_first_sequences():
    Counting.slots = 0
    tokens = np.tile(np.array([1, 2, 3, 7], "u2"), 1 << 20)
    axis = Counting(tokens)
    dataset = Dataset(axis, Split(axis, 7, "after"), Gap(7, alone=True))
    assert Counting.slots == 0
    assert len(next(dataset.batches(1 << 12))) == 1 << 10
    assert Counting.slots == 1 << 12
    assert len(dataset) == 1 << 20
    assert len(pickle.dumps(dataset)) - tokens.nbytes < 5.1 * len(dataset)
