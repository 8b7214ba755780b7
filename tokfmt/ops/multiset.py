"""Compare two datasets as multisets of sequences: the order does not matter.

Keeps 16 bytes a sequence of either side, and 1/16 of that again while it compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader
from tokfmt.ops.fingerprint import Fingerprints, fingerprints_of

_PARTS = 16


@dataclass(frozen=True, slots=True)
class Surplus:
    """What one side has more of.

    Attributes:
        count: Sequences, each as often as it is there too often.
        examples: Numbers of some of them, ascending.
    """

    count: int
    examples: tuple[int, ...]


def all_fingerprints(reader: TokenReader, progress: Callable[[int], None]) -> Fingerprints:
    """Of every sequence, uint64[sequences, 2]."""
    out, at = np.empty((reader.info.sequences, 2), np.uint64), 0
    for part in fingerprints_of(reader, 0, reader.info.sequences):
        out[at : at + len(part)] = part
        at += len(part)
        progress(len(part))
    return out


def surpluses(a: Fingerprints, b: Fingerprints, most: int) -> tuple[Surplus, Surplus]:
    """What A has more of than B, and B than A, with the numbers of up to `most` sequences each."""
    counts, examples = [0, 0], [np.empty(0, np.int64), np.empty(0, np.int64)]
    for part in range(_PARTS):
        chosen = [np.flatnonzero(side[:, 0] >> np.uint64(60) == part) for side in (a, b)]
        for side, extra in enumerate(_extra(a, b, chosen[0], chosen[1])):
            counts[side] += len(extra)
            examples[side] = np.sort(np.concatenate([examples[side], np.sort(extra)[:most]]))[:most]
    return tuple(Surplus(n, tuple(some.tolist())) for n, some in zip(counts, examples, strict=True))  # type: ignore[return-value]


def _extra(
    a: Fingerprints, b: Fingerprints, in_a: NDArray[np.int64], in_b: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sequences of a part of each side that have no partner on the other."""
    prints = np.concatenate([a[in_a], b[in_b]])
    order = np.lexsort((prints[:, 1], prints[:, 0]))  # stable: of equal ones those of A come first, then in order
    prints = prints[order]
    begins = np.flatnonzero(np.concatenate([[True], (prints[1:] != prints[:-1]).any(1)])) if len(prints) else order
    group = np.zeros(len(prints), np.int64)
    group[begins[1:]] = 1
    group = np.cumsum(group)
    from_a = order < len(in_a)
    of_a = np.bincount(group[from_a], minlength=len(begins))
    of_b = np.bincount(group[~from_a], minlength=len(begins))
    rank = np.arange(len(prints)) - begins[group]
    extra_a = from_a & (rank >= of_b[group])
    extra_b = ~from_a & (rank - of_a[group] >= of_a[group])
    return in_a[order[extra_a]], in_b[order[extra_b] - len(in_a)]
