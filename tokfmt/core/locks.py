"""Private directories, their locks, and scratch directories below $TMPDIR.

Another user may put files beside a destination or below $TMPDIR. So a hidden directory is made with mode 0700. An
existing one is used only if it is a directory, not a link, belongs to the caller, and others cannot write to it. Then
everything in it belongs to the caller as well.

Commands without a destination use scratch:

    tokfmt-scratch-XXXXXXXX/     of one process, 0700
        lock                     locked with flock while the process lives

Each new scratch directory first removes those of killed processes (SIGKILL) of the same user.

In some directories others may rename (a directory of a group, without the sticky bit). There, another user can replace
the name of a private directory with a link at any time. So it is accessed through a descriptor (`held`), which always
refers to the same directory. No other file is then written, removed or given permissions.

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
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tokfmt.core.errors import ConversionError
from tokfmt.core.files import writing
from tokfmt.core.text_format import printable

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PAUSE = 0.05  # Seconds between two attempts to lock.
_PREFIX = "tokfmt-scratch-"
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
_LONGEST = 200  # Bytes of a lock that are read.
_SIGNED = re.compile(r"process (\d+) on (.*)\n")


def make_private(path: Path, *, taken_over: bool = False) -> bool:
    """Make a directory that only the caller can access.

    Args:
        path: The directory; a link is never followed.
        taken_over: Use an existing directory of an earlier run.

    Returns:
        True if it was made, False if it existed.

    Raises:
        ConversionError: If an existing directory belongs to another user, or others may write to it.
        FileExistsError: If the path exists and `taken_over` is False.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not taken_over:
            raise
    else:
        try:
            owner = os.lstat(path).st_uid  # On some network file systems, files of root belong to the user "nobody".
        except FileNotFoundError:  # Another run removed it as a leftover. `take_lock`, which follows, reports it.
            return True
        if owner in (0, os.geteuid()) or not os.geteuid():
            return True
    check_private(path)
    return False


def check_private(path: Path) -> None:
    """Raise an error for a hidden directory that another user could have made or changed. Remove read access of others.

    Raises:
        ConversionError: If it is not a directory, belongs to another user, or others may write to it.
        FileNotFoundError: If it does not exist.
    """
    os.close(open_private(path))


def open_private(path: Path, *, made: bool = False) -> int:
    """Open a hidden directory after the checks of `check_private`.

    Args:
        path: The directory.
        made: The caller has just made it. On some network file systems, files of root belong to another user.

    Returns:
        A descriptor of the directory. The caller closes it.

    Raises:
        ConversionError: As for `check_private`.
        FileNotFoundError: As for `check_private`.
    """
    why = "" if made else distrusted(path)
    if not why:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)  # It may have been replaced since the first check.
            why = "" if made and _owns_as_root(fd, status) else _why_distrusted(status)
            if not why and stat.S_IMODE(status.st_mode) & 0o077:  # It may be readable by others.
                os.fchmod(fd, 0o700)
        except BaseException:
            os.close(fd)
            raise
        if not why:
            return fd
        os.close(fd)
    raise ConversionError(
        f"{printable(path)}: {why}, so its content is not trusted. Have it removed, or choose another destination"
    )


def _owns_as_root(home: int, status: os.stat_result) -> bool:
    """Return whether root owns a directory under another user ID, which a new file in it has as well."""
    if os.geteuid() or not status.st_uid:
        return False
    name = f"owner-{os.urandom(4).hex()}"
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=home)
    except OSError:
        return False
    try:
        return os.fstat(fd).st_uid == status.st_uid
    finally:
        os.close(fd)
        os.unlink(name, dir_fd=home)


def reached(fd: int, path: Path) -> Path:
    """Return a path of an open directory that other users cannot redirect, for all processes of the caller.

    Args:
        fd: Descriptor of the directory.
        path: Its name.

    Returns:
        A path below /proc; or the name, if only the caller and root can rename it, or the system has no /proc.
    """
    if may_be_renamed(path):
        place = Path(f"/proc/{os.getpid()}/fd/{fd}")
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(place), os.fstat(fd)):
                return place
    return path


def may_be_renamed(path: Path) -> bool:
    """Return whether another user may rename or replace a directory of the caller."""
    status = os.stat(path.parent)
    anybody = status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
    return bool(anybody) or status.st_uid not in (0, os.geteuid())


@contextlib.contextmanager
def held(path: Path) -> Iterator[Path]:
    """Open a private directory, and yield a path that refers to it while the block runs; see `reached`.

    Raises:
        ConversionError: As for `check_private`.
        FileNotFoundError: As for `check_private`.
    """
    fd = open_private(path)
    try:
        yield reached(fd, path)
    finally:
        os.close(fd)


def distrusted(path: str | os.PathLike[str]) -> str:
    """Return the reason why a directory is not private to the caller; "" if it is.

    Raises:
        FileNotFoundError: If it does not exist.
    """
    return _why_distrusted(os.lstat(path))


def _why_distrusted(status: os.stat_result) -> str:
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


@contextlib.contextmanager
def own_file(path: Path) -> Iterator[int]:
    """Open a regular file of the caller, even if its directory is replaced meanwhile.

    Raises:
        FileNotFoundError: If it does not exist, or belongs to another user.
        OSError: If it is a link, or cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise FileNotFoundError(errno.ENOENT, f"No file of {_name_of(os.geteuid())}", str(path))
        yield fd
    finally:
        os.close(fd)


def user_directory(kind: str, otherwise: str) -> Path:
    """Return the directory for the user's files of a kind, by the XDG Base Directory specification. It may not exist.

    Args:
        kind: "CACHE" or "STATE".
        otherwise: Default directory, below the home directory.

    Raises:
        FileNotFoundError: If neither HOME nor the user database has a home directory.
    """
    named = os.environ.get(f"XDG_{kind}_HOME", "")
    place = Path(named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), otherwise))
    if not place.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "No home directory")
    return place / "tokfmt"


def take_lock(path: Path, *, shared: bool = False, patience: float = 0, existing: bool = False) -> int:
    """Lock a file, which is created if needed, and write the holder into it.

    Args:
        path: The file.
        shared: Several processes may hold the lock at a time.
        patience: Seconds to wait for the holder.
        existing: Lock only an existing file that is empty or has the signature of a holder: a lock of tokfmt.

    Returns:
        A descriptor that holds the lock, for `release`; -1 if the lock is taken, or its directory is being removed.
    """
    try:
        how = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if existing else os.O_CREAT)
        fd = os.open(path, how, 0o600)
    except FileNotFoundError:
        return -1
    try:
        if existing and (said := os.pread(fd, _LONGEST, 0)) and not _SIGNED.fullmatch(said.decode("utf-8", "replace")):
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


def lock_dead(home: Path) -> int:
    """Lock a directory of the caller whose process is dead, to remove it with `remove_private`.

    Only a directory with a lock of tokfmt counts: if others may write to its parent, they can give the name of a
    leftover to any directory of the caller.

    Returns:
        A descriptor for `release`; -1 if the process lives, or the directory is not a leftover.

    Raises:
        OSError: If it cannot be examined.
    """
    if distrusted(home):
        return -1
    with contextlib.suppress(ConversionError), held(home) as place:
        try:
            status = os.lstat(place / "lock")
        except FileNotFoundError:
            os.rmdir(home)  # The process was killed before it made its lock. Only an empty directory is a leftover.
        else:
            return take_lock(place / "lock", existing=True) if stat.S_ISREG(status.st_mode) else -1
    return -1


def remove_private(home: Path, lock: int, opened: int = -1) -> None:
    """Remove a private directory whose lock the caller holds. The lock is removed last.

    If the process is killed meanwhile, `lock_dead` recognizes the rest. If the name refers to another directory by now,
    no file is removed.

    Args:
        home: The directory.
        lock: Of `take_lock` or `lock_dead`; -1 if a signal came before it was known, so that the directory holds only
            the lock.
        opened: A descriptor of the directory, if the caller has one.
    """
    with contextlib.suppress(OSError):
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) if opened < 0 else opened
        try:
            _empty(fd, lock)
        finally:
            if opened < 0:
                os.close(fd)
    with contextlib.suppress(OSError):
        os.rmdir(home)


def _empty(home: int, lock: int) -> None:
    """Remove the entries of an open directory, relative to its descriptor, if the caller owns it and holds its lock."""
    names = os.listdir(home)
    there = os.stat("lock", dir_fd=home, follow_symlinks=False)
    ours = names == ["lock"] if lock < 0 else os.path.samestat(os.fstat(lock), there)
    if not ours or _why_distrusted(os.fstat(home)):
        return
    for name in names:
        if name != "lock":
            _remove_entry(home, name)
    if os.listdir(home) == ["lock"]:  # If entries are left, the lock stays, and the next run removes the rest.
        os.unlink("lock", dir_fd=home)


def _remove_entry(home: int, name: str) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=home, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=home)
        else:
            os.unlink(name, dir_fd=home)


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

    Attributes:
        path: The directory.
    """

    def __init__(self) -> None:
        """Make the directory.

        Raises:
            OutageError: If it cannot be made, as on a full disk.
        """
        parent = Path(tempfile.gettempdir())
        with writing(parent):
            _remove_dead(parent)
            lock = -1
            while lock < 0:  # Another process may remove the directory as a leftover, until it is locked.
                name = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
                try:
                    fd = open_private(name, made=True)
                except FileNotFoundError:
                    continue
                self.path = reached(fd, name)
                lock = take_lock(self.path / "lock")
                if lock < 0:
                    os.close(fd)
        self._finalizer = weakref.finalize(self, _remove, name, fd, lock, os.getpid())

    def close(self) -> None:
        """Remove the directory."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(path: Path, fd: int, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # A forked child inherits the finalizer, but must not remove the directory.
        remove_private(path, lock, fd)
        os.close(fd)
        release(lock)


def _remove_dead(parent: Path) -> None:
    with os.scandir(parent) as entries:
        found = list(entries)
    for entry in found:
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            lock = lock_dead(Path(entry.path))
            if lock >= 0:
                remove_private(Path(entry.path), lock)
                release(lock)
