"""Blocks of objects on disk: what one command read at random from a store, the next one does not request again.

    $XDG_CACHE_HOME/tokfmt/blocks/          0700
        OBJECT/                             a hash of the store, the key, the size and the ETag
            FIRST-COUNT                     so many blocks, from block FIRST
            lock                            held while one process fetches an index, and others wait
        held                                the bytes of all files, as text: an upper estimate

    FIRST-COUNT     bytes       content
    0 .. 7                      magic, "tokfmtB1"
    8 .. 15         u64         number of the first block
    16 .. 23        u64         bytes of content
    24 ..           u64[COUNT]  XXH3-64 of each block
    ...                         the content: blocks of `blocks.SIZE` bytes, the last of the object may be shorter

- A file is written to a hidden name and renamed. A damaged one is removed, and its blocks are requested again.
- Files whose last use is longest ago are removed when all of them exceed the capacity, down to 90 %.
- An index of 20 MB takes 3 files instead of 320, because inodes have quotas on clusters.
- If the directory cannot be written, or belongs to another user, reading goes on without it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import queue
import re
import shutil
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tokfmt.base.options import parse_count
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.files.locks import make_private, release, take_lock, user_directory
from tokfmt.stores import account
from tokfmt.stores.blocks import LARGEST, SIZE, Buffer, complete

DIRECTORY, CAPACITY = "TOKFMT_CACHE_DIR", "TOKFMT_CACHE_SIZE"
"""Variables with the directory and the bytes of the cache, which the worker processes of a command inherit."""
DEFAULT_CAPACITY = 4 << 30
_HEAD = struct.Struct("<8sQQ")
_MAGIC = b"tokfmtB1"
_OBJECT = re.compile("[0-9a-f]{32}")
_TOGETHER = LARGEST // SIZE  # Blocks of a file.
_KEPT = 0.9  # Share of the capacity that eviction leaves.
_UNUSED = 3600.0  # Seconds after which a hidden file is of a process that was killed.
_USED = 60.0  # Seconds within which a second use is not noted, as network file systems are asked for each.
_PATIENCE = 120.0  # Seconds to wait for another process that fetches an index. It may have stalled.
_RELISTED = 1.0  # Seconds after which a directory is listed again to see what other processes have written.
_LISTINGS = 4096
_PENDING = 1 << 26  # Bytes that wait to be written. What comes while the disk is slower is not kept.
_AT_EXIT = 5.0  # Seconds that the end of a process waits for the disk.


class Usage(NamedTuple):
    """The number of objects and bytes in the cache.

    Attributes:
        objects: Number of objects.
        bytes: Bytes of their files.
    """

    objects: int
    bytes: int


@dataclass
class _Listing:
    """The blocks of an object on disk: the first block and the number of blocks of the file that has each."""

    blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    changed: int = 0
    listed: float = 0.0


def directory() -> Path:
    """Return the directory of the blocks, which is below that of the cache. It may not exist."""
    named = os.environ.get(DIRECTORY, "")
    return (Path(named).expanduser().absolute() if named else user_directory("CACHE", ".cache")) / "blocks"


def capacity() -> int:
    """Return the largest size of the cache in bytes; 0 turns it off.

    Raises:
        OptionError: If the variable is not a number of bytes.
    """
    variable = os.environ.get(CAPACITY, "")
    if not variable:
        return DEFAULT_CAPACITY
    try:
        return max(0, parse_count(variable))
    except OptionError as error:
        raise OptionError(f"{CAPACITY}={variable}: is not a size (expected bytes, such as 4Gi, or 0)") from error


class DiskCache:
    """The blocks in a directory. Thread-safe, and shared with other processes of the same user."""

    def __init__(self, home: Path, most: int) -> None:
        """Open or make the directory.

        Args:
            home: The directory.
            most: Largest size in bytes.

        Raises:
            TokfmtError: If it belongs to another user, or others may write to it.
            OSError: If it cannot be made.
        """
        home.parent.mkdir(parents=True, exist_ok=True)
        make_private(home, taken_over=True)
        self.home, self.most = home, most
        self.writes = True
        self._listings: dict[str, _Listing] = {}
        self._lock = threading.Lock()

    def get(self, name: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return those blocks of an object that the cache has, by number.

        Args:
            name: The object.
            numbers: Numbers of blocks, ascending.
        """
        places = self._held(name)
        if not places:
            return {}
        files: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            if (at := places.get(number)) is not None:
                files.setdefault(at, []).append(number)
        blocks: dict[int, bytes] = {}
        for (first, count), wanted in files.items():
            path = self.home / name / f"{first}-{count}"
            try:
                blocks |= _read(path, first, count, wanted)
            except (OSError, ValueError) as error:
                if isinstance(error, ValueError):
                    with contextlib.suppress(OSError):
                        path.unlink()
                self._forget(name, first, count)
        account.count(cached=sum(map(len, blocks.values())))
        return blocks

    def holds(self, name: str, numbers: Iterable[int]) -> set[int]:
        """Return the numbers of those blocks that the cache has."""
        places = self._held(name)
        return {number for number in numbers if number in places} if places else set()

    def put(self, name: str, start: int, content: Buffer, size: int) -> None:
        """Write the complete blocks of a range, unless all are there. A disk that is full turns writing off.

        Args:
            name: The object.
            start: First byte of the range, a multiple of `SIZE`.
            content: The bytes of the range.
            size: Size of the object.
        """
        first, blocks = start // SIZE, complete(start, content, size)
        places = self._held(name)
        if not self.writes or all(first + number in places for number in range(len(blocks))):
            return
        for at in range(0, len(blocks), _TOGETHER):
            part = blocks[at : at + _TOGETHER]
            try:
                written = self._write(name, first + at, part)
                self._account(written)
            except OSError:
                self.writes = False
                return
            with self._lock:
                listing = self._listings.setdefault(name, _Listing())
                listing.blocks |= dict.fromkeys(range(first + at, first + at + len(part)), (first + at, len(part)))

    def lock(self, name: str) -> int:
        """Take the lock of an object, so that one process fetches its index; wait for another one that does.

        Returns:
            For `unlock`; -1 if there is no lock to be had. Then several processes fetch the index.
        """
        lock = -1
        with contextlib.suppress(OSError):
            (self.home / name).mkdir(mode=0o700, exist_ok=True)
            lock = take_lock(self.home / name / "lock", patience=_PATIENCE)
        with self._lock:
            self._listings.pop(name, None)  # Another process may have written meanwhile.
        return lock

    def unlock(self, lock: int) -> None:
        """Release a lock of `lock`."""
        if lock >= 0:
            release(lock)

    def usage(self) -> Usage:
        """Return what the cache holds."""
        files = self._files()
        return Usage(len({path.parent.name for _, _, path in files}), sum(size for _, size, _ in files))

    def clear(self) -> Usage:
        """Remove all blocks, and return what was removed. A process that reads them goes on without."""
        removed = self.usage()
        for folder in self._objects():
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(self.home / "held")
        with self._lock:
            self._listings.clear()
        return removed

    def _held(self, name: str) -> dict[int, tuple[int, int]]:
        """Return the listing of an object, which other processes may have changed."""
        now = time.monotonic()
        with self._lock:
            listing = self._listings.get(name)
            if listing is not None and now - listing.listed < _RELISTED:
                return listing.blocks
        try:
            changed = os.stat(self.home / name).st_mtime_ns
        except OSError:
            return {}
        if listing is not None and changed == listing.changed:
            listing.listed = now
            return listing.blocks
        listed = _Listing({}, changed, now)
        with contextlib.suppress(OSError):
            for entry in os.listdir(self.home / name):
                first, dash, count = entry.partition("-")
                if dash and first.isdigit() and count.isdigit() and int(count) <= _TOGETHER:
                    at = int(first), int(count)
                    listed.blocks |= dict.fromkeys(range(at[0], at[0] + at[1]), at)
        with self._lock:
            if len(self._listings) >= _LISTINGS:
                self._listings.clear()
            self._listings[name] = listed
        return listed.blocks

    def _forget(self, name: str, first: int, count: int) -> None:
        with self._lock:
            listing = self._listings.get(name)
            if listing is not None:
                listing.blocks = {n: at for n, at in listing.blocks.items() if at != (first, count)}

    def _write(self, name: str, first: int, blocks: Sequence[memoryview]) -> int:
        """Write blocks to a file, and return its size."""
        from xxhash import xxh3_64_intdigest

        sums = struct.pack(f"<{len(blocks)}Q", *map(xxh3_64_intdigest, blocks))
        head = _HEAD.pack(_MAGIC, first, sum(map(len, blocks)))
        folder = self.home / name
        parts: list[Buffer] = [head, sums, *blocks]
        hidden = folder / f".{os.getpid()}-{threading.get_native_id()}-{os.urandom(4).hex()}"
        for last in (False, True):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            try:
                fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:  # Another process has just removed the empty directory.
                if last:
                    raise
                continue
            break
        try:
            size = sum(map(len, parts))
            try:
                if os.writev(fd, parts) != size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(fd)
            os.rename(hidden, folder / f"{first}-{len(blocks)}")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden)
            raise
        return size

    def _account(self, written: int) -> None:
        """Add to the size of the cache, and remove files if it is above the capacity."""
        fd = os.open(self.home / "held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with contextlib.suppress(OSError):  # Without locks, the estimate may be too low until the next eviction.
                fcntl.flock(fd, fcntl.LOCK_EX)
            recorded = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            total = int(recorded) + written if recorded.isdigit() else sum(size for _, size, _ in self._files())
            if total > self.most:
                total = self._evict()
            os.pwrite(fd, f"{total:<24}".encode(), 0)
        finally:
            os.close(fd)

    def _evict(self) -> int:
        """Remove the files whose last use is longest ago, and return the bytes that are left."""
        files = sorted(self._files(hidden_too=True))
        total = sum(size for _, size, _ in files)
        for used, size, path in files:
            stale = path.name.startswith(".") and time.time() - used > _UNUSED
            if stale or (total > self.most * _KEPT and not path.name.startswith(".")):
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= size
        for folder in self._objects():
            if set(os.listdir(folder)) <= {"lock"}:
                shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._listings.clear()
        return total

    def _objects(self) -> list[str]:
        """Return the directories of objects. Whatever else the directory holds is not the cache's."""
        with os.scandir(self.home) as entries:
            return [one.path for one in entries if _OBJECT.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]

    def _files(self, *, hidden_too: bool = False) -> list[tuple[float, int, Path]]:
        """Return the time of the last use, the size and the path of each file."""
        files = []
        for folder in self._objects():
            with contextlib.suppress(OSError):
                for entry in list(os.scandir(folder)):
                    if entry.name == "lock" or (entry.name.startswith(".") and not hidden_too):
                        continue
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        files.append((status.st_mtime, status.st_size, Path(entry.path)))
        return files


def _read(path: Path, first: int, count: int, wanted: Sequence[int]) -> dict[int, bytes]:
    """Return blocks of a file.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is damaged, or of another version of tokfmt.
    """
    from xxhash import xxh3_64_intdigest

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        begin = _HEAD.size + 8 * count
        head = os.pread(fd, begin, 0)
        if len(head) != begin:
            raise ValueError("cut")
        magic, at, length = _HEAD.unpack_from(head)
        if (magic, at, status.st_size) != (_MAGIC, first, begin + length) or not 0 <= count * SIZE - length < SIZE:
            raise ValueError("another file")
        sums = struct.unpack_from(f"<{count}Q", head, _HEAD.size)
        blocks = {}
        for number in wanted:
            block = os.pread(fd, SIZE, begin + (number - first) * SIZE)
            if xxh3_64_intdigest(block) != sums[number - first]:
                raise ValueError("damaged")
            blocks[number] = block
        if time.time() - status.st_mtime > _USED:
            with contextlib.suppress(OSError):
                os.utime(fd)
        return blocks
    finally:
        os.close(fd)


class _Writer:
    """A thread that writes to the disk. Only the end of the process waits for it."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.idle = threading.Event()
        self.idle.set()
        self.bytes, self.calls, self.lock = 0, 0, threading.Lock()
        self.thread: threading.Thread | None = None

    def submit(self, size: int, write: Callable[[], None]) -> None:
        """Write later, unless too much waits already. A call of size 0 is always made."""
        with self.lock:
            if size and self.bytes + size > _PENDING:
                return
            self.bytes += size
            self.calls += 1
            self.idle.clear()
            if self.thread is None:
                before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                try:
                    self.thread = threading.Thread(target=self._work, name="tokfmt-cache", daemon=True)
                    self.thread.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)

        def done() -> None:
            try:
                write()
            finally:
                with self.lock:
                    self.bytes -= size
                    self.calls -= 1
                    if not self.calls:
                        self.idle.set()

        self.waiting.put(done)

    def _work(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # A cache that fails is a cache that has less.
                self.waiting.get()()


class _State:
    """The cache of this process, and the variables that it was opened by."""

    opened: DiskCache | None = None
    by: tuple[str, str] | None = None
    writer = _Writer()
    lock = threading.Lock()


def opened() -> DiskCache | None:
    """Return the cache of this process; None if it is turned off, or its directory cannot be used."""
    by = os.environ.get(DIRECTORY, ""), os.environ.get(CAPACITY, "")
    with _State.lock:
        if _State.by != by:
            most = capacity()
            _State.opened = None
            if most:
                with contextlib.suppress(OSError, TokfmtError):
                    _State.opened = DiskCache(directory(), most)
            _State.by = by
        return _State.opened


def write_later(cache: DiskCache, name: str, start: int, content: Buffer, size: int) -> None:
    """Write blocks in a thread; see `DiskCache.put`."""
    _State.writer.submit(len(content), lambda: cache.put(name, start, content, size))


def later(call: Callable[[], None]) -> None:
    """Make a call after all blocks so far are written."""
    _State.writer.submit(0, call)


def settle(seconds: float = _AT_EXIT) -> None:
    """Wait until all blocks are written, but not for a disk that is too slow."""
    _State.writer.idle.wait(seconds)


def _forked() -> None:
    """Start over in a forked child, because the thread that writes and the holders of the locks are the parent's."""
    _State.writer, _State.lock = _Writer(), threading.Lock()
    _State.opened, _State.by = None, None


atexit.register(settle)
os.register_at_fork(after_in_child=_forked)
