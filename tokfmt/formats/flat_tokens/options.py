"""Options of flat-tokens zarr stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option

_LARGEST = 1 << 27  # bytes of a chunk: what the reader takes
Codec = Literal["blosc", "zstd", "gzip", "none"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read flat tokens."""

    split: str | None = option(None, "which split to read: train, validation ...; a bare array has none")
    holes: Literal["refuse", "fill"] = option("refuse", "chunks that are not there are an error, or the fill value")
    bound: Literal["check", "ignore"] = option("check", "ids above max_token_id are an error, or accepted")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write flat tokens."""

    split: str | None = option("train", "split to write: train, validation ...; none writes a bare array")
    chunk: int = option(
        1 << 20, "tokens in a chunk; the default is what seqax reads at once", least=1, most=_LARGEST // 4
    )
    starts_chunk: int = option(1 << 20, "entries of seq_starts in a chunk", least=1, most=_LARGEST // 8)
    codec: Codec = option("blosc", "blosc (lz4, bit shuffle), zstd, gzip or none")
    zarr_format: Literal[2, 3] = option(2, "2 is what seqax writes; 3 is read by newer tools only")
