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

_HOLDS, _ENDS, _FOLLOWS, _UNKNOWN = 1, 2, 4, 8


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
        index = tokens if tokens.dtype.itemsize < 8 else np.minimum(tokens, _MOST).astype(np.int64)
        roles = self._looked_up(index, min(int(tokens.max()), _MOST))
        begins = roles & _HOLDS
        begins[:-1] |= (roles[:-1] >> 1) & (roles[1:] >> 2) & 1
        return np.flatnonzero(begins)

    def _looked_up(self, index: NDArray[np.integer], top: int) -> NDArray[np.uint8]:
        """The role of each token; ids met for the first time are learned."""
        if top >= len(self._roles):
            self._roles = np.append(self._roles, np.full(top + 1 - len(self._roles), _UNKNOWN, np.uint8))
            self._roles[_MOST:] = _HOLDS | _ENDS | _FOLLOWS
        roles = self._roles.take(index, mode="clip")
        new = roles == _UNKNOWN
        if new.any():
            for token in np.unique(index[new]).tolist():
                self._roles[token] = self._role(self.spelling[token])
            roles = self._roles.take(index, mode="clip")
        return roles

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
