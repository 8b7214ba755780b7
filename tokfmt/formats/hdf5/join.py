"""Samples put together to streams, once it is known how they continue each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.formats.hdf5.runs import Pieces
from tokfmt.formats.hdf5.scan import Scan
from tokfmt.formats.hdf5.stride import continued, linked


@dataclass(frozen=True, slots=True)
class Joined:
    """Pieces, and what was met on the way.

    Attributes:
        pieces: One a sample.
        broken: Overlapping samples that do not link up with the next one of their stream, though both are full.
    """

    pieces: Pieces
    broken: int


def join(scan: Scan, groups: NDArray[np.int64], width: int, stride: str) -> Joined:
    """Runs of samples.

    Args:
        scan: What is known of each sample.
        groups: int64[streams + 1], first samples of the streams.
        width: Tokens in a sample.
        stride: overlap, disjoint, bos or per-document.
    """
    valid, skip, broken = scan.valid, int(stride == "bos"), 0
    on = continued(scan, groups, width)
    if stride == "per-document":
        on[:] = False
    elif stride == "overlap":
        links = on & linked(scan)
        broken = int(np.count_nonzero(on)) - int(np.count_nonzero(links))
        on = links
    real = valid > 0
    tail = real & ~on if stride == "overlap" else real
    opens = np.ones(len(valid), np.bool_)
    opens[1:] = ~on[:-1]
    lengths = np.where(real, valid - np.int32(skip) + tail, 0).astype(np.int32)
    return Joined(Pieces(None, skip, lengths, tail, opens), broken)


def chained(starts: NDArray[np.int64], width: int, step: int, ends: list[int], opens_at: list[bool]) -> Pieces:
    """Pieces of samples whose places in the stream are known from the files' attributes.

    Args:
        starts: int64[files + 1], number of each file's first sample.
        width: Tokens in a sample.
        step: Tokens of the stream from one sample to the next: width (overlap) or width + 1 (disjoint).
        ends: Of each file, tokens of the stream from its first sample to the stream's end.
        opens_at: Whether a run begins with the file.
    """
    count = int(starts[-1])
    lengths = np.full(count, step, np.int32)
    tail = np.full(count, step > width, np.bool_)
    opens = np.zeros(count, np.bool_)
    for k, (left, new) in enumerate(zip(ends, opens_at, strict=True)):
        a, b = int(starts[k]), int(starts[k + 1])
        if a == b:
            continue
        opens[a] |= new
        last = left - (b - a - 1) * step  # tokens of the stream from the file's last sample on
        goes_on = b < count and not opens_at[_holder(starts, b)] and last > step
        tail[b - 1] = tail[b - 1] or not goes_on
        lengths[b - 1] = min(last, width + 1) if tail[b - 1] else width
    return Pieces(None, 0, lengths, tail, opens)


def _holder(starts: NDArray[np.int64], row: int) -> int:
    """The file that holds a row."""
    return int(np.searchsorted(starts, row, side="right")) - 1
