"""In which order samples come: keyed permutations, the even tree of weights, what a rank takes at a step.

Everything is a pure function of a number: no state, nothing held for each sample, nothing that depends on how many
workers ask or what they asked before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.seeds import draws

ORDER_SAMPLES, ORDER_DOCUMENTS = 32, 33
"""Purposes of draws: keys of permutations."""

_ROUNDS = 8
_MASK = (1 << 64) - 1
_A, _B, _C = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64
_FEW = 24  # below so many, plain integers are faster than arrays


class Permutation:
    """A permutation of 0..size-1 that a key draws, in O(1) memory: a Feistel network with cycle walking.

    A number is a pair (high, low), below `a` and `b` with a·b just above `size`; each of 8 rounds adds to one half a
    hash of the other. That is a permutation of a·b numbers, whatever the hash; one that leads beyond `size` is walked
    on until it is back.

    Args:
        size: How many numbers there are.
        seed, purpose: Of the draws that are the keys.
        place: Of what is permuted among all that is: source and epoch have permutations of their own.
    """

    def __init__(self, size: int, seed: int, purpose: int, place: int) -> None:
        self.size = size
        self.high = max(1, math.isqrt(max(size - 1, 0)) + 1)
        self.low = max(1, -(-size // self.high))
        self.keys: list[int] = draws(seed, purpose, place * _ROUNDS, (place + 1) * _ROUNDS).tolist()
        self._pairs = list(zip(self.keys[::2], self.keys[1::2], strict=True))

    def __call__(self, number: int) -> int:
        """Where a number goes, 0 <= number < size."""
        a, b = self.high, self.low
        while True:
            high, low = divmod(number, b)
            for odd, even in self._pairs:  # `_hashes`, of one number; written out, as calls would double its time
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
        """The same of int64[n]."""
        if len(numbers) < _FEW:
            return np.array([self(number) for number in numbers.tolist()], np.int64)
        found = self._round(numbers)
        beyond = np.flatnonzero(found >= self.size)
        while len(beyond):
            found[beyond] = self._round(found[beyond])
            beyond = beyond[found[beyond] >= self.size]
        return found

    def inverse(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers that go to int64[n] places."""
        found = self._round_back(places)
        beyond = np.flatnonzero(found >= self.size)
        while len(beyond):
            found[beyond] = self._round_back(found[beyond])
            beyond = beyond[found[beyond] >= self.size]
        return found

    def _round_back(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = np.uint64(self.high), np.uint64(self.low)
        high, low = np.divmod(places.astype(np.uint64), b)
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
    """63 bits of splitmix64's finaliser."""
    z = numbers * np.uint64(_A) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_B)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_C)
    return (z ^ (z >> np.uint64(31))) >> np.uint64(1)


@functools.lru_cache(maxsize=1024)
def permutation(size: int, seed: int, purpose: int, place: int) -> Permutation:
    """A permutation, kept for the next time."""
    return Permutation(size, seed, purpose, place)


class _Node(NamedTuple):
    """Two parts of the tree.

    Attributes:
        heavy, light: Number of a source, or -1 - number of a node.
        a, whole: The heavier child has a / whole of the samples.
    """

    heavy: int
    light: int
    a: int
    whole: int

    def before(self, count: int) -> int:
        """How many of the first `count` samples the heavier child has: floor(count · a / whole + 1/2)."""
        return (2 * count * self.a + self.whole) // (2 * self.whole)


class EvenTree:
    """An even mix of sources by weight: after any number of samples each is within two samples of its share of them.

    Each node rounds by 1/2 at most, and hands on its own distance from its share times the part of the child. A child
    that is a node has at most 2/3, as its sibling is no lighter than the heavier of its own children: so each node is
    less than 3/2 away, and each source less than 2. It counts samples; how many tokens each holds is not seen here.

    The two lightest are joined (ties: first in the file) until one tree is left; of the first m samples of a node the
    heavier child has floor(m·a/(a+b) + 1/2). Exact for weights of any size.

    Args:
        weights: Of each source, in samples; more than 0.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        self.count, self.nodes = len(weights), list[_Node]()
        left = [(weight, place, place) for place, weight in enumerate(weights)]
        while len(left) > 1:
            left.sort(key=lambda part: part[:2])
            (light, second, b), (heavy, first, a) = left[:2]
            if light == heavy:  # the first in the file is the heavier
                a, b = b, a
            share = heavy / (heavy + light)
            self.nodes.append(_Node(a, b, share.numerator, share.denominator))
            left[:2] = [(heavy + light, min(first, second), -len(self.nodes))]
        self.root = left[0][2]

    def locate(self, number: int) -> tuple[int, int]:
        """The source of a sample, and which of that source's samples it is."""
        at = self.root
        while at < 0:
            node = self.nodes[-1 - at]
            before = node.before(number)
            if node.before(number + 1) > before:
                at, number = node.heavy, before
            else:
                at, number = node.light, number - before
        return at, number

    def counts(self, number: int) -> list[int]:
        """How many of the first `number` samples each source has."""
        found, left = [0] * self.count, [(self.root, number)]
        while left:
            at, many = left.pop()
            if at >= 0:
                found[at] = many
                continue
            node = self.nodes[-1 - at]
            heavy = node.before(many)
            left += [(node.heavy, heavy), (node.light, many - heavy)]
        return found

    def most(self, caps: Sequence[int]) -> int:
        """The most samples before the first that would go beyond a cap."""
        low, high = 0, sum(caps) + 1
        while high - low > 1:
            middle = (low + high) // 2
            within = all(count <= cap for count, cap in zip(self.counts(middle), caps, strict=True))
            low, high = (middle, high) if within else (low, middle)
        return low


def numbers(step: int, batch_size: int, rank: int = 0, world_size: int = 1, start: int = 0) -> range:
    """The samples that a rank takes at a step, of global batches from sample `start` on.

    Raises:
        ValueError: The batch cannot be dealt to so many ranks, or there is no such rank.
    """
    if batch_size < 1 or world_size < 1 or batch_size % world_size:
        raise ValueError(f"a global batch of {batch_size:,} samples cannot be dealt to {world_size:,} ranks alike")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size:,}: ranks are 0 to {world_size - 1}")
    if step < 0 or start < 0:
        raise ValueError(f"step {step} from sample {start}: neither is negative")
    share = batch_size // world_size
    first = start + step * batch_size + rank * share
    return range(first, first + share)
