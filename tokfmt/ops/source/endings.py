"""Read the ends of sequences in a few places, to find out whether all end with one ID that occurs nowhere else.

`WithoutTrailing` checks the other sequences when they are read, and raises at the first exception.

    look     sequences                                                    reads
    whole    64 runs of 64 neighbors, spread over the dataset             the last IDs; the run if sequences are short
    few      all of a dataset of 2^20 tokens; else 4 runs of up to 1,024,  a window of 2^16 tokens for each run
             one of them at the sequences that a command reads

A command that reads a few sequences makes the `few` look, any other command the `whole` one. `SequenceEnds.seen` has
the number of sequences that a `few` look read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.protocols import read_intervals
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.raw_ids import byte_swapped
from tokfmt.core.reader import TokenReader, distinct

_RUNS, _RUN = 64, 64
_READ = 1 << 14  # tokens of a gap that cost less to read than another read does
_INSIDE = 1 << 16  # tokens of a run that are searched for a separator inside sequences
_FEW, _RUN_OF_FEW = 4, 1024
LITTLE = 1 << 20
"""Tokens of a dataset that a `few` look reads wholly, at most."""
_ENOUGH = 8  # sequences that must end with one ID before it is inferred as the separator


Window = tuple[Offsets, int, Tokens]
"""The bounds of neighboring sequences, int64[neighbors + 1]; a position; the tokens from there to the last bound."""


class SequenceEnds:
    """The ends of some sequences.

    Attributes:
        ids: The distinct last IDs, info.dtype[distinct]; None if there is no sequence, or if a sequence is empty.
        seen: The sequences that were read, as a subject with its verb: "every sequence ends".
        is_swapped: The IDs have the wrong byte order, by the first window that `shown` reads.
    """

    def __init__(self, axis: TokenReader, *, few_sequences: bool = False, max_sequences: int | None = None) -> None:
        """Read the last IDs of sequences in a few places.

        Args:
            axis: A stored axis whose sequences may end with a separator.
            few_sequences: The command reads few sequences, so look at few places.
            max_sequences: The command reads only so many sequences, from the first, so the last of these is one of the
                places. None: it may read all.
        """
        self._axis, info = axis, axis.info
        self.seen, self._windows, self.is_swapped = "every sequence ends", list[Window](), False
        if not few_sequences:
            self._runs = _spread(info.sequences, _RUNS, _RUN)
            self.ids = self._ends()
            return
        little = max(info.tokens, info.sequences) <= LITTLE
        self._runs = [(0, info.sequences)][: info.sequences] if little else _few(info.sequences, max_sequences)
        self.ids, count = self._ends_of_few(LITTLE if little else _INSIDE)
        if not little:
            self.seen = f"each of {count:,} sequences that were read ends"

    def shown(self) -> int | None:
        """Return the ID that all sequences end with, if there are at least 8 and none has it inside; else None.

        Texts that all end with a full stop also have it inside, and one text alone proves nothing. Their last ID is
        content, not a separator.
        """
        if self.ids is None or len(self.ids) != 1 or self._axis.info.sequences < _ENOUGH:
            return None
        eos_id = int(self.ids[0])
        for number, (bounds, start, tokens) in enumerate(self._windows or self._read_windows()):
            if not number:
                self.is_swapped = byte_swapped(tokens[:_INSIDE])
            if np.count_nonzero(tokens == eos_id) > np.count_nonzero(bounds[1:] > start):
                return None
        return eos_id

    def _ends(self) -> Tokens | None:
        wanted, picks = list[tuple[int, int]](), list[NDArray[np.int64] | slice]()
        for first, last in self._runs:
            bounds = self._axis.offsets(first, last)
            if not np.diff(bounds).all():
                return None
            ends, begin = bounds[1:] - 1, int(bounds[1]) - 1
            if ends[-1] - begin > len(ends) * _READ:
                wanted += [(at, at + 1) for at in ends.tolist()]
                picks += [slice(None)] * len(ends)
            else:
                wanted.append((begin, int(bounds[-1])))
                picks.append(ends - begin)
        read = read_intervals(self._axis, wanted)  # A store is asked for all of them side by side.
        found = [tokens[pick] for tokens, pick in zip(read, picks, strict=True)]
        return distinct(np.concatenate(found)) if found else None

    def _ends_of_few(self, max_sequences: int) -> tuple[Tokens | None, int]:
        """Return the distinct last IDs of the few runs, and the number of sequences; keep `most` tokens of each run."""
        runs, windows, single = list[tuple[Offsets, int]](), list[tuple[int, int]](), list[tuple[int, int]]()
        for run in self._runs:
            bounds = self._axis.offsets(*run)
            start = max(int(bounds[0]), int(bounds[-1]) - max_sequences)
            # The sequences that end in the window, and at least four.
            first = max(0, min(int(np.searchsorted(bounds, start, side="right")), len(bounds) - _FEW) - 1)
            if not np.diff(bounds[first:]).all():
                return None, 0
            ends = bounds[first + 1 :] - 1
            runs.append((bounds, start))
            windows.append((start, int(bounds[-1])))
            single += [(at, at + 1) for at in ends[ends < start].tolist()]
        read, found = read_intervals(self._axis, [*windows, *single]), list[Tokens]()
        for bounds, start in runs:
            tokens = next(read)
            self._windows.append((bounds, start, tokens))
            found.append(tokens[bounds[1:][bounds[1:] > start] - 1 - start])
        found += read
        return distinct(np.concatenate(found)) if found else None, sum(map(len, found))

    def _read_windows(self) -> Iterator[Window]:
        for run in self._runs:
            bounds = self._axis.offsets(*run)
            start = max(int(bounds[0]), int(bounds[-1]) - _INSIDE)
            yield bounds, start, self._axis.tokens(start, int(bounds[-1]))


def _few(count: int, max_sequences: int | None) -> list[tuple[int, int]]:
    """Return runs of neighbors, spread over `count` sequences, with sequence `most - 1` in one of them."""
    runs = _spread(count, _FEW, _RUN_OF_FEW)
    last = count if max_sequences is None else min(max_sequences, count)
    if any(a < last <= b for a, b in runs):
        return runs
    return sorted([*_spread(count, _FEW - 1, _RUN_OF_FEW), (max(0, last - _RUN_OF_FEW), last)])


def _spread(count: int, runs: int, run: int) -> list[tuple[int, int]]:
    """Return up to `runs` runs of `run` neighbors, as first and last + 1; the last run ends with the last sequence."""
    if not count:
        return []
    starts = np.linspace(0, max(count - run, 0), min(-(-count // run), runs)).astype(np.int64).tolist()
    return [(first, min(first + run, count)) for first in starts]
