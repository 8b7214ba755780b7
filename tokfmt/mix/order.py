"""Order samples: keyed permutations, the even tree of weights, and the samples that a rank takes at a step.

Every result is a pure function of a sample number. There is no state per sample, and nothing depends on the number of
workers or on earlier calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import draws

ORDER_SAMPLES, ORDER_DOCUMENTS = 32, 33
"""Purposes of draws, for the keys of permutations."""

_ROUNDS = 8
_MASK = (1 << 64) - 1
_A, _B, _C = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # the constants of splitmix64
_FEW = 24  # for fewer numbers, Python integers are faster than arrays


class Permutation:
    """A keyed permutation of 0..size-1 in O(1) memory: a Feistel network with cycle walking.

    A number is a pair (high, low) below `a` and `b`, with a·b just above `size`. Each of 8 rounds adds a hash of one
    half to the other. This is a permutation of a·b numbers for any hash. A result of `size` or more is permuted again
    until it is below `size`. Each list and epoch has a number of its own.
    """

    def __init__(self, size: int, seed: int, purpose: int, number: int) -> None:
        self.size = size
        self.high = max(1, math.isqrt(max(size - 1, 0)) + 1)
        self.low = max(1, -(-size // self.high))
        self.keys: list[int] = draws(seed, purpose, number * _ROUNDS, (number + 1) * _ROUNDS).tolist()
        self._pairs = list(zip(self.keys[::2], self.keys[1::2], strict=True))

    def __call__(self, number: int) -> int:
        """Return the image of a number, 0 <= number < size."""
        a, b = self.high, self.low
        while True:
            high, low = divmod(number, b)
            for odd, even in self._pairs:  # `_hashes` for one number, inlined because calls would double the time
                z = (low * _A + odd) & _MASK
                z = ((z ^ (z >> 30)) * _B) & _MASK
                z = ((z ^ (z >> 27)) * _C) & _MASK
                high = (high + ((z ^ (z >> 31)) >> 1)) % a
                z = (high * _A + even) & _MASK
                z = ((z ^ (z >> 30)) * _B) & _MASK
                z = ((z ^ (z >> 27)) * _C) & _MASK
                low = (low + ((z ^ (z >> 31)) >> 1)) % b
            number = high * b + low
            if number < self.size:
                return number

    def many(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the images of numbers, int64[n]."""
        if len(numbers) < _FEW:
            return np.array([self(number) for number in numbers.tolist()], np.int64)
        images = self._round(numbers)
        beyond = np.flatnonzero(images >= self.size)
        while len(beyond):
            images[beyond] = self._round(images[beyond])
            beyond = beyond[images[beyond] >= self.size]
        return images

    def inverse(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers whose images are `positions`, int64[n]."""
        images = self._round_back(positions)
        beyond = np.flatnonzero(images >= self.size)
        while len(beyond):
            images[beyond] = self._round_back(images[beyond])
            beyond = beyond[images[beyond] >= self.size]
        return images

    def _round_back(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = np.uint64(self.high), np.uint64(self.low)
        high, low = np.divmod(positions.astype(np.uint64), b)
        for k in reversed(range(0, _ROUNDS, 2)):
            low = (low + (b - _hashes(high, self.keys[k + 1]) % b)) % b
            high = (high + (a - _hashes(low, self.keys[k]) % a)) % a
        return (high * b + low).astype(np.int64)

    def _round(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = np.uint64(self.high), np.uint64(self.low)
        high, low = np.divmod(numbers.astype(np.uint64), b)
        for k in range(0, _ROUNDS, 2):
            high = (high + _hashes(low, self.keys[k])) % a
            low = (low + _hashes(high, self.keys[k + 1])) % b
        return (high * b + low).astype(np.int64)


def _hashes(numbers: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """Return 63 bits of the finalizer of splitmix64 for each number."""
    z = numbers * np.uint64(_A) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_B)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_C)
    return (z ^ (z >> np.uint64(31))) >> np.uint64(1)


@functools.lru_cache(maxsize=1024)
def permutation(size: int, seed: int, purpose: int, number: int) -> Permutation:
    """Return a permutation; the last 1,024 are cached."""
    return Permutation(size, seed, purpose, number)


class _Node(NamedTuple):
    """A node of the tree."""

    heavy: int  # the children: the number of a source, or -1 - the number of a node
    light: int
    a: int  # the heavier child has the share a / whole of the samples
    whole: int

    def before(self, count: int) -> int:
        """Return the number of the first `count` samples that the heavier child has: floor(count · a / whole + 1/2)."""
        return (2 * count * self.a + self.whole) // (2 * self.whole)


class EvenTree:
    """An even mix of sources by weight. Each source is always within two samples of its share.

    The two lightest parts are joined (ties: first in the file) until one tree remains. Of the first m samples of a
    node, the heavier child has floor(m·a/(a+b) + 1/2). This is exact for weights of any size.

    The bound is two because each node rounds by at most 1/2, and passes its own error on, times the share of the child.
    A child that is a node has a share of at most 2/3, because its sibling is at least as heavy as the heavier of its
    own children. The error of each node is therefore less than 3/2, and that of each source less than 2.

    The tree counts samples, not the tokens in them.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        self.count, self.nodes = len(weights), list[_Node]()
        left = [(weight, index, index) for index, weight in enumerate(weights)]
        while len(left) > 1:
            left.sort(key=lambda part: part[:2])
            (light, second, b), (heavy, first, a) = left[:2]
            if light == heavy:  # the first in the file counts as the heavier
                a, b = b, a
            share = heavy / (heavy + light)
            self.nodes.append(_Node(a, b, share.numerator, share.denominator))
            left[:2] = [(heavy + light, min(first, second), -len(self.nodes))]
        self.root = left[0][2]

    def locate(self, number: int) -> tuple[int, int]:
        """Return the source of a sample, and the number of the sample among those of that source."""
        node_number = self.root
        while node_number < 0:
            node = self.nodes[-1 - node_number]
            before = node.before(number)
            if node.before(number + 1) > before:
                node_number, number = node.heavy, before
            else:
                node_number, number = node.light, number - before
        return node_number, number

    def counts(self, number: int) -> list[int]:
        """Return the number of samples of each source among the first `number` samples."""
        counts, left = [0] * self.count, [(self.root, number)]
        while left:
            node_number, many = left.pop()
            if node_number >= 0:
                counts[node_number] = many
                continue
            node = self.nodes[-1 - node_number]
            heavy = node.before(many)
            left += [(node.heavy, heavy), (node.light, many - heavy)]
        return counts

    def number_of(self, source: int, number: int) -> int:
        """Return the sample that is the given one among those of a source: what `locate` inverts."""
        low, high = number, number + 1
        while self.counts(high)[source] <= number:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.counts(middle)[source] <= number else (low, middle)
        return high - 1

    def maximum(self, caps: Sequence[int]) -> int:
        """Return the maximum number of samples for which no source exceeds its cap."""
        low, high = 0, sum(caps) + 1
        while high - low > 1:
            middle = (low + high) // 2
            within = all(count <= cap for count, cap in zip(self.counts(middle), caps, strict=True))
            low, high = (middle, high) if within else (low, middle)
        return low


def samples_of_step(step: int, batch_size: int, rank: int = 0, world_size: int = 1, start: int = 0) -> range:
    """Return the samples that a rank takes at a step."""
    if batch_size < 1 or world_size < 1:
        raise ValueError(f"a batch of {batch_size:,} samples over {world_size:,} ranks: both are at least 1")
    if batch_size % world_size:
        raise ValueError(
            f"a global batch of {batch_size:,} samples cannot be divided evenly among {world_size:,} ranks"
        )
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size:,}: ranks are 0 to {world_size - 1}")
    if step < 0 or start < 0:
        raise ValueError(f"step {step} from sample {start}: neither is negative")
    share = batch_size // world_size
    first = start + step * batch_size + rank * share
    return range(first, first + share)
