"""The raw index `X.idx` beside `X.jsonl`: which of its lines are documents.

A pickled list of (offset, length), one entry a line. Every writer in its history got the offsets right, in bytes; what
the lengths count changed several times (see the package's docstring). So an offset is trusted, once the byte before it
is a line end, and a line is read to its own end; of the lengths only 0 means something: no document.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tokfmt.core.errors import CorruptError, FormatError
from tokfmt.core.files import File
from tokfmt.formats.jsonl.lines import Lines, Positions
from tokfmt.formats.jsonl.streams import TextFile
from tokfmt.formats.pickled_index import read_entries

REMEDY = "tokfmt index makes a new one; --from-opt index=none reads every line without it"
_OTHER_FILE = "this is the index of another file or an older one"
_LOOKED_AT = 64  # entries compared with the lines on opening; reading compares each
_GAPS = 4096  # gaps between entries that are looked into, to count the lines left out
_GAP_BYTES = 1 << 24
_OTHER_TOOLS = b"MMIDIDX"  # an .idx of another toolkit, which belongs to a .bin


@dataclass(frozen=True, eq=False)
class RawIndex:
    """The entries of an index that belongs to a text file.

    Attributes:
        path: Of the index.
        offsets: int64[documents], where each begins in the text; increasing.
        notes: What a person should know.
    """

    path: Path
    offsets: Positions
    notes: tuple[str, ...]

    def documents(self, lines: Lines) -> Lines:
        """Those lines that have an entry.

        Raises:
            CorruptError: An entry points into a line.
        """
        stop = lines.offset + len(lines.data)
        first, last = np.searchsorted(self.offsets, [lines.offset, stop]).tolist()
        wanted = self.offsets[first:last] - lines.offset
        starts = lines.starts.copy()
        if len(starts) and not lines.offset:
            starts[0] = 0  # an entry begins before the byte order mark
        at = np.searchsorted(starts, wanted)
        hit = at < len(starts)
        hit[hit] = starts[at[hit]] == wanted[hit]
        if not hit.all():
            miss = int(np.argmin(hit))
            raise stale(self.path, first + miss, int(self.offsets[first + miss]))
        return lines if len(at) == len(lines) else lines.take(at)


def index_path(text: Path) -> Path:
    """Where the index of a text file is looked for: `X.idx` beside `X.jsonl`."""
    return text.with_suffix(".idx")


def has_index(text: TextFile) -> bool:
    """Whether an index stands beside a plain text file; an .idx of another toolkit is none."""
    path = index_path(text.path)
    if text.compression is not None or path == text.path or not os.path.lexists(path):
        return False
    file = File(path)
    head = file.read(0, min(file.size, len(_OTHER_TOOLS)))
    file.close()
    return head != _OTHER_TOOLS


def load_index(text: TextFile) -> RawIndex | None:
    """The index beside a plain text file; None when there is none.

    Raises:
        FormatError: It is not an index of this file, or damaged.
    """
    if not has_index(text):
        return None
    path = index_path(text.path)
    file = File(path)
    offsets, gaps = array("q"), _Gaps(text)
    try:
        for some_offsets, some_lengths in read_entries(file, 0, file.size, text.size + 1):
            real = some_lengths > 0
            _check_order(path, some_offsets[real], len(offsets), offsets[-1] if offsets else -1)
            gaps.add(some_offsets[real], some_lengths[real])
            offsets.frombytes(some_offsets[real].tobytes())
    except FormatError as error:
        raise type(error)(
            error.path, error.what, offset=error.offset, expected=error.expected, found=error.found, remedy=REMEDY
        ) from error
    finally:
        file.close()
    index = RawIndex(path, np.asarray(offsets, np.int64), ())
    _check_places(index, text)
    return replace(index, notes=tuple(gaps.notes(path.name)))


def _check_order(path: Path, offsets: Positions, first: int, before: int) -> None:
    """Raise CorruptError unless offsets rise, from `before`; `first` is the number of the first entry."""
    falling = np.flatnonzero(offsets <= np.concatenate(([before], offsets[:-1]))[: len(offsets)])
    if len(falling):
        at = int(falling[0])
        last = int(offsets[at - 1]) if at else before
        raise CorruptError(
            path, f"entry {first + at:,} begins at or before the one before it",
            expected=f"an offset above {last:,}", found=int(offsets[at]),
        )  # fmt: skip


def _check_places(index: RawIndex, text: TextFile) -> None:
    offsets = index.offsets
    if len(offsets) and int(offsets[-1]) >= text.size:
        at = int(np.searchsorted(offsets, text.size))
        raise CorruptError(
            index.path, f"entry {at:,} lies outside {text.path.name}: {_OTHER_FILE}",
            expected=f"an offset below {text.size:,}", found=int(offsets[at]), remedy=REMEDY,
        )  # fmt: skip
    for at in np.unique(np.linspace(0, len(offsets) - 1, min(len(offsets), _LOOKED_AT)).astype(np.int64)).tolist():
        check_start(index.path, at, int(offsets[at]), text)


def check_start(path: Path, entry: int, offset: int, text: TextFile) -> None:
    """Raise CorruptError unless `offset` begins a line."""
    if offset and text.file.read(offset - 1, 1) != b"\n":
        raise stale(path, entry, offset)


def stale(path: Path, entry: int, offset: int) -> CorruptError:
    """The error for an entry that points into a line."""
    return CorruptError(
        path, f"entry {entry:,} points to byte {offset:,}, where no line begins: {_OTHER_FILE}", remedy=REMEDY
    )  # fmt: skip


class _Gaps:
    """What lies between entries, by their lengths: the ends of lines, and lines that have no entry."""

    def __init__(self, text: TextFile) -> None:
        self.text = text
        self.end = self.size = 0
        self.found: list[tuple[int, int]] = []  # start and stop of each gap, in order; [] once they are too many
        self.many = False

    def add(self, offsets: Positions, lengths: Positions) -> None:
        """The next entries."""
        ends = offsets + np.minimum(lengths, self.text.size - offsets)
        starts = np.concatenate(([self.end], ends[:-1]))
        self._keep(starts, offsets)
        if len(ends):
            self.end = int(ends[-1])

    def _keep(self, starts: Positions, stops: Positions) -> None:
        wide = np.flatnonzero(stops - starts > (starts > 0))  # a line feed is no gap
        self.size += int((stops - starts)[wide].sum())
        self.many = self.many or len(self.found) + len(wide) > _GAPS or self.size > _GAP_BYTES
        if not self.many:
            self.found += zip(starts[wide].tolist(), stops[wide].tolist(), strict=True)

    def notes(self, name: str) -> Iterator[str]:
        """A note on lines without an entry, with their number if it takes but a look at few places."""
        self._keep(np.asarray([self.end]), np.asarray([self.text.size]))
        if self.many:
            yield f"{name} decides which lines are documents; lines without an entry are left out"
            return
        count = 0
        for start, stop in self.found:
            gap = self.text.file.read(start, stop - start)
            count += _lines_between(gap, first=start == 0, last=stop == self.text.size)
        if count:
            yield f"{name} leaves out {count:,} {'lines' if count > 1 else 'line'}; --from-opt index=none reads all"


def _lines_between(gap: bytes, *, first: bool, last: bool) -> int:
    """Lines that begin in a gap: it begins in a line unless it is the first, and only the last may end in one."""
    begun = gap.count(b"\n") - (not first)
    unended = last and (first or b"\n" in gap) and not gap.endswith(b"\n") and len(gap) > 0
    return max(0, begun) + unended
