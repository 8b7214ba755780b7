"""Views over one reader: the base class, views that insert or remove separators, and streams split at a separator.

`byte_offset_of` and `position_of` map tokens through all views.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError, IncompleteWriteError, UnendedError
from tokfmt.core.findings import ignore
from tokfmt.core.place import Place
from tokfmt.core.protocols import (
    ByteOffset,
    HasByteOffsets,
    InsertsSeparators,
    MappedView,
    Piece,
    closed_reader,
    marks_of,
    pieces_of,
    restored,
)
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import (
    U8,
    Info,
    Layout,
    Passed,
    Separators,
    TokenReader,
    between_offsets,
    bisected,
    check_interval,
    check_position,
    largest_id,
    sequence_at,
    smallest,
    windows,
)
from tokfmt.core.resources import cpus


class View:
    """A reader over another reader. It has the same axis and sequences, except for what a subclass changes.

    Positions in the source ascend with those of the view; otherwise, a subclass overrides `from_source`.

    Attributes:
        source: The reader below.
        passes_on: A token of the source that is not on this axis, such as a removed separator, has the position of the
            next token. If False, it has no position.
    """

    passes_on = False

    def __init__(self, source: TokenReader, info: Info | None = None) -> None:
        """Hold the source, and `info` of this axis if it differs from that of the source."""
        self.source, self.info = source, info or source.info

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last)

    def sequence_at(self, position: int, shift: int = 0) -> int:
        """Implement `reader.FindsSequences`: ask the source if it has the same offsets."""
        same = type(self).offsets is View.offsets
        return sequence_at(self.source, position, shift) if same else bisected(self, position, shift)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the source, mapped as the view maps tokens; see `protocols.HasMarks`."""
        check_interval(start, stop, self.info.tokens)
        if marks_of(self.source) is None:
            return None
        beside = copy.copy(self)
        vars(beside).update(source=_Beside(self.source), info=replace(self.info, dtype=U8))
        return np.asarray(beside.tokens(start, stop), np.uint8)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        """Implement `protocols.MappedView`."""
        check_position(position, self.info.tokens)
        return self.source, position

    def from_source(self, reader: TokenReader, position: int) -> int | None:
        """Implement `protocols.MappedView` by bisection, in O(log tokens) calls of `to_source`."""
        low, high = 0, self.info.tokens
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.to_source(middle)[1] < position else (low, middle)
        if reader is not self.source or low == self.info.tokens:
            return None
        return low if self.passes_on or self.to_source(low)[1] == position else None

    def readers(self) -> tuple[TokenReader]:
        """Implement `protocols.MappedView`."""
        return (self.source,)

    def close(self) -> None:
        self.source.close()


class Indexed(View):
    """A view that holds the offsets of its sequences: `_offsets`, int64[sequences + 1]."""

    _offsets: Offsets

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]


def byte_offset_of(reader: TokenReader, position: int) -> ByteOffset | None:
    """Return the byte offset of the token at a position of any axis, through all views; None if no reader knows it."""
    while isinstance(reader, MappedView):
        found = reader.to_source(position)
        if found is None:
            return None
        reader, position = found
    return reader.byte_offset(position) if isinstance(reader, HasByteOffsets) else None


def position_of(reader: TokenReader, path: Place, offset: int) -> int | None:
    """Return the position on any axis of the token that holds a byte of a file; None without one."""
    if isinstance(reader, MappedView):
        for below in reader.readers():
            found = position_of(below, path, offset)
            if found is not None:
                return reader.from_source(below, found)
        return None
    return reader.position(path, offset) if isinstance(reader, HasByteOffsets) else None


class WithSeparators(View):
    """The axis of `source` with `eos_id` after (or before) each sequence, as a format with separators stores it.

    Sequence i, at positions a..b of the source, is at positions a+i .. b+i+1 here. Its separator is at the last of
    them, or with `before` at the first.
    """

    def __init__(self, source: TokenReader, eos_id: int, *, before: bool = False) -> None:
        info = source.info
        super().__init__(
            source,
            replace(
                info,
                tokens=info.tokens + info.sequences,
                dtype=np.promote_types(info.dtype, smallest(eos_id)),
                max_id=None if info.max_id is None else max(info.max_id, eos_id),
                separators=Separators.BEFORE if before else Separators.TRAILING,
                eos_id=eos_id,
                free_of=None,
            ),
        )
        self.eos_id, self.before = eos_id, before
        # Removing separators and inserting them again cancels. This takes a quarter of the CPU time from pack to pack.
        self._stored = restored(source, eos_id, before=before)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last) + np.arange(first, last + 1)

    def sequence_at(self, position: int, shift: int = 0) -> int:
        return sequence_at(self.source, position, shift + 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        if self._stored is not None:
            return self._stored.tokens(start, stop).astype(info.dtype, copy=False)
        out = np.full(stop - start, self.eos_id, info.dtype)
        if start == stop:
            return out
        plain, begin, end = self._between(start, stop)
        out[plain] = self.source.tokens(begin, end)
        return out

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the stored axis, or those of the source with marks of separators inserted."""
        from tokfmt.core.loss_mask import separated

        check_interval(start, stop, self.info.tokens)
        if marks_of(self.source) is None or (self._stored is not None and marks_of(self._stored) is not None):
            return marks_of(self._stored, start, stop)
        if start == stop:
            return np.empty(0, np.uint8)
        lead = max(start - 1, 0)  # The token before `start` has the mark of a separator at `start`.
        plain, begin, end = self._between(lead, stop)
        found = marks_of(self.source, begin, end)
        return None if found is None else separated(found, plain)[start - lead :]

    def _between(self, start: int, stop: int) -> tuple[NDArray[np.bool_], int, int]:
        """Return a mask that is False at separators, and the interval of the source that holds the other positions."""
        first = sequence_at(self, start)
        last = min(self.info.sequences, sequence_at(self, stop - 1) + 1)
        bounds = self.offsets(first, last)
        ends = bounds[:-1] if self.before else bounds[1:] - 1
        passed = first + int(np.count_nonzero(ends < start))
        ends = ends[(ends >= start) & (ends < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        return plain, start - passed, stop - passed - len(ends)

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:  # type: ignore[override]  # None: inserted
        check_position(position, self.info.tokens)
        if self._stored is not None:
            return self._stored, position
        sequence = sequence_at(self, position)
        begin, end = (self.source.offsets(sequence, sequence + 1) + sequence).tolist()
        mark = begin if self.before else end
        return None if position == mark else (self.source, position - sequence - self.before)

    def from_source(self, reader: TokenReader, position: int) -> int | None:
        if reader is not self.readers()[0]:
            return None
        if self._stored is not None:
            return position if position < self.info.tokens else None
        return position + sequence_at(self.source, position) + self.before

    def readers(self) -> tuple[TokenReader]:
        return (self.source if self._stored is None else self._stored,)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Return the pieces of the stored axis; see `protocols.RawCopyable`."""
        return pieces_of(self._stored, start, stop)


class WithoutTrailing(View):
    """A stored axis in which every sequence ends with `eos_id`, without these separators.

    Every removed separator is checked: a sequence that ends otherwise raises CorruptError.
    """

    passes_on = True

    def __init__(self, stored: TokenReader, eos_id: int, path: str) -> None:
        info, tokens = stored.info, stored.info.tokens - stored.info.sequences
        super().__init__(stored, replace(info, tokens=tokens, separators=Separators.NONE, eos_id=eos_id))
        self.eos_id, self.path = eos_id, path

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last) - np.arange(first, last + 1)

    def sequence_at(self, position: int, shift: int = 0) -> int:
        return sequence_at(self.source, position, shift - 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        if start == stop:
            return np.empty(0, info.dtype)
        # The interval ends at the next token, so that the separators between two reads are checked as well.
        end = stop + sequence_at(self, stop) if stop < info.tokens else self.source.info.tokens
        pieces = [self._without(a, b) for a, b in windows(start + sequence_at(self, start), end)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the stored axis. The token before a separator gets the mark of the separator."""
        from tokfmt.core.loss_mask import unseparated

        check_interval(start, stop, self.info.tokens)
        if start == stop or marks_of(self.source) is None:
            return marks_of(self.source)
        first, last = sequence_at(self, start), sequence_at(self, stop - 1)
        a, b = start + first, stop + last + 1  # A separator or another token follows each token.
        found, ends = marks_of(self.source, a, b), self.source.offsets(first, last + 1)[1:] - 1
        plain = np.ones(b - a, np.bool_)
        plain[ends[(ends >= a) & (ends < b)] - a] = False
        return None if found is None else unseparated(found, plain)[: stop - start]

    def sequence_reader(self) -> Callable[[int], Tokens]:
        """See `protocols.ReadsSequences`."""

        def sequence(number: int) -> Tokens:
            found = between_offsets(self.source, number)
            if len(found) and found.item(-1) == self.eos_id:
                return found[:-1]
            if not len(found):
                raise self._unended(number)
            return self._without(*self.source.offsets(number, number + 1).tolist())

        return closed_reader(self.source, self.eos_id, sequence)

    def _without(self, start: int, stop: int) -> Tokens:
        tokens, ends = self.looked_at(start, stop)
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        return tokens[plain]

    def restored(self, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:
        if before or eos_id != self.eos_id:
            return None
        return self.source if read else _LookedAt(self)

    def looked_at(self, start: int, stop: int) -> tuple[Tokens, Offsets]:
        """Return stored tokens, and the stored positions of their separators, after a check of each separator."""
        tokens = self.source.tokens(start, stop)
        first, last = sequence_at(self.source, start), sequence_at(self.source, stop - 1) + 1
        bounds = self.source.offsets(first, last)
        if (empty := np.flatnonzero(bounds[1:] == bounds[:-1])).size:
            raise self._unended(first + int(empty[0]))
        ends = bounds[1:] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        wrong = tokens[ends - start] != self.eos_id
        if wrong.any():
            at = int(ends[np.argmax(wrong)])
            raise self._unended(sequence_at(self.source, at), int(tokens[at - start]))
        return tokens, ends

    def _unended(self, number: int, found: object = "an empty sequence") -> UnendedError:
        return UnendedError(
            self.path,
            f"sequence {number:,} does not end with the separator {self.eos_id}",
            found=found,
            remedy="--eos none reads the sequences as they are stored, with the IDs that end them",
        )

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.source, position + sequence_at(self, position)


class _LookedAt(View):
    """The stored axis below a WithoutTrailing. A read checks every separator."""

    def __init__(self, view: WithoutTrailing) -> None:
        super().__init__(view.source)
        self.view = view

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.view.looked_at(start, stop)[0] if start < stop else self.source.tokens(start, stop)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        return marks_of(self.source, start, stop)


_SCAN = 1 << 22
_CHANGED = "the stream changed since its separators were counted. Run again"


class SplitAt(Indexed):
    """The documents of a stored stream: its tokens without `eos_id`, split at each `eos_id`.

    `stored.info.separators` decides what a separator means. BETWEEN: empty pieces (runs of separators, or one at the
    start) cannot be distinguished from padding, and are not sequences. AFTER: each separator ends a sequence, which may
    be empty; the tokens after the last one are an incomplete sequence. BEFORE: each separator begins a sequence; the
    tokens before the first are the rest of one. One parallel scan finds the separators, and 8 bytes are held per
    sequence. A read includes the separators and removes them with a mask.
    """

    passes_on = True

    def __init__(
        self,
        stored: TokenReader,
        eos_id: int,
        *,
        where: Separators | None = None,
        jobs: int | None = None,
        scanned: Callable[[int], None] = ignore,
    ) -> None:
        """Scan the stream.

        Args:
            stored: A stream. Its own offsets are ignored.
            eos_id: The separator.
            where: What the separator means (default: `stored.info.separators`).
            jobs: Number of threads (default: one per core).
            scanned: Called with the number of further tokens that were scanned.
        """
        self.eos_id = eos_id
        separators, max_id = _scan(stored, eos_id, jobs or cpus(), scanned)
        self.where = where or stored.info.separators
        cut = _CUTS.get(self.where, _pieces)
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

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        if start == stop:
            return np.empty(0, self.info.dtype)
        pieces = []
        for a, b in windows(start + self._before(start), stop + self._before(stop - 1)):
            window = self.source.tokens(a, b)
            pieces.append(window[window != self.eos_id])
        found = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if len(found) != stop - start:
            raise IncompleteWriteError(_CHANGED)
        return found

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return the marks of the stream. The token before a separator gets the mark of the separator."""
        from tokfmt.core.loss_mask import unseparated

        check_interval(start, stop, self.info.tokens)
        if start == stop or marks_of(self.source) is None:
            return marks_of(self.source)
        pieces, end = list[NDArray[np.uint8]](), stop + self._before(stop - 1)
        for a, b in windows(start + self._before(start), end):
            behind = min(b + 1, self.source.info.tokens)
            plain, found = self.source.tokens(a, behind) != self.eos_id, marks_of(self.source, a, behind)
            if found is not None:
                pieces.append(unseparated(found, plain)[: int(np.count_nonzero(plain[: b - a]))])
        return np.concatenate(pieces)

    def sequence_reader(self) -> Callable[[int], Tokens]:
        """See `protocols.ReadsSequences`. A separator follows each sequence but the last, whatever it means."""
        at, surplus = self._step_at.data, np.concatenate((np.zeros(1, np.int64), self._step_to)).data
        passed: Passed = lambda number: number + surplus[bisect_right(at, number)]  # noqa: E731
        if not len(at) or (len(at) == 1 and not at[0]):  # The surplus is the same before all sequences.
            passed = surplus[-1]
        return closed_reader(self.source, self.eos_id, self._sequence, self._offsets[:-1], passed)

    def _sequence(self, number: int) -> Tokens:
        """Return one sequence, after a check of it and of the separator that follows it."""
        start, stop = self._offsets[number : number + 2].tolist()
        before = self._passed(number)
        stored = self.source.tokens(start + before, min(stop + before + 1, self.source.info.tokens))
        found, behind = np.split(stored == self.eos_id, [stop - start])
        if found.any() or not behind.all():
            raise IncompleteWriteError(_CHANGED)
        return stored[: stop - start]

    def restored(self, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:  # noqa: ARG002
        """Return the stream itself, if one separator follows each sequence, or precedes each with no token before it.

        The stream was read by the scan. Runs of separators at its end are padding.
        """
        steps = list(zip(self._step_at[:2].tolist(), self._step_to[:2].tolist(), strict=True))
        regular = steps == [(0, 1)] * before and self.info.sequences + self.info.tokens <= self.source.info.tokens
        return _Closed(self, before=before) if regular and eos_id == self.eos_id else None

    def is_closed(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which sequences have a separator in the files.

        The rest of one before the first separator has none, and neither has an unfinished last one.
        """
        if self.where is Separators.BEFORE:
            return np.asarray(numbers >= (not len(self._step_at)))
        surplus = np.append(0, self._step_to)[np.searchsorted(self._step_at, numbers, side="right")]
        ends = self._offsets[numbers + 1] + numbers + surplus
        closed = ends < self.source.info.tokens
        if isinstance(self.source, InsertsSeparators):
            closed &= ~self.source.is_inserted(ends)
        return np.asarray(closed)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.source, position + self._before(position)

    def _before(self, position: int) -> int:
        """Return the number of separators in the stream before the token at an axis position."""
        return self._passed(int(np.searchsorted(self._offsets, position, side="right")) - 1)

    def _passed(self, sequence: int) -> int:
        """Return the number of separators in the stream before a sequence."""
        if not len(self._step_at):
            return sequence
        step = int(np.searchsorted(self._step_at, sequence, side="right")) - 1
        return sequence + (int(self._step_to[step]) if step >= 0 else 0)


class Beginning(Indexed):
    """The first tokens of a stored stream, up to the end of a number of documents."""

    def __init__(self, stored: TokenReader, eos_id: int, documents: int) -> None:
        """Scan the stream up to the end of `documents` documents."""
        tokens, found, inside = stored.info.tokens, 0, False
        for a, b in windows(0, stored.info.tokens):
            token = stored.tokens(a, b) != eos_id
            ends = np.flatnonzero(np.concatenate(([inside], token[:-1])) & ~token)
            if found + len(ends) >= documents:
                tokens = a + int(ends[documents - found - 1]) + 1
                break
            found, inside = found + len(ends), bool(token[-1])
        self._offsets = np.array([0, tokens][: 1 + bool(tokens)], np.int64)
        beginning = stored.info.beginning or tokens < stored.info.tokens
        count = len(self._offsets) - 1
        super().__init__(stored, replace(stored.info, tokens=tokens, sequences=count, beginning=beginning))

    @property
    def whole(self) -> bool:
        """True if it is the whole stream."""
        return self.info.tokens == self.source.info.tokens

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.source.tokens(start, stop)


class _Closed(View):
    """The documents of a SplitAt with the separators of the stream, one after (or before) each."""

    def __init__(self, view: SplitAt, *, before: bool) -> None:
        info = view.info
        super().__init__(
            view.source,
            replace(
                info,
                tokens=info.tokens + info.sequences,
                max_id=None if info.max_id is None else max(info.max_id, view.eos_id),
                separators=Separators.BEFORE if before else Separators.TRAILING,
                free_of=None,
            ),
        )
        self.view = view

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.view.offsets(first, last) + np.arange(first, last + 1)

    def sequence_at(self, position: int, shift: int = 0) -> int:
        return sequence_at(self.view, position, shift + 1)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Return the pieces of the stream; see `protocols.RawCopyable`."""
        check_interval(start, stop, self.info.tokens)
        return pieces_of(self.source, start, stop)


Cut = tuple[Offsets, NDArray[np.int64], NDArray[np.int64]]
_NO_STEPS = np.empty(0, np.int64)


def _pieces(separators: NDArray[np.int64], total: int) -> Cut:
    """Return the offsets of non-empty pieces, and the separators before each beyond one per sequence, as steps.

    The offsets overwrite the separators, window by window, so that they are not in memory twice.

    Args:
        separators: int64[n + 2]: n positions in the stream, and room for the end of the stream and one more offset.
        total: Length of the stream.

    Returns:
        Offsets int64[pieces + 1]; the pieces at which the surplus of separators changes; the surplus from there on.
    """
    separators[-2] = total  # The last piece ends at the end of the stream.
    kept, before, surplus = 0, 0, 0
    step_at, step_to = [_NO_STEPS], [_NO_STEPS]
    for a, b in windows(0, len(separators) - 1):
        ends = separators[a:b].copy()
        starts = np.concatenate(([before], ends[:-1] + 1))
        before = int(ends[-1]) + 1
        pieces = np.flatnonzero(ends > starts)
        numbers = pieces + a  # Piece j begins after j separators.
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
    """Do the same as `_pieces` if a separator ends each piece, which may be empty. The last may lack it."""
    count = len(separators) - 2
    ends = separators[:count]
    rest = total - (int(ends[-1]) + 1 if count else 0)
    last = np.full(int(rest > 0), total - count, np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), ends - np.arange(count), last))
    return offsets, _NO_STEPS, _NO_STEPS


def _begun(separators: NDArray[np.int64], total: int) -> Cut:
    """Do the same as `_pieces` if a separator begins each piece, which may be empty. The first may lack it."""
    count = len(separators) - 2
    begins = separators[:count]
    headless = total > 0 and (not count or int(begins[0]) > 0)
    first = np.zeros(int(headless), np.int64)
    offsets = np.concatenate((first, begins - np.arange(count), np.full(1, total - count, np.int64)))
    return (offsets, _NO_STEPS, _NO_STEPS) if headless else (offsets, np.zeros(1, np.int64), np.ones(1, np.int64))


_CUTS = {Separators.AFTER: _ended, Separators.BEFORE: _begun}


def _scan(stored: TokenReader, eos_id: int, jobs: int, scanned: Callable[[int], None]) -> tuple[NDArray[np.int64], int]:
    """Return the positions of all separators, int64[n + 2] with room for two more numbers, and the largest token ID."""

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
    while results:  # From the end, so that each part is freed when it is copied.
        part, part_top = results.pop()
        separators[at - len(part) : at] = part
        at, top = at - len(part), max(top, part_top)
    return separators, top


class _Beside(View):
    """The marks of a reader instead of its tokens."""

    def tokens(self, start: int, stop: int) -> Tokens:
        found = marks_of(self.source, start, stop)
        return np.empty(0, np.uint8) if found is None else found


_ABOVE = np.uint64(56)
"""Number of bits of a packed ID below its marks."""


class PackMarks(View):
    """Tokens with their marks in one ID of 64 bits, for code that moves tokens and does not know marks."""

    def __init__(self, source: TokenReader) -> None:
        super().__init__(source, replace(source.info, dtype=np.dtype(np.uint64), max_id=None))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids, marks = self.source.tokens(start, stop).astype(np.uint64), marks_of(self.source, start, stop)
        if marks is None or (ids >> _ABOVE).any():
            raise ConversionError(f"a token ID of {1 << 56:,} or more has no room for marks beside it")
        return ids | marks.astype(np.uint64) << _ABOVE


class UnpackMarks(View):
    """The tokens and the marks of packed IDs."""

    def __init__(self, source: TokenReader, dtype: np.dtype[np.unsignedinteger]) -> None:
        super().__init__(source, replace(source.info, dtype=dtype))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids = self.source.tokens(start, stop) & np.uint64((1 << 56) - 1)
        return ids.astype(self.info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        return (self.source.tokens(start, stop) >> _ABOVE).astype(np.uint8)
