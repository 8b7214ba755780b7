"""Options of JSON lines, and the default limit of a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option
from tokfmt.core.loss_mask import MASK_CHOICES, MaskChoice

MAX_LINE = 1 << 28
"""The longest line that is read by default: 256 MiB, far more than a document and far less than memory."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading JSON lines."""

    text_field: str | None = option(
        None, "field of the text: a name, or a path such as .meta.text or messages.0.content; auto: text"
    )
    ids_field: str | None = option(None, "field of the token IDs: a name, or a dotted path; auto: input_ids")
    kind: Literal["auto", "text", "ids"] = option(
        "auto", "content of records; auto: of the field that an option names, or as in the first record"
    )
    index: Literal["auto", "trust", "none"] = option(
        "auto",
        "X.idx beside X.jsonl; auto: must list every line; trust: may leave lines out; none: not read",
    )
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)
    max_line: int = option(MAX_LINE, "longest line accepted, in bytes", minimum=1)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing JSON lines."""

    text_field: str = option("text", "field for the text: a name, or a dotted path such as .meta.text")
    ids_field: str = option("input_ids", "field for the token IDs: a name, or a dotted path")
