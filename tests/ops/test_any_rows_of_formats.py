"""Any rows, also such as contradict themselves, are the same sequences, masks, numbers and findings in every format.

The formats are written by pyarrow, numpy, h5py and zarr, and by hand as upstream's writers do.
"""

import re
import shutil
from collections import Counter

import pyarrow.parquet as pq
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.any_rows import documents, noise
from model.rows_oracle import ContradictionError, read
from ops.test_rows_of_formats import ARRAYS, arrayrecord, arrow, jsonl, litdata, mds, parquet, tfrecord

import tokfmt
from tokfmt.errors import FormatError

NAMES = [
    "labels", "completion_mask", "attention_mask", "inputs_segmentation", "position_ids", "seq_lengths", "loss_mask",
    "targets",
]  # fmt: skip
WITH = {"loss_mask": "seq_start_id", "targets": "targets_segmentation"}
"""A column that is drawn only with the one that states what it means."""
RECORDS = [parquet, arrow, jsonl, tfrecord, arrayrecord]
"""The formats that may lack a value in a row, and that read a second list of IDs."""
ROWS = 25


@st.composite
def datasets(draw):
    """Rows, the columns that all of them have or may lack, and the separator; half of them of one length, as of arrays."""
    rows = draw(st.lists(documents() | documents() | noise(), min_size=1, max_size=ROWS))
    rows = evened(rows) if draw(st.booleans()) else rows
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    names += [WITH[name] for name in names if name in WITH]
    lacking = st.just(False) if draw(st.booleans()) else st.sampled_from([False] * 9 + [True])
    kept = [(ids, {name: None if draw(lacking) else columns[name] for name in names}) for ids, columns in rows]
    return kept, names, draw(st.sampled_from(["none", "none", 1]))


def stated(rows, names):
    """Rows with the columns that have a value in one of them, each with the one that states what it means."""
    there = {name for name in names if any(columns[name] is not None for _, columns in rows)}
    there -= {name for pair in WITH.items() if not there.issuperset(pair) for name in pair}
    names = [name for name in names if name in there]
    return [(ids, {name: columns[name] for name in names}) for ids, columns in rows], names


def evened(rows):
    """Rows that are padded to the length of the longest one, with their columns."""
    size = max(3, *(len(ids) for ids, _ in rows), 0)

    def padded(name, values, ids):
        return values if name.startswith("seq_") else (values[: len(ids)] + [-100 * (name == "labels")] * size)[:size]

    return [
        (padded("", ids, ids), {name: padded(name, own, ids) for name, own in columns.items()}) for ids, columns in rows
    ]


def problems(source, eos):
    """The first problem of each row in the findings of a check, in words without the place."""
    (verdict,) = tokfmt.check(source, deep=True, eos=eos)
    found = [finding.message for finding in verdict.findings if finding.severity == "error"]
    first = {}  # of each row: its place, and what is wrong with it
    for message in found:
        place, words = re.split(r" (?=has |holds )", message, maxsplit=1)
        first.setdefault(place, words.split(". ")[0])
    return Counter(first.values())


def warnings_of_padding(source):
    """What a check says of masks that contradict the padding."""
    (verdict,) = tokfmt.check(source, deep=True, eos="none")
    return [one.message for one in verdict.findings if one.severity == "warning" and "excluded" in one.message]


def written(write, folder, rows, names):
    """A dataset of rows; a value that is not there is NULL, or no feature."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    columns = {"inputs" if "targets" in names else "input_ids": [ids for ids, _ in rows]}
    columns |= {name: [values[name] for _, values in rows] for name in names}
    return write(folder, columns)


def formats_of(rows, names):
    """The formats that can store some rows."""
    values = [value for _, columns in rows for value in columns.values()]
    found = list(RECORDS)
    if rows[0][1].get("targets", []) is None:
        found.remove(jsonl)  # whose first record states what is beside its IDs
    if None not in values and "targets" not in names:
        found += [mds, litdata]
        sizes = {len(ids) for ids, _ in rows} | {len(value) for value in values}
        if len(sizes) == 1 and min(sizes) > 2 and not any(name.startswith("seq_") for name in names):
            found += ARRAYS
    return found


def expected_of(rows, eos):
    """The documents of rows, numbers of what columns state, and which rows contradict themselves."""
    found, numbers, wrong = [], Counter(), []
    for number, (ids, columns) in enumerate(rows):
        try:
            own, left = read(ids, columns, eos_id=None if eos == "none" else eos)
        except ContradictionError:
            wrong.append(number)
            continue
        found += own
        numbers.update(left)
    return found, {name: int(number) for name, number in numbers.items() if number}, wrong


@settings(max_examples=examples(200), deadline=None)
@given(datasets())
def test_any_rows_are_the_same_in_every_format(tmp_path_factory, drawn):
    rows, names, eos = drawn
    rows, names = stated(rows, names)
    folder = tmp_path_factory.getbasetemp() / "any"
    read_documents, _, wrong = expected_of(rows, eos)
    if not any(document and document[-1][0] == eos for document in read_documents):
        eos = "none"  # a separator with which no sequence ends may be refused
    _, _, wrong = expected_of(rows, eos)
    if wrong and names:
        seen = {}
        for write in formats_of(rows, names):
            source = written(write, folder, rows, names)
            seen[write.__name__] = problems(source, eos)
            with pytest.raises(FormatError):
                tokfmt.stats(source, eos=eos)
        assert sum(seen["parquet"].values()) == len(wrong)
        assert len({tuple(sorted(one.items())) for one in seen.values()}) == 1, seen
    good, names = stated([row for number, row in enumerate(rows) if number not in wrong], names)
    read_documents, numbers, _ = expected_of(good, eos)
    if not any(read_documents) or not names:
        return
    wanted = {"input_ids": [[token for token, _ in one] for one in read_documents]}
    wanted["labels"] = [[token if count else -100 for token, count in one] for one in read_documents]
    warned = []
    for write in formats_of(good, names):
        source = written(write, folder, good, names)
        warned.append(warnings_of_padding(source))
        assert warned[-1] == warned[0], write
        told = tokfmt.stats(source, eos=eos).datasets[0]
        assert {name: n for name, n in told.columns.items() if "." not in name and name != "rows"} == numbers, write
        padding = sum(numbers.get(name, 0) for name in ("padding", "ended", "fill"))
        assert eos != "none" or (told.padding.count if told.padding else 0) == padding, write
        tokfmt.convert(source, folder / "out.parquet", eos=eos)
        found = pq.read_table(folder / "out.parquet").to_pydict()
        found.setdefault("labels", found["input_ids"])
        wanted = found if eos != "none" and write is parquet else wanted  # which knows what is a separator
        assert found == wanted, write


def test_rows_are_drawn_for_all_formats():
    assert formats_of([([1, 2, 3], {"labels": [1, 2, 3]})], ["labels"]) == [*RECORDS, mds, litdata, *ARRAYS]
    assert formats_of([([1], {"labels": None})], ["labels"]) == RECORDS
