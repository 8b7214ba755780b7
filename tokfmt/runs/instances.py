"""Instances of fixed width: slices of files, as OLMo and Nanoset cut them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokfmt.runs.arrays import Numbers
from tokfmt.runs.order import Pieces


class Slices:
    """Instances that follow each other in files without overlap. A part is a source, where its files begin on its axis,
    and how many instances each of them has.
    """

    def __init__(self, parts: Sequence[tuple[int, Numbers, Numbers]], width: int) -> None:
        self.width = width
        self.counts = np.array([int(counts.sum()) for _, _, counts in parts], np.int64)
        self.firsts = np.cumsum(self.counts) - self.counts  # the first instance of each part
        self.count = int(self.counts.sum())
        self._sources = np.repeat([source for source, *_ in parts], [len(counts) for *_, counts in parts])
        self._begins = np.concatenate([begins for _, begins, _ in parts])
        self._counts = np.concatenate([counts for *_, counts in parts])
        self._firsts = np.cumsum(self._counts) - self._counts

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""
        file = np.searchsorted(self._firsts, numbers, side="right") - 1
        start = self._begins[file] + (numbers - self._firsts[file]) * self.width
        return Pieces(rows, self._sources[file], start, np.full(len(numbers), self.width))

    def holding(self, source: int, start: int, stop: int) -> Numbers:
        """Return the instances with some of the tokens `start <= p < stop` of a source."""
        found = [np.empty(0, np.int64)]
        for file in np.flatnonzero(self._sources == source).tolist():
            begin, count, first = int(self._begins[file]), int(self._counts[file]), int(self._firsts[file])
            low, high = max(0, (start - begin) // self.width), min(count, -((begin - stop) // self.width))
            found.append(first + np.arange(low, max(low, high)))
        return np.concatenate(found)
