"""Read files by byte offset: regular files only, without memory maps, and with a check that they do not change.

A FIFO would hang and /dev/zero never ends, so only regular files are opened, with O_NONBLOCK, because the open itself
could hang. Reads are `pread`: if a memory-mapped file shrinks, the process dies of SIGBUS without a message. If the
size, the modification time or the inode of a file changes while tokfmt reads it, the read raises.
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
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import (
    ENDS_EARLY,
    CorruptError,
    FormatError,
    OutageError,
    SourceChangedError,
    StandInError,
    TruncatedError,
    UnreachableError,
    UnsafeError,
)
from tokfmt.files.place import (
    LocalPlace,
    Place,
    PlaceLike,
    Url,
    local_path,
    place_of,
    refuse_address,
    status_of,
    store_of,
)
from tokfmt.files.store import Identity, Kind
from tokfmt.wording import printable

T = TypeVar("T")

_DIGITS = re.compile("([0-9]+)")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_SAVE = "Only tokfmt convert reads pipes. Save it to a file first"
_SMALL = 1 << 20  # Bytes that one call reads completely, except after signals and at the end of a file.
_GAP = 1 << 15  # Bytes between two ranges that take less time to read than another call or request.
_TOGETHER = 1 << 23  # Bytes of ranges that one call reads.
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LARGEST_PLACEHOLDER = 1023  # Git LFS: a placeholder is smaller than 1,024 bytes.
PAGE = "a page of HTML or XML, such as the error page of a server"
PAGE_HEAD = re.compile(rb"(\xef\xbb\xbf)?\s{0,48}<(!doctype\s|html|head|body|\?xml\s|error>)", re.IGNORECASE)
_STAND_INS = frozenset([b"v", b"<", b"\xef", b" ", b"\t", b"\n", b"\r"])  # First bytes of placeholders and pages.
_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_MOST_OPEN = 256 if _ALLOWED == resource.RLIM_INFINITY else min(256, _ALLOWED // 2)  # Some systems allow 256 in all.
"""Descriptors kept open at once. The files of a larger dataset are opened again for each read."""
_AT_HAND = 8  # descriptors that a thread keeps beyond that while it opens a dataset


class Ends(NamedTuple):
    """Where each of many sequences ends, each of which begins where the one before ends.

    Sequence i ends before the position bases[i >> bits] + places[i] + shift.
    """

    bases: memoryview[int]  # int64[blocks]
    places: memoryview[int]  # integers, one per sequence
    bits: int  # base 2 logarithm of the number of sequences per base
    shift: int = 0  # added to all


class _Open(threading.local):
    """The number of files that hold a descriptor.

    `beyond` are those that this thread holds beyond the limit, inside `files_at_hand`; None outside.
    """

    count: ClassVar[int] = 0
    lock = threading.RLock()  # Reentrant, because a garbage collection inside may close another file.
    beyond: list[File] | None = None


_open = _Open()


@contextmanager
def files_at_hand() -> Iterator[None]:
    """Keep a few files that this thread opens in here open until the end, even if enough are open.

    No other thread may read them at the end. Without it, each read of such a file would open it again.
    """
    if _open.beyond is not None:
        yield
        return
    files: list[File] = []
    _open.beyond = files
    try:
        yield
    finally:
        _open.beyond = None
        for file in files:
            if _Open.count > _MOST_OPEN:
                file.close()


class File:
    """A regular file that is read by byte offset. Picklable, opened on demand, and thread-safe."""

    is_plain = True  # False if reads are decompressed, or come from a store
    is_decoded_whole = False  # True if the first read decodes all of the file
    may_be_page = False  # a page of HTML or XML is not refused, because the file may be a document
    _is_looked_at = False  # The beginning was compared with those of files in the place of data.
    path: Place

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = place = path if isinstance(path, LocalPlace) else LocalPlace(path)
        self._fd: int | None = None
        fd = _open_regular(place)
        self.identity = status_of(os.fstat(fd)).identity  # identity when it was first seen
        if not self._keep(fd):
            os.close(fd)

    @property
    def size(self) -> int:
        """Size in bytes when the file was first seen."""
        return self.identity.size

    def to_stored_offset(self, offset: int) -> int | None:
        """Return the offset in the file of the byte that `read` returns for `offset`; None if compressed."""
        return offset if self.is_plain else None

    def for_look(self) -> File:
        """Return this file for a look at a few bytes: its reads compare no hash of the whole file."""
        return self

    def from_stored_offset(self, offset: int) -> int | None:
        """Return the offset at which `read` returns a byte of the file; None if it never does."""
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`."""
        self._bound(offset, length)
        if self._fd is not None:
            try:
                content = os.pread(self._fd, length, offset)  # 5 times as fast as a read into a bytearray.
            except OSError as error:
                raise reading_error(self.path, error) from error
            if len(content) == length:
                if not offset and content[:1] in _STAND_INS:
                    self._look_at(content)
                return content
        buffer = bytearray(length)
        self.read_into(offset, memoryview(buffer))
        return bytes(buffer)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Iterator[memoryview]:
        """Read several ranges of bytes. Ranges that are close together take one read. A range is its first byte, and
        the byte after its last; ranges are in any order. Their bytes are in the given order. If the ranges ascend, one
        read is held at a time.
        """
        order = sorted(ranges)
        if order != list(ranges):
            numbers = {one: number for number, one in enumerate(order)}
            contents = list(self.read_ranges(order))
            yield from (contents[numbers[start, stop]] for start, stop in ranges)
            return
        first, count = 0, len(order)
        while first < count:
            begin, end = order[first]
            after = first + 1
            while after < count:
                start, stop = order[after]
                if start > end + _GAP or (stop > end and stop - begin > _TOGETHER):
                    break
                end, after = max(end, stop), after + 1
            content = memoryview(self.read(begin, end - begin))
            for start, stop in order[first:after]:
                yield content[start - begin : stop - begin]
            first = after

    def prefetch(self, ranges: Sequence[tuple[int, int]], *, keep: bool = False) -> None:
        """Announce ranges that will be read, so that a store sends them side by side. Local files need no notice. None
        of them is beyond the end. With `keep`, they are an index or a footer, which may be read again.
        """

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with bytes from `offset`."""
        fd = self._fd
        if fd is not None:
            self._fill(fd, offset, buffer)
        else:
            with self.descriptor() as fd:
                self._fill(fd, offset, buffer)
        if not offset and buffer.nbytes and bytes(buffer.cast("B")[:1]) in _STAND_INS:
            self._look_at(buffer.cast("B"))

    def _look_at(self, beginning: bytes | memoryview) -> None:
        """Refuse a placeholder of Git LFS, and a page of HTML or XML, when the first bytes of a file were read."""
        if self._is_looked_at:
            return
        length = min(self.size, _LARGEST_PLACEHOLDER)
        head = bytes(beginning[:length]) if len(beginning) >= length else self.read(0, length)
        if head.startswith(_LFS) and (size := re.search(rb"^size (\d+)$", head, re.MULTILINE)):
            problem = f"is a placeholder of Git LFS ({int(size[1]):,} bytes are not here)"
            raise StandInError(self.path, problem, remedy="Run git lfs pull in its clone")
        if PAGE_HEAD.match(head) and not self.may_be_page:
            raise page_error(self.path)
        self._is_looked_at = True

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """Return a file descriptor that belongs to the file: do not close or keep it."""
        if self._fd is not None:
            yield self._fd
            return
        fd = self._reopen()
        is_kept = self._keep(fd)
        try:
            yield fd
        finally:
            if not is_kept:
                os.close(fd)

    def duplicate(self) -> File:
        """Return the same file with a descriptor of its own, without opening it again."""
        file = object.__new__(type(self))
        vars(file).update(vars(self), _fd=None)
        with _Open.lock:
            if self._fd is not None and _Open.count < _MOST_OPEN:
                file._fd = os.dup(self._fd)
                _Open.count += 1
        return file

    def expect(self, *, may_be_page: bool) -> None:
        """State anew whether the file may be a page; its beginning is looked at again when it is read."""
        self.may_be_page, self._is_looked_at = may_be_page, False

    def _fill(self, fd: int, offset: int, buffer: memoryview) -> None:
        view, done = buffer.cast("B"), 0
        while done < len(view):
            try:
                got = os.preadv(fd, [view[done : done + (1 << 30)]], offset + done)
            except OSError as error:
                raise reading_error(self.path, error) from error
            if not got:
                raise self._ends(
                    offset + done, len(view) - done, f"the file {ENDS_EARLY}: it shrank since it was opened"
                )
            done += got

    def _bound(self, offset: int, length: int) -> None:
        """Check the length before memory is allocated: the header of a damaged file may state any length."""
        end = max(offset, self.size)
        if offset + length > end:
            raise self._ends(end, offset + length - end)

    def _ends(self, offset: int, missing: int, what: str = f"the file {ENDS_EARLY}") -> TruncatedError:
        return TruncatedError(self.path, what, offset=offset, expected=f"{missing:,} more bytes")

    def array(self, offset: int, count: int, dtype: np.dtype[np.generic] | str) -> NDArray[Any]:
        """Return a new array of `count` items of `dtype` from byte `offset`."""
        self._bound(offset, count * np.dtype(dtype).itemsize)
        out = np.empty(count, dtype)
        if not (size := out.nbytes):
            return out
        if (fd := self._fd) is not None and size <= _SMALL and offset:  # `read_into` looks at the beginning.
            try:
                if os.preadv(fd, [out.data], offset) == size:  # Takes half the time of `read_into` for a short read.
                    return out
            except OSError as error:
                raise reading_error(self.path, error) from error
        self.read_into(offset, out.view(np.uint8).data)
        return out

    def ids(self, offset: int, count: int, dtype: np.dtype[Any]) -> NDArray[np.unsignedinteger]:
        """Return token IDs, of any byte order in the file, as an unsigned array in native byte order."""
        return self.unsigned(self.array(offset, count, dtype), offset)

    def unsigned(self, raw: NDArray[Any], offset: int) -> NDArray[np.unsignedinteger]:
        """Convert an array that was read from byte `offset` of this file to token IDs; see `ids`."""
        if raw.dtype.names:  # IDs of 3 bytes.
            wide: NDArray[np.uint32] = raw["low"].astype(np.uint32) | raw["high"].astype(np.uint32) << np.uint32(16)
            return wide
        if raw.dtype.kind == "u":
            return raw
        ids = raw.astype(raw.dtype.newbyteorder("="), copy=False)
        if len(ids) and int(ids.min()) < 0:
            at = int(np.argmax(ids < 0))
            place = self.to_stored_offset(offset + at * ids.itemsize)
            raise CorruptError(self.path, "has a negative ID", offset=place, expected="0 or more", found=int(ids[at]))
        return ids.view(f"u{ids.itemsize}")

    def sequence_reader(
        self,
        begin: int,
        dtype: np.dtype[Any],
        ends: Ends,
        separator: int | None,
        general: Callable[[int], NDArray[np.unsignedinteger]],
        *,
        is_before: bool = False,
    ) -> Callable[[int], NDArray[np.unsignedinteger]]:
        """Return a function that reads the tokens of a sequence without its separator, in as few steps as possible.

        It holds the descriptor of this process, and is not picklable. `ends` is where sequences end, their separators
        included, counted from the byte `begin`. `general` reads the other sequences: the first one, one without the
        separator, and if the file is not open, or the sequence is long or damaged. With `is_before`, the separator is
        before each sequence.
        """
        width, signed, pread, array = dtype.itemsize, dtype.kind == "i", os.pread, np.ndarray
        if not self.is_plain or dtype.names or not dtype.isnative or (separator or 0) >> 8 * width - signed:
            return general
        mark = b"" if separator is None else separator.to_bytes(width, sys.byteorder)
        edge = slice(0, len(mark)) if is_before or not mark else slice(-width, None)
        native, sign, empty, taken = np.dtype(f"u{width}"), 8 * width - 1, bytearray(), int(bool(mark))
        bases, places, bits, skipped = ends.bases, ends.places, ends.bits, len(mark) * is_before
        begin += ends.shift * width

        def read(number: int) -> NDArray[np.unsignedinteger]:
            try:
                start = bases[number - 1 >> bits] + places[number - 1] if number else -1
                size = (bases[number >> bits] + places[number] - start) * width
                if size <= _SMALL and start >= 0:
                    raw = pread(self._fd, size, begin + start * width)  # type: ignore[arg-type]
                    if raw[edge] == mark and len(raw) == size:
                        # A bytearray, because callers may write to it.
                        values = array(size // width - taken, native, empty + raw, skipped)
                        if not (signed and values.size and values.item(values.argmax()) >> sign):
                            return values
            except (OSError, TypeError, IndexError):  # `general` reports no descriptor, a short read, a bad number.
                pass
            return general(number)

        return read

    def check_unchanged(self) -> None:
        """Raise SourceChangedError if the path is no longer the file that was opened."""
        try:
            now = self.path.status_now().identity
        except OSError as error:
            raise SourceChangedError(self.path, "disappeared while it was being read") from error
        self._compare(now)

    def close(self) -> None:
        """Close the descriptor; the next read opens it again. No other thread may read meanwhile."""
        with _Open.lock:
            fd, self._fd = self._fd, None
            _Open.count -= fd is not None
        if fd is not None:
            os.close(fd)

    def _keep(self, fd: int) -> bool:
        """Keep a descriptor, unless enough are open or another thread was faster."""
        with _Open.lock:
            if self._fd is not None:
                return False
            if _Open.count >= _MOST_OPEN:
                if _open.beyond is None or len(_open.beyond) == _AT_HAND:
                    return False
                _open.beyond.append(self)
            self._fd = fd
            _Open.count += 1
            return True

    def _reopen(self) -> int:
        fd = _open_regular(local_path(self.path, "a descriptor"))
        try:
            self._compare(status_of(os.fstat(fd)).identity)
        except SourceChangedError:
            os.close(fd)
            raise
        return fd

    def _compare(self, now: Identity) -> None:
        if now != self.identity:
            raise SourceChangedError.while_read(self.path)

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "identity": self.identity, "may_be_page": self.may_be_page}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._fd = None

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None and _Open is not None:  # None at the exit of the interpreter.
            self.close()


class StoredFile(File):
    """A file in a registered store. Picklable: another process opens its own store."""

    path: Url

    def __init__(self, path: Url) -> None:
        try:
            status = path.status()
        except OSError as error:
            raise reading_error(path, error) from error
        if status.kind is not Kind.FILE:
            raise FormatError(path, "is not a regular file", found=status.kind.value)
        self.__setstate__({"path": path, "identity": status.identity})

    def sequence_reader(
        self,
        begin: int,  # noqa: ARG002
        dtype: np.dtype[Any],  # noqa: ARG002
        ends: Ends,  # noqa: ARG002
        separator: int | None,  # noqa: ARG002
        general: Callable[[int], NDArray[np.unsignedinteger]],
        *,
        is_before: bool = False,  # noqa: ARG002
    ) -> Callable[[int], NDArray[np.unsignedinteger]]:
        """There is no descriptor to read from, so the general function reads."""
        return general

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with bytes from `offset`. Of a long read, few pieces are in memory beside it."""
        view = buffer.cast("B")
        ends = range(0, len(view), _TOGETHER)
        ranges = [(offset + at, offset + min(at + _TOGETHER, len(view))) for at in ends]
        for (start, stop), content in zip(ranges, self.read_ranges(ranges), strict=True):
            view[start - offset : stop - offset] = content

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Iterator[memoryview]:
        """The store decides which ranges one request reads, and sends requests side by side."""
        for start, stop in ranges:
            self._bound(start, stop - start)
        with self._asking():
            for (start, stop), content in zip(
                ranges, store_of(self.path).read_ranges(self.path.key, ranges, self.identity), strict=True
            ):
                if len(content) != stop - start:
                    raise self._ends(start + len(content), stop - start - len(content))
                if not start and bytes(content[:1]) in _STAND_INS:
                    self._look_at(memoryview(content))
                yield memoryview(content)

    def prefetch(self, ranges: Sequence[tuple[int, int]], *, keep: bool = False) -> None:
        """A store without this method is asked when the ranges are read."""
        for start, stop in ranges:
            self._bound(start, stop - start)
        ask = getattr(store_of(self.path), "prefetch", None)
        if ask is not None:
            with self._asking():
                ask(self.path.key, ranges, self.identity, keep=keep)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise errors of the store with this address."""
        try:
            yield
        except SourceChangedError as error:
            raise SourceChangedError.while_read(self.path) from error
        except OSError as error:
            raise reading_error(self.path, error) from error

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """Raise an error, because a stored file has no descriptor."""
        yield from ()
        raise io.UnsupportedOperation("an address has no descriptor")


def open_file(place: PlaceLike, *, may_be_page: bool = False) -> File:
    """Open a regular file at a place to read it by byte offset.

    Every reader of a format opens its files here, so that no format takes a placeholder for data. A raw stream of token
    IDs, for example, has no header that shows the difference. A file is looked at when its first bytes are read.

    Args:
        place: The file.
        may_be_page: A page of HTML or XML is not refused, because the file may be a document.

    Raises:
        FormatError: If it does not exist, cannot be read, or is not a regular file.
        OptionError: If it is an address of a scheme that is not registered.
    """
    file = StoredFile(place) if isinstance(place, Url) else File(local_path(place, "a file"))
    file.may_be_page = may_be_page
    return file


def refuse_stand_in(place: Place, *, may_be_empty: bool) -> None:
    """Look at the beginning of a file in which a format misses something else."""
    if not may_be_empty and is_empty(place):
        raise TruncatedError(place, EMPTY, remedy="Copy it again")
    if place.is_file():
        with suppress(UnreachableError, SourceChangedError):
            file = open_file(place)
            try:
                file.read(0, min(file.size, _LARGEST_PLACEHOLDER))
            finally:
                file.close()


def page_error(path: PlaceLike) -> StandInError:
    """Return the error of a page of HTML or XML in the place of data."""
    remedy = "Download it again; if it is a document, --from text reads it"
    return StandInError(path, f"is {PAGE}", remedy=remedy)


EMPTY = "is an empty file: a failed copy, perhaps"


def is_empty(place: Place) -> bool:
    """Return whether a place is a file of no bytes."""
    with suppress(OSError):
        return place.is_file() and place.status().size == 0
    return False


def known_file(place: Place, identity: Identity) -> File:
    """Return a file whose identity is known, without opening it. The first read compares the identity."""
    kind = StoredFile if isinstance(place, Url) else File
    file = kind.__new__(kind)
    file.__setstate__({"path": place, "identity": identity})
    return file


def read_whole(place: PlaceLike, limit_bytes: int) -> bytes:
    """Return the bytes of a small file. A larger one is an error."""
    file = open_file(place)
    try:
        if file.size > limit_bytes:
            raise UnsafeError(
                place, "is too large to be read whole", expected=f"at most {limit_bytes:,}", found=file.size
            )
        return file.read(0, file.size)
    finally:
        file.close()


class Held:
    """A file in a store, of which some ascending ranges, requested side by side, are held in memory."""

    def __init__(
        self, file: File, ranges: Sequence[tuple[int, int]], contents: Sequence[bytes | memoryview] | None = None
    ) -> None:
        self._file, self.size = file, file.size
        self._starts = [start for start, _ in ranges]
        self._contents = list(file.read_ranges(ranges)) if contents is None else contents

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`. What is not held is read from the file."""
        number = bisect_right(self._starts, offset) - 1
        if number >= 0:
            start, content = self._starts[number], self._contents[number]
            if offset + length <= start + len(content):
                return bytes(content[offset - start : offset - start + length])
        return self._file.read(offset, length)


class Stream(io.RawIOBase):
    """A file as a seekable stream, for libraries that need one."""

    def __init__(self, file: File | Held) -> None:
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
        data = self._file.read(self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def _open_regular(path: Path) -> int:
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        refuse_address(path, "read")
        raise reading_error(path, error) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        kind = kind_of(path)
        raise FormatError(path, "is not a regular file", found=kind, remedy=_SAVE if kind == "FIFO" else None)
    return fd


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return the kind of a path in one word: "file", "directory", "FIFO", "socket", "device"."""
    return status_of(os.stat(path)).kind.value


MANIFEST = ".tokfmt.json"
"""The suffix of the manifest beside a dataset; see `tokfmt.source.manifest`."""
_NAME_A_FILE = "If it is a folder, name a file in it, because a web server lists no folders"


def reading_error(path: PlaceLike, error: OSError) -> FormatError:
    """Return the error for an OSError of a read. If only the manifest of a dataset is there, it says so."""
    reasons = {
        errno.ENOENT: "no such file",
        errno.EACCES: "permission denied",
        errno.ELOOP: "a loop of symbolic links",
        errno.EISDIR: "is a directory",
        errno.ENXIO: "is not a regular file (found a FIFO or socket)",
        errno.EIO: "the disk reports a read error",
    }
    if error.errno == errno.ENOENT and (manifest := _manifest_of(path)):
        return FormatError(
            path, f"no such file; only its manifest, {manifest}, is there", remedy="Copy the dataset again"
        )
    reason = reasons.get(error.errno or 0, (error.strerror or "cannot be read").lower())
    if isinstance(path, Url):
        remedy = _NAME_A_FILE if path.scheme in ("http", "https") and error.errno == errno.ENOENT else None
        return FormatError(path, reason, remedy=remedy)
    text = path.text if isinstance(path, Place) else os.fspath(path)
    if error.errno == errno.ENOTDIR and os.path.isfile(folder := os.path.dirname(text)):
        return FormatError(folder, "is a file", expected=f"a directory that holds {os.path.basename(text)}")
    piped = error.errno == errno.ENXIO or (error.errno == errno.ENOENT and text == "-")
    begin = _beginning(text) if error.errno == errno.ENOENT else None
    return FormatError(path, reason, remedy=_SAVE if piped else begin and f"Did you mean {printable(begin)}?")


def _beginning(path: str) -> str | None:
    """Return the first path that begins with the name of a path; None without one."""
    folder, name = os.path.split(path)
    with suppress(OSError):
        longer = [entry for entry in os.listdir(folder or ".") if name and name != entry and entry.startswith(name)]
        return os.path.join(folder, min(longer, key=natural_key)) if longer else None
    return None


def _manifest_of(path: PlaceLike) -> str:
    """Return the name of the manifest beside a path; "" without one."""
    place = path if isinstance(path, Place) else LocalPlace(path)
    name = f"{place.name}{MANIFEST}"
    with suppress(OSError, FormatError):
        return printable(name) if place.name and (place.parent / name).is_file() else ""
    return ""


@contextmanager
def writing(path: PlaceLike) -> Iterator[None]:
    """Raise an OSError inside the context as `write_error`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: PlaceLike, error: OSError) -> OutageError:
    """Return the error for an OSError of a write, with the notes of the OSError."""
    reason = write_reason(error)
    place = path if isinstance(path, Place) else LocalPlace(path)
    if error.errno == errno.ENOENT and place.is_local and place.parent.is_dir():  # Such as a directory in /proc.
        reason = "its directory does not allow new files"
    outage = OutageError(f"{printable(path)}: cannot be written: {reason}")
    for note in getattr(error, "__notes__", ()):
        outage.add_note(note)
    return outage


def write_reason(error: OSError) -> str:
    """Return the reason of an OSError of a write, in a few words."""
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


def names_in(directory: PlaceLike) -> list[str]:
    """Return the names in a directory, in no order.

    Raises:
        FormatError: If the directory cannot be listed.
    """
    try:
        return list(place_of(directory).entries())
    except OSError as error:
        raise reading_error(directory, error) from error


def matching(directory: PlaceLike, pattern: str) -> list[Place]:
    """Return the sorted entries of a directory, if it is there, whose names match a shell pattern."""
    place = place_of(directory)
    if not place.is_dir():
        return []
    return [place / name for name in sorted(names_in(place)) if fnmatch.fnmatchcase(name, pattern)]


def walk(directory: str | os.PathLike[str]) -> Iterator[tuple[LocalPlace, list[str]]]:
    """Yield every directory below a directory, and itself last, with the names of its entries that are not directories.

    Links are not followed. A directory that cannot be listed raises, which os.walk would skip silently.
    """
    top = directory if isinstance(directory, LocalPlace) else LocalPlace(directory)
    left = list[tuple[LocalPlace, list[str] | None]]([(top, None)])
    while left:
        base, names = left.pop()
        if names is not None:
            yield base, names
            continue
        entries = base.entries()
        names = [name for name, kind in entries.items() if not _is_directory(base, name, kind)]
        left.append((base, names))
        inner = [name for name, kind in entries.items() if kind is Kind.DIRECTORY]
        left += [(base / name, None) for name in reversed(inner)]


def _is_directory(base: Place, name: str, kind: Kind) -> bool:
    if kind is Kind.LINK:
        with suppress(OSError):
            return (base / name).is_dir()
        return False
    return kind is Kind.DIRECTORY


def everything_in(directory: PlaceLike) -> list[Place]:
    """Return all files below a directory, links and empty directories included, in natural order."""
    place, names, left = place_of(directory), list[str](), [""]
    while left:
        inside = left.pop()
        try:
            entries = (place / inside).entries()
        except OSError as error:
            raise reading_error(error.filename or directory, error) from error
        for name, kind in entries.items():
            if kind is Kind.DIRECTORY:
                left.append(f"{inside}{name}/")
            else:
                names.append(f"{inside}{name}")
        if inside and not entries:
            names.append(inside.removesuffix("/"))
    return [place / name for name in sorted(names, key=natural_key)]


def natural_key(name: str) -> tuple[object, ...]:
    """Return a sort key of text and numbers in turn, by which `part-2` comes before `part-10`."""
    parts = _DIGITS.split(name)
    return tuple((int(part), part) if i % 2 else part for i, part in enumerate(parts))
