"""Options of stage-1 blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option

SAMPLE = 8192
_LARGEST_SAMPLE = 1 << 24


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read stage-1 blocks."""

    view: Literal["documents", "samples"] = option("documents", "documents between separators, or rows as stored")
    seq_len: int = option(SAMPLE, "tokens in a sample", least=1, most=_LARGEST_SAMPLE)
    gaps: Literal["refuse", "accept"] = option(
        "refuse", "missing blocks of a directory are an error, or the stream continues without them"
    )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write stage-1 blocks."""

    seq_len: int = option(SAMPLE, "tokens in a sample", least=1, most=_LARGEST_SAMPLE)
    samples: int = option(62_500, "samples per block (file)", least=1, most=1 << 40)
