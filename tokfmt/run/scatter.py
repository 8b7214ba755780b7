"""The first pass of a shuffle: every sequence goes to the bucket that its draw names; each task spills to a file.

    spill     bytes                content
    entries   24 a sequence        bucket after bucket: key <u8, start <i8, length <i8 (`ENTRY`), in order of the source
    tokens    width of the source  bucket after bucket: the tokens of the same sequences, but of those that are long

Spills live in scratch for the time of one conversion, however often that is continued; they are no format. A task
counts first (offsets only), so every write has its place: a task may run again, and holds a window of tokens whatever
it owns. Long sequences (more than `LONG` tokens) are not spilled: they are read from the source, one random access
each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import WINDOW, TokenReader, sequence_at, windows
from tokfmt.core.draws import SHUFFLE, draws
from tokfmt.core.format import REGION
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Offsets, Ragged, reordered

ENTRY = np.dtype([("key", "<u8"), ("start", "<i8"), ("length", "<i8")])
LONG = WINDOW
MOST_BUCKETS = 1 << 14  # so that their numbers fit 16 bits, which numpy sorts by radix
_MOST_TASKS = 128  # each is a spill that is kept open
_MANY = 1 << 16  # sequences looked at at once


@dataclass(frozen=True, slots=True)
class Scatter:
    """What every task shares.

    Attributes:
        source: What is shuffled.
        seed: Of the shuffle.
        buckets: How many, at most `MOST_BUCKETS`. The shuffled order does not depend on it.
        home: A directory for the spills.
    """

    source: TokenReader
    seed: int
    buckets: int
    home: Path


@dataclass(frozen=True, slots=True, eq=False)
class Spill:
    """What a task says of the file it wrote.

    Attributes:
        number: Of the task; tasks are numbered in order of the source.
        path: The file.
        entries: int64[buckets + 1], entries before each bucket.
        tokens: int64[buckets + 1], tokens before each bucket, long sequences not counted.
        read: Tokens of the source that the task has done.
    """

    number: int
    path: Path
    entries: Offsets
    tokens: Offsets
    read: int

    def facts(self) -> list[object]:
        """What a journal says of it."""
        return [self.entries.tolist(), self.tokens.tolist(), self.read]

    @staticmethod
    def recalled(job: Scatter, number: int, facts: tuple[list[int], list[int], int]) -> Spill | None:
        """The spill that an earlier run wrote, or None when it is not there as journaled."""
        entries, tokens = (np.array(counts, np.int64) for counts in facts[:2])
        spill = Spill(number, spill_path(job, number), entries, tokens, facts[2])
        size = int(entries[-1]) * ENTRY.itemsize + int(tokens[-1]) * job.source.info.dtype.itemsize
        whole = len(entries) == job.buckets + 1 and spill.path.is_file() and spill.path.stat().st_size == size
        return spill if whole else None


def spill_path(job: Scatter, number: int) -> Path:
    """Where a task spills."""
    return job.home / f"spill-{number:06d}"


def cuts(source: TokenReader) -> list[tuple[int, int, int]]:
    """Tasks: a number, and the sequences `first <= i < last` that it scatters."""
    info = source.info
    step = max(REGION, -(-info.tokens // _MOST_TASKS))
    firsts = {0, *(sequence_at(source, position) for position in range(step, info.tokens, step))}
    bounds = [*sorted(firsts), info.sequences]
    return [(number, a, b) for number, (a, b) in enumerate(itertools.pairwise(bounds))]


def scatter(job: Scatter, item: tuple[int, int, int]) -> Spill:
    """Spill some sequences; the task function for `run.execute.run_tasks`."""
    number, first, last = item
    path, dtype = spill_path(job, number), job.source.info.dtype
    entries, tokens = _counted(job, first, last)
    begin = int(entries[-1]) * ENTRY.itemsize
    path.unlink(missing_ok=True)
    preallocate(path, begin + int(tokens[-1]) * dtype.itemsize)
    entry_at, token_at = entries.tolist(), tokens.tolist()
    with Output(path) as out:
        for bucket, records, moved in _sorted_batches(job, first, last):
            out.write(entry_at[bucket] * ENTRY.itemsize, records)
            out.write(begin + token_at[bucket] * dtype.itemsize, moved)
            entry_at[bucket] += len(records)
            token_at[bucket] += len(moved)
    start, stop = (int(job.source.offsets(i, i)[0]) for i in (first, last))
    return Spill(number, path, entries, tokens, stop - start)


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.uint16]:
    """The bucket of each key: equal parts of the range of keys, in order."""
    return ((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint16)


def _counted(job: Scatter, first: int, last: int) -> tuple[Offsets, Offsets]:
    """Entries and tokens before each bucket, int64[buckets + 1] each."""
    entries, tokens = np.zeros(job.buckets + 1, np.int64), np.zeros(job.buckets + 1, np.int64)
    for a, b in windows(first, last, _MANY):
        lengths = np.diff(job.source.offsets(a, b))
        bucket = bucket_of(draws(job.seed, SHUFFLE, a, b), job.buckets)
        entries[1:] += np.bincount(bucket, minlength=job.buckets)
        # weights are summed as float64: exact, because a window of sequences that are not long is far below 2^53
        spilled = np.where(lengths > LONG, 0, lengths)
        tokens[1:] += np.bincount(bucket, spilled, job.buckets).astype(np.int64)
    return np.cumsum(entries), np.cumsum(tokens)


def _sorted_batches(
    job: Scatter, first: int, last: int
) -> Iterator[tuple[int, NDArray[np.void], NDArray[np.unsignedinteger]]]:
    """For each window of the source and each bucket in it: the bucket, its entries, its tokens."""
    for a, offsets in _batches(job.source, first, last):
        keys = draws(job.seed, SHUFFLE, a, a + len(offsets) - 1)
        bucket = bucket_of(keys, job.buckets)
        order = np.argsort(bucket, kind="stable")
        records = np.empty(len(keys), ENTRY)
        records["key"], records["start"], records["length"] = keys, offsets[:-1], np.diff(offsets)
        start, stop = int(offsets[0]), int(offsets[-1])
        if stop - start > LONG:
            yield int(bucket[0]), records, np.empty(0, job.source.info.dtype)
            continue
        moved = reordered(Ragged(job.source.tokens(start, stop), offsets - start), order)
        records, bucket = records[order], bucket[order]
        bounds = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(bucket)]
        for i, k in itertools.pairwise(bounds):
            yield int(bucket[i]), records[i:k], moved.tokens[int(moved.offsets[i]) : int(moved.offsets[k])]


def _batches(source: TokenReader, first: int, last: int) -> Iterator[tuple[int, Offsets]]:
    """Runs of sequences of a window of tokens at most, or one long sequence: its first number, its offsets."""
    while first < last:
        offsets = source.offsets(first, min(last, first + _MANY))
        count = max(1, int(np.searchsorted(offsets, offsets[0] + LONG, side="right")) - 1)
        yield first, offsets[: count + 1]
        first += count
