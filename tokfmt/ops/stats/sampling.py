"""A seeded sample of sequences, when a full pass is too much.

Where an index tells the sequences, each is as likely as any other. In a stream and in text nobody knows where they are:
blocks are chosen instead, every block as likely as any other, and all sequences that begin in one are taken, so each
sequence is still as likely as any other; they are only not independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, TokenReader, check_interval, windows
from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of
from tokfmt.core.records import Block, RecordBatch, RecordInfo, RecordReader
from tokfmt.ops.stats.axis import Indexed, StatsAxis, Streamed

_BLOCK = 1 << 13  # tokens; few sequences each, so that a sample comes from many places
_TEXT_BLOCK = 1 << 20  # bytes
_NEAR = 1 << 14  # tokens; reading on over fewer that are not wanted is cheaper than another read


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn from a dataset.

    Attributes:
        axis: Of the sequences drawn.
        sequences, tokens: How many the dataset has, as far as can be told.
        exact: These two are no estimates.
    """

    axis: Indexed
    sequences: int
    tokens: int
    exact: bool


class Intervals:
    """Disjoint intervals of a stored axis, in order, as sequences."""

    def __init__(self, stored: TokenReader, starts: Offsets, stops: Offsets) -> None:
        self.stored, self._starts = stored, starts
        self._offsets = offsets_of(stops - starts)
        self._info = replace(stored.info, sequences=len(starts), tokens=int(self._offsets[-1]), max_id=None)

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        out = np.empty(stop - start, self._info.dtype)
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop))
        bounds = np.clip(self._offsets[first : last + 1], start, stop)
        shift = self._starts[first:last] - self._offsets[first:last]
        begins, ends = bounds[:-1] + shift, bounds[1:] + shift
        far = np.flatnonzero(begins[1:] - ends[:-1] > _NEAR) + 1
        for some in np.split(np.arange(len(begins)), far):
            if len(some):
                window = self.stored.tokens(int(begins[some[0]]), int(ends[some[-1]]))
                places = Ragged(window, begins[some] - begins[some[0]])
                self._copy(out[bounds[some[0]] - start :], places, ends[some] - begins[some])
        return out

    def _copy(self, out: Tokens, window: Ragged, lengths: Offsets) -> None:
        at = 0
        for begin, length in zip(window.offsets.tolist(), lengths.tolist(), strict=True):
            out[at : at + length] = window.tokens[begin : begin + length]
            at += length

    def close(self) -> None:
        self.stored.close()


def draw(axis: StatsAxis, count: int, seed: int) -> Drawn | None:
    """Draw `count` sequences (about so many, from a stream); None when there are no more than that."""
    if isinstance(axis, Streamed):
        return _from_stream(axis, count, seed)
    info = axis.info
    if count >= info.sequences:
        return None
    numbers = np.sort(np.random.default_rng(seed).choice(info.sequences, count, replace=False, shuffle=False))
    bounds = np.array([axis.stored.offsets(i, i + 1) for i in numbers.tolist()], np.int64).reshape(-1, 2)
    drawn = Indexed(Intervals(axis.stored, bounds[:, 0], bounds[:, 1]), axis.eos_id, axis.path)
    return Drawn(drawn, info.sequences, axis.content_tokens, exact=True)


def _from_stream(axis: Streamed, count: int, seed: int) -> Drawn | None:
    total = axis.info.tokens
    blocks = -(-total // _BLOCK)
    starts: list[int] = []
    stops: list[int] = []
    read = 0
    for block in np.random.default_rng(seed).permutation(blocks).tolist():
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, total)
        for start, stop in _begun(axis, begin, end):
            starts.append(start)
            stops.append(stop)
        read += end - begin
        if len(starts) >= count:
            break
    if read == total:
        return None
    order = np.argsort(np.asarray(starts, np.int64))
    first, last = np.asarray(starts, np.int64)[order], np.asarray(stops, np.int64)[order]
    drawn = Indexed(Intervals(axis.stored, first, last), None, "stream")
    scale = total / read
    return Drawn(drawn, round(len(first) * scale), round(int((last - first).sum()) * scale), exact=False)


def _begun(axis: Streamed, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The sequences of a stream that begin at positions `begin <= p < end`."""
    before = max(begin - 1, 0)
    tokens = axis.stored.tokens(before, end)
    separators = np.flatnonzero(tokens == axis.eos_id) + before
    edges: NDArray[np.int64] = np.concatenate(([-1] if begin == 0 else [], separators, [end])).astype(np.int64)
    for k in np.flatnonzero(np.diff(edges) > 1).tolist():
        start, stop = int(edges[k]) + 1, int(edges[k + 1])
        if start < end:
            yield start, stop if stop < end else _end_of(axis, end)


def _end_of(axis: Streamed, position: int) -> int:
    """Where the sequence that goes on at a position ends."""
    for a, b in windows(position, axis.info.tokens, _BLOCK):
        at = np.flatnonzero(axis.stored.tokens(a, b) == axis.eos_id)
        if len(at):
            return a + int(at[0])
    return axis.info.tokens


class SomeBlocks:
    """Records of some blocks of a reader."""

    def __init__(self, records: RecordReader, blocks: Sequence[Block]) -> None:
        self.records, self._blocks = records, list(blocks)

    @property
    def info(self) -> RecordInfo:
        size = sum(block.stop - block.start for block in self._blocks)
        return replace(self.records.info, size=size, records=None)

    def count(self) -> int:
        return sum(len(batch.lines) for block in self._blocks for batch in self.lines(block))

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Those that were drawn, whatever the size; all of them."""
        del size, first, last
        return self._blocks

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.texts(block)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.ids(block)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        return self.records.lines(block)

    def record(self, index: int) -> str | list[int]:
        raise IndexError(f"record {index} of a sample")

    def close(self) -> None:
        self.records.close()


def draw_records(records: RecordReader, count: int, seed: int) -> SomeBlocks | None:
    """Draw blocks that hold at least `count` records together; None when that is all of them."""
    blocks = list(records.blocks(_TEXT_BLOCK))
    chosen: list[int] = []
    found = 0
    for block in np.random.default_rng(seed).permutation(len(blocks)).tolist():
        chosen.append(block)
        found += sum(len(batch.lines) for batch in records.lines(blocks[block]))
        if found >= count:
            break
    return SomeBlocks(records, [blocks[k] for k in sorted(chosen)]) if len(chosen) < len(blocks) else None
