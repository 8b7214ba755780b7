"""The base class `RecordReader`: documents before they are tokens, as text or as lists of token IDs.

A record reader cannot address tokens, because the number of tokens of a text is unknown. It has *blocks* instead:
disjoint parts in order, each of which one task can convert to tokens. `tokfmt.text.ingest` does so, into scratch
shards, which are token readers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.chats import Pairs, pair_text
from tokfmt.core.ragged import Offsets, Ragged
from tokfmt.core.reader import ByteOffset, Damage, Facts
from tokfmt.errors import TokfmtError
from tokfmt.files.place import Place


class Block(NamedTuple):
    """A run of whole records in one file."""

    file: int  # index in the reader
    start: int  # of the first record in the file
    stop: int  # after the last record; a compressed file is one block: 0 to its size on disk
    first: int = -1  # in the dataset, of its first record; -1 if the records were not counted
    records: int = -1  # to read; -1 for all


Spot = tuple[int, int]
"""A line: the index of its file in the reader, and its byte offset in the text of the file."""

_REMEMBERED = 5
NAMED_FIELDS = 1_000
"""Largest number of field names that are counted. Later names are ignored."""


class SkippedRecords(NamedTuple):
    """Counts of what a read leaves out: lines that are not records, and fields that are not read."""

    invalid: int = 0  # lines that are not records
    faults: tuple[Spot, ...] = ()  # the first five of these lines
    others: int = 0  # records that have fields other than the one that is read
    first: Spot | None = None  # the line of the first such record
    fields: Mapping[str, int] = {}  # records that have each such field, by its name, for the first thousand names
    blank: int = 0  # blank lines, which are neither records nor errors
    columns: Mapping[str, int] = {}  # what the columns beside token IDs state, in the numbers of `model.rows.RowFacts`

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
            dict(Counter(self.columns) + Counter(more.columns)),
        )

    def facts(self) -> list[object]:
        """Return the attributes as JSON values."""
        first = list(self.first) if self.first else None
        faults = [list(spot) for spot in self.faults]
        return [self.invalid, faults, self.others, first, dict(self.fields), self.blank, dict(self.columns)]

    @staticmethod
    def recalled(facts: Sequence[Any]) -> SkippedRecords:
        """Return the object of the JSON values of `facts`."""
        invalid, faults, others, first, fields, blank, columns = facts
        return SkippedRecords(
            invalid, tuple((a, b) for a, b in faults), others, first and (first[0], first[1]), fields, blank, columns
        )


class RecordBatch(NamedTuple):
    """Some consecutive records. The method that returned it determines which attribute is filled."""

    texts: Sequence[str] = ()  # one per record (`RecordReader.texts`)
    ragged: Ragged | None = None  # the token IDs of the records (`RecordReader.ids`)
    lines: Sequence[bytes] = ()  # the records as JSON lines, without line end (`RecordReader.lines`)
    tokens: int | None = None  # of token IDs in `lines`, if the reader knows it
    # lines left out with `--allow-loss invalid-lines`; with `Hints.collect_invalid`, fields as well
    skipped: SkippedRecords = SkippedRecords()
    # int64, byte offset of the line of each of `texts` in the decompressed text of its file; None if records are not
    # lines
    begins: Offsets | None = None
    # uint8 per token of `ragged`, see `core.loss_mask`; None if all count. If `RecordInfo.loss_masks`, every batch
    # has some
    marks: NDArray[np.uint8] | None = None

    @property
    def invalid(self) -> int:
        """Number of lines left out."""
        return self.skipped.invalid


@dataclass(frozen=True, slots=True)
class RecordInfo(Facts):
    """Facts about a dataset of records; `Facts` has more."""

    is_samples: ClassVar[bool] = False
    kind: str  # "text" or "ids"
    size: int  # of all files in bytes
    records: int | None  # if an index or a scan gives it
    random_access: bool  # False for compressed files
    # Each record is a line with a JSON object. A conversion to jsonl copies the line with all its fields
    # (`RecordReader.lines`). If False, jsonl gets what `texts` or `ids` return.
    json_lines: bool = False
    field: str = ""  # dotted path of the text or the IDs in a record
    # Records are chats, whose texts are those of `core.chats.chat_text`: "masked" if what the assistant says is to be
    # marked, "plain" if it is not; "" for other texts and for IDs.
    chats: Literal["", "masked", "plain"] = ""
    pairs: Pairs = ""  # of chats, what their prompts and completions are: those of text need no chat template

    @property
    def is_text(self) -> bool:
        """True if a record is text, False if it is token IDs."""
        return self.kind == "text"

    @property
    def is_templated(self) -> bool:
        """True if a chat template renders the records."""
        return bool(self.chats) and self.pairs != "texts"

    @property
    def _own(self) -> Mapping[str, object]:
        return {"field": self.field}


class Line(NamedTuple):
    """The line of a record."""

    path: Place
    number: int  # from 1
    offset: int  # in the text, where the line begins
    decompressed: bool  # the text is the decompressed content of the file


class RecordReader(ABC):
    """Records of text or of token IDs, in order. Picklable, without open handles.

    A reader of a format defines `info`, `count`, `blocks`, `texts`, `ids` and `record`. Everything else has a default,
    which is right for a format without that; nobody asks whether a reader has a method.
    """

    has_labels: ClassVar[bool] = False
    info: RecordInfo  # known without a read of records
    # if the reader finds the file and the byte offset of a record: `Block.file` is an index into them; else empty
    files: Sequence[Place] = ()
    describes_lines: bool = False  # `record_error` and `line` describe the lines that batches report as invalid

    @abstractmethod
    def count(self) -> int:
        """Return the number of records. Scans the files if it is not stored."""

    def count_up_to(self, last: int) -> int:
        """Return the number of records, counted up to record `last` only.

        The default reads the first records if it does not know the number.
        """
        if self.info.records is not None:
            return self.info.records
        found, read = 0, self.texts if self.info.is_text else self.ids
        for batch in (batch for block in self.blocks(1 << 20) for batch in read(block)):
            found += len(batch.texts) + (0 if batch.ragged is None else len(batch.ragged))
            if found >= last:
                break
        return found

    def file_counts(self) -> Sequence[int]:
        """Return the number of records of each of `files`. Counts them on the first call."""
        return ()

    @abstractmethod
    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Return disjoint blocks of about `size` bytes, in order, of records `first <= i < last` (None: to the end)."""

    @abstractmethod
    def texts(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the texts of a block in batches; invalid lines raise, or are reported (`Hints.collect_invalid`)."""

    @abstractmethod
    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the token IDs of a block, each below 2^32, in batches of bounded size."""

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the records as JSON lines, in batches of bounded size.

        With `info.json_lines`, they are as they are in the file, validated. The default makes them from text or IDs.
        """
        if self.info.is_text:
            for batch in self.texts(block):
                if self.info.pairs:
                    lines = [(text or pair_text("", "", "texts")).encode() for text in batch.texts]
                elif self.info.chats:
                    lines = [f'{{"messages": {text or "[]"}}}'.encode() for text in batch.texts]
                else:
                    lines = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in batch.texts]
                yield RecordBatch(lines=lines, skipped=batch.skipped)
        else:
            for batch in self.ids(block):
                ids = Ragged.of([]) if batch.ragged is None else batch.ragged
                lines = [json.dumps({"input_ids": one}).encode() for one in ids.tolist()]
                yield RecordBatch(lines=lines, tokens=len(ids.tokens), skipped=batch.skipped)

    def stored_bytes(self, block: Block, batch: RecordBatch, count: int) -> int | None:  # noqa: ARG002
        """Return about how many bytes of its file the first records of a block take; None if not known."""
        return (block.stop - block.start) * count // block.records if block.records > 0 else None

    @abstractmethod
    def record(self, index: int) -> str | list[int]:
        """Return one record: its text, or its IDs."""

    def record_line(self, index: int) -> Line | None:  # noqa: ARG002
        """Return the line of a record; None if records are not lines. Reads the text before it."""
        return None

    def record_byte_offset(self, index: int) -> ByteOffset:
        """Return the byte offset of the line of a record, whose `width` is its length without the line end.

        The first call may count all records. A reader that does not know the files raises LookupError.
        """
        raise LookupError(f"the file of record {index} is not known")

    def record_at(self, path: Place, offset: int) -> int | None:  # noqa: ARG002
        """Return the record whose line holds a byte of a file; None without one."""
        return None

    def record_error(self, spot: Spot) -> TokfmtError:
        """Return the error of a line that a batch reported as invalid, with the line number and the byte offset."""
        raise LookupError(f"the reader does not describe invalid lines such as {spot}")

    def line(self, spot: Spot) -> tuple[Place, int]:
        """Return the file of a line that a batch reported, and the number of the line in it, from 1."""
        raise LookupError(f"the reader does not describe lines such as {spot}")

    def damaged_records(self) -> Sequence[Damage]:
        """Return the records that are skipped with `Hints.allow_partial` and that `open` did not find.

        Reads the whole dataset.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - a reader without open files
        """Close open files."""


class RecordView(RecordReader):
    """The records of another reader, of which a subclass changes something."""

    def __init__(self, records: RecordReader) -> None:
        self.records = records
        self.describes_lines = records.describes_lines

    @property
    def info(self) -> RecordInfo:  # type: ignore[override]
        return self.records.info

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        return self.records.files

    def count(self) -> int:
        return self.records.count()

    def count_up_to(self, last: int) -> int:
        return self.records.count_up_to(last)

    def file_counts(self) -> Sequence[int]:
        return self.records.file_counts()

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        return self.records.blocks(size, first, last)

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.texts(block)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.ids(block)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.lines(block)

    def record(self, index: int) -> str | list[int]:
        return self.records.record(index)

    def record_line(self, index: int) -> Line | None:
        return self.records.record_line(index)

    def record_byte_offset(self, index: int) -> ByteOffset:
        return self.records.record_byte_offset(index)

    def record_at(self, path: Place, offset: int) -> int | None:
        return self.records.record_at(path, offset)

    def record_error(self, spot: Spot) -> TokfmtError:
        return self.records.record_error(spot)

    def line(self, spot: Spot) -> tuple[Place, int]:
        return self.records.line(spot)

    def damaged_records(self) -> Sequence[Damage]:
        return self.records.damaged_records()

    def close(self) -> None:
        self.records.close()


def counted_records(records: RecordReader, block: Block) -> int:
    """Return the number of records in a block. Reads the block."""
    if records.info.json_lines:
        return sum(len(batch.lines) for batch in records.lines(block))
    if records.info.is_text:
        return sum(len(batch.texts) for batch in records.texts(block))
    return sum(len(batch.ragged) for batch in records.ids(block) if batch.ragged is not None)


def has_records(records: RecordReader) -> bool:
    """Return whether there is any record. Reads up to the first record."""
    batches = (batch for block in records.blocks(1 << 20) for batch in records.lines(block))
    return any(batch.lines for batch in batches)


class TextRecords(RecordReader):
    """Common methods of readers of text whose records are not JSON lines."""

    @property
    @abstractmethod
    def firsts(self) -> Offsets:
        """int64[files + 1], the number of the first record of each file, and the number of all records."""

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
