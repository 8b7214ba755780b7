"""Copy records to JSON Lines: validate and select them, copy JSON lines as they are, and write a line for each text.

To deal lines to splits and to shuffle them like sequences, `LineReader` presents them as a token axis of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.convert.arrangement import Arrangement, Shares, SplitTarget, arranged, deal
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.losses import left_splits, record_losses
from tokfmt.commands.convert.publish import Workplace
from tokfmt.commands.convert.report import PortionCounts, Written
from tokfmt.commands.convert.request import Notes, Request
from tokfmt.commands.convert.selection import list_rest_of_lines, query_of, selected_lines
from tokfmt.commands.convert.write import region_size, write_regions
from tokfmt.core.format import Receipt, Region, Target, TokenWriter
from tokfmt.core.output import Output, preallocate, whole
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import U8, Info, Layout, TokenReader, windows
from tokfmt.core.records import Block, RecordReader, SkippedRecords
from tokfmt.errors import ConversionError, OptionError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.jsonl.lines import compression_of_name, join
from tokfmt.run.plan import Kind, Workers, journaled
from tokfmt.run.progress import Progress
from tokfmt.source.request import parse_selection
from tokfmt.source.stored import paths_of, records_of
from tokfmt.text.ingest import encoded_batches

_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class Copied:
    """The records that were copied."""

    counts: Sequence[int]  # of each reader
    tokens: int | None  # None for text
    blocks: Sequence[tuple[int, Block]]  # each with the number of its reader
    skipped: Mapping[int, SkippedRecords]  # by the number of the reader

    @property
    def records(self) -> int:
        """Number of records of all readers."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class _Part:
    number: int
    path: Path
    reader: int
    records: int
    tokens: int | None
    size: int
    skipped: SkippedRecords


def copy_lines(
    request: Request, inputs: Inputs, destination: Destination, place: Workplace, workers: Workers, notes: Notes
) -> Written:
    """Write the selected records of all sources, one line each."""
    sources = inputs.sources
    readers = records_of(sources)
    first = destination.portions[0]
    path = place.publishers[first.destination].path
    query = query_of(request.select)
    is_plain = request.arrangement.plain and query is None
    copy = path if is_plain else copies_in(workers) / "lines"
    select = None if query is not None else request.select
    copied = copy_records(readers, copy, select, paths_of(sources), workers, notes)
    skipped = [(source, copied.skipped[k]) for k, source in enumerate(sources)]
    losses = record_losses(skipped, destination.format, request.source.allow_loss)
    losses.found.extend(left_splits(sources, request.source))
    accepted = losses.accepted(request)
    counts = [PortionCounts(first, copied.records, copied.tokens, None, len(copied.blocks))]
    if not is_plain:
        lines: TokenReader = LineReader(copy, copied.records)
        request = replace(request, arrangement=_dealt(request.arrangement, readers, copied, workers, notes))
        if query is not None:
            taken = selected_lines(query, lines, sources, copied.counts, notes, inputs.tokenizer, workers.jobs)
            if (shares := request.arrangement.shares) is not None and shares.dealt is not None:
                shares = replace(shares, dealt=shares.dealt[taken.is_taken])
                request = replace(request, arrangement=replace(request.arrangement, shares=shares))
            if request.rejects is not None:
                list_rest_of_lines(workers.scratch / "rejects", taken)
            lines = taken.axis
        if (shares := request.arrangement.shares) is not None and shares.amounts:
            if any(amount is not None and amount.of_tokens for amount in shares.amounts):
                raise OptionError("--split: tokens of lines are not counted. Give a number of lines", name="split")
            shares = deal(shares, lines, workers, notes)
            request = replace(request, arrangement=replace(request.arrangement, shares=shares))
        counts = [_write_lines(request, lines, portion, place, workers, notes) for portion in destination.portions]
        if len(counts) == 1 and query is None:
            counts = [replace(counts[0], tokens=copied.tokens)]
    elif request.verify:
        from tokfmt.commands.convert.verify import verify_records  # fingerprints need numpy.random and xxhash

        compared = verify_records(copied_text, readers, copied.blocks, path, workers, notes, records=copied.records)
        counts = [replace(counts[0], compared=compared)]
    if request.verify and request.select is None:
        from tokfmt.commands.convert.verify import verify_counts

        verify_counts((source, copied.counts[k], None) for k, source in enumerate(sources))
    return Written(counts, accepted)


def _dealt(
    arrangement: Arrangement, readers: Sequence[RecordReader], copied: Copied, workers: Workers, progress: Progress
) -> Arrangement:
    """Return the arrangement with the split of each line, by its text or its IDs, not by its other fields."""
    shares = arrangement.shares
    if shares is None or shares.by != "content":
        return arrangement
    progress.phase("dealing lines to splits", sum(block.stop - block.start for _, block in copied.blocks), "bytes")
    parts, job = dict[int, NDArray[np.unsignedinteger]](), (list(readers), shares)
    for number, dealt in workers.map(_deal_block, job, list(enumerate(copied.blocks))):
        parts[number] = dealt
        block = copied.blocks[number][1]
        progress.advance(block.stop - block.start)
    found = np.concatenate([np.empty(0, np.uint8), *(parts[number] for number in range(len(parts)))])
    if len(found) != copied.records:
        raise ConversionError(
            f"a reader gives {copied.records:,} JSON lines, but {len(found):,} contents. This is a bug in the format"
        )
    return replace(arrangement, shares=replace(shares, dealt=found))


def _deal_block(
    job: tuple[list[RecordReader], Shares], item: tuple[int, tuple[int, Block]]
) -> tuple[int, NDArray[np.unsignedinteger]]:
    from tokfmt.commands.compare.fingerprint import fingerprints, fingerprints_of_texts

    (readers, shares), (number, (k, block)) = job, item
    prints = [np.empty((0, 2), np.uint64)]
    if readers[k].info.is_text:
        prints += [fingerprints_of_texts(map(str.encode, batch.texts)) for batch in readers[k].texts(block)]
    else:
        prints += [fingerprints(ragged) for ragged in encoded_batches(readers[k], None, block)]
    return number, shares.of_contents(np.concatenate(prints))


def _write_lines(
    request: Request, lines: TokenReader, portion: SplitTarget, place: Workplace, workers: Workers, notes: Notes
) -> PortionCounts:
    """Write the lines of one portion in their order, and read them back if the request says so."""
    path, workers = place.of(portion, workers)
    with arranged(lines, request.arrangement, portion, Target(), workers, notes) as view:
        writer, size = LineWriter(path, workers.jobs, keep=workers.journal.keeps), region_size(request, view)
        counts = write_regions(view, writer, portion, size, workers, notes)
        if request.verify:
            from tokfmt.commands.convert.verify import verify_records

            spans = list(windows(0, view.info.tokens, size))
            compared = verify_records(dealt_text, view, spans, path, workers, notes)
            counts = replace(counts, compared=compared)
    return replace(counts, tokens=None)


def selected_blocks(
    readers: Sequence[RecordReader], selection: str | None, paths: Sequence[Place] = ()
) -> list[tuple[int, Block]]:
    """Return the blocks of all readers that hold the selected records, in order, each with the number of its reader."""
    if selection is None:
        return [(k, block) for k, reader in enumerate(readers) for block in reader.blocks(_BLOCK)]
    counts = [reader.count() for reader in readers]
    first, last = parse_selection(selection, sum(counts), paths)
    blocks, base = [], 0
    for k, (reader, count) in enumerate(zip(readers, counts, strict=True)):
        a, b = max(first - base, 0), min(last - base, count)
        if a < b:
            blocks += [(k, block) for block in reader.blocks(_BLOCK, a, b)]
        base += count
    return blocks


def copy_records(
    readers: Sequence[RecordReader],
    path: Path,
    selection: str | None,
    paths: Sequence[Place],
    workers: Workers,
    progress: Progress,
) -> Copied:
    """Write the selected records of all readers to `path`, one line each, compressed as its suffix says."""
    blocks = selected_blocks(readers, selection, paths)
    progress.phase("copying", sum(block.stop - block.start for _, block in blocks), "bytes")
    parts, home = [], copies_in(workers)
    home.mkdir(exist_ok=True)
    kind: Kind[tuple[int, tuple[int, Block]], _Part] = Kind(
        "copy",
        number=lambda item: item[0],
        finished=lambda part: part.number,
        facts=lambda part: [part.reader, part.records, part.tokens, part.size, part.skipped.facts()],
        recall=lambda number, facts: _recalled(number, home, *facts),
    )
    for part in journaled(kind, _copy_block, (list(readers), home), list(enumerate(blocks)), workers):
        parts.append(part)
        progress.advance(part.size)
    parts.sort(key=lambda part: part.number)
    journal, copies = workers.journal, [part.path for part in parts]
    journal.sync()
    journal.once("copied", lambda: join(copies, path, workers.jobs, keep=journal.keeps))
    skipped, counts = dict.fromkeys(range(len(readers)), SkippedRecords()), [0] * len(readers)
    for part in parts:
        skipped[part.reader] += part.skipped
        counts[part.reader] += part.records
    counted_tokens = [part.tokens for part in parts if part.tokens is not None]
    tokens = (
        sum(counted_tokens)
        if len(counted_tokens) == len(parts) and all(not reader.info.is_text for reader in readers)
        else None
    )
    if blank := sum(one.blank for one in skipped.values()):
        progress.note(f"blank lines, which are not documents: {blank:,}")
    return Copied(counts, tokens, blocks, skipped)


def _recalled(
    number: int, home: Path, reader: int, records: int, tokens: int | None, size: int, skipped: Sequence[Any]
) -> _Part:
    return _Part(number, home / f"{number:06d}", reader, records, tokens, size, SkippedRecords.recalled(skipped))


def copies_in(workers: Workers) -> Path:
    """Return the directory in scratch that holds the copied blocks; `copy_records` makes it."""
    return workers.scratch / "done-copies"


def _copy_block(shared: tuple[list[RecordReader], Path], item: tuple[int, tuple[int, Block]]) -> _Part:
    readers, scratch = shared
    number, (k, block) = item
    path = scratch / f"{number:06d}"
    records, skipped = 0, SkippedRecords()
    tokens: int | None = 0
    with whole(path) as out:
        for batch in readers[k].lines(block):
            for line in batch.lines:
                if _LINE_FEED in line:
                    raise ConversionError(
                        "a record that its reader gives as a JSON line has a line feed in it. "
                        "This is a bug in the format"
                    )
                out.write(line + _LINE_FEED)
            records, skipped = records + len(batch.lines), skipped + batch.skipped
            tokens = None if tokens is None or batch.tokens is None else tokens + batch.tokens
    return _Part(number, path, k, records, tokens, block.stop - block.start, skipped)


_LINE_FEED = b"\n"


class LineReader(TokenReader):
    """The lines of a file in scratch as a token axis: a byte is a token, and a line with its end a sequence."""

    def __init__(self, path: Path, lines: int) -> None:
        self._file = File(path)
        self._offsets = np.zeros(lines + 1, np.int64)
        at = 1
        for a, b in windows(0, self._file.size):
            ends = np.flatnonzero(self._file.array(a, b - a, U8) == _LINE_FEED[0])
            self._offsets[at : at + len(ends)] = ends + (a + 1)
            at += len(ends)
        self.info = Info(Layout.DOCUMENTS, U8, lines, self._file.size)

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._file.array(start, stop - start, U8)

    def offsets(self, first: int, last: int) -> Offsets:
        return self._offsets[first : last + 1]

    def close(self) -> None:
        self._file.close()


class LineWriter(TokenWriter):
    """Write the axis of a `LineReader` to a file; a compressed one is made from a plain one beside it."""

    def __init__(self, path: Path, jobs: int, *, keep: bool = False) -> None:
        self.path, self.jobs, self.keep = path, jobs, keep
        self.plain = path if compression_of_name(path.name) is None else path.with_name(f"{path.name}.plain")

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        cuts = windows(0, source.info.tokens, size)
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        preallocate(self.plain, source.info.tokens)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        with Output(self.plain) as out:
            for a, b in windows(region.tokens.start, region.tokens.stop):
                out.write(a, source.tokens(a, b))
        return Receipt(region.index, -1, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:  # noqa: ARG002 - lines have no index
        """Compress the plain file, if the destination is compressed."""
        if self.plain != self.path:
            join([self.plain], self.path, self.jobs, keep=self.keep)


# The expected text with line ends, for `verify`.


def copied_text(readers: Sequence[RecordReader], item: tuple[int, Block]) -> Iterator[bytes]:
    """Yield the lines that a block of one of the readers becomes."""
    k, block = item
    for batch in readers[k].lines(block):
        yield b"\n".join([*batch.lines, b""])


def dealt_text(reader: TokenReader, item: tuple[int, int]) -> Iterator[bytes]:
    """Yield the lines in an interval of a `LineReader`'s axis, or of a view of it."""
    for a, b in windows(*item):
        yield reader.tokens(a, b).tobytes()
