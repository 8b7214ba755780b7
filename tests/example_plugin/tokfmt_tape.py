"""Tapes, a format made up to show how one is added: a header in JSON, then token IDs, a separator after each sequence.

0 .. 3    54 41 50 45, "TAPE"
4 .. 7    u32 little-endian, bytes of the JSON that follows: at most 4,096
8 ..      {"tokens": 12, "sequences": 3, "eos_id": 50256}; separators count among the tokens
then      u32 little-endian token IDs
"""

import json

import numpy as np

from tokfmt.plugin import (
    Code, Confidence, CorruptError, FileLayout, FlatFormat, FlatWriter, Separators, Struct, parsed_object, stated_tokens,
    whole_number,
)  # fmt: skip

HEADER, LONGEST = Struct(magic="V4", length="<u4"), 4096


class Writer(FlatWriter):
    separators, suffix, dtypes = Separators.AFTER, ".tape", ("<u4",)

    def header(self, cut, dtype):
        states = {"tokens": cut.tokens, "sequences": cut.last - cut.first, "eos_id": self.target.eos_id}
        text = json.dumps(states).encode()
        return HEADER.write(magic=b"TAPE", length=len(text)) + text

    def begins(self, cut):
        return len(self.header(cut, None))


class Tape(FlatFormat):
    name, title, extensions = "tape", "tapes, made up", (".tape",)
    stores, cannot_store = "sequences in order, empty ones too", "sequences that contain the separator"
    Writer = Writer
    unreadable = "TAPE1"
    meanings = {
        "TAPE1": Code("not a tape", "The header is cut or not JSON, or the file cannot be read."),
        "TAPE2": Code("the size contradicts the header", "The file was cut; --allow-loss tail reads what is there."),
    }

    def recognize(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(b"TAPE") else None

    def examine_file(self, file, options, hints):
        magic, length = HEADER.read(file).values()
        if magic != b"TAPE" or length > LONGEST:
            raise CorruptError(
                file.path, "the header is not that of a tape", expected="TAPE and its length", found=magic
            )
        states = parsed_object(file.path, file.read(HEADER.size, length))
        tokens = whole_number(file.path, "the header states no number of tokens", states.get("tokens"))
        eos_id = whole_number(file.path, "the header states no separator", states.get("eos_id"))
        begin, u4 = HEADER.size + length, np.dtype("<u4")
        extent, problems = stated_tokens(file, u4, tokens, "TAPE2", begin=begin, short=True)
        named = [HEADER.part("header", file)]
        return FileLayout(
            extents=[extent], separators=Separators.AFTER, eos_id=eos_id, eos_from="header", problems=problems,
            sections=named,
        )  # fmt: skip


FORMAT = Tape()
