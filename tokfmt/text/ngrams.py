"""Find the n-grams of some texts, the evals, in other texts or token IDs. Every hit is exact.

    hash of keys k[0..n)  =  k[0] + k[1] A + ... + k[n-1] A^(n-1)   modulo 2^64, for an odd A drawn at random
                          =  (sums[i+n] - sums[i]) / A^i            of sums[i] = k[0] + ... + k[i-1] A^(i-1)

so numpy hashes the n-grams at all positions by one cumulative sum. The keys are token IDs, or hashes of words, that are
made of their bytes in the same way. A table with two bits for each n-gram of the evals leaves less than 1 % of other
positions, whose hashes are looked up. Equal hashes are compared: token IDs with token IDs, words with words.

An n-gram has the position in the evals at which it occurs first as its number. So numbers do not depend on A.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Decoder
from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of
from tokfmt.core.reader import TokenReader, windows
from tokfmt.text.words import PIECE, Words, words_of

Keys = NDArray[np.uint64]

_CHUNK = 1 << 15  # keys that are hashed at once, so that the arrays stay in the processor's cache
_TOGETHER = 1 << 10  # texts of evals that are split together
_BITS = 32  # of the table, for each n-gram
_FEWEST = 16  # the table has at least 2^16 bits
_SECOND = np.uint64(0x9E3779B97F4A7C15)  # multiplies a hash for its second bit


class Found(NamedTuple):
    """The places of n-grams of the evals in some texts, in order: int64[places] each."""

    texts: Offsets  # number of the text
    positions: Offsets  # of the n-gram in it, in words or in tokens
    grams: Offsets  # number of the n-gram

    @staticmethod
    def joined(parts: Sequence[Found]) -> Found:
        """Return several as one."""
        columns = zip(*parts, strict=True) if parts else ([np.empty(0, np.int64)],) * 3
        return Found(*map(np.concatenate, columns))

    def firsts(self) -> Found:
        """Return the first place of each n-gram in each text."""
        order = np.lexsort([self.grams, self.texts])
        pairs = np.stack([self.texts[order], self.grams[order]])
        kept = np.sort(order[(np.diff(pairs, prepend=-1) != 0).any(axis=0)])
        return Found(self.texts[kept], self.positions[kept], self.grams[kept])


@functools.lru_cache(maxsize=4)
def _powers(base: int) -> tuple[Keys, Keys]:
    """Return the powers of an odd number and those of its inverse modulo 2^64."""
    powers = [np.ones(PIECE, np.uint64), np.ones(PIECE, np.uint64)]
    for column, factor in zip(powers, (base, pow(base, -1, 1 << 64)), strict=True):
        column[1:] = factor
        np.multiply.accumulate(column, out=column)
    return powers[0], powers[1]


def _hashes(keys: Keys, n: int, base: int) -> Keys:
    """Return the hashes of the n-grams of at most `_CHUNK` + n keys."""
    powers, inverse = _powers(base)
    sums = np.zeros(len(keys) + 1, np.uint64)
    np.cumsum(keys * powers[: len(keys)], out=sums[1:])
    hashes = sums[n:] - sums[: len(sums) - n]
    hashes *= inverse[: len(hashes)]
    return hashes


@dataclass(frozen=True, slots=True)
class NgramIndex:
    """The n-grams of items, which are sequences of numbers: token IDs, or words numbered by a vocabulary."""

    n: int
    base: int  # A
    ids: NDArray[np.unsignedinteger]  # of all items, joined
    bounds: Offsets  # int64[items + 1], the position in `ids` of each item
    hashes: Keys  # of the n-grams, ascending; equal ones if n-grams that differ have the same
    firsts: NDArray[np.integer]  # of each hash, the number of its n-gram
    grams: NDArray[np.integer]  # at each position of `ids`, the number of the n-gram that begins there; -1 for none
    bits: NDArray[np.uint8]
    vocabulary: dict[bytes, int] | None  # the number of each word; None for token IDs

    def in_tokens(self, tokens: Tokens) -> tuple[Offsets, Offsets]:
        """Return the positions of n-grams in consecutive tokens, ascending, and their numbers."""
        return self._matches(tokens, lambda at: tokens[at])

    def in_axis(self, reader: TokenReader, start: int, stop: int) -> Found:
        """Return the first places of n-grams that begin in an interval of a token axis, by the numbers of sequences."""
        found = list[Found]()
        for a, b in windows(start, stop):
            at, grams = self.in_tokens(reader.tokens(a, min(b + self.n - 1, reader.info.tokens)))
            if len(at):
                first, last = reader.sequence_at(a + int(at[0])), reader.sequence_at(a + int(at[-1])) + 1
                bounds = reader.offsets(first, last)
                which = np.searchsorted(bounds, at + a, side="right") - 1
                fits = at + a + self.n <= bounds[which + 1]
                found.append(Found(first + which[fits], (at + a - bounds[which])[fits], grams[fits]).firsts())
        return Found.joined(found)

    def in_ragged(self, ragged: Ragged) -> Found:
        """Return the places of n-grams in sequences of token IDs."""
        at, grams = self.in_tokens(ragged.tokens)
        texts = np.searchsorted(ragged.offsets, at, side="right") - 1
        fits = at + self.n <= ragged.offsets[texts + 1]
        return Found(texts[fits], (at - ragged.offsets[texts])[fits], grams[fits])

    def in_texts(self, texts: Sequence[str], *, every: bool = False) -> Found:
        """Return the first places of n-grams in pieces of texts, or `every` place."""
        found, carried, spelled = list[Found](), np.empty(0, np.uint64), list[bytes]()
        for words in words_of(texts):
            keys, more = _keys(words, self.base), len(carried) if words.before else 0
            if more:
                keys = np.concatenate([carried, keys])
            before = spelled[len(spelled) - more :]
            at, grams = self._matches(keys, functools.partial(self._numbers, words, before))
            which = np.searchsorted(words.firsts, np.maximum(at - more, 0), side="right") - 1
            fits = at - more + self.n <= words.firsts[which + 1]
            at, grams, which = at[fits], grams[fits], which[fits]
            numbers, firsts = np.array(words.texts, np.int64), words.firsts - words.before
            places = Found(numbers[which], at - more - firsts[which], grams)
            found.append(places if every else places.firsts())
            if len(words.texts) == 1:  # it may go on
                carried = keys[len(keys) - min(self.n - 1, len(keys)) :]
                own = slice(max(0, len(words.starts) - len(carried)), None)
                spelled = (before + words.spelled(own))[-len(carried) :] if len(carried) else []
        return Found.joined(found)

    def _numbers(self, words: Words, before: Sequence[bytes], at: Offsets) -> NDArray[np.uint32]:
        """Return the numbers of words; those that the evals do not have get one that no word has."""
        numbers, which = np.unique(at, return_inverse=True)
        own = numbers[numbers >= len(before)] - len(before)
        spelled = [*(before[k] for k in numbers[: len(numbers) - len(own)].tolist()), *words.spelled(own)]
        known: Any = self.vocabulary
        looked_up = np.array([known.get(word, 0xFFFFFFFF) for word in spelled], np.uint32)
        return looked_up[which.reshape(at.shape)]

    def _matches(
        self, keys: NDArray[np.unsignedinteger], exact: Callable[[Offsets], NDArray[Any]]
    ) -> tuple[Offsets, Offsets]:
        if not len(self.hashes) or len(keys) < self.n:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found, shift = [np.empty(0, np.int64)], np.uint64(64 - _width(self.bits))
        hashes_found = [np.empty(0, np.uint64)]
        for a, b in windows(0, len(keys) - self.n + 1, _CHUNK):
            hashes = _hashes(keys[a : b + self.n - 1].astype(np.uint64, copy=False), self.n, self.base)
            at = np.flatnonzero(self._is_marked(hashes, shift))
            at = at[self._is_marked(hashes[at] * _SECOND, shift) != 0]
            if len(at):
                found.append(at + a)
                hashes_found.append(hashes[at])
        at, hashes = np.concatenate(found), np.concatenate(hashes_found)
        slots, grams = np.searchsorted(self.hashes, hashes), np.full(len(at), -1, np.int64)
        left = np.arange(len(at))
        while len(left):  # once, unless n-grams that differ have the same hash
            left = left[slots[left] < len(self.hashes)]
            left = left[self.hashes[slots[left]] == hashes[left]]
            for part in np.array_split(left, 1 + len(left) * self.n // _CHUNK):
                numbers = self.firsts[slots[part]].astype(np.int64)
                span = np.arange(self.n)
                is_equal = (exact(at[part][:, None] + span) == self.ids[numbers[:, None] + span]).all(axis=1)
                grams[part[is_equal]] = numbers[is_equal]
            left = left[grams[left] < 0]
            slots[left] += 1
        kept = grams >= 0
        return at[kept], grams[kept]

    def _is_marked(self, hashes: Keys, shift: np.uint64) -> NDArray[np.uint8]:
        places = hashes >> shift
        marked: NDArray[np.uint8] = self.bits.take((places >> np.uint64(3)).view(np.int64), mode="clip")
        marked >>= (places & np.uint64(7)).astype(np.uint8)
        marked &= 1
        return marked


def _width(bits: NDArray[np.uint8]) -> int:
    return len(bits).bit_length() + 2


def _keys(words: Words, base: int) -> Keys:
    """Return a hash of each word."""
    powers, inverse = _powers(base)
    sums = np.zeros(len(words.data) + 1, np.uint64)
    codes = np.frombuffer(words.data, np.uint8)
    np.cumsum(codes * powers[: len(codes)], out=sums[1:])
    keys = sums[words.stops] - sums[words.starts]
    keys *= inverse[words.starts]
    return keys


@dataclass(frozen=True, slots=True)
class Matcher:
    """Find the documents that hold an n-gram of evals."""

    index: NgramIndex
    decoder: Decoder | None  # of token IDs to words; None compares the IDs

    def in_texts(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text whether it does, by words."""
        return np.bincount(self.index.in_texts(texts).texts, minlength=len(texts)) > 0

    def in_ids(self, ids: Ragged) -> NDArray[np.bool_]:
        """Return for each sequence of token IDs whether it does."""
        if self.decoder is None:
            return np.bincount(self.index.in_ragged(ids).texts, minlength=len(ids)) > 0
        return self.in_texts([self.decoder.decode(one) for one in ids])


def of_tokens(items: Iterable[Tokens], n: int, base: int | None = None) -> NgramIndex:
    """Return the n-grams of items of token IDs. `base` is the odd number of the hashes."""
    every = list(items)
    dtype = np.result_type(np.uint16, *{one.dtype for one in every})
    ids = np.concatenate([np.empty(0, dtype), *every])
    return _indexed(ids, offsets_of([len(one) for one in every]), n, base or _odd(), None, lambda a, b: ids[a:b])


def of_texts(texts: Iterable[str], n: int, base: int | None = None) -> NgramIndex:
    """Return the n-grams of texts. `base` is the odd number of the hashes."""
    vocabulary, base = dict[bytes, int](), base or _odd()
    ids, keys, lengths = [np.empty(0, np.uint32)], [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    left = iter(texts)
    while some := list(itertools.islice(left, _TOGETHER)):
        counts = np.zeros(len(some), np.int64)
        for words in words_of(some):
            spelled = words.spelled(slice(None))
            ids.append(np.array([vocabulary.setdefault(word, len(vocabulary)) for word in spelled], np.uint32))
            keys.append(_keys(words, base))
            counts[words.texts] += np.diff(words.firsts)
        lengths.append(counts)
    joined = np.concatenate(keys)
    return _indexed(
        np.concatenate(ids), offsets_of(np.concatenate(lengths)), n, base, vocabulary, lambda a, b: joined[a:b]
    )


def _odd() -> int:
    return secrets.randbits(64) | 1


def _indexed(
    ids: NDArray[np.unsignedinteger],
    bounds: Offsets,
    n: int,
    base: int,
    vocabulary: dict[bytes, int] | None,
    keys: Callable[[int, int], NDArray[np.unsignedinteger]],
) -> NgramIndex:
    kind: Any = np.int32 if len(ids) < 1 << 31 else np.int64
    room = np.repeat(bounds[1:], np.diff(bounds)) - np.arange(len(ids))  # to the end of the item
    at = np.flatnonzero(room >= n).astype(kind)
    del room
    hashes = np.empty(max(0, len(ids) - n + 1), np.uint64)
    for a, b in windows(0, len(hashes), _CHUNK):
        hashes[a:b] = _hashes(keys(a, b + n - 1).astype(np.uint64, copy=False), n, base)
    order = np.argsort(hashes[at], kind="stable")
    at = at[order]
    hashes = hashes[at]
    leaders = at.copy()
    left = np.arange(len(at))
    while len(left):  # once, unless n-grams that differ have the same hash
        begins = np.flatnonzero(np.diff(hashes[left], prepend=~hashes[left[:1]]))
        leaders[left] = np.repeat(at[left[begins]], np.diff(begins, append=len(left)))
        is_other = np.zeros(len(left), np.bool_)
        for k in range(n):
            is_other |= ids[at[left] + k] != ids[leaders[left] + k]
        left = left[is_other]
    grams = np.full(len(ids), -1, kind)
    grams[at] = leaders
    is_leader = leaders == at
    hashes, firsts = hashes[is_leader], at[is_leader]
    bits = np.zeros(1 << max(_FEWEST - 3, (len(hashes) * _BITS).bit_length() - 3), np.uint8)
    shift = np.uint64(64 - _width(bits))
    for some in (hashes, hashes * _SECOND):
        places = some >> shift
        np.bitwise_or.at(
            bits, (places >> np.uint64(3)).view(np.int64), np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
        )
    return NgramIndex(n, base, ids, bounds, hashes, firsts, grams, bits, vocabulary)
