"""Write records (text, or lists of IDs) to scratch shards: one task per block, any executor, bounded memory.

Each block of records has one shard. `ShardReader` reads all shards as one token axis.

    shard-000000.tokens   uint32, native byte order: the IDs of the block
    shard-000000.lengths  int64, native byte order: the length of each sequence
    shard-000000.marks    uint8: the mark of each ID; see `core.loss_mask`. Only of records with loss masks, and chats

Shards exist in a scratch directory during one conversion. They are not a format.
"""

from __future__ import annotations

import mmap
import operator
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import DRAWN, draws
from tokfmt.core.chats import ChatTemplateError
from tokfmt.core.format import Encoded, Encoder
from tokfmt.core.loss_mask import TARGET, unended
from tokfmt.core.output import whole
from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of
from tokfmt.core.reader import U32, Info, Layout, PaddingCounts, TokenReader, check_interval, largest_id, windows
from tokfmt.core.records import Block, RecordBatch, RecordReader, SkippedRecords
from tokfmt.errors import TokenRangeError, UnsafeError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.model.rows import RowFacts
from tokfmt.text.long_texts import UnbrokenTextError, of_file

if TYPE_CHECKING:
    from tokfmt.text.filters import FilterChain

_LARGEST_ID = (1 << 32) - 1  # of a record
_OF_ROWS = "loss masks of its records, by columns that exclude IDs"
_SMALLEST, _LARGEST = 1 << 22, 1 << 26
_JUDGED = 1 << 21  # code points
_RATIONED, _TRIMMED, _MAPPED = 1 << 11, 1 << 12, 1 << 7  # records at a time


def block_size(total: int, jobs: int) -> int:
    """Return the bytes of text per task: eight tasks per worker, within 4 and 64 MiB. IDs do not depend on it."""
    return min(max(total // (8 * jobs), _SMALLEST), _LARGEST)


class Unread(Encoder):
    """An `Encoder` for a count of empty texts: it encodes any other text as one token with ID 0."""

    def encode(self, texts: list[str]) -> Ragged:
        filled = [1 if text else 0 for text in texts]
        return Ragged(np.zeros(sum(filled), np.uint32), offsets_of(filled))


def encoded_batches(records: RecordReader, encoder: Encoder | None, block: Block) -> Iterator[Ragged]:
    """Yield the IDs of the records of a block in bounded batches: of their text, or without an encoder their own."""
    if encoder is not None:
        before = 0
        for batch in records.texts(block):
            with _records(records, block, batch, before):
                ragged = encoder.encode(list(batch.texts))
            yield ragged
            before += len(batch.texts)
    else:
        yield from (batch.ragged for batch in records.ids(block) if batch.ragged is not None)


@contextmanager
def _records(records: RecordReader, block: Block, batch: RecordBatch, before: int) -> Iterator[None]:
    """Encode a batch in this context; an error of one of its texts names the file and the record."""
    if not records.files:
        yield
        return

    noun = "chat" if records.info.chats else "text"

    def place(number: int) -> tuple[Place, str]:
        if block.first >= 0:
            path = records.record_byte_offset(block.first + before + number).path
            return path, f"record {block.first + before + number:,}"
        path = records.files[block.file]
        return path, f"a {noun}" if batch.begins is None else f"the {noun} at byte {int(batch.begins[number]):,}"

    def size() -> int:
        lengths = list(map(len, batch.texts))
        return place(lengths.index(max(lengths)))[0].status().size

    try:
        with of_file(size):
            yield
    except UnbrokenTextError as error:
        path, record = place(next(k for k, text in enumerate(batch.texts) if len(text) == error.length))
        raise UnsafeError(path, f"{record} {error.what}", remedy=error.remedy) from error
    except ChatTemplateError as error:
        path, record = place(error.number)
        raise UnsupportedError(path, f"{record} {error.what}", remedy=error.remedy) from error


_ANY = (1 << 64) - 1  # the largest key
UNREAD = -1
"""Number of tokens in the entry of a record that was skipped because it cannot be drawn (`QuotaBudget`)."""


@dataclass(slots=True, eq=False)
class QuotaBudget:
    """The records of a source that may be drawn to fill a quota, while the source is read in order.

    The records with the smallest keys are drawn. If the records with keys up to K hold more tokens than the quota, no
    record with a greater key is drawn, whatever follows, and it is skipped. Keeps 16 bytes per record that may be
    drawn.
    """

    seed: int  # of the keys
    quota: int  # tokens to draw
    first: int = 0  # index of the next record in the source
    limit: int = _ANY  # the largest key that may be drawn
    _trimmed: int = _ANY
    _keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    _tokens: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def bounded(self) -> bool:
        """Return whether some records cannot be drawn."""
        return self.limit < _ANY

    def copy(self, first: int) -> QuotaBudget:
        """Return an independent budget that continues at a record, for a task."""
        return QuotaBudget(self.seed, self.quota, first, self.limit)

    def keys(self, count: int) -> NDArray[np.uint64]:
        """Return the keys of the next records; a record with a key up to `limit` may be drawn."""
        return draws(self.seed, DRAWN, self.first, self.first + count)

    def add(self, entries: NDArray[np.void], keys: NDArray[np.uint64]) -> None:
        """Count the next records."""
        read = np.flatnonzero((entries["rule"] == 0) & (entries["tokens"] != UNREAD))
        self._keys = np.concatenate((self._keys, keys[read]))
        self._tokens = np.concatenate((self._tokens, entries["tokens"][read]))
        self.first += len(entries)
        if (
            4 * int(self._tokens.sum()) <= 5 * self.quota
        ):  # sorting takes time, so a quarter more than the quota is kept
            return
        order = np.argsort(self._keys, kind="stable")
        stop = int(np.searchsorted(np.cumsum(self._tokens[order]), self.quota, side="right")) + 1
        self._keys, self._tokens = self._keys[order[:stop]], self._tokens[order[:stop]]
        self.limit = min(self.limit, int(self._keys[-1]))

    def trim(self, shards: dict[int, Shard], firsts: list[int], spared: Container[int]) -> Iterator[Shard]:
        """Count shards as soon as all earlier ones are written, and remove records that cannot be drawn. `firsts` are
        the indexes of the first records of counted shards, which this method appends to. Shards in `spared` stay
        unchanged. Each shard that became smaller is yielded.
        """
        counted = len(firsts)
        while (shard := shards.get(len(firsts))) is not None:
            firsts.append(self.first)
            for entries in _entries(shard):
                self.add(entries, self.keys(len(entries)))
        if self.limit < self._trimmed // 2:  # then all shards are worth reading again
            self._trimmed, counted = self.limit, 0
        for number in range(counted, len(firsts)):
            shard, first = shards[number], firsts[number]
            if number not in spared and 4 * self._far(shard, first) > shard.tokens:
                yield self._smaller(shard, first)

    def _far(self, shard: Shard, first: int) -> int:
        """Return the number of tokens in the records of a shard that cannot be drawn."""
        total = 0
        for entries in _entries(shard):
            far = draws(self.seed, DRAWN, first, first + len(entries)) > np.uint64(self.limit)
            first, total = first + len(entries), total + int(np.maximum(entries["tokens"][far], 0).sum(dtype=np.int64))
        return total

    @staticmethod
    @contextmanager
    def _marks_of(shard: Shard) -> Iterator[tuple[BinaryIO | None, BinaryIO | None]]:
        """Yield a new file of the marks of a shard, and the present one; None and None without marks."""
        if not shard.loss_masks:
            yield None, None
            return
        path = Path(f"{shard.path}.marks")
        with open(path, "rb") as marks, whole(path) as marks_file:
            yield marks_file, marks

    def _smaller(self, shard: Shard, first: int) -> Shard:
        total = 0
        with (  # if the process is killed here, the size of the tokens differs from the journal, or nothing has changed
            whole(Path(f"{shard.path}.lengths")) as lengths_file,
            whole(Path(f"{shard.path}.tokens")) as tokens_file,
            whole(Path(f"{shard.path}.entries")) as entries_file,
            self._marks_of(shard) as (marks_file, marks),
            open(f"{shard.path}.tokens", "rb") as file,
        ):
            for entries in _entries(shard):
                far = draws(self.seed, DRAWN, first, first + len(entries)) > np.uint64(self.limit)
                passed = entries["rule"] == 0
                lengths = np.maximum(entries["tokens"][passed], 0).astype(np.int64)
                tokens = np.frombuffer(file.read(4 * int(lengths.sum())), np.uint32)
                entries["tokens"][passed & far] = UNREAD
                kept = np.repeat(~far[passed], lengths)
                tokens_file.write(tokens[kept].data)
                if marks is not None and marks_file is not None:
                    marks_file.write(np.frombuffer(marks.read(len(tokens)), np.uint8)[kept].data)
                lengths[far[passed]] = 0
                lengths_file.write(lengths.data)
                entries_file.write(entries.data)
                first, total = first + len(entries), total + int(lengths.sum())
        return replace(shard, tokens=total)


def _entries(shard: Shard) -> Iterator[NDArray[np.void]]:
    """Yield the entries of a shard in batches."""
    from tokfmt.text.filters import ENTRY  # a conversion without filters does not import it

    with open(f"{shard.path}.entries", "rb") as file:
        while data := file.read(_TRIMMED * ENTRY.itemsize):
            yield np.frombuffer(data, ENTRY).copy()


@dataclass(frozen=True, slots=True)
class Ingestion:
    """The settings that all tasks of an ingestion share."""

    records: RecordReader
    encoder: Encoder | None  # None for records of IDs
    scratch: Path  # of the shards
    # only texts that pass are encoded, and `shard-000000.entries` has an entry for each record (`filters.ENTRY`)
    sieve: FilterChain | None = None
    # With filters, the budget of a quota. Only texts that may be drawn are filtered. The others count as texts that
    # pass, with no tokens in the shard and `UNREAD` tokens in their entry.
    ration: QuotaBudget | None = None
    # With a ration, the index in the source of the first record of each block. If empty, each block is read after all
    # earlier ones have been counted (`QuotaBudget.trim`).
    firsts: Sequence[int] = ()

    @property
    def loss_masks(self) -> str:
        """Return the description of the marks that are written; "" without any."""
        return self.records.info.loss_masks if self.encoder is None else self.encoder.loss_masks


def ingest_block(job: Ingestion, item: tuple[int, Block]) -> Shard:
    """Write the shard of one block; the task function of `run.execute.run_tasks`."""
    number, block = item
    path = shard_path(job.scratch, number)
    sequences, total, top, skipped, chats = 0, 0, -1, SkippedRecords(), ChatCounts()
    with (
        whole(Path(f"{path}.tokens")) as tokens,
        whole(Path(f"{path}.lengths")) as lengths,
        _reading(job, number, path) as encode,
        ExitStack() as opened,
    ):
        mark = _Marking(job, path, opened)
        for batch in _batches(job, block):
            with _records(job.records, block, batch, sequences):
                ragged, marks, roles = encode(batch)
            tokens.write(np.ascontiguousarray(ragged.tokens, np.uint32).data)
            lengths.write(np.diff(ragged.offsets).data)
            mark(total, len(ragged.tokens), marks)
            chats += ChatCounts.of(roles, marks)
            sequences, total = sequences + len(ragged), total + len(ragged.tokens)
            top, skipped = max(top, largest_id(ragged.tokens)), skipped + batch.skipped
    size = block.stop - block.start
    return Shard(number, path, sequences, total, top, size, skipped, mark.words, chats)


def _batches(job: Ingestion, block: Block) -> Iterator[RecordBatch]:
    """Yield the records of a block in batches, large ones with filters, as each batch of these has a fixed cost."""
    if job.encoder is None:
        yield from job.records.ids(block)
        return
    if job.sieve is None:
        yield from job.records.texts(block)
        return
    texts, skipped, size = list[str](), SkippedRecords(), 0
    for batch in job.records.texts(block):
        texts += batch.texts
        skipped, size = skipped + batch.skipped, size + sum(map(len, batch.texts))
        if size >= _JUDGED:
            yield RecordBatch(texts, skipped=skipped)
            texts, skipped, size = [], SkippedRecords(), 0
    yield RecordBatch(texts, skipped=skipped)


class _Marking:
    """The marks of a shard, in a file from the first batch that has some."""

    def __init__(self, job: Ingestion, path: Path, opened: ExitStack) -> None:
        self.words, self._path, self._opened = job.loss_masks, Path(f"{path}.marks"), opened
        self._file = opened.enter_context(whole(self._path)) if self.words else None

    def __call__(self, before: int, tokens: int, marks: NDArray[np.uint8] | None) -> None:
        """Write the marks of some tokens, None if all of them count, after `before` tokens."""
        if marks is not None and self._file is None:
            self.words = _OF_ROWS
            self._file = self._opened.enter_context(whole(self._path))
            for first, last in windows(0, before):
                self._file.write(bytes([TARGET]) * (last - first))
        if self._file is not None:
            self._file.write(bytes([TARGET]) * tokens if marks is None else marks.data)


@contextmanager
def _reading(job: Ingestion, number: int, path: Path) -> Iterator[Callable[[RecordBatch], Encoded]]:
    """Yield the function that encodes a batch. With filters, it also writes entries, published before the shard."""
    if job.sieve is None or job.encoder is None:
        yield partial(_encoded, job)
        return
    with whole(Path(f"{path}.entries")) as file:
        if job.ration is None:
            yield partial(_passed, job.sieve, job.encoder, file)
        else:
            first = job.firsts[number] if job.firsts else job.ration.first
            yield partial(_rationed, job.sieve, job.encoder, file, job.ration.copy(first))


def _passed(sieve: FilterChain, encoder: Encoder, file: BinaryIO, batch: RecordBatch) -> Encoded:
    """Return the IDs of the texts of a batch that pass the filters, and write an entry for each text."""
    entries, found = _sifted(sieve, encoder, batch.texts)
    file.write(entries.data)
    return found


def _rationed(sieve: FilterChain, encoder: Encoder, file: BinaryIO, ration: QuotaBudget, batch: RecordBatch) -> Encoded:
    """Return the IDs of the texts of a batch that may be drawn and pass the filters, in windows."""
    from tokfmt.text.filters import ENTRY

    entries, every = np.zeros(len(batch.texts), ENTRY), [Encoded(Ragged.of([]))]
    entries["tokens"] = UNREAD
    for a, b in windows(0, len(entries), _RATIONED):
        keys = ration.keys(b - a)
        near = a + np.flatnonzero(keys <= np.uint64(ration.limit))
        entries[near], found = _sifted(sieve, encoder, [batch.texts[k] for k in near.tolist()])
        every.append(found)
        ration.add(entries[a:b], keys)
    file.write(entries.data)
    tokens = [found.ragged.tokens.astype(np.uint32, copy=False) for found in every]
    together = tokens[1] if len(tokens) == 2 else np.concatenate(tokens)  # most batches have one window
    marks = [found.marks for found in every if found.marks is not None]
    roles = reduce(operator.add, (Counter(found.roles) for found in every))
    ragged = Ragged(together, offsets_of(np.maximum(entries["tokens"][entries["rule"] == 0], 0)))
    return Encoded(ragged, np.concatenate(marks) if marks else None, roles)


def _sifted(sieve: FilterChain, encoder: Encoder, texts: Sequence[str]) -> tuple[NDArray[np.void], Encoded]:
    """Return an entry for each text, and the texts that pass, encoded."""
    entries = sieve.entries(texts)
    passed = np.flatnonzero(entries["rule"] == 0)
    with _numbered(passed):
        found = encoder.marked([texts[k] for k in passed.tolist()])
    lengths, judged = np.diff(found.ragged.offsets), entries[passed]
    sieve.judge_tokens(judged, found.ragged, of_text=True)
    entries[passed] = judged
    kept = judged["rule"] == 0
    if not kept.all():
        tokens = np.repeat(kept, lengths)
        marks = None if found.marks is None else found.marks[tokens]
        ragged = Ragged(found.ragged.tokens[tokens], offsets_of(lengths[kept]))
        found = found._replace(ragged=ragged, marks=marks)
    return entries, found


@contextmanager
def _numbered(numbers: NDArray[np.int64]) -> Iterator[None]:
    """Number the text of a ChatTemplateError among all texts of a batch, not among those that are encoded."""
    try:
        yield
    except ChatTemplateError as error:
        raise ChatTemplateError(int(numbers[error.number]), error.what, error.remedy) from error


def _encoded(job: Ingestion, batch: RecordBatch) -> Encoded:
    if job.encoder is not None:
        return job.encoder.marked(list(batch.texts))
    if batch.ragged is None:
        return Encoded(Ragged.of([]))
    ids = batch.ragged.tokens
    if ids.dtype != U32 and len(ids) and (int(ids.min()) < 0 or int(ids.max()) > _LARGEST_ID):
        at = int(np.argmax((ids < 0) | (ids > _LARGEST_ID)))
        raise TokenRangeError("records of ids", int(ids[at]), _LARGEST_ID, at, "Ids of records have at most 32 bits")
    return Encoded(batch.ragged, None if batch.marks is None else unended(batch.marks, 0, batch.ragged.offsets))


class ChatCounts(NamedTuple):
    """Counts of chats that were encoded."""

    roles: Mapping[str, int] = {}  # number of messages of each role; empty for other texts and for IDs
    trained: int = 0  # of their tokens, those that count in the loss

    @staticmethod
    def of(roles: Mapping[str, int], marks: NDArray[np.uint8] | None) -> ChatCounts:
        """Return the counts of messages and of their marks."""
        return ChatCounts(roles, 0 if marks is None or not roles else int(np.count_nonzero(marks & TARGET)))

    def __add__(self, more: object) -> ChatCounts:
        if not isinstance(more, ChatCounts):
            return NotImplemented
        if not more.roles:
            return self
        return ChatCounts(Counter(self.roles) + Counter(more.roles), self.trained + more.trained)


@dataclass(frozen=True, slots=True)
class Shard:
    """A written shard."""

    number: int  # of its block
    path: Path  # without suffix
    sequences: int
    tokens: int
    max_id: int  # -1 without any token
    size: int  # bytes of the block
    skipped: SkippedRecords  # what was left out
    loss_masks: str = ""  # `RecordInfo.loss_masks`; "" for a shard without marks
    chats: ChatCounts = field(default_factory=ChatCounts)

    def facts(self) -> list[object]:
        """Return the facts for a journal."""
        counts = (int(n) for n in (self.sequences, self.tokens, self.max_id, self.size))
        return [*counts, self.skipped.facts(), self.loss_masks, dict(self.chats.roles), self.chats.trained]

    @staticmethod
    def recalled(home: Path, number: int, facts: list[Any]) -> Shard | None:
        """Return the shard that an earlier run wrote to `home`; None if the files differ from the journal."""
        sequences, tokens, max_id, size, skipped, masks, *chats = facts
        path, left_out = shard_path(home, number), SkippedRecords.recalled(skipped)
        shard = Shard(number, path, sequences, tokens, max_id, size, left_out, masks, ChatCounts(*chats))
        sizes = {"tokens": 4 * shard.tokens, "lengths": 8 * shard.sequences}
        sizes |= {"marks": shard.tokens} if masks else {}
        for suffix, size in sizes.items():
            file = Path(f"{shard.path}.{suffix}")
            if not file.is_file() or file.stat().st_size != size:
                return None
        return shard


def shard_path(home: Path, number: int) -> Path:
    """Return the path of the shard of a block, without suffix."""
    return home / f"shard-{number:06d}"


class ShardReader(TokenReader):
    """Read all shards of an ingestion in the order of their blocks. Keeps 8 bytes per sequence."""

    marks_ends = True  # no separator is among the tokens of texts

    def __init__(self, shards: Sequence[Shard], blocks: Sequence[Block] = ()) -> None:
        """Open the shards; `blocks` are their blocks by number, from which a caller derives the files of origin."""
        self.shards, self.blocks = sorted(shards, key=lambda shard: shard.number), blocks
        self._files = [File(f"{shard.path}.tokens") for shard in self.shards]
        masks = next((shard.loss_masks for shard in self.shards if shard.loss_masks), "")
        self._marks = [File(f"{shard.path}.marks") if shard.loss_masks else None for shard in self.shards]
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
        columns, total = self.skipped.columns, int(self._offsets[-1])
        notes = RowFacts.of(columns).notes()
        self.info = Info(
            Layout.DOCUMENTS, U32, count, total, max_id=top, loss_masks=masks, columns=columns, notes=notes
        )

    def padding_counts(self) -> PaddingCounts | None:
        """Return the positions that the columns of records leave out; see `TokenReader.padding_counts`."""
        left_out = RowFacts.of(self.info.columns).left_out
        return PaddingCounts(left_out, self.info.tokens + left_out) if self.info.columns else None

    @property
    def skipped(self) -> SkippedRecords:
        """Return the records and fields that all shards left out."""
        return reduce(operator.add, (shard.skipped for shard in self.shards), SkippedRecords())

    @property
    def chats(self) -> ChatCounts:
        """Return the counts of the chats of all shards."""
        return reduce(operator.add, (shard.chats for shard in self.shards), ChatCounts())

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        out = np.empty(stop - start, np.uint32)
        self._read(self._files, start, stop, out)
        return out

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        if not self.info.loss_masks:
            return None
        out = np.full(stop - start, TARGET, np.uint8)  # A shard without marks has those of plain text.
        self._read(self._marks, start, stop, out)
        return out

    def _read(self, files: Sequence[File | None], start: int, stop: int, out: NDArray[Any]) -> None:
        """Read values at positions `start <= p < stop` from the file of each shard."""
        k, width = int(self._starts.searchsorted(start, side="right")) - 1, out.itemsize
        while k < len(self.shards) and (base := int(self._starts[k])) < stop:
            a, b = max(start - base, 0), min(stop, int(self._starts[k + 1])) - base
            if (file := files[k]) is not None:
                file.read_into(a * width, out[base + a - start : base + b - start].view(np.uint8).data)
            k += 1

    def read_scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Bytes are copied, so a wider array is filled one interval at a time."""
        if out.dtype != self.info.dtype:
            super().read_scattered(begins, places, lengths, out)
            return
        shards = self._starts.searchsorted(begins, side="right") - 1
        room, offsets = out.view(np.uint8).data, 4 * (begins - self._starts[shards])
        starts, ends = 4 * places, 4 * (places + lengths)
        for shard in np.unique(shards[lengths > 0]).tolist():
            every, file = np.flatnonzero(shards == shard), self._files[shard]
            spans = [array[every].tolist() for array in (offsets, starts, ends)]
            # A copy from mapped memory takes half the time of a read call. Each access may map up to 64 KiB, so few are
            # mapped at a time.
            for first, last in windows(0, len(every), _MAPPED):
                with file.descriptor() as descriptor, mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as mapped:
                    mapped.madvise(mmap.MADV_RANDOM)
                    with memoryview(mapped) as held:
                        for at, a, b in zip(*(span[first:last] for span in spans), strict=True):
                            room[a:b] = held[at : at + b - a]

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def close(self) -> None:
        for file in (*self._files, *self._marks):
            if file is not None:
                file.close()
