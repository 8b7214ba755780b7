"""Tokenised text on its way: scratch shards, one for each block of records, read as one token axis.

    shard-000000.tokens   uint32 native, the ids of the block
    shard-000000.lengths  int64 native, one length a sequence

Shards live in a scratch directory for the time of one conversion; they are no format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokfmt.core.axis import Info, Layout, check_interval
from tokfmt.core.dtypes import U32
from tokfmt.core.files import File
from tokfmt.core.ragged import Offsets, Tokens, offsets_of


@dataclass(frozen=True, slots=True)
class Shard:
    """What a task says of the shard it wrote.

    Attributes:
        number: Of its block.
        path: Without suffix.
        sequences, tokens: How many.
        max_id: Largest id, -1 if none.
        invalid: Records left out.
        size: Bytes of the block it came from.
    """

    number: int
    path: Path
    sequences: int
    tokens: int
    max_id: int
    invalid: int
    size: int

    def facts(self) -> list[int]:
        """What a journal says of it."""
        return [int(n) for n in (self.sequences, self.tokens, self.max_id, self.invalid, self.size)]

    @staticmethod
    def recalled(home: Path, number: int, facts: list[int]) -> Shard | None:
        """The shard that an earlier run wrote to `home`, or None when it is not there as journaled."""
        shard = Shard(number, shard_path(home, number), *facts)
        for suffix, size in (("tokens", 4 * shard.tokens), ("lengths", 8 * shard.sequences)):
            file = Path(f"{shard.path}.{suffix}")
            if not file.is_file() or file.stat().st_size != size:
                return None
        return shard


def shard_path(home: Path, number: int) -> Path:
    """Where the shard of a block goes, without suffix."""
    return home / f"shard-{number:06d}"


class ShardReader:
    """All shards of an ingestion, in order of their blocks. Keeps 8 bytes a sequence."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = sorted(shards, key=lambda shard: shard.number)
        self._files = [File(f"{shard.path}.tokens") for shard in self.shards]
        self._starts = offsets_of([shard.tokens for shard in self.shards])
        count = sum(shard.sequences for shard in self.shards)
        self._offsets = np.zeros(count + 1, np.int64)
        at = 1
        for shard in self.shards:
            lengths = np.fromfile(f"{shard.path}.lengths", np.int64)
            self._offsets[at : at + len(lengths)] = lengths
            at += len(lengths)
        np.cumsum(self._offsets, out=self._offsets)
        top = max((shard.max_id for shard in self.shards), default=-1)
        self._info = Info(Layout.DOCUMENTS, U32, count, int(self._offsets[-1]), max_id=top)

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        out = np.empty(stop - start, np.uint32)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for k in range(first, int(np.searchsorted(self._starts, stop, side="left"))):
            base = int(self._starts[k])
            a, b = max(start - base, 0), min(stop, int(self._starts[k + 1])) - base
            self._files[k].read_into(a * 4, out[base + a - start : base + b - start].view(np.uint8).data)
        return out

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def close(self) -> None:
        for file in self._files:
            file.close()
