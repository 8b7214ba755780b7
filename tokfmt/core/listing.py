"""What is at a place and below it, asked of its store; within `kept()`, each thing is asked once.

Opening a dataset asks the same things several times: which names a directory holds, which are files, how large these
are. Within `kept()`, each is asked of the store once, and a name of a directory that was listed is answered from the
listing. The rule that keeps answers true:

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
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

from tokfmt.core.place import Kind, Status, Url, local_entries, status_of, store_of

Path_ = str | os.PathLike[str] | Url
"""A place, or a local path as text."""

T = TypeVar("T")

_MOST, _STATUSES = 1 << 16, 1 << 12  # names of a directory; statuses, of 500 bytes each
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Answers:
    """What was asked; of a directory that is too large to be kept, None."""

    def __init__(self) -> None:
        self.directories: dict[str | Url, dict[str, Kind] | None] = {}
        self.statuses: dict[str | Url, Status | tuple[int | None, str | None]] = {}
        self.found: dict[Hashable, object] = {}


_KEPT: ContextVar[Answers | None] = ContextVar("what was asked of the stores", default=None)


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
    found = _listed(_key(directory)) if _KEPT.get() is not None else None
    if found is None:
        return [name for name, _ in _asked(directory)] if isinstance(directory, Url) else os.listdir(directory)
    return list(found)


def entries(directory: Path_) -> dict[str, Kind]:
    """The same, and what each is.

    Raises:
        OSError: It cannot be listed.
    """
    key = _key(directory)
    found = _listed(key) if _KEPT.get() is not None else None
    return dict(_asked(key)) if found is None else found


def _key(place: Path_) -> str | Url:
    return place if isinstance(place, Url) else os.fspath(place)


def _asked(directory: Path_) -> Iterable[tuple[str, Kind]]:
    if isinstance(directory, Url):
        return store_of(directory).entries(directory.key)
    return local_entries(os.fspath(directory))


def _listed(directory: str | Url) -> dict[str, Kind] | None:
    """The listing of a directory, which is kept; None of one that is too large for that."""
    kept_now = _KEPT.get() or Answers()
    if directory not in kept_now.directories:
        found: dict[str, Kind] | None = {}
        for name, kind in _asked(directory):
            if found is None or len(found) == _MOST:
                found = None
                break
            found[name] = kind
        kept_now.directories[directory] = found
    return kept_now.directories[directory]


def _known(place: Path_) -> tuple[bool, Kind | None]:
    """Whether a kept listing tells what is at a place, and what it is; None: nothing."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return False, None
    above: str | Url
    if isinstance(place, Url):
        above, name = place.parent, place.name
    else:
        above, name = os.path.split(os.fspath(place))
    listing = kept_now.directories.get(above or os.curdir) if name not in ("", ".", "..") else None
    return listing is not None, listing.get(name) if listing is not None else None


def status(place: Path_) -> Status:
    """The status of what is at a place, links followed.

    Raises:
        OSError: There is nothing, or it cannot be reached.
    """
    kept_now, key = _KEPT.get(), _key(place)
    if kept_now is None:
        return status_now(key)
    found = kept_now.statuses.get(key)
    if found is None:
        try:
            found = status_now(key)
        except OSError as error:  # whose traceback would keep what the callers hold, open files among it
            found = error.errno, error.strerror
        if len(kept_now.statuses) < _STATUSES:
            kept_now.statuses[key] = found
    if isinstance(found, Status):
        return found
    raise OSError(*found, str(key))


def status_now(place: Path_) -> Status:
    """The same, asked again, also within `kept()`: for what must see a change.

    Raises:
        OSError: There is nothing, or it cannot be reached.
    """
    return store_of(place).status(place.key) if isinstance(place, Url) else status_of(os.stat(place))


def is_file(place: Path_) -> bool:
    """Whether there is a regular file, or a link to one; see `pathlib.Path.is_file`."""
    known, kind = _known(place)
    return kind is Kind.FILE if known and kind is not Kind.LINK else _is(place, Kind.FILE)


def is_dir(place: Path_) -> bool:
    """Whether there is a directory, or a link to one; see `pathlib.Path.is_dir`."""
    known, kind = _known(place)
    return kind is Kind.DIRECTORY if known and kind is not Kind.LINK else _is(place, Kind.DIRECTORY)


def exists(place: Path_) -> bool:
    """Whether there is something at a place, links followed; see `pathlib.Path.exists`."""
    known, kind = _known(place)
    return kind is not None if known and kind is not Kind.LINK else _is(place, None)


def is_link(place: Path_) -> bool:
    """Whether a place is a symbolic link, which only local paths can be."""
    known, kind = _known(place)
    return kind is Kind.LINK if known else not isinstance(place, Url) and os.path.islink(place)


def is_there(place: Path_) -> bool:
    """Whether there is something at a place, be it a link to nothing; see `os.path.lexists`."""
    known, kind = _known(place)
    if known:
        return kind is not None
    return _is(place, None) if isinstance(place, Url) else os.path.lexists(place)


def _is(place: Path_, wanted: Kind | None) -> bool:
    """Whether there is something of a kind; of any kind if None."""
    try:
        kind = status(place).kind
    except ValueError:  # a zero byte
        return False
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
    return wanted is None or kind is wanted
