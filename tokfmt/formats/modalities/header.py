"""Headers of Modalities packs of every layout, and the type of their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

LONGEST = 16
"""Bytes of a file to look at for a header."""


MEGATRON = b"MMIDIDX\x00\x00"


_WIDTHS = (1, 2, 3, 4)


class Header(NamedTuple):
    """A header, if the file has one of this kind.

    Attributes:
        size: 12 (layouts B, C, D, E), 8 (A) or 4 (P1, P2, P3) bytes.
        big: Header and tokens are big-endian.
        length: Bytes of the data section, as the header says.
        width: Bytes a token; None where the header has no room for it.
    """

    size: int
    big: bool
    length: int
    width: int | None = None

    @property
    def index_start(self) -> int:
        """Where the index begins, if the header is right."""
        return self.size + self.length

    @property
    def order(self) -> str:
        """Byte order in a word."""
        return "big" if self.big else "little"


def headers(head: bytes, layout: str = "auto") -> Iterator[Header]:
    """The headers that the first bytes may be, likeliest first; only those of `layout` when it is not "auto"."""
    header = twelve(head)
    if header and layout in ({"auto", "B"} if header.big else {"auto", "C", "D"}):
        yield header
    for size, layouts in ((8, {"auto", "A"}), (4, {"auto", "P1", "P2", "P3"})):
        if layout in layouts and len(head) >= size:
            yield Header(size, big=True, length=int.from_bytes(head[:size], "big"))


def twelve(head: bytes) -> Header | None:
    """The header of 12 bytes, if bytes 8..11 are a token width; the byte order follows from it."""
    if len(head) < 12:
        return None
    for big in (False, True):
        order: Literal["big", "little"] = "big" if big else "little"
        width = int.from_bytes(head[8:12], order)
        if width in _WIDTHS:
            return Header(12, big, int.from_bytes(head[:8], order), width)
    return None


def begins_index(lead: bytes) -> bool:
    """Whether these bytes (12 or more) may be the first of a pickled list."""
    if len(lead) < 3 or lead[0] != 0x80 or not 2 <= lead[1] <= 5:
        return False
    return lead[2] == 0x5D or (lead[2] == 0x95 and len(lead) > 11 and lead[11] == 0x5D)


def multimodal(head: bytes) -> Header | None:
    """The header of a multimodal pack: two big-endian lengths; `length` is the first."""
    return Header(16, big=True, length=int.from_bytes(head[:8], "big")) if len(head) >= 16 else None


def token_dtype(width: int, *, big: bool) -> np.dtype[Any]:
    """Of a stored token; numpy has none of 3 bytes."""
    if width != 3:
        return np.dtype(f"{'>' if big else '<'}u{width}")
    return np.dtype([("high", "u1"), ("low", ">u2")] if big else [("low", "<u2"), ("high", "u1")])
