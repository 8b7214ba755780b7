"""A conversion as a list of regions, each owned by exactly one task; how a plan is run, and what of it is journaled.

The journal says what is done already, so that the next run need not do it again. In the hidden sibling of a destination
that is kept (`core.atomic_output.Staging`):

    setup                 locked while something is done once for all
    created.json ...      what was done once: the value that came of it (created-train.json: of one split)
    journal-3-of-8        what task 3 of 8 has finished, a line each (0 of 1: all of it)
    lock-of-journal-...   held while it is written

    line = crc32 of the rest, 8 hex digits; a space; JSON [kind, number, facts]; newline

A line is written and fsynced after all that it vouches for is on the disk. Reading stops at the first line that is not
whole: a process that is killed, or a full disk, tears the last one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from tokfmt.core.atomic_output import sync_file_system, write_whole
from tokfmt.core.errors import ConversionError, IncompleteWriteError
from tokfmt.core.format import REGION, Receipt, Region, TokenWriter
from tokfmt.core.locks import holder, make_private, release, take_lock
from tokfmt.core.reader import TokenReader, largest_id, windows
from tokfmt.run.execute import ClusterExecutor, run_tasks

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
T = TypeVar("T")


Done = Mapping[int, Any]

_CREATED = "created"
_SHARE = 9  # syncing may take one part of ten
_PATIENCE = 600  # seconds until whoever prepares the destination, another task at most, must be done


class NullJournal:
    """A journal that keeps nothing: of a conversion that leaves nothing behind.

    Attributes:
        keeps: What is done stays done for later runs, so parts must not go before the end.
    """

    keeps = False

    def done(self, kind: str) -> Done:  # noqa: ARG002
        """What earlier runs finished of one kind: facts by number."""
        return {}

    def add(self, kind: str, number: int, facts: object) -> None:
        """Say that something is finished."""

    def sync(self) -> None:
        """Bring what was added to the disk."""

    def once(self, name: str, make: Callable[[], T]) -> T:  # noqa: ARG002
        """What `make` gives (JSON), called by the first run only."""
        return make()

    def begin(self, create: Callable[[], None], part: str = "") -> None:  # noqa: ARG002
        """Make the destination, or one part of it after another, once."""
        create()

    def durable(self, function: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
        """A function for another machine, which has to bring to its disk what it wrote there."""
        return function


@dataclass(frozen=True, slots=True)
class Task:
    """One of several invocations that share a conversion: number `index` of `count`, from 0."""

    index: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index} of {self.count}"

    @property
    def journal(self) -> str:
        """Name of its journal."""
        return f"journal-{self.index}-of-{self.count}"

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Its share: near-equal, contiguous."""
        return items[len(items) * self.index // self.count : len(items) * (self.index + 1) // self.count]


WHOLE = Task()


class Share:
    """What a task does of several lists of items: every n-th of all, so that lists of one are dealt out as well."""

    def __init__(self, task: Task) -> None:
        self.task, self._before = task, 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Its part of the next list; all tasks have to come with the same lists in the same order."""
        first = (self.task.index - self._before) % self.task.count
        self._before += len(items)
        return items[first :: self.task.count]


class Journal(NullJournal):
    """The journal of one task, open for writing; a context manager. Not for several threads."""

    keeps = True

    def __init__(self, home: Path, task: Task = WHOLE, also: Sequence[Task] = ()) -> None:
        """Open it, made if need be.

        Args:
            home: The hidden sibling.
            task: Whose journal it is.
            also: Tasks whose journals are read as well.

        Raises:
            ConversionError: Another process writes it.
        """
        self.home, self.task = home, task
        place = home / f"lock-of-{task.journal}"
        self._lock = take_lock(place)
        if self._lock < 0:
            raise ConversionError(f"task {task} is running already ({holder(place)})")
        try:
            self._fd = os.open(home / task.journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except BaseException:
            release(self._lock)
            raise
        entries, self._size = read_journal(home / task.journal)
        os.ftruncate(self._fd, self._size)
        self._done: dict[str, dict[int, Any]] = {}
        for other in also:
            entries += read_journal(home / other.journal)[0]
        for kind, number, facts in entries:
            self._done.setdefault(kind, {})[number] = facts
        self._pending: list[bytes] = []
        self._synced, self._cost = time.monotonic(), 0.0

    @property
    def empty(self) -> bool:
        """Nothing was finished that is worth keeping."""
        return not self._size and not self._done and not self._pending

    def done(self, kind: str) -> Done:
        return self._done.get(kind, {})

    def add(self, kind: str, number: int, facts: object) -> None:
        text = json.dumps([kind, number, facts], separators=(",", ":"))
        if json.loads(text)[2] != facts:
            raise TypeError(f"{kind}: {facts!r} does not survive JSON, so it cannot be journaled")
        self._pending.append(b"%08x %s\n" % (zlib.crc32(text.encode()), text.encode()))
        if time.monotonic() - self._synced >= _SHARE * self._cost:
            self.sync()

    def sync(self) -> None:
        """Bring all that was added to the disk, after what it vouches for."""
        began = time.monotonic()
        sync_file_system(self.home)
        lines = b"".join(self._pending)
        try:
            if lines and os.pwrite(self._fd, lines, self._size) == len(lines):
                os.fsync(self._fd)
                self._size += len(lines)
                self._pending.clear()
        finally:  # what was torn must not stand before the next line
            os.ftruncate(self._fd, self._size)
        self._synced = time.monotonic()
        self._cost = self._synced - began

    def once(self, name: str, make: Callable[[], T]) -> T:
        path = self.home / f"{name}.json"
        with self._alone():
            if path.exists():
                value: T = json.loads(path.read_bytes())
                return value
            value = make()
            sync_file_system(self.home)
            write_whole(path, json.dumps(value).encode())
            return value

    def begin(self, create: Callable[[], None], part: str = "") -> None:
        def afresh() -> None:
            build = self.home / "build"
            if not any(self.home.glob(f"{_CREATED}*.json")):
                shutil.rmtree(build)  # a run may have been killed while it made the destination
                make_private(build)
            create()

        self.once(of_part(_CREATED, part), afresh)

    def durable(self, function: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
        return _Durable(function, self.home)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        setup = self.home / "setup"
        lock = take_lock(setup, patience=_PATIENCE)
        if lock < 0 and setup.exists():
            raise ConversionError(
                f"{self.home.name}: {holder(setup)} has held the lock {setup.name} for {_PATIENCE} seconds. "
                "Wait for it, or stop it"
            )
        if lock < 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.home))
        try:
            yield
        finally:
            release(lock)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.sync()
        except OSError:  # what is not journaled will be done again
            if error is None:
                raise
        finally:
            os.close(self._fd)
            release(self._lock)


def of_part(name: str, part: str) -> str:
    """The name under which something is kept for one part (split) of a conversion; the name itself for all of it."""
    return f"{name}-{part}" if part else name


class _Durable:
    def __init__(self, function: Callable[[Any, Any], Any], home: Path) -> None:
        self.function, self.home = function, home

    def __call__(self, shared: object, item: object) -> Any:
        result = self.function(shared, item)
        sync_file_system(self.home)
        return result


def keep_only(path: Path, kept: Callable[[str], bool]) -> int:
    """Take all other kinds of entries out of a journal that nobody has open; how many are left."""
    content = path.read_bytes()[: read_journal(path)[1]] if path.exists() else b""
    lines = [line for line in content.splitlines(keepends=True) if kept(json.loads(line[9:])[0])]
    write_whole(path, b"".join(lines))
    return len(lines)


def read_journal(path: Path) -> tuple[list[tuple[str, int, Any]], int]:
    """The whole lines of a journal, (kind, number, facts) each, and how many bytes they are; none without a file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    entries, size = [], 0
    for line in content.splitlines(keepends=True):
        try:
            crc, text = int(line[:8], 16), line[9:-1]
            if line[-1:] != b"\n" or zlib.crc32(text) != crc:
                break
            kind, number, facts = json.loads(text)
        except ValueError:
            break
        entries.append((kind, number, facts))
        size += len(line)
    return entries, size


# carried out


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        executor, jobs: What carries them out, and how many at a time.
        scratch: A directory that they share.
        journal: What earlier runs have done.
        texts: The directory of tokenised text where all tasks of a conversion share one; None: `scratch`.
        share: Of text only this is tokenised: the rest is for other tasks.
    """

    executor: Executor
    jobs: int
    scratch: Path
    journal: NullJournal = field(default_factory=NullJournal)
    texts: Path | None = None
    share: Share | None = None

    @property
    def tasks(self) -> int:
        """How many tasks tokenise the text."""
        return 1 if self.share is None else self.share.task.count


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
    call = journal.durable(function) if isinstance(workers.executor, ClusterExecutor) else function
    for result in run_tasks(call, shared, left, workers.executor, workers.jobs, workers.scratch):
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


def run(job: Plan, workers: Workers, task: Task | None = None, part: str = "") -> Iterator[Receipt]:
    """Create the destination, write every region, yield receipts as they come, and commit.

    What the workers' journal has of it is not done again.

    Args:
        job: What to write.
        workers: Where.
        task: Write this share only, and leave the commit to a run that finds all shares journaled.
        part: Name of what is written, if it shares the journal with others.

    Raises:
        IncompleteWriteError: A region has no receipt; nothing was committed.
    """
    journal = workers.journal
    journal.begin(lambda: job.writer.create(job.source), part)
    receipts: list[Receipt] = []
    regions = job.regions if task is None else task.of(job.regions)
    kind = replace(RECEIPTS, name=of_part(RECEIPTS.name, part))
    ready = None if journal.keeps else _Ready(job)  # what is kept is committed in one go
    for receipt in journaled(kind, _write, job, regions, workers):
        receipts.append(receipt)
        if ready is not None:
            ready.add(receipt)
        yield receipt
    journal.sync()
    if task is None:
        journal.once(of_part("committed", part), lambda: commit(job, receipts))
    else:
        journal.add("task", task.index, len(regions))


class _Ready:
    """Have regions gathered as soon as they and all before them are written."""

    def __init__(self, job: Plan) -> None:
        self._job, self._order = job, deque(region.index for region in job.regions)
        self._waiting: dict[int, Receipt] = {}

    def add(self, receipt: Receipt) -> None:
        """Take up a receipt, and have all regions gathered whose turn has come."""
        self._waiting[receipt.region] = receipt
        while self._order and self._order[0] in self._waiting:
            self._job.writer.gather(self._job.source, self._waiting.pop(self._order.popleft()))


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
