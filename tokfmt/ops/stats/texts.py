"""Statistics of text that nobody tokenised: documents, bytes, characters, fields, duplicates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec
import numpy as np
from xxhash import xxh3_128_digest

from tokfmt.core.records import Block, RecordReader
from tokfmt.ops.progress import Progress
from tokfmt.ops.stats.duplicates import Seen, Store
from tokfmt.ops.stats.measure import CancelledError
from tokfmt.ops.stats.table import Table
from tokfmt.run.execute import run_tasks
from tokfmt.run.plan import Workers
from tokfmt.text.ingest import block_size

_LOCAL_BITS = 26
"""Of a record's position: its number in its block (of at most 64 MiB); the number of the block stands above."""

_keys = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True, eq=False)
class TextStats:
    """What is known of some blocks of records; adds up in any order.

    Attributes:
        bytes: Of the texts, as UTF-8.
        lengths: In characters.
        fields: How many records have each top-level field.
        invalid: Lines left out.
        counts: Records of each block.
        seen: Hashes of the texts.
    """

    bytes: int = 0
    lengths: Table = field(default_factory=Table.empty)
    fields: Counter[str] = field(default_factory=Counter)
    invalid: int = 0
    counts: tuple[tuple[int, int], ...] = ()
    seen: Seen = field(default_factory=Seen.nothing)

    def __add__(self, other: TextStats) -> TextStats:
        return TextStats(
            self.bytes + other.bytes,
            self.lengths + other.lengths,
            self.fields + other.fields,
            self.invalid + other.invalid,
            tuple(sorted(self.counts + other.counts)),
            self.seen + other.seen,
        )


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """What the pass over a reader of texts has shown.

    Attributes:
        records: What was read.
        stats: The sum, without hashes.
        store: Hashes of the texts, None when duplicates are not wanted.
    """

    records: RecordReader
    stats: TextStats
    store: Store | None

    def number(self, position: int) -> int:
        """The number of a record, from its position in `seen`."""
        block, local = position >> _LOCAL_BITS, position & ((1 << _LOCAL_BITS) - 1)
        return local + sum(count for number, count in self.stats.counts if number < block)


def measure_texts(
    records: RecordReader,
    workers: Workers,
    *,
    duplicates: bool,
    progress: Progress,
    cancelled: Callable[[], bool] = lambda: False,
) -> TextSurvey:
    """Read all records, which must have been opened with `fields` dropped.

    Raises:
        CancelledError: It was asked to end.
        FormatError: A line is not valid.
    """
    progress.phase("reading text", records.info.size, "bytes")
    store = Store() if duplicates else None
    total = TextStats()
    items = list(enumerate(records.blocks(block_size(records.info.size, workers.jobs))))
    job = (records, duplicates)
    for part, read in run_tasks(_count, job, items, workers.executor, workers.jobs, workers.scratch):
        if store is not None:
            store.add(part.seen.folded())
        total += TextStats(part.bytes, part.lengths, part.fields, part.invalid, part.counts)
        progress.advance(read)
        if cancelled():
            raise CancelledError("cancelled")
    return TextSurvey(records, total, store)


def _count(job: tuple[RecordReader, bool], item: tuple[int, Block]) -> tuple[TextStats, int]:
    (records, hashed), (number, block) = job, item
    total, found = TextStats(), 0
    for batch in records.texts(block):
        place = (number << _LOCAL_BITS) + found
        total += _of_texts(batch.texts, batch.invalid, place, hashed)
        found += len(batch.texts)
    names: Counter[str] = Counter()
    for batch in records.lines(block):
        names.update(chain.from_iterable(map(_names, batch.lines)))
    return total + TextStats(fields=names, counts=((number, found),)), block.stop - block.start


def _of_texts(texts: Sequence[str], invalid: int, place: int, hashed: bool) -> TextStats:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    encoded = [text.encode() for text in texts]
    seen = Seen.nothing()
    filled = np.flatnonzero(lengths)
    if hashed and len(filled):
        digests = b"".join(map(xxh3_128_digest, filter(None, encoded)))
        seen = Seen.of(np.frombuffer(digests, "<u8").reshape(-1, 2), place + filled, lengths[filled])
    return TextStats(sum(map(len, encoded)), Table.of(lengths), invalid=invalid, seen=seen)


def _names(line: bytes) -> Sequence[str]:
    """Top-level fields of a record; a line that is only a value has none."""
    try:
        return list(_keys.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = json.loads(line)  # what msgspec refuses and JSON lines allow: NaN, lone surrogates
        return list(found) if isinstance(found, dict) else ()
