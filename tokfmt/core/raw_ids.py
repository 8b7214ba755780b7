"""What a run of numbers without a header seems to be: token ids of which width and byte order, or something else.

Ids of a tokenizer are recognised by their use: some are hundreds of times as frequent as most. Numbers that count up,
labels and random numbers are not like that, whatever their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import PROBE_BYTES, Probe

LARGEST = 1 << 22
"""No tokenizer in use has more than 4 Mi ids."""

_MIDDLES = 6
_ENOUGH = 512  # numbers of 8 bytes: fewer show nothing
_MANY = 8192  # numbers that show whether some are frequent
_FEW = 64  # distinct numbers: labels, flags, bytes of one kind
_BYTES = 256
_APART = 0.36  # low bytes of ids of text against high ones: 0.46 and more; programs, pictures and text: 0.28 at most
_RISE = 10  # the most frequent id against the median one; 6 is reached by chance
_SHARE = 0.004  # of the most frequent id
_DISTINCT = 512  # ids that show their byte order: by chance the low bytes of so many stay below 240 once in 10^14
_LIMITED = 240  # what the high bytes of 2-byte ids stay below; those of Llama 2 below 125, of GPT-2 below 197
_ABSURD = 0.25  # separators among tokens

Numbers = NDArray[Any]


def kind_of(pieces: Sequence[bytes], eos_id: int) -> str:
    """What bytes seem to hold, taken from several places of a file, each a multiple of 8 bytes from its start.

    Args:
        pieces: The bytes.
        eos_id: The separator that int32 ids should have.

    Returns:
        "int32 tokens" (with separators as documents have them), "int32", "uint16", "int64", "big-endian int32" ...
        (ids without such separators, or of another kind), "zeros", "constant", "arange", "labels", "random", or "" when
        it is none of these or there is too little of it.
    """
    data = b"".join(piece[: len(piece) // 8 * 8] for piece in pieces)
    if len(data) < 8 * _ENOUGH:
        return ""
    if not np.frombuffer(data, np.uint64).any():
        return "zeros"
    for dtype, name in (("<i8", "int64"), (">i8", "big-endian int64"), ("<i4", "int32"), (">i4", "big-endian int32")):
        ids = np.frombuffer(data, dtype)
        if _in_range(ids):
            what = _not_tokens(ids, eos_id)
            if what or name != "int32":
                return what or name
            share = float(np.mean(ids == eos_id))
            return "int32 tokens" if 0 < share <= _ABSURD else "int32"
    halves = np.frombuffer(data, "<u2")
    even, odd = (not _not_tokens(part, eos_id) for part in (halves[::2], halves[1::2]))
    low, high = (np.bincount(np.frombuffer(data, "u1")[k::2], minlength=_BYTES) for k in (0, 1))
    if not (even and odd) or np.abs(low - high).sum() < _APART * len(halves):
        return ""
    return "uint16" if int(halves.max()) <= int(halves.byteswap().max()) else "big-endian uint16"


def byte_swapped(ids: Numbers) -> bool:
    """Whether ids of 2 or 4 bytes are those of a tokenizer only if their bytes stand in the other order.

    Of a vocabulary below 61,440 ids, high bytes have a limit that low bytes do not have. Larger ones, and a few ids,
    do not show the order of 2 bytes.
    """
    if ids.dtype.itemsize == 4:
        return len(ids) > 0 and int(ids.max()) >= LARGEST > int(ids.byteswap().max())
    if ids.dtype.itemsize != 2:
        return False
    distinct = np.unique(ids)
    low, high = int((distinct & 255).max(initial=0)), int(distinct.max(initial=0)) >> 8
    return len(distinct) >= _DISTINCT and low < _LIMITED <= high


def _in_range(ids: Numbers) -> bool:
    return int(ids.min()) >= 0 and int(ids.max()) < LARGEST


def _not_tokens(ids: Numbers, eos_id: int) -> str:
    """What numbers seem to be that are not ids of a tokenizer; "" when they may be."""
    if bool((ids == ids[0]).all()):
        return "constant"
    if float(np.mean(np.diff(ids.astype(np.int64)) == 1)) > 0.9:
        return "arange"
    distinct, counts = np.unique(ids[ids != eos_id], return_counts=True)
    if len(distinct) < _FEW or int(distinct[-1]) < _BYTES:
        return "labels"
    top = int(counts.max())
    return "random" if len(ids) >= _MANY and (top < _RISE * float(np.median(counts)) or top < _SHARE * len(ids)) else ""


def places(probe: Probe) -> list[bytes]:
    """The bytes of a file's head, of six places in the middle, and of its tail, each from a multiple of 8 on."""
    if probe.size <= 2 * PROBE_BYTES:
        return [probe.read(0, PROBE_BYTES), probe.read(PROBE_BYTES, PROBE_BYTES)]
    last = (probe.size - PROBE_BYTES) // 8 * 8
    return [probe.read(last * k // (_MIDDLES + 1) // 8 * 8, PROBE_BYTES) for k in range(_MIDDLES + 2)]
