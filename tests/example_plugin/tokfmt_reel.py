"""Reels, a format made up to show how one that is not flat is added: a folder of compressed files of records.

reel.json        {"reel": 1, "shards": [[sequences, tokens], ...]}, written last
00000.reel, ...  gzip, whose checksum is looked at; within it one record after the other:
                 u32 little-endian, how many ids; that many u32 little-endian ids
"""

import gzip
import json
import re
import shutil
import zlib
from dataclasses import dataclass

import numpy as np

from tokfmt.plugin import (
    Block, Code, Confidence, CorruptError, Finding, Format, FormatError, NoOptions, Ragged, Receipt, RecordBatch,
    RecordInfo, Region, Stream, TokenWriter, TruncatedError, UnsafeError, WriterTraits, batches, check_ids,
    check_interval, json_object, names_in, offsets_of, open_file, option, sequence_at, whole, whole_number,
)  # fmt: skip

INDEX, SHARD, MOST, BATCH = "reel.json", re.compile(r"\d{5}\.reel"), 1 << 26, 1 << 18


@dataclass(frozen=True)
class WriteOptions:
    shard_size: int = option(1 << 24, "tokens in a shard, after which the next begins", minimum=1)


class Reader:
    """Records of ids. Nothing but reading tells where one begins, so a shard is a block."""

    def __init__(self, paths, options, hints):
        (self.folder,) = paths
        index = json_object(open_file(self.folder / INDEX))
        listed = index.get("shards")
        if index.get("reel") != 1 or not isinstance(listed, list) or not all(type(one) is list for one in listed):
            raise CorruptError(self.folder / INDEX, "is not the index of a reel")
        what = "counts the sequences and the tokens of a shard wrongly"
        counts = [[whole_number(self.folder / INDEX, what, number) for number in one] for one in listed]
        if any(len(one) != 2 for one in counts):
            raise CorruptError(self.folder / INDEX, what, expected="two numbers")
        self.counts = counts
        self.shards = [self.folder / f"{number:05d}.reel" for number in range(len(counts))]
        if missing := [path for path in self.shards if not path.is_file()]:
            raise TruncatedError(missing[0], "is missing, and the index lists it", remedy="Copy the dataset again")
        self.firsts = offsets_of([sequences for sequences, _ in counts])
        self.sizes = [open_file(path).size for path in self.shards]
        self.info = RecordInfo("ids", sum(self.sizes), int(self.firsts[-1]), random_access=False, field="ids")

    def count(self):
        return int(self.firsts[-1])

    def blocks(self, size, first=0, last=None):
        last = self.count() if last is None else last
        check_interval(first, last, self.count(), "records")
        spans = [(max(first, a), min(last, b)) for a, b in zip(self.firsts, self.firsts[1:], strict=False)]
        return [Block(k, 0, self.sizes[k], int(a), int(b - a)) for k, (a, b) in enumerate(spans) if a < b]

    def ids(self, block):
        skip = block.first - int(self.firsts[block.file])
        held, size = [], 0
        for number, ids in enumerate(self.records(block.file)):
            if skip <= number < skip + block.records:  # what follows is read as well: it may be damaged
                held, size = [*held, ids], size + len(ids) + 1
            if size >= BATCH:
                yield RecordBatch(ragged=Ragged.of(held))
                held, size = [], 0
        yield RecordBatch(ragged=Ragged.of(held))

    def texts(self, block):
        raise TypeError("reels hold ids")

    def record(self, index):
        (block,) = self.blocks(1, index, index + 1)
        return next(ids for batch in self.ids(block) for ids in batch.ragged.tolist())

    def records(self, number):
        """The records of a shard, one after the other."""
        path, found = self.shards[number], [0, 0]
        try:
            with gzip.open(Stream(open_file(path))) as stream:
                while head := stream.read(4):
                    length = int.from_bytes(head, "little")
                    if length > MOST:
                        raise UnsafeError(path, "has a record that is too long", expected=f"{MOST:,} ids", found=length)
                    ids = np.frombuffer(stream.read(4 * length), "<u4")
                    if len(head) < 4 or len(ids) < length:
                        raise TruncatedError(path, "ends within a record")
                    found = [found[0] + 1, found[1] + length]
                    yield ids
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error
        if found != self.counts[number]:
            raise CorruptError(
                path, "holds other records than the index says", expected=self.counts[number], found=found
            )

    def close(self):
        pass


class Writer(TokenWriter):
    """A region is a shard, so that nothing but the options decides what lies in which file."""

    def __init__(self, path, options, target):
        self.path, self.options, self.keep_parts = path, options, target.keep_parts
        self.drafts = path.with_name(f"{path.name}.drafts")

    def regions(self, source, size):
        found, first, info = [], 0, source.info
        while first < info.sequences:
            start = int(source.offsets(first, first)[0])
            last = max(first + 1, sequence_at(source, start + self.options.shard_size))
            last = info.sequences if info.tokens - start <= self.options.shard_size else last
            stop = int(source.offsets(last, last)[0])
            found.append(Region(len(found), range(first, last), range(start, stop)))
            first = last
        return found

    def create(self, source):
        self.path.mkdir(exist_ok=True)
        self.drafts.mkdir(exist_ok=True)

    def write(self, region, source):
        top, at = -1, region.tokens.start
        with whole(self.path / f"{region.index:05d}.reel", self.drafts, stays=True) as out:
            with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
                for batch in batches(source, region.sequences.start, region.sequences.stop):
                    top = max(top, check_ids(batch.tokens, 2**32 - 1, at, "reel"))
                    at += len(batch.tokens)
                    for ids in batch:
                        packed.write(len(ids).to_bytes(4, "little"))
                        packed.write(ids.astype("<u4").data)
            written = out.tell()
        return Receipt(region.index, top, written, [len(region.sequences), len(region.tokens)])

    def commit(self, source, receipts):
        with whole(self.path / INDEX, self.drafts, stays=True) as out:
            out.write(json.dumps({"reel": 1, "shards": [receipt.details for receipt in receipts]}).encode())
        if not self.keep_parts:
            shutil.rmtree(self.drafts)


class Reel(Format):
    name, title, extensions = "reel", "reels, made up", (".reels",)
    stores, cannot_store = "sequences in order, empty ones too", "loss masks"
    read_options, write_options, open, writer = NoOptions, WriteOptions, Reader, Writer

    def writer_traits(self, options):
        return WriterTraits()  # it stores no separator, and loses nothing

    def sniff(self, probe):
        inside = probe.entry(INDEX) if INDEX in probe.entries else None
        return Confidence.CERTAIN if inside is not None and inside.head.startswith(b'{"reel"') else None

    def files(self, path):
        return [path / name for name in sorted(names_in(path)) if name == INDEX or SHARD.fullmatch(name)]

    def audit(self, path, options, how):
        try:
            reader = Reader([path], options, None)
        except FormatError as error:
            yield Finding.of("REEL1", error)
            return
        for number in range(len(reader.shards)) if how.deep else ():
            try:
                for ids in reader.records(number):
                    how.advance(len(ids))
            except FormatError as error:
                yield Finding.of("REEL2", error)

    def codes(self):
        return {
            "REEL1": Code("not a reel", "The index is missing or damaged, or a shard that it lists is missing."),
            "REEL2": Code("a damaged shard", "It cannot be decoded, or holds other records than the index says."),
        }


FORMAT = Reel()
