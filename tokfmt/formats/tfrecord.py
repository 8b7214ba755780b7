"""TFRecord files of token IDs or text, as TensorFlow writes them for T5, GPT-Neo and MaxText.

    bytes of a record  content
    0 .. 7             u64 little-endian: n, the length of the data
    8 .. 11            u32 masked CRC-32C of these 8 bytes
    12 .. n + 11       data: tf.train.Example, or bare integers
    n + 12 .. n + 15   u32 masked CRC-32C of the data

- The masked CRC is (crc >> 15 | crc << 17) + 0xA282EAD8, modulo 2^32.
- Records follow each other, without a header or a count. A file of 0 bytes has no records.
- The whole file may be gzip or zlib, under any name.
- Of an Example, the feature input_ids, tokens, inputs or text is read, or the only one with lists of integers, or
  `field=NAME`. A feature `text` of bytes is text. Features beside IDs that `model.rows` names (labels,
  attention_mask, inputs_segmentation, targets of inputs, ...) are read by its rule. A note lists the others.
- Records without a protobuf message are bare integers, whose dtype nothing states: `bare=int32`.
- A folder holds X.tfrecord or X.tfrecord-00000-of-00002. One X is a dataset; `prefix=X` reads one of several.
  tokfmt writes data-00000-of-00002.tfrecord.
- GPT-Neo takes the number of records from the name, X_NUMBER_RECORDS.tfrecords. Grain compares no checksum.
Source: tfrecord 1.14.6 and grain 0.2.18, run; gpt-neo 23485e3c, mesh-transformer-jax f8315e30, maxtext e591f30c, read.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.errors import CorruptError, TruncatedError, UnsafeError
from tokfmt.files.file import Stream, open_file
from tokfmt.files.place import Place
from tokfmt.formats.example_records import (
    ExampleFormat,
    ExampleWriter,
    ReadOptions,
    content_of,
    first_records,
    shards_of,
)
from tokfmt.formats.protobuf import LARGEST_RECORD
from tokfmt.formats.record_files import Record, RecordFiles, RecordFilesInspection
from tokfmt.wording import counted

_HEAD, _FOOT = struct.Struct("<QI"), struct.Struct("<I")
_SHARD = re.compile(r"(?![._])(?P<set>.+)\.(tfrecords?|tfrec)(-\d+-of-(?P<files>\d+))?(\.gz)?", re.IGNORECASE)
_COUNTED = re.compile(r".+_\d+_(\d+)\.tfrecords")
_BUFFER, _PIECE = 1 << 20, 1 << 16


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing records."""

    field: str = option("input_ids", "feature of tf.train.Example that holds the IDs")
    bare: Literal["int32", "int64"] | None = option(None, "dtype of bare integers; auto: records are tf.train.Example")
    compression: Literal["none", "gzip"] = option("none", "compression of whole files")
    shard_size: int = option(1 << 26, "tokens per file of a folder; sequences stay complete", minimum=1)


def masked(data: bytes) -> int:
    """Return the masked CRC-32C of bytes."""
    import google_crc32c

    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Inflated(io.RawIOBase):
    """The content of a stream of gzip or zlib, of which several may follow each other."""

    def __init__(self, stored: IO[bytes] | io.RawIOBase) -> None:
        self._stored, self._stream, self._left = stored, zlib.decompressobj(47), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, and return their number; 0 at the end.

        Raises:
            EOFError: The stored bytes end too early.
            zlib.error: They are damaged.
        """
        content, out = b"", memoryview(buffer).cast("B")
        while not content:
            piece = self._left or self._stored.read(_PIECE) or b""
            if self._stream.eof and piece:
                self._stream = zlib.decompressobj(47)
            elif not piece:
                if not self._stream.eof:
                    raise EOFError
                return 0
            content = self._stream.decompress(piece, len(out))
            self._left = self._stream.unconsumed_tail or self._stream.unused_data
        out[: len(content)] = content
        return len(content)


def is_compressed(head: bytes) -> bool:
    """Return whether a file begins like gzip or zlib, and not like a record."""
    begins = head[:2] == b"\x1f\x8b" or (head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0)
    return begins and not _is_framed(head)


def _is_framed(head: bytes) -> bool:
    with suppress(ImportError):  # without its package, a file of another format is no less that of another
        return len(head) >= _HEAD.size and masked(head[:8]) == _HEAD.unpack_from(head)[1]
    return False


def records_of(path: Place) -> Iterator[bytes]:
    """Yield the data of each record of a file in order, after a comparison with its checksums.

    Raises:
        TruncatedError: The file ends inside a record. All before are complete.
        CorruptError: A checksum does not fit.
        UnsafeError: A record states a length that would exhaust memory.
    """
    with ExitStack() as closes:
        file = closes.enter_context(closing(open_file(path)))
        packed = is_compressed(file.read(0, min(file.size, _HEAD.size)))
        content = Inflated(Stream(file)) if packed else Stream(file)
        stream = closes.enter_context(io.BufferedReader(content, _BUFFER))  # frees its buffer
        at, number, where = 0, 0, " of the decompressed content" * packed
        while head := _next(path, stream, _HEAD.size):
            what = f"record {number:,}{where}"
            if len(head) < _HEAD.size:
                raise TruncatedError(path, f"ends inside {what}", offset=at + len(head), remedy="Copy it again")
            length, stated = _HEAD.unpack(head)
            if (found := masked(head[:8])) != stated:
                _refuse_checksum(path, f"checksum of the length of {what}", at + 8, found, stated)
            left = None if packed else file.size - at - _HEAD.size
            if left is not None and length + _FOOT.size > left:
                expected, remedy = f"{length:,} bytes and 4", "Copy it again"
                raise TruncatedError(
                    path, f"ends inside {what}", offset=at, expected=expected, found=left, remedy=remedy
                )
            if length > LARGEST_RECORD:
                expected = f"at most {LARGEST_RECORD:,} bytes"
                raise UnsafeError(path, f"length of {what}", offset=at, expected=expected, found=f"{length:,}")
            data = _next(path, stream, length + _FOOT.size)
            if len(data) < length + _FOOT.size:
                end = at + _HEAD.size + len(data)
                raise TruncatedError(path, f"ends inside {what}", offset=end, remedy="Copy it again")
            record, (stated,) = data[:length], _FOOT.unpack_from(data, length)
            if (found := masked(record)) != stated:
                _refuse_checksum(path, f"checksum of {what}", at + _HEAD.size + length, found, stated)
            yield record
            at, number = at + _HEAD.size + length + _FOOT.size, number + 1


def _next(path: Place, stream: Any, size: int) -> bytes:
    try:
        found: bytes = stream.read(size)
    except EOFError as error:
        raise TruncatedError(path, "its gzip or zlib data end too early", remedy="Copy it again") from error
    except zlib.error as error:
        raise CorruptError(path, "is damaged: zlib cannot decode it", remedy="Copy it again") from error
    return found


def _refuse_checksum(path: Place, what: str, offset: int, expected: int, found: int) -> None:
    remedy = "Copy it again: readers that compare none, as Grain, take the damaged data"
    raise CorruptError(path, what, offset=offset, expected=f"{expected:08x}", found=f"{found:08x}", remedy=remedy)


class Reader(RecordFiles):
    """A reader of files of records.

    Attributes:
        finished: Of each file that this reader has read to its end, the number of records, and of those of 0 bytes.
    """

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """List the files, and look at the first records."""
        files = shards_of(paths, _SHARD, options)
        where, first = first_records([(file, records_of(file)) for file in files], allow_partial=hints.allow_partial)
        self.content, self.finished = content_of(where, first, options), dict[Place, tuple[int, int]]()
        extras = {"records hold": self.content.holds}
        super().__init__(self.content.kind, files, hints, **self.content.facts(hints), extras=extras)

    def records(self, path: Place) -> Iterator[Record]:
        found = blank = 0
        for record in records_of(path):
            yield self.content.value(path, found, record)
            found, blank = found + 1, blank + (not record)
        self.finished[path] = found, blank


class Writer(ExampleWriter):
    """A writer of X.tfrecord, or of numbered files in a folder."""

    suffixes = (".tfrecord", ".tfrecords")

    def name(self, number: int) -> str:
        return f"data-{number:05d}-of-{self.files:05d}.tfrecord"

    def write_file(self, out: IO[bytes], sequences: Iterator[NDArray[np.integer[Any]]]) -> None:
        packed = zlib.compressobj(6, wbits=31) if self.options.compression == "gzip" else None
        for ids in sequences:
            record = self.record(ids)
            length = struct.pack("<Q", len(record))
            framed = length + _FOOT.pack(masked(length)) + record + _FOOT.pack(masked(record))
            out.write(packed.compress(framed) if packed else framed)
        if packed:
            out.write(packed.flush())


class TFRecordInspection(RecordFilesInspection):
    """The inspection of files of records. It compares their number with names that state it."""

    def look(self, how: Audit) -> Iterator[Finding]:
        yield from super().look(how)
        finished: Mapping[Place, tuple[int, int]] = self._reader.finished  # type: ignore[attr-defined] # `Reader`
        for path, (found, blank) in finished.items():
            if blank:
                what = f"holds {counted(blank, 'record')} of 0 bytes, which are read as empty sequences"
                yield Finding.of("TF883", CorruptError(path, what), "warning")
            stated = _COUNTED.fullmatch(path.name)
            if stated and found != int(stated[1]):
                error = CorruptError(path, "records, by its name", expected=int(stated[1]), found=found)
                yield Finding.of("TF884", error, "warning")


class TFRecord(ExampleFormat):
    """The format of TFRecord files of token IDs."""

    name = "tfrecord"
    title = "TFRecord files of TensorFlow: T5, GPT-Neo, MaxText"
    extensions = (".tfrecord", ".tfrecords")
    packages = ("google-crc32c",)
    shard, write_options, Reader, Writer = _SHARD, WriteOptions, Reader, Writer
    unreadable, damaged, unsafe = "TF881", "TF882", "TF885"
    inspection = TFRecordInspection

    def sniff(self, probe: Probe) -> Confidence | None:
        file = self.first_shard(probe)
        if file is None:
            return None
        head = file.head
        if is_compressed(head):
            with suppress(zlib.error):
                head = zlib.decompressobj(47).decompress(head, _PIECE)
        if _is_framed(head):
            return Confidence.CERTAIN
        return Confidence.NAME if _SHARD.fullmatch(file.path.name) else None


FORMAT = TFRecord()
