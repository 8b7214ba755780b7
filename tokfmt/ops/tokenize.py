"""Records to a token axis: run the ingestion on an executor, or into a temporary directory for reading only."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from tokfmt.core.axis import TokenReader
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
            return _Temporary(ingest(records, encoder, Workers(executor, 1, home)), home)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
