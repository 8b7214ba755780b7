"""Token axes over rows: pieces of input rows put together to runs, and corpora.

A *piece* is a part of one row's input_ids, with or without the label after its last token. A *run* is one or more
pieces that continue each other: a stream, or a document. No document goes on from one run to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Layout, Separators, TokenReader, check_interval, check_position, frozen, windows
from tokfmt.core.dtypes import smallest
from tokfmt.core.errors import CorruptError, UnsupportedError
from tokfmt.core.filling import Filled, Filling
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.scan import IGNORED, check_ids_of
from tokfmt.formats.hdf5.table import Values
from tokfmt.views.separated import WithSeparators

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a dataset beside its tokens, as in `axis.Info`."""

    layout: Layout
    separators: Separators = Separators.NONE
    sample_length: int | None = None
    eos_id: int | None = None
    eos_from: str = ""
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extras: Mapping[str, object] = field(default_factory=frozen)

    def info(self, dtype: np.dtype[Any], sequences: int, tokens: int) -> Info:
        """With what the rows have shown."""
        return Info(
            layout=self.layout,
            dtype=dtype,
            sequences=sequences,
            tokens=tokens,
            sample_length=self.sample_length,
            separators=self.separators,
            eos_id=self.eos_id,
            eos_from=self.eos_from,
            inferred=self.inferred,
            notes=self.notes,
            extras=self.extras,
        )


@dataclass(frozen=True, slots=True)
class Pieces:
    """Which tokens of the rows make up the axis, in order; a piece never leaves its row.

    Attributes:
        begins: int64[pieces], position of the first input of each among all inputs (row * width + column); None when
            piece i is row i from column `skip` on.
        skip: Inputs left out at the start of each row, when `begins` is None.
        lengths: int32[pieces], tokens in each, the label included.
        tail: bool[pieces], whether the last token is the label after the last input.
        opens: bool[pieces], whether a run begins here.
    """

    begins: NDArray[np.int64] | None
    skip: int
    lengths: NDArray[np.int32]
    tail: Flags
    opens: Flags


class Runs:
    """The tokens of pieces. Picklable, shared by threads.

    Args:
        rows: Where they are.
        pieces: Which ones.
        ignored: What an ignored label (-100) at the end of a piece stands for; None if nobody knows.
        plain: Samples are checked while reading to be plain (mask 1 on what is real, labels the next tokens), because
            nobody has looked at them before.
        told: Facts for Info.
        padding: Inputs of the rows that hold nothing.
    """

    def __init__(
        self, rows: Rows, pieces: Pieces, *, ignored: int | None, plain: bool, told: Told, padding: int
    ) -> None:
        self.rows, self.ignored, self.plain, self.padding = rows, ignored, plain, padding
        self._begins, self._skip, self._tail = pieces.begins, pieces.skip, pieces.tail
        self._offsets = offsets_of(pieces.lengths)
        openings = np.flatnonzero(pieces.opens)
        if len(openings) == len(pieces.opens):
            self._runs = self._offsets
        else:
            self._runs = np.append(self._offsets[openings], self._offsets[-1])
        dtype = np.dtype(f"u{rows.dtype.itemsize}")
        if ignored is not None:
            dtype = np.promote_types(dtype, smallest(ignored))
        self._info = told.info(dtype, len(self._runs) - 1, int(self._offsets[-1]))

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._runs[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        out = np.empty(stop - start, self._info.dtype)
        if start == stop:
            return out
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop, side="left"))
        for a, b in windows(self._row(first), self._row(last - 1) + 1, self.rows.together):
            low, high = max(first, self._piece_from(a)), min(last, self._piece_from(b))
            base, end = int(self._offsets[low]), int(self._offsets[high])
            tokens = self._assembled(self.rows.read(a, b), a, low, high)
            left, right = max(start, base), min(stop, end)
            out[left - start : right - start] = tokens[left - base : right - base]
        return out

    def filling(self) -> Filling:
        """The padding of the rows; see `core.filling`."""
        return Filling(self.padding, len(self.rows) * self.rows.width)

    def _row(self, piece: int) -> int:
        return piece if self._begins is None else int(self._begins[piece]) // self.rows.width

    def _piece_from(self, row: int) -> int:
        """The first piece of a row or of one after it."""
        return row if self._begins is None else int(np.searchsorted(self._begins, row * self.rows.width))

    def _assembled(self, values: Values, row: int, low: int, high: int) -> Tokens:
        """The tokens of pieces `low <= i < high`, all of which lie in `values`, the rows from `row` on."""
        inputs, labels, width = values[:, 0], values[:, 2], self.rows.width
        check_ids_of(self.rows, row, inputs)
        lengths, tail = np.diff(self._offsets[low : high + 1]), self._tail[low:high]
        if self.plain:
            self._check_plain(values, row, lengths - tail)
        if self._begins is None and not self._skip and bool((lengths - tail == width).all()) and not tail.any():
            return unsigned(inputs.reshape(-1))
        if self._begins is None:
            begins = np.arange(low - row, high - row, dtype=np.int64) * width + self._skip
        else:
            begins = self._begins[low:high] - row * width
        ends = np.cumsum(lengths)
        index = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
        tailed = np.flatnonzero(tail)
        index[ends[tailed] - 1] -= 1  # a tail is the label of the input before it, and may lie beyond the inputs
        out = unsigned(inputs.reshape(-1)[index])
        closing = labels.reshape(-1)[begins[tailed] + lengths[tailed] - 2]
        out = out.astype(self._info.dtype, copy=False)
        out[ends[tailed] - 1] = self._labels(closing, row + (begins[tailed] + lengths[tailed] - 2) // width)
        return out

    def _labels(self, labels: Values, rows: NDArray[np.int64]) -> Tokens:
        """Labels as ids: an ignored one stands for the separator (or padding)."""
        if labels.dtype.kind == "u" or not len(labels) or int(labels.min()) >= 0:
            return unsigned(labels)
        wrong = np.flatnonzero(labels < 0)
        for k in wrong[labels[wrong] != IGNORED][:1].tolist():
            path, local, offset = self.rows.place(int(rows[k]))
            raise CorruptError(path, f"sample {local:,} has a negative label", offset=offset, found=int(labels[k]),
                               remedy="Write the file again")  # fmt: skip
        if self.ignored is None:
            path, local, _ = self.rows.place(int(rows[wrong[0]]))
            raise UnsupportedError(
                path, f"the last label of sample {local:,} is {IGNORED} (no loss there), so the token is not stored",
                remedy="--eos ID says what such a label stands for",
            )  # fmt: skip
        return np.where(labels == IGNORED, self.ignored, labels).astype(self._info.dtype)

    def _check_plain(self, values: Values, row: int, valid: NDArray[np.int64]) -> None:
        inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
        width = self.rows.width
        if bool((valid == width).all()):
            wrong = (mask != 1).any(axis=1) | (labels[:, :-1] != inputs[:, 1:]).any(axis=1)
        else:
            real = np.arange(width) < valid[:, None]
            shifted = (labels[:, :-1] == inputs[:, 1:]) | ~real[:, 1:]
            wrong = (mask != real).any(axis=1) | ~shifted.all(axis=1)
        if wrong.any():
            path, local, offset = self.rows.place(row + int(np.argmax(wrong)))
            raise CorruptError(
                path, f"sample {local:,} is not what the file's attributes say: its mask or its labels differ",
                offset=offset, remedy="--from-opt stride=overlap or stride=disjoint reads it without them",
            )  # fmt: skip

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        piece = int(np.searchsorted(self._offsets, position, side="right")) - 1
        begin, within = self._begin(piece), position - int(self._offsets[piece])
        row, column = divmod(begin + within, self.rows.width)
        if self._tail[piece] and position + 1 == int(self._offsets[piece + 1]):
            row, column = divmod(begin + within - 1, self.rows.width)
            return self.rows.value_place(row, 2, column)
        return self.rows.value_place(row, 0, column)

    def position(self, path: Path, offset: int) -> int | None:
        region = self.rows.region(path, offset)
        if region is None:
            return None
        low, high = self._piece_from(region.rows.start), self._piece_from(region.rows.stop)
        bounds, tail = self._offsets[low : high + 1], self._tail[low:high]
        begins = np.arange(low, high) * self.rows.width + self._skip if self._begins is None else self._begins[low:high]
        column, inputs = begins % self.rows.width, np.diff(bounds) - tail
        found = []
        if 0 in region.fields:
            first = np.maximum(column, region.columns.start)
            there = first < np.minimum(column + inputs, region.columns.stop)
            found.append((bounds[:-1] + first - column)[there])
        if 2 in region.fields:
            label = (begins + inputs - 1) % self.rows.width
            found.append(bounds[1:][tail & (label >= region.columns.start) & (label < region.columns.stop)] - 1)
        positions = np.concatenate(found) if found else np.empty(0, np.int64)
        return int(positions.min()) if len(positions) else None

    def _begin(self, piece: int) -> int:
        """Position of a piece's first input among all inputs."""
        return piece * self.rows.width + self._skip if self._begins is None else int(self._begins[piece])

    def close(self) -> None:
        self.rows.close()


def unsigned(values: Values) -> Tokens:
    """Ids that were checked not to be negative, as unsigned of the same width."""
    return values.view(f"u{values.dtype.itemsize}")


class Stream:
    """Runs as one stored stream, with a separator after each, so that no document goes on from one to the next.

    Two separators in a row (the run ended with one) are nothing but padding to whoever splits the stream.
    """

    def __init__(self, runs: TokenReader, eos_id: int) -> None:
        self.stored = WithSeparators(runs, eos_id)
        info = self.stored.info
        self._info = replace(info, sequences=int(info.tokens > 0), separators=Separators.BETWEEN)

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.asarray([0, self._info.tokens], np.int64)[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.stored.tokens(start, stop)

    def filling(self) -> Filling:
        """The padding of the runs, and the separators put after them; see `core.filling`."""
        runs = self.stored.source
        below = runs.filling() if isinstance(runs, Filled) else Filling(None, runs.info.tokens)
        return replace(below, separators=runs.info.sequences)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._info.tokens)
        return self.stored, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        return position if reader is self.stored else None

    def readers(self) -> tuple[TokenReader]:
        return (self.stored,)

    def close(self) -> None:
        self.stored.close()


class Corpus:
    """The tokens of rank-1 datasets; a file is a run of its own, unless it goes on with the one before it."""

    def __init__(self, rows: Rows, opens: Flags, told: Told) -> None:
        self.rows = rows
        self._runs = np.append(rows.starts[:-1][opens], rows.starts[-1])
        self._info = told.info(np.dtype(f"u{rows.dtype.itemsize}"), len(self._runs) - 1, len(rows))

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._runs[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        values = self.rows.read(start, stop)
        check_ids_of(self.rows, start, values[:, 0])
        return unsigned(values.reshape(-1))

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        return self.rows.value_place(position, 0, 0)

    def position(self, path: Path, offset: int) -> int | None:
        region = self.rows.region(path, offset)
        return None if region is None else region.rows.start

    def close(self) -> None:
        self.rows.close()
