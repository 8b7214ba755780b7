"""The answers of file systems and stores while datasets are discovered and opened. Inside `kept()`, each is asked once.

To open a dataset, tokfmt asks the same questions several times: which names a directory holds, which are files, how
large they are. Inside `kept()`, the store is asked once, and a listing also answers questions about its names. The
answers stay true under this rule:

    `kept()` surrounds the discovery and opening of sources once, and no later open, read or write. The answers end with
    it, so a later open, a running browser and a Loader ask again. Only a conversion that opens later what it discovered
    passes on its answers. Whether a file changed since it was opened is always asked again
    (`files.File.check_unchanged`).

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
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, TypeVar, cast

from tokfmt.core.errors import FormatError, UnreachableError
from tokfmt.core.store import Beside, Entry, Identity, Kind, Status


class Place(Protocol):
    """What a listing asks about a place; see `core.place.Place`."""

    is_local: ClassVar[bool]

    @property
    def name(self) -> str: ...
    @property
    def parent(self) -> Self: ...
    def __truediv__(self, below: str, /) -> Self: ...
    def __hash__(self) -> int: ...
    def status_now(self) -> Status: ...
    def entries_now(self) -> Iterator[Entry]: ...
    def beside_now(self) -> Beside | None: ...


T = TypeVar("T")
AnyPlace = TypeVar("AnyPlace", bound=Place)

_MOST, _STATUSES = 1 << 16, 1 << 12  # Names of a directory, and statuses, which take 500 bytes each.
_STEMS = 8  # Stems in a directory that are listed one by one.


@dataclass
class Listing:
    """The kept answers. Places ask it; see `core.place.Place`.

    Attributes:
        directories: The names in each directory, with their kinds; None if it is too large to keep.
        statuses: The status of each place, or the number and text of the OSError.
        lists: Lists of a store by directory and stem.
        unlisted: Directories that the store does not list.
        stems: Stems that were listed in each directory.
        made: Results of `once`.
        asking: Held while a store lists names, which answers what other threads are about to ask.
    """

    directories: dict[Place, dict[str, Kind] | None] = field(default_factory=dict)
    statuses: dict[Place, Status | tuple[int | None, str | None]] = field(default_factory=dict)
    lists: dict[tuple[Place, str], Beside] = field(default_factory=dict)
    unlisted: set[Place] = field(default_factory=set)
    stems: Counter[Place] = field(default_factory=Counter)
    made: dict[Hashable, object] = field(default_factory=dict)
    asking: threading.RLock = field(default_factory=threading.RLock)

    def forget_stored(self) -> None:
        """Forget statuses, so that a change is detected, and lists of stores. Names in local directories stay."""
        self.statuses.clear()
        self.lists.clear()
        self.stems.clear()
        for place in [place for place in self.directories if not place.is_local]:  # One list replaces many statuses.
            del self.directories[place]

    def entries(self, directory: Place) -> dict[str, Kind] | None:
        """Return the names in a directory with their kinds; None if it is too large to keep.

        Raises:
            OSError: If the directory cannot be listed.
        """
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

    def status(self, place: Place) -> Status:
        """Return the status of a place. Links are followed.

        Raises:
            OSError: If it does not exist, or cannot be reached.
        """
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

    def kind_of(self, place: Place) -> tuple[bool, Kind | None]:
        """Return whether a kept listing answers for a place, and the kind of the place; None: it does not exist."""
        kinds = self.directories.get(place.parent) if place.name not in ("", "..") else None
        if kinds is not None:
            return True, kinds.get(place.name)
        return (False, None) if place.is_local else self._kind_in_lists(place)

    def beside(self, place: Place) -> list[Place]:
        """Return the places in the same directory that begin with the stem of a place, as far as they were listed."""
        above, end = place.parent, place.name.find(".", 1)
        with self.asking:
            kinds = self.directories.get(above) or self._many(above)
            if kinds is not None:
                stem = place.name[:end] if end > 0 else place.name
                return [above / name for name in kinds if name.startswith(stem)]
            listed = self._list_of(place)
        return [above / name for name in listed.entries] if listed is not None else []

    def below(self, directory: AnyPlace) -> dict[AnyPlace, Identity]:
        """Return the files below a directory with their identities, as far as lists of the store state both."""
        files, left = dict[AnyPlace, Identity](), [directory]
        while left:
            above = left.pop()
            for name, kind in (self.directories.get(above) or {}).items():
                status = self.statuses.get(above / name)
                if kind is Kind.DIRECTORY:
                    left.append(above / name)
                elif isinstance(status, Status):
                    files[above / name] = status.identity
        return files

    def _kind_in_lists(self, place: Place) -> tuple[bool, Kind | None]:
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

    def _many(self, directory: Place) -> dict[str, Kind] | None:
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

    def _list_of(self, place: Place) -> Beside | None:
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

    def _keep_status(self, above: Place, entry: Entry) -> None:
        if entry.identity is not None and len(self.statuses) < _MOST:
            self.statuses[above / entry.name] = Status(entry.kind, entry.identity)

    def _status_in_lists(self, place: Place) -> Status | None:
        """Return the status of an address as the lists so far state it; None if the store has to be asked.

        Raises:
            FileNotFoundError: If the list shows that it does not exist.
        """
        is_listed, kind = self.kind_of(place)
        if is_listed and kind is None:
            raise FileNotFoundError(errno.ENOENT, "no such object")
        if kind is Kind.DIRECTORY:
            return Status(kind, Identity(0, ""))
        status = self.statuses.get(place)
        return status if isinstance(status, Status) else None


_KEPT: ContextVar[Listing | None] = ContextVar("answers of the stores", default=None)


def current() -> Listing | None:
    """Return the answers of the context; None outside of `kept()`."""
    return _KEPT.get()


@contextmanager
def kept(answers: Listing | None = None, *, lists: bool = False) -> Iterator[Listing]:
    """Keep answers inside this context, for this thread. A nested context uses the answers of the outer one.

    Args:
        answers: The answers of an earlier context, in which these sources were discovered. Statuses are asked again, so
            that a change since then is detected.
        lists: Keep the lists of stores, and the statuses in them. The earlier context was of other files.
    """
    outer = _KEPT.get()
    if outer is not None:
        yield outer
        return
    answers = Listing() if answers is None else answers
    if not lists:
        answers.forget_stored()
    token = _KEPT.set(answers)
    try:
        yield answers
    finally:
        _KEPT.reset(token)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """Return `make()`. Inside `kept()`, it is called once for each key."""
    listing = _KEPT.get()
    if listing is None:
        return make()
    if key not in listing.made:
        listing.made[key] = make()
    return cast("T", listing.made[key])
