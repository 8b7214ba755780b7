"""The fields beside the token IDs of records: labels, masks, padding, and starts of the documents of packed rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tokfmt.core.loss_mask import COUNTING, LABELS, LOSS_MASK, OTHER
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.formats.jsonl.lines import Lines
from tokfmt.formats.jsonl.parse import ABSENT, Fault, Parsed, kind_of
from tokfmt.formats.jsonl.part import First
from tokfmt.model.rows import Column, IdRows, Misfit, Reading, Report, first_in_rows, other_value, with_columns

CODE = "TF520"
OPTIONS = {name: f"loss_mask={'own' if name == LOSS_MASK else name}" for name in COUNTING}
"""How each column of labels or masks is asked for."""
_WITHOUT = "--allow-loss loss-mask reads records without labels and masks"


def rows_of(
    lines: Lines,
    parsed: Parsed,
    first: First,
    masks: Sequence[str] | None,
    choice: str | None,
    eos_id: int | None,
    unfit: Callable[[int, Fault], object],
    *,
    compares: bool = False,
) -> IdRows:
    """Return the IDs of lines with what the fields beside them state, but for labels and masks that are not in `masks`;
    None: a user accepts their loss.
    """
    tokens = array("I")  # Four times as fast as numpy.fromiter.
    for ids in parsed.values:
        tokens.fromlist(ids)
    ids, offsets = np.asarray(tokens, np.uint32), offsets_of([len(one) for one in parsed.values])
    names = [name for name in first.columns if name in parsed.columns or name in first.announced]
    if masks is None:  # Labels show padding, too. Where they do not fit, they are as good as absent.
        names = [name for name in names if name not in COUNTING or (name == LABELS and name in parsed.columns)]
    if not names:
        return IdRows(ids, offsets)
    indexes = parsed.indexes(len(lines))

    def report(misfit: Misfit) -> None:
        expected, found = (None if value is None else str(value) for value in (misfit.expected, misfit.found))
        remedy = misfit.remedy or ("Correct that field" + (f"; {_WITHOUT}" if masks else ""))
        unfit(indexes[misfit.row], Fault(misfit.problem, 0, found, remedy, expected, code=CODE))

    columns = _fields(parsed, names, report, offsets if masks is None else None)
    for name, column in columns.items():
        if name in COUNTING and masks is not None and name not in masks:
            remedy = f"--from-opt {OPTIONS[name]} reads it where it is, and counts all IDs of records without it"
            for row in np.flatnonzero(np.asarray(column.there)).tolist():
                report(Misfit(row, f"has {name}, and the first record has none", remedy=f"{remedy}; {_WITHOUT}"))
    reading = Reading(choice, False, compares, eos_id=eos_id, pairs=first.are_completions, option="ids_field")
    rows = with_columns(ids, offsets, columns, reading, report)
    if rows.marks is None or rows.counts is None:
        return rows
    for misfit in _unexpected(rows, rows.offsets[offsets_of(rows.counts)], first, masks):
        report(misfit)
    return rows


def _unexpected(rows: IdRows, bounds: Offsets, first: First, masks: Sequence[str] | None) -> Iterator[Misfit]:
    """Yield rows whose fields say what the first record does not announce."""
    marks = np.zeros(0, np.uint8) if rows.marks is None else rows.marks
    for row, at in first_in_rows(bounds, marks & OTHER != 0) if masks else ():
        label = None if rows.own is None else int(rows.own[at])
        yield other_value(row, LABELS, int(rows.tokens[at]), label)
    if rows.counts is not None and not first.is_packed:
        for row in np.flatnonzero(rows.counts != 1).tolist():
            remedy = "Put such a record first, or write each document as a record"
            yield Misfit(row, "holds several documents, and the first record has no column of them", remedy=remedy)


def _fields(parsed: Parsed, names: Sequence[str], report: Report, accepted: Offsets | None) -> dict[str, Column]:
    """Return columns of records; report a value that is not a list of whole numbers."""
    return {name: _column(parsed, name, report, accepted if name == LABELS else None) for name in names}


def _column(parsed: Parsed, name: str, report: Report, accepted: Offsets | None) -> Column:
    count = len(parsed.values)
    values, lengths, there = array("q"), list[int](), np.zeros(count, np.bool_)
    for row, raw in enumerate(parsed.columns.get(name, [ABSENT] * count)):
        listed, before = None if raw is ABSENT else json.loads(bytes(raw)), len(values)
        if accepted is not None:
            size = int(accepted[row + 1] - accepted[row])
            fits = isinstance(listed, list) and all(type(value) is int for value in listed) and len(listed) == size
            listed = listed if fits else None
        there[row] = listed is not None
        if listed is not None and not isinstance(listed, list):
            report(Misfit(row, f"has no list {name}", found=kind_of(listed)))
        elif listed is not None:
            try:
                values.fromlist(listed)
            except (TypeError, OverflowError):
                other = next(value for value in listed if type(value) not in (int, bool) or abs(value) >> 63)
                problem = f"has a value in {name} that is not a whole number of 64 bits"
                report(Misfit(row, problem, found=str(other)))
        lengths.append(len(values) - before)
    return Column(np.asarray(values), offsets_of(lengths), there)
