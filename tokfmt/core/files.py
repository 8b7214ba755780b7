"""Reading files by position, safely.

Only regular files are opened (a FIFO would hang, /dev/zero never ends), with O_NONBLOCK so that the open itself cannot
hang. Reads are `pread`, never a memory map: a map of a file that shrinks is a SIGBUS without a message. A file whose
size, modification time or inode changed since it was first seen is an error, not a mixture.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import re
import resource
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import listing
from tokfmt.core.errors import CorruptError, FormatError, OutageError, SourceChangedError, TruncatedError, UnsafeError
from tokfmt.core.listing import Path_
from tokfmt.core.once import open_to_read
from tokfmt.core.place import AnyPlace, Identity, Kind, Url, refuse_address, status_of, store_of
from tokfmt.core.reader import Passed
from tokfmt.core.resources import keep_freed_memory
from tokfmt.core.text_format import printable

keep_freed_memory()  # here, because every process that reads anything comes by

_DIGITS = re.compile("([0-9]+)")
_SAVE = "Only tokfmt convert reads pipes: save it to a file first"
_SMALL = 1 << 20  # bytes that one call reads whole, but for signals and ends of files
_GAP = 1 << 15  # bytes between two ranges that cost less to read than another call, let alone another request
_TOGETHER = 1 << 23  # bytes of ranges that one call reads
_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_MOST_OPEN = 256 if _ALLOWED == resource.RLIM_INFINITY else min(256, _ALLOWED // 2)  # some systems allow 256 in all
"""Descriptors kept open at once; a dataset of more files opens the others for each read."""


class _Open:
    """How many files hold a descriptor."""

    count = 0
    lock = threading.RLock()  # a garbage collection inside may close another file


class File:
    """A regular file read by position. Picklable; opens lazily; threads may share it.

    Attributes:
        path: As given.
        identity: What it was when it was first seen.
        plain: What is read lies in the file as it is; of a compressed one it does not.
    """

    plain = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd: int | None = None
        fd = _open_regular(self.path)
        self.identity = _identity(fd)
        if not self._keep(fd):
            os.close(fd)

    @classmethod
    def known(cls, path: Path, identity: Identity) -> File:
        """A file that was seen before: not looked at until it is read, when it must be what it was."""
        file = cls.__new__(cls)
        file.__setstate__({"path": path, "identity": identity})
        return file

    @property
    def size(self) -> int:
        """Bytes, when the file was first seen."""
        return self.identity.size

    def lies_at(self, offset: int) -> int | None:
        """Where in the file a byte lies that is read from `offset`; None in what is compressed."""
        return offset

    def read_from(self, offset: int) -> int | None:
        """Where a byte of the file is read, the opposite; None in what is compressed, and where nothing is read."""
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`.

        Raises:
            TruncatedError: The file ends before.
        """
        self._bound(offset, length)
        if self._fd is not None:
            try:
                whole = os.pread(self._fd, length, offset)  # 5 times as fast as by way of a bytearray
            except OSError as error:
                raise reading_error(self.path, error) from error
            if len(whole) == length:
                return whole
        buffer = bytearray(length)
        self.read_into(offset, memoryview(buffer))
        return bytes(buffer)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Iterator[memoryview]:
        """Read several ranges of bytes; those that lie close together take one read.

        Args:
            ranges: Of each the first byte and the byte behind its last, in any order.

        Yields:
            The bytes of each range, in the order given. If the ranges ascend, one read is held at a time.

        Raises:
            TruncatedError: The file ends before.
        """
        reads, of = list[list[int]](), dict[int, int]()
        for number in sorted(range(len(ranges)), key=lambda number: ranges[number][0]):
            start, stop = ranges[number]
            if reads and start <= reads[-1][1] + _GAP and max(stop, reads[-1][1]) - reads[-1][0] <= _TOGETHER:
                reads[-1][1] = max(stop, reads[-1][1])
            else:
                reads.append([start, stop])
            of[number] = len(reads) - 1
        left, held = Counter(of.values()), dict[int, memoryview]()
        for number, (start, stop) in enumerate(ranges):
            begin, end = reads[of[number]]
            if of[number] not in held:
                held[of[number]] = memoryview(self.read(begin, end - begin))
            yield held[of[number]][start - begin : stop - begin]
            left[of[number]] -= 1
            if not left[of[number]]:
                del held[of[number]]

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` (bytes) from `offset`."""
        fd = self._fd
        if fd is not None:
            self._fill(fd, offset, buffer)
            return
        with self.descriptor() as fd:
            self._fill(fd, offset, buffer)

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """A descriptor to read from, which stays the file's: not to be closed, nor kept."""
        if self._fd is not None:
            yield self._fd
            return
        fd = self._reopen()
        kept = self._keep(fd)
        try:
            yield fd
        finally:
            if not kept:
                os.close(fd)

    def _fill(self, fd: int, offset: int, buffer: memoryview) -> None:
        view, done = buffer.cast("B"), 0
        while done < len(view):
            try:
                got = os.preadv(fd, [view[done : done + (1 << 30)]], offset + done)
            except OSError as error:
                raise reading_error(self.path, error) from error
            if not got:
                raise self._ends(
                    offset + done, len(view) - done, "the file ends too early: it shrank since it was opened"
                )
            done += got

    def _bound(self, offset: int, length: int) -> None:
        """Before anything is allocated: a length from a damaged header may be of any size."""
        end = max(offset, self.size)
        if offset + length > end:
            raise self._ends(end, offset + length - end)

    def _ends(self, offset: int, missing: int, what: str = "the file ends too early") -> TruncatedError:
        return TruncatedError(self.path, what, offset=offset, expected=f"{missing:,} more bytes")

    def array(self, offset: int, count: int, dtype: np.dtype[np.generic] | str) -> NDArray[Any]:
        """`count` items of `dtype` from byte `offset`; a fresh array."""
        self._bound(offset, count * np.dtype(dtype).itemsize)
        out = np.empty(count, dtype)
        if not (size := out.nbytes):
            return out
        if (fd := self._fd) is not None and size <= _SMALL:
            try:
                if os.preadv(fd, [out.data], offset) == size:  # half the time of a short read by way of `read_into`
                    return out
            except OSError as error:
                raise reading_error(self.path, error) from error
        self.read_into(offset, out.view(np.uint8).data)
        return out

    def ids(self, offset: int, count: int, dtype: np.dtype[Any]) -> NDArray[np.unsignedinteger]:
        """`count` token ids from byte `offset`, in either byte order; signed ones viewed as unsigned of the same width.

        Raises:
            CorruptError: One is negative.
        """
        return self.unsigned(self.array(offset, count, dtype), offset)

    def unsigned(self, raw: NDArray[Any], offset: int) -> NDArray[np.unsignedinteger]:
        """Token ids as `ids` gives them, of an array of this file that was read from byte `offset`.

        Raises:
            CorruptError: One is negative.
        """
        if raw.dtype.names:  # of 3 bytes
            wide: NDArray[np.uint32] = raw["low"].astype(np.uint32) | raw["high"].astype(np.uint32) << np.uint32(16)
            return wide
        if raw.dtype.kind == "u":
            return raw
        ids = raw.astype(raw.dtype.newbyteorder("="), copy=False)
        if len(ids) and int(ids.min()) < 0:
            at = int(np.argmax(ids < 0))
            place = self.lies_at(offset + at * ids.itemsize)
            raise CorruptError(self.path, "has a negative id", offset=place, expected="0 or more", found=int(ids[at]))
        return ids.view(f"u{ids.itemsize}")

    def sequence_reader(
        self,
        begin: int,
        dtype: np.dtype[Any],
        starts: memoryview[int],
        closing: int | None,
        otherwise: Callable[[int], NDArray[np.unsignedinteger]],
        passed: Passed | None,
    ) -> Callable[[int], NDArray[np.unsignedinteger]]:
        """What reads a sequence in the fewest steps, all in one function; see `axis.sequence_reader`.

        Args:
            begin, dtype: As for `ids`.
            starts: Which ids behind `begin` sequence i is made of: from starts[i] to starts[i + 1].
            closing: What stands at the end of each and is left out; None: nothing is left out.
            otherwise: Reads what this cannot: of a file that is not open, what is long, or what is wrong.
            passed: See `axis.Passed`; None: starts count what is left out, too.
        """
        width, signed, pread, array = dtype.itemsize, dtype.kind == "i", os.pread, np.ndarray
        if not self.plain or dtype.names or not dtype.isnative or (closing or 0) >> 8 * width - signed:
            return otherwise
        ending = b"" if closing is None else closing.to_bytes(width, sys.byteorder)
        behind, within = len(ending), closing is not None and passed is None
        native, most, sign, empty = np.dtype(f"u{width}"), _SMALL // width, 8 * width - 1, bytearray()
        counted = passed if callable(passed) else None
        uncounted = isinstance(passed, int)
        if isinstance(passed, int):
            begin += passed * width

        def read(number: int) -> NDArray[np.unsignedinteger]:
            try:
                start = starts[number]
                count = starts[number + 1] - start - within
                if uncounted:
                    start += number
                elif counted:
                    start += counted(number)
                if count <= most:
                    size = count * width
                    raw = pread(self._fd, size + behind, begin + start * width)  # type: ignore[arg-type]
                    if raw[size:] == ending:
                        found = array(count, native, empty + raw)  # of a bytearray, as it may be written to
                        if not (signed and count and found.item(found.argmax()) >> sign):
                            return found
            except (OSError, TypeError, IndexError):  # no descriptor, a short read, no such start: worded otherwise
                pass
            return otherwise(number)

        return read

    def check_unchanged(self) -> None:
        """Raise SourceChangedError if the path is no longer the file that was opened."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise SourceChangedError(self.path, "disappeared while it was being read") from error
        if status_of(now).identity != self.identity:
            raise SourceChangedError(self.path, "changed while it was being read", remedy="Run again when it is still")

    def close(self) -> None:
        """Close the descriptor; the next read opens it again. Not while another thread reads."""
        with _Open.lock:
            fd, self._fd = self._fd, None
            _Open.count -= fd is not None
        if fd is not None:
            os.close(fd)

    def _keep(self, fd: int) -> bool:
        """Hold on to a descriptor, unless there are enough open or another thread was faster."""
        with _Open.lock:
            if self._fd is not None or _Open.count >= _MOST_OPEN:
                return False
            self._fd = fd
            _Open.count += 1
            return True

    def _reopen(self) -> int:
        fd = _open_regular(self.path)
        if _identity(fd) != self.identity:
            os.close(fd)
            raise SourceChangedError(self.path, "changed while it was being read", remedy="Run again when it is still")
        return fd

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "identity": self.identity}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._fd = None

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None and _Open is not None:  # None while the interpreter ends
            self.close()


class StoredFile(File):
    """A file that a registered store holds. Picklable: another process opens its own store.

    Attributes:
        path, url: Its address.
    """

    plain = False  # nothing but `read_into` reaches it: it has no descriptor
    url: Url

    def __init__(self, path: Url) -> None:
        try:
            status = store_of(path).status(path.key)
        except OSError as error:
            raise reading_error(path, error) from error
        if status.kind is not Kind.FILE:
            raise FormatError(path, "is not a regular file", found=status.kind.value)
        self.__setstate__({"path": path, "url": path, "identity": status.identity})

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "url": self.url}

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """See `File.read_into`."""
        view = buffer.cast("B")
        try:
            found, identity = store_of(self.url).read_range(self.url.key, offset, offset + len(view))
        except OSError as error:
            raise reading_error(self.path, error) from error
        self._compare(identity)
        if len(found) != len(view):
            raise self._ends(offset + len(found), len(view) - len(found))
        view[:] = found

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """There is none.

        Raises:
            io.UnsupportedOperation: Always.
        """
        yield from ()
        raise io.UnsupportedOperation("an address has no descriptor")

    def check_unchanged(self) -> None:
        """See `File.check_unchanged`."""
        try:
            status = store_of(self.url).status(self.url.key)
        except OSError as error:
            raise SourceChangedError(self.path, "disappeared while it was being read") from error
        self._compare(status.identity)

    def _compare(self, now: Identity) -> None:
        if now != self.identity:
            raise SourceChangedError(self.path, "changed while it was being read", remedy="Run again when it is still")


def open_file(place: Path_) -> File:
    """Open a regular file at a place to read it by position.

    Raises:
        FormatError: It is not there, cannot be read, or is not a regular file.
        OptionError: It is an address of a scheme that is not registered.
    """
    return StoredFile(place) if isinstance(place, Url) else File(place)


def read_whole(place: Path_, most: int) -> bytes:
    """Read a small file.

    Args:
        most: Bytes that it may have.

    Raises:
        FormatError: It is not there, cannot be read, or is not a regular file.
        UnsafeError: It is larger.
    """
    file = open_file(place)
    try:
        if file.size > most:
            raise UnsafeError(place, "is too large to be read whole", expected=f"at most {most:,}", found=file.size)
        return file.read(0, file.size)
    finally:
        file.close()


class Stream(io.RawIOBase):
    """A file as a stream that may be sought in, for libraries that take one: read by position all the same."""

    def __init__(self, file: File) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        if at < 0:
            raise ValueError("negative position")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._file.size - self._at)
        found = self._file.read(self._at, left if size < 0 else min(size, left))
        self._at += len(found)
        return found

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


def _open_regular(path: Path) -> int:
    try:
        fd = open_to_read(path)
    except OSError as error:
        refuse_address(path, "read")
        raise reading_error(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        kind = kind_of(path)
        raise FormatError(path, "is not a regular file", found=kind, remedy=_SAVE if kind == "FIFO" else None)
    return fd


def _identity(fd: int) -> Identity:
    return status_of(os.fstat(fd)).identity


def kind_of(path: str | os.PathLike[str]) -> str:
    """What a path is, in one word: "file", "directory", "FIFO", "socket", "device"."""
    return status_of(os.stat(path)).kind.value


def reading_error(path: Path_, error: OSError) -> FormatError:
    """An operating system's error while reading, as a sentence."""
    reasons = {
        errno.ENOENT: "no such file",
        errno.EACCES: "permission denied",
        errno.ELOOP: "a loop of symbolic links",
        errno.EISDIR: "is a directory",
        errno.ENXIO: "is not a regular file: found a FIFO or socket",
        errno.EIO: "the disk reports a read error",
    }
    if isinstance(path, Url):
        return FormatError(path, reasons.get(error.errno or 0, (error.strerror or "cannot be read").lower()))
    if error.errno == errno.ENOTDIR and os.path.isfile(folder := os.path.dirname(path)):
        return FormatError(folder, "is a file", expected=f"a directory that holds {os.path.basename(path)}")
    what = reasons.get(error.errno or 0, (error.strerror or "cannot be read").lower())
    piped = error.errno == errno.ENXIO or (error.errno == errno.ENOENT and os.fspath(path) == "-")
    return FormatError(path, what, remedy=_SAVE if piped else None)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """What fails in writing is the sentence of `write_error`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: str | os.PathLike[str], error: OSError) -> OutageError:
    """An operating system's error while writing, as a sentence; with its notes."""
    reason = write_reason(error)
    if error.errno == errno.ENOENT and Path(path).parent.is_dir():  # as in /proc
        reason = "its directory takes no new files"
    outage = OutageError(f"{printable(path)}: cannot be written: {reason}")
    for note in getattr(error, "__notes__", ()):
        outage.add_note(note)
    return outage


def write_reason(error: OSError) -> str:
    """Why a file cannot be written, in a few words."""
    reasons = {
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "the disk quota is used up",
        errno.EFBIG: "the file would be larger than allowed here",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "permission denied",
        errno.ENOENT: "the directory it should go to does not exist",
        errno.ENOTDIR: "the directory it should go to is not a directory",
        errno.EIO: "the disk reports a write error",
        errno.EBUSY: "it is a mount point, or in use otherwise",
    }
    return reasons.get(error.errno or 0, (error.strerror or str(error)).lower())


def names_in(directory: Path_) -> list[str]:
    """Names of what a directory holds, in no order.

    Raises:
        FormatError: It cannot be listed.
    """
    try:
        return listing.names(directory)
    except OSError as error:
        raise reading_error(directory, error) from error


def matching(directory: AnyPlace, pattern: str) -> list[AnyPlace]:
    """What a directory holds by names that match a shell pattern, by name; nothing of what is not a directory.

    Raises:
        FormatError: It cannot be listed.
    """
    if not listing.is_dir(directory):
        return []
    return [directory / name for name in sorted(names_in(directory)) if fnmatch.fnmatchcase(name, pattern)]


def walk(directory: str | os.PathLike[str]) -> Iterator[tuple[Path, list[str]]]:
    """Every directory below a directory, and itself last, with the names of what is no directory. Follows no link.

    Raises:
        OSError: One cannot be listed. os.walk by itself would leave it out silently.
    """
    left = list[tuple[Path, list[str] | None]]([(Path(directory), None)])
    while left:
        base, names = left.pop()
        if names is not None:
            yield base, names
            continue
        held = listing.entries(base)
        names = [name for name, kind in held.items() if not _is_directory(base, name, kind)]
        left.append((base, names))
        inner = [name for name, kind in held.items() if kind is Kind.DIRECTORY]
        left += [(base / name, None) for name in reversed(inner)]


def _is_directory(base: Path, name: str, kind: Kind) -> bool:
    if kind is Kind.LINK:
        with suppress(OSError):
            return listing.is_dir(base / name)
        return False
    return kind is Kind.DIRECTORY


def natural_key(name: str) -> tuple[object, ...]:
    """Sort key by which `part-2` comes before `part-10`: text and numbers in turn, so that like meets like."""
    parts = _DIGITS.split(name)
    return tuple((int(part), part) if i % 2 else part for i, part in enumerate(parts))
