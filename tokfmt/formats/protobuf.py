"""The wire format of protocol buffers: messages as fields, and numbers as varints. Bytes may be malicious.

    varint    7 bits per byte, the lowest first; a set high bit in all bytes but the last; at most 10 bytes
    field     varint number << 3 | type; then of type 0 a varint, 1: 8 bytes, 5: 4 bytes, 2: varint n, n bytes

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows

LARGEST_RECORD = 1 << 26
"""Bytes of a record that is read, at most: its IDs take up to four times as much memory."""

_FIELDS = 1 << 16  # fields of a message that are looked at one by one, at most
_AT_ONCE = 1 << 20  # bytes of varints that are decoded at once


class ProtobufError(ValueError):
    """Bytes are not a message, and why."""


def varint_at(data: memoryview, at: int) -> tuple[int, int]:
    """Return a varint and the offset after it."""
    value = 0
    for k in range(10):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value, at
    raise ProtobufError("holds a number that does not end")


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field of a message; fields of fixed width have the value 0."""
    at = 0
    for _ in range(_FIELDS):
        if at == len(data):
            return
        tag, at = varint_at(data, at)
        kind, value = tag & 7, 0
        if not tag >> 3 or kind not in (0, 1, 2, 5):
            raise ProtobufError("holds a field of an unknown type")
        if kind == 0:
            value, at = varint_at(data, at)
            yield tag >> 3, value
            continue
        length, at = varint_at(data, at) if kind == 2 else (8 if kind == 1 else 4, at)
        if length > len(data) - at:
            raise ProtobufError("holds a field that is longer than its message")
        yield tag >> 3, data[at : at + length] if kind == 2 else 0
        at += length
    if at < len(data):
        raise ProtobufError(f"holds more than {_FIELDS:,} fields in one message")


def varints(data: memoryview) -> NDArray[np.int64]:
    """Return the varints that bytes hold one after the other, each of at most 64 bits."""
    letters = np.frombuffer(data, np.uint8)
    if not len(letters):
        return np.empty(0, np.int64)
    if letters[-1] >= 0x80:
        raise ProtobufError("holds a number that does not end")
    found, a = list[NDArray[np.int64]](), 0
    while a < len(letters):
        b = min(len(letters), a + _AT_ONCE)
        piece = letters[a:b]
        ends = np.flatnonzero(piece < 0x80)
        if not len(ends):
            raise ProtobufError("holds a number of more than 64 bits")
        begins = np.append(0, ends[:-1] + 1)
        lengths = ends - begins + 1
        if int(lengths.max()) > 10:
            raise ProtobufError("holds a number of more than 64 bits")
        values = (piece[begins] & 0x7F).astype(np.uint64)
        for k in range(1, int(lengths.max())):
            longer = np.flatnonzero(lengths > k)
            values[longer] |= (piece[begins[longer] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        signed = values.view(np.int64)
        small = bool(((signed >= -(1 << 31)) & (signed < 1 << 31)).all())
        found.append(signed.astype(np.int32) if small else signed)
        a += int(ends[-1]) + 1
    return np.concatenate(found)


def varint_of(value: int) -> bytes:
    """Return a number, 0 or more, as a varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def packed_ids(ids: NDArray[np.integer[Any]]) -> bytes:
    """Return IDs below 2^32 as varints."""
    pieces = list[bytes]()
    for a, b in windows(0, len(ids), _AT_ONCE):
        values = ids[a:b].astype(np.uint32)
        lengths = np.ones(len(values), np.int64)
        for k in range(1, 5):
            lengths += values >= 1 << 7 * k
        begins = np.cumsum(lengths) - lengths
        out = np.empty(int(lengths.sum()), np.uint8)
        for k in range(int(lengths.max())):
            longer = np.flatnonzero(lengths > k)
            more = (lengths[longer] > k + 1).astype(np.uint8) << 7
            out[begins[longer] + k] = (values[longer] >> np.uint32(7 * k)).astype(np.uint8) & 0x7F | more
        pieces.append(out.tobytes())
    return b"".join(pieces)
