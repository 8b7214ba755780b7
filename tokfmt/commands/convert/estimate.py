"""Estimate what a conversion takes, from a conversion of some places of its sources (`tokfmt convert --dry-run`).

A trial converts up to 50 MB from 20 places to the destination's format in $TMPDIR, with one worker, and is removed. Its
tokens, bytes and CPU time are scaled to the sources. A small trial is before it, so that its time is without that of
imports and of the tokenizer. The counts of sources of token IDs are exact: an index has them.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tokfmt.commands.convert.arrangement import AS_IT_IS
from tokfmt.commands.convert.destination import Destination, choose_contents, choose_destination, choose_separators
from tokfmt.commands.convert.inputs import Inputs, text_recipe_of
from tokfmt.commands.convert.publish import Workplace, publishers_of, workers_of, workplace
from tokfmt.commands.convert.report import Written
from tokfmt.commands.convert.request import Estimate, Notes, Request
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import Block, RecordBatch, RecordReader, RecordView
from tokfmt.errors import Loss, TokfmtError
from tokfmt.files.file import walk
from tokfmt.files.locks import Scratch
from tokfmt.files.place import LocalPlace, Place
from tokfmt.model.select import Picked
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress

PLACES = 20
"""Number of places that a trial reads, spread over the sources."""

BYTES = 50_000_000
"""Bytes of text, or of token IDs in memory, that a trial reads."""

_WARM = BYTES // 50  # bytes of the trial that is not measured
_ID = 4  # bytes per token ID in memory

Write = Callable[[Request, Inputs, Destination, list[Loss], Workplace, Workers, Notes], tuple[Destination, Written]]
"""Writes token IDs to a workplace without publishing them."""


def estimated(request: Request, inputs: Inputs, axis: TokenReader | None, write: Write) -> Estimate | str:
    """Return an estimate, or why there is none. The axis has all sequences of token IDs; None for records."""
    if any(source.format.is_computed for source in inputs.sources):
        known_later = "the documents that a recipe of text, or with filters or dedup, takes are known once it is read"
        return known_later if any(text_recipe_of(source) is not None for source in inputs.sources) else ""
    first, trial = (
        _of_records(inputs, size) if axis is None else _of_tokens(inputs, axis, size) for size in (_WARM, BYTES)
    )
    if trial is None:
        return ""
    try:
        if first is not None:
            first.run(request, write)
        return trial.run(request, write)
    except TokfmtError as error:
        return f"a trial of some places failed: {error}"


class SomeRecords(RecordView):
    """The beginnings of some blocks of a reader."""

    def __init__(self, records: RecordReader, blocks: Sequence[Block], room: int) -> None:
        """Take some records. `room` is the bytes of text to read of each block."""
        super().__init__(records)
        self._blocks, self._room, self.read_bytes = list(blocks), room, 0  # bytes on disk of the records that were read

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        """None, as their records have other numbers."""
        return ()

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        """Return the blocks; the arguments are ignored."""
        del size, first, last
        return self._blocks

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return self._beginning(block, self.records.texts(block))

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        return self._beginning(block, self.records.ids(block))

    def _beginning(self, block: Block, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the first batches of a block, until they hold `room` bytes and their share of the block is known."""
        size = count = 0
        for batch in batches:
            yield batch
            size += sum(map(len, batch.texts)) + (0 if batch.ragged is None else _ID * len(batch.ragged.tokens))
            count += len(batch.texts) + (0 if batch.ragged is None else len(batch.ragged))
            share = self.records.stored_bytes(block, batch, count) if size >= self._room else None
            if share is not None:
                self.read_bytes += share
                return
        self.read_bytes += block.stop - block.start


@dataclass(frozen=True, slots=True)
class _Trial:
    """What a trial reads."""

    inputs: Inputs  # of which only some places are read
    share: Callable[[], float]  # once they are read, the share of the sources that they are
    read: Callable[[], int]  # once they are read, their bytes
    places: int  # their number
    counts: tuple[int, int] | None  # sequences and tokens of the sources; None if estimated

    def run(self, request: Request, write: Write) -> Estimate:
        """Convert the places in scratch, and scale what that took."""
        notes = Notes(Progress(), request.piped)
        with Scratch() as home:
            request = replace(
                request,
                destination=LocalPlace(str(home / request.destination.name)),
                to=choose_destination(request).format.name,
                arrangement=AS_IT_IS,
                select=None,
                jobs=1,
                executor="serial",
                overwrite=False,
                dry_run=False,
                rejects=None,
                spool=None,
            )
            destination = choose_contents(request, self.inputs, choose_destination(request))
            destination = choose_separators(request, self.inputs, destination)
            publishers = publishers_of(request, destination, {}, notes)
            with workplace(request, publishers, {}, notes) as place, workers_of(request, self.inputs, place) as workers:
                began = time.process_time()
                _, written = write(request, self.inputs, destination, [], place, workers, notes)
                seconds = time.process_time() - began
                built, scratch = _size(place.first.path.parent), _size(place.first.scratch)
                scratch += sum(portion.parts_bytes for portion in written.portions)
        share = self.share()
        totals = (sum(one.sequences or 0 for one in written.portions), sum(one.tokens or 0 for one in written.portions))
        sequences, tokens = self.counts or (round(totals[0] / share), round(totals[1] / share))
        return Estimate(
            sequences=sequences,
            tokens=tokens,
            is_exact=self.counts is not None or share >= 1,
            size_bytes=round(built / share),
            scratch_bytes=round(scratch / share),
            cpu_seconds=seconds / share,
            measured_seconds=seconds,
            read_bytes=self.read(),
            places=self.places,
            memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            scaled_to=None,
        )


def scaled(found: Estimate, sources: int, wanted: int) -> Estimate:
    """Return an estimate for sources of so many bytes that are like those of another estimate."""
    factor = wanted / max(1, sources)
    return {
        **found,
        "sequences": round(found["sequences"] * factor),
        "tokens": round(found["tokens"] * factor),
        "is_exact": False,
        "size_bytes": round(found["size_bytes"] * factor),
        "scratch_bytes": round(found["scratch_bytes"] * factor),
        "cpu_seconds": found["cpu_seconds"] * factor,
        "scaled_to": wanted,
    }


def _size(directory: Path) -> int:
    return sum((base / name).status().size for base, names in walk(directory) for name in names)


def _of_records(inputs: Inputs, most: int) -> _Trial | None:
    """Return the trial of `most` bytes of records; None if there are none, or if some sources hold token IDs."""
    readers = [source.reader for source in inputs.sources]
    records = [reader for reader in readers if isinstance(reader, RecordReader)]
    size = sum(reader.info.size for reader in records)
    if not size or len(records) < len(readers):
        return None
    blocks = [(k, block) for k, one in enumerate(records) for block in one.blocks(max(most, size) // PLACES)]
    total = sum(block.stop - block.start for _, block in blocks)  # not `size`: a table has other columns too
    chosen = [blocks[k] for k in sorted({round(at) for at in np.linspace(0, len(blocks) - 1, PLACES)})]
    some = [
        SomeRecords(one, [block for number, block in chosen if number == k], most // PLACES)
        for k, one in enumerate(records)
    ]
    used = [one for one in some if one.blocks(1)]
    sources = tuple(
        source._replace(reader=one) for source, one in zip(inputs.sources, some, strict=True) if one in used
    )

    def read() -> int:
        return sum(one.read_bytes for one in used)

    return _Trial(
        replace(inputs, sources=sources, read=sources), lambda: max(read(), 1) / total, read, len(chosen), None
    )


def _of_tokens(inputs: Inputs, axis: TokenReader, most: int) -> _Trial | None:
    """Return the trial of `most` bytes of token IDs; None if there are none, or if one place is as large as a trial."""
    count, tokens = axis.info.sequences, axis.info.tokens
    room, places = most // _ID, min(PLACES, count)
    if not tokens:
        return None
    if tokens <= room:
        numbers = np.arange(count)
    else:
        each = max(1, room * count // (tokens * places))
        firsts = np.unique(np.linspace(0, count - each, places).astype(np.int64))
        numbers = np.unique((firsts[:, None] + np.arange(each)).ravel())
    picked = Picked(axis, numbers)
    if picked.info.tokens > 2 * room or not picked.info.tokens:
        return None
    share, read = picked.info.tokens / tokens, _ID * picked.info.tokens
    return _Trial(inputs.of_reader(picked), lambda: share, lambda: read, places, (count, tokens))
