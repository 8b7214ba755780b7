"""Modalities packs (`.pbin`): header, tokens of all documents, pickled index.

    bytes            layout D (since 2024-07, what is written)         layout A (2023-12 .. 2024-03)
    0 .. 7           u64 little-endian, bytes of the data section      u64 big-endian, the same
    8 .. 11          u32 little-endian, bytes per token: 1, 2 or 4     (no such field: 4 bytes per token)
    ...              token IDs, little-endian                          token IDs, big-endian
    to the end       pickled [(offset, length), ...]                   the same

- Documents follow each other in the order of the index. Offsets and lengths are bytes. Lengths include the separator
  (EOD), which follows every document, also the last. Offsets count from 0 in D, from the start of the file in A (8),
  B and C (12). There is no magic number, no checksum and no vocabulary.
- B (2024-03) has the header of D in big-endian, C (2024-04) in little-endian; both count offsets from 12.
- P0 .. P3 (2023-12, never released) have a header of 4 bytes or none.
- E is the output of a merge that subtracts 12 bytes from the offsets of each further file; the first offset may be
  negative.
- In every layout, document i begins after the header and the lengths before it. tokfmt ignores the stored offsets.
- A killed writer leaves a length of 0 in the header. No Modalities version reads tokens of 3 bytes (one day in 2024).
- An empty pack of layout D has 17 bytes: 12 of header, and `80 04 5d 94 2e`.

tokfmt decodes the index without pickle, which can run code.
Source: files written by the code of each version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt.core.findings import Repair
from tokfmt.core.format import Confidence, Hints, Probe, Target
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import Separators, TokenReader, smallest, windows
from tokfmt.errors import FormatError
from tokfmt.files.file import open_file
from tokfmt.files.place import Place
from tokfmt.formats.flat import Cut, FlatFormat, FlatReader, FlatWriter, Pieces
from tokfmt.formats.modalities.header import LONGEST, begins_index, headers, multimodal, token_dtype
from tokfmt.formats.modalities.options import ReadOptions, WriteOptions

_AT_ONCE = 1 << 16  # sequences per step


class Writer(FlatWriter):
    """A writer of layout D (header of 12 bytes, little-endian, offsets from 0) or A (8, big-endian, from 8)."""

    separators, needs_max_id = Separators.TRAILING, True
    empties = "readers of Modalities may fail on a document without tokens"

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        super().__init__(path, options, target)
        self.old = options.layout == "A"
        self.begin = 8 if self.old else 12

    def dtype(self, top: int) -> np.dtype[Any]:
        top = max(top, self.target.eos_id or 0)  # The separator counts even if it is not written.
        width = self.options.width or (4 if self.old else min(4, smallest(top).itemsize))
        return token_dtype(width, big=self.old)

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        length = cut.tokens * dtype.itemsize
        return length.to_bytes(8, "big") if self.old else struct.pack("<QI", length, dtype.itemsize)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:
        from tokfmt.formats.pickled_index import write_entries  # Detection does not need this module.

        at = self.begin + stored.info.tokens * dtype.itemsize
        for piece in write_entries(stored.info.sequences, self._entries(stored, dtype.itemsize)):
            yield self.path, at, piece
            at += len(piece)

    def _entries(self, stored: TokenReader, width: int) -> Iterator[tuple[Offsets, Offsets]]:
        base = self.begin if self.old else 0
        for first, last in windows(0, stored.info.sequences, _AT_ONCE):
            offsets = stored.offsets(first, last) * width
            yield offsets[:-1] + base, np.diff(offsets)


class Modalities(FlatFormat):
    """The format of Modalities packs."""

    name = "modalities"
    title = "Modalities packs: documents and their index"
    extensions = (".pbin",)
    stores = "documents in order, empty ones too; IDs up to 2^32-1; separators inside documents"
    cannot_store = "IDs of 2^32 and more"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer

    def recognize(self, probe: Probe) -> Confidence | None:
        """See `FlatFormat.recognize`. The header must point to the beginning of a pickled list, which ends the file.

        A pack that contradicts its header is recognized by its name: reading it then reports the problem.
        """
        named = Confidence.NAME if probe.path.suffix == ".pbin" else None
        if probe.tail[-1:] != b".":
            return named
        if named and (first := next(headers(probe.head[:LONGEST]), None)):
            probe.announce(first.index_start)
        if any(begins_index(probe.read(header.index_start, 12)) for header in headers(probe.head[:LONGEST])):
            return Confidence.CERTAIN
        other = multimodal(probe.head[:LONGEST])
        if other and begins_index(probe.read(other.index_start, 12)):
            return Confidence.STRUCTURE  # Reading it reports that it is unsupported.
        return named

    def members(self, path: Place) -> list[Place]:
        return [path]

    def inspect(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Inspection:
        from tokfmt.formats.modalities.inspection import PackInspection

        try:
            return PackInspection(hints.opened(paths[0]), options, hints)
        except FormatError as error:
            return Unreadable("TF101", paths[0], error)

    def glimpse(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FlatReader | None:
        """See `Format.glimpse`. Decoding an index of 10^7 documents takes seconds."""
        from tokfmt.formats.modalities.layout import glimpse

        return glimpse(hints.opened(paths[0]), options)

    def repairs(self) -> Mapping[str, Repair]:
        from tokfmt.formats.modalities.check import REPAIRS

        return REPAIRS

    def repaired_with(self, path: Place, options: ReadOptions) -> Mapping[str, object]:
        """See `Format.repaired_with`. A width of 3 bytes becomes 4."""
        from tokfmt.formats.modalities.layout import examine

        width = examine(open_file(path), options).width
        return {"width": 4 if width == 3 else width}


FORMAT = Modalities()
