"""Widths of token ids, and casts that never wrap."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import TokenRangeError
from tokfmt.core.ragged import Tokens

A = TypeVar("A", bound=np.integer[Any])

Dtype = np.dtype[np.unsignedinteger]

U8: Dtype = np.dtype(np.uint8)
U16: Dtype = np.dtype(np.uint16)
U32: Dtype = np.dtype(np.uint32)
U64: Dtype = np.dtype(np.uint64)
INT32_MAX = 2**31 - 1


def smallest(max_id: int) -> Dtype:
    """The narrowest unsigned dtype that holds `max_id`."""
    for dtype in (U8, U16, U32):
        if max_id < 1 << 8 * dtype.itemsize:
            return dtype
    return U64


def largest_id(tokens: NDArray[np.integer]) -> int:
    """Largest id of a window; -1 when it is empty."""
    return int(tokens.max()) if len(tokens) else -1


def check_ids(tokens: Tokens, limit: int, position: int, where: str, remedy: str = "") -> int:
    """Return the largest id of a window (-1 if empty), after checking that it is at most `limit`.

    Args:
        tokens: unsigned [n].
        limit: Largest id that fits.
        position: Token position of tokens[0], for the message.
        where: Path or format, for the message.
        remedy: What to do about it.

    Raises:
        TokenRangeError: With the first offending id and its position.
    """
    top = largest_id(tokens)
    if top > limit:
        at = int(np.argmax(tokens > limit))
        raise TokenRangeError(where, int(tokens[at]), limit, position + at, remedy)
    return top


def distinct(values: NDArray[A]) -> NDArray[A]:
    """The different values, ascending. `np.unique` would import numpy.ma: a fifth of the time of a short command."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
