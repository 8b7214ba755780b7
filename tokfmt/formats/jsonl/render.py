"""Token ids as decimal text, without a Python object for each: eight bytes an id from a table, zeros removed."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens

_MILLION = 10**6  # "999999, " fills the eight bytes of a table's row
_SMALL = 1 << 16  # the table of the ids of two bytes stays in cache
_AT_ONCE = 1 << 16
_END = b"\x01"  # stands for the end of a sequence, until it is replaced

Rows = NDArray[np.uint64]


def ids_lines(tokens: Tokens, offsets: Offsets, before: bytes, after: bytes) -> bytes:
    """One line a sequence: `before`, its ids as a JSON list, `after`.

    Args:
        tokens: unsigned [n], ids below 2^32.
        offsets: int64[sequences + 1], from 0 to n.
        before, after: What stands around each list.
    """
    count = len(offsets) - 1
    ends = np.zeros(len(tokens) + count, np.bool_)
    ends[offsets[1:] + np.arange(count)] = True
    mixed = np.zeros(len(ends), np.uint32)
    mixed[~ends] = tokens
    text = b"".join(
        _text(mixed[a : a + _AT_ONCE], ends[a : a + _AT_ONCE]) for a in range(0, len(mixed), _AT_ONCE)
    ).replace(b", " + _END, _END)
    opening = before + b"["
    return (opening + text.replace(_END, b"]" + after + opening))[: -len(opening)]


def listed(tokens: Tokens) -> bytes:
    """Ids with a comma and a space between them: b"1, 2, 3"."""
    ids = tokens.astype(np.uint32)
    return b"".join(_text(ids[a : a + _AT_ONCE], None) for a in range(0, len(ids), _AT_ONCE))[:-2]


def _text(ids: NDArray[np.uint32], ends: NDArray[np.bool_] | None) -> bytes:
    """The ids, each with a comma and a space after it; but where `ends` is true, the byte that marks an end."""
    rows = _rows(ids)
    if ends is not None:
        rows[ends] = int.from_bytes(_END.ljust(8, b"\0"), "little")
        rows[ends, 1:] = 0
    return rows.astype("<u8", copy=False).tobytes().translate(None, b"\0")


def _rows(ids: NDArray[np.uint32]) -> Rows:
    """The text of some ids, uint64[n, 1 or 2]; bytes that are zero stand for nothing."""
    top = int(ids.max())
    if top < _MILLION:
        return _table(_SMALL if top < _SMALL else _MILLION, padded=False)[ids][:, None]
    millions = ids // np.uint32(_MILLION)
    rest, some = ids - millions * np.uint32(_MILLION), millions > 0
    rows = np.empty((len(ids), 2), np.uint64)
    rows[:, 0] = np.where(some, _table(_SMALL, padded=False)[millions] & np.uint64((1 << 48) - 1), 0)
    rows[:, 1] = np.where(some, _table(_MILLION, padded=True)[rest], _table(_MILLION, padded=False)[rest])
    return rows


@functools.cache
def _table(size: int, *, padded: bool) -> Rows:
    """Row i, as a little-endian number: the digits of i, six of them if padded, a comma and a space; uint64[size]."""
    rows = np.zeros((size, 8), np.uint8)
    ids = np.arange(size)
    rows[:, 6], rows[:, 7] = ord(","), ord(" ")
    for column in range(5, -1, -1):
        power = 10 ** (5 - column)
        digits = ids // power % 10 + ord("0")
        rows[:, column] = digits if padded or power == 1 else np.where(ids >= power, digits, 0)
    return rows.view("<u8")[:, 0].astype(np.uint64)
