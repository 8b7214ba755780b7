"""`tokfmt stats` as a function: open, tokenise what is text, walk, describe."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt import registry
from tokfmt.core.axis import Separators, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Source, open_stored
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.separator import Separator, without_separators
from tokfmt.ops.sources import SourceRequest, check_unchanged, expanded, read_options, snapshot
from tokfmt.ops.stats.axis import Indexed, StatsAxis, Streamed, axis_of
from tokfmt.ops.stats.describe import Outline, Subject, Wanted, described, outlined, total_of
from tokfmt.ops.stats.measure import measure
from tokfmt.ops.stats.report import Report, Statistics
from tokfmt.ops.tokenize import ingest
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

Path_ = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """What a user asks for.

    Attributes:
        source: Paths, each a dataset of its own, and how to read them.
        tokenizer: To tokenise text, to spell ids, to know the vocabulary.
        vocab_size: To compare ids with; the tokenizer's when None.
        seq_len: To compute the cost of packing.
        duplicates: Look for equal sequences; takes 24 bytes a sequence.
        sample: Look at so many sequences only.
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


def stats(
    request: StatsRequest, progress: Progress | None = None, cancelled: Callable[[], bool] = lambda: False
) -> Report:
    """Statistics of some datasets, and of all together.

    Raises:
        TokfmtError: One of its kinds; `CancelledError` when `cancelled` says so.
    """
    watched, jobs = progress or Silent(), request.jobs or os.cpu_count() or 1
    handle = _tokenizer(request)
    wanted = Wanted(
        request.vocab_size or (handle.vocab_size if handle else None),
        request.seq_len,
        handle.decoder(lenient=True) if handle else None,
    )
    paths = expanded(request.source.paths)
    before = snapshot(paths)
    sources = [_opened(path, request.source, handle) for path in paths]
    with tempfile.TemporaryDirectory(prefix="tokfmt-") as scratch, make_executor(request.executor, jobs) as executor:
        workers = Workers(executor, jobs, Path(scratch))
        prepared = [_prepared(source, number, handle, workers, watched) for number, source in enumerate(sources)]
        surveys = measure(
            [axis for axis, _ in prepared], workers, duplicates=request.duplicates, progress=watched,
            cancelled=cancelled,
        )  # fmt: skip
        subjects = [
            Subject(source, _bytes(before, path), survey, (*source.notes, *notes))
            for source, path, survey, (_, notes) in zip(sources, paths, surveys, prepared, strict=True)
        ]
        report = Report([described(subject, wanted) for subject in subjects])
        if len(subjects) > 1:
            report = replace(report, total=total_of(subjects, wanted))
        check_unchanged(before, paths)
    return report


def _tokenizer(request: StatsRequest) -> TokenizerHandle | None:
    if request.tokenizer is None:
        return None
    from tokfmt.text.tokenizer import load_tokenizer

    return load_tokenizer(request.tokenizer)


def _opened(path: Path_, request: SourceRequest, handle: TokenizerHandle | None) -> Source:
    chosen = registry.get(request.format) if request.format else registry.detect(path)
    return open_stored(
        [path],
        format=chosen.name,
        eos=request.eos,
        tokenizer_eos=handle.eos_id if handle else None,
        options=read_options(request, chosen),
        drop=request.drop,
    )


def _prepared(
    source: Source, number: int, handle: TokenizerHandle | None, workers: Workers, progress: Progress
) -> tuple[StatsAxis, list[str]]:
    """The axis to walk; text and ids in JSON lines become one in a scratch directory."""
    reader = source.reader
    if not isinstance(reader, RecordReader):
        return stored_axis(reader, source.separator, source.paths[0])
    text = reader.info.kind == "text"
    progress.phase("tokenizing" if text else "reading ids", reader.info.size, "bytes")
    encoder = handle.encoder() if text and handle is not None else None
    shards = ingest(
        reader, encoder, workers, name=f"source-{number}", progress=lambda shard: progress.advance(shard.size)
    )
    return axis_of(shards, str(source.paths[0])), []


def stored_axis(stored: TokenReader, separator: Separator, path: Path) -> tuple[StatsAxis, list[str]]:
    """A stored axis as statistics walk it, and notes on what was decided. A stream is not scanned for that.

    A stream whose separator nobody knows is one sequence: its ids can tell what the separator is.
    """
    info, eos_id = stored.info, separator.eos_id
    if info.separators is Separators.BETWEEN and info.tokens:
        if eos_id is not None:
            return Streamed(stored, eos_id), []
        why = "--eos none" if separator.source == "--eos none" else "no separator known; --eos ID splits it"
        return Indexed(stored, None, str(path)), [f"{path.name}: read as one sequence ({why})"]
    reader, notes = without_separators(stored, separator, path)
    return axis_of(reader, str(path)), notes


def glance(source: Source) -> Statistics:
    """What an opened dataset tells by its header and index, without a token being read.

    Args:
        source: As `open_stored` or `open_source` give it, not text.

    Returns:
        Statistics whose `ids`, `first_tokens`, `last_tokens` and `duplicates` are None. `lengths` is exact where an
        index tells it, and None for a stream that nobody has split yet; its `sequences` are 0 and `tokens` those stored.
    """
    path = source.paths[0]
    if isinstance(source.reader, RecordReader):
        raise TypeError(f"{path}: text has no tokens to look at")
    axis, notes = stored_axis(source.reader, source.separator, path)
    size = _bytes(snapshot(source.paths[:1]), path)
    return outlined(Outline(source, axis, size, (*source.notes, *notes)))


def _bytes(found: dict[Path, tuple[int, int, int]], path: Path_) -> int:
    """Bytes of all files of a path."""
    place = Path(path)
    return sum(size for file, (size, _, _) in found.items() if file == place or place in file.parents)
