"""Guess what a file without a header holds: token IDs of which width and byte order, or other numbers.

Token IDs are recognized by their frequencies: some are hundreds of times as frequent as most. Numbers that count up,
labels and random numbers are not, whatever their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import PROBE_BYTES, Probe

LARGEST = 1 << 22
"""No tokenizer in use has more than 4 Mi token IDs."""

_MIDDLES = 6
_ENOUGH = 512  # Numbers of 8 bytes that are needed for a conclusion.
_MANY = 8192  # Numbers that are needed to tell whether some are frequent.
_FEW = 64  # With fewer distinct numbers, they are labels, flags or bytes.
_BYTES = 256
_APART = 0.36  # Distance of low and high bytes. IDs of text have at least 0.46; programs, images, text at most 0.28.
_RISE = 10  # Smallest ratio of the highest frequency to the median one. Random numbers reach 6.
_SHARE = 0.004  # Smallest share of the most frequent ID.
_DISTINCT = 512  # Distinct IDs that show their byte order: random low bytes stay below 240 once in 10^14.
_LIMITED = 240  # Bound of the high bytes of 2-byte IDs: below 125 for Llama 2, below 197 for GPT-2.
_LEAST, _HALF, _MOST = 1e-9, 6e-5, 1e9  # Sizes of usual numbers: at least, at least of 2 bytes, at most.
_NEARLY = 0.99  # Share of the numbers that are of a usual size.
_SIGNED = 0.1  # Smallest share of the rarer sign.
_ABSURD = 0.25  # Largest plausible share of separators.

Numbers = NDArray[Any]


def kind_of(pieces: Sequence[bytes], eos_id: int) -> str:
    """Guess the content of a file from pieces of it. The pieces are from several places of the file, each at a multiple
    of 8 bytes. `eos_id` is the separator that int32 IDs should have. The result is "int32 tokens" (int32 IDs with a
    plausible share of separators), "int32", "uint16", "int64", "big-endian int32" ... (IDs without such separators, or
    of another dtype), "zeros", "constant", "arange", "labels", "random", "floats". It is "" if it is none of these, or
    the pieces are too short.
    """
    data = b"".join(piece[: len(piece) // 8 * 8] for piece in pieces)
    if len(data) < 8 * _ENOUGH:
        return ""
    if not np.frombuffer(data, np.uint64).any():
        return "zeros"
    for dtype, name in (("<i8", "int64"), (">i8", "big-endian int64"), ("<i4", "int32"), (">i4", "big-endian int32")):
        ids = np.frombuffer(data, dtype)
        if int(ids.min()) >= 0 and int(ids.max()) < LARGEST:
            what = _not_tokens(ids, eos_id)
            if what or name != "int32":
                return what or name
            share = float(np.mean(ids == eos_id))
            return "int32 tokens" if 0 < share <= _ABSURD else "int32"
    if _floats(data):
        return "floats"
    halves = np.frombuffer(data, "<u2")
    even, odd = (not _not_tokens(part, eos_id) for part in (halves[::2], halves[1::2]))
    low, high = (np.bincount(np.frombuffer(data, "u1")[k::2], minlength=_BYTES) for k in (0, 1))
    if not (even and odd) or np.abs(low - high).sum() < _APART * len(halves):
        return ""
    return "uint16" if int(halves.max()) <= int(halves.byteswap().max()) else "big-endian uint16"


def byte_swapped(ids: Numbers) -> bool:
    """Return whether IDs of 2 or 4 bytes are plausible only in the other byte order.

    In a vocabulary below 61,440 IDs, high bytes have a bound that low bytes do not have. IDs of a larger vocabulary, or
    few IDs, do not show the order of 2 bytes.
    """
    if ids.dtype.itemsize == 4:
        return len(ids) > 0 and int(ids.max()) >= LARGEST > int(ids.byteswap().max())
    if ids.dtype.itemsize != 2:
        return False
    low, high = int((ids & 255).max(initial=0)), int(ids.max(initial=0)) >> 8
    # np.unique imports numpy.ma when it is first called, which takes half the time of a small conversion.
    return low < _LIMITED <= high and len(np.unique(ids)) >= _DISTINCT


def _not_tokens(ids: Numbers, eos_id: int) -> str:
    """Return what numbers seem to be if they are not token IDs; "" if they may be token IDs."""
    if bool((ids == ids[0]).all()):
        return "constant"
    if float(np.mean(np.diff(ids.astype(np.int64)) == 1)) > 0.9:
        return "arange"
    distinct, counts = np.unique(ids[ids != eos_id], return_counts=True)
    if len(distinct) < _FEW or int(distinct[-1]) < _BYTES:
        return "labels"
    top = int(counts.max())
    return "random" if len(ids) >= _MANY and (top < _RISE * float(np.median(counts)) or top < _SHARE * len(ids)) else ""


def _floats(data: bytes) -> bool:
    """Return whether bytes are floating-point numbers of a usual size: weights, vectors or sound.

    Token IDs that are read as such are next to 0, except for the most frequent ones of 2 bytes. Numbers of 2 bytes have
    both signs besides, and few token IDs are beyond 32,767.
    """
    upper = np.frombuffer(data, "<u2").astype("<u4") << 16  # bfloat16
    wide = [np.frombuffer(data, dtype) for dtype in ("<f4", "<f8", ">f4", ">f8")]
    narrow = [upper.view("<f4"), np.frombuffer(data, "<f2").astype(np.float32)]
    with np.errstate(invalid="ignore", over="ignore"):
        return any(_usual(numbers) for numbers in wide) or any(
            _usual(numbers, _HALF) and _SIGNED < float(np.mean(numbers < 0)) < 1 - _SIGNED for numbers in narrow
        )


def _usual(numbers: Numbers, least: float = _LEAST) -> bool:
    """Return whether nearly all numbers are 0, or neither tiny nor huge, and they are not all the same."""
    sizes = np.abs(numbers)
    share = float(np.mean((sizes == 0) | ((sizes > least) & (sizes < _MOST))))
    return share >= _NEARLY and float(np.mean(sizes == 0)) < 0.5 and bool((numbers != numbers[0]).any())


def places(probe: Probe) -> list[bytes]:
    """Return the bytes of the head, of six places in the middle, and of the tail of a file, each at a multiple of 8.

    Of a small file, all bytes are returned, each once.
    """
    if probe.size <= (_MIDDLES + 2) * PROBE_BYTES:
        return [probe.read(at, PROBE_BYTES) for at in range(0, probe.size, PROBE_BYTES)]
    last = (probe.size - PROBE_BYTES) // 8 * 8
    return [probe.read(last * k // (_MIDDLES + 1) // 8 * 8, PROBE_BYTES) for k in range(_MIDDLES + 2)]
