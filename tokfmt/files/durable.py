"""Flush files to the disk, rename without replacing or by an exchange, and write small files in one step."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from pathlib import Path

from tokfmt.files.file import walk

_AT_FDCWD = -100  # of Linux
NOREPLACE, EXCHANGE = 1, 2  # the flags of renameat2
_OF_MACOS = {NOREPLACE: 4, EXCHANGE: 2}  # RENAME_EXCL and RENAME_SWAP of renamex_np
# Errors of file systems without hard links, such as FAT and some FUSE file systems.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EXDEV)

_IS_MACOS = hasattr(fcntl, "F_FULLFSYNC")


def rename(old: Path, new: Path, how: int) -> None:
    """Rename `old` to `new` on one file system, without replacement or by an exchange. `NOREPLACE`: `new` must not
    exist. `EXCHANGE`: what is at `new` gets the name `old`, or `replaced_path(old)` if the file system cannot exchange.
    """
    library, names = ctypes.CDLL(None, use_errno=True), (os.fsencode(old), os.fsencode(new))
    if (linux := getattr(library, "renameat2", None)) is not None:
        failed = linux(_AT_FDCWD, names[0], _AT_FDCWD, names[1], how)
    elif (macos := getattr(library, "renamex_np", None)) is not None:
        failed = macos(*names, _OF_MACOS[how])
    else:
        rename_portably(old, new, how)
        return
    if not failed:
        return
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):  # An old kernel, or a file system without the flags.
        rename_portably(old, new, how)
        return
    raise OSError(code, os.strerror(code), str(new))


def rename_portably(old: Path, new: Path, how: int) -> None:
    """Do the same as `rename` in several steps. An exchanged name is missing for a moment."""
    if how == EXCHANGE:
        try:
            os.rename(new, replaced_path(old))
            os.rename(old, new)
        except BaseException:  # A signal may come directly after either rename.
            if os.path.lexists(replaced_path(old)) and not os.path.lexists(new):
                os.rename(replaced_path(old), new)
            raise
    elif old.is_dir():
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(old, new)
    elif _linked(old, new):
        os.unlink(old)
    elif os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    else:
        os.rename(old, new)


def _linked(old: Path, new: Path) -> bool:
    """Link a file to a second name. Return False if the file system has no hard links."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def replaced_path(path: Path) -> Path:
    """Return the path of the replaced output on a file system that cannot exchange names."""
    return path.with_name(f"{path.name}.replaced")


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file and flush it to the disk. It is complete, or not written; an older file is replaced."""
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    write_new(draft, content)
    os.replace(draft, path)
    sync_directory(path.parent)


def write_new(path: Path, content: bytes) -> None:
    """Write a small file and flush it to the disk. A file or link of that name is removed before."""
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        (_flush_of_macos if _IS_MACOS else os.fsync)(file.fileno())


def sync_file_system(path: Path) -> None:
    """Flush everything that this machine wrote to the file system of `path` to the disk."""
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
    """Fsync a directory, so that its entries survive a crash."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        (_flush_of_macos if _IS_MACOS else os.fsync)(fd)
    finally:
        os.close(fd)


def _flush_of_macos(fd: int) -> None:
    """Flush a file or a directory to the disk. The fsync of macOS leaves data in the cache of the disk."""
    try:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore] # only macOS has it
    except OSError:  # A file system that does not support it.
        os.fsync(fd)


def empty(directory: Path, but: str = "") -> None:
    """Remove everything in a directory except an entry of one name. Links are removed, not followed."""
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if entry.name == but:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
