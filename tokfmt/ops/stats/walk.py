"""The walk over the tokens of datasets: what its parts show adds up, in any order, to what the whole shows.

    sum(Stats of disjoint parts that cover the axis), closed  ==  Stats of the whole, closed

Axes are walked as they are stored, separators included, because masking them away costs more than counting:

    Indexed    sequences are told by offsets; each may end with a separator, which is looked at and counted off
    Streamed   one stream; sequences are what lies between separators, found while it is counted: one read, not two

A part of an axis need not end where a sequence does. Sequences that lie in it are counted there; one that goes on
beyond it is *loose*: where it lies is known, and `measure` looks at its two ends (and hashes it) afterwards. In a
stream nobody knows beforehand where sequences begin: a part keeps the first and last separator it has seen as a
`Span`; spans that touch are joined, and what lies between their separators is loose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from tokfmt.core.errors import CorruptError, FormatError, TokfmtError
from tokfmt.core.messages import Option
from tokfmt.core.protocols import Sampled
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import WINDOW, Info, Separators, TokenReader, sequence_at, windows
from tokfmt.ops.compare.fingerprint import Fingerprints, fingerprint_of, fingerprints_between
from tokfmt.ops.stats.duplicates import TOO_MANY, Seen, Store, too_many
from tokfmt.ops.stats.tables import Counter, Counts, Table
from tokfmt.run.execute import Progress, run_tasks
from tokfmt.run.plan import Workers
from tokfmt.views.view import SplitAt, WithoutTrailing

_PENDING = 1 << 16


class Loose(NamedTuple):
    """A sequence that is to be looked at later: where it lies on the stored axis, a separator at its end left out."""

    start: int
    stop: int


class Span(NamedTuple):
    """A part of a stream that was read: its bounds, and the first and last separator in it (-1, -1: none)."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Stats:
    """What is known of some parts of a dataset.

    Attributes:
        ids: How often each id occurs, separators included.
        lengths: Of the sequences that were looked at.
        first, last: First and last tokens of those that are not empty.
        masked: Positions that do not count in the loss.
        seen: Hashes of the sequences; nothing when they are not wanted.
        loose: Sequences to be looked at later, in order.
        spans: Parts of a stream, in order, no two of which touch.
        begun: How many sequences follow a separator in each part of a stream, by where the part begins: those that
            are not empty, where runs of separators are padding.
    """

    ids: Counts = field(default_factory=Counts.empty)
    lengths: Table = field(default_factory=Table.empty)
    first: Counts = field(default_factory=Counts.empty)
    last: Counts = field(default_factory=Counts.empty)
    masked: int = 0
    seen: Seen = field(default_factory=Seen.nothing)
    loose: tuple[Loose, ...] = ()
    spans: tuple[Span, ...] = ()
    begun: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Stats) -> Stats:
        spans, between = joined(self.spans + other.spans)
        return Stats(
            ids=self.ids + other.ids,
            lengths=self.lengths + other.lengths,
            first=self.first + other.first,
            last=self.last + other.last,
            masked=self.masked + other.masked,
            seen=self.seen + other.seen,
            loose=tuple(sorted(self.loose + other.loose + between)),
            spans=spans,
            begun={**self.begun, **other.begun},
        )


def joined(spans: Iterable[Span]) -> tuple[tuple[Span, ...], tuple[Loose, ...]]:
    """Put together spans that touch; what lies between the separators of two of them is a sequence."""
    done: list[Span] = []
    loose: list[Loose] = []
    for span in sorted(spans):
        if not done or done[-1].stop != span.start:
            done.append(span)
            continue
        before = done.pop()
        if before.last >= 0 and span.first > before.last + 1:
            loose.append(Loose(before.last + 1, span.first))
        first = before.first if before.first >= 0 else span.first
        done.append(Span(before.start, span.stop, first, max(before.last, span.last)))
    return tuple(done), tuple(loose)


class Tally:
    """Collects the statistics of one part, window by window.

    Args:
        duplicates: Fingerprint every sequence, so that those that occur again are found.
    """

    def __init__(self, *, duplicates: bool) -> None:
        self._duplicates = duplicates
        self._ids, self._first, self._last = Counter(), Counter(), Counter()
        self._lengths = Table.empty()
        self._pending: list[tuple[Offsets, Tokens, Tokens]] = []
        self._waiting = 0
        self._seen: list[Seen] = []
        self._loose: list[Loose] = []
        self._spans: list[Span] = []
        self._begun: dict[int, int] = {}
        self._masked = 0

    def count(self, tokens: Tokens) -> None:
        """Tokens of the part; each once."""
        self._ids.add(tokens)

    def mask(self, positions: int) -> None:
        """So many more positions do not count in the loss."""
        self._masked += positions

    def sequences(self, tokens: Tokens, starts: Offsets, stops: Offsets, base: int) -> None:
        """Whole sequences.

        Args:
            starts, stops: int64[n], where each lies in it.
            base: Position of the window on the axis.
        """
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
            found = fingerprints_between(tokens, starts, stops)
            self._seen.append(Seen.of(found, starts + base, stops - starts))

    def later(self, start: int, stop: int) -> None:
        """A sequence that is to be looked at later."""
        self._loose.append(Loose(start, stop))

    def span(self, span: Span, begun: int) -> None:
        """The part of a stream that was read, and how many separators in it have a sequence after them."""
        self._spans.append(span)
        self._begun[span.start] = begun

    def long(self, start: int, ends: Tokens, length: int, hashed: Fingerprints | None) -> None:
        """One sequence that was not read at once.

        Args:
            start: Its position.
            ends: Its first and last token.
            length: Tokens in it.
            hashed: Its fingerprint, uint64[1, 2], or None if it is known to be like no other.
        """
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
        """The statistics of the part."""
        self._settle()
        seen = Seen.nothing()
        if self._seen:
            singles = np.concatenate([part.single for part in self._seen])
            long = {place: length for part in self._seen for place, length in part.long.items()}
            seen = Seen(singles, seen.several, long).folded()
        return Stats(
            self._ids.counts(),
            self._lengths,
            self._first.counts(),
            self._last.counts(),
            self._masked,
            seen,
            tuple(sorted(self._loose)),
            tuple(self._spans),
            self._begun,
        )


_SEQUENCES = 1 << 16
_PROBE, _PROBES = 1 << 12, 16


@dataclass(frozen=True, slots=True)
class Indexed:
    """A stored axis with offsets.

    Attributes:
        stored: The reader; sequences with their separators, if they have any.
        eos_id: The separator with which every sequence ends, None if there is none.
        path: For messages.
    """

    stored: TokenReader
    eos_id: int | None
    path: str

    @property
    def info(self) -> Info:
        """Of the stored axis."""
        return self.stored.info

    @property
    def content_tokens(self) -> int:
        """Tokens in the sequences."""
        return self.info.tokens - (self.info.sequences if self.eos_id is not None else 0)

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Disjoint parts that cover the axis; one of no token when there are empty sequences only."""
        info = self.stored.info
        yield from windows(0, info.tokens, size)
        if not info.tokens and info.sequences:
            yield 0, 0

    def mean_length(self) -> float:
        """Tokens in a sequence, separators included."""
        return self.info.tokens / max(self.info.sequences, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Tell the tally of every token in a part, and of every sequence that begins there."""
        first = self._begun_before(start)
        opened: tuple[Tokens, int, int] | None = None  # what was read of a sequence that goes on, and where it lies
        for a, b in list(windows(start, stop)) or [(start, stop)]:
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            if opened is not None:
                piece, begin, end = opened
                self._tell(tally, np.concatenate([piece, tokens[: end - a]]), begin, np.array([begin, end]))
                opened = None
            until = self.info.sequences if b == self.info.tokens else self._begun_before(b)
            while first < until:
                bounds = self.stored.offsets(first, min(until, first + _SEQUENCES))
                first += len(bounds) - 1
                begin, end = bounds[-2:].tolist()
                if end > b:
                    bounds = bounds[:-1]
                    if end > stop or end - begin > WINDOW:
                        tally.later(begin, end)
                    else:
                        opened = tokens[begin - a :].copy(), begin, end
                self._tell(tally, tokens, a, bounds)
        self._mask(start, stop, tally)

    def _begun_before(self, position: int) -> int:
        """How many sequences begin before a position."""
        return sequence_at(self.stored, position - 1) + 1 if position and self.info.sequences else 0

    def _tell(self, tally: Tally, tokens: Tokens, base: int, bounds: Offsets) -> None:
        starts, stops = bounds[:-1] - base, bounds[1:] - base
        if self.eos_id is not None:
            stops = stops - 1
            if (stops < starts).any() or (tokens[stops] != self.eos_id).any():
                raise self._unended(tokens, base, starts, stops)
        tally.sequences(tokens, starts, stops, base)

    def _unended(self, tokens: Tokens, base: int, starts: Offsets, stops: Offsets) -> CorruptError:
        wrong = (stops < starts) | (tokens[np.maximum(stops, 0)] != self.eos_id)
        k = int(np.argmax(wrong))
        before = int(np.count_nonzero(starts[:k] == starts[k]))  # empty ones begin at the same place
        return CorruptError(
            self.path,
            f"sequence {self._begun_before(base + int(starts[k])) + before:,} does not end with the separator "
            f"{self.eos_id}",
            found=int(tokens[stops[k]]) if stops[k] >= starts[k] else "nothing",
            remedy=f"{Option('eos', 'none')} reads the sequences as they are stored, with whatever ends them",
        )

    def _mask(self, start: int, stop: int, tally: Tally) -> None:
        stored = self.stored
        if isinstance(stored, Sampled):
            for a, b in windows(start, stop):
                tally.mask(b - a - int(np.count_nonzero(stored.masks(a, b))))

    def content(self, loose: Loose) -> Loose:
        """A loose sequence without the separator at its end, which is looked at."""
        if self.eos_id is None:
            return loose
        end = loose.stop - 1
        last = self.stored.tokens(end, loose.stop)
        if int(last[0]) != self.eos_id:
            raise self._unended(last, end, np.array([loose.start - end]), np.array([0]))
        return Loose(loose.start, loose.stop - 1)

    def leftover(self, stats: Stats) -> list[Loose]:
        """Sequences that no part has told of: none."""
        return list(stats.loose)

    def with_empties(self, stats: Stats) -> Stats:
        """The same: parts have told of all sequences."""
        return stats

    def separators(self, stats: Stats) -> int:
        """Separators on the axis that are not part of a sequence."""
        return stats.lengths.total if self.eos_id is not None else 0

    def number(self, position: int, begun: Mapping[int, int]) -> int:  # noqa: ARG002 - offsets tell it
        """The number of the sequence that begins at a position and is not empty."""
        return sequence_at(self.stored, position)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stored stream, split at a separator. What runs of separators are, its `info.separators` tells: see `SplitAt`.

    Parts tell of sequences that are not empty; how many others there are is known when all separators are counted.

    Attributes:
        stored: The reader.
        eos_id: Where to split.
    """

    stored: TokenReader
    eos_id: int

    @property
    def info(self) -> Info:
        """Of the stored stream."""
        return self.stored.info

    @property
    def padded(self) -> bool:
        """Separators in a row are padding; else each ends or begins a sequence, empty ones too."""
        return self.info.separators is Separators.BETWEEN

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Disjoint parts that cover the stream."""
        return windows(0, self.stored.info.tokens, size)

    def mean_length(self) -> float:
        """Tokens in a sequence, separators included; estimated by a look at some places of the stream."""
        total = self.info.tokens
        looked = found = 0
        for start in range(0, total, max(_PROBE, -(-total // _PROBES))):
            tokens = self.stored.tokens(start, min(start + _PROBE, total))
            looked += len(tokens)
            found += int(np.count_nonzero(tokens == self.eos_id))
        return looked / max(found, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Tell the tally of every token in a part, and of every sequence between two separators in it."""
        first = last = -1
        begun = separators = 0
        piece: Tokens | None = None  # what was read of the sequence after the last separator
        for a, b in windows(start, stop):
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            begun += a > start and last == a - 1 and int(tokens[0]) != self.eos_id
            at = np.flatnonzero(tokens == self.eos_id)
            separators += len(at)
            if not len(at):
                piece = None  # it goes on through a whole window, or beyond the part
                continue
            head = int(at[0])
            if first < 0:
                first = a + head
            elif piece is None:
                tally.later(last + 1, a + head)
            elif len(piece) + head:
                whole = np.concatenate([piece, tokens[:head]])
                tally.sequences(whole, np.array([0]), np.array([len(whole)]), last + 1)
            filled = np.flatnonzero(np.diff(at) > 1)
            tally.sequences(tokens, at[filled] + 1, at[filled + 1], a)
            last = a + int(at[-1])
            begun += len(filled) + (last + 1 < b)
            piece = tokens[int(at[-1]) + 1 :].copy()
        if last == stop - 1 and stop < self.info.tokens:
            begun += int(self.stored.tokens(stop, stop + 1)[0]) != self.eos_id
        tally.span(Span(start, stop, first, last), begun if self.padded else separators)

    def content(self, loose: Loose) -> Loose:
        """A loose sequence as it is; separators are outside."""
        return loose

    def leftover(self, stats: Stats) -> list[Loose]:
        """Loose sequences, with what lies before the first separator and after the last."""
        found = list(stats.loose)
        total = self.stored.info.tokens
        for span in stats.spans:
            before, after = (span.first, span.last + 1) if span.first >= 0 else (total, total)
            found += [Loose(a, b) for a, b in ((0, before), (after, total)) if a < b]
        return found

    def with_empties(self, stats: Stats) -> Stats:
        """The same when all parts and all that is loose have been counted, with the sequences that are empty."""
        if self.padded or not self.info.tokens:
            return stats
        edge = 0 if self.info.separators is Separators.BEFORE else self.info.tokens - 1  # no separator need stand there
        loose = int(int(self.stored.tokens(edge, edge + 1)[0]) != self.eos_id)
        empties = self.separators(stats) + loose - stats.lengths.total
        return replace(stats, lengths=stats.lengths + Table.of(np.zeros(empties, np.int64)))

    def separators(self, stats: Stats) -> int:
        """Separators in the stream."""
        return stats.ids.count(self.eos_id)

    def number(self, position: int, begun: Mapping[int, int]) -> int:
        """The number of the sequence that begins at a position.

        Args:
            position: Where it begins.
            begun: See `Stats`; of parts that cover the stream, in any order: parts come as they are done.
        """
        before = position - 1  # the separator that it follows; the sequences of those before that come before it
        if before < 0:
            return 0
        headed = int(self.stored.tokens(0, 1)[0]) == self.eos_id
        start = max(part for part in begun if part <= before)  # the part that the separator is in
        count = sum(sequences for part, sequences in begun.items() if part < start)
        if not self.padded:
            for a, b in windows(start, position):
                count += int(np.count_nonzero(self.stored.tokens(a, b) == self.eos_id))
            return count - (headed and self.info.separators is Separators.BEFORE)
        count += not headed
        for a, b in windows(start, before):
            tokens = self.stored.tokens(a, b + 1)
            count += int(np.count_nonzero((tokens[:-1] == self.eos_id) & (tokens[1:] != self.eos_id)))
        return count


StatsAxis = Indexed | Streamed


def axis_of(reader: TokenReader, path: str) -> StatsAxis:
    """The axis beneath a reader without separators, as `ops.source.open` gives them."""
    if isinstance(reader, WithoutTrailing):
        return Indexed(reader.source, reader.eos_id, path)
    if isinstance(reader, SplitAt):
        return Streamed(reader.source, reader.eos_id)
    return Indexed(reader, None, path)


I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

_REGION = 1 << 23
_SMALLEST = 1 << 19
_ROWS = 1 << 18  # sequences in a region, as far as that can be known beforehand
_TOGETHER = 256  # loose sequences looked at by one task


class CancelledError(TokfmtError):
    """Whoever watches the pass asked for its end."""


@dataclass(slots=True)
class Survey:
    """What the pass over one axis has shown.

    Attributes:
        axis: What was walked.
        stats: The sum over all parts; nothing in it is loose once it is closed.
        store: Fingerprints of all sequences, None when duplicates are not wanted.
        begun: Of a stream, how many sequences begin in each part; see `Stats`.
        loose: Sequences that no part saw whole.
        error: Why the axis could not be walked to its end; what was found until then is of no use.
        notes: What a person should be told.
    """

    axis: StatsAxis
    stats: Stats
    store: Store | None
    begun: dict[int, int] = field(default_factory=dict)
    loose: list[Loose] = field(default_factory=list)
    error: FormatError | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Job:
    axis: StatsAxis
    duplicates: bool


def measure(
    axes: Sequence[StatsAxis],
    workers: Workers,
    *,
    duplicates: bool = True,
    progress: Progress,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Survey]:
    """Walk some axes, one after the other, each on all workers.

    Args:
        duplicates: Fingerprint every sequence: equal ones are found in different datasets too, whatever their dtypes.
            Not done, and noted, where that takes too much memory.
        cancelled: Asked now and then; the pass ends when it says so.

    Returns:
        A survey of each; that of a damaged dataset has its `error`.

    Raises:
        CancelledError: It was asked to end.
    """
    progress.phase("counting", sum(axis.info.tokens for axis in axes), "tokens")
    surveys: list[Survey] = []
    known = sum(axis.info.sequences for axis in axes if isinstance(axis, Indexed))
    full, held = duplicates and too_many(known), 0
    for axis in axes:
        survey = Survey(axis, Stats(), Store() if duplicates and not full else None)
        surveys.append(survey)
        with _failing(survey):
            items = list(axis.regions(_size(axis)))
            for part, read in _walked(_count, survey, items, workers, cancelled):
                _absorb(survey, part)
                progress.advance(read)
                held += len(part.seen.single) + len(part.seen.several)
                if not full and too_many(held):
                    full = True
                    _give_up(surveys)
            survey.loose += axis.leftover(survey.stats)
    if full:
        for survey in surveys:
            survey.notes = (*survey.notes, TOO_MANY)
    alike = _lengths_alike(surveys)
    for survey in surveys:
        with _failing(survey):
            for part in _walked(_look, survey, list(_batches(survey.loose, alike)), workers, cancelled):
                _absorb(survey, part)
            survey.loose = []
            survey.stats = survey.axis.with_empties(survey.stats)
    return surveys


def _give_up(surveys: Sequence[Survey]) -> None:
    """Forget the fingerprints: what repeats is not told of a part."""
    for survey in surveys:
        survey.store = None


@contextmanager
def _failing(survey: Survey) -> Iterator[None]:
    """A dataset that is damaged ends its own survey only."""
    try:
        yield
    except FormatError as error:
        survey.error, survey.loose = error, []


def _walked(
    function: Callable[[_Job, I], R],
    survey: Survey,
    items: Sequence[I],
    workers: Workers,
    cancelled: Callable[[], bool],
) -> Iterator[R]:
    job = _Job(survey.axis, survey.store is not None)
    for found in run_tasks(function, job, items, workers.executor, workers.jobs, workers.scratch):
        yield found
        if cancelled():
            raise CancelledError("cancelled")


def _size(axis: StatsAxis) -> int:
    """Tokens in a region: fewer where sequences are short, for each takes memory."""
    return min(_REGION, max(_SMALLEST, int(_ROWS * axis.mean_length())))


def _absorb(survey: Survey, part: Stats) -> None:
    if survey.store is not None:
        survey.store.add(part.seen)
    survey.begun |= part.begun
    summed = survey.stats + replace(part, seen=Seen.nothing(), begun={})
    survey.loose += summed.loose
    survey.stats = replace(summed, loose=())


def _count(job: _Job, region: tuple[int, int]) -> tuple[Stats, int]:
    tally = Tally(duplicates=job.duplicates)
    job.axis.walk(*region, tally)
    return tally.done(), region[1] - region[0]


def _lengths_alike(surveys: Sequence[Survey]) -> Table:
    """Lengths of more than a window that several sequences have: only these can be duplicates."""
    lengths = [loose.stop - loose.start for survey in surveys for loose in survey.loose]
    found = Table.of(np.asarray(lengths, np.int64))
    for survey in surveys:
        found += survey.stats.lengths
    several = (found.counts > 1) & (found.keys > WINDOW)
    return Table(found.keys[several], found.counts[several])


def _batches(loose: Sequence[Loose], alike: Table) -> Iterator[list[tuple[Loose, bool]]]:
    """Loose sequences to look at together, and whether each must be hashed."""
    known = set(alike.keys.tolist())
    batch: list[tuple[Loose, bool]] = []
    for one in sorted(loose):
        length = one.stop - one.start
        batch.append((one, length <= WINDOW or not known.isdisjoint((length, length - 1))))
        if len(batch) == _TOGETHER or length > WINDOW:
            yield batch
            batch = []
    if batch:
        yield batch


def _look(job: _Job, batch: Sequence[tuple[Loose, bool]]) -> Stats:
    """The statistics of loose sequences, whose tokens have been counted already."""
    tally = Tally(duplicates=job.duplicates)
    for loose, hashed in batch:
        start, stop = job.axis.content(loose)
        hashed = hashed and job.duplicates  # noqa: PLW2901
        if stop - start <= WINDOW and hashed:
            tokens = job.axis.stored.tokens(start, stop)
            tally.sequences(tokens, np.array([0]), np.array([stop - start]), start)
        elif start == stop:
            tally.sequences(job.axis.stored.tokens(start, start), np.array([0]), np.array([0]), start)
        else:
            read = job.axis.stored.tokens
            ends = np.concatenate([read(start, start + 1), read(stop - 1, stop)])
            tally.long(start, ends, stop - start, fingerprint_of(read, start, stop) if hashed else None)
    return tally.done()
