"""Where a string of bytes can begin in a row of ids, without decoding them: two look-ups a token.

A match begins in a token that holds the whole string, or that ends with its first bytes; then the token after it goes
on with it. That leaves few places, which are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Tokens

_MOST = 1 << 20  # ids looked up; what is beyond is decoded

_HOLDS, _ENDS, _FOLLOWS = 1, 2, 4


class Sieve:
    """The places where one string can begin."""

    def __init__(self, needle: bytes, spelling: Mapping[int, bytes]) -> None:
        """Prepare.

        Args:
            needle: What is looked for, at least one byte.
            spelling: What each id stands for.
        """
        self.needle, self.spelling = needle, spelling
        self._roles = np.empty(0, np.uint8)

    def places(self, tokens: Tokens) -> NDArray[np.int64]:
        """Positions in `tokens` where a match may begin, ascending; int64."""
        if not len(tokens):
            return np.empty(0, np.int64)
        top = int(tokens.max())
        self._learn(min(top, _MOST) + 1)
        index = tokens if tokens.dtype.itemsize < 8 else np.minimum(tokens, _MOST).astype(np.int64)
        roles = self._roles.take(index, mode="clip")
        if top > _MOST:
            roles[tokens > _MOST] = _HOLDS | _ENDS | _FOLLOWS
        begins = roles & _HOLDS
        begins[:-1] |= (roles[:-1] >> 1) & (roles[1:] >> 2)
        return np.flatnonzero(begins)

    def _learn(self, count: int) -> None:
        """Look at the spelling of all ids below `count`."""
        known = len(self._roles)
        if count > known:
            more = bytes(self._role(self.spelling[token]) for token in range(known, count))
            self._roles = np.concatenate([self._roles, np.frombuffer(more, np.uint8)])

    def _role(self, piece: bytes) -> int:
        needle = self.needle
        if not piece:
            return _FOLLOWS
        role = _HOLDS if needle in piece else 0
        if any(piece.endswith(needle[:k]) for k in range(1, min(len(piece) + 1, len(needle)))):
            role |= _ENDS
        rests = (needle[k:] for k in range(1, len(needle)))
        if any(rest.startswith(piece) or piece.startswith(rest) for rest in rests):
            role |= _FOLLOWS
        return role
