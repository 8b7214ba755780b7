"""Find the n-grams of evals in datasets, in one parallel pass.

1. Open the datasets and the evals, and read the evals into an index of their n-grams (`text.ngrams`).
2. Look for them in regions of the datasets: blocks of records, or intervals of a token axis, in which an n-gram belongs
   to the region that it begins in (`tally`).
3. Turn the sums into the report, and list the examples (`examples`).

Task I of N searches every N-th region, and writes its sums to a file of `--parts`. `finish` adds these files.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tokfmt.commands.convert.request import task_of
from tokfmt.commands.overlap.report import (
    CorpusOverlap,
    EvalOverlap,
    HitPlace,
    ItemOverlap,
    OverlapReport,
    parse_expectation,
    unmet,
)
from tokfmt.commands.overlap.tally import Groups, Part, Totals, examples_of, groups_of, runs_of, tallied
from tokfmt.core.losses import READS
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import FormatError, OptionError, UnsafeError
from tokfmt.files.file import matching, open_file, writing
from tokfmt.files.journal import WHOLE, Task
from tokfmt.files.listing import Listing
from tokfmt.files.locks import Scratch
from tokfmt.files.place import Place, PlaceLike, place_of
from tokfmt.files.replacing import begins_with
from tokfmt.files.spool import staging_for
from tokfmt.files.store import Identity
from tokfmt.run.execute import make_executor, may_spawn, worker_count
from tokfmt.run.plan import Share, Workers
from tokfmt.run.progress import Progress
from tokfmt.source.discover import check_unchanged, find_sources, snapshot
from tokfmt.source.evals import Comparison, Interval, comparison_of, cut, found_in, index_of, open_evals
from tokfmt.source.open import open_dataset, presuming
from tokfmt.source.request import Reading, SourceRequest
from tokfmt.source.stored import Source, tokenizer_of
from tokfmt.text.filter_rules import OverlapRules
from tokfmt.text.ngrams import NgramIndex
from tokfmt.wording import counted, printable

_WORTH = 1 << 26  # bytes from which processes pay off
_LARGEST = 1 << 32  # bytes of the sums of a task


@dataclass(frozen=True, slots=True)
class OverlapRequest:
    """The datasets, the evals, and the options of `tokfmt overlap`."""

    source: SourceRequest  # paths, each a dataset
    rules: OverlapRules
    tokenizer: str | None = None
    expected: Sequence[str] = ()
    listed: PlaceLike | None = None  # receives the examples
    jobs: int | None = None
    executor: str = "auto"
    task: tuple[int, int] | None = None
    parts: PlaceLike | None = None  # a directory for the sums of tasks
    finish: bool = False  # add the sums of all tasks instead of a search


class _Job(NamedTuple):
    readers: Sequence[TokenReader | RecordReader]
    how: Comparison
    ngrams: NgramIndex
    groups: Groups


class _Region(NamedTuple):
    number: int
    corpus: int
    first: int  # the number of the first region of the corpus
    interval: Interval


def overlap(request: OverlapRequest, progress: Progress | None = None) -> OverlapReport:
    """Find the n-grams of evals in datasets."""
    watched, expectations = progress or Progress(), [parse_expectation(text) for text in request.expected]
    if (request.task is not None or request.finish) and request.parts is None:
        raise OptionError("--task and --finish need --parts DIR, the directory for the sums of all tasks")
    if request.task is not None and (request.listed is not None or expectations):
        raise OptionError("--list and --expect need the sums of all tasks. Give them to --finish")
    report = presuming(lambda *, every_end: _overlap(request, watched, every_end=every_end), watched.note)
    return replace(report, unmet=unmet(report, expectations))


def _overlap(request: OverlapRequest, progress: Progress, *, every_end: bool) -> OverlapReport:
    asked, handle = replace(request.source, every_end=every_end), tokenizer_of(request.tokenizer)
    evals = open_evals(request.rules, handle)
    with Listing() as listing:
        files = find_sources(asked, listing=listing)
        before = snapshot(files)
        reading = Reading(handle, request.jobs, progress)
        corpora = [open_dataset(asked.accepting(READS["overlap"]), reading, [file]) for file in files]
    how = comparison_of(request.rules.by, [*corpora, *evals], handle)
    notes = [f"{source.paths[0]}: {note}" for source in (*corpora, *evals) for note in source.notes]
    readers = [how.readable(source) for source in corpora]
    index, items = index_of(request.rules, evals, how)
    if not items or not sum(items):
        raise OptionError("the evals hold no item. Name evals with records or sequences with --with")
    texts = sum(count for source, count in zip(evals, items, strict=True) if source.reader.info.is_text)
    if (
        texts
        and how.by == "tokens"
        and how.tokenizer is not None
        and any(isinstance(reader, TokenReader) for reader in readers)
    ):
        name = printable(how.tokenizer.name)
        notes.append(f"{counted(texts, 'item')} of text, encoded with {name}: other IDs of the same text are not found")
    groups = groups_of(index)
    regions = list(_regions(readers))
    totals = Totals(index, groups, items, len(corpora))
    key = _key(index, items, before, len(regions))
    task = task_of(request.task) if request.task is not None else None
    if request.finish:
        _merge(request, totals, key, len(regions))
    else:
        _search_all(request, _Job(readers, how, index, groups), Share(task or WHOLE).of(regions), totals, progress)
    check_unchanged(before, files)
    if task is not None:
        _save(request, task, totals, key)
    else:
        totals.close()
    before_region = offsets_of([totals.counts.get(region.number, 0) for region in regions]).tolist()
    firsts = {one.number: (one.corpus, before_region[one.number] - before_region[one.first]) for one in regions}
    ngrams, found, longest = runs_of(index, totals.found)
    examples = examples_of(groups, totals.examples, firsts, np.flatnonzero(found))
    paths = [str(source.paths[0]) for source in corpora]
    each, bounds = list[EvalOverlap](), offsets_of(items).tolist()
    for k, (source, a, b) in enumerate(zip(evals, bounds, bounds[1:], strict=False)):
        hits = [
            ItemOverlap(
                item=item - a,
                ngrams=int(ngrams[item]),
                found=int(found[item]),
                share=float(found[item] / ngrams[item]),
                longest=int(longest[item]),
                documents=int(totals.documents[item]),
                examples=[HitPlace(paths[one.corpus], one.sequence, one.position) for one in examples[item]],
            )
            for item in (a + np.flatnonzero(found[a:b])).tolist()
        ]
        sums = int(ngrams[a:b].sum()), int(found[a:b].sum())
        each.append(
            EvalOverlap(
                path=str(source.paths[0]),
                items=b - a,
                short=int((ngrams[a:b] == 0).sum()),
                ngrams=sums[0],
                found=sums[1],
                share=sums[1] / max(sums[0], 1),
                longest=max((hit.longest for hit in hits), default=0),
                documents=int(totals.of_evals[k]),
                max_share=max((hit.share for hit in hits), default=0.0),
                hits=hits,
            )
        )
    if request.listed is not None:
        from tokfmt.commands.overlap.examples import Shown, list_examples

        list_examples(request.listed, each, examples, Shown(paths, readers, evals, how, index))
    searched = zip(corpora, totals.of_corpora.tolist(), strict=True)
    return OverlapReport(
        ngram=request.rules.ngram,
        by=request.rules.by,
        tokenizer=how.tokenizer.name if how.tokenizer is not None else None,
        short_items=sum(of_eval.short for of_eval in each),
        hit_items=len(examples),
        hit_documents=int(totals.of_corpora.sum()),
        max_share=max((one.max_share for one in each), default=0.0),
        max_longest=max((one.longest for one in each), default=0),
        evals=each,
        corpora=[
            CorpusOverlap(path, source.format.name, _documents(source, k, regions, totals), count)
            for k, (path, (source, count)) in enumerate(zip(paths, searched, strict=True))
        ],
        notes=notes,
    )


def _regions(readers: Sequence[TokenReader | RecordReader]) -> Iterator[_Region]:
    number = 0
    for corpus, reader in enumerate(readers):
        first = number
        for interval in cut(reader):
            yield _Region(number, corpus, first, interval)
            number += 1


def _search_all(
    request: OverlapRequest, job: _Job, regions: Sequence[_Region], totals: Totals, progress: Progress
) -> None:
    jobs, size = worker_count(request.jobs), sum(map(_size, regions))
    executor = request.executor
    if executor == "auto":  # reading text holds the lock of the interpreter, numpy does not
        of_text = any(isinstance(reader, RecordReader) for reader in job.readers)
        executor = "processes" if of_text and jobs > 1 and size >= _WORTH and may_spawn(job.readers) else "threads"
    is_text = all(isinstance(reader, RecordReader) for reader in job.readers)
    progress.phase("searching", size, "bytes" if is_text else "tokens")
    with Scratch() as scratch, make_executor(executor, jobs) as pool:
        for part in Workers(pool, jobs, scratch).map(_search, job, regions):
            totals.add(part)
            progress.advance(part.size)


def _size(region: _Region) -> int:
    interval = region.interval
    return interval.stop - interval.start if isinstance(interval, Block) else interval[1] - interval[0]


def _search(job: _Job, region: _Region) -> Part:
    """Return what is found in a region."""
    reader, number, opened = job.readers[region.corpus], region.number, set[int]()
    found, count = found_in(reader, job.how, job.ngrams, region.interval)
    if not isinstance(reader, RecordReader):
        start, stop = region.interval[:2]
        number = region.first
        for position in (start, stop - 1) if len(found.texts) else ():
            own = reader.sequence_at(position)
            begin, end = reader.offsets(own, own + 1).tolist()
            opened |= {own} if begin < start or end > stop else set()
    part = tallied(found, job.groups, number, frozenset(opened))
    return part._replace(region=region.number, corpus=region.corpus, documents=count, size=_size(region))


def _key(index: NgramIndex, items: Sequence[int], before: Mapping[Place, Identity], regions: int) -> str:
    """Return a digest of what the tasks of one search have in common: evals, sizes of files, regions."""
    from xxhash import xxh3_128

    digest = xxh3_128(repr((index.n, list(items), [one.size for one in before.values()], regions)).encode())
    for part in (index.ids.data, index.bounds.data, b" ".join(index.vocabulary or ())):
        digest.update(part)
    return str(digest.hexdigest())


def _part(request: OverlapRequest, task: Task) -> Place:
    return place_of(request.parts or "") / f"overlap-{task.index}-of-{task.count}.npz"


def _save(request: OverlapRequest, task: Task, totals: Totals, key: str) -> None:
    """Write the sums of a task."""
    place, content = _part(request, task), io.BytesIO()
    arrays: Any = {"key": np.array(key), **totals.settled()}
    np.savez_compressed(content, **arrays)
    with staging_for(str(place), overwrite=True, objection=begins_with("part of tokfmt overlap", b"PK")) as staging:
        with writing(staging.destination):
            staging.path.write_bytes(content.getvalue())
        staging.publish()


def _merge(request: OverlapRequest, totals: Totals, key: str, regions: int) -> None:
    """Add the sums of all tasks."""
    home = place_of(request.parts or "")
    names = {match[0]: int(match[1]) for one in matching(home, "overlap-*.npz") if (match := _NAME.fullmatch(one.name))}
    counts = set(names.values())
    if len(counts) != 1:
        many = "parts of several searches" if counts else "no part"
        raise FormatError(home, f"holds {many}", remedy="Run tokfmt overlap with --task I/N --parts DIR first")
    for task in (Task(k, min(counts)) for k in range(min(counts))):
        place = _part(request, task)
        if place.name not in names:
            raise FormatError(home, f"lacks the part of task {task}", remedy=f"Run --task {task.index}/{task.count}")
        file = open_file(place)
        try:
            content = io.BytesIO(file.read(0, min(file.size, _LARGEST)))
            if sum(one.file_size for one in zipfile.ZipFile(content).infolist()) > _LARGEST:
                raise UnsafeError(place, "is too large for a part of tokfmt overlap", expected=f"{_LARGEST:,} bytes")
            with np.load(content, allow_pickle=False) as arrays:
                if str(arrays["key"]) != key:
                    remedy = "Give --finish the options of the tasks, or run the tasks again"
                    raise FormatError(place, "is of another search, or its sources have changed", remedy=remedy)
                totals.merge(arrays, regions)
        except (ValueError, KeyError, MemoryError, zipfile.BadZipFile) as error:
            raise FormatError(place, f"is not a part of tokfmt overlap: {error}") from error
        finally:
            file.close()


_NAME = re.compile(r"overlap-\d+-of-(\d+)\.npz")


def _documents(source: Source, corpus: int, regions: Sequence[_Region], totals: Totals) -> int:
    """Return the number of documents of a dataset; of a task, those that it read."""
    if not isinstance(source.reader, RecordReader):
        return source.reader.info.sequences
    return sum(totals.counts.get(region.number, 0) for region in regions if region.corpus == corpus)
