"""`tokfmt stats` as a function: open, tokenise what is text, walk, describe."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.errors import OptionError, printable
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Source
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.sources import SourceRequest, check_unchanged, expanded, snapshot
from tokfmt.ops.stats.axis import StatsAxis, axis_of
from tokfmt.ops.stats.describe import Subject, Wanted, described, total_of
from tokfmt.ops.stats.describe_texts import TextSubject, described_texts
from tokfmt.ops.stats.measure import measure
from tokfmt.ops.stats.opening import bytes_of, opened, size_of, stored_axis
from tokfmt.ops.stats.report import Report, Sampled, Statistics
from tokfmt.ops.stats.sampling import Drawn, draw, draw_records
from tokfmt.ops.stats.texts import measure_texts
from tokfmt.ops.tokenize import ingest
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """What a user asks for.

    Attributes:
        source: Paths, each a dataset of its own, and how to read them.
        tokenizer: To tokenise text, to spell ids, to know the vocabulary.
        vocab_size: To compare ids with; the tokenizer's when None.
        seq_len: To compute the cost of packing.
        duplicates: Look for equal sequences; takes 24 bytes a sequence.
        sample: Look at so many sequences only, for which duplicates are not looked for.
        seed: Of their choice.
        jobs: Workers; by default one a core.
        executor: Where they run; see `run.execute`.
    """

    source: SourceRequest
    tokenizer: str | None = None
    vocab_size: int | None = None
    seq_len: int | None = None
    duplicates: bool = True
    sample: int | None = None
    seed: int = 0
    jobs: int | None = None
    executor: str = "threads"


def stats(request: StatsRequest, progress: Progress | None = None, cancelled: Cancelled = lambda: False) -> Report:
    """Statistics of some datasets, and of all together.

    Raises:
        TokfmtError: One of its kinds; `CancelledError` when `cancelled` says so.
    """
    jobs = request.jobs or os.cpu_count() or 1
    handle = _tokenizer(request.tokenizer)
    paths = expanded(request.source.paths)
    before = snapshot(paths)
    sources = [opened(path, request.source, handle) for path in paths]
    sizes = [bytes_of(before, path) for path in paths]
    with tempfile.TemporaryDirectory(prefix="tokfmt-") as scratch, make_executor(request.executor, jobs) as executor:
        workers = Workers(executor, jobs, Path(scratch))
        run = _Run(request, handle, workers, progress or Silent(), cancelled)
        report = run.report(sources, sizes)
        check_unchanged(before, paths)
    return report


def stats_of(
    source: Source,
    *,
    tokenizer: TokenizerHandle | None = None,
    duplicates: bool = True,
    jobs: int | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled = lambda: False,
) -> Statistics:
    """Statistics of a dataset that is open already, by `open_source` or `open_stored`; nothing is opened again.

    Raises:
        TokfmtError: One of its kinds; `CancelledError` when `cancelled` says so.
    """
    request = StatsRequest(SourceRequest(source.paths), duplicates=duplicates, jobs=jobs or os.cpu_count() or 1)
    with (
        tempfile.TemporaryDirectory(prefix="tokfmt-") as scratch,
        make_executor(request.executor, request.jobs or 1) as executor,
    ):
        workers = Workers(executor, request.jobs or 1, Path(scratch))
        run = _Run(request, tokenizer, workers, progress or Silent(), cancelled)
        return run.report([source], [size_of(source)]).datasets[0]


@dataclass(frozen=True, slots=True)
class _Run:
    request: StatsRequest
    handle: TokenizerHandle | None
    workers: Workers
    progress: Progress
    cancelled: Cancelled

    def report(self, sources: Sequence[Source], sizes: Sequence[int]) -> Report:
        texts = [source for source in sources if self._is_text(source)]
        if not texts:
            return self._of_tokens(sources, sizes)
        if len(texts) < len(sources):
            raise OptionError(
                f"{printable(texts[0].paths[0])}: holds text, other paths hold token ids. --tokenizer makes them alike"
            )
        return self._of_texts(sources, sizes)

    def _is_text(self, source: Source) -> bool:
        reader = source.reader
        return isinstance(reader, RecordReader) and reader.info.kind == "text" and self.handle is None

    # token ids

    def _of_tokens(self, sources: Sequence[Source], sizes: Sequence[int]) -> Report:
        request, handle = self.request, self.handle
        wanted = Wanted(
            request.vocab_size or (handle.vocab_size if handle else None),
            request.seq_len,
            handle.decoder(lenient=True) if handle else None,
        )
        prepared = [self._axis(source, number) for number, source in enumerate(sources)]
        axes = [axis.axis if isinstance(axis, Drawn) else axis for axis, _ in prepared]
        surveys = measure(
            axes,
            self.workers,
            duplicates=request.duplicates and request.sample is None,
            progress=self.progress,
            cancelled=self.cancelled,
        )
        subjects = [
            Subject(source, size, survey, (*source.notes, *notes))
            for source, size, survey, (_, notes) in zip(sources, sizes, surveys, prepared, strict=True)
        ]
        drawn = [axis if isinstance(axis, Drawn) else None for axis, _ in prepared]
        each = [
            self._estimated(described(subject, wanted), [part]) for subject, part in zip(subjects, drawn, strict=True)
        ]
        total = self._estimated(total_of(subjects, wanted), drawn) if len(subjects) > 1 else None
        return Report(each, total)

    def _axis(self, source: Source, number: int) -> tuple[StatsAxis | Drawn, list[str]]:
        """What to walk; text and ids in JSON lines become an axis in a scratch directory."""
        reader, notes = source.reader, list[str]()
        if isinstance(reader, RecordReader):
            axis: StatsAxis = self._ingested(source, reader, number)
        else:
            axis, notes = stored_axis(source, reader)
        drawn = draw(axis, self.request.sample, self.request.seed) if self.request.sample is not None else None
        return (axis if drawn is None else drawn), notes

    def _ingested(self, source: Source, reader: RecordReader, number: int) -> StatsAxis:
        text = reader.info.kind == "text"
        self.progress.phase("tokenizing" if text else "reading ids", reader.info.size, "bytes")
        encoder = self.handle.encoder() if text and self.handle is not None else None
        name = f"source-{number}"
        shards = ingest(
            reader, encoder, self.workers, name=name, progress=lambda shard: self.progress.advance(shard.size)
        )
        return axis_of(shards, str(source.paths[0]))

    def _estimated(self, found: Statistics, drawn: Sequence[Drawn | None]) -> Statistics:
        """Mark what comes from a sample, and put the dataset's own counts in where they are known."""
        parts = [part for part in drawn if part is not None]
        if not parts or found.tokens is None:
            return found
        looked = found.sequences, found.tokens
        sequences = found.sequences + sum(part.sequences - part.axis.info.sequences for part in parts)
        tokens = found.tokens + sum(part.tokens - part.axis.content_tokens for part in parts)
        exact = ["bytes", *(["sequences", "tokens", "bytes_per_token"] if all(p.exact for p in parts) else [])]
        return replace(
            found,
            sequences=sequences,
            tokens=tokens,
            bytes_per_token=found.bytes / tokens if tokens else None,
            separators=None,
            padding=None,
            estimated=True,
            sampled=Sampled(looked[0], looked[1], sequences, self.request.seed, exact),
        )

    # text

    def _of_texts(self, sources: Sequence[Source], sizes: Sequence[int]) -> Report:
        subjects, shares = [], []
        for source, size in zip(sources, sizes, strict=True):
            records: RecordReader = source.reader  # type: ignore[assignment]
            some = draw_records(records, self.request.sample, self.request.seed) if self.request.sample else None
            survey = measure_texts(
                some or records,
                self.workers,
                duplicates=self.request.duplicates and self.request.sample is None,
                progress=self.progress,
                cancelled=self.cancelled,
            )
            shares.append(some.info.size / records.info.size if some else 1.0)
            subjects.append(TextSubject(source, size, survey, source.notes))
        each = [
            self._scaled(described_texts([subject]), [share]) for subject, share in zip(subjects, shares, strict=True)
        ]
        total = self._scaled(described_texts(subjects), shares) if len(subjects) > 1 else None
        return Report(each, total)

    def _scaled(self, found: Statistics, shares: Sequence[float]) -> Statistics:
        """Mark what comes from a sample of the given share of the bytes."""
        if all(share == 1 for share in shares):
            return found
        sequences = round(found.sequences * len(shares) / sum(shares))
        sampled = Sampled(found.sequences, None, sequences, self.request.seed, ["bytes"])
        return replace(found, sequences=sequences, estimated=True, sampled=sampled)


def _tokenizer(spec: str | None) -> TokenizerHandle | None:
    if spec is None:
        return None
    from tokfmt.text.tokenizer import load_tokenizer

    return load_tokenizer(spec)
