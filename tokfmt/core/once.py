"""Open each file of the sources of a command once, however many parts of it look at the file."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import threading
from collections.abc import Iterable
from types import TracebackType

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_MOST = 64 if _ALLOWED == resource.RLIM_INFINITY else min(64, _ALLOWED // 8)
"""Descriptors that one command keeps for others, beside those of `files`; of more files the others are opened again."""

Path = str | os.PathLike[str]


class OpenedOnce:
    """Files that stay open for other parts of a command; a context manager. Several may be entered at the same time.

    A file of the sources that is opened before `settled` stays open until the end. Whoever opens it again gets a
    descriptor of the same file, if the path still leads to it.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        """Keep what lies at or below `paths`, or beside them: an index has the directory of its data."""
        places = [os.path.abspath(path) for path in paths]
        self._parents = {os.path.dirname(place) for place in places}
        self._below = tuple(os.path.join(place, "") for place in places)
        self._files: dict[str, int] = {}
        self._collects = True

    def __enter__(self) -> OpenedOnce:
        with _Active.lock:
            _Active.every.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _Active.lock:
            _Active.every.remove(self)
            while self._files:
                os.close(self._files.popitem()[1])

    def settled(self) -> None:
        """Stop collecting: what is opened from here on may be removed while the command runs."""
        self._collects = False

    def take(self, place: str) -> int | None:
        """Return a descriptor of a file that was kept; None if there is none, or the path leads to another file."""
        kept = self._files.get(place)
        if kept is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(place), os.fstat(kept)):
                    return os.dup(kept)
        return None

    def keep(self, place: str, fd: int) -> None:
        """Keep a file that was opened, if it is one of the sources."""
        ours = place.startswith(self._below) or os.path.dirname(place) in self._parents
        if not self._collects or not ours or place in self._files or len(self._files) == _MOST:
            return
        with contextlib.suppress(OSError):  # there are no more descriptors
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._files[place] = os.dup(fd)


class _Active:
    every: list[OpenedOnce] = []  # noqa: RUF012 - of the process
    lock = threading.RLock()  # a signal may come inside


def open_to_read(path: Path) -> int:
    """Open a file, of a source only once; the descriptor is the caller's own.

    Raises:
        OSError: It cannot be opened.
    """
    if not _Active.every:
        return os.open(path, _FLAGS)
    place = os.path.abspath(path)
    with _Active.lock:
        for one in _Active.every:
            if (found := one.take(place)) is not None:
                return found
        fd = os.open(path, _FLAGS)
        for one in _Active.every:
            one.keep(place, fd)
    return fd
