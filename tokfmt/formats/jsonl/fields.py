"""The fields beside the token IDs of records: labels, masks, padding, and starts of the documents of packed rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from tokfmt.core.loss_mask import ALL, ATTENTION, IGNORED, LABELS, TARGET
from tokfmt.core.ragged import offsets_of
from tokfmt.core.row_fields import OTHER, FieldOfRows, IdRows, Misfit, Reading, Report, first_in_rows, with_fields
from tokfmt.formats.jsonl.lines import Lines
from tokfmt.formats.jsonl.parse import Fault, Parsed, kind_of
from tokfmt.formats.jsonl.part import First

CODE = "TF520"
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WITHOUT = "--allow-loss loss-mask reads records without labels and masks"


def rows_of(
    lines: Lines,
    parsed: Parsed,
    first: First,
    masks: Sequence[str] | None,
    choice: str | None,
    unfit: Callable[[int, Fault], object],
) -> IdRows:
    """Return the IDs of lines with what the fields beside them state. Packed rows are not divided.

    Args:
        lines: The lines.
        parsed: Their IDs.
        first: What the first record shows.
        masks: Which of its fields of labels and masks are read; None: none, because a user accepts their loss.
        choice: The option `loss_mask`.
        unfit: Receives the line, by its index, of each record whose fields are missing or do not fit its IDs.
    """
    tokens = array("I")  # Four times as fast as numpy.fromiter.
    for ids in parsed.values:
        tokens.fromlist(ids)
    rows = IdRows(np.asarray(tokens, np.uint32), offsets_of([len(ids) for ids in parsed.values]))
    names = [name for name in first.beside if name in (masks or ()) or name not in first.masks]
    if not names:
        return rows
    indexes = parsed.indexes(len(lines))

    def report(misfit: Misfit) -> None:
        expected, found = (None if value is None else str(value) for value in (misfit.expected, misfit.found))
        remedy = misfit.remedy or ("Correct that field" + (f"; {_WITHOUT}" if masks else ""))
        unfit(indexes[misfit.row], Fault(misfit.problem, 0, found, remedy, expected, code=CODE))

    fields = _fields(lines, indexes, names, report)
    rows = with_fields(rows, fields, Reading(choice, samples=first.is_packed), report)
    if rows.marks is None:
        return rows
    for row, at in first_in_rows(rows.offsets, rows.marks & OTHER != 0) if masks else ():
        problem, label = "has labels that are other IDs than its tokens", None
        if ATTENTION not in fields:
            labels = fields[LABELS]
            label = int(labels.values[int(labels.offsets[row]) + at - int(rows.offsets[row])])
        report(Misfit(row, problem, f"{rows.tokens[at]} or {IGNORED}", label))
    if rows.excluded[1] and masks is not None and not first.masks:
        remedy = f"--from-opt loss_mask={ALL} reads these as content that does not count in the loss"
        for row, _ in first_in_rows(rows.offsets, rows.marks & TARGET == 0):
            report(Misfit(row, f"has an {ATTENTION} that excludes IDs inside of it, not at its ends", remedy=remedy))
    return rows


def _fields(lines: Lines, indexes: Sequence[int], names: Sequence[str], report: Report) -> dict[str, FieldOfRows]:
    """Return fields of lines; report one that is not a list of whole numbers."""
    values = {name: array("q") for name in names}
    lengths: dict[str, list[int]] = {name: [] for name in names}
    for row, index in enumerate(indexes):
        try:
            fields: dict[str, Any] = _RAW.decode(lines[index])
            fields = {name: json.loads(bytes(fields[name])) for name in names if name in fields}
        except (msgspec.DecodeError, UnicodeDecodeError):  # NaN or lone surrogates in another field
            fields = json.loads(lines[index])
        for name in names:
            listed, before = fields.get(name), len(values[name])
            if not isinstance(listed, list):
                report(Misfit(row, f"has no list {name}", found=kind_of(listed)))
            else:
                try:
                    values[name].fromlist(listed)
                except (TypeError, OverflowError):
                    other = next(value for value in listed if type(value) not in (int, bool) or abs(value) >> 63)
                    problem = f"has a value in {name} that is not a whole number of 64 bits"
                    report(Misfit(row, problem, found=str(other)))
            lengths[name].append(len(values[name]) - before)
    return {name: FieldOfRows(np.asarray(values[name], np.int64), offsets_of(lengths[name])) for name in names}
