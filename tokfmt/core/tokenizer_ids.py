"""The token IDs that a tokenizer has, which need not be the numbers below their count.

A tokenizer of 1,001 tokens can have the IDs 0 to 999 and 1400: tiktoken's cl100k and many tokenizers with added tokens
leave numbers out. Every comparison of IDs with a tokenizer asks a `TokenizerIds`, never the number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_GAPS = 1 << 10
"""Gaps that a manifest states at most. Known tokenizers have less than ten."""
_NAMED = 3
"""Gaps that a message names."""


def wrapped_bits(token: int, found: int) -> int | None:
    """Return in how many bits an ID is stored as another one, 16 or 15; None if it is not.

    IDs wrap around if a writer stores them in 16 bits. flat-tokens stores an ID twice as large, which leaves 15 bits.
    """
    return next((bits for bits in (16, 15) if token >> bits and token % (1 << bits) == found), None)


@dataclass(frozen=True, slots=True)
class TokenizerIds:
    """The IDs of a tokenizer: all numbers up to the largest, without those in `gaps`."""

    stop: int  # above the largest ID
    # intervals (first, last + 1) of numbers below the largest ID that no token has, ascending
    gaps: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ids: Iterable[int]) -> TokenizerIds:
        """Return the IDs of a tokenizer that has these, in any order."""
        known = np.unique(np.fromiter(ids, np.int64))
        steps = np.diff(known, prepend=-1)
        after = np.flatnonzero(steps > 1)
        gaps = zip((known[after] - steps[after] + 1).tolist(), known[after].tolist(), strict=True)
        return cls(int(known[-1]) + 1 if len(known) else 0, tuple(gaps))

    @classmethod
    def stated(cls, made: Mapping[str, Any]) -> TokenizerIds | None:
        """Return the IDs of a tokenizer by its description in a manifest, which anyone can have written; else None."""
        size = made.get("vocab_size")
        try:
            gaps = tuple((first, stop) for first, stop in made.get("gaps", ()))
        except (TypeError, ValueError):
            return None
        ends = [size, *(end for gap in gaps for end in gap)]
        if not all(type(end) is int and end >= 0 for end in ends) or ends[1:] != sorted(set(ends[1:])) or not size:
            return None
        return cls(size + sum(stop - first for first, stop in gaps), gaps)

    def facts(self) -> dict[str, Any]:
        """Return `vocab_size` and `gaps` for a manifest. `gaps` is None if there are more than 1,024."""
        gaps = [list(gap) for gap in self.gaps]
        return {"vocab_size": self.size, "gaps": gaps if len(gaps) <= _MOST_GAPS else None}

    @property
    def size(self) -> int:
        """The number of IDs."""
        return self.stop - sum(stop - first for first, stop in self.gaps)

    @property
    def query(self) -> str:
        """The query of `tokfmt show` for sequences with an ID that the tokenizer does not have."""
        if not self.gaps:
            return f"id>={self.stop}"
        return f"any:{','.join(f'{first}:{stop}' for first, stop in self.gaps)},{self.stop}:"

    def __contains__(self, token: int) -> bool:
        """Return whether a token has this ID."""
        return 0 <= token < self.stop and not any(first <= token < stop for first, stop in self.gaps)

    def __str__(self) -> str:
        """Return the IDs in words: "IDs below 4,096", "IDs below 1,401 without 1,000 to 1,399"."""
        words = [
            f"{first:,}" if stop - first == 1 else f"{first:,} to {stop - 1:,}" for first, stop in self.gaps[:_NAMED]
        ]
        more = f" and {len(self.gaps) - _NAMED:,} more gaps" if len(self.gaps) > _NAMED else ""
        return f"IDs below {self.stop:,}{' without ' if words else ''}{', '.join(words)}{more}"

    def lacks_largest(self, largest: int, eos_id: int | None) -> bool:
        """Return whether no token has the largest ID of a dataset; its separator may be chosen freely."""
        return largest >= 0 and largest not in self and largest != eos_id

    def lacks(self, tokens: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return for each of these IDs whether no token has it."""
        if not self.gaps:
            return np.asarray(tokens >= self.stop)
        ends = np.array([*(end for gap in self.gaps for end in gap), self.stop], np.uint64)
        return np.asarray(np.searchsorted(ends, tokens, "right") % 2 == 1)
