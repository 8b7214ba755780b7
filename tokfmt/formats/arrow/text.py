"""Reading a column of text: a document each row, row groups as its blocks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokfmt.core.axis import check_interval
from tokfmt.core.errors import CorruptError
from tokfmt.core.format import Hints
from tokfmt.core.protocols import Place
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.records import Block, RecordBatch, RecordInfo
from tokfmt.core.text_format import counted
from tokfmt.formats.arrow.columns import TEXT, Column, unread, values_of
from tokfmt.formats.arrow.container import Container, Group, arrow, worded

if TYPE_CHECKING:
    from tokfmt.formats.arrow import Found

_NULLS = "--drop null-rows reads NULL as empty"


class NullRowError(CorruptError):
    """A text is NULL."""


class NotTextError(CorruptError):
    """A text is not UTF-8."""


class TextReader:
    """The texts of a column, one record a row. Row groups are its blocks."""

    def __init__(self, containers: Sequence[Container], column: Column, hints: Hints, found: Found) -> None:
        self.containers, self.column, self.drop = containers, column, hints.drop
        self._firsts = offsets_of([sum(group.rows for group in one.groups) for one in containers])
        sizes = [sum(one.text_bytes(group, column.name) for group in one.groups) for one in containers]
        if "null-rows" not in hints.drop:
            self._refuse_nulls()
        notes = unread(containers, column, nulls="null-rows" in hints.drop)
        self._info = RecordInfo(
            TEXT, sum(sizes), int(self._firsts[-1]), random_access=True, notes=notes,
            field=column.name, split=found.split, other_splits=found.others, extras={"files": len(containers)},
        )  # fmt: skip

    def _refuse_nulls(self) -> None:
        """NULL that the footer knows of is refused before anything is read."""
        for container in self.containers:
            for group in container.groups:
                if nulls := container.facts(group, self.column.name).nulls:
                    what = f"{container.unit} {group.number:,} has {counted(nulls, 'row')} of NULL"
                    raise NullRowError(container.path, what, remedy=_NULLS)

    @property
    def info(self) -> RecordInfo:
        return self._info

    def count(self) -> int:
        return int(self._firsts[-1])

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        last = self.count() if last is None else last
        check_interval(first, last, self.count(), "records")
        found = list[Block]()
        for number, container in enumerate(self.containers):
            at, record, begin, byte, held = int(self._firsts[number]), -1, 0, 0, 0
            for group in container.groups:
                a, b = max(at, first), min(at + group.rows, last)
                byte += container.text_bytes(group, self.column.name)
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
        for batch, where in self._rows(block, [self.column.name]):
            for texts in self._texts(values_of(batch, self.column.name), where):
                yield RecordBatch(texts=texts)

    def records(self, block: Block) -> Iterator[tuple[str, dict[str, Any]]]:
        """The text of each row, and what else its columns hold, as Python has it."""
        above, _, name = self.column.name.rpartition(".")
        for batch, where in self._rows(block, self.containers[block.file].schema.names):
            texts = itertools.chain.from_iterable(self._texts(values_of(batch, self.column.name), where))
            with worded(where[0].path, f"{where[0].unit} {where[1].number:,} cannot be read"):
                rows = batch.to_pylist()
            for text, row in zip(texts, rows, strict=True):
                holder = row
                for word in above.split(".") if above else ():
                    holder = holder.get(word) or {}  # a struct may be NULL
                holder.pop(name, None)
                yield text, row

    def _rows(self, block: Block, columns: Sequence[str]) -> Iterator[tuple[Any, tuple[Container, Group, int]]]:
        """The rows of a block, a batch of some columns at a time, and which row of which group each begins with."""
        container, at = self.containers[block.file], int(self._firsts[block.file])
        for group in container.groups:
            row, at = at, at + group.rows
            if at <= block.first or row >= block.first + block.records:
                continue
            for batch in container.batches(group, columns):
                a, b = max(block.first - row, 0), min(block.first + block.records - row, batch.num_rows)
                if a < b:
                    yield batch.slice(a, b - a), (container, group, row - (at - group.rows) + a)
                row += batch.num_rows
            if row != at:
                what = f"rows of {container.unit} {group.number:,}"
                raise CorruptError(container.path, what, expected=group.rows, found=group.rows - (at - row))

    def _texts(self, array: Any, where: tuple[Container, Group, int]) -> Iterator[list[str]]:
        container, group, row = where
        with worded(container.path, f"{container.unit} {group.number:,} cannot be read"):
            if array.null_count and "null-rows" not in self.drop:
                at = row + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                raise NullRowError(
                    container.path, f"row {at:,} of {container.unit} {group.number:,} is NULL", remedy=_NULLS
                )
            words = None
            if arrow().types.is_dictionary(array.type):  # a text may stand for any number of rows: it is held once
                words = self._decoded(array.dictionary, container, group, None)
                array = array.indices
            found = self._decoded(array, container, group, row) if words is None else array.to_pylist()
        yield [(one if words is None else words[one]) if one is not None else "" for one in found]

    def _decoded(self, array: Any, container: Container, group: Group, row: int | None) -> list[Any]:
        """Texts as they stand; bytes have to be UTF-8."""
        if "string" in str(array.type):
            with suppress(UnicodeDecodeError):  # whose row is found below
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

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """There are none."""
        del block
        yield RecordBatch(ragged=Ragged.of([]))

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        for batch in self.texts(block):
            lines = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in batch.texts]
            yield RecordBatch(lines=lines)

    def record(self, index: int) -> str:
        for block in self.blocks(1, index, index + 1):
            for batch in self.texts(block):
                return batch.texts[0]
        raise IndexError(f"record {index}")

    @property
    def files(self) -> Sequence[Path]:
        return [container.path for container in self.containers]

    def file_counts(self) -> Sequence[int]:
        return [int(count) for count in np.diff(self._firsts)]

    def record_line(self, index: int) -> None:  # noqa: ARG002 - a row is no line
        return None

    def record_place(self, index: int) -> Place:
        """See `protocols.LocatedRecords`: the group that a row is in."""
        check_interval(index, index + 1, self.count(), "records")
        number = int(np.searchsorted(self._firsts, index, side="right")) - 1
        container, row = self.containers[number], index - int(self._firsts[number])
        for group in container.groups:
            if row < group.rows:
                break
            row -= group.rows
        return Place(container.path, group.begin, None, f"row {row:,} of {container.unit} {group.number:,}")

    def record_at(self, path: Path, offset: int) -> int | None:
        """The first row of the group that holds a byte."""
        for container, first in zip(self.containers, self._firsts.tolist(), strict=False):
            for group in container.groups if container.path == path else ():
                if 0 <= offset - group.begin < group.size:
                    return first if group.rows else None
                first += group.rows  # noqa: PLW2901 - of the next group
        return None

    def close(self) -> None:
        for container in self.containers:
            container.file.close()
