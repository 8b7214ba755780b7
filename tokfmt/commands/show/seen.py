"""Find the samples of a recipe or a run that read a sequence of one of its sources (`tokfmt show --seen`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from tokfmt.base.options import nearest
from tokfmt.commands.show.show import show
from tokfmt.commands.show.step import opened_with
from tokfmt.errors import OptionError
from tokfmt.mix import Samples, TokenSource, shortest
from tokfmt.runs.order import RunSource
from tokfmt.runs.reader import RunReader
from tokfmt.source.request import EosChoice, Options, SourceRequest
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
        query: The sequences, as they were asked for.
        sequences: The number of sequences that were found.
        steps: The number of different steps that read them; None if the batch size is not known.
        before: The step before which steps are counted; None: all.
        reads: The samples, in the order of training.
    """

    path: str
    query: str
    sequences: int
    steps: int | None
    before: int | None
    reads: tuple[SampleRead, ...]


def seen(
    path: str | os.PathLike[str],
    query: str,
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
    """Find the samples that read sequences. `query` is SOURCE#NUMBER, or SOURCE#QUERY with a query of `tokfmt show`. No
    token is read but those that a query looks for.
    """
    sizes = {"batch_size": batch_size, "world_size": world_size}
    reader = opened_with(sizes, path, format, options, eos, bos, allow_loss)[1].reader
    if not isinstance(reader, (Samples, RunReader)):
        raise OptionError(f"{printable(path)}: is neither a recipe of samples nor a run, so that no step read it")
    names = [source.name for source in (reader.order.sources if isinstance(reader, RunReader) else reader.sources)]
    name, sign, which = query.partition("#")
    if not sign or name not in names:
        listed = ", ".join(printable(one) for one in names[:20])
        raise OptionError(
            f"--seen {query!r} is not SOURCE#NUMBER or SOURCE#QUERY (sources: {listed})",
            name="seen",
            nearest=nearest(name, names),
        )
    source = names.index(name)
    numbers = [int(which)] if which.isdecimal() else _found(reader, source, which, tokenizer)
    reads = [one for number in numbers for one in _reads(reader, source, number, batch_size, world_size or 1)]
    reads = sorted((one for one in reads if before is None or (one.step is not None and one.step < before)), key=_when)
    if before is not None and not isinstance(reader, RunReader) and batch_size is None:
        raise OptionError("--before counts steps, and a recipe does not state their size. Add --batch-size B")
    known = all(one.step is not None for one in reads)
    steps = len({one.step for one in reads}) if known else None
    return Seen(str(path), query, len(numbers), steps, before, tuple(reads))


def _when(one: SampleRead) -> tuple[int, int]:
    return one.sample, one.sequence


def _found(reader: Samples | RunReader, source: int, query: str, tokenizer: str | None) -> list[int]:
    """Return the sequences of a source that a query of `tokfmt show` finds."""
    of_source: RunSource | TokenSource
    eos: EosChoice = "none"
    options: Options = ()
    if isinstance(reader, RunReader):
        of_source = reader.order.sources[source]
        options = {key: str(value) for key, value in of_source.options.items()}
    else:
        of_source = reader.sources[source]
        eos = of_source.eos_id
    if len(of_source.paths) != 1:
        raise OptionError(f"{printable(of_source.name)}: has several paths. Give the number of a sequence", name="seen")
    request = SourceRequest.of(shortest(of_source.paths[0]), of_source.format, eos, options)
    found = show(request, query, tokenizer=tokenizer, limit=_MATCHES)
    numbers = [one.index for one in found.shown]
    if not numbers:
        raise OptionError(f"{query} finds no sequence in {printable(of_source.name)}", name="seen")
    if found.cut() is not None:
        raise OptionError(f"{query} finds more than {counted(_MATCHES, 'sequence')}. Ask for fewer", name="seen")
    return numbers


def _reads(
    reader: Samples | RunReader, source: int, number: int, batch_size: int | None, world_size: int
) -> list[SampleRead]:
    if isinstance(reader, RunReader):
        count, name = reader.datasets[source].spans.count, reader.order.sources[source].name
        _check(number, count, name)
        return [SampleRead(name, number, *one) for one in reader.seen(source, number)]
    one = reader.sources[source]
    _check(number, one.all_of_it.info.sequences, one.name)
    found = list[SampleRead]()
    for sample, epoch in reader.seen(source, number):
        step = None if batch_size is None else sample // batch_size
        rank = None if batch_size is None else sample % batch_size // (batch_size // world_size)
        found.append(SampleRead(one.name, number, sample, None, step, rank, epoch))
    return found


def _check(number: int, count: int, name: str) -> None:
    if number >= count:
        raise OptionError(f"{printable(name)} has sequences 0 to {count - 1:,}, not {number:,}", name="seen")
