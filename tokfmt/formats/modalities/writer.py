"""Writes a pack: header, data by position from any process, index at the end."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.dtypes import check_ids, smallest
from tokfmt.core.errors import Loss
from tokfmt.core.format import Receipt, Region, Target
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Offsets
from tokfmt.core.verbatim import copy_region
from tokfmt.formats.modalities.eod import WithMissingSeparators, closed_offsets
from tokfmt.formats.modalities.options import WriteOptions
from tokfmt.formats.pickled_index import write_entries
from tokfmt.views.separated import WithSeparators

_WIDEST = 4
_ENTRIES = 1 << 16  # index entries made at once

Ints = NDArray[np.int64]


class ModalitiesWriter:
    """Writes layout D (header of 12 bytes, little-endian, offsets from 0) or A (8, big-endian, offsets from 8)."""

    separated = False
    needs_max_id = True

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.target = path, options, target
        self.needs_eos = options.eod != "none"
        self.old = options.layout == "A"
        self.begin = 8 if self.old else 12
        self._closed: Offsets | None = None

    def lost(self, source: TokenReader) -> Sequence[Loss]:  # noqa: ARG002 - everything is carried
        return []

    def _stored(self, source: TokenReader) -> TokenReader:
        eos_id = self.target.eos_id or 0
        if self.options.eod == "none":
            return source
        if self.options.eod == "always":
            return WithSeparators(source, eos_id)
        if self._closed is None:  # `regions` comes first, so this is done once and travels with the writer
            self._closed = closed_offsets(source, eos_id)
        return WithMissingSeparators(source, eos_id, self._closed)

    def _width(self, source: TokenReader) -> int:
        if self.options.width or self.old:
            return self.options.width or 4
        return min(_WIDEST, smallest(max(source.info.max_id or 0, self.target.eos_id or 0)).itemsize)

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        cuts = windows(0, self._stored(source).info.tokens, max(1, size))
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        width = self._width(source)
        length = self._stored(source).info.tokens * width
        preallocate(self.path, self.begin + length)
        with Output(self.path) as out:
            out.write(0, length.to_bytes(8, "big") if self.old else struct.pack("<QI", length, width))

    def write(self, region: Region, source: TokenReader) -> Receipt:
        stored, width, top = self._stored(source), self._width(source), -1
        dtype = np.dtype(f"{'>' if self.old else '<'}u{width}")
        limit = (1 << 8 * width) - 1
        remedy = "--to-opt width=4 has room for ids up to 4,294,967,295" if width < _WIDEST else ""
        with Output(self.path) as out:
            at = self.begin + region.tokens.start * width
            if copied := copy_region(out, at, stored, region, dtype, limit):
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                tokens = stored.tokens(a, b)
                top = max(top, check_ids(tokens, limit, a, self.path.name, remedy))
                out.write(self.begin + a * width, tokens.astype(dtype, copy=False))
        return Receipt(region.index, top, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:  # noqa: ARG002 - nothing in them
        stored, width = self._stored(source), self._width(source)
        at = self.begin + stored.info.tokens * width
        with Output(self.path) as out:
            for piece in write_entries(stored.info.sequences, self._entries(stored, width)):
                out.write(at, piece)
                at += len(piece)

    def _entries(self, stored: TokenReader, width: int) -> Iterator[tuple[Ints, Ints]]:
        base = self.begin if self.old else 0
        for first, last in windows(0, stored.info.sequences, _ENTRIES):
            offsets = stored.offsets(first, last) * width
            yield offsets[:-1] + base, np.diff(offsets)
