"""What of a conversion is done already, so that the next run need not do it again.

In the hidden sibling of a destination that is kept (`core.publish.Staging`):

    setup                 locked while something is done once for all
    created.json ...      what was done once: the value that came of it (created-train.json: of one split)
    journal-3-of-8        what shard 3 of 8 has finished, a line each (0 of 1: all of it)

    line = crc32 of the rest, 8 hex digits; a space; JSON [kind, number, facts]; newline

A line is written and fsynced after all that it vouches for is on the disk. Reading stops at the first line that is not
whole: a process that is killed, or a full disk, tears the last one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tokfmt.core.errors import ConversionError
from tokfmt.core.private import holder, make_private, take_lock
from tokfmt.core.publish import sync_file_system, write_whole

T = TypeVar("T")
Done = Mapping[int, Any]

_CREATED = "created"
_SHARE = 9  # syncing may take one part of ten
_PATIENCE = 600  # seconds until whoever prepares the destination, another shard at most, must be done


class Forgetful:
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

    def durable(self, task: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
        """A task for another machine, which has to bring to its disk what it wrote there."""
        return task


@dataclass(frozen=True, slots=True)
class Shard:
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


WHOLE = Shard()


class Share:
    """What a shard does of several lists of items: every n-th of all, so that lists of one are dealt out as well."""

    def __init__(self, shard: Shard) -> None:
        self.shard, self._before = shard, 0

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """Its part of the next list; all shards have to come with the same lists in the same order."""
        first = (self.shard.index - self._before) % self.shard.count
        self._before += len(items)
        return items[first :: self.shard.count]


class Journal(Forgetful):
    """The journal of one shard, open for writing; a context manager. Not for several threads."""

    keeps = True

    def __init__(self, home: Path, shard: Shard = WHOLE, also: Sequence[Shard] = ()) -> None:
        """Open it, made if need be.

        Args:
            home: The hidden sibling.
            shard: Whose journal it is.
            also: Shards whose journals are read as well.

        Raises:
            ConversionError: Another process writes it.
        """
        self.home, self.shard = home, shard
        self._fd = os.open(home / shard.journal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise ConversionError(f"shard {shard} is running already") from error
        entries, self._size = read_journal(home / shard.journal)
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

    def durable(self, task: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
        return _Durable(task, self.home)

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
            os.close(lock)

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


def of_part(name: str, part: str) -> str:
    """The name under which something is kept for one part (split) of a conversion; the name itself for all of it."""
    return f"{name}-{part}" if part else name


class _Durable:
    def __init__(self, task: Callable[[Any, Any], Any], home: Path) -> None:
        self.task, self.home = task, home

    def __call__(self, shared: object, item: object) -> Any:
        result = self.task(shared, item)
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
