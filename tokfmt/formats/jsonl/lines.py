"""Finding lines: newlines with numpy, a bounded piece of text at a time.

Only a line feed ends a line. A carriage return before it belongs to the line end; U+2028, NEL and the like stand inside
strings and split nothing. A UTF-8 byte order mark at the start of a file belongs to no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import UnsafeError
from tokfmt.formats.jsonl.streams import BOM, PIECE, TextFile

_NEWLINE, _RETURN, _OPEN, _CLOSE = 10, 13, 123, 125

Positions = NDArray[np.int64]
_LINES = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Consecutive whole lines of one file, or some of them.

    Attributes:
        text: Their file.
        data: The part of it they stand in.
        starts, ends: int64[lines], where each begins and ends in `data`, without line end and byte order mark.
        offset: Where `data` begins in the file.
        contiguous: No line of `data` between the first and the last is left out.
    """

    text: TextFile
    data: bytes
    starts: Positions
    ends: Positions
    offset: int
    contiguous: bool = True

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.data[int(self.starts[index]) : int(self.ends[index])]

    def take(self, chosen: NDArray[np.bool_] | Positions | slice) -> Lines:
        """Some of the lines."""
        starts = self.starts[chosen]
        whole = self.contiguous and (isinstance(chosen, slice) or len(starts) == len(self.starts))
        return Lines(self.text, self.data, starts, self.ends[chosen], self.offset, contiguous=whole)

    def tolist(self) -> list[bytes]:
        """The lines as bytes."""
        return [self.data[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    def stretches(self) -> tuple[Positions, Positions]:
        """Where each line lies in the file and how long it is, carriage return and byte order mark included."""
        starts = self.starts.copy()
        starts[:1] = 0
        ends = np.append(starts[1:] - 1, len(self.data) - self.data.endswith(b"\n"))[: len(starts)]
        return starts + self.offset, ends - starts

    def joined(self) -> memoryview | bytes:
        """The lines with line ends between them, and nothing else."""
        if not len(self):
            return b""
        if self.contiguous:
            return memoryview(self.data)[int(self.starts[0]) : int(self.ends[-1])]
        return b"\n".join(self.tolist())

    def braced(self) -> bool:
        """Whether every line begins with an opening and ends with a closing brace.

        Then a JSON parser that ignores line ends finds exactly one object a line, or else an error or another number of
        objects: after a closing brace that ends a line, an opening one can only begin the next object.
        """
        if not len(self) or int((self.ends - self.starts).min()) < 2:
            return False
        raw = np.frombuffer(self.data, np.uint8)
        return bool((raw[self.starts] == _OPEN).all() and (raw[self.ends - 1] == _CLOSE).all())


def lines_of(text: TextFile, data: bytes, offset: int) -> Lines:
    """The lines of `data`, which begins at a line's start and ends at a line's end or the file's."""
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


def true_at(mask: NDArray[np.bool_]) -> Positions:
    """Where a mask is true; three times as fast as flatnonzero where that is rare."""
    whole = len(mask) // 8 * 8
    words = (mask[:whole].view(np.uint64) != 0).nonzero()[0]
    hits = mask[:whole].reshape(-1, 8)[words].ravel().nonzero()[0]
    found = words[hits >> 3] * 8 + (hits & 7)
    return np.concatenate((found, mask[whole:].nonzero()[0] + whole)) if whole < len(mask) else found


def bounds(text: TextFile) -> Iterator[tuple[Positions, Positions]]:
    """Where each line of a plain file begins, and where its line feed is, or the end of the file; many lines at a time.

    Nothing is taken off: a byte order mark and carriage returns belong to their lines.
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
    """The lines from byte `start`, which begins one, to byte `stop`, which ends one; about 256 KiB at a time.

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
        raise _too_long(lines.text, lines.offset + int(lines.starts[np.argmax(long)]), longest)
    return lines


def _too_long(text: TextFile, offset: int, longest: int) -> UnsafeError:
    return UnsafeError(
        text.path, f"line {line_number(text, offset):,} is longer than {longest:,} bytes",
        offset=offset, remedy="--from-opt max_line=BYTES accepts longer ones; they are held in memory whole",
    )  # fmt: skip


def line_number(text: TextFile, offset: int) -> int:
    """Number of the line at byte `offset`, counted from 1. Reads the text before it."""
    count, at = 1, 0
    for piece in text.pieces(0, offset):
        if at >= offset:
            break
        count += piece[: offset - at].count(b"\n")
        at += len(piece)
    return count


def border(text: TextFile, at: int, longest: int) -> int:
    """The first byte >= `at` of a plain file that begins a line, or the end of the file.

    The end of the file as well if `longest` bytes hold no line end: whoever reads that line finds it too long.
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
