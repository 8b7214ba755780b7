"""Compute the statistics of datasets (`tokfmt stats`).

1. Open each dataset. If a tokenizer is given, tokenize text into scratch.
2. Walk all tokens, or those of a sample; see `commands.stats.walk`. Without a tokenizer: see `commands.stats.texts`.
3. Turn the counts into the values of `commands.stats.report`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from tokfmt.base.options import fit
from tokfmt.base.seeds import check_seed
from tokfmt.commands.stats.duplicates import (
    TOO_MANY,
    TOO_MANY_MEMBERS,
    DuplicateGroup,
    Groups,
    Repeats,
    Store,
    duplicates_of,
    groups_of,
    repeats,
    too_many,
)
from tokfmt.commands.stats.lists import MOST_GROUPS, Keep, Lists, RankedIds
from tokfmt.commands.stats.report import Failure, RepeatedSequence, SampleFacts, Share, Statistics, StatsReport
from tokfmt.commands.stats.sampling import DrawnAxis, draw, draw_records, drawn_records
from tokfmt.commands.stats.tables import Counts, Table, ends_of, ids_of, lengths_of, packing, spelling
from tokfmt.commands.stats.texts import TextSubject, described_texts, grouped_texts, measure_texts
from tokfmt.commands.stats.walk import Indexed, StatsAxis, Streamed, Survey, axis_of, measure
from tokfmt.core.format import Decoder
from tokfmt.core.loss_mask import is_masked, padding_of
from tokfmt.core.losses import READS
from tokfmt.core.ragged import Offsets, Ragged, offsets_of
from tokfmt.core.reader import PaddingCounts, Separators, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import DetectionError, FormatError, OptionError, TokfmtError, UnendedError
from tokfmt.files.listing import Listing
from tokfmt.files.locks import Scratch
from tokfmt.files.place import Place, PlaceLike
from tokfmt.files.side_by_side import side_by_side
from tokfmt.files.store import Identity
from tokfmt.model.readers import ContentReader
from tokfmt.run.execute import make_executor, worker_count
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.discover import check_unchanged, dataset_at, dataset_paths, snapshot, without_named
from tokfmt.source.ingest import as_stored, encoder_for, ingest, note_on_chats
from tokfmt.source.manifest import extent
from tokfmt.source.open import contradicted, open_dataset, presuming
from tokfmt.source.request import Reading, SourceFiles, SourceRequest
from tokfmt.source.stored import Source, contents_of, manifest_tokenizer, tokenizer_note, tokenizer_of, unfinished
from tokfmt.text.ingest import ShardReader
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.commands.stats.groups import Beginning, GroupedDataset
    from tokfmt.files.publisher import Publisher
    from tokfmt.mix import TreeRow
    from tokfmt.text.tokenizer import TokenizerHandle


_Described = tuple[list[Statistics], Callable[[], Statistics]]
"""The statistics of each dataset, and a function that returns those of all datasets as one."""


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """The datasets, and the options of `tokfmt stats`."""

    source: SourceRequest  # paths, each a dataset
    tokenizer: str | None = None  # encodes text, decodes IDs, and has the vocabulary
    vocab_size: int | None = None  # default: that of the tokenizer
    seq_len: int | None = None  # of a sample, for the cost of packing
    duplicates: bool = True  # takes 24 bytes of memory per sequence
    # receives each group of equal sequences; not written if one of several datasets cannot be read
    duplicate_groups: PlaceLike | None = None
    sample: int | None = None  # read only about this number of sequences of each dataset, without duplicates
    seed: int = 0  # of the sample
    select: str | None = None  # samples of a recipe or a run, whose tokens are counted by source without a read of them
    step: str | None = None  # the same of steps of a run
    jobs: int | None = None
    executor: str = "threads"  # "serial", "threads", "processes" or "dask" (workers on this machine)


def stats(request: StatsRequest, progress: Progress | None = None) -> StatsReport:
    """Compute the statistics of each dataset and of all together; a failure of one of several is reported."""
    watched = progress or Progress()
    request = _checked(request)

    def counted(*, every_end: bool, to: Publisher | None = None) -> StatsReport:
        asked = replace(request.source, every_end=every_end)
        return _stats(replace(request, source=asked), watched, to)

    if request.duplicate_groups is None:
        return presuming(counted, watched.note)
    from tokfmt.commands.stats.groups import BEGINNING
    from tokfmt.files.replacing import begins_with
    from tokfmt.files.spool import staging_for

    objection = begins_with("list of duplicate groups of tokfmt stats", BEGINNING)
    with staging_for(request.duplicate_groups, overwrite=True, objection=objection) as staging:
        report = presuming(partial(counted, to=staging), watched.note)
        if not report.failures:
            staging.publish()
    return report


def _stats(request: StatsRequest, progress: Progress, groups_to: Publisher | None) -> StatsReport:
    jobs = worker_count(request.jobs)
    asked = request.source.accepting(READS["stats"])
    handle = tokenizer_of(request.tokenizer)
    with Scratch() as scratch, make_executor(request.executor, jobs) as executor:
        workers = Workers(executor, jobs, scratch)
        sources, before = [], []
        with Listing() as listing:
            paths = dataset_paths(request.source, listing)
            run = _Run(request, handle, workers, progress, len(paths) > 1, groups_to=groups_to)

            def opened(path: Place) -> tuple[SourceFiles, dict[Place, Identity], Source] | TokfmtError:
                try:
                    dataset = dataset_at(path, request.source)
                    return (
                        dataset,
                        snapshot([dataset]),
                        open_dataset(asked, Reading(handle, jobs, as_stored=True), [dataset]),
                    )
                except (FormatError, DetectionError) as error:
                    return error

            outcomes = list(side_by_side(opened, paths))
            found = [outcome[0] for outcome in outcomes if isinstance(outcome, tuple)]
            counted_ones = without_named(found) if request.source.recursive else found
            for path, outcome in zip(paths, outcomes, strict=True):
                if isinstance(outcome, tuple) and outcome[0] not in counted_ones:
                    outcome[2].reader.close()
                    continue
                with run.recording_failure(path):
                    if isinstance(outcome, TokfmtError):
                        raise outcome
                    before.append(outcome[:2])
                    sources.append(outcome[2])
        if (
            handle is None
            and not request.source.ignore_manifest
            and (stated := manifest_tokenizer(sources)) is not None
        ):
            run = replace(run, handle=stated)
            sources[0] = sources[0]._replace(notes=(*sources[0].notes, tokenizer_note(stated, sources[0])))
        sizes = [sum(now[file][0] for file in one.files) for one, now in before]
        is_whole = request.select is None and request.step is None
        report = run.report(sources, sizes) if is_whole else run.intervals(sources, sizes)
        check_unchanged({file: it for _, now in before for file, it in now.items()}, [one for one, _ in before])
    return report


def stats_of(
    source: Source,
    *,
    tokenizer: TokenizerHandle | None = None,
    duplicates: bool = True,
    jobs: int | None = None,
    progress: Progress | None = None,
    most_compared: int | None = None,
    keep: Keep | None = None,
) -> Statistics:
    """Compute the statistics of an open dataset, without duplicates above `most_compared` sequences."""
    watched = progress or Progress()

    def counted(*, every_end: bool) -> Statistics:
        asked = SourceRequest(source.paths, ignore_manifest=True, every_end=every_end)
        request = StatsRequest(asked, duplicates=duplicates, jobs=worker_count(jobs))
        with (
            Scratch() as scratch,
            make_executor(request.executor, request.jobs or 1) as executor,
        ):
            workers = Workers(executor, request.jobs or 1, scratch)
            run = _Run(request, tokenizer, workers, watched, most_compared=most_compared, keep=keep)
            return run.report([source], [size_of(source)]).datasets[0]

    return presuming(counted, watched.note)


def groups_in(request: SourceRequest, tokenizer: TokenizerHandle | None, progress: Progress) -> Groups:
    """Return the largest groups of equal sequences of a dataset, which are read for it."""
    source, lists = open_dataset(request, Reading(tokenizer, as_stored=True)), list[Lists]()
    stats_of(source, tokenizer=tokenizer, progress=progress, keep=lists.append)
    if lists[0].groups is None:
        raise OptionError(TOO_MANY_MEMBERS)
    return lists[0].groups


@dataclass(frozen=True, slots=True)
class _Run:
    request: StatsRequest
    handle: TokenizerHandle | None
    workers: Workers
    progress: Progress
    several: bool = False
    most_compared: int | None = None
    keep: Keep | None = None
    groups_to: Publisher | None = None
    failures: list[Failure] = field(default_factory=list)

    @contextmanager
    def recording_failure(self, path: PlaceLike) -> Iterator[None]:
        """Record the failure of one of several datasets, so that the others are still counted."""
        try:
            yield
        except (FormatError, DetectionError) as error:
            if not self.several or (isinstance(error, UnendedError) and not self.request.source.every_end):
                raise
            self.failures.append(Failure(str(path), error))

    def report(self, sources: Sequence[Source], sizes: Sequence[int]) -> StatsReport:
        texts = [source for source in sources if self._is_text(source)]
        if texts and not all(map(self._is_text_or_empty, sources)):
            raise OptionError(
                f"{printable(texts[0].paths[0])}: holds text, other paths hold token IDs. Add --tokenizer"
            )
        each, total = self._of_texts(sources, sizes) if texts else self._of_tokens(sources, sizes)
        return StatsReport(each, total() if self.several and not self.failures else None, self.failures)

    def intervals(self, sources: Sequence[Source], sizes: Sequence[int]) -> StatsReport:
        """Return the tokens by source of an interval of samples of each dataset."""
        from tokfmt.commands.stats.interval import interval_statistics

        select, step = self.request.select, self.request.step
        if self.several:
            raise OptionError("--select and --step count in one recipe or run. Name one path", name="select")
        each = [
            interval_statistics(source, size, select or step or "", self.progress, of_steps=step is not None)
            for source, size in zip(sources, sizes, strict=True)
        ]
        return StatsReport(each, None, self.failures)

    def _is_text(self, source: Source) -> bool:
        reader = source.reader
        return reader.info.is_text and self.handle is None

    def _is_text_or_empty(self, source: Source) -> bool:
        return self._is_text(source) or (isinstance(source.reader, RecordReader) and not source.reader.info.size)

    # token ids

    def _of_tokens(self, sources: Sequence[Source], sizes: Sequence[int]) -> _Described:
        request, handle = self.request, self.handle
        wanted = Wanted(
            TokenizerIds(request.vocab_size) if request.vocab_size else handle.ids if handle else None,
            request.seq_len,
            handle.decoder(lenient=True) if handle else None,
        )
        prepared = list(self._prepared(sources, sizes))
        axes = [subject.axis for subject, _ in prepared]
        if self.groups_to is not None and too_many(sum(axis.info.sequences for axis in axes if not axis.is_stream)):
            raise OptionError(TOO_MANY_MEMBERS)
        surveys = measure(
            axes,
            self.workers,
            duplicates=request.duplicates and request.sample is None,
            members=self.keep is not None or self.groups_to is not None,
            most=self.most_compared,
            progress=self.progress,
        )
        each, seen, samples = [], [], []
        for (subject, drawn), survey in zip(prepared, surveys, strict=True):
            with self.recording_failure(subject.source.paths[0]):
                if survey.error is not None:
                    raise survey.error
                notes = (*subject.notes, *survey.notes)
                if drawn is None and subject.axis.is_stream and subject.axis.is_unfinished(survey.stats):
                    notes += (unfinished(subject.axis.eos_id),)
                noted = replace(subject, notes=notes)
                surveyed = Surveyed(noted, survey, drawn.weight if drawn else 1.0)
                statistics = described(surveyed, wanted, self.keep)
                if drawn is None and not request.source.ignore_manifest:
                    wrong = contradicted(subject.source, statistics.sequences, statistics.tokens)
                    if wrong is not None:
                        raise wrong
                each.append(statistics if drawn is None else self._drawn(statistics, drawn))
                seen.append(surveyed)
                samples.append(drawn)
        if self.groups_to is not None and not self.failures:
            grouped = [_grouped(one, wanted.decoder) for one in seen]
            self._write_groups(self.groups_to, [one.survey.store for one in seen], grouped, sources)
        return each, lambda: self._total(total_of(seen, wanted), each, samples)

    @staticmethod
    def _write_groups(
        to: Publisher,
        stores: Sequence[Store | None],
        datasets: Sequence[GroupedDataset],
        sources: Sequence[Source],
    ) -> None:
        """Write the groups of equal sequences of all datasets."""
        from tokfmt.commands.stats.groups import write_groups
        from tokfmt.files.file import writing
        from tokfmt.files.replacing import readable_by

        kept = [store for store in stores if store is not None]
        if len(kept) < len(stores):
            raise OptionError(TOO_MANY_MEMBERS)
        to.readable = readable_by(
            file for source in sources for path in source.paths for file in source.format.files(path)
        )
        with writing(to.destination), open(to.path, "w", encoding="utf-8") as file:
            write_groups(file, groups_of(kept), datasets)

    def _prepared(self, sources: Sequence[Source], sizes: Sequence[int]) -> Iterator[tuple[Subject, DrawnAxis | None]]:
        """Yield the axis of each dataset, or of the sample drawn from it; records become an axis in scratch."""
        sample, seed = self.request.sample, self.request.seed
        for number, (source, size) in enumerate(zip(sources, sizes, strict=True)):
            with self.recording_failure(source.paths[0]):
                reader, notes = source.reader, list[str]()
                some = None
                if isinstance(reader, RecordReader):
                    some = draw_records(reader, sample, seed) if sample is not None else None
                    stored: TokenReader = self._ingested(reader if some is None else some, number)
                else:
                    stored = reader
                if reader.info.is_text:
                    axis = axis_of(stored, str(source.paths[0]))
                    if isinstance(stored, ShardReader) and (of_chats := note_on_chats([stored])):
                        notes.append(of_chats)
                else:
                    axis, notes = axis_to_walk(source, stored, every_end=self.request.source.every_end)
                    notes = [*(stored.info.notes if isinstance(stored, ShardReader) else ()), *notes]
                drawn = draw(axis, sample, seed) if sample is not None and some is None else None
                if some is not None and not axis.is_stream:
                    drawn = drawn_records(axis, some.weight)
                axis = axis if drawn is None else drawn.axis
                yield Subject(source, axis, size, (*source.notes, *notes)), drawn

    def _ingested(self, reader: RecordReader, number: int) -> TokenReader:
        records, encoder = as_stored(reader), encoder_for(reader, self.handle, self.progress)
        name = f"source-{number}"
        return ingest(
            records, encoder, self.workers, name=name, progress=lambda shard: self.progress.advance(shard.size)
        )

    def _drawn(self, statistics: Statistics, drawn: DrawnAxis) -> Statistics:
        """Mark statistics as estimated from a sample, and use the dataset's own counts if they are known."""
        sampled = SampleFacts(
            drawn.axis.info.sequences,
            drawn.axis.content_tokens,
            drawn.sequences,
            self.request.seed,
            ["bytes", *(["sequences", "tokens", "bytes_per_token"] if drawn.exact else [])],
        )
        return _estimated(replace(statistics, sequences=drawn.sequences, tokens=drawn.tokens), sampled)

    def _total(
        self, statistics: Statistics, each: Sequence[Statistics], drawn: Sequence[DrawnAxis | None]
    ) -> Statistics:
        """Return the total with the counts of its datasets, some of which may be sampled."""
        if all(part is None for part in drawn):
            return statistics
        parts = [one.sampled or SampleFacts(one.sequences, one.tokens, None, 0, []) for one in each]
        counts = ["sequences", "tokens", "bytes_per_token"] if all(d is None or d.exact for d in drawn) else []
        sequences = sum(one.sequences for one in each)
        sampled = SampleFacts(
            sum(part.sequences for part in parts),
            sum(part.tokens or 0 for part in parts),
            sequences,
            self.request.seed,
            ["bytes", *counts],
        )
        return _estimated(
            replace(statistics, sequences=sequences, tokens=sum(one.tokens or 0 for one in each)), sampled
        )

    # text

    def _of_texts(self, sources: Sequence[Source], sizes: Sequence[int]) -> _Described:
        sample, seed = self.request.sample, self.request.seed
        each, subjects, hashed = [], [], 0
        for source, size in zip(sources, sizes, strict=True):
            with self.recording_failure(source.paths[0]):
                records: RecordReader = source.reader  # type: ignore[assignment]
                some = draw_records(records, sample, seed) if sample is not None else None
                duplicates = self.request.duplicates and sample is None
                survey = measure_texts(
                    some or records,
                    self.workers,
                    duplicates=duplicates,
                    members=self.keep is not None or self.groups_to is not None,
                    hashed=hashed,
                    most=self.most_compared,
                    progress=self.progress,
                )
                weight = some.weight if some else 1.0
                hashed += len(survey.store or ())
                notes = (*source.notes, TOO_MANY) if duplicates and survey.store is None else source.notes
                subject = TextSubject(source, size, survey, notes, weight)
                each.append(self._of_some_texts([subject]))
                subjects.append(subject)
        if self.groups_to is not None and not self.failures:
            stores = [one.survey.store for one in subjects]
            self._write_groups(self.groups_to, stores, list(map(grouped_texts, subjects)), sources)
        return each, lambda: self._of_some_texts(subjects)

    def _of_some_texts(self, subjects: Sequence[TextSubject]) -> Statistics:
        """Return the statistics of sources of text, marked as estimated if some are sampled."""
        statistics = described_texts(subjects, self.keep)
        if all(subject.weight == 1 for subject in subjects):
            return statistics
        sequences = sum(subject.survey.stats.lengths.total for subject in subjects)
        sampled = SampleFacts(sequences, None, statistics.sequences, self.request.seed, ["bytes"])
        return replace(statistics, estimated=True, sampled=sampled)


def _estimated(statistics: Statistics, sampled: SampleFacts) -> Statistics:
    per_token = (
        statistics.bytes / statistics.tokens if statistics.tokens and statistics.bytes_per_token is not None else None
    )
    # a sample does not read the separators between sequences that are not in it
    return replace(
        statistics, bytes_per_token=per_token, separators=None, padding=None, estimated=True, sampled=sampled
    )


def _checked(request: StatsRequest) -> StatsRequest:
    """Return the request with a valid sample and seed."""
    if request.duplicate_groups is not None and (request.sample is not None or not request.duplicates):
        other = "--no-duplicates" if not request.duplicates else "--sample"
        raise OptionError(
            f"--duplicate-groups and {other} cannot be combined: groups need every sequence. Leave one out"
        )
    given = {
        "--select": request.select,
        "--step": request.step,
        "--sample": request.sample,
        "--duplicate-groups": request.duplicate_groups,
    }
    named = [name for name, value in given.items() if value is not None]
    if named[1:] and named[0] in ("--select", "--step"):
        raise OptionError(f"{' and '.join(named)} cannot be combined: {named[0]} reads no sequence. Leave one out")
    sample = fit("--sample", request.sample, int | None, {"minimum": 1}, name="sample")
    request = replace(request, sample=sample, seed=check_seed(request.seed, "--seed"))
    if request.executor.startswith("dask:"):  # scratch is a directory of this machine, and paths may be relative
        raise OptionError(
            f"--executor {printable(request.executor)}: statistics are counted on one machine. "
            "Use dask, which starts workers on it"
        )
    return request


def axis_to_walk(source: Source, stored: TokenReader, *, every_end: bool = False) -> tuple[StatsAxis, list[str]]:
    """Return the axis of a source that statistics walk, and notes on how it is read. No stream is scanned for this.

    A stream with an unknown separator is one sequence, so that you can find the separator among its frequent IDs.
    """
    path, separator = source.paths[0], source.separator
    info, eos_id = stored.info, separator.eos_id
    lead = source.bos_id
    if info.separators.alone and info.tokens and eos_id is not None and lead is None:
        return Streamed(stored, eos_id), []
    if info.separators is Separators.BETWEEN and info.tokens:
        splits = "no separator known; --eos ID splits it"
        why = separator.source if separator.is_none else splits
        return Indexed(stored, None, str(path)), [f"read as one sequence ({why})"]
    reader, notes = contents_of(source, stored, every_end=every_end)
    return axis_of(reader, str(path)), notes


def glance(source: Source) -> Statistics:
    """Return the statistics of an opened dataset that follow from its header and index. No token is read. `ids`,
    `first_tokens`, `last_tokens` and `duplicates` are None. `lengths` is exact if it follows from an index or a scan.
    For a stream that is not split, `lengths` is None, `sequences` is 0, and `tokens` counts the stored tokens.
    """
    path, reader = source.paths[0], source.reader
    if isinstance(reader, RecordReader):
        raise OptionError(f"{printable(path)}: holds records, whose tokens are not counted yet. Run tokfmt stats")
    axis, notes = axis_to_walk(source, reader)
    if reader.is_split:
        axis = Indexed(reader, None, str(path))  # the stream has been split when it was opened
    return outlined(Subject(source, axis, size_of(source), (*source.notes, *notes)))


def size_of(source: Source) -> int:
    """Return the size of all files of a dataset in bytes."""
    size: int = sum(extent(source.format.files(path))["bytes"] for path in source.paths)
    return size


_SHOWN = 32  # IDs listed of a repeated sequence
_NOTHING = (0, -1, None, "", ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that statistics depend on in addition to the data."""

    vocabulary: TokenizerIds | None = None  # to compare IDs with
    seq_len: int | None = None  # of a sample, for the cost of packing
    decoder: Decoder | None = None  # lenient


@dataclass(frozen=True, slots=True)
class Subject:
    """A dataset to describe."""

    source: Source
    axis: StatsAxis  # of the complete dataset, or of a sample
    size: int  # of its files in bytes
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A dataset and the result of the pass over it."""

    subject: Subject
    survey: Survey
    weight: float = 1.0  # sequences of the dataset that each of the sample represents; 1 without a sample


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts that add up over datasets.

    Each count of a sample is multiplied by its weight, so that sampled and complete datasets add up. Pairs are (count,
    total), and None if they do not apply.
    """

    read_ids: Counts  # in the sequences that were read
    ids: Counts  # in all sequences
    first: Counts  # of all sequences
    last: Counts
    lengths: Table  # of all sequences
    separators: tuple[int, int]  # stored separators, of all stored tokens
    padding: tuple[int, int] | None  # of all positions
    masked: tuple[int, int] | None  # positions that do not count in the loss, of all positions
    size: int  # of the files in bytes

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.read_ids + other.read_ids,
            self.ids + other.ids,
            self.first + other.first,
            self.last + other.last,
            self.lengths + other.lengths,
            _pair(self.separators, other.separators) or (0, 0),
            _pair(self.padding, other.padding),
            _pair(self.masked, other.masked),
            self.size + other.size,
        )


def _pair(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return (a[0] + b[0], a[1] + b[1]) if a is not None and b is not None else a or b


def figures_of(seen: Surveyed) -> Figures:
    """Return the counts of one dataset."""
    axis, stats, weight = seen.survey.axis, seen.survey.stats, seen.weight
    stored = axis.stored
    padding_counts = stored.padding_counts() or PaddingCounts(None, 0)
    separator = seen.subject.source.separator.eos_id
    eos_id = separator if separator is not None else -1
    made = padding_counts.separators + stats.padded.count(eos_id) - (stored.trimmed or 0)
    read_ids = stats.ids.without(eos_id, axis.separators(stats))
    pad_id = stored.info.pad_id if seen.subject.source.format.is_computed else None  # Its padding is in no file.
    read_ids = read_ids if pad_id is None else read_ids.without(pad_id, stats.padded.count(pad_id))
    return Figures(
        read_ids=read_ids,
        ids=read_ids.scaled(weight),
        first=stats.first.scaled(weight),
        last=stats.last.scaled(weight),
        lengths=stats.lengths.scaled(weight),
        separators=(stats.ids.count(eos_id) - made, axis.info.tokens - made),
        padding=_padding(seen, padding_counts),
        masked=(round(stats.masked * weight), round(axis.info.tokens * weight)) if is_masked(stored) else None,
        size=seen.subject.size,
    )


def _padding(seen: Surveyed, left_out: PaddingCounts) -> tuple[int, int] | None:
    """Return the positions that are padding, on the axis or left out of it, and all; None if none are declared."""
    axis, stats = seen.survey.axis, seen.survey.stats
    if padding_of(axis.stored, 0, 0) is None:
        return None if left_out.padding is None else (left_out.padding, left_out.positions)
    out = left_out.padding or 0
    return round(stats.padding * seen.weight) + out, round(axis.info.tokens * seen.weight) + out


def outlined(subject: Subject) -> Statistics:
    """Return the statistics of a dataset that need no tokens."""
    heading, axis, info = _heading(subject), subject.axis, subject.axis.info
    if axis.is_stream:
        return replace(heading, tokens=info.tokens, bytes_per_token=_ratio(subject.size, info.tokens, [subject]))
    lengths = Table.empty()
    ended = axis.eos_id is not None
    for a, b in windows(0, info.sequences):
        lengths += Table.of(np.diff(axis.stored.offsets(a, b)) - ended)
    tokens = axis.content_tokens
    return replace(
        heading,
        sequences=info.sequences,
        tokens=tokens,
        bytes_per_token=_ratio(subject.size, tokens, [subject]),
        max_id=info.max_id if info.max_id != axis.eos_id else None,  # the largest ID below the separator is unknown
        lengths=lengths_of(lengths, "tokens"),
        empty=Share.of(lengths.count(0), info.sequences),
        separators=_between(axis),
    )


def _between(axis: StatsAxis) -> Share | None:
    """Return the number and share of separators if a scan has counted them, else None."""
    if isinstance(axis.stored, ContentReader) and axis.stored.is_split:
        stored = axis.stored.source
        counts = stored.padding_counts()
        made = 0 if counts is None else counts.separators
        return Share.of(stored.info.tokens - axis.info.tokens - made, stored.info.tokens - made)
    return None  # a sequence may hold more separators than the one at its end


def described(seen: Surveyed, wanted: Wanted, keep: Keep | None = None) -> Statistics:
    """Return the statistics of one dataset. `keep` receives the lists of the dataset."""
    figures, survey = figures_of(seen), seen.survey
    repeated = repeats([survey.store])
    if keep is not None:
        ids, first, last = (RankedIds.of(one.table()) for one in (figures.read_ids, figures.first, figures.last))
        groups = None
        if survey.store is not None:
            number = partial(survey.axis.numbers, begun=survey.begun)
            groups = groups_of([survey.store], MOST_GROUPS).numbered([number])
        keep(Lists(ids, first, last, groups))
    heading = _heading(seen.subject)
    return _filled(replace(heading, eos_seen=_seen(seen) or heading.eos_seen), figures, [seen], wanted, repeated)


def _seen(seen: Surveyed) -> str:
    """Return how many of all sequences have the separator, as a full walk has counted; "" without these numbers."""
    axis, dataset = seen.survey.axis, seen.subject.source.dataset
    if seen.weight != 1 or dataset is None or dataset.gap.lead is not None:
        return ""
    count, closed = seen.survey.stats.lengths.total, axis.closed(seen.survey.stats)
    if closed is None:
        return ""
    return replace(dataset.gap, looked=count, of=count, closed=closed, lack=count - closed, empty=0).seen


def _heading(subject: Subject) -> Statistics:
    source, info = subject.source, subject.axis.info
    return Statistics(
        path=str(source.paths[0]),
        format=source.format.name,
        layout=info.layout.value,
        variant={key: one for key, one in info.facts.items() if one not in _NOTHING},
        dtype=info.dtype.name,
        bytes=subject.size,
        eos_id=source.separator.eos_id,
        eos_from=source.separator.source,
        eos_seen=source.separator.seen,
        eos_inferred=source.separator.inferred,
        sample_length=info.sample_length,
        columns=info.columns,
        recipe=_tree(source),
        notes=subject.notes,
    )


def _tree(source: Source) -> Sequence[TreeRow]:
    """Return the contribution of each source of a recipe; nothing for another dataset."""
    if not source.format.is_computed:
        return ()
    from tokfmt.mix import explain  # only recipes need what it imports

    return explain(source.reader)


def _ratio(size: int, tokens: int, subjects: Sequence[Subject]) -> float | None:
    """Return bytes per token; None if the files also hold other splits, and for recipes, which hold no tokens."""
    unknown = any(subject.axis.info.other_splits or subject.source.format.is_computed for subject in subjects)
    return size / tokens if tokens and not unknown else None


def total_of(seen: Sequence[Surveyed], wanted: Wanted) -> Statistics:
    """Return the statistics of all datasets as one. Equal sequences of different datasets are duplicates."""
    sources, infos = [one.subject.source for one in seen], [one.subject.axis.info for one in seen]
    separators = {source.separator.eos_id for source in sources}
    heading = Statistics(
        path="total",
        format=_agreed([source.format.name for source in sources]),
        layout=_agreed([info.layout.value for info in infos]),
        variant={},
        dtype=_agreed([info.dtype.name for info in infos]),
        bytes=0,
        columns=sum((Counter(info.columns) for info in infos), Counter()),
        eos_id=separators.pop() if len(separators) == 1 else None,
    )
    repeated = repeats([one.survey.store for one in seen])
    return _filled(heading, reduce(Figures.__add__, map(figures_of, seen)), seen, wanted, repeated)


def _agreed(words: Sequence[str]) -> str:
    return words[0] if len(set(words)) == 1 else "mixed"


def _filled(
    heading: Statistics, figures: Figures, seen: Sequence[Surveyed], wanted: Wanted, repeated: Repeats | None
) -> Statistics:
    spelled = spelling(wanted.decoder)
    lengths, tokens = figures.lengths, figures.lengths.weight
    samples = heading.layout == "samples"
    first, last = ends_of(figures.first, spelled), ends_of(figures.last, spelled)
    return replace(
        heading,
        bytes=figures.size,
        bytes_per_token=_ratio(figures.size, tokens, [one.subject for one in seen]),
        sequences=lengths.total,
        tokens=tokens,
        max_id=figures.read_ids.largest if figures.read_ids.largest >= 0 else None,
        lengths=lengths_of(lengths, "tokens"),
        empty=Share.of(lengths.count(0), lengths.total),
        separators=Share.of(*figures.separators),
        padding=None if figures.padding is None else Share.of(*figures.padding),
        masked=None if figures.masked is None else Share.of(*figures.masked),
        ids=ids_of(figures.read_ids, figures.ids, wanted.vocabulary, spelled),
        first_tokens=first,
        last_tokens=last,
        first_id=first.commonest if first.distinct == 1 else None,
        last_id=last.commonest if last.distinct == 1 else None,
        duplicates=duplicates_of(repeated, lengths, lambda group: _repeated(group, seen, wanted.decoder)),
        packing=packing(lengths, wanted.seq_len, separator=heading.eos_id is not None)
        if wanted.seq_len is not None and not samples
        else None,
    )


def _repeated(group: DuplicateGroup, seen: Sequence[Surveyed], decoder: Decoder | None) -> RepeatedSequence:
    surveyed = seen[group.dataset]
    ids = surveyed.survey.axis.stored.tokens(group.position, group.position + min(group.length, _SHOWN))
    return RepeatedSequence(
        count=group.count,
        length=group.length,
        sequence=surveyed.survey.axis.number(group.position, surveyed.survey.begun),
        ids=ids.tolist(),
        text=decoder.decode(ids) if decoder is not None else None,
        path=str(surveyed.subject.source.paths[0]) if len(seen) > 1 else None,
    )


def _grouped(surveyed: Surveyed, decoder: Decoder | None) -> GroupedDataset:
    """Return the dataset for the list of its groups."""
    from tokfmt.commands.stats.groups import GroupedDataset

    stored = surveyed.survey.axis.stored

    def beginnings(numbers: Offsets, positions: Offsets, lengths: Offsets) -> list[Beginning]:  # noqa: ARG001
        shown = np.minimum(lengths, _SHOWN)
        ids = Ragged(stored.gather(positions, shown), offsets_of(shown))
        return [(one.tolist(), decoder.decode(one) if decoder is not None else None) for one in ids]

    numbers = partial(surveyed.survey.axis.numbers, begun=surveyed.survey.begun)
    return GroupedDataset(str(surveyed.subject.source.paths[0]), "tokens", numbers, beginnings)
