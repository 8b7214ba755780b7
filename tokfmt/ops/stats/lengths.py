"""What a table of lengths tells: percentiles, a histogram, the cost of packing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokfmt.ops.stats.report import Cost, Histogram, Lengths, Packing
from tokfmt.ops.stats.table import Table

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)

_FIGURES = ("min", "mean", *(f"p{percent}" for percent in PERCENTILES), "max")
_BINS = 24
_SPREAD = 8  # from which ratio of largest to small on bins grow with the length


def lengths_of(table: Table, unit: str) -> Lengths:
    """All that is said of lengths.

    Args:
        table: Of all sequences.
        unit: "tokens" or "characters".
    """
    if not len(table):
        nothing = Histogram("linear", [0, 1], [0])
        return Lengths(unit, **dict.fromkeys(_FIGURES), histogram=nothing)
    points = {f"p{percent}": table.percentile(percent) for percent in PERCENTILES}
    mean = table.weight / table.total
    return Lengths(
        unit, min=int(table.keys[0]), mean=mean, **points, max=int(table.keys[-1]), histogram=histogram(table)
    )


def histogram(table: Table) -> Histogram:
    """About 24 bins that suit the lengths: of one width when they are alike, else growing with the length."""
    low, high = int(table.keys[0]), int(table.keys[-1])
    if high - low < _BINS:
        scale, edges = "linear", np.arange(low, high + 2)
    elif high < _SPREAD * max(1, table.percentile(1)):
        scale, edges = "linear", _even(low, high)
    else:
        scale, edges = "log", _growing(low, high)
    return Histogram(scale, edges.tolist(), table.binned(edges).tolist())


def _even(low: int, high: int) -> NDArray[np.int64]:
    """Edges a round number apart."""
    step, power = 1, 1
    while (high - low) // step >= _BINS:
        step = next(s * power for s in (1, 2, 5, 10) if s * power > step)
        power = power * 10 if step == power * 10 else power
    return np.arange(low // step * step, high // step * step + step + 1, step, dtype=np.int64)


def _growing(low: int, high: int) -> NDArray[np.int64]:
    """Edges at 0, 1, 2, 3, 4, 6, 8, 12, 16 ..., or at powers of two when that makes too many."""
    powers = [1 << k for k in range(high.bit_length() + 1)]
    halves = [p + p // 2 for p in powers if p > 1]
    first, last = max(low, 1).bit_length() - 1, high.bit_length()
    edges = sorted({0, *powers, *(halves if 2 * (last - first) <= _BINS + 4 else [])})
    inner = [edge for edge in edges if edge <= high]
    begin = max(edge for edge in inner if edge <= low)
    end = min(edge for edge in edges if edge > high)
    return np.array([edge for edge in inner if edge >= begin] + [end], np.int64)


def packing(table: Table, seq_len: int, *, separator: bool) -> Packing:
    """What samples of `seq_len` tokens cost; see `report.Packing`."""
    packed = table.keys.astype(np.int64) + separator
    counts, documents = table.counts, table.total
    stream = int((packed * counts).sum())
    samples = -(-stream // seq_len)
    # a document of m tokens lies across a border for m - 1 of seq_len places at which it may begin
    cut = round(int((np.clip(packed - 1, 0, seq_len) * counts).sum()) / seq_len)
    each = -(-packed // seq_len)
    alone = int((each * counts).sum())
    parted = int(counts[packed > seq_len].sum())
    return Packing(
        seq_len,
        separator,
        _cost(samples, stream, seq_len, (cut, documents)),
        _cost(alone, stream, seq_len, (parted, documents)),
    )


def _cost(samples: int, tokens: int, seq_len: int, cut: tuple[int, int]) -> Cost:
    room = samples * seq_len
    padding, documents = room - tokens, cut[1]
    return Cost(samples, padding, padding / room if room else 0.0, cut[0], cut[0] / documents if documents else 0.0)
