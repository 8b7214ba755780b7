"""A global shuffle of sequences, in two passes over the disk and constant memory.

Every sequence i has a key, `draws(seed, SHUFFLE, i)`, and the shuffled order is the order of keys (equal keys: of
numbers). Keys are independent and uniform, so every order is equally likely. The order depends only on the seed and the
number of sequences, not on tokens, windows, buckets, workers or the format. A bucket is an interval of keys:

1. Tasks read the source in order and write each sequence to its bucket (`scatter`).
2. `Shuffled` reads. A bucket fits in memory. It is sorted by key on first use, and a few buckets are cached.

Memory does not grow with the number of sequences: the shuffled offsets are in a file as well. Scratch holds one copy of
the tokens. If the conversion can be resumed (`run.plan`), complete spills are journaled, and stay until its end.

In the first pass, each task writes a spill file:

    spill     bytes                content
    entries   24 per sequence      bucket after bucket: key <u8, start <i8, length <i8 (`ENTRY`), in order of the source
    tokens    width of the source  bucket after bucket: the tokens of the same sequences, without long ones

Spills are in scratch for the time of one conversion, including its resumed runs; their layout is not a format. A task
first counts (offsets only), so the position of every write is known: a task can run again, and holds one window of
tokens. Long sequences (more than `LONG` tokens) are not spilled. They are read from the source, with one random access
each.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import share
from tokfmt.base.seeds import SHUFFLE, draws
from tokfmt.core.findings import ignore
from tokfmt.core.format import REGION
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of, reordered
from tokfmt.core.reader import WINDOW, TokenReader, windows
from tokfmt.errors import ConversionError, IncompleteWriteError
from tokfmt.files.file import File
from tokfmt.files.journal import of_part
from tokfmt.run.plan import Kind, Workers, journaled

ENTRY = np.dtype([("key", "<u8"), ("start", "<i8"), ("length", "<i8")])
LONG = WINDOW
MOST_BUCKETS = 1 << 14  # Their numbers fit into 16 bits, which numpy sorts by radix.
_MOST_TASKS = 128  # Each task has a spill file that stays open.
_MANY = 1 << 16  # Sequences whose offsets are read at once.


@dataclass(frozen=True, slots=True)
class Scatter:
    """The arguments that all tasks share."""

    source: TokenReader
    seed: int
    buckets: int  # at most `MOST_BUCKETS`; the order does not depend on it
    home: Path  # of the spills


@dataclass(frozen=True, slots=True, eq=False)
class Spill:
    """The result of a task: the layout of its spill file."""

    number: int  # of the task, in order of the source
    path: Path
    entries: Offsets  # int64[buckets + 1], entries before each bucket
    tokens: Offsets  # int64[buckets + 1], tokens before each bucket, without long sequences
    read: int  # source tokens that the task processed

    def facts(self) -> list[object]:
        """Return the attributes for the journal."""
        return [self.entries.tolist(), self.tokens.tolist(), self.read]

    @staticmethod
    def recalled(job: Scatter, number: int, facts: tuple[list[int], list[int], int]) -> Spill | None:
        """Return the spill of an earlier run; None if its file is missing or has another size."""
        entries, tokens = (np.array(counts, np.int64) for counts in facts[:2])
        spill = Spill(number, spill_path(job, number), entries, tokens, facts[2])
        size = int(entries[-1]) * ENTRY.itemsize + int(tokens[-1]) * job.source.info.dtype.itemsize
        whole = len(entries) == job.buckets + 1 and spill.path.is_file() and spill.path.stat().st_size == size
        return spill if whole else None


def spill_path(job: Scatter, number: int) -> Path:
    """Return the path of the spill of a task."""
    return job.home / f"spill-{number:06d}"


def cuts(source: TokenReader) -> list[tuple[int, int, int]]:
    """Return the tasks: a number, and the range `first <= i < last` of sequences that the task scatters."""
    info = source.info
    step = max(REGION, -(-info.tokens // _MOST_TASKS))
    firsts = {0, *(source.sequence_at(position) for position in range(step, info.tokens, step))}
    bounds = [*sorted(firsts), info.sequences]
    return [(number, a, b) for number, (a, b) in enumerate(itertools.pairwise(bounds))]


def scatter(job: Scatter, item: tuple[int, int, int]) -> Spill:
    """Write a range of sequences to a spill. This is the task function for `run.execute.run_tasks`."""
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
    """Return the bucket of each key, uint16[n]. Buckets are equal intervals of keys, in order."""
    return ((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint16)


def _counted(job: Scatter, first: int, last: int) -> tuple[Offsets, Offsets]:
    """Return the number of entries and of tokens before each bucket, int64[buckets + 1] each."""
    entries, tokens = np.zeros(job.buckets + 1, np.int64), np.zeros(job.buckets + 1, np.int64)
    for a, b in windows(first, last, _MANY):
        lengths = np.diff(job.source.offsets(a, b))
        bucket = bucket_of(draws(job.seed, SHUFFLE, a, b), job.buckets)
        entries[1:] += np.bincount(bucket, minlength=job.buckets)
        # bincount adds weights as float64. The sums are exact, because a window without long sequences is below 2^53.
        spilled = np.where(lengths > LONG, 0, lengths)
        tokens[1:] += np.bincount(bucket, spilled, job.buckets).astype(np.int64)
    return np.cumsum(entries), np.cumsum(tokens)


def _sorted_batches(
    job: Scatter, first: int, last: int
) -> Iterator[tuple[int, NDArray[np.void], NDArray[np.unsignedinteger]]]:
    """Yield the bucket, its entries and its tokens, for each window of the source and each bucket in it."""
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
    """Yield runs of sequences of at most a window of tokens, or one long sequence: its first number, and offsets."""
    while first < last:
        offsets = source.offsets(first, min(last, first + _MANY))
        count = max(1, int(np.searchsorted(offsets, offsets[0] + LONG, side="right")) - 1)
        yield first, offsets[: count + 1]
        first += count


_KEPT = 1 << 26  # Approximate bytes of all buckets in memory.
_LARGEST, _SMALLEST = 1 << 24, 1 << 21  # Approximate bounds of the bytes of a bucket while it is sorted.
_SORTING = 4 * ENTRY.itemsize  # Bytes per sequence meanwhile: its entry twice, and its offsets before and after.


@contextmanager
def shuffled(
    source: TokenReader,
    seed: int,
    workers: Workers,
    *,
    part: str = "",
    bucket: int | None = None,
    progress: Callable[[int], None] = ignore,
) -> Iterator[Shuffled]:
    """Yield a reader of the sequences of `source` in the order of `seed`. Its files in scratch are removed at the end.

    Beyond `MOST_BUCKETS` times the size of a bucket (about 275 GB), buckets grow with the source. Long sequences are
    read from `source` again. A bucket takes about `bucket` bytes while it is sorted; the order does not depend on it.
    Buckets that would take more than half of the memory are an error, before anything is written.
    """
    home, kept, journal = workers.scratch / of_part("done-shuffle", part), workers.jobs + 1, workers.journal
    size = bucket or min(max(_KEPT // kept, _SMALLEST), _LARGEST)
    info = source.info
    total = info.tokens * info.dtype.itemsize * 2 + info.sequences * _SORTING
    wanted = min(max(1, -(-total // size)), MOST_BUCKETS)
    job = Scatter(source, seed, journal.once(of_part("buckets", part), lambda: wanted), home)
    _check_room(total, job.buckets, kept)
    home.mkdir(exist_ok=True)
    try:
        spills = []
        for spill in journaled(_spills(job, part), scatter, job, cuts(source), workers):
            spills.append(spill)
            progress(spill.read)
        spills.sort(key=lambda spill: spill.number)
        yield Shuffled(source, _Buckets(spills, info.dtype, kept), home / "offsets")
    finally:
        if not journal.keeps:
            shutil.rmtree(home, ignore_errors=True)


def _check_room(total: int, buckets: int, kept: int) -> None:
    """Raise ConversionError if the buckets do not fit in memory. `kept` buckets are in memory at once."""
    held = total // buckets * (kept + 1)
    if held > share():
        raise ConversionError(
            f"--shuffle would take about {held / 1e9:,.0f} GB of memory, more than half "
            "of what there is. Use fewer --jobs, or shuffle parts of the sources separately"
        )


def _spills(job: Scatter, part: str) -> Kind[tuple[int, int, int], Spill]:
    """Return how spills are journaled."""
    return Kind(
        of_part("spill", part),
        number=lambda item: item[0],
        finished=lambda spill: spill.number,
        facts=lambda spill: spill.facts(),
        recall=lambda number, facts: Spill.recalled(job, number, facts),
    )


class Shuffled(TokenReader):
    """A reader of the sequences of a source in order of their keys.

    The axis consists of pieces. A piece is a run of short sequences in one bucket, or one long sequence in the source.
    """

    def __init__(self, source: TokenReader, buckets: _Buckets, path: Path) -> None:
        """Write the shuffled offsets to `path`, bucket by bucket."""
        self.source, self._buckets = source, buckets
        pieces: list[_Piece] = []
        count, at = 0, 0
        with open(path, "wb") as out:
            for number in range(buckets.count):
                entries = buckets.ordered(number)
                offsets = at + offsets_of(entries["length"])
                out.write(offsets[:-1].tobytes())  # ndarray.tofile does not report a full disk.
                pieces += _pieces(number, entries, offsets)
                count, at = count + len(entries), int(offsets[-1])
            out.write(np.array([at], np.int64).tobytes())
        self._offsets = File(path)
        self.info = source.info
        self._bucket = np.array([piece.bucket for piece in pieces], np.int64)
        self._shift = np.array([piece.shift for piece in pieces], np.int64)
        self._bounds = np.array([*(piece.start for piece in pieces), at], np.int64)
        if (count, at) != (self.info.sequences, self.info.tokens):
            raise IncompleteWriteError(f"{count:,} sequences of {at:,} tokens were spilled; the source holds others")

    def offsets(self, first: int, last: int) -> Offsets:
        return self._offsets.array(first * 8, last - first + 1, np.dtype(np.int64))

    def tokens(self, start: int, stop: int) -> Tokens:
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        found = []
        for k in range(first, int(np.searchsorted(self._bounds, stop))) if start < stop else ():
            a, b = max(start, int(self._bounds[k])), min(stop, int(self._bounds[k + 1]))
            bucket, shift = int(self._bucket[k]), int(self._shift[k])
            if bucket < 0:
                found.append(self.source.tokens(a - shift, b - shift))
            else:
                found.append(self._buckets.tokens(bucket)[a - shift : b - shift])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty(0, self.info.dtype)

    def close(self) -> None:
        self._offsets.close()
        self._buckets.close()
        self.source.close()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the shuffled axis."""

    start: int  # on the axis
    bucket: int  # of its tokens; -1: they are in the source
    shift: int  # a position on the axis, minus the shift, is the position in the bucket or in the source


def _pieces(bucket: int, entries: NDArray[np.void], offsets: Offsets) -> Iterator[_Piece]:
    """Yield the pieces of a bucket whose sequences, in shuffled order, have the given offsets on the axis."""
    start = shift = int(offsets[0])
    for k in np.flatnonzero(entries["length"] > LONG).tolist():
        at, end = int(offsets[k]), int(offsets[k + 1])
        if start < at:
            yield _Piece(start, bucket, shift)
        yield _Piece(at, -1, at - int(entries["start"][k]))
        start, shift = end, shift + end - at
    if start < int(offsets[-1]):
        yield _Piece(start, bucket, shift)


class _Buckets:
    """The buckets of all spills. Picklable and thread-safe; caches the most recently used buckets."""

    def __init__(self, spills: Sequence[Spill], dtype: np.dtype[np.unsignedinteger], kept: int) -> None:
        self.spills, self.dtype, self.kept = list(spills), dtype, kept
        self.count = len(self.spills[0].entries) - 1  # number of buckets
        self._files = [File(spill.path) for spill in self.spills]
        self._forget()

    def _forget(self) -> None:
        self._recent: OrderedDict[int, Future[Tokens]] = OrderedDict()
        self._lock = threading.Lock()

    def entries(self, bucket: int) -> NDArray[np.void]:
        """Return the entries of a bucket in order of the source, `ENTRY`[sequences]."""
        parts = []
        for file, spill in zip(self._files, self.spills, strict=True):
            a, b = spill.entries[bucket : bucket + 2].tolist()
            parts.append(file.array(a * ENTRY.itemsize, b - a, ENTRY))
        return np.concatenate(parts)

    def ordered(self, bucket: int) -> NDArray[np.void]:
        """Return the entries of a bucket in shuffled order."""
        entries = self.entries(bucket)
        return entries[_order(entries["key"])]

    def tokens(self, bucket: int) -> Tokens:
        """Return the sequences of a bucket in shuffled order, without long ones; read-only."""
        with self._lock:
            loading = self._recent.get(bucket)
            mine = loading is None
            if loading is None:
                loading = self._recent[bucket] = Future()
                while len(self._recent) > self.kept:
                    self._recent.popitem(last=False)
            self._recent.move_to_end(bucket)
        if mine:  # Other threads wait for the future.
            try:
                loading.set_result(self._load(bucket))
            except BaseException as error:
                with self._lock:
                    self._recent.pop(bucket, None)
                loading.set_exception(error)
                raise
        return loading.result()

    def _load(self, bucket: int) -> Tokens:
        entries, at = self.entries(bucket), 0
        lengths = np.where(entries["length"] > LONG, 0, entries["length"])
        spilled = np.empty(int(lengths.sum()), self.dtype)
        for file, spill in zip(self._files, self.spills, strict=True):
            a, b = spill.tokens[bucket : bucket + 2].tolist()
            part = spilled[at : at + b - a]
            if len(part):
                file.read_into(int(spill.entries[-1]) * ENTRY.itemsize + a * part.itemsize, part.view(np.uint8).data)
            at += b - a
        return reordered(Ragged(spilled, offsets_of(lengths)), _order(entries["key"])).tokens

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key not in ("_recent", "_lock")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._forget()


def _order(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the indices that sort keys. Equal keys stay in order."""
    order = np.argsort(keys)  # Twice as fast as a stable sort, with the same result unless keys are equal.
    found = keys[order]
    return np.argsort(keys, kind="stable") if (found[1:] == found[:-1]).any() else order
