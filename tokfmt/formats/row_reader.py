"""Read rows of IDs, with the columns beside them, as a token axis: the reader of Parquet, Arrow, shards and arrays.

If the files state how many IDs each group of rows has, and no column is beside the IDs, opening decodes no row.
Otherwise, every row is decoded once, on several threads. The reader keeps the lengths of decoded sequences, 8 bytes per
sequence, and the last few pieces of decoded rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.loss_mask import IGNORED, TARGET, other_label
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    ByteOffset,
    Layout,
    PaddingCounts,
    TokenReader,
    check_interval,
    check_position,
    largest_id,
)
from tokfmt.errors import ConversionError, CorruptError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.model.rows import OTHER, IdRows, RowFacts

_HELD = 3 << 20  # tokens and rows that each thread keeps decoded: those that were read last
_PIECE = 1 << 8  # tokens for which a piece counts in addition, because it is an object
_WALKS = 2  # groups that a thread decodes at a time: where a window begins, and where it ends


class RowGroup(NamedTuple):
    """Consecutive rows of a file, which can be decoded without the others. Picklable.

    Attributes:
        file: The file.
        begin: Byte offset in the file.
        size: Bytes in the file.
        rows: Number of rows.
        name: The group in words: "row group 3".
        decode: Yields the rows, some at a time.
        values: Number of IDs, if the file states it.
        top: Largest ID, likewise.
    """

    file: File
    begin: int
    size: int
    rows: int
    name: str
    decode: Callable[[], Iterator[IdRows]]
    values: int | None = None
    top: int | None = None


class OtherLabels(NamedTuple):
    """Rows with a label that is neither the ID of its token nor -100.

    Attributes:
        rows: The number of rows that were read.
        unlike: The number of those with such a label.
        shifted: The number of those in which each label is the next token.
        first: The first row with such a label; -1 without one.
    """

    rows: int = 0
    unlike: int = 0
    shifted: int = 0
    first: int = -1

    def joined(self, later: OtherLabels) -> OtherLabels:
        """Return the sum of these rows and the rows that follow them."""
        first = self.first if self.unlike or not later.unlike else self.rows + later.first
        return OtherLabels(self.rows + later.rows, self.unlike + later.unlike, self.shifted + later.shifted, first)


def other_labels(rows: IdRows) -> OtherLabels:
    """Count the rows whose labels are not their tokens."""
    count = len(rows.offsets) - 1
    if rows.marks is None or rows.labels is None or not (rows.marks & OTHER).any():
        return OtherLabels(count)
    own = np.append(IGNORED, rows.labels[:-1])  # `labels` are those of the tokens after
    following = np.append(rows.tokens[1:].astype(np.int64), 0)
    there = rows.offsets[:-1][np.diff(rows.offsets) > 0]
    edges = np.zeros(len(own), np.bool_)
    edges[there] = edges[np.append(there[1:], len(own)) - 1] = True  # not known, and not followed
    unlike = (own != IGNORED) & (own != following) & ~edges
    other = np.diff(offsets_of(rows.marks & OTHER != 0)[rows.offsets]) > 0
    shifted = other & (np.diff(offsets_of(unlike)[rows.offsets]) == 0)
    return OtherLabels(count, int(other.sum()), int(shifted.sum()), int(np.argmax(other)))


def _last_at(offsets: Offsets, start: int, first: int, position: int) -> int:
    """Return the last sequence of some that begins at or before a position; see `reader.sequence_at`.

    Args:
        offsets: The offset of each sequence, and the end of the last one.
        start: The position at which the first one begins, if its offset is 0.
        first: The number of the first one.
        position: The position.
    """
    numbers = range(len(offsets) - 1)
    found = bisect_right(numbers, position, key=lambda i: start + int(offsets[i]))
    return first + max(0, found - 1)


class _Scanned(NamedTuple):
    """The facts of a group that was decoded: its offsets and its largest ID; see `IdRows` for the others."""

    offsets: Offsets
    top: int
    odd: tuple[int, int]
    facts: RowFacts


@dataclass(slots=True)
class _Walk:
    """The decoding of a group, in order.

    Attributes:
        pieces: The pieces that are not decoded yet.
        reached: The position, and the sequence, after the last piece.
    """

    pieces: Iterator[IdRows]
    reached: tuple[int, int] = (0, 0)


class _State:
    """The pieces that a thread decoded last, and the groups that it is decoding."""

    def __init__(self) -> None:
        self._pieces, self._order = dict[int, deque[IdRows]](), deque[int]()
        self._size, self._walks = 0, dict[int, _Walk]()

    def of(self, number: int) -> Iterable[IdRows]:
        """Return the pieces of a group that are held."""
        return self._pieces.get(number, ())

    def hold(self, number: int, piece: IdRows) -> None:
        """Hold a piece, and release those that were decoded long ago."""
        self._pieces.setdefault(number, deque()).append(piece)
        self._order.append(number)
        self._size += _weight(piece)
        while len(self._order) > 1 and self._size > _HELD:
            old = self._order.popleft()
            self._size -= _weight(self._pieces[old].popleft())
            if not self._pieces[old]:
                del self._pieces[old]

    def walk(self, number: int, at: int, *, rows: bool) -> _Walk | None:
        """Return the walk of a group if it has not passed a position (or a sequence, if `rows`); None without one."""
        walk = self._walks.get(number)
        return walk if walk is not None and walk.reached[rows] <= at else None

    def begin(self, number: int, pieces: Iterator[IdRows]) -> _Walk:
        """Begin to decode a group from its first row."""
        self._walks.pop(number, None)
        while len(self._walks) >= _WALKS:
            del self._walks[next(iter(self._walks))]
        walk = self._walks[number] = _Walk(pieces)
        return walk


def _weight(piece: IdRows) -> int:
    return len(piece.tokens) + len(piece.offsets) + _PIECE


class RowsReader(TokenReader):
    """Read groups of rows as a token axis. Threads may share the reader: each keeps its own decoded pieces.

    A subclass sets `info`, and `has_labels` and `has_begins` where they are true.

    Attributes:
        groups: The groups.
        facts: What the columns beside the IDs state.
        top: Largest ID; None if it is not known.
        odd: Number of sequences with a mask or labels other than those of plain text, and the first of them.
    """

    def __init__(
        self, groups: Sequence[RowGroup], *, has_columns: bool, jobs: int | None, is_decoded: bool = False
    ) -> None:
        """Decode the rows once if columns are beside the IDs, or if the number of IDs is not known.

        Args:
            groups: The groups.
            has_columns: There are columns beside the IDs.
            jobs: The number of threads; None for the default.
            is_decoded: Every group was decoded before, and those that cannot be are left out.
        """
        self.groups, self._is_decoded = groups, is_decoded
        self._local = threading.local()
        self._known: dict[int, Offsets] = {}
        self.facts, self.odd = RowFacts(), (0, -1)
        counts, tops = [(group.rows, group.values) for group in groups], [group.top for group in groups]
        if has_columns or any(values is None for _, values in counts):
            scanned = self._scan(jobs)
            counts = [(len(one.offsets) - 1, int(one.offsets[-1])) for one in scanned]
            tops = [one.top for one in scanned]
            self._known = {k: one.offsets for k, one in enumerate(scanned)}
            if odd := sum(one.odd[0] for one in scanned):
                number = next(k for k, one in enumerate(scanned) if one.odd[0])
                self.odd = odd, sum(rows for rows, _ in counts[:number]) + scanned[number].odd[1]
            self.facts = reduce(RowFacts.joined, [one.facts for one in scanned], RowFacts())
        self._firsts = offsets_of([rows for rows, _ in counts])
        self._starts = offsets_of([values or 0 for _, values in counts])
        self.top = None if None in tops else max((top for top in tops if top is not None), default=-1)

    def _scan(self, jobs: int | None) -> list[_Scanned]:
        """Decode every group once, on several threads."""

        def look(number: int) -> _Scanned:
            lengths, top, odd, first, at = [np.zeros(0, np.int64)], -1, 0, -1, 0
            facts = RowFacts()
            for piece in self.groups[number].decode():
                lengths.append(np.diff(piece.offsets))
                first = at + piece.odd[1] if piece.odd[0] and not odd else first
                top, odd, at = max(top, largest_id(piece.tokens)), odd + piece.odd[0], at + len(piece.offsets) - 1
                facts = facts.joined(piece.facts)
            return _Scanned(offsets_of(np.concatenate(lengths)), top, (odd, first), facts)

        with ThreadPoolExecutor(jobs or 4) as pool:
            return list(pool.map(look, range(len(self.groups))))

    def _pieces(self, number: int) -> Iterator[IdRows]:
        """Yield the rows of a group with their positions on the axis, the last ones after a check of their number.

        Raises:
            CorruptError: The group has more or fewer IDs than it states.
        """
        first, start, lengths = int(self._firsts[number]), int(self._starts[number]), [np.zeros(0, np.int64)]
        last = list[IdRows]()
        for rows in self.groups[number].decode():
            piece = rows._replace(first=first, start=start)
            lengths.append(np.diff(rows.offsets))
            first, start = first + len(rows.offsets) - 1, start + len(rows.tokens)
            if first < int(self._firsts[number + 1]):
                yield piece
            else:
                last.append(piece)
        if (first, start) != (int(self._firsts[number + 1]), int(self._starts[number + 1])):
            group, there = self.groups[number], start - int(self._starts[number])
            claimed = int(self._starts[number + 1] - self._starts[number])
            raise CorruptError(group.file.path, f"IDs of {group.name}", expected=claimed, found=there)
        self._known.setdefault(number, offsets_of(np.concatenate(lengths)))
        yield from last

    def _piece(self, number: int, at: int, *, rows: bool = False) -> IdRows:
        """Return decoded rows of a group that hold a position, or a sequence if `rows`.

        Each thread continues where it was in the group, and keeps the pieces that it decoded last: callers look up
        sequences before their tokens, and the end of a window before its middle.
        """
        state = self._state
        for piece in state.of(number):
            begin, end = piece.span(rows=rows)
            if begin <= at < end:
                return piece
        if (walk := state.walk(number, at, rows=rows)) is None:
            walk = state.begin(number, self._pieces(number))
        for piece in walk.pieces:
            state.hold(number, piece)
            walk.reached = (piece.span(rows=False)[1], piece.span(rows=True)[1])
            if at < walk.reached[rows]:
                return piece
        group = self.groups[number]
        raise CorruptError(group.file.path, f"IDs of {group.name}", found="fewer than it states")

    @property
    def _state(self) -> _State:
        found: _State = self._local.__dict__.setdefault("state", _State())
        return found

    def _window(self, start: int, stop: int, part: str) -> list[Any]:
        check_interval(start, stop, self.info.tokens)
        found = []
        while start < stop:
            piece = self._piece(int(np.searchsorted(self._starts, start, side="right")) - 1, start)
            values = getattr(piece, part)[start - piece.start : stop - piece.start]
            found.append(values)
            start += len(values)
        return found

    @property
    def is_readable(self) -> bool:
        return self._is_decoded

    def tokens(self, start: int, stop: int) -> Tokens:
        found = self._window(start, stop, "tokens")
        tokens: Tokens = found[0] if len(found) == 1 else np.concatenate([np.empty(0, self.info.dtype), *found])
        return tokens.astype(self.info.dtype, copy=False)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        if self.info.layout is Layout.STREAM:
            return np.arange(first, last + 1, dtype=np.int64) * self.info.tokens
        found, number = list[Any](), int(np.searchsorted(self._firsts, first, side="right")) - 1
        end = self._starts[-1] if first == self.info.sequences else None
        while first < last or end is None:
            base, stop = int(self._firsts[number]), min(last, int(self._firsts[number + 1]))
            bounds = self._bounds(number, first - base, max(stop, first) - base)
            found.append(bounds[:-1])
            first, number, end = max(first, stop), number + 1, bounds[-1]
        return np.concatenate([*found, [end]]).astype(np.int64, copy=False)

    def _bounds(self, number: int, first: int, last: int) -> Offsets:
        """Return the positions where sequences of a group begin, and the end of the last: int64[last - first + 1]."""
        base, start, state = int(self._firsts[number]), int(self._starts[number]), self._state
        if first == last == 0:
            return np.array([start])
        if self._firsts[number + 1] - base == 1:  # Nothing has to be decoded to know where its one sequence is.
            return self._starts[number + first : number + last + 1]
        held = any(piece.first <= base + first < piece.span(rows=True)[1] for piece in state.of(number))
        near = not first or held or state.walk(number, base + first, rows=True) is not None
        if number not in self._known and first < last and near:
            found, at, stop, end = list[Offsets](), base + first, base + last, 0
            while at < stop:  # in order, so that each piece is decoded once for its lengths and its IDs
                piece = self._piece(number, at, rows=True)
                upto = min(stop, piece.span(rows=True)[1])
                found.append(piece.start + piece.offsets[at - piece.first : upto - piece.first])
                at, end = upto, piece.start + int(piece.offsets[upto - piece.first])
            return np.append(np.concatenate(found), end)
        if number not in self._known:
            for piece in self._pieces(number):
                state.hold(number, piece)
        return start + self._known[number][first : last + 1]

    def sequence_at(self, position: int) -> int:
        """Implement `reader.FindsSequences`: decode one group, up to the position."""
        if self.info.layout is Layout.STREAM or not self.info.sequences:
            return 0
        number = max(0, bisect_right(range(len(self.groups)), position, key=lambda k: int(self._starts[k])) - 1)
        while self._firsts[number] == self._firsts[number + 1]:  # a group without rows
            number -= 1
        first, last = int(self._firsts[number]), int(self._firsts[number + 1])
        if last - first == 1:
            return first
        if number in self._known:
            return _last_at(self._known[number], int(self._starts[number]), first, position)
        at = first
        for piece in self._state.of(number):
            at = max(at, piece.first) if piece.start <= position else at
        while True:
            piece = self._piece(number, at, rows=True)
            end, at = piece.span(rows=False)[1], piece.span(rows=True)[1]
            if at == last or end > position:
                return _last_at(piece.offsets, piece.start, piece.first, position)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """See `TokenReader.marks`. Without labels, a mask is what `attention_mask` excludes inside of rows."""
        if not self.has_labels and not self.facts.inside:
            return None
        found = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        places = np.flatnonzero(found & OTHER) + start
        if len(places):
            raise self._other_label(places)
        return found

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """See `TokenReader.masks`."""
        return np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "mask")])

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """See `TokenReader.masks`; labels of packed rows follow from their IDs and loss mask."""
        return np.concatenate([np.empty(0, np.int64), *self._window(start, stop, "labels")])

    def targets(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """See `TokenReader.targets`."""
        if not self.has_labels:
            return None
        marks: NDArray[np.uint8] = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        found: NDArray[np.bool_] = marks & TARGET != 0
        return found

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """See `TokenReader.begins`."""
        return np.concatenate([np.empty(0, np.bool_), *self._window(start, stop, "begins")])

    def _other_label(self, places: NDArray[np.int64]) -> ConversionError:
        """Return the error for tokens whose labels are other IDs: of the first that is not the first of its row."""
        low = max(int(places[0]) - 1, 0)
        labels = np.append(IGNORED, self.labels(low, int(places[-1])))[places - low]
        known = np.flatnonzero(labels != IGNORED)
        if not len(known):
            what = f"the label at token position {places[0]}, the first of its row, is not its token"
            return ConversionError(f"{what}: a loss mask cannot express that. --allow-loss loss-mask drops labels")
        at = int(places[known[0]])
        return other_label(at - 1, int(self.tokens(at, at + 1)[0]), int(labels[known[0]]))

    def padding_counts(self) -> PaddingCounts:
        """Return the positions that the columns leave out; see `TokenReader.padding_counts`."""
        padding = self.facts.left_out if self.facts.rows else None
        return PaddingCounts(padding, self.info.tokens + (padding or 0))

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        group = self.groups[number]
        detail = f"ID {position - int(self._starts[number]):,} of {group.name}"
        return ByteOffset(group.file.path, group.begin, None, detail)

    def find(self, place: Place, byte: int) -> int | None:
        for number, group in enumerate(self.groups):
            if group.file.path == place and 0 <= byte - group.begin < group.size:
                start = int(self._starts[number])
                return start if start < int(self._starts[number + 1]) else None
        return None

    def close(self) -> None:
        self._local = threading.local()
        for group in self.groups:
            group.file.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_local"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._local = threading.local()
