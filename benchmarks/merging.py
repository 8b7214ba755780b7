"""Several packs made one, and several blocks: what copies bytes where it can."""

import itertools
import math
import os
import pickle
import struct

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import HOME

PACKS = 40
BLOCKS = 4
CHUNK = 2048  # bytes that the peer copies at once


def packs():
    """Packs of 80 MB and 66,000 documents each: one, and links to it."""
    first = HOME / "merge-0.pbin"
    if not first.exists():
        convert(HOME / "stage1_block_0000.bin", first)
    paths = [first, *(HOME / f"merge-{number}.pbin" for number in range(1, PACKS))]
    for path in paths[1:]:
        if not path.exists():
            os.link(first, path)
    return paths


@case("merge packs (peer: merge_packed_data)", ">= 4", "bytes")
class Merge:
    fresh = 4 << 30

    def prepare(self):
        packs()

    def peer(self, out):
        parts = []
        for path in packs():
            with open(path, "rb") as file:
                length, width = struct.unpack("<QI", file.read(12))
                file.seek(12 + length)
                parts.append((np.memmap(path, mode="r", offset=12, shape=(length,)), pickle.loads(file.read())))
        total = sum(len(data) for data, _ in parts)
        chunks = (data[a : a + CHUNK] for data, _ in parts for a in range(0, len(data), CHUNK))
        starts = [0, *itertools.accumulate(len(data) for data, _ in parts)]
        entries = ((at + start, size) for start, (_, index) in zip(starts, parts, strict=False) for at, size in index)
        with open(out / "x.pbin", "wb") as file:
            file.write(struct.pack("<QI", total, width))
            for chunk in chunks:
                file.write(chunk)
            file.write(pickle.dumps([entry for entry in entries]))
        return total

    def tokfmt(self, out):
        convert(packs(), out / "x.pbin")
        return struct.unpack("<Q", (out / "x.pbin").open("rb").read(8))[0]


@case("merge blocks: stage1 -> stage1 (peer: cat)", ">= 0.2", "bytes")
class MergeBlocks:
    def peer(self, out):
        done = 0
        with open(out / "x", "wb") as file:
            for _ in range(BLOCKS):
                with open(HOME / "stage1_block_0000.bin", "rb") as block:
                    while data := block.read(1 << 20):
                        done += file.write(data)
        return done

    def tokfmt(self, out):
        done = convert([HOME / "stage1_block_0000.bin"] * BLOCKS, out / "x", to_format="stage1")
        return math.ceil((done.tokens + done.sequences) / 8192) * 8192 * 4
