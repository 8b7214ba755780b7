"""Places of datasets: paths of the local file system, and addresses of objects in registered stores.

`place_of` converts what a user gives to a place. A place answers what is there, and `files.file.open_file` reads it, so
that no caller asks where it is. A `Url` has no `__fspath__`, so a call of `os` or `open` with an address raises
TypeError instead of reading `s3:/bucket/key` in the current directory.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from tokfmt.errors import OptionError, UnsupportedError
from tokfmt.files.listing import Listing
from tokfmt.files.store import Entry, Identity, Kind, Neighbors, Status, Store
from tokfmt.wording import printable

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+)")  # A Path turns two slashes into one.
AZURE_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_WITH_QUERY = ("http", "https")
"""Schemes in which `?` ends the key. In a key of an object store, `?` is a character or a pattern."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP, errno.ENAMETOOLONG)


class Place(ABC):
    """The location of a file or a directory, with the interface of `Path` that tokfmt uses.

    While a dataset is opened, its places carry a listing, which answers whether something exists, and what it is. The
    methods that end in `_now` always ask the file system or the store.
    """

    __slots__ = ()
    is_local: ClassVar[bool]  # the kernel opens it, and a question about it costs no request
    # the places that follow from this one (`/`, `parent`, another name) carry it too; neither compared nor pickled
    listing: Listing | None
    # names that `entries` leaves out: those of other splits; the places that follow have it too; pickled, not
    # compared
    hidden: frozenset[str]

    # The interface of Path

    @property
    @abstractmethod
    def name(self) -> str:
        """The last name; "" for a root."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The name without its last suffix."""

    @property
    @abstractmethod
    def suffix(self) -> str:
        """The last suffix of the name, with its dot."""

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The root, followed by the names."""

    @property
    @abstractmethod
    def parent(self) -> Self:
        """The place one level up. The parent of a root is the root."""

    @property
    @abstractmethod
    def parents(self) -> Sequence[Self]:
        """The places above, the nearest first."""

    @abstractmethod
    def with_name(self, name: str) -> Self:
        """Return the place of another name in the same parent."""

    @abstractmethod
    def with_suffix(self, suffix: str) -> Self:
        """Return the place with another suffix."""

    @abstractmethod
    def __truediv__(self, below: str) -> Self: ...

    @abstractmethod
    def __lt__(self, other: Any) -> bool: ...

    @abstractmethod
    def as_posix(self) -> str:
        """Return the place as text that holds no secret."""

    # What differs

    @property
    @abstractmethod
    def text(self) -> str:
        """The text that `place_of` reads as this place. It may hold a password, so it is not for messages."""

    @abstractmethod
    def normalized(self) -> Self:
        """Return the absolute path without `..`. Links are not followed. An address is returned as it is."""

    @abstractmethod
    def real(self) -> Self:
        """Return the absolute path with all links followed. An address is returned as it is."""

    @abstractmethod
    def relative(self, base: Place) -> PurePath | None:
        """Return the path from `base` to this place; None if it is neither `base` nor below it."""

    @abstractmethod
    def status_now(self) -> Status:
        """Return the status. Links are followed. The file system or the store is asked, to detect a change."""

    @abstractmethod
    def entries_now(self) -> Iterator[Entry]:
        """Yield the entries of a directory, in no order."""

    @abstractmethod
    def beside_now(self) -> Neighbors | None:
        """List the names in the same directory that begin with the same stem; None if no single request does that."""

    @abstractmethod
    def kind_now(self) -> Kind:
        """Return what the place itself is, links not followed. The file system or the store is asked."""

    @abstractmethod
    def is_fifo(self) -> bool:
        """Return whether this is a pipe, which can be read only once. Only local paths can be."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Return what users should know about how a file that was looked at is served."""

    # Answers that may come from a listing

    @abstractmethod
    def asking(self, listing: Listing | None) -> Self:
        """Return the same place with another listing, or without one."""

    @abstractmethod
    def hiding(self, hidden: Iterable[Place]) -> Self:
        """Return the same place, which does not list some places below it."""

    def status(self) -> Status:
        """Return the status. Links are followed."""
        answers = self.listing
        return answers.status(self) if answers is not None and answers.depth else self.status_now()

    def entries(self) -> dict[str, Kind]:
        """Return the names in a directory, and the kind of each, but for those that are hidden."""
        answers = self.listing
        kinds = answers.entries(self) if answers is not None and answers.depth else None
        kinds = {entry.name: entry.kind for entry in self.entries_now()} if kinds is None else kinds
        if not self.hidden:
            return kinds
        return {name: kind for name, kind in kinds.items() if str(self / name) not in self.hidden}

    def beside(self) -> list[Self]:
        """Return the places in the same directory that begin with the same stem, as far as they were listed."""
        answers = self.listing
        listed = answers.beside(self) if answers is not None and answers.depth else []
        return [self.parent / place.name for place in listed]

    def below(self) -> dict[Self, Identity]:
        """Return the files below a directory with their identities, as far as lists of a store state both."""
        answers = self.listing
        return answers.below(self) if answers is not None and answers.depth else {}

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a regular file, or a link to one."""
        return self.kind(follow_symlinks) is Kind.FILE

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a directory, or a link to one."""
        return self.kind(follow_symlinks) is Kind.DIRECTORY

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the place exists, links followed."""
        return self.kind(follow_symlinks) is not None

    def is_symlink(self) -> bool:
        """Return whether this is a symbolic link. Only local paths can be."""
        return self.kind(follow_symlinks=False) is Kind.LINK

    def is_there(self) -> bool:
        """Return whether the place exists, even as a broken link, as `os.path.lexists` does."""
        return self.kind(follow_symlinks=False) is not None

    def kind(self, follow_symlinks: bool = True) -> Kind | None:
        """Return what is at the place; None if there is nothing, or no place can have such a name."""
        answers = self.listing
        is_listed, kind = answers.kind_of(self) if answers is not None and answers.depth else (False, None)
        if is_listed and not (follow_symlinks and kind is Kind.LINK):
            return kind
        try:
            return self.status().kind if follow_symlinks else self.kind_now()
        except ValueError:  # The path has a zero byte.
            return None
        except OSError as error:
            if follow_symlinks and error.errno not in _ABSENT:
                raise
            return None


class LocalPlace(PosixPath, Place):
    """A path of the local file system. It is a `Path`, and equal to the `Path` of the same names."""

    is_local = True
    listing: Listing | None = None
    hidden: frozenset[str] = frozenset()

    def asking(self, listing: Listing | None) -> LocalPlace:
        if listing is None and not self.hidden:
            return self if self.listing is None else LocalPlace(self)
        return _carrying(self, listing, self.hidden)

    def hiding(self, hidden: Iterable[Place]) -> LocalPlace:
        return _carrying(self, self.listing, frozenset(map(str, hidden)))

    @property
    def text(self) -> str:
        return os.fspath(self)

    def normalized(self) -> LocalPlace:
        if self.is_absolute() and ".." not in self.parts:
            return self
        return LocalPlace(os.path.abspath(self)).asking(self.listing)

    def real(self) -> LocalPlace:
        return LocalPlace(os.path.realpath(self)).asking(self.listing)

    def relative(self, base: Place) -> PurePath | None:
        below = isinstance(base, LocalPlace) and self.is_relative_to(base)
        return PurePosixPath(*self.parts[len(base.parts) :]) if below else None

    def status_now(self) -> Status:
        return status_of(os.stat(self))

    def entries_now(self) -> Iterator[Entry]:
        with os.scandir(self) as entries:
            for entry in entries:
                yield Entry(entry.name, _kind(entry))

    def beside_now(self) -> Neighbors | None:
        return None

    def notes(self) -> list[str]:
        return []

    def kind_now(self) -> Kind:
        return status_of(os.lstat(self)).kind

    # What Path answers too: the listing answers first.
    is_file, is_dir, exists, is_symlink = Place.is_file, Place.is_dir, Place.exists, Place.is_symlink


def _carrying(path: LocalPlace, listing: Listing | None, hidden: frozenset[str]) -> LocalPlace:
    """Return a place with a listing and what it hides."""
    place = _AskingPlace(path)
    place.listing, place.hidden = listing, hidden
    return place


class _AskingPlace(LocalPlace):
    """A local place that carries a listing, or hides names. Each version of Python makes the paths that follow from one
    in another way.

    It is equal to the `LocalPlace` of the same names, and pickled as that if it hides nothing.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return (_carrying, (LocalPlace(self), None, self.hidden)) if self.hidden else (LocalPlace, self.parts)

    def __repr__(self) -> str:
        return repr(LocalPlace(self))

    def __truediv__(self, below: str | os.PathLike[str]) -> _AskingPlace:
        return self._passed_on(super().__truediv__(below))

    @property
    def parent(self) -> _AskingPlace:
        return self._passed_on(super().parent)

    def with_name(self, name: str) -> _AskingPlace:
        return self._passed_on(super().with_name(name))

    def with_suffix(self, suffix: str) -> _AskingPlace:
        return self._passed_on(super().with_suffix(suffix))

    def _passed_on(self, place: LocalPlace) -> _AskingPlace:
        following = cast("_AskingPlace", place)
        following.listing, following.hidden = self.listing, self.hidden
        return following


@dataclass(frozen=True, slots=True)
class Url(Place):
    """The address of an object in a store, or of a prefix of objects.

    Attributes:
        scheme: In lower case, such as `s3`.
        authority: The bucket or the host, with the user and the port if given. On Azure, "ACCOUNT/CONTAINER", or the
            container alone if `AZURE_ACCOUNT` names the account.
        key: Names joined by slashes, without a slash at either end; "" is the bucket itself.
        query: The text after the question mark of a web address. It may hold a signature, so `str` omits it.
        listing, hidden: See `Place`.
    """

    scheme: str
    authority: str
    key: str = ""
    query: str = ""
    listing: Listing | None = field(default=None, compare=False)
    hidden: frozenset[str] = field(default=frozenset(), compare=False)
    is_local: ClassVar = False

    def __post_init__(self) -> None:
        if self.key and any(part in ("", ".", "..") for part in self.key.split("/")):
            part = "an empty part" if "//" in f"/{self.key}/" else "a part . or .."
            raise OptionError(f"{printable(self)}: {part} in a key cannot be addressed")

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

    def __reduce__(self) -> tuple[type[Url], tuple[object, ...]]:
        return Url, (self.scheme, self.authority, self.key, self.query, None, self.hidden)

    def asking(self, listing: Listing | None) -> Url:
        return replace(self, listing=listing)

    def hiding(self, hidden: Iterable[Place]) -> Url:
        return replace(self, hidden=frozenset(map(str, hidden)))

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, Url):
            return NotImplemented
        return (*self.parts, self.query) < (*other.parts, other.query)

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
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Url:
        return self._of(self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[Url, ...]:
        names = self.parts[1:-1]
        return tuple(self._of("/".join(names[:count])) for count in range(len(names), -1, -1)) if self.key else ()

    def with_name(self, name: str) -> Url:
        if not self.name:
            raise ValueError(f"{self!r} has an empty name")
        if not name or "/" in name or name == ".":
            raise ValueError(f"Invalid name {name!r}")
        return self.parent / name

    def with_suffix(self, suffix: str) -> Url:
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def __truediv__(self, below: str | PurePosixPath) -> Url:
        names = str(below).strip("/") if isinstance(below, str) and not below.startswith("/") else str(below)
        if names.startswith("/"):
            raise OptionError(f"{printable(names)}: is an absolute path, not a name below {printable(self)}")
        return self if names in ("", ".") else self._of(f"{self.key}/{names}" if self.key else names)

    @property
    def text(self) -> str:
        return self.address

    def normalized(self) -> Url:
        return self

    def real(self) -> Url:
        return self

    def relative(self, base: Place) -> PurePosixPath | None:
        below = isinstance(base, Url) and self.parts[: len(base.parts)] == base.parts
        return PurePosixPath(*self.parts[len(base.parts) :]) if below else None

    def status_now(self) -> Status:
        return store_of(self).status(self.key)

    def entries_now(self) -> Iterator[Entry]:
        return store_of(self).entries(self.key)

    def beside_now(self) -> Neighbors | None:
        return store_of(self).beside(self.key)

    def is_symlink(self) -> bool:
        return False

    def kind_now(self) -> Kind:
        """A store has no links, so that its lists answer."""
        return self.status().kind

    def is_fifo(self) -> bool:
        return False

    def notes(self) -> list[str]:
        return store_of(self).notes(self.key)

    def _of(self, key: str) -> Url:
        return replace(self, key=key, query="")


AnyPlace = TypeVar("AnyPlace", Url, LocalPlace, Place, Path)
PlaceLike = str | os.PathLike[str] | Place
"""A place, or a local path as text. Text is an address only if `place_of` reads it."""


def identities_now(places: Iterable[Place]) -> Iterator[Identity]:
    """Yield the identities of files, in order. A store is asked for many side by side."""
    by_bucket = itertools.groupby(
        places, lambda place: isinstance(place, Url) and not place.query and replace(place, key="")
    )
    for bucket, files in by_bucket:
        if isinstance(bucket, Url):
            yield from store_of(bucket).identities([file.key for file in files if isinstance(file, Url)])
        else:
            yield from (file.status_now().identity for file in files)


_MODES = {
    stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.DIRECTORY, stat.S_IFLNK: Kind.LINK, stat.S_IFIFO: Kind.FIFO,
    stat.S_IFSOCK: Kind.SOCKET,
}  # fmt: skip


def status_of(status: os.stat_result) -> Status:
    """Convert a stat result of a path, or of an open file."""
    kind = _MODES.get(stat.S_IFMT(status.st_mode), Kind.DEVICE)
    return Status(kind, Identity(status.st_size, f"{status.st_mtime_ns}:{status.st_ino}"))


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
_OPEN: list[dict[tuple[str, str, str], Store]] = [{}]
_BUILT_IN = ("s3", "gs", "az", "hf", "http", "https")
"""The schemes of `tokfmt.stores.open_store`, which is imported when it is used."""
_GROUP = "tokfmt.stores"
"""Entry points of functions of other packages that open stores, by scheme."""


def register_store(scheme: str, opener: Callable[[Url], Store]) -> None:
    """Register a store for a scheme, in this process.

    An entry point of the group `tokfmt.stores` registers the store of another package in every process. The opener is
    called once per bucket or host, and for each web address with a query, in each process.
    """
    _OPENERS[scheme.lower()] = opener


def close_stores() -> None:
    """Forget all open stores, so that the next use opens each again with the current options."""
    _OPEN[0] = {}  # a store that another thread is just opening goes to the old ones


def _opener(scheme: str) -> Callable[[Url], Store] | None:
    """Return the function that opens the stores of a scheme, in lower case; None without one."""
    if (opener := _OPENERS.get(scheme)) is not None:
        return opener
    from importlib.metadata import EntryPoint, entry_points  # Takes 30 ms, which a local path does not pay.

    own = [EntryPoint(scheme, "tokfmt.stores:open_store", _GROUP)] if scheme in _BUILT_IN else []
    for point in own or entry_points(group=_GROUP, name=scheme):
        register_store(scheme, point.load())
        return _OPENERS[scheme]
    return None


def store_of(url: Url) -> Store:
    """Return the store that holds an address."""
    store_key, open_stores = (url.scheme, url.authority, f"{url.key}?{url.query}" if url.query else ""), _OPEN[0]
    if (store := open_stores.get(store_key)) is not None:
        return store
    if (opener := _opener(url.scheme)) is None:
        raise _refused(str(url), "read")
    return open_stores.setdefault(store_key, opener(url))


def writable_store(url: Url) -> Store:
    """Return the store that writes an address."""
    if not _is_registered(url.scheme) or url.scheme in _READ_ONLY:
        raise _not_written(str(url))
    store = store_of(_with_key(url))
    if store.can is None:
        raise _not_written(str(url))
    return store


def _is_registered(scheme: str) -> bool:
    return _opener(scheme.lower()) is not None


def _with_key(url: Url) -> Url:
    if not url.key:
        raise OptionError(f"{printable(url)}: is a whole bucket. Name a key in it")
    return url


def destination_of(place: PlaceLike) -> Place:
    """Return the place that a user names to be written: an address, or a local path.

    To write to a local path that looks like an address, give its absolute path.
    """
    if isinstance(place, Place):
        return place
    text = os.fspath(place)
    if (match := _ADDRESS.match(text)) is None:
        return LocalPlace(place)
    if not _is_registered(match[1]) or match[1].lower() in _READ_ONLY:
        raise _not_written(text)
    if match[2] == "/":
        raise _refused(text, "read")
    return _with_key(Url.parse(text))


def is_address(text: str) -> bool:
    """Return whether a text looks like an address."""
    return _ADDRESS.match(text) is not None


def place_of(place: PlaceLike) -> Place:
    """Return the place that a user gives: an address if its scheme is registered, else a local path.

    Raises:
        OptionError: If it is an address of another scheme, and no local path of that name exists.
    """
    if isinstance(place, Place):
        return place
    text = os.fspath(place)
    if (match := _ADDRESS.match(text)) is not None:
        if match[2] != "/" and not os.path.lexists(text) and _is_registered(match[1]):
            return Url.parse(text)
        refuse_address(text, "read")
    return LocalPlace(place)


def local_path(path: PlaceLike, role: str, remedy: str = _READ_REMEDY) -> LocalPlace:
    """Return the local path of a place, such as "an HDF5 file", for what takes only local paths."""
    place = place_of(path)
    if not isinstance(place, LocalPlace):
        raise UnsupportedError(place, f"{role} is read from a local path only", remedy=remedy)
    return place


def refuse_address(path: str | os.PathLike[str], done: Literal["read", "written"]) -> None:
    """Raise an error for an address, such as s3://BUCKET/KEY or https://HOST/PATH. A path that exists is not an
    address, unless it is a destination; the absolute path of such a name can be written.
    """
    if _ADDRESS.match(os.fspath(path)) and not (done == "read" and os.path.lexists(path)):
        raise _refused(os.fspath(path), done)


def _refused(text: str, done: Literal["read", "written"]) -> OptionError:
    match = _ADDRESS.match(text)
    scheme, named = (match[1].lower() if match else ""), _ADDRESS.sub(r"\1://", printable(text), count=1)
    named = named.partition("?")[0] if scheme in _WITH_QUERY else named  # The query may hold a signature.
    is_joined = not text.partition(":")[2].startswith("//")  # A Path has joined the slashes.
    if done == "written" and not (is_joined and _is_registered(scheme)):
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

    return sorted({*_BUILT_IN, *_OPENERS, *entry_points(group=_GROUP).names})
