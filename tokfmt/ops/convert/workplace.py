"""Make the hidden directory and the journal of each destination, and start the workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tokfmt.core.atomic_output import Staging
from tokfmt.core.messages import Option
from tokfmt.core.place import Place
from tokfmt.ops.convert.arrangement import SplitTarget
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Request
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.resume import Facts, resumed
from tokfmt.run.execute import make_executor, slots
from tokfmt.run.plan import NullJournal, Share, Workers


@dataclass(frozen=True, slots=True)
class Workplace:
    """The hidden directories where the portions of a conversion are built.

    Attributes:
        stagings: The hidden directory of each destination, by path.
        journals: The journal of each destination, by path.
        first: The hidden directory of the first destination, where the text of all portions is tokenized.
        facts: The facts that a run has to repeat to continue this one; empty if no run can continue it.
    """

    stagings: Mapping[Place, Staging]
    journals: Mapping[Place, NullJournal]
    first: Staging
    facts: Facts

    def of(self, portion: SplitTarget, workers: Workers) -> tuple[Path, Workers]:
        """Return the path to write a portion to, and the workers with the scratch and journal of its destination."""
        staging = self.stagings[portion.destination]
        return staging.path, replace(workers, scratch=staging.scratch, journal=self.journals[portion.destination])


@contextmanager
def workplace(resolved: Resolved, facts: Facts, notes: Notes) -> Iterator[Workplace]:
    """Make a hidden directory for each destination, or continue in the one that an earlier run kept."""
    with ExitStack() as stack:
        journals = {
            path: stack.enter_context(_entered(staging, resolved.request, facts, notes))
            for path, staging in resolved.stagings.items()
        }
        yield Workplace(resolved.stagings, journals, next(iter(resolved.stagings.values())), facts)


@contextmanager
def _entered(staging: Staging, request: Request, facts: Facts, notes: Notes) -> Iterator[NullJournal]:
    """Make one hidden directory, and yield its journal."""
    if request.kept:
        with resumed(staging, request, facts, notes.report) as (_, journal):
            yield journal
        return
    with staging:
        for name in staging.removed:
            notes.report(
                f"removed {name}, which an unfinished conversion had left; {Option('resume')} would have continued it"
            )
        yield NullJournal()


@contextmanager
def workers_of(resolved: Resolved, place: Workplace) -> Iterator[Workers]:
    """Start the workers of a conversion, which share the scratch of its first destination."""
    request, first = resolved.request, place.first
    with make_executor(request.executor, request.jobs) as executor:
        share = None if request.task is None else Share(request.task)
        texts = first.home / "scratch"  # all tasks share this directory
        journal = next(iter(place.journals.values()))
        yield Workers(executor, slots(executor, request.jobs), first.scratch, journal, texts, share)
