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

    text_field: str = option("text", "field of the text: a name, or a path such as .meta.text or messages.0.content")
    ids_field: str = option("input_ids", "field of the token IDs: a name, or a dotted path")
    kind: Literal["auto", "text", "ids"] = option("auto", "content of records; auto: as in the first record")
    index: Literal["auto", "trust", "none"] = option(
        "auto",
        "X.idx beside X.jsonl; auto: it has to list every line; trust: it can leave lines out; none: ignored",
    )
    max_line: int = option(MAX_LINE, "longest line accepted, in bytes", least=1)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write JSON lines."""

    text_field: str = option("text", "field for the text: a name, or a dotted path such as .meta.text")
    ids_field: str = option("input_ids", "field for the token IDs: a name, or a dotted path")
