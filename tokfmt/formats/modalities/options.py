"""Options of Modalities packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option
from tokfmt.formats.flat import FlatOptions


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a pack."""

    layout: Literal["auto", "A", "B", "C", "D", "P0", "P1", "P2", "P3"] = option(
        "auto", "layout of the header; P0 is a stream of 4-byte big-endian IDs without header and index"
    )
    width: Literal[1, 2, 3, 4] | None = option(None, "bytes per token, for layouts that do not store it (A, P0-P3)")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing a pack."""

    layout: Literal["D", "A"] = option(
        "D", "D, which Modalities reads since 2024-07, or A, the older one that its documentation describes"
    )
    width: Literal[1, 2, 4] | None = option(None, "bytes per token; auto: the fewest that hold the largest ID (A: 4)")
