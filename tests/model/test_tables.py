"""The tables of the model: what happens with a sequence, which ID separates a source, and what a destination writes."""

import numpy as np
import pytest
from model.axes import ArrayAxis
from model.naive import indexed, streamed

from tokfmt.errors import ConversionError, LossyConversionError, OptionError, TokfmtError
from tokfmt.model import (
    Boundaries,
    Bounds,
    Dataset,
    Laid,
    Ledger,
    Statement,
    concat,
    decide,
    lead_to_write,
    led,
    separator_to_write,
)

NAMES = KEPT, REPLACED, ADDED, DROPPED, BARE = "kept", "replaced", "added", "dropped", "bare"


def dataset_of(documents):
    return indexed(documents, None)[0]


def texts(count, eos=None, low=10):
    """Documents without repeated IDs inside, which end with different IDs unless a separator ends them."""
    return [[low + k, low + count + k, low + 2 * count + k] + [eos] * (eos is not None) for k in range(count)]


def contents(dataset):
    return [dataset[k].tolist() for k in range(len(dataset))]


def target(gap, kind, to_eos=None, to_bos=None, accepted=frozenset(), **more):
    """What a destination writes beside contents, as `convert` puts it together."""
    lead, leads = lead_to_write(gap.leads, kind, to_bos, accepted)
    id_ = separator_to_write(gap, kind, to_eos, **more)
    return Boundaries(id_, kind, lead, leads, to_eos == "as-stored" and id_ is not None, accepted)


def written(dataset, to):
    """The tokens of each sequence in a destination, and what became of its separator and its lead."""
    axis, ledger = Laid(dataset, to), Ledger()
    for batch in dataset.batches():
        ledger = ledger.plus(batch.laid_out(to).ledger)
    found = axis.tokens(0, axis.length).tolist()
    ends = axis.offsets(0, axis.count).tolist()
    fates = [next((name for name, count in zip(NAMES, counts) if count), "") for counts in ledger]
    return [found[a:b] for a, b in zip(ends, ends[1:])], *fates


# 2.1: with each sequence. 9 is content, 7 the separator, 5 the lead.

BETWEEN = frozenset({"empty-sequences"})


@pytest.mark.parametrize(
    ("stored", "to", "tokens", "fate"),
    [
        ([9, 7], Boundaries(7), [9, 7], KEPT),
        ([9, 7], Boundaries(8), [9, 8], REPLACED),
        ([9, 7], Boundaries(None), [9], DROPPED),
        ([9, 7], Boundaries(7, "after"), [9, 7], KEPT),
        ([9, 7], Boundaries(8, "before"), [8, 9], REPLACED),
        ([9, 7], Boundaries(7, "between"), [9, 7], KEPT),
        ([9], Boundaries(7), [9, 7], ADDED),
        ([9], Boundaries(7, only_closed=True), [9], BARE),
        ([9], Boundaries(None), [9], BARE),
        ([9], Boundaries(7, "after"), [9, 7], ADDED),
        ([9], Boundaries(7, "between"), [9, 7], ADDED),
        ([7], Boundaries(7), [7], KEPT),
        ([7], Boundaries(8), [8], REPLACED),
        ([7], Boundaries(None), [], DROPPED),
        ([7], Boundaries(7, "after"), [7], KEPT),
        ([7], Boundaries(7, "between"), LossyConversionError, ""),
        ([7], Boundaries(7, "between", accepted=BETWEEN), [], DROPPED),
        ([], Boundaries(7), [], BARE),
        ([], Boundaries(7, only_closed=True), [], BARE),
        ([], Boundaries(7, "after"), [7], ADDED),
        ([], Boundaries(7, "before"), [7], ADDED),
        ([], Boundaries(7, "between"), LossyConversionError, ""),
        ([9, 7, 7], Boundaries(7), [9, 7, 7], KEPT),
        ([9, 7, 7], Boundaries(8), [9, 7, 8], REPLACED),
        ([9, 7, 7], Boundaries(7, "after"), LossyConversionError, ""),
        ([9, 7, 7], Boundaries(8, "after"), [9, 7, 8], REPLACED),
        ([9, 7, 9], Boundaries(7), [9, 7, 9, 7], ADDED),
        ([9, 7, 9], Boundaries(7, "between"), LossyConversionError, ""),
    ],
)
def test_each_sequence(stored, to, tokens, fate):
    dataset = decide(dataset_of([stored, [9, 9, 7]]), 7)[:1]
    if tokens is LossyConversionError:
        with pytest.raises(LossyConversionError):
            written(dataset, to)
        return
    assert written(dataset, to)[:2] == ([tokens], fate)


@pytest.mark.parametrize(
    ("stored", "to", "tokens", "fate"),
    [
        ([5, 9, 7], Boundaries(7, lead=5), [5, 9, 7], KEPT),
        ([9, 7], Boundaries(7, lead=5), [9, 7], BARE),
        ([9, 7], Boundaries(7, lead=5, leads="all"), [5, 9, 7], ADDED),
        ([5, 9, 7], Boundaries(7, lead=6, leads="all"), [6, 9, 7], REPLACED),
        ([5, 9, 7], Boundaries(7), [9, 7], DROPPED),
        ([5, 9, 7], Boundaries(7, "before"), [7, 9], DROPPED),
        ([5, 9, 7], Boundaries(5, "before"), [5, 9], DROPPED),
        ([5, 9, 7], Boundaries(7, "before", lead=5), [7, 5, 9], KEPT),
        ([5, 7], Boundaries(7, lead=5), [5, 7], KEPT),
        ([5], Boundaries(7, lead=5), [5], KEPT),
    ],
)
def test_a_lead_is_no_content(stored, to, tokens, fate):
    """Only with --bos, and counted on its own."""
    dataset = led(decide(dataset_of([stored, [9, 9, 7]]), 7), 5)[:1]
    (found, _, lead) = written(dataset, to)
    assert (found, lead) == ([tokens], fate)


def test_a_lead_without_bos_is_content():
    dataset = decide(dataset_of([[5, 9, 7], [5, 7]]), 7)
    assert contents(dataset) == [[5, 9], [5]]
    assert contents(led(decide(dataset_of([[5, 9, 7], [5, 7]]), 7), 5)) == [[9], []]


# 2.2: the separator of a source


def test_none_trims_nothing():
    found = decide(dataset_of(texts(40, 7)), "none")
    assert contents(found) == texts(40, 7)
    assert (found.gap.id, found.gap.known) == (None, "user")
    assert "--eos none" in found.gap.words()


@pytest.mark.parametrize(
    ("documents", "closed"), [([*texts(5, 7), *texts(5)], 5), (texts(10), 0), ([[1, 2], [], [3, 7]], 1)]
)
def test_a_given_separator_is_taken_off_where_it_is(documents, closed):
    """Some end with it, or no ID ends all."""
    found = decide(dataset_of(documents), 7)
    assert contents(found) == [one[:-1] if one[-1:] == [7] else one for one in documents]
    assert (found.gap.id, found.gap.known, found.gap.closed) == (7, "user", closed)
    assert found.gap.closed + found.gap.lack + found.gap.empty == found.gap.looked == len(documents)


@pytest.mark.parametrize("by", ["manifest", "file"])
@pytest.mark.parametrize("documents", [texts(10, 3), [*texts(5, 3), *texts(5, 7)], texts(10)])
def test_a_contradiction_with_what_is_stated_is_refused(documents, by):
    """At least as many end with what is stated."""
    with pytest.raises(OptionError, match=f"--eos 7 contradicts the {by}, which states 3 .*--to-eos 7"):
        decide(dataset_of(documents), 7, Statement(3, by))


def test_a_statement_that_fewer_sequences_bear_out_is_overruled():
    """More end with the given ID, and the sentence says so."""
    found = decide(dataset_of([*texts(6, 7), *texts(5, 3)]), 7, Statement(3))
    assert (found.gap.id, found.gap.overrules) == (7, 3)
    assert "not 3" in found.gap.words()


@pytest.mark.parametrize(
    ("known", "says", "error"),
    [
        ({"eos": 7}, "--eos 7 is given", OptionError),
        ({"stated": Statement(7)}, "the manifest states the separator 7", ConversionError),
        ({"stated": Statement(7, "file")}, "the file states the separator 7", ConversionError),
    ],
)
@pytest.mark.parametrize("count", [2, 300])
def test_an_id_that_ends_none_where_another_ends_all_is_refused(known, says, error, count):
    """Two sequences are enough to refuse."""
    with pytest.raises(
        error, match=f"{says}, and no sequence ends with it: all {count} .* with 3. --eos 3 .* --to-eos 7"
    ):
        decide(dataset_of(texts(count, 3)), **known)
    one = decide(dataset_of(texts(1, 3)), **known)
    assert one.gap.id == 7


def test_a_full_stop_is_no_rival():
    """The ID that ends all is also inside of one."""
    documents = [*texts(20, 3), [4, 3, 9, 3]]
    assert decide(dataset_of(documents), 7).gap.closed == 0
    assert decide(dataset_of(documents)).gap.id is None


@pytest.mark.parametrize(
    ("known", "by"),
    [
        ({"stated": Statement(7), "tokenizer": 3}, "manifest"),
        ({"stated": Statement(7, "file")}, "file"),
        ({"tokenizer": 7}, "tokenizer"),
    ],
)
def test_what_is_stated_holds_in_its_order(known, by):
    for documents in (texts(10, 7), texts(10), [*texts(9, 7), [1]]):
        found = decide(dataset_of(documents), **known)
        assert (found.gap.id, found.gap.known) == (7, by)
        assert contents(found) == [one[:-1] if one[-1:] == [7] else one for one in documents]


@pytest.mark.parametrize(("count", "known"), [(7, ""), (8, "inferred"), (10_000, "inferred")])
def test_a_separator_is_inferred_from_eight(count, known):
    found = decide(dataset_of([*texts(count, 7), []]))
    assert found.gap.known == known
    if known:
        assert (found.gap.id, found.gap.closed) == (7, found.gap.looked - found.gap.empty)
        assert contents(found[:3]) == [one[:-1] for one in texts(count, 7)[:3]]


def test_looking_at_few_changes_no_byte():
    """Each sequence is trimmed by its own token, whether it was looked at or not."""
    documents = texts(10_000, 7)
    for exception in ([], [1, 2, 3]):
        documents[5001] = exception
        few, all_ = (decide(dataset_of(documents), 7, most=most) for most in (64, 20_000))
        assert (few.gap.looked, all_.gap.looked) == (64, 10_000)
        assert contents(few) == contents(all_) == [one[:-1] if one[-1:] == [7] else one for one in documents]
        for to in (Boundaries(7), Boundaries(8), Boundaries(None), Boundaries(7, only_closed=True)):
            assert written_exactly(few, to) == written_exactly(all_, to)
    assert "64 sequences that were looked at, of 10,000" in few.gap.words()
    assert "9,999 of 10,000 sequences end with it" in all_.gap.words()


def written_exactly(dataset, to):
    return b"".join(batch.laid_out(to).tokens.astype("u4").tobytes() for batch in dataset.batches())


@pytest.mark.parametrize(("closed", "asks"), [(180, True), (200, True), (179, False), (0, False)])
@pytest.mark.parametrize("kind", ["index", "after"])
def test_every_destination_asks_where_nearly_all_end_alike(closed, asks, kind):
    documents = [*texts(closed, 7), *texts(200 - closed)]
    if closed == 200:
        documents[3] = [4, 7, 9, 7]  # inside of one, so that it is not inferred
    found = decide(dataset_of(documents))
    assert found.gap.id is None
    assert contents(found) == documents
    if asks:
        with pytest.raises(ConversionError, match=f"{closed} of 200 sequences .* end with 7. --eos 7 .*--eos none"):
            target(found.gap, kind)
        with pytest.raises(ConversionError, match="--eos 7"):
            target(found.gap, kind, 9)
        with pytest.raises(ConversionError, match="--eos 7"):
            target(concat([found, decide(dataset_of(texts(20, 3)))]).gap, kind)
        assert f"{closed} of all 200 sequences end with 7" in found.gap.words()
    elif kind == "index":
        assert target(found.gap, kind).id is None
    assert target(found.gap, "index", "as-stored").id is None


def test_a_manifest_that_says_not_stored_is_right():
    """`[1, 2, 7, 7]` through a format that stores no separator, and back."""
    original = [[1, 2, 7, 7], [3, 7]]
    source = decide(dataset_of(original), 7)
    stored, fate, _ = written(source, target(source.gap, "index", "none"))
    assert (stored, fate) == ([[1, 2, 7], [3]], DROPPED)
    back = decide(dataset_of(stored), stated=Statement(7, stored=False))
    assert contents(back) == stored
    assert "not stored" in back.gap.words()
    assert written(back, target(back.gap, "index"))[:2] == (original, ADDED)
    assert contents(decide(dataset_of(stored), 7, Statement(7, stored=False))) == stored


def test_each_of_several_sources_is_decided_alone():
    """Equal ones merge, and a part without one is not trimmed; the destination adds it."""
    one, other, plain = decide(dataset_of(texts(10, 7))), decide(dataset_of(texts(9, 3))), decide(dataset_of(texts(9)))
    same = concat([one, decide(dataset_of(texts(8, 7))), plain])
    assert (same.gap.id, same.gap.closed, same.gap.lack) == (7, 18, 9)
    found = [batch.laid_out(target(same.gap, "index")).ledger for batch in same.batches()]
    assert [tuple(map(sum, zip(*(ledger.separators for ledger in found))))] == [(18, 0, 9, 0, 0)]
    assert "18 of 27 sequences end with it, 9 do not" in same.gap.words()
    differ = concat([one, other])
    assert differ.gap.id is None
    assert "7" in differ.gap.words() and "3" in differ.gap.words()


# 2.3: what a destination writes


def test_the_separator_of_the_source_is_the_default():
    source = decide(dataset_of(texts(10, 7)))
    assert target(source.gap, "index") == Boundaries(7)
    assert target(source.gap, "before") == Boundaries(7, "before")
    assert target(source.gap, "index", 8).id == 8
    assert written(source, target(source.gap, "before"))[0][0] == [7, *texts(10)[0]]


def test_different_separators_need_a_choice():
    """Then all are of one ID."""
    joined = concat([decide(dataset_of(texts(10, 7))), decide(dataset_of(texts(10, 3)))])
    for kind in ("index", "after"):
        with pytest.raises(ConversionError, match=r"different separators \(7, 3\).*--to-eos"):
            target(joined.gap, kind)
    stored, _, _ = written(joined, target(joined.gap, "index", 7))
    assert {one[-1] for one in stored} == {7}


@pytest.mark.parametrize("kind", ["after", "before", "between"])
def test_separators_that_alone_mark_boundaries_are_written(kind):
    with pytest.raises(OptionError, match="--to-eos none"):
        target(decide(dataset_of(texts(10, 7))).gap, kind, "none")
    unknown = decide(dataset_of(texts(10)))
    for to_eos in (None, "as-stored"):
        with pytest.raises(ConversionError, match="--eos ID.*--to-eos ID"):
            target(unknown.gap, kind, to_eos)
    assert target(unknown.gap, kind, 9).id == 9


def test_a_destination_that_needs_a_separator_asks():
    """None and as-stored are accepted where an index bounds."""
    unknown = decide(dataset_of(texts(10)))
    with pytest.raises(ConversionError, match="--to-eos none"):
        target(unknown.gap, "index", needs=True)
    assert target(unknown.gap, "index").id is None
    assert target(unknown.gap, "index", "none", needs=True).id is None
    assert target(unknown.gap, "index", "as-stored", needs=True).id is None
    assert target(decide(dataset_of(texts(10)), "none").gap, "index", needs=True).id is None


def test_a_variant_that_prescribes_an_id():
    source = decide(dataset_of(texts(10, 7)))
    with pytest.raises(
        ConversionError, match="prescribes the separator 128000, and that of the source is 7. --to-eos 128000"
    ):
        target(source.gap, "before", fixed=128_000)
    assert written(source, target(source.gap, "before", 128_000, fixed=128_000))[1] == REPLACED
    assert target(decide(dataset_of(texts(10, 7))).gap, "before", fixed=7).id == 7


def test_as_stored_adds_none():
    """Where separators alone mark boundaries, only the last sequence may lack one."""
    source = decide(dataset_of([[1, 7], [2], [3, 7], [4]]), 7)
    assert written(source, target(source.gap, "index", "as-stored"))[0] == [[1, 7], [2], [3, 7], [4]]
    with pytest.raises(OptionError, match="as-stored: 1 sequence without a separator .first: sequence 1"):
        Laid(source, target(source.gap, "after", "as-stored"))
    last = source.take(np.array([0, 2, 3]))
    assert written(last, target(last.gap, "after", "as-stored"))[0] == [[1, 7], [3, 7], [4]]


def test_leads_are_written_in_front():
    source = led(decide(dataset_of([[5, 1, 7], [2, 7], [3, 7]]), 7), 5)
    assert target(source.gap, "index")[2:4] == (5, "as-read")
    assert written(source, target(source.gap, "index"))[0] == [[5, 1, 7], [2, 7], [3, 7]]
    assert written(source, target(source.gap, "index", to_bos=6))[0] == [[6, 1, 7], [6, 2, 7], [6, 3, 7]]
    assert written(source, target(source.gap, "index", to_bos="none"))[0] == [[1, 7], [2, 7], [3, 7]]
    assert written(source, target(source.gap, "after"))[0] == [[1, 7], [2, 7], [3, 7]]
    with pytest.raises(LossyConversionError, match="lead 5"):
        target(source.gap, "between")
    assert target(source.gap, "between", accepted=frozenset({"leads"})).lead is None
    assert target(source.gap, "between", to_bos="none").lead is None


def test_one_id_is_a_separator_and_a_lead_only_beside_an_index():
    assert contents(led(decide(dataset_of([[7, 1, 7], [2, 7], [7], [7, 7]]), 7), 7)) == [[1], [2], [], []]
    with pytest.raises(OptionError, match="--bos"):
        led(streamed([7, 1, 7, 2, 7], "after")[0], 7)


@pytest.mark.parametrize(
    "documents",
    [[], [[]], [[], []], [[7]], [[7], [7]]],
)
def test_datasets_of_nothing(documents):
    """No sequence, empty ones, and separators alone."""
    for eos in (None, 7, "none"):
        found = decide(dataset_of(documents), eos)
        assert len(found) == len(documents)
        assert found.gap.words()
        try:
            to = target(found.gap, "index")
        except TokfmtError:
            assert (documents, eos) == ([[7], [7]], None)
            continue
        assert written(found, to)[0] == documents
    assert list(Dataset(ArrayAxis(np.empty(0, "u2")), Bounds(ArrayAxis(np.zeros(1, "i8")))).batches()) == []
