"""Tapes, a format made up to show how one is added: a header, then token ids, a separator after each sequence.

0 .. 3    54 41 50 45, "TAPE"
4 .. 11   u64 little-endian, number of tokens
12 ..     u32 little-endian token ids
"""

import numpy as np

from tokfmt.core.axis import Separators
from tokfmt.core.format import Confidence
from tokfmt.core.protocols import Code
from tokfmt.formats.flat import FlatFormat, FlatWriter, Laid, Struct, told_tokens

HEADER = Struct(magic="V4", tokens="<u8")


class Writer(FlatWriter):
    separators, begin, suffix, dtypes = Separators.AFTER, HEADER.size, ".tape", ("<u4",)

    def header(self, tokens, dtype):
        return HEADER.write(magic=b"TAPE", tokens=tokens)


class Tape(FlatFormat):
    name, title, extensions = "tape", "tapes, made up", (".tape",)
    carries, cannot = "sequences in order, empty ones too", "sequences that contain the separator"
    Writer = Writer
    unreadable = "TAPE1"
    meanings = {
        "TAPE1": Code("no tape", "The header is cut, or the file cannot be read."),
        "TAPE2": Code("the size contradicts the header", "The file was cut; --drop tail reads what is there."),
    }

    def recognise(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(b"TAPE") else None

    def examine_file(self, file, options, hints):
        told = HEADER.read(file)["tokens"]
        extent, problems = told_tokens(file, np.dtype("<u4"), told, "TAPE2", begin=HEADER.size, short=True)
        named = [HEADER.part("header", file)]
        return Laid(extents=[extent], separators=Separators.AFTER, problems=problems, sections=named)


FORMAT = Tape()
