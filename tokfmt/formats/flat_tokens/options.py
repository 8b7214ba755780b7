"""Options of flat-tokens zarr stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option

_LARGEST = 1 << 27  # maximum bytes of a chunk that the reader accepts
Codec = Literal["blosc", "zstd", "gzip", "none"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading flat tokens."""

    split: str | None = option(None, "split to read: train, validation ...; a bare array has no split")
    holes: Literal["refuse", "fill"] = option("refuse", "missing chunks are an error, or read as the fill value")
    bound: Literal["check", "ignore"] = option("check", "IDs above max_token_id are an error, or accepted")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of writing flat tokens."""

    split: str | None = option("train", "split to write: train, validation ...; none writes a bare array")
    chunk: int = option(
        1 << 20, "tokens per chunk; the default is the read block of seqax", minimum=1, maximum=_LARGEST // 4
    )
    starts_chunk: int = option(1 << 20, "entries of seq_starts per chunk", minimum=1, maximum=_LARGEST // 8)
    codec: Codec = option("blosc", "blosc (lz4, bit shuffle), zstd, gzip or none")
    zarr_format: Literal[2, 3] = option(2, "2 (seqax writes it) or 3 (only newer tools read it)")
