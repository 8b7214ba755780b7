"""What the samples themselves can have wrong, looked at in a few places of each file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import FormatError
from tokfmt.core.format import Finding
from tokfmt.formats.hdf5.container import Stored
from tokfmt.formats.hdf5.facts import Params
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.scan import IGNORED, Ends
from tokfmt.formats.hdf5.table import Values
from tokfmt.formats.hdf5.vsl import look_for_segments

_LOOK = 64
_LOOK_TOKENS = 1 << 14

Flags = NDArray[np.bool_]


def content_findings(stored: Stored, params: Params) -> Iterator[Finding]:
    """What is wrong with the first, middle and last rows of a file."""
    table, seen_eos, looks = stored.table, False, []
    look = _LOOK if stored.rank == 3 else _LOOK_TOKENS
    starts = sorted({0, max(0, len(table) // 2 - look // 2), max(0, len(table) - look)})
    for first in starts:
        try:
            values = table.read(first, min(len(table), first + look))
        except FormatError as error:
            yield Finding("TF331", "error", str(stored.path), error.what, error.remedy or "", error.offset)
            continue
        looks.append((first, values))
        seen_eos |= bool((values[:, [0, -1 if stored.rank == 1 else 2]] == params.eos_id).any())
    for code, text, remedy, test in _TESTS if stored.rank == 3 else _TESTS[:2]:
        for first, values in looks:
            flags = test(values, params)
            if flags.any():
                row = first + int(np.argmax(flags))
                where = f"sample {row:,}" if stored.rank == 3 else f"token {row:,}"
                severity = "warning" if code in _WARNINGS else "error"
                yield Finding(code, severity, str(stored.path), f"{where} {text}", remedy, table.offset(row))
                break
    if stored.rank == 3 and stored.shape[1] == 5:
        yield from _segments(stored, looks)
    if params.eos_id is not None and looks and not seen_eos:
        text = f"the separator {params.eos_id} is nowhere where it was looked for"
        yield Finding("TF341", "warning", str(stored.path), text, "Documents cannot be told apart; see --eos")


def _segments(stored: Stored, looks: list[tuple[int, Values]]) -> Iterator[Finding]:
    rows = Rows([stored.table])
    for first, values in looks:
        try:
            look_for_segments(rows, first, values)
        except FormatError as error:
            if "negative" not in error.what:  # TF332 says that
                yield Finding("TF339", "error", str(stored.path), error.what, error.remedy or "", error.offset)
            return


def _inputs(values: Values) -> Values:
    return values[:, 0]


def _negative(values: Values, params: Params) -> Flags:  # noqa: ARG001
    wrong = (_inputs(values) < 0).any(axis=1)
    if values.shape[1] > 2:
        labels = values[:, 2]
        wrong |= ((labels < 0) & (labels != IGNORED)).any(axis=1)
    return np.asarray(wrong)


def _beyond(values: Values, params: Params) -> Flags:
    if params.vocab_size is None:
        return np.zeros(len(values), np.bool_)
    wrong = (_inputs(values) >= params.vocab_size).any(axis=1)
    if values.shape[1] > 2:
        wrong |= (values[:, 2] >= params.vocab_size).any(axis=1)
    return np.asarray(wrong)


def _mask_values(values: Values, params: Params) -> Flags:  # noqa: ARG001
    return np.asarray(((values[:, 1] != 0) & (values[:, 1] != 1)).any(axis=1))


def _inverted(values: Values, params: Params) -> Flags:  # noqa: ARG001
    """Samples whose mask starts with 0 and is 1 on a constant end, when more say so than the contrary."""
    inputs, mask, labels = _three(values)
    ends = Ends(inputs, labels)
    loss, inverted = ends.votes(mask)
    flags = np.asarray((ends.run < mask.shape[1]) & (mask[:, 0] == 0) & (mask[:, -1] == 1))
    return flags if inverted > loss else np.zeros(len(values), np.bool_)


def _counted_padding(values: Values, params: Params) -> Flags:
    """A 1 after a 0 within the constant end of a sample."""
    inputs, mask, labels = _three(values)
    padding = np.arange(mask.shape[1]) >= Ends(inputs, labels).run[:, None]
    masked_before = np.maximum.accumulate(padding & (mask == 0), axis=1)
    return np.asarray((padding & masked_before & (mask == 1)).any(axis=1)) & ~_inverted(values, params)


def _nothing_counted(values: Values, params: Params) -> Flags:
    return np.asarray(~(values[:, 1] != 0).any(axis=1)) & ~_any_inverted(values, params)


def _any_inverted(values: Values, params: Params) -> Flags:
    return np.full(len(values), bool(_inverted(values, params).any()))


def _real(values: Values) -> Flags:
    """Positions that are not padding, and whose label is no padding either."""
    inputs, _, labels = _three(values)
    real = np.arange(inputs.shape[1]) < Ends(inputs, labels).run[:, None]
    if values.shape[1] == 5:
        real[:, :-1] &= values[:, 4, 1:] != 0  # the label at a segment's end belongs to another rule
    return real


def _unshifted(values: Values, params: Params) -> Flags:  # noqa: ARG001
    inputs, _, labels = _three(values)
    same = ((inputs == labels) | (labels == IGNORED)).all(axis=1)
    return np.asarray(same & ((labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED)).any(axis=1))


def _unlike(values: Values, params: Params) -> Flags:
    """Labels that are neither the next input, nor ignored, nor where the real tokens end."""
    inputs, mask, labels = _three(values)
    counted = (mask == 0) if bool(_inverted(values, params).any()) else (mask != 0)
    last = np.where(counted.any(axis=1), counted.shape[1] - np.argmax(counted[:, ::-1], axis=1), 0)
    inside = (np.arange(1, inputs.shape[1]) < last[:, None]) & _real(values)[:, :-1]
    wrong = (labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED) & inside
    return np.asarray(wrong.any(axis=1)) & ~_unshifted(values, params)


def _three(values: Values) -> tuple[Values, Values, Values]:
    return values[:, 0], values[:, 1], values[:, 2]


_WARNINGS = ("TF338", "TF340")
_TESTS: tuple[tuple[str, str, str, Any], ...] = (
    ("TF332", "has a negative id", "Write the file again", _negative),
    ("TF333", "has an id beyond the vocabulary of data_params.json", "Check the tokenizer", _beyond),
    ("TF334", "has other values than 0 and 1 in its mask", "Fractional loss weights become 0 in int32", _mask_values),
    ("TF335", "counts padding: its mask is 1 again after padding began", "Write the file again", _counted_padding),
    (
        "TF336",
        "repeats input_ids as labels, not shifted by one",
        "Shift them: labels[k] = input_ids[k + 1]",
        _unshifted,
    ),
    ("TF337", "has a label that is not the next input", "Write the file again", _unlike),
    ("TF338", "counts nowhere: its mask is all zeros", "It adds nothing to training", _nothing_counted),
    ("TF340", "has a mask that is 1 on padding (inverted_mask)", "Trainers take 1 as counted", _inverted),
)
