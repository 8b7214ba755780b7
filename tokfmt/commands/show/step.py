"""Show the samples of a training step of a recipe (`tokfmt show --step`): their parts, with file and text.

If a source is a recipe, its samples and documents are resolved down to the datasets that store them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import numpy as np

from tokfmt.commands.search.search import Spelling
from tokfmt.commands.show.show import Decoding, with_tokenizer
from tokfmt.core.ragged import Tokens
from tokfmt.errors import OptionError
from tokfmt.mix import (
    Ledgers,
    Origin,
    Samples,
    TextRecipe,
    Traced,
    Where,
    shortest,
    stored_sequence,
    traced,
)
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, Options, SourceRequest
from tokfmt.source.stored import tokenizer_of
from tokfmt.wording import printable


@dataclass(frozen=True, slots=True)
class StepPart:
    """The part of one sequence in a sample: its positions `start <= p < stop`.

    Attributes:
        source: The name of the source; `outer/inner` for a source of a recipe that is a source itself.
        path: The file that holds the first token; if the format does not know it, the first path of the source.
        sequence: The number of the sequence in the source.
        stored: The number of the sequence in its dataset. It differs if the source has several datasets or a selection.
        start, stop: Positions within the sequence; position `length` is the separator.
        length: The length of the complete sequence in tokens.
        ids: uint[stop - start], with the separator.
        text: The text of these IDs; None without a tokenizer. A byte that is not UTF-8 is `\\xff`.
        origins: The origins by the ledger of the dataset; empty without one.
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
class StepSample:
    """One sample of a recipe.

    Attributes:
        sample: The number of the sample in the recipe.
        rank: The rank that reads it in this step; None if one sample was requested.
        drawn_from: The source that the sample is drawn from by weight; "" if the recipe joins all sources to one list.
        epoch: The pass over that source, from 0.
        padding: The number of padding positions.
        parts: The parts of the sample in order, read while you iterate.
    """

    sample: int
    rank: int | None
    drawn_from: str
    epoch: int
    padding: int
    parts: Iterator[StepPart] = field(repr=False)


class PrintedSequence(TypedDict):
    """A sequence, as --json prints it.

    Attributes:
        index: The number of the sequence.
        length: The length in tokens; in characters if text is not tokenized.
        found: The hit of a search: the first position and the position after the last; None without one.
        equal: The numbers of all sequences that are equal to it, with its own, if dup selected it.
        origins: The origins, by the ledger.
        ids: The token IDs; None for text that is not tokenized.
        text: The text; None without a tokenizer.
    """

    index: int
    length: int
    found: tuple[int, int] | None
    equal: NotRequired[list[int]]
    origins: NotRequired[list[Origin]]
    ids: list[int] | None
    text: str | None


class PrintedStepSample(TypedDict):
    """A sample, as --json prints it.

    Attributes:
        sample: The number of the sample.
        rank: The rank that reads it in this step; None if one sample was requested.
        drawn_from: The source that the sample is drawn from; None if sources are joined.
        epoch: The pass over that source, from 0.
        padding: The number of padding positions.
        parts: The parts of sequences, in order.
    """

    sample: int
    rank: int | None
    drawn_from: str | None
    epoch: int
    padding: int
    parts: list[StepPart]


@dataclass(frozen=True, slots=True)
class Step:
    """The samples of a training step, or one sample, of a recipe.

    Attributes:
        path: The path of the recipe.
        fingerprint: The fingerprint of the recipe and its sources.
        seq_len: The length of a sample in tokens.
        samples: The number of samples of the recipe.
        step: The step; None if one sample was requested.
        batch_size: The number of samples per global batch; None if one sample was requested.
        rank: The rank whose part of the batch is shown; None: all ranks.
        world_size: The number of ranks.
        first, last: The samples `first <= k < last`.
        notes: Sentences on what tokfmt inferred, and on defects.
        has_text: A tokenizer is known, so that parts have text.
        shown: The samples, read while you iterate.
    """

    path: str
    fingerprint: str
    seq_len: int
    samples: int
    step: int | None
    batch_size: int | None
    rank: int | None
    world_size: int
    first: int
    last: int
    notes: tuple[str, ...]
    has_text: bool = field(repr=False)
    shown: Iterator[StepSample] = field(repr=False)


def show_step(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    batch_size: int | None = None,
    sample: int | None = None,
    rank: int | None = None,
    world_size: int = 1,
    tokenizer: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: Iterable[str] = (),
    only_ids: bool = False,
) -> Step:
    """Open a recipe and find the parts of the samples of a step, or of one sample. A negative sample number counts from
    the end. A recipe refuses a lead. With `only_ids`, the tokenizer of manifests is not loaded.
    """
    if (sample is None) == (step is None) or (step is None) != (batch_size is None):
        raise OptionError("no samples are selected. Add --sample K, or --step S with --batch-size B")
    handle = tokenizer_of(tokenizer)
    request = SourceRequest.of(path, format, eos, options, allow_loss=allow_loss, bos=bos)
    source = open_dataset(request)
    reader = source.reader
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    if not isinstance(reader, Samples):
        raise OptionError(
            f"{printable(path)}: is not a recipe of samples, so it has no steps. `tokfmt recipe --seq-len N` writes one"
        )
    if step is not None and batch_size is not None:
        ranks: Sequence[int | None] = range(world_size) if rank is None else [rank]
        drawn = [(k, where) for k in ranks for where in reader.where_at(step, batch_size, k or 0, world_size)]
    else:
        number = sample or 0
        if not -len(reader) <= number < len(reader):
            raise OptionError(f"--sample {number}: {printable(path)} has samples 0 to {len(reader) - 1:,}")
        drawn = [(None, reader.where(number))]
    if not only_ids:
        source, handle = with_tokenizer(source, request, handle)
    decoder = handle.decoder() if handle is not None else None
    decoding, ledgers = Decoding(None, decoder, Spelling(decoder) if decoder is not None else None), Ledgers()
    return Step(
        str(path),
        reader.fingerprint,
        reader.seq_len,
        len(reader),
        step,
        batch_size,
        rank,
        world_size,
        drawn[0][1].sample,
        drawn[-1][1].sample + 1,
        source.notes,
        decoder is not None,
        (_drawn(reader, k, where, decoding, ledgers) for k, where in drawn),
    )


def _drawn(reader: Samples, rank: int | None, where: Where, decoding: Decoding, ledgers: Ledgers) -> StepSample:
    spans = list(traced(reader, where.sample))
    length = sum(part.span.stop - part.span.start for part in spans)
    return StepSample(
        where.sample,
        rank,
        where.source,
        where.epoch,
        max(0, reader.seq_len - length),
        (_part(part, decoding, ledgers) for part in spans),
    )


def _part(traced_span: Traced, decoding: Decoding, ledgers: Ledgers) -> StepPart:
    source, span, stored = traced_span.source, traced_span.span, stored_sequence(traced_span)
    begin, length = stored.begin, stored.length
    ids = source.reader.tokens(begin + span.start, begin + min(span.stop, length))
    text = decoding.spelled(ids).decode("utf-8", "backslashreplace") if decoding.decoder is not None else None
    if span.stop > length and traced_span.eos_id is not None:
        ids = np.append(
            ids, np.array(traced_span.eos_id, np.promote_types(ids.dtype, np.min_scalar_type(traced_span.eos_id)))
        )
    origins = list[Origin]()
    ledger = ledgers.of(stored.dataset) if stored.dataset is not None else None
    if ledger is not None and ledger.sequences == stored.sequences:
        origins = ledgers.origins(ledger, stored.number, span.start, span.stop)
    return StepPart(
        traced_span.name,
        shortest(stored.file),
        span.sequence,
        stored.number,
        span.start,
        span.stop,
        length,
        ids,
        text,
        tuple(origins),
    )
