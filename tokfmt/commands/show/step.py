"""Show the samples of a training step of a recipe (`tokfmt show --step`): their parts, with file and text.

If a source is a recipe, its samples and documents are resolved down to the datasets that store them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokfmt import registry
from tokfmt.base.options import given_options
from tokfmt.commands.provenance import Ledgers, Origin
from tokfmt.commands.search.search import Spelling
from tokfmt.commands.show.show import Look
from tokfmt.commands.source.discover import format_of
from tokfmt.commands.source.draft import TextRecipe
from tokfmt.commands.source.open import open_dataset
from tokfmt.commands.source.recipe import Deferred
from tokfmt.commands.source.request import EosChoice, Options, SourceRequest, viewed
from tokfmt.commands.source.stored import tokenizer_of
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.errors import OptionError
from tokfmt.files.place import LocalPlace, Place
from tokfmt.mix.documents import Documents, Source, Span
from tokfmt.mix.order import numbers
from tokfmt.mix.samples import Samples, Where
from tokfmt.model.select import Chosen, Concat, Slice
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
        drawn_from: The source that the sample is drawn from by weight; "" if the recipe joins all sources to one list.
        epoch: The pass over that source, from 0.
        padding: The number of padding positions.
        parts: The parts of the sample in order, read while you iterate.
    """

    sample: int
    drawn_from: str
    epoch: int
    padding: int
    parts: Iterator[StepPart] = field(repr=False)


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
        rank: The rank whose part of the batch is shown.
        world_size: The number of ranks.
        first, last: The samples `first <= k < last`.
        notes: Sentences on what tokfmt inferred, and on defects.
        shown: The samples, read while you iterate.
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
    shown: Iterator[StepSample] = field(repr=False)


def show_step(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    batch_size: int | None = None,
    sample: int | None = None,
    rank: int = 0,
    world_size: int = 1,
    tokenizer: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: Iterable[str] = (),
) -> Step:
    """Open a recipe and find the parts of the samples of a step, or of one sample.

    Args:
        path: A recipe of samples.
        step: The step, from 0; requires `batch_size`.
        batch_size: The number of samples per global batch.
        sample: A sample number instead of a step; a negative number counts from the end.
        rank: The rank whose part of the batch is shown.
        world_size: The number of ranks.
        tokenizer: The name, directory or tokenizer.json of a tokenizer that decodes the IDs.
        format: The format (default: detected from content).
        options: Read options of the format.
        eos: The separator, or "none" (default: given by the recipe).
        bos: The lead of sequences. A recipe refuses it.
        allow_loss: Words of `--allow-loss`.

    Raises:
        OptionError: If the path is not a recipe of samples, or has no such step, sample or rank.
        TokfmtError: If the recipe or a source cannot be read.
    """
    if (sample is None) == (step is None) or (step is None) != (batch_size is None):
        raise OptionError("no samples are selected. Add --sample K, or --step S with --batch-size B")
    handle = tokenizer_of(tokenizer)
    decoder = handle.decoder() if handle is not None else None
    source = open_dataset(SourceRequest.of(path, format, eos, options, allow_loss=allow_loss, bos=bos))
    reader = source.reader
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    if not isinstance(reader, Samples):
        raise OptionError(
            f"{printable(path)}: is not a recipe of samples, so it has no steps. `tokfmt recipe --seq-len N` writes one"
        )
    if step is not None and batch_size is not None:
        found: Sequence[Where] = reader.where_at(step, batch_size, rank, world_size)
        taken = numbers(step, batch_size, rank, world_size)
    else:
        number = sample or 0
        if not -len(reader) <= number < len(reader):
            raise OptionError(f"--sample {number}: {printable(path)} has samples 0 to {len(reader) - 1:,}")
        found = [reader.where(number)]
        taken = range(found[0].sample, found[0].sample + 1)
    look, ledgers = Look(None, decoder, Spelling(decoder) if decoder is not None else None), Ledgers()
    return Step(
        str(path),
        reader.fingerprint,
        reader.seq_len,
        len(reader),
        step,
        batch_size,
        rank,
        world_size,
        taken.start,
        taken.stop,
        source.notes,
        (_drawn(reader, where, look, ledgers) for where in found),
    )


def _drawn(reader: Samples, where: Where, look: Look, ledgers: Ledgers) -> StepSample:
    found = list(traced(reader, where.sample))
    held = sum(one.span.stop - one.span.start for one in found)
    return StepSample(
        where.sample,
        where.source,
        where.epoch,
        max(0, reader.seq_len - held),
        (_part(one, look, ledgers) for one in found),
    )


class Traced(NamedTuple):
    """A span of a source that is a dataset, not a recipe.

    Attributes:
        name: The name of the source, from the outermost recipe on.
        recipe: The recipe that names the source.
        span: The span; its source is a number in that recipe.
        eos_id: The separator after the sequence; None without one.
    """

    name: str
    recipe: Samples | Documents
    span: Span
    eos_id: int | None

    @property
    def source(self) -> Source:
        """The source."""
        return self.recipe.sources[self.span.source]


def traced(recipe: Samples | Documents, number: int) -> Iterator[Traced]:
    """Yield the spans of a sample, or that of a document, through nested recipes.

    Args:
        recipe: The recipe.
        number: The number of the sample or the document.
    """
    for span in recipe.spans(number):
        yield from _followed(recipe, span, recipe.eos_id)


def _followed(recipe: Samples | Documents, span: Span, eos_id: int | None, outer: str = "") -> Iterator[Traced]:
    """Yield a span of a source; if the source is a recipe, yield the spans of its sources."""
    source = recipe.sources[span.source]
    name = f"{outer}{source.name}"
    reader, position = _dataset(source.reader, _begin(source, span))
    if isinstance(reader, Documents):
        (inner,) = reader.spans(reader.sequence_at(position))
        yield from _followed(reader, inner._replace(start=span.start, stop=span.stop), eos_id, f"{name}/")
    elif isinstance(reader, Samples):
        at = 0
        for inner in reader.spans(position // reader.seq_len):
            a, b = max(span.start, at), min(span.stop, at + inner.stop - inner.start)
            if a < b:
                part = inner._replace(start=inner.start + a - at, stop=inner.start + b - at)
                yield from _followed(reader, part, reader.eos_id, f"{name}/")
            at += inner.stop - inner.start
    else:
        yield Traced(name, recipe, span, eos_id)


def _begin(source: Source, span: Span) -> int:
    """Return the position at which the sequence of a span begins on the token axis of its source."""
    place = source.place(span.sequence)
    return int(source.reader.offsets(place, place)[0])


def _dataset(reader: TokenReader, position: int) -> tuple[TokenReader, int]:
    """Return the dataset that holds a position under joins and selections, and the position in it."""
    while isinstance(reader, (Slice, Concat, Chosen, Deferred)):
        reader, position = reader.to_source(position)
    return reader, position


class StoredSequence(NamedTuple):
    """The sequence of a source in the dataset that stores it.

    Attributes:
        dataset: The path of the dataset, as the recipe names it; None if the format does not know the file.
        file: The file that holds the first token of the span; if the format does not know it, a path of the source.
        number: The number of the sequence in the dataset.
        begin: The position at which the sequence begins on the token axis of the source.
        length: The length of the sequence in tokens.
        sequences: The number of sequences of the dataset.
    """

    dataset: Place | None
    file: Place
    number: int
    begin: int
    length: int
    sequences: int


def stored_sequence(one: Traced) -> StoredSequence:
    """Find the sequence of a span in its dataset. Reads."""
    source, span = one.source, one.span
    begin, place = _begin(source, span), source.place(span.sequence)
    length = int(source.reader.offsets(place + 1, place + 1)[0]) - begin
    # the file of a separator is that of the last token
    found = source.reader.locate(begin + min(span.start, length - 1))
    file = found.path if found is not None else source.paths[0]
    home = next((path for path in source.paths if registry.of_prefix(path) in (file, *file.parents)), None)
    dataset, position = _dataset(source.reader, begin)
    return StoredSequence(home, file, dataset.sequence_at(position), begin, length, dataset.info.sequences)


def request_of(one: Traced, path: Place) -> SourceRequest:
    """Return the request that opens a dataset of the source of a span, as its recipe reads it.

    Args:
        one: The span.
        path: A path of the source.
    """
    file, entry = one.recipe.file, one.recipe.file.sources[one.span.source]
    options = given_options(entry.options)
    request = SourceRequest((path,), entry.format, entry.eos, options, entry.text, entry.split)
    return viewed(request, format_of(path, entry.format), "samples") if file.pack == "stored" else request


def _part(one: Traced, look: Look, ledgers: Ledgers) -> StepPart:
    source, span, held = one.source, one.span, stored_sequence(one)
    begin, length = held.begin, held.length
    ids = source.reader.tokens(begin + span.start, begin + min(span.stop, length))
    text = look.spelled(ids).decode("utf-8", "backslashreplace") if look.decoder is not None else None
    if span.stop > length and one.eos_id is not None:
        ids = np.append(ids, np.array(one.eos_id, np.promote_types(ids.dtype, np.min_scalar_type(one.eos_id))))
    origins = list[Origin]()
    ledger = ledgers.of(held.dataset) if held.dataset is not None else None
    if ledger is not None and ledger.sequences == held.sequences:
        origins = ledgers.origins(ledger, held.number, span.start, span.stop)
    return StepPart(
        one.name,
        shortest(held.file),
        span.sequence,
        held.number,
        span.start,
        span.stop,
        length,
        ids,
        text,
        tuple(origins),
    )


def shortest(path: Place) -> str:
    """Return a path without `..`: a recipe lists ../web.pbin.

    If a directory of the path is a link, the path without `..` may be another file; then the path is unchanged.
    """
    if not isinstance(path, LocalPlace):
        return str(path)
    short = os.path.normpath(path)
    return short if os.path.exists(short) and os.path.samefile(short, path) else str(path)
