"""Compare the masks of rows with their padding, which is what attention or segments exclude at the ends of documents.

A check of any format of rows does so (`model.rows.Reading.compares`), and yields `findings_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding
from tokfmt.core.loss_mask import IGNORED, LABELS, LOSS_MASK, MASKS
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.files.place import PlaceLike


class Places(NamedTuple):
    """Rows with a position of one kind."""

    rows: int = 0  # number of these rows
    row: int = -1  # first of them; -1 without one
    position: int = -1  # first such position

    def joined(self, later: Places, before: int) -> Places:
        """Return the sum of these and of later rows, whose numbers begin after `before` rows."""
        if self.rows or not later.rows:
            return self._replace(rows=self.rows + later.rows)
        return later._replace(row=later.row + before)


class Contradictions(NamedTuple):
    """Rows whose masks contradict their padding."""

    rows: int = 0  # that were read
    content: Places = Places()  # of which several IDs are excluded at the ends of documents
    counted: Places = Places()  # whose labels or loss mask count padding

    def joined(self, later: Contradictions) -> Contradictions:
        """Return the sum of these rows and the rows that follow them."""
        return Contradictions(
            self.rows + later.rows,
            self.content.joined(later.content, self.rows),
            self.counted.joined(later.counted, self.rows),
        )


def findings_of(code: str, path: PlaceLike, against: Contradictions, *, whole: bool) -> Iterator[Finding]:
    """Yield the findings of masks that contradict the padding. With `whole`, these are all rows of the file."""
    of = f"of {against.rows:,} rows" if whole else f"of the first {against.rows:,} rows"
    for places, what, remedy in (
        (
            against.content,
            "the IDs that are excluded as padding differ",
            "Write 1 in attention_mask on content and 0 on padding: tokfmt leaves out what it excludes at the ends",
        ),
        (
            against.counted,
            "labels or a loss mask count excluded padding",
            "Write -100 as the labels of padding, and 0 as its loss mask",
        ),
    ):
        if places.rows:
            where = f"(first: row {places.row:,}, position {places.position:,})"
            yield Finding(code, "warning", str(path), f"{what} in {places.rows:,} {of} {where}", remedy)


def contradictions(
    tokens: Tokens, offsets: Offsets, values: Mapping[str, NDArray[np.integer[Any]]], padding: NDArray[np.bool_]
) -> Contradictions:
    """Compare rows that are read together. A row of which several IDs are padding is content. The IDs of the rows are
    joined; row i is `tokens[offsets[i]:offsets[i + 1]]`. `padding` is True at positions that are excluded at the ends
    of documents.
    """
    places = np.flatnonzero(padding)
    if not len(places):
        return Contradictions(len(offsets) - 1)
    rows = np.searchsorted(offsets, places, "right") - 1
    last = np.append(rows[1:] != rows[:-1], True)
    content = places[tokens[places] != tokens[places[last]][np.cumsum(last) - last]]
    counted = np.zeros(len(tokens), np.bool_)
    if LABELS in values:
        counted |= values[LABELS] != IGNORED
    for name in MASKS:
        if name in values:
            counted |= values[name] != 0
    if LOSS_MASK in values:  # It may speak of the next token, the first after padding.
        goes_on = np.append(padding[1:], True)
        goes_on[offsets[1:][offsets[1:] > 0] - 1] = True
        counted |= (values[LOSS_MASK] != 0) & goes_on[: len(tokens)]
    return Contradictions(len(offsets) - 1, _places(content, offsets), _places(places[counted[places]], offsets))


def _places(positions: NDArray[np.int64], offsets: Offsets) -> Places:
    if not len(positions):
        return Places()
    marked = np.zeros(int(offsets[-1]), np.uint8)
    marked[positions] = 1
    row = int(np.searchsorted(offsets, positions[0], "right")) - 1
    rows = int(np.count_nonzero(np.diff(offsets_of(marked)[offsets])))
    return Places(rows, row, int(positions[0] - offsets[row]))
