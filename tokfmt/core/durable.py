"""What is written reaches the disk: fsync of files, trees and file systems; small files that are whole or absent."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from tokfmt.core.files import walk


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file, durably, replacing an older one: whole or not at all."""
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    with open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_directory(path.parent)


def begin_writeback(fd: int, offset: int = 0, length: int = 0) -> None:
    """Have the kernel begin to bring a part of a file to the disk, and do not wait: the fsync before it is published
    then has less to wait for (a fifth of the time of two jobs, measured).

    Args:
        fd: The file.
        offset, length: Bytes; a length of 0 means to the end.
    """
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # no more than advice
            # what Linux does on "not needed": it begins to write dirty pages, and forgets only clean ones
            os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)


def sync_file_system(path: Path) -> None:
    """Bring all that was written to the file system of `path` to the disk, from this machine."""
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync(fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)


def sync_tree(path: Path) -> None:
    """Fsync a file, or every file and directory below a directory, deepest first."""
    if not path.is_dir():
        _sync(path, os.O_RDONLY)
        return
    for directory, names in walk(path):
        for name in names:
            _sync(directory / name, os.O_RDONLY)
        sync_directory(directory)


def sync_directory(path: Path) -> None:
    """Fsync a directory, so that the names in it survive a crash."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
