"""A dataset: the token axis as it is stored, and the start and the stop of each sequence on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import WINDOW, Axis, check_interval, windows
from tokfmt.model.axis import Joined
from tokfmt.model.batch import LEAD, SEP, Batch
from tokfmt.model.gap import Gap, joined_gap
from tokfmt.model.spans import Chain, Contents, Sliced, Spans, Taken

T = TypeVar("T")

_AT_ONCE = 1 << 18  # Sequences whose ends are read at once.


class Slots(NamedTuple):
    """The slots of an axis by what they hold. Their sum is the length of the axis."""

    contents: int  # tokens of sequences
    closed: int  # separators beside contents
    leads: int  # beside contents
    padding: int  # all other slots


@dataclass(frozen=True, eq=False)
class Dataset:
    """Sequences of token IDs. Nothing but headers is read before it is asked for."""

    axis: Axis
    spans: Spans  # where each sequence is on the axis
    gap: Gap = field(default_factory=Gap)  # what is between contents
    marks: Axis | None = None  # one byte per slot of the axis, such as loss masks
    facts: Mapping[str, object] = field(default_factory=dict)  # what else is known of it

    def __len__(self) -> int:
        return self.spans.count

    @overload
    def __getitem__(self, chosen: int | np.integer) -> Tokens: ...
    @overload
    def __getitem__(self, chosen: slice | Sequence[int] | NDArray[np.integer]) -> Dataset: ...
    def __getitem__(self, chosen: int | np.integer | slice | Sequence[int] | NDArray[np.integer]) -> Tokens | Dataset:
        """Return the content of one sequence, in one read; or a dataset of several sequences."""
        if type(chosen) is int or isinstance(chosen, np.integer):
            return self._one(int(chosen))
        if isinstance(chosen, slice):
            first, last, step = chosen.indices(len(self))
            return self.slice(first, max(first, last)) if step == 1 else self.take(np.arange(first, last, step))
        return self.take(np.asarray(chosen))

    @cached_property
    def _one(self) -> Callable[[int], Tokens]:
        """The function that reads one sequence: what is the same for all sequences is decided once."""
        spans, count, find = self.spans, self.spans.count, self.spans.finder()
        read, trim = self.axis.tokens, spans.content

        def one(chosen: int) -> Tokens:
            number = chosen if chosen >= 0 else chosen + count
            if not 0 <= number < count:
                raise IndexError(f"there is no sequence {chosen} (expected 0 to {count - 1})")
            start, stop = find(number)
            return trim(number, read(start, stop))

        return one

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_one"}

    def take(self, numbers: NDArray[np.integer]) -> Dataset:
        """Return the sequences with these numbers, in this order. A number may repeat."""
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            raise IndexError(f"sequences {numbers.min()}..{numbers.max()} are outside 0:{len(self)}")
        return replace(self, spans=Taken(self.spans, numbers))

    def slice(self, first: int, last: int) -> Dataset:
        """Return the sequences `first <= i < last`."""
        check_interval(first, last, len(self), "sequences")
        return self if last - first == len(self) else replace(self, spans=Sliced(self.spans, first, last))

    def contents(self, first: int, last: int) -> Contents:
        """Return the content of the sequences `first <= i < last` on the axis, by a look at their ends."""
        return self.spans.read(first, last, self.axis)

    def batches(
        self, size: int = WINDOW, first: int = 0, last: int | None = None, longest: int | None = None
    ) -> Iterator[Batch]:
        """Yield whole sequences in order, in batches of about `size` tokens. Each token is read once. Without `last`,
        they go to the end, before sequences are counted. A sequence with a longer extent than `longest` is a batch
        without a token, which is not read.
        """
        separator = None if len(self.gap.ids) > 1 else self.gap.id
        lead = None if len(self.gap.leads) > 1 else self.gap.lead
        for batch in self.spans.batches(self.axis, size, first, last, longest):
            yield replace(
                batch,
                separator=separator,
                lead=lead,
                read_marks=None if self.marks is None else _MarksOf(self.marks, self.spans, batch),
                lacking=not self.gap.alone and not any(reader.marks_ends for reader in self.axis.readers()),
            )

    def slots(self) -> Slots:
        """Count slots, by a look at the ends of all sequences. Sequences must not overlap."""
        tokens = closed = leads = 0
        for first, last in windows(0, len(self), _AT_ONCE):
            starts, stops, beside = self.contents(first, last)
            tokens += int((stops - starts).sum())
            closed += int(np.count_nonzero(beside & SEP))
            leads += int(np.count_nonzero(beside & LEAD))
        return Slots(tokens, closed, leads, self.axis.length - tokens - closed - leads)

    def close(self) -> None:
        """Close the files; the next read opens them again."""
        self.axis.close()


class _MarksOf:
    """A function that reads the marks of the window of a batch."""

    def __init__(self, marks: Axis, spans: Spans, batch: Batch) -> None:
        self._marks, self._spans, self._batch = marks, spans, batch

    def __call__(self) -> NDArray[np.uint8]:
        batch = self._batch
        if batch.base is not None:
            return self._marks.tokens(batch.base, batch.base + len(batch.window)).astype(np.uint8, copy=False)
        starts, stops = self._spans.extents(batch.first, batch.first + len(batch))
        return self._marks.gather(starts, stops - starts).astype(np.uint8, copy=False)


def concat(datasets: Sequence[Dataset]) -> Dataset:
    """Return the sequences of several datasets, one dataset after the other. Each keeps its own separator."""
    if len(datasets) == 1:
        return datasets[0]
    axes = [dataset.axis for dataset in datasets]
    marks = None
    if any(dataset.marks is not None for dataset in datasets):
        marks = Joined([dataset.marks or _AllCount(dataset.axis.length) for dataset in datasets])
    return Dataset(
        Joined(axes),
        Chain([dataset.spans for dataset in datasets], axes),
        joined_gap([dataset.gap for dataset in datasets]),
        marks,
        datasets[0].facts,
    )


class _AllCount(Axis):
    """Marks of a dataset without marks: every token counts in the loss."""

    dtype = np.dtype(np.uint8)

    def __init__(self, length: int) -> None:
        self.length = length

    def tokens(self, start: int, stop: int) -> Tokens:
        return np.ones(stop - start, np.uint8)
