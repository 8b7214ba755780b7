"""`tokfmt show`: some sequences of a dataset, as ids and, with a tokenizer, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.format import Decoder
from tokfmt.core.ragged import Tokens
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Source
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.sources import SourceRequest, open_sources, parse_selection
from tokfmt.ops.tokenize import tokenized

DEFAULT = 5
"""Sequences shown when nothing is selected."""

LONGEST = 1 << 20
"""Tokens shown of one sequence; there are some of billions."""

_TOGETHER = 256  # sequences


@dataclass(frozen=True, slots=True)
class Shown:
    """One sequence.

    Attributes:
        index: Its number.
        length: Tokens; characters when there are no ids.
        ids: None for text that nobody tokenised.
        text: None without a tokenizer.
        cut: Tokens at the end that ids and text leave out, of a sequence longer than LONGEST.
    """

    index: int
    length: int
    ids: list[int] | None = None
    text: str | None = None
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """A dataset opened for looking: what it is, and the sequences selected, read as they are asked for."""

    path: str
    format: str
    sequences: int
    tokens: int | None
    eos_id: int | None
    eos_from: str
    extras: dict[str, object]
    notes: tuple[str, ...]
    shown: Iterator[Shown] = field(repr=False)


def show(
    path: str | os.PathLike[str],
    selection: str | None = None,
    *,
    from_format: str | None = None,
    from_options: tuple[str, ...] = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    split: str | None = None,
) -> Preview:
    """Open a dataset and read the selected sequences (`5`, `0:10`, `-3:`; the first five by default).

    Raises:
        TokfmtError: One of its kinds.
    """
    decoder: Decoder | None = None
    handle = None
    if tokenizer is not None:
        from tokfmt.text.tokenizer import load_tokenizer

        handle = load_tokenizer(tokenizer)
        decoder = handle.decoder(lenient=True)
    request = SourceRequest((path,), from_format, eos, from_options, text_field, split)
    source = open_sources(request, handle.eos_id if handle else None)[0]
    reader = source.reader
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text" and tokenizer is None:
            return _of_texts(source, reader, selection)
        reader = tokenized(reader, tokenizer)
    return _of_tokens(source, reader, selection, decoder)


def _range(selection: str | None, count: int) -> tuple[int, int]:
    return (0, min(DEFAULT, count)) if selection is None else parse_selection(selection, count)


def _of_tokens(source: Source, reader: TokenReader, selection: str | None, decoder: Decoder | None) -> Preview:
    info = reader.info
    first, last = _range(selection, info.sequences)

    def shown() -> Iterator[Shown]:
        for index, length, tokens in _beginnings(reader, first, last):
            ids = tokens.tolist()
            yield Shown(index, length, ids, decoder.decode(ids) if decoder else None, length - len(ids))

    return Preview(
        path=str(source.paths[0]),
        format=source.format.name,
        sequences=info.sequences,
        tokens=info.tokens,
        eos_id=source.separator.eos_id,
        eos_from=source.separator.source,
        extras=dict(info.extras),
        notes=source.notes,
        shown=shown(),
    )


def _beginnings(reader: TokenReader, first: int, last: int) -> Iterator[tuple[int, int, Tokens]]:
    """Number, length and first tokens of each sequence; short ones are read together."""
    for a, b in windows(first, last, _TOGETHER):
        bounds = reader.offsets(a, b)
        begin = int(bounds[0])
        held = reader.tokens(begin, int(bounds[-1])) if bounds[-1] - begin <= LONGEST else None
        for index, start, stop in zip(range(a, b), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            cut = min(stop, start + LONGEST)
            tokens = reader.tokens(start, cut) if held is None else held[start - begin : stop - begin]
            yield index, stop - start, tokens


def _of_texts(source: Source, reader: RecordReader, selection: str | None) -> Preview:
    count = reader.count()
    first, last = _range(selection, count)

    def shown() -> Iterator[Shown]:
        for index in range(first, last):
            text = reader.record(index)
            yield Shown(index, len(text), text=str(text))

    return Preview(
        path=str(source.paths[0]),
        format=source.format.name,
        sequences=count,
        tokens=None,
        eos_id=None,
        eos_from="",
        extras=dict(reader.info.extras),
        notes=source.notes,
        shown=shown(),
    )
