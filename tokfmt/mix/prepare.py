"""Prepare a recipe of text: read, filter, tokenize, compare and draw documents; then read it as any other recipe.

All workers read the records once. They write the token IDs of records that pass the filters, and an entry for each
record, to files in scratch. `draw` needs only these entries. The documents that are drawn are a view of the files, and
samples are packed and ordered as in every recipe.

Two cases save reading or tokenizing. The documents that are drawn are the same.

- If a source knows its record numbers and is far larger than its quota, tokfmt reads only the records whose keys come
  first. If they do not fill the quota, it reads twice as many more, and so on.
- For any other plain source of at least 32 MiB, a survey of some texts estimates the largest key that the quota needs.
  tokfmt reads the source to its end, and skips the records with larger keys.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import given_options
from tokfmt.base.resources import share
from tokfmt.base.seeds import DRAWN, draws
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import TokenReader, batches, windows
from tokfmt.core.records import Block, RecordBatch, RecordInfo, RecordReader, RecordView, SkippedRecords
from tokfmt.errors import TokfmtError
from tokfmt.files.place import Place
from tokfmt.mix.cache import Column
from tokfmt.mix.deferred import leaves_of
from tokfmt.mix.documents import Documents, TextPart, TokenSource, notes_on_quota, passes_in_quota, quota_of, with_quota
from tokfmt.mix.draft import TextRecipe, TextSource, filters_of
from tokfmt.mix.draw import Drawing, Kept, draw, in_order
from tokfmt.mix.rejects import Rejects
from tokfmt.mix.report import Row, row_of, row_of_ids
from tokfmt.mix.samples import Samples, separator_of
from tokfmt.model.select import Chosen, Concat, Picked
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import encoder_of, ingest, note_on_chats
from tokfmt.source.open import open_datasets
from tokfmt.source.request import SourceRequest, parse_selection
from tokfmt.source.stored import Source as Opened
from tokfmt.text.filters import ENTRY, FilterChain
from tokfmt.text.ingest import QuotaBudget, Shard, ShardReader
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_SHARE = 4  # hashes may take this fraction, 1/4, of the memory that one result may take
_RANGE = 1 << 16  # sequences of token IDs that one worker hashes at a time
_SPARE = 8  # bytes read first for each token of a quota: text has about 4 bytes per token, and some is left out
_FEW = 3  # tokfmt reads up to 1/3 of a source record by record; to read more, it reads the source to its end
_BLOCK = 1 << 22
_LISTED = 1 << 12  # rejects whose equal texts are looked up together
_SURVEYED, _PLACES, _TEXTS = 1 << 25, 16, 64  # a source of 32 MiB is surveyed in 16 places, up to 64 texts in each


@dataclass(frozen=True, slots=True)
class Prepared:
    """A recipe of text whose documents are drawn."""

    reader: TokenReader  # the samples or documents of the recipe; empty if this is a task
    report: list[Row]  # one row per source
    # each opened dataset of text, with the records and fields that were left out of it
    skipped: list[tuple[Opened, SkippedRecords]]
    notes: list[str]  # on quotas that documents do not fill


class ReadRecords(NamedTuple):
    """All records, or some records, of a source after they were read."""

    axis: TokenReader  # of the records that pass the filters, in the order of entries
    entries: NDArray[np.void]  # ENTRY[records]; may be mapped
    sieve: FilterChain
    numbers: NDArray[np.int64] | None = None  # of each record in the source; None if these are all records, in order
    keys: NDArray[np.uint64] | None = None  # that each record is drawn by; None if these are all records
    files: tuple[TextPart, ...] = ()  # of the source, with the range of records of each

    def order(self, seed: int) -> Iterable[NDArray[np.int64]]:
        """Return the indices of entries in the order in which they are drawn, some at a time."""
        if self.keys is None:
            return in_order(seed, len(self.entries))
        return [np.argsort(self.keys, kind="stable")]

    def those(self, mask: NDArray[np.bool_]) -> tuple[TokenReader, NDArray[np.int64]]:
        """Return the sequences of the records in a mask, and the numbers of these records, in order of the source."""
        among = mask[self.entries["rule"] == 0]
        if self.numbers is None:
            return Chosen(self.axis, lambda a, b: among[a:b]), np.flatnonzero(mask)
        numbers = self.numbers[mask]
        order = np.argsort(numbers)
        return Picked(self.axis, np.flatnonzero(among)[order]), numbers[order]


class SomeRecords(RecordView):
    """Some records of a reader, which reads only these, one by one."""

    def __init__(self, records: RecordReader, numbers: NDArray[np.int64]) -> None:
        super().__init__(records)
        self.numbers = numbers

    @property
    def info(self) -> RecordInfo:  # type: ignore[override]
        return replace(self.records.info, records=len(self.numbers), size=len(self.numbers))

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        """None, as their records have other numbers."""
        return ()

    def count(self) -> int:
        return len(self.numbers)

    def count_up_to(self, last: int) -> int:  # noqa: ARG002
        return len(self.numbers)

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        every = self.records.info
        step = max(1, size * max(1, every.records or 1) // max(1, every.size))
        return [Block(0, a, b, a, b - a) for a, b in windows(first, self.count() if last is None else last, step)]

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return self._each(block, self.records.texts)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        return self._each(block, self.records.ids)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        return self._each(block, self.records.lines)

    def _each(self, block: Block, read: Callable[[Block], Iterator[RecordBatch]]) -> Iterator[RecordBatch]:
        for number in self.numbers[block.start : block.stop].tolist():
            for block_of_record in self.records.blocks(_BLOCK, number, number + 1):
                yield from read(block_of_record)

    def record(self, index: int) -> str | list[int]:
        return self.records.record(int(self.numbers[index]))


def prepared(
    draft: TextRecipe,
    tokenizer: TokenizerHandle | None,
    workers: Workers,
    progress: Progress,
    recipe_number: int = 0,
    rejects: Path | None = None,
) -> Prepared:
    """Prepare a recipe of text; the files in scratch have to stay while the reader is used."""
    return Preparation(draft, tokenizer, workers, progress, recipe_number, rejects).run()


def prepared_in(directory: Path, draft: TextRecipe, jobs: int, progress: Progress) -> TokenReader:
    """Prepare a recipe of text in a directory, and return its reader; the directory has to stay while it is used."""
    with make_executor("threads", jobs) as executor:
        return prepared(draft, draft.tokenizer, Workers(executor, jobs, directory), progress).reader


class Preparation:
    """The preparation of a recipe of text; the arguments are those of `prepared`."""

    def __init__(
        self,
        draft: TextRecipe,
        tokenizer: TokenizerHandle | None,
        workers: Workers,
        progress: Progress,
        recipe_number: int,
        rejects: Path | None,
    ) -> None:
        self.draft, self.tokenizer, self.workers, self.progress = draft, tokenizer, workers, progress
        self.recipe_number = recipe_number
        self.home = workers.scratch / f"prepared-{recipe_number}"
        self.home.mkdir(exist_ok=True)
        self.matchers = draft.matchers()
        listed = rejects is not None
        self.kept = Kept(self.home, share() // _SHARE, numbered=listed) if draft.file.dedup == "exact" else None
        self.rejects = Rejects(rejects, draft.file) if rejects is not None else None
        self.report = list[Row]()
        self.skipped = list[tuple[Opened, SkippedRecords]]()
        self.notes = list[str]()

    def run(self) -> Prepared:
        """Prepare every source; a task only tokenizes its part of the texts."""
        file = self.draft.file
        if self.workers.share is not None:
            for number, text in enumerate(self.draft.sources):
                if isinstance(text, TextSource):
                    self._share(number, text)
            return Prepared(ShardReader([]), [], self.skipped, [])
        sources = [self._source(number, source) for number, source in enumerate(self.draft.sources)]
        reader: TokenReader
        if file.seq_len is not None:
            reader = Samples(file, sources)
        else:
            reader = Documents(file, sources, separator_of(file, sources))
        return Prepared(reader, self.report, self.skipped, self.notes)

    def _source(self, number: int, source: TextSource | TokenSource) -> TokenSource:
        """Return a source of the recipe with the documents that were drawn from it."""
        quota = quota_of(self.draft.file, number)
        if isinstance(source, TextSource):
            read, drawing = self._some(number, source) or self._all(number, source)
            if self.rejects is not None:
                self._reject(self.rejects, number, source, read, drawing)
            return self._drawn(number, source, read, drawing)
        if self.kept is not None or self.draft.file.sources[number].filter:
            read, drawing = self._draw(number, self._compared(number, source))
            if self.rejects is not None:
                self._reject(self.rejects, number, source, read, drawing)
            return self._drawn(number, source, read, drawing)
        done = source if quota is None else with_quota(self.draft.file, number, source, quota)
        self._note(source.name, done.notes[len(source.notes) :])
        self.report.append(row_of_ids(done, quota))
        return done

    def _note(self, name: str, notes: Iterable[str]) -> None:
        self.notes += [f"{printable(name)}: {note}" for note in notes]

    def _note_chats(self, source: TextSource, shards: Sequence[ShardReader]) -> None:
        if note := note_on_chats(shards):
            self._note(source.name, [f"read {note}"])

    def _draw(self, number: int, read: ReadRecords) -> tuple[ReadRecords, Drawing]:
        file = self.draft.file
        quota = quota_of(file, number)
        return read, draw(read.entries, read.order(file.seed), quota, number, self.kept, read.numbers)

    def _share(self, number: int, source: TextSource) -> None:
        """Tokenize this task's part of the records that are read first; --finish reads what a quota needs beyond it."""
        waves = self._waves(number, source)
        if waves:
            self.skipped.append((source.parts[0], self._wave(number, source, 0, waves[0])[0].skipped))
        else:
            shards = self._read(f"{number}", source, None)
            self.skipped += [(part, tokenized.skipped) for part, tokenized in zip(source.parts, shards, strict=True)]

    def _all(self, number: int, source: TextSource) -> tuple[ReadRecords, Drawing]:
        """Read all records of a source of text, and draw from them."""
        before, self.kept = self.kept, self.kept.branch() if self.kept is not None else None
        done = self._drawn_of_all(number, source, f"{number}", self._ration(number, source))
        if done[1].short:
            self.kept = before
            done = self._drawn_of_all(number, source, f"{number}-whole", None)
        return done

    def _ration(self, number: int, source: TextSource) -> QuotaBudget | None:
        """Return the limit on the tokens of a source, twice its quota with `dedup`; None if it has no quota."""
        quota = quota_of(self.draft.file, number)
        if quota is None:
            return None
        ration = QuotaBudget(self.draft.file.seed, quota if self.kept is None else 2 * quota)
        plain = source.entry.select is None and all(records.info.random_access for records in source.readers)
        if plain and source.size >= _SURVEYED:
            with contextlib.suppress(TokfmtError):  # reading the source raises the first error in order
                self._foresee(ration, source)
        return ration

    def _foresee(self, ration: QuotaBudget, source: TextSource) -> None:
        """Set the largest key that a ration reads; if the quota needs more, all is read again (`Drawing.short`)."""
        minimum, each = self._minimum_tokens(source)
        if minimum <= 0:
            return
        # The documents that are drawn can have fewer tokens than the average. The margin is 5 standard errors.
        wanted = ration.quota / minimum * (1 + 5 * math.sqrt(each / max(1, ration.quota)))
        ration.limit = min(ration.limit, int(wanted * (1 << 64)))

    def _minimum_tokens(self, source: TextSource) -> tuple[float, float]:
        """Estimate the minimum number of tokens of a source after its filters, and the mean tokens per record.

        The estimate uses some records from 16 places. It is the mean number of tokens per byte of a line, or per record
        if the number of records is known, less 3 standard errors. It is 0 if there are too few places.
        """
        sieve, tokens, sizes, records, every = self._sieve(source), list[float](), list[float](), 0.0, 0
        for reader in source.readers:
            record_count, encoder = reader.info.records, encoder_of(reader, self.tokenizer)
            every += reader.info.size if record_count is None else record_count
            for block in reader.blocks(-(-source.size // _PLACES)):
                texts = next((batch.texts[:_TEXTS] for batch in reader.texts(block) if batch.texts), ())
                passed = np.flatnonzero(sieve.entries(texts)["rule"] == 0).tolist()
                encoded = encoder.encode([texts[k] for k in passed]) if encoder is not None else ()
                size = len(texts)
                if record_count is None:
                    lines = next((batch.lines[:size] for batch in reader.lines(block) if batch.lines), ())
                    size = sum(map(len, lines), len(lines))
                # A place represents its whole block. The texts that are read are a part of it, by bytes or characters.
                scale = (block.stop - block.start) / max(1, size if record_count is None else sum(map(len, texts)))
                tokens.append(sum(map(len, encoded)) * scale)
                sizes.append(size * scale)
                records += len(texts) * scale
        places, total = len(sizes), sum(sizes)
        if places < _PLACES // 2 or not total or not records:
            return 0.0, 0.0
        mean = sum(tokens) / total
        residual = sum((a - mean * b) ** 2 for a, b in zip(tokens, sizes, strict=True))
        minimum = mean - 3 * math.sqrt(residual * places / (places - 1)) / total
        return minimum * every, sum(tokens) / records

    def _drawn_of_all(
        self, number: int, source: TextSource, name: str, ration: QuotaBudget | None
    ) -> tuple[ReadRecords, Drawing]:
        shards = self._read(name, source, ration)
        entries = _joined(
            [shard for tokenized in shards for shard in tokenized.shards], self.home / f"entries-{number}"
        )
        read = ReadRecords(_concat(shards), entries, self._sieve(source), files=_files(source, shards))
        done = self._draw(number, read)
        if not done[1].short:
            self._note_chats(source, shards)
            self.skipped += [(part, tokenized.skipped) for part, tokenized in zip(source.parts, shards, strict=True)]
        return done

    def _read(self, name: str, source: TextSource, ration: QuotaBudget | None) -> list[ShardReader]:
        """Tokenize the records of each part in order, up to the limit of a ration."""
        self.progress.phase(f"tokenizing {printable(source.name)}", source.size // self.workers.tasks, "bytes")
        shards = list[ShardReader]()
        for k, (records, window) in enumerate(zip(source.readers, selected_records(source), strict=True)):
            shards.append(self._ingest(f"{name}-{k}", source, records, *window, ration))
        return shards

    def _some(self, number: int, source: TextSource) -> tuple[ReadRecords, Drawing] | None:
        """Read the records of a source that are drawn first, until its quota is full; None if all have to be read."""
        waves, skipped = list[ReadRecords](), SkippedRecords()
        for bounds in self._waves(number, source):
            shards, numbers, keys = self._wave(number, source, len(waves), bounds)
            skipped += shards.skipped
            entries = _joined(shards.shards, self.home / f"entries-{number}-{len(waves)}")
            waves.append(ReadRecords(shards, entries, self._sieve(source), numbers, keys))
            read = _together(waves)._replace(files=_files(source, ()))
            before, self.kept = self.kept, self.kept.branch() if self.kept is not None else None
            done = self._draw(number, read)
            if not done[1].looked.all():
                self.skipped.append((source.parts[0], skipped))
                return done
            self.kept = before
        return None

    def _waves(self, number: int, source: TextSource) -> list[tuple[int, int]]:
        """Return the ranges of keys to read in order until a quota is full; [] if all records have to be read."""
        quota, info = quota_of(self.draft.file, number), source.readers[0].info
        if quota is None or len(source.parts) > 1 or source.entry.select or not info.random_access or not info.records:
            return []
        share_, bounds = quota * _SPARE / max(1, info.size), [0]
        while share_ * _FEW < 1:
            bounds.append(int(share_ * (1 << 64)))
            share_ *= 2
        return list(itertools.pairwise(bounds))

    def _wave(
        self, number: int, source: TextSource, wave: int, bounds: tuple[int, int]
    ) -> tuple[ShardReader, NDArray[np.int64], NDArray[np.uint64]]:
        """Tokenize the records with keys in a range; return their token IDs, numbers and keys."""
        records = source.readers[0]
        numbers, keys = _between(self.draft.file.seed, records.count(), *bounds)
        self.progress.phase(f"tokenizing {printable(source.name)}", len(numbers) // self.workers.tasks, "documents")
        return self._ingest(f"{number}-part-{wave}", source, SomeRecords(records, numbers), 0, None), numbers, keys

    def _reject(
        self,
        rejects: Rejects,
        number: int,
        source: TextSource | TokenSource,
        read: ReadRecords,
        drawing: Drawing,
    ) -> None:
        """List the records that were drawn and not kept, in order of the source; read them again for that."""
        out = np.flatnonzero(drawing.looked & ~drawing.chosen)
        numbers = out if read.numbers is None else read.numbers[out]
        if read.numbers is not None:
            order = np.argsort(numbers)
            out, numbers = out[order], numbers[order]
        self.progress.phase(f"writing rejects of {printable(source.name)}", len(out), "documents")
        contents: Iterator[tuple[str | list[int], int]]
        if isinstance(source, TextSource):
            rejects.begin(number, source.name, read.files)
            contents = self._texts(source, numbers, whole=read.numbers is None)
        else:
            rejects.begin(number, source.name, *self._parts_of_ids(number, source))
            left, size = drawing.looked & ~drawing.chosen, len(out)
            axis = Chosen(source.reader, lambda a, b: left[a:b])
            contents = ((ids.tolist(), -1) for batch in batches(axis, 0, size) for ids in batch)
        for a, b in windows(0, len(out), _LISTED):
            entries = read.entries[out[a:b]]
            rejects.add(read.sieve, entries, numbers[a:b], itertools.islice(contents, b - a), self.kept)
            self.progress.advance(b - a)

    def _parts_of_ids(self, number: int, source: TokenSource) -> tuple[tuple[TextPart, ...], int]:
        """Return the datasets of a source of token IDs by its paths, and the number of sequences before its first."""
        (leaves, before), entry = leaves_of(source), self.draft.file.sources[number]
        counts = [leaf.info.sequences for leaf in leaves]
        if len(counts) < len(source.paths):  # files that are read as one dataset: each is counted alone
            request = SourceRequest((), entry.format, entry.eos, given_options(entry.options), entry.text, entry.split)
            alone = [sum(map(_sequences, open_datasets(replace(request, paths=(path,))))) for path in source.paths]
            counts = alone if sum(alone) == sum(counts) else counts
        parts = [TextPart(path, source.format, 0, count) for path, count in zip(source.paths, counts, strict=False)]
        return tuple(parts), before

    def _texts(self, source: TextSource, numbers: NDArray[np.int64], *, whole: bool) -> Iterator[tuple[str, int]]:
        """Yield some texts, each with the byte offset of its line or -1; `whole`, the source is read once."""
        if not whole:
            some = SomeRecords(source.readers[0], numbers)
            for batch in some.texts(Block(0, 0, len(numbers))):
                yield from _begun(batch)
            return
        wanted, next_wanted = np.append(numbers, -1), 0
        every = (
            text_and_byte
            for records, window in zip(source.readers, selected_records(source), strict=True)
            for block in records.blocks(_BLOCK, *window)
            for batch in records.texts(block)
            for text_and_byte in _begun(batch)
        )
        for number, text_and_byte in enumerate(every):
            if number == wanted[next_wanted]:
                yield text_and_byte
                next_wanted += 1

    def _ingest(
        self,
        name: str,
        source: TextSource,
        records: RecordReader,
        first: int,
        last: int | None,
        ration: QuotaBudget | None = None,
    ) -> ShardReader:
        return ingest(
            records,
            encoder_of(records, self.tokenizer),
            self.workers,
            first=first,
            last=last,
            name=f"source-{self.recipe_number}-{name}",
            sieve=self._sieve(source),
            ration=ration,
            progress=lambda shard: self.progress.advance(shard.size),
        )

    def _sieve(self, source: TextSource) -> FilterChain:
        chats = any(reader.info.chats for reader in source.readers)
        return FilterChain(source.filters, self.kept is not None, self.matchers, chats)

    def _compared(self, number: int, source: TokenSource) -> ReadRecords:
        """Return the entries of a source of token IDs, with a hash of each sequence if equal ones are left out."""
        filters = filters_of(self.draft.file, self.draft.file.sources[number])
        sieve = FilterChain(filters, self.kept is not None, self.matchers)
        count, path, workers = source.info.sequences, self.home / f"entries-{number}", self.workers
        self.progress.phase(f"comparing {printable(source.name)}", source.info.tokens, "tokens")
        with open(path, "wb") as file:
            file.truncate(count * ENTRY.itemsize)
        ranges = list(windows(0, count, _RANGE))
        for tokens in workers.map(_look_at, (source.reader, path, sieve), ranges):
            self.progress.advance(tokens)
        entries = np.memmap(path, ENTRY, "r") if count else np.empty(0, ENTRY)
        passed = entries["rule"] == 0
        axis = source.reader if passed.all() else Chosen(source.reader, lambda a, b: passed[a:b])
        return ReadRecords(axis, entries, sieve)

    def _drawn(self, number: int, source: TextSource | TokenSource, read: ReadRecords, drawing: Drawing) -> TokenSource:
        """Return a source with the documents that were drawn, in as many passes as its quota needs; report its row."""
        file, quota = self.draft.file, quota_of(self.draft.file, number)
        chosen, looked, tally, _ = drawing
        names, text = [other.name for other in self.draft.sources], isinstance(source, TextSource)
        self.report.append(row_of(source.name, names, read.sieve, tally, quota, text=text))
        whole, rest, taken, beyond = 1, 0, tally.tokens, tally.beyond
        if quota is not None and looked.all():
            whole, rest = passes_in_quota(file, number, source.name, tally.tokens, quota)
            taken = whole * tally.tokens
        masks = [chosen] * whole
        if rest:  # the last pass draws a part of the kept documents, in the same order
            again = np.zeros(len(chosen), ENTRY)
            again["tokens"], again["rule"] = read.entries["tokens"], ~chosen
            drawn_again = draw(again, read.order(file.seed), rest, number, None)
            masks.append(drawn_again.chosen)
            taken, beyond = taken + drawn_again.tally.tokens, drawn_again.tally.beyond
        if quota is not None:
            self._note(source.name, notes_on_quota(file, source.name, quota, taken, beyond))
        parts = [read.those(mask) for mask in masks]
        reader, column = _concat([part for part, _ in parts]), Column(np.concatenate([numbers for _, numbers in parts]))
        if isinstance(source, TokenSource):
            return replace(
                source,
                reader=reader,
                drawn=column,
                state=[source.state, "drawn", file.seed],
                facts={**source.facts, "dedup": file.dedup, "quota": quota},
                whole=source.reader,
            )
        return TokenSource(
            source.name,
            source.paths,
            source.parts[0].format.name,
            reader,
            source.eos_id,
            source.state,
            {"text": source.facts},
            drawn=column,
            files=read.files,
            masked=any(records.info.chats == "masked" for records in source.readers),
        )


def _begun(batch: RecordBatch) -> Iterator[tuple[str, int]]:
    """Yield the texts of a batch, each with the byte offset of its line; -1 if it has none."""
    begins = itertools.repeat(-1) if batch.begins is None else batch.begins.tolist()
    return zip(batch.texts, begins, strict=False)


def _sequences(part: Opened) -> int:
    return part.reader.count() if isinstance(part.reader, RecordReader) else part.reader.info.sequences


def _concat(readers: Sequence[TokenReader]) -> TokenReader:
    return readers[0] if len(readers) == 1 else Concat(readers)


def selected_records(source: TextSource) -> list[tuple[int, int | None]]:
    """Return the selected records of each part as first and last + 1; last + 1 is None without a selection."""
    if source.entry.select is None:
        return [(0, None)] * len(source.parts)
    bounds = offsets_of([records.count() for records in source.readers]).tolist()
    first, last = parse_selection(source.entry.select, bounds[-1])
    return [(min(max(first, a), b) - a, min(max(last, a), b) - a) for a, b in itertools.pairwise(bounds)]


def _files(source: TextSource, shards: Sequence[ShardReader]) -> tuple[TextPart, ...]:
    """Return the files of a source, with the range of records of each.

    Readers count the records of each file. If they do not know them and the whole source was read, the entries do.
    """
    parts = list[TextPart]()
    for k, (part, records, (first, last)) in enumerate(
        zip(source.parts, source.readers, selected_records(source), strict=True)
    ):
        if not records.files:
            files, counts = part.paths[:1], [records.count()]
        elif shards and (first, last) == (0, None) and records.info.records is None:
            sizes = [Path(f"{shard.path}.entries").stat().st_size // ENTRY.itemsize for shard in shards[k].shards]
            numbers = np.array([block.file for block in shards[k].blocks], np.int64)
            files, counts = tuple(records.files), np.bincount(numbers, sizes, len(records.files)).astype(int).tolist()
        else:
            files, counts = tuple(records.files), list(records.file_counts())
        for path, (a, b) in zip(files, itertools.pairwise(offsets_of(counts).tolist()), strict=True):
            start, stop = min(max(first, a), b), b if last is None else min(max(last, a), b)
            parts.append(TextPart(path, part.format.name, start - a, stop - start))
    return tuple(parts)


def _between(seed: int, count: int, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the records with keys `low <= key < high`, in order of their numbers, and these keys."""
    numbers, keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for a, b in windows(0, count):
        drawn = draws(seed, DRAWN, a, b)
        inside = np.flatnonzero((drawn >= np.uint64(low)) & (drawn < np.uint64(high)))
        numbers.append(inside + a)
        keys.append(drawn[inside])
    return np.concatenate(numbers), np.concatenate(keys)


def _together(waves: Sequence[ReadRecords]) -> ReadRecords:
    """Join records that were read in several waves."""
    numbers = [wave.numbers for wave in waves if wave.numbers is not None]
    keys = [wave.keys for wave in waves if wave.keys is not None]
    return ReadRecords(
        _concat([wave.axis for wave in waves]),
        np.concatenate([wave.entries for wave in waves]),
        waves[0].sieve,
        np.concatenate(numbers),
        np.concatenate(keys),
    )


def _joined(shards: Sequence[Shard], path: Path) -> NDArray[np.void]:
    """Copy the entries of all blocks to one file, and map it."""
    with open(path, "wb") as file:
        for shard in shards:
            with open(f"{shard.path}.entries", "rb") as entries:
                while piece := entries.read(1 << 20):
                    file.write(piece)
    return np.memmap(path, ENTRY, "r") if path.stat().st_size else np.empty(0, ENTRY)


def _look_at(shared: tuple[TokenReader, Path, FilterChain], interval: tuple[int, int]) -> int:
    """Write the entries of some sequences of token IDs, and return their number of tokens."""
    from xxhash import xxh3_128_digest

    (reader, path, sieve), (first, last) = shared, interval
    entries, done, tokens = np.zeros(last - first, ENTRY), 0, 0
    for batch in batches(reader, first, last):
        lengths = np.diff(batch.offsets)
        part = entries[done : done + len(lengths)]
        part["chars"], tokens = lengths, tokens + int(lengths.sum())
        sieve.judge_tokens(part, batch, of_text=False)
        if sieve.hashed:
            contents = (np.ascontiguousarray(sequence, "<u4").data for sequence in batch)
            words = np.frombuffer(b"".join(xxh3_128_digest(content, seed=1) for content in contents), "<u8").reshape(
                -1, 2
            )
            part["high"], part["low"] = words[:, 0], words[:, 1]
        done += len(lengths)
    with open(path, "r+b") as file:
        file.seek(first * ENTRY.itemsize)
        file.write(entries.data)
    return tokens
