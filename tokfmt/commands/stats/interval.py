"""Count tokens by source in samples of a recipe or a run (`tokfmt stats --select`, `--step`), without reading any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokfmt.commands.stats.report import Share, SourceTokens, Statistics
from tokfmt.core.reader import TokenReader, windows
from tokfmt.errors import OptionError
from tokfmt.mix import Samples
from tokfmt.run.progress import Progress
from tokfmt.runs.arrays import Numbers
from tokfmt.runs.reader import RunReader
from tokfmt.source.request import parse_selection
from tokfmt.source.stored import Source
from tokfmt.wording import printable

_WINDOW = 1 << 14  # samples whose parts are held at once


def interval_statistics(source: Source, size: int, interval: str, progress: Progress, *, of_steps: bool) -> Statistics:
    """Return the statistics of an interval of samples, or of steps of a run, that indexes and order files give."""
    reader: TokenReader = source.reader  # type: ignore[assignment]
    if not isinstance(reader, (Samples, RunReader)):
        raise OptionError(
            f"{printable(source.paths[0])}: is neither a recipe of samples nor a run, whose sources --select counts. "
            "`tokfmt convert --select` writes sequences of any dataset",
            name="select",
        )
    if isinstance(reader, RunReader):
        first, last = reader.interval(interval, source.paths[0], of_steps=of_steps)
    elif of_steps:
        raise OptionError("--step is of runs. Give the samples of a recipe by --select A:B", name="step")
    else:
        first, last = parse_selection(interval, reader.info.sequences, source.paths)
    names = [one.name for one in (reader.order.sources if isinstance(reader, RunReader) else reader.sources)]
    tokens, samples = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for row, of_source, length in _parts(reader, first, last, progress):
        tokens += np.bincount(of_source, length, len(names)).astype(np.int64)
        pairs = np.unique(row * len(names) + of_source) % len(names)
        samples += np.bincount(pairs, minlength=len(names))
    positions, total = (last - first) * reader.seq_len, int(tokens.sum())
    return Statistics(
        path=str(source.paths[0]),
        format=source.format.name,
        layout=reader.info.layout.value,
        variant=dict(reader.info.facts),
        dtype=reader.info.dtype.name,
        bytes=size,
        sequences=last - first,
        tokens=total,
        sample_length=reader.seq_len,
        padding=Share.of(positions - total, positions),
        sources=[
            SourceTokens(name, count, of_samples, count / total if total else 0.0)
            for name, count, of_samples in zip(names, tokens.tolist(), samples.tolist(), strict=True)
        ],
        notes=source.notes,
    )


def _parts(
    reader: Samples | RunReader, first: int, last: int, progress: Progress
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Yield the parts of windows of samples, that are not empty: index of the sample, source, input tokens."""
    progress.phase("counting", last - first, "samples")
    for a, b in windows(first, last, _WINDOW):
        if isinstance(reader, RunReader):
            row, source, length = reader.order.inputs(np.arange(a, b) + reader.order.first)
        else:
            row, source, _, start, stop = reader.table(np.arange(a, b))
            length = stop - start
        held = length > 0
        yield row[held], source[held], length[held]
        progress.advance(b - a)
