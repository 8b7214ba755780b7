"""Export selected sequences of an opened dataset to a file of JSON lines, as the browser does with its hits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt import registry
from tokfmt.base.options import parse_options
from tokfmt.commands.guards import guard
from tokfmt.core.format import Decoder, Format, Target
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.files.file import writing
from tokfmt.files.place import LocalPlace, PlaceLike, place_of
from tokfmt.files.publisher import LocalPublisher
from tokfmt.files.replacing import readable_by
from tokfmt.model.select import Chosen, Slice
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Workers, plan, run
from tokfmt.run.progress import Progress
from tokfmt.source.discover import check_unchanged, snapshot
from tokfmt.source.manifest import manifest_path
from tokfmt.source.request import SourceFiles

_REGION = 1 << 20  # tokens; small, so that the browser can show progress
_BLOCK = 1 << 22  # bytes
_GAP = 1 << 12  # records; reading past fewer unwanted ones is cheaper than seeking to the next
_LINES = 1 << 12  # between two reports of progress

Numbers = NDArray[np.int64]


def export(
    source: TokenReader | RecordReader,
    rows: Numbers,
    destination: str | os.PathLike[str],
    *,
    paths: Sequence[PlaceLike] = (),
    format: Format | None = None,  # noqa: A002 - the word users know
    decoder: Decoder | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write sequences to a file, one JSON line each, in the given order. The file is complete, or not written. The rows
    are unique; the source is read in its own order. Without a decoder, IDs are written. The result is the size of the
    file in bytes.
    """
    place = LocalPlace(destination)
    files = [SourceFiles(path, format, tuple(format.files(path))) for path in map(place_of, paths)] if format else []
    guard(place, paths, files)
    watched, before = progress or Progress(), snapshot(files)
    rows = np.asarray(rows, np.int64)
    order = np.argsort(rows, kind="stable")
    # readers raise their own errors, which `writing` does not change
    with writing(place), LocalPublisher(place, overwrite=overwrite, readable=readable_by(before)) as staging:
        if isinstance(source, RecordReader):
            _copy(source, rows[order], staging.path, watched)
        else:
            _write(_chosen(source, rows[order]), staging, decoder, watched)
        if (np.diff(order) < 0).any():
            _put_in_order(staging, np.argsort(order), watched)
        check_unchanged(before, files)
        size = os.stat(staging.path).st_size
        staging.publish({manifest_path(staging.destination).name: None})
    return size


def _chosen(source: TokenReader, rows: Numbers) -> TokenReader:
    if not len(rows):
        return Slice(source, 0, 0)
    first, last = int(rows[0]), int(rows[-1]) + 1
    part = Slice(source, first, last)
    if last - first == len(rows):
        return part

    def mask(a: int, b: int) -> NDArray[np.bool_]:
        wanted = np.zeros(b - a, np.bool_)
        low, high = np.searchsorted(rows, [first + a, first + b]).tolist()
        wanted[rows[low:high] - (first + a)] = True
        return wanted

    return Chosen(part, mask)


def _write(reader: TokenReader, staging: LocalPublisher, decoder: Decoder | None, progress: Progress) -> None:
    jsonl = registry.get("jsonl")
    writer = jsonl.writer(staging.path, parse_options(jsonl.write_options, (), "jsonl"), Target(decoder=decoder))
    with SerialExecutor() as executor:
        job = plan(reader, writer, _REGION)
        lengths = {region.index: len(region.tokens) for region in job.regions}
        progress.phase("writing", reader.info.tokens, "tokens")
        for receipt in run(job, Workers(executor, 1, staging.scratch)):
            progress.advance(lengths[receipt.region])


def _copy(records: RecordReader, rows: Numbers, path: Path, progress: Progress) -> None:
    """Write records as JSON lines; records that are JSON lines are copied unchanged."""
    progress.phase("copying", len(rows), "records")
    with open(path, "wb") as out:
        for lines in _lines(records, rows):
            out.writelines(line + b"\n" for line in lines)
            progress.advance(len(lines))


def _put_in_order(staging: LocalPublisher, places: Numbers, progress: Progress) -> None:
    """Put the lines of the written file in another order, each given by its number there."""
    progress.phase("putting in order", len(places), "lines")
    ascending = staging.scratch / "ascending.jsonl"
    shutil.copyfile(staging.path, ascending)
    with open(ascending, "rb") as lines, open(staging.path, "wb") as out:
        ends = np.cumsum([len(line) for line in lines])
        for first in range(0, len(places), _LINES):
            some = places[first : first + _LINES].tolist()
            for place in some:
                start = int(ends[place - 1]) if place else 0
                out.write(os.pread(lines.fileno(), int(ends[place]) - start, start))
            progress.advance(len(some))


def _lines(records: RecordReader, rows: Numbers) -> Iterator[list[bytes]]:
    """Yield the selected lines in batches; gaps of more than `_GAP` records are not read."""
    for group in np.split(rows, np.flatnonzero(np.diff(rows) > _GAP) + 1):
        if not len(group):
            return
        number = int(group[0])
        for block in records.blocks(_BLOCK, number, int(group[-1]) + 1):
            for batch in records.lines(block):
                low, high = np.searchsorted(group, [number, number + len(batch.lines)]).tolist()
                yield [batch.lines[i - number] for i in group[low:high].tolist()]
                number += len(batch.lines)
