"""`tokfmt diff`: do two datasets hold the same sequences, whatever their formats?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from tokfmt.core.errors import OptionError
from tokfmt.ops.alignment import Alignment, Side
from tokfmt.ops.compared import Compared, Request, open_both
from tokfmt.ops.moves import Difference, Tally
from tokfmt.ops.multiset import Surplus, all_fingerprints, surpluses
from tokfmt.ops.progress import Progress, Silent

CONTEXT = 8
"""Tokens shown on either side of the first difference."""

_NAMES = ("tokens", "loss mask", "labels")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some tokens of one sequence, around a position.

    Attributes:
        sequence: Its number.
        length: Of the whole sequence.
        start: Position within the sequence of the first token here.
        values: Ids (or mask, or labels).
        text: Of these ids, when there is a decoder.
    """

    sequence: int
    length: int
    start: int
    values: list[int]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The first difference.

    Attributes:
        difference: Of which kind, and where.
        what: "tokens", "loss mask" or "labels".
        position: Within the sequence, of the first value that differs; 0 for a sequence that is only on one side.
        values: Both values there; None where the sequence has ended, or is not there.
        a, b: What stands around it.
    """

    difference: Difference
    what: str
    position: int
    values: tuple[int | None, int | None]
    a: Excerpt | None
    b: Excerpt | None


@dataclass(frozen=True, slots=True)
class Dataset:
    """One of both.

    Attributes:
        path, format: Where and what it is.
        sequences, tokens: Its size.
        notes: What a person should be told.
    """

    path: str
    format: str
    sequences: int
    tokens: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What `tokfmt diff` found.

    Attributes:
        identical: No difference at all.
        unit: "tokens", or "bytes" where text was compared as text.
        compared: "tokens", and "loss mask", "labels" where samples were compared as stored.
        a, b: Both datasets.
        same: Sequences alike; None when the order was ignored.
        counts: Differences by kind; see `moves.Difference`.
        first: None when there is none, or the order was ignored.
        differences: The first ones.
        surplus: With the order ignored: what A has more of, and B.
        complete: Whether all moves were looked for.
    """

    identical: bool
    unit: str
    compared: tuple[str, ...]
    a: Dataset
    b: Dataset
    same: int | None
    counts: dict[str, int]
    first: First | None
    differences: list[Difference]
    surplus: tuple[Surplus, Surplus] | None
    complete: bool = True


def diff(
    request: Request,
    *,
    ignore_order: bool = False,
    limit: int = 10,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare two datasets, sequence by sequence.

    Args:
        request: Both, and how to read them.
        ignore_order: Compare multisets, by fingerprints of 128 bits.
        limit: Differences listed, and examples with the order ignored.
        jobs: Threads; by default one a core.
        progress: Who is told how far it is.

    Raises:
        TokfmtError: One of its kinds.
    """
    watched = progress or Silent()
    if ignore_order and request.samples:
        raise OptionError("--samples compares rows as they lie, so not with --ignore-order")
    both = open_both(request, watched)
    try:
        return _unordered(both, limit, watched) if ignore_order else _ordered(both, limit, jobs, watched)
    finally:
        both.close()


def _datasets(both: Compared) -> tuple[Dataset, Dataset]:
    found = []
    for source, side in ((both.source_a, both.a), (both.source_b, both.b)):
        info = side.reader.info
        found.append(
            Dataset(str(source.paths[0]), source.format.name, info.sequences, info.tokens, tuple(source.notes))
        )
    return found[0], found[1]


def _ordered(both: Compared, limit: int, jobs: int | None, progress: Progress) -> Report:
    a, b = _datasets(both)
    jobs = jobs or os.cpu_count() or 1
    progress.phase("comparing", a.tokens, both.unit)
    with _threads(jobs) as threads:
        alignment = Alignment(both.a, both.b, threads, progress.advance, jobs=2 * jobs)
        tally = Tally(max(1, limit))
        tally.add(alignment.changes())
    tally.settle()
    first = _first(both, alignment, tally.listed[0]) if tally.listed else None
    return Report(
        identical=first is None,
        unit=both.unit,
        compared=_NAMES[: len(both.a.channels)],
        a=a,
        b=b,
        same=alignment.same,
        counts={kind: tally.counts[kind] for kind in sorted(tally.counts)},
        first=first,
        differences=tally.listed[:limit],
        surplus=None,
        complete=tally.complete,
    )


@contextlib.contextmanager
def _threads(jobs: int) -> Iterator[Executor | None]:
    if jobs == 1:
        yield None
        return
    with ThreadPoolExecutor(jobs) as threads:
        yield threads


def _unordered(both: Compared, limit: int, progress: Progress) -> Report:
    a, b = _datasets(both)
    progress.phase("hashing", a.sequences + b.sequences, "sequences")
    prints = [all_fingerprints(side.reader, progress.advance) for side in (both.a, both.b)]
    more_a, more_b = surpluses(prints[0], prints[1], limit)
    counts = {"only_in_a": more_a.count, "only_in_b": more_b.count}
    return Report(
        identical=not any(counts.values()),
        unit=both.unit,
        compared=_NAMES[:1],
        a=a,
        b=b,
        same=None,
        counts={kind: count for kind, count in counts.items() if count},
        first=None,
        differences=[],
        surplus=(more_a, more_b),
    )


def _first(both: Compared, alignment: Alignment, difference: Difference) -> First:
    i, j = difference.a, difference.b
    if difference.kind == "moved":  # shown where it is missing
        j = None
    if i is None or j is None:
        a = None if i is None else _excerpt(both, both.a, i, 0, 0)
        b = None if j is None else _excerpt(both, both.b, j, 0, 0)
        values = (a.values[0] if a and a.values else None, b.values[0] if b and b.values else None)
        return First(difference, _NAMES[0], 0, values, a, b)
    bounds_a, bounds_b = both.a.reader.offsets(i, i + 1).tolist(), both.b.reader.offsets(j, j + 1).tolist()
    shorter = min(bounds_a[1] - bounds_a[0], bounds_b[1] - bounds_b[0])
    found = alignment.first_difference(bounds_a[0], bounds_b[0], shorter)
    position = shorter if found < 0 else found
    channel, values = _values(both, bounds_a, bounds_b, position)
    return First(
        difference,
        _NAMES[channel],
        position,
        values,
        _excerpt(both, both.a, i, position, channel),
        _excerpt(both, both.b, j, position, channel),
    )


def _values(
    both: Compared, bounds_a: list[int], bounds_b: list[int], position: int
) -> tuple[int, tuple[int | None, int | None]]:
    """The channel that differs first at a position of two sequences, and its values."""
    found: list[tuple[int | None, int | None]] = []
    for read_a, read_b in zip(both.a.channels, both.b.channels, strict=True):
        pair = []
        for read, (start, stop) in ((read_a, bounds_a), (read_b, bounds_b)):
            at = start + position
            pair.append(int(read(at, at + 1)[0]) if at < stop else None)
        found.append((pair[0], pair[1]))
    channel = next((k for k, (x, y) in enumerate(found) if x != y), 0)
    return channel, found[channel]


def _excerpt(both: Compared, side: Side, sequence: int, position: int, channel: int) -> Excerpt:
    start, stop = side.reader.offsets(sequence, sequence + 1).tolist()
    a, b = max(start, start + position - CONTEXT * both.scale), min(stop, start + position + CONTEXT * both.scale + 1)
    values = [int(value) for value in side.channels[channel](a, b)]
    text = None
    if both.decoder is not None:
        text = both.decoder.decode(side.reader.tokens(a, b))
    return Excerpt(sequence, stop - start, a - start, values, text)
