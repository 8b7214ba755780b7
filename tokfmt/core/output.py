"""Writing a part of a preallocated file by position, from any process."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader
from tokfmt.core.files import File, write_error
from tokfmt.core.format import Receipt, Region
from tokfmt.core.protocols import pieces_of
from tokfmt.core.publish import begin_writeback

_PIECE = 1 << 20


def preallocate(path: Path, size: int) -> None:
    """Create a file of `size` bytes (sparse until written)."""
    try:
        with open(path, "xb") as file:
            file.truncate(size)
    except OSError as error:
        raise write_error(path, error) from error


class Output:
    """An existing file, open for writing at positions; a context manager.

    Attributes:
        written: Bytes written through this object.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.written, self._fd = path, 0, -1
        self._first, self._end = sys.maxsize, 0

    def __enter__(self) -> Output:
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise write_error(self.path, error) from error
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
        """Write all of `data` at byte `offset`.

        Raises:
            ConversionError: The disk is full, the quota is used up, the file too large, ...
        """
        view = memoryview(data) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8).data
        done = 0
        try:
            while done < len(view):
                done += os.pwrite(self._fd, view[done : done + (1 << 30)], offset + done)
        except OSError as error:
            raise write_error(self.path, error) from error
        self._touched(offset, done)

    def copy(self, offset: int, file: File, begin: int, length: int) -> None:
        """Copy `length` bytes of a file, from its byte `begin`, to byte `offset`; by the kernel, where it can.

        Raises:
            TruncatedError, FormatError: The file ends before, or cannot be read.
            ConversionError: As for `write`.
        """
        with file.descriptor() as source:
            done = _by_kernel(source, self._fd, begin, offset, length)
        self._touched(offset, done)
        for a in range(done, length, _PIECE):  # what the kernel refuses; its reason comes up again here, worded
            self.write(offset + a, file.read(begin + a, min(_PIECE, length - a)))


def copy_region(
    out: Output, at: int, reader: TokenReader, region: Region, dtype: np.dtype[Any], limit: int
) -> Receipt | None:
    """Copy a region's tokens to byte `at`, or do nothing and return None.

    Nothing is done unless all of them lie in files as `dtype` and the largest id of the reader is known and at most
    `limit`. That id, found when the tokens were looked at, is the receipt's: the copy itself looks at none.
    """
    top = reader.info.max_id
    if top is None or top > limit:
        return None
    pieces = pieces_of(reader, region.tokens.start, region.tokens.stop)
    if pieces is None or any(piece.dtype != dtype for piece in pieces):
        return None
    for piece in pieces:
        out.copy(at, piece.file, piece.offset, piece.length)
        at += piece.length
    return Receipt(region.index, top, out.written)


@contextmanager
def whole(path: Path, drafts: Path | None = None, *, stays: bool = False) -> Iterator[BinaryIO]:
    """A new file that gets its name when all of it is written, so that two tasks may write it at the same time.

    Args:
        path: Its name.
        drafts: Directory of what is not whole yet; a killed process leaves some there. Default: beside it.
        stays: It is of the destination, not a part that goes when it has been read.
    """
    draft = (drafts or path.parent) / f"{path.name}.{os.urandom(4).hex()}"
    try:
        with open(draft, "xb") as file:
            yield file
            if stays:
                file.flush()
                begin_writeback(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise write_error(path, error) from error


def concatenate(parts: Sequence[Path], destination: Path, *, keep: bool = False) -> None:
    """Write the bytes of all parts, in order, to a file; each part is removed once it is copied, unless they are kept.

    The kernel copies, so memory does not grow with the parts.
    """
    at = 0
    try:
        with open(destination, "wb", opener=_not_followed) as out:
            for part in parts:
                with open(part, "rb") as source:
                    size = os.fstat(source.fileno()).st_size
                    _append(source.fileno(), out.fileno(), at, size)
                    at += size
                if not keep:
                    os.unlink(part)
    except OSError as error:
        raise write_error(destination, error) from error


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
    """Copy bytes from one file to another; how many were copied before the kernel refused, or all.

    It refuses across file systems (EXDEV), where it does not know how (ENOSYS, EINVAL, EOPNOTSUPP) - and for every
    reason that reading and writing fail for.
    """
    done = 0
    while done < length:
        try:
            copied = os.copy_file_range(source, out, min(length - done, 1 << 30), begin + done, at + done)
        except OSError:
            break
        if not copied:
            break
        done += copied
    return done
