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
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tokfmt.core.errors import ConversionError, DestinationExistsError, printable

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
        self._sealed = self._published = False
        self._home = self.destination.parent / f"{_prefix(self.destination)}{secrets.token_hex(4)}"
        self.path = self._home / self.destination.name
        self.scratch = self._home / "scratch"

    def __enter__(self) -> Staging:
        if not self.overwrite and os.path.lexists(self.destination):
            raise DestinationExistsError(self.destination)
        try:
            remove_leftovers(self.destination)
            self._home.mkdir(mode=0o755)
            self._lock = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.scratch.mkdir()
        except OSError as error:
            self._discard()
            raise write_error(self.destination, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def seal(self) -> None:
        """Make the output durable; nothing is written to it any more."""
        if self._sealed:
            return
        try:
            sync_tree(self.path)
        except OSError as error:
            raise write_error(self.destination, error) from error
        self._sealed = True

    def publish(self) -> None:
        """Make the output durable, then visible, in one step.

        Raises:
            DestinationExistsError: Somebody else made it meanwhile, and overwriting was not asked for.
        """
        self.seal()
        try:
            if self.overwrite and os.path.lexists(self.destination):
                _rename(self.path, self.destination, _EXCHANGE)
            else:
                _rename(self.path, self.destination, _NOREPLACE)
            self._published = True
            sync_directory(self.destination.parent)
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            raise write_error(self.destination, error) from error

    def withdraw(self) -> None:
        """Take back what `publish` made visible: the destination is again what it was before."""
        if not self._published:
            return
        if os.path.lexists(self.path):
            _rename(self.path, self.destination, _EXCHANGE)
        else:
            _rename(self.destination, self.path, _NOREPLACE)
            if os.path.lexists(_aside(self.path)):
                os.rename(_aside(self.path), self.destination)
        self._published = False

    def publish_beside(self, name: str, content: bytes) -> None:
        """Put a small file next to the destination, replacing an older one, whole or not at all."""
        draft, final = self._home / name, self.destination.parent / name
        try:
            with open(draft, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, final)
            sync_directory(final.parent)
        except OSError as error:
            raise write_error(final, error) from error

    def _discard(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def publish_together(stagings: Sequence[Staging]) -> None:
    """Publish all of them, or none: each in one step, one right after the other.

    Raises:
        ConversionError: One could not be published; those before it were taken back.
    """
    for staging in stagings:
        staging.seal()
    try:
        for staging in stagings:
            staging.publish()
    except BaseException:
        for staging in stagings:
            staging.withdraw()
        raise


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
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(fd)


def sync_tree(path: Path) -> None:
    """Fsync a file, or every file and directory below a directory, deepest first."""
    if not path.is_dir():
        _sync(path, os.O_RDONLY)
        return
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            _sync(Path(directory, name), os.O_RDONLY)
        sync_directory(Path(directory))


def sync_directory(path: Path) -> None:
    """Fsync a directory, so that the names in it survive a crash."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
    if how == _EXCHANGE:
        os.rename(new, _aside(old))
        os.rename(old, new)
    elif old.is_dir():
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(old, new)
    else:
        os.link(old, new)
        os.unlink(old)


def _aside(path: Path) -> Path:
    """Where what was replaced waits, if the file system cannot swap."""
    return path.with_name(f"{path.name}.replaced")


def write_error(path: Path, error: OSError) -> ConversionError:
    """An operating system's error while writing, as a sentence."""
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
    why = reasons.get(error.errno or 0, (error.strerror or str(error)).lower())
    return ConversionError(f"{printable(path)}: cannot be written: {why}. Nothing was left behind")
