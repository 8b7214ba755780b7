"""Open files of row groups (Parquet) and record batches (Arrow), bound what they claim, and choose their columns.

pyarrow decodes, and allocates what a file claims: page headers and buffers state their decompressed bytes, the footer
and the messages state the numbers of rows and values. tokfmt checks these claims first. A file may claim 1,100 times
its bytes, the most that deflate reaches, or 16 Mi values (128 MiB) if that is more. Rows are decoded a few at a time.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core.chats import COMPLETION, PROMPT, Pairs, field_of_chats, has_message_keys
from tokfmt.core.field_path import keys_of
from tokfmt.core.findings import Problem, loss_in, noted
from tokfmt.core.loss_mask import ATTENTION, COUNTING, LABELS, LOSS_MASK, STARTS
from tokfmt.core.ragged import offsets_of
from tokfmt.errors import (
    CorruptError,
    FormatError,
    Loss,
    MissingDependencyError,
    TokfmtError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.files.file import File, Held, Stream, open_file
from tokfmt.files.place import Place
from tokfmt.files.side_by_side import side_by_side
from tokfmt.model.rows import ALL_POSITIONS, DIVIDING, SECOND, TARGETS, Reading, are_pairs, columns_to_read, states_loss
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import ReadOptions, Variant

AT_ONCE = 1 << 21
"""Maximum bytes of values that are decoded at once; one row may be larger."""

MAXIMUM_VALUES, RATIO = 1 << 24, 1_100  # a file may claim the larger of so many values and so many times its bytes
_PAGE, _BODY = 1 << 28, 1 << 30  # maximum bytes of a decompressed page, and of the messages of a batch
_SEARCHED = 1 << 22  # maximum bytes of a dictionary that is searched; writers stop adding to one after 1 MiB
_REPEATED = 1 << 25  # maximum bytes of repeated texts that are decoded at once; one row may be larger
_DICTIONARY, _TEXT = 2, "BYTE_ARRAY"
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", _TEXT, "FIXED_LEN_BYTE_ARRAY")  # by their numbers
_GROUPS, _CHUNKS, _CHUNK_METADATA, _ENCRYPTED, _SIZES = 4, 1, 3, 8, 16  # numbers of fields in the structs of a footer
_MAGIC, _ARROW, _FRAME = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_UNREADABLE = "the footer cannot be read"
_SCHEMA, _DICTIONARIES, _BATCH = 1, 2, 3
_NESTED = 16  # maximum depth of structs and lists in a footer
_FOOTER = 1 << 26  # maximum bytes of a footer: about 100,000 row groups of six columns
_FOOTER_OF_MOST = 1 << 16  # bytes at the end of a file that hold the footer of most
_HELD = 1 << 27  # maximum bytes of a row group or a batch in a store that are held in memory
_SCHEMA_BYTES = 1 << 16  # bytes in which the schema of a stream before Arrow 1.0 is searched
_WITHOUT_FOOTER = "Copy or write it again; --allow-loss tail reads the batches before it"


class Group(NamedTuple):
    """A row group or a record batch, which can be decoded without the others."""

    number: int  # index in its file, from 0
    rows: int  # number of rows
    begin: int  # byte offset in the file
    size: int  # bytes in the file


class Facts(NamedTuple):
    """Facts that a footer states about one column of a row group; None if missing or not reliable."""

    values: int | None = None  # number of values, which are the IDs of all lists together
    low: int | None = None  # Smallest value
    top: int | None = None  # largest value
    nulls: int | None = None  # number of NULL values; of lists, NULL and empty ones
    all_there: bool = False  # No list is NULL


def arrow() -> Any:
    """Import and return the package pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("pyarrow", "reading and writing Parquet and Arrow") from error
    return pa


@contextmanager
def worded(path: Place, what: str, remedy: str | None = None, offset: int | None = None) -> Iterator[None]:
    """Turn the exceptions of pyarrow into a FormatError of one line."""
    pa = arrow()
    try:
        yield
    except TokfmtError:
        raise
    except MemoryError as error:  # ArrowMemoryError is one
        raise UnsafeError(path, f"{what} would take more memory than there is") from error
    except NotImplementedError as error:
        remedy = "pyarrow does not read that: write it with types that it reads, such as list<int64>"
        raise UnsupportedError(path, what, found=_line(error), remedy=remedy) from error
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise CorruptError(path, what, offset=offset, found=_line(error), remedy=remedy) from error


def _line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))[:200]


def _checked_names(schema: Any) -> Any:
    """Return a schema; raise UnicodeDecodeError, a ValueError, if a name in it is not UTF-8."""
    str(schema)
    return schema


def check_claim(path: Place, what: str, claimed: int, stored: int, width: int = 1) -> None:
    """Raise UnsafeError if a file claims more values than its stored bytes can hold."""
    maximum = max(width * MAXIMUM_VALUES, RATIO * stored)
    if claimed > maximum:
        expected, remedy = f"at most {maximum:,}", "Not read: a bomb"
        raise UnsafeError(path, f"{what} of {stored:,} bytes", expected=expected, found=claimed, remedy=remedy)


def check_rows(path: Place, rows: int, size: int) -> None:
    """Raise UnsafeError if a file claims more rows than it has bytes: readers keep 8 bytes per row."""
    maximum = max(MAXIMUM_VALUES, size)
    if rows > maximum:
        raise UnsafeError(path, f"rows in {size:,} bytes", expected=f"at most {maximum:,}", found=rows)


class ParquetContainer:
    """A Parquet file. Picklable; several threads may share it."""

    unit = "row group"
    problems: Sequence[Problem] = ()
    lost: Sequence[Loss] = ()

    def __init__(self, path: Place, *, tail: bool = False) -> None:  # noqa: ARG002 - a file without its end is lost
        self.path, self.file = path, open_file(path)
        self.file.prefetch([(max(0, self.file.size - _FOOTER_OF_MOST), self.file.size)], keep=True)
        ends = self.file.read(max(0, self.file.size - 8), min(8, self.file.size))
        if self.file.size < 12 or ends[4:] != _MAGIC:
            if ends[4:] == b"PARE":
                raise UnsupportedError(path, "is an encrypted Parquet file", remedy="Write it without encryption")
            remedy = "Copy or download it again: the footer at its end is missing, and nothing can be read without it"
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
        self.file.prefetch([(self.file.size - 8 - min(length, _FOOTER), self.file.size)], keep=True)
        metadata = self.metadata
        with worded(path, _UNREADABLE):
            self._check_columns(length)
        if metadata.num_rows != sum(group.rows for group in self.groups) or metadata.num_rows < 0:
            raise CorruptError(path, "rows in the footer", expected=metadata.num_rows, found="others in its row groups")
        check_rows(path, metadata.num_rows, self.file.size)

    def _open(self, metadata: Any = None, file: File | Held | None = None) -> Any:
        pa = arrow()
        return pa.parquet.ParquetFile(
            pa.PythonFile(Stream(file or self.file), "r"),
            metadata=metadata,
            buffer_size=1 << 20,
            pre_buffer=False,
            thrift_container_size_limit=1 << 18,
            schema_depth_limit=64,
            page_checksum_verification=True,
            arrow_extensions_enabled=False,
        )

    @cached_property
    def metadata(self) -> Any:
        """Metadata of the footer: pyarrow.parquet.FileMetaData."""
        with worded(self.path, _UNREADABLE):
            return self._open().metadata

    def _check_columns(self, length: int) -> None:
        """Refuse column chunks that make pyarrow end the process (26.0: `RowGroupMetaData.column` cannot raise)."""
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
                known = _struct(chunk.get(_CHUNK_METADATA))
                if (number_of_type := known.get(1)) != _TYPES.index(leaf.physical_type):
                    what = f'type of the column "{printable(leaf.path)}" in row group {number:,}'
                    raise CorruptError(self.path, what, expected=leaf.physical_type, found=str(number_of_type))
                sizes = _struct(known.get(_SIZES))
                levels = {2: leaf.max_repetition_level, 3: leaf.max_definition_level}
                counts = {field: sizes.get(field) for field in levels}
                fits = all(len(c) in (0, levels[field] + 1) for field, c in counts.items() if isinstance(c, list))
                if not fits or (1 in sizes and leaf.physical_type != _TEXT):
                    what = f'size statistics of the column "{printable(leaf.path)}" in row group {number:,}'
                    raise CorruptError(self.path, what, expected="those of its type", found="others")

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns: pyarrow.Schema."""
        with worded(self.path, "the columns cannot be read"):
            return _checked_names(self._open(self.metadata).schema_arrow)

    @cached_property
    def groups(self) -> list[Group]:
        """The row groups of the file, in order."""
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
        """Return the column chunks of some columns; a struct or list has one chunk per leaf."""
        row = self.metadata.row_group(group.number)
        every = (row.column(k) for k in range(row.num_columns))
        return [c for c in every if any(f"{c.path_in_schema}.".startswith(f"{name}.") for name in columns)]

    def facts(self, group: Group, column: str) -> Facts:
        """Return the statistics of a column if Arrow wrote the file; other writers count empty lists differently."""
        with worded(self.path, _UNREADABLE):
            chunks = self.chunks(group, [column] if stored_columns(self.schema, [column]) == [column] else ())
            known = chunks[0].statistics if len(chunks) == 1 and chunks[0].is_stats_set else None
            made = (self.metadata.created_by or "").startswith("parquet-cpp-arrow")
            if known is None or not made or not known.has_null_count or known.num_values < 0:
                return Facts()
            check_claim(self.path, "IDs in a column", known.num_values, chunks[0].total_compressed_size)
            numbers = known.has_min_max and known.physical_type in ("INT32", "INT64")
            low, top = (known.min, known.max) if numbers else (None, None)  # those of text may be cut in a character
            return Facts(known.num_values, low, top, known.null_count, not known.null_count)

    def text_bytes(self, group: Group, column: str) -> int:
        """Return the decompressed bytes of a column, as the footer states them."""
        with worded(self.path, _UNREADABLE):
            chunks = self.chunks(group, stored_columns(self.schema, [column]))
            return max(0, sum(int(chunk.total_uncompressed_size) for chunk in chunks))

    def batches(self, group: Group, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of a group in order, as record batches of these columns with a bounded number of rows."""
        with worded(self.path, f"{self.unit} {group.number:,} cannot be read", offset=group.begin):
            columns = stored_columns(self.schema, columns)
            chunks, weight, longest = self.chunks(group, columns), 1, 1
            file = held(self.file, [_extent(chunk) for chunk in chunks])
            for chunk in chunks:
                weight = max(weight, chunk.total_uncompressed_size, 4 * chunk.num_values)
                check_claim(self.path, "values in a column", chunk.num_values, chunk.total_compressed_size)
                for kind, at, size, stored in self.pages(chunk, file):
                    if kind == _DICTIONARY and chunk.physical_type == _TEXT:
                        longest = max(longest, self._longest_word(file, chunk, at, size, stored))
                if group.rows > chunk.num_values:
                    raise CorruptError(self.path, "rows of a column", expected=group.rows, found=chunk.num_values)
            rows = min(max(1, group.rows * AT_ONCE // weight), 1 << 17, max(1, _REPEATED // longest))
            reader = self._open(self.metadata, file)
            yield from reader.iter_batches(rows, [group.number], columns=columns, use_threads=False)

    def _longest_word(self, file: File | Held, chunk: Any, at: int, size: int, stored: int) -> int:
        """Return the bytes of the longest text in a dictionary, which any number of rows may repeat.

        Returns:
            `size` if the dictionary is larger than 4 MiB or cannot be decompressed here.
        """
        if size > _SEARCHED:
            return size
        data = file.read(at, stored)
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

    def pages(self, chunk: Any, file: File | Held | None = None) -> Iterator[tuple[int, int, int, int]]:
        """Yield kind, byte offset, decompressed bytes and stored bytes with header of each page, after checks, from
        `file` (default: the file).
        """
        file = file or self.file
        at, size = _extent(chunk)
        end = at + size
        while at < end:
            for room in (256, 1 << 16, 1 << 22):
                head = file.read(at, min(room, end - at))
                try:
                    fields, length = thrift(head)
                    break
                except (IndexError, ValueError) as error:
                    if len(head) < room or isinstance(error, ValueError):
                        raise CorruptError(self.path, "invalid header of a page", offset=at) from error
            kind, plain, stored = (fields.get(k, -1) for k in (1, 2, 3))
            if isinstance(plain, int) and plain > _PAGE:
                raise UnsafeError(self.path, "a page is too large", offset=at, expected=f"{_PAGE:,}", found=plain)
            if not all(isinstance(n, int) and n >= 0 for n in (kind, plain, stored)) or at + length + stored > end:
                raise CorruptError(self.path, "the header of a page states impossible sizes", offset=at)
            check_claim(self.path, f"bytes of the page at byte {at:,}, when it is decompressed,", plain, stored, 8)
            yield kind, at, plain, length + stored
            at += length + stored


def held(file: File, extents: Sequence[tuple[int, int]]) -> File | Held:
    """Return a file in a store with some parts in memory, which were requested side by side; a local file as it is."""
    if file.path.is_local:
        return file
    ranges = list[tuple[int, int]]()
    for begin, size in sorted(extents):
        start = max(begin, ranges[-1][1] if ranges else 0)
        if start < begin + size <= file.size:
            ranges.append((start, begin + size))
    if sum(stop - start for start, stop in ranges) > _HELD:
        file.prefetch(ranges)
        return file
    return Held(file, ranges)


def _extent(chunk: Any) -> tuple[int, int]:
    begins = [b for b in (chunk.dictionary_page_offset, chunk.data_page_offset) if b is not None and b >= 4]
    return min(begins, default=4), max(0, chunk.total_compressed_size)


def thrift(data: bytes, at: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Decode a struct of Thrift's compact protocol.

    Returns:
        Values by field number, and the byte offset after the struct.
    """
    fields: dict[int, Any] = {}
    number = 0
    while kind := data[at]:
        number, at = _number(data, at, number)
        fields[number], at = _value(data, at, kind & 15, depth + 1)
    return fields, at + 1


def _struct(value: object) -> dict[int, Any]:
    """Return the fields of a struct; {} for any other value, which pyarrow skips as well."""
    return value if isinstance(value, dict) else {}


def _groups_of(footer: bytes) -> Iterator[dict[int, Any]]:
    """Yield the row groups of a footer, decoded one at a time."""
    number = at = 0
    while kind := footer[at]:
        number, at = _number(footer, at, number)
        if number != _GROUPS or kind & 15 != 9:
            _, at = _value(footer, at, kind & 15, 1)
            continue
        count, _, at = _list_head(footer, at)
        for _ in range(count):
            group, at = thrift(footer, at)
            yield group


def _number(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the number of the field whose header is at a byte offset, and the byte offset of its value."""
    if step := data[at] >> 4:
        return before + step, at + 1
    number, at = varint(data, at + 1)
    return (number >> 1) ^ -(number & 1), at


def _list_head(data: bytes, begin: int) -> tuple[int, int, int]:
    """Return the number of items of a list, their type, and the byte offset of the first one."""
    count, inner, at = data[begin] >> 4, data[begin] & 15, begin + 1
    if count == 15:
        count, at = varint(data, at)
    return count, inner, at


def _value(data: bytes, begin: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value of Thrift's compact protocol and the byte offset after it."""
    value: Any
    if kind in (1, 2):
        value, at = kind == 1, begin
    elif kind in (4, 5, 6):
        value, at = varint(data, begin)
        value = (value >> 1) ^ -(value & 1)
    elif kind == 8:
        length, at = varint(data, begin)
        value, at = data[at : at + length], at + length
    elif kind == 9 and depth < _NESTED:
        count, inner, at = _list_head(data, begin)
        value = []
        for _ in range(count):
            item, at = (data[at], at + 1) if inner in (1, 2, 3) else _value(data, at, inner, depth + 1)
            value.append(item)
    elif kind == 12 and depth < _NESTED:
        value, at = thrift(data, begin, depth)
    elif kind in (3, 7):
        value, at = data[begin], begin + (1 if kind == 3 else 8)
    else:
        raise ValueError(f"Thrift has no type {kind} here")
    return value, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at a byte offset, of at most 11 bytes, and the byte offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 70:
            return value, at


class Message(NamedTuple):
    """A message of Arrow IPC."""

    kind: int  # 1 schema, 2 dictionary, 3 record batch
    begin: int  # byte offset in the file
    head: int  # bytes of the metadata, with the 8 bytes of the frame
    body: int  # bytes of the buffers after the metadata
    rows: int  # number of rows of a record batch, else 0


class ArrowContainer:
    """An Arrow IPC stream, or file, which has the same messages between a magic number and a footer. Picklable."""

    unit = "record batch"
    problems: Sequence[Problem] = ()
    lost: Sequence[Loss] = ()
    messages: list[Message]
    end: int  # the byte offset after the messages
    ended: bool  # an end marker follows, or a footer lists all messages
    damage: FormatError | None = None  # of the first message that cannot be read
    footer: FormatError | None = None  # why the footer is not read
    _of_footer: Any = None  # the schema that it states
    _cut_rows: int | None = None  # Rows of the batch in which the file ends.
    _counts: dict[str, dict[int, int | None]]  # of each column, the number of IDs in the batch at a byte offset

    def __init__(self, path: Place, *, tail: bool = False) -> None:
        self.path, self.file, self._counts = path, open_file(path), {}
        self._is_file = self.file.read(0, min(8, self.file.size)) == _ARROW
        blocks = self._read_footer() if self._is_file else []
        self._walk()
        if self._of_footer is not None:
            (self._compare if self.ended and self.damage is None else self._take)(blocks)
        if self.damage is not None and not tail:
            raise self.damage
        batches = [message for message in self.messages if message.kind == _BATCH]
        if self._stored_schema is None:
            raise self.damage or CorruptError(path, "does not begin with a schema message")
        if self.ended and not self._is_file and (left := self.file.size - self.end - 8):
            found, remedy = f"{counted(left, 'byte')} that no reader reads", "Store joined streams as separate files"
            error = CorruptError(
                path, "continues after its end marker", offset=self.end + 8, found=found, remedy=remedy
            )
            self.problems = [noted("TF681", error, f"{path.name}: {error.statement}")]
        if not self.ended and not tail:
            remedy = "Copy or write it again; --allow-loss tail reads the batches that are complete"
            raise TruncatedError(path, "has no end marker: batches may be missing", offset=self.end, remedy=remedy)
        if self.footer is not None and not tail:
            raise self.footer
        self.flat = self._is_file and _is_flat(self._stored_schema)
        self.groups = [Group(k, 1 if self.flat else m.rows, m.begin, m.head + m.body) for k, m in enumerate(batches)]
        check_rows(path, sum(group.rows for group in self.groups), self.file.size)
        rest = f"{counted(self.file.size - self.end, 'byte')} from byte {self.end:,} on"
        if not self.ended:
            cut = "" if self._cut_rows is None else f", with {counted(self._cut_rows, 'row')} of an incomplete batch"
            self.lost = [loss_in(path, "tail", f"{rest}{cut}; batches may be missing after them")]
        elif self.footer is not None:
            self.lost = [loss_in(path, "tail", f"the footer, {rest}")]

    def _read_footer(self) -> list[Message]:
        """Return the messages that the footer lists, and keep its schema, or why it cannot be read."""
        try:
            with worded(self.path, _UNREADABLE, _WITHOUT_FOOTER):
                blocks = _blocks(self.file)
                if not self.path.is_local:
                    self.file.prefetch(_heads(blocks))
                footer = arrow().ipc.open_file(arrow().PythonFile(Stream(self.file), "r"))
                self._of_footer = _checked_names(footer.schema)
        except FormatError as error:
            self.footer = error
            return []
        return blocks

    def _compare(self, blocks: list[Message]) -> None:
        """Keep an error if the footer lists other messages than those before it, or states another schema."""
        for number, (block, message) in enumerate(zip_longest(blocks, self.messages[1:])):
            if not _agree(block, message):
                self._stop((message or block).begin, number)
                return
        if self._first_schema is None or not self._first_schema.equals(self._of_footer, check_metadata=True):
            what = "the footer states another schema than the first message"
            self.footer = CorruptError(self.path, what, offset=8, remedy=_WITHOUT_FOOTER)

    def _stop(self, begin: int, number: int) -> None:
        """Keep the messages before the first one that the footer contradicts."""
        self.damage = CorruptError(self.path, "a message is not what the footer states", offset=begin)
        self.messages, self.end, self.ended = self.messages[: number + 1], begin, False

    def _take(self, blocks: list[Message]) -> None:
        """Take the messages that the footer lists, which is all that other readers read."""
        if begins_old(self.file.read(8, min(self.file.size - 8, _SCHEMA_BYTES))):
            return
        first = self.messages[:1] if self._first_schema is not None else []
        front = self.file.read(8, min(max((one.begin for one in blocks[:1]), default=8) - 8, _SCHEMA_BYTES))
        if not first and not _is_schema(front):  # Polars 2 writes the schema without a frame.
            what, remedy = "its first message cannot be read; the footer has its schema", "Copy or write it again"
            error = CorruptError(self.path, what, offset=8, remedy=remedy)
            self.problems = [noted("TF681", error, f"{self.path.name}: {error.statement}")]
        self.messages, self.damage, self.end, self.ended = first, None, 8, True
        for block in blocks:
            try:
                message = self._message_at(block.begin)
            except CorruptError as error:
                self.damage, self.end, self.ended = error, block.begin, False
                return
            if not _agree(block, message):
                self._stop(block.begin, len(self.messages))
                return
            self.messages.append(message)
            self.end = block.begin + block.head + block.body

    def _walk(self) -> None:
        """Find all messages, the byte offset after them, and whether an end marker follows."""
        self.messages, self.end, self.ended, size = list[Message](), 8 * self._is_file, False, self.file.size
        while self.end + 8 <= size and not self.ended:
            try:
                message = self._message_at(self.end)
            except CorruptError as error:
                self.damage = error
                return
            if not message.head:
                self.ended = True
                return
            if self.end + message.head + message.body > size:
                self._cut_rows = message.rows if message.kind == _BATCH else None
                return
            self.messages.append(message)
            self.end += message.head + message.body

    def _message_at(self, at: int) -> Message:
        """Return the message at a byte offset; one without bytes is the end marker, or the rest of a file."""
        frame = self.file.read(at, 8)
        length = int.from_bytes(frame[4:], "little")
        if frame[:4] != _FRAME:
            old = at == 8 * self._is_file and begins_old(self.file.read(at, min(self.file.size - at, _SCHEMA_BYTES)))
            what = "is Arrow of a version before 1.0" if old else "invalid frame of an Arrow message"
            remedy = "Write it again with a newer version" if old else None
            raise CorruptError(self.path, what, offset=at, expected="FFFFFFFF", found=frame[:4].hex(), remedy=remedy)
        if not length or at + 8 + length > self.file.size:
            return Message(0, at, length and length + 8, 0, 0)
        with worded(self.path, "the message cannot be read", offset=at):
            message = _message(self.file.read(at + 8, length), at)
            check_claim(self.path, f"rows in record batch at byte {at:,}", message.rows, message.body)
        return message

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns: pyarrow.Schema. A flat column counts as one of lists."""
        if not self.flat:
            return self._stored_schema
        (field,) = self._stored_schema
        return arrow().schema([(field.name, arrow().list_(field.type))])

    @cached_property
    def _first_schema(self) -> Any:
        """Schema of the first message; None if it is not one of a schema."""
        if not self.messages or self.messages[0].kind != _SCHEMA:
            return None
        try:
            with worded(self.path, "the schema cannot be read", offset=self.messages[0].begin):
                return _checked_names(arrow().ipc.read_schema(arrow().py_buffer(self._first_bytes)))
        except FormatError:
            if self._of_footer is None:
                raise
            return None

    @property
    def _stored_schema(self) -> Any:
        """The schema of the footer, which is all that other readers read; else that of the first message."""
        return self._first_schema if self._of_footer is None else self._of_footer

    @cached_property
    def _front(self) -> bytes:
        """A message of the schema."""
        first = self._first_schema
        if first is not None and first.equals(self._stored_schema, check_metadata=True):
            return self._first_bytes
        return bytes(self._stored_schema.serialize())

    @cached_property
    def _first_bytes(self) -> bytes:
        return self.file.read(self.messages[0].begin, self.messages[0].head + self.messages[0].body)

    def facts(self, group: Group, column: str) -> Facts:
        """Return the number of IDs that the offsets of a column of lists state; a batch has no statistics."""
        if column not in self._counts:
            self._counts[column] = self._count_ids(column)
        count = self._counts[column].get(group.begin)
        return Facts(count, all_there=count is not None)

    def _count_ids(self, column: str) -> dict[int, int | None]:
        """Return the number of IDs of each batch by its byte offset, from the first and the last offset of its lists.

        Returns:
            None for each batch whose rows have to be decoded: its column is not one of lists or holds NULL, or the
            batch is compressed or contradicts itself.
        """
        batches = [message for message in self.messages if message.kind == _BATCH]
        if self.flat:
            return {message.begin: message.rows for message in batches}
        counts, ends = dict[int, int | None](), dict[int, tuple[int, int]]()
        lists = _lists_at(self.schema, column)
        if lists is None:
            return counts
        for message in batches:
            if not message.rows:
                counts[message.begin] = 0
                continue
            with suppress(ValueError):
                head = self.file.read(message.begin + 8, message.head - 8)
                offsets, counts[message.begin] = _claim_of_lists(head, message, lists)
                ends[message.begin] = offsets, offsets + message.rows * lists.width
        ranges = [(at, at + lists.width) for pair in ends.values() for at in pair]
        found = [int.from_bytes(content, "little", signed=True) for content in self.file.read_ranges(ranges)]
        for begin, first, last in zip(ends, found[::2], found[1::2], strict=False):
            counts[begin] = last - first if 0 <= first <= last <= (counts[begin] or 0) else None
        return counts

    def text_bytes(self, group: Group, column: str) -> int:  # noqa: ARG002 - a batch states no sizes of its columns
        """Return the bytes of all columns of a group in the file."""
        return group.size

    def batches(self, group: Group, columns: Sequence[str]) -> Iterator[Any]:
        pa = arrow()
        with worded(self.path, f"{self.unit} {group.number:,} cannot be read", offset=group.begin):
            number = bisect_left(self.messages, group.begin, key=attrgetter("begin"))
            known = [m for m in self._dictionaries if self._is_file or m.begin < group.begin]
            parts, at = [*known, self.messages[number]], len(self._front)
            if (total := at + sum(m.head + m.body for m in parts)) > _BODY:
                raise UnsafeError(self.path, f"{self.unit} {group.number:,} is too large", expected=_BODY, found=total)
            file = held(self.file, [(m.begin, m.head + m.body) for m in parts])
            for message in parts:
                self._check_buffers(message, file)
            stream = bytearray(total + 8)
            stream[:at] = self._front
            for m in parts:
                if isinstance(file, File):
                    file.read_into(m.begin, memoryview(stream)[at : at + m.head + m.body])
                else:
                    stream[at : at + m.head + m.body] = file.read(m.begin, m.head + m.body)
                at += m.head + m.body
            stream[at : at + 4] = _FRAME
            chosen = sorted({self.schema.get_field_index(path_of(self.schema, name)[0]) for name in columns} - {-1})
            options = pa.ipc.IpcReadOptions(included_fields=chosen, use_threads=False)
            batch = pa.ipc.open_stream(pa.py_buffer(stream), options=options).read_next_batch()
            for column in batch.columns:
                column.validate(full=True)
            if self.flat:
                document = pa.ListArray.from_arrays([0, batch.num_rows], batch.column(0))
                batch = pa.record_batch([document], names=self.schema.names)
            rows = max(1, group.rows * AT_ONCE // max(self._weight(group, batch, columns), 1))
            yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))

    @cached_property
    def _dictionaries(self) -> list[Message]:
        return [message for message in self.messages if message.kind == _DICTIONARIES]

    def _weight(self, group: Group, batch: Any, columns: Sequence[str]) -> int:
        """Return the decoded bytes of a group: rows may repeat a list of a dictionary any number of times."""
        weight, compute = group.size, arrow().compute
        for array in (values_of(batch, name) for name in columns):
            if arrow().types.is_dictionary(array.type) and kind_of(array.type) == "ids":
                lengths = compute.list_value_length(array.dictionary)
                total = compute.sum(compute.cast(lengths.take(array.indices), "int64")).as_py() or 0
                stored = group.size + array.dictionary.nbytes
                check_claim(self.path, f"IDs in {self.unit} {group.number:,}", total, stored)
                weight = max(weight, 8 * group.rows * (compute.max(lengths).as_py() or 0))
        return weight

    def _check_buffers(self, message: Message, file: File | Held) -> None:
        """Bound what a message claims: the values of its columns and the decompressed bytes of its buffers.

        pyarrow allocates the size that a compressed buffer states in its first 8 bytes.
        """
        data = file.read(message.begin + 8, message.head - 8)
        total = 0
        for values in _values(data, message.kind):
            check_claim(self.path, "values in a column", values, message.body)
        for begin, length in _buffers(data, message.kind):
            if begin < 0 or length < 0 or begin + length > message.body:
                raise CorruptError(self.path, "a buffer leaves its message", offset=message.begin)
            if length >= 8:
                at = message.begin + message.head + begin
                plain = max(0, int.from_bytes(file.read(at, 8), "little", signed=True))
                check_claim(
                    self.path, f"bytes of the buffer at byte {at:,}, when it is decompressed,", plain, length, 8
                )
                total += plain
        if total > _BODY:
            raise UnsafeError(
                self.path,
                "a message decompresses to too many bytes",
                offset=message.begin,
                expected=f"{_BODY:,}",
                found=total,
            )


def _is_flat(schema: Any) -> bool:
    """Return whether a file holds one column of integers with a name of IDs: each record batch is a document."""
    return len(schema) == 1 and schema.names[0] in IDS and arrow().types.is_integer(schema.field(0).type)


def _blocks(file: File) -> list[Message]:
    """Return the messages that a footer lists, without their rows.

    A footer is a FlatBuffers table whose fields 2 and 3 are vectors of blocks, of dictionaries and of batches: i64 byte
    offset, i32 bytes of metadata, i64 bytes of the body.
    """
    ends = file.read(max(0, file.size - 10), min(10, file.size))
    length = int.from_bytes(ends[:4], "little", signed=True)
    if not 0 < length <= min(_FOOTER, file.size - 18) or ends[4:] != _ARROW[:6]:
        raise ValueError("its length is invalid, or the file is cut")
    data, found = file.read(file.size - 10 - length, length), list[Message]()
    root = _at("<I", data, 0)
    for number in (_DICTIONARIES, _BATCH):
        if field := _field(data, root, number):
            vector = _table(data, field)
            for at in range(vector + 4, vector + 4 + 24 * _at("<I", data, vector), 24):
                begin, head, body = _at("<q", data, at), _at("<i", data, at + 8), _at("<q", data, at + 16)
                found.append(Message(number, begin, head, body, 0))
    end = 8
    found.sort(key=attrgetter("begin"))
    for _, begin, head, body, _ in found:
        if begin < end or head < 8 or body < 0 or begin + head + body > file.size - 10 - length:
            raise ValueError("it lists messages that overlap or leave the file")
        end = begin + head + body
    return found


def _agree(block: Message | None, message: Message | None) -> bool:
    """Return whether a footer lists a message as it is."""
    return block is not None and message is not None and message._replace(rows=0) == block


def _heads(blocks: Sequence[Message]) -> list[tuple[int, int]]:
    """Return the byte ranges of the metadata of messages, to request them side by side."""
    return [(block.begin, block.begin + block.head) for block in blocks if block.head <= _SCHEMA_BYTES]


def _field(data: bytes, table: int, number: int) -> int:
    """Return the byte offset of a field of a FlatBuffers table, 0 if the table lacks it."""
    vtable = table - _at("<i", data, table)
    there = 4 + 2 * number < _at("<H", data, vtable)
    offset = _at("<H", data, vtable + 4 + 2 * number) if there else 0
    return table + offset if offset else 0


def _at(kind: str, data: bytes, at: int) -> int:
    if at < 0 or at + struct.calcsize(kind) > len(data):
        raise ValueError("its metadata holds a byte offset outside of itself")
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _table(data: bytes, at: int) -> int:
    """Return the byte offset of the table that a field points to."""
    if not at:
        raise ValueError("its metadata lacks a part")
    return at + _at("<I", data, at)


def _message(data: bytes, begin: int) -> Message:
    """Decode the metadata of an Arrow message; raise ValueError if its kind or its number of rows is invalid."""
    root = _at("<I", data, 0)
    kind_at, body_at = _field(data, root, 1), _field(data, root, 3)
    kind, rows = data[kind_at] if kind_at else 0, 0
    if kind == _BATCH and (length := _field(data, _table(data, _field(data, root, 2)), 0)):
        rows = _at("<q", data, length)
    body = _at("<q", data, body_at) if body_at else 0
    if kind not in (_SCHEMA, _DICTIONARIES, _BATCH) or rows < 0 or body < 0:
        raise ValueError(f"a message of kind {kind} with {rows} rows and {body} bytes")
    return Message(kind, begin, len(data) + 8, body, rows)


def begins_old(data: bytes) -> bool:
    """Return True if a stream begins as before Arrow 1.0: length and schema, without FFFFFFFF in front."""
    return _is_schema(data[4 : 4 + int.from_bytes(data[:4], "little")])


def _is_schema(data: bytes) -> bool:
    """Return True if bytes are the metadata of a schema message."""
    try:
        return _message(data, 0).kind == _SCHEMA
    except (ValueError, IndexError):
        return False


def _batch(data: bytes, kind: int) -> int:
    """Return the byte offset of the record batch table of a message; 0 in a schema message."""
    if kind == _SCHEMA:
        return 0
    table = _table(data, _field(data, _at("<I", data, 0), 2))
    return _table(data, _field(data, table, 1)) if kind == _DICTIONARIES else table


def _pairs(data: bytes, table: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield the structs of two i64 in the vector that a field points to."""
    if field := _field(data, table, number):
        vector = _table(data, field)
        for k in range(_at("<I", data, vector)):
            yield _at("<q", data, vector + 4 + 16 * k), _at("<q", data, vector + 12 + 16 * k)


def _values(data: bytes, kind: int) -> Iterator[int]:
    """Yield the number of values of each column of a message, nested columns included."""
    if table := _batch(data, kind):
        yield from (length for length, _ in _pairs(data, table, 1))


def _buffers(data: bytes, kind: int) -> Iterator[tuple[int, int]]:
    """Yield byte offset in the body and length of each compressed buffer of a message."""
    table = _batch(data, kind)
    if table and _field(data, table, 3):
        yield from _pairs(data, table, 2)


class _Lists(NamedTuple):
    """A column of lists in the metadata of its batches."""

    node: int  # the number of its node; the node after it is that of the items
    buffer: int  # the number of its first buffer: NULL rows, offsets, NULL items, items
    width: int  # bytes of an offset
    item: int  # bytes of an item


def _lists_at(schema: Any, column: str) -> _Lists | None:
    """Return where the metadata of batches state a column of lists of integers; None if that is not known."""
    types, node, buffer = arrow().types, 0, 0
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name == column:
            if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_integer(kind.value_type):
                return None
            return _Lists(node, buffer, 8 if types.is_large_list(kind) else 4, kind.value_type.bit_width // 8)
        if (taken := _parts_of(kind)) is None:
            return None
        node, buffer = node + taken[0], buffer + taken[1]
    return None


def _parts_of(kind: Any) -> tuple[int, int] | None:
    """Return the number of nodes and of buffers of a column of a type; None if its number of buffers varies."""
    types = arrow().types
    if types.is_dictionary(kind) or types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        return 1, 2
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return 1, 3
    if types.is_struct(kind):
        buffers, below = 1, [kind.field(k).type for k in range(kind.num_fields)]
    elif types.is_list(kind) or types.is_large_list(kind):
        buffers, below = 2, [kind.value_type]
    elif types.is_fixed_size_list(kind):
        buffers, below = 1, [kind.value_type]
    else:
        return None
    parts = [_parts_of(one) for one in below]
    if None in parts:
        return None
    return 1 + sum(part[0] for part in parts if part), buffers + sum(part[1] for part in parts if part)


def _claim_of_lists(data: bytes, message: Message, lists: _Lists) -> tuple[int, int]:
    """Return the byte offset of the offsets of a column of lists in a batch, and the number of items that it stores."""
    table = _batch(data, message.kind)
    nodes, buffers = list(_pairs(data, table, 1)), list(_pairs(data, table, 2))
    if _field(data, table, 3) or len(nodes) < lists.node + 2 or len(buffers) < lists.buffer + 4:
        raise ValueError("its rows have to be decoded")
    (rows, nulls), (items, null_items) = nodes[lists.node : lists.node + 2]
    (begin, length), (_, stored) = buffers[lists.buffer + 1], buffers[lists.buffer + 3]
    fits = 0 <= begin <= begin + length <= message.body and length >= (rows + 1) * lists.width
    if rows != message.rows or nulls or null_items or not fits or items * lists.item > stored or stored > message.body:
        raise ValueError("its rows have to be decoded")
    return message.begin + message.head + begin, items


Container = ParquetContainer | ArrowContainer


_LOOKED_AT = 16  # rows that show what their targets are
IDS, TEXT = ("input_ids", "tokens", "token_ids", "ids"), "text"
_CHATS, _FLAGS = "chats", "flags"  # what a column of lists of messages, or of booleans, can hold
_OF_FLAGS = (*COUNTING[1:], ATTENTION)
PACKED = ("input_ids", LOSS_MASK, STARTS)
_NAME = "--text-field NAME chooses a column of text, --from-opt column=NAME any column"


class Column(NamedTuple):
    """The column to read."""

    kind: str  # "ids" or "text"
    name: str  # its dotted path
    columns: tuple[str, ...] = ()  # those that are read beside IDs, by the rule of `model.rows`
    unread: bool = False  # `loss_mask` is there and is not read, as no option states which IDs it speaks of
    chats: bool = False
    pairs: Pairs = ""  # what its prompts, and the completions in the column beside it, are
    are_completions: bool = False  # `targets` are no labels; see `model.rows.are_pairs`

    @property
    def holds(self) -> str:
        """What it holds, as `kind_of` states it."""
        return _CHATS if self.chats else self.kind

    @property
    def beside(self) -> tuple[str, ...]:
        """All columns that are read with it."""
        return (*self.columns, *((COMPLETION,) if self.pairs else ()))

    @property
    def unmasked(self) -> Column:
        """The column without labels and masks; labels stay if they may show padding."""
        lost = {*COUNTING} - ({LABELS} if not {*ALL_POSITIONS}.isdisjoint(self.columns) else set())
        return self._replace(columns=tuple(name for name in self.columns if name not in lost))

    @property
    def packed(self) -> bool:
        """True if rows hold several documents, whose starts are read."""
        return not {*DIVIDING}.isdisjoint(self.columns)

    @property
    def has_masks(self) -> bool:
        """True if a column that is read with it states which IDs count in the loss."""
        return states_loss(self.columns, Reading(pairs=self.are_completions))

    @property
    def second(self) -> bool:
        """True if a second list of IDs is read with it."""
        return not {*SECOND.values()}.isdisjoint(self.columns)


def open_containers(format_: Variant, files: Sequence[Place], *, tail: bool = False) -> list[Container]:
    """Open the files of a dataset; with `tail`, also Arrow files without an end marker, or with a damaged footer."""
    return list(side_by_side(lambda path: format_.Container(path, tail=tail), files))


def stated_by_tokfmt(container: Container) -> dict[str, object]:
    """Return what tokfmt stated in the schema when it wrote the file; empty for other writers.

    `rows` is "documents", or "blocks" of a stream. `eos_id` is the separator with which every row ends.
    """
    try:
        stated = json.loads((container.schema.metadata or {}).get(b"tokfmt", b"{}"))
    except (ValueError, RecursionError):
        return {}
    return stated if isinstance(stated, dict) else {}


def own_blocks(container: Container) -> bool:
    """Return True if the schema says that tokfmt wrote the rows as blocks of a stream."""
    return stated_by_tokfmt(container).get("rows") == "blocks"


def own_separator(containers: Sequence[Container]) -> int | None:
    """Return the separator with which tokfmt ended every row of all files; None without one."""
    stated = [stated_by_tokfmt(container).get("eos_id") for container in containers]
    first = stated[0] if stated else None
    same = isinstance(first, int) and not isinstance(first, bool) and 0 <= first < 2**32 and len(set(stated)) == 1
    return first if same else None  # type: ignore[return-value]  # checked above


def typed(schema: Any, name: str) -> Any:
    """Return the type of the column at a dotted path; None if there is no such column, or several of the name."""
    kind = schema
    for key in path_of(schema, name):
        if kind is not schema and key.isdecimal() and _is_list(kind):
            kind = plain(kind).value_type
        elif (kind is schema or arrow().types.is_struct(kind)) and kind.get_field_index(key) >= 0:
            kind = kind.field(key).type
        else:
            return None
    return kind


def path_of(schema: Any, name: str) -> tuple[str, ...]:
    """Return the keys that lead to a column: its name, or a path as in JSON Lines; ("",) if it is not a path."""
    return (name,) if schema.get_field_index(name) >= 0 else keys_of(name) or ("",)


def _is_list(kind: Any) -> bool:
    types, kind = arrow().types, plain(kind)
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(is_it(kind) for is_it in lists)


def stored_columns(schema: Any, names: Sequence[str]) -> list[str]:
    """Return the columns to decode for some paths: of an element of a list, the list."""
    found = list[str]()
    for name in names:
        keys, kind = path_of(schema, name), schema
        for number, key in enumerate(keys):
            if kind is not schema and _is_list(kind):
                keys = keys[:number]
                break
            kind = kind.field(key).type if kind.get_field_index(key) >= 0 else schema
        found.append(".".join(keys))
    return list(dict.fromkeys(found))


def plain(kind: Any) -> Any:
    """Return the type of the values of a dictionary type; any other type as it is."""
    return kind.value_type if kind is not None and arrow().types.is_dictionary(kind) else kind


def item_type(kind: Any) -> Any:
    """Return the type of the items of a list type; uint16 for null, which a writer states if all lists are empty."""
    item = plain(plain(kind).value_type)
    return arrow().uint16() if arrow().types.is_null(item) else item


def kind_of(kind: Any) -> str:
    """Return what a type can hold: "ids" (lists of integers), "text" (strings or binary), "chats", "flags", or ""."""
    if kind is None:
        return ""
    types, kind = arrow().types, plain(kind)
    if _is_list(kind):
        item = item_type(kind)
        if types.is_struct(item):
            return _CHATS if has_message_keys(field.name for field in item) else ""
        return "ids" if types.is_integer(item) else _FLAGS if types.is_boolean(item) else ""
    return "text" if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary") else ""


def chosen(container: Container, options: ReadOptions) -> Column:
    """Choose the column to read: the given one, else packed rows, else IDs, else text."""
    schema = container.schema
    every = {name: kind_of(typed(schema, name)) for name in schema.names}
    listed = printable(", ".join(f"{name}: {schema.field(k).type}" for k, name in enumerate(schema.names[:20])))
    asked_text = options.text_field is not None
    if (name := options.text_field if asked_text else options.column) is not None:
        kind = kind_of(typed(schema, name))
        if kind == _CHATS:
            return Column(TEXT, name, chats=True)
        if not kind or (asked_text and kind != TEXT):
            what = f'column "{printable(name)}" holds {"no text" if asked_text else "neither IDs nor text"}'
            raise UnsupportedError(container.path, what, found=listed)
        return _of_ids(container, name, every, options) if kind == "ids" else Column(kind, name)
    for name in IDS:
        if every.get(name) == "ids":
            return _of_ids(container, name, every, options)
        of = typed(schema, name) if name in every else None
        inner = _inner_ids(schema, name) if of is not None else ""
        if inner or (of is not None and _is_list(of)):
            what, found = f'column "{name}" is not a list of IDs', str(of)
            remedy = f"--from-opt column={inner} reads a list in it" if inner else None
            raise UnsupportedError(container.path, what, expected="list<int32>", found=found, remedy=remedy)
    for name, second in SECOND.items():
        if every.get(name) == every.get(second) == "ids":
            return _of_ids(container, name, every, options, first=name)
    return _text_column(container, every, listed)


def _inner_ids(schema: Any, name: str) -> str:
    """Return the path of the first list of IDs in the lists or objects of a column; "" without one."""
    kind = plain(typed(schema, name))
    keys = [field.name for field in kind] if arrow().types.is_struct(kind) else ["0"] if _is_list(kind) else []
    return next((path for path in (f"{name}.{key}" for key in keys) if kind_of(typed(schema, path)) == "ids"), "")


def _of_ids(container: Container, name: str, every: Mapping[str, str], options: ReadOptions, first: str = "") -> Column:
    """Return a column of IDs with those that are read beside it; see `model.rows.columns_to_read`."""
    there = [one for one, kind in every.items() if kind == "ids" or (kind == _FLAGS and one in _OF_FLAGS)]
    names = columns_to_read(container.path, there, options.loss_mask, first)
    return Column("ids", name, names, LOSS_MASK in there and LOSS_MASK not in names and options.loss_mask is None)


def _text_column(container: Container, every: Mapping[str, str], listed: str) -> Column:
    """Choose the column of text: `text`, or the only one. A column with a name of IDs is not taken for text."""
    texts = [
        name for name, kind in every.items() if kind == TEXT and "binary" not in str(typed(container.schema, name))
    ]
    if every.get(TEXT) == TEXT:
        return Column(TEXT, TEXT)
    if chats := field_of_chats(name for name, kind in every.items() if kind == _CHATS):
        return Column(TEXT, chats, chats=True)
    kind = every.get(PROMPT)
    if kind == every.get(COMPLETION) and kind in (TEXT, _CHATS):
        of_chats = kind == _CHATS
        return Column(TEXT, PROMPT, chats=of_chats, pairs="chats" if of_chats else "texts")
    if len(texts) == 1 and texts[0] in IDS:
        what = f'column "{texts[0]}" holds text, not lists of IDs'
        remedy = f"Write lists; --text-field {texts[0]} reads it as text"
        raise UnsupportedError(container.path, what, found=listed, remedy=remedy)
    if len(texts) == 1:
        return Column(TEXT, texts[0])
    what = "has several columns of text" if texts else "has no column of IDs (input_ids, tokens, ...) and none of text"
    raise UnsupportedError(container.path, what, found=listed, remedy=_NAME)


def agreed(containers: Sequence[Container], options: ReadOptions) -> Column:
    """Choose the column to read in the first file, and check that the other files have the same columns."""
    column = chosen(containers[0], options)
    kind = "IDs" if column.kind == "ids" else column.holds
    for other in containers[1:]:
        both_ids = column.kind == kind_of(typed(other.schema, column.name)) == "ids"
        masks = chosen(other, options).beside if both_ids else ()
        for name in dict.fromkeys((column.name, *column.beside, *masks)):
            for here, there in ((other, containers[0]), (containers[0], other)):
                found = typed(here.schema, name)
                own = kind_of(found) if name == column.name else kind_of(found).replace(_FLAGS, column.holds)
                if own != column.holds:
                    what = f'has no column "{printable(name)}" of {kind}, as {printable(there.path.name)} has'
                    listed = printable(", ".join(here.schema.names[:20])) if found is None else str(found)
                    raise UnsupportedError(here.path, what, found=listed)
    if TARGETS in column.columns:
        column = column._replace(are_completions=_are_completions(containers, column))
    groups = (
        [(container, group) for container in containers for group in container.groups]
        if ATTENTION in column.columns
        else []
    )
    facts = [one.facts(group, ATTENTION) for one, group in groups]
    if groups and all(fact.low == 1 == fact.top for fact in facts):  # The footers state that it excludes nothing.
        return column._replace(columns=tuple(name for name in column.columns if name != ATTENTION))
    return column


def _are_completions(containers: Sequence[Container], column: Column) -> bool:
    """Return whether the targets beside a column are completions, as the first rows show."""
    for container, group in ((one, group) for one in containers for group in one.groups):
        for batch in container.batches(group, (column.name, TARGETS)):
            first = (values_of(batch, name).slice(0, _LOOKED_AT).to_pylist() for name in (column.name, TARGETS))
            rows = zip(*first, strict=True)
            return are_pairs(column.columns, [(ids, targets) for ids, targets in rows if ids and targets])
    return True


def values_of(batch: Any, name: str) -> Any:
    """Return the array of a batch at a dotted path; its rows are NULL where what contains it is."""
    first, *rest = path_of(batch.schema, name)
    array = batch.column(batch.schema.get_field_index(first))
    for key in rest:
        array = _element(array, int(key)) if _is_list(array.type) else arrow().compute.struct_field(array, [key])
    return array


def _element(array: Any, number: int) -> Any:
    """Return an element of each list of an array; NULL where a list does not have it."""
    if arrow().types.is_dictionary(array.type):
        array = array.dictionary.take(array.indices)
    lengths = arrow().compute.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    places = offsets_of(lengths)[:-1] + number
    return array.flatten().take(arrow().array(places, mask=lengths <= number))


def lost_rows(containers: Sequence[Container], column: Column) -> Iterator[Loss]:
    """Yield the NULL rows of each file, which `--allow-loss null-rows` reads as empty.

    Decodes the column to count NULL rows if the footers do not state their number.
    """
    for container in containers:
        count, first = 0, container.groups[0] if container.groups else None
        for group in container.groups:
            known = container.facts(group, column.name).nulls  # of lists, this counts NULL and empty ones
            if known is None or (known and column.kind != TEXT):
                batches = container.batches(group, [column.name])
                known = sum(values_of(batch, column.name).null_count for batch in batches)
            first = group if known and not count else first
            count += known
        if count and first is not None:
            where = f"first: in {container.unit} {first.number:,}, at byte {first.begin:,}"
            yield loss_in(container.path, "null-rows", f"{counted(count, 'row')} of NULL, read as empty ({where})")


def unread(containers: Sequence[Container], column: Column) -> tuple[str, ...]:
    """Return a note on columns that are not read."""
    own = {path_of(containers[0].schema, column.name)[0], *column.beside, ATTENTION}
    others = [name for name in containers[0].schema.names if name not in own]
    what = f'columns other than "{printable(column.name)}" are not read: {printable(", ".join(others[:12]))}'
    return (what,) if others else ()
