"""Rows of token IDs with the fields beside them: labels, loss masks, padding, and the starts of their documents.

    field             value for each ID of a row                  states
    labels            the ID, or -100                             which IDs count in the loss
    completion_mask   0 or 1; also assistant_masks, loss_mask     which IDs count in the loss
    attention_mask    0 or 1                                      padding at the ends of a row
    position_ids      from 0 in each document                     the starts of the documents of a packed row
    seq_lengths       not per ID: the length of each document     the same
    seq_start_id      not per ID: the start of each document      the same, with the loss_mask of Megatron-Bridge

Parquet, Arrow and JSON Lines read rows through `with_fields`, and `formats/example_records.py` reads one record at a
time. Every row whose fields do not fit its IDs, or contradict each other, is reported with its number: a reader raises
an error for the first one, and a check lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.loss_mask import (
    ALL,
    ATTENTION,
    BEGINS,
    COUNTING,
    IGNORED,
    LABELS,
    LENGTHS,
    LOSS_MASK,
    POSITIONS,
    STARTS,
    TARGET,
    Flags,
    which_of,
)
from tokfmt.core.padding import Contradictions, contradictions
from tokfmt.core.ragged import Offsets, Tokens, offsets_of

OTHER = 8
"""The bit of `IdRows.marks` of a token whose label is another ID."""


class IdRows(NamedTuple):
    """Consecutive rows of token IDs.

    Attributes:
        tokens: IDs of all sequences, joined.
        offsets: int64[sequences + 1]; sequence i is `tokens[offsets[i]:offsets[i + 1]]`.
        mask: uint8 per token, 1 if its label counts; None without labels or masks.
        labels: int64 per token, the ID to predict or -100; None without labels or masks.
        begins: bool per token, True at the first token of a document; None unless rows are packed.
        marks: uint8 per token, bits of `core.loss_mask`, and `OTHER` where a label is another ID than the token.
        odd: Number of sequences whose mask leaves out a token or whose labels hold another ID, and the first of them.
        excluded: Number of positions that `attention_mask` excludes: at the ends of rows, which are left out, and
            inside of rows, which are content that does not count in the loss.
        first: Index of the first sequence in the dataset.
        start: Position of the first token in the dataset.
        against: Rows whose masks contradict their padding, if they are compared.
    """

    tokens: Tokens
    offsets: Offsets
    mask: NDArray[np.uint8] | None = None
    labels: NDArray[np.int64] | None = None
    begins: Flags | None = None
    marks: NDArray[np.uint8] | None = None
    odd: tuple[int, int] = (0, -1)
    excluded: tuple[int, int] = (0, 0)
    first: int = 0
    start: int = 0
    against: Contradictions = Contradictions()

    def span(self, *, rows: bool) -> tuple[int, int]:
        """Return the first index and the end on the axis of sequences (`rows`) or of tokens."""
        if rows:
            return self.first, self.first + len(self.offsets) - 1
        return self.start, self.start + len(self.tokens)


class FieldOfRows(NamedTuple):
    """A field of rows: the values of row i are `values[offsets[i]:offsets[i + 1]]`, with int64[rows + 1] offsets."""

    values: NDArray[np.integer[Any]]
    offsets: Offsets


Values = Mapping[str, NDArray[np.integer[Any]]]


class Misfit(NamedTuple):
    """A row whose fields do not fit its IDs.

    Attributes:
        row: The row.
        problem: What is wrong with it, as "has labels of another length".
        expected: What fits; None if that is clear.
        found: What the row has; None likewise.
        remedy: What to do; "" if no other remedy is known than to correct the field.
    """

    row: int
    problem: str
    expected: object = None
    found: object = None
    remedy: str = ""


Report = Callable[[Misfit], object]
"""Receives each row that does not fit. The function of a reader raises an error."""


class Reading(NamedTuple):
    """How fields are read.

    Attributes:
        choice: The option `loss_mask`; see `loss_mask.mask_fields`.
        samples: Each row stays one sequence, instead of the documents in it.
        compares: Masks are compared with the padding, for `IdRows.against`.
    """

    choice: str | None = None
    samples: bool = False
    compares: bool = False


def with_fields(rows: IdRows, fields: Mapping[str, FieldOfRows], reading: Reading, report: Report) -> IdRows:
    """Return rows with what the fields beside them state.

    If `report` returns, what is returned of the row that it received is not what is stored: a row with a field of
    another length is empty.

    Args:
        rows: The rows, as they are stored.
        fields: The fields by name. With `seq_start_id`, that and `loss_mask` are read alone. Positions at both ends of
            rows that `attention_mask` excludes are left out.
        reading: How fields are read.
        report: Receives each row that does not fit, with every problem of its fields.
    """
    if not fields:
        return rows
    rows, fields = _of_equal_length(rows, fields, report)
    if STARTS in fields:
        return _packed(rows, fields[LOSS_MASK].values, fields[STARTS], report, samples=reading.samples)
    values: Values = {name: field.values for name, field in fields.items()}
    _report_other_flags(rows, values, report)
    if ATTENTION in fields:
        if {POSITIONS, LENGTHS}.isdisjoint(fields):
            problem = f"has an {ATTENTION} that numbers the documents packed in it"
            remedy = f"Write {POSITIONS} beside it, which divide rows, or 0 and 1"
            for row, _ in first_in_rows(rows.offsets, values[ATTENTION] > 1):
                report(Misfit(row, problem, "0 or 1", remedy=remedy))
        rows, values = _attended(rows, values, compares=reading.compares)
    if fields.keys() == {ATTENTION}:
        return rows
    lengths = fields[LENGTHS].offsets if LENGTHS in fields else None
    return _labeled(rows, values, lengths, reading, report)


def divided(rows: IdRows) -> IdRows:
    """Return packed rows that were read as samples as the documents in them."""
    begins = np.zeros(len(rows.tokens), np.bool_) if rows.begins is None else rows.begins
    return rows._replace(offsets=np.append(np.flatnonzero(begins), len(rows.tokens)))


def some_rows(rows: IdRows, first: int, last: int) -> IdRows:
    """Return the IDs and the marks of rows `first <= i < last`."""
    start, stop = int(rows.offsets[first]), int(rows.offsets[last])
    marks = None if rows.marks is None else rows.marks[start:stop]
    return IdRows(rows.tokens[start:stop], rows.offsets[first : last + 1] - start, marks=marks)


def row_at(offsets: Offsets, position: int) -> int:
    """Return the row that holds a position."""
    return int(np.searchsorted(offsets, position, side="right")) - 1


def first_in_rows(offsets: Offsets, wrong: Flags) -> Iterator[tuple[int, int]]:
    """Yield the number of each row in which a position is wrong, and the first of these positions.

    Args:
        offsets: int64[rows + 1]; row i has the positions `offsets[i] <= p < offsets[i + 1]`.
        wrong: bool per position.
    """
    positions = np.flatnonzero(wrong)
    rows, first = np.unique(np.searchsorted(offsets, positions, side="right") - 1, return_index=True)
    return zip(rows.tolist(), positions[first].tolist(), strict=True)


def _of_equal_length(
    rows: IdRows, fields: Mapping[str, FieldOfRows], report: Report
) -> tuple[IdRows, Mapping[str, FieldOfRows]]:
    """Report fields that do not have one value per token, and return the rows and the fields with these rows empty."""
    sizes = np.diff(rows.offsets)
    unequal = np.zeros(len(sizes), np.bool_)
    for name, (_, offsets) in fields.items():
        if name not in (LENGTHS, STARTS) and not np.array_equal(offsets, rows.offsets):
            found = np.diff(offsets)
            for row in np.flatnonzero(found != sizes).tolist():
                report(Misfit(row, f"has {name} of another length", int(sizes[row]), int(found[row])))
                unequal[row] = True
    return emptied(rows, fields, unequal) if unequal.any() else (rows, fields)


def emptied(rows: IdRows, fields: Mapping[str, FieldOfRows], empty: Flags) -> tuple[IdRows, Mapping[str, FieldOfRows]]:
    """Return IDs and fields without the values of some rows, which keep their numbers.

    Args:
        rows: The rows, as they are stored.
        fields: The fields by name.
        empty: bool per row, True for those without values.
    """
    tokens: Any
    tokens, offsets = _emptied(FieldOfRows(rows.tokens, rows.offsets), empty)
    return IdRows(tokens, offsets), {name: _emptied(field, empty) for name, field in fields.items()}


def _emptied(field: FieldOfRows, empty: Flags) -> FieldOfRows:
    """Return a field without the values of some of its rows."""
    sizes = np.diff(field.offsets)
    return FieldOfRows(field.values[np.repeat(~empty, sizes)], offsets_of(np.where(empty, 0, sizes)))


def _report_other_flags(rows: IdRows, values: Values, report: Report) -> None:
    """Report rows with masks that are neither 0 nor 1."""
    for name in COUNTING[1:]:
        if name in values:
            for row, at in first_in_rows(rows.offsets, (values[name] != 0) & (values[name] != 1)):
                report(other_value(row, name, int(rows.tokens[at]), int(values[name][at])))


def _attended(rows: IdRows, values: Values, *, compares: bool) -> tuple[IdRows, Values]:
    """Leave out the positions at both ends of rows that `attention_mask` excludes, in all fields."""
    attended = values[ATTENTION] != 0
    at, passed = np.flatnonzero(attended), offsets_of(attended)[rows.offsets]
    filled = np.diff(passed) > 0
    starts, stops = at[passed[:-1][filled]], at[passed[1:][filled] - 1] + 1
    edges = np.bincount(starts, minlength=len(attended) + 1) - np.bincount(stops, minlength=len(attended) + 1)
    inside = np.cumsum(edges)[:-1] > 0
    lengths = np.zeros(len(filled), np.int64)
    lengths[filled] = stops - starts
    offsets, counts = offsets_of(lengths), attended[inside]
    holes = np.diff(offsets_of(~counts)[offsets]) > 0
    trimmed = IdRows(
        rows.tokens[inside],
        offsets,
        marks=counts * np.uint8(TARGET),
        odd=_count_and_first(holes),
        excluded=(int(np.count_nonzero(~inside)), int(np.count_nonzero(~counts))),
        against=contradictions(rows.tokens, rows.offsets, values, inside) if compares else Contradictions(),
    )
    return trimmed, {name: field[inside] for name, field in values.items()}


def _labeled(rows: IdRows, values: Values, lengths: Offsets | None, reading: Reading, report: Report) -> IdRows:
    """Add the labels of Hugging Face to rows: each one moves from its token to the token before, which predicts it.

    Without a field of labels they are the tokens. A label is ignored where a mask is 0. Rows that hold several
    documents are divided; with `samples`, each row stays one sequence.

    Args:
        rows: The rows.
        values: The values of each field beside the tokens.
        lengths: Offsets of the lengths of the documents of each row; None without that field.
        reading: How fields are read.
        report: Receives a row that does not fit.
    """
    packed, starts = POSITIONS in values or LENGTHS in values, _starts(rows, values, lengths, report)
    documents = np.append(starts, len(rows.tokens))
    own, stated = values.get(LABELS, rows.tokens).astype(np.int64), _stated(values, starts, reading)
    if reading.choice != ALL:
        for first, second, differing in differences(stated):
            for row, at in first_in_rows(rows.offsets, differing):
                report(Misfit(row, differ(first, second, at - int(rows.offsets[row])), remedy=which_of(stated)))
    for counts in (*stated.values(), *([values[ATTENTION] != 0] if ATTENTION in values else [])):
        own[~counts] = IGNORED
    moved = np.full(len(rows.tokens), IGNORED, np.int64)
    moved[:-1] = own[1:]
    moved[documents[1:] - 1] = IGNORED
    marks = np.where(own == IGNORED, 0, np.where(own == rows.tokens, TARGET, OTHER)).astype(np.uint8)
    plain_labels = marks == TARGET
    if reading.samples:  # no token of a sample predicts its first token, but that of a document has one before it
        plain_labels[starts] = True
    offsets = documents if packed and not reading.samples else rows.offsets
    odd = np.diff(offsets_of(~plain_labels)[offsets]) > 0
    begins = None
    if packed:
        begins = np.zeros(len(rows.tokens), np.bool_)
        begins[starts] = True
        marks |= begins * np.uint8(BEGINS if reading.samples else 0)
    mask = (moved != IGNORED).astype(np.uint8)
    return rows._replace(
        offsets=offsets, mask=mask, labels=moved, begins=begins, marks=marks, odd=_count_and_first(odd)
    )


def _starts(rows: IdRows, values: Values, lengths: Offsets | None, report: Report) -> Offsets:
    """Return where documents begin; see `_labeled`."""
    if POSITIONS in values:
        return _starts_of_positions(rows, values[POSITIONS], report)
    if lengths is not None:
        return _starts_of_lengths(rows, values[LENGTHS], lengths, report)
    return rows.offsets[:-1][np.diff(rows.offsets) > 0]


def _stated(values: Values, starts: Offsets, reading: Reading) -> dict[str, Flags]:
    """Return which tokens count in the loss, by the name of each field that states it."""
    stated = {name: values[name] != (IGNORED if name == LABELS else 0) for name in COUNTING if name in values}
    if reading.choice == "next":
        for counts in stated.values():
            counts[1:] = counts[:-1].copy()
            counts[starts] = False
    return stated


def differences(stated: Mapping[str, Flags]) -> Iterator[tuple[str, str, Flags]]:
    """Yield the first field with each one that counts other positions, and a flag at these positions."""
    names = list(stated)
    for name in names[1:]:
        differing = stated[name] != stated[names[0]]
        if differing.any():
            yield names[0], name, differing


def differ(first: str, second: str, position: int) -> str:
    """Return the words for two fields of a record that contradict each other at a token."""
    return f"has {first} and {second} that differ: only one of them counts its token {position:,} in the loss"


def other_value(row: int, name: str, token: int, value: int) -> Misfit:
    """Return what is wrong with a row whose labels are other IDs than its tokens, or whose mask is neither 0 nor 1.

    Args:
        row: The row.
        name: The name of the labels or of the mask.
        token: The ID.
        value: The value beside it.
    """
    if name == LABELS:
        return Misfit(row, f"has {LABELS} that are other IDs than its tokens", f"{token} or {IGNORED}", value)
    return Misfit(row, f"has a value in {name} that is not 0 or 1", None, value)


def _starts_of_positions(rows: IdRows, positions: NDArray[np.integer[Any]], report: Report) -> Offsets:
    """Return where documents begin: at the first token of a row, and where a position is 0."""
    begins = positions == 0
    begins[rows.offsets[:-1][np.diff(rows.offsets) > 0]] = True
    other = ~begins & (np.diff(positions, prepend=0) != 1)
    problem = f"has {POSITIONS} that neither go on by 1 nor begin again at 0"
    for row, at in first_in_rows(rows.offsets, other):
        report(Misfit(row, problem, int(positions[at - 1]) + 1, int(positions[at])))
    return np.flatnonzero(begins)


def _starts_of_lengths(rows: IdRows, lengths: NDArray[np.integer[Any]], bounds: Offsets, report: Report) -> Offsets:
    """Return where documents begin, by the lengths of the documents of each row."""
    sizes = np.diff(rows.offsets)
    sums = np.diff(offsets_of(lengths)[bounds])
    wrong = (sums != sizes) | (np.diff(offsets_of((lengths <= 0).view(np.uint8))[bounds]) > 0)
    if not wrong.any():
        return offsets_of(lengths)[:-1]
    problem = f"has {LENGTHS} that are not those of its documents"
    for row in np.flatnonzero(wrong).tolist():
        report(Misfit(row, problem, f"a sum of {sizes[row]:,}", f"{sums[row]:,}"))
    own = _emptied(FieldOfRows(lengths, bounds), wrong)
    before = rows.offsets[:-1] - offsets_of(np.where(wrong, 0, sizes))[:-1]  # tokens of wrong rows
    starts = offsets_of(own.values)[:-1] + np.repeat(before, np.diff(own.offsets))
    return np.union1d(starts, rows.offsets[:-1][sizes > 0])


def _odd(mask: NDArray[np.uint8], offsets: Offsets) -> tuple[int, int]:
    """Return the number of sequences with a token that does not count, and the first; the last token is ignored."""
    counted = offsets_of(mask)
    lengths = np.diff(offsets)
    last = np.where(lengths > 0, mask[np.maximum(offsets[1:] - 1, 0)] if len(mask) else 0, 0)
    return _count_and_first(np.diff(counted[offsets]) - last < lengths - 1)


def _count_and_first(odd: NDArray[np.bool_]) -> tuple[int, int]:
    return int(odd.sum()), int(np.argmax(odd)) if odd.any() else -1


def _packed(
    rows: IdRows, masks: NDArray[np.integer[Any]], starts: FieldOfRows, report: Report, *, samples: bool
) -> IdRows:
    """Add the masks and the boundaries of packed rows; with `samples`, each row stays one sequence."""
    lengths, count = np.diff(rows.offsets), np.diff(starts.offsets)
    first = starts.values.astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), count)
    opens = np.zeros(len(first), np.bool_)
    opens[starts.offsets[:-1][count > 0]] = True
    wrong = (count == 0) & (lengths > 0)
    for lacking in np.flatnonzero(wrong).tolist():
        report(Misfit(lacking, "has no seq_start_id", "0", "nothing"))
    for problem, expected, flags in (
        ("has a seq_start_id that does not begin with 0", "0", opens & (first != 0)),
        ("has a seq_start_id that decreases", "at least the one before", ~opens & (np.diff(first, prepend=0) < 0)),
        ("has a seq_start_id at or beyond its end", "less than its tokens", first >= lengths[row]),
    ):
        for number, at in first_in_rows(starts.offsets, flags):
            if not wrong[number]:
                report(Misfit(number, problem, expected, int(first[at])))
                wrong[number] = True
    places = rows.offsets[row] + first
    if wrong.any():
        places = np.union1d(places[~wrong[row]], rows.offsets[:-1][wrong & (lengths > 0)])
    mask = (masks != 0).astype(np.uint8)
    begins = np.zeros(len(mask), np.bool_)
    begins[places] = True
    documents = np.append(places, len(rows.tokens))
    ends = np.zeros(len(mask), np.bool_)
    ends[documents[1:][documents[1:] > 0] - 1] = True
    labels = np.where((mask != 0) & ~ends, np.append(rows.tokens[1:], 0), IGNORED).astype(np.int64)
    offsets = rows.offsets if samples else documents
    marks = np.append(np.zeros(1, np.uint8), mask)[:-1] * TARGET
    marks[places] = BEGINS if samples else 0
    return IdRows(rows.tokens, offsets, mask, labels, begins, marks, _odd(mask, documents))
