"""Places of datasets: paths of the local file system, and addresses in stores that other code registers.

`place_of` turns the words of a user into a place. What is at a place is asked through `core.listing`, and read through
`core.files.open_file`; both ask the store of the place. An address has no `__fspath__`, so a call of `os` or of `open`
that was left in a path by mistake raises TypeError instead of reading `s3:/bucket/key` of the current directory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, Protocol, TypeVar

from tokfmt.core.errors import OptionError
from tokfmt.core.text_format import printable

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+)")  # one slash of two is lost on the way through a Path
_WITH_QUERY = ("http", "https")
"""Schemes in which `?` ends the key. In a key of an object store it is a character, or a pattern."""


@dataclass(frozen=True, order=True, slots=True)
class Url:
    """The address of an object, or of a name below which there are objects. It answers what a `Path` answers.

    Attributes:
        scheme: In lower case, such as `s3`.
        authority: The bucket or the host, with user and port if they were given.
        key: Names joined by slashes, without a slash at either end; "" is the bucket itself.
        query: What follows the question mark of a web address. It may hold a signature, so `str` leaves it out.
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
        """Read an address.

        Raises:
            OptionError: It is not an address, or its key has an empty part, `.` or `..`.
        """
        scheme, colon, rest = text.partition("://")
        if not colon or not re.fullmatch("[A-Za-z][A-Za-z0-9+.-]*", scheme):
            raise OptionError(f"{printable(text)}: is not an address, such as s3://BUCKET/KEY")
        scheme, query = scheme.lower(), ""
        if scheme in _WITH_QUERY:
            rest, _, query = rest.partition("?")
        authority, _, key = rest.partition("/")
        return Url(scheme, authority, key.removesuffix("/"), query)

    @property
    def address(self) -> str:
        """The whole address, with the user and the query that `str` leaves out: `Url.parse` reads it again."""
        return self._text(self.authority) + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return self._text(self.authority.rpartition("@")[2]) + ("?…" if self.query else "")

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def _text(self, authority: str) -> str:
        return f"{self.scheme}://{authority}" + (f"/{self.key}" if self.key else "")

    def as_posix(self) -> str:
        """The address without user and query."""
        return self._text(self.authority.rpartition("@")[2])

    @property
    def parts(self) -> tuple[str, ...]:
        """The store and the names of the key, as `Path.parts` has the root and the names."""
        return (f"{self.scheme}://{self.authority}/", *(self.key.split("/") if self.key else ()))

    @property
    def name(self) -> str:
        """The last name of the key; "" of a bucket."""
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
        """The address above; a bucket is its own."""
        return self._of(self.key.rpartition("/")[0])

    def with_name(self, name: str) -> Url:
        """Another name in the same parent.

        Raises:
            ValueError: This is a bucket, or `name` is not a name.
        """
        if not self.name:
            raise ValueError(f"{self!r} has an empty name")
        if not name or "/" in name or name == ".":
            raise ValueError(f"Invalid name {name!r}")
        return self.parent / name

    def with_suffix(self, suffix: str) -> Url:
        """The same name with another suffix; see `Path.with_suffix`.

        Raises:
            ValueError: This is a bucket, or `suffix` is not a suffix.
        """
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def __truediv__(self, below: str | PurePosixPath) -> Url:
        names = str(below).strip("/") if isinstance(below, str) and not below.startswith("/") else str(below)
        if names.startswith("/"):
            raise OptionError(f"{printable(names)}: is an absolute path, not a name below {printable(self)}")
        return self if names in ("", ".") else self._of(f"{self.key}/{names}" if self.key else names)

    def is_relative_to(self, other: Place) -> bool:
        """Whether this is the other address, or one below it."""
        return isinstance(other, Url) and self.parts[: len(other.parts)] == other.parts

    def relative_to(self, other: Place) -> PurePosixPath:
        """The names that lead from the other address to this one.

        Raises:
            ValueError: This does not lie below it.
        """
        if not self.is_relative_to(other):
            raise ValueError(f"{str(self)!r} is not in the subpath of {str(other)!r}")
        return PurePosixPath(*self.parts[len(other.parts) :])

    def _of(self, key: str) -> Url:
        return replace(self, key=key, query="")


Place = Path | Url
AnyPlace = TypeVar("AnyPlace", Path, Url)


def absolute(path: Path) -> Path:
    """A path from the root of the file system, without `..`; links are kept."""
    return Path(os.path.abspath(path))


def real(path: Path) -> Path:
    """A path from the root of the file system, links followed as far as they lead."""
    return Path(os.path.realpath(path))


class Identity(NamedTuple):
    """What must not change while a file is read.

    Attributes:
        size: Bytes.
        tag: Of a local file its modification time in nanoseconds and its inode; else what its store changes with it.
    """

    size: int
    tag: str


class Kind(Enum):
    """What is at a place, or what an entry of a directory is, of which links are not followed."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "FIFO"
    SOCKET = "socket"
    DEVICE = "device"


class Status(NamedTuple):
    """What is at a place, links followed.

    Attributes:
        kind: What it is, never a link.
        identity: Of a directory only the tag counts.
    """

    kind: Kind
    identity: Identity

    @property
    def size(self) -> int:
        """Bytes."""
        return self.identity.size


class Store(Protocol):
    """One bucket or host. Threads may share it. Keys are `Url.key`."""

    def status(self, key: str) -> Status:
        """What is at a key.

        Raises:
            OSError: There is nothing (FileNotFoundError), or it cannot be reached.
        """

    def entries(self, key: str) -> Iterator[tuple[str, Kind]]:
        """The names right below a key, in no order, and what each is.

        Raises:
            OSError: It cannot be listed.
        """

    def read_range(self, key: str, start: int, stop: int) -> tuple[bytes, Identity]:
        """The bytes of a range, fewer at the end of the file, and the identity of what they were read from.

        Raises:
            OSError: It cannot be read.
        """


_MODES = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.DIRECTORY, stat.S_IFIFO: Kind.FIFO, stat.S_IFSOCK: Kind.SOCKET}


def status_of(found: os.stat_result) -> Status:
    """What the local file system says of a path, or of an open file."""
    kind = _MODES.get(stat.S_IFMT(found.st_mode), Kind.DEVICE)
    return Status(kind, Identity(found.st_size, f"{found.st_mtime_ns}:{found.st_ino}"))


def local_entries(directory: str) -> Iterator[tuple[str, Kind]]:
    """The names in a directory of the local file system, in no order, and what each is.

    Raises:
        OSError: It cannot be listed.
    """
    with os.scandir(directory) as held:
        for entry in held:
            yield entry.name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.DIRECTORY
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.DEVICE


_OPENERS: dict[str, Callable[[Url], Store]] = {}
_OPEN: dict[tuple[str, str], Store] = {}


def register(scheme: str, opener: Callable[[Url], Store]) -> None:
    """Let addresses of a scheme be read. `opener` is called once for each bucket or host, in each process."""
    _OPENERS[scheme.lower()] = opener


def store_of(url: Url) -> Store:
    """The store that holds an address.

    Raises:
        OptionError: No store is registered for its scheme.
    """
    if url.scheme not in _OPENERS:
        raise _refused(str(url), "read")
    known = (url.scheme, url.authority)
    return _OPEN.get(known) or _OPEN.setdefault(known, _OPENERS[url.scheme](url))


def place_of(given: str | os.PathLike[str] | Url) -> Place:
    """The place that a user means: an address if its scheme is registered, else a local path.

    Raises:
        OptionError: It is an address of another scheme, and not the name of something that is there.
    """
    if isinstance(given, Url):
        return given
    text = os.fspath(given)
    if (found := _ADDRESS.match(text)) is not None:
        if found[1].lower() in _OPENERS and found[2] != "/":
            return Url.parse(text)
        refuse_address(text, "read")
    return Path(given)


def path_of(given: str | os.PathLike[str] | Url) -> Path:
    """The local path that a user means, for what reads nothing else.

    Raises:
        OptionError: It is an address, be its scheme registered or not.
    """
    place = place_of(given)
    if isinstance(place, Url):
        raise _refused(str(place), "read")
    return place


def refuse_address(path: str | os.PathLike[str], done: Literal["read", "written"]) -> None:
    """Refuse what is not a path but the address of an object or a page: s3://, gs://, hf://, https:// and others.

    Args:
        path: A source that is there is no address; a destination of such a name is given by its absolute path.
        done: What is to be done with it.

    Raises:
        OptionError: It is an address.
    """
    if _ADDRESS.match(os.fspath(path)) and not (done == "read" and os.path.lexists(path)):
        raise _refused(os.fspath(path), done)


def _refused(text: str, done: Literal["read", "written"]) -> OptionError:
    named = _ADDRESS.sub(r"\1://", printable(text), count=1)
    remedy = "Download it, or mount it, first" if done == "read" else "Write a file and upload it, or mount it"
    return OptionError(f"{named}: only local paths are {done}. {remedy}")
