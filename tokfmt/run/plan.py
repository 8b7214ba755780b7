"""Plan a conversion as regions, each written by exactly one task; run the plan; and keep its journal.

The journal lists finished work, so that the next run does not repeat it. It is in the hidden sibling of a destination
that is kept (`files.publisher.Publisher`):

    setup                 locked while a step runs that is done once for all tasks
    created.json ...      the result of such a step (created-train.json: of one split)
    journal-3-of-8        the finished work of task 3 of 8, one line each (0 of 1: of all)
    lock-of-journal-...   locked while the journal is open

    line = crc32 of the rest, 8 hex digits; a space; JSON [kind, number, facts]; newline

A line is written and fsynced after all data that it lists is on the disk. Reading stops at the first incomplete line: a
killed process, or a full disk, tears the last one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tokfmt.core.format import REGION, Receipt, Region, TokenWriter
from tokfmt.core.reader import TokenReader, largest_id, windows
from tokfmt.errors import ConversionError, CorruptError, IncompleteWriteError
from tokfmt.files.durable import empty, replace_file, sync_file_system
from tokfmt.files.locks import holder, release, take_lock
from tokfmt.run.execute import ClusterExecutor, run_tasks
from tokfmt.wording import printable

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
T = TypeVar("T")


Done = Mapping[int, Any]

_CREATED = "created"
FLUSH_SHARE = 9  # Flushing takes at most one part in ten of the time.
_PATIENCE = 600  # Seconds to wait for another task that prepares the destination.


class NullJournal:
    """Discard journal entries of runs that cannot be resumed.

    Attributes:
        keeps: Entries are kept for later runs, so parts must stay until the end.
    """

    keeps = False

    def done(self, kind: str) -> Done:  # noqa: ARG002
        """Return the facts of finished work of one kind in earlier runs, by number."""
        return {}

    def add(self, kind: str, number: int, facts: object) -> None:
        """Record that a unit of work is finished."""

    def sync(self) -> None:
        """Flush the added entries to the disk."""

    def once(self, name: str, make: Callable[[], T]) -> T:  # noqa: ARG002
        """Return `make()`, a JSON value. Only the first run calls it."""
        return make()

    def begin(self, create: Callable[[], None], part: str = "") -> None:  # noqa: ARG002
        """Create the destination, or one part of it, once."""
        create()

    def durable(self, function: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
        """Wrap a function that runs on another machine, so that it flushes its files to the disk there."""
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
        """Return its contiguous part of the items. Parts have nearly equal sizes."""
        return items[len(items) * self.index // self.count : len(items) * (self.index + 1) // self.count]


WHOLE = Task()


class Share:
    """The part of a task in several lists of items: every n-th item across all lists.

    This distributes lists of one item as well.
    """

    def __init__(self, task: Task) -> None:
        self.task, self._before = task, 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Return its part of the next list. All tasks must pass the same lists in the same order."""
        first = (self.task.index - self._before) % self.task.count
        self._before += len(items)
        return items[first :: self.task.count]


class Stretch(Share):
    """The part of a task in several lists: a stretch of consecutive items across all lists.

    Attributes:
        total: Number of items in all lists, which must be set before `of`.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.total = 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        first, last = (self.total * k // self.task.count - self._before for k in (self.task.index, self.task.index + 1))
        self._before += len(items)
        return items[max(0, first) : max(0, last)]


class Journal(NullJournal):
    """The journal of one task, open for writing. A context manager; not thread-safe."""

    keeps = True

    def __init__(self, home: Path, task: Task = WHOLE, also: Sequence[Task] = ()) -> None:
        """Open the journal, or create it.

        Args:
            home: The hidden sibling.
            task: The task whose journal is written.
            also: Tasks whose journals are read as well.

        Raises:
            ConversionError: If another process writes it.
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
        """True if no work was finished that is worth keeping."""
        return not self._size and not self._done and not self._pending

    def done(self, kind: str) -> Done:
        return self._done.get(kind, {})

    def add(self, kind: str, number: int, facts: object) -> None:
        text = json.dumps([kind, number, facts], separators=(",", ":"))
        if json.loads(text)[2] != facts:
            raise TypeError(f"{kind}: {facts!r} does not survive JSON, so it cannot be journaled")
        self._pending.append(b"%08x %s\n" % (zlib.crc32(text.encode()), text.encode()))
        if time.monotonic() - self._synced >= FLUSH_SHARE * self._cost:
            self.sync()

    def sync(self) -> None:
        """Flush all added entries to the disk, after the data that they list."""
        began = time.monotonic()
        sync_file_system(self.home)
        lines = b"".join(self._pending)
        try:
            if lines and os.pwrite(self._fd, lines, self._size) == len(lines):
                os.fsync(self._fd)
                self._size += len(lines)
                self._pending.clear()
        finally:  # A torn line must not precede the next line.
            os.ftruncate(self._fd, self._size)
        self._synced = time.monotonic()
        self._cost = self._synced - began

    def once(self, name: str, make: Callable[[], T]) -> T:
        path = self.home / f"{name}.json"
        with self._alone():
            if path.exists():
                try:
                    kept: T = json.loads(path.read_bytes())
                except ValueError as error:
                    raise CorruptError(
                        path, "is not JSON", remedy=f"Delete {printable(self.home)} to start over"
                    ) from error
                return kept
            value = make()
            sync_file_system(self.home)
            replace_file(path, json.dumps(value).encode())
            return value

    def begin(self, create: Callable[[], None], part: str = "") -> None:
        def create_clean() -> None:
            if not any(self.home.glob(f"{_CREATED}*.json")):  # A run may have been killed while it created them.
                empty(self.home / "build")  # The directory itself stays, because other tasks may be entering it now.
            create()

        self.once(of_part(_CREATED, part), create_clean)

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
        except OSError:  # A resumed run repeats work that is not in the journal.
            if error is None:
                raise
        finally:
            os.close(self._fd)
            release(self._lock)


def of_part(name: str, part: str) -> str:
    """Return the name of a journal item for one part (split) of a conversion; `name` itself for all of it."""
    return f"{name}-{part}" if part else name


class _Durable:
    def __init__(self, function: Callable[[Any, Any], Any], home: Path) -> None:
        self.function, self.home = function, home

    def __call__(self, shared: object, item: object) -> Any:
        result = self.function(shared, item)
        sync_file_system(self.home)
        return result


def keep_only(path: Path, kept: Callable[[str], bool]) -> int:
    """Remove all other kinds of entries from a journal that is not open. Return the number of entries left."""
    content = path.read_bytes()[: read_journal(path)[1]] if path.exists() else b""
    lines = [line for line in content.splitlines(keepends=True) if kept(json.loads(line[9:])[0])]
    replace_file(path, b"".join(lines))
    return len(lines)


def read_journal(path: Path) -> tuple[list[tuple[str, int, Any]], int]:
    """Return the complete lines of a journal as (kind, number, facts), and their size in bytes.

    If the file does not exist, both are empty.
    """
    try:
        return entries_of(path.read_bytes())
    except FileNotFoundError:
        return [], 0


def entries_of(content: bytes) -> tuple[list[tuple[str, int, Any]], int]:
    """Return what `read_journal` returns, given the content of a journal."""
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


# Running a plan


class Sink(Protocol):
    """A place for files of the destination that are complete before the destination is, such as a store."""

    def take(self, files: Sequence[Path]) -> None:
        """Take complete files.

        Raises:
            OutageError: If a file cannot be taken.
        """

    def drop(self, files: Sequence[Path]) -> None:
        """Remove files that were taken, once the journal has recorded it."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The executor of a conversion, and the directories that its tasks share.

    Attributes:
        executor: Runs the tasks.
        jobs: Number of tasks at a time.
        scratch: A directory that the tasks share.
        journal: Finished work of earlier runs.
        texts: Directory of tokenized text that all tasks of a conversion share; None: `scratch`.
        share: The part of the text that this task tokenizes. Other tasks tokenize the rest. None: all.
        sink: Takes files of the destination as soon as they are complete. None: they stay until all are.
    """

    executor: Executor
    jobs: int
    scratch: Path
    journal: NullJournal = field(default_factory=NullJournal)
    texts: Path | None = None
    share: Share | None = None
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
    """A kind of work whose results are journaled.

    Attributes:
        name: Kind of the journal entries.
        number: Returns the number of an item.
        finished: Returns the number of the item of a result.
        facts: Returns the facts of a result that are journaled, as JSON.
        recall: Returns the result of journaled facts; None if it is no longer valid.
    """

    name: str
    number: Callable[[I], int]
    finished: Callable[[R], int]
    facts: Callable[[R], object]
    recall: Callable[[int, Any], R | None]


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
    """Let the writer cut its output into regions of about `size` tokens.

    Raises:
        IncompleteWriteError: If the regions do not cover the source, so that tokens would be left out silently.
    """
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

    Work that the journal of the workers lists is not repeated.

    Args:
        job: The plan.
        workers: The executor.
        task: Write only the part of this task. A later run that finds the parts of all tasks in the journal commits.
        part: Name of the part, if several parts share the journal.

    Raises:
        IncompleteWriteError: If a region has no receipt. The destination is then not committed.
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
    """The result of one pass over a token axis.

    Attributes:
        max_id: Largest token ID; -1 without one.
        separators: Number of separators.
        first: Position of the first separator; -1 without one.
    """

    max_id: int
    separators: int
    first: int


def scan(source: TokenReader, eos_id: int | None, workers: Workers, size: int = REGION) -> Scan:
    """Find the largest token ID and the separators inside sequences, in parallel."""
    intervals = list(windows(0, source.info.tokens, size))
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
