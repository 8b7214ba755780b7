"""Make the hidden directory and the journal of each destination, and start the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokfmt.commands.convert.arrangement import SplitTarget
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.notes import Notes
from tokfmt.commands.convert.request import Request
from tokfmt.commands.convert.resume import Facts, resumed
from tokfmt.commands.convert.space import need_room
from tokfmt.commands.destination import strangers_in
from tokfmt.commands.source.ingest import blocks_of
from tokfmt.core.format import Target, TokenWriter
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.files.journal import NullJournal
from tokfmt.files.place import Place, Url, local_path
from tokfmt.files.publisher import Publisher
from tokfmt.files.replacing import readable_by
from tokfmt.files.store import Identity
from tokfmt.run.execute import ClusterExecutor, make_executor
from tokfmt.run.plan import Share, Sink, Stretch, Workers


@dataclass(frozen=True, slots=True)
class Workplace:
    """The hidden directories where the portions of a conversion are built.

    Attributes:
        stagings: The hidden directory of each destination, by path.
        journals: The journal of each destination, by path.
        first: The hidden directory of the first destination, where the text of all portions is tokenized.
        facts: The facts that a run has to repeat to continue this one; empty if no run can continue it.
        sinks: The sinks of those whose files are uploaded as soon as they are complete.
    """

    stagings: Mapping[Place, Publisher]
    journals: Mapping[Place, NullJournal]
    first: Publisher
    facts: Facts
    sinks: Mapping[Place, Sink] = field(default_factory=dict)

    def of(self, portion: SplitTarget, workers: Workers) -> tuple[Path, Workers]:
        """Return the path to write a portion to, and the workers with the scratch and journal of its destination."""
        staging = self.stagings[portion.destination]
        journal, sink = self.journals[portion.destination], self.sinks.get(portion.destination)
        return staging.path, replace(workers, scratch=staging.scratch, journal=journal, sink=sink)

    def writers(self, destination: Destination, target: Target) -> list[TokenWriter]:
        """Return the writer of each portion, in the order of the portions."""
        return [
            destination.writer(self.stagings[portion.destination].path, portion, target)
            for portion in destination.portions
        ]

    def need_room(self, portion: SplitTarget, writer: TokenWriter, stored: TokenReader) -> None:
        """Refuse a portion that does not fit where it is built, unless its files are uploaded as they are complete.

        Raises:
            ConversionError: The file system has less free space.
        """
        if portion.destination in self.sinks and writer.finishes_files:
            return
        need_room(portion.destination, self.stagings[portion.destination].path, writer.minimum_bytes(stored))


def hidden_directories(
    request: Request, destination: Destination, before: Mapping[Place, Identity], notes: Notes
) -> dict[Place, Publisher]:
    """Return the hidden directory of each destination, after a check that the destination may be replaced.

    If the request keeps its work, `resumed` makes that check instead.

    Args:
        request: The request.
        destination: The destination with its portions.
        before: The identity of each source file; a destination gets no permissions that a source file lacks.
        notes: Receives notes on destinations in stores.
    """
    suffix = "" if not request.keeps_work else "tasks" if request.in_tasks else "resume"
    stagings = dict[Place, Publisher]()
    for path in destination.paths:
        companions, is_shared = destination.format.companions(path), request.task is not None
        if isinstance(path, Url):
            from tokfmt.commands.convert.upload import StorePublisher

            stagings[path] = StorePublisher(
                path,
                destination.format,
                spool=request.spool,
                overwrite=request.overwrite,
                kept=suffix,
                shared=is_shared,
                companions=[companion for companion in companions if isinstance(companion, Url)],
                note=notes.note,
            )
            continue
        stagings[path] = Publisher(
            local_path(path, "a destination"),
            overwrite=request.overwrite,
            objection=strangers_in(path),
            readable=readable_by(before),
            kept=suffix,
            shared=is_shared,
            companions=[companion.name for companion in companions],
        )
    for staging in stagings.values() if request.dry_run or not request.keeps_work else ():
        staging.check_replaceable()
    return stagings


@contextmanager
def workplace(request: Request, stagings: Mapping[Place, Publisher], facts: Facts, notes: Notes) -> Iterator[Workplace]:
    """Make a hidden directory for each destination, or continue in the one that an earlier run kept."""
    with ExitStack() as stack:
        journals = {
            path: stack.enter_context(_entered(staging, request, facts, notes)) for path, staging in stagings.items()
        }
        sinks = dict[Place, Sink]()
        if any(isinstance(path, Url) for path in journals):
            from tokfmt.commands.convert.upload import sinks_of

            sinks = sinks_of(stagings, request)
        yield Workplace(stagings, journals, next(iter(stagings.values())), facts, sinks)


@contextmanager
def _entered(staging: Publisher, request: Request, facts: Facts, notes: Notes) -> Iterator[NullJournal]:
    """Make one hidden directory, and yield its journal."""
    if request.keeps_work:
        with resumed(staging, request, facts, notes.note) as (_, journal):
            yield journal
        return
    with staging:
        if staging.removed:
            what = f"{staging.home.name}, which an unfinished conversion had left"
            notes.note(f"removed {what}; --resume would have continued it")
        yield NullJournal()


@contextmanager
def workers_of(request: Request, inputs: Inputs, place: Workplace) -> Iterator[Workers]:
    """Start the workers of a conversion, which share the scratch of its first destination."""
    first = place.first
    with make_executor(request.executor, request.jobs) as executor:
        slots = executor.slots if isinstance(executor, ClusterExecutor) else request.jobs
        share = Share(request.task) if request.task else Stretch(request.part) if request.part else None
        texts = first.home / "scratch"  # all tasks share this directory
        journal = next(iter(place.journals.values()))
        workers = Workers(executor, slots, first.scratch, journal, texts, share)
        if isinstance(share, Stretch):
            readers = [source.reader for source in inputs.read]
            share.total = sum(len(blocks_of(one, workers)) for one in readers if isinstance(one, RecordReader))
        yield workers
