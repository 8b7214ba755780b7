"""Read columns: rows of IDs as a token axis, with their masks and boundaries, or rows of text as documents.

If the statistics that Arrow writes state how many IDs a row group has, opening decodes no row. Otherwise, every row is
decoded once, on several threads. The reader keeps the lengths of decoded sequences, 8 bytes per sequence, and the last
few pieces of decoded rows.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.chats import CHATS, COMPLETION, PAIRS, ChatError, chat_text, pair_text
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import IGNORED, LOSS_MASK, MASK_OPTION, TARGET, Flags, other_label
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    U8,
    U16,
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
from tokfmt.core.records import Block, RecordBatch, RecordInfo, TextRecords
from tokfmt.errors import ConversionError, CorruptError, Loss
from tokfmt.files.place import Place
from tokfmt.formats.arrow.container import (
    TEXT,
    Column,
    Container,
    Group,
    ParquetContainer,
    arrow,
    item_type,
    own_blocks,
    own_separator,
    plain,
    stated_by_tokfmt,
    typed,
    unread,
    values_of,
    worded,
)
from tokfmt.model import rows as rule
from tokfmt.model.rows import OTHER, IdRows, Misfit, Reading, Report, RowFacts, first_in_rows
from tokfmt.wording import counted

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import Found, ReadOptions

_AT_ONCE = 1 << 22  # characters of texts in one batch
_WRONG_COLUMN = "Correct that column, or write the file without it"
_NULLS = "--allow-loss null-rows reads NULL as empty"
_HELD = 3 << 20  # tokens and rows that each thread keeps decoded: those that were read last
_PIECE = 1 << 8  # tokens for which a piece counts in addition, because it is an object
_WALKS = 2  # groups that a thread decodes at a time: where a window begins, and where it ends


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


def spelled(array: Any) -> Any:
    """Return an array with the values of its dictionary in place of their indices."""
    return array.dictionary.take(array.indices) if arrow().types.is_dictionary(array.type) else array


def lists(array: Any) -> tuple[Any, Offsets]:
    """Return the values of an array of lists, joined, and their offsets; NULL counts as an empty list."""
    array = spelled(array)
    lengths = arrow().compute.list_value_length(array)
    if array.null_count:
        lengths = lengths.fill_null(0)
    values, kind = spelled(array.flatten()), item_type(array.type)
    values = values if values.type == kind else values.cast(kind)
    return values, offsets_of(lengths.to_numpy(zero_copy_only=False))


def _raise(problem: Problem) -> None:
    raise problem.error


def reading_of(containers: Sequence[Container], options: ReadOptions, eos_id: int | None) -> Reading:
    """Return how the columns of some files are read."""
    is_own = bool(containers) and all(stated_by_tokfmt(container) for container in containers)
    return Reading(options.loss_mask, options.view == "samples", is_own=is_own, eos_id=eos_id)


class Rows:
    """Decode the rows of a column and report the problems in them.

    Args:
        format_hundred: Base of the numbers of findings, 660 or 680.
        column: Column to read, with the columns of labels or masks.
        reading: How the columns beside it are read.
        accepted: Words of `--allow-loss`. Problems that they accept are not reported.
    """

    def __init__(
        self, format_hundred: int, column: Column, reading: Reading, accepted: frozenset[str] = frozenset()
    ) -> None:
        self.hundred, self.column, self.reading, self.accepted = format_hundred, column, reading, accepted

    def decode(
        self, container: Container, group: Group, report: Callable[[Problem], object] = _raise
    ) -> Iterator[IdRows]:
        """Yield the rows of a group, some at a time.

        Args:
            container: The file.
            group: The group.
            report: Receives each problem of each row.

        Raises:
            FormatError: The group cannot be decoded, or, without `report`, a row has a problem.
        """
        base = 0
        for batch in container.batches(group, (self.column.name, *self.column.beside)):
            with worded(container.path, f"{container.unit} {group.number:,} cannot be read"):
                rows = self._decoded(container, group, batch, base, report)
            yield rows
            base += batch.num_rows
        if base != group.rows:
            what = f"rows of {container.unit} {group.number:,}"
            raise CorruptError(container.path, what, expected=group.rows, found=base)

    def _decoded(
        self, container: Container, group: Group, batch: Any, base: int, report: Callable[[Problem], object]
    ) -> IdRows:
        def wrong(code: int, misfit: Misfit, word: str = "") -> None:
            what = f"row {base + misfit.row:,} of {container.unit} {group.number:,} {misfit.problem}"
            expected, found, remedy = misfit.expected, misfit.found, misfit.remedy or None
            error = CorruptError(container.path, what, expected=expected, found=found, remedy=remedy)
            report(fatal(f"TF{self.hundred + code}", error, word))

        array = spelled(values_of(batch, self.column.name))
        if array.null_count and "null-rows" not in self.accepted:
            remedy = "--allow-loss null-rows reads it as an empty row"
            for row in np.flatnonzero(_are_null(array)).tolist():
                wrong(3, Misfit(row, "is NULL", remedy=remedy), "null-rows")
        rows = _ids(array, partial(wrong, 4))
        return self._with_columns(
            rows, {name: values_of(batch, name) for name in self.column.beside}, partial(wrong, 5)
        )

    def _with_columns(self, rows: IdRows, arrays: Mapping[str, Any], report: Report) -> IdRows:
        """Return rows with what the columns beside them state."""

        def remedied(misfit: Misfit) -> None:
            report(misfit._replace(remedy=misfit.remedy or _WRONG_COLUMN))

        lacking = np.zeros(len(rows.offsets) - 1, np.bool_)
        columns = dict[str, rule.Column]()
        for name, array in arrays.items():
            values, ends = lists(array)
            for row, _ in first_in_rows(ends, _are_null(values)) if values.null_count else ():
                remedied(Misfit(row, f"has a NULL in its {name}"))
                lacking[row] = True
            items = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
            columns[name] = rule.Column(items, ends, ~_are_null(array) if array.null_count else None)
        tokens, offsets = rows.tokens, rows.offsets
        if lacking.any():
            tokens, offsets, columns = rule.emptied(tokens, offsets, columns, lacking)
        return rule.with_columns(tokens, offsets, columns, self.reading, remedied)


def _ids(array: Any, report: Report) -> IdRows:
    """Return rows of IDs, and report those with values that are not IDs."""
    ids, bounds = lists(array)
    if ids.null_count:
        for row, _ in first_in_rows(bounds, _are_null(ids)):
            report(Misfit(row, "has a NULL among its IDs"))
        ids = ids.fill_null(0)
    raw = ids.to_numpy(zero_copy_only=False)
    if raw.dtype.kind == "i" and len(raw) and int(raw.min()) < 0:
        for row, at in first_in_rows(bounds, raw < 0):
            why = ", which belongs in labels" if int(raw[at]) == IGNORED else ""
            report(Misfit(row, f"has a negative ID{why}", "0 or more", int(raw[at])))
    if raw.dtype.itemsize == 8 and len(raw) and int(raw.max()) > 2**32 - 1:
        for row, at in first_in_rows(bounds, raw > 2**32 - 1):
            report(Misfit(row, "has an ID that no tokenizer assigns", f"below {2**32:,}", int(raw[at])))
    return IdRows(raw.astype(dtype_of(array.type), copy=False), bounds)


def _are_null(array: Any) -> Flags:
    """Return which values of an array are NULL."""
    flags: Flags = array.is_null().to_numpy(zero_copy_only=False)
    return flags


def dtype_of(kind: Any) -> Any:
    """Return the unsigned dtype for the IDs of a list type: uint32 also for 8-byte IDs, which are checked to fit."""
    return {8: U8, 16: U16}.get(item_type(kind).bit_width, U32)


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


class ColumnReader(TokenReader):
    """Read a column of IDs as a token axis. Threads may share the reader: each keeps its own decoded pieces."""

    def __init__(
        self,
        containers: Sequence[Container],
        column: Column,
        options: ReadOptions,
        hints: Hints,
        found: Found,
        damage: tuple[Damage, ...],
        lost: tuple[Loss, ...],
    ) -> None:
        hundred = 660 if isinstance(containers[0], ParquetContainer) else 680
        self.samples = options.view == "samples"
        reading = reading_of(containers, options, hints.eos_id)
        self.rows = Rows(hundred, column, reading, hints.allow_loss)
        self.allow_loss = hints.allow_loss
        self._is_decoded = hints.allow_partial  # `keep_readable` decoded every group and left out the damaged ones
        self.groups = [(container, group) for container in containers for group in container.groups]
        self._local = threading.local()
        self._known: dict[int, Offsets] = {}
        facts = [container.facts(group, column.name) for container, group in self.groups]
        counts = [(group.rows, fact.values) for (_, group), fact in zip(self.groups, facts, strict=True)]
        tops, odd, first = [fact.top for fact in facts], 0, -1
        self.none_empty = not column.beside and all(fact.nulls == 0 for fact in facts)
        """No row is empty, as the footers state."""
        self.facts = RowFacts()
        """What the columns beside the IDs state."""
        if column.beside or any(values is None for _, values in counts):
            scanned = self._scan(hints.jobs)
            counts = [(len(one.offsets) - 1, int(one.offsets[-1])) for one in scanned]
            tops = [one.top for one in scanned]
            self._known = {k: one.offsets for k, one in enumerate(scanned)}
            odd = sum(one.odd[0] for one in scanned)
            if odd:
                number = next(k for k, one in enumerate(scanned) if one.odd[0])
                first = sum(rows for rows, _ in counts[:number]) + scanned[number].odd[1]
            self.facts = reduce(RowFacts.joined, [one.facts for one in scanned], RowFacts())
        self._firsts = offsets_of([rows for rows, _ in counts])
        self._starts = offsets_of([values or 0 for _, values in counts])
        info = self._info(containers, column, options, hints, found, (odd, first), tops)
        self.info = replace(info, damage=damage, lost=lost)

    def _info(
        self,
        containers: Sequence[Container],
        column: Column,
        options: ReadOptions,
        hints: Hints,
        found: Found,
        odd: tuple[int, int],
        tops: Sequence[int | None],
    ) -> Info:
        """Return the info of the reader: layout, counts, largest ID, masks and notes."""
        kinds = [plain(typed(container.schema, column.name)) for container in containers]
        fixed = {kind.list_size if arrow().types.is_fixed_size_list(kind) else None for kind in kinds}
        width = fixed.pop() if len(fixed) == 1 else None
        blocks = options.rows == "blocks" or (width is not None and options.rows is None) or own_blocks(containers[0])
        stream = blocks and hints.eos_id is not None and not self.samples and not column.packed
        notes, count, total = list[str](), int(self._firsts[-1]), int(self._starts[-1])
        if blocks and not stream and not self.samples:
            notes.append(
                "rows are blocks of a stream, and the starts of its documents are unknown; --eos ID splits it there"
            )
        notes += self.facts.notes()
        notes += unread(containers, column)
        unread_mask = column.unread and "loss-mask" not in hints.allow_loss
        ending = None if stream or self.samples or column.packed else own_separator(containers)
        layout = Layout.STREAM if stream else Layout.SAMPLES if self.samples or blocks else Layout.DOCUMENTS
        return Info(
            layout,
            max(dtype_of(kind) for kind in kinds),
            int(total > 0) if stream else count,
            total,
            max_id=max((top for top in tops if top is not None), default=-1) if None not in tops else None,
            sample_length=width if layout is Layout.SAMPLES else None,
            separators=Separators.AFTER if stream else Separators.NONE if ending is None else Separators.TRAILING,
            eos_id=hints.eos_id if stream else ending,
            eos_from="given" if stream else "" if ending is None else "schema of tokfmt",
            notes=tuple(notes),
            split=found.split,
            other_splits=found.others,
            nonstandard_masks=odd[0] if column.has_masks or odd[0] else None,
            first_nonstandard=odd[1],
            loss_masks=f'masks in "{LOSS_MASK}": {MASK_OPTION}' if unread_mask else "",
            segmented=self.samples and column.packed,
            fields=tuple(containers[0].schema.names),
            extras={
                "column": column.name,
                "type": str(kinds[0]),
                "files": len(containers),
                "groups": len(self.groups),
                "variant": "packed" if column.packed else "blocks" if blocks else "rows",
            },
        )

    def _scan(self, jobs: int | None) -> list[_Scanned]:
        """Decode every group once, on several threads."""

        def look(number: int) -> _Scanned:
            lengths, top, odd, first, at = [np.zeros(0, np.int64)], -1, 0, -1, 0
            facts = RowFacts()
            for piece in self._decode(number):
                lengths.append(np.diff(piece.offsets))
                first = at + piece.odd[1] if piece.odd[0] and not odd else first
                top, odd, at = max(top, largest_id(piece.tokens)), odd + piece.odd[0], at + len(piece.offsets) - 1
                facts = facts.joined(piece.facts)
            return _Scanned(offsets_of(np.concatenate(lengths)), top, (odd, first), facts)

        with ThreadPoolExecutor(jobs or 4) as pool:
            return list(pool.map(look, range(len(self.groups))))

    def _decode(self, number: int) -> Iterator[IdRows]:
        container, group = self.groups[number]
        yield from self.rows.decode(container, group)

    def _pieces(self, number: int) -> Iterator[IdRows]:
        """Yield the rows of a group with their positions on the axis, the last ones after a check of their number.

        Raises:
            CorruptError: The group has more or fewer IDs than it states.
        """
        first, start, lengths = int(self._firsts[number]), int(self._starts[number]), [np.zeros(0, np.int64)]
        last = list[IdRows]()
        for rows in self._decode(number):
            piece = rows._replace(first=first, start=start)
            lengths.append(np.diff(rows.offsets))
            first, start = first + len(rows.offsets) - 1, start + len(rows.tokens)
            if first < int(self._firsts[number + 1]):
                yield piece
            else:
                last.append(piece)
        if (first, start) != (int(self._firsts[number + 1]), int(self._starts[number + 1])):
            container, group = self.groups[number]
            what, there = f"IDs of {container.unit} {group.number:,}", start - int(self._starts[number])
            claimed = int(self._starts[number + 1] - self._starts[number])
            raise CorruptError(container.path, what, expected=claimed, found=there)
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
        container, group = self.groups[number]
        raise CorruptError(container.path, f"IDs of {container.unit} {group.number:,}", found="fewer than it states")

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
        if not self.facts.inside:
            return None
        return np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])

    def padding_counts(self) -> PaddingCounts:
        """Return the positions that the columns leave out; see `TokenReader.padding_counts`."""
        padding = self.facts.left_out if self.facts.rows else None
        return PaddingCounts(padding, self.info.tokens + (padding or 0))

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        container, group = self.groups[number]
        detail = f"ID {position - int(self._starts[number]):,} of {container.unit} {group.number:,}"
        return ByteOffset(container.path, group.begin, None, detail)

    def find(self, place: Place, byte: int) -> int | None:
        for number, (container, group) in enumerate(self.groups):
            if container.path == place and 0 <= byte - group.begin < group.size:
                start = int(self._starts[number])
                return start if start < int(self._starts[number + 1]) else None
        return None

    def close(self) -> None:
        self._local = threading.local()
        for container, _ in self.groups:
            container.file.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_local"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._local = threading.local()


class MaskedReader(ColumnReader):
    """Rows with a column of labels."""

    has_labels = True

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """See `TokenReader.masks`."""
        return np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "mask")])

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """See `TokenReader.masks`; labels of packed rows follow from their IDs and loss mask."""
        return np.concatenate([np.empty(0, np.int64), *self._window(start, stop, "labels")])

    def targets(self, start: int, stop: int) -> NDArray[np.bool_]:
        """See `TokenReader.targets`."""
        marks: NDArray[np.uint8] = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        found: NDArray[np.bool_] = marks & TARGET != 0
        return found

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """See `TokenReader.marks`."""
        found = np.concatenate([np.empty(0, np.uint8), *self._window(start, stop, "marks")])
        places = np.flatnonzero(found & OTHER) + start
        if len(places):
            raise self._other_label(places)
        return found

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


class PackedReader(MaskedReader):
    """Packed rows, which hold several documents each."""

    has_begins = True

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """See `TokenReader.begins`."""
        return np.concatenate([np.empty(0, np.bool_), *self._window(start, stop, "begins")])


class NullRowError(CorruptError):
    """A row of a column of text is NULL."""


class NotTextError(CorruptError):
    """A text is not UTF-8."""


class TextReader(TextRecords):
    """Read the texts of a column, one record per row. Blocks are whole row groups."""

    def __init__(
        self,
        containers: Sequence[Container],
        column: Column,
        hints: Hints,
        found: Found,
        damage: tuple[Damage, ...],
        lost: tuple[Loss, ...],
    ) -> None:
        self.containers, self.column, self.allow_loss = containers, column, hints.allow_loss
        self._firsts = offsets_of([sum(group.rows for group in one.groups) for one in containers])
        self._columns = (column.name, *column.beside)
        is_chat = column.chats or bool(column.pairs)
        sizes = [sum(self._size(one, group) for group in one.groups) for one in containers]
        if "null-rows" not in hints.allow_loss:
            self._refuse_nulls()
        notes = unread(containers, column)
        self.info = RecordInfo(
            TEXT,
            sum(sizes),
            int(self._firsts[-1]),
            random_access=True,
            notes=notes,
            field=column.name,
            loss_masks="" if not is_chat else PAIRS if column.pairs else CHATS,
            pairs=column.pairs,
            fields=tuple(containers[0].schema.names),
            chats="" if not is_chat else "plain" if "loss-mask" in hints.allow_loss else "masked",
            split=found.split,
            other_splits=found.others,
            extras={"files": len(containers)},
            damage=damage,
            lost=lost,
        )

    def _size(self, container: Container, group: Group) -> int:
        """Return the bytes of the texts of a group."""
        return sum(container.text_bytes(group, name) for name in self._columns)

    def _refuse_nulls(self) -> None:
        """Raise NullRowError if a footer states that the column has NULL rows, before any row is read."""
        for container in self.containers:
            for group in container.groups:
                if nulls := container.facts(group, self.column.name).nulls:
                    what = f"{container.unit} {group.number:,} has {counted(nulls, 'row')} of NULL"
                    raise NullRowError(container.path, what, remedy=_NULLS)

    @property
    def firsts(self) -> Offsets:
        return self._firsts

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        last = self.count() if last is None else last
        check_interval(first, last, self.count(), "records")
        found = list[Block]()
        for number, container in enumerate(self.containers):
            at, record, begin, byte, held = int(self._firsts[number]), -1, 0, 0, 0
            for group in container.groups:
                a, b = max(at, first), min(at + group.rows, last)
                byte += self._size(container, group)
                at += group.rows
                if a < b:
                    record, held = (a if record < 0 else record), held + b - a
                if held and byte - begin >= size:
                    found.append(Block(number, begin, byte, record, held))
                    record, begin, held = -1, byte, 0
            if held:
                found.append(Block(number, begin, byte, record, held))
        return found

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        for batch, where in self._rows(block):
            for texts in self._texts(batch, where):
                yield RecordBatch(texts=texts)

    def _rows(self, block: Block) -> Iterator[tuple[Any, tuple[Container, Group, int]]]:
        """Yield the rows of a block as batches, each with its file, its group and its first row."""
        container, at = self.containers[block.file], int(self._firsts[block.file])
        for group in container.groups:
            row, at = at, at + group.rows
            if at <= block.first or row >= block.first + block.records:
                continue
            for batch in container.batches(group, self._columns):
                a, b = max(block.first - row, 0), min(block.first + block.records - row, batch.num_rows)
                if a < b:
                    yield batch.slice(a, b - a), (container, group, row - (at - group.rows) + a)
                row += batch.num_rows
            if row != at:
                what = f"rows of {container.unit} {group.number:,}"
                raise CorruptError(container.path, what, expected=group.rows, found=group.rows - (at - row))

    def _texts(self, batch: Any, where: tuple[Container, Group, int]) -> Iterator[list[str]]:
        """Yield the texts of rows in batches of about 4 Mi characters; raise if a text is NULL or not UTF-8."""
        (container, group, row), array = where, values_of(batch, self.column.name)
        with worded(container.path, f"{container.unit} {group.number:,} cannot be read"):
            if array.null_count and "null-rows" not in self.allow_loss:
                at = row + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                raise NullRowError(
                    container.path, f"row {at:,} of {container.unit} {group.number:,} is NULL", remedy=_NULLS
                )
            words, found = None, list[Any]()
            if self.info.chats:
                completions = values_of(batch, COMPLETION) if self.column.pairs else None
                found = list(self._chats(array, completions, container, group, row))
            elif arrow().types.is_dictionary(array.type):  # rows may repeat a text: it is decoded once
                words = self._decoded(array.dictionary, container, group, None)
                found = array.indices.to_pylist()
            else:
                found = self._decoded(array, container, group, row)
        texts, size = list[str](), 0
        for one in found:
            text = "" if one is None else one if words is None else words[one]
            texts.append(text)
            size += len(text)
            if size >= _AT_ONCE:
                yield texts
                texts, size = [], 0
        if texts or not found:
            yield texts

    def _chats(
        self, array: Any, completions: Any, container: Container, group: Group, row: int
    ) -> Iterator[str | None]:
        """Yield the texts of chats, None where NULL; raise NotTextError if a row is not a list of messages.

        Args:
            array: The chats, or prompts.
            completions: The completions of the prompts; None of chats.
            container: The file.
            group: The group of the rows.
            row: The number of the first row in it.
        """
        others = [None] * len(array) if completions is None else completions.to_pylist()
        for number, (value, other) in enumerate(zip(array.to_pylist(), others, strict=True), row):
            try:
                if value is None:
                    yield None
                else:
                    yield chat_text(value) if completions is None else pair_text(value, other, self.column.pairs)
            except ChatError as error:
                what = f"row {number:,} of {container.unit} {group.number:,} {error}"
                raise NotTextError(container.path, what) from error

    def _decoded(self, array: Any, container: Container, group: Group, row: int | None) -> list[Any]:
        """Return the texts of an array, None where NULL; raise NotTextError if bytes are not UTF-8."""
        if "string" in str(array.type):
            with suppress(UnicodeDecodeError):  # the loop below finds the row
                decoded: list[Any] = array.to_pylist()
                return decoded
        found = list[Any]()
        for k, one in enumerate(array.cast(arrow().large_binary()).to_pylist()):
            try:
                found.append(None if one is None else one.decode())
            except UnicodeDecodeError as error:
                place = "of its dictionary" if row is None else f"row {row + k:,} of"
                what = f"{place} {container.unit} {group.number:,} is not UTF-8 at byte {error.start:,} of its text"
                raise NotTextError(container.path, what, expected="UTF-8", found=f"{one[error.start]:#x}") from error
        return found

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        return [container.path for container in self.containers]

    def record_line(self, index: int) -> None:  # noqa: ARG002 - a row has no line
        return None

    def record_byte_offset(self, index: int) -> ByteOffset:
        """Return the byte offset of the group that holds a row; see `RecordReader.record_byte_offset`."""
        check_interval(index, index + 1, self.count(), "records")
        number = int(np.searchsorted(self._firsts, index, side="right")) - 1
        container, row = self.containers[number], index - int(self._firsts[number])
        for group in container.groups:
            if row < group.rows:
                break
            row -= group.rows
        return ByteOffset(container.path, group.begin, None, f"row {row:,} of {container.unit} {group.number:,}")

    def record_at(self, path: Place, offset: int) -> int | None:
        """Return the first row of the group that holds a byte offset of a file; None outside of groups."""
        for container, first in zip(self.containers, self._firsts.tolist(), strict=False):
            for group in container.groups if container.path == path else ():
                if 0 <= offset - group.begin < group.size:
                    return first if group.rows else None
                first += group.rows  # noqa: PLW2901 - the first row of the next group
        return None

    def close(self) -> None:
        for container in self.containers:
            container.file.close()
