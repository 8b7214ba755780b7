"""Documents that end with the separator twice: find them in a stream, and leave out one of both.

In a stream, the second separator is an empty sequence behind the document (or in front of it, where separators are
in front). In an index, it is the last token but one of the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import TokenReader, windows
from tokfmt.model.dataset import Dataset
from tokfmt.model.readers import ContentReader, dataset_of
from tokfmt.model.spans import Ended, Shorter, Spans

_AT_ONCE = 1 << 18  # Sequences whose ends are looked at together.


class Doubled(NamedTuple):
    """Documents of a stream that have two separators."""

    documents: int
    of: int  # sequences that are not empty
    first: int  # -1 without one


def doubled_in(reader: TokenReader) -> Doubled:
    """Count the documents of a stream that have two separators."""
    count = of = 0
    first = -1
    for full, number in _of_stream(dataset_of(reader)):
        of += len(full)
        count += len(number)
        first = int(number[0]) if first < 0 and len(number) else first
    return Doubled(count, of, first)


def once(reader: TokenReader, eos_id: int) -> tuple[TokenReader, int]:
    """Return the sequences with one separator where a document has two, and the number of these documents."""
    dataset = dataset_of(reader)
    if dataset.gap.alone:
        single, step = np.ones(len(dataset), np.bool_), -1 if dataset.gap.side == "before" else 1
        for _, numbers in _of_stream(dataset):
            single[numbers + step] = False
        spans = dataset.take(np.flatnonzero(single)).spans
        return ContentReader(replace(dataset, spans=spans)), int(np.count_nonzero(~single))
    lacking = np.zeros(len(dataset), np.bool_)
    for a, b in windows(0, len(dataset), _AT_ONCE):
        starts, stops = dataset.spans.extents(a, b)
        long = np.flatnonzero(stops - starts > 1)
        ends = dataset.axis.gather(stops[long] - 2, np.full(len(long), 2)).reshape(-1, 2)
        lacking[a + long[(ends == eos_id).all(1)]] = True
    shorter: Spans = Shorter(dataset.spans, lacking)
    if dataset.gap.id is not None:
        shorter = Ended(shorter, eos_id)
    return ContentReader(replace(dataset, spans=shorter)), int(np.count_nonzero(lacking))


def _of_stream(dataset: Dataset) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the numbers of sequences that are not empty, and of those that an empty one is beside."""
    before = dataset.gap.side == "before"
    for a, b in windows(0, len(dataset), _AT_ONCE):
        low, high = max(0, a - 1), min(len(dataset), b + 1)
        starts, stops, _ = dataset.contents(low, high)
        full = stops > starts
        beside = np.append(False, ~full[:-1]) if before else np.append(~full[1:], False)
        numbers, own = np.arange(low, high), slice(a - low, b - low)
        yield numbers[own][full[own]], numbers[own][(full & beside)[own]]
