"""Places of datasets: paths of the local file system, and addresses of objects in registered stores.

`place_of` converts what a user gives to a place. `core.listing` looks at places, and `core.files.open_file` reads them;
both use the store of the place. A `Url` has no `__fspath__`, so a call of `os` or `open` with an address raises
TypeError instead of reading `s3:/bucket/key` in the current directory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from tokfmt.core.errors import OptionError, UnsupportedError
from tokfmt.core.text_format import printable

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+)")  # A Path turns two slashes into one.
AZURE_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_WITH_QUERY = ("http", "https")
"""Schemes in which `?` ends the key. In a key of an object store, `?` is a character or a pattern."""


@dataclass(frozen=True, order=True, slots=True)
class Url:
    """The address of an object, or of a prefix of objects, with the interface of `Path` that tokfmt uses.

    Attributes:
        scheme: In lower case, such as `s3`.
        authority: The bucket or the host, with the user and the port if given. On Azure, "ACCOUNT/CONTAINER", or the
            container alone if `AZURE_ACCOUNT` names the account.
        key: Names joined by slashes, without a slash at either end; "" is the bucket itself.
        query: The text after the question mark of a web address. It may hold a signature, so `str` omits it.
    """

    scheme: str
    authority: str
    key: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        if self.key and any(part in ("", ".", "..") for part in self.key.split("/")):
            what = "an empty part" if "//" in f"/{self.key}/" else "a part . or .."
            raise OptionError(f"{printable(self)}: {what} in a key cannot be addressed")

    @staticmethod
    def parse(text: str) -> Url:
        """Parse an address.

        Raises:
            OptionError: If it is not an address, or its key has an empty part, `.` or `..`.
        """
        scheme, colon, rest = text.partition("://")
        if not colon or not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
            raise OptionError(f"{printable(text)}: is not an address, such as s3://BUCKET/KEY")
        scheme, query = scheme.lower(), ""
        if scheme in _WITH_QUERY:
            rest, _, query = rest.partition("?")
        authority, _, key = rest.partition("/")
        if scheme == "az" and not os.environ.get(AZURE_ACCOUNT) and key:
            container, _, key = key.partition("/")
            authority = f"{authority}/{container}"
        return Url(scheme, authority, key.removesuffix("/"), query)

    @property
    def address(self) -> str:
        """The complete address, with the user and the query that `str` omits. `Url.parse` accepts it."""
        return self._text(self.authority) + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return self._text(self.authority.rpartition("@")[2]) + ("?…" if self.query else "")

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def _text(self, authority: str) -> str:
        return f"{self.scheme}://{authority}" + (f"/{self.key}" if self.key else "")

    def as_posix(self) -> str:
        """Return the address without user and query."""
        return self._text(self.authority.rpartition("@")[2])

    @property
    def parts(self) -> tuple[str, ...]:
        """The store, followed by the names of the key, as `Path.parts` has the root and the names."""
        return (f"{self.scheme}://{self.authority}/", *(self.key.split("/") if self.key else ()))

    @property
    def name(self) -> str:
        """The last name of the key; "" for a bucket."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The last suffix of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Url:
        """The address one level up. The parent of a bucket is the bucket."""
        return self._of(self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[Url, ...]:
        """The addresses above, the nearest first and the bucket last."""
        names = self.parts[1:-1]
        return tuple(self._of("/".join(names[:count])) for count in range(len(names), -1, -1)) if self.key else ()

    def with_name(self, name: str) -> Url:
        """Return the address of another name in the same parent.

        Raises:
            ValueError: If this is a bucket, or `name` is not a name.
        """
        if not self.name:
            raise ValueError(f"{self!r} has an empty name")
        if not name or "/" in name or name == ".":
            raise ValueError(f"Invalid name {name!r}")
        return self.parent / name

    def with_suffix(self, suffix: str) -> Url:
        """Return the address with another suffix, as `Path.with_suffix` does.

        Raises:
            ValueError: If this is a bucket, or `suffix` is not a suffix.
        """
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def __truediv__(self, below: str | PurePosixPath) -> Url:
        names = str(below).strip("/") if isinstance(below, str) and not below.startswith("/") else str(below)
        if names.startswith("/"):
            raise OptionError(f"{printable(names)}: is an absolute path, not a name below {printable(self)}")
        return self if names in ("", ".") else self._of(f"{self.key}/{names}" if self.key else names)

    def is_relative_to(self, other: Place) -> bool:
        """Return whether this address is the other address, or below it."""
        return isinstance(other, Url) and self.parts[: len(other.parts)] == other.parts

    def relative_to(self, other: Place) -> PurePosixPath:
        """Return the names that lead from the other address to this one.

        Raises:
            ValueError: If this address is not below the other.
        """
        if not self.is_relative_to(other):
            raise ValueError(f"{str(self)!r} is not in the subpath of {str(other)!r}")
        return PurePosixPath(*self.parts[len(other.parts) :])

    def _of(self, key: str) -> Url:
        return replace(self, key=key, query="")


Place = Path | Url
"""The location of a file or a directory: a path of this machine, or a URL in a store."""
AnyPlace = TypeVar("AnyPlace", Path, Url, Place)
PlaceLike = str | os.PathLike[str] | Url
"""A place, or a local path as text. Text is an address only if `place_of` reads it."""


def absolute(place: AnyPlace) -> AnyPlace:
    """Return the absolute path without `..`. Links are not followed. An address is returned as it is."""
    return place if isinstance(place, Url) else Path(os.path.abspath(place))


def real(place: AnyPlace) -> AnyPlace:
    """Return the absolute path with all links followed. An address is returned as it is."""
    return place if isinstance(place, Url) else Path(os.path.realpath(place))


def relative(place: Place, base: Place) -> PurePath | None:
    """Return the path from `base` to a place below it; None if the place is not below `base`."""
    if isinstance(place, Url):
        return place.relative_to(base) if place.is_relative_to(base) else None
    return place.relative_to(base) if isinstance(base, Path) and place.is_relative_to(base) else None


class Identity(NamedTuple):
    """The properties of a file that must not change while it is read.

    Attributes:
        size: Size in bytes.
        tag: For a local file, the modification time in nanoseconds and the inode. For another store, a value that
            changes with the content.
    """

    size: int
    tag: str


class Kind(Enum):
    """The kind of a place, or of a directory entry. Links of directory entries are not followed."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "FIFO"
    SOCKET = "socket"
    DEVICE = "device"


class Status(NamedTuple):
    """The kind and the identity of a place. Links are followed.

    Attributes:
        kind: Never LINK.
        identity: For a directory, only the tag has a meaning.
    """

    kind: Kind
    identity: Identity

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.identity.size


class Entry(NamedTuple):
    """An entry of a directory.

    Attributes:
        name: The name in the directory.
        kind: Links are not followed.
        identity: The identity of a file, if the listing states it; None if the file has to be asked.
    """

    name: str
    kind: Kind
    identity: Identity | None = None


class Store(Protocol):
    """Access to one bucket or host. Thread-safe. A key is that of `Url.key`."""

    def status(self, key: str) -> Status:
        """Return the status of a key.

        Raises:
            OSError: If it does not exist (FileNotFoundError), or the store cannot be reached.
        """

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield the entries directly below a key, in no order.

        Raises:
            OSError: If the key cannot be listed.
        """

    def read_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity
    ) -> Iterable[bytes | memoryview]:
        """Return the bytes of several ranges of a file, in order. An iterator yields them as they arrive.

        A store may also have a method `prefetch(key, ranges, identity, *, keep)`; see `files.File.prefetch`.

        Args:
            key: The file.
            ranges: The first byte of each range, and the byte after its last, in any order, none beyond the end.
            identity: The identity that `status` or `entries` gave for the file.

        Raises:
            SourceChangedError: If the file has another identity now.
            OSError: If the file cannot be read.
        """


class Beside(NamedTuple):
    """The objects in a directory whose names begin with a stem, as one request lists them.

    Attributes:
        stem: The names of which something is known begin with it.
        last: The last of these names that is known; None if all are.
        entries: The entries, by name.
        below: The entries of directories among them, and of directories below these, by the path from the directory of
            the stem. Only directories that are listed completely are there.
    """

    stem: str
    last: str | None
    entries: dict[str, Entry]
    below: dict[str, dict[str, Entry]]


@runtime_checkable
class ListsBeside(Store, Protocol):
    """A store that lists the objects beside one, however many objects its directory has."""

    def beside(self, key: str) -> Beside:
        """List what begins with the stem of a key, by one request.

        Raises:
            FormatError: If the store cannot be asked, or lists no keys.
        """


@runtime_checkable
class FindsIdentities(Store, Protocol):
    """A store that is asked for the identities of many objects side by side."""

    def identities(self, keys: Sequence[str]) -> Iterator[Identity]:
        """Yield the identities of objects, in order.

        Raises:
            OSError: As `Store.status`, when the object is reached.
        """


@runtime_checkable
class HasNotes(Store, Protocol):
    """A store whose users should know something about how it serves a file."""

    def notes(self, key: str) -> list[str]:
        """Return the notes on a file that was looked at."""


IF_ABSENT, IF_MATCH = "if-absent", "if-match"
"""Conditions that a store may know: write only if there is no object, and only if it is the one that was seen."""


@runtime_checkable
class WritableStore(Store, Protocol):
    """Access to a bucket that tokfmt writes to. An object appears as a whole, or does not appear.

    Attributes:
        can: The conditions of `put` that the store knows: `IF_ABSENT`, `IF_MATCH`. None: tokfmt does not write to it.
    """

    can: frozenset[str] | None

    def put(
        self,
        key: str,
        content: bytes | Path,
        *,
        if_absent: bool = False,
        if_match: Identity | None = None,
        done: Callable[[Identity], None] = lambda _: None,
    ) -> Identity:
        """Write an object, and return its identity.

        Args:
            key: The object.
            content: Its bytes, or the file that holds them.
            if_absent: Write only if there is no object. Of a file above `PUT_AT_ONCE`, this is known only beforehand.
            if_match: Write only if the object has this identity.
            done: Called with the identity once the object is complete, also if the caller is interrupted meanwhile.

        Raises:
            FileExistsError: If the condition does not hold.
            UnsupportedError: If the server does not know the condition.
            OutageError: If the object cannot be written.
        """

    def upload(self, files: Iterable[tuple[str, Path]], done: Callable[[str, Identity], None]) -> None:
        """Write files side by side.

        If a file fails, or a signal comes, the uploads that are under way end with their object or without it.

        Args:
            files: The key and the local path of each.
            done: Called with the key and the identity of each object that is complete, also after a failure.

        Raises:
            OutageError: If an object cannot be written.
        """

    def identity(self, key: str) -> Identity | None:
        """Return the identity of an object by a request without a body; None if there is no object.

        Raises:
            FormatError: If the store cannot be asked.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, and those that do not exist any more.

        Raises:
            OutageError: If one cannot be deleted.
        """


PUT_AT_ONCE = 64 << 20
"""Bytes of a file that one request writes. A larger one is written in parts, for which no store has a condition."""

_MODES = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.DIRECTORY, stat.S_IFIFO: Kind.FIFO, stat.S_IFSOCK: Kind.SOCKET}


def status_of(found: os.stat_result) -> Status:
    """Convert a stat result of a path, or of an open file."""
    kind = _MODES.get(stat.S_IFMT(found.st_mode), Kind.DEVICE)
    return Status(kind, Identity(found.st_size, f"{found.st_mtime_ns}:{found.st_ino}"))


def local_entries(directory: str) -> Iterator[Entry]:
    """Yield the entries of a directory of the local file system, in no order.

    Raises:
        OSError: If the directory cannot be listed.
    """
    with os.scandir(directory) as held:
        for entry in held:
            yield Entry(entry.name, _kind(entry))


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIRECTORY
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.DEVICE


_READ_REMEDY = "Download or mount it first"
_READ_ONLY = {
    "hf": "Write to a local path, then run hf upload",
    "http": "Write to a local path, and upload it",
    "https": "Write to a local path, and upload it",
}
"""Schemes that are only read, and what to do instead."""
_OPENERS: dict[str, Callable[[Url], Store]] = {}
_OPEN: dict[tuple[str, str, str], Store] = {}
_GROUP = "tokfmt.stores"
"""Entry points of functions that open stores, by scheme."""


def register_store(scheme: str, opener: Callable[[Url], Store]) -> None:
    """Register a store for a scheme, in this process.

    An entry point of the group `tokfmt.stores` registers a store in every process.

    Args:
        scheme: The scheme, such as "s3".
        opener: Opens the store of an address. It is called once per bucket or host, and for each web address with a
            query, in each process.
    """
    _OPENERS[scheme.lower()] = opener


def close_stores() -> None:
    """Forget all open stores, so that the next use opens each again with the current options."""
    _OPEN.clear()


def _opener(scheme: str) -> Callable[[Url], Store] | None:
    """Return the function that opens the stores of a scheme; None without one."""
    if (found := _OPENERS.get(scheme)) is not None:
        return found
    from importlib.metadata import entry_points  # Takes 30 ms, which a local path does not pay.

    for point in entry_points(group=_GROUP, name=scheme):
        register_store(scheme, point.load())
        return _OPENERS[scheme]
    return None


def _is_registered(scheme: str) -> bool:
    return _opener(scheme.lower()) is not None


def store_of(url: Url) -> Store:
    """Return the store that holds an address.

    Raises:
        OptionError: If no store is registered for the scheme, or the address or the options of stores are not valid.
        MissingDependencyError: If a package that the store needs is not installed.
    """
    known = (url.scheme, url.authority, f"{url.key}?{url.query}" if url.query else "")
    if (found := _OPEN.get(known)) is not None:
        return found
    if (opener := _opener(url.scheme)) is None:
        raise _refused(str(url), "read")
    return _OPEN.setdefault(known, opener(url))


def notes_of(url: Url) -> list[str]:
    """Return the notes of the store on a file; see `HasNotes`."""
    store = store_of(url)
    return store.notes(url.key) if isinstance(store, HasNotes) else []


def writable_store(url: Url) -> WritableStore:
    """Return the store that writes an address.

    Raises:
        OptionError: If the store is only read, the address is a bucket, or as `store_of`.
        MissingDependencyError: As `store_of`.
    """
    if not _is_registered(url.scheme) or url.scheme in _READ_ONLY:
        raise _not_written(str(url))
    found = store_of(_with_key(url))
    if not isinstance(found, WritableStore) or found.can is None:
        raise _not_written(str(url))
    return found


def _with_key(url: Url) -> Url:
    if not url.key:
        raise OptionError(f"{printable(url)}: is a whole bucket. Name a key in it")
    return url


def destination_of(given: PlaceLike) -> Place:
    """Return the place that a user names to be written: an address, or a local path.

    To write to a local path that looks like an address, give its absolute path.

    Raises:
        OptionError: If it is an address that cannot be written, or a bucket.
    """
    if isinstance(given, Url):
        return given
    text = os.fspath(given)
    if (found := _ADDRESS.match(text)) is None:
        return Path(given)
    if not _is_registered(found[1]) or found[1].lower() in _READ_ONLY:
        raise _not_written(text)
    if found[2] == "/":
        raise _refused(text, "read")
    return _with_key(Url.parse(text))


def is_address(text: str) -> bool:
    """Return whether a text looks like an address."""
    return _ADDRESS.match(text) is not None


def place_of(given: PlaceLike) -> Place:
    """Return the place that a user gives: an address if its scheme is registered, else a local path.

    Raises:
        OptionError: If it is an address of another scheme, and no local path of that name exists.
    """
    if isinstance(given, Url):
        return given
    text = os.fspath(given)
    if (found := _ADDRESS.match(text)) is not None:
        if found[2] != "/" and not os.path.lexists(text) and _is_registered(found[1]):
            return Url.parse(text)
        refuse_address(text, "read")
    return Path(given)


def text_of(place: Place) -> str:
    """Return the text that `place_of` reads as this place. It may hold a password, so it is not for messages."""
    return place.address if isinstance(place, Url) else os.fspath(place)


def local_path(given: PlaceLike, what: str) -> Path:
    """Return the local path of a place, for a library or a system call that takes only local paths.

    Args:
        given: The place.
        what: The thing at the place, for the message: "an HDF5 file".

    Raises:
        UnsupportedError: If it is an address.
    """
    place = place_of(given)
    if isinstance(place, Url):
        raise UnsupportedError(place, f"{what} is read from a local path only", remedy=_READ_REMEDY)
    return place


def refuse_address(path: str | os.PathLike[str], done: Literal["read", "written"]) -> None:
    """Raise an error for an address, such as s3://BUCKET/KEY or https://HOST/PATH.

    Args:
        path: A path that exists is not an address, unless it is a destination. To write to a path of such a name, give
            its absolute path.
        done: What tokfmt does with the path.

    Raises:
        OptionError: If it is an address.
    """
    if _ADDRESS.match(os.fspath(path)) and not (done == "read" and os.path.lexists(path)):
        raise _refused(os.fspath(path), done)


def _refused(text: str, done: Literal["read", "written"]) -> OptionError:
    found = _ADDRESS.match(text)
    scheme, named = (found[1].lower() if found else ""), _ADDRESS.sub(r"\1://", printable(text), count=1)
    named = named.partition("?")[0] if scheme in _WITH_QUERY else named  # The query may hold a signature.
    if done == "written":
        return OptionError(f"{named}: only local paths are written. Write a file and upload it, or mount it")
    if _is_registered(scheme):
        return OptionError(f"{named}: a Path cannot hold an address, because it joins slashes. Give it as a text")
    return OptionError(f"{named}: the scheme {scheme} is not read (expected {', '.join(_schemes())}). {_READ_REMEDY}")


def _not_written(text: str) -> OptionError:
    """Return the error for a destination whose scheme is unknown, or only read."""
    scheme, _, rest = text.partition(":")
    named = printable(f"{scheme}://{rest.lstrip('/').partition('?')[0].rpartition('@')[2]}")
    remedy = _READ_ONLY.get(scheme.lower(), "Write to a local path, and upload it")
    return OptionError(f"{named}: the scheme {printable(scheme)} is not written (expected s3, gs or az). {remedy}")


def _schemes() -> list[str]:
    """Return the schemes that have a store, sorted."""
    from importlib.metadata import entry_points

    return sorted(_OPENERS.keys() | entry_points(group=_GROUP).names)
