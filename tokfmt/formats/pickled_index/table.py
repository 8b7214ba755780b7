"""Any stretch of the entries of a pickled index, of any length, without holding them: for people who look.

One pass, made only as far as somebody asks for, leaves a mark at every 4,096th entry; a stretch is decoded from the
mark before it. 100 million entries leave 24,000 marks.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File
from tokfmt.core.inside import Field
from tokfmt.formats.pickled_index.decode import Entries, Walk
from tokfmt.formats.pickled_index.opcodes import (
    BININT,
    BININT1,
    BININT2,
    BINPUT,
    EMPTY_LIST,
    FRAME,
    LONG_BINPUT,
    MEMOIZE,
    PROTO,
)

_STEP = 1 << 12
_MOST = 1 << 62
_ENTRY = 64  # bytes: no entry that is admitted takes more
_INTEGERS = {BININT1: 2, BININT2: 3, BININT: 5}
_MEMOS = {MEMOIZE: 1, BINPUT: 2, LONG_BINPUT: 5}

Ints = NDArray[np.int64]


class Stretch(NamedTuple):
    """Consecutive entries; int64[n] each.

    Attributes:
        offsets, lengths: As stored.
        positions: Where each begins in the file, in bytes.
        before: Sum of the lengths of all entries before each.
    """

    offsets: Ints
    lengths: Ints
    positions: Ints
    before: Ints


class EntryTable:
    """The entries of a pickled index by number. Threads may share it.

    Attributes:
        file, start, stop: Where the pickle lies.
        error: What ended the pass over it too early, once that was met.
        jump: The first entry that does not begin where the one before it ends, once it was met.
    """

    def __init__(self, file: File, start: int, stop: int) -> None:
        self.file, self.start, self.stop = file, start, stop
        self.error: FormatError | None = None
        self.jump: int | None = None
        self._end: int | None = None
        self._walk = self._new()
        self._batches = self._walk.batches()
        self._marks: list[int] = []
        self._sums: list[int] = []
        self._known, self._sum, self._ended = 0, 0, False
        self._lock = threading.Lock()

    def _new(self) -> Walk:
        return Walk(self.file, self.start, self.stop, self.stop - self.start, signed=True)

    @property
    def count(self) -> int:
        """Number of entries, up to the first that is damaged. Reads all of them the first time."""
        return self._known_to(_MOST)

    @property
    def total(self) -> int:
        """Sum of all lengths. Reads all entries the first time."""
        self._known_to(_MOST)
        return self._sum

    def read(self, first: int, last: int) -> Stretch:
        """Entries `first <= i < last`, as many of them as there are. Reads no further than the last."""
        last = min(last, self._known_to(last))
        if not 0 <= first < last:
            return Stretch(*np.empty((4, 0), np.int64))
        mark = first // _STEP
        skip, wanted = first - mark * _STEP, last - mark * _STEP
        some = self._new().take(self._marks[mark], mark * _STEP, wanted)
        offsets, lengths, positions = (column[:wanted] for column in some)
        before = np.cumsum(lengths) - lengths + np.int64(min(self._sums[mark], _MOST))
        return Stretch(offsets[skip:], lengths[skip:], positions[skip:], before[skip:])

    def _known_to(self, wanted: int) -> int:
        """Read on until so many entries are known, or all there are; how many are."""
        with self._lock:
            while self._known < wanted and not self._ended:
                self._take(self._next())
            return self._known

    def _next(self) -> Entries | None:
        try:
            some = next(self._batches, None)
        except FormatError as error:
            self.error, some, self._ended = error, self._walk.left(), True
        return some

    def _take(self, some: Entries | None) -> None:
        if some is None:
            self._ended = True
            return
        sums = np.cumsum(some.lengths)
        if self.jump is None:
            ends = some.offsets + some.lengths
            expected = np.concatenate(([some.offsets[0] if self._end is None else self._end], ends[:-1]))
            jumps = np.flatnonzero(some.offsets != expected)
            self.jump, self._end = (self._known + int(jumps[0]) if len(jumps) else None), int(ends[-1])
        for k in range(-self._known % _STEP, len(some.positions), _STEP):
            self._marks.append(int(some.positions[k]))
            self._sums.append(self._sum + (int(sums[k - 1]) if k else 0))
        self._known += len(some.positions)
        self._sum += int(sums[-1])

    def size(self, position: int) -> int:
        """Bytes of the entry that begins at `position`, frames inside it included."""
        raw = self.file.read(position, min(_ENTRY, self.stop - position))
        at = 0
        for _ in range(2):
            at = _after_frame(raw, at)
            at += _INTEGERS.get(raw[at], 0) or 2 + raw[at + 1]
        at = _after_frame(raw, at) + 1
        memo = raw[at] if at < len(raw) else -1
        return at + _MEMOS.get(memo, 0)


def _after_frame(raw: bytes, at: int) -> int:
    return at + 9 if raw[at] == FRAME else at


def start_fields(file: File, start: int, stop: int) -> list[Field]:
    """What a pickled index begins with: protocol, frame, list."""
    raw = file.read(start, min(16, stop - start))
    known = len(raw) > 1 and raw[0] == PROTO and 2 <= raw[1] <= 5
    found = [
        Field("protocol", start, min(2, len(raw)), f"pickle protocol {raw[1]}" if known else raw[:2].hex(" "),
              "" if known else "should be 80 and 2 to 5: no pickled index begins here", wrong=not known)
    ]  # fmt: skip
    if not known:
        return found
    at = 2
    if raw[at : at + 1] == bytes([FRAME]):
        size = int.from_bytes(raw[at + 1 : at + 9], "little")
        left = stop - start - at - 9
        meaning = "bytes of the first frame" if size <= left else f"bytes of the first frame, but {left:,} are left"
        found.append(Field("frame", start + at, min(9, len(raw) - at), f"{size:,}", meaning, wrong=size > left))
        at += 9
    listed = raw[at : at + 1] == bytes([EMPTY_LIST])
    value = "EMPTY_LIST" if listed else raw[at : at + 1].hex() or "nothing"
    found.append(Field("list", start + at, len(raw[at : at + 1]), value, "" if listed else "should be 5d", not listed))
    return found
