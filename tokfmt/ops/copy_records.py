"""Records of one format to the same format: lines are copied as they stand, selected, validated, concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokfmt.core.output import concatenate, whole
from tokfmt.core.records import Block, RecordReader
from tokfmt.ops.progress import Progress
from tokfmt.ops.sources import parse_selection
from tokfmt.run.plan import Kind, Workers, journaled

_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class Copied:
    """How many records were copied, left out as invalid, and in how many tasks."""

    records: int
    invalid: int
    tasks: int


@dataclass(frozen=True, slots=True)
class _Part:
    number: int
    path: Path
    records: int
    invalid: int
    size: int


def selected_blocks(readers: Sequence[RecordReader], selection: str | None) -> list[tuple[int, Block]]:
    """Blocks of all readers, in order, that hold the selected records; each with the number of its reader."""
    if selection is None:
        return [(k, block) for k, reader in enumerate(readers) for block in reader.blocks(_BLOCK)]
    counts = [reader.count() for reader in readers]
    first, last = parse_selection(selection, sum(counts))
    found, base = [], 0
    for k, (reader, count) in enumerate(zip(readers, counts, strict=True)):
        a, b = max(first - base, 0), min(last - base, count)
        if a < b:
            found += [(k, block) for block in reader.blocks(_BLOCK, a, b)]
        base += count
    return found


def copy_records(
    readers: Sequence[RecordReader], path: Path, selection: str | None, workers: Workers, progress: Progress
) -> Copied:
    """Write the selected records of all readers to `path`, one line each, in order."""
    blocks = list(enumerate(selected_blocks(readers, selection)))
    progress.phase("copying", sum(block.stop - block.start for _, (_, block) in blocks), "bytes")
    parts, home = [], copies_in(workers)
    home.mkdir(exist_ok=True)
    kind: Kind[tuple[int, tuple[int, Block]], _Part] = Kind(
        "copy",
        number=lambda item: item[0],
        finished=lambda part: part.number,
        facts=lambda part: [part.records, part.invalid, part.size],
        recall=lambda number, facts: _Part(number, home / f"{number:06d}", *facts),
    )
    for part in journaled(kind, _copy_block, (list(readers), home), blocks, workers):
        parts.append(part)
        progress.advance(part.size)
    parts.sort(key=lambda part: part.number)
    journal, paths = workers.journal, [part.path for part in parts]
    journal.sync()
    journal.once("copied", lambda: concatenate(paths, path, keep=journal.keeps))
    return Copied(sum(p.records for p in parts), sum(p.invalid for p in parts), len(parts))


def copies_in(workers: Workers) -> Path:
    """The directory in scratch that holds the parts; made by `copy_records`."""
    return workers.scratch / "done-copies"


def _copy_block(shared: tuple[list[RecordReader], Path], item: tuple[int, tuple[int, Block]]) -> _Part:
    readers, scratch = shared
    number, (k, block) = item
    path = scratch / f"{number:06d}"
    records, invalid = 0, 0
    with whole(path) as out:
        for batch in readers[k].lines(block):
            out.writelines(line + b"\n" for line in batch.lines)
            records, invalid = records + len(batch.lines), invalid + batch.invalid
    return _Part(number, path, records, invalid, block.stop - block.start)
