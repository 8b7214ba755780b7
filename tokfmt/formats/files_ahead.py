"""Request the files of a dataset in a store that a reader reaches next. Within a file, a store reads ahead itself."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tokfmt.core.annotation import Extent

FILES_AT_ONCE = 32
"""Files of a store whose beginnings are requested before they are examined, and whose tokens are read ahead."""
_READ_AHEAD = 8 << 20
"""Bytes after the place of a reader in which the files of a store are read ahead."""
_GOES_ON = 1 << 16
"""Tokens after which a run is taken for one that goes on to the next file."""
_RUNS = 16
"""Runs that are remembered. Threads may read parts of a dataset side by side."""


def parts_of(
    extents: Sequence[Extent], begins: Sequence[int], start: int, stop: int
) -> Iterator[tuple[Extent, int, int]]:
    """Yield (extent, start, stop) for each extent that an interval covers; positions count from its first token.

    Args:
        extents: The extents.
        begins: The position of the first token of each, and the end of the last.
        start: First position of the interval.
        stop: Position after the interval.
    """
    for k in range(bisect_right(begins, start) - 1, bisect_left(begins, stop)):
        base, end = begins[k : k + 2]
        if start < end:
            yield extents[k], max(start - base, 0), min(stop, end) - base


@dataclass(slots=True, eq=False)
class _Run:
    """Reads that each begin near the end of the one before."""

    end: int  # the position after the last
    tokens: int = 0  # the tokens that were read after the first read
    asked: int = 0  # the number of the last file that was read ahead


class FilesAhead:
    """The requests for files that a reader of a store reaches next. Picklable.

    Threads may share one: at worst, a file is then not read ahead, or a request for it is repeated.
    """

    def __init__(self, extents: Sequence[Extent], begins: Sequence[int]) -> None:
        """Request nothing yet.

        Args:
            extents: The extents of the files.
            begins: As for `parts_of`.
        """
        self._extents, self._begins = extents, begins
        self._runs: list[_Run] = []
        self._read_to_end = set[int]()

    def ask(self, start: int, stop: int) -> None:
        """Request all files of an interval that is read now, and the next ones if a reader goes on."""
        self._request(islice(parts_of(self._extents, self._begins, start, stop), 1, None))
        self._note_ends(start, stop)
        length = stop - start
        near = [one for one in self._runs if -length < start - one.end <= 4 * length]
        run = min(near, key=lambda one: abs(start - one.end), default=None)
        if run is None:
            run = _Run(stop)
        else:
            run.tokens, run.end = run.tokens + length, stop
        self._runs = [run, *(one for one in self._runs if one is not run)][:_RUNS]
        if run.tokens >= _GOES_ON:
            self._request_next(run)

    def ask_intervals(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Request several intervals that are read now, without the files between those that are far apart."""
        first, last = min(a for a, _ in wanted), max(b for _, b in wanted)
        if 2 * sum(b - a for a, b in wanted) >= last - first:
            self.ask(first, last)
        else:
            self._request(part for a, b in wanted for part in parts_of(self._extents, self._begins, a, b))

    def _request(self, parts: Iterable[tuple[Extent, int, int]]) -> None:
        for extent, a, b in islice(parts, FILES_AT_ONCE):
            at, width = extent.begin, extent.dtype.itemsize
            extent.file.prefetch([(at + a * width, min(at + b * width, extent.file.size))])

    def _note_ends(self, start: int, stop: int) -> None:
        """Record the files whose ends are in an interval. If one of them was recorded before, a new pass begins."""
        ends = range(bisect_right(self._begins, start) - 1, bisect_right(self._begins, stop) - 1)
        if not self._read_to_end.isdisjoint(ends):
            self._read_to_end = set()
        self._read_to_end.update(ends)

    def _request_next(self, run: _Run) -> None:
        """Request the files after a run, as far as there is room, up to one that another thread has read."""
        current = bisect_right(self._begins, run.end) - 1
        if current >= len(self._extents):
            return
        room = _READ_AHEAD - (self._begins[current + 1] - run.end) * self._extents[current].dtype.itemsize
        for number in range(current + 1, min(current + 1 + FILES_AT_ONCE, len(self._extents))):
            file, begin, tokens, dtype = self._extents[number]
            end = min(begin + min(tokens * dtype.itemsize, room), file.size)
            if room <= 0 or number in self._read_to_end:
                return
            if number > run.asked and begin < end:
                file.prefetch([(begin, end)])
                run.asked = number
            room -= tokens * dtype.itemsize
