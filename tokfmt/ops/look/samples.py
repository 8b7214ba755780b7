"""`tokfmt show --samples`: rows as they are stored, input_ids, mask and labels, with what can be told of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Layout, TokenReader
from tokfmt.core.errors import OptionError
from tokfmt.core.protocols import Sampled, Segmented
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.opened import format_of, open_one, tokenizer_of
from tokfmt.ops.source.request import SourceRequest, parse_selection, viewed
from tokfmt.text.decoding import TextDecoder

DEFAULT = 2
"""Samples shown when nothing is selected."""

_AT_ONCE = 1 << 16
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One row.

    Attributes:
        index: Its number.
        ids: Its input_ids.
        mask: uint8, 1 where the label counts in the loss; None when no mask is stored.
        labels: int64, None when none are stored: then they are the next ids.
        begins: bool, where a document begins inside the row, as far as can be told.
        padding: Tokens at its end that only fill it up.
        pieces: What each id stands for, None without a tokenizer.
    """

    index: int
    ids: Tokens
    mask: NDArray[np.uint8] | None
    labels: NDArray[np.int64] | None
    begins: Flags
    padding: int
    pieces: list[str] | None = None


@dataclass(frozen=True, slots=True)
class SampleView:
    """A dataset opened for looking at its rows, read as they are asked for.

    `bordered`: it can be told where documents begin in rows.
    """

    path: str
    format: str
    samples: int
    sample_length: int | None
    eos_id: int | None
    eos_from: str
    pad_id: int | None
    bordered: bool
    notes: tuple[str, ...]
    shown: Iterator[Sample] = field(repr=False)


def samples(source: SourceRequest, selection: str | None = None, *, tokenizer: str | None = None) -> SampleView:
    """Open a dataset of samples and read the rows selected.

    Args:
        source: Where it is, and how to read it.
        selection: `5`, `0:10`, `-3:`; the first two by default.
        tokenizer: Name, directory or tokenizer.json: says what ids stand for.

    Raises:
        OptionError: The format has no samples.
        TokfmtError: Another of its kinds.
    """
    handle, path = tokenizer_of(tokenizer), source.paths[0]
    chosen = format_of(path, source.format)
    found = open_one(viewed(replace(source, format=chosen.name), chosen, "samples"), handle)
    reader, decoder = found.reader, handle.decoder(lenient=True) if handle else None
    if isinstance(reader, RecordReader) or reader.info.layout is not Layout.SAMPLES:
        raise OptionError(f"{printable(path)}: {chosen.name} stores no samples here. Leave --samples away")
    first, last = _range(selection, reader.info.sequences)
    look = _Look(reader, found.separator.eos_id, reader.info.pad_id, decoder)
    return SampleView(
        path=str(Path(path)),
        format=chosen.name,
        samples=reader.info.sequences,
        sample_length=reader.info.sample_length,
        eos_id=look.eos_id,
        eos_from=found.separator.source,
        pad_id=look.pad_id,
        bordered=look.eos_id is not None or isinstance(reader, Segmented),
        notes=found.notes,
        shown=look.rows(first, last),
    )


def _range(selection: str | None, count: int) -> tuple[int, int]:
    return (0, min(DEFAULT, count)) if selection is None else parse_selection(selection, count)


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a dataset of samples, and how its rows are made of it."""

    reader: TokenReader
    eos_id: int | None
    pad_id: int | None
    decoder: TextDecoder | None

    def rows(self, first: int, last: int) -> Iterator[Sample]:
        """Rows `first <= i < last`, some at a time."""
        info = self.reader.info
        step = max(1, _AT_ONCE * info.sequences // max(info.tokens, 1))
        for a in range(first, last, step):
            b = min(last, a + step)
            bounds = self.reader.offsets(a, b)
            start, stop = bounds[[0, -1]].tolist()
            ids, (masks, labels) = self.reader.tokens(start, stop), self._beside(start, stop)
            begins = self._begins(ids, bounds)
            for k, (first_token, end) in enumerate(pairwise((bounds - start).tolist())):
                part = slice(first_token, end)
                mask, label = None if masks is None else masks[part], None if labels is None else labels[part]
                # rows of lengths of their own are not filled up
                fill = padding_of(ids[part], mask, label, self.pad_id) if info.sample_length else 0
                inner = begins[part] & (np.arange(end - first_token) < end - first_token - fill)
                yield Sample(a + k, ids[part], mask, label, inner, fill, self._pieces(ids[part]))

    def _beside(self, start: int, stop: int) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64] | None]:
        if not isinstance(self.reader, Sampled):
            return None, None
        return self.reader.masks(start, stop), self.reader.labels(start, stop)

    def _begins(self, ids: Tokens, bounds: Offsets) -> Flags:
        if isinstance(self.reader, Segmented):
            return self.reader.begins(*bounds[[0, -1]].tolist())
        begins = np.zeros(len(ids), np.bool_)
        if self.eos_id is not None:
            begins[1:] = ids[:-1] == self.eos_id
            begins[(bounds[:-1] - bounds[0])[np.diff(bounds) > 0]] = False
        return begins

    def _pieces(self, ids: Tokens) -> list[str] | None:
        if self.decoder is None:
            return None
        pieces = self.decoder.pieces(ids)
        return [p.decode("utf-8", "backslashreplace") if isinstance(p, bytes) else p for p in pieces]


IGNORED = -100


def padding_of(
    ids: Tokens, mask: NDArray[np.uint8] | None, labels: NDArray[np.integer] | None, pad_id: int | None
) -> int:
    """How many tokens at the end of a row only fill it up.

    Padding is one id, that of the row's end (`pad_id`, where that is known), with the same label or none, and does not
    count in the loss. Without a mask, the first of such a run is taken for the separator of the last document.
    """
    fill = int(ids[-1]) if len(ids) else -1
    if not len(ids) or (pad_id is not None and fill != pad_id):
        return 0
    pads = ids == fill
    if mask is not None:
        pads &= mask == 0
    if labels is not None:
        pads &= (labels == fill) | (labels == IGNORED)
    run = len(ids) if pads.all() else int(np.argmin(pads[::-1]))
    if mask is None:
        return run - 1 if pad_id is not None and run > 1 else 0
    return run
