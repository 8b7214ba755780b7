"""Choose the sequences whose ends show the separator of a dataset; `model.separator` looks at them.

A command that reads a few sequences looks at few places, any other one at 4,096 sequences in 64 places.

    look     sequences                                                      tokens
    whole    64 runs of 64 neighbors, spread over the dataset               the last ones
    few      all of a dataset of 2^20 tokens; else those that end in the    up to 2^16 in each run
             last 2^16 tokens of 4 runs of up to 1,024, one of them at the
             sequences that the command reads; of 2 runs where parts of files
             are decoded to read a token
"""

from __future__ import annotations

import numpy as np

from tokfmt.core.reader import Info
from tokfmt.model.separator import ENOUGH, Runs
from tokfmt.model.spans import Spans

_TOKENS = 1 << 16
_FEW, _FEW_DECODED, _RUN_OF_FEW = 4, 2, 1024
LITTLE = 1 << 20
"""Tokens of a dataset that a `few` look reads wholly, at most."""


def few_runs(spans: Spans, info: Info, max_sequences: int | None, *, decoded: bool) -> Runs:
    """Return the runs of the `few` look, one of which has the last of the `max_sequences` that are read. If parts of
    files are `decoded` to read a token of them, there are two.
    """
    if max(info.tokens, info.sequences) <= LITTLE:
        return [(0, info.sequences)][: info.sequences]
    few = _FEW_DECODED if decoded else _FEW
    runs = _spread(info.sequences, few)
    last = info.sequences if max_sequences is None else min(max_sequences, info.sequences)
    if not any(a < last <= b for a, b in runs):
        runs = sorted([*_spread(info.sequences, few - 1), (max(0, last - _RUN_OF_FEW), last)])
    return [_short(spans, *run) for run in runs]


def _short(spans: Spans, first: int, last: int) -> tuple[int, int]:
    """Return the sequences of a run that end in its last tokens, at least eight."""
    stops = spans.extents(first, last)[1]
    long_from = int(np.searchsorted(stops, stops[-1] - _TOKENS, side="right"))
    return first + max(0, min(long_from, len(stops) - ENOUGH)), last


def _spread(count: int, runs: int) -> list[tuple[int, int]]:
    """Return up to `runs` runs of 1,024 neighbors; the last run ends with the last sequence."""
    if not count:
        return []
    cuts = np.linspace(0, max(count - _RUN_OF_FEW, 0), min(-(-count // _RUN_OF_FEW), runs)).astype(np.int64).tolist()
    return [(first, min(first + _RUN_OF_FEW, count)) for first in cuts]
