"""128 bits that stand for a sequence of ids: for duplicates, for differences, for multisets.

Equal sequences have equal fingerprints, whatever the dtype they are stored in and however they are cut into windows.
Different ones collide with a probability of about 2^-128, unless somebody constructs them to: this is no cryptography.

A sequence of up to 64 tokens is a multilinear sum in two lanes of 64 bits, computed for a whole window at once; a
longer one is xxh3_128 of its ids as little-endian uint32, which is faster from there on. The values may change between
versions of tokfmt: never store them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128, xxh3_128_digest

from tokfmt.core import axis
from tokfmt.core.axis import TokenReader
from tokfmt.core.ragged import Offsets, Ragged, Tokens, gathered, offsets_of

Fingerprints = NDArray[np.uint64]
"""uint64[sequences, 2]"""

SHORT = 64
"""Tokens up to which the sum is used. Measured: both take 0.2 to 0.4 µs there."""

_BLOCK = 1 << 15  # tokens summed at once, in cache
_MOST = 1 << 16  # sequences hashed at once
# seeds of the lanes' keys: the first digits of pi and of e, in hexadecimal
_KEYS = np.random.Philox(key=0x243F6A8885A308D3B7E151628AED2A6A).random_raw(2 * (SHORT + 1)).reshape(2, -1)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)


def fingerprints(ragged: Ragged) -> Fingerprints:
    """One fingerprint for each whole sequence of a window.

    Args:
        ragged: Ids of any unsigned dtype.

    Returns:
        uint64[sequences, 2].
    """
    return fingerprints_between(ragged.tokens, ragged.offsets[:-1], ragged.offsets[1:])


def fingerprints_between(tokens: Tokens, starts: Offsets, stops: Offsets) -> Fingerprints:
    """The same of sequences that have something else, such as separators, between them.

    Args:
        tokens: A window of ids.
        starts, stops: int64[n], where each sequence lies in it, in order.

    Returns:
        uint64[n, 2].
    """
    if tokens.dtype.itemsize == 8 and len(tokens) and not int(tokens.max()) >> 32:
        tokens = tokens.astype(np.uint32)
    lengths = stops - starts
    out = np.empty((len(starts), 2), np.uint64)
    short, long = np.flatnonzero(lengths <= SHORT), np.flatnonzero(lengths > SHORT)
    if len(short):
        some = gathered(tokens, starts[short], lengths[short])
        out[short] = _sums(some.tokens, some.offsets)
    if len(long):
        out[long] = _hashed(tokens, starts[long].tolist(), stops[long].tolist())
    return out


def _hashed(tokens: Tokens, starts: list[int], stops: list[int]) -> Fingerprints:
    if tokens.dtype.itemsize == 8:
        digests = []
        for a, b in zip(starts, stops, strict=True):
            running = Running()
            running.add(tokens[a:b])
            digests.append(running.digest())
        return _from_bytes(digests)
    words = np.ascontiguousarray(tokens, "<u4").data.cast("B")
    return _from_bytes([xxh3_128_digest(words[4 * a : 4 * b]) for a, b in zip(starts, stops, strict=True)])


def _from_bytes(digests: list[bytes]) -> Fingerprints:
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def _sums(tokens: Tokens, offsets: NDArray[np.int64]) -> Fingerprints:
    """Fingerprints of sequences of at most SHORT tokens, block by block."""
    lengths = np.diff(offsets)
    out = lengths.astype(np.uint64)[:, None] * _KEYS[:, SHORT]
    filled = np.flatnonzero(lengths)  # reduceat knows no empty sums
    begins = offsets[filled]
    cuts = [*np.searchsorted(begins, np.arange(offsets[0], offsets[-1], _BLOCK)).tolist(), len(filled)]
    for u, v in pairwise(cuts):
        if u == v:
            continue
        a, b = int(begins[u]), int(offsets[filled[v - 1] + 1])
        starts = begins[u:v] - a
        mixed = tokens[a:b].astype(np.uint64) * _ODD
        mixed ^= mixed >> _32
        within = np.arange(b - a) - np.repeat(starts, lengths[filled[u:v]])
        for lane in range(2):
            out[filled[u:v], lane] += np.add.reduceat(_KEYS[lane].take(within) * mixed, starts)
    out ^= out >> _32  # every bit of a sum reaches the low ones, and from there all
    out *= _ODD
    out ^= out >> _32
    return out


class Running:
    """The fingerprint of one sequence that comes in windows."""

    def __init__(self) -> None:
        self._low, self._high = xxh3_128(), xxh3_128()
        self._wide = False
        self._length = 0
        self._held: list[Tokens] = []

    def add(self, tokens: Tokens) -> None:
        """The next tokens of it."""
        if self._length <= SHORT:
            self._held.append(tokens[: SHORT + 1].copy())
        low = tokens
        if tokens.dtype.itemsize == 8 and len(tokens) and int(tokens.max()) >> 32:
            at = np.flatnonzero(tokens >> _32)  # what uint32 does not hold: where, and which
            self._high.update(np.stack([at + self._length, tokens[at] >> _32]).T.astype("<u8").tobytes())
            self._wide = True
            low = tokens & np.uint64(0xFFFFFFFF)
        self._low.update(np.ascontiguousarray(low, "<u4").data)
        self._length += len(tokens)

    @property
    def fingerprint(self) -> Fingerprints:
        """uint64[1, 2]."""
        return _from_bytes([self.digest()])

    def digest(self) -> bytes:
        """Two lanes as 16 bytes, big-endian."""
        if self._length <= SHORT:
            tokens = np.concatenate(self._held) if self._held else np.empty(0, np.uint32)
            return _sums(tokens, offsets_of([len(tokens)])).astype(">u8").tobytes()
        if self._wide:
            self._low.update(self._high.digest())
        return self._low.digest()


def fingerprints_of(reader: TokenReader, first: int, last: int) -> Iterator[Fingerprints]:
    """Fingerprints of sequences `first <= i < last`, in order, some at a time; no sequence is held whole if it is long.

    Raises:
        IndexError: The interval leaves the dataset.
    """
    while first < last:
        offsets = reader.offsets(first, min(last, first + _MOST))
        count = int(np.searchsorted(offsets, offsets[0] + axis.WINDOW, side="right")) - 1
        if count:
            bounds = offsets[: count + 1]
            yield fingerprints(Ragged(reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0]))
        else:
            count, running = 1, Running()
            for a, b in axis.windows(int(offsets[0]), int(offsets[1])):
                running.add(reader.tokens(a, b))
            yield running.fingerprint
        first += count
