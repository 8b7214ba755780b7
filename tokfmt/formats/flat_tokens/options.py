"""Options of flat tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option

Codec = Literal["blosc", "zstd", "gzip", "none"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read flat tokens."""

    split: str | None = option(None, "which split to read: train, validation ...; a bare array has none")
    bound: Literal["check", "ignore"] = option("check", "ids above max_token_id are an error, or accepted")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write flat tokens."""

    split: str | None = option("train", "split to write: train, validation ...; none writes a bare array")
    chunk: int = option(1 << 20, "tokens in a chunk; the default is what seqax reads at once")
    starts_chunk: int = option(1 << 20, "entries of seq_starts in a chunk")
    codec: Codec = option("blosc", "blosc (lz4, bit shuffle), zstd, gzip or none")
    zarr_format: Literal[2, 3] = option(2, "2 is what seqax writes; 3 is read by newer tools only")
