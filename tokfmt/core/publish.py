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
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from tokfmt.core.durable import sync_directory, sync_tree, write_whole
from tokfmt.core.errors import ConversionError, DestinationExistsError, OutageError, printable
from tokfmt.core.rename import EXCHANGE, NOREPLACE, aside, rename

_OLD = ".old"
_ABSENT, _UNKNOWN = 0, -1  # no inode has these numbers
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
        self.keep, self._sealed = bool(kept), False
        self._inode, self._replaced, self._published = _UNKNOWN, _ABSENT, False
        self._began = 0
        self.removed: tuple[str, ...] = ()
        self._kept, self._shared, self._lock = kept, shared, -1
        self._settle()

    def _settle(self) -> None:
        self.home = hidden_sibling(self.destination, self._kept or os.urandom(4).hex())
        self.path = self._built()
        self.scratch = self.home / "scratch"

    def _built(self) -> Path:
        return self.home / "build" / self.destination.name

    def __enter__(self) -> Staging:
        self._inode = self._told()
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
            drafts = {name: self._draft(name, text) for name, text in beside.items() if text is not None}
            if not self.published:
                self.seal()
                try:
                    self._appear([parent / name for name in beside])
                except BaseException:
                    if not self.published:
                        self._bring_back()
                    raise
                self._published = True
            for name in beside:
                self._accompany(drafts.get(name), parent / name)
            sync_directory(parent)
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            raise self._failure(error) from error

    @property
    def published(self) -> bool:
        """The destination is there, whole: now, or since an earlier run that was killed before it could end.

        A rename keeps the inode, so this is so from the very step that makes it so, whatever signal comes right after.
        """
        self._published = self._published or self._stands()
        return self._published

    def _stands(self) -> bool:
        """The destination is what was built here."""
        return _inode(self.destination) == self._inode

    def _told(self) -> int:
        """The inode that an earlier run was about to publish from here, if any."""
        try:
            return int((self.home / "published").read_bytes())
        except (OSError, ValueError):
            return _UNKNOWN

    def _appear(self, beside: Sequence[Path]) -> None:
        """The one step."""
        self._inode = os.lstat(self.path).st_ino
        if self._kept:
            write_whole(self.home / "published", str(self._inode).encode())
        for tries_left in reversed(range(_TRIES)):
            self._replaced = _inode(self.destination)
            there = self._replaced != _ABSENT
            if there and not self.overwrite:
                raise DestinationExistsError(self.destination)
            for path in beside:
                self._set_aside(path, replaced=there)
            try:
                rename(self.path, self.destination, EXCHANGE if there else NOREPLACE)
            except FileExistsError:  # it came since we looked
                if not self.overwrite or not tries_left:
                    raise
            except FileNotFoundError:  # it went
                if not there or not tries_left:
                    raise
            else:
                return

    def _set_aside(self, beside: Path, *, replaced: bool) -> None:
        """Take away what stands beside the destination, unless whoever made the destination meanwhile put it there."""
        with contextlib.suppress(FileNotFoundError):
            if replaced or os.lstat(beside).st_ctime_ns < self._began:
                os.replace(beside, self.home / f"{beside.name}{_OLD}")

    def _bring_back(self) -> None:
        """Put back what was set aside, if the destination is still, or again, the old one."""
        if _inode(self.destination) != self._replaced:
            return
        for old in self.home.glob(f"*{_OLD}"):
            os.replace(old, self.destination.with_name(old.name.removesuffix(_OLD)))

    def _accompany(self, draft: Path | None, beside: Path) -> None:
        """Put a file beside the destination, or none, unless another run has replaced the destination since."""
        if not self._stands():
            return
        if draft is None:
            beside.unlink(missing_ok=True)
            return
        mine = os.lstat(draft)
        os.replace(draft, beside)
        with contextlib.suppress(FileNotFoundError):
            if not self._stands() and os.path.samestat(os.lstat(beside), mine):
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
        self._published = False
        if not self._stands():
            return
        built = self._built()
        if os.path.lexists(built):
            rename(built, self.destination, EXCHANGE)
        else:
            rename(self.destination, built, NOREPLACE)
            if os.path.lexists(aside(built)):
                os.rename(aside(built), self.destination)
        self.path = built
        self._bring_back()

    def _leave(self) -> None:
        if not self.keep:
            self._discard()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _discard(self) -> None:
        if self._kept:  # half of it must not be taken over
            kept, self._kept, self.home = self.home, "", hidden_sibling(self.destination, os.urandom(4).hex())
            try:
                os.rename(kept, self.home)
            except OSError:
                self.home = kept
        shutil.rmtree(self.home, ignore_errors=True)


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
                staging.publish(dict.fromkeys(stagings[staging]))
        except BaseException:
            for staging in stagings:
                staging.withdraw()
            raise
    for staging, beside in stagings.items():
        staging.publish(beside)


def _inode(path: Path) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return _ABSENT


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
                old = aside(Path(entry.path, "build", destination.name))
                if os.path.lexists(old) and not os.path.lexists(destination):
                    os.rename(old, destination)  # killed between the two renames: the old one comes back
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(fd)
                removed += [entry.name] if kept else []
    return tuple(removed)


def write_error(path: Path, error: OSError) -> OutageError:
    """An operating system's error while writing, as a sentence; with its notes."""
    outage = OutageError(f"{printable(path)}: cannot be written: {_why(error)}")
    for note in getattr(error, "__notes__", ()):
        outage.add_note(note)
    return outage


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
