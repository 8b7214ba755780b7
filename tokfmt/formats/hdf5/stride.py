"""How neighbouring samples continue each other: the file does not say, the tokens do.

    overlap    windows of width + 1 tokens start every width tokens: the last label is the next sample's first input
    disjoint   they start every width + 1 tokens
    bos        every sample is a block of width tokens as labels; input_ids are the same block behind a BOS
    per-document   no sample goes on in the next

With r = share of neighbours of which the first is full and whose tokens link up, adj = share of equal neighbouring
tokens inside samples (what chance gives: 0.27 in source code with its runs of spaces, so no fixed limit works):

    bos        every first input is the same, every sample is full, and r < 1/2
    overlap    r >= 0.9, or r >= 0.5 in padded data
    shuffled   first inputs and last labels are the same multiset, far beyond chance
    disjoint   r <= adj + (1 - adj) / 4
    mixed      none of these
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.hdf5.scan import Scan
from tokfmt.formats.hdf5.table import Values

FEWEST_PAIRS = 4

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the samples show.

    Attributes:
        stride: overlap, disjoint, bos or per-document; shuffled, mixed or few when it cannot be told.
        why: In words, with numbers.
    """

    stride: str
    why: str


def continued(scan: Scan, groups: NDArray[np.int64], width: int) -> Flags:
    """bool[samples]: a full sample with a real one after it in the same stream.

    Args:
        scan: Of all samples.
        groups: int64[streams + 1], first samples of the streams.
        width: Tokens in a sample.
    """
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = (scan.valid[:-1] == width) & (scan.valid[1:] > 0)
    ends = groups[1:] - 1
    flags[ends[ends >= 0]] = False
    return flags


def linked(scan: Scan) -> Flags:
    """bool[samples]: the last label is the first input of the next sample."""
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = scan.last[:-1] == scan.first[1:]
    return flags


def judge(scan: Scan, groups: NDArray[np.int64], width: int) -> Verdict:
    """Which stride the samples show."""
    on = continued(scan, groups, width)
    pairs = int(np.count_nonzero(on))
    if not pairs:
        return Verdict("per-document", "no full sample is followed by another")
    if pairs < FEWEST_PAIRS:
        return Verdict("few", f"{pairs} of its samples have a neighbour to go on in, too few to tell")
    r = np.count_nonzero(on & linked(scan)) / pairs
    adj = scan.equal / max(1, scan.pairs)
    links = f"{r:.1%} of {pairs:,} neighbouring samples share a token"
    full = scan.valid == width
    if r < 0.5 and full.all() and (scan.first == scan.first[0]).all():
        return Verdict("bos", f"every sample begins with {int(scan.first[0])}, and {links}")
    padded = not full.all()
    if r >= (0.5 if padded else 0.9):
        return Verdict("overlap", links)
    distance, chance = multiset_distance(scan.first[full], scan.last[full])
    if distance <= 0.05 and distance <= chance / 4:
        return Verdict("shuffled", f"{links}, yet first and last tokens of all samples are the same but for "
                                   f"{distance / 2:.1%}")  # fmt: skip
    if r <= adj + (1 - adj) / 4:
        return Verdict("disjoint", links)
    return Verdict("mixed", f"{links}: too many for separate windows, too few for overlapping ones")


def multiset_distance(a: Values, b: Values) -> tuple[float, float]:
    """How different two multisets of n ids are, 0..2, and what to expect when the ids are dealt out by chance."""
    (ids_a, often_a), (ids_b, often_b) = (np.unique(ids, return_counts=True) for ids in (a, b))
    ids = np.union1d(ids_a, ids_b)
    in_a, in_b = np.zeros((2, len(ids)), np.int64)
    in_a[np.searchsorted(ids, ids_a)] = often_a
    in_b[np.searchsorted(ids, ids_b)] = often_b
    sizes, often = np.unique(in_a + in_b, return_counts=True)
    expected = sum(_walk(size) * times for size, times in zip(sizes.tolist(), often.tolist(), strict=True))
    return float(np.abs(in_a - in_b).sum()) / max(1, len(a)), expected / max(1, len(a))


def _walk(steps: int) -> float:
    """Mean distance from the start of a random walk of that many steps of one: of `steps` coins, heads minus tails."""
    half = (steps + 1) // 2
    return 2 * half * math.exp(math.lgamma(2 * half + 1) - 2 * math.lgamma(half + 1) - 2 * half * math.log(2))
