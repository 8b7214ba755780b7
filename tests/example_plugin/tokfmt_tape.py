"""Tapes, a format made up to show how one is added: a header, then token ids, a separator after each sequence.

0 .. 3    54 41 50 45, "TAPE"
4 .. 11   u64 little-endian, number of tokens
12 ..     u32 little-endian token ids
"""

import numpy as np

from tokfmt.core.axis import Separators
from tokfmt.core.errors import CorruptError
from tokfmt.core.format import Confidence, fatal
from tokfmt.core.protocols import Code
from tokfmt.formats.flat import Extent, FlatFormat, FlatWriter, Laid, Struct

HEADER = Struct(magic="V4", tokens="<u8")


class Writer(FlatWriter):
    separators, begin, suffix = Separators.AFTER, HEADER.size, ".tape"

    def dtype(self, top):
        return np.dtype("<u4")

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
        told, count, problems = HEADER.read(file)["tokens"], (file.size - HEADER.size) // 4, []
        if file.size != HEADER.size + 4 * told:
            error = CorruptError(file.path, "the number of tokens", offset=4, expected=f"{count:,}", found=told)
            problems.append(fatal("TAPE2", error, "tail"))
        extent = Extent(file, HEADER.size, min(told, count), np.dtype("<u4"))
        named = [HEADER.part("header", file)]
        return Laid(extents=[extent], separators=Separators.AFTER, problems=problems, sections=named)


FORMAT = Tape()
