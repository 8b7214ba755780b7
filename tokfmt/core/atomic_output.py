"""Atomic output: a destination is complete, or not written.

A destination `DST` is built in a hidden sibling directory and appears by one rename:

    .DST.tokfmt-8hexdigits/      of one process
        lock                     locked with flock while the process lives
        build/DST                the output while it is written
        scratch/                 shards of tokenized text, spilled arrays

`renameat2` publishes without replacing (RENAME_NOREPLACE), or swaps old and new in one step (RENAME_EXCHANGE), so that
the path is never missing. The next start removes siblings of dead processes.

A sibling with a fixed name (`.DST.tokfmt-resume`, `.DST.tokfmt-tasks`) may outlive its process. The next run takes it
over, and only a run that is not resumable removes it. The lock is a file, because a directory cannot be locked on NFS.
Siblings are private (`core.locks`): other users cannot read, create or change them. `core.output` decides what may be
replaced, before the rename and again after it.

Of several destinations, the splits of one run, each appears complete. The files beside them, and at the very end their
manifests, follow when all are there (`publish_all`). So a process that is killed leaves each split old or new, and a
new one without its manifest if another one may be missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TypeVar

from tokfmt.core.errors import ConversionError, DestinationExistsError, OutageError, TokfmtError, replace_paths
from tokfmt.core.files import walk, write_error, write_reason, writing
from tokfmt.core.format import everything_in
from tokfmt.core.locks import check_private, holder, lock_dead, make_private, release, remove_private, take_lock
from tokfmt.core.output import ANYBODY, Objection, inherit, no_directory, obstacle, remove, resolve_link, restrict
from tokfmt.core.place import Place, PlaceLike, Url
from tokfmt.core.text_format import printable

_OLD, _DRAFT = ".old", ".draft"
_ABSENT, _UNKNOWN = 0, -1  # No inode has these numbers.
_TRIES, _PAUSE = 20, 0.05
_AT_FDCWD = -100
NOREPLACE, EXCHANGE = 1, 2
# Errors of file systems without hard links, such as FAT and some FUSE file systems.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EXDEV)

_Seen = TypeVar("_Seen")
Beside = Mapping[str, bytes | Path | None]
Belonging = Mapping[Path, Path | None]
KEPT = ("resume", "tasks")
"""Siblings that may outlive their process."""
finished: deque[PlaceLike] = deque(maxlen=1000)
"""The last destinations of this process. A signal handler that runs after the work reports that they are complete."""


class Staging:
    """A context manager that builds `destination` in a hidden sibling. Without `publish`, it leaves no file behind.

    Attributes:
        destination: Path of the output; links are followed.
        home: Path of the hidden sibling.
        path: Path at which the output is built. It has the name of the destination.
        given: The destination as the user gave it, for messages.
        scratch: A directory for intermediate files, removed at the end.
        keep: Keep the sibling at the end. Needs `kept`, which sets it from the start.
        removed: Names of kept siblings of dead processes that were removed.
    """

    def __init__(
        self,
        destination: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        objection: Objection = no_directory,
        readable: int = ANYBODY,
        kept: str = "",
        shared: bool = False,
        companions: Sequence[str] = (),
        given: Place | None = None,
    ) -> None:
        """Choose a hidden sibling of `destination`. Creates no file yet.

        Args:
            destination: The destination.
            overwrite: Allow the replacement of an existing file or directory.
            objection: Returns the reason not to replace an existing one. By default, directories are not replaced.
            readable: Permissions that a new output has at most: those of its sources. A replacement takes over the
                permissions of what it replaces.
            kept: Name ("resume", "tasks") of a sibling that outlives its process, and is taken over if it exists.
            shared: Several processes work in the sibling at the same time.
            companions: Names of files that belong to the destination, and appear after it if they were built. If one
                was not built, an existing file of that name is removed.
            given: The destination for messages (default: `destination`).

        Raises:
            ConversionError: If the destination is a link that must not be followed.
        """
        self.destination = resolve_link(destination)
        self.given: PlaceLike = destination if given is None else given
        self.overwrite, self.objection, self.readable = overwrite, objection, readable
        self.keep, self._sealed = bool(kept), False
        self._inode, self._replaced, self._published = _UNKNOWN, _ABSENT, False
        self._began = 0
        self.removed: tuple[str, ...] = ()
        self._kept, self._shared = kept, shared
        self._lock = -1
        self.companions = tuple(companions)
        self._placed: dict[Path, int] = {}
        self._settle()

    def _settle(self) -> None:
        self.home = hidden_sibling(self.destination, self._kept or os.urandom(4).hex())
        self.path = self._built()
        self.scratch = self.home / "scratch"

    def _built(self) -> Path:
        return self.home / "build" / self.destination.name

    def __enter__(self) -> Staging:
        new = bool(self._kept) and not os.path.lexists(self.home)
        if self._kept and not new:
            with writing(self.given):
                check_private(self.home)
        self._inode = self._recorded_inode() if self._kept else _UNKNOWN
        if not self.published:
            self.check_replaceable()
        try:
            self.removed = remove_leftovers(self.destination, spare=bool(self._kept))
            self._occupy()
            make_private(self.path.parent, taken_over=True)
            make_private(self.scratch, taken_over=True)
        except BaseException as error:  # This includes signals.
            self._leave()
            if new:
                self._take_back()
            if isinstance(error, OSError):
                raise write_error(self.given, error) from error
            raise
        if self.published:
            self.path = self.destination
        return self

    def _take_back(self) -> None:
        """Remove a kept sibling that is still empty, unless another run has taken it over meanwhile."""
        with contextlib.suppress(OSError, ConversionError):
            lock = lock_dead(self.home)
            if lock >= 0:
                if set(os.listdir(self.home)) <= {"lock", "build", "scratch"}:
                    remove_private(self.home, lock)
                release(lock)

    def check_replaceable(self) -> None:
        """Raise an error for an existing destination that must not be replaced.

        Raises:
            DestinationExistsError: If `overwrite` is False.
            ConversionError: If it is of a kind that is never replaced, or holds files that do not belong to the
                dataset.
        """
        try:
            why = self._steadily(lambda: obstacle(self.destination, self.objection))
        except TokfmtError as error:  # The existing directory cannot be listed.
            replace_paths(error, self.destination, self.given)
            raise
        if os.path.lexists(self.destination) and not self.overwrite:
            raise DestinationExistsError(self.given, why)
        if why:
            raise self._not_replaced(why)
        for companion in map(self.destination.with_name, self.companions):
            why = obstacle(companion, no_directory)
            if os.path.lexists(companion) and not self.overwrite and not self.published:
                raise DestinationExistsError(companion, why)
            if why:
                raise ConversionError(f"{printable(companion)}: is not replaced: {why}. Choose another destination")

    def _steadily(self, look: Callable[[], _Seen]) -> _Seen:
        """Look at the destination. Look again if another run replaced it meanwhile: the look saw parts of both."""
        for _ in range(_TRIES):
            before = _inode(self.destination)
            try:
                seen = look()
            except (OSError, TokfmtError):
                if _inode(self.destination) == before:
                    raise
            else:
                if not seen or _inode(self.destination) == before:
                    return seen
        return look()

    def _not_replaced(self, why: str) -> ConversionError:
        return ConversionError(f"{printable(self.given)}: is not replaced: {why}. Choose another destination")

    def _occupy(self) -> None:
        """Create the sibling, or take it over, and lock it."""
        absent: FileNotFoundError | None = None
        for _ in range(_TRIES):
            try:
                make_private(self.home, taken_over=bool(self._kept))
            except FileExistsError:  # Another run has the same random name.
                self._settle()
                continue
            except FileNotFoundError as error:  # Another run removed it as a leftover, or the parent is missing.
                if not os.path.lexists(self.home.parent):
                    raise
                absent = error
                self._settle()
                continue
            absent = None
            self._lock = take_lock(self.home / "lock", shared=self._shared)
            if self._lock >= 0:
                self._began = os.fstat(self._lock).st_ctime_ns
                return
            time.sleep(_PAUSE)  # Another process removes it, or works in it.
            self._settle()
        if absent is not None:
            raise absent
        raise ConversionError(
            f"{printable(self.destination)}: another tokfmt is writing it now ({self.home.name} is locked by "
            f"{holder(self.home / 'lock')}). Wait for it, or stop it"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.published:
                finished.append(self.given)
            self._leave()
        except BaseException as stop:  # A signal interrupted `_leave`: clean up again.
            self._leave()
            self._note_state(stop)
            raise
        if isinstance(error, TokfmtError):
            replace_paths(error, self._built(), self.given)
            for name in self.companions:
                shown_as = self.given if isinstance(self.given, Url) else Path(self.given)
                replace_paths(error, self._built().with_name(name), shown_as.with_name(name))
            scratch = rf"{re.escape(printable(self.scratch))}/[^\s:]+"  # Names of scratch files mean nothing to users.

            def shown(text: str) -> str:
                return re.sub(scratch, lambda _: printable(self.given), text)

            error.args = tuple(shown(str(said)) for said in error.args)
        if error is not None:
            self._note_state(error)

    def _note_state(self, error: BaseException) -> None:
        if self.published:
            error.add_note(is_whole(self.given))
        elif isinstance(error, OutageError) and not self.keep:
            error.add_note("Nothing was left behind")

    def seal(self) -> None:
        """Flush the output to the disk. No write may follow."""
        if self._sealed:
            return
        with writing(self.given):
            sync_tree(self.path)
        self._sealed = True

    def publish(self, beside: Beside = MappingProxyType({})) -> None:
        """Flush the output to the disk and make it visible in one step, followed by the files beside it.

        Args:
            beside: See `prepare`.

        Raises:
            DestinationExistsError: If another process created the destination meanwhile, and `overwrite` is False.
        """
        publish_all({self: beside})

    def prepare(self, beside: Beside) -> Belonging:
        """Flush the output, and the files beside it, to the disk under hidden names.

        Args:
            beside: Name of each small file beside the destination, with its content, the path where it was built in the
                hidden sibling, or None for a file that must not exist. An older file is removed before the destination
                appears, so that it never describes another destination.

        Returns:
            For each path beside the destination, the draft that gets this name (None: no file).
        """
        built = self._built()
        places = {name: (built.with_name(name), self.home / f"{name}{_DRAFT}") for name in self.companions}
        there: dict[str, Path | None] = {
            name: built if built.exists() or draft.exists() else None  # None: a companion that was not built.
            for name, (built, draft) in places.items()
            if not self.published or built.exists() or draft.exists()
        }
        beside = {**there, **beside}  # A killed run may have moved some to their final names.
        with self.explained():
            if not self.published:
                self._permit()
            drafts = {name: self._draft(name, text) for name, text in beside.items() if text is not None}
            if not self.published:
                self.seal()
                self._inode = os.lstat(self.path).st_ino
                if self._kept:
                    write_whole(self.home / "published", str(self._inode).encode())
        return {self.destination.with_name(name): drafts.get(name) for name in beside}

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise an OSError inside the context as an error with the destination and its state."""
        try:
            yield
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            raise self._failure(error) from error

    @property
    def published(self) -> bool:
        """True if the destination is complete: now, or since an earlier run that was killed before its end.

        A rename keeps the inode, so the property is right from the rename on, even if a signal comes directly after it.
        """
        self._published = self._published or self._is_own()
        return self._published

    def _is_own(self) -> bool:
        """Return whether the destination is what was built here."""
        return _inode(self.destination) == self._inode

    def _recorded_inode(self) -> int:
        """Return the inode that an earlier run was about to publish from this sibling; -1 without one."""
        try:
            return int((self.home / "published").read_bytes())
        except (OSError, ValueError):
            return _UNKNOWN

    def appear(self, beside: Iterable[Path]) -> None:
        """Rename the output to its destination in one step. Does no work that takes time.

        Args:
            beside: Paths of files beside it, which are moved away first.
        """
        if self.published:
            return
        for tries_left in reversed(range(_TRIES)):
            self._replaced = _inode(self.destination)
            there = self._replaced != _ABSENT
            self.check_replaceable()
            for path in beside:
                self._move_away(path, replaced=there)
            try:
                rename(self.path, self.destination, EXCHANGE if there else NOREPLACE)
            except FileExistsError:  # It was created since the check.
                if not self.overwrite or not tries_left:
                    raise
            except FileNotFoundError:  # It was removed since the check.
                if not there or not tries_left:
                    raise
            else:
                self._check_replaced()
                self._published = True
                return

    def _check_replaced(self) -> None:
        """Check the replaced output again, now that it cannot change. Undo the replacement if it gained files."""
        old = self._old()
        why = obstacle(old, self.objection) if old is not None else ""
        if why:
            self.withdraw()
            raise self._not_replaced(why)

    def _old(self) -> Path | None:
        """Return the path of the replaced output, which waits for its removal; None without one."""
        return next((p for p in (replaced_path(self._built()), self._built()) if os.path.lexists(p)), None)

    def _permit(self) -> None:
        """Set permissions before the output is visible: those of the replaced output, or at most the sources'."""
        if os.path.lexists(self.destination):
            self._steadily(lambda: inherit(self.path, self.destination))
        else:
            restrict(self.path, self.readable)

    def _move_away(self, beside: Path, *, replaced: bool) -> None:
        """Move a file beside the destination away, unless another process made it together with the destination."""
        with contextlib.suppress(FileNotFoundError):
            if replaced or os.lstat(beside).st_ctime_ns < self._began:
                os.replace(beside, self.home / f"{beside.name}{_OLD}")

    @property
    def is_partial(self) -> bool:
        """True if a companion has not appeared, so that the destination is not complete."""
        return any((self.home / f"{name}{_DRAFT}").exists() for name in self.companions)

    def _bring_back(self) -> None:
        """Move files beside the destination back, if the destination is still, or again, the old one."""
        if _inode(self.destination) == self._replaced:
            for old in self.home.glob(f"*{_OLD}"):
                os.replace(old, self.destination.with_name(old.name.removesuffix(_OLD)))

    def accompany(self, belongs: Belonging, *, companions: bool) -> None:
        """Move files beside the destination to their names, unless another run has replaced the destination.

        Args:
            belongs: The draft of each; see `prepare`.
            companions: Move those that are part of the dataset, or else all others.
        """
        for beside, draft in belongs.items():
            if (beside.name in self.companions) is not companions:
                continue
            if not self._is_own():
                return
            if draft is None:
                beside.unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError):  # It was moved already, or removed since.
                mine = os.lstat(draft)
                os.replace(draft, beside)
                self._placed[beside] = mine.st_ino
                if not self._is_own() and os.path.samestat(os.lstat(beside), mine):
                    beside.unlink()

    def _draft(self, name: str, content: bytes | Path) -> Path:
        draft = self.home / f"{name}{_DRAFT}"
        if isinstance(content, Path):
            if content.exists() or not draft.exists():
                os.replace(content, draft)
            sync_tree(draft)
        else:
            draft.unlink(missing_ok=True)
            with open(draft, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for old in (self.destination.with_name(name), self.home / f"{name}{_OLD}"):
            with contextlib.suppress(FileNotFoundError):  # Another run removes it.
                if old.is_file() and not old.is_symlink():
                    inherit(draft, old)
                    return draft
        restrict(draft, os.stat(self.destination if self.published else self.path).st_mode)
        return draft

    def _failure(self, error: OSError) -> ConversionError:
        if not self.published:
            return write_error(self.given, error)
        what = "may not survive a crash, or lack the files beside it"
        return ConversionError(f"{printable(self.given)}: {what}: {write_reason(error)}")

    def withdraw(self) -> None:
        """Undo `publish`: the destination is again what it was before."""
        self._published = False
        for beside, inode in self._placed.items():
            if _inode(beside) == inode:
                os.replace(beside, self.home / f"{beside.name}{_DRAFT}")
        self._placed.clear()
        if self._is_own():
            self.path = self._built()
            if os.path.lexists(self.path):  # What was replaced.
                rename(self.path, self.destination, EXCHANGE)
            else:
                rename(self.destination, self.path, NOREPLACE)
                if os.path.lexists(replaced_path(self.path)):
                    os.rename(replaced_path(self.path), self.destination)
        self._bring_back()

    def _leave(self) -> None:
        if not self.keep:
            self._discard()
        if self._lock >= 0:
            release(self._lock)
            self._lock = -1

    def _discard(self) -> None:
        old = self._old() if self.published else None
        if old is not None and old.is_dir():
            self._remove_old(old)
        if self._kept:  # Another run must not take over a half-removed sibling.
            kept, self._kept = self.home, ""
            self.home = hidden_sibling(self.destination, os.urandom(4).hex())
            try:
                os.rename(kept, self.home)
            except OSError:
                self.home = kept
        remove_private(self.home, self._lock)

    def _remove_old(self, old: Path) -> None:
        """Remove the files of a replaced dataset. If it gained files since the last check, rename it instead."""
        try:
            gone = not self.objection(old) and remove(old, everything_in(old))
        except TokfmtError:
            gone = False
        if not gone:
            with contextlib.suppress(OSError):
                os.rename(old, self.destination.with_name(f"{self.destination.name}.old-{os.urandom(4).hex()}"))


def is_whole(destination: PlaceLike) -> str:
    """Return the note that a destination is complete, for an error after it was published."""
    return f"{printable(destination)} is complete"


def publish_all(outputs: Mapping[Staging, Beside]) -> None:
    """Publish destinations, followed by the files beside them.

    The renames follow each other directly. If one fails, those before it are undone; a process that is killed leaves
    them. Companions follow when all destinations are there, and then the other files, the last of each last.

    Args:
        outputs: The files beside each destination; see `Staging.prepare`.

    Raises:
        ConversionError: If one cannot be published.
    """
    belongs = {staging: staging.prepare(beside) for staging, beside in outputs.items()}
    appear = [(one, partial(one.appear, names)) for one, names in belongs.items()]
    follow = [
        (one, partial(one.accompany, names, companions=companions))
        for companions in (True, False)
        for one, names in belongs.items()
    ]
    current = next(iter(belongs))
    try:
        for one, step in [*appear, *follow]:
            current = one
            step()
    except BaseException as error:
        complete = all(one.published for one in belongs)
        if complete and not isinstance(error, Exception):  # After a signal, the files beside them follow all the same.
            for _, again in follow:
                again()
        elif not complete or any(one.is_partial for one in belongs):
            for one in belongs:
                one.withdraw()
        with current.explained():
            raise
    for staging in belongs:
        with staging.explained():
            sync_directory(staging.destination.parent)


def _inode(path: Path) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return _ABSENT


def hidden_sibling(destination: Path, name: str) -> Path:
    """Return the path of the directory in which a destination is built; `name` is one of `KEPT`, or random."""
    return destination.parent / f".{destination.name}.tokfmt-{name}"


def hidden_siblings(destination: Path) -> list[Path]:
    """Return all directories in which the destination is or was built, by any process or user."""
    prefix = hidden_sibling(destination, "").name
    with os.scandir(destination.parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(prefix)]
    return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]


def remove_leftovers(destination: Path, *, spare: bool = False) -> tuple[str, ...]:
    """Remove the caller's own hidden siblings of `destination` whose process is dead and whose lock is free.

    Args:
        destination: The destination.
        spare: Keep the siblings that may be taken over.

    Returns:
        Names of the removed siblings that could have been taken over.
    """
    parent, removed = destination.parent, []
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))
    for home in hidden_siblings(destination):
        kept = home.name in {hidden_sibling(destination, name).name for name in KEPT}
        if kept and spare:
            continue
        with contextlib.suppress(OSError, ConversionError):
            # Directories of other users are neither removed nor restored.
            fd = lock_dead(home)
            if fd >= 0:
                old = replaced_path(home / "build" / destination.name)
                if os.path.lexists(old) and not os.path.lexists(destination):
                    os.rename(old, destination)  # A process died between the two renames: restore the old output.
                remove_private(home, fd)
                release(fd)
                removed += [home.name] if kept else []
    return tuple(removed)


def rename(old: Path, new: Path, how: int) -> None:
    """Rename `old` to `new`, without replacement or by an exchange.

    Args:
        old: A file or directory.
        new: Its new name, on the same file system.
        how: `NOREPLACE`: `new` must not exist. `EXCHANGE`: what is at `new` gets the name `old`, or
            `replaced_path(old)` if the file system cannot exchange.

    Raises:
        FileExistsError: If `new` exists (`NOREPLACE`).
        FileNotFoundError: If `new` does not exist (`EXCHANGE`).
        OSError: If the system refuses the rename for another reason.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        rename_portably(old, new, how)
        return
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):  # An old kernel, or a file system that does not support the flags.
        rename_portably(old, new, how)
        return
    raise OSError(code, os.strerror(code), str(new))


def rename_portably(old: Path, new: Path, how: int) -> None:
    """Do the same as `rename` in several steps. An exchanged name is missing for a moment."""
    if how == EXCHANGE:
        try:
            os.rename(new, replaced_path(old))
            os.rename(old, new)
        except BaseException:  # A signal may come directly after either rename.
            if os.path.lexists(replaced_path(old)) and not os.path.lexists(new):
                os.rename(replaced_path(old), new)
            raise
    elif old.is_dir():
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(old, new)
    elif _linked(old, new):
        os.unlink(old)
    elif os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    else:
        os.rename(old, new)


def _linked(old: Path, new: Path) -> bool:
    """Link a file to a second name. Return False if the file system has no hard links."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def replaced_path(path: Path) -> Path:
    """Return the path of the replaced output on a file system that cannot exchange names."""
    return path.with_name(f"{path.name}.replaced")


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file and flush it to the disk. It is complete, or not written; an older file is replaced."""
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    with open(draft, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_directory(path.parent)


def sync_file_system(path: Path) -> None:
    """Flush everything that this machine wrote to the file system of `path` to the disk."""
    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        os.sync()
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync(fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
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
    """Fsync a directory, so that its entries survive a crash."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
