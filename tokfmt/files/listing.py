"""The answers of file systems and stores while datasets are discovered and opened. Each question is asked once.

To open a dataset, tokfmt asks the same questions several times: which names a directory holds, which are files, how
large they are. A command that opens datasets begins a `Listing`, and their places carry it, as do all places that
follow from them (`files.place.Place.asking`). A listing also answers questions about the names that it lists. The
answers stay true under this rule:

    `with Listing()` surrounds the discovery and opening of sources once, and no later open, read or write. It is empty
    afterwards, and its places ask the file system or the store, so a later open, a running browser and a Loader ask
    again. A conversion forgets the statuses between discovery and opening, so that a change is detected. Whether a
    file changed since it was opened is always asked again (`files.File.check_unchanged`).

To bound memory, listings of more than 65,536 names are not kept, and only the first 4,096 statuses are, or 65,536 that
a list of a store states.

A store that lists answers for what is beside a file by one request: which names begin with the same stem. So it is not
asked for an index, a manifest, or a mask that does not exist. If many files of a directory are asked about, as those
that a pattern matches, the directory is listed instead.
"""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Protocol, Self, TypeVar

from tokfmt.errors import FormatError, UnreachableError
from tokfmt.files.store import Entry, Identity, Kind, Neighbors, Status


class Askable(Protocol):
    """What a listing asks about a place; `files.place.Place` has it."""

    is_local: ClassVar[bool]

    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def __truediv__(self, below: str, /) -> Self: ...
    def __hash__(self) -> int: ...
    def status_now(self) -> Status: ...
    def entries_now(self) -> Iterator[Entry]: ...
    def beside_now(self) -> Neighbors | None: ...


AnyAskable = TypeVar("AnyAskable", bound=Askable)

_MOST, _STATUSES = 1 << 16, 1 << 12  # Names of a directory, and statuses, which take 500 bytes each.
_STEMS = 8  # Stems in a directory that are listed one by one.


@dataclass
class Listing:
    """The answers so far. The places that carry it ask it inside `with listing`, which may be nested."""

    directories: dict[Askable, dict[str, Kind] | None] = field(default_factory=dict)  # None if it is too large to keep
    # or the number and text of the OSError
    statuses: dict[Askable, Status | tuple[int | None, str | None]] = field(default_factory=dict)
    lists: dict[tuple[Askable, str], Neighbors] = field(default_factory=dict)  # by directory and stem
    unlisted: set[Askable] = field(default_factory=set)  # directories that the store does not list
    stems: Counter[Askable] = field(default_factory=Counter)  # stems that were listed in each directory
    # held while a store lists names, which answers what other threads are about to ask
    asking: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0  # number of contexts that are open. Without any, the places do not ask it.

    def __enter__(self) -> Self:
        """Answer from now on."""
        with self.asking:
            self.depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Forget all answers, unless another context is open."""
        with self.asking:
            self.depth -= 1
            if not self.depth:
                self.forget_stored()
                self.directories.clear()
                self.unlisted.clear()

    def forget_stored(self) -> None:
        """Forget statuses, so that a change is detected, and lists of stores. Names in local directories stay."""
        self.statuses.clear()
        self.lists.clear()
        self.stems.clear()
        for place in [place for place in self.directories if not place.is_local]:  # One list replaces many statuses.
            del self.directories[place]

    def entries(self, directory: Askable) -> dict[str, Kind] | None:
        """Return the names in a directory with their kinds; None if it is too large to keep."""
        with self.asking:
            if directory not in self.directories:
                kinds: dict[str, Kind] | None = {}
                for entry in directory.entries_now():
                    if kinds is None or len(kinds) == _MOST:
                        kinds = None
                        break
                    kinds[entry.name] = entry.kind
                    self._keep_status(directory, entry)
                self.directories[directory] = kinds
            return self.directories[directory]

    def status(self, place: Askable) -> Status:
        """Return the status of a place. Links are followed."""
        answer = self.statuses.get(place)
        if answer is None:
            try:
                answer = (not place.is_local and self._status_in_lists(place)) or place.status_now()
            except OSError as error:  # Not kept itself: its traceback would keep the open files of the callers alive.
                answer = error.errno, error.strerror
            if len(self.statuses) < _STATUSES:
                self.statuses[place] = answer
        if isinstance(answer, Status):
            return answer
        raise OSError(*answer, str(place))

    def kind_of(self, place: Askable) -> tuple[bool, Kind | None]:
        """Return whether a kept listing answers for a place, and the kind of the place; None: it does not exist."""
        kinds = self.directories.get(place.parent) if self.directories and place.name not in ("", "..") else None
        if kinds is not None:
            return True, kinds.get(place.name)
        return (False, None) if place.is_local else self._kind_in_lists(place)

    def beside(self, place: Askable) -> list[Askable]:
        """Return the places in the same directory that begin with the stem of a place, as far as they were listed."""
        above, end = place.parent, place.name.find(".", 1)
        with self.asking:
            kinds = self.directories.get(above) or self._many(above)
            if kinds is not None:
                stem = place.name[:end] if end > 0 else place.name
                return [above / name for name in kinds if name.startswith(stem)]
            listed = self._list_of(place)
        return [above / name for name in listed.entries] if listed is not None else []

    def below(self, directory: AnyAskable) -> dict[AnyAskable, Identity]:
        """Return the files below a directory with their identities, as far as lists of the store state both."""
        files, left = dict[AnyAskable, Identity](), [directory]
        while left:
            above = left.pop()
            for name, kind in (self.directories.get(above) or {}).items():
                status = self.statuses.get(above / name)
                if kind is Kind.DIRECTORY:
                    left.append(above / name)
                elif isinstance(status, Status):
                    files[above / name] = status.identity
        return files

    def _kind_in_lists(self, place: Askable) -> tuple[bool, Kind | None]:
        """Return what the list of a stem, or of a directory with many stems, states of an address; see `kind_of`."""
        with self.asking:
            kinds = self._many(place.parent)
            if kinds is not None:
                return True, kinds.get(place.name)
            listed = self._list_of(place)
        if listed is None or (listed.last is not None and place.name > listed.last):
            return False, None
        entry = listed.entries.get(place.name)
        return True, entry.kind if entry is not None else None

    def _many(self, directory: Askable) -> dict[str, Kind] | None:
        """Return the listing of a directory of which many stems were asked; None if it cannot be listed or kept."""
        if self.stems[directory] < _STEMS or directory in self.unlisted:
            return None
        try:
            return self.entries(directory)
        except UnreachableError:
            raise
        except FormatError:  # It must not be listed. What is asked next may be answered.
            self.unlisted.add(directory)
        except FileNotFoundError:
            self.directories[directory] = {}
        return self.directories.get(directory)

    def _list_of(self, place: Askable) -> Neighbors | None:
        """Return the list of the names that begin with the stem of an address; None if the store has no such lists."""
        above, name = place.parent, place.name
        for end in [k for k in range(1, len(name)) if name[k] == "."] + [len(name)]:
            if (above, name[:end]) in self.lists:
                return self.lists[above, name[:end]]
        if not name or above in self.unlisted:
            return None
        try:
            listed = place.beside_now()
        except UnreachableError:
            raise
        except FormatError:  # It must not be listed, or cannot be. What is asked next may be answered.
            self.unlisted.add(above)
            return None
        if listed is None:
            return None
        self.lists[above, listed.stem] = listed
        self.stems[above] += 1
        for entry in listed.entries.values():
            self._keep_status(above, entry)
        for path, entries in listed.below.items():
            self.directories[above / path] = {name: entry.kind for name, entry in entries.items()}
            for entry in entries.values():
                self._keep_status(above / path, entry)
        return listed

    def _keep_status(self, above: Askable, entry: Entry) -> None:
        if entry.identity is not None and len(self.statuses) < _MOST:
            self.statuses[above / entry.name] = Status(entry.kind, entry.identity)

    def _status_in_lists(self, place: Askable) -> Status | None:
        """Return the status of an address as the lists so far state it; None if the store has to be asked."""
        is_listed, kind = self.kind_of(place)
        if is_listed and kind is None:
            raise FileNotFoundError(errno.ENOENT, "no such object")
        if kind is Kind.DIRECTORY:
            return Status(kind, Identity(0, ""))
        status = self.statuses.get(place)
        return status if isinstance(status, Status) else None
