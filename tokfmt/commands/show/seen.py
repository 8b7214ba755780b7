"""Find the samples of a recipe or a run that read a sequence of one of its sources (`tokfmt show --seen`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from tokfmt.base.options import nearest
from tokfmt.commands.search.query import NumberQuery, Search, is_query, needs_tokenizer, parse_query
from tokfmt.commands.search.search import find
from tokfmt.commands.show.show import with_tokenizer
from tokfmt.commands.show.step import opened_with
from tokfmt.core.reader import TokenReader
from tokfmt.errors import OptionError
from tokfmt.mix import Samples
from tokfmt.model.readers import ContentReader
from tokfmt.runs.reader import RunReader
from tokfmt.source.request import EosChoice, Options, SourceRequest, parse_selection
from tokfmt.source.stored import Source, tokenizer_of
from tokfmt.wording import counted, printable

_MATCHES = 100
"""Sequences that a query may find."""


@dataclass(frozen=True, slots=True)
class SampleRead:
    """A sample that read tokens of a sequence.

    Attributes:
        source: The name of the source.
        sequence: The number of the sequence in the source.
        sample: The number of the sample, in the order of training.
        number: Of a run, the number of the sample in the dataset of the framework; None of a recipe.
        step: The step that read it, from 0; None if the batch size is not known.
        rank: The rank that read it; None if it is not known.
        epoch: How often these tokens had been read before.
    """

    source: str
    sequence: int
    sample: int
    number: int | None
    step: int | None
    rank: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The samples that read some sequences.

    Attributes:
        path: The recipe or the run.
        queries: The sequences, as they were asked for.
        sequences: The number of sequences that were found.
        steps: The number of different steps that read them; None if the batch size is not known.
        before: The step before which steps are counted; None: all.
        reads: The samples, in the order of training.
    """

    path: str
    queries: tuple[str, ...]
    sequences: int
    steps: int | None
    before: int | None
    reads: tuple[SampleRead, ...]


def seen(
    path: str | os.PathLike[str],
    queries: Sequence[str],
    *,
    before: int | None = None,
    batch_size: int | None = None,
    world_size: int | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    options: Options = (),
    eos: EosChoice = None,
    bos: EosChoice = None,
    allow_loss: Iterable[str] = (),
    tokenizer: str | None = None,
) -> Seen:
    """Find the samples that read sequences. A query is SOURCE#SEL, with a selection of `tokfmt show`. No token is read
    but those that a query looks for.
    """
    sizes = {"batch_size": batch_size, "world_size": world_size}
    opened = opened_with(sizes, path, format, options, eos, bos, allow_loss)
    reader = opened[1].reader
    if not isinstance(reader, (Samples, RunReader)):
        raise OptionError(f"{printable(path)}: is neither a recipe of samples nor a run, so that no step read it")
    if before is not None and isinstance(reader, Samples) and batch_size is None:
        raise OptionError("--before counts steps, and a recipe does not state their size. Add --batch-size B")
    names = [source.name for source in (reader.order.sources if isinstance(reader, RunReader) else reader.sources)]
    sequences = dict[tuple[int, int], None]()
    for query in queries:
        name, sign, selection = query.partition("#")
        if not sign or name not in names:
            listed = ", ".join(printable(one) for one in names[:20])
            raise OptionError(
                f"--seen {query!r} is not SOURCE#NUMBER or SOURCE#QUERY (sources: {listed})",
                name="seen",
                nearest=nearest(name, names),
            )
        numbers = _selected(reader, names.index(name), selection, opened, tokenizer)
        sequences |= dict.fromkeys((names.index(name), number) for number in numbers)
    reads = [
        read
        for source, number in sequences
        for read in _reads(reader, source, number, batch_size, world_size or 1)
        if before is None or (read.step is not None and read.step < before)
    ]
    is_known = all(read.step is not None for read in reads)
    steps = len({read.step for read in reads}) if is_known else None
    reads.sort(key=lambda read: (read.sample, read.source, read.sequence))
    return Seen(str(path), tuple(queries), len(sequences), steps, before, tuple(reads))


def _selected(
    reader: Samples | RunReader,
    source: int,
    selection: str,
    opened: tuple[SourceRequest, Source],
    tokenizer: str | None,
) -> list[int]:
    """Return the numbers of the sequences of a source that a selection of `tokfmt show` takes."""
    axis: TokenReader
    numbers = None  # in the source, of each sequence of the axis; None: the same
    if isinstance(reader, RunReader):
        name, axis = reader.order.sources[source].name, ContentReader(reader.datasets[source])
    else:
        of_recipe = reader.sources[source]
        name, axis = of_recipe.name, of_recipe.all_of_it
        if of_recipe.drawn is not None and of_recipe.whole is None:
            numbers = of_recipe.drawn.array
    count = axis.info.sequences if numbers is None else int(numbers.max(initial=-1)) + 1
    spans: Iterable[tuple[int, int]]
    if not is_query(selection):
        spans = [parse_selection(selection, count, [name])]
    elif isinstance(query := parse_query(selection), NumberQuery):
        spans = query.between(0, count)
    else:
        handle = None
        if needs_tokenizer(query):
            _, handle = with_tokenizer(opened[1], opened[0], tokenizer_of(tokenizer))
        hits = find(axis, query, Search(each=True), decoder=handle.decoder() if handle is not None else None)
        sequences = (hit.sequence if numbers is None else int(numbers[hit.sequence]) for hit in hits)
        spans = ((number, number + 1) for number in sequences)
    taken = list(islice(chain.from_iterable(range(*span) for span in spans), _MATCHES + 1))
    if not taken:
        raise OptionError(f"{selection} finds no sequence in {printable(name)}", name="seen")
    if len(taken) > _MATCHES:
        raise OptionError(f"{selection} finds more than {counted(_MATCHES, 'sequence')}. Ask for fewer", name="seen")
    return taken


def _reads(
    reader: Samples | RunReader, source: int, number: int, batch_size: int | None, world_size: int
) -> list[SampleRead]:
    if isinstance(reader, RunReader):
        return [SampleRead(reader.order.sources[source].name, number, *one) for one in reader.seen(source, number)]
    reads = list[SampleRead]()
    for sample, epoch in reader.seen(source, number):
        step = None if batch_size is None else sample // batch_size
        rank = None if batch_size is None else sample % batch_size // (batch_size // world_size)
        reads.append(SampleRead(reader.sources[source].name, number, sample, None, step, rank, epoch))
    return reads
