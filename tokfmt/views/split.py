"""Split a stream at its separator: documents are what lies between; runs of separators are padding."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Layout, Separators, TokenReader, check_interval, check_position, windows
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import IncompleteWriteError
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.verbatim import Piece, pieces_of

_SCAN = 1 << 22


def _ignore(amount: int) -> None:
    """Nobody is watching."""


class SplitAt:
    """The documents of a stored stream: its tokens without `eos_id`, cut where it stood.

    Empty pieces (runs of separators, one at the start) cannot be told from padding and are not sequences. One parallel
    scan of the stream finds the separators; 8 bytes a sequence are kept. A window is read with its separators, which
    are removed by mask.
    """

    def __init__(
        self, stored: TokenReader, eos_id: int, *, jobs: int | None = None, scanned: Callable[[int], None] = _ignore
    ) -> None:
        """Scan the stream.

        Args:
            stored: A stream; its own offsets are not looked at.
            eos_id: Where to split.
            jobs: Threads that scan; by default one a core.
            scanned: Told how many more tokens were scanned.
        """
        self.stored, self.eos_id = stored, eos_id
        separators, max_id = _scan(stored, eos_id, jobs or os.cpu_count() or 1, scanned)
        self._offsets, self._step_at, self._step_to = _pieces(separators, stored.info.tokens)
        self._info = replace(
            stored.info,
            layout=Layout.DOCUMENTS,
            sequences=len(self._offsets) - 1,
            tokens=int(self._offsets[-1]),
            max_id=max_id,
            sample_length=None,
            separators=Separators.NONE,
            eos_id=eos_id,
            free_of=eos_id,
        )

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        if start == stop:
            return np.empty(0, self._info.dtype)
        pieces = []
        for a, b in windows(start + self._before(start), stop + self._before(stop - 1)):
            window = self.stored.tokens(a, b)
            pieces.append(window[window != self.eos_id])
        found = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if len(found) != stop - start:
            raise IncompleteWriteError("the stream changed since its separators were counted. Run again")
        return found

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:  # noqa: ARG002 - it has been read
        """The stream itself, if one separator follows each sequence; runs at its very end are padding."""
        regular = not len(self._step_at) and len(self._offsets) - 1 + self._info.tokens <= self.stored.info.tokens
        return _Closed(self) if regular and eos_id == self.eos_id else None

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._info.tokens)
        return self.stored, position + self._before(position)

    def above(self, reader: TokenReader, position: int) -> int | None:
        if reader is not self.stored:
            return None
        low, high = 0, self._info.sequences  # pieces that begin at or before the position: the first `low`
        while low < high:
            middle = (low + high) // 2
            begin = int(self._offsets[middle])
            low, high = (middle + 1, high) if begin + self._before(begin) <= position else (low, middle)
        here = 0
        if low:
            begin, end = int(self._offsets[low - 1]), int(self._offsets[low])
            here = min(end, position - self._before(begin))  # beyond the piece: a separator
        return here if here < self._info.tokens else None

    def readers(self) -> tuple[TokenReader]:
        return (self.stored,)

    def _before(self, position: int) -> int:
        """Separators in the stream before the token at an axis position."""
        sequence = int(np.searchsorted(self._offsets, position, side="right")) - 1
        step = int(np.searchsorted(self._step_at, sequence, side="right")) - 1
        return sequence + (int(self._step_to[step]) if step >= 0 else 0)

    def close(self) -> None:
        self.stored.close()


class _Closed:
    """The documents of a SplitAt with the one separator after each that the stream has as well."""

    def __init__(self, view: SplitAt) -> None:
        self.view = view
        info = view.info
        self._info = replace(
            info,
            tokens=info.tokens + info.sequences,
            max_id=None if info.max_id is None else max(info.max_id, view.eos_id),
            separators=Separators.TRAILING,
            free_of=None,
        )

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        return self.view.stored.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.view.offsets(first, last) + np.arange(first, last + 1)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the stream; see `core.verbatim`."""
        check_interval(start, stop, self._info.tokens)
        return pieces_of(self.view.stored, start, stop)

    def close(self) -> None:
        self.view.close()


def _pieces(separators: NDArray[np.int64], total: int) -> tuple[Offsets, NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of the non-empty pieces, and how many separators lie before each beyond one a sequence, as steps.

    The offsets overwrite the separators, window by window: millions of documents are not held twice.

    Args:
        separators: int64[n + 2]: n positions in the stream, and room for the end of the stream and one more offset.
        total: Length of the stream.

    Returns:
        offsets int64[pieces + 1]; the pieces where the surplus of separators changes; the surplus from there on.
    """
    separators[-2] = total  # the last piece ends where the stream does
    kept, before, surplus = 0, 0, 0
    step_at, step_to = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for a, b in windows(0, len(separators) - 1):
        ends = separators[a:b].copy()
        starts = np.concatenate(([before], ends[:-1] + 1))
        before = int(ends[-1]) + 1
        pieces = np.flatnonzero(ends > starts)
        numbers = pieces + a  # piece j starts after j separators
        extra = numbers - np.arange(kept, kept + len(pieces))
        steps = np.flatnonzero(np.diff(extra, prepend=surplus))
        step_at.append(steps + kept)
        step_to.append(extra[steps])
        surplus = int(extra[-1]) if len(extra) else surplus
        separators[kept : kept + len(pieces)] = starts[pieces] - numbers
        kept += len(pieces)
    separators[kept] = total - (len(separators) - 2)
    return separators[: kept + 1], np.concatenate(step_at), np.concatenate(step_to)


def _scan(stored: TokenReader, eos_id: int, jobs: int, scanned: Callable[[int], None]) -> tuple[NDArray[np.int64], int]:
    """Positions of all separators, int64[n + 2] with room for two more numbers, and the largest id."""

    def look(interval: tuple[int, int]) -> tuple[NDArray[np.int64], int]:
        found, top = [], -1
        for a, b in windows(*interval):
            window = stored.tokens(a, b)
            found.append(np.flatnonzero(window == eos_id) + a)
            top = max(top, largest_id(window))
        return np.concatenate(found), top

    results = []
    with ThreadPoolExecutor(jobs) as pool:
        for result, (a, b) in zip(
            pool.map(look, windows(0, stored.info.tokens, _SCAN)), windows(0, stored.info.tokens, _SCAN), strict=True
        ):
            results.append(result)
            scanned(b - a)
    at, top = sum(len(part) for part, _ in results), -1
    separators = np.empty(at + 2, np.int64)
    while results:  # from the back, each part freed as soon as it is copied
        part, part_top = results.pop()
        separators[at - len(part) : at] = part
        at, top = at - len(part), max(top, part_top)
    return separators, top
