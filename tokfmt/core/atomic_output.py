"""Output is whole or absent.

A destination `DST` is built inside a hidden sibling directory and appears by one rename:

    .DST.tokfmt-8hexdigits/      of one process
        lock                     held with flock while it lives
        build/DST                what is being written
        scratch/                 shards of tokenised text, spilled arrays

`renameat2` publishes without replacing (RENAME_NOREPLACE), or swaps old and new in one step (RENAME_EXCHANGE) so that
the path is never missing. Siblings whose process is dead are removed at the next start.

A sibling of a fixed name (`.DST.tokfmt-resume`, `.DST.tokfmt-tasks`) may outlive its process, to be taken over by the
next one; only a run that keeps nothing removes it. The lock is a file, because a directory cannot be locked on NFS.
Siblings are private (`core.locks`): nobody else can read, make or change one that is used. What may be replaced is
said in `core.output`, and looked at again right before and after the rename. Several destinations that appear together:
`core.together`.
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
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TypeVar

from tokfmt.core.errors import ConversionError, DestinationExistsError, OutageError, TokfmtError, replace_paths
from tokfmt.core.files import walk, write_error, write_reason, writing
from tokfmt.core.format import everything_in
from tokfmt.core.locks import (
    distrusted,
    held,
    holder,
    lock_dead,
    make_private,
    open_private,
    reached,
    release,
    remove_private,
    take_lock,
)
from tokfmt.core.messages import Message
from tokfmt.core.output import ANYBODY, Objection, inherit, no_directory, obstacle, remove, resolve_link, restrict
from tokfmt.core.text_format import printable

_OLD, _DRAFT = ".old", ".draft"
_ABSENT, _UNKNOWN = 0, -1  # no inode has these numbers
_TRIES, _PAUSE = 20, 0.05
_AT_FDCWD = -100
NOREPLACE, EXCHANGE = 1, 2
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EXDEV)  # FAT, FUSE ...

_Seen = TypeVar("_Seen")
Beside = Mapping[str, bytes | Path | None]
Belonging = Mapping[Path, Path | None]
KEPT = ("resume", "tasks")
"""Siblings that may outlive their process."""
finished: deque[str | os.PathLike[str]] = deque(maxlen=1000)
"""What this process published last: a signal that comes when nothing is under way any more may say what stands."""


class Staging:
    """A place to build `destination`; a context manager that leaves nothing behind unless `publish` was called.

    Attributes:
        destination: Where the output will appear; links are followed.
        sibling: The hidden sibling, by its name.
        home: The same, by a path that others cannot give to another directory; see `core.locks`.
        path: Where to build it; same name, in the hidden sibling.
        given: The destination as it was named: so it is called in errors.
        scratch: A directory for intermediate files, removed at the end.
        keep: Leave the sibling behind at the end. Only with `kept`, and then so from the start.
        removed: Names of kept siblings of dead processes that made way.
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
        by_name: bool = False,
    ) -> None:
        """A place beside `destination`.

        Args:
            destination: What to build.
            overwrite: It may replace a file or directory.
            objection: Why not one that is there. By default directories are not replaced.
            readable: Permissions that a new output may have at most: those of its sources. What replaces something has
                that one's.
            kept: Name ("resume", "tasks") of a sibling that outlives its process and is taken over when it is there.
            shared: Several processes work in it at the same time.
            companions: Names of files that belong to the destination and appear after it, if they were built; one that
                was not goes.
            by_name: Processes on other machines work in the sibling, which have only its name.

        Raises:
            ConversionError: The destination is a link that is not to be followed.
        """
        self.destination, self.given = resolve_link(destination), destination
        self.overwrite, self.objection, self.readable = overwrite, objection, readable
        self.keep, self._sealed = bool(kept), False
        self._inode, self._replaced, self._published = _UNKNOWN, _ABSENT, False
        self._began = 0
        self.removed: tuple[str, ...] = ()
        self._kept, self._shared, self._by_name = kept, shared, by_name
        self._lock = self._fd = -1
        self.companions = tuple(companions)
        self._placed: dict[Path, int] = {}
        self._settle()

    def _settle(self) -> None:
        self._close()
        self.sibling = hidden_sibling(self.destination, self._kept or os.urandom(4).hex())
        self._reach(self.sibling)

    def _reach(self, home: Path) -> None:
        self.home = home
        self.path = self._built()
        self.scratch = home / "scratch"

    def _hold(self, *, made: bool) -> None:
        """Open the sibling, which stays this one from here on, whatever becomes of its name."""
        self._close()
        self._fd = open_private(self.sibling, made=made)
        self._reach(self.sibling if self._by_name else reached(self._fd, self.sibling))

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _built(self) -> Path:
        return self.home / "build" / self.destination.name

    def __enter__(self) -> Staging:
        try:
            return self._entered()
        except BaseException:
            self._close()
            raise

    def _entered(self) -> Staging:
        new = bool(self._kept) and not os.path.lexists(self.sibling)
        if self._kept and not new:
            with writing(self.given):
                self._hold(made=False)
        self._inode = self._told()
        if not self.published:
            self.check_replaceable()
        try:
            self.removed = remove_leftovers(self.destination, spare=bool(self._kept))
            self._occupy()
            make_private(self.path.parent, taken_over=True)
            make_private(self.scratch, taken_over=True)
        except BaseException as error:  # a signal, too
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
        """Remove a kept sibling in which nothing was done yet, unless another run has taken it over meanwhile."""
        with contextlib.suppress(OSError, ConversionError):
            lock = lock_dead(self.sibling)
            if lock >= 0:
                if set(os.listdir(self.sibling)) <= {"lock", "build", "scratch"}:
                    remove_private(self.sibling, lock)
                release(lock)

    def check_replaceable(self) -> None:
        """Refuse a destination that is there, unless it may be replaced.

        Raises:
            DestinationExistsError: Overwriting was not asked for.
            ConversionError: It is nothing that is ever replaced, or holds what is not the dataset's.
        """
        try:
            why = self._steadily(lambda: obstacle(self.destination, self.objection))
        except TokfmtError as error:  # what is there cannot be listed
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
        """Look at the destination; again if another run replaces it meanwhile, since that look sees parts of both."""
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
        """Make the sibling, or take it over, and lock it."""
        absent: FileNotFoundError | None = None
        for _ in range(_TRIES):
            try:
                made = make_private(self.sibling, taken_over=bool(self._kept))
                self._hold(made=made)
            except FileExistsError:  # of another run, by a rare chance
                self._settle()
                continue
            except FileNotFoundError as error:  # another run took it for a leftover, or nothing can be made there
                if not os.path.lexists(self.sibling.parent):
                    raise
                absent = error
                self._settle()
                continue
            absent = None
            self._lock = take_lock(self.home / "lock", shared=self._shared)
            if self._lock >= 0:
                self._began = os.fstat(self._lock).st_ctime_ns
                return
            time.sleep(_PAUSE)  # somebody is removing it, or works in it
            self._settle()
        if absent is not None:
            raise absent
        raise ConversionError(
            f"{printable(self.destination)}: another tokfmt is writing it now ({self.sibling.name} is locked by "
            f"{holder(self.home / 'lock')}). Wait for it, or stop it"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.published:
                finished.append(self.given)
            self._leave()
        except BaseException as stop:  # a signal in the middle of it: all the same, nothing stays
            self._leave()
            self._say_what_stays(stop)
            raise
        if isinstance(error, TokfmtError):
            replace_paths(error, self._built(), self.given)
            for name in self.companions:
                replace_paths(error, self._built().with_name(name), Path(self.given).with_name(name))
            scratch = rf"{re.escape(printable(self.scratch))}/[^\s:]+"  # what is under way there is nobody's business

            def shown(text: str) -> str:
                text = re.sub(scratch, lambda _: printable(self.given), text)
                return text.replace(printable(self.home), printable(self.sibling))

            error.args = tuple(
                Message(said if isinstance(said, str) else str(said)).with_texts(shown) for said in error.args
            )
        if error is not None:
            self._say_what_stays(error)

    def _say_what_stays(self, error: BaseException) -> None:
        if self.published:
            error.add_note(is_whole(self.given))
        elif isinstance(error, OutageError) and not self.keep:
            error.add_note("Nothing was left behind")

    def seal(self) -> None:
        """Make the output durable; nothing is written to it any more."""
        if self._sealed:
            return
        with writing(self.given):
            sync_tree(self.path)
        self._sealed = True

    def publish(self, beside: Beside = MappingProxyType({})) -> None:
        """Make the output durable, then visible, in one step; then what belongs beside it.

        Args:
            beside: See `prepare`.

        Raises:
            DestinationExistsError: Somebody else made it meanwhile, and overwriting was not asked for.
        """
        belongs = self.prepare(beside)
        with self.explained():
            try:
                self.appear(belongs)
                self.accompany(belongs)
            except BaseException as error:
                if not self.published:
                    self._bring_back()
                elif not isinstance(error, Exception):  # a signal: what is whole has what belongs beside it
                    self.accompany(belongs)
                elif self.is_partial:
                    self.withdraw()
                raise
            sync_directory(self.destination.parent)

    def prepare(self, beside: Beside) -> Belonging:
        """Make the output durable, and what belongs beside it, under hidden names.

        Args:
            beside: Name and content of small files next to the destination, or where one was built in the hidden
                sibling; None for one that must not be there. An older one goes before the destination appears, so that
                it never stands beside what it does not describe.

        Returns:
            For each name beside the destination, the draft that gets it (None: no file).
        """
        built = self._built()
        places = {name: (built.with_name(name), self.home / f"{name}{_DRAFT}") for name in self.companions}
        there: dict[str, Path | None] = {
            name: built if built.exists() or draft.exists() else None  # a mask, of what has none
            for name, (built, draft) in places.items() if not self.published or built.exists() or draft.exists()
        }  # fmt: skip
        beside = {**there, **beside}  # a run that was killed may have brought some to their places
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
        """Turn what the system says into an error that names the destination, and what stands there now."""
        try:
            yield
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

    def appear(self, beside: Iterable[Path]) -> None:
        """Give the output its name, in one step; nothing that takes time happens here.

        Args:
            beside: Names beside it, which are freed first.
        """
        if self.published:
            return
        for tries_left in reversed(range(_TRIES)):
            self._replaced = _inode(self.destination)
            there = self._replaced != _ABSENT
            self.check_replaceable()
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
                self._check_replaced()
                self._published = True
                return

    def _check_replaced(self) -> None:
        """Look once more at what was replaced, now that it cannot change: it goes back if anything came to it."""
        old = self._old()
        why = obstacle(old, self.objection) if old is not None else ""
        if why:
            self.withdraw()
            raise self._not_replaced(why)

    def _old(self) -> Path | None:
        """Where what was replaced waits to be removed."""
        return next((p for p in (aside(self._built()), self._built()) if os.path.lexists(p)), None)

    def _permit(self) -> None:
        """Permissions, before anybody can see it: those of what it replaces, else no more than its sources have."""
        if os.path.lexists(self.destination):
            self._steadily(lambda: inherit(self.path, self.destination))
        else:
            restrict(self.path, self.readable)

    def _set_aside(self, beside: Path, *, replaced: bool) -> None:
        """Take away what stands beside the destination, unless whoever made the destination meanwhile put it there."""
        with contextlib.suppress(FileNotFoundError):
            if replaced or os.lstat(beside).st_ctime_ns < self._began:
                os.replace(beside, self.home / f"{beside.name}{_OLD}")

    @property
    def is_partial(self) -> bool:
        """Whether a companion has not appeared: without it the destination is not complete."""
        return any((self.home / f"{name}{_DRAFT}").exists() for name in self.companions)

    def _bring_back(self) -> None:
        """Put back what was set aside, if the destination is still, or again, the old one."""
        if _inode(self.destination) == self._replaced:
            bring_back(self.home, self.destination)

    def accompany(self, belongs: Belonging) -> None:
        """Put files beside the destination, or none, unless another run has replaced the destination since."""
        for beside, draft in belongs.items():
            if not self._stands():
                return
            if draft is None:
                beside.unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError):  # it is in its place, or was taken from it
                mine = os.lstat(draft)
                os.replace(draft, beside)
                self._placed[beside] = mine.st_ino
                if not self._stands() and os.path.samestat(os.lstat(beside), mine):
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
        olds = (self.destination.with_name(name), self.home / f"{name}{_OLD}")
        for old in olds:
            with contextlib.suppress(FileNotFoundError):  # another run takes it away
                if old.is_file() and not old.is_symlink() and os.lstat(old).st_uid in self._owners():
                    inherit(draft, old)
                    return draft
        restrict(draft, os.stat(self.destination if self.published else self.path).st_mode)
        return draft

    def _owners(self) -> set[int]:
        """Whose files beside the destination pass on their permissions: a file that somebody else planted does not."""
        found = {os.geteuid()}
        with contextlib.suppress(FileNotFoundError):
            found.add(os.lstat(self.destination).st_uid)
        return found

    def _failure(self, error: OSError) -> ConversionError:
        if not self.published:
            return write_error(self.given, error)
        what = "may not survive a crash, or lack what stands beside it"
        return ConversionError(f"{printable(self.given)}: {what}: {write_reason(error)}")

    def withdraw(self) -> None:
        """Take back what `publish` made visible: the destination is again what it was before."""
        self._published = False
        for beside, inode in self._placed.items():
            if _inode(beside) == inode:
                os.replace(beside, self.home / f"{beside.name}{_DRAFT}")
        self._placed.clear()
        if self._stands():
            self.path = self._built()
            take_back(self.path, self.destination)
        self._bring_back()

    def _leave(self) -> None:
        if not self.keep:
            self._discard()
        if self._lock >= 0:
            release(self._lock)
            self._lock = -1
        self._close()

    def _discard(self) -> None:
        if self._fd < 0:  # it was never made, or right before a signal
            with contextlib.suppress(OSError):
                if not distrusted(self.sibling):
                    os.rmdir(self.sibling)
            return
        old = self._old() if self.published else None
        if old is not None and old.is_dir():
            self._remove_old(old)
        if self._kept:  # half of it must not be taken over
            kept, self._kept = self.sibling, ""
            self.sibling = hidden_sibling(self.destination, os.urandom(4).hex())
            try:
                os.rename(kept, self.sibling)
            except OSError:
                self.sibling = kept
        remove_private(self.sibling, self._lock, self._fd)

    def _remove_old(self, old: Path) -> None:
        """Remove the files of a dataset that was replaced; what came since the last look gets a name of its own."""
        try:
            gone = not self.objection(old) and remove(old, everything_in(old))
        except TokfmtError:
            gone = False
        if not gone:
            with contextlib.suppress(OSError):
                os.rename(old, self.destination.with_name(f"{self.destination.name}.old-{os.urandom(4).hex()}"))


def is_whole(destination: str | os.PathLike[str]) -> str:
    """What to say of a destination after whatever stopped the rest."""
    return f"{printable(destination)} is whole"


def publish_text(
    destination: str | os.PathLike[str], text: str, *, overwrite: bool = False, objection: Objection = no_directory
) -> Path:
    """Write a text file as a destination is written: whole or not at all, over nothing that is not to be replaced.

    Returns:
        Where it is; links are followed.

    Raises:
        DestinationExistsError: It is there, and overwriting was not asked for.
        ConversionError: It cannot be written, or is nothing that is ever replaced.
    """
    with Staging(destination, overwrite=overwrite, objection=objection) as staging:
        with writing(destination):
            staging.path.write_text(text, "utf-8")
        staging.publish()
    return staging.destination


def take_back(built: Path, destination: Path) -> None:
    """Undo a publication: what was `built` gets its hidden name again, and what it replaced is the destination."""
    if os.path.lexists(built):
        rename(built, destination, EXCHANGE)
        return
    rename(destination, built, NOREPLACE)
    if os.path.lexists(aside(built)):
        os.rename(aside(built), destination)


def bring_back(home: Path, destination: Path) -> None:
    """Put back the files beside a destination that were set aside in its hidden sibling."""
    for old in home.glob(f"*{_OLD}"):
        os.replace(old, destination.with_name(old.name.removesuffix(_OLD)))


def place_drafts(home: Path, destination: Path) -> None:
    """Give files beside a destination that has appeared their names, unless something has them by now."""
    for draft in home.glob(f"*{_DRAFT}"):
        beside = destination.with_name(draft.name.removesuffix(_DRAFT))
        with contextlib.suppress(FileExistsError):
            rename(draft, beside, NOREPLACE)


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


def hidden_siblings(destination: Path) -> list[Path]:
    """Directories where the destination is or was built, whoever made them."""
    with os.scandir(destination.parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(_prefix(destination))]
    return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]


def remove_leftovers(destination: Path, *, spare: bool = False) -> tuple[str, ...]:
    """Remove the caller's own hidden siblings of `destination` whose process has died (nobody holds their lock).

    Args:
        destination: Whose siblings.
        spare: Leave those that are kept to be taken over.

    Returns:
        Names of the kept ones that were removed.
    """
    parent, removed = destination.parent, []
    if not parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))
    for home in hidden_siblings(destination):
        kept = home.name.removeprefix(_prefix(destination)) in KEPT
        if kept and spare:
            continue
        with contextlib.suppress(OSError, ConversionError):
            # what somebody else has put here is neither removed nor brought back
            fd = lock_dead(home)
            if fd >= 0:
                with held(home) as place:
                    old = aside(place / "build" / destination.name)
                    if os.path.lexists(old) and not os.path.lexists(destination):
                        os.rename(old, destination)  # killed between the two renames: the old one comes back
                remove_private(home, fd)
                release(fd)
                removed += [home.name] if kept else []
    return tuple(removed)


def rename(old: Path, new: Path, how: int) -> None:
    """Give `old` the name `new`.

    Args:
        old: A file or directory.
        new: Its new name, on the same file system.
        how: `NOREPLACE`: nothing must be there; `EXCHANGE`: what is there gets the name `old`, or waits `aside` of it.

    Raises:
        FileExistsError: Something is there (`NOREPLACE`).
        FileNotFoundError: Nothing is there (`EXCHANGE`).
        OSError
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        rename_portably(old, new, how)
        return
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):  # an old kernel, or a file system without the flags
        rename_portably(old, new, how)
        return
    raise OSError(code, os.strerror(code), str(new))


def rename_portably(old: Path, new: Path, how: int) -> None:
    """The same in more than one step: a name that is to be replaced is missing for a moment."""
    if how == EXCHANGE:
        try:
            os.rename(new, aside(old))
            os.rename(old, new)
        except BaseException:  # a signal may come right after either
            if os.path.lexists(aside(old)) and not os.path.lexists(new):
                os.rename(aside(old), new)
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
    """Give a file a second name, where nothing is; whether the file system knows how."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def aside(path: Path) -> Path:
    """Where what was replaced waits, if the file system cannot swap."""
    return path.with_name(f"{path.name}.replaced")


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file, durably, replacing an older one: whole or not at all."""
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    with open(draft, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_directory(path.parent)


def sync_file_system(path: Path) -> None:
    """Bring all that was written to the file system of `path` to the disk, from this machine."""
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
    """Fsync a directory, so that the names in it survive a crash."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
