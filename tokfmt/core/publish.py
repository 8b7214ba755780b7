"""Output is whole or absent.

A destination `DST` is built inside a hidden sibling directory and appears by one rename:

    .DST.tokfmt-8hexdigits/      locked with flock while its process lives
        DST                      what is being written
        scratch/                 shards of tokenised text, spilled arrays

`renameat2` publishes without replacing (RENAME_NOREPLACE), or swaps old and new in one step (RENAME_EXCHANGE) so that
the path is never missing. Siblings whose process is dead are removed at the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from tokfmt.core.errors import ConversionError, DestinationExistsError, printable
from tokfmt.core.files import walk

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2


class Staging:
    """A place to build `destination`; a context manager that leaves nothing behind unless `publish` was called.

    Attributes:
        destination: Where the output will appear.
        path: Where to build it; same name, in the hidden sibling.
        scratch: A directory for intermediate files, removed at the end.
    """

    def __init__(self, destination: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.destination = Path(os.path.abspath(destination))
        self.overwrite = overwrite
        self._lock = -1
        self._began = 0
        self._published = False
        self._home = self.destination.parent / f"{_prefix(self.destination)}{secrets.token_hex(4)}"
        self.path = self._home / self.destination.name
        self.scratch = self._home / "scratch"

    def __enter__(self) -> Staging:
        if not self.overwrite and os.path.lexists(self.destination):
            raise DestinationExistsError(self.destination)
        try:
            remove_leftovers(self.destination)
            while not self._settle():
                pass
            self.scratch.mkdir()
        except OSError as error:
            self._discard()
            raise write_error(self.destination, error) from error
        except BaseException:  # a signal
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._discard()
        except BaseException as stop:  # a signal in the middle of it: all the same, nothing stays
            self._discard()
            self._say_published(stop)
            raise
        if error is not None:
            self._say_published(error)

    def _settle(self) -> bool:
        """Make the hidden sibling and lock it; False if another process took it for a dead leftover in between."""
        self._home.mkdir(mode=0o755)
        try:
            self._lock = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.stat(self._home).st_ino == os.fstat(self._lock).st_ino:
                self._began = os.fstat(self._lock).st_ctime_ns
                return True
        except FileNotFoundError:
            pass
        self._unlock()
        return False

    def publish(self, beside: Mapping[str, bytes | None] = MappingProxyType({})) -> None:
        """Make the output durable, then visible, in one step; then what stands beside it.

        Args:
            beside: Name and content of small files next to the destination; None for one that must not be there. An
                older one goes before the destination appears, so that it never stands beside what it does not describe.

        Raises:
            DestinationExistsError: Somebody else made it meanwhile, and overwriting was not asked for.
        """
        parent = self.destination.parent
        try:
            sync_tree(self.path)
            drafts = {
                self._draft(name, content): parent / name for name, content in beside.items() if content is not None
            }
            there = os.path.lexists(self.destination)
            if there and not self.overwrite:
                raise DestinationExistsError(self.destination)
            for name in beside:
                self._remove_stale(parent / name, replaced=there)
            _rename(self.path, self.destination, _EXCHANGE if there else _NOREPLACE)
            self._published = True
            for draft, final in drafts.items():
                os.replace(draft, final)
            sync_directory(parent)
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            raise self._failure(error) from error

    def _remove_stale(self, beside: Path, *, replaced: bool) -> None:
        """Remove what stands beside the destination, unless whoever made the destination meanwhile put it there."""
        with contextlib.suppress(FileNotFoundError):
            if replaced or os.lstat(beside).st_ctime_ns < self._began:
                beside.unlink()

    def _draft(self, name: str, content: bytes) -> Path:
        draft = self._home / f"{name}.draft"
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _failure(self, error: OSError) -> ConversionError:
        if not self._published:
            return write_error(self.destination, error)
        return ConversionError(
            f"{printable(self.destination)}: is whole, but may not survive a crash, or lack what stands beside it: "
            f"{_why(error)}"
        )

    def _say_published(self, error: BaseException) -> None:
        if self._published and not isinstance(error, ConversionError):
            error.add_note(f"{printable(self.destination)} is whole")

    def _discard(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def _prefix(destination: Path) -> str:
    return f".{destination.name}.tokfmt-"


def remove_leftovers(destination: Path) -> None:
    """Remove hidden siblings of `destination` whose process has died (nobody holds their lock)."""
    parent = destination.parent
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))
    for entry in os.scandir(parent):
        if not entry.name.startswith(_prefix(destination)) or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                aside = _aside(Path(entry.path), destination.name)
                if os.path.lexists(aside) and not os.path.lexists(destination):
                    os.rename(aside, destination)  # killed between the two renames: the old one comes back
                shutil.rmtree(entry.path, ignore_errors=True)
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


def _aside(home: Path, name: str) -> Path:
    """Where an old directory stands for the moment that a file system without RENAME_EXCHANGE needs."""
    return home / f"{name}.replaced"


def _rename(old: Path, new: Path, how: int) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        _rename_portably(old, new, how)
        return
    if rename(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):  # an old kernel, or a file system without the flags
        _rename_portably(old, new, how)
        return
    raise OSError(code, os.strerror(code), str(new))


def _rename_portably(old: Path, new: Path, how: int) -> None:
    if how == _EXCHANGE and not old.is_dir() and not new.is_dir():
        os.replace(old, new)
    elif how == _EXCHANGE:
        os.rename(new, _aside(old.parent, new.name))
        try:
            os.rename(old, new)
        except BaseException:
            os.rename(_aside(old.parent, new.name), new)
            raise
    elif old.is_dir():
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(old, new)
    else:
        os.link(old, new)
        os.unlink(old)


def write_error(path: Path, error: OSError) -> ConversionError:
    """An operating system's error while writing, as a sentence."""
    return ConversionError(f"{printable(path)}: cannot be written: {_why(error)}. Nothing was left behind")


def _why(error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "the disk quota is used up",
        errno.EFBIG: "the file would be larger than allowed here",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "permission denied",
        errno.ENOENT: "the directory it should go to does not exist",
        errno.ENOTDIR: "the directory it should go to is not a directory",
        errno.EIO: "the disk reports a write error",
    }
    return reasons.get(error.errno or 0, (error.strerror or str(error)).lower())
