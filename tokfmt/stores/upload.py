"""Write objects: a put of the whole content, or of parts, which appear together.

A file of up to `place.PUT_AT_ONCE` bytes is one request. A larger one is a multipart upload of a generator over the
file. If the generator raises, obstore aborts the upload. If the process is killed, the parts stay in the store until a
lifecycle rule of the bucket removes them: obstore can neither list nor abort uploads of another process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt.errors import OutageError, SourceChangedError
from tokfmt.files.place import Url
from tokfmt.files.store import PUT_AT_ONCE, Identity
from tokfmt.wording import printable

if TYPE_CHECKING:
    from obstore import PutMode

_PART, _PARTS = 16 << 20, 9000
"""Bytes of a part at least, and parts at most: S3 accepts 10,000."""
_PIECE = 1 << 20
"""Bytes that are read at a time. Between two of them an upload can stop."""
_AT_ONCE = 4
"""Parts of an object that are sent side by side."""
MOST_HELD = 256 << 20
"""Bytes of uploads that a process holds in memory."""


class Stopped(Exception):  # noqa: N818 -- not an error: the caller stops
    """Raised in the generator of an upload that is to end without an object."""


def part_of(size: int) -> int:
    """Return the bytes of a part for a file of `size` bytes."""
    return max(_PART, -(-size // _PARTS))


def held_by(size: int) -> int:
    """Return the bytes that an upload of `size` bytes holds in memory."""
    return size if size <= PUT_AT_ONCE else (_AT_ONCE + 1) * part_of(size)


def requests_of(size: int) -> int:
    """Return the number of requests that write `size` bytes: one, or a beginning, the parts and an end."""
    return 1 if size <= PUT_AT_ONCE else 2 + -(-size // part_of(size))


def send(
    client: Any, key: str, content: bytes | Path, mode: PutMode, stop: threading.Event | None = None
) -> tuple[int, str]:
    """Write an object, in parts without a condition until `stop`; return the size and ETag of the server."""
    import obstore

    size = size_of(content)
    if size <= PUT_AT_ONCE:
        sent = content if isinstance(content, bytes) else _whole(content, size)
        put = obstore.put(client, key, sent, mode=mode, use_multipart=False)
        if put["e_tag"]:
            return size, put["e_tag"]
    else:
        pieces = _Pieces(content, size, stop or threading.Event())
        try:
            obstore.put(client, key, pieces, chunk_size=part_of(size), max_concurrency=_AT_ONCE)
        except Exception:
            if pieces.failed is not None:
                raise pieces.failed from None
            raise
    meta = obstore.head(client, key)
    return int(meta["size"]), meta["e_tag"] or f"modified {meta['last_modified'].isoformat()}"


class _Pieces:
    """The bytes of a file as an iterator that raises when the upload is to stop."""

    def __init__(self, content: bytes | Path, size: int, stop: threading.Event) -> None:
        self.failed: BaseException | None = None  # what it raised, which obstore reports as an error of its own
        self._pieces = self._read(content, size, stop)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except StopIteration:
            raise
        except BaseException as error:
            self.failed = error
            raise

    @staticmethod
    def _read(content: bytes | Path, size: int, stop: threading.Event) -> Iterator[bytes]:
        done = 0
        if isinstance(content, bytes):
            for at in range(0, size, _PIECE):
                _go_on(stop)
                yield content[at : at + _PIECE]
            return
        try:
            with open(content, "rb") as file:
                while piece := file.read(_PIECE):
                    _go_on(stop)
                    done += len(piece)
                    yield piece
        except OSError as error:
            raise _unreadable(content, error) from error
        if done != size:
            raise _changed(content)


def _go_on(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


def _whole(path: Path, size: int) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) != size:
        raise _changed(path)
    return content


def size_of(content: bytes | Path) -> int:
    """Return the size of the content in bytes."""
    if isinstance(content, bytes):
        return len(content)
    try:
        return os.stat(content).st_size
    except OSError as error:
        raise _unreadable(content, error) from error


def at_once(content: bytes | Path) -> bool:
    """Return whether one request writes the content, so that it can have a condition."""
    return size_of(content) <= PUT_AT_ONCE


def _unreadable(path: Path, error: OSError) -> OutageError:
    return OutageError(f"{printable(path)}: cannot be read for the upload: {(error.strerror or str(error)).lower()}")


def _changed(path: Path) -> SourceChangedError:
    return SourceChangedError(path, "changed while it was uploaded", remedy="Run again when it is still")


def same(url: Url, size: int, stated: Identity) -> None:
    """Compare the size that a server states of an object with the bytes that it was sent."""
    if stated.size != size:
        problem = f"another writer changed it (expected {size:,} bytes, found {stated.size:,})"
        raise OutageError(f"{printable(url)}: cannot be written: {problem}")
