"""Documents before they are tokens: text, or lists of ids, one record each.

A `RecordReader` cannot address tokens (nobody knows how many a text has), so it offers *blocks* instead: disjoint parts
in order, each of which one task can turn into tokens. `tokfmt.text.ingest` does, into scratch shards that are token
readers themselves; nothing downstream knows the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from tokfmt.core.ragged import Ragged


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


class RecordBatch(NamedTuple):
    """Some consecutive records; which of the three lists is filled depends on what was asked for.

    Attributes:
        texts: One string a record (`RecordReader.texts`).
        ragged: The ids of the records (`RecordReader.ids`).
        lines: The records as they stand in the file, without line end (`RecordReader.lines`).
        invalid: Lines left out, because the user said `--drop invalid-lines`.
    """

    texts: Sequence[str] = ()
    ragged: Ragged | None = None
    lines: Sequence[bytes] = ()
    invalid: int = 0


@dataclass(frozen=True, slots=True)
class RecordInfo:
    """What is known of a dataset of records.

    Attributes:
        kind: "text" or "ids": what a record holds.
        size: Bytes of all files.
        records: Their number, when an index or a scan tells it.
        random_access: False for compressed files.
        inferred, notes, extras: As in `axis.Info`.
    """

    kind: str
    size: int
    records: int | None
    random_access: bool
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable
class RecordReader(Protocol):
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
        """

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """The ids of a block, a bounded batch at a time."""

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        """The records as bytes, validated, a bounded batch at a time."""

    def record(self, index: int) -> str | list[int]:
        """One record: its text, or its ids."""

    def close(self) -> None: ...
