"""Split a stream at its separator: documents are what lies between, before or after one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import WINDOW, Layout, Separators, TokenReader, check_interval, check_position, windows
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import IncompleteWriteError
from tokfmt.core.protocols import Piece, marks_of, pieces_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.views.view import View

_SCAN = 1 << 22


def _ignore(amount: int) -> None:
    """Nobody is watching."""


class SplitAt(View):
    """The documents of a stored stream: its tokens without `eos_id`, cut where it stood.

    What the separator means stands in `stored.info.separators`. BETWEEN: empty pieces (runs of separators, one at the
    start) cannot be told from padding and are not sequences. AFTER: each separator ends a sequence, empty ones too;
    what follows the last one is a sequence that goes on elsewhere. BEFORE: each begins one; what precedes the first is
    the rest of one. One parallel scan of the stream finds the separators; 8 bytes a sequence are kept. A window is
    read with its separators, which are removed by mask.
    """

    passes_on = True

    def __init__(
        self,
        stored: TokenReader,
        eos_id: int,
        *,
        where: Separators | None = None,
        jobs: int | None = None,
        scanned: Callable[[int], None] = _ignore,
    ) -> None:
        """Scan the stream.

        Args:
            stored: A stream; its own offsets are not looked at.
            eos_id: Where to split.
            where: What the separator means, if not what the stream says.
            jobs: Threads that scan; by default one a core.
            scanned: Told how many more tokens were scanned.
        """
        self.eos_id = eos_id
        separators, max_id = _scan(stored, eos_id, jobs or os.cpu_count() or 1, scanned)
        cut = _CUTS.get(where or stored.info.separators, _pieces)
        self._offsets, self._step_at, self._step_to = cut(separators, stored.info.tokens)
        info = replace(
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
        super().__init__(stored, info)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        if start == stop:
            return np.empty(0, self._info.dtype)
        pieces = []
        for a, b in windows(start + self._before(start), stop + self._before(stop - 1)):
            window = self.source.tokens(a, b)
            pieces.append(window[window != self.eos_id])
        found = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if len(found) != stop - start:
            raise IncompleteWriteError("the stream changed since its separators were counted. Run again")
        return found

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Those of the stream; those of a separator go to the token in front of it."""
        from tokfmt.core.marks import unseparated

        check_interval(start, stop, self._info.tokens)
        if start == stop or marks_of(self.source) is None:
            return marks_of(self.source)
        pieces, end = list[NDArray[np.uint8]](), stop + self._before(stop - 1)
        for a, b in windows(start + self._before(start), end):
            behind = min(b + 1, self.source.info.tokens)
            plain, found = self.source.tokens(a, behind) != self.eos_id, marks_of(self.source, a, behind)
            if found is not None:
                pieces.append(unseparated(found, plain)[: int(np.count_nonzero(plain[: b - a]))])
        return np.concatenate(pieces)

    def sequence(self, number: int) -> Tokens:
        """See `axis.sequence_reader`."""
        start, stop = self._offsets.item(number), self._offsets.item(number + 1)
        if stop - start > WINDOW:
            return self.tokens(start, stop)
        before = self._passed(number)
        found = self.source.tokens(start + before, stop + before)
        return found if not np.count_nonzero(found == self.eos_id) else self.tokens(start, stop)

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:  # noqa: ARG002 - it has been read
        """The stream itself, if one separator follows each sequence; runs at its very end are padding."""
        regular = not len(self._step_at) and len(self._offsets) - 1 + self._info.tokens <= self.source.info.tokens
        return _Closed(self) if regular and eos_id == self.eos_id else None

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._info.tokens)
        return self.source, position + self._before(position)

    def _before(self, position: int) -> int:
        """Separators in the stream before the token at an axis position."""
        return self._passed(int(np.searchsorted(self._offsets, position, side="right")) - 1)

    def _passed(self, sequence: int) -> int:
        """Separators in the stream before a sequence."""
        if not len(self._step_at):
            return sequence
        step = int(np.searchsorted(self._step_at, sequence, side="right")) - 1
        return sequence + (int(self._step_to[step]) if step >= 0 else 0)


class Beginning(View):
    """The first tokens of a stored stream: as many as hold so many documents."""

    def __init__(self, stored: TokenReader, eos_id: int, documents: int) -> None:
        """Scan the stream as far as that takes."""
        tokens, found, inside = stored.info.tokens, 0, False
        for a, b in windows(0, stored.info.tokens):
            token = stored.tokens(a, b) != eos_id
            ends = np.flatnonzero(np.concatenate(([inside], token[:-1])) & ~token)
            if found + len(ends) >= documents:
                tokens = a + int(ends[documents - found - 1]) + 1
                break
            found, inside = found + len(ends), bool(token[-1])
        super().__init__(stored, replace(stored.info, tokens=tokens, sequences=min(1, tokens)))

    @property
    def whole(self) -> bool:
        """It is the whole stream."""
        return self._info.tokens == self.source.info.tokens

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.array([0, self._info.tokens], np.int64)[first : last + 1]


class _Closed(View):
    """The documents of a SplitAt with the one separator after each that the stream has as well."""

    def __init__(self, view: SplitAt) -> None:
        info = view.info
        super().__init__(
            view.source,
            replace(
                info,
                tokens=info.tokens + info.sequences,
                max_id=None if info.max_id is None else max(info.max_id, view.eos_id),
                separators=Separators.TRAILING,
                free_of=None,
            ),
        )
        self.view = view

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.view.offsets(first, last) + np.arange(first, last + 1)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the stream; see `protocols.Verbatim`."""
        check_interval(start, stop, self._info.tokens)
        return pieces_of(self.source, start, stop)


Cut = tuple[Offsets, NDArray[np.int64], NDArray[np.int64]]
_NO_STEPS = np.empty(0, np.int64)


def _pieces(separators: NDArray[np.int64], total: int) -> Cut:
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
    step_at, step_to = [_NO_STEPS], [_NO_STEPS]
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


def _ended(separators: NDArray[np.int64], total: int) -> Cut:
    """As `_pieces`, where a separator ends each piece, empty ones too; the last may lack it."""
    count = len(separators) - 2
    ends = separators[:count]
    rest = total - (int(ends[-1]) + 1 if count else 0)
    last = np.full(int(rest > 0), total - count, np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), ends - np.arange(count), last))
    return offsets, _NO_STEPS, _NO_STEPS


def _begun(separators: NDArray[np.int64], total: int) -> Cut:
    """As `_pieces`, where a separator begins each piece, empty ones too; the first may lack it."""
    count = len(separators) - 2
    begins = separators[:count]
    headless = total > 0 and (not count or int(begins[0]) > 0)
    first = np.zeros(int(headless), np.int64)
    offsets = np.concatenate((first, begins - np.arange(count), np.full(1, total - count, np.int64)))
    return (offsets, _NO_STEPS, _NO_STEPS) if headless else (offsets, np.zeros(1, np.int64), np.ones(1, np.int64))


_CUTS = {Separators.AFTER: _ended, Separators.BEFORE: _begun}


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
