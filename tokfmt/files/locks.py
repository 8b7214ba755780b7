"""Private directories, their locks, and scratch directories below $TMPDIR.

A hidden directory is made with mode 0700. An existing one is used only if it is a directory, not a link, belongs to the
caller, and others cannot write to it. Then everything in it belongs to the caller as well.

Commands without a destination use scratch:

    tokfmt-scratch-XXXXXXXX/     of one process, 0700
        lock                     locked with flock while the process lives

Each new scratch directory first removes those of killed processes (SIGKILL) of the same user.

Some file systems have no locks (Lustre mounted without them, an NFS server without them). There, a lock is held as long
as the process that signed it lives. A process of another machine is assumed to live.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import re
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType

from tokfmt.errors import ConversionError
from tokfmt.files.file import writing
from tokfmt.wording import printable

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PAUSE = 0.05  # Seconds between two attempts to lock.
_PREFIX = "tokfmt-scratch-"
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
_LONGEST = 200  # Bytes of a lock that are read.
_SIGNED = re.compile(r"process (\d+) on (.*)\n")


def make_private(path: Path, *, taken_over: bool = False) -> None:
    """Make a directory that only the caller can access, or take over one of an earlier run; follow no link."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not taken_over:
            raise
        check_private(path)


def check_private(path: Path) -> None:
    """Refuse a hidden directory that another user could have made or changed; remove read access of others."""
    why = distrusted(path)
    if why:
        raise ConversionError(
            f"{printable(path)}: {why}, so its content is not trusted. Have it removed, or choose another destination"
        )
    if stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
        os.chmod(path, 0o700)


def distrusted(path: str | os.PathLike[str]) -> str:
    """Return the reason why a directory is not private to the caller; "" if it is."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return f"is a link that {_name_of(status.st_uid)} has made, not a directory"
    if not stat.S_ISDIR(status.st_mode):
        return f"is not a directory, and belongs to {_name_of(status.st_uid)}"
    if status.st_uid != os.geteuid():
        return f"belongs to {_name_of(status.st_uid)}"
    return f"belongs to {_name_of(status.st_uid)}, and others may write to it" if status.st_mode & _OTHERS_WRITE else ""


def _name_of(owner: int) -> str:
    try:
        return printable(pwd.getpwuid(owner).pw_name)
    except KeyError:
        return f"user {owner}"


def user_directory(kind: str, otherwise: str) -> Path:
    """Return the directory of a kind ("CACHE", "STATE") by the XDG specification; it may not exist."""
    named = os.environ.get(f"XDG_{kind}_HOME", "")
    place = Path(named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), otherwise))
    if not place.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "No home directory")
    return place / "tokfmt"


def take_lock(path: Path, *, shared: bool = False, patience: float = 0, existing: bool = False) -> int:
    """Lock a file, which is created if needed, and write the holder into it. If it is shared, several processes may
    hold it at a time. `patience` is the seconds to wait for the holder. With `existing`, only an existing file is
    locked that is empty or has the signature of a holder: a lock of tokfmt. The result is a descriptor for `release`;
    -1 if the lock is taken, or its directory is being removed.
    """
    try:
        how = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if existing else os.O_CREAT)
        fd = os.open(path, how, 0o600)
    except FileNotFoundError:
        return -1
    try:
        if existing and not _is_of_lock(os.pread(fd, _LONGEST, 0)):
            os.close(fd)
            return -1
        if _locked(fd, shared=shared, patience=patience):
            _sign(fd)
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def is_signed(lock: Path) -> bool:
    """Return whether a file is a lock of tokfmt: it is empty, or has the signature of a holder."""
    try:
        if not stat.S_ISREG(os.lstat(lock).st_mode):
            return False
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_of_lock(os.read(fd, _LONGEST))
    finally:
        os.close(fd)


def _is_of_lock(content: bytes) -> bool:
    return not content or _SIGNED.fullmatch(content.decode("utf-8", "replace")) is not None


def lock_dead(home: Path) -> int:
    """Lock a directory of the caller whose process is dead, to remove it with `remove_private`.

    Only a directory with a lock of tokfmt counts. Another directory of the caller may have the name of a leftover. The
    result is a descriptor for `release`; -1 if the process lives, or the directory is not a leftover.
    """
    if distrusted(home):
        return -1
    if not os.path.lexists(home / "lock"):
        os.rmdir(home)  # The process was killed before it made its lock. Only an empty directory is a leftover.
        return -1
    return take_lock(home / "lock", existing=True) if is_signed(home / "lock") else -1


def remove_private(home: Path, lock: int) -> None:
    """Remove a private directory whose lock the caller holds. The lock is removed last.

    If the process is killed meanwhile, `lock_dead` recognizes the rest. The lock is -1 if a signal came before it was
    known. Then the directory is removed only if it has nothing but the lock.
    """
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(home).st_mode):
            return
        for entry in list(os.scandir(home)) if lock >= 0 else []:
            if entry.name != "lock":
                _remove_entry(entry)
        if os.listdir(home) == ["lock"]:  # If entries are left, the lock stays, and the next run removes the rest.
            os.unlink(home / "lock")
        os.rmdir(home)


def _remove_entry(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def release(lock: int) -> None:
    """Release a lock of `take_lock`."""
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
    os.close(lock)


def _locked(fd: int, *, shared: bool, patience: float) -> bool:
    end = time.monotonic() + patience
    while not _lock(fd, shared=shared):
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE)
    return True


def _lock(fd: int, *, shared: bool) -> bool:
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return shared or not _may_live(fd)
    return True


def _may_live(fd: int) -> bool:
    """Return whether the process that signed a lock may still live."""
    signed = _SIGNED.fullmatch(os.pread(fd, _LONGEST, 0).decode("utf-8", "replace"))
    if signed is None or signed[2] != os.uname().nodename:
        return signed is not None
    try:
        os.kill(int(signed[1]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _sign(fd: int) -> None:
    name = f"process {os.getpid()} on {os.uname().nodename}\n".encode()
    with contextlib.suppress(OSError):  # The lock is valid without a signature, as on a full disk.
        os.ftruncate(fd, 0)
        os.write(fd, name)


def holder(path: Path) -> str:
    """Return the holder of a lock, as "process 4711 on node7". Without file locks, add how to remove a stale lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return "another process"
    try:
        name = printable(os.read(fd, _LONGEST).decode("utf-8", "replace").strip()) or "another process"
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return name
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return f"{name}; this file system has no locks: if that process has ended, remove {printable(path)}"
        raise
    finally:
        os.close(fd)
    return name


class Scratch:
    """A private directory that is removed when it is closed, or garbage-collected. A context manager.

    If the process is killed, the next `Scratch` removes it.
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        with writing(parent):
            _remove_dead(parent)
            lock = -1
            while lock < 0:  # Another process may remove the directory as a leftover, until it is locked.
                self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
                lock = take_lock(self.path / "lock")
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove the directory."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(path: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # A forked child inherits the finalizer, but must not remove the directory.
        remove_private(path, lock)
        release(lock)


def _remove_dead(parent: Path) -> None:
    with os.scandir(parent) as entries:
        listed = list(entries)
    for entry in listed:
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            lock = lock_dead(Path(entry.path))
            if lock >= 0:
                remove_private(Path(entry.path), lock)
                release(lock)
