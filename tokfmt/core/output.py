"""Writing a part of a preallocated file by position, from any process."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.publish import write_error


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

    def __enter__(self) -> Output:
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise write_error(self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

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
        self.written += done


@contextmanager
def whole(path: Path, drafts: Path | None = None) -> Iterator[BinaryIO]:
    """A new file that gets its name when all of it is written, so that two tasks may write it at the same time.

    Args:
        path: Its name.
        drafts: Directory of what is not whole yet; a killed process leaves some there. Default: beside it.
    """
    draft = (drafts or path.parent) / f"{path.name}.{secrets.token_hex(4)}"
    try:
        with open(draft, "xb") as file:
            yield file
        os.replace(draft, path)
    except OSError as error:
        raise write_error(path, error) from error


def concatenate(parts: Sequence[Path], destination: Path, *, keep: bool = False) -> None:
    """Write the bytes of all parts, in order, to a file; each part is removed once it is copied, unless they are kept.

    The kernel copies (`copy_file_range`), so memory does not grow with the parts.
    """
    try:
        with open(destination, "wb") as out:
            for part in parts:
                with open(part, "rb") as source:
                    _append(source.fileno(), out.fileno(), os.fstat(source.fileno()).st_size)
                if not keep:
                    os.unlink(part)
    except OSError as error:
        raise write_error(destination, error) from error


def _append(source: int, out: int, size: int) -> None:
    left = size
    while left:
        try:
            copied = os.copy_file_range(source, out, min(left, 1 << 30))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
                raise
            copied = _write_all(out, os.read(source, 1 << 20))
        if not copied:
            raise OSError(errno.EIO, "a part is shorter than it was written")
        left -= copied


def _write_all(fd: int, data: bytes) -> int:
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:])
    return done
