"""Compute the statistics of text that is not tokenized: documents, bytes, characters, fields and duplicates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tokfmt.commands.compare.fingerprint import fingerprints_of_texts
from tokfmt.commands.stats.duplicates import (
    PLACE_BITS,
    DuplicateGroup,
    Seen,
    Store,
    duplicates_of,
    groups_of,
    repeats,
    too_many,
)
from tokfmt.commands.stats.lists import MOST_GROUPS, Keep, Lists
from tokfmt.commands.stats.report import FieldCount, RepeatedSequence, Share, Statistics, TextFacts
from tokfmt.commands.stats.tables import Table, lengths_of
from tokfmt.core.ragged import Offsets
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import FormatError
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.stored import Source
from tokfmt.text.ingest import block_size

if TYPE_CHECKING:
    from tokfmt.commands.stats.groups import Beginning, GroupedDataset

_keys = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True, eq=False)
class TextStats:
    """The statistics of some blocks of records, which add up in any order."""

    bytes: int = 0  # of the texts as UTF-8
    lengths: Table = field(default_factory=Table.empty)  # in characters
    # records with each top-level field; only of the 131,072 most frequent names
    fields: Counter[str] = field(default_factory=Counter)
    invalid: int = 0  # lines that are left out
    counts: tuple[tuple[int, int], ...] = ()  # block, and number of its records
    seen: Seen = field(default_factory=Seen.nothing)  # hashes of the texts

    def __add__(self, other: TextStats) -> TextStats:
        return TextStats(
            self.bytes + other.bytes,
            self.lengths + other.lengths,
            _bounded(self.fields + other.fields),
            self.invalid + other.invalid,
            tuple(sorted(self.counts + other.counts)),
            self.seen + other.seen,
        )

    def scaled(self, by: float) -> TextStats:
        """Return the estimate for a dataset from a sample with the weight `by`, without hashes."""
        fields = Counter({name: round(count * by) for name, count in self.fields.items()})
        return TextStats(round(self.bytes * by), self.lengths.scaled(by), fields, round(self.invalid * by), self.counts)


@dataclass(frozen=True, slots=True)
class TextSurvey:
    """The result of the pass over records of text."""

    records: RecordReader
    stats: TextStats  # over all blocks, without hashes
    store: Store | None  # hashes; None if duplicates are not counted, or take too much memory
    blocks: int = 1  # in which the records were read

    def numbers(self, positions: Offsets) -> Offsets:
        """Return the numbers of records from their positions in `seen`: block number and number in the block."""
        bits = _local_bits(self.blocks)
        blocks, counts = np.array(self.stats.counts, np.int64).reshape(-1, 2).T
        before = np.cumsum([0, *counts.tolist()])[np.searchsorted(blocks, positions >> bits)]
        numbers: Offsets = before + (positions & ((1 << bits) - 1))
        return numbers


def measure_texts(
    records: RecordReader,
    workers: Workers,
    *,
    duplicates: bool,
    members: bool = False,
    hashed: int = 0,
    most: int | None = None,
    progress: Progress,
) -> TextSurvey:
    """Read all records, and return their statistics. The records must be opened with `--allow-loss fields`. With
    `members`, the positions of all equal texts are kept. `hashed` is the number of texts of other datasets whose hashes
    are in memory. More than `most` texts are not hashed. If `progress` raises, the pass ends.
    """
    progress.phase("reading text", records.info.size, "bytes")
    store = Store() if duplicates else None
    total = TextStats()
    items = list(enumerate(records.blocks(block_size(records.info.size, workers.jobs))))
    job = (records, duplicates, _local_bits(len(items)))
    for part, read in workers.map(_count, job, items):
        if store is not None:
            store.add(part.seen.folded(members=members))
            store = None if too_many(hashed + len(store), most) else store
        total += TextStats(part.bytes, part.lengths, part.fields, part.invalid, part.counts)
        progress.advance(read)
    return TextSurvey(records, total, store, len(items))


def _count(job: tuple[RecordReader, bool, int], item: tuple[int, Block]) -> tuple[TextStats, int]:
    (records, hashed, bits), (number, block) = job, item
    total, count = TextStats(), 0
    for batch in records.texts(block):
        place = (number << bits) + count
        total += _of_texts(batch.texts, batch.invalid, place, hashed)
        count += len(batch.texts)
    names: Counter[str] = Counter()
    for batch in records.lines(block):
        names.update(chain.from_iterable(map(_names, batch.lines)))
        names = _bounded(names)
    return total + TextStats(fields=names, counts=((number, count),)), block.stop - block.start


def _local_bits(blocks: int) -> int:
    """Return the number of bits of a record's position that hold its number in its block.

    The bits above hold the block number, and are as few as possible: a compressed file is one block, which may hold any
    number of records.
    """
    return PLACE_BITS - (blocks - 1).bit_length() if blocks > 1 else PLACE_BITS


def _of_texts(texts: Sequence[str], invalid: int, place: int, hashed: bool) -> TextStats:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    encoded = [text.encode() for text in texts]
    seen = Seen.nothing()
    filled = np.flatnonzero(lengths)
    if hashed and len(filled):
        seen = Seen.of(fingerprints_of_texts(filter(None, encoded)), place + filled, lengths[filled])
    return TextStats(sum(map(len, encoded)), Table.of(lengths), invalid=invalid, seen=seen)


def _bounded(names: Counter[str]) -> Counter[str]:
    """Return the most frequent names, because keys that are data, such as URLs, would fill the memory."""
    return names if len(names) <= _NAMES else Counter(dict(names.most_common(_NAMES)))


def _names(line: bytes) -> Sequence[str]:
    """Return the top-level fields of a record; a line that is not an object has none."""
    try:
        return list(_keys.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError):
        record = json.loads(line)  # JSON lines may hold NaN and lone surrogates, which msgspec refuses
        return list(record) if isinstance(record, dict) else ()


_FIELDS, _NAMES = 100, 1 << 17
_SHOWN = 200  # characters listed of a repeated text
_SINGLY = 10  # records that are looked up one by one
_BLOCK = 1 << 24  # bytes


@dataclass(frozen=True, slots=True)
class TextSubject:
    """A source of text and the result of the pass over it; its attributes are those of `stats.Subject`."""

    source: Source
    size: int
    survey: TextSurvey
    notes: tuple[str, ...] = ()
    # records of the source that each one represents: its size over the bytes that were read; 1 without a sample
    weight: float = 1.0


def described_texts(subjects: Sequence[TextSubject], keep: Keep | None = None) -> Statistics:
    """Return the statistics of one source of text, or of several as one."""
    first = subjects[0]
    repeated = repeats([subject.survey.store for subject in subjects])
    if keep is not None:
        store = first.survey.store
        keep(Lists(groups=None if store is None else groups_of([store], MOST_GROUPS).numbered([first.survey.numbers])))
    total = TextStats()
    for subject in subjects:
        total += replace(subject.survey.stats.scaled(subject.weight), counts=())
    several = len(subjects) > 1
    info = first.survey.records.info
    lengths = total.lengths
    return Statistics(
        path="total" if several else str(first.source.paths[0]),
        format=first.source.format.name,
        layout="text",
        variant={} if several else {key: value for key, value in info.facts.items() if value not in (None, "", (), [])},
        dtype=None,
        bytes=sum(subject.size for subject in subjects),
        sequences=lengths.total,
        tokens=None,
        lengths=lengths_of(lengths, "characters"),
        empty=Share.of(lengths.count(0), lengths.total),
        duplicates=duplicates_of(repeated, lengths, lambda group: _repeated(group, subjects)),
        text=TextFacts(
            bytes=total.bytes,
            characters=lengths.weight,
            field=info.field,
            fields=[
                FieldCount(name, count)
                for name, count in sorted(total.fields.items(), key=lambda item: (-item[1], item[0]))[:_FIELDS]
            ],
            invalid=total.invalid,
        ),
        notes=() if several else first.notes,
    )


def _repeated(group: DuplicateGroup, subjects: Sequence[TextSubject]) -> RepeatedSequence:
    subject = subjects[group.dataset]
    number = int(subject.survey.numbers(np.array([group.position]))[0])
    path = str(subject.source.paths[0]) if len(subjects) > 1 else None
    try:
        text = str(subject.survey.records.record(number))[:_SHOWN]
    except (IndexError, FormatError):  # the records of a sample have no number in the complete source
        return RepeatedSequence(group.count, group.length, None, None, None, path)
    return RepeatedSequence(group.count, group.length, number, None, text, path)


def grouped_texts(subject: TextSubject) -> GroupedDataset:
    """Return a source of text for the list of its groups."""
    from tokfmt.commands.stats.groups import GroupedDataset

    records = subject.survey.records

    def beginnings(numbers: Offsets, positions: Offsets, lengths: Offsets) -> list[Beginning]:  # noqa: ARG001
        return [(None, text[:_SHOWN]) for text in texts_of(records, numbers.tolist())]

    return GroupedDataset(str(subject.source.paths[0]), "characters", subject.survey.numbers, beginnings)


def texts_of(records: RecordReader, numbers: Sequence[int]) -> Iterator[str]:
    """Yield the records with ascending numbers. Many are read in one pass, because a file may be compressed."""
    if len(numbers) <= _SINGLY:
        yield from (str(records.record(number)) for number in numbers)
        return
    wanted, number = iter([*numbers, -1]), numbers[0]
    following = next(wanted)
    for block in records.blocks(_BLOCK, numbers[0], numbers[-1] + 1):
        for batch in records.texts(block):
            while 0 <= following < number + len(batch.texts):
                yield batch.texts[following - number]
                following = next(wanted)
            number += len(batch.texts)
