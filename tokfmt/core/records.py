"""The protocol `RecordReader`: documents before they are tokens, as text or as lists of token IDs.

A record reader cannot address tokens, because the number of tokens of a text is unknown. It has *blocks* instead:
disjoint parts in order, each of which one task can convert to tokens. `tokfmt.text.ingest` does so, into scratch
shards, which are token readers.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import Loss
from tokfmt.core.ragged import Offsets, Ragged
from tokfmt.core.reader import CachedProtocolMeta, Damage


class Block(NamedTuple):
    """A run of whole records in one file.

    Attributes:
        file: Index of the file in the reader.
        start: Byte offset of the first record in the file.
        stop: Byte offset after the last record. A compressed file is one block: 0 to its size on disk.
        first: Number of its first record in the dataset; -1 if the records were not counted.
        records: Number of records to read; -1 for all.
    """

    file: int
    start: int
    stop: int
    first: int = -1
    records: int = -1


CHATS = "holds chats, which need a chat template to become text"


def are_chats(fields: Iterable[str]) -> bool:
    """Return whether the names of fields or columns are those of chats."""
    return not {"messages", "conversations"}.isdisjoint(fields)


Spot = tuple[int, int]
"""A line: the index of its file in the reader, and its byte offset in the text of the file."""

_REMEMBERED = 5
NAMED_FIELDS = 1_000
"""Largest number of field names that are counted. Later names are ignored."""


class SkippedRecords(NamedTuple):
    """Counts of what a read leaves out: lines that are not records, and fields that are not read.

    Attributes:
        invalid: Number of lines that are not records.
        faults: The first five of these lines.
        others: Number of records that have fields other than the one that is read.
        first: The line of the first such record.
        fields: Number of records that have each such field, by field name, for the first thousand names.
        blank: Number of blank lines, which are neither records nor errors.
    """

    invalid: int = 0
    faults: tuple[Spot, ...] = ()
    others: int = 0
    first: Spot | None = None
    fields: Mapping[str, int] = {}
    blank: int = 0

    def __add__(self, more: object) -> SkippedRecords:
        if not isinstance(more, SkippedRecords):
            return NotImplemented
        names = sorted(self.fields.keys() | more.fields.keys())[:NAMED_FIELDS]
        fields = {name: self.fields.get(name, 0) + more.fields.get(name, 0) for name in names}
        return SkippedRecords(
            self.invalid + more.invalid,
            tuple(sorted(self.faults + more.faults)[:_REMEMBERED]),
            self.others + more.others,
            min(filter(None, (self.first, more.first)), default=None),
            fields,
            self.blank + more.blank,
        )

    def facts(self) -> list[object]:
        """Return the attributes as JSON values."""
        first = list(self.first) if self.first else None
        return [self.invalid, [list(spot) for spot in self.faults], self.others, first, dict(self.fields), self.blank]

    @staticmethod
    def recalled(facts: Sequence[Any]) -> SkippedRecords:
        """Return the object of the JSON values of `facts`."""
        invalid, faults, others, first, fields, blank = facts
        return SkippedRecords(
            invalid, tuple((a, b) for a, b in faults), others, first and (first[0], first[1]), fields, blank
        )


class RecordBatch(NamedTuple):
    """Some consecutive records. The method that returned it determines which attribute is filled.

    Attributes:
        texts: One string per record (`RecordReader.texts`).
        ragged: The token IDs of the records (`RecordReader.ids`).
        lines: The records as JSON lines, without line end (`json_lines`).
        tokens: Number of token IDs in `lines`, if the reader knows it.
        skipped: Lines left out with `--allow-loss invalid-lines`; with `Hints.collect_invalid`, fields as well.
        begins: int64, byte offset of the line of each of `texts` in the decompressed text of its file; None if records
            are not lines.
        marks: uint8 per token of `ragged`, see `core.loss_mask`; None if `RecordInfo.loss_masks` is empty.
    """

    texts: Sequence[str] = ()
    ragged: Ragged | None = None
    lines: Sequence[bytes] = ()
    tokens: int | None = None
    skipped: SkippedRecords = SkippedRecords()
    begins: Offsets | None = None
    marks: NDArray[np.uint8] | None = None

    @property
    def invalid(self) -> int:
        """Number of lines left out."""
        return self.skipped.invalid


@dataclass(frozen=True, slots=True)
class RecordInfo:
    """Facts about a dataset of records.

    Attributes:
        kind: Content of a record: "text" or "ids".
        size: Size of all files in bytes.
        records: Number of records, if an index or a scan gives it.
        random_access: False for compressed files.
        json_lines: Each record is a line with a JSON object. A conversion to jsonl copies the line with all its fields
            (`JsonLines.lines`). If False, jsonl gets what `texts` or `ids` return.
        field: Dotted path of the text or the IDs in a record.
        eos_id: The separator, if the records state it.
        loss_masks: Description of loss masks or labels beside the IDs, which `ids` returns as marks; "" without any.
        inferred, notes, split, other_splits, extras, facts, damage, lost, made_by: As in `reader.Info`.
    """

    kind: str
    size: int
    records: int | None
    random_access: bool
    json_lines: bool = False
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    field: str = ""
    eos_id: int | None = None
    loss_masks: str = ""
    split: str | None = None
    other_splits: tuple[str, ...] = ()
    extras: Mapping[str, object] = dataclasses.field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    lost: tuple[Loss, ...] = ()
    made_by: Mapping[str, Any] | None = None

    @property
    def facts(self) -> Mapping[str, object]:
        splits = {"split": self.split, "other_splits": self.other_splits} if self.split is not None else {}
        masks = {"loss_masks": self.loss_masks.removeprefix("loss masks ")} if self.loss_masks else {}
        return {**splits, **masks, **self.extras, "field": self.field}


@runtime_checkable
class RecordReader(Protocol, metaclass=CachedProtocolMeta):
    """Records of text or of token IDs, in order. Picklable, without open handles."""

    @property
    def info(self) -> RecordInfo: ...

    def count(self) -> int:
        """Return the number of records. Scans the files if it is not stored."""

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Return disjoint blocks of about `size` bytes, in order, of records `first <= i < last` (None: to the end)."""

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the texts of a block, in batches of bounded size.

        With `Hints.collect_invalid`, it does not raise: batches report the lines and fields.

        Raises:
            FormatError: If a line is not valid. The message has its number and byte offset.
            LossyConversionError: If a record has other fields, and --allow-loss fields is not given.
        """

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the token IDs of a block, each below 2^32, in batches of bounded size."""

    def record(self, index: int) -> str | list[int]:
        """Return one record: its text, or its IDs."""

    def close(self) -> None: ...


class JsonLines(RecordReader, Protocol):
    """A reader with `info.json_lines`."""

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the records as they are in the file, validated, in batches of bounded size."""


def json_lines(records: RecordReader, block: Block) -> Iterator[RecordBatch]:
    """Yield the records of a block as JSON lines. JSON lines are unchanged; others are built from text or IDs."""
    if records.info.json_lines:
        yield from cast("JsonLines", records).lines(block)
    elif records.info.kind == "text":
        for batch in records.texts(block):
            lines = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in batch.texts]
            yield RecordBatch(lines=lines, skipped=batch.skipped)
    else:
        for batch in records.ids(block):
            ids = Ragged.of([]) if batch.ragged is None else batch.ragged
            lines = [json.dumps({"input_ids": one}).encode() for one in ids.tolist()]
            yield RecordBatch(lines=lines, tokens=len(ids.tokens), skipped=batch.skipped)


def counted_records(records: RecordReader, block: Block) -> int:
    """Return the number of records in a block. Reads the block."""
    if records.info.json_lines:
        return sum(len(batch.lines) for batch in json_lines(records, block))
    if records.info.kind == "text":
        return sum(len(batch.texts) for batch in records.texts(block))
    return sum(len(batch.ragged) for batch in records.ids(block) if batch.ragged is not None)


def has_records(records: RecordReader) -> bool:
    """Return whether there is any record. Reads up to the first record."""
    batches = (batch for block in records.blocks(1 << 20) for batch in json_lines(records, block))
    return any(batch.lines for batch in batches)


class TextRecords(ABC):
    """Common methods of readers of text whose records are not JSON lines."""

    @property
    @abstractmethod
    def firsts(self) -> Offsets:
        """int64[files + 1], the number of the first record of each file, and the number of all records."""

    @abstractmethod
    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Implement `RecordReader.blocks`."""

    @abstractmethod
    def texts(self, block: Block) -> Iterator[RecordBatch]:
        """Implement `RecordReader.texts`."""

    def count(self) -> int:
        return int(self.firsts[-1])

    def file_counts(self) -> Sequence[int]:
        return [int(count) for count in np.diff(self.firsts)]

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """Yield an empty batch, because the records are text."""
        del block
        yield RecordBatch(ragged=Ragged.of([]))

    def record(self, index: int) -> str:
        for block in self.blocks(1, index, index + 1):
            for batch in self.texts(block):
                return batch.texts[0]
        raise IndexError(f"there is no record {index}")
