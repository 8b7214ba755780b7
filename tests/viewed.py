"""Readers and words for what the browser shows, without a screen."""

import numpy as np

from tokfmt.browser.data.layout import TokenStyle
from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import CorruptError
from tokfmt.plugin import offsets_of


class Memory(TokenReader):
    """Sequences in memory; positions in `broken` cannot be read. Counts what was read."""

    def __init__(self, lengths, broken=()):
        self.bounds = offsets_of(lengths)
        total = int(self.bounds[-1])
        self.data = np.arange(total, dtype=np.uint32)
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), len(lengths), total)
        self.broken, self.read = set(broken), 0

    def tokens(self, start, stop):
        if not 0 <= start <= stop <= self.info.tokens:
            raise IndexError(f"{start}:{stop}")
        if any(start <= position < stop for position in self.broken):
            raise CorruptError("x", "is damaged")
        self.read += stop - start
        return self.data[start:stop]

    def offsets(self, first, last):
        return self.bounds[first : last + 1]


class Endless(TokenReader):
    """10^12 sequences of 1,000 tokens each, computed; or one sequence of 10^15."""

    def __init__(self, length=1000, total=10**15):
        self.width, self.asked = length, 0
        self.info = Info(Layout.SAMPLES, np.dtype(np.uint64), total // length, total, sample_length=length)

    def tokens(self, start, stop):
        assert stop - start <= 1 << 16
        self.asked += stop - start
        return np.arange(start, stop, dtype=np.uint64) % np.uint64(50_000)

    def offsets(self, first, last):
        assert last - first <= 1 << 10
        return np.arange(first, last + 1, dtype=np.int64) * self.width


class Words:
    """Every fifth token a word, the others letters; every seventh a line feed; bytes that need their neighbors."""

    def pieces(self, units):
        return [self.piece(int(unit)) for unit in units]

    @staticmethod
    def piece(unit):
        if unit % 37 == 36:
            return b"\xe2\x9c"
        if unit % 37 == 0 and unit:
            return b"\x85 \xff"
        return b"\n" if unit % 7 == 0 else b" word" if unit % 5 == 0 else b"ab"


ALPHABET = TokenStyle(Words(), frozenset({3}), 4)
