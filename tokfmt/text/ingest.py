"""Turn records (text, or lists of ids) into scratch shards: one task a block, any executor, bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tokfmt.core.dtypes import largest_id
from tokfmt.core.output import whole
from tokfmt.core.ragged import Ragged
from tokfmt.core.records import Block, RecordBatch, RecordReader
from tokfmt.text.shards import Shard, shard_path

_SMALLEST, _LARGEST = 1 << 22, 1 << 26


def block_size(total: int, jobs: int) -> int:
    """Bytes of text a task: some tasks for each worker, yet no more shards than needed. Ids do not depend on it."""
    return min(max(total // (8 * jobs), _SMALLEST), _LARGEST)


class Encoder(Protocol):
    """Text to ids. Picklable; loads its tokenizer on first use in a process."""

    def encode(self, texts: list[str]) -> Ragged:
        """The ids of each text, in order; no special tokens are added."""


@dataclass(frozen=True, slots=True)
class Ingestion:
    """What every task shares: the records, how to encode them (None for ids), where shards go."""

    records: RecordReader
    encoder: Encoder | None
    scratch: Path


def ingest_block(job: Ingestion, item: tuple[int, Block]) -> Shard:
    """Write the shard of one block; the task function for `run.execute.run_tasks`."""
    number, block = item
    path = shard_path(job.scratch, number)
    sequences, total, top, invalid = 0, 0, -1, 0
    with whole(Path(f"{path}.tokens")) as tokens, whole(Path(f"{path}.lengths")) as lengths:
        for batch in job.records.ids(block) if job.encoder is None else job.records.texts(block):
            ragged = _ids(job, batch)
            tokens.write(np.ascontiguousarray(ragged.tokens, np.uint32).data)
            lengths.write(np.diff(ragged.offsets).data)
            sequences, total = sequences + len(ragged), total + len(ragged.tokens)
            top, invalid = max(top, largest_id(ragged.tokens)), invalid + batch.invalid
    return Shard(number, path, sequences, total, top, invalid, block.stop - block.start)


def _ids(job: Ingestion, batch: RecordBatch) -> Ragged:
    if job.encoder is not None:
        return job.encoder.encode(list(batch.texts))
    return batch.ragged if batch.ragged is not None else Ragged.of([])
