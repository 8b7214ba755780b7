"""Directories that nobody else gets into, the locks in them, and scratch below $TMPDIR.

What lies beside a destination or below $TMPDIR may have been put there by anybody who may write there. A hidden
directory is made with mode 0700, and one that is there already is used only if it is a directory (no link to one) of
the caller's own that nobody else may write to: then all that is in it is the caller's own as well.

Commands that have no destination to build beside have scratch:

    tokfmt-scratch-XXXXXXXX/     of one process, 0700
        lock                     held with flock while it lives

What processes of the same user left behind that could not clean up (SIGKILL) goes when the next one makes its own.

In a directory where others may rename (a group's, without the sticky bit), the name of a private directory may be given
to a link between any look and what follows it. There it is reached through a descriptor (`held`), which stays the same
directory, so nothing outside of it is written, removed or given permissions.

Where a file system has no locks (Lustre mounted without them, NFS whose server has none), a lock is held as long as the
process lives that has signed it; of another machine's that is not known, and it is taken to live.
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
_PAUSE = 0.05  # seconds between two tries to lock
_PREFIX = "tokfmt-scratch-"
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
_LONGEST = 200  # bytes of what a lock says
_SIGNED = re.compile(r"process (\d+) on (.*)\n")


def make_private(path: Path, *, taken_over: bool = False) -> bool:
    """Make a directory for the caller alone.

    Args:
        path: Its name; never followed if it is a link.
        taken_over: One of an earlier run may be there, and is used.

    Returns:
        Whether it was made; else it was there.

    Raises:
        ConversionError: What is there is somebody else's, or others may write to it.
        FileExistsError: Something is there, and is not to be taken over.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not taken_over:
            raise
    else:
        try:
            owner = os.lstat(path).st_uid  # on some network file systems what root makes is nobody's
        except FileNotFoundError:  # another run took it for a leftover; the lock that comes next finds that out
            return True
        if owner in (0, os.geteuid()) or not os.geteuid():
            return True
    check_private(path)
    return False


def check_private(path: Path) -> None:
    """Refuse a hidden directory that somebody else could have made or changed; close it to readers, if it was open.

    Raises:
        ConversionError: It is no directory, not the caller's own, or others may write to it; names its owner.
        FileNotFoundError: It is not there.
    """
    os.close(open_private(path))


def open_private(path: Path, *, made: bool = False) -> int:
    """Open a hidden directory, as `check_private` looks at it.

    Args:
        path: The directory.
        made: The caller has just made it: on some network file systems what root makes belongs to somebody else.

    Returns:
        A descriptor of the directory, to be closed.

    Raises:
        ConversionError, FileNotFoundError: As of `check_private`.
    """
    why = "" if made else distrusted(path)
    if not why:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)  # it may have been replaced since
            why = "" if made and _owns_as_root(fd, status) else _why_distrusted(status)
            if not why and stat.S_IMODE(status.st_mode) & 0o077:  # of an earlier version
                os.fchmod(fd, 0o700)
        except BaseException:
            os.close(fd)
            raise
        if not why:
            return fd
        os.close(fd)
    raise ConversionError(
        f"{printable(path)}: {why}, so what it holds is not trusted. Have it removed, or choose another destination"
    )


def _owns_as_root(home: int, status: os.stat_result) -> bool:
    """Whether root is the one to whom a directory belongs: a new file in it gets the same owner."""
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
    """A path of an open directory that cannot be given to another one, for all processes of the user on this machine.

    Args:
        fd: The directory.
        path: Its name.

    Returns:
        The name, if only the caller and root can give it to something else, or the system has no other path.
    """
    if may_be_renamed(path):
        place = Path(f"/proc/{os.getpid()}/fd/{fd}")
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(place), os.fstat(fd)):
                return place
    return path


def may_be_renamed(path: Path) -> bool:
    """Whether somebody else may give the name of a directory of the caller's to something else."""
    status = os.stat(path.parent)
    anybody = status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
    return bool(anybody) or status.st_uid not in (0, os.geteuid())


@contextlib.contextmanager
def held(path: Path) -> Iterator[Path]:
    """A private directory that is there, by a path that stays its own while the block runs; see `reached`.

    Raises:
        ConversionError, FileNotFoundError: As of `check_private`.
    """
    fd = open_private(path)
    try:
        yield reached(fd, path)
    finally:
        os.close(fd)


def distrusted(path: str | os.PathLike[str]) -> str:
    """Why a directory cannot be taken for the caller's own; "" when it can.

    Raises:
        FileNotFoundError: It is not there.
    """
    return _why_distrusted(os.lstat(path))


def _why_distrusted(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return f"is a link that {_name_of(status.st_uid)} has made, not a directory"
    if not stat.S_ISDIR(status.st_mode):
        return f"is no directory, and belongs to {_name_of(status.st_uid)}"
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
    """Open a file that is there, if it is a regular one of the caller's own, whatever lies at its directory's name now.

    Raises:
        FileNotFoundError: It is not there, or is not the caller's.
        OSError: It is a link, or cannot be read.
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
    """Where the user's files of a kind belong, by the XDG Base Directory specification; may not exist.

    Args:
        kind: "CACHE" or "STATE".
        otherwise: Below the home directory.

    Raises:
        FileNotFoundError: There is no home directory: neither HOME nor the system's list of users has one.
    """
    named = os.environ.get(f"XDG_{kind}_HOME", "")
    place = Path(named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), otherwise))
    if not place.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "No home directory")
    return place / "tokfmt"


def take_lock(path: Path, *, shared: bool = False, patience: float = 0, existing: bool = False) -> int:
    """Lock a file, made if need be, and write into it who holds it.

    Args:
        path: The file.
        shared: Several may hold it at a time.
        patience: Seconds to wait for whoever holds it.
        existing: Lock only a file that is there, and that is empty or says who held it: a lock of tokfmt.

    Returns:
        A descriptor that holds the lock, for `release`; -1 when it is taken, or its directory is going.
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
    """Lock a directory of the caller's own whose process has died, to remove it with `remove_private`.

    Only a directory with a lock that tokfmt wrote counts: in a directory where others may write, they can give the name
    of a leftover to any directory of the caller's.

    Returns:
        A descriptor, for `release`; -1 if the process lives, or the directory is not a leftover.

    Raises:
        OSError: It cannot be looked at.
    """
    if distrusted(home):
        return -1
    with contextlib.suppress(ConversionError), held(home) as place:
        try:
            status = os.lstat(place / "lock")
        except FileNotFoundError:
            os.rmdir(home)  # killed before it made its lock; a directory that holds anything is not a leftover
        else:
            return take_lock(place / "lock", existing=True) if stat.S_ISREG(status.st_mode) else -1
    return -1


def remove_private(home: Path, lock: int, opened: int = -1) -> None:
    """Remove a private directory whose lock the caller holds; the lock goes last.

    A process that is killed meanwhile leaves a directory that `lock_dead` still knows. If another directory has got the
    name since, nothing is removed.

    Args:
        home: The directory.
        lock: From `take_lock` or `lock_dead`; -1: a signal came before it was known, so there is nothing but the lock.
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
    """Remove what an open directory holds, by names in it alone, if it is the caller's own and holds the lock."""
    names = os.listdir(home)
    there = os.stat("lock", dir_fd=home, follow_symlinks=False)
    ours = names == ["lock"] if lock < 0 else os.path.samestat(os.fstat(lock), there)
    if not ours or _why_distrusted(os.fstat(home)):
        return
    for name in names:
        if name != "lock":
            _remove_entry(home, name)
    if os.listdir(home) == ["lock"]:  # else it stays known, and the next run removes the rest
        os.unlink("lock", dir_fd=home)


def _remove_entry(home: int, name: str) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=home, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=home)
        else:
            os.unlink(name, dir_fd=home)


def release(lock: int) -> None:
    """Give back what `take_lock` gave."""
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
    """Whether the process that has signed a lock may still live."""
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
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(fd, 0)
        os.write(fd, name)


def holder(path: Path) -> str:
    """Who holds a lock: "process 4711 on node7"; and how to get rid of one that nobody can tell to be free."""
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
    """A private directory that goes when it is closed, or with this object, or with the next one if the process is
    killed; a context manager.

    Attributes:
        path: The directory.
    """

    def __init__(self) -> None:
        """Make it.

        Raises:
            OutageError: There is no room.
        """
        parent = Path(tempfile.gettempdir())
        with writing(parent):
            _remove_dead(parent)
            lock = fd = -1
            while lock < 0:  # else somebody took it for a dead one
                if fd >= 0:
                    os.close(fd)
                name = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
                fd = open_private(name, made=True)
                self.path = reached(fd, name)
                lock = take_lock(self.path / "lock")
        self._finalizer = weakref.finalize(self, _remove, name, fd, lock, os.getpid())

    def close(self) -> None:
        """Remove it."""
        self._finalizer()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(path: Path, fd: int, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not what a forked child inherits
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
