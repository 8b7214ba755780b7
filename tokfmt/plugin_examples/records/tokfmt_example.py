"""The format example: describe it here, `tokfmt formats example` prints this text.

A directory with an index and compressed shards:

example.json           {"version": 1, "records": [R, ...]}, the number of records of each shard, written last
00000.example.gz, ...  gzip; in it, one record after the other: u32 little-endian, the number of token IDs; the IDs, u32
"""

import gzip
import json
import re
import zlib
from dataclasses import dataclass

import numpy as np

from tokfmt import plugin
from tokfmt.plugin import (
    Code,
    Confidence,
    CorruptError,
    RecordFiles,
    RecordFilesFormat,
    RecordFilesWriter,
    Stream,
    TruncatedError,
    UnsafeError,
    json_object,
    names_in,
    open_file,
    option,
    whole_number,
)

if plugin.VERSION != 2:
    raise ImportError(f"tokfmt_example was written for version 2 of tokfmt.plugin, and this is {plugin.VERSION}")

INDEX, SHARD = "example.json", re.compile(r"\d{5}\.example\.gz")
LONGEST = 1 << 26  # token IDs of a record


@dataclass(frozen=True)
class WriteOptions:
    shard_size: int = option(1 << 24, "tokens per shard; records stay complete", minimum=1)


class Reader(RecordFiles):
    def __init__(self, paths, options, hints):
        (folder,) = paths
        index = json_object(open_file(folder / INDEX))
        records = index.get("records")
        if index.get("version") != 1 or not isinstance(records, list):
            raise CorruptError(folder / INDEX, "is not an index of example")
        counts = [whole_number(folder / INDEX, "does not count the records of a shard", one) for one in records]
        super().__init__("ids", [folder / f"{k:05d}.example.gz" for k in range(len(counts))], hints, counts=counts)

    def records(self, path):
        try:
            with gzip.open(Stream(open_file(path))) as stream:
                while head := stream.read(4):
                    length = int.from_bytes(head, "little")
                    if length > LONGEST:
                        raise UnsafeError(path, "has a record that is too long", expected=LONGEST, found=length)
                    ids = np.frombuffer(stream.read(4 * length), "<u4")
                    if len(head) < 4 or len(ids) < length:
                        raise TruncatedError(path, "ends inside a record")
                    yield ids
        except EOFError as error:
            raise TruncatedError(path, "ends inside its gzip data", remedy="Copy it again") from error
        except (OSError, ValueError, zlib.error) as error:
            raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error


class Writer(RecordFilesWriter):
    def name(self, number):
        return f"{number:05d}.example.gz"

    def write_file(self, out, sequences):
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
            for ids in sequences:
                packed.write(len(ids).to_bytes(4, "little"))
                packed.write(ids.astype("<u4").data)

    def indexes(self, counts):
        return {INDEX: json.dumps({"version": 1, "records": [records for records, _ in counts]}).encode()}


class Format(RecordFilesFormat):
    name, title, extensions = "example", "example, a format of mine", (".example",)
    stores, cannot_store = "sequences in order, empty ones too", "loss masks"
    write_options, Reader, Writer = WriteOptions, Reader, Writer
    unreadable, damaged = "EXAMPLE1", "EXAMPLE2"

    def sniff(self, probe):
        return Confidence.STRUCTURE if INDEX in probe.entries else None

    def files(self, path):
        return [path / name for name in sorted(names_in(path)) if name == INDEX or SHARD.fullmatch(name)]

    def codes(self):
        return {
            "EXAMPLE1": Code("the directory cannot be read", "Its index is damaged, or a shard of it is missing."),
            "EXAMPLE2": Code("a shard is damaged", "It was cut, or gzip cannot decode it. Copy it again."),
        }


FORMAT = Format()
