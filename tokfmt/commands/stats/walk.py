"""Walk the tokens of datasets in parallel regions, whose statistics add up in any order.

    sum(Stats of disjoint regions that cover the axis), closed  ==  Stats of the complete axis, closed

Axes are walked as they are stored, with separators, because removing them costs more than counting them:

    Indexed    offsets delimit the sequences; if each ends with a separator, it is checked and not counted
    Streamed   separators delimit the sequences of one stream; they are found while counting, so it is read once

A region may end within a sequence. Sequences that are complete in a region are counted there. A sequence that continues
after the region is *loose*: its interval is known, and `measure` reads its two ends, and hashes it, afterwards. In a
stream, the starts of sequences are not known beforehand. A region therefore keeps its first and last separator as a
`StreamSpan`. Spans that touch are joined, and the sequence between their separators is loose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from tokfmt.commands.compare.fingerprint import Fingerprints, fingerprint_of, fingerprints_between
from tokfmt.commands.stats.duplicates import MEMBERS_PER_ROW, TOO_MANY, Seen, Store, too_many
from tokfmt.commands.stats.tables import Counter, Counts, Table
from tokfmt.core.loss_mask import counted_of, is_masked, padding_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import WINDOW, Info, Separators, TokenReader, windows
from tokfmt.errors import CorruptError, FormatError, UnendedError
from tokfmt.model.batch import AFTER
from tokfmt.model.readers import ContentReader
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress

_PENDING = 1 << 16


class Loose(NamedTuple):
    """The interval on the stored axis of a sequence that is read later, with the separator of an index."""

    start: int
    stop: int


class StreamSpan(NamedTuple):
    """The bounds of a region of a stream, and the positions of its first and last separator (-1: none)."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """The statistics of some regions of a dataset."""

    ids: Counts = field(default_factory=Counts.empty)  # separators included
    lengths: Table = field(default_factory=Table.empty)  # of the sequences that were read
    first: Counts = field(default_factory=Counts.empty)  # of sequences that are not empty
    last: Counts = field(default_factory=Counts.empty)
    masked: int = 0  # positions that train no target
    padding: int = 0  # positions that the reader declares as padding
    padded: Counts = field(default_factory=Counts.empty)  # the IDs there
    seen: Seen = field(default_factory=Seen.nothing)  # fingerprints; empty if duplicates are not counted
    loose: tuple[Loose, ...] = ()  # sequences to read later, in order
    spans: tuple[StreamSpan, ...] = ()  # regions of a stream, in order; no two of them touch
    # sequences that follow a separator in each region of a stream, by the start of the region
    begun: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Stats) -> Stats:
        spans, between = joined(self.spans + other.spans)
        return Stats(
            ids=self.ids + other.ids,
            lengths=self.lengths + other.lengths,
            first=self.first + other.first,
            last=self.last + other.last,
            masked=self.masked + other.masked,
            padding=self.padding + other.padding,
            padded=self.padded + other.padded,
            seen=self.seen + other.seen,
            loose=tuple(sorted(self.loose + other.loose + between)),
            spans=spans,
            begun={**self.begun, **other.begun},
        )


def joined(spans: Iterable[StreamSpan]) -> tuple[tuple[StreamSpan, ...], tuple[Loose, ...]]:
    """Join spans that touch. The other result is the sequences between the separators of spans that were joined."""
    done: list[StreamSpan] = []
    loose: list[Loose] = []
    for span in sorted(spans):
        if not done or done[-1].stop != span.start:
            done.append(span)
            continue
        before = done.pop()
        if before.last >= 0 and span.first > before.last + 1:
            loose.append(Loose(before.last + 1, span.first))
        first = before.first if before.first >= 0 else span.first
        done.append(StreamSpan(before.start, span.stop, first, max(before.last, span.last)))
    return tuple(done), tuple(loose)


class Tally:
    """Collects the statistics of one region, window by window."""

    def __init__(self, *, duplicates: bool, members: bool = False) -> None:
        self._duplicates, self._members = duplicates, members
        self._ids, self._first, self._last = Counter(), Counter(), Counter()
        self._lengths = Table.empty()
        self._pending: list[tuple[Offsets, Tokens, Tokens]] = []
        self._waiting = 0
        self._seen: list[Seen] = []
        self._loose: list[Loose] = []
        self._spans: list[StreamSpan] = []
        self._begun: dict[int, int] = {}
        self._masked = self._padding = 0
        self._padded = Counter()

    def count(self, tokens: Tokens) -> None:
        """Count the IDs of a window; each token of the region is passed once."""
        self._ids.add(tokens)

    def unused(self, masked: int, padding: Tokens) -> None:
        """Add positions that train no target, and the IDs at positions that are padding."""
        self._masked += masked
        self._padding += len(padding)
        self._padded.add(padding)

    def sequences(self, tokens: Tokens, starts: Offsets, stops: Offsets, base: int) -> None:
        """Add complete sequences of a window at position `base` of the axis, given indices in the window."""
        if not len(starts):
            return
        lengths = stops - starts
        filled = lengths > 0
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        self._pending.append((lengths, tokens[starts], tokens[stops - 1]))
        self._waiting += len(lengths)
        if self._waiting >= _PENDING:
            self._settle()
        if self._duplicates and len(starts):
            prints = fingerprints_between(tokens, starts, stops)
            self._seen.append(Seen.of(prints, starts + base, stops - starts))

    def add_loose(self, start: int, stop: int) -> None:
        """Add a sequence to read later."""
        self._loose.append(Loose(start, stop))

    def span(self, span: StreamSpan, begun: int) -> None:
        """Add the region of a stream that was read, and the number of sequences that follow a separator in it."""
        self._spans.append(span)
        self._begun[span.start] = begun

    def add_long(self, start: int, ends: Tokens, length: int, hashed: Fingerprints | None) -> None:
        """Add one sequence that is too long to be read at once, with the first and the last of its IDs."""
        self._pending.append((np.array([length]), ends[:1], ends[1:]))
        if hashed is not None:
            self._seen.append(Seen.of(hashed, np.array([start]), np.array([length])))

    def _settle(self) -> None:
        if self._pending:
            lengths, first, last = (np.concatenate(column) for column in zip(*self._pending, strict=True))
            self._lengths += Table.of(lengths)
            self._first.add(first)
            self._last.add(last)
            self._pending, self._waiting = [], 0

    def done(self) -> Stats:
        """Return the statistics of the region."""
        self._settle()
        seen = Seen.nothing()
        if self._seen:
            singles = np.concatenate([part.single for part in self._seen])
            long = {place: length for part in self._seen for place, length in part.long.items()}
            seen = Seen(singles, seen.several, long, seen.members).folded(members=self._members)
        return Stats(
            self._ids.counts(),
            self._lengths,
            self._first.counts(),
            self._last.counts(),
            self._masked,
            self._padding,
            self._padded.counts(),
            seen,
            tuple(sorted(self._loose)),
            tuple(self._spans),
            self._begun,
        )


_SEQUENCES = 1 << 16
_PROBE, _PROBES = 1 << 12, 16


@dataclass(frozen=True, slots=True)
class Indexed:
    """A stored axis with offsets."""

    is_stream: ClassVar[Literal[False]] = False  # the number of sequences is known before the walk
    stored: TokenReader  # its sequences include their separators
    eos_id: int | None  # at the end of every sequence
    path: str  # for messages

    @property
    def info(self) -> Info:
        """The facts of the stored axis."""
        return self.stored.info

    @property
    def content_tokens(self) -> int:
        """The number of tokens without the separators at the ends of sequences."""
        return self.info.tokens - (self.info.sequences if self.eos_id is not None else 0)

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield disjoint regions that cover the axis; an empty region if all sequences are empty."""
        info = self.stored.info
        yield from windows(0, info.tokens, size)
        if not info.tokens and info.sequences:
            yield 0, 0

    def mean_length(self) -> float:
        """Return the mean length of a sequence in tokens, with its separator."""
        return self.info.tokens / max(self.info.sequences, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Add every token of a region to the tally, and every sequence that begins there."""
        first = self._begun_before(start)
        opened: tuple[Tokens, int, int] | None = None  # the first tokens of an unfinished sequence, and its interval
        for a, b in list(windows(start, stop)) or [(start, stop)]:
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            if opened is not None:
                piece, begin, end = opened
                self._add_sequences(tally, np.concatenate([piece, tokens[: end - a]]), begin, np.array([begin, end]))
                opened = None
            until = self.info.sequences if b == self.info.tokens else self._begun_before(b)
            while first < until:
                bounds = self.stored.offsets(first, min(until, first + _SEQUENCES))
                first += len(bounds) - 1
                begin, end = bounds[-2:].tolist()
                if end > b:
                    bounds = bounds[:-1]
                    if end > stop or end - begin > WINDOW:
                        tally.add_loose(begin, end)
                    else:
                        opened = tokens[begin - a :].copy(), begin, end
                self._add_sequences(tally, tokens, a, bounds)
            self._count_unused(a, tokens, tally)

    def _begun_before(self, position: int) -> int:
        """Return the number of sequences that begin before a position."""
        return self.stored.sequence_at(position - 1) + 1 if position and self.info.sequences else 0

    def _add_sequences(self, tally: Tally, tokens: Tokens, base: int, bounds: Offsets) -> None:
        starts, stops = bounds[:-1] - base, bounds[1:] - base
        if self.eos_id is not None:
            stops = stops - 1
            if (stops < starts).any() or (tokens[stops] != self.eos_id).any():
                raise self._unended(tokens, base, starts, stops)
        tally.sequences(tokens, starts, stops, base)

    def _unended(self, tokens: Tokens, base: int, starts: Offsets, stops: Offsets) -> CorruptError:
        wrong = (stops < starts) | (tokens[np.maximum(stops, 0)] != self.eos_id)
        k = int(np.argmax(wrong))
        before = int(np.count_nonzero(starts[:k] == starts[k]))  # empty sequences begin at the same position
        kind = CorruptError if self.info.eos_id == self.eos_id else UnendedError
        return kind(
            self.path,
            f"sequence {self._begun_before(base + int(starts[k])) + before:,} does not end with the separator "
            f"{self.eos_id}",
            found=int(tokens[stops[k]]) if stops[k] >= starts[k] else "nothing",
            remedy="--eos none reads the sequences as they are stored, with their last tokens",
        )

    def _count_unused(self, start: int, tokens: Tokens, tally: Tally) -> None:
        stored, stop = self.stored, start + len(tokens)
        if not is_masked(stored) and padding_of(stored, 0, 0) is None:
            return
        counted, padding = counted_of(stored, start, stop), padding_of(stored, start, stop)
        masked = 0 if counted is None else stop - start - int(np.count_nonzero(counted))
        tally.unused(masked, tokens[:0] if padding is None else tokens[padding])

    @property
    def ending(self) -> int:
        """The number of tokens at the end of a loose sequence that are not its content."""
        return int(self.eos_id is not None)

    def content(self, loose: Loose, last: Tokens) -> Loose:
        """Return a loose sequence without the separator at its end."""
        if self.eos_id is None:
            return loose
        end = loose.stop - 1
        if int(last[-1]) != self.eos_id:
            raise self._unended(last[-1:], end, np.array([loose.start - end]), np.array([0]))
        return Loose(loose.start, end)

    def leftover(self, stats: Stats) -> list[Loose]:
        """Return the loose sequences; the axis has no others."""
        return list(stats.loose)

    def with_empties(self, stats: Stats) -> Stats:
        """Return the statistics unchanged, because the regions have counted empty sequences as well."""
        return stats

    def closed(self, stats: Stats) -> int | None:
        """Return the number of sequences that have the separator; None if it is not known, as in a stream."""
        if self.eos_id is not None:  # The walk refuses a sequence without it.
            return stats.lengths.total
        return None if self.stored.is_split else self.stored.trimmed

    def separators(self, stats: Stats) -> int:
        """Return the number of separators on the axis that are not part of a sequence."""
        return stats.lengths.total if self.eos_id is not None else 0

    def number(self, position: int, begun: Mapping[int, int]) -> int:  # noqa: ARG002 - the offsets suffice
        """Return the number of the sequence that begins at a position and is not empty."""
        return self.stored.sequence_at(position)

    def numbers(self, positions: Offsets, begun: Mapping[int, int]) -> Offsets:  # noqa: ARG002 - as above
        """Return the numbers of sequences that begin at ascending positions and are not empty."""
        numbers = [np.empty(0, np.int64)]
        done = 0
        for a, b in windows(0, self.info.sequences):
            if done == len(positions):
                break
            bounds = self.stored.offsets(a, b)
            upto = int(np.searchsorted(positions, bounds[-1]))
            numbers.append(a + np.searchsorted(bounds, positions[done:upto], side="right") - 1)
            done = upto
        return np.concatenate(numbers)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stored stream that is split at a separator; `info.separators` decides on which side of sequences it is.

    Regions count the sequences that are not empty. The number of empty sequences is known once all separators are
    counted.
    """

    is_stream: ClassVar[Literal[True]] = True  # the number of sequences is known after the walk
    stored: TokenReader
    eos_id: int

    @property
    def info(self) -> Info:
        """The facts of the stored stream."""
        return self.stored.info

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Return disjoint regions that cover the stream."""
        return windows(0, self.stored.info.tokens, size)

    def mean_length(self) -> float:
        """Return the mean length of a sequence in tokens, with its separator, estimated from 16 places."""
        total = self.info.tokens
        tokens_read = separators = 0
        for start in range(0, total, max(_PROBE, -(-total // _PROBES))):
            tokens = self.stored.tokens(start, min(start + _PROBE, total))
            tokens_read += len(tokens)
            separators += int(np.count_nonzero(tokens == self.eos_id))
        return tokens_read / max(separators, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Add every token of a region to the tally, and every sequence between two of its separators."""
        first = last = -1
        separators = 0
        piece: Tokens | None = None  # the first tokens of the sequence after the last separator
        for a, b in windows(start, stop):
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            at = np.flatnonzero(tokens == self.eos_id)
            separators += len(at)
            if not len(at):
                piece = None  # the sequence fills a complete window, or continues after the region
                continue
            head = int(at[0])
            if first < 0:
                first = a + head
            elif piece is None:
                tally.add_loose(last + 1, a + head)
            elif len(piece) + head:
                whole = np.concatenate([piece, tokens[:head]])
                tally.sequences(whole, np.array([0]), np.array([len(whole)]), last + 1)
            filled = np.flatnonzero(np.diff(at) > 1)
            tally.sequences(tokens, at[filled] + 1, at[filled + 1], a)
            last = a + int(at[-1])
            piece = tokens[int(at[-1]) + 1 :].copy()
        tally.span(StreamSpan(start, stop, first, last), separators)

    ending = 0

    def is_unfinished(self, stats: Stats) -> bool:
        """Return whether tokens follow the last separator of a stream that ends documents; `stats` are those of all."""
        is_behind, end = self.info.separators is not Separators.BEFORE, self.info.tokens
        return is_behind and any(span.stop == end and 0 <= span.last < end - 1 for span in stats.spans)

    def closed(self, stats: Stats) -> None:
        """Return None, because the walk does not count the sequences of a stream that have the separator."""

    def content(self, loose: Loose, last: Tokens) -> Loose:  # noqa: ARG002
        """Return a loose sequence unchanged, because it includes no separator."""
        return loose

    def leftover(self, stats: Stats) -> list[Loose]:
        """Return the loose sequences, and the sequences before the first and after the last separator."""
        intervals = list(stats.loose)
        total = self.stored.info.tokens
        for span in stats.spans:
            before, after = (span.first, span.last + 1) if span.first >= 0 else (total, total)
            intervals += [Loose(a, b) for a, b in ((0, before), (after, total)) if a < b]
        return intervals

    def with_empties(self, stats: Stats) -> Stats:
        """Return the statistics with the empty sequences, once all regions and all loose sequences are counted."""
        if not self.info.tokens:
            return stats
        edge = 0 if self.info.separators is Separators.BEFORE else self.info.tokens - 1  # may lack its separator
        loose = int(int(self.stored.tokens(edge, edge + 1)[0]) != self.eos_id)
        empties = self.separators(stats) + loose - stats.lengths.total
        return replace(stats, lengths=stats.lengths + Table.of(np.zeros(empties, np.int64)))

    def separators(self, stats: Stats) -> int:
        """Return the number of separators in the stream."""
        return stats.ids.count(self.eos_id)

    def number(self, position: int, begun: Mapping[int, int]) -> int:
        """Return the number of the sequence that begins at a position; `begun` as for `numbers`."""
        return int(self.numbers(np.array([position]), begun)[0])

    def numbers(self, positions: Offsets, begun: Mapping[int, int]) -> Offsets:
        """Return the numbers of sequences that begin at ascending positions, after reading the regions before."""
        numbers = np.zeros(len(positions), np.int64)
        if not len(positions):
            return numbers
        headed = int(self.stored.tokens(0, 1)[0]) == self.eos_id
        regions = np.array(sorted(begun), np.int64)
        before = np.cumsum([0, *(begun[start] for start in regions.tolist())])
        # the separator before a sequence belongs to its region; earlier separators belong to earlier sequences
        region = np.searchsorted(regions, positions - 1, side="right") - 1
        first = -int(headed and self.info.separators is Separators.BEFORE)
        for k in np.unique(region[positions > 0]).tolist():
            inside = np.flatnonzero((region == k) & (positions > 0))
            numbers[inside] = first + before[k] + self._separators_before(int(regions[k]), positions[inside])
        return numbers

    def _separators_before(self, start: int, limits: Offsets) -> Offsets:
        """Return the number of separators from `start` to before each of ascending positions."""
        counts, passed, done = np.zeros(len(limits), np.int64), 0, 0
        for a, b in windows(start, int(limits[-1])):
            at = np.flatnonzero(self.stored.tokens(a, b) == self.eos_id) + a
            upto = int(np.searchsorted(limits, b, side="right"))
            counts[done:upto] = passed + np.searchsorted(at, limits[done:upto])
            passed, done = passed + len(at), upto
        return counts


StatsAxis = Indexed | Streamed


def axis_of(reader: TokenReader, path: str) -> StatsAxis:
    """Return the stored axis under a reader without separators, as `source.open` returns it."""
    if isinstance(reader, ContentReader) and reader.dataset.gap.lead is not None:
        return Indexed(reader, None, path)
    if isinstance(reader, ContentReader) and (eos_id := reader.dataset.gap.id) is not None:
        if reader.dataset.gap.alone:
            return Streamed(reader.source, eos_id)
        if reader.dataset.spans.usual == AFTER and reader.dataset.gap.even:
            return Indexed(reader.source, eos_id, path)
    return Indexed(reader, None, path)


I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

_REGION = 1 << 23
_SMALLEST = 1 << 19
_ROWS = 1 << 17  # sequences per region, by their mean length
_TOGETHER = 256  # loose sequences that one task reads


@dataclass(slots=True)
class Survey:
    """The result of the pass over one axis."""

    axis: StatsAxis
    stats: Stats  # over all regions; once it is closed, it has no loose sequences
    store: Store | None  # fingerprints of all sequences; None if duplicates are not counted
    begun: dict[int, int] = field(default_factory=dict)  # sequences that begin in each region of a stream
    loose: list[Loose] = field(default_factory=list)  # that are not complete in any region
    error: FormatError | None = None  # that ended the walk, which makes the others meaningless
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Job:
    axis: StatsAxis
    duplicates: bool
    members: bool


def measure(
    axes: Sequence[StatsAxis],
    workers: Workers,
    *,
    duplicates: bool = True,
    members: bool = False,
    most: int | None = None,
    progress: Progress,
) -> list[Survey]:
    """Walk axes one after the other, each on all workers. Every sequence is hashed for duplicates, also in different
    datasets and dtypes; if that takes too much memory, it is left out, and a note reports that. If `progress` raises,
    the pass ends. The survey of a damaged dataset has its `error`.
    """
    progress.phase("counting", sum(axis.info.tokens for axis in axes), "tokens")
    surveys: list[Survey] = []
    stated = sum(axis.info.sequences for axis in axes if not axis.is_stream)
    full, hashed = duplicates and too_many(stated, most), 0
    for axis in axes:
        survey = Survey(axis, Stats(), Store() if duplicates and not full else None)
        surveys.append(survey)
        with _failing(survey):
            items = list(axis.regions(_size(axis)))
            job = _Job(axis, survey.store is not None, members)
            for part, read in workers.map(_count, job, items):
                _absorb(survey, part)
                progress.advance(read)
                seen = part.seen
                hashed += len(seen.single) + len(seen.several) + len(seen.members) // MEMBERS_PER_ROW
                if not full and too_many(hashed, most):
                    full = True
                    _give_up(surveys)
            survey.loose += axis.leftover(survey.stats)
    if full:
        for survey in surveys:
            survey.notes = (*survey.notes, TOO_MANY)
    alike = _lengths_alike(surveys)
    for survey in surveys:
        with _failing(survey):
            job = _Job(survey.axis, survey.store is not None, members)
            batches = list(_batches(survey.loose, alike)) if survey.loose else []
            for part in workers.map(_count_loose, job, batches):
                _absorb(survey, part)
                progress.advance(0)
            survey.loose = []
            survey.stats = survey.axis.with_empties(survey.stats)
    return surveys


def _give_up(surveys: Sequence[Survey]) -> None:
    """Discard all fingerprints, because duplicates are not counted for a part of the datasets."""
    for survey in surveys:
        survey.store = None


@contextmanager
def _failing(survey: Survey) -> Iterator[None]:
    """Record the error of a damaged dataset in its survey, so that the other datasets are still counted."""
    try:
        yield
    except FormatError as error:
        survey.error, survey.loose = error, []


def _size(axis: StatsAxis) -> int:
    """Return the size of a region in tokens: smaller for short sequences, because each sequence takes memory."""
    return min(_REGION, max(_SMALLEST, int(_ROWS * axis.mean_length())))


def _absorb(survey: Survey, part: Stats) -> None:
    if survey.store is not None:
        survey.store.add(part.seen)
    survey.begun |= part.begun
    summed = survey.stats + replace(part, seen=Seen.nothing(), begun={})
    survey.loose += summed.loose
    survey.stats = replace(summed, loose=())


def _count(job: _Job, region: tuple[int, int]) -> tuple[Stats, int]:
    tally = Tally(duplicates=job.duplicates, members=job.members)
    job.axis.walk(*region, tally)
    return tally.done(), region[1] - region[0]


def _lengths_alike(surveys: Sequence[Survey]) -> Table:
    """Return the lengths beyond a window that several sequences have: only such long sequences can be duplicates."""
    lengths = [loose.stop - loose.start for survey in surveys for loose in survey.loose]
    table = Table.of(np.asarray(lengths, np.int64))
    for survey in surveys:
        table += survey.stats.lengths
    several = (table.counts > 1) & (table.keys > WINDOW)
    return Table(table.keys[several], table.counts[several])


def _batches(loose: Sequence[Loose], alike: Table) -> Iterator[list[tuple[Loose, bool]]]:
    """Yield batches of loose sequences, each with True if it must be hashed."""
    lengths_alike = set(alike.keys.tolist())
    batch: list[tuple[Loose, bool]] = []
    for interval in sorted(loose):
        length = interval.stop - interval.start
        batch.append((interval, length <= WINDOW or not lengths_alike.isdisjoint((length, length - 1))))
        if len(batch) == _TOGETHER or length > WINDOW:
            yield batch
            batch = []
    if batch:
        yield batch


def _count_loose(job: _Job, batch: Sequence[tuple[Loose, bool]]) -> Stats:
    """Return the statistics of loose sequences, whose tokens are already counted.

    Short sequences that must be hashed are read whole, others at their two ends. A store is asked for all at once.
    """
    axis, tally = job.axis, Tally(duplicates=job.duplicates, members=job.members)
    hashing = [(loose, hashed and job.duplicates) for loose, hashed in batch]
    wanted = [one for loose, hashed in hashing for one in _to_read(loose, axis.ending, hashed=hashed)]
    intervals = axis.stored.intervals(wanted)
    for loose, hashed in hashing:
        tokens = next(intervals)
        last = tokens if _is_whole(loose, hashed=hashed) else next(intervals)
        start, stop = axis.content(loose, last)
        if last is tokens or start == stop:
            tally.sequences(tokens, np.array([0]), np.array([stop - start]), start)
        else:
            read = axis.stored.tokens
            ends = np.concatenate([tokens, last[:1]])
            tally.add_long(start, ends, stop - start, fingerprint_of(read, start, stop) if hashed else None)
    return tally.done()


def _is_whole(loose: Loose, *, hashed: bool) -> bool:
    """Return whether a loose sequence is read at once."""
    return hashed and loose.stop - loose.start <= WINDOW


def _to_read(loose: Loose, ending: int, *, hashed: bool) -> list[tuple[int, int]]:
    """Return the interval of a whole sequence; or that of its first token, and of its last token and its separator."""
    start, stop = loose
    if _is_whole(loose, hashed=hashed):
        return [(start, stop)]
    return [(start, min(start + 1, stop - ending)), (max(start, stop - ending - 1), stop)]
