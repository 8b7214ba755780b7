"""Files of row groups and of record batches: opened, bounded, and read a few rows at a time; and their columns.

pyarrow decodes; what a file claims is looked at before, for pyarrow allocates as it is told: page headers and buffers
state the bytes that they decompress to, the footer and the messages how many rows and values there are. A file may
claim 1,100 times its bytes, as deflate can have it, or 16 Mi values (128 MiB) where that is more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core.errors import (
    CorruptError,
    FormatError,
    MissingDependencyError,
    TokfmtError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.core.files import Stream, open_file
from tokfmt.core.findings import Problem, noted
from tokfmt.core.messages import Option, allowing, from_option
from tokfmt.core.records import CHATS, are_chats
from tokfmt.core.text_format import counted, printable

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import ReadOptions, Variant

AT_ONCE = 1 << 21
"""Bytes of values that are decoded at once, or one row."""

MOST_VALUES, RATIO = 1 << 24, 1_100
_PAGE, _BODY = 1 << 28, 1 << 30
_LOOKED_AT = 1 << 22  # bytes of a dictionary; writers begin no other page of it after 1 MiB
_REPEATED = 1 << 25  # bytes of texts of a dictionary that are decoded at once, or one row
_DICTIONARY, _TEXT = 2, "BYTE_ARRAY"
_GROUPS, _CHUNKS, _CHUNK_METADATA, _ENCRYPTED, _SIZES = 4, 1, 3, 8, 16  # fields of the structs of a footer
_MAGIC, _ARROW, _FRAME = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_UNREADABLE = "the footer cannot be read"
_SCHEMA, _DICTIONARIES, _BATCH = 1, 2, 3
_NESTED = 16
_FOOTER = 1 << 26  # bytes: some 100,000 row groups of six columns
_SCHEMA_BYTES = 1 << 16  # in which the schema of an old stream is looked for

Path_ = tuple[int, ...]
Spans = dict[Path_, tuple[int, int]]


class Group(NamedTuple):
    """What is decoded by itself: a row group, or a record batch.

    Attributes:
        number: In its file.
        rows: How many.
        begin, size: Where it lies.
    """

    number: int
    rows: int
    begin: int
    size: int


class Facts(NamedTuple):
    """What a footer states of a column in a row group; None where it says nothing that can be relied on."""

    values: int | None = None
    top: int | None = None
    nulls: int | None = None


def arrow() -> Any:
    """The package pyarrow.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "arrow", "reading and writing Parquet and Arrow") from error
    return pa


@contextmanager
def worded(path: Path, what: str, remedy: str | None = None) -> Iterator[None]:
    """What pyarrow raises, as a FormatError of one line."""
    pa = arrow()
    try:
        yield
    except TokfmtError:
        raise
    except MemoryError as error:  # ArrowMemoryError is one
        raise UnsafeError(path, f"{what} would take more memory than there is") from error
    except NotImplementedError as error:
        raise UnsupportedError(path, what, found=_line(error)) from error
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise CorruptError(path, what, found=_line(error), remedy=remedy) from error


def _line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))[:200]


def _told(schema: Any) -> Any:
    """A schema whose names are text."""
    str(schema)
    return schema


def check_claim(path: Path, what: str, claimed: int, stored: int, width: int = 1) -> None:
    """Raise UnsafeError when so many values (or bytes, of values of a width) are claimed of what so few bytes hold."""
    if claimed > max(width * MOST_VALUES, RATIO * stored):
        most = f"at most {max(width * MOST_VALUES, RATIO * stored):,}"
        raise UnsafeError(path, f"{what} of {stored:,} bytes", expected=most, found=claimed, remedy="Not read: a bomb")


def check_rows(path: Path, rows: int, size: int) -> None:
    """Raise UnsafeError when a file claims more rows than it has bytes, of each of which the length is kept."""
    if rows > max(MOST_VALUES, size):
        raise UnsafeError(path, f"rows in {size:,} bytes", expected=f"at most {max(MOST_VALUES, size):,}", found=rows)


class ParquetContainer:
    """A Parquet file. Picklable; threads may share it."""

    unit = "row group"
    problems: Sequence[Problem] = ()

    def __init__(self, path: Path, *, tail: bool = False) -> None:  # noqa: ARG002 - a file without its end has no rows
        self.path, self.file = path, open_file(path)
        ends = self.file.read(max(0, self.file.size - 8), min(8, self.file.size))
        if self.file.size < 12 or ends[4:] != _MAGIC:
            if ends[4:] == b"PARE":
                raise UnsupportedError(path, "is an encrypted Parquet file", remedy="Write it without encryption")
            remedy = "Copy or download it again: without its end, where the footer is, nothing of it can be read"
            raise TruncatedError(
                path,
                "does not end as Parquet does",
                expected=_MAGIC.hex(" "),
                found=ends[4:].hex(" ") or "nothing",
                remedy=remedy,
            )
        length = int.from_bytes(ends[:4], "little")
        if length > self.file.size - 12:
            raise CorruptError(path, "length of the footer", offset=self.file.size - 8, found=length)
        metadata = self.metadata
        with worded(path, _UNREADABLE):
            self._check_columns(length)
        if metadata.num_rows != sum(group.rows for group in self.groups) or metadata.num_rows < 0:
            raise CorruptError(path, "rows in the footer", expected=metadata.num_rows, found="others in its row groups")
        check_rows(path, metadata.num_rows, self.file.size)

    def _open(self, metadata: Any = None) -> Any:
        pa = arrow()
        return pa.parquet.ParquetFile(
            pa.PythonFile(Stream(self.file), "r"), metadata=metadata, buffer_size=1 << 20, pre_buffer=False,
            thrift_container_size_limit=1 << 18, schema_depth_limit=64,
            page_checksum_verification=True, arrow_extensions_enabled=False,
        )  # fmt: skip

    @cached_property
    def metadata(self) -> Any:
        """What the footer says."""
        with worded(self.path, _UNREADABLE):
            return self._open().metadata

    def _check_columns(self, length: int) -> None:
        """Refuse column chunks at which pyarrow ends the process (26.0: `RowGroupMetaData.column` cannot raise).

        Args:
            length: Bytes of the footer.

        Raises:
            UnsafeError: The footer is too long to be looked at.
            CorruptError: There are not as many as columns, or their statistics of sizes contradict the schema.
            UnsupportedError: Their metadata are encrypted.
        """
        if length > _FOOTER:
            raise UnsafeError(self.path, "bytes of the footer", expected=f"at most {_FOOTER:,}", found=length)
        schema = self.metadata.schema
        leaves = [schema.column(k) for k in range(len(schema))]
        for number, group in enumerate(_groups_of(self.file.read(self.file.size - 8 - length, length))):
            chunks = found if isinstance(found := group.get(_CHUNKS), list) else []
            if len(chunks) != len(leaves):
                what = f"column chunks of row group {number:,}"
                raise CorruptError(self.path, what, expected=len(leaves), found=len(chunks))
            for chunk, leaf in zip(map(_struct, chunks), leaves, strict=True):
                if _ENCRYPTED in chunk:
                    what, remedy = f'has an encrypted column "{printable(leaf.path)}"', "Write it without encryption"
                    raise UnsupportedError(self.path, what, remedy=remedy)
                sizes = _struct(_struct(chunk.get(_CHUNK_METADATA)).get(_SIZES))
                levels = {2: leaf.max_repetition_level, 3: leaf.max_definition_level}
                counts = {field: sizes.get(field) for field in levels}
                fits = all(len(c) in (0, levels[field] + 1) for field, c in counts.items() if isinstance(c, list))
                if not fits or (1 in sizes and leaf.physical_type != _TEXT):
                    what = f'statistics of sizes of the column "{printable(leaf.path)}" in row group {number:,}'
                    raise CorruptError(self.path, what, expected="as its type has them", found="others")

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns."""
        with worded(self.path, "the columns cannot be read"):
            return _told(self._open(self.metadata).schema_arrow)

    @cached_property
    def groups(self) -> list[Group]:
        """Its row groups."""
        found = []
        with worded(self.path, "the row groups cannot be read"):
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                chunks = [_extent(group.column(k)) for k in range(min(group.num_columns, 64))]
                begin = min((begin for begin, _ in chunks), default=0)
                size = max((begin + size for begin, size in chunks), default=begin) - begin
                if group.num_rows < 0 or begin < 0 or begin + size > self.file.size:
                    raise CorruptError(self.path, f"row group {number:,} leaves the file", expected=self.file.size)
                found.append(Group(number, group.num_rows, begin, size))
        return found

    def chunks(self, group: Group, columns: Sequence[str]) -> list[Any]:
        """The column chunks that some columns are made of."""
        row = self.metadata.row_group(group.number)
        every = (row.column(k) for k in range(row.num_columns))
        return [c for c in every if any(f"{c.path_in_schema}.".startswith(f"{name}.") for name in columns)]

    def facts(self, group: Group, column: str) -> Facts:
        """Relied on only where Arrow itself wrote them: others count empty lists otherwise."""
        with worded(self.path, _UNREADABLE):
            chunks = self.chunks(group, [column])
            known = chunks[0].statistics if len(chunks) == 1 and chunks[0].is_stats_set else None
            made = (self.metadata.created_by or "").startswith("parquet-cpp-arrow")
            if known is None or not made or not known.has_null_count or known.num_values < 0:
                return Facts()
            check_claim(self.path, "ids in a column", known.num_values, chunks[0].total_compressed_size)
            numbers = known.has_min_max and known.physical_type in ("INT32", "INT64")
            top = known.max if numbers else None  # of text it may be cut within a character
            return Facts(known.num_values, top, known.null_count)

    def text_bytes(self, group: Group, column: str) -> int:
        """Bytes of a column when it is decompressed, as the footer says."""
        with worded(self.path, _UNREADABLE):
            return max(0, sum(int(chunk.total_uncompressed_size) for chunk in self.chunks(group, [column])))

    def batches(self, group: Group, columns: Sequence[str]) -> Iterator[Any]:
        """The rows of a group in order, a bounded number at a time: record batches of these columns.

        Raises:
            FormatError: It cannot be decoded, or claims what it cannot hold.
        """
        with worded(self.path, f"{self.unit} {group.number:,} cannot be read"):
            chunks, weight, longest = self.chunks(group, columns), 1, 1
            for chunk in chunks:
                weight = max(weight, chunk.total_uncompressed_size, 4 * chunk.num_values)
                check_claim(self.path, "values in a column", chunk.num_values, chunk.total_compressed_size)
                for kind, at, size, stored in self.pages(chunk):
                    if kind == _DICTIONARY and chunk.physical_type == _TEXT:
                        longest = max(longest, self._longest_word(chunk, at, size, stored))
                if group.rows > chunk.num_values:
                    raise CorruptError(self.path, "rows of a column", expected=group.rows, found=chunk.num_values)
            rows = min(max(1, group.rows * AT_ONCE // weight), 1 << 17, max(1, _REPEATED // longest))
            reader = self._open(self.metadata)
            yield from reader.iter_batches(rows, [group.number], columns=list(columns), use_threads=False)

    def _longest_word(self, chunk: Any, at: int, size: int, stored: int) -> int:
        """Bytes of the longest text in a dictionary, which any number of rows may repeat.

        Args:
            chunk: A column chunk of texts.
            at, size, stored: Byte of the page of its dictionary, and its size when decompressed and with its header.

        Returns:
            All bytes of the dictionary, if it is large or compressed in a way that only the reader of pages knows.
        """
        if size > _LOOKED_AT:
            return size
        data = self.file.read(at, stored)
        _, head = thrift(data)
        page = memoryview(data)[head:]
        if chunk.compression != "UNCOMPRESSED":
            name = "lz4_raw" if chunk.compression == "LZ4" else chunk.compression.lower()
            try:
                page = memoryview(arrow().decompress(page, size, name))
            except (arrow().ArrowException, OSError, ValueError):
                return size
        longest = begin = 0
        while begin + 4 <= len(page):
            length = int.from_bytes(page[begin : begin + 4], "little")
            longest, begin = max(longest, min(length, size)), begin + 4 + length
        return longest

    def pages(self, chunk: Any) -> Iterator[tuple[int, int, int, int]]:
        """Kind, byte, size when decompressed, and size with its header, of each page; checks that they fit."""
        at, size = _extent(chunk)
        end = at + size
        while at < end:
            for room in (256, 1 << 16, 1 << 22):
                head = self.file.read(at, min(room, end - at))
                try:
                    fields, length = thrift(head)
                    break
                except (IndexError, ValueError) as error:
                    if len(head) < room or isinstance(error, ValueError):
                        raise CorruptError(self.path, "the header of a page is none", offset=at) from error
            kind, plain, stored = (fields.get(k, -1) for k in (1, 2, 3))
            if isinstance(plain, int) and plain > _PAGE:
                raise UnsafeError(self.path, "a page is too large", offset=at, expected=f"{_PAGE:,}", found=plain)
            if not all(isinstance(n, int) and n >= 0 for n in (kind, plain, stored)) or at + length + stored > end:
                raise CorruptError(self.path, "the header of a page cannot be true", offset=at)
            check_claim(self.path, f"bytes of the page at byte {at:,}, when it is decompressed,", plain, stored, 8)
            yield kind, at, plain, length + stored
            at += length + stored


def _extent(chunk: Any) -> tuple[int, int]:
    begins = [b for b in (chunk.dictionary_page_offset, chunk.data_page_offset) if b is not None and b >= 4]
    return min(begins, default=4), max(0, chunk.total_compressed_size)


def thrift(data: bytes, at: int = 0, path: Path_ = (), spans: Spans | None = None) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol.

    Args:
        data: Where it is.
        at: Where it begins.
        path: Numbers of the fields and items that it lies in.
        spans: Told where each value begins and ends, by its path.

    Returns:
        Values by number of the field, and where it ends.

    Raises:
        IndexError: It does not end.
        ValueError: It is none.
    """
    fields: dict[int, Any] = {}
    number = 0
    while kind := data[at]:
        number, at = _number(data, at, number)
        fields[number], at = _value(data, at, kind & 15, (*path, number), spans)
    return fields, at + 1


def _struct(value: object) -> dict[int, Any]:
    """The fields of a struct; none of what is not one, which pyarrow skips."""
    return value if isinstance(value, dict) else {}


def _groups_of(footer: bytes) -> Iterator[dict[int, Any]]:
    """The row groups of a footer, one at a time."""
    number = at = 0
    while kind := footer[at]:
        number, at = _number(footer, at, number)
        if number != _GROUPS or kind & 15 != 9:
            _, at = _value(footer, at, kind & 15, (number,), None)
            continue
        count, _, at = _list_head(footer, at)
        for _ in range(count):
            group, at = thrift(footer, at)
            yield group


def _number(data: bytes, at: int, before: int) -> tuple[int, int]:
    """The number of a field whose head is at a byte, and where its value begins."""
    if step := data[at] >> 4:
        return before + step, at + 1
    number, at = varint(data, at + 1)
    return (number >> 1) ^ -(number & 1), at


def _list_head(data: bytes, begin: int) -> tuple[int, int, int]:
    """How many items a list has, their type, and where they begin."""
    count, inner, at = data[begin] >> 4, data[begin] & 15, begin + 1
    if count == 15:
        count, at = varint(data, at)
    return count, inner, at


def _value(data: bytes, begin: int, kind: int, path: Path_, spans: Spans | None) -> tuple[Any, int]:
    value: Any
    if kind in (1, 2):
        value, at = kind == 1, begin
    elif kind in (4, 5, 6):
        value, at = varint(data, begin)
        value = (value >> 1) ^ -(value & 1)
    elif kind == 8:
        length, at = varint(data, begin)
        value, at = data[at : at + length], at + length
    elif kind == 9 and len(path) < _NESTED:
        count, inner, at = _list_head(data, begin)
        value = []
        for k in range(count):
            item, at = (data[at], at + 1) if inner in (1, 2, 3) else _value(data, at, inner, (*path, k), spans)
            value.append(item)
    elif kind == 12 and len(path) < _NESTED:
        value, at = thrift(data, begin, path, spans)
    elif kind in (3, 7):
        value, at = data[begin], begin + (1 if kind == 3 else 8)
    else:
        raise ValueError(f"Thrift has no type {kind} here")
    if spans is not None:
        spans[path] = (begin, at)
    return value, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of any length, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 70:
            return value, at


class Message(NamedTuple):
    """One message of Arrow's IPC.

    Attributes:
        kind: 1 schema, 2 dictionary, 3 record batch.
        begin, head, body: Its byte, bytes of its metadata with the frame, and bytes behind them.
        rows: Of a batch.
    """

    kind: int
    begin: int
    head: int
    body: int
    rows: int


class ArrowContainer:
    """An Arrow IPC file or stream: the same messages, in a file behind a magic and with a footer. Picklable."""

    unit = "record batch"
    problems: Sequence[Problem] = ()

    def __init__(self, path: Path, *, tail: bool = False) -> None:
        self.path, self.file = path, open_file(path)
        self._is_file = self.file.read(0, min(8, self.file.size)) == _ARROW
        self.messages, self.end, self.ended = self._walk()
        batches = [message for message in self.messages if message.kind == _BATCH]
        if not self.messages or self.messages[0].kind != _SCHEMA:
            raise CorruptError(path, "does not begin with a schema, as Arrow does")
        if self.ended and not self._is_file and (left := self.file.size - self.end - 8):
            found, remedy = f"{counted(left, 'byte')} that nobody reads", "Joined streams have to be files of their own"
            error = CorruptError(path, "goes on behind its end marker", offset=self.end + 8, found=found, remedy=remedy)
            self.problems = [noted("TF681", error, f"{path.name}: {error.statement}")]
        if not self.ended and not tail:
            remedy = f"Copy or write it again; {allowing('tail')} reads the whole batches that are there"
            raise TruncatedError(path, "has no end marker: batches may be missing", offset=self.end, remedy=remedy)
        self.groups = [Group(k, m.rows, m.begin, m.head + m.body) for k, m in enumerate(batches)]
        check_rows(path, sum(group.rows for group in self.groups), self.file.size)
        if not tail and (footer := self.footer_error()) is not None:
            raise footer

    def footer_error(self) -> FormatError | None:
        """What is wrong with the footer of a file: it repeats what the messages before it say."""
        if not self._is_file:
            return None
        remedy = f"Copy or write it again; {allowing('tail')} reads the batches that stand before it"
        try:
            with worded(self.path, _UNREADABLE, remedy):
                count = arrow().ipc.open_file(arrow().PythonFile(Stream(self.file), "r")).num_record_batches
        except FormatError as error:
            return error
        if count != len(self.groups):
            return CorruptError(
                self.path, "record batches in the footer", expected=len(self.groups), found=count, remedy=remedy
            )
        return None

    def _walk(self) -> tuple[list[Message], int, bool]:
        """All messages, where they end, and whether the end is marked."""
        found, at, size = list[Message](), 8 * self._is_file, self.file.size
        while at + 8 <= size:
            frame = self.file.read(at, 8)
            length = int.from_bytes(frame[4:], "little")
            if frame[:4] != _FRAME:
                old = not found and begins_old(self.file.read(at, min(size - at, _SCHEMA_BYTES)))
                what = "is Arrow of a version before 1.0" if old else "no message of Arrow"
                remedy = "Write it again with a newer version" if old else None
                raise CorruptError(
                    self.path, what, offset=at, expected="FFFFFFFF", found=frame[:4].hex(), remedy=remedy
                )
            if not length:
                return found, at, True
            if at + 8 + length > size:
                break
            with worded(self.path, f"the message at byte {at:,} cannot be read"):
                message = _message(self.file.read(at + 8, length), at)
            if message.body < 0 or message.begin + message.head + message.body > size:
                break
            check_claim(self.path, f"rows in record batch {len(found) - 1:,}", message.rows, message.body)
            found.append(message)
            at += message.head + message.body
        return found, at, False

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns."""
        with worded(self.path, "the schema cannot be read"):
            first = self.messages[0]
            return _told(
                arrow().ipc.read_schema(arrow().py_buffer(self.file.read(first.begin, first.head + first.body)))
            )

    def facts(self, group: Group, column: str) -> Facts:  # noqa: ARG002 - a batch has no statistics
        return Facts()

    def text_bytes(self, group: Group, column: str) -> int:  # noqa: ARG002 - of all columns
        """Bytes of a group."""
        return group.size

    def batches(self, group: Group, columns: Sequence[str]) -> Iterator[Any]:
        """See `ParquetContainer.batches`."""
        pa = arrow()
        with worded(self.path, f"{self.unit} {group.number:,} cannot be read"):
            number = [m.begin for m in self.messages].index(group.begin)
            before = self.messages if self._is_file else self.messages[:number]
            parts = [self.messages[0], *(m for m in before if m.kind == _DICTIONARIES), self.messages[number]]
            if (total := sum(m.head + m.body for m in parts)) > _BODY:
                raise UnsafeError(self.path, f"{self.unit} {group.number:,} is too large", expected=_BODY, found=total)
            for message in parts:
                self._check_buffers(message)
            stream = bytearray(total + 8)
            at = 0
            for m in parts:
                self.file.read_into(m.begin, memoryview(stream)[at : at + m.head + m.body])
                at += m.head + m.body
            stream[at : at + 4] = _FRAME
            chosen = sorted({self.schema.get_field_index(name.split(".")[0]) for name in columns} - {-1})
            options = pa.ipc.IpcReadOptions(included_fields=chosen, use_threads=False)
            batch = pa.ipc.open_stream(pa.py_buffer(stream), options=options).read_next_batch()
            for column in batch.columns:
                column.validate(full=True)
            rows = max(1, group.rows * AT_ONCE // max(self._weight(group, batch, columns), 1))
            yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))

    def _weight(self, group: Group, batch: Any, columns: Sequence[str]) -> int:
        """Bytes that the rows of a group take: lists in a dictionary may stand for any number of them."""
        weight, compute = group.size, arrow().compute
        for array in (values_of(batch, name) for name in columns):
            if arrow().types.is_dictionary(array.type) and kind_of(array.type) == "ids":
                lengths = compute.list_value_length(array.dictionary)
                total = compute.sum(compute.cast(lengths.take(array.indices), "int64")).as_py() or 0
                stored = group.size + array.dictionary.nbytes
                check_claim(self.path, f"ids in {self.unit} {group.number:,}", total, stored)
                weight = max(weight, 8 * group.rows * (compute.max(lengths).as_py() or 0))
        return weight

    def _check_buffers(self, message: Message) -> None:
        """Compressed buffers state their own size, which is allocated; columns state how many values they have."""
        data = self.file.read(message.begin + 8, message.head - 8)
        total = 0
        for values in _values(data, message.kind):
            check_claim(self.path, "values in a column", values, message.body)
        for begin, length in _buffers(data, message.kind):
            if begin < 0 or length < 0 or begin + length > message.body:
                raise CorruptError(self.path, "a buffer leaves its message", offset=message.begin)
            if length >= 8:
                at = message.begin + message.head + begin
                plain = max(0, int.from_bytes(self.file.read(at, 8), "little", signed=True))
                check_claim(
                    self.path, f"bytes of the buffer at byte {at:,}, when it is decompressed,", plain, length, 8
                )
                total += plain
        if total > _BODY:
            raise UnsafeError(self.path, "a message decompresses to too much", offset=message.begin,
                              expected=f"{_BODY:,}", found=total)  # fmt: skip


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table of FlatBuffers is, 0 when it is not there."""
    vtable = table - _at("<i", data, table)
    there = 4 + 2 * number < _at("<H", data, vtable)
    offset = _at("<H", data, vtable + 4 + 2 * number) if there else 0
    return table + offset if offset else 0


def _at(kind: str, data: bytes, at: int) -> int:
    if at < 0 or at + struct.calcsize(kind) > len(data):
        raise ValueError("its metadata points outside of itself")
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _table(data: bytes, at: int) -> int:
    """The table that a field refers to."""
    if not at:
        raise ValueError("its metadata lacks a part")
    return at + _at("<I", data, at)


def _message(data: bytes, begin: int) -> Message:
    root = _at("<I", data, 0)
    kind_at, body_at = _field(data, root, 1), _field(data, root, 3)
    kind, rows = data[kind_at] if kind_at else 0, 0
    if kind == _BATCH and (length := _field(data, _table(data, _field(data, root, 2)), 0)):
        rows = _at("<q", data, length)
    if kind not in (_SCHEMA, _DICTIONARIES, _BATCH) or rows < 0:
        raise ValueError(f"a message of kind {kind} with {rows} rows")
    return Message(kind, begin, len(data) + 8, _at("<q", data, body_at) if body_at else 0, rows)


def begins_old(data: bytes) -> bool:
    """Whether a stream begins as those of Arrow before 1.0 do: length and schema, without FFFFFFFF in front."""
    try:
        return _message(data[4 : 4 + int.from_bytes(data[:4], "little")], 0).kind == _SCHEMA
    except (ValueError, IndexError):
        return False


def _batch(data: bytes, kind: int) -> int:
    """The table of the record batch in a message; 0 in a schema."""
    if kind == _SCHEMA:
        return 0
    table = _table(data, _field(data, _at("<I", data, 0), 2))
    return _table(data, _field(data, table, 1)) if kind == _DICTIONARIES else table


def _pairs(data: bytes, table: int, number: int) -> Iterator[tuple[int, int]]:
    """The structs of two i64 in a vector that a field refers to."""
    if field := _field(data, table, number):
        vector = _table(data, field)
        for k in range(_at("<I", data, vector)):
            yield _at("<q", data, vector + 4 + 16 * k), _at("<q", data, vector + 12 + 16 * k)


def _values(data: bytes, kind: int) -> Iterator[int]:
    """How many values each column of a message has, and each column within one."""
    if table := _batch(data, kind):
        yield from (length for length, _ in _pairs(data, table, 1))


def _buffers(data: bytes, kind: int) -> Iterator[tuple[int, int]]:
    """Compressed buffers of a message, as offset and length in its body."""
    table = _batch(data, kind)
    if table and _field(data, table, 3):
        yield from _pairs(data, table, 2)


Container = ParquetContainer | ArrowContainer


IDS, TEXT = ("input_ids", "tokens", "token_ids", "ids"), "text"
PACKED = ("input_ids", "loss_mask", "seq_start_id")
_NAME = f"{Option('text-field', 'NAME')} names one of text, {from_option('column', 'NAME')} any"


class Column(NamedTuple):
    """What is read: its kind (ids or text), its name, and the columns beside it that say what counts."""

    kind: str
    name: str
    beside: tuple[str, ...] = ()


def open_containers(format_: Variant, files: Sequence[Path], *, tail: bool = False) -> list[Container]:
    """The files of a dataset, opened.

    Raises:
        FormatError: One is not what it should be.
    """
    return [format_.Container(path, tail=tail) for path in files]


def own_blocks(container: Container) -> bool:
    """Whether tokfmt wrote the rows as blocks of a stream."""
    try:
        said = json.loads((container.schema.metadata or {}).get(b"tokfmt", b"{}"))
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("rows") == "blocks"


def typed(schema: Any, name: str) -> Any:
    """The type of a column, by its dotted path; None where there is none, or several of that name."""
    if schema.get_field_index(name) >= 0:
        return schema.field(name).type
    kind = schema
    for word in name.split("."):
        if (kind is not schema and not arrow().types.is_struct(kind)) or kind.get_field_index(word) < 0:
            return None
        kind = kind.field(word).type
    return kind


def plain(kind: Any) -> Any:
    """A type without the dictionary that Arrow may keep its values in."""
    return kind.value_type if kind is not None and arrow().types.is_dictionary(kind) else kind


def kind_of(kind: Any) -> str:
    """What a type may hold: "ids", "text", or ""."""
    if kind is None:
        return ""
    types, kind = arrow().types, plain(kind)
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if any(is_it(kind) for is_it in lists):
        return "ids" if types.is_integer(plain(kind.value_type)) else ""
    return "text" if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary") else ""


def chosen(container: Container, options: ReadOptions) -> Column:
    """The column to read.

    Raises:
        UnsupportedError: None is what is looked for; lists what there is.
    """
    schema = container.schema
    every = {name: kind_of(typed(schema, name)) for name in schema.names}
    listed = printable(", ".join(f"{name}: {schema.field(k).type}" for k, name in enumerate(schema.names[:20])))
    if name := options.text_field or options.column:
        kind = kind_of(typed(schema, name))
        if not kind or (options.text_field and kind != TEXT):
            what = f'column "{printable(name)}" holds no {"text" if options.text_field else "ids and no text"}'
            raise UnsupportedError(container.path, what, found=listed)
        labels = ("labels",) if every.get("labels") == "ids" and kind == "ids" else ()
        return Column(kind, name, labels)
    if all(every.get(name) == "ids" for name in PACKED):
        return Column("ids", "input_ids", PACKED[1:])
    for name in IDS:
        if every.get(name) == "ids":
            return Column("ids", name, ("labels",) if every.get("labels") == "ids" else ())
        if name in every and str(plain(typed(schema, name))).startswith(("list", "large_list", "fixed_size_list")):
            what = f'column "{name}" is no list of ids'
            raise UnsupportedError(container.path, what, expected="list<int32>", found=str(typed(schema, name)))
    texts = [name for name, kind in every.items() if kind == TEXT and "binary" not in str(typed(schema, name))]
    if every.get(TEXT) == TEXT:
        return Column(TEXT, TEXT)
    if len(texts) == 1:
        return Column(TEXT, texts[0])
    what = "has several columns of text" if texts else "has no column of ids (input_ids, tokens, ...) and none of text"
    if are_chats(every):
        what = CHATS
    raise UnsupportedError(container.path, what, found=listed, remedy=_NAME)


def agreed(containers: Sequence[Container], options: ReadOptions) -> Column:
    """The column to read, of several files that all have it, and the same ones beside it.

    Raises:
        UnsupportedError: None is what is looked for, or files differ in that.
    """
    column = chosen(containers[0], options)
    for other in containers[1:]:
        both_ids = column.kind == kind_of(typed(other.schema, column.name)) == "ids"
        beside = chosen(other, options).beside if both_ids else ()
        for name in dict.fromkeys((column.name, *column.beside, *beside)):
            for here, there in ((other, containers[0]), (containers[0], other)):
                if kind_of(found := typed(here.schema, name)) != column.kind:
                    what = f'has no column "{printable(name)}" of {column.kind}, as {printable(there.path.name)} has'
                    listed = printable(", ".join(here.schema.names[:20])) if found is None else str(found)
                    raise UnsupportedError(here.path, what, found=listed)
    return column


def values_of(batch: Any, name: str) -> Any:
    """An array of a batch by its dotted path; NULL wherever a struct around it is."""
    if (at := batch.schema.get_field_index(name)) >= 0:
        return batch.column(at)
    first, *rest = name.split(".")
    return arrow().compute.struct_field(batch.column(batch.schema.get_field_index(first)), rest)


def unread(containers: Sequence[Container], column: Column, *, nulls: bool) -> tuple[str, ...]:
    """In sentences, which columns are not read, and with `nulls` how many rows are read as empty that are NULL.

    Decodes a column of which no footer tells that.
    """
    notes, count = [problem.note for container in containers for problem in container.problems], 0
    for container in containers if nulls else ():
        for group in container.groups:
            known = container.facts(group, column.name).nulls  # of lists: NULL and empty ones
            if known is None or (known and column.kind != TEXT):
                batches = container.batches(group, [column.name])
                known = sum(values_of(batch, column.name).null_count for batch in batches)
            count += known
    if count:
        notes.append(f"{counted(count, 'row')} of NULL read as empty ({allowing('null-rows')})")
    own = {column.name.split(".")[0], *column.beside}
    if others := [name for name in containers[0].schema.names if name not in own]:
        notes.append(f'columns beside "{printable(column.name)}" are not read: {printable(", ".join(others[:12]))}')
    return tuple(notes)
