"""Compare the masks of rows with their padding, which is what `attention_mask` excludes at the ends of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.loss_mask import IGNORED, LABELS, LOSS_MASK, MASKS
from tokfmt.core.ragged import Offsets, Tokens, offsets_of


class Places(NamedTuple):
    """Rows with a position of one kind.

    Attributes:
        rows: The number of these rows.
        row: The first of them; -1 without one.
        position: Its first such position.
    """

    rows: int = 0
    row: int = -1
    position: int = -1

    def joined(self, later: Places, before: int) -> Places:
        """Return the sum of these and of later rows, whose numbers begin after `before` rows."""
        if self.rows or not later.rows:
            return self._replace(rows=self.rows + later.rows)
        return later._replace(row=later.row + before)


class Contradictions(NamedTuple):
    """Rows whose masks contradict their padding.

    Attributes:
        rows: The number of rows that were read.
        content: Rows of which `attention_mask` excludes other IDs than the padding at an end.
        counted: Rows whose labels or loss mask count padding.
    """

    rows: int = 0
    content: Places = Places()
    counted: Places = Places()

    def joined(self, later: Contradictions) -> Contradictions:
        """Return the sum of these rows and the rows that follow them."""
        return Contradictions(
            self.rows + later.rows,
            self.content.joined(later.content, self.rows),
            self.counted.joined(later.counted, self.rows),
        )


def contradictions(
    tokens: Tokens, offsets: Offsets, values: Mapping[str, NDArray[np.integer[Any]]], kept: NDArray[np.bool_]
) -> Contradictions:
    """Compare rows that are read together.

    The padding ID is the one at most of the excluded positions. Without one, a row of which several IDs are excluded
    is content.

    Args:
        tokens: The IDs of the rows, joined.
        offsets: int64[rows + 1]; row i is `tokens[offsets[i]:offsets[i + 1]]`.
        values: The columns beside them.
        kept: False at positions that `attention_mask` excludes at the ends of rows.
    """
    padding = np.flatnonzero(~kept)
    if not len(padding):
        return Contradictions(len(offsets) - 1)
    ids, counts = np.unique(tokens[padding], return_counts=True)
    if 2 * counts.max() > len(padding):
        content = padding[tokens[padding] != ids[np.argmax(counts)]]
    else:
        rows = np.searchsorted(offsets, padding, "right") - 1
        _, first, own = np.unique(rows, return_index=True, return_inverse=True)
        others = np.bincount(own, tokens[padding] != tokens[padding[first]][own])
        content = padding[others[own] > 0]
    counted = np.zeros(len(tokens), np.bool_)
    if LABELS in values:
        counted |= values[LABELS] != IGNORED
    for name in MASKS:
        if name in values:
            counted |= values[name] != 0
    if LOSS_MASK in values:  # It may speak of the next token, the first after padding.
        counted[:-1] |= (values[LOSS_MASK][:-1] != 0) & ~kept[1:]
        counted[-1:] |= values[LOSS_MASK][-1:] != 0
    return Contradictions(len(offsets) - 1, _places(content, offsets), _places(padding[counted[padding]], offsets))


def _places(positions: NDArray[np.int64], offsets: Offsets) -> Places:
    if not len(positions):
        return Places()
    marked = np.zeros(int(offsets[-1]), np.uint8)
    marked[positions] = 1
    row = int(np.searchsorted(offsets, positions[0], "right")) - 1
    rows = int(np.count_nonzero(np.diff(offsets_of(marked)[offsets])))
    return Places(rows, row, int(positions[0] - offsets[row]))
