"""The text of a file, from the disk or out of gzip or zstandard, a bounded piece at a time.

Compressed files are streams: they are read from their start, and no piece that comes out of them is larger than 32 MiB,
however little went in (a zstandard block of 4 bytes can stand for 128 KiB).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tokfmt.core.errors import CorruptError, MissingDependencyError, TruncatedError
from tokfmt.core.files import File

PIECE = 1 << 18
"""Bytes read at once: what stays in cache. Pieces of 1 MiB measured half as fast."""

FILE_NAME = re.compile(r"[^.].*\.jsonl(\.gz|\.zst)?", re.IGNORECASE)
"""Files of a directory that belong to its dataset."""

BOM = b"\xef\xbb\xbf"

Compression = Literal["gzip", "zstandard"]
_MAGIC: dict[Compression, bytes] = {"gzip": b"\x1f\x8b", "zstandard": b"\x28\xb5\x2f\xfd"}
_SUFFIX: dict[str, Compression] = {".gz": "gzip", ".zst": "zstandard"}
_ZSTD_INPUT = 1 << 10  # 256 blocks at most, of 128 KiB each
_GZIP_INPUT = 1 << 16
_COPY_AGAIN = "Copy it again"


def compression_of(head: bytes) -> Compression | None:
    """How a file that begins with `head` is compressed."""
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), None)


def compression_of_name(name: str) -> Compression | None:
    """How a file of that name should be compressed."""
    return _SUFFIX.get(Path(name).suffix.lower())


class TextFile:
    """A file of lines. Picklable, no open handle of its own.

    Attributes:
        file: The file itself.
        compression: None for plain text, whose positions are the file's; else positions count decompressed bytes.
    """

    def __init__(self, path: Path) -> None:
        self.file = File(path)
        self.path = self.file.path
        head = self.file.read(0, min(4, self.file.size))
        self.compression = compression_of(head)
        promised = compression_of_name(self.path.name)
        if promised and self.compression is None:
            kind = CorruptError if head and not _MAGIC[promised].startswith(head) else TruncatedError
            magic = _MAGIC[promised].hex(" ")
            found = head.hex(" ") or "an empty file"
            raise kind(self.path, f"is no {promised} file", offset=0, expected=magic, found=found, remedy=_COPY_AGAIN)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.file.size

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The text from byte `start` to byte `stop`, in pieces of about 256 KiB.

        Args:
            start, stop: Positions in the file; a compressed file is always read from its start to its end.

        Raises:
            TruncatedError, CorruptError: The compressed stream ends early, or is damaged.
            MissingDependencyError: It is zstandard, and the package is not installed.
        """
        if self.compression == "gzip":
            yield from _coalesced(self._gzip())
        elif self.compression == "zstandard":
            yield from _coalesced(self._zstandard())
        else:
            yield from map(bytes, self.passing(start, stop))

    def passing(self, start: int = 0, stop: int | None = None) -> Iterator[bytearray]:
        """The same of plain text; a piece holds until the next is asked for, which is three times as fast."""
        buffer, end = bytearray(PIECE), self.size if stop is None else stop
        for at in range(start, end, PIECE):
            if end - at < PIECE:
                buffer = bytearray(end - at)
            self.file.read_into(at, memoryview(buffer))
            yield buffer

    def _compressed(self, size: int) -> Iterator[tuple[int, bytes]]:
        for at in range(0, self.size, size):
            yield at, self.file.read(at, min(size, self.size - at))

    def _gzip(self) -> Iterator[bytes]:
        from isal import isal_zlib

        damaged: Any = isal_zlib.error
        member: Any = None
        for at, data in self._compressed(_GZIP_INPUT):
            rest = data
            while rest:
                if member is None:
                    rest = rest.lstrip(b"\0")  # gzip(1) takes the zeros that a tape pads its last block with
                    if not rest:
                        break
                    if not rest.startswith(_MAGIC["gzip"][: len(rest)]):
                        raise self._damaged("gzip", at + len(data) - len(rest))
                    member = isal_zlib.decompressobj(wbits=31)
                try:
                    yield member.decompress(rest, PIECE)
                except damaged as error:
                    raise self._damaged("gzip", at) from error
                rest = member.unused_data if member.eof else member.unconsumed_tail
                member = None if member.eof else member
        if member is not None:
            raise self._cut("gzip")

    def _zstandard(self) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError as error:
            raise MissingDependencyError("zstandard", "zstd", f"reading {self.path.name}") from error
        frame: Any = None
        for at, data in self._compressed(_ZSTD_INPUT):
            rest = data
            while rest:
                frame = zstandard.ZstdDecompressor().decompressobj() if frame is None else frame
                try:
                    yield frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise self._damaged("zstandard", at) from error
                rest = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
        if frame is not None:
            raise self._cut("zstandard")

    def _damaged(self, what: str, at: int) -> CorruptError:
        return CorruptError(self.path, f"the {what} data is damaged at or after byte {at:,}", remedy=_COPY_AGAIN)

    def _cut(self, what: str) -> TruncatedError:
        return TruncatedError(self.path, f"the {what} data ends too early", offset=self.size, remedy=_COPY_AGAIN)


def _coalesced(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least 256 KiB, but for the last."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)
