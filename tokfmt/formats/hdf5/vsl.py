"""Packed sequences (VSL): several segments in a row, told apart by position_ids and attention_span.

A segment starts where position_ids is 0; its length is attention_span there plus 1. Padding is mask 0, span 0 and
position 0. Two rules for labels are in use, and only the tokens tell which:

    per segment   labels shift inside each segment: T = its inputs and the label after the last one
    whole pack    labels shift over the whole row: the label after a segment is the next one's first input, so T is its
                  inputs alone, and only the last segment of a row has a label of its own at the end
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.runs import Pieces
from tokfmt.formats.hdf5.scan import Tally, check_ids_of
from tokfmt.formats.hdf5.table import Values

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Segments:
    """The segments of all rows, in order; arrays of one value a segment.

    Attributes:
        begins: int64, position of the first input among all inputs.
        inputs: int32, how many there are.
        closes: bool, the last one of its row.
        end_input, end_label: Its last input, and the label there.
        odd: Rows with a mask that is not 1 on all segments, or with labels that are not the next tokens.
        whole_pack: The label rule.
    """

    begins: NDArray[np.int64]
    inputs: NDArray[np.int32]
    closes: Flags
    end_input: Values
    end_label: Values
    odd: Tally
    whole_pack: bool


def scan_segments(rows: Rows) -> Segments:
    """Find all segments in one pass.

    Raises:
        CorruptError: Positions and spans of a row are not ramps.
    """
    found, odd, at, packed, inner = [], Tally(), 0, 0, 0
    for part, wrong, (yes, of) in rows.map(lambda first, values: look_for_segments(rows, first, values)):
        found.append(part)
        odd.add(wrong, at)
        at, packed, inner = at + len(wrong), packed + yes, inner + of
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    begins, inputs, closes, end_input, end_label = columns
    return Segments(begins, inputs, closes, end_input, end_label, odd, whole_pack=2 * packed > inner)


def pieces_of(segments: Segments, eos_id: int | None) -> Pieces:
    """The segments as runs of one piece each, without the separator at the end of those that have it."""
    tail = segments.closes.copy() if segments.whole_pack else np.ones(len(segments.begins), np.bool_)
    lengths = segments.inputs + tail.astype(np.int32)
    if eos_id is not None:
        ends = np.where(tail, segments.end_label, segments.end_input) == eos_id
        lengths -= ends.astype(np.int32)
        tail &= ~ends
    return Pieces(segments.begins, 0, lengths, tail, np.ones(len(lengths), np.bool_))


Part = tuple[NDArray[np.int64], NDArray[np.int32], Flags, Values, Values]


def look_for_segments(rows: Rows, base: int, values: Values) -> tuple[Part, Flags, tuple[int, int]]:
    """Segments of some rows; which rows are odd; how many inner segments end with the next one's first input."""
    inputs, mask, labels = (np.ascontiguousarray(values[:, k]).reshape(-1) for k in range(3))
    span, position = (np.ascontiguousarray(values[:, k]).reshape(-1).astype(np.int64) for k in (3, 4))
    check_ids_of(rows, base, values[:, 0])
    width = rows.width
    begins = np.flatnonzero((position == 0) & ((mask != 0) | (span != 0)))
    lengths = span[begins] + 1
    _check_fit(rows, base, begins, lengths)
    covered = np.repeat(np.arange(len(begins)), lengths)
    ramp = np.arange(len(covered)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    where = begins[covered] + ramp
    expected_position, expected_span = np.zeros_like(position), np.zeros_like(span)
    expected_position[where] = ramp
    expected_span[where] = lengths[covered] - 1 - ramp
    wrong = (expected_position != position) | (expected_span != span)
    if wrong.any():
        raise _no_ramps(rows, base + int(np.argmax(wrong)) // width)
    ends = begins + lengths - 1
    row_of = begins // width
    closes = np.append(row_of[1:] != row_of[:-1], [True])[: len(begins)]
    real = np.zeros(len(inputs), np.bool_)
    real[where] = True
    odd = mask != real
    inside = where[where != ends[covered]]
    odd[inside] |= labels[inside] != inputs[inside + 1]
    inner = np.flatnonzero(~closes)
    packed = int(np.count_nonzero(labels[ends[inner]] == inputs[begins[inner + 1]]))
    part = (begins + base * width, lengths.astype(np.int32), closes, inputs[ends], labels[ends])
    return part, odd.reshape(-1, width).any(axis=1), (packed, len(inner))


def _check_fit(rows: Rows, base: int, begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Every segment ends in its row and before the next one begins."""
    limits = (begins // rows.width + 1) * rows.width
    if len(begins) > 1:
        limits[:-1] = np.minimum(limits[:-1], begins[1:])
    wrong = (lengths < 1) | (lengths > limits - begins)
    if wrong.any():
        raise _no_ramps(rows, base + int(begins[np.argmax(wrong)]) // rows.width)


def _no_ramps(rows: Rows, row: int) -> CorruptError:
    path, local, offset = rows.place(row)
    return CorruptError(
        path, f"sample {local:,}: position_ids and attention_span do not describe segments", offset=offset,
        expected="positions from 0 up and spans down to 0", remedy="--from-opt view=samples reads the rows as they are",
    )  # fmt: skip
