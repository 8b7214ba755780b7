"""128-bit hashes of whole sequences, many at a time.

Which of three ways a sequence goes is decided by its length alone, so equal sequences have equal hashes:

- up to 16 bytes: the bytes themselves, scrambled by a bijection. Together with the length, two such sequences that
  differ can not be taken for equal.
- up to 64 bytes: numpy mixes 8 bytes of all of them at a time into two independent lanes of 64 bits (multiply and
  xor-shift, each step a bijection of the lane). A call of a hash function for each would take ten times as long.
- longer: xxh3_128, a call each, at 10 GB/s and more; a quarter of a microsecond a call.

With n sequences, the odds that any two that differ are taken for equal are about n^2 / 2^129: 1.5e-19 for 10^10. The
hashes are not made to withstand somebody who crafts collisions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from tokfmt.core.ragged import Offsets, Tokens

Hashes = NDArray[np.uint64]

SHORT = 64
"""Bytes up to which sequences are hashed by numpy."""

_WORDS = (1, 2, 4, 8)
_ROWS = 1 << 15
_K1, _K2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def sequence_hashes(tokens: Tokens, starts: Offsets, stops: Offsets) -> Hashes:
    """Hash sequences that lie in a window.

    Args:
        tokens: The window.
        starts, stops: int64[n], where each sequence lies in it; none is empty.

    Returns:
        uint64[n, 2].
    """
    width = tokens.dtype.itemsize
    tokens = np.ascontiguousarray(tokens)
    lengths = stops - starts
    out = np.empty((len(starts), 2), np.uint64)
    sizes = lengths * width
    below = 0
    for words in _WORDS:
        some = np.flatnonzero((sizes > below) & (sizes <= 8 * words))
        for a in range(0, len(some), _ROWS):
            rows = some[a : a + _ROWS]
            out[rows] = _mixed(_words_of(tokens, starts[rows], lengths[rows], words))
        below = 8 * words
    long = np.flatnonzero(sizes > SHORT)
    if len(long):
        raw = tokens.view(np.uint8).data
        bounds = zip((starts[long] * width).tolist(), (stops[long] * width).tolist(), strict=True)
        digests = b"".join([xxh3_128_digest(raw[a:b]) for a, b in bounds])
        out[long] = np.frombuffer(digests, "<u8").reshape(-1, 2)
    return out


def _words_of(tokens: Tokens, starts: Offsets, lengths: Offsets, words: int) -> NDArray[np.uint64]:
    """The bytes of short sequences, each filled up with zeros: uint64[n, words]."""
    columns = np.arange(words * 8 // tokens.dtype.itemsize)
    places = np.minimum(starts[:, None] + columns, len(tokens) - 1)
    gathered = tokens[places]
    gathered[columns >= lengths[:, None]] = 0
    found: NDArray[np.uint64] = gathered.view(np.uint64)
    return found


def _mixed(words: NDArray[np.uint64]) -> Hashes:
    """Two lanes of each row; a bijection when a row has one or two words."""
    count = words.shape[1]
    if count <= 2:
        second = words[:, 1] if count == 2 else np.zeros(len(words), np.uint64)
        return np.stack([_scrambled(words[:, 0] ^ _scrambled(second)), second], axis=1)
    left = np.full(len(words), _K1)
    right = np.full(len(words), _K2)
    for k in range(count):
        word = words[:, k]
        left = (left ^ word) * _A
        left ^= left >> np.uint64(29)
        right = (right + word) * _B
        right ^= right >> np.uint64(31)
    return np.stack([_scrambled(left), _scrambled(right ^ _K1)], axis=1)


def _scrambled(values: Any) -> NDArray[np.uint64]:
    """A bijection of 64-bit numbers that leaves no pattern (the finaliser of splitmix64)."""
    mixed = values + _K1
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _A
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _B
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return found
