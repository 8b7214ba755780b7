"""Draw a seeded sample of sequences, for statistics without a full pass (`tokfmt stats --sample`).

- **With an index**, sequences are drawn, and each is as likely as any other.
- **In a stream or text**, the starts of sequences are unknown, so blocks are drawn, and each block is as likely as any
  other. All sequences that begin in a drawn block are in the sample. Each sequence is as likely as any other, but the
  sequences of a sample are not independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import SAMPLE, random_order
from tokfmt.commands.stats.walk import Indexed, StatsAxis, Streamed
from tokfmt.core.reader import Separators, windows
from tokfmt.core.records import Block, RecordInfo, RecordReader, RecordView, counted_records
from tokfmt.files.place import Place
from tokfmt.model.select import Intervals, Picked

_BLOCK = 1 << 13  # tokens; a block holds few sequences, so that a sample comes from many places
_TEXT_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class DrawnAxis:
    """A sample that is drawn from a dataset."""

    axis: Indexed
    sequences: int  # of the dataset
    tokens: int  # of the dataset
    exact: bool  # `sequences` and `tokens` are not estimated
    weight: float  # sequences of the dataset that each drawn one represents: 1 / its probability


def draw(axis: StatsAxis, count: int, seed: int) -> DrawnAxis | None:
    """Draw `count` sequences, or about as many from a stream; None if that would be the complete dataset."""
    if axis.is_stream:
        return _from_stream(axis, count, seed)
    info = axis.info
    if count >= info.sequences:
        return None
    numbers = np.array(sorted(islice(random_order(info.sequences, seed, SAMPLE), count)), np.int64)
    drawn = Indexed(Picked(axis.stored, numbers), axis.eos_id, axis.path)
    return DrawnAxis(drawn, info.sequences, axis.content_tokens, exact=True, weight=info.sequences / count)


def _from_stream(axis: Streamed, count: int, seed: int) -> DrawnAxis | None:
    total = axis.info.tokens
    blocks = -(-total // _BLOCK)
    starts: list[int] = []
    stops: list[int] = []
    read = 0
    for block in random_order(blocks, seed, SAMPLE):
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
    drawn = Indexed(Intervals(axis.stored, first, last - first), None, "stream")
    weight = total / read
    tokens = round(int((last - first).sum()) * weight)
    return DrawnAxis(drawn, round(len(first) * weight), tokens, exact=False, weight=weight)


def _begun(axis: Streamed, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the intervals of the sequences of a stream that begin at positions `begin <= p < end`."""
    before = max(begin - 1, 0)
    tokens = axis.stored.tokens(before, end)
    separators = np.flatnonzero(tokens == axis.eos_id) + before
    headed = axis.info.separators is Separators.BEFORE and len(separators) > 0 and separators[0] == 0
    front = [-1] if begin == 0 and not headed else []
    edges: NDArray[np.int64] = np.concatenate((front, separators, [end])).astype(np.int64)
    for edge, stop in pairwise(edges.tolist()):
        start = edge + 1
        if start < end:
            yield start, stop if stop < end else _end_of(axis, end)


def _end_of(axis: Streamed, position: int) -> int:
    """Return the end of the sequence that holds a position."""
    for a, b in windows(position, axis.info.tokens, _BLOCK):
        at = np.flatnonzero(axis.stored.tokens(a, b) == axis.eos_id)
        if len(at):
            return a + int(at[0])
    return axis.info.tokens


def drawn_records(axis: Indexed, weight: float) -> DrawnAxis:
    """Return the sample that the token IDs of `SomeBlocks` of a weight are."""
    sequences, tokens = round(axis.info.sequences * weight), round(axis.content_tokens * weight)
    return DrawnAxis(axis, sequences, tokens, exact=False, weight=weight)


class SomeBlocks(RecordView):
    """The records of the drawn blocks of a reader."""

    def __init__(self, records: RecordReader, blocks: Sequence[Block], weight: float) -> None:
        super().__init__(records)
        # records of the reader that each one represents: the size of its blocks over that of these
        self._blocks, self.weight = list(blocks), weight

    @property
    def info(self) -> RecordInfo:  # type: ignore[override]
        size = sum(block.stop - block.start for block in self._blocks)
        return replace(self.records.info, size=size, records=None)

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        """None, as their records have other numbers."""
        return ()

    def count(self) -> int:
        return sum(counted_records(self.records, block) for block in self._blocks)

    def count_up_to(self, last: int) -> int:  # noqa: ARG002
        return self.count()

    def file_counts(self) -> Sequence[int]:
        return ()

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Return the drawn blocks; the arguments are ignored."""
        del size, first, last
        return self._blocks

    def record(self, index: int) -> str | list[int]:
        raise IndexError(f"record {index} of a sample")


def draw_records(records: RecordReader, count: int, seed: int) -> SomeBlocks | None:
    """Draw blocks that hold at least `count` records together; None if these are all blocks."""
    blocks = list(records.blocks(_TEXT_BLOCK))
    chosen: list[int] = []
    filled = 0
    for block in random_order(len(blocks), seed, SAMPLE):
        chosen.append(block)
        filled += counted_records(records, blocks[block])
        if filled >= count:
            break
    if len(chosen) == len(blocks):
        return None
    drawn = [blocks[k] for k in sorted(chosen)]
    weight = sum(block.stop - block.start for block in blocks) / sum(block.stop - block.start for block in drawn)
    return SomeBlocks(records, drawn, weight)
