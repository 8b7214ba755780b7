"""Token ids as decimal text, without a Python object for each: eight bytes an id from a table, zeros removed."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens

_MILLION = 10**6  # "999999, " fills the eight bytes of a table's row
_SMALL = 1 << 16  # most vocabularies' frequent ids; a table of 512 KiB stays in cache
_AT_ONCE = 1 << 16

Rows = NDArray[np.uint64]


def ids_lines(tokens: Tokens, offsets: Offsets, before: bytes, after: bytes) -> bytes:
    """One line a sequence: `before`, its ids as a JSON list, `after`.

    Args:
        tokens: unsigned [n], ids below 2^32.
        offsets: int64[sequences + 1], from 0 to n.
        before, after: What stands around each list.
    """
    data, ends = _rendered(tokens)
    bounds = np.concatenate(([0], ends))[offsets].tolist()
    opening, closing = before + b"[", b"]" + after
    pieces: list[bytes] = []
    for a, b in zip(bounds, bounds[1:], strict=False):
        pieces += (opening, data[a : b - 2] if b > a else b"", closing)
    return b"".join(pieces)


def listed(tokens: Tokens) -> bytes:
    """Ids with a comma and a space between them: b"1, 2, 3"."""
    return _rendered(tokens)[0][:-2]


def _rendered(tokens: Tokens) -> tuple[bytes, NDArray[np.int64]]:
    """Every id with a comma and a space after it; and where each ends there, int64[n]."""
    pieces, lengths = [], [np.empty(0, np.int64)]
    for start in range(0, len(tokens), _AT_ONCE):
        rows = _rows(tokens[start : start + _AT_ONCE].astype(np.uint32))
        pieces.append(rows.tobytes().translate(None, b"\0"))
        lengths.append(np.count_nonzero(rows.view(np.uint8), axis=1))
    return b"".join(pieces), np.cumsum(np.concatenate(lengths))


def _rows(ids: NDArray[np.uint32]) -> Rows:
    """The text of some ids, uint64[n, 1 or 2]; bytes that are zero stand for nothing."""
    top = int(ids.max())
    if top < _MILLION:
        return _table(_SMALL if top < _SMALL else _MILLION, padded=False)[ids][:, None]
    millions, rest = np.divmod(ids, np.uint32(_MILLION))
    rows = np.empty((len(ids), 2), np.uint64)
    # "4294, " of the millions without its comma and space, and with nothing for none
    rows[:, 0] = np.where(millions > 0, _digits(_SMALL)[millions], 0)
    rows[:, 1] = np.where(millions > 0, _table(_MILLION, padded=True)[rest], _table(_MILLION, padded=False)[rest])
    return rows


@functools.cache
def _table(size: int, *, padded: bool) -> Rows:
    """Row i: the digits of i, six of them if padded, a comma and a space; uint64[size]."""
    rows = np.zeros((size, 8), np.uint8)
    ids = np.arange(size)
    rows[:, 6], rows[:, 7] = ord(","), ord(" ")
    for column in range(5, -1, -1):
        power = 10 ** (5 - column)
        digits = ids // power % 10 + ord("0")
        rows[:, column] = digits if padded or power == 1 else np.where(ids >= power, digits, 0)
    return rows.view(np.uint64)[:, 0]


@functools.cache
def _digits(size: int) -> Rows:
    """Row i: the digits of i; uint64[size]."""
    rows = _table(size, padded=False).copy().view(np.uint8).reshape(size, 8)
    rows[:, 6:] = 0
    return rows.view(np.uint64)[:, 0]
