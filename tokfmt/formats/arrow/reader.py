"""Read columns: rows of IDs as a token axis, with their masks and boundaries, or rows of text as documents.

The statistics that Arrow writes state how many IDs a row group has; see `row_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tokfmt.core.chats import CHATS, COMPLETION, PAIRS, ChatError, chat_text, pair_text
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import IGNORED, LOSS_MASK, MASK_OPTION, Flags
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import U8, U16, U32, ByteOffset, Damage, Info, Layout, Separators, check_interval
from tokfmt.core.records import Block, RecordBatch, RecordInfo, TextRecords
from tokfmt.errors import CorruptError, Loss
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
from tokfmt.formats.blocks import shared_by_rows
from tokfmt.formats.row_reader import RowGroup, RowsReader
from tokfmt.model import rows as rule
from tokfmt.model.rows import IdRows, Misfit, Reading, Report, RowFacts, first_in_rows
from tokfmt.wording import counted

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import Found, ReadOptions

_AT_ONCE = 1 << 22  # characters of texts in one batch
_WRONG_COLUMN = "Correct that column, or write the file without it"
_NULLS = "--allow-loss null-rows reads NULL as empty"


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


def reading_of(containers: Sequence[Container], column: Column, options: ReadOptions, eos_id: int | None) -> Reading:
    """Return how the columns of some files are read."""
    is_own = bool(containers) and all(stated_by_tokfmt(container) for container in containers)
    pairs = column.are_completions
    return Reading(options.loss_mask, options.view == "samples", is_own=is_own, eos_id=eos_id, pairs=pairs)


class Rows:
    """Decode the rows of a column and report the problems in them."""

    def __init__(
        self, format_hundred: int, column: Column, reading: Reading, accepted: frozenset[str] = frozenset()
    ) -> None:
        self.hundred, self.column, self.reading, self.accepted = format_hundred, column, reading, accepted

    def decode(
        self, container: Container, group: Group, report: Callable[[Problem], object] = _raise
    ) -> Iterator[IdRows]:
        """Yield the rows of a group, some at a time."""
        base = 0
        for batch in container.batches(group, (self.column.name, *self.column.beside)):
            with worded(container.path, f"{container.unit} {group.number:,} cannot be read", offset=group.begin):
                rows = self._decoded(container, group, batch, base, report)
            yield rows
            base += batch.num_rows
        if base != group.rows:
            what = f"rows of {container.unit} {group.number:,}"
            raise CorruptError(container.path, what, expected=group.rows, found=base)

    def divide(self, container: Container, group: Group) -> Iterator[IdRows]:
        """Yield the rows of a group without their IDs; see `model.rows.divided`."""
        names = rule.dividing(self.column.beside) or ()
        for batch in container.batches(group, names):
            columns = dict[str, rule.Column]()
            with worded(container.path, f"{container.unit} {group.number:,} cannot be read", offset=group.begin):
                for name in names:
                    array = values_of(batch, name)
                    values, ends = lists(array)
                    if array.null_count or values.null_count:
                        raise rule.NeedsIdsError
                    columns[name] = rule.Column(values.to_numpy(zero_copy_only=False), ends)
            yield rule.divided(self.column.beside, None, columns, self.reading)

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


class ColumnReader(RowsReader):
    """Read a column of IDs, and the columns beside it."""

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
        reading = reading_of(containers, column, options, hints.eos_id)
        rows, names = Rows(hundred, column, reading, hints.allow_loss), rule.dividing(column.beside)
        others = [name for name in column.beside if name not in (names or ())]
        facts = [
            (container, group, container.facts(group, column.name))
            for container in containers
            for group in container.groups
        ]
        all_there = all(
            (name not in others or there.all_there) and (name in rule.PER_DOCUMENT or there.values == fact.values)
            for one, group, fact in facts
            for name in column.beside
            for there in [one.facts(group, name)]
        )
        self.none_empty = not column.beside and all(fact.nulls == 0 for _, _, fact in facts)
        """No row is empty, as the footers state."""
        groups = [
            RowGroup(
                one.file,
                group.begin,
                group.size,
                group.rows,
                f"{one.unit} {group.number:,}",
                partial(rows.decode, one, group),
                partial(rows.divide, one, group) if names and all_there else None,
                values=fact.values,
                top=fact.top,
            )
            for one, group, fact in facts
        ]
        # With `allow_partial`, `keep_readable` decoded every group and left out the damaged ones.
        divides = names != () or not all_there
        super().__init__(groups, divides=divides, jobs=hints.jobs, is_decoded=hints.allow_partial)
        if column.beside and not divides:
            self.facts = RowFacts(int(self._firsts[-1]))
        self.has_begins = self.samples and (column.packed or self.facts.divided > 0)
        self.has_labels = self.has_begins or column.has_masks
        self.decoded_parts = len(groups)
        self.info = replace(self._info(containers, column, options, hints, found), damage=damage, lost=lost)

    def _info(
        self,
        containers: Sequence[Container],
        column: Column,
        options: ReadOptions,
        hints: Hints,
        found: Found,
    ) -> Info:
        """Return the info of the reader: layout, counts, largest ID, masks and notes."""
        kinds = [plain(typed(container.schema, column.name)) for container in containers]
        fixed = {kind.list_size if arrow().types.is_fixed_size_list(kind) else None for kind in kinds}
        width = fixed.pop() if len(fixed) == 1 and not column.second else None
        blocks = options.rows == "blocks" or (width is not None and options.rows is None) or own_blocks(containers[0])
        stream = blocks and hints.eos_id is not None and not self.samples and not column.packed
        notes, count, total = list[str](), int(self._firsts[-1]), int(self._starts[-1])
        if blocks and not stream and not self.samples:
            notes.append(
                "rows are blocks of a stream, and the starts of its documents are unknown; --eos ID splits it there"
            )
        if stream and total:
            with suppress(CorruptError):
                notes += filter(None, [self._shared()])
        notes += self.facts.notes()
        notes += unread(containers, column)
        unread_mask = column.unread and "loss-mask" not in hints.allow_loss
        ending = None if stream or self.samples or column.packed else own_separator(containers)
        layout = Layout.STREAM if stream else Layout.SAMPLES if self.samples or blocks else Layout.DOCUMENTS
        return Info(
            layout,
            U32 if column.second else max(dtype_of(kind) for kind in kinds),
            int(total > 0) if stream else count,
            total,
            max_id=self.top,
            sample_length=width if layout is Layout.SAMPLES else None,
            separators=Separators.AFTER if stream else Separators.NONE if ending is None else Separators.TRAILING,
            eos_id=hints.eos_id if stream else ending,
            eos_from="given" if stream else "" if ending is None else "schema of tokfmt",
            columns=self.facts.numbers(),
            notes=tuple(notes),
            split=found.split,
            other_splits=found.others,
            odd=self.odd if column.has_masks or self.facts.uncounted else None,
            loss_masks=f'masks in "{LOSS_MASK}": {MASK_OPTION}' if unread_mask else "",
            segmented=self.has_begins,
            unmasked=not column.has_masks and not self.facts.uncounted,
            fields=tuple(containers[0].schema.names),
            extras={
                "column": column.name,
                "type": str(kinds[0]),
                "files": len(containers),
                "groups": len(self.groups),
                "variant": "packed" if column.packed else "blocks" if blocks else "rows",
            },
        )

    def _shared(self) -> str:
        """Return a note if the first rows that are blocks each begin with the last token of the row before."""
        rows = self._piece(int(np.searchsorted(self._starts, 0, side="right")) - 1, 0)
        remedy = "their conversion with rows=documents to megatron can be read with rows=blocks and overlap=1"
        return shared_by_rows(rows.tokens, rows.offsets, f"it is read twice ({remedy})")


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
        self._firsts = offsets_of([sum(group.rows for group in container.groups) for container in containers])
        self._columns = (column.name, *column.beside)
        is_chat = column.chats or bool(column.pairs)
        sizes = [sum(self._size(container, group) for group in container.groups) for container in containers]
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
        """Yield the texts of chats, or of prompts with their `completions`, None where NULL; raise NotTextError if a
        row is not a list of messages.
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
