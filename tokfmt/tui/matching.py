"""What two arrays have in common, in order.

Runs of four that occur once in both are matched, as many as both have in one order. What lies between is
compared one by one where it is of equal length. Time is that of sorting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

_GRAM = 4
_PAIRS = 64  # of gaps up to this length every pair is compared

Keys = NDArray[np.generic]


def unlike(x: Keys, y: Keys, *, whole: bool) -> Iterator[tuple[range, range]]:
    """Stretches of both that stand in each other's place, in order.

    Args:
        x, y: What each token carries, [n] and [m].
        whole: Both end here, so that what their ends have in common is alike.
    """
    end = _alike(x[::-1], y[::-1]) if whole else 0
    x, y = x[: len(x) - end], y[: len(y) - end]
    i = j = 0
    for p, q, length in [*_anchors(x, y), (len(x), len(y), 0)]:
        within = max(i - p, j - q, 0)  # so much of it was matched already
        if within and (within >= length or i - p != j - q):
            continue
        yield from _gap(x, y, range(i, p + within), range(j, q + within))
        i, j = p + length, q + length


def _alike(x: Keys, y: Keys) -> int:
    """Tokens that both begin with."""
    count = min(len(x), len(y))
    unlike = np.flatnonzero(x[:count] != y[:count])
    return int(unlike[0]) if len(unlike) else count


def _gap(x: Keys, y: Keys, p: range, q: range) -> Iterator[tuple[range, range]]:
    before = _alike(x[p.start : p.stop], y[q.start : q.stop])
    p, q = p[before:], q[before:]
    after = _alike(x[p.start : p.stop][::-1], y[q.start : q.stop][::-1])
    p, q = p[: len(p) - after], q[: len(q) - after]
    if not p and not q:
        return
    u, v = x[p.start : p.stop], y[q.start : q.stop]
    if len(p) == len(q):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], u != v, [False]]).astype(np.int8))).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            yield p[start:stop], q[start:stop]
    elif max(len(p), len(q)) <= _PAIRS:
        for kind, a, a_stop, b, b_stop in SequenceMatcher(None, u.tolist(), v.tolist(), autojunk=False).get_opcodes():
            if kind != "equal":
                yield p[a:a_stop], q[b:b_stop]
    else:
        yield p, q


def _anchors(x: Keys, y: Keys) -> list[tuple[int, int, int]]:
    """Places in both, and lengths, of what occurs once in both; in order, without crossing."""
    if min(len(x), len(y)) < _GRAM:
        return []
    (places_x, hashes_x), (places_y, hashes_y) = _once(x), _once(y)
    _, i, j = np.intersect1d(hashes_x, hashes_y, assume_unique=True, return_indices=True)
    i, j = places_x[i], places_y[j]
    same = np.ones(len(i), np.bool_)
    for k in range(_GRAM):
        same &= x[i + k] == y[j + k]
    i, j = i[same], j[same]
    order = np.argsort(i)
    i, j = i[order], j[order]
    kept = np.array(_longest_rising(j.tolist()), np.int64)
    i, j = i[kept], j[kept]
    new = (np.diff(i) != np.diff(j)) | (np.diff(i) > _GRAM)  # else it goes on where the last one is
    starts, stops = np.flatnonzero(np.append(True, new)[: len(i)]), np.flatnonzero(np.append(new, True)[: len(i)])
    lengths = i[stops] - i[starts] + _GRAM
    return list(zip(i[starts].tolist(), j[starts].tolist(), lengths.tolist(), strict=True))


def _once(x: Keys) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Places and hashes of the runs of four that occur once."""
    count = len(x) - _GRAM + 1
    hashes = np.zeros(count, np.uint64)
    for k in range(_GRAM):
        hashes = (hashes ^ x[k : k + count].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    values, places, counts = np.unique(hashes, return_index=True, return_counts=True)
    return places[counts == 1], values[counts == 1]


def _longest_rising(values: Sequence[int]) -> list[int]:
    """Indices of the longest rising part of some numbers."""
    tops: list[int] = []  # the smallest number that a rising part of each length ends with
    at: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        place = bisect_left(tops, value)
        before.append(at[place - 1] if place else -1)
        if place == len(tops):
            tops.append(value)
            at.append(index)
        else:
            tops[place], at[place] = value, index
    out, index = [], at[-1] if at else -1
    while index >= 0:
        out.append(index)
        index = before[index]
    return out[::-1]
