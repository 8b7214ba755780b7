"""Read the files of a zarr store by key, from a directory or a zip.

Only regular files inside the store are read.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from tokfmt.errors import CorruptError, FormatError, UnsafeError, UnsupportedError
from tokfmt.files.file import Stream, names_in, open_file
from tokfmt.files.place import Place
from tokfmt.formats.chunks import Origin
from tokfmt.formats.codecs import Stored
from tokfmt.formats.folders import inside, parsed_object

_MEMBER = 1 << 28
"""Maximum bytes of a decompressed zip member: twice the largest chunk."""

_JSON_BYTES = 1 << 20

_PIECE = 1 << 23  # bytes of a member that are read at once

_ANNOUNCED = 1 << 22
"""Maximum bytes that are requested before they are needed."""

METADATA = (".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json")
"""Names of the files of metadata."""

_RATIO = 1100
"""Maximum ratio of a zip member. Deflate compresses by a factor of about 1,032 at most."""


class Store(Protocol):
    """Files by key ("train/encoded_tokens/0"). Picklable, no open handles."""

    @property
    def root(self) -> Place: ...

    def names(self, key: str) -> frozenset[str]:
        """Return the names in the directory of a key; none if it is not a directory."""

    def blob(self, key: str) -> Stored | None:
        """Return the bytes of the regular file of a key, None if it does not exist.

        Raises:
            FormatError: It is not a regular file, cannot be read, or is outside of the store.
        """

    def origin(self, key: str) -> Origin:
        """Return the place of an existing key's bytes."""

    def key_at(self, path: Place, offset: int) -> tuple[str, int] | None:
        """Return the key that stores its bytes at a byte offset of a file, and the byte offset in the key.

        The second is 0 for a compressed zip member. None if no key has its bytes there.
        """


def open_store(path: Place, read_whole: Collection[str] = ()) -> Store:
    """Open the store at a path: a directory, or a zip file. The caller reads the arrays of `read_whole` wholly."""
    if not path.is_dir():
        return Zipped(path)
    _announce(path, read_whole)
    return Directory(path)


def _announce(path: Place, read_whole: Collection[str]) -> None:
    """Announce the metadata and some arrays of a store in a bucket, so that they are requested side by side."""
    if path.is_local:
        return
    total = 0
    for place, (size, _) in path.below().items():
        wanted = place.name in METADATA or not set(read_whole).isdisjoint(place.parts[len(path.parts) :])
        if wanted and 0 < size <= _JSON_BYTES and total + size <= _ANNOUNCED:
            open_file(place).prefetch([(0, size)], keep=True)
            total += size


class Directory:
    """A store in a directory: one file per key."""

    def __init__(self, root: Place) -> None:
        self.root = root

    def names(self, key: str) -> frozenset[str]:
        path = self._inside(key)
        return frozenset(names_in(path)) if path.is_dir() else frozenset()

    def blob(self, key: str) -> Stored | None:
        path = self._inside(key)
        if path.is_local and not path.is_there():
            return None
        try:
            file = open_file(path)
        except FormatError as error:  # A store is asked once, not whether the key exists before.
            if not path.is_local and isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        return Stored(path, file, 0, file.size)

    def origin(self, key: str) -> Origin:
        return Origin(self._inside(key), 0, exact=True)

    def key_at(self, path: Place, offset: int) -> tuple[str, int] | None:
        below = path.relative(self.root)
        return None if below is None else (below.as_posix(), offset)

    def _inside(self, key: str) -> Place:
        """Return the path of a key, after a check of every symbolic link between the root and it."""
        return inside(self.root, key, "store") if key else self.root


@dataclass(frozen=True, slots=True)
class _Member:
    header: int
    stored: int
    size: int
    crc: int
    deflated: bool


class Zipped:
    """A store in a zip file. Its members are usually not compressed; of several with one name, the last counts."""

    def __init__(self, root: Place) -> None:
        self.root, self._file = root, open_file(root)
        self._members: dict[str, _Member] = {}
        self._names: dict[str, set[str]] = {"": set()}
        for entry in self._entries():
            parts = entry.filename.split("/")
            if ".." in parts or entry.filename.startswith("/") or "\\" in entry.filename:
                raise UnsafeError(
                    root,
                    f"holds a member with the name {entry.filename!r}, which leaves the store",
                    remedy="Make the zip again from a store",
                )
            for depth in range(len(parts)):
                self._names.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
            if parts[-1]:
                self._members[entry.filename] = self._member(entry)

    def names(self, key: str) -> frozenset[str]:
        return frozenset(self._names.get(key, ()))

    def blob(self, key: str) -> Stored | None:
        member = self._members.get(key)
        if member is None:
            return None
        content = self._content(member, key)
        return Stored(self.root / key, content, 0, len(content))

    def origin(self, key: str) -> Origin:
        member = self._members[key]
        return Origin(self.root, self._begin(member, key), exact=not member.deflated)

    def key_at(self, path: Place, offset: int) -> tuple[str, int] | None:
        before = [(member.header, key) for key, member in self._members.items() if member.header <= offset]
        if path != self.root or not before:
            return None
        key = max(before)[1]
        member, begin = self._members[key], self._begin(self._members[key], key)
        return (key, 0 if member.deflated else offset - begin) if begin <= offset < begin + member.stored else None

    def length(self, key: str) -> int:
        """Return the number of bytes of an existing key."""
        return self._members[key].size

    def beginning(self, key: str, size: int) -> bytes:
        """Return up to `size` bytes from the beginning of an existing key, without a look at its checksum."""
        member = self._members[key]
        raw = self._file.read(self._begin(member, key), min(member.stored, size))
        try:
            return zlib.decompressobj(-15).decompress(raw, size) if member.deflated else raw
        except zlib.error as error:
            raise CorruptError(self.root / key, "cannot be inflated", remedy="Copy the zip again") from error

    def damage(self, key: str) -> CorruptError | None:
        """Return the error of an existing key whose bytes do not fit their checksum, read in pieces; None if they do.

        A compressed member is compared whenever it is read.
        """
        member, crc = self._members[key], 0
        begin = self._begin(member, key)
        for at in range(begin, begin + member.stored, _PIECE) if not member.deflated else ():
            crc = zlib.crc32(self._file.read(at, min(_PIECE, begin + member.stored - at)), crc)
        if member.deflated or crc == member.crc:
            return None
        return CorruptError(self.root / key, "does not fit its checksum in the zip", remedy="Copy the zip again")

    def _begin(self, member: _Member, key: str) -> int:
        """Return the byte offset of a member's bytes in the zip, after its local header."""
        head = self._file.read(member.header, 30)
        if head[:4] != b"PK\x03\x04":
            raise CorruptError(
                self.root / key,
                "has no header where the zip's directory states one",
                offset=member.header,
                remedy="Copy the zip again",
            )
        names, extra = struct.unpack("<2H", head[26:30])
        return member.header + 30 + int(names) + int(extra)

    def _entries(self) -> list[zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(io.BufferedReader(Stream(self._file))) as archive:
                return archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error, OSError) as error:
            is_zip = self._file.read(0, min(self._file.size, 2)) == b"PK"
            what = "is not a zip that can be read" if is_zip else "is neither a zarr directory nor a zip"
            raise CorruptError(self.root, what, remedy="Copy it again") from error

    def _member(self, entry: zipfile.ZipInfo) -> _Member:
        """Return the facts of a zip member; raise if it is encrypted, of another method, or claims too many bytes."""
        where = self.root / entry.filename
        if entry.flag_bits & 1:
            raise UnsupportedError(where, "is encrypted", remedy="Make the zip again without a password")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnsupportedError(
                where,
                "is compressed by a method other than deflate",
                found=entry.compress_type,
                remedy="Make the zip again",
            )
        stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.file_size > (entry.compress_size if stored else min(_MEMBER, entry.compress_size * _RATIO + 64)):
            raise UnsafeError(
                where,
                f"states that its {entry.compress_size:,} bytes inflate to {entry.file_size:,}",
                remedy="Unpack the zip by other means, if it is to be trusted",
            )
        return _Member(entry.header_offset, entry.compress_size, entry.file_size, entry.CRC, not stored)

    def _content(self, member: _Member, key: str) -> bytes:
        """Return the bytes of a zip member after a check of its size and checksum."""
        where = self.root / key
        if member.size > _MEMBER:
            raise UnsafeError(
                where, "is too large for a chunk", expected=f"at most {_MEMBER:,} bytes", found=member.size
            )
        raw = self._file.read(self._begin(member, key), member.stored)
        if member.deflated:
            try:
                raw = zlib.decompressobj(-15).decompress(raw, member.size + 1)
            except zlib.error as error:
                raise CorruptError(where, "cannot be inflated", remedy="Copy the zip again") from error
        if len(raw) != member.size:
            raise CorruptError(
                where,
                "is not as long as the zip's directory states",
                expected=f"{member.size:,} bytes",
                remedy="Copy the zip again",
            )
        if zlib.crc32(raw) != member.crc:
            raise CorruptError(where, "does not fit its checksum in the zip", remedy="Copy the zip again")
        return raw


def json_of(store: Store, key: str) -> Mapping[str, object] | None:
    """Return a JSON object of at most 1 MiB from the store, None if its file does not exist.

    Raises:
        UnsafeError: The file is larger than 1 MiB, or nested too deeply.
        CorruptError: The file is not a JSON object.
    """
    blob = store.blob(key)
    if blob is None:
        return None
    if blob.size > _JSON_BYTES:
        raise UnsafeError(
            blob.path, "is too large for metadata", expected="at most 1 MiB", found=f"{blob.size:,} bytes"
        )
    return parsed_object(blob.path, blob.read(0, blob.size), "Copy the store again")


def zarr_format_of(store: Store) -> int:
    """Return the version of zarr that the metadata at the root of a store have: 2 or 3; 2 without any."""
    names = store.names("")
    v2, v3 = not names.isdisjoint((".zarray", ".zgroup", ".zattrs")), "zarr.json" in names
    if v2 and v3:
        raise CorruptError(
            store.root,
            "holds metadata of zarr 2 and of zarr 3; they may differ",
            remedy="Remove zarr.json, or the files whose names begin with .z",
        )
    return 3 if v3 else 2
