"""Writing a part of a preallocated file by position, from any process."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

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
