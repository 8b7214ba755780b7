"""Decode a pickled list of (offset, length): runs of regular entries by `recognise`, everything else step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.formats.pickled_index.opcodes import (
    APPEND,
    APPENDS,
    BININT,
    BININT1,
    BININT2,
    BINPUT,
    DANGEROUS,
    EMPTY_LIST,
    FRAME,
    LONG1,
    LONG_BINPUT,
    MARK,
    MEMOIZE,
    OTHER,
    PROTO,
    STOP,
    TUPLE2,
)
from tokfmt.formats.pickled_index.recognise import PADDING, Recognised, Run

_BUFFER = 1 << 18
_SMALL = 64  # bytes: a rest of a frame that is shorter is walked
_BURST = 256  # entries walked, where few are regular, before looking for regular ones again
_ENTRIES = 1 << 16  # entries yielded at once

_CUT = "The file was cut, or its writer was killed: copy or write it again"
_CHANGED = "The index is damaged, or was not written by Modalities: write it again"
_PAIRS = "An index holds pairs of integers and nothing else: it is damaged, or of another program"

Ints = NDArray[np.int64]


class Entries(NamedTuple):
    """Offsets, lengths, and the byte in the file at which each entry begins; int64[n] each."""

    offsets: Ints
    lengths: Ints
    positions: Ints


def read_entries(file: File, start: int, stop: int, most: int, *, signed: bool = False) -> Iterator[tuple[Ints, Ints]]:
    """Stream the entries of a pickled list of (offset, length), some ten thousands at a time.

    Args:
        file: Where the pickle lies.
        start, stop: Its bytes; the STOP opcode must be the last of them.
        most: How many entries there can be at most; more raise CorruptError.
        signed: Admit negative offsets, which one known merge bug wrote. Lengths are never negative.

    Yields:
        offsets int64[n], lengths int64[n].

    Raises:
        UnsafeError: An opcode that would execute something or exhaust memory. Nothing was executed.
        CorruptError: Anything else but a list of pairs of integers 0 .. 2^63-1.
        TruncatedError: The pickle ends too early.
        UnsupportedError: Protocol 0, 1, or one after 5.
    """
    for entries in Walk(file, start, stop, most, signed=signed).batches():
        yield entries.offsets, entries.lengths


def entry_position(file: File, start: int, stop: int, number: int) -> int:
    """The byte in the file at which entry `number` (from 0) of a pickled list begins, for messages."""
    before = 0
    for entries in Walk(file, start, stop, stop - start, signed=True).batches():
        if number < before + len(entries.positions):
            return int(entries.positions[number - before])
        before += len(entries.positions)
    raise IndexError(f"entry {number} of {before}")


class Walk:
    """One pass over a pickle, of the package's own; see `read_entries` for the arguments."""

    def __init__(self, file: File, start: int, stop: int, most: int, *, signed: bool) -> None:
        self.file, self.start, self.stop, self.most, self.signed = file, start, stop, most, signed
        self.at = start  # in the file
        self.count = 0
        self._listed = False
        self._limit = stop  # the end of the frame, or of the pickle outside of frames
        self._framed = False
        self._base, self._held, self._data = start, 0, b""
        self._runs: list[Entries] = []
        self._walked: list[tuple[int, int, int]] = []
        self._pending = 0
        self._view: Recognised | None = None
        self._view_stop = 0

    def batches(self) -> Iterator[Entries]:
        self._head()
        while (opcode := self._opcode()) != STOP:
            if opcode == MARK:
                yield from self._batch()
            else:
                self._entry(opcode, "an entry (an integer), MARK or STOP")
                self._expect(APPEND, "APPEND after a single entry")
            if self._pending >= _ENTRIES:
                yield self._flush()
        if self.at != self.stop:
            raise CorruptError(
                self.file.path, "the pickled index ends before the file does", offset=self.at,
                expected="nothing after its STOP", found=f"{self.stop - self.at:,} more bytes", remedy=_CHANGED,
            )  # fmt: skip
        if self._pending:
            yield self._flush()

    def take(self, at: int, number: int, count: int) -> Entries:
        """At least `count` entries from `number` on, which is known to begin at byte `at`, whatever batch it is in."""
        self.at, self.count, self._listed = at, number, True
        while self._pending < count:
            self._recognised()
            if self._pending < count and (opcode := self._opcode()) not in {MARK, APPEND, APPENDS}:
                self._entry(opcode, "an entry (an integer)")
        return self._flush()

    def left(self) -> Entries | None:
        """The entries that were read before an error, and not yielded yet."""
        return self._flush() if self._pending or self._walked else None

    def _head(self) -> None:
        version = self._bytes(2) if self.stop - self.start >= 2 else b""
        if version[:1] != bytes([PROTO]):
            raise CorruptError(
                self.file.path, "no pickled index", offset=self.start, expected="a pickle of protocol 2 to 5 (80 04)",
                found=version.hex(" ") or "nothing", remedy=_CUT,
            )  # fmt: skip
        if not 2 <= version[1] <= 5:
            raise UnsupportedError(
                self.file.path, "pickle protocol of the index", offset=self.start + 1, expected="2 to 5",
                found=version[1], remedy=_CHANGED,
            )  # fmt: skip
        self._expect(EMPTY_LIST, "a list (EMPTY_LIST)")
        self._listed = True
        self._memo()

    # regular entries

    def _batch(self) -> Iterator[Entries]:
        """The entries after a MARK, and of the batches that follow directly."""
        while True:
            few = self._recognised() < _BURST // 8
            for _ in range(_BURST if few and self._inside_view() else 1):
                opcode = self._opcode()
                if opcode == APPENDS:
                    return
                self._entry(opcode, "an entry (an integer) or the end of the batch (APPENDS)")
            if self._pending >= _ENTRIES:
                yield self._flush()

    def _recognised(self) -> int:
        """Take as many regular entries as there are from here; how many that was."""
        if not self._inside_view() and not self._look():
            return 0
        view = self._view
        if view is None:
            return 0
        runs, at = view.take(self.at - self._base)
        for run in runs:
            self._keep(run)
        self.at = self._base + at
        return sum(len(run.starts) for run in runs)

    def _inside_view(self) -> bool:
        return self._view is not None and self.at < self._view_stop - _SMALL

    def _look(self) -> bool:
        """Recognise what is held of this frame; False when that is too little to be worth it."""
        if self._held - (self.at - self._base) < min(self._limit - self.at, _BUFFER // 2):
            self._load()
        first = self.at - self._base
        stop = min(self._held, self._limit - self._base)
        if stop - first < 2 * _SMALL:
            return False
        self._view, self._view_stop = Recognised(self._data, first, stop), self._base + stop
        return True

    def _keep(self, run: Run) -> None:
        self._settle()
        self._counted(len(run.starts), self._base + int(run.starts[0]))
        self._runs.append(Entries(run.offsets, run.lengths, run.starts + self._base))

    def _settle(self) -> None:
        """Turn the entries that were walked into arrays."""
        if self._walked:
            table = np.array(self._walked, np.int64).T
            self._runs.append(Entries(table[0], table[1], table[2]))
            self._walked = []

    def _flush(self) -> Entries:
        self._settle()
        runs, self._runs, self._pending = self._runs, [], 0
        return Entries(*(np.concatenate(column) for column in zip(*runs, strict=True)))

    def _counted(self, entries: int, at: int) -> None:
        self.count += entries
        self._pending += entries
        if self.count > self.most:
            raise CorruptError(
                self.file.path, "the index has more entries than the file has room for", offset=at,
                expected=f"at most {self.most:,}", remedy=_CHANGED,
            )  # fmt: skip

    # everything else, step by step

    def _entry(self, opcode: int, wanted: str) -> None:
        at = self.at - 1
        offset = self._integer(opcode, wanted)
        length = self._integer(self._opcode(), "an integer, the length of the entry")
        if offset < 0 and not self.signed:
            raise self._number(at, offset)
        if length < 0:
            raise self._number(at, length)
        self._expect(TUPLE2, "the end of an (offset, length) pair (TUPLE2)")
        self._memo()
        self._counted(1, at)
        self._walked.append((offset, length, at))

    def _integer(self, opcode: int, wanted: str) -> int:
        at = self.at - 1
        if opcode == BININT1:
            return self._bytes(1)[0]
        if opcode == BININT2:
            return int.from_bytes(self._bytes(2), "little")
        if opcode == BININT:
            return int.from_bytes(self._bytes(4), "little", signed=True)
        if opcode != LONG1:
            raise self._refused(opcode, at, wanted)
        value = int.from_bytes(self._bytes(self._bytes(1)[0]), "little", signed=True)
        if not -(1 << 63) <= value < 1 << 63:
            raise self._number(at, value)
        return value

    def _memo(self) -> None:
        """Skip what stores the object just made for later use, if anything does."""
        opcode = self._peek()
        if opcode == FRAME:
            self.at = self._after_frames()
            opcode = self._peek()
        if opcode not in {MEMOIZE, BINPUT, LONG_BINPUT}:
            return
        at = self.at
        self.at += 1
        index = int.from_bytes(self._bytes({BINPUT: 1, LONG_BINPUT: 4}.get(opcode, 0)), "little")
        if index > self.count + 1:  # unpicklers allocate a table of that size: 9 bytes would take gigabytes
            raise UnsafeError(
                self.file.path, "a pickle opcode that makes unpicklers allocate memory for nothing", offset=at,
                expected=f"a memo index of at most {self.count + 1:,}", found=index,
                remedy="The file is damaged or hostile: do not load it with pickle",
            )  # fmt: skip

    def _expect(self, wanted: int, words: str) -> None:
        at, opcode = self.at, self._opcode()
        if opcode != wanted:
            raise self._refused(opcode, max(at, self.at - 1), words)

    def _opcode(self) -> int:
        """The next opcode that is not a FRAME."""
        opcode = self._peek()
        if opcode == FRAME:
            self.at = self._after_frames()
            opcode = self._peek()
        self.at += 1
        return opcode

    def _peek(self) -> int:
        if self.at >= self.stop:
            raise self._ended()
        if self._framed and self.at >= self._limit:
            self._framed, self._limit = False, self.stop
        index = self.at - self._base
        if not 0 <= index < self._held:
            self._load()
            index = 0
        return self._data[index]

    def _after_frames(self) -> int:
        """Enter the frame that begins here (or the last of several); where its content begins."""
        while self._peek() == FRAME:
            at = self.at
            if self._framed:
                raise CorruptError(
                    self.file.path, "a frame of the pickled index begins inside another", offset=at,
                    expected=f"the end of the frame at byte {self._limit:,}", remedy=_CHANGED,
                )  # fmt: skip
            self.at += 1
            size = int.from_bytes(self._bytes(8), "little")
            if size > self.stop - self.at:
                raise CorruptError(
                    self.file.path, "a frame of the pickled index is longer than the file", offset=at,
                    expected=f"at most {self.stop - self.at:,} bytes", found=size, remedy=_CUT,
                )  # fmt: skip
            self._framed, self._limit = size > 0, self.at + size if size else self.stop
            if self.at >= self.stop:
                raise self._ended()
        return self.at

    def _bytes(self, count: int) -> bytes:
        """The next `count` bytes, of the same opcode."""
        at, end = self.at, self.at + count
        if end > self._limit:
            if not self._framed:
                raise self._ended()
            raise CorruptError(
                self.file.path, "an opcode crosses the end of its frame in the pickled index", offset=at,
                expected=f"at most {self._limit - at} bytes", found=count, remedy=_CHANGED,
            )  # fmt: skip
        if at < self._base or end > self._base + self._held:
            self._load()
        self.at = end
        return self._data[at - self._base : end - self._base]

    def _load(self) -> None:
        self._base, self._held = self.at, min(_BUFFER, self.stop - self.at)
        self._data = self.file.read(self._base, self._held) + bytes(PADDING)
        self._view = None

    # what is said

    def _ended(self) -> TruncatedError:
        return TruncatedError(
            self.file.path, "the pickled index ends too early", offset=self.stop, expected="a STOP opcode",
            remedy=_CUT,
        )  # fmt: skip

    def _number(self, at: int, value: int) -> CorruptError:
        return CorruptError(
            self.file.path, f"index entry {self.count:,} holds a number that is no offset or length", offset=at,
            expected="0 to 2^63-1", found=value if abs(value) < 1 << 63 else f"one of {value.bit_length():,} bits",
            remedy=_CHANGED,
        )  # fmt: skip

    def _refused(self, opcode: int, at: int, wanted: str) -> FormatError:
        if opcode in DANGEROUS:
            name, does = DANGEROUS[opcode]
            return UnsafeError(
                self.file.path, f"the index holds the pickle opcode {name}, which {does},", offset=at, expected=wanted,
                remedy="Nothing of it was run; do not load this file with pickle",
            )  # fmt: skip
        found = OTHER.get(opcode, f"the byte {opcode:02x}, which is no pickle opcode")
        what = f"index entry {self.count:,}" if self._listed else "the pickled index"
        return CorruptError(self.file.path, what, offset=at, expected=wanted, found=found, remedy=_PAIRS)
