"""The pass: every region of an axis on an executor, then the sequences that no region saw whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokfmt.core.axis import WINDOW, windows
from tokfmt.core.errors import TokfmtError
from tokfmt.ops.fingerprint import Fingerprints, Running
from tokfmt.ops.progress import Progress
from tokfmt.ops.stats.axis import StatsAxis
from tokfmt.ops.stats.duplicates import Seen, Store
from tokfmt.ops.stats.table import Table
from tokfmt.ops.stats.tally import Loose, Stats, Tally
from tokfmt.run.execute import run_tasks
from tokfmt.run.plan import Workers

_REGION = 1 << 23
_SMALLEST = 1 << 19
_ROWS = 1 << 18  # sequences in a region, as far as that can be known beforehand
_TOGETHER = 256  # loose sequences looked at by one task


class CancelledError(TokfmtError):
    """Whoever watches the pass asked for its end."""


@dataclass(slots=True)
class Survey:
    """What the pass over one axis has shown.

    Attributes:
        axis: What was walked.
        stats: The sum over all parts; nothing in it is loose once it is closed.
        store: Fingerprints of all sequences, None when duplicates are not wanted.
        begun: Of a stream, how many sequences begin in each part.
        loose: Sequences that no part saw whole.
    """

    axis: StatsAxis
    stats: Stats
    store: Store | None
    begun: list[tuple[int, int]]
    loose: list[Loose]


@dataclass(frozen=True, slots=True)
class _Job:
    axis: StatsAxis
    duplicates: bool


def measure(
    axes: Sequence[StatsAxis],
    workers: Workers,
    *,
    duplicates: bool = True,
    progress: Progress,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Survey]:
    """Walk some axes, one after the other, each on all workers.

    Args:
        axes: What to walk.
        workers: Where.
        duplicates: Fingerprint every sequence: equal ones are found in different datasets too, whatever their dtypes.
        progress: Told of tokens.
        cancelled: Asked now and then; the pass ends when it says so.

    Raises:
        CancelledError: It was asked to end.
        FormatError: A dataset is damaged.
    """
    progress.phase("counting", sum(axis.info.tokens for axis in axes), "tokens")
    surveys = []
    for axis in axes:
        survey = Survey(axis, Stats(), Store() if duplicates else None, [], [])
        items = list(axis.regions(_size(axis)))
        for part, read in run_tasks(
            _count, _Job(axis, duplicates), items, workers.executor, workers.jobs, workers.scratch
        ):
            _absorb(survey, part)
            progress.advance(read)
            if cancelled():
                raise CancelledError("cancelled")
        survey.loose += axis.leftover(survey.stats)
        surveys.append(survey)
    alike = _lengths_alike(surveys)
    for survey in surveys:
        job, wanted = _Job(survey.axis, duplicates), list(_batches(survey.loose, alike))
        for part in run_tasks(_look, job, wanted, workers.executor, workers.jobs, workers.scratch):
            _absorb(survey, part)
            if cancelled():
                raise CancelledError("cancelled")
        survey.loose = []
    return surveys


def _size(axis: StatsAxis) -> int:
    """Tokens in a region: fewer where sequences are short, for each takes memory."""
    return min(_REGION, max(_SMALLEST, int(_ROWS * axis.mean_length())))


def _absorb(survey: Survey, part: Stats) -> None:
    if survey.store is not None:
        survey.store.add(part.seen)
    survey.begun += part.begun
    summed = survey.stats + replace(part, seen=Seen.nothing(), begun=())
    survey.loose += summed.loose
    survey.stats = replace(summed, loose=())


def _count(job: _Job, region: tuple[int, int]) -> tuple[Stats, int]:
    tally = Tally(duplicates=job.duplicates)
    job.axis.walk(*region, tally)
    return tally.done(), region[1] - region[0]


def _lengths_alike(surveys: Sequence[Survey]) -> Table:
    """Lengths of more than a window that several sequences have: only these can be duplicates."""
    lengths = [loose.stop - loose.start for survey in surveys for loose in survey.loose]
    found = Table.of(np.asarray(lengths, np.int64))
    for survey in surveys:
        found += survey.stats.lengths
    several = (found.counts > 1) & (found.keys > WINDOW)
    return Table(found.keys[several], found.counts[several])


def _batches(loose: Sequence[Loose], alike: Table) -> Iterator[list[tuple[Loose, bool]]]:
    """Loose sequences to look at together, and whether each must be hashed."""
    known = set(alike.keys.tolist())
    batch: list[tuple[Loose, bool]] = []
    for one in sorted(loose):
        length = one.stop - one.start
        batch.append((one, length <= WINDOW or not known.isdisjoint((length, length - 1))))
        if len(batch) == _TOGETHER or length > WINDOW:
            yield batch
            batch = []
    if batch:
        yield batch


def _look(job: _Job, batch: Sequence[tuple[Loose, bool]]) -> Stats:
    """The statistics of loose sequences, whose tokens have been counted already."""
    tally = Tally(duplicates=job.duplicates)
    for loose, hashed in batch:
        start, stop = job.axis.content(loose)
        hashed = hashed and job.duplicates  # noqa: PLW2901
        if stop - start <= WINDOW and hashed:
            tokens = job.axis.stored.tokens(start, stop)
            tally.sequences(tokens, np.array([0]), np.array([stop - start]), start)
        elif start == stop:
            tally.sequences(job.axis.stored.tokens(start, start), np.array([0]), np.array([0]), start)
        else:
            read = job.axis.stored.tokens
            ends = np.concatenate([read(start, start + 1), read(stop - 1, stop)])
            tally.long(start, ends, stop - start, _streamed(job, start, stop) if hashed else None)
    return tally.done()


def _streamed(job: _Job, start: int, stop: int) -> Fingerprints:
    """Of a sequence that is too long to be read at once."""
    running = Running()
    for a, b in windows(start, stop):
        running.add(job.axis.stored.tokens(a, b))
    return running.fingerprint
