"""Convert any format to any format, and publish a destination that several tasks wrote.

The destination is complete, or not written. `convert_files` is the whole flow, from the request to the published
dataset; read it first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from tokfmt.commands.convert.arrangement import deal, stored_axis
from tokfmt.commands.convert.checks import check_options, check_parts, check_places, check_request, check_streams
from tokfmt.commands.convert.destination import (
    Destination,
    choose_contents,
    choose_destination,
    choose_separators,
    with_rows,
)
from tokfmt.commands.convert.gather import gather
from tokfmt.commands.convert.inputs import Inputs, OpenedSources, find_files, open_inputs, printed, unpiped
from tokfmt.commands.convert.losses import (
    accept_losses,
    known_losses,
    note_ids,
    record_losses,
    refuse_known_losses,
    try_tokenizer,
)
from tokfmt.commands.convert.publish import Proof, Workplace, publish, publishers_of, workers_of, workplace
from tokfmt.commands.convert.report import PortionCounts, Written, dry_run, finished_before, read_from_stores
from tokfmt.commands.convert.request import Conversion, Estimate, Notes, Request
from tokfmt.commands.convert.resume import facts_of
from tokfmt.commands.convert.selection import reads_ends
from tokfmt.commands.convert.tasks import (
    conversion_of,
    finish_parts,
    is_in_parts,
    parts_record,
    published_by_finish,
    request_of_tasks,
    write_part,
)
from tokfmt.commands.convert.write import write_ledger, write_portion
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader, SkippedRecords
from tokfmt.errors import FormatError, Loss
from tokfmt.files.file import write_error
from tokfmt.files.listing import Listing
from tokfmt.files.place import LocalPlace, PlaceLike, Url, destination_of, place_of
from tokfmt.files.spool import is_named
from tokfmt.run.execute import is_cluster, may_spawn, worker_count
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.discover import snapshot
from tokfmt.source.ingest import sample_records
from tokfmt.source.open import advise_partial, presuming
from tokfmt.source.request import STREAM, expanded, is_pipe
from tokfmt.source.stored import axes_of, records_of, tokenizer_of

# Bytes of text, or tokens to gather, from which processes pay off. A process takes 1 CPU second to start for text, and
# 0.2 for gathering.
_WORTH = 64 << 20


def convert(request: Request, progress: Progress) -> Conversion:
    """Convert datasets, patterns or pipes to one dataset. If that fails, the destination is as it was before."""
    paths = expanded(request.source.paths)
    pipes = [number for number, path in enumerate(paths) if is_pipe(path)]
    check_streams(request, paths, pipes)
    if is_cluster(request.executor):  # a worker of a cluster may run in another directory
        paths = tuple(place_of(path).normalized() for path in paths)
    request = replace(request, source=replace(request.source, paths=paths))
    with printed(request) as filed, unpiped(filed, pipes, progress) as readable:
        notes = Notes(progress, readable.piped)
        run = partial(convert_files, readable, notes)
        if request.task or readable.is_spread:
            # Tasks cannot begin again together, and stores are not read by each of them.
            done = run(every_end=not any(isinstance(place_of(path), Url) for path in paths))
        else:
            done = run(every_end=True) if reads_ends(request.select) else presuming(run, notes.begin_again)
    return replace(done, destination=STREAM) if request.destination == LocalPlace(STREAM) else done


def convert_files(
    request: Request,
    progress: Progress,
    *,
    prove: Proof | None = None,
    opened: OpenedSources | None = None,
    every_end: bool = False,
) -> Conversion:
    """Convert datasets, and return what was done. `prove` checks the complete destination right before it is published.
    `opened` are sources that are open already, and the axis over them that is written instead of all their sequences.
    """
    notes = progress if isinstance(progress, Notes) else Notes(progress, request.piped)
    if every_end:
        request = replace(request, source=replace(request.source, every_end=True))
    with _reported(request):
        asked, downloaded = request, read_from_stores() if request.dry_run else 0

        # What is read, and what is written.
        destination = choose_destination(request)
        request = replace(request, destination=destination.path)
        check_options(request, destination)
        tokenizer = tokenizer_of(request.tokenizer, special_tokens=request.special_tokens, engine=request.engine)
        with Listing() as listing:
            files = find_files(request, opened, listing)
            check_places(request, destination, files.files)
            before = snapshot(files.files)
            publishers = publishers_of(request, destination, before, notes)
            listing.forget_stored()
            inputs = open_inputs(request, files, before, tokenizer, opened, notes)
        destination = choose_contents(request, inputs, destination)
        if destination.packed is not None:
            inputs = inputs.of_reader(destination.packed)
        check_request(request, inputs, destination, by_request=opened is None)
        destination = choose_separators(request, inputs, destination)

        # What is lost, as far as it is known without reading all.
        unread = list[str](), SkippedRecords()  # of token IDs
        looks = [
            sample_records(source) if isinstance(source.reader, RecordReader) else unread for source in inputs.sources
        ]
        losses = known_losses(request, inputs, destination)
        refuse_known_losses(request, inputs, destination, losses, [skipped for _, skipped in looks])
        texts = next((texts for texts, _ in looks if texts), [])
        if inputs.tokenizer is not None:
            inputs = try_tokenizer(request, inputs, destination, inputs.tokenizer, texts, notes)
        note_ids(inputs, destination, notes)
        if request.executor == "auto":
            request = replace(request, executor=choose_executor(request, inputs, destination))

        # Runs that write nothing themselves.
        if request.dry_run:
            downloads = read_from_stores() - downloaded
            return dry_run(request, inputs, destination, losses, publishers, notes, downloads, _estimate)
        facts = facts_of(request, destination.facts(inputs), before) if request.keeps_work else {}
        if request.resume and request.task is None:
            done = finished_before(request, inputs, destination, facts, notes)
            if done is not None:
                return done
        is_shared = request.task is not None or request.is_spread
        if is_shared and (shared := _run_in_tasks(asked, request, inputs, destination, notes)) is not None:
            return shared

        # Write, then publish.
        with workplace(request, publishers, facts, notes) as place:
            with workers_of(request, inputs, place) as workers:
                if destination.copies_lines:
                    from tokfmt.commands.convert.lines import copy_lines  # it imports the format jsonl

                    written = copy_lines(request, inputs, destination, place, workers, notes)
                else:
                    destination, written = _write_tokens(request, inputs, destination, losses, place, workers, notes)
            return publish(request, inputs, destination, written, place, notes, prove)


def _estimate(request: Request, inputs: Inputs, axis: TokenReader | None) -> Estimate | str:
    """Return what a run takes; see `estimate.estimated`."""
    from tokfmt.commands.convert.estimate import estimated, scaled

    found = estimated(request, inputs, axis, _write_tokens)
    if request.scale is None or isinstance(found, str):
        return found
    return scaled(found, sum(identity.size for identity in inputs.before.values()), request.scale)


def _run_in_tasks(
    asked: Request, request: Request, inputs: Inputs, destination: Destination, notes: Notes
) -> Conversion | None:
    """Run a task that writes a file of its own, or all tasks on a cluster; None if the request is for neither."""
    in_parts = is_in_parts(request, inputs)
    url = (asked if in_parts else request).destination
    if not isinstance(url, Url):  # Tasks of one file system share the hidden directory of the destination.
        return None
    if in_parts:
        check_parts(asked, request, inputs, destination)
        if request.task:
            fresh = notes.fresh()
            return write_part(url, request.task, asked, inputs, destination, lambda part: convert_files(part, fresh))
    if request.is_spread and not is_named(request.spool):
        from tokfmt.commands.convert.spread import spread  # it imports tokfmt.stores

        return spread(url, request, inputs, destination, notes, convert_files, finish, in_parts=in_parts)
    return None


def _write_tokens(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    losses: list[Loss],
    place: Workplace,
    workers: Workers,
    notes: Notes,
) -> tuple[Destination, Written]:
    """Gather the sources to one token axis, accept its losses, and write each portion."""
    target, allow_loss = destination.target(request, inputs.tokenizer), request.source.allow_loss
    writers = place.writers(destination, target)  # before text is tokenized: options may contradict each other
    gathered = gather(request, inputs, destination, workers, notes)
    if request.task is not None and records_of(inputs.read):  # --finish joins the parts of all tasks.
        accepted = record_losses(gathered.skipped, destination.format, allow_loss).accepted(request)
        workers.journal.sync()
        workers.journal.add("task", request.task.index, None)
        return destination, Written([PortionCounts(destination.portions[0], None, None)], accepted)
    if gathered.made and len(inputs.read) == 1:  # The samples of a recipe of text exist only now.
        destination = with_rows(destination, gathered.made[0], request)
        target = target._replace(separators=destination.traits.separators)
        writers = place.writers(destination, target) if destination.rows is not None else writers
    if request.arrangement.shares is None:  # before tokens are read, and before a shuffle takes space
        axis = destination.packed or gathered.axis
        least = axis if "empty-sequences" in allow_loss else stored_axis(axis, target)
        place.need_room(destination.portions[0], writers[0], least)
    content = accept_losses(request, inputs, destination, gathered, losses, target, writers[0], workers)
    arrangement = request.arrangement
    arrangement = replace(arrangement, shares=deal(arrangement.shares, gathered.axis, workers, notes))
    request = replace(request, arrangement=arrangement)
    if request.verify and request.task is None:
        from tokfmt.commands.convert.verify import verify_counts  # fingerprints need numpy.random and xxhash

        verify_counts(gathered.counts)
    for note in content.notes:
        notes.add(note)
    portions = [
        write_portion(request, destination, content, target, portion, writer, place, workers, notes)
        for portion, writer in zip(destination.portions, writers, strict=True)
    ]
    ledger = None
    if request.ledger and request.task is None:
        ledger = write_ledger(inputs, destination, content, place.first.scratch, notes)
    content.reader.close()
    padded = 0 if destination.packed else gathered.padded
    return destination, Written(portions, content.losses, gathered.report, padded, ledger)


@contextmanager
def _reported(request: Request) -> Iterator[None]:
    """Advise --allow-partial in errors of damaged sources, and name the destination in errors of writing."""
    try:
        yield
    except BrokenPipeError:
        raise
    except FormatError as error:
        advise_partial(error, request.source)
        raise
    except OSError as error:  # readers raise FormatError for their own, so this one comes from writing
        raise write_error(request.destination, error) from error


def choose_executor(request: Request, inputs: Inputs, destination: Destination) -> str:
    """Return "processes" if workers would wait for the interpreter's lock and there is much work, else "threads".

    Parsing JSON holds the lock, and so does gathering parts while others are written. Codecs release it.
    """
    much = destination.traits.joins_under_lock and sum(axis.info.tokens for axis in axes_of(inputs.read)) >= _WORTH
    if inputs.tokenizer is not None:
        much |= sum(records.info.size for records in records_of(inputs.read)) >= _WORTH
    spawns = much and request.jobs > 1 and may_spawn([source.reader for source in inputs.read])
    return "processes" if spawns else "threads"


def finish(
    destination: PlaceLike,
    *,
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    manifest: bool = True,
    spool: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Publish a destination whose tasks (`convert(..., task=(i, n))`) are all complete.

    The tasks recorded the sources and the options of the conversion. The spool is the directory of the tasks of a
    destination in a store. If it fails, the work of the tasks is kept.
    """
    place = destination_of(destination)
    if isinstance(place, Url) and (record := parts_record(place)) is not None:
        return finish_parts(place, record)
    if (content := published_by_finish(place)) is not None:
        return conversion_of(place, content)
    request = replace(
        request_of_tasks(place, None if spool is None else Path(spool)),
        jobs=worker_count(jobs),
        executor=executor,
        overwrite=overwrite,
        verify=verify,
        manifest=manifest,
    )
    return convert_files(request, progress or Progress())
