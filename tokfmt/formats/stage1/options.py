"""Options of stage-1 blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option
from tokfmt.formats.stage1.blocks import SAMPLE


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read stage-1 blocks."""

    view: Literal["documents", "samples"] = option("documents", "documents between separators, or rows as stored")
    seq_len: int = option(SAMPLE, "tokens in a sample")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write stage-1 blocks."""

    seq_len: int = option(SAMPLE, "tokens in a sample")
    samples: int = option(62_500, "samples in a block (file)")
