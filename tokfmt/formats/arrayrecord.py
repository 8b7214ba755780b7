"""ArrayRecord files of token IDs or text, as Grain, MaxText and TFDS read them: Riegeli chunks and a footer.

    part        content
    file        chunks of Riegeli: a signature, records, the footer, padding; in the last 65,536 bytes the postscript
    chunk       0 .. 7 hash of the next 32 bytes; u64 bytes of the data; u64 hash of the data; type: s signature,
                r records, p padding; 7 bytes: number of records; u64 bytes of all records; the data
    block       at each multiple of 65,536 a header of 24 bytes, also inside of chunks: u64 hash of the other 16, u64
                bytes since the chunk began, u64 bytes to its end
    footer      records {1: {1: version 1, 2: chunks, 3: records, 4: options}}, and for each chunk {1: byte offset,
                2: bytes of its records, 3: number of its records}
    postscript  three times {1: byte offset of the footer, 2: 71930E704FDAE05E}

- Records are tf.train.Example or bare integers, as in tfrecord. MaxText reads Examples.
- The hashes are HighwayHash-64. Each chunk is compared with them. The reader of upstream opens damaged files without an
  error, as empty ones.
- A writer that was killed leaves no postscript: --allow-partial reads the chunks that are there.
- Upstream finds a record by division: all chunks but the last have the same number of records (`group_size`).
Source: array_record 0.8.3, run, and google/array_record 24553222, read; google/riegeli, as found in its files.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.example_records import (
    ExampleFormat,
    ExampleWriter,
    ReadOptions,
    content_of,
    first_records,
    shards_of,
)
from tokfmt.formats.protobuf import ProtobufError, fields, varint_of, varints
from tokfmt.formats.record_files import Record, RecordFiles, RecordFilesInspection
from tokfmt.formats.riegeli import (
    BEGIN,
    BLOCK,
    BLOCK_HEAD,
    CHUNK,
    LARGEST_CHUNK,
    Output,
    chunks_at,
    data_of,
    end_of,
    read,
    records_in,
)
from tokfmt.wording import printable

_MAGIC = 0x71930E704FDAE05E
_SHARD = re.compile(r"(?![._])(?P<set>.+)\.(array_?record)(-\d+-of-(?P<files>\d+))?", re.IGNORECASE)
_PENDING, _GROUPS = 1 << 22, 1 << 12  # bytes and chunks that are written at once, at most


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing records."""

    field: str = option("input_ids", "feature of tf.train.Example that holds the IDs")
    bare: Literal["int32", "int64"] | None = option(None, "dtype of bare integers; auto: records are tf.train.Example")
    group_size: int = option(1, "records per chunk; a reader decodes a whole chunk for one of them", minimum=1)
    shard_size: int = option(1 << 26, "tokens per file of a folder; sequences stay complete", minimum=1)


class Index(NamedTuple):
    """What the footer of a file states."""

    starts: NDArray[np.int64]  # int64, byte offset of each chunk of records
    records: NDArray[np.int64]  # int64, number of its records
    end: int  # byte offset of the footer
    options: str  # the options of the writer


def index_of(file: File) -> Index:
    """Return what the footer of a file states.

    Raises:
        UnsupportedError: It is not a file of Riegeli.
        TruncatedError: It has no postscript.
        CorruptError: The footer is damaged.
    """
    if file.read(0, min(file.size, len(BEGIN))) != BEGIN:
        raise UnsupportedError(file.path, "does not begin like an ArrayRecord file", offset=0)
    begin, stated = file.size - BLOCK, None
    if begin >= BLOCK and file.size % BLOCK == 0:
        with suppress(FormatError, ProtobufError):
            (postscript,) = chunks_at(file, [begin], file.size)
            copies = [_numbers(record) for record in records_in(file.path, postscript)]
            if len(copies) == 3 and all(copy == copies[0] and copy.get(2) == _MAGIC for copy in copies):
                stated = copies[0].get(1, 0)
    if stated is None:
        what = "has no postscript: it was cut, its writer was not closed, or it is another file of Riegeli"
        raise TruncatedError(file.path, what, offset=max(0, begin), remedy="Copy it again, or write it to its end")
    if not len(BEGIN) <= stated < begin:
        what, expected = "byte offset of the footer in the postscript", f"less than {begin:,}"
        raise CorruptError(file.path, what, offset=begin, expected=expected, found=stated)
    (footer,) = chunks_at(file, [stated], begin)
    try:
        records = [bytes(record) for record in records_in(file.path, footer)]
        total, count, options = _metadata(records[0] if records else b"")
        rows = _rows(records[1:])
    except ProtobufError as error:
        raise CorruptError(file.path, f"the footer {error}", offset=stated, remedy="Copy it again") from error
    starts, groups = rows[:, 0], rows[:, 2]
    bounds = np.concatenate([[len(BEGIN)], starts, [stated]])
    if len(rows) != total or int(groups.sum()) != count or (np.diff(bounds) <= 0).any() or (groups < 0).any():
        what = "the footer contradicts itself: offsets of chunks ascend, and its counts are those that it states"
        raise CorruptError(file.path, what, offset=stated, remedy="Write it again")
    return Index(starts, groups, stated, options)


def _numbers(record: memoryview) -> Mapping[int, int]:
    return {number: value for number, value in fields(record) if isinstance(value, int)}


def _metadata(record: bytes) -> tuple[int, int, str]:
    """Return the number of chunks and of records, and the options of the writer, from the first record of a footer."""
    inner = next((value for number, value in fields(memoryview(record)) if number == 1), None)
    if not isinstance(inner, memoryview):
        raise ProtobufError("does not begin with its metadata")
    stated = dict(fields(inner))
    version, chunks, records = (stated.get(number, 0) for number in (1, 2, 3))
    text = stated.get(4, b"")
    if version != 1 or not isinstance(chunks, int) or not isinstance(records, int):
        raise ProtobufError(f"is of another version than 1, {printable(version)[:20]}")
    return chunks, records, bytes(text).decode("utf-8", "replace") if not isinstance(text, int) else ""


def _rows(records: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the byte offset, the bytes and the number of records of each chunk, of shape (chunks, 3)."""
    content = np.frombuffer(b"".join(records), np.uint8)
    rows = np.zeros((len(records), 3), np.int64)
    values = varints(memoryview(content.data))
    ends = np.flatnonzero(content < 0x80)[1::2]
    tags = values[::2]
    if len(values) % 2 or not np.isin(tags, (8, 16, 24)).all():
        raise ProtobufError("has an entry that is not of a chunk")
    bounds = np.cumsum([len(record) for record in records])
    rows[np.searchsorted(bounds, ends, side="right"), tags // 8 - 1] = values[1::2]
    return rows


def _rescued(file: File) -> Iterator[bytes]:
    """Yield the records of a file without a postscript, up to what is not a whole chunk, or is the footer."""
    at, chunks, found = end_of(0, CHUNK.size), 0, 0
    while at + CHUNK.size + BLOCK_HEAD <= file.size:
        _, size, *_ = CHUNK.unpack(read(file, at, min(file.size, end_of(at, CHUNK.size))).tobytes()[: CHUNK.size])
        end = end_of(at, CHUNK.size + size)
        if end > file.size or size > LARGEST_CHUNK:
            return
        (chunk,) = chunks_at(file, [at], end)
        if chunk.kind not in ("m", "s"):
            records = [bytes(record) for record in records_in(file.path, chunk)] if chunk.kind != "p" else []
            with suppress(ProtobufError):
                if records and _metadata(records[0])[:2] == (chunks, found) and len(records) == chunks + 1:
                    return
            yield from records
            chunks, found = chunks + bool(records), found + len(records)
        at = end


def records_of(path: Place) -> Iterator[bytes]:
    """Yield the records of a file in order.

    Raises:
        TruncatedError: The file has no postscript. All records before are right.
        FormatError: It is damaged in another way.
    """
    with closing(open_file(path)) as file:
        try:
            index = index_of(file)
        except TruncatedError:
            with suppress(CorruptError):
                yield from _rescued(file)
            raise
        for number, chunk in enumerate(chunks_at(file, index.starts.tolist(), index.end)):
            if chunk.records != index.records[number]:
                what, expected = "records of a chunk, by the footer", int(index.records[number])
                raise CorruptError(path, what, offset=chunk.offset, expected=expected, found=chunk.records)
            for record in records_in(path, chunk):
                yield bytes(record)


class Reader(RecordFiles):
    """A reader of files with footers."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """Read the footers, and look at the first records."""
        files = shards_of(paths, _SHARD, options)
        counts, written = list[int](), set[str]()
        for path in files:
            with closing(open_file(path)) as file, suppress(*[CorruptError, TruncatedError] * hints.allow_partial):
                index = index_of(file)
                counts.append(int(index.records.sum()))
                written.add(printable(index.options)[:200])
        where, first = first_records([(file, records_of(file)) for file in files], allow_partial=hints.allow_partial)
        self.content = content_of(where, first, options)
        super().__init__(
            self.content.kind, files, hints, counts=counts if len(counts) == len(files) else None,
            **self.content.facts(hints),
            extras={"records hold": self.content.holds, **({"options": written.pop()} if len(written) == 1 else {})},
        )  # fmt: skip

    def records(self, path: Place) -> Iterator[Record]:
        for number, record in enumerate(records_of(path)):
            yield self.content.value(path, number, record)


def _message(*values: tuple[int, int]) -> bytes:
    """Return fields of numbers, those that are 0 too."""
    return b"".join(varint_of(number << 3) + varint_of(value) for number, value in values)


class Writer(ExampleWriter):
    """A writer of X.array_record, or of numbered files in a folder: the bytes that array_record writes uncompressed."""

    suffixes = (".array_record", ".arrayrecord")
    options_text: ClassVar[str] = (
        "group_size:{},transpose:false,pad_to_block_boundary:false,uncompressed,max_parallelism:1"
    )

    def name(self, number: int) -> str:
        return f"data-{number:05d}-of-{self.files:05d}.array_record"

    def write_file(self, out: IO[bytes], sequences: Iterator[NDArray[np.integer[Any]]]) -> None:
        file, group = Output(out), self.options.group_size
        file.chunks("s", [b""], [0], [0])
        index, pending, size = array("q"), list[bytes](), 0
        for ids in sequences:
            pending.append(self.record(ids))
            size += len(pending[-1])
            if len(pending) % group == 0 and (size > _PENDING or len(pending) >= _GROUPS):
                self._flush(file, pending, index)
                pending, size = [], 0
        self._flush(file, pending, index)
        rows = np.array(index, np.int64).reshape(-1, 3)
        text = self.options_text.format(group).encode()
        stated = _message((1, 1), (2, len(rows)), (3, int(rows[:, 2].sum()))) + b"\x22" + varint_of(len(text)) + text
        entries = [
            b"\x0a" + varint_of(len(stated)) + stated,
            *(_message(*zip((1, 2, 3), row, strict=True)) for row in rows.tolist()),
        ]
        (footer,) = file.chunks("r", [data_of(entries)], [len(entries)], [sum(map(len, entries))])
        file.pad()
        postscript = _message((1, footer)) + b"\x10" + varint_of(_MAGIC)
        file.chunks("r", [data_of([postscript] * 3)], [3], [3 * len(postscript)])
        file.pad()

    def _flush(self, file: Output, records: Sequence[bytes], index: array[int]) -> None:
        """Write records in chunks of `group_size`, and list these in the index."""
        step = self.options.group_size
        groups = [records[a : a + step] for a in range(0, len(records), step)]
        sizes, counts = [sum(map(len, group)) for group in groups], [len(group) for group in groups]
        starts = file.chunks("r", [data_of(group) for group in groups], counts, sizes)
        for row in zip(starts, sizes, counts, strict=True):
            index.extend(row)


class ArrayRecordInspection(RecordFilesInspection):
    """The inspection of files with footers. It compares the numbers of records of their chunks."""

    def look(self, how: Audit) -> Iterator[Finding]:
        yield from super().look(how)
        for path in self._reader.places:
            with closing(open_file(path)) as file, suppress(FormatError):
                groups = index_of(file).records
                if len(groups) > 1 and ((groups[:-1] != groups[0]).any() or groups[-1] > groups[0]):
                    k = int(np.flatnonzero(groups != groups[0])[0])
                    what, expected, found = f"records of chunk {k:,}", f"{int(groups[0]):,}", f"{int(groups[k]):,}"
                    error = CorruptError(path, what, expected=expected, found=found, remedy="Write it again")
                    yield Finding.of("TF893", error, "warning")


class ArrayRecord(ExampleFormat):
    """The format of ArrayRecord files of token IDs."""

    name = "arrayrecord"
    title = "ArrayRecord files of Grain, MaxText and TFDS"
    extensions = (".array_record", ".arrayrecord")
    shard, write_options, Reader, Writer = _SHARD, WriteOptions, Reader, Writer
    unreadable, damaged, unsafe = "TF891", "TF892", "TF894"
    inspection = ArrayRecordInspection

    def sniff(self, probe: Probe) -> Confidence | None:
        file = self.first_shard(probe)
        return Confidence.CERTAIN if file is not None and file.head.startswith(BEGIN) else None


FORMAT = ArrayRecord()
