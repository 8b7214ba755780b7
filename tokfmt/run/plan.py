"""Plan a conversion as regions, each written by exactly one task; and run the plan, without what its journal lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tokfmt.core.format import REGION, Receipt, Region, TokenWriter
from tokfmt.core.reader import TokenReader, largest_id, windows
from tokfmt.errors import IncompleteWriteError
from tokfmt.files.journal import NullJournal, Task, of_part
from tokfmt.run.execute import ClusterExecutor, run_tasks

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
T = TypeVar("T")


class Share:
    """The part of a task in several lists of items, also of one item: every n-th item across all lists."""

    def __init__(self, task: Task) -> None:
        self.task, self._before = task, 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Return its part of the next list. All tasks must pass the same lists in the same order."""
        first = (self.task.index - self._before) % self.task.count
        self._before += len(items)
        return items[first :: self.task.count]


class Stretch(Share):
    """The part of a task in several lists: a stretch of consecutive items across all lists."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.total = 0  # of items in all lists, which must be set before `of`

    def of(self, items: Sequence[T]) -> Sequence[T]:
        first, last = (self.total * k // self.task.count - self._before for k in (self.task.index, self.task.index + 1))
        self._before += len(items)
        return items[max(0, first) : max(0, last)]


class Sink(Protocol):
    """A place for files of the destination that are complete before the destination is, such as a store."""

    def take(self, files: Sequence[Path]) -> None:
        """Take complete files."""

    def drop(self, files: Sequence[Path]) -> None:
        """Remove files that were taken, once the journal has recorded it."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The executor of a conversion, and the directories that its tasks share."""

    executor: Executor
    jobs: int  # at a time
    scratch: Path  # a directory that the tasks share
    journal: NullJournal = field(default_factory=NullJournal)  # finished work of earlier runs
    texts: Path | None = None  # of tokenized text that all tasks of a conversion share; None: `scratch`
    share: Share | None = None  # of the text that this task tokenizes, while other tasks tokenize the rest; None: all
    # takes files of the destination as soon as they are complete; None: they stay until all are
    sink: Sink | None = None

    def map(self, function: Callable[[S, I], R], shared: S, items: Iterable[I]) -> Iterator[R]:
        """Yield `function(shared, item)` for every item, in the order of completion; see `run.execute.run_tasks`."""
        return run_tasks(function, shared, items, self.executor, self.jobs, self.scratch)

    @property
    def tasks(self) -> int:
        """Number of tasks that tokenize the text."""
        return 1 if self.share is None else self.share.task.count


@dataclass(frozen=True, slots=True)
class Kind(Generic[I, R]):
    """A kind of work whose results are journaled."""

    name: str  # of the journal entries
    number: Callable[[I], int]  # of an item
    finished: Callable[[R], int]  # the number of the item of a result
    facts: Callable[[R], object]  # that are journaled, as JSON
    recall: Callable[[int, Any], R | None]  # the result of journaled facts; None if it is no longer valid


def journaled(
    kind: Kind[I, R], function: Callable[[S, I], R], shared: S, items: Iterable[I], workers: Workers
) -> Iterator[R]:
    """Yield the results of `Workers.map`. Results of earlier runs come first, and are not computed again."""
    journal, left = workers.journal, []
    done = journal.done(kind.name)
    for item in items:
        number = kind.number(item)
        result = kind.recall(number, done[number]) if number in done else None
        if result is None:
            left.append(item)
        else:
            yield result
    call = journal.durable(function) if isinstance(workers.executor, ClusterExecutor) else function
    for result in workers.map(call, shared, left):
        journal.add(kind.name, kind.finished(result), kind.facts(result))
        yield result


@dataclass(frozen=True, slots=True)
class Plan:
    """The regions of a conversion, with its writer and its source."""

    writer: TokenWriter
    source: TokenReader
    regions: Sequence[Region]


def plan(source: TokenReader, writer: TokenWriter, size: int = REGION) -> Plan:
    """Let the writer cut its output into regions of about `size` tokens, which must cover the source."""
    regions = writer.regions(source, size)
    end = 0
    for number, region in enumerate(regions):
        if region.index != number or region.tokens.start != end or region.tokens.stop < end:
            raise IncompleteWriteError(
                f"the writer's region {number:,} does not continue where the previous region ends: expected position "
                f"{end:,}, found {region.tokens.start:,}..{region.tokens.stop:,}. This is a bug in the format"
            )
        end = region.tokens.stop
    if end < source.info.tokens:
        raise IncompleteWriteError(
            f"the writer's {len(regions):,} regions end at position {end:,}, but there are {source.info.tokens:,} "
            "tokens. This is a bug in the format"
        )
    return Plan(writer, source, regions)


def run(job: Plan, workers: Workers, task: Task | None = None, part: str = "") -> Iterator[Receipt]:
    """Create the destination, write every region, yield receipts as they arrive, and commit.

    Work that the journal of the workers lists is not repeated. A task writes only its part. A later run that finds the
    parts of all tasks in the journal commits. Several parts that share the journal have names. Without a receipt of
    each region, the destination is not committed.
    """
    journal = workers.journal
    journal.begin(lambda: job.writer.create(job.source), part)
    receipts: list[Receipt] = []
    finishing = None if workers.sink is None else _Finishing(job, workers.sink, journal, part)
    regions = job.regions if task is None else task.of(job.regions)
    if finishing is not None and task is not None:
        regions = finishing.of(task)
    kind = replace(RECEIPTS, name=of_part(RECEIPTS.name, part))
    ready = None if journal.keeps else _Ready(job)  # A resumable run commits in one step.
    for receipt in journaled(kind, _write, job, regions, workers):
        receipts.append(receipt)
        if ready is not None:
            ready.add(receipt)
        if finishing is not None:
            finishing.add(receipt)
        yield receipt
    journal.sync()
    if task is None:
        journal.once(of_part("committed", part), lambda: commit(job, receipts))
    else:
        journal.add("task", task.index, len(regions))


class _Ready:
    """Gather regions in order, each as soon as it and all regions before it are written."""

    def __init__(self, job: Plan) -> None:
        self._job, self._order = job, deque(region.index for region in job.regions)
        self._waiting: dict[int, Receipt] = {}

    def add(self, receipt: Receipt) -> None:
        """Add a receipt, and gather all regions that are next in order."""
        self._waiting[receipt.region] = receipt
        while self._order and self._order[0] in self._waiting:
            self._job.writer.join_parts(self._job.source, self._waiting.pop(self._order.popleft()))


class _Finishing:
    """Finish files as soon as all regions of each are written, and hand them to a sink."""

    def __init__(self, job: Plan, sink: Sink, journal: NullJournal, part: str) -> None:
        self._job, self._sink, self._journal, self._kind = job, sink, journal, of_part("finished", part)
        self._group_of = dict[int, int]()
        self._groups, self._files = dict[int, list[Region]](), dict[int, list[Path]]()
        self._receipts = dict[int, list[Receipt]]()
        first_of = dict[Path, int]()
        for region in job.regions:
            files = list(job.writer.files_of(job.source, region))
            group = first_of.setdefault(files[0], region.index) if files else region.index
            self._group_of[region.index] = group
            self._groups.setdefault(group, []).append(region)
            self._files[group] = files

    def of(self, task: Task) -> list[Region]:
        """Return the regions of a task, which share no file with regions of another task."""
        return [region for group in task.of(list(self._groups.values())) for region in group]

    def add(self, receipt: Receipt) -> None:
        """Add a receipt, and finish the files of its region if it is the last one."""
        group = self._group_of[receipt.region]
        regions, receipts = self._groups[group], self._receipts.setdefault(group, [])
        receipts.append(receipt)
        if len(receipts) < len(regions) or not self._files[group]:
            return
        writer, done = self._job.writer, self._journal.done(self._kind)
        if group in done:
            writer.recall_files(done[group])
            return
        receipts.sort(key=lambda one: one.region)
        facts = writer.finish_files(self._job.source, regions, receipts)
        self._sink.take(self._files[group])
        self._journal.add(self._kind, group, facts)
        self._sink.drop([*self._files[group], *writer.parts_of(regions)])


def commit(job: Plan, receipts: Iterable[Receipt]) -> None:
    """Commit the destination, after a check that every region has a receipt."""
    by_region = {receipt.region: receipt for receipt in receipts}
    missing = [region.index for region in job.regions if region.index not in by_region]
    if missing:
        raise IncompleteWriteError(
            f"{len(missing):,} of {len(job.regions):,} regions were not written (first: {missing[0]:,})"
        )
    job.writer.commit(job.source, [by_region[region.index] for region in job.regions])


RECEIPTS: Kind[Region, Receipt] = Kind(
    "region",
    number=lambda region: region.index,
    finished=lambda receipt: receipt.region,
    facts=lambda receipt: [int(receipt.max_id), int(receipt.written), receipt.details],
    recall=lambda number, facts: Receipt(number, *facts),
)


def _write(job: Plan, region: Region) -> Receipt:
    return job.writer.write(region, job.source)


class Scan(NamedTuple):
    """The result of one pass over a token axis."""

    max_id: int  # -1 without one
    separators: int  # number of separators
    first: int  # of the first separator; -1 without one


def scan(source: TokenReader, eos_id: int | None, workers: Workers) -> Scan:
    """Find the largest token ID and the separators inside sequences, in parallel."""
    intervals = list(windows(0, source.info.tokens, REGION))
    parts = list(workers.map(_scan, (source, eos_id), intervals))
    firsts = [part.first for part in parts if part.first >= 0]
    return Scan(
        max((part.max_id for part in parts), default=-1),
        sum(part.separators for part in parts),
        min(firsts, default=-1),
    )


def _scan(shared: tuple[TokenReader, int | None], interval: tuple[int, int]) -> Scan:
    source, eos_id = shared
    top, count, first = -1, 0, -1
    for a, b in windows(*interval):
        tokens = source.tokens(a, b)
        top = max(top, largest_id(tokens))
        if eos_id is None:
            continue
        hits = np.flatnonzero(tokens == eos_id)
        if len(hits):
            first = first if count else a + int(hits[0])
            count += len(hits)
    return Scan(top, count, first)
