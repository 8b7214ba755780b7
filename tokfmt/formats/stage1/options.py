"""Options of stage-1 blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option
from tokfmt.formats.flat import FlatOptions

SAMPLE = 8192
_LARGEST_SAMPLE = 1 << 24
_BLOCK_SAMPLES = 62_500  # as upstream writes them


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading stage-1 blocks."""

    view: Literal["documents", "samples"] = option("documents", "documents between separators, or rows as stored")
    seq_len: int = option(SAMPLE, "tokens in a sample", minimum=1, maximum=_LARGEST_SAMPLE)
    gaps: Literal["refuse", "accept"] = option(
        "refuse", "missing blocks of a directory are an error, or the stream continues without them"
    )


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing stage-1 blocks."""

    seq_len: int = option(SAMPLE, "tokens in a sample", minimum=1, maximum=_LARGEST_SAMPLE)
    shard_size: int | None = option(
        None, "tokens per block (file), rounded down to whole samples; auto: 62,500 samples", minimum=1, maximum=1 << 60
    )

    @property
    def block_size(self) -> int:
        """Tokens per block: whole samples, at least one."""
        samples = _BLOCK_SAMPLES if self.shard_size is None else max(1, self.shard_size // self.seq_len)
        return samples * self.seq_len
