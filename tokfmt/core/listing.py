"""Look at places through their store: status, kind, and names below. Inside `kept()`, each question is asked once.

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
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from tokfmt.core.errors import FormatError, UnreachableError
from tokfmt.core.place import (
    Beside,
    Entry,
    FindsIdentities,
    Identity,
    Kind,
    ListsBeside,
    Place,
    PlaceLike,
    Status,
    Url,
    local_entries,
    status_of,
    store_of,
)

T = TypeVar("T")

_MOST, _STATUSES = 1 << 16, 1 << 12  # Names of a directory, and statuses, which take 500 bytes each.
_STEMS = 8  # Stems in a directory that are listed one by one.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


@dataclass
class Answers:
    """The kept answers. The listing of a directory that is too large to keep is None."""

    directories: dict[str | Url, dict[str, Kind] | None] = field(default_factory=dict)
    statuses: dict[str | Url, Status | tuple[int | None, str | None]] = field(default_factory=dict)
    beside: dict[tuple[Url, str], Beside] = field(default_factory=dict)
    unlisted: set[Url] = field(default_factory=set)
    stems: Counter[Url] = field(default_factory=Counter)
    found: dict[Hashable, object] = field(default_factory=dict)
    asking: threading.RLock = field(default_factory=threading.RLock)
    """Held while a store lists names, which answers what other threads are about to ask."""


_KEPT: ContextVar[Answers | None] = ContextVar("answers of the stores", default=None)


@contextmanager
def kept(answers: Answers | None = None, *, lists: bool = False) -> Iterator[Answers]:
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
    answers = Answers() if answers is None else answers
    if not lists:
        answers.statuses.clear()
        answers.beside.clear()
        answers.stems.clear()
        for one in [one for one in answers.directories if isinstance(one, Url)]:  # One list instead of many statuses.
            del answers.directories[one]
    token = _KEPT.set(answers)
    try:
        yield answers
    finally:
        _KEPT.reset(token)


def once(key: Hashable, make: Callable[[], T]) -> T:
    """Return `make()`. Inside `kept()`, it is called once for each key."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return make()
    if key not in kept_now.found:
        kept_now.found[key] = make()
    return cast("T", kept_now.found[key])


def names(directory: PlaceLike) -> list[str]:
    """Return the names in a directory, in no order.

    Raises:
        OSError: If the directory cannot be listed.
    """
    found = _listed(_key(directory)) if _KEPT.get() is not None else None
    if found is None:
        return [entry.name for entry in _asked(directory)] if isinstance(directory, Url) else os.listdir(directory)
    return list(found)


def entries(directory: PlaceLike) -> dict[str, Kind]:
    """Return the names in a directory, and the kind of each.

    Raises:
        OSError: If the directory cannot be listed.
    """
    key = _key(directory)
    found = _listed(key) if _KEPT.get() is not None else None
    return {entry.name: entry.kind for entry in _asked(key)} if found is None else found


def _key(place: PlaceLike) -> str | Url:
    return place if isinstance(place, Url) else os.fspath(place)


def _asked(directory: PlaceLike) -> Iterable[Entry]:
    if isinstance(directory, Url):
        return store_of(directory).entries(directory.key)
    return local_entries(os.fspath(directory))


def _listed(directory: str | Url) -> dict[str, Kind] | None:
    """Return the listing of a directory and keep it; None if it is too large to keep."""
    kept_now = _KEPT.get() or Answers()
    with kept_now.asking:
        if directory not in kept_now.directories:
            found: dict[str, Kind] | None = {}
            for entry in _asked(directory):
                if found is None or len(found) == _MOST:
                    found = None
                    break
                found[entry.name] = entry.kind
                if isinstance(directory, Url):
                    _keep_status(kept_now, directory, entry)
            kept_now.directories[directory] = found
        return kept_now.directories[directory]


def _known(place: PlaceLike) -> tuple[bool, Kind | None]:
    """Return whether a kept listing answers for a place, and the kind of the place; None: it does not exist."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return False, None
    above: str | Url
    if isinstance(place, Url):
        above, name = place.parent, place.name
    else:
        above, name = os.path.split(os.fspath(place))
    listing = kept_now.directories.get(above or os.curdir) if name not in ("", ".", "..") else None
    if listing is not None:
        return True, listing.get(name)
    return _known_beside(kept_now, place) if isinstance(place, Url) else (False, None)


def _known_beside(kept_now: Answers, place: Url) -> tuple[bool, Kind | None]:
    """Return what the list of a stem, or of a directory with many stems, tells about an address; see `_known`."""
    with kept_now.asking:
        listed = _many(kept_now, place.parent)
        if listed is not None:
            return True, listed.get(place.name)
        found = _beside(kept_now, place)
    if found is None or (found.last is not None and place.name > found.last):
        return False, None
    entry = found.entries.get(place.name)
    return True, entry.kind if entry is not None else None


def _many(kept_now: Answers, directory: Url) -> dict[str, Kind] | None:
    """Return the listing of a directory of which many stems were asked; None if it cannot be listed or kept."""
    if kept_now.stems[directory] < _STEMS or directory in kept_now.unlisted:
        return None
    try:
        return _listed(directory)
    except UnreachableError:
        raise
    except FormatError:  # It must not be listed. What is asked next may be answered.
        kept_now.unlisted.add(directory)
    except FileNotFoundError:
        kept_now.directories[directory] = {}
    return kept_now.directories.get(directory)


def _beside(kept_now: Answers, place: Url) -> Beside | None:
    """Return the list of the names that begin with the stem of an address; None if the store has no such lists."""
    above, name = place.parent, place.name
    for end in [k for k in range(1, len(name)) if name[k] == "."] + [len(name)]:
        if (above, name[:end]) in kept_now.beside:
            return kept_now.beside[above, name[:end]]
    store = store_of(place)
    if not isinstance(store, ListsBeside) or not name or above in kept_now.unlisted:
        return None
    try:
        found = store.beside(place.key)
    except UnreachableError:
        raise
    except FormatError:  # It must not be listed, or cannot be. What is asked next may be answered.
        kept_now.unlisted.add(above)
        return None
    kept_now.beside[above, found.stem] = found
    kept_now.stems[above] += 1
    for entry in found.entries.values():
        _keep_status(kept_now, above, entry)
    for path, entries in found.below.items():
        kept_now.directories[above / path] = {name: entry.kind for name, entry in entries.items()}
        for entry in entries.values():
            _keep_status(kept_now, above / path, entry)
    return found


def below(directory: Url) -> dict[Url, Identity]:
    """Return the files below a directory with their identities, as far as lists of the store have stated both."""
    kept_now, found, left = _KEPT.get() or Answers(), dict[Url, Identity](), [directory]
    while left:
        above = left.pop()
        for name, kind in (kept_now.directories.get(above) or {}).items():
            known = kept_now.statuses.get(above / name)
            if kind is Kind.DIRECTORY:
                left.append(above / name)
            elif isinstance(known, Status):
                found[above / name] = known.identity
    return found


def _keep_status(kept_now: Answers, above: Url, entry: Entry) -> None:
    if entry.identity is not None and len(kept_now.statuses) < _MOST:
        kept_now.statuses[above / entry.name] = Status(entry.kind, entry.identity)


def beside(place: Url) -> list[Url]:
    """Return the addresses in the same directory that begin with the stem of a place, as far as they were listed."""
    kept_now = _KEPT.get()
    if kept_now is None:
        return []
    above, end = place.parent, place.name.find(".", 1)
    with kept_now.asking:
        listed = kept_now.directories.get(above) or _many(kept_now, above)
        if listed is not None:
            stem = place.name[:end] if end > 0 else place.name
            return [above / name for name in listed if name.startswith(stem)]
        found = _beside(kept_now, place)
    return [above / name for name in found.entries] if found is not None else []


def status(place: PlaceLike) -> Status:
    """Return the status of a place. Links are followed.

    Raises:
        OSError: If it does not exist, or cannot be reached.
    """
    kept_now, key = _KEPT.get(), _key(place)
    if kept_now is None:
        return status_now(key)
    found = kept_now.statuses.get(key)
    if found is None:
        try:
            found = (isinstance(key, Url) and _status_in_lists(key)) or status_now(key)
        except OSError as error:  # Not kept itself: its traceback would keep the open files of the callers alive.
            found = error.errno, error.strerror
        if len(kept_now.statuses) < _STATUSES:
            kept_now.statuses[key] = found
    if isinstance(found, Status):
        return found
    raise OSError(*found, str(key))


def _status_in_lists(key: Url) -> Status | None:
    """Return the status of an address as the lists so far state it; None if the store has to be asked.

    Raises:
        FileNotFoundError: If the list shows that it does not exist.
    """
    known, kind = _known(key)
    if known and kind is None:
        raise FileNotFoundError(errno.ENOENT, "no such object")
    if kind is Kind.DIRECTORY:
        return Status(kind, Identity(0, ""))
    kept_now = _KEPT.get()
    found = kept_now.statuses.get(key) if kept_now is not None else None
    return found if isinstance(found, Status) else None


def identities_now(places: Iterable[Place]) -> Iterator[Identity]:
    """Yield the identities of files, in order, as `status_now` finds them. A store is asked for many side by side.

    Raises:
        OSError: As `status_now`, when the file is reached.
    """
    for bucket, files in itertools.groupby(places, lambda one: replace(one, key="") if isinstance(one, Url) else None):
        store = store_of(bucket) if isinstance(bucket, Url) and not bucket.query else None
        if isinstance(store, FindsIdentities):
            yield from store.identities([one.key for one in files if isinstance(one, Url)])
        else:
            yield from (status_now(one).identity for one in files)


def status_now(place: PlaceLike) -> Status:
    """Return the status of a place. Asks the store even inside `kept()`, to detect a change.

    Raises:
        OSError: If it does not exist, or cannot be reached.
    """
    return store_of(place).status(place.key) if isinstance(place, Url) else status_of(os.stat(place))


def is_file(place: PlaceLike) -> bool:
    """Return whether there is a regular file, or a link to one, as `pathlib.Path.is_file` does."""
    known, kind = _known(place)
    return kind is Kind.FILE if known and kind is not Kind.LINK else _is(place, Kind.FILE)


def is_dir(place: PlaceLike) -> bool:
    """Return whether there is a directory, or a link to one, as `pathlib.Path.is_dir` does."""
    known, kind = _known(place)
    return kind is Kind.DIRECTORY if known and kind is not Kind.LINK else _is(place, Kind.DIRECTORY)


def exists(place: PlaceLike) -> bool:
    """Return whether a place exists, links followed, as `pathlib.Path.exists` does."""
    known, kind = _known(place)
    return kind is not None if known and kind is not Kind.LINK else _is(place, None)


def is_link(place: PlaceLike) -> bool:
    """Return whether a place is a symbolic link. Only local paths can be."""
    known, kind = _known(place)
    return kind is Kind.LINK if known else not isinstance(place, Url) and os.path.islink(place)


def is_there(place: PlaceLike) -> bool:
    """Return whether a place exists, even as a broken link, as `os.path.lexists` does."""
    known, kind = _known(place)
    if known:
        return kind is not None
    return _is(place, None) if isinstance(place, Url) else os.path.lexists(place)


def _is(place: PlaceLike, wanted: Kind | None) -> bool:
    """Return whether a place has the kind `wanted`; None: any kind."""
    try:
        kind = status(place).kind
    except ValueError:  # The path has a zero byte.
        return False
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
    return wanted is None or kind is wanted
