"""Make the hidden directory and the journal of each destination, and start the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokfmt.core.format import TokenWriter
from tokfmt.core.place import Place, Url
from tokfmt.core.publisher import Publisher
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.ops.convert.arrangement import SplitTarget
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.resume import Facts, resumed
from tokfmt.ops.convert.space import need_room
from tokfmt.ops.source.ingest import blocks_of
from tokfmt.run.execute import ClusterExecutor, make_executor
from tokfmt.run.plan import NullJournal, Share, Sink, Stretch, Workers


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

    def need_room(self, portion: SplitTarget, writer: TokenWriter, stored: TokenReader) -> None:
        """Refuse a portion that does not fit where it is built, unless its files are uploaded as they are complete.

        Raises:
            ConversionError: The file system has less free space.
        """
        if portion.destination in self.sinks and writer.finishes_files:
            return
        need_room(portion.destination, self.stagings[portion.destination].path, writer.minimum_bytes(stored))


@contextmanager
def workplace(resolved: Resolved, facts: Facts, notes: Notes) -> Iterator[Workplace]:
    """Make a hidden directory for each destination, or continue in the one that an earlier run kept."""
    with ExitStack() as stack:
        journals = {
            path: stack.enter_context(_entered(staging, resolved, facts, notes))
            for path, staging in resolved.stagings.items()
        }
        sinks = dict[Place, Sink]()
        if any(isinstance(path, Url) for path in journals):
            from tokfmt.ops.convert.upload import sinks_of

            sinks = sinks_of(resolved.stagings, resolved.request)
        yield Workplace(resolved.stagings, journals, next(iter(resolved.stagings.values())), facts, sinks)


@contextmanager
def _entered(staging: Publisher, resolved: Resolved, facts: Facts, notes: Notes) -> Iterator[NullJournal]:
    """Make one hidden directory, and yield its journal."""
    if resolved.request.kept:
        with resumed(staging, resolved.request, facts, notes.report) as (_, journal):
            yield journal
        return
    with staging:
        if staging.removed:
            what = f"{staging.home.name}, which an unfinished conversion had left"
            notes.report(f"removed {what}; --resume would have continued it")
        yield NullJournal()


@contextmanager
def workers_of(resolved: Resolved, place: Workplace) -> Iterator[Workers]:
    """Start the workers of a conversion, which share the scratch of its first destination."""
    request, first = resolved.request, place.first
    with make_executor(request.executor, request.jobs) as executor:
        slots = executor.slots if isinstance(executor, ClusterExecutor) else request.jobs
        share = Share(request.task) if request.task else Stretch(request.part) if request.part else None
        texts = first.home / "scratch"  # all tasks share this directory
        journal = next(iter(place.journals.values()))
        workers = Workers(executor, slots, first.scratch, journal, texts, share)
        if isinstance(share, Stretch):
            readers = [source.reader for source in resolved.read]
            share.total = sum(len(blocks_of(one, workers)) for one in readers if isinstance(one, RecordReader))
        yield workers
