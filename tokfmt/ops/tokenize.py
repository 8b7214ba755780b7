"""Records to a token axis: run the ingestion on an executor, or into a temporary directory for reading only."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from tokfmt.core.axis import TokenReader, check_position, sequence_at
from tokfmt.core.inside import LocatedRecords, Place
from tokfmt.core.records import Block, RecordReader
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Kind, Workers, journaled
from tokfmt.text.ingest import Encoder, Ingestion, block_size, ingest_block
from tokfmt.text.shards import Shard, ShardReader


def ingest(
    records: RecordReader,
    encoder: Encoder | None,
    workers: Workers,
    *,
    first: int = 0,
    last: int | None = None,
    name: str = "text",
    progress: Callable[[Shard], None] = lambda shard: None,
) -> ShardReader:
    """Tokenise records `first <= i < last` in parallel into shards under `workers.scratch`.

    Args:
        records: Text or ids.
        encoder: None for ids.
        workers: Where to run.
        first, last: Record numbers; None means to the end.
        name: Of the source, for its directory within scratch and the journal.
        progress: Called with each finished shard.
    """
    home = workers.scratch / f"done-{name}"
    home.mkdir(exist_ok=True)
    size = workers.journal.once(f"blocks-{name}", lambda: block_size(records.info.size, workers.jobs))
    blocks = list(enumerate(records.blocks(size, first, last)))
    shards = []
    kind: Kind[tuple[int, Block], Shard] = Kind(
        f"shard of {name}",
        number=lambda item: item[0],
        finished=lambda shard: shard.number,
        facts=lambda shard: shard.facts(),
        recall=lambda number, facts: Shard.recalled(home, number, facts),
    )
    for shard in journaled(kind, ingest_block, Ingestion(records, encoder, home), blocks, workers):
        shards.append(shard)
        progress(shard)
    return ShardReader(shards)


class _Temporary(ShardReader):
    """Shards in a temporary directory that goes when this reader does; copies in other processes only read it."""

    def __init__(self, reader: ShardReader, home: Path) -> None:
        super().__init__(reader.shards)
        self._home = weakref.finalize(self, shutil.rmtree, home, ignore_errors=True)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_home"}


class _OfRecords(_Temporary):
    """The same of records that know where they lie; sequence i is record i."""

    def __init__(self, reader: ShardReader, home: Path, records: LocatedRecords) -> None:
        super().__init__(reader, home)
        self.records = records

    def place(self, position: int) -> Place:
        """The line of the record that a token comes from."""
        check_position(position, self.info.tokens)
        record = sequence_at(self, position)
        token = position - int(self.offsets(record, record)[0])
        line = self.records.record_place(record)
        detail = ", ".join(filter(None, (f"token {token:,} of record {record:,}", line.detail)))
        return line._replace(width=None, detail=detail)

    def position(self, path: Path, offset: int) -> int | None:
        """The first token of the record at a byte of a file."""
        record = self.records.record_at(path, offset)
        if record is None:
            return None
        first, last = self.offsets(record, record + 1).tolist()
        return int(first) if first < last else None


def tokenized(records: RecordReader, tokenizer: str | None) -> TokenReader:
    """A token axis of records, for reading: ingested into a temporary directory that goes with the reader."""
    if records.info.kind != "text":
        return ingested(records, None)
    from tokfmt.text.tokenizer import load_tokenizer

    return ingested(records, load_tokenizer(tokenizer or "").encoder())


def ingested(records: RecordReader, encoder: Encoder | None) -> TokenReader:
    """The same with an encoder at hand; None for ids."""
    home = Path(tempfile.mkdtemp(prefix="tokfmt-"))
    try:
        with SerialExecutor() as executor:
            shards = ingest(records, encoder, Workers(executor, 1, home))
        if isinstance(records, LocatedRecords):
            return _OfRecords(shards, home, records)
        return _Temporary(shards, home)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
