"""Convert any format to any format, and publish a destination that several tasks wrote.

The destination is complete, or not written. As a source, `-` is standard input; as a destination, it is standard
output. A FIFO (`<(...)`) can be a source too. All of them go through private scratch in $TMPDIR, because tokfmt reads
sources more than once, and because output is complete, or not written.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from tokfmt import registry
from tokfmt.core.errors import FormatError, OptionError
from tokfmt.core.files import write_error
from tokfmt.core.locks import Scratch
from tokfmt.core.place import LocalPlace, PlaceLike, Url, destination_of, place_of
from tokfmt.core.spool import is_named
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.dry_run import dry_run, read_from_stores
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.parts import finish_parts, is_in_parts, parts_record, refuse_parts, write_part
from tokfmt.ops.convert.pipes import piped, print_files, renamed
from tokfmt.ops.convert.prepare import prepare
from tokfmt.ops.convert.publish import Proof, publish
from tokfmt.ops.convert.request import Conversion, Request
from tokfmt.ops.convert.resolve import Given, Resolved, resolve
from tokfmt.ops.convert.results import finished_before
from tokfmt.ops.convert.resume import facts_of, request_of_tasks
from tokfmt.ops.convert.workplace import workers_of, workplace
from tokfmt.ops.convert.write import write
from tokfmt.ops.source.open import advise_partial, presuming
from tokfmt.ops.source.request import (
    STREAM,
    expanded,
    is_pipe,
)
from tokfmt.run.execute import NullProgress, Progress, is_cluster, worker_count


def convert(request: Request, progress: Progress) -> Conversion:
    """Convert one or more datasets to one dataset of any format, and return what was done.

    Args:
        request: The conversion. Its sources may be patterns and pipes.
        progress: Receives phases, counts and notes.

    Raises:
        TokfmtError: The conversion failed. The destination is as it was before.
    """
    if request.destination == LocalPlace(STREAM):
        if request.ledger:
            raise OptionError("--ledger is written beside DST, and standard output has nothing beside it. Name a file")
        return _to_stdout(request, progress)
    given = expanded(request.source.paths)
    if not given:
        raise OptionError("nothing to convert: name at least one source")
    if is_cluster(request.executor):  # a worker of a cluster may run in another directory
        given = tuple(place_of(path).normalized() for path in given)
    pipe = next(filter(is_pipe, given), None)
    if pipe is not None and request.kept:
        raise OptionError(f"{printable(pipe)}: a pipe cannot be read again. Save it to a file")
    request = replace(request, source=replace(request.source, paths=given))
    if pipe is not None:
        with piped(given, progress) as (paths, names):
            return convert(replace(request, source=replace(request.source, paths=paths), piped=names), progress)
    notes = Notes(progress, request.piped)
    run = partial(carry_out, request, progress, notes=notes)
    if request.task or request.is_spread:  # Tasks cannot begin again together, and stores are not read by each of them.
        return run(every_end=not any(isinstance(place_of(path), Url) for path in given))
    return presuming(run, notes.begin_again)


def carry_out(
    request: Request,
    progress: Progress,
    *,
    prove: Proof | None = None,
    given: Given | None = None,
    notes: Notes | None = None,
    every_end: bool = False,
) -> Conversion:
    """Run the stages of a conversion, and return its result.

    Args:
        request: The conversion, with paths of files instead of patterns and pipes.
        progress: Receives phases, counts and notes.
        prove: Checks the complete destination right before it is published; see `publish.Proof`.
        given: Sources that are open already, and the axis over them that is written instead of all their sequences.
        notes: Receives the notes (default: those that report to `progress`).
        every_end: See `SourceRequest`.

    Raises:
        TokfmtError: The conversion failed. The destination is as it was before.
    """
    notes = notes or Notes(progress, request.piped)
    if every_end:
        request = replace(request, source=replace(request.source, every_end=True))
    try:
        before = read_from_stores() if request.dry_run else 0
        resolved = resolve(request, notes, given)
        if request.dry_run:
            return dry_run(resolved, notes, read_from_stores() - before)
        facts = facts_of(resolved.request, resolved.facts(), resolved.before) if request.kept else {}
        again = request.resume and request.task is None
        if again and (done := finished_before(resolved, facts, notes)):
            return done
        if (shared := _in_tasks(request, resolved, progress, notes)) is not None:
            return shared
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


def _in_tasks(request: Request, resolved: Resolved, progress: Progress, notes: Notes) -> Conversion | None:
    """Run a task that writes a file of its own, or all tasks on a cluster; None if the request is for neither."""
    if is_in_parts(resolved):
        refuse_parts(request, resolved)
        if request.task:
            return write_part(request, resolved, lambda part: carry_out(part, progress))
    if resolved.request.is_spread and not is_named(resolved.request.spool):
        from tokfmt.ops.convert.spread import spread  # it imports tokfmt.remote

        return spread(resolved, request.destination, notes, carry_out, finish)
    return None


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
    place = destination_of(destination)
    if isinstance(place, Url) and (record := parts_record(place)) is not None:
        return finish_parts(place, record)
    request = replace(
        request_of_tasks(place, None if spool is None else Path(spool)),
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
        place = LocalPlace(home / "piped")
        with renamed({str(place): STREAM}):
            filed = replace(request, destination=place, to=format_.name, manifest=False, overwrite=False)
            done = convert(filed, progress)
            if not request.dry_run:
                print_files(format_.files(place))
    return replace(done, destination=STREAM)
