"""Documents before they are tokens: text, or lists of ids, one record each.

A `RecordReader` cannot address tokens (nobody knows how many a text has), so it offers *blocks* instead: disjoint parts
in order, each of which one task can turn into tokens. `tokfmt.text.ingest` does, into scratch shards that are token
readers themselves; nothing downstream knows the difference.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from tokfmt.core.messages import Message
from tokfmt.core.ragged import Offsets, Ragged
from tokfmt.core.reader import CachedProtocolMeta, Damage


class Block(NamedTuple):
    """A run of whole records in one file.

    Attributes:
        file: Which of the reader's files.
        start, stop: Byte offsets in it. A compressed file is one block: 0 to its size on disk.
        first: Number of its first record in the dataset, or -1 when nobody has counted.
        records: How many to take; -1 for all.
    """

    file: int
    start: int
    stop: int
    first: int = -1
    records: int = -1


CHATS = "holds chats, which a chat template has to make text of"


def are_chats(fields: Iterable[str]) -> bool:
    """Whether fields or columns, none of which is the text that was looked for, are those of chats."""
    return not {"messages", "conversations"}.isdisjoint(fields)


Spot = tuple[int, int]
"""Which of a reader's files, and at which byte of its text a line begins."""

_REMEMBERED = 5
NAMED_FIELDS = 1_000
"""Names of fields that are counted: the first of those there are."""


class SkippedRecords(NamedTuple):
    """What of some records does not go along: lines that are no record, and fields that nobody reads.

    Attributes:
        invalid: Lines that are no record.
        faults: Where the first five of them are.
        others: Records that have fields beside the one that is read.
        first: Where the first of those is.
        fields: How many records have each such field, by name: of the first thousand names there are.
        blank: Blank lines, which are no records and no error.
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
        """As JSON."""
        first = list(self.first) if self.first else None
        return [self.invalid, [list(spot) for spot in self.faults], self.others, first, dict(self.fields), self.blank]

    @staticmethod
    def recalled(facts: Sequence[Any]) -> SkippedRecords:
        """From `facts`."""
        invalid, faults, others, first, fields, blank = facts
        return SkippedRecords(
            invalid, tuple((a, b) for a, b in faults), others, first and (first[0], first[1]), fields, blank
        )


class RecordBatch(NamedTuple):
    """Some consecutive records; which of the three lists is filled depends on what was asked for.

    Attributes:
        texts: One string a record (`RecordReader.texts`).
        ragged: The ids of the records (`RecordReader.ids`).
        lines: The records as JSON lines, without line end (`json_lines`).
        tokens: How many ids `lines` hold together, where the reader knows.
        aside: Lines left out, because the user said `--allow-loss invalid-lines`; with `Hints.collect` fields as well.
        begins: int64, at which byte of its file's text, decompressed, each of `texts` has its line; None where records
            are no lines.
    """

    texts: Sequence[str] = ()
    ragged: Ragged | None = None
    lines: Sequence[bytes] = ()
    tokens: int | None = None
    aside: SkippedRecords = SkippedRecords()
    begins: Offsets | None = None

    @property
    def invalid(self) -> int:
        """Lines left out."""
        return self.aside.invalid


@dataclass(frozen=True, slots=True)
class RecordInfo:
    """What is known of a dataset of records.

    Attributes:
        kind: "text" or "ids": what a record holds.
        size: Bytes of all files.
        records: Their number, when an index or a scan tells it.
        random_access: False for compressed files.
        json_lines: Each record is a line that holds a JSON object, which `JsonLines.lines` gives as it stands: jsonl
            gets a copy, with all its fields. Else jsonl gets what `texts` or `ids` give.
        field: Where in a record that is, as a dotted path.
        eos_id: The separator of what becomes of them, when they state it.
        inferred, notes, split, other_splits, extras, facts, damage: As in `axis.Info`.
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
    split: str | None = None
    other_splits: tuple[str, ...] = ()
    extras: Mapping[str, object] = dataclasses.field(default_factory=dict)
    damage: tuple[Damage, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "inferred", tuple(map(Message, self.inferred)))
        object.__setattr__(self, "notes", tuple(map(Message, self.notes)))

    @property
    def facts(self) -> Mapping[str, object]:
        splits = {"split": self.split, "other_splits": self.other_splits} if self.split is not None else {}
        return {**splits, **self.extras, "field": self.field}


@runtime_checkable
class RecordReader(Protocol, metaclass=CachedProtocolMeta):
    """Records of text or of ids, in order. Picklable, no open handles."""

    @property
    def info(self) -> RecordInfo: ...

    def count(self) -> int:
        """Number of records; scans when nothing else tells it."""

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Disjoint blocks of about `size` bytes, in order, that hold records `first <= i < last` (None: to the end)."""

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        """The texts of a block, a bounded batch at a time.

        Raises:
            FormatError: A line that is not valid, with its number and byte offset.
            LossyConversionError: A record has other fields, and `fields` was not dropped.
            Neither with `Hints.collect`: batches tell.
        """

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """The ids of a block, each below 2^32, a bounded batch at a time."""

    def record(self, index: int) -> str | list[int]:
        """One record: its text, or its ids."""

    def close(self) -> None: ...


class JsonLines(RecordReader, Protocol):
    """A reader whose `info.json_lines` is true."""

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        """The records as they stand in the file, validated, a bounded batch at a time."""


def json_lines(records: RecordReader, block: Block) -> Iterator[RecordBatch]:
    """The records of a block as JSON lines: as they stand if they are such, else made of their text or their ids."""
    if records.info.json_lines:
        yield from cast("JsonLines", records).lines(block)
    elif records.info.kind == "text":
        for batch in records.texts(block):
            lines = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in batch.texts]
            yield RecordBatch(lines=lines, aside=batch.aside)
    else:
        for batch in records.ids(block):
            ids = Ragged.of([]) if batch.ragged is None else batch.ragged
            lines = [json.dumps({"input_ids": one}).encode() for one in ids.tolist()]
            yield RecordBatch(lines=lines, tokens=len(ids.tokens), aside=batch.aside)


def counted_records(records: RecordReader, block: Block) -> int:
    """How many records a block holds, found by reading it."""
    if records.info.json_lines:
        return sum(len(batch.lines) for batch in json_lines(records, block))
    if records.info.kind == "text":
        return sum(len(batch.texts) for batch in records.texts(block))
    return sum(len(batch.ragged) for batch in records.ids(block) if batch.ragged is not None)


def has_records(records: RecordReader) -> bool:
    """Whether there is any record; reads no farther than to the first."""
    batches = (batch for block in records.blocks(1 << 20) for batch in json_lines(records, block))
    return any(batch.lines for batch in batches)


class TextRecords(ABC):
    """What readers of text share whose records are not JSON lines."""

    @property
    @abstractmethod
    def firsts(self) -> Offsets:
        """int64[files + 1], the number of the first record of each file, and of all."""

    @abstractmethod
    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """See `RecordReader`."""

    @abstractmethod
    def texts(self, block: Block) -> Iterator[RecordBatch]:
        """See `RecordReader`."""

    def count(self) -> int:
        return int(self.firsts[-1])

    def file_counts(self) -> Sequence[int]:
        return [int(count) for count in np.diff(self.firsts)]

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """There are none."""
        del block
        yield RecordBatch(ragged=Ragged.of([]))

    def record(self, index: int) -> str:
        for block in self.blocks(1, index, index + 1):
            for batch in self.texts(block):
                return batch.texts[0]
        raise IndexError(f"record {index}")
