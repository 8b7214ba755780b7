"""Stores of objects: the class that every store implements, and the values that it returns.

A store answers for one bucket or host. `files.place.Url` asks it, and `files.file.StoredFile` reads from it. A package
registers its store by an entry point of the group `tokfmt.stores`, and tests it with `tokfmt.testing.StoreContract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple


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
    """An entry of a directory."""

    name: str
    kind: Kind
    identity: Identity | None = None


class Neighbors(NamedTuple):
    """The objects in a directory whose names begin with a stem, as one request lists them."""

    stem: str
    last: str | None
    entries: dict[str, Entry]
    below: dict[str, dict[str, Entry]]


IF_ABSENT, IF_MATCH = "if-absent", "if-match"
"""Conditions that a store may know: write only if there is no object, and only if it is the one that was seen."""
PUT_AT_ONCE = 64 << 20
"""Bytes of a file that one request writes. A larger one is written in parts, for which no store has a condition."""


class Store(ABC):
    """Access to one bucket or host. Thread-safe. A key is that of `Url.key`.

    A store that is read implements `status`, `entries` and `read_ranges`. The other methods have a default: `prefetch`,
    `beside`, `identities` and `notes` save requests, or inform the user. A store that tokfmt writes to has `can`, `put`
    and `delete`. An object appears as a whole, or does not appear.

    Attributes:
        can: The conditions of `put` that the store knows: `IF_ABSENT`, `IF_MATCH`. None: tokfmt does not write to it.
    """

    can: frozenset[str] | None = None

    @abstractmethod
    def status(self, key: str) -> Status:
        """Return the status of a key.

        Raises:
            OSError: If it does not exist (FileNotFoundError), or the store cannot be reached.
        """

    @abstractmethod
    def entries(self, key: str) -> Iterator[Entry]:
        """Yield the entries directly below a key, in no order.

        Raises:
            OSError: If the key cannot be listed.
        """

    @abstractmethod
    def read_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity
    ) -> Iterable[bytes | memoryview]:
        """Return the bytes of several ranges of a file, in order. An iterator yields them as they arrive.

        Args:
            key: The file.
            ranges: The first byte of each range, and the byte after its last, in any order, none beyond the end.
            identity: The identity that `status` or `entries` gave for the file.

        Raises:
            SourceChangedError: If the file has another identity now.
            OSError: If the file cannot be read.
        """

    def prefetch(  # noqa: B027
        self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity, *, keep: bool
    ) -> None:
        """Announce ranges that `read_ranges` will be asked for; see `files.File.prefetch`."""

    def beside(self, key: str) -> Neighbors | None:  # noqa: ARG002
        """List the objects that begin with the stem of a key, by one request; None if the store cannot do that.

        Raises:
            FormatError: If the store cannot be asked, or lists no keys.
        """
        return None

    def identities(self, keys: Sequence[str]) -> Iterator[Identity]:
        """Yield the identities of objects, in order. A store may ask for them side by side.

        Raises:
            OSError: As `status`, when the object is reached.
        """
        return (self.status(key).identity for key in keys)

    def notes(self, key: str) -> list[str]:  # noqa: ARG002
        """Return what users should know about how the store serves a file that was looked at."""
        return []

    def put(
        self,
        key: str,  # noqa: ARG002
        content: bytes | Path,  # noqa: ARG002
        *,
        if_absent: bool = False,  # noqa: ARG002
        if_match: Identity | None = None,  # noqa: ARG002
        done: Callable[[Identity], None] = lambda _: None,  # noqa: ARG002
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
        raise TypeError(f"{type(self).__name__} has no put, so its `can` is None")

    def upload(self, files: Iterable[tuple[str, Path]], done: Callable[[str, Identity], None]) -> None:
        """Write files. A store may write them side by side.

        If a file fails, or a signal comes, the uploads that are under way end with their object or without it.

        Args:
            files: The key and the local path of each.
            done: Called with the key and the identity of each object that is complete, also after a failure.

        Raises:
            OutageError: If an object cannot be written.
        """
        for key, path in files:
            self.put(key, path, done=lambda identity, key=key: done(key, identity))  # type: ignore[misc]

    def identity(self, key: str) -> Identity | None:
        """Return the identity of an object by a request without a body; None if there is no object.

        Raises:
            FormatError: If the store cannot be asked.
        """
        try:
            status = self.status(key)
        except FileNotFoundError:
            return None
        return status.identity if status.kind is Kind.FILE else None

    def delete(self, keys: Iterable[str]) -> None:  # noqa: ARG002
        """Delete objects, and those that do not exist any more.

        Raises:
            OutageError: If one cannot be deleted.
        """
        raise TypeError(f"{type(self).__name__} has no delete, so its `can` is None")
