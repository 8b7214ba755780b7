"""One listing of each directory, and one status of each file, while sources are found and opened.

Opening a dataset asks the same things several times: which names a directory holds, which are files, how large these
are. Within `kept()`, each is asked of the file system once, and a name of a directory that was listed is answered from
the listing. The rule that keeps answers true:

    `kept()` surrounds one finding and opening of sources, and nothing that is opened, read or written later. What was
    kept ends with it: a command that opens again, a browser that stays open and a Loader ask anew. Only a conversion
    that opens later what it found passes the answers of finding on. Whether a file has changed since it was opened is
    never answered from here (`files.File.check_unchanged`).

Of a directory of more than 65,536 names nothing is kept, and of all statuses the first 4,096, so that memory does not
grow with what is opened; the others are asked one by one, as everything is outside of `kept()`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TypeVar, cast

Path_ = str | os.PathLike[str]
T = TypeVar("T")

_MOST, _STATUSES = 1 << 16, 1 << 12  # names of a directory; statuses, of 500 bytes each
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Kind(Enum):
    """What an entry of a directory is; links are not followed."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class Answers:
    """What was asked; of a directory that is too large to be kept, None."""

    def __init__(self) -> None:
        self.directories: dict[str, dict[str, Kind] | None] = {}
        self.statuses: dict[str, os.stat_result | tuple[int | None, str | None]] = {}
        self.found: dict[Hashable, object] = {}


_KEPT: ContextVar[Answers | None] = ContextVar("what was asked of the file system", default=None)


@contextmanager
def kept(answers: Answers | None = None) -> Iterator[Answers]:
    """Keep answers in here, and in what is called from here by this thread; within another one, until that ends.

    Args:
        answers: Those of an earlier one: its sources were found there, and are opened here. Statuses are asked anew,
            so that what changed in between is seen.
    """
    outer = _KEPT.get()
    if outer is not None:
        yield outer
        return
    answers = Answers() if answers is None else answers
    answers.statuses.clear()
    token = _KEPT.set(answers)
    try:
        yield answers
    finally:
        _KEPT.reset(token)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """What `make()` gives, which is called once for each key within `kept()`: what a small file says, for one."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return make()
    if key not in kept_now.found:
        kept_now.found[key] = make()
    return cast("T", kept_now.found[key])


def names(directory: Path_) -> list[str]:
    """Names of what a directory holds, in no order.

    Raises:
        OSError: It cannot be listed.
    """
    found = _listed(os.fspath(directory)) if _KEPT.get() is not None else None
    return os.listdir(directory) if found is None else list(found)


def entries(directory: Path_) -> dict[str, Kind]:
    """The same, and what each is.

    Raises:
        OSError: It cannot be listed.
    """
    found = _listed(os.fspath(directory)) if _KEPT.get() is not None else None
    if found is None:
        with os.scandir(directory) as held:
            found = {entry.name: _kind(entry) for entry in held}
    return found


def _listed(directory: str) -> dict[str, Kind] | None:
    """The listing of a directory, which is kept; None of one that is too large for that."""
    kept_now = _KEPT.get() or Answers()
    if directory not in kept_now.directories:
        found: dict[str, Kind] | None = {}
        with os.scandir(directory) as held:
            for entry in held:
                if found is None or len(found) == _MOST:
                    found = None
                    break
                found[entry.name] = _kind(entry)
        kept_now.directories[directory] = found
    return kept_now.directories[directory]


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIRECTORY
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER


def _known(path: Path_) -> tuple[bool, Kind | None]:
    """Whether a kept listing tells what is at a path, and what it is; None: nothing."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return False, None
    directory, name = os.path.split(os.fspath(path))
    listing = kept_now.directories.get(directory or os.curdir) if name not in ("", ".", "..") else None
    return listing is not None, listing.get(name) if listing is not None else None


def status(path: Path_) -> os.stat_result:
    """The status of what is at a path, links followed.

    Raises:
        OSError: There is nothing, or it cannot be reached.
    """
    kept_now, name = _KEPT.get(), os.fspath(path)
    if kept_now is None:
        return os.stat(path)
    found = kept_now.statuses.get(name)
    if found is None:
        try:
            found = os.stat(path)
        except OSError as error:  # whose traceback would keep what the callers hold, open files among it
            found = error.errno, error.strerror
        if len(kept_now.statuses) < _STATUSES:
            kept_now.statuses[name] = found
    if isinstance(found, os.stat_result):
        return found
    raise OSError(*found, name)


def is_file(path: Path_) -> bool:
    """Whether a path is a regular file, or a link to one; see `pathlib.Path.is_file`."""
    known, kind = _known(path)
    return kind is Kind.FILE if known and kind is not Kind.LINK else _is(path, stat.S_ISREG)


def is_dir(path: Path_) -> bool:
    """Whether a path is a directory, or a link to one; see `pathlib.Path.is_dir`."""
    known, kind = _known(path)
    return kind is Kind.DIRECTORY if known and kind is not Kind.LINK else _is(path, stat.S_ISDIR)


def exists(path: Path_) -> bool:
    """Whether there is something at a path, links followed; see `pathlib.Path.exists`."""
    known, kind = _known(path)
    return kind is not None if known and kind is not Kind.LINK else _is(path, lambda mode: True)


def is_link(path: Path_) -> bool:
    """Whether a path is a symbolic link."""
    known, kind = _known(path)
    return kind is Kind.LINK if known else os.path.islink(path)


def is_there(path: Path_) -> bool:
    """Whether there is something at a path, be it a link to nothing; see `os.path.lexists`."""
    known, kind = _known(path)
    return kind is not None if known else os.path.lexists(path)


def _is(path: Path_, test: Callable[[int], bool]) -> bool:
    try:
        return test(status(path).st_mode)
    except ValueError:  # a zero byte
        return False
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
