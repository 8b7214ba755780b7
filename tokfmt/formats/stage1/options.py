"""Names, sizes and options of stage-1 blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option

GPT2_EOS = 50256
SAMPLE = 8192
BLOCK_NAME = re.compile(r"stage1_block_(\d+)\.bin")


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
