"""Show the samples of a training step of a recipe or a run (`tokfmt show --step`): their parts, with file and text.

If a source is a recipe, its samples and documents are resolved down to the datasets that store them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import numpy as np

from tokfmt.base.options import given_options
from tokfmt.commands.search.search import Spelling
from tokfmt.commands.show.show import Decoding, with_tokenizer
from tokfmt.core.ragged import Tokens
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.files.listing import Listing
from tokfmt.files.place import place_of
from tokfmt.mix import (
    Ledgers,
    Origin,
    Samples,
    StoredSequence,
    TextRecipe,
    Traced,
    Where,
    shortest,
    stored_sequence,
    traced,
)
from tokfmt.runs.reader import Part, RunReader
from tokfmt.source.discover import format_of
from tokfmt.source.open import find_one, open_dataset
from tokfmt.source.request import EosChoice, Options, SourceRequest
from tokfmt.source.stored import Source, tokenizer_of
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
        unread: Why the origins that a ledger lists cannot be read; None if they can.
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
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class StepSample:
    """One sample of a recipe or a run."""

    sample: int  # the number of the sample in the recipe; of a run, the k-th that it read over all ranks
    number: int | None  # of a run, the number of the sample in the dataset of the framework; None of a recipe
    rank: int | None  # the rank that reads it in this step; None if one sample was requested
    # the source that the sample is drawn from by weight; "" if the recipe joins all sources to one list
    drawn_from: str
    epoch: int  # the pass over that source, from 0
    padding: int  # the number of padding positions
    only_labels: int  # the number of IDs at its end that are labels and no inputs
    parts: Iterator[StepPart] = field(repr=False)  # the parts of the sample in order, read while you iterate


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
        sample: The number of the sample; of a run, the k-th that it read over all ranks.
        number: Of a run, the number of the sample in the dataset of the framework; None of a recipe.
        rank: The rank that reads it in this step; None if one sample was requested.
        drawn_from: The source that the sample is drawn from; None if sources are joined.
        epoch: The pass over that source, from 0.
        padding: The number of padding positions.
        only_labels: The number of IDs at its end that are labels and no inputs.
        parts: The parts of sequences, in order.
    """

    sample: int
    number: int | None
    rank: int | None
    drawn_from: str | None
    epoch: int
    padding: int
    only_labels: int
    parts: list[StepPart]


@dataclass(frozen=True, slots=True)
class Step:
    """The samples of a training step, or one sample, of a recipe or a run.

    Attributes:
        path: The path of the recipe or the run.
        framework: The framework of a run; None of a recipe.
        fingerprint: The fingerprint of the recipe and its sources; None of a run.
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
    framework: str | None
    fingerprint: str | None
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
    world_size: int | None = None,
    tokenizer: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: Iterable[str] = (),
    only_ids: bool = False,
    origins: bool = False,
) -> Step:
    """Open a recipe and find the parts of the samples of a step, or of one sample. A negative sample number counts from
    the end. A recipe refuses a lead. With `only_ids`, the tokenizer of manifests is not loaded. With `origins`, an
    origin that cannot be read is an error.
    """
    if (sample is None) == (step is None):
        raise OptionError("no samples are selected. Add --sample K, or --step S with --batch-size B")
    handle = tokenizer_of(tokenizer)
    sizes = {"batch_size": batch_size, "world_size": world_size}
    request, source = opened_with(sizes, path, format, options, eos, bos, allow_loss)
    reader = source.reader
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    if not isinstance(reader, (Samples, RunReader)):
        raise OptionError(
            f"{printable(path)}: is not a recipe of samples, so it has no steps. `tokfmt recipe --seq-len N` writes one"
        )
    if not only_ids:
        source, handle = with_tokenizer(source, request, handle)
    decoder = handle.decoder() if handle is not None else None
    decoding = Decoding(None, decoder, Spelling(decoder) if decoder is not None else None)
    if isinstance(reader, RunReader):
        shown = _of_run(reader, step, rank, sample, decoding)
        world_size, size = reader.order.world_size, reader.order.batches
        batch_size = None if step is None else size.samples_of(step)[1] - size.samples_of(step)[0]
    else:
        shown = _of_recipe(path, reader, step, batch_size, rank, world_size or 1, sample, decoding, _Origins(origins))
    numbers = [one.sample for one in shown]
    return Step(
        str(path),
        reader.order.framework if isinstance(reader, RunReader) else None,
        None if isinstance(reader, RunReader) else reader.fingerprint,
        reader.seq_len,
        reader.count,
        step,
        batch_size,
        rank,
        world_size or 1,
        min(numbers),
        max(numbers) + 1,
        source.notes,
        decoder is not None,
        iter(shown),
    )


def opened_with(
    sizes: Mapping[str, int | None],
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002
    options: Options,
    eos: EosChoice,
    bos: EosChoice,
    allow_loss: Iterable[str],
) -> tuple[SourceRequest, Source]:
    """Open a recipe or a run; the sizes of steps are options of a run."""
    given = dict(given_options(options))
    with Listing() as listing:  # a store is asked once
        if format_of(place_of(path).asking(listing), format).name == "run":
            given |= {name: str(value) for name, value in sizes.items() if value}
        request = SourceRequest.of(path, format, eos, given, allow_loss=allow_loss, bos=bos)
        return request, open_dataset(request, files=find_one(request, listing))


def _of_recipe(
    path: str | os.PathLike[str],
    reader: Samples,
    step: int | None,
    batch_size: int | None,
    rank: int | None,
    world_size: int,
    sample: int | None,
    decoding: Decoding,
    origins: _Origins,
) -> list[StepSample]:
    """Return the samples of a step of a recipe, or one sample. Their parts are read when they are iterated."""
    if step is None:
        number = sample or 0
        if not -len(reader) <= number < len(reader):
            raise OptionError(f"--sample {number}: {printable(path)} has samples 0 to {len(reader) - 1:,}")
        return [_drawn(reader, None, reader.where(number), decoding, origins)]
    if batch_size is None:
        raise OptionError("a recipe does not state the size of a step. Add --batch-size B", name="batch_size")
    return [
        _drawn(reader, k, where, decoding, origins)
        for k in (range(world_size) if rank is None else [rank])
        for where in reader.where_at(step, batch_size, k or 0, world_size)
    ]


def _of_run(
    reader: RunReader, step: int | None, rank: int | None, sample: int | None, decoding: Decoding
) -> list[StepSample]:
    """Return the samples of a step of a run, or one sample. Their parts are read when they are iterated."""
    if step is not None:
        taken: Sequence[tuple[int, int | None]] = reader.taken(step, rank)
    else:
        number = sample or 0
        number += reader.count if number < 0 else 0
        if not reader.order.first <= number < reader.count:
            raise OptionError(f"--sample {number} is not in this stretch of the run, {reader.stretch()}", name="sample")
        taken = [(number, None)]
    return [_read(reader, number, one, decoding) for number, one in taken]


def _read(reader: RunReader, sample: int, rank: int | None, decoding: Decoding) -> StepSample:
    parts = reader.parts(sample)
    length = sum(part.stop - part.start for part in parts)
    shown = (_part_of_run(reader, part, decoding) for part in parts)
    padding = reader.seq_len - length
    return StepSample(sample, reader.numbered(sample), rank, "", 0, max(0, padding), max(0, -padding), shown)


def _part_of_run(reader: RunReader, part: Part, decoding: Decoding) -> StepPart:
    source, axis = reader.order.sources[part.source], reader.datasets[part.source].axis
    ids = axis.tokens(part.at, part.at + part.stop - part.start)
    located = axis.locate(part.at)
    return StepPart(
        source.name,
        shortest(located.path if located is not None else source.paths[0]),
        part.sequence,
        part.sequence,
        part.start,
        part.stop,
        part.length,
        ids,
        decoding.spelled(ids).decode("utf-8", "backslashreplace") if decoding.decoder is not None else None,
        (),
    )


def _drawn(reader: Samples, rank: int | None, where: Where, decoding: Decoding, origins: _Origins) -> StepSample:
    spans = list(traced(reader, where.sample))
    padding = reader.seq_len - sum(part.span.stop - part.span.start for part in spans)
    return StepSample(
        where.sample,
        None,
        rank,
        where.source,
        where.epoch,
        max(0, padding),
        max(0, -padding),
        (_part(part, decoding, origins) for part in spans),
    )


class _Origins:
    """The origins of parts by the ledgers of their datasets."""

    def __init__(self, needed: bool) -> None:
        self._needed, self._ledgers = needed, Ledgers()

    def of(self, stored: StoredSequence, start: int, stop: int) -> tuple[list[Origin], str | None]:
        """Return the origins of a part, and why they cannot be read; that is an error if they are needed."""
        try:
            ledger = self._ledgers.of(stored.dataset) if stored.dataset is not None else None
            if ledger is not None and ledger.sequences == stored.sequences:
                return self._ledgers.origins(ledger, stored.number, start, stop), None
        except TokfmtError as error:
            if self._needed:
                raise
            return [], str(error)
        return [], None


def _part(traced_span: Traced, decoding: Decoding, origins_of: _Origins) -> StepPart:
    source, span, stored = traced_span.source, traced_span.span, stored_sequence(traced_span)
    begin, length = stored.begin, stored.length
    ids = source.reader.tokens(begin + span.start, begin + min(span.stop, length))
    text = decoding.spelled(ids).decode("utf-8", "backslashreplace") if decoding.decoder is not None else None
    if span.stop > length and traced_span.eos_id is not None:
        ids = np.append(
            ids, np.array(traced_span.eos_id, np.promote_types(ids.dtype, np.min_scalar_type(traced_span.eos_id)))
        )
    origins, unread = origins_of.of(stored, span.start, span.stop)
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
        unread,
    )
