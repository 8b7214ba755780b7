"""Publish a destination: it is complete, or not written.

`Publisher` builds a destination in a hidden directory, which a backend then publishes: `LocalPublisher` by renames, and
`files.store_publisher.StorePublisher` by uploads.

    with LocalPublisher(target) as out:
        write(out.path)
        out.publish({"target.tokfmt.json": manifest})

The hidden directory is beside a local destination `DST`, and in the spool of one in a store (`files.spool`):

    .DST.tokfmt-work/
        lock                     locked with flock by the process that writes DST
        conversion.json          the request, if a later run may continue this one (`--resume`, `--task`)
        journal-0-of-1 ...       the finished work of such a run: see `files.journal`
        published                the inode of what such a run is about to publish
        run                      the run that its claim names, if DST is in a store
        build/DST                the output while it is written
        scratch/                 shards of tokenized text, spilled arrays

The name is fixed, so two processes cannot write one destination at the same time: the second one is refused when it
begins. The tasks of a conversion share the lock. A process that finds the directory of a killed one continues there if
it may, and otherwise empties it. The directory is private (`files.locks`), and its lock is a file, because a directory
cannot be locked on NFS.

`renameat2` publishes without replacing (RENAME_NOREPLACE), or swaps old and new in one step (RENAME_EXCHANGE), so that
the path is never missing. `files.replacing` decides what may be replaced, before the rename and again after it.

Of several destinations, the splits of one run, each appears complete. The files beside them, and at the very end their
manifests, follow when all are there (`publish_all`). If a step fails, the steps before it are undone. A process that is
killed leaves each split old or new, and a new one without its manifest if another one may be missing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

from tokfmt.errors import ConversionError, DestinationExistsError, OutageError, TokfmtError, replace_paths
from tokfmt.files.durable import (
    EXCHANGE,
    NOREPLACE,
    empty,
    rename,
    replace_file,
    replaced_path,
    sync_directory,
    sync_tree,
    write_new,
)
from tokfmt.files.file import everything_in, write_error, write_reason, writing
from tokfmt.files.journal import NullJournal
from tokfmt.files.locks import (
    check_private,
    holder,
    is_signed,
    lock_dead,
    make_private,
    release,
    remove_private,
    take_lock,
)
from tokfmt.files.place import LocalPlace, Place, PlaceLike, local_path
from tokfmt.files.replacing import ANYBODY, Objection, inherit, no_directory, obstacle, remove, resolve_link, restrict
from tokfmt.wording import printable

REQUEST = "conversion.json"
"""Name of the file that makes a hidden directory worth keeping: it states what is built there."""
AnyPath = TypeVar("AnyPath", bound=Path)
_SUFFIX, _OLD, _DRAFT, _INODE = ".tokfmt-work", ".old", ".draft", "published"
_ABSENT, _UNKNOWN = 0, -1  # No inode has these numbers.
_TRIES, _PAUSE = 20, 0.05

Content = bytes | Path | Callable[[], bytes] | None
FilesBeside = Mapping[str, Content]
"""The small files beside a destination, by name: the manifest, a ledger, an index. See `Publisher.publish`."""
finished: deque[PlaceLike] = deque(maxlen=1000)
"""The last destinations of this process. A signal handler that runs after the work reports that they are complete."""


class Publisher(ABC):
    """A context manager that builds a destination in a hidden directory, and leaves no file without `publish`."""

    def __init__(
        self,
        destination: LocalPlace,
        given: PlaceLike,
        *,
        overwrite: bool = False,
        kept: str = "",
        shared: bool = False,
        companions: Sequence[str] = (),
        spool: Path | None = None,
    ) -> None:
        """Choose the hidden directory. Creates no file yet. With `kept`, the directory outlives its process: of a run
        that may be continued ("resume"), or of tasks ("tasks"). If it is shared, several processes work in it at the
        same time. `companions` are names of files that belong to the destination, and appear with it if they were
        built. `spool` is the private directory that holds the hidden one of a destination in a store; it is removed at
        the end if it is empty.
        """
        # destination: path of the output, or the path that an output in a store has in the spool
        # given: for messages
        self.destination, self.given, self.overwrite, self.spool = destination, given, overwrite, spool
        # readable: permissions that a new output has at most: those of its sources
        self.companions, self.readable = tuple(companions), ANYBODY
        # keep: keep the hidden directory at the end; needs `kept`, which sets it from the start
        # removed: unfinished work of an earlier run was removed
        # journal: finished work of a run that may be continued
        self.keep, self.removed, self.journal = bool(kept), False, NullJournal()
        self.home = hidden_sibling(self.destination)
        # path: where the output is built; it has the name of the destination
        self.path = self._built = self.home / "build" / self.destination.name
        self.scratch = self.home / "scratch"  # for intermediate files, removed at the end
        self._kept, self._shared, self._lock, self._new = kept, shared, -1, False
        # is_checked: caller has checked that the destination may be replaced. `appear` checks it again.
        self._published, self.is_checked = False, False

    def __enter__(self) -> Self:
        self._new = not os.path.lexists(self.home)
        if self._kept and not self._new:
            with writing(self.given):
                check_private(self.home)
            self._recall()
        if not self.published and not self.is_checked:
            self.check_replaceable()
        try:
            self._occupy()
            for directory in (self._built.parent, self.scratch):
                make_private(directory, taken_over=True)
        except BaseException as error:  # This includes signals.
            self.keep = self.keep and not self._new
            self._leave()
            if isinstance(error, OSError):
                raise write_error(self.given, error) from error
            raise
        if self.published:
            self.path = self.destination
        return self

    # The steps of `publish_all`, which each backend has.

    @abstractmethod
    def check_replaceable(self) -> None:
        """Raise an error for an existing destination that must not be replaced."""

    @abstractmethod
    def prepare(self, beside: FilesBeside) -> FilesBeside:
        """Do all that takes time and that no reader sees, and return the files beside the output."""

    @abstractmethod
    def appear(self, beside: FilesBeside) -> None:
        """Make the output visible. It has no manifest yet."""

    @abstractmethod
    def accompany(self, drafts: FilesBeside, *, companions: bool) -> None:
        """Make files beside the output visible, the last one last: companions of the dataset, or else all others."""

    def withdraw(self) -> None:
        """Undo `appear` and `accompany`, as far as they came: the destination is again what it was before."""
        self._published = False

    def settle(self) -> None:  # noqa: B027
        """Make the publication survive a crash, and remove what it has replaced."""

    @property
    def published(self) -> bool:
        """True if the destination is complete: now, or since an earlier run that was killed before its end."""
        return self._published

    def disown(self) -> None:  # noqa: B027
        """Regard what an earlier run has published as that of another request, which only `overwrite` replaces."""

    def _recall(self) -> None:  # noqa: B027
        """Take over what an earlier process has recorded in the hidden directory."""

    def _not_replaced(self, why: str) -> ConversionError:
        return ConversionError(f"{printable(self.given)}: is not replaced: {why}. Choose another destination")

    def _occupy(self) -> None:
        """Create the sibling, or take it over, and lock it. Empty it if it holds nothing that may be continued."""
        missing: FileNotFoundError | None = None
        for _ in range(_TRIES):
            try:
                if self.spool is not None:
                    with writing(self.spool):
                        make_private(self.spool, taken_over=True)  # Another run removes it if it is empty.
                make_private(self.home, taken_over=True)
                if self._locked():
                    return
                missing = None
            except FileNotFoundError as error:  # The process that held it removes it now.
                missing = error
            if not self.home.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.home.parent))
            time.sleep(_PAUSE)
        if missing is not None:  # A file system that takes no directories, such as /proc, says that there is none.
            raise missing
        name, lock = self.home.name, self.home / "lock"
        if not is_signed(lock):
            problem = "is not a directory of tokfmt, and has the name of one"
            raise ConversionError(f"{printable(self.home)}: {problem}. Move it away, or choose another destination")
        raise ConversionError(
            f"{printable(self.given)}: another tokfmt is writing it now ({name} is locked by {holder(lock)}). "
            "Wait for it, or stop it"
        )

    def _locked(self) -> bool:
        """Lock the sibling, and return whether that was possible. Of tasks that begin, the first one empties it."""
        lock = self.home / "lock"
        if os.listdir(self.home) and not is_signed(lock):
            return False
        self._lock = take_lock(lock)
        if self._lock >= 0:
            is_continued = (self.home / REQUEST).exists()
            if not is_continued or not self._kept:
                self.removed = is_continued
                old = replaced_path(self._built)
                if os.path.lexists(old) and not os.path.lexists(self.destination):
                    os.rename(old, self.destination)  # A process died between two renames that replace in two steps.
                empty(self.home, but="lock")
            if self._shared:
                self._unlock()
        if self._shared:
            self._lock = take_lock(lock, shared=True)
        return self._lock >= 0

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            release(lock)

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
            replace_paths(error, self._built, self.given)
            for name in self.companions:
                shown_as = self.given if isinstance(self.given, Place) else LocalPlace(self.given)
                replace_paths(error, self._built.with_name(name), shown_as.with_name(name))
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

    def publish(self, beside: FilesBeside = MappingProxyType({})) -> None:
        """Flush the output to the disk and make it visible in one step, followed by the files beside it. `beside` has,
        by name, the content of each small file, a function that returns it once the destination is there, the path
        where it was built in the hidden sibling, or None for a file that must not exist. An older file is removed
        before the destination appears, so that it never describes another destination.
        """
        publish_all({self: beside})

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise an OSError inside the context as an error with the destination and its state."""
        try:
            yield
        except FileExistsError as error:
            raise DestinationExistsError(self.destination) from error
        except OSError as error:
            if not self.published:
                raise write_error(self.given, error) from error
            risk = "may not survive a crash, or lack the files beside it"
            raise ConversionError(f"{printable(self.given)}: {risk}: {write_reason(error)}") from error

    def _leave(self) -> None:
        if self._lock >= 0:
            if not self.keep:
                self._remove_old()
                with contextlib.suppress(OSError):  # Without it, what a killed process leaves is not continued.
                    os.unlink(self.home / REQUEST)
                remove_private(self.home, self._lock)
            self._unlock()
        elif self._new and not self.keep:  # A signal came before it was locked.
            _remove_unlocked(self.home, {"lock", "build", "scratch"})
        if self.spool is not None:
            with contextlib.suppress(OSError):
                self.spool.rmdir()

    def _remove_old(self) -> None:  # noqa: B027
        """Remove what was replaced, and is in the hidden directory since."""


class LocalPublisher(Publisher):
    """Publish a file or a directory of this machine by renames.

    A process that is killed

    - before the rename leaves the old destination, or none, and a hidden directory that the next run takes over;
    - between the rename and the last companion leaves the new destination without it, and without a manifest;
    - before the manifest has its name leaves the new destination without one. The older one is gone before the rename;
    - later leaves only the hidden directory.
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
    ) -> None:
        """Choose the hidden sibling of `destination`, whose links are followed. Creates no file yet. By default,
        directories are not replaced. A replacement takes over the permissions of what it replaces. If a companion was
        not built, an existing file of that name is removed.
        """
        super().__init__(
            resolve_link(destination), destination, overwrite=overwrite, kept=kept, shared=shared, companions=companions
        )
        self.objection, self.readable = objection, readable
        self._inode, self._replaced = _UNKNOWN, _ABSENT
        self._placed: dict[Path, int] = {}

    def check_replaceable(self) -> None:
        try:
            why = obstacle(self.destination, self.objection)
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

    @property
    def published(self) -> bool:
        """A rename keeps the inode, so it is right even if a signal comes directly after it."""
        self._published = self._published or self._is_own()
        return self._published

    def _is_own(self) -> bool:
        """Return whether the destination is what was built here."""
        return self._inode != _UNKNOWN and _inode(self.destination) == self._inode

    def _recall(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # An earlier run was about to publish what has this inode.
            self._inode = int((self.home / _INODE).read_bytes())

    def disown(self) -> None:
        if not self.published:
            return
        self._inode, self._published, self.path = _UNKNOWN, False, self._built
        self.check_replaceable()
        for name in os.listdir(self.home):  # Files of its publication, which must not be taken for those of this one.
            if name == _INODE or name.endswith((_DRAFT, _OLD)):
                os.unlink(self.home / name)

    def prepare(self, beside: FilesBeside) -> FilesBeside:
        """Flush the output and the files beside it under hidden names, and return these, companions first."""
        for name in self.companions:  # A killed run may have moved some to their final names.
            built, draft = self._built.with_name(name), self._draft_of(name)
            if built.exists() or draft.exists():
                beside = {name: built, **beside}
            elif not self.published:
                beside = {name: None, **beside}
        if not self.published:  # Before the output is visible, it gets the permissions of what it replaces.
            if os.path.lexists(self.destination):
                inherit(self.path, self.destination)
            else:
                restrict(self.path, self.readable)
        drafts: FilesBeside = {name: None if text is None else self._draft(name, text) for name, text in beside.items()}
        if not self.published:
            with writing(self.given):
                sync_tree(self.path)
            self._inode = os.lstat(self.path).st_ino
            if self._kept:
                replace_file(self.home / _INODE, str(self._inode).encode())
        return drafts

    def appear(self, beside: FilesBeside) -> None:
        """Move older files away and rename the output in one step, without work that takes time."""
        if self.published:
            return
        for tries_left in reversed(range(_TRIES)):
            self.check_replaceable()
            self._replaced = _inode(self.destination)
            there = self._replaced != _ABSENT
            for name in beside:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.destination.with_name(name), self.home / f"{name}{_OLD}")
            try:
                rename(self.path, self.destination, EXCHANGE if there else NOREPLACE)
            except (FileExistsError, FileNotFoundError):  # It was created or removed since the check.
                if not self.overwrite or not tries_left:
                    raise
            else:
                break
        old = self._old()
        why = obstacle(old, self.objection) if old is not None else ""
        if why:  # It gained files since the check. Now it cannot change any more.
            raise self._not_replaced(why)
        self._published = True

    def accompany(self, drafts: FilesBeside, *, companions: bool) -> None:
        for name, draft in drafts.items():
            place = self.destination.with_name(name)
            if (name in self.companions) is not companions:
                continue
            if draft is None:
                place.unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError):  # A killed run has moved it.
                self._placed[place] = os.lstat(self._draft_of(name)).st_ino
                os.replace(self._draft_of(name), place)

    def withdraw(self) -> None:
        for place, inode in self._placed.items():
            if _inode(place) == inode:
                os.replace(place, self._draft_of(place.name))
        self._placed.clear()
        self._published = False
        if self._is_own():
            self.path = self._built
            if os.path.lexists(self.path):  # What was replaced.
                rename(self.path, self.destination, EXCHANGE)
            else:
                rename(self.destination, self.path, NOREPLACE)
                if os.path.lexists(replaced_path(self.path)):
                    os.rename(replaced_path(self.path), self.destination)
        if _inode(self.destination) == self._replaced:
            for old in self.home.glob(f"*{_OLD}"):
                os.replace(old, self.destination.with_name(old.name.removesuffix(_OLD)))

    def settle(self) -> None:
        """Make the renames survive a crash."""
        sync_directory(self.destination.parent)

    def _old(self) -> Path | None:
        """Return the path of the replaced output, which waits for its removal; None without one."""
        return next((p for p in (replaced_path(self._built), self._built) if os.path.lexists(p)), None)

    def _draft_of(self, name: str) -> Path:
        return self.home / f"{name}{_DRAFT}"

    def _draft(self, name: str, content: bytes | Path | Callable[[], bytes]) -> Path:
        draft = self._draft_of(name)
        if isinstance(content, Path):
            if content.exists() or not draft.exists():
                os.replace(content, draft)
            sync_tree(draft)
        else:
            write_new(draft, content() if callable(content) else content)
        for old in (self.destination.with_name(name), self.home / f"{name}{_OLD}"):
            if old.is_file() and not old.is_symlink():
                inherit(draft, old)
                return draft
        restrict(draft, os.stat(self.destination if self.published else self.path).st_mode)
        return draft

    def _remove_old(self) -> None:
        """Remove the files of a replaced dataset. If it gained files since the last check, rename it instead."""
        old = self._old() if self.published else None
        if old is None or not old.is_dir():
            return
        try:
            gone = not self.objection(LocalPlace(old)) and remove(
                old, [local_path(file, "a dataset") for file in everything_in(old)]
            )
        except TokfmtError:
            gone = False
        if not gone:
            with contextlib.suppress(OSError):
                os.rename(old, self.destination.with_name(f"{self.destination.name}.old-{os.urandom(4).hex()}"))


def is_whole(destination: PlaceLike) -> str:
    """Return the note that a destination is complete, for an error after it was published."""
    return f"{printable(destination)} is complete"


def publish_all(outputs: Mapping[Publisher, FilesBeside]) -> None:
    """Publish destinations, followed by the files beside them.

    The renames follow each other directly. Companions follow when all destinations are there, and then the other files,
    the last of each last. If a step fails, or a signal comes, the steps before it are undone.
    """
    drafts = dict[Publisher, FilesBeside]()
    for publisher, beside in outputs.items():
        with publisher.explained():
            drafts[publisher] = publisher.prepare(beside)
    with ExitStack() as undo:
        for publisher in drafts:
            undo.callback(_undone, publisher)
        for publisher, names in drafts.items():
            with publisher.explained():
                publisher.appear(names)
        for companions in (True, False):
            for publisher, names in drafts.items():
                with publisher.explained():
                    publisher.accompany(names, companions=companions)
        undo.pop_all()
    for publisher in drafts:
        with publisher.explained():
            publisher.settle()


def _undone(publisher: Publisher) -> None:
    with contextlib.suppress(OSError):  # The error that is being raised says more.
        publisher.withdraw()


def _inode(path: Path) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return _ABSENT


def hidden_sibling(destination: AnyPath) -> AnyPath:
    """Return the path of the directory in which a destination is built."""
    return destination.parent / f".{destination.name}{_SUFFIX}"


def remove_leftover(destination: Path) -> None:
    """Remove the hidden sibling of a destination, unless a process works there."""
    _remove_unlocked(hidden_sibling(destination))


def _remove_unlocked(home: Path, holds: Container[str] = ()) -> None:
    """Remove a hidden directory in which no process works; with `holds`, only if it holds nothing but these names."""
    with contextlib.suppress(OSError, ConversionError):  # Directories of other users stay.
        lock = lock_dead(home)
        if lock >= 0:
            if not holds or all(name in holds for name in os.listdir(home)):
                remove_private(home, lock)
            release(lock)
