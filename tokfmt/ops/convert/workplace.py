"""Make the hidden directory and the journal of each destination, and start the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core import listing
from tokfmt.core.format import TokenWriter
from tokfmt.core.place import Place
from tokfmt.core.publisher import Publisher
from tokfmt.core.reader import TokenReader
from tokfmt.core.spool import StoreStaging
from tokfmt.ops.convert.arrangement import SplitTarget
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Request
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.resume import Facts, resumed
from tokfmt.ops.convert.space import need_room
from tokfmt.run.execute import ClusterExecutor, make_executor
from tokfmt.run.plan import NullJournal, Share, Sink, Workers

if TYPE_CHECKING:
    from tokfmt.ops.convert.upload import Output


@dataclass(frozen=True, slots=True)
class Workplace:
    """The hidden directories where the portions of a conversion are built.

    Attributes:
        stagings: The hidden directory of each destination, by path.
        journals: The journal of each destination, by path.
        first: The hidden directory of the first destination, where the text of all portions is tokenized.
        facts: The facts that a run has to repeat to continue this one; empty if no run can continue it.
        outputs: The destinations in stores, by address.
        sinks: The sinks of those whose files are uploaded as soon as they are complete.
    """

    stagings: Mapping[Place, Publisher]
    journals: Mapping[Place, NullJournal]
    first: Publisher
    facts: Facts
    outputs: Mapping[Place, Output] = field(default_factory=dict)
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
        first = next(iter(resolved.stagings.values()))
        staged = {path: one for path, one in resolved.stagings.items() if isinstance(one, StoreStaging)}
        outputs, sinks = _in_stores(resolved, staged, journals) if staged else ({}, {})
        yield Workplace(resolved.stagings, journals, first, facts, outputs, sinks)


def _in_stores(
    resolved: Resolved, staged: Mapping[Place, StoreStaging], journals: Mapping[Place, NullJournal]
) -> tuple[dict[Place, Output], dict[Place, Sink]]:
    """Return the destinations in stores, and the sinks of those whose files may be uploaded before all are complete.

    That is not done if the files are read back (--verify), or if an old dataset is readable until they are complete.
    """
    from tokfmt.ops.convert.upload import Output, Uploads

    request, outputs, sinks = resolved.request, dict[Place, Output](), dict[Place, Sink]()
    for path, staging in staged.items():
        outputs[path] = one = Output(staging, resolved.destination.format, journals[path])
        if request.verify and request.task is None:
            one.refuse_verify()
        elif _uploads_early(request, one):
            sinks[path] = Uploads(one)
    return outputs, sinks


def _uploads_early(request: Request, one: Output) -> bool:
    """Return whether files may be uploaded before all are complete."""
    if request.task is not None or not request.overwrite:
        return not request.overwrite
    if request.finish:
        return one.has_early_uploads
    return one.staging.continues or not listing.is_there(one.url)


@contextmanager
def _entered(staging: Publisher, resolved: Resolved, facts: Facts, notes: Notes) -> Iterator[NullJournal]:
    """Make one hidden directory, and yield its journal."""
    if resolved.request.kept:
        common = resolved.has_common_spool
        with resumed(staging, resolved.request, facts, notes.report, common=common) as (_, journal):
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
        share = None if request.task is None else Share(request.task)
        texts = first.home / "scratch"  # all tasks share this directory
        journal = next(iter(place.journals.values()))
        yield Workers(executor, slots, first.scratch, journal, texts, share)
