"""Lines of text as a token axis of bytes, so that they are dealt out and shuffled as sequences of tokens are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import Info, Layout, TokenReader, batches, check_interval, windows
from tokfmt.core.dtypes import U8
from tokfmt.core.errors import Loss
from tokfmt.core.files import File
from tokfmt.core.format import Receipt, Region
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Offsets, Tokens

_END = ord("\n")


class LineReader:
    """The lines of a file in scratch, line ends included: a byte is a token, a line a sequence.

    Keeps 8 bytes a line.
    """

    def __init__(self, path: Path, lines: int) -> None:
        self._file = File(path)
        self._offsets = np.zeros(lines + 1, np.int64)
        at = 1
        for a, b in windows(0, self._file.size):
            ends = np.flatnonzero(self._file.array(a, b - a, U8) == _END)
            self._offsets[at : at + len(ends)] = ends + (a + 1)
            at += len(ends)
        self._info = Info(Layout.DOCUMENTS, U8, lines, self._file.size)

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        return self._file.array(start, stop - start, U8)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def close(self) -> None:
        self._file.close()


class LineWriter:
    """Writes such an axis to a file."""

    needs_eos = False
    separated = False
    needs_max_id = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def lost(self, source: TokenReader) -> Sequence[Loss]:  # noqa: ARG002 - lines stay as they are
        return []

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        cuts = windows(0, source.info.tokens, size)
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        preallocate(self.path, source.info.tokens)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        with Output(self.path) as out:
            for a, b in windows(region.tokens.start, region.tokens.stop):
                out.write(a, source.tokens(a, b))
        return Receipt(region.index, -1, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """A file of lines has no index."""


def lines_in(reader: TokenReader) -> Iterator[bytes]:
    """The lines of such an axis, without their ends."""
    for batch in batches(reader, 0, reader.info.sequences):
        yield from (line.tobytes()[:-1] for line in batch)
