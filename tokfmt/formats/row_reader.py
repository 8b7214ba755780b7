"""Read rows of IDs, with the columns beside them, as a token axis: the reader of Parquet, Arrow, shards and arrays.

If the files state how many IDs each group of rows has, and no column is beside the IDs, opening decodes no row.
Otherwise, every row is decoded once, on several threads. The reader keeps the lengths of decoded sequences, 8 bytes per
sequence, and the last few pieces of decoded rows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.threads import in_threads
from tokfmt.core.annotation import Extent, FileLayout
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import COUNTING, IGNORED, OTHER, PADDING, TARGET, other_label
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    U32,
    ByteOffset,
    Damage,
    Info,
    Layout,
    PaddingCounts,
    Separators,
    TokenReader,
    check_interval,
    check_position,
    largest_id,
)
from tokfmt.errors import NO_DAMAGE, ConversionError, CorruptError, FormatError, TokfmtError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.model.rows import (
    DIVIDING,
    PER_DOCUMENT,
    SECOND,
    TARGETS,
    Column,
    IdRows,
    Misfit,
    NeedsIdsError,
    Reading,
    RowFacts,
    are_pairs,
    divided,
    dividing,
    row_at,
    states_loss,
    unlike_labels,
    with_columns,
    without_masks,
)

_TOGETHER, _ROWS = 1 << 14, 1 << 16  # IDs, and rows, of a group of stored rows
_GROUPS = 1 << 15  # groups of stored rows, about, of a dataset that has many
_LOOKED_AT = 16  # rows that show what their targets are
_CORRECT = "Correct that column, or write the rows without it"
_HELD = 3 << 20  # tokens and rows that each thread keeps decoded: those that were read last
_PIECE = 1 << 8  # tokens for which a piece counts in addition, because it is an object
_WALKS = 2  # groups that a thread decodes at a time: where a window begins, and where it ends


class RowGroup(NamedTuple):
    """Consecutive rows of a file, which can be decoded without the others. Picklable."""

    file: File
    begin: int  # byte offset in the file
    size: int  # bytes in the file
    rows: int  # number of rows
    name: str  # the group in words: "row group 3"
    # Yields the rows, some at a time. Of stored rows, it takes what receives the error of each row that does not fit.
    decode: Callable[..., Iterator[IdRows]]
    # yields the rows without their IDs and marks, from fewer columns; None if that is not possible
    divide: Callable[[], Iterator[IdRows]] | None = None
    bounds: Offsets | None = None  # the offsets of the sequences, if they are known
    values: int | None = None  # number of IDs, if the file states it
    top: int | None = None  # largest ID, likewise
    # the rows of the file, and the first row of the group among them, of rows whose places are known
    origin: tuple[StoredRows, int] | None = None


class OtherLabels(NamedTuple):
    """Rows with a label that is neither the ID of its token nor -100."""

    rows: int = 0  # the number of rows that were read
    unlike: int = 0  # the number of those with such a label
    shifted: int = 0  # the number of those in which each label is the next token
    first: int = -1  # the first row with such a label; -1 without one

    def joined(self, later: OtherLabels) -> OtherLabels:
        """Return the sum of these rows and the rows that follow them."""
        first = self.first if self.unlike or not later.unlike else self.rows + later.first
        return OtherLabels(self.rows + later.rows, self.unlike + later.unlike, self.shifted + later.shifted, first)


def other_labels(rows: IdRows) -> OtherLabels:
    """Count the rows whose labels are not their tokens."""
    count = len(rows.offsets) - 1
    if rows.marks is None or not (rows.marks & OTHER).any():
        return OtherLabels(count)
    own = rows.labels(0, len(rows.tokens))
    following = np.append(rows.tokens[1:].astype(np.int64), 0)
    there = rows.offsets[:-1][np.diff(rows.offsets) > 0]
    edges = np.zeros(len(own), np.bool_)
    edges[there] = edges[np.append(there[1:], len(own)) - 1] = True  # not known, and not followed
    unlike = (own != IGNORED) & (own != following) & ~edges
    other = np.diff(offsets_of(rows.marks & OTHER != 0)[rows.offsets]) > 0
    shifted = other & (np.diff(offsets_of(unlike)[rows.offsets]) == 0)
    return OtherLabels(count, int(other.sum()), int(shifted.sum()), int(np.argmax(other)))


def _last_at(offsets: Offsets, start: int, first: int, position: int) -> int:
    """Return the last sequence of some that begins at or before a position; see `reader.sequence_at`."""
    numbers = range(len(offsets) - 1)
    found = bisect_right(numbers, position, key=lambda i: start + int(offsets[i]))
    return first + max(0, found - 1)


def _scanned(pieces: Iterable[IdRows]) -> _Scanned:
    lengths, top, odd, first, at = [np.zeros(0, np.int64)], -1, 0, -1, 0
    facts = RowFacts()
    for piece in pieces:
        lengths.append(np.diff(piece.offsets))
        first = at + piece.odd[1] if piece.odd[0] and not odd else first
        top, odd, at = max(top, largest_id(piece.tokens)), odd + piece.odd[0], at + len(piece.offsets) - 1
        facts = facts.joined(piece.facts)
    return _Scanned(offsets_of(np.concatenate(lengths)), top, (odd, first), facts)


class _Scanned(NamedTuple):
    """The facts of a group that was decoded: its offsets, the largest ID and `IdRows.odd`, if known, and its facts."""

    offsets: Offsets
    top: int | None
    odd: tuple[int, int] | None
    facts: RowFacts


@dataclass(slots=True)
class _Walk:
    """The decoding of a group, in order."""

    pieces: Iterator[IdRows]  # the pieces that are not decoded yet
    reached: tuple[int, int] = (0, 0)  # the position, and the sequence, after the last piece


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
        samples: Rows are read as they are stored, with their padding.
        top: Largest ID; None if it is not known.
    """

    samples: bool = False
    shifted = False

    def __init__(
        self, groups: Sequence[RowGroup], *, divides: bool, jobs: int | None, is_decoded: bool = False
    ) -> None:
        """Decode the rows once if columns may divide them or leave IDs out (`divides`), or if the number of IDs is not
        known. If `is_decoded`, every group was decoded before, and those that cannot be are left out.
        """
        self.groups, self._is_decoded = groups, is_decoded
        self._local = threading.local()
        self._known = {k: group.bounds for k, group in enumerate(groups) if group.bounds is not None}
        self._odd: list[tuple[int, int] | None] = [None] * len(groups)
        self.facts, self._jobs = RowFacts(), jobs
        counts, tops = [(group.rows, group.values) for group in groups], [group.top for group in groups]
        if divides or any(values is None for _, values in counts):
            scanned = self._scan(range(len(groups)), is_whole=not divides)
            counts = [(len(one.offsets) - 1, int(one.offsets[-1])) for one in scanned]
            tops = [one.top for one in scanned]
            self._known = {k: one.offsets for k, one in enumerate(scanned)}
            self._odd = [one.odd for one in scanned]
            self.facts = reduce(RowFacts.joined, [one.facts for one in scanned], RowFacts())
        self._firsts = offsets_of([rows for rows, _ in counts])
        self._starts = offsets_of([values or 0 for _, values in counts])
        self.top = None if None in tops else max((top for top in tops if top is not None), default=-1)

    def _scan(self, numbers: Iterable[int], *, is_whole: bool) -> list[_Scanned]:
        """Decode groups once, on several threads; the columns alone if they suffice, unless `is_whole`."""

        def look(number: int) -> _Scanned:
            group = self.groups[number]
            if group.divide is not None and not is_whole:
                with suppress(NeedsIdsError):
                    return _scanned(group.divide())._replace(top=group.top, odd=None)
            return _scanned(group.decode())

        return list(in_threads(look, numbers, self._jobs or 4))

    def odd(self) -> tuple[int, int]:
        """Return `Info.odd`. It decodes the rows that were not decoded when the reader was opened."""
        unknown = [k for k, odd in enumerate(self._odd) if odd is None]
        for number, one in zip(unknown, self._scan(unknown, is_whole=True), strict=True):
            self._odd[number] = one.odd
        found = [(int(self._firsts[k]), *odd) for k, odd in enumerate(self._odd) if odd is not None and odd[0]]
        return sum(count for _, count, _ in found), found[0][0] + found[0][2] if found else -1

    def _pieces(self, number: int) -> Iterator[IdRows]:
        """Yield the rows of a group with their positions on the axis, the last ones after a check of their number."""
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
            first, last = start - piece.start, min(stop - piece.start, len(piece.tokens))
            values = piece.labels(first, last) if part == "labels" else getattr(piece, part)[first:last]
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
        if not self.has_labels and not self.facts.uncounted:
            return None
        found = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        places = np.flatnonzero(found & OTHER) + start
        if len(places):
            raise self._other_label(places)
        return found

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = (self.labels(start, stop) != IGNORED).view(np.uint8)
        return found

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """See `TokenReader.labels`; labels of packed rows follow from their IDs and loss mask."""
        return np.concatenate([np.empty(0, np.int64), *self._window(start, stop, "labels")])

    def next_labels(self, start: int, stop: int) -> NDArray[np.int64]:
        found = np.append(self.labels(start, stop)[1:], IGNORED)
        if self.has_begins:
            found[:-1][self.begins(start, stop)[1:]] = IGNORED
        return found

    def targets(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        if not self.has_labels:
            return None
        marks: NDArray[np.uint8] = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        found: NDArray[np.bool_] = marks & TARGET != 0
        return found

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        return np.concatenate([np.empty(0, np.bool_), *self._window(start, stop, "begins")])

    def _other_label(self, places: NDArray[np.int64]) -> TokfmtError:
        """Return the error for tokens whose labels are other IDs: of the first that is not the first of its row."""
        bounds = self.offsets(self.sequence_at(int(places[0])), self.sequence_at(int(places[-1])) + 1)
        known = places[~np.isin(places, bounds)]
        if not len(known):
            what = f"the label at token position {places[0]}, the first of its row, is not its token"
            return ConversionError(f"{what}: a loss mask cannot express that. --allow-loss loss-mask drops labels")
        at = int(known[0])
        return other_label(at - 1, int(self.tokens(at, at + 1)[0]), int(self.labels(at, at + 1)[0]))

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        if not self.samples or not self.facts.left_out:
            return None
        marks: NDArray[np.uint8] = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        found: NDArray[np.bool_] = marks & PADDING != 0
        return found

    def padding_counts(self) -> PaddingCounts | None:
        """Return the positions that the columns leave out; see `TokenReader.padding_counts`."""
        if self.samples:
            return None
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


class StoredRows(ABC):
    """The rows of a file, each with IDs and the columns beside them. Picklable."""

    file: File
    item: str  # what a row is called: "sample"
    names: Sequence[str]  # The columns beside the IDs. The file may lack some, which other files of the dataset have.
    dtype: np.dtype[Any]  # Dtype of IDs
    sizes: NDArray[np.int64]  # int64[rows], about the number of IDs of each row

    @abstractmethod
    def read(self, first: int, last: int) -> tuple[Tokens, Offsets, Mapping[str, Column]]:
        """Return the IDs of rows `first <= i < last`, their offsets, and the columns beside them."""

    def beside(self, first: int, last: int, names: Sequence[str]) -> dict[str, Column] | None:  # noqa: ARG002
        """Return some columns of rows `first <= i < last`; None if that takes as long as to read all."""
        return None

    def ids_from(self, row: int, number: int, count: int) -> Tokens | None:  # noqa: ARG002 - they are not apart
        """Return IDs from one of a row on, without the columns; None if these are not apart from each other."""
        return None

    @abstractmethod
    def byte_of(self, row: int, number: int) -> tuple[int | None, int | None]:
        """Return the byte offset in the file of an ID of a row, None if the file is compressed; and its bytes."""

    def row_of(self, byte: int) -> tuple[int, int] | None:  # noqa: ARG002 - not known
        """Return the row whose ID has a byte of the file, and the number of the ID; None without one."""
        return None

    def of_files(self, names: Sequence[str]) -> StoredRows:
        """Return these rows with the columns that any file of the dataset has."""
        found = copy(self)
        found.names = names
        return found

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class StoredColumn(NamedTuple):
    """Integers of rows: those of row i are `offsets[i]` to `offsets[i + 1]` of the extent."""

    extent: Extent
    offsets: Offsets

    def read(self, first: int, last: int, *, ids: bool = False) -> tuple[NDArray[Any], Offsets]:
        """Return the integers of rows `first <= i < last`, and their offsets."""
        (file, begin, _, dtype), bounds = self.extent, self.offsets[first : last + 1]
        read = file.ids if ids else file.array
        return read(begin + int(bounds[0]) * dtype.itemsize, int(bounds[-1] - bounds[0]), dtype), bounds - bounds[0]


class ExtentRows(StoredRows):
    """Rows whose IDs and columns are extents of files."""

    def __init__(self, ids: StoredColumn, beside: Mapping[str, StoredColumn], item: str) -> None:
        self.ids, self.columns, self.item, self.names = ids, beside, item, tuple(beside)
        self.file, self.dtype, self.sizes = ids.extent.file, ids.extent.dtype, np.diff(ids.offsets)

    def read(self, first: int, last: int) -> tuple[Tokens, Offsets, Mapping[str, Column]]:
        tokens, offsets = self.ids.read(first, last, ids=True)
        return tokens, offsets, self.beside(first, last, [*self.columns])

    def beside(self, first: int, last: int, names: Sequence[str]) -> dict[str, Column]:
        return {name: Column(*self.columns[name].read(first, last)) for name in names}

    def ids_from(self, row: int, number: int, count: int) -> Tokens:
        file, begin, _, dtype = self.ids.extent
        return file.ids(begin + (int(self.ids.offsets[row]) + number) * dtype.itemsize, count, dtype)

    def byte_of(self, row: int, number: int) -> tuple[int | None, int | None]:
        file, begin, _, dtype = self.ids.extent
        at = begin + (int(self.ids.offsets[row]) + number) * dtype.itemsize
        stored = at if file.is_plain else file.to_stored_offset(at)
        return stored, None if stored is None else dtype.itemsize

    def row_of(self, byte: int) -> tuple[int, int] | None:
        file, begin, tokens, dtype = self.ids.extent
        at = file.from_stored_offset(byte)
        number = -1 if at is None else (at - begin) // dtype.itemsize
        if not 0 <= number < tokens:
            return None
        row = row_at(self.ids.offsets, number)
        return row, number - int(self.ids.offsets[row])

    def close(self) -> None:
        for column in (self.ids, *self.columns.values()):
            column.extent.file.close()


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoding of stored rows. Picklable."""

    reading: Reading  # How the columns beside the IDs are read
    is_plain: bool  # a user accepts the loss of labels and masks: labels only show padding
    together: int  # IDs of a group of rows

    def groups(self, rows: StoredRows) -> Iterator[RowGroup]:
        """Yield groups of rows, each of which is one piece."""
        bounds, first, count = offsets_of(rows.sizes), 0, len(rows.sizes)
        cuts = list[int]()
        while first < count:
            cuts.append(first)
            near = int(np.searchsorted(bounds, bounds[first] + self.together, side="right")) - 1
            first = min(max(first + 1, near), first + _ROWS, count)
        begins = [rows.byte_of(first, 0)[0] if first else 0 for first in cuts]
        for first, last, begin, end in zip(cuts, [*cuts[1:], count], begins, [*begins[1:], None], strict=False):
            size = (rows.file.identity.size if end is None else end) - (begin or 0)
            name = f"{rows.item}s {first:,} to {last - 1:,}"
            own, exact = bounds[first : last + 1] - bounds[first], isinstance(rows, ExtentRows)
            yield RowGroup(
                rows.file,
                begin or 0,
                size,
                last - first,
                name,
                partial(self.decode, rows, first, last),
                partial(self.divide, rows, first, own) if exact and self.dividing(rows) else None,
                own if exact else None,
                int(own[-1]) if exact else None,
                origin=(rows, first),
            )

    def dividing(self, rows: StoredRows) -> tuple[str, ...] | None:
        """Return `model.rows.dividing`; None, too, if rows lack a column, or have one that does not fit the IDs."""
        fits = isinstance(rows, ExtentRows) and all(
            name in rows.columns
            and (name in PER_DOCUMENT or np.array_equal(rows.columns[name].offsets, rows.ids.offsets))
            for name in rows.names
        )
        return dividing(rows.names) if fits else None

    def divide(self, rows: StoredRows, first: int, offsets: Offsets) -> Iterator[IdRows]:
        """Yield rows from the first one on, with these offsets, without their IDs; see `model.rows.divided`."""
        columns = rows.beside(first, first + len(offsets) - 1, self.dividing(rows) or ())
        if columns is None:
            raise NeedsIdsError
        yield divided(rows.names, offsets, columns, self.reading)

    def decode(
        self, rows: StoredRows, first: int, last: int, report: Callable[[FormatError], object] | None = None
    ) -> Iterator[IdRows]:
        """Yield rows `first <= i < last`, at once."""
        tokens, offsets, there = rows.read(first, last)
        if tokens.dtype.itemsize == 8 and (not len(tokens) or int(tokens.max()) < 1 << 32):
            tokens = tokens.astype(np.uint32)
        nothing = np.zeros(last - first, np.bool_)
        absent = Column(np.zeros(0, np.int64), np.zeros(last - first + 1, np.int64), nothing)
        columns = {name: there.get(name, absent) for name in rows.names}
        if self.is_plain:
            columns = without_masks(columns, offsets)

        def wrong(misfit: Misfit) -> None:
            what, remedy = f"{rows.item} {first + misfit.row:,} {misfit.problem}", misfit.remedy or _CORRECT
            if not misfit.remedy and not self.is_plain and not {*COUNTING}.isdisjoint(columns):
                remedy += f"; --allow-loss loss-mask reads each {rows.item} without its labels and masks"
            error = CorruptError(rows.file.path, what, expected=misfit.expected, found=misfit.found, remedy=remedy)
            if report is None:
                raise error
            report(error)

        found = with_columns(tokens, offsets, columns, self.reading, wrong)
        for misfit in (
            unlike_labels(found, tokens, offsets, columns) if report is not None and not self.is_plain else ()
        ):
            wrong(misfit)
        yield found


def decoder_of(layout: FileLayout, options: Any, hints: Hints) -> Decoder:
    """Return how the rows of a dataset are decoded; the first ones show whether targets are completions."""
    pairs, first = False, layout.rows[0]
    if TARGETS in first.names:
        tokens, offsets, columns = first.read(0, min(len(first.sizes), _LOOKED_AT))
        pairs = are_pairs(first.names, _pairs_of(tokens, offsets, columns[TARGETS]))
    reading = Reading(getattr(options, "loss_mask", None), eos_id=hints.eos_id, pairs=pairs)
    together = max(_TOGETHER, sum(int(rows.sizes.sum()) for rows in layout.rows) // _GROUPS)
    return Decoder(reading, "loss-mask" in hints.allow_loss, together)


def _pairs_of(tokens: Tokens, offsets: Offsets, targets: Column) -> Iterator[tuple[Tokens, NDArray[Any]]]:
    """Yield the IDs and the targets of each row."""
    for k in range(len(offsets) - 1):
        yield tokens[offsets[k] : offsets[k + 1]], targets.values[targets.offsets[k] : targets.offsets[k + 1]]


def _readable(groups: Sequence[RowGroup], *, first_only: bool) -> tuple[list[RowGroup], list[Damage]]:
    """Return the groups that can be decoded, and what is left out; of a stream, the groups before the first damage."""
    kept, damage = list[RowGroup](), list[Damage]()
    for group in groups:
        if damage and first_only:
            damage.append(Damage(f"{group.name} of {group.file.path.name} may begin inside a sequence", group.rows))
            continue
        try:
            for _ in group.decode():
                pass
            kept.append(group)
        except NO_DAMAGE:
            raise
        except FormatError as error:
            damage.append(Damage(error.sentence, group.rows, None, group.size))
    return kept, damage


class StoredReader(RowsReader):
    """Read the rows of files whose layout a format states."""

    def __init__(self, layout: FileLayout, info: Info, options: Any, hints: Hints) -> None:
        """Decode all rows once."""
        is_plain = "loss-mask" in hints.allow_loss
        names = tuple(dict.fromkeys(name for rows in layout.rows for name in rows.names))
        self.rows = [rows.of_files(names) for rows in layout.rows]
        decoder = decoder_of(layout, options, hints)
        groups, damage = [group for rows in self.rows for group in decoder.groups(rows)], list[Damage]()
        is_packed = not {*DIVIDING}.isdisjoint(names)
        is_stream = info.layout is Layout.STREAM and not is_packed
        if hints.allow_partial:
            groups, damage = _readable(groups, first_only=is_stream)
        divides = any(decoder.dividing(rows) != () for rows in self.rows)
        super().__init__(groups, divides=divides, jobs=hints.jobs, is_decoded=hints.allow_partial)
        self.facts = self.facts if divides else RowFacts(int(self._firsts[-1]))
        self.has_labels = not is_plain and states_loss(names, decoder.reading)
        total, has_masks = int(self._starts[-1]), self.facts.uncounted > 0 or self.has_labels
        self.info = replace(
            info,
            layout=Layout.STREAM if is_stream else Layout.DOCUMENTS,
            dtype=info.dtype if {*SECOND.values()}.isdisjoint(names) else np.promote_types(info.dtype, U32),
            sequences=int(total > 0) if is_stream else int(self._firsts[-1]),
            tokens=total,
            sample_length=None,
            max_id=self.top,
            separators=info.separators if is_stream else Separators.TRAILING,
            odd=self.odd if has_masks and not info.loss_masks else None,
            columns=self.facts.numbers(),
            notes=(*info.notes, *self.facts.notes()),
            damage=(*info.damage, *damage),
        )

    def _window(self, start: int, stop: int, part: str) -> list[Any]:
        """See `RowsReader._window`. The IDs of groups of which nothing is left out are read without the columns."""
        if part != "tokens":
            return super()._window(start, stop, part)
        check_interval(start, stop, self.info.tokens)
        found = list[Any]()
        while start < stop:
            number = row_at(self._starts, start)
            base, end = int(self._starts[number]), min(stop, int(self._starts[number + 1]))
            group, (rows, first) = self._origin(number)
            is_whole = int(self._starts[number + 1]) - base == int(rows.sizes[first : first + group.rows].sum())
            ids = rows.ids_from(first, start - base, end - start) if is_whole else None
            found += super()._window(start, end, part) if ids is None else [ids]
            start = end
        return found

    def locate(self, position: int) -> ByteOffset:
        """See `Axis.locate`. Of a row of which IDs are left out, it is the first ID."""
        check_position(position, self.info.tokens)
        number = row_at(self._starts, position)
        group, (rows, first) = self._origin(number)
        bounds = self._row_bounds(number)
        row = row_at(bounds, position)
        is_whole = int(bounds[row + 1] - bounds[row]) == int(rows.sizes[first + row])
        at, width = rows.byte_of(first + row, position - int(bounds[row]) if is_whole else 0)
        if at is None:
            return super().locate(position)
        detail = "" if is_whole else f"{rows.item} {first + row:,}"
        return ByteOffset(group.file.path, at, width if is_whole else None, detail)

    def find(self, place: Place, byte: int) -> int | None:
        found = super().find(place, byte)
        if found is None:
            return None
        number = row_at(self._starts, found)
        _, (rows, first) = self._origin(number)
        if (there := rows.row_of(byte)) is None or not 0 <= there[0] - first < self.groups[number].rows:
            return found
        bounds, row = self._row_bounds(number), there[0] - first
        is_whole = int(bounds[row + 1] - bounds[row]) == int(rows.sizes[there[0]])
        position = int(bounds[row]) + (there[1] if is_whole else 0)
        return position if position < self.info.tokens else None

    def _other_label(self, places: NDArray[np.int64]) -> TokfmtError:
        wrong = list[FormatError]()
        for _ in self.groups[row_at(self._starts, int(places[0]))].decode(wrong.append):
            pass
        return wrong[0] if wrong else super()._other_label(places)

    def _origin(self, number: int) -> tuple[RowGroup, tuple[StoredRows, int]]:
        group = self.groups[number]
        return group, cast("tuple[StoredRows, int]", group.origin)

    def _row_bounds(self, number: int) -> Offsets:
        """Return the positions where the rows of a group begin, and the end."""
        piece = self._piece(number, int(self._starts[number]))
        bounds = piece.offsets if piece.counts is None else piece.offsets[offsets_of(piece.counts)]
        return bounds + piece.start

    def close(self) -> None:
        self._local = threading.local()
        for rows in self.rows:
            rows.close()
