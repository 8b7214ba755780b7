"""The format example: describe it here, `tokfmt formats example` prints this text.

0 .. 7    "EXAMPLE-", the magic number
8 .. 11   u32 little-endian, the separator
12 .. 19  u64 little-endian, how many tokens follow, separators included
20 ..     u32 little-endian token IDs, a separator after each sequence
"""

import numpy as np

from tokfmt import plugin
from tokfmt.plugin import (
    Code,
    Confidence,
    CorruptError,
    FileLayout,
    FlatFormat,
    FlatWriter,
    Separators,
    Struct,
    stated_tokens,
)

if plugin.VERSION != 2:
    raise ImportError(f"tokfmt_example was written for version 2 of tokfmt.plugin, and this is {plugin.VERSION}")

MAGIC = b"EXAMPLE-"
HEADER = Struct(magic="V8", eos_id="<u4", tokens="<u8")
TOKEN = np.dtype("<u4")


class Writer(FlatWriter):
    separators, suffix, begin, dtypes = Separators.AFTER, ".example", HEADER.size, (TOKEN.str,)

    def header(self, cut, dtype):
        return HEADER.write(magic=MAGIC, eos_id=self.target.eos_id, tokens=cut.tokens)


class Format(FlatFormat):
    name, title, extensions = "example", "example, a format of mine", (".example",)
    stores, cannot_store = "sequences in order, empty ones too", "sequences that contain the separator"
    Writer = Writer
    unreadable = "EXAMPLE1"
    meanings = {
        "EXAMPLE1": Code("a file cannot be read", "Its header is cut or has another magic number."),
        "EXAMPLE2": Code("the size contradicts the header", "The file was cut; --allow-loss tail reads what is there."),
    }

    def recognize(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(MAGIC) else None

    def examine_file(self, file, options, hints):
        header = HEADER.read(file)
        if header["magic"] != MAGIC:
            raise CorruptError(file.path, "has another magic number", expected=MAGIC, found=header["magic"])
        extent, problems = stated_tokens(file, TOKEN, header["tokens"], "EXAMPLE2", begin=HEADER.size, short=True)
        return FileLayout(
            extents=[extent],
            separators=Separators.AFTER,
            eos_id=header["eos_id"],
            eos_from="header",
            problems=problems,
            sections=[HEADER.part("header", file)],
        )


FORMAT = Format()
