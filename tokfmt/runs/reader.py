"""Read what a run read: sequence k is sample k, with its padding and its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import parse_count
from tokfmt.core.loss_mask import IGNORED
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import Info, Layout, TokenReader, check_interval, check_position, smallest, windows
from tokfmt.errors import OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Numbers
from tokfmt.runs.order import Order, Pieces
from tokfmt.source.request import parse_selection
from tokfmt.wording import counted, printable

_WINDOW = 1 << 18  # tokens read at once
_COUNTED = 1 << 20  # samples up to which padding is counted
_NO_BATCHES = "no file states the batch size, so that steps are not known: --from-opt batch_size=B, or --batch-size B"
_T = TypeVar("_T", bound=np.generic)


class Part(NamedTuple):
    """The part of one sequence of a source in a sample: its positions `start <= p < stop`."""

    source: int
    sequence: int
    start: int
    stop: int  # position `length` is the separator
    length: int  # of the sequence, without its separator
    at: int  # on the stored axis of the source


class Reads(NamedTuple):
    """A sample that read some tokens of a sequence."""

    sample: int
    number: int  # in the dataset of the framework
    step: int | None  # None if the batch size is not known
    rank: int | None
    epoch: int  # how often the run had read these tokens before


class _Rows(NamedTuple):
    """Samples in rows."""

    tokens: NDArray[Any]  # [n, seq_len + 1], padding where a sample is short, or has no token more
    filled: Numbers  # int64[n], tokens of each that are read
    begins: NDArray[np.bool_]  # [n, seq_len + 1], True where a document begins, and at the first column


class RunReader(TokenReader):
    """The samples of a run. It is picklable, and threads may share it."""

    has_labels = True
    has_begins = True
    shifted = True

    def __init__(self, order: Order, made_by: Mapping[str, Any] | None = None) -> None:
        self.order, self.seq_len, self.count = order, order.seq_len, order.count
        self.datasets = order.datasets
        natural = np.result_type(
            np.uint8, smallest(order.pad_id), *(dataset.axis.dtype for dataset in self.datasets if dataset.axis.length)
        )
        count = max(0, order.count - order.first)
        self.info = Info(
            layout=Layout.SAMPLES,
            dtype=natural,
            sequences=count,
            tokens=count * self.seq_len,
            sample_length=self.seq_len,
            pad_id=order.pad_id,
            made_by=made_by,
            notes=(*order.notes, *([] if order.batches.is_known else [_NO_BATCHES])),
            extras={
                "framework": order.framework,
                **order.facts,
                **_steps(order),
                **({"end": "of one epoch, which is assumed: samples=N reads more"} if order.is_one_pass else {}),
                "order": "from files" if order.from_files else "built again",
                "sources": ", ".join(
                    source.name if source.weight is None else f"{source.name} {source.weight:.4g}"
                    for source in order.sources
                ),
            },
        )

    # Where tokens are from

    def parts(self, sample: int) -> list[Part]:
        """Return the parts of sequences in a sample, in order. Reads no token, but may look for separators."""
        pieces = self.order.pieces(np.array([self._checked(sample)]))
        return [part for _, source, start, length in _each(pieces) for part in self._of_piece(source, start, length)]

    def _of_piece(self, source: int, start: int, length: int) -> Iterator[Part]:
        spans, stop = self.datasets[source].spans, start + length
        number = spans.at(start) or 0
        at = start
        while at < stop:
            content, end = map(int, (array[0] for array in spans.extents(number, number + 1)[:2]))
            if content > at and number == 0:
                content = at  # what is before the first sequence belongs to it
            follows = number + 1 < spans.count
            after = int(spans.extents(number + 1, number + 2)[0][0]) if follows else max(stop, end)
            reached = min(stop, max(after, at))
            if reached > at:
                yield Part(source, number, at - content, reached - content, end - content, at)
            at, number = reached, number + 1

    def numbered(self, sample: int) -> int:
        """Return the number of a sample in the dataset of the framework."""
        return int(self.order.numbers(np.array([self._checked(sample)]))[0])

    def seen(self, source: int, sequence: int) -> list[Reads]:
        """Return the samples that read a sequence of a source, in the order of the run. Reads no token."""
        start, stop = map(int, (array[0] for array in self.datasets[source].spans.extents(sequence, sequence + 1)[:2]))
        order = self.order
        samples = order.seen(source, sequence, start, stop)
        samples = samples[(samples >= order.first) & (samples < order.count)]
        reads, before = list[Reads](), np.zeros((2, max(stop - start, 1)), np.int32)  # as inputs, and as last labels
        pieces, numbers = order.pieces(samples), order.numbers(samples)
        low, high = np.maximum(pieces.start, start), np.minimum(pieces.start + pieces.length, stop)
        inputs = np.clip(pieces.start + pieces.cut(self.seq_len).length, low, np.maximum(low, high))
        holds = (pieces.source == source) & (low < high)
        for row in np.unique(pieces.row[holds]).tolist():
            sample, passes = int(samples[row]), [0]
            mine = holds & (pieces.row == row)
            for a, b, c in zip(*((ends[mine] - start).tolist() for ends in (low, inputs, high)), strict=True):
                passes.append(int(before[0, a:b].max()) if b > a else int(before[1, b:c].max()))
                before[0, a:b] += 1
                before[1, b:c] += 1
            step = order.batches.step_of(sample) if order.batches.is_known else None
            rank = None if step is None or not order.are_ranks_known else self.rank_of(step, sample)
            reads.append(Reads(sample, int(numbers[row]), step, rank, max(passes)))
        return reads

    def rank_of(self, step: int, sample: int) -> int | None:
        """Return the rank that reads a sample in a step; None if none does."""
        shares = self.order.ranks(step)
        at = np.flatnonzero(np.concatenate(shares) == sample)
        return int(np.searchsorted(np.cumsum([len(share) for share in shares]), at[0], "right")) if len(at) else None

    def taken(self, step: int, rank: int | None) -> list[tuple[int, int]]:
        """Return the samples of a step, each with the rank that reads it, by ranks."""
        shares, world = self.order.ranks(step), self.order.world_size
        if rank is not None and rank >= world:
            raise OptionError(f"--rank {rank}: the run has {counted(world, 'rank')}", name="rank")
        chosen = range(len(shares)) if rank is None or rank >= len(shares) else [rank]
        taken = [(sample, one) for one in chosen for sample in shares[one].tolist()]
        beyond = [sample for sample, _ in taken if not self.order.first <= sample < self.order.count]
        if beyond or not taken:
            raise OptionError(f"step {step:,} is not in this stretch of the run, {self.stretch()}", name="step")
        return taken

    def interval(self, selection: str, path: Place, *, of_steps: bool = False) -> tuple[int, int]:
        """Return the sequences that `A:B` selects, counted from the first sample of the stretch, or in steps of the
        run: some, or an error.
        """
        order, count = self.order, self.info.sequences
        there = f"which has the sequences 0 to {count - 1:,}, counted from its first sample"
        if of_steps:
            known = tuple(map(order.batches.step_of, (order.first, order.count - 1)))
            begin, colon, end = selection.partition(":")
            steps = parse_selection(f"{begin}:{end}" if colon else f"{begin}:{parse_count(begin) + 1}", known[1] + 1)
            samples = (order.batches.samples_of(step)[0] - order.first for step in steps)
            first, last = (min(max(sample, 0), count) for sample in samples)
            there = f"which has the steps {known[0]:,} to {known[1]:,}"
        else:
            first, last = parse_selection(selection, count, [path])
        if first == last:
            option = "step" if of_steps else "select"
            what = f"--{option} {printable(selection)} takes no sample of this stretch of the run, {there}"
            raise OptionError(f"{printable(path)}: {what}", name=option)
        return first, last

    def stretch(self) -> str:
        """Return the samples that this stretch of the run read, in words."""
        more = ". One epoch is assumed: samples=N, all that the run read, reads more" if self.order.is_one_pass else ""
        return f"which read samples {self.order.first:,} to {self.order.count - 1:,}{more}"

    def _checked(self, sample: int) -> int:
        if not self.order.first <= sample < self.order.count:
            raise IndexError(f"sample {sample} of {self.order.first} to {self.order.count - 1}")
        return sample

    # Tokens

    def rows(self, samples: Numbers) -> _Rows:
        """Read some samples. Fillers of a rank, which have the number -1, are padding."""
        order, width = self.order, self.seq_len + 1
        pieces = order.pieces(samples)
        filled = np.bincount(pieces.row, pieces.length, len(samples)).astype(np.int64)
        ends = np.cumsum(pieces.length)
        before = np.concatenate([[0], np.cumsum(filled)])[pieces.row]
        columns = ends - pieces.length - before
        tokens = np.full((len(samples), width), order.pad_id, self.info.dtype)
        flat = tokens.reshape(-1)
        for source in np.unique(pieces.source).tolist():
            mine = np.flatnonzero((pieces.source == source) & (pieces.length > 0))
            starts, lengths = pieces.start[mine], pieces.length[mine]
            read = self.datasets[source].axis.gather(starts, lengths)
            places = np.repeat(pieces.row[mine] * width + columns[mine], lengths)
            inside = np.arange(len(read)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            flat[places + inside] = read
        begins = np.zeros((len(samples), width), np.bool_)
        begins[:, 0] = True
        begins[pieces.row[pieces.length > 0], columns[pieces.length > 0]] = True
        return _Rows(tokens, filled, begins)

    def _flat(self, start: int, stop: int, field: Callable[[Numbers], NDArray[_T]]) -> NDArray[_T]:
        """Return a field of samples for an interval of positions, read in windows of samples."""
        width = self.seq_len
        first, last = start // width, -(-stop // width) if stop > start else start // width
        parts = [
            field(np.arange(a, b) + self.order.first).reshape(-1)
            for a, b in windows(first, last, max(1, _WINDOW // width))
        ]
        flat = np.concatenate(parts) if parts else field(np.empty(0, np.int64)).reshape(-1)
        return flat[start - first * width : stop - first * width]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self._flat(start, stop, lambda samples: self.rows(samples).tokens[:, :-1])

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        check_interval(start, stop, self.info.tokens)
        return self._flat(start, stop, self._labels_of)

    def _labels_of(self, samples: Numbers) -> NDArray[np.int64]:
        rows = self.rows(samples)
        labels = rows.tokens[:, 1:].astype(np.int64)
        labels[np.arange(1, self.seq_len + 1)[None, :] >= rows.filled[:, None]] = IGNORED
        return labels

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        mask: NDArray[np.uint8] = np.not_equal(self.labels(start, stop), IGNORED).view(np.uint8)
        return mask

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_]:
        check_interval(start, stop, self.info.tokens)
        return self._flat(start, stop, self._padding_of)

    def _padding_of(self, samples: Numbers) -> NDArray[np.bool_]:
        pieces = self.order.inputs(samples)
        filled = np.bincount(pieces.row, pieces.length, len(samples)).astype(np.int64)
        return np.arange(self.seq_len)[None, :] >= filled[:, None]

    def padding_within(self) -> int | None:
        """Return how much of the axis is padding, by the pieces of samples if these are few; None if they are many."""
        return self.padding_of(0, self.info.sequences)

    def padding_of(self, first: int, last: int) -> int | None:
        """Return how much of some sequences is padding, as `padding_within` does."""
        if self.order.is_packed:
            return 0
        if last - first > _COUNTED:
            return None
        begin, filled = self.order.first, 0
        for a, b in windows(first, last, _WINDOW):
            filled += int(self.order.inputs(np.arange(begin + a, begin + b)).length.sum())
        return (last - first) * self.seq_len - filled

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        check_interval(start, stop, self.info.tokens)
        return self._flat(start, stop, lambda samples: self.rows(samples).begins[:, :-1])

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return np.arange(first, last + 1, dtype=np.int64) * self.seq_len

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        check_position(position, self.info.tokens)
        sample, column = divmod(position, self.seq_len)
        for _, source, start, length in _each(self.order.pieces(np.array([sample + self.order.first]))):
            if column < length:
                return _stored(self.datasets[source], start + column)
            column -= length
        return None

    def close(self) -> None:
        self.order.close()
        for dataset in self.datasets:
            dataset.close()


def _steps(order: Order) -> dict[str, object]:
    """Return the steps of a stretch, their batch size and the ranks, as far as they are known."""
    facts: dict[str, object] = {}
    if order.batches.is_known and order.first < order.count:
        first, last = (order.batches.step_of(sample) for sample in (order.first, order.count - 1))
        sizes = dict.fromkeys(b - a for a, b in map(order.batches.samples_of, (first, last)))
        facts = {"steps": f"{first:,} to {last:,}", "batch size": " to ".join(f"{size:,}" for size in sizes)}
    return facts | ({"ranks": order.world_size} if order.are_ranks_known else {})


def _each(pieces: Pieces) -> Iterator[tuple[int, int, int, int]]:
    return zip(*(column.tolist() for column in pieces), strict=True)


def _stored(dataset: Dataset, position: int) -> tuple[TokenReader, int] | None:
    """Return the stored reader that holds a position of the axis of a dataset, and the position in it."""
    for reader in dataset.axis.readers():
        if position < reader.length:
            return reader, position
        position -= reader.length
    return None
