"""Decode a pickled list of (offset, length): its opcodes, all entries in order, or an interval of entries by number.

numpy recognizes runs of regular entries in one step; everything else is decoded opcode by opcode.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import ENDS_EARLY, CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.fields import Field
from tokfmt.files.file import File

PROTO, FRAME, STOP = 0x80, 0x95, 0x2E
EMPTY_LIST, MARK, APPEND, APPENDS = 0x5D, 0x28, 0x61, 0x65
BININT1, BININT2, BININT, LONG1 = 0x4B, 0x4D, 0x4A, 0x8A
TUPLE2, MEMOIZE, BINPUT, LONG_BINPUT = 0x86, 0x94, 0x71, 0x72

EFFECTS = {
    "imports a name": ("GLOBAL", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"),
    "creates an object": ("INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"),
    "calls a function": ("REDUCE",),
    "changes an object": ("BUILD",),
    "asks the program for an object": ("PERSID", "BINPERSID"),
    "asks the program for memory": ("NEXT_BUFFER", "READONLY_BUFFER"),
    "holds an integer of up to 2 GiB": ("LONG4",),
}
"""Effects of opcodes that execute something or may exhaust memory, with the names of the opcodes."""

MEANINGS = {
    "a second protocol header": ("PROTO",),
    "a frame": ("FRAME",),
    "the end of the pickle": ("STOP",),
    "a list": ("EMPTY_LIST", "LIST"),
    "the end of a single entry": ("APPEND",),
    "the end of a batch": ("APPENDS",),
    "an integer": ("BININT1", "BININT2", "BININT", "LONG1"),
    "an integer as text": ("INT", "LONG"),
    "a decimal number": ("FLOAT", "BINFLOAT"),
    "a pair": ("TUPLE2",),
    "an empty tuple": ("EMPTY_TUPLE",),
    "a tuple": ("TUPLE",),
    "a tuple of one": ("TUPLE1",),
    "a tuple of three": ("TUPLE3",),
    "a dict": ("EMPTY_DICT", "DICT"),
    "a dict entry": ("SETITEM",),
    "dict entries": ("SETITEMS",),
    "a set": ("EMPTY_SET", "FROZENSET"),
    "set members": ("ADDITEMS",),
    "a text": (
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
    ),
    "bytes": ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    "True": ("NEWTRUE",),
    "False": ("NEWFALSE",),
    "None": ("NONE",),
    "a reference to an earlier object": ("GET", "BINGET", "LONG_BINGET"),
}
"""Other opcodes in words. An opcode that is not listed goes by its name alone."""


def _word(name: str, words: Mapping[str, Sequence[str]]) -> str:
    """Return the word of an opcode, "" if it has none."""
    return next((word for word, names in words.items() if name in names), "")


# Regular entries of a window, which numpy recognizes in one step.
#
# Every entry ends with TUPLE2 MEMOIZE (86 94), but these two bytes occur inside integers as well. An entry is accepted
# only if it starts at the end of an accepted entry, and its two integers end exactly at such a pair of bytes. `Walk`
# decodes everything else: frames, integers of seven bytes and more, negative ones.

PADDING = 32
"""Bytes that must follow a window in its buffer: two integers are loaded as words before they are checked."""

Ints = NDArray[np.int64]

# Facts of an integer by its opcode; LONG1 with n bytes is 256 + n.
_SIZE = np.zeros(512, np.int64)
_SHIFT = np.zeros(512, np.uint64)
_MASK = np.zeros(512, np.uint64)
_LARGEST = np.zeros(512, np.uint64)  # `Walk` decodes integers with the sign bit of BININT and LONG1
for _key, _head, _bytes, _signed in (
    (BININT1, 1, 1, 0),
    (BININT2, 1, 2, 0),
    (BININT, 1, 4, 1),
    *((256 + n, 2, n, 1) for n in range(1, 7)),
):
    _SIZE[_key] = _head + _bytes
    _SHIFT[_key] = 8 * _head
    _MASK[_key] = (1 << 8 * _bytes) - 1
    _LARGEST[_key] = (1 << 8 * _bytes - _signed) - 1


class Run(NamedTuple):
    """Consecutive entries."""

    # offsets, lengths: int64[n], the two integers of each
    offsets: Ints
    lengths: Ints
    starts: Ints  # int64[n], the offset of each entry in the window


class Recognized:
    """The regular entries of one window: possible ends of entries, and the runs of entries that they prove."""

    def __init__(self, buffer: bytes, first: int, stop: int) -> None:
        """Search `buffer[first:stop]`; an entry of a batch begins at `first`, and PADDING bytes follow `stop`."""
        raw = np.frombuffer(buffer, np.uint8)
        words: NDArray[np.uint64] = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
        last = max(first, stop - 3)  # The two bytes after TUPLE2 MEMOIZE are compared as well.
        pairs = (raw[first:last] == TUPLE2) & (raw[first + 1 : last + 1] == MEMOIZE)
        self._ends = np.flatnonzero(pairs) + first
        after = self._ends + 2
        border = (raw[after] == APPENDS) & (raw[after + 1] == MARK)
        self._starts = np.concatenate(([first], after + 2 * border))
        self._offsets, second, known = _integers_at(words, self._starts[:-1])
        self._lengths, tuples, known_too = _integers_at(words, second)
        self._tuples = np.where(known & known_too, tuples, -1)
        self._breaks = np.flatnonzero(self._tuples != self._ends)

    def take(self, at: int) -> tuple[list[Run], int]:
        """Return the runs of entries from the entry at offset `at` on, and the offset of the first unproven entry."""
        runs: list[Run] = []
        i, total = int(np.searchsorted(self._starts, at)), len(self._ends)
        while i < total and self._starts[i] == at:
            k = int(np.searchsorted(self._breaks, i))
            stop = int(self._breaks[k]) if k < len(self._breaks) else total
            if stop > i:
                runs.append(self._run(i, stop))
                i, at = stop, int(self._starts[stop])
                continue
            end = int(self._tuples[i])  # If the entry ends at a later candidate, those inside it are skipped.
            k = int(np.searchsorted(self._ends, end))
            if end < 0 or k == total or self._ends[k] != end:
                break
            runs.append(self._run(i, i + 1))
            i, at = k + 1, int(self._starts[k + 1])
        return runs, at

    def _run(self, i: int, stop: int) -> Run:
        return Run(self._offsets[i:stop], self._lengths[i:stop], self._starts[i:stop])


def _integers_at(words: NDArray[np.uint64], at: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return the value of the integer at each offset, the offset of its end, and True if it is a regular integer."""
    word = words[at]
    key = (word & np.uint64(0xFF)).view(np.int64)
    long = key == LONG1
    if long.any():
        key = np.where(long, 256 + (word >> np.uint64(8) & np.uint64(0xFF)).view(np.int64), key)
    value = word >> _SHIFT[key] & _MASK[key]
    size = _SIZE[key]
    return value.view(np.int64), at + size, (size > 0) & (value <= _LARGEST[key])


# One pass over all opcodes.

# Bytes per read: the index of 100,000 documents takes one read, and reading a few entries takes less than 2 MiB.
_BUFFER = 15 << 16
_SMALL = 64  # bytes of the rest of a frame, below which numpy cannot search it
_SHORT = 1 << 10  # bytes of the rest of a frame, below which numpy takes longer than a loop over its entries
_BURST = 256  # entries decoded opcode by opcode, if few are regular, before the next search for regular ones
_ENTRIES = 1 << 16  # entries per batch that is yielded

_CUT = "The file was cut, or its writer was killed: copy or write it again"
_CHANGED = "The index is damaged, or was not written by Modalities: write it again"
_PAIRS = "An index holds pairs of integers and nothing else: it is damaged, or another program wrote it"


class Entries(NamedTuple):
    """Offsets, lengths, and the byte offset of each entry in the file; int64[n] each."""

    offsets: Ints
    lengths: Ints
    positions: Ints


def read_entries(
    file: File, start: int, stop: int, maximum: int, *, signed: bool = False, is_truncated: bool = False
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the entries of a pickled list of (offset, length) in batches of some ten thousands.

    Args:
        file: The file that holds the pickle.
        start: The byte offset of the pickle.
        stop: The byte offset of its end; the STOP opcode must be its last byte.
        maximum: The largest number of entries; more raise `CorruptError`.
        signed: Accept negative offsets, which a bug of a merge wrote. Lengths are never negative.
        is_truncated: The pickle ends too early: yield its complete entries. If it does not, `CorruptError` is raised.

    Yields:
        Offsets int64[n] and lengths int64[n].

    Raises:
        UnsafeError: An opcode would execute code or exhaust memory. Nothing was executed.
        CorruptError: The pickle is not a list of pairs of integers 0 .. 2^63-1.
        TruncatedError: The pickle ends too early.
        UnsupportedError: The protocol is 0, 1, or above 5.
    """
    walk = Walk(file, start, stop, maximum, signed=signed, is_truncated=is_truncated)
    try:
        for entries in walk.batches():
            yield entries.offsets, entries.lengths
    except TruncatedError:
        if not is_truncated:
            raise
        if (left := walk.left()) is not None:
            yield left.offsets, left.lengths
        return
    if is_truncated:
        raise CorruptError(file.path, "the pickled index does not end early", offset=start)


def entry_position(file: File, start: int, stop: int, number: int) -> int:
    """Return the byte offset in the file of entry `number` (from 0) of a pickled list, for messages."""
    before = 0
    for entries in Walk(file, start, stop, stop - start, signed=True).batches():
        if number < before + len(entries.positions):
            return int(entries.positions[number - before])
        before += len(entries.positions)
    raise IndexError(f"entry {number} of {before}")


class Walk:
    """One pass over a pickle; see `read_entries` for the arguments."""

    def __init__(
        self, file: File, start: int, stop: int, maximum: int, *, signed: bool, is_truncated: bool = False
    ) -> None:
        self.file, self.start, self.stop, self.maximum, self.signed, self.is_truncated = (
            file,
            start,
            stop,
            maximum,
            signed,
            is_truncated,
        )
        self.at = start  # byte offset in the file
        self.count = 0
        self._listed = False
        self._limit = stop  # end of the frame, or, outside of frames, of the pickle
        self._framed = False
        self._base, self._held, self._data = start, 0, b""
        self._runs: list[Entries] = []
        self._walked: list[tuple[int, int, int]] = []
        self._pending = 0
        self._view: Recognized | None = None
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
            found = f"{self.stop - self.at:,} more bytes"
            raise self._wrong("the pickled index ends before the file does", self.at, "nothing after its STOP", found)
        if self._pending:
            yield self._flush()

    def take(self, at: int, number: int, count: int) -> Entries:
        """Return at least `count` entries from entry `number` on, which begins at byte offset `at`."""
        self.at, self.count, self._listed = at, number, True
        while self._pending < count:
            self._take_regular()
            if self._pending < count and (opcode := self._opcode()) not in {MARK, APPEND, APPENDS}:
                self._entry(opcode, "an entry (an integer)")
        return self._flush()

    def left(self) -> Entries | None:
        """Return the entries that were read before an error and not yielded yet; None without any."""
        return self._flush() if self._pending or self._walked else None

    def _head(self) -> None:
        version = self._bytes(2) if self.stop - self.start >= 2 else b""
        if version[:1] != bytes([PROTO]):
            wanted, found = "a pickle of protocol 2 to 5 (80 04)", version.hex(" ") or "nothing"
            raise self._wrong("is not a pickled index", self.start, wanted, found, _CUT)
        if not 2 <= version[1] <= 5:
            raise UnsupportedError(
                self.file.path,
                "pickle protocol of the index",
                offset=self.start + 1,
                expected="2 to 5",
                found=version[1],
                remedy=_CHANGED,
            )
        self._expect(EMPTY_LIST, "a list (EMPTY_LIST)")
        self._listed = True
        self._memo()

    # Regular entries

    def _batch(self) -> Iterator[Entries]:
        """Yield the entries after a MARK, and those of the batches that follow directly."""
        while True:
            few = self._take_regular() < _BURST // 8
            for _ in range(_BURST if few and self._inside_view() else 1):
                opcode = self._opcode()
                if opcode == APPENDS:
                    return
                self._entry(opcode, "an entry (an integer) or the end of the batch (APPENDS)")
            if self._pending >= _ENTRIES:
                yield self._flush()

    def _take_regular(self) -> int:
        """Take the regular entries that follow directly; return their number."""
        if not self._inside_view() and not self._look():
            return self._take_short()
        view = self._view
        if view is None:
            return 0
        runs, at = view.take(self.at - self._base)
        for run in runs:
            self._keep(run)
        self.at = self._base + at
        return sum(len(run.starts) for run in runs)

    def _take_short(self) -> int:
        """Take the regular entries that follow directly and whose integers have 1 to 4 bytes; return their number."""
        data, at, base = self._data, self.at - self._base, self._base
        stop, before = min(self._held, self._limit - base), len(self._walked)
        while at < stop:
            second = at + _INTEGERS.get(data[at], 0)
            end = second + _INTEGERS.get(data[second], 0)
            if second in (at, end) or end + 2 > stop or data[end] != TUPLE2 or data[end + 1] != MEMOIZE:
                break
            offset, length = (
                int.from_bytes(data[at + 1 : second], "little", signed=data[at] == BININT),
                int.from_bytes(data[second + 1 : end], "little", signed=data[second] == BININT),
            )
            if offset < 0 or length < 0:
                break
            self._walked.append((offset, length, base + at))
            at = end + 2
        count = len(self._walked) - before
        if count:
            self._counted(count, self.at)
            self.at = base + at
        return count

    def _inside_view(self) -> bool:
        return self._view is not None and self.at < self._view_stop - _SMALL

    def _look(self) -> bool:
        """Search the buffer for regular entries of this frame; return False if too little of the frame is left."""
        if self._held - (self.at - self._base) < min(self._limit - self.at, _BUFFER // 2):
            self._load()
        first = self.at - self._base
        stop = min(self._held, self._limit - self._base)
        if stop - first < _SHORT:
            return False
        self._view, self._view_stop = Recognized(self._data, first, stop), self._base + stop
        return True

    def _keep(self, run: Run) -> None:
        self._settle()
        self._counted(len(run.starts), self._base + int(run.starts[0]))
        self._runs.append(Entries(run.offsets, run.lengths, run.starts + self._base))

    def _settle(self) -> None:
        """Convert the entries that were decoded one by one to arrays."""
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
        if self.count > self.maximum:
            raise self._wrong("the index has more entries than the file has room for", at, f"at most {self.maximum:,}")

    # Everything else, opcode by opcode

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
        """Skip the opcode that stores the last object in the memo, if there is one."""
        opcode = self._after_frames()
        if opcode not in {MEMOIZE, BINPUT, LONG_BINPUT}:
            return
        at = self.at
        self.at += 1
        index = int.from_bytes(self._bytes({BINPUT: 1, LONG_BINPUT: 4}.get(opcode, 0)), "little")
        if index > self.count + 1:  # Unpicklers allocate a table of that size: 9 bytes could take gigabytes.
            raise UnsafeError(
                self.file.path,
                "a pickle opcode that makes unpicklers allocate unused memory",
                offset=at,
                expected=f"a memo index of at most {self.count + 1:,}",
                found=index,
                remedy="The file is damaged or hostile: do not load it with pickle",
            )

    def _expect(self, wanted: int, words: str) -> None:
        at, opcode = self.at, self._opcode()
        if opcode != wanted:
            raise self._refused(opcode, max(at, self.at - 1), words)

    def _opcode(self) -> int:
        """Return the next opcode that is not a FRAME, and move past it."""
        opcode = self._after_frames()
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
        """Enter the frame that begins here, or the last of several; return the opcode after it."""
        while (opcode := self._peek()) == FRAME:
            at = self.at
            if self._framed:
                wanted = f"the end of the frame at byte {self._limit:,}"
                raise self._wrong("a frame of the pickled index begins inside another", at, wanted)
            self.at += 1
            size = int.from_bytes(self._bytes(8), "little")
            if self.is_truncated:
                size = min(size, self.stop - self.at)
            if size > self.stop - self.at:
                wanted = f"at most {self.stop - self.at:,} bytes"
                raise self._wrong("a frame of the pickled index is longer than the file", at, wanted, size, _CUT)
            self._framed, self._limit = size > 0, self.at + size if size else self.stop
        return opcode

    def _bytes(self, count: int) -> bytes:
        """Return the next `count` bytes of the same opcode."""
        at, end = self.at, self.at + count
        if end > self._limit:
            if not self._framed or (self.is_truncated and self._limit == self.stop):
                raise self._ended()
            what = "an opcode crosses the end of its frame in the pickled index"
            raise self._wrong(what, at, f"at most {self._limit - at} bytes", count)
        if at < self._base or end > self._base + self._held:
            self._load()
        self.at = end
        return self._data[at - self._base : end - self._base]

    def _load(self) -> None:
        self._base, self._held = self.at, min(_BUFFER, self.stop - self.at)
        self._data = self.file.read(self._base, self._held) + bytes(PADDING)
        self._view = None

    # Errors

    def _wrong(
        self, what: str, at: int, wanted: str, found: int | str | None = None, remedy: str = _CHANGED
    ) -> CorruptError:
        return CorruptError(self.file.path, what, offset=at, expected=wanted, found=found, remedy=remedy)

    def _ended(self) -> TruncatedError:
        return TruncatedError(
            self.file.path, f"the pickled index {ENDS_EARLY}", offset=self.stop, expected="a STOP opcode", remedy=_CUT
        )

    def _number(self, at: int, value: int) -> CorruptError:
        what = f"index entry {self.count:,} holds a number that is not an offset or length"
        found = value if abs(value) < 1 << 63 else f"one of {value.bit_length():,} bits"
        return self._wrong(what, at, "0 to 2^63-1", found)

    def _refused(self, opcode: int, at: int, wanted: str) -> FormatError:
        from pickletools import opcodes

        name = next((known.name for known in opcodes if known.code == chr(opcode)), "")
        if effect := _word(name, EFFECTS):
            return UnsafeError(
                self.file.path,
                f"the index holds the pickle opcode {name}, which {effect},",
                offset=at,
                expected=wanted,
                remedy="Nothing of it was run; do not load this file with pickle",
            )
        meaning = _word(name, MEANINGS)
        found = f"{meaning} ({name})" if meaning else name or f"the byte {opcode:02x}, which is not a pickle opcode"
        what = f"index entry {self.count:,}" if self._listed else "the pickled index"
        return self._wrong(what, at, wanted, found, _PAIRS)


# Intervals of entries by number, without all entries in memory: for `show --raw` and the browser.
#
# One pass, which goes only as far as needed, keeps a mark at every 4,096th entry. An interval is decoded from the mark
# before it. 100 million entries have 24,000 marks.

_STEP = 1 << 12  # entries between two marks
_MOST = 1 << 62
_ENTRY = 64  # bytes of the longest entry
_INTEGERS = {BININT1: 2, BININT2: 3, BININT: 5}
_MEMOS = {MEMOIZE: 1, BINPUT: 2, LONG_BINPUT: 5}


class Stretch(NamedTuple):
    """Consecutive entries; int64[n] each."""

    # offsets, lengths: the two integers of each entry, as stored
    offsets: Ints
    lengths: Ints
    positions: Ints  # the byte offset of each entry in the file
    before: Ints  # the sum of the lengths of all entries before each, at most 2^62 (a damaged index can state more)


class EntryTable:
    """The entries of a pickled index by number. Threads may share it.

    Attributes:
        file: The file that holds the pickle.
        start, stop: The byte offsets of its start and its end.
        error: The error that ended the pass too early; None until it is found.
        jump: The first entry that does not begin at the end of the entry before it; None until it is found.
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
        """Number of entries before the first damaged one. The first call reads all of them."""
        return self._known_to(_MOST)

    @property
    def total(self) -> int:
        """Sum of all lengths. The first call reads all entries."""
        self._known_to(_MOST)
        return self._sum

    def read(self, first: int, last: int) -> Stretch:
        """Return those of the entries `first <= i < last` that exist. Reads no further than `last`."""
        last = min(last, self._known_to(last))
        if not 0 <= first < last:
            return Stretch(*np.empty((4, 0), np.int64))
        mark = first // _STEP
        skip, wanted = first - mark * _STEP, last - mark * _STEP
        some = self._new().take(self._marks[mark], mark * _STEP, wanted)
        offsets, lengths, positions = (column[:wanted] for column in some)
        before = np.minimum(_sums(lengths) - lengths + self._sums[mark], _MOST).astype(np.int64)
        return Stretch(offsets[skip:], lengths[skip:], positions[skip:], before[skip:])

    def _known_to(self, wanted: int) -> int:
        """Read on until `wanted` entries are known, or all; return the number of known entries."""
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
        sums = _sums(some.lengths)
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
        """Return the bytes of the entry at byte offset `position`, with frames inside it."""
        raw = self.file.read(position, min(_ENTRY, self.stop - position))
        at = 0
        for _ in range(2):
            at = _after_frame(raw, at)
            at += _INTEGERS.get(raw[at], 0) or 2 + raw[at + 1]
        at = _after_frame(raw, at) + 1
        memo = raw[at] if at < len(raw) else -1
        return at + _MEMOS.get(memo, 0)


def _sums(lengths: Ints) -> NDArray[Any]:
    """Return running sums: int64, or Python integers where a damaged index has lengths that sum to more."""
    is_exact = float(np.abs(lengths.astype(np.float64)).sum()) < _MOST
    return np.cumsum(lengths if is_exact else lengths.astype(object))


def _after_frame(raw: bytes, at: int) -> int:
    return at + 9 if raw[at] == FRAME else at


def start_fields(file: File, start: int, stop: int) -> list[Field]:
    """Return the fields of the beginning of a pickled index: protocol, frame, list."""
    raw = file.read(start, min(16, stop - start))
    known = len(raw) > 1 and raw[0] == PROTO and 2 <= raw[1] <= 5
    found = [
        Field(
            "protocol",
            start,
            min(2, len(raw)),
            f"pickle protocol {raw[1]}" if known else raw[:2].hex(" "),
            "" if known else "should be 80 and 2 to 5, as a pickled index begins",
            wrong=not known,
        )
    ]
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
