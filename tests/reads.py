"""What Python code asks of the file system: reads by position, statuses, listings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass
class Asked:
    """Questions about files below a directory, in order.

    Attributes:
        reads: Name of the file, first byte and number of bytes of each read.
        statuses: The path of each `stat`, `lstat` and `access`.
        listings: The path of each directory that was listed.
        opened: The path of each file that was opened.
    """

    home: str
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    listings: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    def bytes_of(self, suffix: str = "") -> int:
        """How many bytes were read of files with such a name."""
        return sum(length for name, _, length in self.reads if name.endswith(suffix))

    @property
    def questions(self) -> int:
        """How many reads, statuses, listings and openings there were."""
        return sum(map(len, (self.reads, self.statuses, self.listings, self.opened)))

    def within(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(self.home)


@contextmanager
def asked_of(home: Path) -> Iterator[Asked]:
    """Count what is asked of the files below a directory. What a library asks in C is not seen."""
    asked, paths = Asked(str(home)), dict[int, str]()
    opened, pread, preadv, whole = os.open, os.pread, os.preadv, Path.read_bytes

    def open_(path: Any, *how: Any, **more: Any) -> int:
        fd = opened(path, *how, **more)
        paths[fd] = os.fspath(path) if asked.within(path) else ""
        asked.opened += [paths[fd]] if paths[fd] else []
        return fd

    def note(path: str, offset: int, length: int) -> None:
        if path:
            asked.reads.append((os.path.basename(path), offset, length))

    def pread_(fd: int, length: int, offset: int) -> bytes:
        note(paths.get(fd, ""), offset, length)
        return pread(fd, length, offset)

    def preadv_(fd: int, buffers: Any, offset: int, *flags: int) -> int:
        note(paths.get(fd, ""), offset, sum(memoryview(buffer).nbytes for buffer in buffers))
        return preadv(fd, buffers, offset, *flags)

    def read_bytes(self: Path) -> bytes:
        found = whole(self)
        note(os.fspath(self) if asked.within(self) else "", 0, len(found))
        return found

    def seen(function: Callable[..., Any], into: list[str]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **more: Any) -> Any:
            if asked.within(path):
                into.append(os.fspath(path))
            return function(path, *args, **more)

        return call

    patches = {"open": open_, "pread": pread_, "preadv": preadv_}
    patches |= {name: seen(getattr(os, name), asked.statuses) for name in ("stat", "lstat", "access")}
    patches |= {name: seen(getattr(os, name), asked.listings) for name in ("listdir", "scandir")}
    with mock.patch.multiple(os, **patches), mock.patch.object(Path, "read_bytes", read_bytes):
        yield asked
