"""What stands at a destination, and whether it may be replaced.

A regular file may be, and a directory that holds nothing but a dataset; never a device, a FIFO, a socket, a mount
point, or a directory that somebody stands in. A link is followed: what it points at is replaced, and the link stays.
What replaces something gets its owner and permissions; what replaces nothing may be read by whom its sources may.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tokfmt.core.errors import ConversionError, printable
from tokfmt.core.files import walk

Objection = Callable[[Path], str]
"""Why a file or directory is not to be replaced, as "it is a directory"; "" when it may be."""

ANYBODY = 0o777
_LINKS = 40
_DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd")
_KINDS = {
    stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def followed(path: str | os.PathLike[str]) -> Path:
    """The absolute path that writing to `path` means: links at its end are followed, dangling ones too.

    As the kernel does it in directories like /tmp (`protected_symlinks`): a link counts only if it was made by the
    caller, root, or the owner of its directory.

    Raises:
        ConversionError: A loop; a link that somebody else has made; an open file of this process (/dev/stdout).
    """
    if os.fspath(path) == "-":
        raise ConversionError("-: is standard output, which takes no such thing. Name a file")
    place = Path(os.path.abspath(path))
    for _ in range(_LINKS):
        if _DESCRIPTORS.fullmatch(os.path.realpath(place.parent)):
            raise ConversionError(f"{printable(path)}: is an open file of a process, not a place. Standard output is -")
        try:
            link = os.lstat(place)
            if not stat.S_ISLNK(link.st_mode):
                return place
            trusted = (os.geteuid(), 0, os.stat(place.parent).st_uid)
            target = os.path.join(place.parent, os.readlink(place)).rstrip("/") or "/"
        except OSError:  # nothing there, or nothing to be told of it
            return place
        if link.st_uid not in trusted:
            raise ConversionError(
                f"{printable(place)}: is a link that user {link.st_uid} has made, so it is not followed. "
                "Choose another destination"
            )
        name = os.path.basename(target)
        place = Path(os.path.realpath(target if name in ("", ".", "..") else os.path.dirname(target)))
        place = place if name in ("", ".", "..") else place / name
    raise ConversionError(f"{printable(path)}: a loop of symbolic links. Choose another destination")


def no_directory(path: Path) -> str:
    """The objection of whoever replaces files only."""
    return "it is a directory" if path.is_dir() else ""


def begins_with(kind: str, *beginnings: bytes) -> Objection:
    """The objection to a directory, and to a file that is not empty and does not begin like one of a kind."""

    def objection(path: Path) -> str:
        if path.is_dir():
            return no_directory(path)
        with open(path, "rb") as file:
            head = file.read(64).lstrip()
        return "" if not head or head.startswith(beginnings) else f"it is no {kind}"

    return objection


def obstacle(path: Path, objection: Objection) -> str:
    """Why what stands at `path` cannot be replaced, as "it is a FIFO"; "" when it can, or nothing is there.

    Args:
        path: A destination; see `followed`.
        objection: Of the caller's, to what may be replaced as far as the file system goes.
    """
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
    for where, what in _stood_in():
        if real == where or real in where.parents:
            return f"it {'is' if real == where else 'contains'} {what}"
    return objection(path)


def _stood_in() -> list[tuple[Path, str]]:
    found = [(Path(os.path.realpath(os.path.expanduser("~"))), "your home directory")]
    with contextlib.suppress(OSError):  # it was removed
        found.insert(0, (Path(os.path.realpath(os.getcwd())), "the current directory"))
    return found


def _mount_points() -> list[Path]:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            points = [line.split()[4] for line in file]
    except (OSError, IndexError):
        return []
    return [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), point))) for point in points]


def inherit(new: Path, old: Path) -> None:
    """Give what replaces `old` its owner and permissions, as far as the caller may; before anybody can see it.

    Files in a directory get what all files of the old one allow.
    """
    status = os.lstat(old)
    if not stat.S_ISDIR(status.st_mode):
        _give(new, status, stat.S_IMODE(status.st_mode))
        return
    allowed = ANYBODY
    for base, names in walk(old):
        for name in names:
            allowed &= os.lstat(base / name).st_mode
    for base, names in walk(new):
        for name in names:
            _give(base / name, status, allowed & 0o666 | stat.S_IRUSR | stat.S_IWUSR)
        _give(base, status, stat.S_IMODE(status.st_mode))


def readable_by(files: Iterable[Path]) -> int:
    """Permissions that all files of the sources give: what is made of them has no more."""
    allowed = ANYBODY
    for file in files:
        allowed &= os.stat(file).st_mode
    return allowed


def _give(path: Path, like: os.stat_result, mode: int) -> None:
    status = os.lstat(path)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.chown(path, like.st_uid if not os.geteuid() else -1, like.st_gid)
        except OSError:  # another group must not get what was the old one's to read
            mode &= ~0o070 | (mode & 0o007) << 3
    os.chmod(path, mode)


def restrict(path: Path, allowed: int) -> None:
    """Take away permissions that are not `allowed` (of its sources), from a file or all of a directory."""
    if allowed & 0o066 == 0o066 or not os.path.lexists(path):
        return
    wanted = allowed | stat.S_IRWXU | (allowed & 0o444) >> 2
    for base, names in walk(path) if path.is_dir() else [(path.parent, [path.name])]:
        for entry in [*(base / name for name in names), *([base] if path.is_dir() else [])]:
            mode = stat.S_IMODE(os.lstat(entry).st_mode)
            if mode & ~wanted:
                os.chmod(entry, mode & wanted)


def remove(path: Path, files: Sequence[Path]) -> bool:
    """Remove these files below a directory, and the directories that are empty then; whether all of it is gone."""
    for file in files:
        with contextlib.suppress(OSError):
            os.unlink(file)
    for base, _ in walk(path):
        with contextlib.suppress(OSError):
            os.rmdir(base)
    return not os.path.lexists(path)
