"""Convert any format to any format, and publish a destination that several tasks wrote.

The destination is complete, or not written. As a source, `-` is standard input; as a destination, it is standard
output. A FIFO (`<(...)`) can be a source too. All of them go through private scratch in $TMPDIR, because tokfmt reads
sources more than once, and because output is complete, or not written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tokfmt import registry
from tokfmt.core.errors import FormatError, OptionError
from tokfmt.core.files import write_error
from tokfmt.core.locks import Scratch
from tokfmt.core.once import OpenedOnce
from tokfmt.core.options import given_options
from tokfmt.core.place import PlaceLike, absolute, destination_of, place_of
from tokfmt.core.spool import is_named
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.arrangement import arrangement_of
from tokfmt.ops.convert.dry_run import dry_run, read_from_stores
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.pipes import piped, print_files, renamed
from tokfmt.ops.convert.prepare import prepare
from tokfmt.ops.convert.publish import Proof, publish
from tokfmt.ops.convert.request import Conversion, Request, task_of
from tokfmt.ops.convert.resolve import Given, resolve
from tokfmt.ops.convert.results import finished_before
from tokfmt.ops.convert.resume import facts_of, request_of_tasks
from tokfmt.ops.convert.workplace import workers_of, workplace
from tokfmt.ops.convert.write import write
from tokfmt.ops.source.open import advise_partial
from tokfmt.ops.source.request import (
    STREAM,
    EosChoice,
    Options,
    Selection,
    SourceRequest,
    expanded,
    is_pipe,
    selection_words,
)
from tokfmt.run.execute import NullProgress, Progress, is_cluster, worker_count


def convert(
    sources: PlaceLike | Sequence[PlaceLike],
    destination: PlaceLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    to_format: str | None = None,
    options: Options = (),
    to_options: Options = (),
    tokenizer: str | None = None,
    special_tokens: Literal["text", "parse"] = "text",
    engine: Literal["auto", "fastokens", "tokenizers"] = "auto",
    text_field: str | None = None,
    eos: EosChoice = None,
    seq_len: int | None = None,
    split: str | None = None,
    seed: int | None = None,
    shuffle: int | None = None,
    select: Selection = None,
    allow_loss: Iterable[str] = (),
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    recursive: bool = False,
    ignore_manifest: bool = False,
    allow_partial: bool = False,
    resume: bool = False,
    task: tuple[int, int] | None = None,
    rejects: PlaceLike | None = None,
    ledger: bool = False,
    spool: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, str | bool] | None = None,  # noqa: ARG001 -- `wording.spoken` uses them
    allow_source: str | Iterable[str] = (),  # noqa: ARG001
) -> Conversion:
    """Convert one or more datasets to one dataset of any format, and return what was done.

    Args:
        sources: One path, or several that are concatenated in order. A pattern (`part-*.jsonl`) names all files that
            it matches, in natural order (part-2 before part-10). `-` is standard input. Pipes carry JSON Lines.
        destination: The path or the address (s3, gs, az) to write. It is complete, or not written. `-` is standard
            output, for jsonl (the default) and stage1.
        format: Format of the sources (default: detected from content).
        to_format: Format of the destination (default: by its name).
        options: Options of the source format, as a mapping or `key=value` words.
        to_options: Options of the destination format, as a mapping or `key=value` words.
        tokenizer: Name, directory or tokenizer.json. It encodes text, or decodes token IDs if the destination holds
            text. Other token IDs are copied, and never encoded again: it gives their separator if nothing else states
            it, and an ID that it does not have is refused.
        special_tokens: "text" encodes a special token that occurs in a text as plain text, "parse" as the token.
        engine: Library that encodes text.
        text_field: Dotted path of the text in JSON records.
        eos: ID of the separator, "none", or None to infer it.
        seq_len: Tokens per sample, for formats that store samples.
        split: The split to read, and to write; or `NAME=SHARE,...`, the splits that sequences are dealt to.
        seed: Seed that deals sequences to splits (default: 0).
        shuffle: Seed of a global shuffle of the sequences. Each split is shuffled by itself.
        select: Sequence numbers: `A:B`, one number, or a slice or range without a step.
        allow_loss: Names of the losses that you accept.
        jobs: Number of workers (default: one per core).
        executor: "threads", "processes", "serial", "dask", "dask:ADDRESS" or "auto". "auto" takes processes for much
            text or many HDF5 samples, and threads for the rest and for readers of classes that the calling script
            defines. Processes do not run that script. The bytes written do not depend on the executor.
        overwrite: Replace an existing destination in one step.
        verify: Read the destination back and compare it before it appears.
        dry_run: Return what would be done, and write nothing.
        manifest: Write `DST.tokfmt.json`.
        checksums: Compute checksums of large sources too.
        recursive: Read subdirectories too.
        ignore_manifest: Continue if a manifest contradicts its source.
        allow_partial: Save the sequences of a damaged source that are certain to be complete.
        resume: Continue an interrupted run with `resume`. If this run is interrupted, keep its finished work.
        task: (i, n): write only the part of task i of n, 0 <= i < n. `finish` publishes the destination.
        rejects: A JSON Lines file for the texts that a recipe leaves out. It states where each text is, why it is left
            out, and the equal text that is kept.
        ledger: Write `DST.ledger`: the file and the record that each sequence of a recipe comes from.
        spool: A directory in which a destination in a store is built (default: TOKFMT_SPOOL, or $TMPDIR).
        progress: Receives phases, counts and notes while the conversion runs.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.
        allow_source: Addresses or directories, one or several, that a recipe in a store may name outside of that store.

    Returns:
        The result, with counts, notes and losses.

    Raises:
        TokfmtError: The conversion failed. The destination is as it was before.
    """
    arrangement = arrangement_of(shuffle, split, seed)
    read = None if arrangement.shares else split
    source = SourceRequest.of(
        sources, format, eos, options, text_field, read, allow_loss, recursive, ignore_manifest, allow_partial
    )
    request = Request(
        source=source,
        destination=destination_of(destination),
        to=to_format,
        to_options=given_options(to_options),
        tokenizer=tokenizer,
        special_tokens=special_tokens,
        engine=engine,
        seq_len=seq_len,
        arrangement=arrangement,
        select=selection_words(select),
        jobs=worker_count(jobs),
        executor=executor,
        overwrite=overwrite,
        verify=verify,
        dry_run=dry_run,
        manifest=manifest,
        checksums=checksums,
        resume=resume,
        ledger=ledger,
        task=None if task is None else task_of(task),
        rejects=None if rejects is None else destination_of(rejects),
        spool=None if spool is None else Path(spool),
    )
    return _convert(request, progress or NullProgress())


def _convert(request: Request, progress: Progress) -> Conversion:
    if request.destination == Path(STREAM):
        if request.ledger:
            raise OptionError("--ledger is written beside DST, and standard output has nothing beside it. Name a file")
        return _to_stdout(request, progress)
    given = expanded(request.source.paths)
    if not given:
        raise OptionError("nothing to convert: name at least one source")
    if is_cluster(request.executor):  # a worker of a cluster may run in another directory
        given = tuple(absolute(place_of(path)) for path in given)
    pipe = next(filter(is_pipe, given), None)
    if pipe is not None and request.kept:
        raise OptionError(f"{printable(pipe)}: a pipe cannot be read again. Save it to a file")
    request = replace(request, source=replace(request.source, paths=given))
    if pipe is None:
        return carry_out(request, progress)
    with piped(given, progress) as (paths, names):
        return carry_out(replace(request, source=replace(request.source, paths=paths), piped=names), progress)


def carry_out(
    request: Request, progress: Progress, *, prove: Proof | None = None, given: Given | None = None
) -> Conversion:
    """Run the stages of a conversion, and return its result.

    Args:
        request: The conversion, with paths of files instead of patterns and pipes.
        progress: Receives phases, counts and notes.
        prove: Checks the complete destination right before it is published; see `publish.Proof`.
        given: Sources that are open already, and the axis over them that is written instead of all their sequences.

    Raises:
        TokfmtError: The conversion failed. The destination is as it was before.
    """
    try:
        with OpenedOnce(map(place_of, request.source.paths)) as opened:
            notes, before = Notes(progress, request.piped), read_from_stores() if request.dry_run else 0
            resolved = resolve(request, notes, given)
            opened.collects = False
            if request.dry_run:
                return dry_run(resolved, notes, read_from_stores() - before)
            facts = facts_of(resolved.request, resolved.facts(), resolved.before) if request.kept else {}
            again = request.resume and request.task is None
            if again and (done := finished_before(resolved, facts, notes)):
                return done
            if resolved.request.is_spread and not is_named(resolved.request.spool):
                from tokfmt.ops.convert.spread import spread  # it imports tokfmt.remote

                return spread(resolved, notes, carry_out, finish)
            with workplace(resolved, facts, notes) as place:
                with workers_of(resolved, place) as workers:
                    if resolved.copies:
                        from tokfmt.ops.convert.copy_lines import copy_lines  # it imports the format jsonl

                        written = copy_lines(resolved, place, workers, notes)
                    else:
                        prepared = prepare(resolved, place, workers, notes)
                        written = write(resolved, prepared, place, workers, notes)
                return publish(resolved, written, place, notes, prove)
    except BrokenPipeError:
        raise
    except FormatError as error:
        advise_partial(error, request.source)
        raise
    except OSError as error:  # readers raise FormatError for their own, so this one comes from writing
        raise write_error(request.destination, error) from error


def finish(
    destination: PlaceLike,
    *,
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    spool: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Publish a destination whose tasks (`convert(..., task=(i, n))`) are all complete.

    The tasks recorded the sources and the options of the conversion.

    Args:
        destination: The destination that the tasks were given.
        jobs: Number of workers (default: one per core).
        executor: As for `convert`.
        overwrite: Replace an existing destination in one step.
        verify: Read the destination back and compare it before it appears.
        manifest: Write `DST.tokfmt.json`.
        checksums: Compute checksums of large sources too.
        spool: The directory of the tasks of a destination in a store.
        progress: Receives phases, counts and notes while this runs.

    Returns:
        The result, with counts, notes and losses.

    Raises:
        ConversionError: Tasks are missing (the error names them), or still run.
        TokfmtError: As for `convert`. The work of the tasks is kept.
    """
    request = replace(
        request_of_tasks(destination_of(destination), None if spool is None else Path(spool)),
        jobs=worker_count(jobs),
        executor=executor,
        overwrite=overwrite,
        verify=verify,
        manifest=manifest,
        checksums=checksums,
    )
    return carry_out(request, progress or NullProgress())


def _to_stdout(request: Request, progress: Progress) -> Conversion:
    """Convert to scratch, and copy the files of the result to standard output.

    Raises:
        OptionError: The format is not a stream, or an option needs a path to write to.
        BrokenPipeError: The reader of standard output has closed it.
    """
    format_ = registry.get(request.to or "jsonl")
    if not format_.can_stream:
        raise OptionError(f"-: {format_.name} cannot be written to a pipe (expected jsonl or stage1). Name a file")
    kept = "--resume" if request.resume else "--task" if request.task else ""
    if kept or request.arrangement.shares is not None:
        kept = kept or "shares in --split"
        raise OptionError(f"-: {kept} needs a place to write to. Name a file")
    with Scratch() as home:
        place = home / "piped"
        with renamed({str(place): STREAM}):
            filed = replace(request, destination=place, to=format_.name, manifest=False, overwrite=False)
            done = _convert(filed, progress)
            if not request.dry_run:
                print_files(format_.files(place))
    return replace(done, destination=STREAM)
