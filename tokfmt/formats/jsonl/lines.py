"""Read and write files of lines, plain or compressed with gzip or zstandard, one piece at a time.

Compressed files are streams: they are read from their start. No decompressed piece is larger than 32 MiB, although a
zstandard block of 4 bytes can hold 128 KiB.

Compressed files are written as gzip members, or zstandard frames, of 4 MiB of text. Their borders depend only on the
text, so the bytes do not depend on the number of tasks. They contain neither a time nor a name.

Only a line feed ends a line. A carriage return before it belongs to the line end. U+2028, NEL and similar characters
do not end a line. A UTF-8 byte order mark at the start of a file does not belong to its first line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.threads import in_threads
from tokfmt.core.format import ZSTANDARD
from tokfmt.core.output import concatenate, whole
from tokfmt.core.ragged import true_at
from tokfmt.core.reader import Damage
from tokfmt.errors import ENDS_EARLY, CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.files.file import File, names_in, natural_key, open_file, writing
from tokfmt.files.place import Place
from tokfmt.formats.zstd_frames import decompressor, library, refuse_frame
from tokfmt.wording import printable

PIECE = 1 << 18
"""Bytes per read: a piece of 256 KiB stays in cache. Pieces of 1 MiB were half as fast."""

FILE_NAME = re.compile(r"[^.].*\.jsonl(\.gz|\.zst)?", re.IGNORECASE)
"""Names of the files of a directory that belong to its dataset."""
OTHER_FILE_NAME = re.compile(r"[^.].*\.json(\.gz|\.zst)", re.IGNORECASE)
"""The same of a directory without such names: lines that are called JSON, as those of dolma."""


def names_of(path: Place) -> list[str]:
    """Return the names of these files of a directory, in natural order."""
    names = names_in(path)
    found = [*filter(FILE_NAME.fullmatch, names)] or [*filter(OTHER_FILE_NAME.fullmatch, names)]
    return sorted(found, key=natural_key)


BOM = b"\xef\xbb\xbf"

Compression = Literal["gzip", "zstandard"]
_MAGIC: dict[Compression, bytes] = {"gzip": b"\x1f\x8b", "zstandard": b"\x28\xb5\x2f\xfd"}
_BEGINS: dict[Compression, re.Pattern[bytes]] = {"gzip": re.compile(_MAGIC["gzip"]), "zstandard": ZSTANDARD}
_SUFFIX: dict[str, Compression] = {".gz": "gzip", ".zst": "zstandard"}
_ZSTD_INPUT = 1 << 10  # compressed bytes per step: at most 256 blocks of 128 KiB each
_GZIP_INPUT = 1 << 16  # compressed bytes per step
_TRAILED = 1 << 16  # bytes that may result if the 8 bytes after a member, which end with its size, are decoded as data
_COPY_AGAIN = "Copy it again"


def compression_of(head: bytes) -> Compression | None:
    """Return the compression of a file that begins with `head`; None if it is plain."""
    return next((name for name, magic in _BEGINS.items() if magic.match(head)), None)


def compression_of_name(name: str) -> Compression | None:
    """Return the compression that the suffix of a name stands for; None if it is plain."""
    return _SUFFIX.get(Path(name).suffix.lower())


class TextFile:
    """A file of lines. Picklable; it has no open handle of its own.

    Args:
        path: The file.
        may_be_page: The lines may be those of a document in HTML or XML; see `open_file`.

    Attributes:
        file: The file.
        compression: None for plain text. Otherwise byte offsets count decompressed bytes.
        limit: If the file is damaged, the byte offset at which its certain text ends; see `keep_certain`.
    """

    limit: int | None = None

    def __init__(self, path: Place, *, may_be_page: bool = False) -> None:
        self.file = open_file(path, may_be_page=may_be_page)
        self.path = self.file.path
        head = self.file.read(0, min(4, self.file.size))
        self.compression = compression_of(head)
        promised = compression_of_name(self.path.name)
        if promised and self.compression is None:
            kind = CorruptError if head and not _MAGIC[promised].startswith(head) else TruncatedError
            magic = _MAGIC[promised].hex(" ")
            found = head.hex(" ") or "an empty file"
            plain = all(byte >= 32 or byte in b"\t\r\n" for byte in head) and head
            remedy = f"If it is not compressed, rename it to {self.path.stem}" if plain else _COPY_AGAIN
            what = f"is not a {promised} file"
            raise kind(self.path, what, offset=0, expected=magic, found=found, remedy=remedy)

    @property
    def size(self) -> int:
        """Size of the file in bytes; of plain text, only its certain part counts."""
        return self.file.size if self.limit is None or self.compression else self.limit

    def keep_certain(self, complete: Callable[[bytes], bool], longest: int) -> Damage | None:
        """Set `limit` so that a cut last line, and text after damage in compressed data, are left out.

        Args:
            complete: Returns True for a last line without a line end that is complete.
            longest: The most bytes of a line; longer lines are not inspected.

        Returns:
            The damage; None if the file is complete.
        """
        if self.compression is None:
            start, error = max(0, self.size - longest), None
            text = self.file.read(start, self.size - start)
            at, tail = self.size, text[text.rfind(b"\n") + 1 :]
        else:
            at, tail, error = self._certain_text(self.compression, longest)
        if not tail.strip() or complete(tail):
            tail = b""
        if error is None and not tail:
            return None
        self.limit = at - len(tail)
        what = error.sentence if error is not None else f"{printable(self.path)}: its last line is cut"
        return Damage(what, unused=len(tail))

    def _certain_text(self, what: Compression, longest: int) -> tuple[int, bytes, FormatError | None]:
        """Find the end of the certain text of compressed data.

        If the data ends too early, all decoded text is certain. If it is damaged, decoding returns wrong text before it
        fails; then only the complete members, or frames, before the damage are certain.

        Returns:
            The byte offset of the end; the last line before it, without a line end; the error, or None.
        """
        at, tail, checked = 0, b"", (0, b"")
        try:
            for piece, ended, _ in self._decompressed(what):
                at, cut = at + len(piece), piece.rfind(b"\n") + 1
                tail = piece[cut:] if cut else (tail + piece)[: longest + 1]
                checked = (at, tail) if ended else checked
        except TruncatedError as error:
            return at, tail, error
        except CorruptError as error:
            if not checked[0]:
                part = "member" if what == "gzip" else "frame"
                why = f"{error.what}, in its first {part}, so that no line of it is certain"
                raise CorruptError(self.path, why, remedy=_COPY_AGAIN) from error
            return *checked, error
        return at, tail, None

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the text from byte `start` to byte `stop`, in pieces of about 256 KiB.

        Args:
            start, stop: Byte offsets. A compressed file is always read from its start to its end.

        Raises:
            TruncatedError, CorruptError: The compressed stream ends early, or is damaged.
            UnsupportedError: A zstandard frame needs a dictionary, or too much memory.
            MissingDependencyError: The file is zstandard, and the package is not installed.
        """
        if self.compression is None:
            yield from map(bytes, self.passing(start, stop))
        else:
            yield from _coalesced(self._certain(piece for piece, *_ in self._decompressed(self.compression)))

    def _certain(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces up to `limit`, if it is set."""
        if self.limit is None:
            yield from pieces
            return
        left = self.limit
        while left > 0 and (piece := next(pieces, None)) is not None:  # A piece may be empty: a block needs more data.
            yield piece[:left]
            left -= len(piece)

    def passing(self, start: int = 0, stop: int | None = None) -> Iterator[bytearray]:
        """Yield the same text of a plain file. The next piece overwrites a piece, which is three times as fast."""
        buffer, end = bytearray(PIECE), self.size if stop is None else stop
        for at in range(start, end, PIECE):
            if end - at < PIECE:
                buffer = bytearray(end - at)
            self.file.read_into(at, memoryview(buffer))
            yield buffer

    def compressed_size(self, size: int) -> int:
        """Return how many bytes of the file hold its first `size` bytes of text; of a compressed file, about."""
        if self.compression is None:
            return size
        for piece, _, at in self._decompressed(self.compression):
            size -= len(piece)
            if size <= 0:
                return at
        return self.size

    def _decompressed(self, what: Compression) -> Iterator[tuple[bytes, bool, int]]:
        """Decompress the members of gzip or the frames of zstandard, in pieces of at most 32 MiB.

        Yields:
            A piece; True if a member or frame ends with it and its checksum, if it has one, is right; and the number of
            bytes of the file that were decompressed so far, or are in the decoder.
        """
        begin, damage, size, bound = _decompressor(what, self.file)
        member, decoded = None, 0
        for at in range(0, self.size, size):
            data = rest = self.file.read(at, min(size, self.size - at))
            while rest:
                if member is None and what == "gzip":
                    rest = rest.lstrip(b"\0")  # gzip(1) accepts zeros after a member: a tape pads its last block.
                    if not rest:
                        break
                    if not rest.startswith(_MAGIC["gzip"][: len(rest)]):
                        raise self._damaged(what, at + len(data) - len(rest))
                if member is None:
                    member, decoded = begin(at + len(data) - len(rest)), 0
                try:
                    piece = member.decompress(rest, *bound)
                except damage as error:
                    raise self._damaged(what, at + len(data) - len(rest)) from error
                decoded += len(piece)
                rest = member.unused_data if member.eof else member.unconsumed_tail
                yield piece, bool(member.eof), at + len(data) - len(rest)
                member = None if member.eof else member
        if member is not None:
            # If the stated size fits, the file is complete, and damage hid the end of the member from the decoder.
            stated = int.from_bytes(self.file.read(self.size - 4, 4), "little") if what == "gzip" and decoded else -1
            if stated >= 0 and abs(stated - decoded) < _TRAILED:
                raise self._damaged(what, self.size - 8)
            raise TruncatedError(self.path, f"the {what} data {ENDS_EARLY}", offset=self.size, remedy=_COPY_AGAIN)

    def _damaged(self, what: Compression, at: int) -> CorruptError:
        return CorruptError(self.path, f"the {what} data is damaged at or after byte {at:,}", remedy=_COPY_AGAIN)


def _decompressor(what: Compression, file: File) -> tuple[Callable[[int], Any], Any, int, tuple[int, ...]]:
    """Return the factory of decoders, their errors, the bytes per step, and the arguments that bound the output. The
    factory is given the byte offset of a member or frame.
    """
    if what == "gzip":
        from isal import isal_zlib

        return lambda _: isal_zlib.decompressobj(wbits=31), isal_zlib.error, _GZIP_INPUT, (PIECE,)
    purpose = f"reading {file.path.name}"

    def begin(offset: int) -> Any:
        refuse_frame(file, offset)
        return decompressor(purpose).decompressobj()

    return begin, library(purpose).ZstdError, _ZSTD_INPUT, ()


def _coalesced(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of at least 256 KiB, except the last one."""
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


_MEMBER = 1 << 22  # bytes of text per member
_THREADS = 4
_LEVELS: dict[Compression, int] = {"gzip": 3, "zstandard": 3}  # the best level of isal, and the default of zstd


def join(parts: Sequence[Path], destination: Path, jobs: int, *, keep: bool = False) -> None:
    """Write the lines of all parts, in order, to a file.

    Args:
        parts: Files of whole lines.
        destination: The file; a name that ends in `.gz` or `.zst` is compressed.
        jobs: Threads that compress; at most four are used, as one thread reads.
        keep: Keep the parts; else each part is removed when it has been read.
    """
    compression = compression_of_name(destination.name)
    if compression is None:
        concatenate(parts, destination, keep=keep)
        return
    compress = _compressor(compression, destination)
    with writing(destination), whole(destination) as out:
        out.writelines(in_threads(compress, _members(parts, keep=keep), min(_THREADS, jobs)))


def _members(parts: Sequence[Path], *, keep: bool) -> Iterator[bytes]:
    """Yield the text of all parts in pieces of 4 MiB; one empty piece if there is no text."""
    held, empty = bytearray(), True
    for part in parts:
        with open(part, "rb") as source:
            while piece := source.read(_MEMBER - len(held)):
                held += piece
                if len(held) == _MEMBER:
                    yield bytes(held)
                    held, empty = bytearray(), False
        if not keep:
            os.unlink(part)
    if held or empty:
        yield bytes(held)


def _compressor(compression: Compression, destination: Path) -> Callable[[bytes], bytes]:
    level = _LEVELS[compression]
    if compression == "gzip":
        from isal import isal_zlib

        def member(text: bytes) -> bytes:
            stream = isal_zlib.compressobj(level, wbits=31)
            return bytes(stream.compress(text)) + bytes(stream.flush())

        return member
    zstandard = library(f"writing {destination.name}")
    return lambda text: bytes(zstandard.ZstdCompressor(level=level).compress(text))


_NEWLINE, _RETURN, _SPACE, _OPEN, _CLOSE = 10, 13, 32, 123, 125
_WHITE = np.frombuffer(b" \t\r", np.uint8)

Positions = NDArray[np.int64]
_LINES = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Consecutive whole lines of one file, or some of them."""

    text: TextFile  # the file
    data: bytes  # a part of the text that contains the lines
    # starts, ends: int64[lines], the bounds of each line in `data`, without line end and byte order mark
    starts: Positions
    ends: Positions
    offset: int  # the byte offset of `data` in the text
    contiguous: bool = True  # True if no line between the first and the last is left out
    blank: int = 0  # the number of blank lines that are left out

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.data[int(self.starts[index]) : int(self.ends[index])]

    def begin(self, index: int) -> int:
        """Return the byte offset of a line in the text."""
        return self.offset + int(self.starts[index])

    def number(self, index: int) -> int:
        """Return the number of lines of `data` before a line."""
        return self.data.count(b"\n", 0, int(self.starts[index]))

    def bounds(self, index: int) -> tuple[int, int]:
        """Return the byte offsets of a line in the text, before a byte order mark, and of the next line."""
        start = self.data.rfind(b"\n", 0, int(self.starts[index])) + 1
        stop = self.data.find(b"\n", int(self.ends[index])) + 1 or len(self.data)
        return self.offset + start, self.offset + stop

    def at(self, offset: int) -> int | None:
        """Return the index of the line that holds the byte at `offset` of the text; None without one."""
        index = int(np.searchsorted(self.begins(), offset, side="right")) - 1
        return index if index >= 0 and offset < self.bounds(index)[1] else None

    def begins(self) -> Positions:
        """Return int64[lines], the byte offset of each line in the text, before a byte order mark."""
        found = self.starts + self.offset
        if not self.offset and self.data.startswith(BOM):
            found[found == len(BOM)] = 0
        return found

    def take(self, chosen: NDArray[np.bool_] | Positions | slice) -> Lines:
        """Return some of the lines."""
        starts = self.starts[chosen]
        whole = self.contiguous and (isinstance(chosen, slice) or len(starts) == len(self.starts))
        return Lines(self.text, self.data, starts, self.ends[chosen], self.offset, contiguous=whole)

    def without_blank(self) -> Lines:
        """Return the lines without blank ones, which are neither records nor errors."""
        raw = np.frombuffer(self.data, np.uint8)
        begins = raw[np.minimum(self.starts, len(raw) - 1)] if len(self) else raw
        if len(self) == 0 or (begins == _OPEN).all():
            return self
        blank = self.ends == self.starts
        doubtful = (begins <= _SPACE) & ~blank
        if doubtful.any():
            solid = np.append(~np.isin(raw, _WHITE), np.False_)  # One more, as a line may end with the text.
            spans = np.column_stack((self.starts[doubtful], self.ends[doubtful])).ravel()
            blank[doubtful] = ~np.logical_or.reduceat(solid, spans)[::2]
        count = int(blank.sum())
        return replace(self.take(np.flatnonzero(~blank)), blank=count) if count else self

    def tolist(self) -> list[bytes]:
        """Return the lines as bytes."""
        return [self.data[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def stretches(self) -> tuple[Positions, Positions]:
        """Return the byte offset and the length of each line, with carriage return and byte order mark."""
        starts = self.starts.copy()
        starts[:1] = 0
        ends = np.append(starts[1:] - 1, len(self.data) - self.data.endswith(b"\n"))[: len(starts)]
        return starts + self.offset, ends - starts

    def joined(self) -> memoryview | bytes:
        """Return the lines with line ends between them."""
        if not len(self):
            return b""
        if self.contiguous:
            return memoryview(self.data)[int(self.starts[0]) : int(self.ends[-1])]
        return b"\n".join(self.tolist())

    def braced(self) -> bool:
        """Return True if every line begins with an opening brace and ends with a closing one.

        Then a JSON parser that ignores line ends finds one object per line, an error, or another number of objects:
        after a closing brace at the end of a line, an opening brace can only begin the next object.
        """
        if not len(self) or int((self.ends - self.starts).min()) < 2:
            return False
        raw = np.frombuffer(self.data, np.uint8)
        return bool((raw[self.starts] == _OPEN).all() and (raw[self.ends - 1] == _CLOSE).all())


def lines_of(text: TextFile, data: bytes, offset: int) -> Lines:
    """Return the lines of `data`, which begins at the start of a line and ends at the end of a line or of the file."""
    raw = np.frombuffer(data, np.uint8)
    ends = true_at(raw == _NEWLINE)
    if len(data) and data[-1] != _NEWLINE and (offset or data != BOM):
        ends = np.append(ends, len(data))
    starts = np.empty(len(ends), np.int64)
    if len(ends):
        starts[0] = len(BOM) if not offset and data.startswith(BOM) else 0
        starts[1:] = ends[:-1] + 1
    nonempty = ends > starts
    ends[nonempty] -= raw[ends[nonempty] - 1] == _RETURN
    return Lines(text, data, starts, np.maximum(starts, ends), offset)


def bounds(text: TextFile) -> Iterator[tuple[Positions, Positions]]:
    """Yield the byte offsets of the starts and the ends of the lines of a plain file, many lines at a time.

    The end of a line is its line feed, or the end of the file. A byte order mark and carriage returns are part of a
    line.
    """
    mask = np.empty(PIECE, np.bool_)
    held: list[Positions] = []
    start = count = at = 0
    for piece in text.passing():
        raw = np.frombuffer(piece, np.uint8)
        found = true_at(np.equal(raw, _NEWLINE, out=mask[: len(raw)]))
        found += at
        at += len(raw)
        held.append(found)
        count += len(found)
        if count >= _LINES:
            ends = np.concatenate(held)
            yield np.concatenate(([start], ends[:-1] + 1)), ends
            start, held, count = int(ends[-1]) + 1, [], 0
    ends = np.concatenate([np.empty(0, np.int64), *held, [text.size]])
    starts = np.concatenate(([start], ends[:-1] + 1))
    if starts[-1] == text.size:
        starts, ends = starts[:-1], ends[:-1]
    yield starts, ends


def walk(text: TextFile, start: int, stop: int | None, longest: int) -> Iterator[Lines]:
    """Yield the lines from byte `start`, which begins a line, to byte `stop`, which ends one; about 256 KiB at a time.

    Raises:
        UnsafeError: A line is longer than `longest` bytes.
    """
    held: list[bytes] = []
    size, offset = 0, start
    pieces: Iterator[bytes | bytearray] = text.pieces(start, stop) if text.compression else text.passing(start, stop)
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if not cut:
            held.append(bytes(piece))
            size += len(piece)
            if size > longest:
                raise _too_long(text, offset, longest)
            continue
        yield _bounded(lines_of(text, b"".join((*held, memoryview(piece)[:cut])), offset), longest)
        offset += size + cut
        held, size = ([bytes(piece[cut:])], len(piece) - cut) if cut < len(piece) else ([], 0)
    if size:
        yield _bounded(lines_of(text, b"".join(held), offset), longest)


def _bounded(lines: Lines, longest: int) -> Lines:
    long = lines.ends - lines.starts > longest
    if long.any():
        raise _too_long(lines.text, lines.begin(int(np.argmax(long))), longest)
    return lines


def _too_long(text: TextFile, offset: int, longest: int) -> UnsafeError:
    return UnsafeError(
        text.path,
        f"line {line_number(text, offset):,} is longer than {longest:,} bytes",
        offset=offset,
        remedy="--from-opt max_line=BYTES accepts longer ones; they are held in memory whole",
    )


def line_number(text: TextFile, offset: int) -> int:
    """Return the number, from 1, of the line at byte `offset`. Reads the text before it."""
    count, at = 1, 0
    for piece in text.pieces(0, offset):
        if at >= offset:
            break
        count += piece[: offset - at].count(b"\n")
        at += len(piece)
    return count


def border(text: TextFile, at: int, longest: int) -> int:
    """Return the first byte offset >= `at` of a plain file that begins a line, or the end of the file.

    If `longest` bytes hold no line end, the end of the file is returned: reading that line then reports its length.
    """
    if at <= 0:
        return 0
    position = at - 1
    for piece in text.pieces(position):
        found = piece.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(piece)
        if position - at > longest:
            break
    return text.size
