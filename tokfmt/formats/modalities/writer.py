"""Writes a pack: header, data by position from any process, index at the end."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Separators, TokenReader, check_interval, smallest, windows
from tokfmt.core.format import Target
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.formats.flat import FlatWriter
from tokfmt.formats.modalities import WriteOptions
from tokfmt.formats.modalities.anatomy import token_dtype
from tokfmt.formats.pickled_index import write_entries

_WIDEST = 4
_ENTRIES = 1 << 16  # index entries made at once
_SEQUENCES = 1 << 16

Ints = NDArray[np.int64]


class ModalitiesWriter(FlatWriter):
    """Writes layout D (header of 12 bytes, little-endian, offsets from 0) or A (8, big-endian, offsets from 8)."""

    needs_max_id = True

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        super().__init__(path, options, target)
        self.old = options.layout == "A"
        self.begin = 8 if self.old else 12
        self.separators = Separators.NONE if options.eod == "none" else Separators.TRAILING
        self._closed: Offsets | None = None

    def stored(self, source: TokenReader) -> TokenReader:
        if self.options.eod != "if-missing":
            return super().stored(source)
        eos_id = self.target.eos_id or 0
        if self._closed is None:  # `regions` comes first, so this is done once and travels with the writer
            self._closed = closed_offsets(source, eos_id)
        return WithMissingSeparators(source, eos_id, self._closed)

    def dtype(self, top: int) -> np.dtype[Any]:
        top = max(top, self.target.eos_id or 0)  # also where no separator is written
        width = self.options.width or (4 if self.old else min(_WIDEST, smallest(top).itemsize))
        return token_dtype(width, big=self.old)

    def header(self, tokens: int, dtype: np.dtype[Any]) -> bytes:
        length = tokens * dtype.itemsize
        return length.to_bytes(8, "big") if self.old else struct.pack("<QI", length, dtype.itemsize)

    def remedy(self, dtype: np.dtype[Any]) -> str:
        return "--to-opt width=4 has room for ids up to 4,294,967,295" if dtype.itemsize < _WIDEST else ""

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Iterator[tuple[Path, int, bytes]]:
        at = self.begin + stored.info.tokens * dtype.itemsize
        for piece in write_entries(stored.info.sequences, self._entries(stored, dtype.itemsize)):
            yield self.path, at, piece
            at += len(piece)

    def _entries(self, stored: TokenReader, width: int) -> Iterator[tuple[Ints, Ints]]:
        base = self.begin if self.old else 0
        for first, last in windows(0, stored.info.sequences, _ENTRIES):
            offsets = stored.offsets(first, last) * width
            yield offsets[:-1] + base, np.diff(offsets)


class WithMissingSeparators:
    """What Modalities stores since 2025-01.

    Args:
        source: Sequences; those that end with `eos_id` stay as they are.
        offsets: int64[sequences + 1] of this axis, from `closed_offsets`.
    """

    def __init__(self, source: TokenReader, eos_id: int, offsets: Offsets) -> None:
        self.source, self.eos_id, self._offsets = source, eos_id, offsets

    @property
    def info(self) -> Info:
        info = self.source.info
        return replace(
            info,
            tokens=int(self._offsets[-1]),
            dtype=np.promote_types(info.dtype, smallest(self.eos_id)),
            max_id=None if info.max_id is None else max(info.max_id, self.eos_id),
            separators=Separators.TRAILING,
            eos_id=self.eos_id,
            free_of=None,
        )

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, len(self._offsets) - 1, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        out = np.full(stop - start, self.eos_id, info.dtype)
        if start == stop:
            return out
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop, side="left"))
        own, closed = self.source.offsets(first, last), self._offsets[first : last + 1]
        ends = closed[1:][np.diff(closed) > np.diff(own)] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        begin = int(own[0]) + start - int(closed[0])
        out[plain] = self.source.tokens(begin, begin + stop - start - len(ends))
        return out

    def close(self) -> None:
        self.source.close()


def closed_offsets(source: TokenReader, eos_id: int) -> Offsets:
    """Offsets of the source's sequences with a separator after each that does not end with it; reads all tokens."""
    count = source.info.sequences
    out = np.zeros(count + 1, np.int64)
    for a, b in windows(0, count, _SEQUENCES):
        offsets = source.offsets(a, b)
        lengths = np.diff(offsets)
        lengths += ~_ends_with(source, offsets, eos_id)
        np.cumsum(lengths, out=out[a + 1 : b + 1])
        out[a + 1 : b + 1] += out[a]
    return out


def _ends_with(source: TokenReader, offsets: Offsets, eos_id: int) -> NDArray[np.bool_]:
    """Whether each of some consecutive sequences ends with `eos_id`."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    last = offsets[1:] - 1
    filled = np.diff(offsets) > 0
    for start, stop in windows(int(offsets[0]), int(offsets[-1])):
        here = np.flatnonzero(filled & (last >= start) & (last < stop))
        found[here] = source.tokens(start, stop)[last[here] - start] == eos_id
    return found
