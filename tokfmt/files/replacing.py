"""Decide what at a destination may be replaced, and give a replacement its permissions.

A regular file may be replaced, and so may a directory that holds only a dataset. A device, a FIFO, a socket, a mount
point, the current directory and the home directory are never replaced. A link is followed: its target is replaced, and
the link stays. A replacement gets the owner and the permissions of what it replaces. A new output gets at most the read
permissions of its sources.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import overload

from tokfmt.errors import ConversionError
from tokfmt.files.file import open_file, walk
from tokfmt.files.place import LocalPlace, Place, PlaceLike, refuse_address
from tokfmt.wording import printable, shortened

Objection = Callable[[Place], str]
"""Returns the reason not to replace a file or directory, such as "it is a directory"; "" if it may be replaced."""

ANYBODY = 0o777
_LINKS = 40
_SHOWN = 80  # characters of an impossible name in a message
_DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd")
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@overload
def resolve_link(path: str | os.PathLike[str]) -> LocalPlace: ...
@overload
def resolve_link(path: Place) -> Place: ...
def resolve_link(path: PlaceLike) -> Place:
    """Return the absolute path that a write to `path` changes: links at its end are followed, even broken ones.

    An address in a store is returned as it is.

    A link is followed only if it belongs to the caller, root, or the owner of its directory. The kernel has the same
    rule for directories like /tmp (`protected_symlinks`).
    """
    if isinstance(path, Place) and not path.is_local:
        return path
    return _link_resolved(LocalPlace(path.text if isinstance(path, Place) else path))


def _link_resolved(path: LocalPlace) -> LocalPlace:
    refuse_address(path, "written")
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair
        possible = False
    if not possible:
        raise _impossible(path)
    if os.fspath(path) == "-":
        raise ConversionError("-: is standard output, which cannot hold this output. Name a file")
    place = path.normalized()
    for _ in range(_LINKS):
        if _DESCRIPTORS.fullmatch(os.path.realpath(place.parent)):
            raise ConversionError(f"{printable(path)}: is an open file of a process, not a place. Standard output is -")
        try:
            link = os.lstat(place)
            if not stat.S_ISLNK(link.st_mode):
                return place
            trusted = (os.geteuid(), 0, os.stat(place.parent).st_uid)
            target = os.path.join(place.parent, os.readlink(place)).rstrip("/") or "/"
        except OSError as error:  # The path does not exist, or cannot be examined.
            if error.errno == errno.ENAMETOOLONG:
                raise _impossible(path) from None
            return place
        if link.st_uid not in trusted:
            raise ConversionError(
                f"{printable(place)}: is a link that user {link.st_uid} has made, so it is not followed. "
                "Choose another destination"
            )
        name = os.path.basename(target)
        place = LocalPlace(os.path.realpath(target if name in ("", ".", "..") else os.path.dirname(target)))
        place = place if name in ("", ".", "..") else place / name
    raise ConversionError(f"{printable(path)}: a loop of symbolic links. Choose another destination")


def _impossible(path: str | os.PathLike[str]) -> ConversionError:
    name = shortened(printable(path), _SHOWN)
    return ConversionError(f"{name}: no file can have this name. Choose another destination")


def no_directory(path: Place) -> str:
    """Object to the replacement of a directory."""
    return "it is a directory" if path.is_dir() else ""


def begins_with(kind: str, *beginnings: bytes) -> Objection:
    """Return an objection to a directory, and to a non-empty file that does not begin like a file of a kind."""

    def objection(path: Place) -> str:
        if path.is_dir():
            return no_directory(path)
        file = open_file(path, may_be_page=True)
        head = file.read(0, min(64, file.size)).lstrip()
        file.close()
        return "" if not head or head.startswith(beginnings) else f"it is not a {kind}"

    return objection


def obstacle(path: Path, objection: Objection) -> str:
    """Return the reason why a path cannot be replaced, such as "it is a FIFO"; "" if it can, or does not exist."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return f"it is {_KINDS.get(stat.S_IFMT(mode), 'no file')}"
    real = Path(os.path.realpath(path))
    for point in _mount_points():
        if real == point or real in point.parents:
            return "it is a mount point" if real == point else f"{printable(point)} in it is a mount point"
    for where, role in _stood_in():
        if real == where or real in where.parents:
            return f"it {'is' if real == where else 'contains'} {role}"
    return objection(LocalPlace(path))


def _stood_in() -> list[tuple[Path, str]]:
    places = [(Path(os.path.realpath(os.path.expanduser("~"))), "your home directory")]
    with contextlib.suppress(OSError):  # The current directory was removed.
        places.insert(0, (Path(os.path.realpath(os.getcwd())), "the current directory"))
    return places


def _mount_points() -> list[Path]:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            points = [line.split()[4] for line in file]
    except (OSError, IndexError):
        return []
    return [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), point))) for point in points]


def inherit(new: Path, old: Path) -> None:
    """Give a replacement the owner and permissions of `old`, as far as the caller may, before it is visible.

    Files in a directory get the permissions that all files of the old directory have. A file never gets the set-user-ID
    or set-group-ID bit: the user who planted `old` could run the content of the source as the caller.
    """
    status = os.lstat(old)
    if not stat.S_ISDIR(status.st_mode):
        _give(new, status, status.st_mode & ANYBODY)
        return
    allowed = ANYBODY
    for base, names in walk(old):
        for name in names:
            allowed &= os.lstat(base / name).st_mode
    for base, names in walk(new):
        for name in names:
            _give(base / name, status, allowed & 0o666 | stat.S_IRUSR | stat.S_IWUSR)
        _give(base, status, stat.S_IMODE(status.st_mode))


def readable_by(files: Iterable[Place]) -> int:
    """Return the permissions that all local files of the sources have. The output gets no more."""
    allowed = ANYBODY
    for file in files:
        if file.is_local:
            allowed &= os.stat(file.text).st_mode
    return allowed


def _give(path: Path, like: os.stat_result, mode: int) -> None:
    status = os.lstat(path)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.chown(path, like.st_uid if not os.geteuid() else -1, like.st_gid)
        except OSError:  # The group differs, so it gets at most the permissions of all other users.
            mode &= ~0o070 | (mode & 0o007) << 3
    os.chmod(path, mode)


def restrict(path: Path, allowed: int) -> None:
    """Remove permissions that are not in `allowed` from a file, or from all files of a directory.

    The set-group-ID bit of directories stays: files made in the directory of a group belong to the group.
    """
    if allowed & 0o066 == 0o066 or not os.path.lexists(path):
        return
    wanted = allowed | stat.S_IRWXU | (allowed & 0o444) >> 2
    for base, names in walk(path) if path.is_dir() else [(path.parent, [path.name])]:
        for entry in [*(base / name for name in names), *([base] if path.is_dir() else [])]:
            mode = stat.S_IMODE(os.lstat(entry).st_mode)
            if mode & ANYBODY & ~wanted:
                os.chmod(entry, mode & (wanted | ~ANYBODY))


def remove(path: Path, files: Sequence[Path]) -> bool:
    """Remove `files` below a directory, and directories that are then empty. Return True if nothing is left.

    Links are not followed, even if one is in the place of a subdirectory since `files` were listed.
    """
    wanted = {os.fspath(file) for file in files}
    with contextlib.suppress(OSError):
        for base, directories, names, fd in os.fwalk(path, topdown=False):
            for name in (*names, *directories):
                with contextlib.suppress(OSError):
                    if os.path.join(base, name) in wanted:
                        os.unlink(name, dir_fd=fd)
                    elif name in directories:
                        os.rmdir(name, dir_fd=fd)
        os.rmdir(path)
    return not os.path.lexists(path)
