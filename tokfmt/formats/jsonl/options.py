"""How to read and write JSON lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.errors import OptionError
from tokfmt.core.options import option

MAX_LINE = 1 << 28
"""Longest line read by default: 256 MiB, far above any document, far below the memory of a machine."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read JSON lines."""

    text_field: str = option("text", "where the text is: a name, or a dotted path such as .meta.text")
    ids_field: str = option("input_ids", "where the token ids are: a name, or a dotted path")
    kind: Literal["auto", "text", "ids"] = option("auto", "what records hold; auto: the first record decides")
    index: Literal["auto", "none"] = option("auto", "auto: X.idx beside X.jsonl says which lines are documents")
    max_line: int = option(MAX_LINE, "longest line accepted, in bytes")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write JSON lines."""

    text_field: str = option("text", "where the text goes: a name, or a dotted path such as .meta.text")
    ids_field: str = option("input_ids", "where the token ids go: a name, or a dotted path")


def dotted(path: str, name: str) -> tuple[str, ...]:
    """The keys of a dotted path; a leading dot, as jq writes it, is accepted: `.meta.text` is ("meta", "text").

    Raises:
        OptionError: A key is empty. `name` is the option's, for the message.
    """
    keys = tuple(path.removeprefix(".").split("."))
    if not all(keys):
        raise OptionError(f"jsonl option {name}: {path!r} is not a field; write it like text or .meta.text", name=name)
    return keys
