"""Names and sizes of stage-1 blocks."""

from __future__ import annotations

import re

GPT2_EOS = 50256
SAMPLE = 8192
BLOCK_NAME = re.compile(r"stage1_block_(\d+)\.bin")
