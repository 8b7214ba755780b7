"""Options of JSON lines, and the longest line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.options import option

MAX_LINE = 1 << 28
"""Longest line read by default: 256 MiB, far above any document, far below the memory of a machine."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read JSON lines."""

    text_field: str = option("text", "where the text is: a name, or a path such as .meta.text or messages.0.content")
    ids_field: str = option("input_ids", "where the token ids are: a name, or a dotted path")
    kind: Literal["auto", "text", "ids"] = option("auto", "what records hold; auto: the first record decides")
    index: Literal["auto", "trust", "none"] = option(
        "auto", "X.idx beside X.jsonl is read, and must name every line that is JSON; trust: it may leave some out"
    )
    max_line: int = option(MAX_LINE, "longest line accepted, in bytes", least=1)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write JSON lines."""

    text_field: str = option("text", "where the text goes: a name, or a dotted path such as .meta.text")
    ids_field: str = option("input_ids", "where the token ids go: a name, or a dotted path")
