"""A conversion as a list of regions, each owned by exactly one task; and how a plan is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import IncompleteWriteError
from tokfmt.core.format import REGION, Receipt, Region, TokenWriter
from tokfmt.run.execute import run_tasks


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run: an executor, how many workers it has, a scratch directory that they share."""

    executor: Executor
    jobs: int
    scratch: Path


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written: a writer, its source, and the regions that the writer has cut."""

    writer: TokenWriter
    source: TokenReader
    regions: Sequence[Region]


def plan(source: TokenReader, writer: TokenWriter, size: int = REGION) -> Plan:
    """Let the writer cut its output into regions of about `size` tokens."""
    return Plan(writer, source, writer.regions(source, size))


def run(job: Plan, workers: Workers) -> Iterator[Receipt]:
    """Create the destination, write every region, yield receipts as they come, and commit.

    Raises:
        IncompleteWriteError: A region has no receipt; nothing was committed.
    """
    job.writer.create(job.source)
    receipts: dict[int, Receipt] = {}
    for receipt in run_tasks(_write, job, job.regions, workers.executor, workers.jobs, workers.scratch):
        receipts[receipt.region] = receipt
        yield receipt
    commit(job, receipts.values())


def commit(job: Plan, receipts: Iterable[Receipt]) -> None:
    """Finish the destination, after checking that every region has its receipt."""
    by_region = {receipt.region: receipt for receipt in receipts}
    missing = [region.index for region in job.regions if region.index not in by_region]
    if missing:
        raise IncompleteWriteError(
            f"{len(missing):,} of {len(job.regions):,} regions were not written (first: {missing[0]:,})"
        )
    job.writer.commit(job.source, [by_region[region.index] for region in job.regions])


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
