"""Open each source file once per command, although several parts of the command read it."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import threading
from collections.abc import Iterable
from types import TracebackType

from tokfmt.core.place import PlaceLike, place_of

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_MOST = 64 if _ALLOWED == resource.RLIM_INFINITY else min(64, _ALLOWED // 8)
"""Descriptors that a command keeps here, in addition to those of `files`. Further files are opened again."""

Path = str | os.PathLike[str]


class OpenedOnce:
    """A context manager that keeps opened source files open for other parts of a command. Contexts may overlap.

    A source file that is opened while `collects` is True stays open until the end. A later open returns a descriptor of
    the same file, if the path still leads to it.

    Attributes:
        collects: Set it to False before files are opened that may be removed while the command runs.
    """

    def __init__(self, paths: Iterable[PlaceLike]) -> None:
        """Keep files at or below `paths`, or in the same directory: an index is in the directory of its data."""
        places = [place.normalized().text for place in map(place_of, paths) if place.is_local]
        self._parents = {os.path.dirname(place) for place in places}
        self._below = tuple(os.path.join(place, "") for place in places)
        self._files: dict[str, int] = {}
        self.collects = True

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

    def take(self, place: str) -> int | None:
        """Return a descriptor of a kept file; None if it is not kept, or the path leads to another file."""
        kept = self._files.get(place)
        if kept is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(place), os.fstat(kept)):
                    return os.dup(kept)
        return None

    def keep(self, place: str, fd: int) -> None:
        """Keep an opened file, if it is one of the sources."""
        ours = place.startswith(self._below) or os.path.dirname(place) in self._parents
        if not self.collects or not ours or place in self._files or len(self._files) == _MOST:
            return
        with contextlib.suppress(OSError):  # No descriptor is left.
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._files[place] = os.dup(fd)


class _Active:
    every: list[OpenedOnce] = []  # noqa: RUF012 - The list is global to the process.
    lock = threading.RLock()  # Reentrant, because a signal handler may run inside.


def open_to_read(path: Path) -> int:
    """Open a file to read, a source file only once. The caller closes the descriptor.

    Raises:
        OSError: If it cannot be opened.
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
