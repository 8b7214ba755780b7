"""The tokens of a pack before its index has been decoded, which takes seconds for tens of millions of documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokfmt.core.axis import Info, Layout, Separators, frozen
from tokfmt.core.dtypes import U8, U16, U32
from tokfmt.core.files import File
from tokfmt.formats.modalities.header import LONGEST, Header, begins_index, headers
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.modalities.reader import ModalitiesReader


class Glimpse(ModalitiesReader):
    """The data section as one stream, separators included; only the header has been looked at."""

    def __init__(self, file: File, header: Header, width: int) -> None:
        self.file, self.begin, self.width, self.big = file, header.size, width, header.big
        tokens = header.length // width
        self._starts = np.array([0, tokens] if tokens else [0], np.int64)
        self._info = Info(
            layout=Layout.STREAM,
            dtype={1: U8, 2: U16}.get(width, U32),
            sequences=len(self._starts) - 1,
            tokens=tokens,
            separators=Separators.BETWEEN,
            extras=frozen(width=width, byte_order=header.order, header_bytes=header.size),
        )


def glimpse(path: Path, options: ReadOptions) -> Glimpse | None:
    """The tokens of a pack whose header says where they are and how wide; None when only its index could tell."""
    if options.layout == "P0":
        return None
    file = File(path)
    head = file.read(0, min(file.size, LONGEST))
    for header in headers(head, options.layout):
        at, width = header.index_start, header.width or options.width
        if width and at < file.size and begins_index(file.read(at, min(12, file.size - at))):
            return Glimpse(file, header, width)
    file.close()
    return None
