"""Read samples as arrays.

    input_ids      int32[n, seq_len], or int64
    labels         the same dtype and shape, -100 where no label counts in the loss
    loss_mask      uint8[n, seq_len], 1 where the label counts
    position_ids   int32[n, seq_len], from 0 in each part of a sample
    document_ids   int32[n, seq_len], the number of the part in its sample; -1 in padding
    cu_seqlens     int32[n, seq_len + 1], the positions at which parts begin, then seq_len

A part (in the code: piece) is the part of one sequence in a sample; padding is the last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import nearest
from tokfmt.core.loss_mask import IGNORED, padding_of
from tokfmt.core.reader import INT32_MAX, TokenReader, smallest
from tokfmt.errors import OptionError, TokenRangeError
from tokfmt.mix.language import RecipeFile
from tokfmt.mix.packing import Packing, Run, StoredSamples

FIELDS = ("input_ids", "labels", "loss_mask", "position_ids", "document_ids", "cu_seqlens")
_PIECEWISE = {"position_ids", "document_ids", "cu_seqlens"}

Ids = type[np.int32] | type[np.int64]
"""The dtypes that input_ids and labels may have."""
PackedSample = tuple[Packing, int]
"""A packing, and the number of one of its samples."""


def check_fields(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of fields as a tuple."""
    fields = (names,) if isinstance(names, str) else tuple(names)
    for name in fields:
        if name not in FIELDS:
            listed = ", ".join(FIELDS)
            raise OptionError(f"samples have no field {name!r} (they have {listed})", nearest=nearest(name, FIELDS))
    return fields


class Grid:
    """The tokens of some samples, one row per sample."""

    def __init__(self, samples: Sequence[PackedSample], recipe: RecipeFile, pad: int, dtype: np.dtype[Any]) -> None:
        """Read samples; if all files have one dtype, `dtype` is it, so that no token is converted."""
        # samples: the packing and the number of each
        self.samples, self.recipe, self.width, self.pad = samples, recipe, recipe.seq_len or 1, pad
        # [n, width + 1], with one more if the last label is read; padding elsewhere
        self.tokens: NDArray[Any] = np.empty((len(samples), self.width + 1), dtype)
        masked = any(packing.axis.masked for packing, _ in samples) and recipe.pack != "stored"
        # uint8[n, width + 1], 1 where a token counts as a target; None without loss masks, and for stored samples
        self.marks = np.ones(self.tokens.shape, np.uint8) if masked else None
        self.filled: list[int] = []  # positions of each row before its padding
        self.runs: list[Sequence[Run]] = []  # of each sample
        self._ends: list[int] = []  # flat indexes of labels that are not the next token of the row
        self._last: list[int] = []  # the values of these labels
        for row, (packing, sample) in enumerate(samples):
            self._fill(row, packing, sample)
        if dtype.itemsize > 2 and self.tokens.size and int(self.tokens.max()) > INT32_MAX:
            raise TokenRangeError("recipe", int(self.tokens.max()), INT32_MAX, 0, "Samples are int32")

    def _fill(self, row: int, packing: Packing, sample: int) -> None:
        line, axis, runs = self.tokens[row], packing.axis, packing.runs(sample)
        marks = None if self.marks is None else self.marks[row]
        base, end = row * self.width, 0
        for column, start, length, more in runs:
            end = column + length
            axis.read(start, start + length + more, line[column : end + more])
            if marks is not None:
                axis.read_marks(start, start + length + more, marks[column : end + more])
            if not packing.inner:
                self._ends.append(base + end - 1)
                self._last.append(int(line[end]) if more and (marks is None or marks[end]) else IGNORED)
        if packing.inner and not (more and end == self.width):
            self._ends.append(base + end - 1)
            self._last.append(int(line[end]) if more and (marks is None or marks[end]) else IGNORED)
        if end < self.width or not more:
            line[end:] = self.pad
        self.filled.append(self._real(packing, sample) if isinstance(packing, StoredSamples) else end)
        self.runs.append(runs)

    def _real(self, packing: StoredSamples, sample: int) -> int:
        """Return the number of positions of a stored row before its padding."""
        reader, start = row_of(packing, sample)
        padding = padding_of(reader, start, start + self.width)
        return self.width - (0 if padding is None else int(np.count_nonzero(padding)))

    @property
    def rows(self) -> NDArray[Any]:
        """[n, width], the tokens of samples as they are stored; these are the labels under `starts`."""
        return self.tokens[:, : self.width]

    def inputs(self) -> NDArray[Any]:
        """Return the input IDs, [n, width], in the dtype of the files."""
        if self.recipe.convention != "starts":
            return self.rows
        lead = self.recipe.lead
        inputs = np.full(self.rows.shape, self.pad, np.promote_types(self.tokens.dtype, smallest(lead)))
        inputs[:, 1:] = self.tokens[:, : self.width - 1]
        inputs.reshape(-1)[self.begins()] = lead
        self._pad(inputs, self.pad)
        return inputs

    def labels(self, dtype: Ids = np.int32) -> NDArray[Any]:
        """Return the labels, [n, width], in a signed dtype."""
        convention = self.recipe.convention
        if self.recipe.pack == "stored":
            return self._stored_labels(dtype)
        if convention in ("starts", "same"):
            rows = self.rows.astype(dtype)
            if self.marks is not None:
                rows[self.marks[:, : self.width] == 0] = IGNORED
            if convention == "same" and not all(packing.inner for packing, _ in self.samples):
                rows.reshape(-1)[self.begins()] = IGNORED  # the model shifts labels, and another part is before it
        else:
            rows = self.tokens[:, 1:].astype(dtype)
            if self.marks is not None:
                rows[self.marks[:, 1:] == 0] = IGNORED
            if self._ends:
                rows.reshape(-1)[self._ends] = self._last
        self._pad(rows, IGNORED)
        return rows

    def _pad(self, rows: NDArray[Any], value: int) -> None:
        for row, end in enumerate(self.filled):
            if end < self.width:
                rows[row, end:] = value

    def mask(self) -> NDArray[np.uint8]:
        """Return the loss mask, uint8[n, width]: 1 where the label counts."""
        mask: NDArray[np.uint8] = np.not_equal(self.labels(), IGNORED).view(np.uint8)
        return mask

    def _stored_labels(self, dtype: Ids) -> NDArray[Any]:
        """Return the labels of stored samples.

        Stored labels are -100 where the stored mask is 0. Without stored labels, they are the IDs, and -100 where the
        loss mask of the ID is 0.
        """
        labels_of_rows = np.empty(self.rows.shape, dtype)
        for row, (packing, sample) in enumerate(self.samples):
            reader, start = row_of(packing, sample)
            if reader.has_labels:
                labels_of_rows[row] = reader.next_labels(start, start + self.width)
                continue
            labels_of_rows[row] = self.rows[row]
            if packing.axis.masked:
                marks = np.empty(self.width, np.uint8)
                packing.axis.read_marks(sample * self.width, (sample + 1) * self.width, marks)
                labels_of_rows[row][marks == 0] = IGNORED
            if self.recipe.convention == "next":
                labels_of_rows[row, :-1], labels_of_rows[row, -1] = labels_of_rows[row, 1:].copy(), IGNORED
        return labels_of_rows

    def begins(self) -> NDArray[np.int64]:
        """Return the flat indexes at which parts begin, ascending: those of rows, inner sequences and padding."""
        width = self.width
        parts = [np.arange(len(self.samples), dtype=np.int64) * width]
        parts.append(np.array([k * width + end for k, end in enumerate(self.filled) if end < width], np.int64))
        starts, columns, bases, packings = list[int](), list[int](), list[int](), set[Packing]()
        for row, ((packing, sample), runs) in enumerate(zip(self.samples, self.runs, strict=True)):
            base = row * width
            if isinstance(packing, StoredSamples):
                parts.append(self._inside(row, packing, sample) + base)
                continue
            parts.append(np.array([base + run.column for run in runs[1:] if run.length], np.int64))
            if packing.inner and len(runs) == 1:
                starts.append(runs[0].start)
                columns.append(runs[0].length)
                bases.append(base)
                packings.add(packing)
        for packing in packings:
            mine = [k for k, base in enumerate(bases) if self.samples[base // width][0] is packing]
            a, n, first_columns = (np.array([values[k] for k in mine], np.int64) for values in (starts, columns, bases))
            parts.append(_inner(packing.axis.starts.array, a, a + n, first_columns))
        return np.unique(np.concatenate(parts))

    def _inside(self, row: int, packing: StoredSamples, sample: int) -> NDArray[np.int64]:
        """Return where documents begin inside a stored row: as its reader reports, or after each separator."""
        reader, start = row_of(packing, sample)
        if reader is not None and reader.has_begins:
            return np.flatnonzero(reader.begins(start, start + self.width))
        eos = reader.info.eos_id
        if eos is None:
            return np.empty(0, np.int64)
        ends = np.flatnonzero(self.rows[row] == eos) + 1
        return ends[ends < self.width]

    def piecewise(self, names: Iterable[str]) -> dict[str, NDArray[np.int32]]:
        """Return the fields that start over in each part."""
        begins, fields = self.begins(), dict[str, NDArray[np.int32]]()
        count, width = len(self.samples), self.width
        lengths = np.diff(begins, append=count * width)
        rows = begins // width
        inside = np.arange(len(begins)) - np.searchsorted(rows, np.arange(count))[rows]  # number in its row
        if "position_ids" in names:
            positions = np.arange(count * width, dtype=np.int32)
            positions -= np.repeat(begins.astype(np.int32), lengths)
            fields["position_ids"] = positions.reshape(count, width)
        if "document_ids" in names:
            documents = np.repeat(inside.astype(np.int32), lengths).reshape(count, width)
            self._pad(documents, -1)
            fields["document_ids"] = documents
        if "cu_seqlens" in names:
            bounds = np.full((count, width + 1), width, np.int32)
            bounds[rows, inside] = begins - rows * width
            fields["cu_seqlens"] = bounds
        return fields


def _inner(
    bounds: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the flat indexes of bounds inside intervals of the axis; `begins` has the flat index of each interval."""
    low = np.searchsorted(bounds, starts, side="right")
    counts = np.searchsorted(bounds, stops, side="left") - low
    before = np.cumsum(counts) - counts
    which = np.repeat(low - before, counts) + np.arange(int(counts.sum()))
    return bounds[which] - np.repeat(starts - begins, counts)


def row_of(packing: Packing, sample: int) -> tuple[Any, int]:
    """Return the reader of a stored row, and the position in it at which the row begins."""
    source = packing.axis.to_source(sample * packing.axis.width)
    return sampled_beneath(*source) if source else (None, 0)


def sampled_beneath(reader: TokenReader, position: int) -> tuple[TokenReader, int]:
    """Return the reader with masks and labels under joins and selections, and the position in it."""
    inner: tuple[TokenReader, int] | None = reader, position
    while inner is not None and not inner[0].has_labels:
        inner = inner[0].to_source(inner[1])
    return inner or (reader, position)


def arrays(grid: Grid, names: Sequence[str], dtype: Ids = np.int32) -> Mapping[str, NDArray[Any]]:
    """Return fields by name; `dtype` is the dtype of input_ids and labels."""
    fields: dict[str, NDArray[Any]] = {}
    piecewise = grid.piecewise(names) if not _PIECEWISE.isdisjoint(names) else {}
    for name in names:
        if name == "input_ids":
            fields[name] = grid.inputs().astype(dtype)
        elif name == "labels":
            fields[name] = grid.labels(dtype)
        elif name == "loss_mask":
            fields[name] = grid.mask()
        else:
            fields[name] = piecewise[name]
    return fields
