"""`tokfmt show --samples`: rows as they are stored, input_ids, mask and labels, with what can be told of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt import registry
from tokfmt.core.axis import Layout, TokenReader
from tokfmt.core.errors import OptionError, printable
from tokfmt.core.inside import Sampled, Segmented
from tokfmt.core.ragged import Tokens
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import open_source
from tokfmt.ops.padding import padding_of
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.sources import option_names, parse_selection
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


def samples(
    path: str | os.PathLike[str],
    selection: str | None = None,
    *,
    from_format: str | None = None,
    from_options: tuple[str, ...] = (),
    tokenizer: str | None = None,
    eos: EosChoice = None,
) -> SampleView:
    """Open a dataset of samples and read the rows selected (`5`, `0:10`, `-3:`; the first two by default).

    Raises:
        OptionError: The format has no samples.
        TokfmtError: Another of its kinds.
    """
    chosen = registry.get(from_format) if from_format else registry.detect(path)
    known = "view" in option_names(chosen.read_options) and not any(word.startswith("view=") for word in from_options)
    options = (*from_options, "view=samples") if known else from_options
    decoder, tokenizer_eos = _decoder(tokenizer)
    source = open_source([path], format=chosen.name, eos=eos, tokenizer_eos=tokenizer_eos, options=options)
    reader = source.reader
    if isinstance(reader, RecordReader) or reader.info.layout is not Layout.SAMPLES:
        raise OptionError(f"{printable(path)}: {chosen.name} stores no samples here. Leave --samples away")
    first, last = _range(selection, reader.info.sequences)
    pad_id = reader.info.extras.get("pad_id")
    look = _Look(reader, source.separator.eos_id, pad_id if isinstance(pad_id, int) else None, decoder)
    return SampleView(
        path=str(Path(path)),
        format=chosen.name,
        samples=reader.info.sequences,
        sample_length=reader.info.sample_length,
        eos_id=look.eos_id,
        eos_from=source.separator.source,
        pad_id=look.pad_id,
        bordered=look.eos_id is not None or isinstance(reader, Segmented),
        notes=source.notes,
        shown=look.rows(first, last),
    )


def _decoder(tokenizer: str | None) -> tuple[TextDecoder | None, int | None]:
    if tokenizer is None:
        return None, None
    from tokfmt.text.tokenizer import load_tokenizer

    handle = load_tokenizer(tokenizer)
    return handle.decoder(lenient=True), handle.eos_id


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
        width = self.reader.info.sample_length or 1
        step = max(1, _AT_ONCE // width)
        for a in range(first, last, step):
            b = min(last, a + step)
            start, stop = self.reader.offsets(a, b)[[0, -1]].tolist()
            ids, (masks, labels) = self.reader.tokens(start, stop), self._beside(start, stop)
            begins = self._begins(ids.reshape(-1, width), start, stop)
            for k in range(b - a):
                part = slice(k * width, (k + 1) * width)
                mask, label = None if masks is None else masks[part], None if labels is None else labels[part]
                fill = padding_of(ids[part], mask, label, self.pad_id)
                inner = begins[part] & (np.arange(width) < width - fill)
                yield Sample(a + k, ids[part], mask, label, inner, fill, self._pieces(ids[part]))

    def _beside(self, start: int, stop: int) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64] | None]:
        if not isinstance(self.reader, Sampled):
            return None, None
        return self.reader.masks(start, stop), self.reader.labels(start, stop)

    def _begins(self, rows: Tokens, start: int, stop: int) -> Flags:
        if isinstance(self.reader, Segmented):
            return self.reader.begins(start, stop)
        begins = np.zeros(rows.shape, np.bool_)
        if self.eos_id is not None:
            begins[:, 1:] = rows[:, :-1] == self.eos_id
        return begins.reshape(-1)

    def _pieces(self, ids: Tokens) -> list[str] | None:
        if self.decoder is None:
            return None
        pieces = self.decoder.pieces(ids)
        return [p.decode("utf-8", "backslashreplace") if isinstance(p, bytes) else p for p in pieces]
