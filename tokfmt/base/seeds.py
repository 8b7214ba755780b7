"""Random numbers by position: the draw of sequence i depends only on a seed, a purpose and i, not on tasks or workers.

The generator is counter-based, Philox4x64-10. The draw of sequence i is word i % 4 of the block at counter i // 4 + 1.
The key has 128 bits: `purpose << 64 | seed`. Draws for different purposes are independent, whatever their seeds.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). numpy guarantees the raw stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import fit

SHUFFLE, SPLIT, SHOW, SAMPLE, DRAWN = 1, 2, 16, 17, 34
"""Purposes of draws. DRAWN is the order in which documents fill a quota."""

_BATCH = 1 << 10  # Numbers drawn at once. Another size gives another order.
_WORDS = 4  # Words of 64 bits in a block of the generator.


def draws(seed: int, purpose: int, first: int, last: int) -> NDArray[np.uint64]:
    """Return a number for each sequence `first <= i < last`, uint64[last - first], uniform in 0..2^64-1."""
    skip = first % _WORDS
    generator = np.random.Philox(key=purpose << 64 | seed, counter=first // _WORDS)
    return np.asarray(generator.random_raw(skip + last - first), np.uint64)[skip:]


def random_order(count: int, seed: int, purpose: int) -> Iterator[int]:
    """Yield every number below `count` once, in a random order: the first n of them are a random sample.

    Numbers are drawn lazily. For the first half of the numbers, memory grows with the numbers yielded.
    """
    seen: set[int] = set()
    at = 0
    while 2 * len(seen) < count:
        for number in (draws(seed, purpose, at, at + _BATCH) % np.uint64(count)).tolist():
            if number not in seen and 2 * len(seen) < count:
                seen.add(number)
                yield number
        at += _BATCH
    left = np.ones(count, np.bool_)
    left[list(seen)] = False
    rest = np.flatnonzero(left)
    yield from rest[np.argsort(draws(seed, purpose, at, at + len(rest)), kind="stable")].tolist()


def check_seed(seed: int, option: str) -> int:
    """Return the seed as an int; refuse what is not an integer from 0 to 2^64-1."""
    return int(fit(option, seed, int, {"minimum": 0, "maximum": (1 << 64) - 1}))
