"""The fields beside the token IDs of records: labels, masks, padding, and starts of the documents of packed rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from tokfmt.core.loss_mask import ALL, ATTENTION, LABELS, TARGET
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.formats.jsonl.lines import Lines
from tokfmt.formats.jsonl.parse import Fault, Parsed, kind_of
from tokfmt.formats.jsonl.part import First
from tokfmt.model.rows import OTHER, Column, IdRows, Misfit, Reading, Report, first_in_rows, other_value, with_columns

CODE = "TF520"
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WITHOUT = "--allow-loss loss-mask reads records without labels and masks"


def rows_of(
    lines: Lines,
    parsed: Parsed,
    first: First,
    masks: Sequence[str] | None,
    choice: str | None,
    eos_id: int | None,
    unfit: Callable[[int, Fault], object],
) -> IdRows:
    """Return the IDs of lines with what the fields beside them state.

    Args:
        lines: The lines.
        parsed: Their IDs.
        first: What the first record shows.
        masks: Which of its fields of labels and masks are read; None: none, because a user accepts their loss.
        choice: The option `loss_mask`.
        eos_id: The separator, if it is known.
        unfit: Receives the line, by its index, of each record whose fields are missing or do not fit its IDs.
    """
    tokens = array("I")  # Four times as fast as numpy.fromiter.
    for ids in parsed.values:
        tokens.fromlist(ids)
    ids, offsets = np.asarray(tokens, np.uint32), offsets_of([len(one) for one in parsed.values])
    names = [name for name in first.beside if name in (masks or ()) or name not in first.masks]
    if masks is None and LABELS in first.beside:
        names.append(LABELS)  # They show padding. Where they do not fit, they are as good as absent.
    if not names:
        return IdRows(ids, offsets)
    indexes = parsed.indexes(len(lines))

    def report(misfit: Misfit) -> None:
        expected, found = (None if value is None else str(value) for value in (misfit.expected, misfit.found))
        remedy = misfit.remedy or ("Correct that field" + (f"; {_WITHOUT}" if masks else ""))
        unfit(indexes[misfit.row], Fault(misfit.problem, 0, found, remedy, expected, code=CODE))

    rows = with_columns(
        ids,
        offsets,
        _fields(lines, indexes, names, report, None if masks else offsets),
        Reading(choice, eos_id=eos_id),
        report,
    )
    if rows.marks is None or rows.counts is None:
        return rows
    for misfit in _unexpected(rows, rows.offsets[offsets_of(rows.counts)], first, masks):
        report(misfit)
    return rows


def _unexpected(rows: IdRows, bounds: Offsets, first: First, masks: Sequence[str] | None) -> Iterator[Misfit]:
    """Yield rows whose fields say what the first record does not announce.

    Args:
        rows: The rows.
        bounds: Their offsets in what is left of them.
        first: What the first record shows.
        masks: As in `rows_of`.
    """
    marks = np.zeros(0, np.uint8) if rows.marks is None else rows.marks
    for row, at in first_in_rows(bounds, marks & OTHER != 0) if masks else ():
        label = None if rows.labels is None or not at else int(rows.labels[at - 1])  # it is beside the token before
        yield other_value(row, LABELS, int(rows.tokens[at]), label)
    if rows.facts.inside and masks is not None and not first.masks:
        remedy = f"--from-opt loss_mask={ALL} reads these as content that does not count in the loss"
        for row, _ in first_in_rows(bounds, marks & TARGET == 0):
            yield Misfit(row, f"has an {ATTENTION} that excludes IDs inside of it, not at its ends", remedy=remedy)
    if rows.counts is not None and not first.is_packed:
        for row in np.flatnonzero(rows.counts != 1).tolist():
            yield Misfit(row, f"has an {ATTENTION} that numbers its documents, and the first record has not")


def _fields(
    lines: Lines, indexes: Sequence[int], names: Sequence[str], report: Report, accepted: Offsets | None
) -> dict[str, Column]:
    """Return fields of lines; report one that is not a list of whole numbers.

    Args:
        lines: The lines.
        indexes: The index of the line of each row.
        names: The names of the fields.
        report: Receives each field that is not such a list.
        accepted: The offsets of the IDs, if labels that do not fit them are accepted as absent.
    """
    values = {name: array("q") for name in names}
    lengths: dict[str, list[int]] = {name: [] for name in names}
    there = {name: np.ones(len(indexes), np.bool_) for name in names}
    for row, index in enumerate(indexes):
        try:
            fields: dict[str, Any] = _RAW.decode(lines[index])
            fields = {name: json.loads(bytes(fields[name])) for name in names if name in fields}
        except (msgspec.DecodeError, UnicodeDecodeError):  # NaN or lone surrogates in another field
            fields = json.loads(lines[index])
        for name in names:
            listed, before = fields.get(name), len(values[name])
            if name == LABELS and accepted is not None:
                size = int(accepted[row + 1] - accepted[row])
                fits = isinstance(listed, list) and all(type(value) is int for value in listed) and len(listed) == size
                listed = listed if fits else None
            if listed is None:
                there[name][row] = False
            elif not isinstance(listed, list):
                report(Misfit(row, f"has no list {name}", found=kind_of(listed)))
            else:
                try:
                    values[name].fromlist(listed)
                except (TypeError, OverflowError):
                    other = next(value for value in listed if type(value) not in (int, bool) or abs(value) >> 63)
                    problem = f"has a value in {name} that is not a whole number of 64 bits"
                    report(Misfit(row, problem, found=str(other)))
            lengths[name].append(len(values[name]) - before)
    return {name: Column(np.asarray(values[name]), offsets_of(lengths[name]), there[name]) for name in names}
