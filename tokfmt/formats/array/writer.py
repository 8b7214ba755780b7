"""Write arrays: one stream, rows, or tokens with the ends of documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt.core.format import SampleRows, Target, WriterTraits
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.formats.array.options import WriteOptions
from tokfmt.formats.flat import Cut, FlatWriter, Pieces
from tokfmt.formats.npy import HEAD, header_bytes

TOKENS, BOUNDARIES = "tokens.npy", "cu_seqlens.npy"


class Writer(FlatWriter):
    """A writer of X.npy, or of shards in a folder: one stream with the separator after each sequence."""

    separators, suffix, begin, needs_max_id = Separators.AFTER, ".npy", HEAD, True
    names = "shard_{number:05d}.npy"

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        return header_bytes(dtype, cut.tokens)


class RowWriter(Writer):
    """A writer of samples as the rows of one array."""

    separators, names = Separators.NONE, "shard_00000.npy"

    def __init__(self, path: Path, options: WriteOptions, target: Target, rows: SampleRows) -> None:
        super().__init__(path, options, target)
        self.seq_len = rows.seq_len

    def file_tokens(self) -> int | None:
        return None

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        return header_bytes(dtype, cut.tokens // self.seq_len, self.seq_len)


class PairWriter(Writer):
    """A writer of a folder with tokens.npy, and with the ends of documents in cu_seqlens.npy."""

    separators, names, suffix = Separators.TRAILING, TOKENS, ""

    @property
    def folder(self) -> bool:
        return True

    @classmethod
    def traits(cls, options: WriteOptions) -> WriterTraits:
        return replace(super().traits(options), file_suffixes=())

    def file_tokens(self) -> int | None:
        return None

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:  # noqa: ARG002 - of any
        path, count = self.path / BOUNDARIES, stored.info.sequences
        ends = np.dtype("<i8")
        yield path, 0, header_bytes(ends, count + 1)
        if not count:
            yield path, HEAD, bytes(8)
        for a, b in windows(0, count, 1 << 20):
            yield path, HEAD + 8 * a, stored.offsets(a, b).astype(ends)
