"""Find zeros where tokens should be: at the end of a dataset, or a run of them inside.

A program that makes a file at its full size and is stopped, a copy that is cut, and a disk that fails leave them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from tokfmt.core.findings import Finding
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.files.place import Place
from tokfmt.source.zeros import FEWEST, ZerosAtEnd, fewest_zeros, is_zero_usual, zeros_at_end
from tokfmt.wording import counted

_REMEDY = "Copy it again, or write it again"


class Zeros:
    """A search for runs of the ID 0."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader, self._lock = reader, threading.Lock()
        self.runs: list[tuple[int, int]] = []  # long ones, and those at the borders of windows

    @staticmethod
    def of(reader: TokenReader) -> Zeros | None:
        """Return a search; None for streams, and if 0 is the separator."""
        return None if reader.is_split or is_zero_usual(reader) else Zeros(reader)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the tokens from position `start` on. Threads may call this."""
        if not (zeros := tokens == 0).any():
            return
        edges = np.flatnonzero(np.diff(zeros, prepend=False, append=False)).reshape(-1, 2)
        is_kept = (edges[:, 1] - edges[:, 0] >= FEWEST) | (edges[:, 0] == 0) | (edges[:, 1] == len(tokens))
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
        fewest, end = fewest_zeros(self.reader), self.reader.info.tokens
        long = [(a, b) for a, b in runs if b - a >= fewest]
        if long and long[-1][1] == end:
            yield _finding(path, self.reader, ZerosAtEnd(long.pop()[0], is_begin=True))
        if long:
            count, first = sum(b - a for a, b in long), long[0][0]
            where, offset = _place(path, self.reader, first)
            sequences = f"sequence {self.reader.sequence_at(first):,}"
            runs_of = f"{counted(len(long), 'run')} of {fewest:,} or more"
            problem = f"holds {count:,} zeros in {runs_of} (first: {sequences})"
            yield Finding("TF949", "warning", where, problem, _REMEDY, offset)


def tail_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report a dataset whose last IDs are 0."""
    if (zeros := zeros_at_end(reader)) is not None:
        yield _finding(path, reader, zeros)


def _finding(path: Place, reader: TokenReader, zeros: ZerosAtEnd) -> Finding:
    where, offset = _place(path, reader, zeros.first)
    return Finding("TF949", "error", where, zeros.sentence(reader), _REMEDY, offset)


def _place(path: Place, reader: TokenReader, position: int) -> tuple[str, int | None]:
    place = reader.locate(position)
    return (str(path), None) if place is None else (str(place.path), place.offset)
