"""The container of Riegeli files: chunks of records, across which stand block headers. Bytes may be malicious.

    block     at each multiple of 65,536, also inside of chunks, to none of which these 24 bytes belong
              0 .. 7    u64 hash of the 16 bytes that follow
              8 .. 15   u64 bytes since the chunk began that goes on here
              16 .. 23  u64 bytes up to the end of the chunk
    chunk     0 .. 7    u64 hash of the 32 bytes that follow
              8 .. 15   u64 bytes of the data
              16 .. 23  u64 hash of the data
              24        type: s signature, r records, t records transposed, p padding, m metadata
              25 .. 31  number of records
              32 .. 39  u64 bytes of all records
              40 ..     the data
    data of   0         compression: 0 none, z zstd, b brotli, s snappy
    records   1 ..      varint: bytes of the sizes; the sizes, a varint for each record; the records. If they are
                        compressed, sizes and records each begin with a varint, the bytes that they decode to

The hash is HighwayHash-64; see `highway_hash`.
Source: files of array_record 0.8.3; google/riegeli riegeli/records, read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from tokfmt.errors import CorruptError, UnsafeError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.folders import decoded
from tokfmt.formats.highway_hash import hash_of_zeros, hashes
from tokfmt.formats.protobuf import LARGEST_RECORD, ProtobufError, varint_at, varint_of, varints
from tokfmt.wording import printable

BLOCK = 1 << 16
"""Bytes of a block."""

CHUNK = struct.Struct("<5Q")
"""The header of a chunk."""

BEGIN = bytes.fromhex("83af70d10d884a3f00000000000000004000000000000000")
"""The first bytes of each file: the header of the block that has the signature."""

LARGEST_CHUNK = 1 << 28
"""Bytes of a chunk, and of its records, at most."""

BLOCK_HEAD = 24
"""Bytes of a block header."""

_CODECS = {0: "", ord("z"): "zstd", ord("b"): "br", ord("s"): "snappy"}
_TOGETHER, _GROUPS = 1 << 22, 1 << 12  # bytes of chunks that are read at once, and chunks, at most


class Chunk(NamedTuple):
    """A chunk, whose hashes were compared."""

    offset: int  # its byte offset in the file
    kind: str  # its type, a letter
    records: int  # number of its records
    size: int  # bytes of all its records
    data: memoryview  # its data, compressed or not


def _without_heads(offset: int) -> int:
    """Return how many bytes before a byte offset of a file are not those of block headers."""
    blocks, rest = divmod(offset, BLOCK)
    return offset - BLOCK_HEAD * blocks - min(rest, BLOCK_HEAD)


def end_of(offset: int, size: int) -> int:
    """Return the byte offset after `size` bytes of chunks from a byte offset on."""
    blocks, rest = divmod(_without_heads(offset) + size, BLOCK - BLOCK_HEAD)
    return blocks * BLOCK + (BLOCK_HEAD + rest) * bool(rest)


def read(file: File, begin: int, end: int) -> memoryview:
    """Return the bytes of a file from one offset to another, without block headers."""
    raw, pieces, at = memoryview(file.read(begin, end - begin)), list[memoryview](), begin
    while at < end:
        at += max(0, BLOCK_HEAD - at % BLOCK)
        after = min(end, at - at % BLOCK + BLOCK)
        if at < after:
            pieces.append(raw[at - begin : after - begin])
        at = after
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def chunks_at(file: File, starts: Sequence[int], end: int) -> Iterator[Chunk]:
    """Yield the chunks that begin at these byte offsets; the last one ends before `end`.

    Raises:
        CorruptError: A hash does not fit. All chunks before are right.
    """
    first, bounds = 0, [*starts, end]
    while first < len(starts):
        last = first + 1
        while last < len(starts) and bounds[last + 1] - bounds[first] <= _TOGETHER and last - first < _GROUPS:
            last += 1
        if bounds[last] - bounds[first] > LARGEST_CHUNK:
            expected, found = f"at most {LARGEST_CHUNK:,} bytes", f"{bounds[last] - bounds[first]:,}"
            raise UnsafeError(file.path, "size of a chunk", offset=bounds[first], expected=expected, found=found)
        content = read(file, bounds[first], bounds[last])
        at = [_without_heads(offset) - _without_heads(bounds[first]) for offset in bounds[first : last + 1]]
        heads = [bytes(content[a : a + CHUNK.size]) for a in at[:-1]]
        parts = [CHUNK.unpack(head) if len(head) == CHUNK.size else None for head in heads]
        sound = hashes([head[8:] for head in heads])
        datas = [
            content[a + CHUNK.size : b][: part[1] if part else 0] for a, b, part in zip(at, at[1:], parts, strict=False)
        ]
        known = hashes(datas)
        for offset, part, head_hash, data, data_hash in zip(bounds[first:], parts, sound, datas, known, strict=False):
            if part is None or part[0] != head_hash:
                what = "the header of a chunk does not fit its hash"
                raise CorruptError(file.path, what, offset=offset, remedy="Copy it again")
            if len(data) < part[1]:
                found, remedy = f"{len(data):,}", "Copy it again"
                raise CorruptError(
                    file.path, "bytes of a chunk", offset=offset, expected=part[1], found=found, remedy=remedy
                )
            if part[2] != data_hash:
                what = "the data of a chunk do not fit their hash"
                raise CorruptError(file.path, what, offset=offset, remedy="Copy it again")
            yield Chunk(offset, chr(part[3] & 0xFF), part[3] >> 8, part[4], data)
        first = last


def records_in(path: Place, chunk: Chunk) -> Iterator[memoryview]:
    """Yield the records of a chunk.

    Raises:
        UnsupportedError: They are transposed, or compressed in an unknown way.
        CorruptError: Sizes contradict each other.
        UnsafeError: They would fill memory.
    """
    if chunk.kind == "t":
        remedy = "Write it again without the option transpose"
        raise UnsupportedError(path, "holds transposed records", offset=chunk.offset, remedy=remedy)
    if chunk.kind != "r":
        found = printable(chunk.kind)
        raise CorruptError(path, "type of a chunk of records", offset=chunk.offset, expected="r", found=found)
    data = chunk.data
    if not data or data[0] not in _CODECS:
        found = data[:1].hex() or "nothing"
        raise UnsupportedError(
            path, "compression of a chunk", offset=chunk.offset, expected="0, z, b or s", found=found
        )
    if chunk.size > LARGEST_CHUNK:
        expected, found = f"at most {LARGEST_CHUNK:,} bytes", f"{chunk.size:,}"
        raise UnsafeError(path, "records of a chunk", offset=chunk.offset, expected=expected, found=found)
    codec = _CODECS[data[0]]
    try:
        size, at = varint_at(data, 1)
        lengths = varints(_plain(path, codec, data[at : at + size]))
        content = _plain(path, codec, data[at + size :])
    except ProtobufError as error:
        raise CorruptError(path, f"a chunk {error}", offset=chunk.offset, remedy="Copy it again") from error
    is_whole = len(lengths) == chunk.records and (not len(lengths) or int(lengths.min()) >= 0)
    if not is_whole or len(content) != chunk.size or sum(lengths.tolist()) != chunk.size:
        what = "the sizes of the records of a chunk contradict its header"
        raise CorruptError(path, what, offset=chunk.offset, remedy="Write it again")
    if len(lengths) and int(lengths.max()) > LARGEST_RECORD:
        expected, found = f"at most {LARGEST_RECORD:,} bytes", f"{int(lengths.max()):,}"
        raise UnsafeError(path, "length of a record", offset=chunk.offset, expected=expected, found=found)
    begin = 0
    for length in lengths.tolist():
        yield content[begin : begin + length]
        begin += length


def _plain(path: Place, codec: str, data: memoryview) -> memoryview:
    if not codec:
        return data
    size, at = varint_at(data, 0)
    return memoryview(decoded(path, codec, bytes(data[at:]), size))


class Output:
    """A file of chunks that is written from its beginning to its end."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self.at = out, 0

    def chunks(
        self, kind: str, datas: Sequence[bytes], counts: Sequence[int], sizes: Sequence[int], known: Sequence[int] = ()
    ) -> list[int]:
        """Write chunks, and return the byte offset of each. `counts` is the number of records of each, `sizes` their
        bytes, and `known` the hash of each of `datas`; empty: not computed yet.
        """
        parts = [
            struct.pack("<4Q", len(data), found, ord(kind) | count << 8, size)
            for data, found, count, size in zip(datas, known or hashes(datas), counts, sizes, strict=True)
        ]
        starts = list[int]()
        for data, part, found in zip(datas, parts, hashes(parts), strict=True):
            starts.append(self.at)
            self._chunk(struct.pack("<Q", found) + part + data)
        return starts

    def pad(self) -> None:
        """Write a chunk of zeros up to the next block, or to the one after if there is no room for its header."""
        left = -self.at % BLOCK
        if left:
            end = self.at + left + BLOCK * (left < CHUNK.size)
            size = _without_heads(end) - _without_heads(self.at) - CHUNK.size
            self.chunks("p", [bytes(size)], [0], [0], known=[hash_of_zeros(size)])

    def _chunk(self, content: bytes) -> None:
        begin, end, written = self.at, end_of(self.at, len(content)), 0
        while self.at < end:
            if self.at % BLOCK == 0:
                head = struct.pack("<2Q", self.at - begin, end - self.at)
                self._out.write(struct.pack("<Q", *hashes([head])) + head)
                self.at += BLOCK_HEAD
            size = min(BLOCK - self.at % BLOCK, len(content) - written)
            self._out.write(content[written : written + size])
            self.at, written = self.at + size, written + size


def data_of(records: Sequence[bytes]) -> bytes:
    """Return the data of a chunk of records that is not compressed."""
    sizes = b"".join(varint_of(len(record)) for record in records)
    return b"\0" + varint_of(len(sizes)) + sizes + b"".join(records)
