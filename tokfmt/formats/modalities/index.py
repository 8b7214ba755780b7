"""The index of a pack: where documents begin by their lengths, and how the stored offsets compare with that.

Of layouts that do not store it, the token width follows from the index and what documents end with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import windows
from tokfmt.core.errors import CorruptError, TruncatedError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.formats.modalities import begins_index
from tokfmt.formats.pickled_index import entry_position, read_entries

SHIFT = 12
"""What a merge subtracts from the offsets of each further file, in bytes."""

_SMALLEST_ENTRY = 5  # bytes in the pickle
_ATTEMPTS = 64  # places tried as the beginning of an index
_BLOCK = 1 << 20

Ints = NDArray[np.int64]


class Place(NamedTuple):
    """An entry whose stored offset is not what the lengths before it lead to."""

    entry: int
    expected: int
    found: int


class Index(NamedTuple):
    """A decoded index.

    Attributes:
        start, stop: Its bytes in the file.
        starts: int64[documents + 1], byte at which each document begins, by the lengths, counted from the first one.
        base: The first stored offset; 0 when there is none.
        last_length: Bytes of the last document.
        shifted: First entry whose offset does not follow from the entry before it.
        odd: First entry whose offset is off by anything but a multiple of SHIFT.
        constant: All stored offsets are the same.
        reordered: The stored offsets tile the data, in another order than that of the entries.
        bits: All lengths, or-ed: tells which powers of two divide them.
        empty: First entry of length 0.
    """

    start: int
    stop: int
    starts: Ints
    base: int
    last_length: int
    shifted: Place | None
    odd: Place | None
    constant: bool
    reordered: bool
    bits: int
    empty: int | None

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """Bytes of all documents."""
        return int(self.starts[-1])

    def uneven(self, width: int) -> Place | None:
        """The first document whose length is not a multiple of `width`: `found` is its length."""
        if width in {1, 2, 4} and not self.bits & width - 1:
            return None
        for a, b in windows(0, self.documents):
            lengths = np.diff(self.starts[a : b + 1])
            wrong = np.flatnonzero(lengths % width)
            if len(wrong):
                return Place(a + int(wrong[0]), width, int(lengths[wrong[0]]))
        return None

    def position(self, file: File, entry: int) -> int:
        """The byte at which an entry lies in the file."""
        return entry_position(file, self.start, self.stop, entry)


def read_index(file: File, start: int) -> Index:
    """Decode the index that begins at byte `start` and runs to the end of the file.

    Raises:
        FormatError: It is not a pickled list of pairs of integers, or a document is larger than the file.
    """
    survey = _Survey(file, start)
    for offsets, lengths in read_entries(file, start, file.size, start, signed=True):
        survey.add(offsets, lengths)
    return survey.index()


class _Survey:
    """One pass over the entries; keeps 8 bytes for each."""

    def __init__(self, file: File, start: int) -> None:
        self.file, self.start = file, start
        # reserved, not touched: the pages that the entries do not fill are given back in `index`
        self.starts = np.empty((file.size - start) // _SMALLEST_ENTRY + 2, np.int64)
        self.starts[0] = 0
        self.count, self.total, self.bits, self.last_length = 0, 0, 0, 0
        self.base, self.last_shift, self.constant = 0, 0, True
        self.shifted: Place | None = None
        self.odd: Place | None = None
        self.empty: int | None = None
        self.least = 0
        self.balance = 0  # of hashes of where runs of entries begin and end

    def add(self, offsets: Ints, lengths: Ints) -> None:
        self._check_lengths(lengths)
        first, self.count = self.count, self.count + len(offsets)
        window = self.starts[first : self.count + 1]
        np.cumsum(lengths, out=window[1:])
        window[1:] += self.total
        self.total, self.last_length = int(window[-1]), int(lengths[-1])
        self.bits |= int(np.bitwise_or.reduce(lengths))
        if self.empty is None and not lengths.all():
            self.empty = first + int(np.argmin(lengths))
        self._compare(first, offsets, window)

    def _check_lengths(self, lengths: Ints) -> None:
        longest = int(lengths.max())
        if longest > self.start or float(self.total) + float(lengths.sum(dtype=np.float64)) > 2.0**62:
            entry = self.count + int(np.argmax(lengths))
            raise CorruptError(
                self.file.path, f"the length in index entry {entry:,}", expected=f"at most {self.start:,} bytes",
                offset=entry_position(self.file, self.start, self.file.size, entry), found=longest,
                remedy="The index is damaged or belongs to another file",
            )  # fmt: skip

    def _compare(self, first: int, offsets: Ints, window: Ints) -> None:
        shifts = offsets - window[:-1]
        if first == 0:
            self.base = self.last_shift = self.least = int(offsets[0])
        self.constant = self.constant and bool((offsets == self.base).all())
        steps = np.flatnonzero(np.diff(shifts, prepend=self.last_shift))
        if not len(steps):
            return
        self.least = min(self.least, int(offsets[steps].min()))
        self.shifted = self.shifted or self._place(first, int(steps[0]), offsets, window)
        odd = np.flatnonzero((shifts - self.base) % SHIFT)
        if len(odd):
            self.odd = self.odd or self._place(first, int(odd[0]), offsets, window)
        ends = window[steps] + np.concatenate(([self.last_shift], shifts))[steps]  # where the runs before end
        self.balance += int(_mixed(offsets[steps]).sum()) - int(_mixed(ends).sum())
        self.last_shift = int(shifts[-1])

    def _place(self, first: int, at: int, offsets: Ints, window: Ints) -> Place:
        return Place(first + at, int(window[at]) + max(self.base, 0), int(offsets[at]))

    def index(self) -> Index:
        self.starts.resize(self.count + 1, refcheck=False)
        return Index(
            start=self.start,
            stop=self.file.size,
            starts=self.starts,
            base=self.base,
            last_length=self.last_length,
            shifted=self.shifted,
            odd=self.odd,
            constant=self.constant,
            reordered=self.shifted is not None and self._tiles(),
            bits=self.bits,
            empty=self.empty,
        )

    def _tiles(self) -> bool:
        """Whether the stored intervals, put in order, follow on each other without gaps.

        They do when the places where they begin are those where they end, but for the outermost two; sums of hashes
        compare the two sets without keeping them.
        """
        begins, ends = [self.base, self.least + self.total], [self.total + self.last_shift, self.least]
        hashes = _mixed(np.array(begins + ends)).tolist()
        return bool((self.balance + hashes[0] + hashes[1] - hashes[2] - hashes[3]) % 2**64 == 0)


def _mixed(places: Ints) -> NDArray[np.uint64]:
    """A hash of each place (the finaliser of splitmix64)."""
    x = places.astype(np.int64).view(np.uint64)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def find_index(file: File) -> Index | None:
    """The index of a pack whose header does not tell where it is: the last one that ends where the file does."""
    if not file.size or file.read(file.size - 1, 1) != b".":
        return None
    for attempt, start in enumerate(_beginnings(file)):
        if attempt == _ATTEMPTS:
            return None
        try:
            return read_index(file, start)
        except (CorruptError, TruncatedError, UnsupportedError):
            continue
    return None


def _beginnings(file: File) -> Iterator[int]:
    """Places at which a pickled list may begin, from the end of the file."""
    for stop in range(file.size, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        held = file.read(start, min(file.size - start, _BLOCK + 16)) + bytes(16)
        raw = np.frombuffer(held, np.uint8)
        hits = np.flatnonzero((raw[:-1] == 0x80) & (raw[1:] >= 2) & (raw[1:] <= 5))
        for hit in hits[hits < stop - start][::-1].tolist():
            if begins_index(held[hit : hit + 12]):
                yield start + hit


_ENDINGS = 4096
_ALMOST_ALL = 0.9
_DEFAULT = 4


def infer_width(file: File, begin: int, index: Index) -> int:
    """The widest of 4, 2 and 1 bytes that divides every length and under which (almost) all documents end alike.

    They end with the separator, so its bytes repeat; a width too large takes in part of the token before, which
    varies. Layout A was written with 4 bytes unless a program asked for another width; that is the default as well.
    """
    endings = _endings(file, begin, index)
    for width in (4, 2, 1):
        last = Counter(ending[-width:] for ending in endings)
        if index.uneven(width) is None and last and max(last.values()) >= _ALMOST_ALL * len(endings):
            return width
    return next(width for width in (_DEFAULT, 2, 1) if index.uneven(width) is None)


def _endings(file: File, begin: int, index: Index) -> list[bytes]:
    """The last four bytes (or fewer) of documents spread over the file."""
    count = index.documents
    looked = np.unique(np.linspace(0, count - 1, min(count, _ENDINGS)).astype(np.int64)).tolist() if count else []
    endings = []
    for entry in looked:
        start, stop = index.starts[entry : entry + 2].tolist()
        if start < stop:
            length = min(4, stop - start)
            endings.append(file.read(begin + stop - length, length))
    return endings
