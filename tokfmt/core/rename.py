"""Renames that replace nothing, or swap two names: `renameat2`, and what comes close without it."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
NOREPLACE, EXCHANGE = 1, 2


def rename(old: Path, new: Path, how: int) -> None:
    """Give `old` the name `new`.

    Args:
        old: A file or directory.
        new: Its new name, on the same file system.
        how: `NOREPLACE`: nothing must be there; `EXCHANGE`: what is there gets the name `old`, or waits `aside` of it.

    Raises:
        FileExistsError: Something is there (`NOREPLACE`).
        FileNotFoundError: Nothing is there (`EXCHANGE`).
        OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        rename_portably(old, new, how)
        return
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):  # an old kernel, or a file system without the flags
        rename_portably(old, new, how)
        return
    raise OSError(code, os.strerror(code), str(new))


def rename_portably(old: Path, new: Path, how: int) -> None:
    """The same in more than one step: a name that is to be replaced is missing for a moment."""
    if how == EXCHANGE:
        try:
            os.rename(new, aside(old))
            os.rename(old, new)
        except BaseException:  # a signal may come right after either
            if os.path.lexists(aside(old)) and not os.path.lexists(new):
                os.rename(aside(old), new)
            raise
    elif old.is_dir():
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(old, new)
    else:
        os.link(old, new)
        os.unlink(old)


def aside(path: Path) -> Path:
    """Where what was replaced waits, if the file system cannot swap."""
    return path.with_name(f"{path.name}.replaced")
