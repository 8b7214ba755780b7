"""One file of a dataset: its lines, those its index names, and where its records are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokfmt.formats.jsonl.lines import Lines, Positions, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Parser
from tokfmt.formats.jsonl.raw_index import check_start, load_index
from tokfmt.formats.jsonl.streams import TextFile


@dataclass(frozen=True, slots=True)
class Census:
    """How many records lie where: 16 bytes for each 256 KiB of text.

    Attributes:
        offsets: int64[pieces + 1], where consecutive pieces of whole lines begin, and the end.
        firsts: int64[pieces + 1], number of each piece's first record, and the number of all records.
    """

    offsets: Positions
    firsts: Positions

    @property
    def records(self) -> int:
        """Records in the file."""
        return int(self.firsts[-1])


class Part:
    """A file of lines and, for plain text, the index beside it."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.text = TextFile(path)
        self.index = load_index(self.text) if options.index == "auto" else None
        self._longest = options.max_line
        self._census: Census | None = None

    def lines(self, start: int, stop: int | None) -> Iterator[Lines]:
        """The lines between two line borders, about 256 KiB at a time; only those the index names, if there is one."""
        for lines in walk(self.text, start, stop, self._longest):
            yield lines if self.index is None else self.index.documents(lines)

    def census(self, valid: Parser | None) -> Census:
        """Count the records: all lines, or those that `valid` accepts (always the same for one reader)."""
        if self._census is None:
            offsets, counts = [0], [0]
            for lines in self.lines(0, None):
                offsets.append(lines.offset + len(lines.data))
                counts.append(len(lines) if valid is None else len(valid(lines).values))
            self._census = Census(np.asarray(offsets, np.int64), np.cumsum(counts, dtype=np.int64))
        return self._census

    def records(self, valid: Parser | None) -> int:
        """Number of records; the index knows it without a look at the text, unless some may be left out."""
        if self.index is not None and valid is None:
            return len(self.index.offsets)
        return self.census(valid).records

    def span(self, first: int, last: int, valid: Parser | None) -> tuple[int, int]:
        """Where record `first` begins, and where the line after record `last - 1` does, in a plain file."""
        if self.index is not None and valid is None:
            entries = self.index.offsets
            check_start(self.index.path, first, int(entries[first]), self.text)
            if last == len(entries):
                return int(entries[first]), self.text.size
            check_start(self.index.path, last, int(entries[last]), self.text)
            return int(entries[first]), int(entries[last])
        return self._line(first, valid)[0], self._line(last - 1, valid)[1]

    def _line(self, record: int, valid: Parser | None) -> tuple[int, int]:
        """Where the line of a record begins, and where the next line does."""
        census = self.census(valid)
        piece = int(np.searchsorted(census.firsts, record, side="right")) - 1
        at = record - int(census.firsts[piece])
        for lines in self.lines(int(census.offsets[piece]), int(census.offsets[piece + 1])):
            kept = None if valid is None else valid(lines).kept
            count = len(lines) if kept is None else len(kept)
            if at < count:
                index = at if kept is None else kept[at]
                start = lines.data.rfind(b"\n", 0, int(lines.starts[index])) + 1  # before a byte order mark, too
                stop = lines.data.find(b"\n", int(lines.ends[index])) + 1 or len(lines.data)
                return lines.offset + start, lines.offset + stop
            at -= count
        raise IndexError(f"record {record}")
