"""Datasets opened for statistics: as they are stored, for a stream is split while it is counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt import registry
from tokfmt.core.axis import Separators, TokenReader
from tokfmt.core.errors import OptionError, printable
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Source, open_stored
from tokfmt.ops.separator import without_separators
from tokfmt.ops.sources import SourceRequest, read_options, snapshot
from tokfmt.ops.stats.axis import Indexed, StatsAxis, Streamed, axis_of
from tokfmt.ops.stats.describe import Outline, outlined
from tokfmt.ops.stats.report import Statistics
from tokfmt.views.split import SplitAt

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

Path_ = str | os.PathLike[str]


def opened(path: Path_, request: SourceRequest, handle: TokenizerHandle | None) -> Source:
    """One dataset, as it is stored."""
    chosen = registry.get(request.format) if request.format else registry.detect(path)
    return open_stored(
        [path],
        format=chosen.name,
        eos=request.eos,
        tokenizer_eos=handle.eos_id if handle else None,
        options=read_options(request, chosen),
        drop=request.drop | {"fields"},  # nothing is lost by looking
    )


def stored_axis(source: Source, stored: TokenReader) -> tuple[StatsAxis, list[str]]:
    """The axis of a source as statistics walk it, and notes on what was decided; no stream is scanned for that.

    A stream whose separator nobody knows is one sequence: its ids can tell what the separator is.
    """
    path, separator = source.paths[0], source.separator
    info, eos_id = stored.info, separator.eos_id
    if info.separators is Separators.BETWEEN and info.tokens:
        if eos_id is not None:
            return Streamed(stored, eos_id), []
        why = "--eos none" if separator.source == "--eos none" else "no separator known; --eos ID splits it"
        return Indexed(stored, None, str(path)), [f"{path.name}: read as one sequence ({why})"]
    reader, notes = without_separators(stored, separator, source.endings, path)
    return axis_of(reader, str(path)), notes


def glance(source: Source) -> Statistics:
    """What an opened dataset tells by its header and index, without a token being read.

    Args:
        source: As `open_stored` or `open_source` give it, not text.

    Returns:
        Statistics whose `ids`, `first_tokens`, `last_tokens` and `duplicates` are None. `lengths` is exact where an
        index tells it, or a scan has; None for a stream that nobody has split: its `sequences` are 0 then, and its
        `tokens` those stored.
    """
    path, reader = source.paths[0], source.reader
    if isinstance(reader, RecordReader):
        raise OptionError(f"{printable(path)}: holds records, which have no tokens to look at yet")
    axis, notes = stored_axis(source, reader)
    if isinstance(reader, SplitAt):
        axis = Indexed(reader, None, str(path))  # where its sequences lie is known by now
    return outlined(Outline(source, axis, size_of(source), (*source.notes, *notes)))


def size_of(source: Source) -> int:
    """Bytes of all files of a dataset."""
    found = snapshot(source.paths)
    return sum(size for size, _, _ in found.values())


def bytes_of(found: dict[Path, tuple[int, int, int]], path: Path_) -> int:
    """Bytes of all files of a path."""
    place = Path(path)
    return sum(size for file, (size, _, _) in found.items() if file == place or place in file.parents)
