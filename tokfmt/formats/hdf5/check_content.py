"""What the samples themselves can have wrong, looked at in a few places of each file, or everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tokfmt.core.audit import Audit
from tokfmt.core.axis import windows
from tokfmt.core.errors import FormatError
from tokfmt.core.format import Finding
from tokfmt.formats.hdf5.check_samples import TESTS, WARNINGS, Told
from tokfmt.formats.hdf5.container import Stored
from tokfmt.formats.hdf5.facts import Params
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.scan import Ends, Tally
from tokfmt.formats.hdf5.table import Table, Values
from tokfmt.formats.hdf5.vsl import look_for_segments

_LOOK = 64
_LOOK_TOKENS = 1 << 14
_VALUES = 1 << 20  # at once
_MOST = 100
_FULL = 8  # samples without padding, to tell whether separators stand only at their ends
_AT_ENDS = 0.05


@dataclass(slots=True)
class Seen:
    """What was found in some rows, or in all that were looked at.

    Attributes:
        tallies: Of each test, by code.
        damaged: What could not be decoded.
        segments: What is wrong with packed sequences.
        loss, inverted: Samples that speak for either meaning of the mask.
        separators: Rows that hold the separator as an input or as a label.
        full, inside, at_end: Samples without padding; separators among their inputs; samples of them whose last label
            is the separator.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    damaged: list[FormatError] = field(default_factory=list)
    segments: FormatError | None = None
    loss: int = 0
    inverted: int = 0
    separators: int = 0
    full: int = 0
    inside: int = 0
    at_end: int = 0

    def add(self, other: Seen) -> None:
        """Take up what the next rows have."""
        for code, tally in other.tallies.items():
            mine = self.tallies.setdefault(code, Tally())
            mine.first = mine.first if mine.count else tally.first
            mine.count += tally.count
        known = {error.offset for error in self.damaged}
        self.damaged += [error for error in other.damaged if error.offset not in known]
        self.segments = self.segments or other.segments
        for name in ("loss", "inverted", "separators", "full", "inside", "at_end"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def content_findings(stored: Stored, params: Params, eos_id: int | None, how: Audit) -> Iterator[Finding]:
    """What is wrong with the first, middle and last rows of a file, or with all.

    Args:
        stored: The file; it holds a row at least.
        params: Of `data_params.json`.
        eos_id: The separator, if it is known.
        how: How thoroughly.
    """
    table = stored.table
    places = _places(stored)
    votes = Seen()
    if stored.rank == 3:
        for cut in places:
            votes.add(_votes(table, cut))
    told = Told(params, inverted=votes.inverted > votes.loss)
    together = max(1, min(_VALUES // (table.shape[1] * table.shape[2]), len(table)), min(table.rows_together, _LOOK))
    cuts = windows(0, len(table), together) if how.deep else iter(places)

    def look(cut: tuple[int, int]) -> Seen:
        seen = _look(stored, told, eos_id, cut)
        how.advance((cut[1] - cut[0]) * table.shape[2])
        return seen

    seen = Seen()
    for part in how.spread(look, cuts):
        seen.add(part)
        del seen.damaged[_MOST:]
    yield from _worded(stored, seen, deep=how.deep)
    yield from _separators(stored, eos_id, seen, deep=how.deep)


def _places(stored: Stored) -> list[tuple[int, int]]:
    """The first, middle and last rows, as many as fit into bounded memory."""
    count, (_, fields, width) = len(stored.table), stored.table.shape
    look = max(1, min(_LOOK, _VALUES // (fields * width))) if stored.rank == 3 else _LOOK_TOKENS
    starts = sorted({0, max(0, count // 2 - look // 2), max(0, count - look)})
    stops = [*(min(a + look, b) for a, b in zip(starts, starts[1:], strict=False)), min(starts[-1] + look, count)]
    return list(zip(starts, stops, strict=True))


def _votes(table: Table, cut: tuple[int, int]) -> Seen:
    try:
        values = table.read(*cut)
    except FormatError:  # `_look` says so
        return Seen()
    loss, inverted = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
    return Seen(loss=loss, inverted=inverted)


def _look(stored: Stored, told: Told, eos_id: int | None, cut: tuple[int, int]) -> Seen:
    """Some rows. Those that do not decode are found one by one."""
    first, last = cut
    try:
        values = stored.table.read(first, last)
    except FormatError as error:
        if last - first == 1:
            return Seen(damaged=[error])
        seen, middle = Seen(), (first + last) // 2
        for half in ((first, middle), (middle, last)):
            if len(seen.damaged) < _MOST:
                seen.add(_look(stored, told, eos_id, half))
        return seen
    seen = Seen()
    for code, _, _, test in TESTS if stored.rank == 3 else TESTS[:2]:
        tally = seen.tallies[code] = Tally()
        tally.add(test(values, told), first)
    if stored.rank == 3:
        seen.loss, seen.inverted = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
    if stored.rank == 3 and stored.shape[1] == 5:
        seen.segments = _segments(stored, first, values)
    if eos_id is not None:
        _look_for_separators(seen, values, eos_id, told)
    return seen


def _segments(stored: Stored, first: int, values: Values) -> FormatError | None:
    try:
        look_for_segments(Rows([stored.table]), first, values)
    except FormatError as error:
        return None if "negative" in error.what else error  # TF332 says that
    return None


def _look_for_separators(seen: Seen, values: Values, eos_id: int, told: Told) -> None:
    if values.shape[1] == 1:
        seen.separators = int(np.count_nonzero(values == eos_id))
        return
    inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
    seen.separators = int(np.count_nonzero((inputs == eos_id).any(axis=1) | (labels == eos_id).any(axis=1)))
    full = ((mask == 0) if told.inverted else (mask != 0)).all(axis=1)
    seen.full = int(np.count_nonzero(full))
    seen.inside = int(np.count_nonzero(inputs[full] == eos_id))
    seen.at_end = int(np.count_nonzero(labels[full, -1] == eos_id))


def _worded(stored: Stored, seen: Seen, *, deep: bool) -> Iterator[Finding]:
    name = str(stored.path)
    for error in seen.damaged:
        yield Finding("TF331", "error", name, error.what, error.remedy or "", error.offset)
    for code, text, remedy, _ in TESTS:
        tally = seen.tallies.get(code)
        if tally is None or not tally.count:
            continue
        unit = "sample" if stored.rank == 3 else "token"
        more = f" (and {tally.count - 1:,} more {unit}s)" if deep and tally.count > 1 else ""
        severity = "warning" if code in WARNINGS else "error"
        yield Finding(
            code, severity, name, f"{unit} {tally.first:,} {text}{more}", remedy, stored.table.offset(tally.first)
        )
    if seen.segments is not None:
        yield Finding("TF339", "error", name, seen.segments.what, seen.segments.remedy or "", seen.segments.offset)
    if seen.loss and seen.inverted:
        text = f"{seen.inverted:,} samples have a mask that is 1 on padding, {seen.loss:,} one that is 0 there"
        yield Finding("TF343", "error", name, text, "Files of two writers were mixed: write it again")


def _separators(stored: Stored, eos_id: int | None, seen: Seen, *, deep: bool) -> Iterator[Finding]:
    if eos_id is None or len(seen.damaged) >= len(stored.table):
        return
    name, where = str(stored.path), "" if deep else " where it was looked for"
    if not seen.separators:
        text = f"the separator {eos_id} is nowhere{where}"
        yield Finding("TF341", "warning", name, text, "Documents cannot be told apart; see --eos")
    elif seen.full >= _FULL and not seen.inside and seen.at_end >= _AT_ENDS * seen.full:
        text = (
            f"the separator {eos_id} stands only at the ends of samples ({seen.at_end:,} of {seen.full:,}){where}: "
            "documents were packed without one between them"
        )
        yield Finding("TF342", "warning", name, text, "Documents cannot be told apart; see --explain TF342")
