"""The rule of rows against the one of plain lists: any columns, any batch of rows."""

import numpy as np
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import BEGINS, PADDING, TARGET
from model.any_rows import PER_DOCUMENT, PER_TOKEN, SECOND, documents, noise
from model.rows_oracle import ContradictionError, read

from tokfmt.core.ragged import offsets_of
from tokfmt.model.rows import Column, Reading, RowFacts, are_pairs, with_columns

EXCLUDING = ("attention_mask", "inputs_segmentation")


@st.composite
def datasets(draw):
    rows = draw(st.lists(documents() | documents() | noise(), min_size=1, max_size=5))
    names = draw(st.lists(st.sampled_from([*PER_TOKEN, *PER_DOCUMENT, *SECOND]), unique=True, max_size=4))
    lacking = st.sampled_from([False] * 9 + [True])
    kept = [(ids, {name: None if draw(lacking) else columns[name] for name in names}) for ids, columns in rows]
    how = Reading(
        draw(st.sampled_from([None, None, "all", "next"])),
        samples=draw(st.booleans()),
        is_own=draw(st.booleans()),
        eos_id=draw(st.sampled_from([None, 0, 1])),
        pairs=draw(st.booleans()),
    )
    return kept, names, how


def as_columns(rows, names):
    found = {}
    for name in names:
        values = [columns[name] or [] for _, columns in rows]
        there = np.array([columns[name] is not None for _, columns in rows])
        found[name] = Column(np.array(sum(values, []), np.int64), offsets_of([len(one) for one in values]), there)
    return found


def inner(row):
    """Return a sample without the beginning of its first document."""
    first = next((k for k, (*_, padding) in enumerate(row) if not padding), None)
    return [(*one, begins and k != first, padding) for k, (*one, begins, padding) in enumerate(row)]


@settings(max_examples=examples(2_000))
@given(datasets())
def test_any_rows_are_read_as_lists_say(dataset):
    rows, names, how = dataset
    expected, wrong, facts = (
        [],
        set(),
        dict.fromkeys(("padding", "ended", "fill", "inside", "masked", "jumps", "divided"), 0),
    )
    for number, (ids, columns) in enumerate(rows):
        try:
            words = {"is_own": how.is_own, "pairs": how.pairs, "samples": how.samples}
            read_, left = read(ids, columns, how.choice, how.eos_id, **words)
        except ContradictionError:
            wrong.add(number)
            continue
        expected += [read_] if how.samples else read_
        facts = {name: facts[name] + left[name] for name in facts}
    reported = set()
    tokens = np.array(sum((ids for ids, _ in rows), []), np.uint32)
    offsets = offsets_of([len(ids) for ids, _ in rows])
    found = with_columns(tokens, offsets, as_columns(rows, names), how, lambda misfit: reported.add(misfit.row))
    assert reported == wrong
    if wrong:
        return
    marks = np.ones(len(found.tokens), np.uint8) if found.marks is None else found.marks
    bounds, bits = found.offsets.tolist(), (TARGET, BEGINS, PADDING) if how.samples else (TARGET,)
    read_ = [
        list(zip(found.tokens[a:b].tolist(), *((marks[a:b] & bit > 0).tolist() for bit in bits), strict=True))
        for a, b in zip(bounds, bounds[1:], strict=False)
    ]
    assert [inner(row) for row in read_] == expected if how.samples else read_ == expected
    assert {name: getattr(found.facts, name) for name in facts} == facts
    excluding = {
        name: sum((columns[name] or []).count(0) for _, columns in rows) for name in names if name in EXCLUDING
    }
    assert found.facts.excluding == {name: count for name, count in excluding.items() if count}
    assert RowFacts.of(found.facts.numbers()) == found.facts
    lacking = {name: sum(columns[name] is None for _, columns in rows) for name in names}
    assert found.facts.lacking == {name: count for name, count in lacking.items() if count}


def test_the_label_after_a_row_is_not_the_first_id_of_the_next_row():
    columns = {"targets": Column(np.array([2, 3, 4, 0]), offsets_of([2, 2]))}
    columns["inputs_segmentation"] = Column(np.ones(4, np.int64), offsets_of([2, 2]))
    reported = []
    with_columns(np.array([1, 2, 3, 4], np.uint32), offsets_of([2, 2]), columns, Reading(), reported.append)
    assert [misfit.row for misfit in reported] == [0]


def test_segments_of_targets_say_nothing_of_a_row_without_targets():
    there = np.array([True, False])
    columns = {"targets": Column(np.array([2, 0]), offsets_of([2, 0]), there)}
    columns["targets_segmentation"] = Column(np.array([1, 0, 0, 0]), offsets_of([2, 2]))
    reported = []
    with_columns(np.array([1, 2, 3, 4], np.uint32), offsets_of([2, 2]), columns, Reading(), reported.append)
    assert not reported


def test_facts_are_sums_with_the_columns_that_they_concern():
    one = RowFacts(4, 1, 5, excluding={"attention_mask": 2}, lacking={"labels": 1})
    both = one.joined(RowFacts(3, 0, 1, masked=2, excluding={"inputs_segmentation": 4, "attention_mask": 1}))
    names = {"attention_mask": 3, "inputs_segmentation": 4}
    assert both == RowFacts(7, 1, 6, masked=2, excluding=names, lacking={"labels": 1})
    assert "6 positions at the ends of documents are padding, by attention_mask and inputs_segmentation" in both.notes()


def test_targets_are_labels_if_names_or_the_first_rows_say_so():
    rows = [([1, 2, 3], [2, 3, 0]), ([7], [8]), ([], []), ([4, 5], [4, 5])]
    rows = [tuple(map(np.array, row)) for row in rows]
    assert not are_pairs(["targets"], rows)
    assert are_pairs(["targets"], [*rows, (np.array([1, 2]), np.array([3, 4]))])
    assert are_pairs(["targets"], rows[1:3])
    masked = [([1, 2, 3], [0, 0, 3]), ([4, 5, 6], [-100, 6, 0])]
    assert not are_pairs(["targets"], masked)
    for name in ("inputs_segmentation", "inputs_position", "targets_segmentation"):
        assert not are_pairs(["targets", name], [(np.array([1, 2]), np.array([3, 4]))])
    assert not are_pairs(["labels"], rows)
