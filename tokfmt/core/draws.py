"""Random numbers by position: what is drawn for sequence i depends on a seed and on i, never on how work is cut.

The generator is counter-based, Philox4x64-10: the draw of sequence i is word i % 4 of the block at counter i // 4 + 1,
under the 128-bit key `purpose << 64 | seed`. Draws for different purposes are independent, whatever their seeds.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); numpy keeps the raw stream stable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import OptionError

SHUFFLE, SPLIT, SHOW = 1, 2, 16
"""Purposes."""

_WORDS = 4  # of 64 bits, in a block of the generator


def draws(seed: int, purpose: int, first: int, last: int) -> NDArray[np.uint64]:
    """One number for each sequence `first <= i < last`, uniform in 0..2^64-1; uint64[last - first]."""
    skip = first % _WORDS
    generator = np.random.Philox(key=purpose << 64 | seed, counter=first // _WORDS)
    return np.asarray(generator.random_raw(skip + last - first), np.uint64)[skip:]


def check_seed(seed: int, option: str) -> int:
    """The seed, if it is one.

    Raises:
        OptionError: It is not in 0..2^64-1.
    """
    if not 0 <= seed < 1 << 64:
        raise OptionError(f"{option}: {seed:,} is not a seed: a whole number from 0 to 2^64-1", name=option)
    return seed
