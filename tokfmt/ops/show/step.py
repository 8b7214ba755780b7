"""What the model sees at a step of a recipe: which parts of which sequences, in which files, with their text.

Of a source that is a recipe itself, what its samples and documents are made of, as far down as that goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokfmt.core.errors import OptionError
from tokfmt.core.messages import Option
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader, sequence_at
from tokfmt.core.text_format import printable
from tokfmt.ops.provenance import Ledgers, Origin
from tokfmt.ops.search.search import Spelling
from tokfmt.ops.show.show import Look
from tokfmt.ops.source.draft import TextRecipe
from tokfmt.ops.source.open import open_one
from tokfmt.ops.source.recipe import Deferred
from tokfmt.ops.source.request import EosChoice, Options, SourceRequest
from tokfmt.ops.source.stored import tokenizer_of
from tokfmt.recipes.documents import Documents, Source, Span
from tokfmt.recipes.order import numbers
from tokfmt.recipes.samples import Samples, Where
from tokfmt.views.select import Chosen, Concat, Slice
from tokfmt.views.view import byte_offset_of


@dataclass(frozen=True, slots=True)
class Part:
    """What a sample holds of one sequence: positions `start <= p < stop` of it.

    Attributes:
        source: Name of the source; of one in a recipe that is a source, `outer/inner`.
        path: The file that holds its first token; of a source whose files do not tell, what the recipe names first.
        sequence: Its number in the source.
        stored: Its number in the dataset that it lies in, which differs where a source has several or a selection.
        start, stop: Positions; position `length` is the separator.
        length: Tokens of the whole sequence.
        ids: uint[stop - start], the separator included.
        text: Of these ids; None without a tokenizer. A byte that is no text is `\\xff`.
        origins: Where that comes from, by the ledger beside its dataset; empty without one.
    """

    source: str
    path: str
    sequence: int
    stored: int
    start: int
    stop: int
    length: int
    ids: Tokens = field(repr=False)
    text: str | None
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One sample.

    Attributes:
        sample: Its number in the recipe.
        drawn_from: The source that it was drawn from by weight; "" where all sources are one list.
        epoch: Which pass over that, from 0.
        padding: Places that hold none of it.
        parts: What it moves on by, in order; read as they are asked for.
    """

    sample: int
    drawn_from: str
    epoch: int
    padding: int
    parts: Iterator[Part] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """Some samples of a recipe.

    Attributes:
        path, fingerprint, seq_len: The recipe's.
        samples: How many it has.
        step, batch_size, rank, world_size: What was asked for; None: one sample was.
        first, last: The samples `first <= k < last`.
        notes: What a person should be told.
        shown: The samples; an iterator.
    """

    path: str
    fingerprint: str
    seq_len: int
    samples: int
    step: int | None
    batch_size: int | None
    rank: int
    world_size: int
    first: int
    last: int
    notes: tuple[str, ...]
    shown: Iterator[Drawn] = field(repr=False)


def show_step(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    batch_size: int | None = None,
    sample: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    tokenizer: str | None = None,
    from_format: str | None = None,
    from_options: Options = (),
    eos: EosChoice = None,
    allow_loss: Iterable[str] = (),
) -> Step:
    """Open a recipe and find what a step, or one sample, is made of.

    Args:
        path: A recipe of samples.
        step, batch_size: Step s of global batches of so many samples, from the first sample on.
        sample: A number, instead of a step; negative: from the end.
        rank, world_size: The part of the batch that rank r of w takes.
        tokenizer: Name, directory or tokenizer.json, for text.
        from_format, from_options, eos, allow_loss: As everywhere.

    Raises:
        OptionError: Not a recipe of samples; no such step, sample or rank.
        TokfmtError: The recipe, or a source, cannot be read.
    """
    if (sample is None) == (step is None) or (step is None) != (batch_size is None):
        raise OptionError(
            f"say which samples: {Option('sample', 'K')}, or {Option('step', 'S')} with {Option('batch-size', 'B')}"
        )
    handle = tokenizer_of(tokenizer)
    decoder = handle.decoder() if handle is not None else None
    source = open_one(SourceRequest.of(path, from_format, eos, from_options, allow_loss=allow_loss))
    reader = source.reader
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    if not isinstance(reader, Samples):
        raise OptionError(
            f"{printable(path)}: is no recipe of samples, and has no steps. `tokfmt recipe --seq-len N` writes one"
        )
    if step is not None and batch_size is not None:
        found: Sequence[Where] = reader.where_at(step, batch_size, rank, world_size)
        taken = numbers(step, batch_size, rank, world_size)
    else:
        number = sample or 0
        if not -len(reader) <= number < len(reader):
            raise OptionError(f"{Option('sample', number)}: {printable(path)} has samples 0 to {len(reader) - 1:,}")
        found = [reader.where(number)]
        taken = range(found[0].sample, found[0].sample + 1)
    look, ledgers = Look(None, decoder, Spelling(decoder) if decoder is not None else None), Ledgers()
    return Step(
        str(path), reader.fingerprint, reader.seq_len, len(reader), step, batch_size, rank, world_size, taken.start,
        taken.stop, source.notes, (_drawn(reader, where, look, ledgers) for where in found),
    )  # fmt: skip


def _drawn(reader: Samples, where: Where, look: Look, ledgers: Ledgers) -> Drawn:
    traced = [one for span in where.spans for one in _traced(reader.sources, span, reader.eos_id)]
    held = sum(one.span.stop - one.span.start for one in traced)
    return Drawn(
        where.sample, where.source, where.epoch, max(0, reader.seq_len - held),
        (_part(one, look, ledgers) for one in traced),
    )  # fmt: skip


class Traced(NamedTuple):
    """A span, the source that it is of, by its name from the outermost recipe on, and what separates it."""

    name: str
    source: Source
    span: Span
    eos_id: int | None


def _traced(sources: Sequence[Source], span: Span, eos_id: int | None, outer: str = "") -> Iterator[Traced]:
    """A span of a recipe's sources; of a source that is a recipe itself, the spans there."""
    source = sources[span.source]
    name = f"{outer}{source.name}"
    reader, position = _dataset(source.reader, _begin(source, span))
    if isinstance(reader, Documents):
        (inner,) = reader.spans(sequence_at(reader, position))
        yield from _traced(reader.sources, inner._replace(start=span.start, stop=span.stop), eos_id, f"{name}/")
    elif isinstance(reader, Samples):
        at = 0
        for inner in reader.spans(position // reader.seq_len):
            a, b = max(span.start, at), min(span.stop, at + inner.stop - inner.start)
            if a < b:
                part = inner._replace(start=inner.start + a - at, stop=inner.start + b - at)
                yield from _traced(reader.sources, part, reader.eos_id, f"{name}/")
            at += inner.stop - inner.start
    else:
        yield Traced(name, source, span, eos_id)


def _begin(source: Source, span: Span) -> int:
    """Where the sequence of a span begins on the axis of its source."""
    place = source.place(span.sequence)
    return int(source.reader.offsets(place, place)[0])


def _dataset(reader: TokenReader, position: int) -> tuple[TokenReader, int]:
    """The dataset that a position lies in, below what joins and selects."""
    while isinstance(reader, (Slice, Concat, Chosen, Deferred)):
        reader, position = reader.to_source(position)
    return reader, position


def _part(traced: Traced, look: Look, ledgers: Ledgers) -> Part:
    name, source, span, eos_id = traced
    begin, place = _begin(source, span), source.place(span.sequence)
    length = int(source.reader.offsets(place + 1, place + 1)[0]) - begin
    ids = source.reader.tokens(begin + span.start, begin + min(span.stop, length))
    text = look.spelled(ids).decode("utf-8", "backslashreplace") if look.decoder is not None else None
    if span.stop > length and eos_id is not None:
        ids = np.append(ids, np.array(eos_id, np.promote_types(ids.dtype, np.min_scalar_type(eos_id))))
    found = byte_offset_of(
        source.reader, begin + min(span.start, length - 1)
    )  # a separator lies where the last token does
    path = found.path if found is not None else source.paths[0]
    short = os.path.normpath(path)  # a recipe's ../web.pbin; another file where a directory of it is a link
    shown = short if os.path.exists(short) and os.path.samefile(short, path) else str(path)
    dataset, position = _dataset(source.reader, begin)
    stored, origins = sequence_at(dataset, position), list[Origin]()
    home = next((place for place in source.paths if place in (path, *path.parents)), None)
    ledger = ledgers.of(home) if home is not None else None
    if ledger is not None and ledger.sequences == dataset.info.sequences:
        origins = ledgers.origins(ledger, stored, span.start, span.stop)
    return Part(name, shown, span.sequence, stored, span.start, span.stop, length, ids, text, tuple(origins))
