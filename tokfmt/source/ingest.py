"""Turn records into a token axis of the token IDs that they hold, or that a tokenizer makes of their text.

Workers of an executor encode text and gather token IDs, and write them to files in scratch. One token axis reads these
files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.chats import PAIR
from tokfmt.core.format import Encoder
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import ByteOffset, Info, Separators, TokenReader, check_position
from tokfmt.core.records import Block, RecordBatch, RecordReader, RecordView, SkippedRecords
from tokfmt.errors import SourceChangedError
from tokfmt.files.locks import Scratch
from tokfmt.files.place import Place
from tokfmt.model.readers import ContentReader, from_reader
from tokfmt.model.separator import led
from tokfmt.run.execute import SerialExecutor, make_executor
from tokfmt.run.plan import Kind, Stretch, Workers, journaled
from tokfmt.run.progress import Progress
from tokfmt.source.stored import Source
from tokfmt.text.ingest import (
    ChatCounts,
    Ingestion,
    QuotaBudget,
    Shard,
    ShardReader,
    Unread,
    block_size,
    encoded_batches,
    ingest_block,
)
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.filters import FilterChain
    from tokfmt.text.tokenizer import TokenizerHandle

_PIECE = 1 << 22
_JOBS = 8  # workers per task by which text is cut if tasks share no journal


def encoder_for(records: RecordReader, tokenizer: TokenizerHandle | None, progress: Progress) -> Encoder | None:
    """Begin a phase of `progress`, and return the encoder of records; None if they hold token IDs."""
    text = records.info.is_text
    progress.phase("tokenizing" if text else "reading ids", records.info.size, "bytes")
    return encoder_of(records, tokenizer)


def ingest(
    records: RecordReader,
    encoder: Encoder | None,
    workers: Workers,
    *,
    first: int = 0,
    last: int | None = None,
    name: str = "text",
    progress: Callable[[Shard], None] = lambda shard: None,
    refused: Callable[[SkippedRecords], bool] = lambda skipped: False,
    sieve: FilterChain | None = None,
    ration: QuotaBudget | None = None,
) -> ShardReader:
    """Tokenize or gather records `first <= i < last`, or the task's part of them, in parallel into files in scratch.
    `name` is that of the source, for its directory in scratch and for the journal. If `refused` says that the records
    that were left out will be refused, and the work is not kept, the rest is parsed without being encoded, which is
    about ten times as fast. Of a sieve, only texts that pass are encoded, and all are listed beside the files; see
    `Ingestion`. Records beyond the ration are not kept, and are not read if records are numbered.
    """
    home = (workers.texts or workers.scratch) / f"done-{name}"
    home.mkdir(exist_ok=True)
    blocks: Sequence[tuple[int, Block]] = list(enumerate(blocks_of(records, workers, first, last, name)))
    serial = isinstance(workers.executor, SerialExecutor) and workers.share is None  # one block is counted at a time
    numbers = [] if ration is None or serial else _first_records(records, [one for _, one in blocks], first, ration)
    job = Ingestion(records, encoder, home, sieve, ration if serial or numbers else None, numbers)
    firsts, recalled = list[int](), workers.journal.done(f"shard of {name}")
    if workers.share is not None:
        blocks = workers.share.of(blocks)
    shards: dict[int, Shard] = {}
    skipped = SkippedRecords()
    kind: Kind[tuple[int, Block], Shard] = Kind(
        f"shard of {name}",
        number=lambda item: item[0],
        finished=lambda shard: shard.number,
        facts=lambda shard: shard.facts(),
        recall=lambda number, facts: Shard.recalled(home, number, facts),
    )
    for shard in journaled(kind, ingest_block, job, blocks, workers):
        shards[shard.number] = shard
        for smaller in ration.trim(shards, firsts, recalled) if ration is not None else ():
            workers.journal.add(kind.name, smaller.number, smaller.facts())
            shards[smaller.number] = smaller
        if numbers and records.files and firsts != numbers[: len(firsts)]:
            raise SourceChangedError.while_read(records.files[0])
        skipped += shard.skipped
        progress(shard)
        if encoder is not None and not workers.journal.keeps and refused(skipped):
            break
    left = [block for block in blocks if block[0] not in shards]
    look = Ingestion(records, Unread(), home)
    for shard in workers.map(ingest_block, look, left):
        shards[shard.number] = shard
        progress(shard)
    return ShardReader(list(shards.values()), [block for _, block in blocks])


def blocks_of(
    records: RecordReader, workers: Workers, first: int = 0, last: int | None = None, name: str = "text"
) -> list[Block]:
    """Return the blocks of records that are tokenized one by one. Tasks that share no journal cut the same blocks."""
    jobs = _JOBS if isinstance(workers.share, Stretch) else workers.jobs
    total = records.info.size
    size = workers.journal.once(f"blocks-{name}", lambda: block_size(total, jobs * workers.tasks))
    return list(records.blocks(size, first, last))


def _first_records(records: RecordReader, blocks: Sequence[Block], first: int, ration: QuotaBudget) -> list[int]:
    """Return the number of the first record of each block of a ration, of which `first` is next; else []."""
    if len(blocks) == 1:
        return [ration.first]
    if not ration.bounded or not records.info.random_access or not records.files:
        return []
    numbers_of_blocks = [
        block.first if block.first >= 0 else records.record_at(records.files[block.file], block.start)
        for block in blocks
    ]
    numbers = [ration.first + number - first for number in numbers_of_blocks if number is not None]
    is_complete = len(numbers) == len(blocks) and all(
        a < b for a, b in itertools.pairwise([ration.first - 1, *numbers])
    )
    return numbers if is_complete else []


class ContentRecords(RecordView):
    """Records of token IDs, not their lines, without the separator and the lead that the user names."""

    def __init__(self, records: RecordReader, eos_id: int | None, lead: int | None) -> None:
        super().__init__(records)
        self._eos_id, self._lead = eos_id, lead

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        for batch in self.records.ids(block):
            if batch.ragged is None:
                yield batch
                continue
            reader = self._contents(batch.ragged, batch.marks)
            count, length = reader.info.sequences, reader.info.tokens
            ragged = Ragged(reader.tokens(0, length), reader.offsets(0, count))
            yield batch._replace(ragged=ragged, marks=reader.marks(0, length))

    def _contents(self, ragged: Ragged, marks: NDArray[np.uint8] | None = None) -> ContentReader:
        stored = MemoryReader(ragged, marks)
        dataset = from_reader(stored, self._eos_id, where=Separators.TRAILING, presumed=None)
        return ContentReader(dataset if self._lead is None else led(dataset, self._lead, each=True))

    def record(self, index: int) -> str | list[int]:
        content = self.records.record(index)
        if isinstance(content, str):
            return content
        reader = self._contents(Ragged.of([content]))
        ids: list[int] = reader.tokens(0, reader.info.tokens).tolist()
        return ids

    def begins_with_lead(self, index: int) -> bool:
        """Return whether a record is stored with the lead."""
        return self._lead is not None and self.records.record(index)[:1] == [self._lead]


def as_stored(records: RecordReader) -> RecordReader:
    """Return records with the separators and leads that they are read without."""
    return records.records if isinstance(records, ContentRecords) else records


class _Temporary(ShardReader):
    """Token IDs in a temporary directory, which is removed with this reader; copies in other processes only read it."""

    def __init__(self, reader: ShardReader, home: Scratch) -> None:
        super().__init__(reader.shards)
        self._home = home

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_home"}


class _OfRecords(_Temporary):
    """Token IDs of records whose byte offsets are known; sequence i is record i."""

    def __init__(self, reader: ShardReader, home: Scratch, records: RecordReader) -> None:
        super().__init__(reader, home)
        self.records = records

    def locate(self, position: int) -> ByteOffset:
        """Return the byte offset of the record that a token comes from."""
        check_position(position, self.info.tokens)
        record = self.sequence_at(position)
        token = position - int(self.offsets(record, record)[0])
        if isinstance(self.records, ContentRecords):
            token += self.records.begins_with_lead(record)
        line = self.records.record_byte_offset(record)
        detail = ", ".join(filter(None, (f"token {token:,} of record {record:,}", line.detail)))
        return line._replace(width=None, detail=detail)

    def find(self, place: Place, byte: int) -> int | None:
        """Return the position of the first token of the record at a byte of a file; None without one."""
        record = self.records.record_at(place, byte)
        if record is None:
            return None
        first, last = self.offsets(record, record + 1).tolist()
        return int(first) if first < last else None


def tokenized(records: RecordReader, handle: TokenizerHandle | None) -> TokenReader:
    """Return a token axis of records, in a temporary directory that is removed when the axis is closed."""
    return ingested(records, encoder_of(records, handle))


def encoder_of(records: RecordReader, handle: TokenizerHandle | None) -> Encoder | None:
    """Return the encoder of records; None if they hold token IDs, or if there is no tokenizer."""
    if not records.info.is_text or handle is None:
        return None
    info = records.info
    if not info.chats:
        return handle.encoder()
    return handle.chat_encoder(masked=info.chats == "masked", templated=info.is_templated)


def note_on_chats(chats: Iterable[ShardReader]) -> str:
    """Return a note on the messages of chats that were encoded, and on their loss mask; "" without any."""
    readers = list(chats)
    counts = sum((reader.chats for reader in readers), ChatCounts())
    if not counts.roles:
        return ""
    roles = dict(counts.roles)
    pairs = roles.pop(PAIR, 0)
    of_roles = ", ".join(f"{printable(role)} {count:,}" for role, count in sorted(roles.items()))
    number, tokens = (sum(values) for values in zip(*((r.info.sequences, r.info.tokens) for r in readers), strict=True))
    messages = f"{counted(number, 'chat')} with {counted(sum(roles.values()), 'message')} ({of_roles})"
    said = "what the assistant says"
    if pairs:
        of_messages = f" of {counted(sum(roles.values()), 'message')} ({of_roles})" if roles else ""
        said = "its completion" if pairs == 1 else "their completions"
        messages = f"{counted(pairs, 'prompt')} with {said}{of_messages}"
    masked = any(reader.info.loss_masks for reader in readers)
    trained = f"{counts.trained:,} of {tokens:,} tokens, {said}, count in the loss"
    return f"{messages}; {trained if masked else 'without a loss mask'}"


def ingested(records: RecordReader, encoder: Encoder | None, jobs: int = 1) -> ShardReader:
    """Return a token axis of records like `tokenized`, with an encoder; None if the records hold token IDs."""
    home = Scratch()
    try:
        with make_executor("threads", jobs) as executor:
            shards = ingest(records, encoder, Workers(executor, jobs, home.path))
        if records.files:
            return _OfRecords(shards, home, records)
        return _Temporary(shards, home)
    except BaseException:
        home.close()
        raise


def encoded(records: RecordReader, encoder: Encoder | None, first: int, last: int) -> Ragged:
    """Return the token IDs of records `first <= i < last`, without reading the records after them."""
    blocks = records.blocks(_PIECE, first, last)
    return Ragged.of(
        sequence for block in blocks for batch in encoded_batches(records, encoder, block) for sequence in batch
    )


class Texts(TokenReader):
    """Records as a token axis that is made on first use; single sequences are encoded without it."""

    def __init__(self, records: RecordReader, encoder: Encoder | None) -> None:
        self.records, self.encoder = records, encoder
        self._axis: TokenReader | None = None

    @property
    def axis(self) -> TokenReader:
        """The token axis of all records, in a temporary directory."""
        if self._axis is None:
            self._axis, stated = ingested(self.records, self.encoder), self.records.info
            self._axis.info = replace(self._axis.info, split=stated.split, other_splits=stated.other_splits)
        return self._axis

    @property
    def info(self) -> Info:  # type: ignore[override]
        return self.axis.info

    def count(self) -> int:
        """Return the number of sequences, without parsing lines."""
        return self.records.count()

    def sequences(self, first: int, last: int) -> Ragged:
        """Return sequences `first <= i < last`."""
        return encoded(self.records, self.encoder, first, last)

    def batches(self) -> Iterator[Ragged]:
        """Yield all sequences in order, a batch at a time."""
        for block in self.records.blocks(_PIECE):
            yield from encoded_batches(self.records, self.encoder, block)

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.axis.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.axis.offsets(first, last)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.axis, position

    def find(self, place: Place, byte: int) -> int | None:
        return self.axis.find(place, byte)

    def close(self) -> None:
        self.records.close()
        if self._axis is not None:
            self._axis.close()


_TEXTS, _PLACES = 64, 16  # a first look reads up to 64 texts, from 16 places


@runtime_checkable
class Lookable(Protocol):
    """Records that do not exist yet, such as those of a recipe of text, but whose sources can be read."""

    def sample_records(self) -> tuple[list[str], SkippedRecords]:
        """Return some texts of the sources, and the records and fields that were left out."""
        ...


def _spread(records: RecordReader, places: int) -> Sequence[Block]:
    """Return up to so many blocks of records, at even distances."""
    blocks = records.blocks(max(_PIECE, records.info.size // places))
    return blocks[:: -(-len(blocks) // places) or 1]


def some_ids(records: RecordReader, places: int) -> Ragged:
    """Return the token IDs of some records, from up to so many places spread over them."""
    batches = (next(iter(records.ids(block)), None) for block in _spread(records, places))
    return Ragged.of(ids for batch in batches if batch is not None and batch.ragged is not None for ids in batch.ragged)


def sample_records(source: Source) -> tuple[list[str], SkippedRecords]:
    """Return some texts of a source, from up to 16 places spread over it, and the records and fields left out."""
    records, texts, skipped = source.reader, list[str](), SkippedRecords()
    if isinstance(records, Lookable):
        return records.sample_records()
    if not isinstance(records, RecordReader):
        return texts, skipped
    looked = _spread(records, _PLACES)
    for block in looked:
        batch = next(iter(records.texts(block) if records.info.is_text else records.ids(block)), None)
        if batch is not None:
            texts += batch.texts[: max(1, _TEXTS // len(looked))]
            skipped += batch.skipped
    return texts, skipped
