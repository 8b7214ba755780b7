"""HighwayHash-64 with the key of Riegeli: what guards the chunks of ArrayRecord files.

The state is four lanes of v0, v1, mul0 and mul1, each u64. A packet of 32 bytes, which is four u64, updates them:

    v1 += mul0 + packet;  mul0 ^= low(v1) * high(v0);  v0 += mul1;  mul1 ^= low(v0) * high(v1)
    v0 += shuffled(v1);   v1 += shuffled(v0)           the bytes of each pair of lanes in another order

Bytes behind the last whole packet are padded to one, and four updates with the halves of v0 swapped end it.
Source: google/highwayhash c/highwayhash.c, read; compared with the hashes in files of array_record 0.8.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
_KEY = np.frombuffer(b"Riegeli/records\n" * 2, "<u8")
_MUL0 = np.array([0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3], np.uint64)
_MUL1 = np.array([0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377], np.uint64)
_SHUFFLED = np.array([3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7])
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_MASK = (1 << 64) - 1
_FEW = 4  # messages from which on it takes less time to hash them side by side
_PACKET = 32


def hashes(messages: Sequence[bytes | memoryview]) -> list[int]:
    """Return the hash of each message. Many are hashed side by side, which takes a tenth of the time."""
    if len(messages) < _FEW:
        return [_hash(message) for message in messages]
    lengths = np.array([len(message) // _PACKET for message in messages])
    order = np.argsort(-lengths, kind="stable")
    packets = np.frombuffer(b"".join(message[: len(message) // _PACKET * _PACKET] for message in messages), "<u8")
    packets = packets.reshape(-1, 4)
    firsts, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    state = [np.array([part] * len(messages), np.uint64) for part in _BEGIN]
    for number in range(int(lengths[0])):
        active = int(np.searchsorted(-lengths, -number, side="left"))  # those of more packets
        if active < _FEW:
            break
        part = [values[:active] for values in state]
        _update(part, packets[firsts[:active] + number])
    else:
        number = int(lengths[0])
    found = dict[int, int]()
    for place, which in enumerate(order.tolist()):
        message = messages[which]
        done = min(number, int(lengths[place])) * _PACKET
        if len(message) - done >= _PACKET:
            lanes = [values[place].tolist() for values in state]
            found[which] = _finished(lanes, message[done:])
    rest = [place for place, which in enumerate(order.tolist()) if which not in found]
    tails = [bytes(messages[order[place]][int(lengths[place]) * _PACKET :]) for place in rest]
    for which, value in zip(order[rest].tolist(), _ended([values[rest] for values in state], tails), strict=True):
        found[which] = value
    return [found[number] for number in range(len(messages))]


def _turned(values: U64) -> U64:
    """Return u64 with their halves swapped."""
    return (values >> _HALF) | (values << _HALF)


Lanes = Sequence[Sequence[int]]
_BEGIN: Lanes = [part.tolist() for part in (_MUL0 ^ _KEY, _MUL1 ^ _turned(_KEY), _MUL0, _MUL1)]
"""The state before any packet: v0, v1, mul0 and mul1."""


def _update(state: Sequence[U64], packet: U64) -> None:
    """Update the state of several messages, each a row of four lanes, in place."""
    v0, v1, mul0, mul1 = state
    v1 += mul0
    v1 += packet
    mul0 ^= (v1 & _LOW) * (v0 >> _HALF)
    v0 += mul1
    mul1 ^= (v0 & _LOW) * (v1 >> _HALF)
    v0 += _shuffled(v1)
    v1 += _shuffled(v0)


def _shuffled(values: U64) -> U64:
    pairs = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 2, 16)
    return pairs[:, :, _SHUFFLED].reshape(-1, 32).view(np.uint64)


def _ended(state: Sequence[U64], tails: Sequence[bytes]) -> list[int]:
    """Return the hashes of messages from their states and the last bytes, fewer than a packet."""
    if not tails:
        return []
    rows = [values.copy() for values in state]
    left = np.array([len(tail) for tail in tails], np.uint64)[:, None]
    some = np.flatnonzero(left[:, 0])
    part = [values[some] for values in rows]
    few = left[some]
    part[0] += (few << _HALF) + few
    low, high = part[1] & _LOW, part[1] >> _HALF
    low, high = (((half << few) | (half >> (_HALF - few))) & _LOW for half in (low, high))
    part[1] = low | (high << _HALF)
    _update(part, np.frombuffer(b"".join(_padded(tails[k]) for k in some.tolist()), "<u8").reshape(-1, 4))
    for values, new in zip(rows, part, strict=True):
        values[some] = new
    for _ in range(4):
        _update(rows, _turned(rows[0][:, [2, 3, 0, 1]]))
    return [int(value) for value in rows[0][:, 0] + rows[1][:, 0] + rows[2][:, 0] + rows[3][:, 0]]


def _padded(tail: bytes) -> bytes:
    """Return the packet of the last bytes of a message, 1 to 31."""
    whole, few = len(tail) & ~3, len(tail) & 3
    packet = bytearray(_PACKET)
    packet[:whole] = tail[:whole]
    rest = tail[whole:]
    if len(tail) & 16:
        packet[28:32] = tail[-4:]
    elif few:
        packet[16:19] = bytes((rest[0], rest[few >> 1], rest[few - 1]))
    return bytes(packet)


def hash_of_zeros(size: int) -> int:
    """Return the hash of fewer than 64 KiB of zeros, which each file of Riegeli ends in."""
    whole, rest = divmod(size, _PACKET)
    return _ended([np.array([part], np.uint64) for part in _states_of_zeros()[whole]], [bytes(rest)])[0]


@lru_cache(1)
def _states_of_zeros() -> Sequence[Lanes]:
    """Return the state before any packet of zeros, after one, and so on."""
    zeros: Any = iter([0] * (1 << 13))
    return [_BEGIN, *_states(_BEGIN, zeros)]


def _hash(message: bytes | memoryview) -> int:
    """Return the hash of one message."""
    return _finished(_BEGIN, message)


def _finished(lanes: Lanes, message: bytes | memoryview) -> int:
    """Return the hash of a message from a state, with numbers of Python, which is faster for one message."""
    whole = len(message) // _PACKET * _PACKET
    last = deque(_states(lanes, iter(np.frombuffer(message[:whole], "<u8").tolist())), 1) or [lanes]
    return _ended([np.array([part], np.uint64) for part in last[0]], [bytes(message[whole:])])[0]


def _states(lanes: Lanes, words: Iterator[int]) -> Iterator[Lanes]:
    """Yield the state after each packet of four words."""
    (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3) = lanes
    for w0, w1, w2, w3 in zip(words, words, words, words, strict=True):
        b0 = b0 + c0 + w0 & _MASK
        b1 = b1 + c1 + w1 & _MASK
        b2 = b2 + c2 + w2 & _MASK
        b3 = b3 + c3 + w3 & _MASK
        c0 ^= (b0 & 0xFFFFFFFF) * (a0 >> 32)
        c1 ^= (b1 & 0xFFFFFFFF) * (a1 >> 32)
        c2 ^= (b2 & 0xFFFFFFFF) * (a2 >> 32)
        c3 ^= (b3 & 0xFFFFFFFF) * (a3 >> 32)
        a0 = a0 + d0 & _MASK
        a1 = a1 + d1 & _MASK
        a2 = a2 + d2 & _MASK
        a3 = a3 + d3 & _MASK
        d0 ^= (a0 & 0xFFFFFFFF) * (b0 >> 32)
        d1 ^= (a1 & 0xFFFFFFFF) * (b1 >> 32)
        d2 ^= (a2 & 0xFFFFFFFF) * (b2 >> 32)
        d3 ^= (a3 & 0xFFFFFFFF) * (b3 >> 32)
        x, y = _mixed(b0, b1)
        a0, a1 = a0 + x & _MASK, a1 + y & _MASK
        x, y = _mixed(b2, b3)
        a2, a3 = a2 + x & _MASK, a3 + y & _MASK
        x, y = _mixed(a0, a1)
        b0, b1 = b0 + x & _MASK, b1 + y & _MASK
        x, y = _mixed(a2, a3)
        b2, b3 = b2 + x & _MASK, b3 + y & _MASK
        yield (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3)


def _mixed(one: int, other: int) -> tuple[int, int]:
    """Return the two lanes that the shuffled bytes of two lanes are."""
    return (
        (one & 0xFF000000 | other & 0xFF00000000) >> 24
        | (one & 0xFF0000000000 | other & 0xFF000000000000) >> 16
        | one & 0xFF0000
        | (one & 0xFF00) << 32
        | (other & 0xFF00000000000000) >> 8
        | (one & 0xFF) << 56,
        (other & 0xFF000000 | one & 0xFF00000000) >> 24
        | other & 0xFF0000
        | (other & 0xFF0000000000) >> 16
        | (other & 0xFF00) << 24
        | (one & 0xFF000000000000) >> 8
        | (other & 0xFF) << 48
        | one & 0xFF00000000000000,
    )
