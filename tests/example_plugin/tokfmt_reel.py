"""Reels, a format made up to show how one that is not flat is added: a folder of compressed files of records.

reel.json        {"reel": 1, "shards": [[sequences, tokens], ...]}, written last
00000.reel, ...  gzip, whose checksum is looked at; within it one record after the other:
                 u32 little-endian, how many ids; that many u32 little-endian ids
"""

import gzip
import json
import re
import zlib
from dataclasses import dataclass

import numpy as np

from tokfmt.plugin import (
    Code, Confidence, CorruptError, RecordFiles, RecordFilesFormat, RecordFilesWriter, Stream, TruncatedError,
    UnsafeError, json_object, names_in, open_file, option, whole_number,
)  # fmt: skip

INDEX, SHARD, MOST = "reel.json", re.compile(r"\d{5}\.reel"), 1 << 26


@dataclass(frozen=True)
class WriteOptions:
    shard_size: int = option(1 << 24, "tokens in a shard, after which the next begins", minimum=1)


class Reader(RecordFiles):
    def __init__(self, paths, options, hints):
        (folder,) = paths
        index = json_object(open_file(folder / INDEX))
        listed = index.get("shards")
        if index.get("reel") != 1 or not isinstance(listed, list) or not all(type(one) is list for one in listed):
            raise CorruptError(folder / INDEX, "is not the index of a reel")
        what = "counts the sequences and the tokens of a shard wrongly"
        counts = [[whole_number(folder / INDEX, what, number) for number in one] for one in listed]
        if any(len(one) != 2 for one in counts):
            raise CorruptError(folder / INDEX, what, expected="two numbers")
        shards = [folder / f"{number:05d}.reel" for number in range(len(counts))]
        self.tokens = dict(zip(shards, (tokens for _, tokens in counts), strict=True))
        super().__init__("ids", shards, hints, counts=[sequences for sequences, _ in counts])

    def records(self, path):
        tokens = 0
        try:
            with gzip.open(Stream(open_file(path))) as stream:
                while head := stream.read(4):
                    length = int.from_bytes(head, "little")
                    if length > MOST:
                        raise UnsafeError(path, "has a record that is too long", expected=f"{MOST:,} ids", found=length)
                    ids = np.frombuffer(stream.read(4 * length), "<u4")
                    if len(head) < 4 or len(ids) < length:
                        raise TruncatedError(path, "ends within a record")
                    tokens += length
                    yield ids
        except EOFError as error:
            raise TruncatedError(path, "ends before its gzip data", remedy="Copy it again") from error
        except (OSError, ValueError, zlib.error) as error:
            raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error
        if tokens != self.tokens[path]:
            raise CorruptError(path, "holds other tokens than the index says", expected=self.tokens[path], found=tokens)


class Writer(RecordFilesWriter):
    def name(self, number):
        return f"{number:05d}.reel"

    def write_file(self, out, sequences):
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
            for ids in sequences:
                packed.write(len(ids).to_bytes(4, "little"))
                packed.write(ids.astype("<u4").data)

    def indexes(self, counts):
        return {INDEX: json.dumps({"reel": 1, "shards": counts}).encode()}


class Reel(RecordFilesFormat):
    name, title, extensions = "reel", "reels, made up", (".reels",)
    stores, cannot_store = "sequences in order, empty ones too", "loss masks"
    write_options, Reader, Writer = WriteOptions, Reader, Writer
    unreadable, damaged = "REEL1", "REEL2"

    def sniff(self, probe):
        inside = probe.entry(INDEX) if INDEX in probe.entries else None
        return Confidence.CERTAIN if inside is not None and inside.head.startswith(b'{"reel"') else None

    def files(self, path):
        return [path / name for name in sorted(names_in(path)) if name == INDEX or SHARD.fullmatch(name)]

    def codes(self):
        return {
            "REEL1": Code("not a reel", "The index is missing or damaged, or a shard that it lists is missing."),
            "REEL2": Code("a damaged shard", "It cannot be decoded, or holds other records than the index says."),
        }


FORMAT = Reel()
