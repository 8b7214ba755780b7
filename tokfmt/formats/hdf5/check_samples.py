"""Tests of samples: each tells which rows have something wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.hdf5.facts import Params
from tokfmt.formats.hdf5.scan import IGNORED, Ends
from tokfmt.formats.hdf5.table import Values

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Told:
    """What a test knows of the file beside the rows.

    Attributes:
        params: Of `data_params.json`.
        inverted: 1 in the mask row means padding.
    """

    params: Params
    inverted: bool


Test = Callable[[Values, Told], Flags]


def _inputs(values: Values) -> Values:
    return values[:, 0]


def _negative(values: Values, told: Told) -> Flags:  # noqa: ARG001
    wrong = (_inputs(values) < 0).any(axis=1)
    if values.shape[1] > 2:
        labels = values[:, 2]
        wrong |= ((labels < 0) & (labels != IGNORED)).any(axis=1)
    return np.asarray(wrong)


def _beyond(values: Values, told: Told) -> Flags:
    if told.params.vocab_size is None:
        return np.zeros(len(values), np.bool_)
    wrong = (_inputs(values) >= told.params.vocab_size).any(axis=1)
    if values.shape[1] > 2:
        wrong |= (values[:, 2] >= told.params.vocab_size).any(axis=1)
    return np.asarray(wrong)


def _mask_values(values: Values, told: Told) -> Flags:  # noqa: ARG001
    return np.asarray(((values[:, 1] != 0) & (values[:, 1] != 1)).any(axis=1))


def _inverted(values: Values, told: Told) -> Flags:
    """Samples whose mask starts with 0 and is 1 on a constant end, in a file where more say so than the contrary."""
    inputs, mask, labels = _three(values)
    flags = np.asarray((Ends(inputs, labels).run < mask.shape[1]) & (mask[:, 0] == 0) & (mask[:, -1] == 1))
    return flags & told.inverted


def _counted_padding(values: Values, told: Told) -> Flags:
    """A 1 after a 0 within the constant end of a sample."""
    inputs, mask, labels = _three(values)
    padding = np.arange(mask.shape[1]) >= Ends(inputs, labels).run[:, None]
    masked_before = np.maximum.accumulate(padding & (mask == 0), axis=1)
    return np.asarray((padding & masked_before & (mask == 1)).any(axis=1)) & ~_inverted(values, told)


def _nothing_counted(values: Values, told: Told) -> Flags:
    return np.asarray((values[:, 1] == int(told.inverted)).all(axis=1))


def _real(values: Values) -> Flags:
    """Positions that are not padding, and whose label is no padding either."""
    inputs, _, labels = _three(values)
    real = np.arange(inputs.shape[1]) < Ends(inputs, labels).run[:, None]
    if values.shape[1] == 5:
        real[:, :-1] &= values[:, 4, 1:] != 0  # the label at a segment's end belongs to another rule
    return real


def _unshifted(values: Values, told: Told) -> Flags:  # noqa: ARG001
    inputs, _, labels = _three(values)
    same = ((inputs == labels) | (labels == IGNORED)).all(axis=1)
    return np.asarray(same & ((labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED)).any(axis=1))


def _unlike(values: Values, told: Told) -> Flags:
    """Labels that are neither the next input, nor ignored, nor where the real tokens end."""
    inputs, mask, labels = _three(values)
    counted = (mask == 0) if told.inverted else (mask != 0)
    last = np.where(counted.any(axis=1), counted.shape[1] - np.argmax(counted[:, ::-1], axis=1), 0)
    inside = (np.arange(1, inputs.shape[1]) < last[:, None]) & _real(values)[:, :-1]
    wrong = (labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED) & inside
    return np.asarray(wrong.any(axis=1)) & ~_unshifted(values, told)


def _three(values: Values) -> tuple[Values, Values, Values]:
    return values[:, 0], values[:, 1], values[:, 2]


WARNINGS = ("TF338", "TF340")
TESTS: tuple[tuple[str, str, str, Test], ...] = (
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
    (
        "TF338",
        "counts nowhere: its mask says that all of it is left out",
        "It adds nothing to training",
        _nothing_counted,
    ),
    ("TF340", "has a mask that is 1 on padding (inverted_mask)", "Trainers take 1 as counted", _inverted),
)
