"""Keep the journal of a destination: the finished work, which the next run does not repeat.

It is in the hidden sibling of a destination that is kept (`files.publisher.Publisher`):

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tokfmt.errors import ConversionError, CorruptError
from tokfmt.files.durable import empty, replace_file, sync_file_system
from tokfmt.files.locks import holder, release, take_lock
from tokfmt.wording import printable

T = TypeVar("T")

Done = Mapping[int, Any]

_CREATED = "created"
FLUSH_SHARE = 9  # Flushing takes at most one part in ten of the time.
_PATIENCE = 600  # Seconds to wait for another task that prepares the destination.


class NullJournal:
    """Discard journal entries of runs that cannot be resumed."""

    keeps = False  # entries are kept for later runs, so parts must stay until the end

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


class Journal(NullJournal):
    """The journal of one task, open for writing. A context manager; not thread-safe."""

    keeps = True

    def __init__(self, home: Path, task: Task = WHOLE, also: Sequence[Task] = ()) -> None:
        """Open the journal, or create it. The journals of the tasks `also` are read as well."""
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

    @property
    def finished(self) -> int:
        """The number of parts of the work that earlier runs finished."""
        return sum(map(len, self._done.values()))

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
                    result: T = json.loads(path.read_bytes())
                except ValueError as error:
                    raise CorruptError(
                        path, "is not JSON", remedy=f"Delete {printable(self.home)} to start over"
                    ) from error
                return result
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


def keep_only(path: Path, is_kept: Callable[[str], bool]) -> int:
    """Remove all other kinds of entries from a journal that is not open. Return the number of entries left."""
    content = path.read_bytes()[: read_journal(path)[1]] if path.exists() else b""
    lines = [line for line in content.splitlines(keepends=True) if is_kept(json.loads(line[9:])[0])]
    replace_file(path, b"".join(lines))
    return len(lines)


def read_journal(path: Path) -> tuple[list[tuple[str, int, Any]], int]:
    """Return the complete lines of a journal, if there is one, as (kind, number, facts), and their bytes."""
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
