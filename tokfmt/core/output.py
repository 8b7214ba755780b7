"""Write new files, and parts of a preallocated file, from any process."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Receipt, Region
from tokfmt.core.reader import TokenReader
from tokfmt.files.file import File, writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_PIECE = 1 << 18
"""Bytes per write. Larger ones take up to three times the CPU time on ext4 (Linux 6.18; 64 KiB to 1 GiB measured)."""


def preallocate(path: Path, size: int) -> None:
    """Create a sparse file of `size` bytes."""
    with writing(path), open(path, "xb") as file:
        file.truncate(size)


class Output:
    """A context manager that writes to an existing file at byte offsets."""

    def __init__(self, path: Path) -> None:
        # written: bytes written through this object
        self.path, self.written, self._fd = path, 0, -1
        self._first, self._end = sys.maxsize, 0

    def __enter__(self) -> Output:
        with writing(self.path):
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end:
            begin_writeback(self._fd, self._first, self._end - self._first)
        os.close(self._fd)

    def _touched(self, offset: int, length: int) -> None:
        self._first, self._end = min(self._first, offset), max(self._end, offset + length)
        self.written += length

    def write(self, offset: int, data: bytes | NDArray[np.generic]) -> None:
        """Write all of `data` at byte `offset`; a full disk and the like are an OutageError."""
        view = memoryview(data) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8).data
        done = 0
        with writing(self.path):
            while done < len(view):
                done += os.pwrite(self._fd, view[done : done + _PIECE], offset + done)
        self._touched(offset, done)

    def copy(self, offset: int, file: File, begin: int, length: int) -> None:
        """Copy `length` bytes of a file, from its byte `begin`, to byte `offset`. The kernel copies if it can."""
        done = 0
        if file.path.is_local:  # an object of a store has no descriptor
            with file.descriptor() as source:
                done = _by_kernel(source, self._fd, begin, offset, length)
            self._touched(offset, done)
        for a in range(done, length, _PIECE):  # If the kernel refuses, this copy works, or raises the reason.
            self.write(offset + a, file.read(begin + a, min(_PIECE, length - a)))


def copy_region(
    out: Output, at: int, reader: TokenReader, region: Region, dtype: np.dtype[Any], limit: int
) -> Receipt | None:
    """Copy the tokens of a region as raw bytes to byte `at`; or write nothing and return None.

    The tokens are copied if all of them are stored as `dtype`, and the largest ID of the reader is known and at most
    `limit`. The receipt has this largest ID, because the copy does not examine tokens.
    """
    top = reader.info.max_id
    if top is None or top > limit:
        return None
    pieces = reader.pieces(region.tokens.start, region.tokens.stop)
    if pieces is None or any(piece.dtype != dtype for piece in pieces):
        return None
    for piece in pieces:
        out.copy(at, piece.file, piece.offset, piece.length)
        at += piece.length
    return Receipt(region.index, top, out.written)


class _Draft(io.BufferedWriter):
    """A new file that is not complete yet. A write error names the final path, even if other files are open."""

    def __init__(self, draft: Path, path: Path) -> None:
        super().__init__(io.FileIO(draft, "x"))
        self._path = path

    def write(self, data: Buffer, /) -> int:
        with writing(self._path):
            return super().write(data)


@contextmanager
def whole(path: Path, drafts: Path | None = None, *, stays: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that gets its name when it is complete, so that two tasks may write it at the same time. `drafts`
    is the directory of incomplete files (default: that of `path`). A killed process leaves some there. With `stays`,
    the file is a part of the destination, not an intermediate file.
    """
    draft = (drafts or path.parent) / f"{path.name}.{os.urandom(4).hex()}"
    with writing(path):
        with _Draft(draft, path) as file:
            yield file
            if stays:
                file.flush()
                begin_writeback(file.fileno())
        os.replace(draft, path)


def concatenate(parts: Sequence[Path], destination: Path, *, keep: bool = False) -> None:
    """Concatenate files in the kernel. Unless `keep`, each part is removed when it is copied."""
    at = 0
    with writing(destination), open(destination, "wb", opener=_not_followed) as out:
        for part in parts:
            with open(part, "rb") as source:
                size = os.fstat(source.fileno()).st_size
                _append(source.fileno(), out.fileno(), at, size)
                at += size
            if not keep:
                os.unlink(part)


def begin_writeback(fd: int, offset: int = 0, length: int = 0) -> None:
    """Ask the kernel to start writing a part of a file to the disk, without waiting for it.

    The fsync before the publication then has less to wait for: it takes a fifth of the time of two jobs. A length of 0
    means up to the end.
    """
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # The call is only advice.
            # On DONTNEED, Linux starts to write dirty pages, and drops only clean ones.
            os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)


def _not_followed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _append(source: int, out: int, at: int, size: int) -> None:
    done = _by_kernel(source, out, 0, at, size)
    while done < size:
        data = os.pread(source, min(_PIECE, size - done), done)
        if not data:
            raise OSError(errno.EIO, "a part is shorter than it was written")
        done += os.pwrite(out, data, at + done)


def _by_kernel(source: int, out: int, begin: int, at: int, length: int) -> int:
    """Copy bytes from one file to another; return the number of bytes copied before the kernel refused.

    It refuses across file systems (EXDEV), without support of the file system (ENOSYS, EINVAL, EOPNOTSUPP), and if a
    read or a write fails. Only Linux has the call.
    """
    done, copy = 0, getattr(os, "copy_file_range", None)
    while copy is not None and done < length:
        try:
            copied = copy(source, out, min(length - done, 1 << 30), begin + done, at + done)
        except OSError:
            break
        if not copied:
            break
        done += copied
    return done
