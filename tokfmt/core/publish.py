"""Output is whole or absent.

A destination `DST` is built inside a hidden sibling directory and appears by one rename:

    .DST.tokfmt-8hexdigits/      of one process
        lock                     held with flock while it lives
        build/DST                what is being written
        scratch/                 shards of tokenised text, spilled arrays

`renameat2` publishes without replacing (RENAME_NOREPLACE), or swaps old and new in one step (RENAME_EXCHANGE) so that
the path is never missing. Siblings whose process is dead are removed at the next start.

A sibling of a fixed name (`.DST.tokfmt-resume`, `.DST.tokfmt-shards`) may outlive its process, to be taken over by the
next one; only a run that keeps nothing removes it. The lock is a file, because a directory cannot be locked on NFS.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from tokfmt.core.durable import sync_directory, sync_tree, write_whole
from tokfmt.core.errors import ConversionError, DestinationExistsError, OutageError, printable

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_TRIES, _PAUSE = 20, 0.05

KEPT = ("resume", "shards")
"""Siblings that may outlive their process."""


class Staging:
    """A place to build `destination`; a context manager that leaves nothing behind unless `publish` was called.

    Attributes:
        destination: Where the output will appear.
        home: The hidden sibling.
        path: Where to build it; same name, in the hidden sibling.
        scratch: A directory for intermediate files, removed at the end.
        keep: Leave the sibling behind at the end. Only with `kept`, and then so from the start.
        published: The destination is there, whole: now, or since an earlier run that was killed before it could end.
        removed: Names of kept siblings of dead processes that made way.
    """

    def __init__(
        self, destination: str | os.PathLike[str], *, overwrite: bool = False, kept: str = "", shared: bool = False
    ) -> None:
        """A place beside `destination`.

        Args:
            destination: What to build.
            overwrite: It may replace something.
            kept: Name ("resume", "shards") of a sibling that outlives its process and is taken over when it is there.
            shared: Several processes work in it at the same time.
        """
        self.destination = Path(os.path.abspath(destination))
        self.overwrite = overwrite
        self.keep, self.published, self._sealed = bool(kept), False, False
        self._began = 0
        self.removed: tuple[str, ...] = ()
        self._kept, self._shared, self._lock = kept, shared, -1
        self._settle()

    def _settle(self) -> None:
        self.home = hidden_sibling(self.destination, self._kept or os.urandom(4).hex())
        self.path = self.home / "build" / self.destination.name
        self.scratch = self.home / "scratch"

    def __enter__(self) -> Staging:
        self.published = self._was_published()
        if not self.overwrite and not self.published and os.path.lexists(self.destination):
            raise DestinationExistsError(self.destination)
        try:
            self.removed = remove_leftovers(self.destination, spare=bool(self._kept))
            self._occupy()
            self.path.parent.mkdir(exist_ok=True)
            self.scratch.mkdir(exist_ok=True)
        except OSError as error:
            self._leave()
            raise write_error(self.destination, error) from error
        except BaseException:  # a signal
            self._leave()
            raise
        if self.published:
            self.path = self.destination
        return self

    def _occupy(self) -> None:
        """Make the sibling, or take it over, and lock it."""
        for _ in range(_TRIES):
            self.home.mkdir(mode=0o755, exist_ok=bool(self._kept))
            self._lock = take_lock(self.home / "lock", shared=self._shared)
            if self._lock >= 0:
                self._began = os.fstat(self._lock).st_ctime_ns
                return
            time.sleep(_PAUSE)  # somebody is removing it, or works in it
            self._settle()
        raise ConversionError(
            f"{printable(self.destination)}: another tokfmt is writing it now ({self.home.name} is locked). "
            "Wait for it, or stop it"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._leave()
        except BaseException as stop:  # a signal in the middle of it: all the same, nothing stays
            self._leave()
            self._say_what_stays(stop)
            raise
        if error is not None:
            self._say_what_stays(error)

    def _say_what_stays(self, error: BaseException) -> None:
        if self.published:
            error.add_note(f"{printable(self.destination)} is whole")
        elif isinstance(error, OutageError) and not self.keep:
            error.add_note("Nothing was left behind")

    def seal(self) -> None:
        """Make the output durable; nothing is written to it any more."""
        if self._sealed:
            return
        try:
            sync_tree(self.path)
        except OSError as error:
            raise write_error(self.destination, error) from error
        self._sealed = True

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
            drafts = {self._draft(name, text): parent / name for name, text in beside.items() if text is not None}
            if not self.published:
                self.seal()
                self._appear(parent / name for name in beside)
            for draft, final in drafts.items():
                os.replace(draft, final)
            sync_directory(parent)
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            raise self._failure(error) from error

    def _appear(self, beside: Iterable[Path]) -> None:
        """The one step."""
        if self._kept:
            write_whole(self.home / "published", str(os.stat(self.path).st_ino).encode())
        there = os.path.lexists(self.destination)
        if there and not self.overwrite:
            raise DestinationExistsError(self.destination)
        for path in beside:
            self._remove_stale(path, replaced=there)
        _rename(self.path, self.destination, _EXCHANGE if there else _NOREPLACE)
        self.published = True

    def _remove_stale(self, beside: Path, *, replaced: bool) -> None:
        """Remove what stands beside the destination, unless whoever made the destination meanwhile put it there."""
        with contextlib.suppress(FileNotFoundError):
            if replaced or os.lstat(beside).st_ctime_ns < self._began:
                beside.unlink()

    def _draft(self, name: str, content: bytes) -> Path:
        draft = self.home / f"{name}.draft"
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _failure(self, error: OSError) -> ConversionError:
        if not self.published:
            return write_error(self.destination, error)
        return ConversionError(
            f"{printable(self.destination)}: may not survive a crash, or lack what stands beside it: {_why(error)}"
        )

    def withdraw(self) -> None:
        """Take back what `publish` made visible: the destination is again what it was before."""
        if not self.published:
            return
        if os.path.lexists(self.path):
            _rename(self.path, self.destination, _EXCHANGE)
        else:
            _rename(self.destination, self.path, _NOREPLACE)
            if os.path.lexists(_aside(self.path)):
                os.rename(_aside(self.path), self.destination)
        self.published = False

    def _was_published(self) -> bool:
        """Whether the destination is what an earlier run built here; a rename keeps the inode."""
        try:
            told = (self.home / "published").read_bytes()
            return told == str(os.stat(self.destination).st_ino).encode()
        except OSError:
            return False

    def _leave(self) -> None:
        if not self.keep:
            self._discard()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _discard(self) -> None:
        home = self.home
        if self._kept:  # half of it must not be taken over
            home = hidden_sibling(self.destination, os.urandom(4).hex())
            with contextlib.suppress(OSError):
                os.rename(self.home, home)
        shutil.rmtree(home, ignore_errors=True)


def publish_together(stagings: Mapping[Staging, Mapping[str, bytes | None]]) -> None:
    """Publish all of them, each with what stands beside it, or none: each in one step, one right after the other.

    Raises:
        ConversionError: One could not be published; those before it were taken back.
    """
    if len(stagings) > 1:
        for staging in stagings:
            staging.seal()
        try:
            for staging in stagings:
                staging.publish()
        except BaseException:
            for staging in stagings:
                staging.withdraw()
            raise
    for staging, beside in stagings.items():
        staging.publish(beside)


def _prefix(destination: Path) -> str:
    return f".{destination.name}.tokfmt-"


def hidden_sibling(destination: Path, name: str) -> Path:
    """Where a destination is built: `name` is one of `KEPT`, or random."""
    return destination.parent / f"{_prefix(destination)}{name}"


def take_lock(path: Path, *, shared: bool = False, wait: bool = False) -> int:
    """Lock a file, made if need be; a descriptor that holds the lock, -1 when it is taken or its directory is going."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except FileNotFoundError:
        return -1
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def remove_leftovers(destination: Path, *, spare: bool = False) -> tuple[str, ...]:
    """Remove hidden siblings of `destination` whose process has died (nobody holds their lock).

    Args:
        destination: Whose siblings.
        spare: Leave those that are kept to be taken over.

    Returns:
        Names of the kept ones that were removed.
    """
    parent, removed = destination.parent, []
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))
    for entry in os.scandir(parent):
        if not entry.name.startswith(_prefix(destination)) or not entry.is_dir(follow_symlinks=False):
            continue
        kept = entry.name.removeprefix(_prefix(destination)) in KEPT
        if kept and spare:
            continue
        with contextlib.suppress(OSError):
            fd = take_lock(Path(entry.path, "lock"))
            if fd >= 0:
                aside = _aside(Path(entry.path, "build", destination.name))
                if os.path.lexists(aside) and not os.path.lexists(destination):
                    os.rename(aside, destination)  # killed between the two renames: the old one comes back
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(fd)
                removed += [entry.name] if kept else []
    return tuple(removed)


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
        try:
            os.rename(old, new)
        except BaseException:
            os.rename(_aside(old), new)
            raise
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


def write_error(path: Path, error: OSError) -> OutageError:
    """An operating system's error while writing, as a sentence."""
    return OutageError(f"{printable(path)}: cannot be written: {_why(error)}")


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
