"""Samples as they lie: input_ids as a token axis, mask and labels beside it, where VSL segments begin."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, check_interval, check_position, windows
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.runs import Told, unsigned
from tokfmt.formats.hdf5.scan import Ends, check_ids_of
from tokfmt.formats.hdf5.table import Values

_STORED = np.dtype(np.int64)
_PLACES = 64
"""Places at which samples are looked at to tell what their mask means."""


class Samples:
    """The input_ids of every sample, `width` tokens each, padding included.

    The rows that were read last are kept, so that mask and labels of the same window cost nothing more.
    """

    def __init__(self, rows: Rows, told: Told) -> None:
        self.rows = rows
        self._info = told.info(np.dtype(f"u{rows.dtype.itemsize}"), len(rows), len(rows) * rows.width)
        self._kept: tuple[int, Values] | None = None

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.arange(first, last + 1, dtype=np.int64) * self.rows.width

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._column(start, stop, 0, self._info.dtype)

    def _column(self, start: int, stop: int, field: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """One field of the rows, from position to position."""
        check_interval(start, stop, self._info.tokens)
        out, width = np.empty(stop - start, dtype), self.rows.width
        for a, b in windows(start // width, -(-stop // width) if stop > start else start // width, self.rows.together):
            values = self._rows(a, b)[:, field]
            if not field:
                check_ids_of(self.rows, a, values)
                values = unsigned(values)
            left, right = max(start, a * width), min(stop, b * width)
            out[left - start : right - start] = values.reshape(-1)[left - a * width : right - a * width]
        return out

    def _rows(self, first: int, last: int) -> Values:
        """Rows `first <= i < last`: those that were read last, or read and kept."""
        kept = self._kept
        if kept is None or not kept[0] <= first <= last <= kept[0] + len(kept[1]):
            kept = self._kept = first, self.rows.read(first, last)
        return kept[1][first - kept[0] : last - kept[0]]

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        row, column = divmod(position, self.rows.width)
        return self.rows.value_place(row, 0, column)

    def position(self, path: Path, offset: int) -> int | None:
        found = self.rows.region(path, offset)
        inside = found is not None and 0 in found.fields
        return found.rows.start * self.rows.width + found.columns.start if found and inside else None

    def close(self) -> None:
        self._kept = None
        self.rows.close()

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_kept": None}


class MaskedSamples(Samples):
    """Samples with mask and labels.

    Args:
        rows: Of three fields or five.
        told: Facts for Info.
        mask: "loss" or "inverted" when that is known; "auto" looks at some samples the first time it matters.
    """

    def __init__(self, rows: Rows, told: Told, mask: str) -> None:
        super().__init__(rows, told)
        self._mask = mask

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """1 where the label counts, whatever the file's polarity; other values than 0 and 1 (loss weights) count."""
        mask = self._column(start, stop, 1, _STORED)
        counted: NDArray[np.uint8] = ((mask == 0) if self.inverted else (mask != 0)).astype(np.uint8)
        return counted

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Labels as stored."""
        return self._column(start, stop, 2, _STORED)

    @property
    def inverted(self) -> bool:
        """Whether 1 in the mask row means padding, by what most of the samples looked at say.

        Looked at: up to 64 spread over the dataset, and the last of up to 64 files, which are the likeliest to be
        padded. Where none is padded, samples that count nowhere speak for an inverted mask: a mask of zeros alone
        would make them useless.
        """
        if self._mask == "auto":
            loss, inverted, zeros, ones = 0, 0, 0, 0
            for row in self._looked_at():
                values = self.rows.read(row, row + 1)
                votes = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
                loss, inverted = loss + votes[0], inverted + votes[1]
                zeros, ones = zeros + (not values[:, 1].any()), ones + bool(values[:, 1].any())
            self._mask = "inverted" if inverted > loss or (inverted == loss and zeros > ones) else "loss"
        return self._mask == "inverted"

    def _looked_at(self) -> list[int]:
        count = len(self.rows)
        spread = np.linspace(0, count - 1, min(count, _PLACES)).astype(np.int64).tolist()
        ends = [b - 1 for a, b in itertools.pairwise(self.rows.starts.tolist()) if a < b]
        return sorted({*spread, *ends[:: max(1, -(-len(ends) // _PLACES))]})


class PackedSamples(MaskedSamples):
    """VSL: samples of several segments, which position_ids tell apart."""

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Where a segment begins: position 0 that is not padding, which has mask 0 and span 0."""
        positions, spans, mask = (self._column(start, stop, field, _STORED) for field in (4, 3, 1))
        begins: NDArray[np.bool_] = (positions == 0) & ((mask != 0) | (spans != 0))
        return begins
