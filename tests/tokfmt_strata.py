"""Strata, a format made up to show an index: a header, the length of each sequence, then the token IDs of all.

0 .. 7    53 54 52 41 54 41 30 31, "STRATA01"
8 .. 15   u64 little-endian, the number of sequences: n
16 .. 23  u64 little-endian, the number of tokens
24 ..     n u32 little-endian, the lengths of the sequences
then      u16 little-endian token IDs, without separators
"""

import numpy as np

from tokfmt.plugin import (
    Code,
    Columns,
    Confidence,
    CorruptError,
    FileLayout,
    FlatFormat,
    FlatWriter,
    Separators,
    Struct,
    offsets_of,
    stated_tokens,
)

MAGIC, TOKEN = b"STRATA01", np.dtype("<u2")
HEADER = Struct(magic="V8", sequences="<u8", tokens="<u8")


class Writer(FlatWriter):
    separators, suffix, dtypes = Separators.NONE, ".strata", (TOKEN.str,)

    def header(self, cut, dtype):
        return HEADER.write(magic=MAGIC, sequences=cut.last - cut.first, tokens=cut.tokens)

    def begins(self, cut):
        return HEADER.size + 4 * (cut.last - cut.first)

    def index(self, stored, dtype):
        for first in range(0, stored.info.sequences, 1 << 20):  # memory does not depend on the number of sequences
            last = min(stored.info.sequences, first + (1 << 20))
            lengths = np.diff(stored.offsets(first, last)).astype("<u4")
            yield self.path, HEADER.size + 4 * first, lengths.tobytes()


class Strata(FlatFormat):
    name, title, extensions = "strata", "strata, made up", (".strata",)
    stores, cannot_store = "sequences in order, empty ones too", "IDs above 65,535"
    Writer = Writer
    unreadable = "STRATA1"

    def codes(self):
        return {
            "STRATA1": Code("not strata", "The lengths contradict the header. Copy or write the file again."),
            "STRATA2": Code("the size contradicts the header", "The file was cut. Copy or write it again."),
        }

    def recognize(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(MAGIC) else None

    def examine_file(self, file, options, hints):
        magic, sequences, tokens = HEADER.read(file).values()
        if magic != MAGIC:
            raise CorruptError(file.path, "has another magic number", expected=MAGIC, found=magic)
        index = Columns(HEADER.size, lengths=("<u4", sequences))
        starts = offsets_of(index.read(file, "lengths"))
        if starts[-1] != tokens:
            raise CorruptError(file.path, "the lengths do not add up", expected=tokens, found=int(starts[-1]))
        extent, problems = stated_tokens(file, TOKEN, tokens, "STRATA2", begin=index.end)
        return FileLayout(
            extents=[extent], starts=starts, problems=problems,
            sections=[HEADER.part("header", file), *index.sections(file)],
        )  # fmt: skip


FORMAT = Strata()
