"""Find zeros where tokens should be: at the end of a dataset, or a run of them inside.

A program that makes a file at its full size and is stopped, a copy that is cut, and a disk that fails leave them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from tokfmt.core.findings import Finding
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import WINDOW, Layout, TokenReader
from tokfmt.errors import TokfmtError
from tokfmt.files.place import Place
from tokfmt.model.readers import dataset_of

_FEWEST = 1 << 10  # zeros in a row that no text has: half a page of a disk as uint16
_MOST = 1 << 24  # zeros at the end that a quick check counts
_ROWS = 2  # rows that are all zeros; padding may be 0
_REMEDY = "Copy it again, or write it again"


class Zeros:
    """A search for runs of the ID 0."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self._lock = reader, threading.Lock()
        self.runs: list[tuple[int, int]] = []  # long ones, and those at the borders of windows

    @staticmethod
    def of(reader: TokenReader) -> Zeros | None:
        """Return a search; None for streams, and if 0 is the separator."""
        return None if reader.is_split or _is_usual(reader) else Zeros(reader)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the tokens from position `start` on. Threads may call this."""
        if not (zeros := tokens == 0).any():
            return
        edges = np.flatnonzero(np.diff(zeros, prepend=False, append=False)).reshape(-1, 2)
        is_kept = (edges[:, 1] - edges[:, 0] >= _FEWEST) | (edges[:, 0] == 0) | (edges[:, 1] == len(tokens))
        with self._lock:
            self.runs += [(start + a, start + b) for a, b in edges[is_kept].tolist()]

    def findings(self, path: Place) -> Iterator[Finding]:
        """Report what was found, once every token was looked at."""
        runs: list[tuple[int, int]] = []
        for a, b in sorted(self.runs):
            if runs and runs[-1][1] == a:
                runs[-1] = (runs[-1][0], b)
            else:
                runs.append((a, b))
        fewest, end = _fewest(self.reader), self.reader.info.tokens
        long = [(a, b) for a, b in runs if b - a >= fewest]
        if long and long[-1][1] == end:
            yield _at_end(path, self.reader, long.pop()[0])
        if long:
            count, first = sum(b - a for a, b in long), long[0][0]
            where, offset = _place(path, self.reader, first)
            sequences = f"sequence {self.reader.sequence_at(first):,}"
            what = f"holds {count:,} zeros in {len(long):,} runs of {fewest:,} or more (first: {sequences})"
            yield Finding("TF949", "warning", where, what, _REMEDY, offset)


def tail_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report a dataset whose last IDs are 0. If they are, it reads those before them until there is another."""
    fewest, end = _fewest(reader), reader.info.tokens
    try:
        if end < fewest or _is_usual(reader) or reader.tokens(end - fewest, end).any():
            return
        first, seen = end - fewest, np.empty(0, np.int64)
        while first > max(0, end - _MOST) and not len(seen):
            a = max(0, first - WINDOW)
            seen = np.flatnonzero(reader.tokens(a, first))
            first = a + (int(seen[-1]) + 1 if len(seen) else 0)
    except TokfmtError:  # reported where all tokens are read
        return
    yield _at_end(path, reader, first, is_begin=first == 0 or bool(len(seen)))


def _at_end(path: Place, reader: TokenReader, first: int, *, is_begin: bool = True) -> Finding:
    end, least = reader.info.tokens, "" if is_begin else "at least "
    sequences = f"sequences {reader.sequence_at(first):,} to {reader.sequence_at(end - 1):,}"
    where, offset = _place(path, reader, first)
    what = f"{least}its last {end - first:,} tokens are zeros ({sequences})"
    return Finding("TF949", "error", where, f"{what}: it was not written to its end, or not copied", _REMEDY, offset)


def _place(path: Place, reader: TokenReader, position: int) -> tuple[str, int | None]:
    place = reader.locate(position)
    return (str(path), None) if place is None else (str(place.path), place.offset)


def _is_usual(reader: TokenReader) -> bool:
    return 0 in (reader.info.eos_id, dataset_of(reader).gap.id)


def _fewest(reader: TokenReader) -> int:
    """Return how many zeros in a row are a finding."""
    info = reader.info
    row = -(-info.tokens // info.sequences) if info.layout is not Layout.DOCUMENTS and info.sequences else 0
    return max(_FEWEST, _ROWS * row)
