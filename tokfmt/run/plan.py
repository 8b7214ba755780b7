"""A conversion as a list of regions, each owned by exactly one task; and how a plan is run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import IncompleteWriteError
from tokfmt.core.format import REGION, Receipt, Region, TokenWriter
from tokfmt.core.protocols import Gatherer
from tokfmt.run.cluster import ClusterExecutor
from tokfmt.run.execute import run_tasks
from tokfmt.run.journal import Forgetful, Shard, Share, of_part

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        executor, jobs: What carries them out, and how many at a time.
        scratch: A directory that they share.
        journal: What earlier runs have done.
        texts: The directory of tokenised text where all shards of a conversion share one; None: `scratch`.
        share: Of text only this is tokenised: the rest is for other shards.
    """

    executor: Executor
    jobs: int
    scratch: Path
    journal: Forgetful = field(default_factory=Forgetful)
    texts: Path | None = None
    share: Share | None = None

    @property
    def shards(self) -> int:
        """How many shards tokenise the text."""
        return 1 if self.share is None else self.share.shard.count


@dataclass(frozen=True, slots=True)
class Kind(Generic[I, R]):
    """How results of one kind are journaled.

    Attributes:
        name: In the journal.
        number: Of an item; its result has the same, `finished`.
        facts: What of a result is journaled, as JSON.
        recall: The result again, or None when it cannot be relied on.
    """

    name: str
    number: Callable[[I], int]
    finished: Callable[[R], int]
    facts: Callable[[R], object]
    recall: Callable[[int, Any], R | None]


def journaled(
    kind: Kind[I, R], function: Callable[[S, I], R], shared: S, items: Iterable[I], workers: Workers
) -> Iterator[R]:
    """Like `run_tasks`; results of earlier runs come first and are not made again."""
    journal, left = workers.journal, []
    done = journal.done(kind.name)
    for item in items:
        number = kind.number(item)
        result = kind.recall(number, done[number]) if number in done else None
        if result is None:
            left.append(item)
        else:
            yield result
    task = journal.durable(function) if isinstance(workers.executor, ClusterExecutor) else function
    for result in run_tasks(task, shared, left, workers.executor, workers.jobs, workers.scratch):
        journal.add(kind.name, kind.finished(result), kind.facts(result))
        yield result


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written: a writer, its source, and the regions that the writer has cut."""

    writer: TokenWriter
    source: TokenReader
    regions: Sequence[Region]


def plan(source: TokenReader, writer: TokenWriter, size: int = REGION) -> Plan:
    """Let the writer cut its output into regions of about `size` tokens.

    Raises:
        IncompleteWriteError: The regions do not cover the source: something would be left out in silence.
    """
    regions = writer.regions(source, size)
    end = 0
    for number, region in enumerate(regions):
        if region.index != number or region.tokens.start != end or region.tokens.stop < end:
            raise IncompleteWriteError(
                f"the writer's region {number:,} does not go on where the one before it ends: expected position "
                f"{end:,}, found {region.tokens.start:,}..{region.tokens.stop:,}. This is a bug in the format"
            )
        end = region.tokens.stop
    if end < source.info.tokens:
        raise IncompleteWriteError(
            f"the writer's {len(regions):,} regions end at position {end:,}, but there are {source.info.tokens:,} "
            "tokens. This is a bug in the format"
        )
    return Plan(writer, source, regions)


def run(job: Plan, workers: Workers, shard: Shard | None = None, part: str = "") -> Iterator[Receipt]:
    """Create the destination, write every region, yield receipts as they come, and commit.

    What the workers' journal has of it is not done again.

    Args:
        job: What to write.
        workers: Where.
        shard: Write this share only, and leave the commit to a run that finds all shares journaled.
        part: Name of what is written, if it shares the journal with others.

    Raises:
        IncompleteWriteError: A region has no receipt; nothing was committed.
    """
    journal = workers.journal
    journal.begin(lambda: job.writer.create(job.source), part)
    receipts: list[Receipt] = []
    regions = job.regions if shard is None else shard.of(job.regions)
    kind = replace(RECEIPTS, name=of_part(RECEIPTS.name, part))
    ready = _Ready(job, off=journal.keeps)  # a commit that may be cut off and done again is done in one go
    for receipt in journaled(kind, _write, job, regions, workers):
        receipts.append(receipt)
        ready.add(receipt)
        yield receipt
    journal.sync()
    if shard is None:
        journal.once(of_part("committed", part), lambda: commit(job, receipts))
    else:
        journal.add("shard", shard.index, len(regions))


class _Ready:
    """Has regions gathered as soon as they and all before them are written, by a writer that can."""

    def __init__(self, job: Plan, *, off: bool) -> None:
        self._gatherer = job.writer if isinstance(job.writer, Gatherer) and not off else None
        self._source, self._order = job.source, deque(region.index for region in job.regions)
        self._waiting: dict[int, Receipt] = {}

    def add(self, receipt: Receipt) -> None:
        if self._gatherer is None:
            return
        self._waiting[receipt.region] = receipt
        while self._order and self._order[0] in self._waiting:
            self._gatherer.gather(self._source, self._waiting.pop(self._order.popleft()))


def commit(job: Plan, receipts: Iterable[Receipt]) -> None:
    """Finish the destination, after checking that every region has its receipt."""
    by_region = {receipt.region: receipt for receipt in receipts}
    missing = [region.index for region in job.regions if region.index not in by_region]
    if missing:
        raise IncompleteWriteError(
            f"{len(missing):,} of {len(job.regions):,} regions were not written (first: {missing[0]:,})"
        )
    job.writer.commit(job.source, [by_region[region.index] for region in job.regions])


def _facts(receipt: Receipt) -> list[object]:
    return [int(receipt.max_id), int(receipt.written), receipt.details]


RECEIPTS: Kind[Region, Receipt] = Kind(
    "region",
    number=lambda region: region.index,
    finished=lambda receipt: receipt.region,
    facts=_facts,
    recall=lambda number, facts: Receipt(number, *facts),
)


def _write(job: Plan, region: Region) -> Receipt:
    return job.writer.write(region, job.source)


class Scan(NamedTuple):
    """One pass over a token axis: largest id (-1 if none), how often the separator occurs, and where first (-1)."""

    max_id: int
    separators: int
    first: int


def scan(source: TokenReader, eos_id: int | None, workers: Workers, size: int = REGION) -> Scan:
    """Find the largest id and the separators inside sequences, in parallel."""
    intervals = list(windows(0, source.info.tokens, size))
    parts = list(run_tasks(_scan, (source, eos_id), intervals, workers.executor, workers.jobs, workers.scratch))
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
