"""Count what a conversion does with the separator of each sequence: kept, replaced, added or dropped; or there is none.

The views that removed separators know which sequences had one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tokfmt.core.protocols import InsertsSeparators, MappedView
from tokfmt.core.reader import TokenReader, windows
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import SEP, Counts, Flags
from tokfmt.model.bridge import DatasetReader, ReaderAxis
from tokfmt.model.dataset import Dataset
from tokfmt.views.select import Concat, Known, Slice
from tokfmt.views.view import SplitAt, WithoutTrailing

Chosen = Callable[[int, int, Numbers], Flags]
"""Which of the sequences `first <= i < last` are written, given their numbers of tokens."""
Beside = int | Callable[[Numbers], Numbers]
"""The separator that was removed from each sequence: one for all, or a function of their numbers. -1: none was."""

_NONE = -1
_AT_ONCE = 1 << 18


def count_separators(axis: TokenReader, chosen: Chosen, count: int, eos_id: int | None, *, merged: int = 0) -> Counts:
    """Return what becomes of the separators of the sequences that are written. The sum is their number.

    Args:
        axis: All sources as one token axis, without separators.
        chosen: Which of its sequences are written.
        count: Number of sequences that are written.
        eos_id: The separator that is written; None: none is.
        merged: Number of sequences that end with the separator, so that the writer adds no other to them. They keep it.
    """
    beside = _beside(axis)
    had = kept = ended = 0
    if callable(beside):
        for first, last in windows(0, axis.info.sequences, _AT_ONCE):
            bounds = axis.offsets(first, last)
            lengths = np.diff(bounds)
            taken = chosen(first, last, lengths)
            ids = beside(np.arange(first, last))[taken]
            had, kept = had + int(np.count_nonzero(ids != _NONE)), kept + int(np.count_nonzero(ids == eos_id))
            if merged:
                ends = bounds[1:][taken][(ids == _NONE) & (lengths[taken] > 0)] - 1
                ended += int(np.count_nonzero(ReaderAxis(axis).at(ends) == eos_id))
    else:
        had, kept = count * (beside != _NONE), count * (beside == eos_id)
        ended = 0 if had else merged
    # `had` had a separator, `kept` had this one, and `ended` had none and end with it.
    if eos_id is None:
        return Counts(dropped=had, bare=count - had)
    return Counts(kept + ended, had - kept, count - had - ended)


def _beside(reader: TokenReader) -> Beside:
    """Return the separators that the views of a reader have removed."""
    if isinstance(reader, WithoutTrailing):
        return reader.eos_id
    if isinstance(reader, SplitAt):
        eos_id, is_closed = reader.eos_id, reader.is_closed
        edges = np.array([0, reader.info.sequences - 1][: reader.info.sequences])
        if not isinstance(reader.source, InsertsSeparators) and is_closed(edges).all():
            return eos_id  # Only the first or the last sequence of a file can lack one.
        return lambda numbers: np.where(is_closed(numbers), eos_id, _NONE)
    if isinstance(reader, DatasetReader):
        return _of_dataset(reader.dataset)
    if isinstance(reader, Known):
        return _beside(reader.source)
    if isinstance(reader, Slice):
        inner, begin = _beside(reader.source), reader.first
        return (lambda numbers: inner(numbers + begin)) if callable(inner) else inner
    if isinstance(reader, Concat):
        return _of_parts([_beside(one) for one in reader.sources], reader.holders)
    return _of_recipe(reader) if isinstance(reader, MappedView) else _NONE


def _of_dataset(dataset: Dataset) -> Beside:
    spans, eos_id = dataset.spans, dataset.gap.id

    def beside(numbers: Numbers) -> Numbers:
        bits = spans.trim(numbers, *spans.extents_of(numbers), dataset.axis)[2]
        return np.where(bits & SEP, _NONE if eos_id is None else eos_id, _NONE)

    return beside


def _of_recipe(reader: TokenReader) -> Beside:
    from tokfmt.ops.source.recipe import Deferred  # Only recipes need what these modules import.
    from tokfmt.recipes.documents import Documents

    if isinstance(reader, Deferred):
        return _beside(reader.reader)
    if isinstance(reader, Documents):
        return _of_parts([_beside(one.all_of_it) for one in reader.sources], reader.origins)
    return _NONE


def _of_parts(parts: Sequence[Beside], places: Callable[[Numbers], tuple[Numbers, Numbers]]) -> Beside:
    """Return the separators of joined readers.

    Args:
        parts: Those of each reader.
        places: Returns the reader that holds each of several sequences, and their numbers in it.
    """
    first = parts[0]
    if not callable(first) and all(not callable(one) and one == first for one in parts):
        return first

    def beside(numbers: Numbers) -> Numbers:
        holders, inside = places(numbers)
        found = np.empty(len(numbers), np.int64)
        for k in np.unique(holders).tolist():
            here, part = holders == k, parts[k]
            found[here] = part(inside[here]) if callable(part) else part
        return found

    return beside
