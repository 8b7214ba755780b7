"""Headers of Modalities packs of every layout, and the dtype of their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

LONGEST = 16
"""The number of bytes of a file that may be a header."""


MEGATRON = b"MMIDIDX\x00\x00"


_WIDTHS = (1, 2, 3, 4)


class Header(NamedTuple):
    """A header that a file may have."""

    size: int  # its size in bytes: 12 (layouts B, C, D, E), 8 (A) or 4 (P1, P2, P3)
    big: bool  # True if header and tokens are big-endian
    length: int  # bytes of the data section, as the header states
    width: int | None = None  # bytes per token; None if the header does not state it

    @property
    def index_start(self) -> int:
        """Byte offset of the index, if the header is right."""
        return self.size + self.length

    @property
    def order(self) -> str:
        """The byte order: "big" or "little"."""
        return "big" if self.big else "little"


def headers(head: bytes, layout: str = "auto") -> Iterator[Header]:
    """Yield the headers that the first bytes may be, likeliest first; only those of `layout` unless it is "auto"."""
    header = twelve(head)
    if header and layout in ({"auto", "B"} if header.big else {"auto", "C", "D"}):
        yield header
    for size, layouts in ((8, {"auto", "A"}), (4, {"auto", "P1", "P2", "P3"})):
        if layout in layouts and len(head) >= size:
            yield Header(size, big=True, length=int.from_bytes(head[:size], "big"))


def twelve(head: bytes) -> Header | None:
    """Return the header of 12 bytes if bytes 8..11 are a token width, from which its byte order follows, else None."""
    if len(head) < 12:
        return None
    for big in (False, True):
        order: Literal["big", "little"] = "big" if big else "little"
        width = int.from_bytes(head[8:12], order)
        if width in _WIDTHS:
            return Header(12, big, int.from_bytes(head[:8], order), width)
    return None


def begins_index(lead: bytes) -> bool:
    """Return True if `lead` (12 bytes or more) may be the beginning of a pickled list."""
    if len(lead) < 3 or lead[0] != 0x80 or not 2 <= lead[1] <= 5:
        return False
    return lead[2] == 0x5D or (lead[2] == 0x95 and len(lead) > 11 and lead[11] == 0x5D)


def multimodal(head: bytes) -> Header | None:
    """Return the header of a multimodal pack, which is two big-endian lengths; `length` is the first."""
    return Header(16, big=True, length=int.from_bytes(head[:8], "big")) if len(head) >= 16 else None


def token_dtype(width: int, *, big: bool) -> np.dtype[Any]:
    """Return the dtype of a stored token; for 3 bytes, which numpy lacks, a structure of `low` and `high`."""
    if width != 3:
        return np.dtype(f"{'>' if big else '<'}u{width}")
    return np.dtype([("high", "u1"), ("low", ">u2")] if big else [("low", "<u2"), ("high", "u1")])
