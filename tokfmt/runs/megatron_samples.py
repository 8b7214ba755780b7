"""The samples of Megatron: blends, the index of samples, and loaders.

    documents   of the split, repeated and shuffled: the document index
    windows     of `seq_len + extra` tokens over them, by the sample index
    shuffle     the window of each sample

Source: `megatron/core/datasets` of Megatron-Core 0.5 to 0.16, found by running them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding
from tokfmt.core.reader import windows as cut
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import (
    WINDOW,
    Integers,
    Numbers,
    Stored,
    places_of,
    random_permutation,
    searched,
    stored_npy,
)
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.order import Batches, Inputs, Order, Pieces, RunSource, check_passes, repeats, unlike
from tokfmt.wording import printable

_PASSES = 1 << 20  # of a cyclic loader
_EMPTY = 1 << 20  # empty documents in a window, at most
_LAGS = 1 << 20  # of sources, held at once
_LARGEST = float(1 << 53)
_TIE = 1e-4  # sources whose lags differ by less may follow in either order, as sums are rounded


def megatron_source(name: str, prefix: Place, weight: float | None = None) -> RunSource:
    """Return an indexed dataset by its path without suffix. A run reads the sequences of the index, whatever documents
    they make.
    """
    index = prefix.with_name(f"{prefix.name}.idx")
    return RunSource(name, (index,), "megatron", {"unit": "sequences"}, weight)


def sizes_of(dataset: Dataset) -> Numbers:
    """Return the length of each sequence with its separator."""
    starts, stops = dataset.spans.extents(0, dataset.spans.count)[:2]
    return stops - starts


@dataclass(slots=True)
class Windows:
    """The samples of one source: windows over its documents, in the order in which they were shuffled."""

    is_exact: ClassVar[bool] = True  # each window but the last has `seq_len + extra` tokens
    source: int
    seq_len: int
    extra: int
    dataset: Dataset  # of the source
    documents: Integers  # the document index
    samples: Integers  # the sample index, rows of two
    shuffle: Integers
    where: Place  # that holds the indexes, for messages
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = len(self.shuffle)

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of samples. `rows` are the indexes of these samples among those asked for."""
        at = self.shuffle.take(numbers)
        self._check(at, 0, len(self.samples) - 2, "the shuffle index names a window that is not in the sample index")
        low, high = self.samples.take(at), self.samples.take(at + 1)
        counts = high[:, 0] - low[:, 0] + 1
        self._check(counts, 1, self.seq_len + _EMPTY, "the sample index does not rise by the documents of a window")
        total = int(counts.sum())
        before = np.cumsum(counts) - counts
        inside = np.arange(total) - np.repeat(before, counts)
        places = np.repeat(low[:, 0], counts) + inside
        self._check(places, 0, len(self.documents) - 1, "the sample index leads beyond the document index")
        document = self.documents.take(places)
        self._check(document, 0, self.dataset.spans.count - 1, "the document index names a document that is not there")
        begins, ends = self.dataset.spans.extents_of(document)[:2]
        sizes = ends - begins
        start, stop = np.zeros(total, np.int64), sizes.copy()
        start[before] = low[:, 1]
        stop[before + counts - 1] = high[:, 1] + self.extra
        self._check(start, 0, sizes, "the sample index leads beyond a document")
        self._check(stop, 0, sizes, "the sample index leads beyond a document")
        length = np.maximum(stop - start, 0)
        if self.is_exact and total:
            most, filled = self.seq_len + self.extra, np.add.reduceat(length, before)
            least = np.where(at < len(self.samples) - 2, most, 0)  # the last window may be short
            self._check(filled, least, most, "the sample index has a window of another length")
        return Pieces(np.repeat(rows, counts), np.full(total, self.source, np.int64), begins + start, length)

    def _check(self, found: Numbers, low: int | Numbers, high: int | Numbers, what: str) -> None:
        """Raise the error of an index that leads elsewhere than `low` to `high`."""
        wrong = (found < low) | (found > high)
        if wrong.any():
            k = int(np.argmax(wrong))
            expected = " to ".join(f"{int(np.broadcast_to(end, len(found))[k]):,}" for end in (low, high))
            remedy = "The files are of two runs, or the tokens were replaced after they were made"
            raise CorruptError(self.where, what, expected=expected, found=int(found[k]), remedy=remedy)

    def holding(self, sequence: int, start: int, stop: int) -> Numbers:
        """Return the samples that read some tokens of a sequence. `start` and `stop` are on the stored axis."""
        places = places_of(self.documents, np.array([sequence]))
        begin, _ = self.dataset.spans.extent(sequence)
        low, high = start - begin, stop - begin
        windows = list[Numbers]()
        for place in places.tolist():
            first = self._window_at(place, low)
            last = self._window_at(place, max(high - 1, low))
            windows.append(np.arange(max(first - 1, 0), last + 1))  # the token after a window is its last label
        return places_of(self.shuffle, np.concatenate(windows)) if windows else np.empty(0, np.int64)

    def _window_at(self, place: int, offset: int) -> int:
        """Return the last window that begins at or before a token of the document index."""
        low, high = 0, len(self.samples) - 1
        while high - low > 1:
            middle = (low + high) // 2
            row = self.samples.read(middle, middle + 1)[0]
            if (int(row[0]), int(row[1])) <= (place, offset):
                low = middle
            else:
                high = middle
        return low


class Blend:
    """The samples of several sources in turn. `None` for `which` is one source."""

    def __init__(self, windows: Sequence[Windows], which: Integers | None, numbers: Integers | None) -> None:
        self.windows, self.which, self.inner = list(windows), which, numbers
        self.count = len(which) if which is not None else windows[0].count

    def pieces(self, numbers: Numbers) -> Pieces:
        """Return the pieces of samples of the blend; what has the number -1 has none."""
        rows = np.flatnonzero(numbers >= 0)
        kept = numbers[rows]
        if self.which is None or self.inner is None:
            return self.windows[0].pieces(kept, rows)
        which, inner = self.which.take(kept), self.inner.take(kept)
        if len(which) and int(which.max()) >= len(self.windows):
            raise FormatError(self.windows[0].where, "the blend names a source that its description does not have")
        parts = [self.windows[k].pieces(inner[which == k], rows[which == k]) for k in sorted(set(which.tolist()))]
        return Pieces.joined(parts)

    def located(self, numbers: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the sources of samples, and which of them are full: all but the last windows of sources."""
        which, inner = np.zeros(len(numbers), np.int64), numbers
        if self.which is not None and self.inner is not None:
            which, inner = self.which.take(numbers), self.inner.take(numbers)
        is_full = np.zeros(len(numbers), np.bool_)
        for k, windows in enumerate(self.windows):
            mine = which == k
            is_full[mine] = windows.shuffle.take(inner[mine]) < len(windows.samples) - 2
        return which, is_full

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        """Return the numbers in the blend, ascending, of the samples that read some tokens of a sequence."""
        inner = [(k, one.holding(sequence, start, stop)) for k, one in enumerate(self.windows) if one.source == source]
        if self.which is None or self.inner is None:
            return np.sort(np.concatenate([numbers for _, numbers in inner])) if inner else np.empty(0, np.int64)
        found = list[Numbers]()
        for k, numbers in inner:
            places = places_of(self.inner, numbers)
            found.append(places[self.which.take(places) == k])
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def out_of_turn(self) -> int | None:
        """Return the first entry that does not have the next sample of its source; None if each has."""
        if self.which is None or self.inner is None:
            return None
        taken = np.zeros(len(self.windows), np.int64)
        for a, which in searched(self.which):
            inner, wrong = self.inner.read(a, a + len(which)), list[int]()
            for k, windows in enumerate(self.windows):
                at = np.flatnonzero(which == k)
                after = taken[k] + np.arange(len(at))
                wrong += at[(inner[at] != after) | (after >= windows.count)][:1].tolist()
                taken[k] += len(at)
            if wrong:
                return a + min(wrong)
        return None

    def off_weight(self, weights: Sequence[float]) -> int | None:
        """Return the first entry whose source does not lag its weight most; None if each does. Every entry has the next
        sample of its source.
        """
        shares = np.array(weights, np.float64) / sum(weights)
        taken = np.zeros(len(shares), np.int64)
        for a, which in searched(self.which, step=_LAGS // len(shares) + 1) if self.which is not None else ():
            held = which[:, None] == np.arange(len(shares))
            before = taken + np.cumsum(held, 0) - held
            lag = np.maximum(a + np.arange(len(which)), 1)[:, None] * shares - before
            wrong = np.flatnonzero(lag[held] < lag.max(1) - _TIE)
            if len(wrong):
                return a + int(wrong[0])
            taken += held.sum(0)
        return None


class Cyclic:
    """The loader that passes over the samples again and again, each epoch in an order that its number alone decides."""

    def __init__(self, count: int, micro: int, ranks: int, consumed: int, *, sharding: bool) -> None:
        self.count, self.micro, self.ranks, self.consumed, self.sharding = count, micro, ranks, consumed, sharding
        self.together = micro * ranks
        if count < self.together:
            raise OptionError(
                f"the run has {count:,} samples, fewer than a micro batch of {micro:,} on each of {ranks:,} ranks",
                name="micro_batch_size",
            )
        self._drawn: dict[tuple[int, int], Numbers] = {}
        self._passes: dict[int, list[tuple[int, int]]] = {}  # of each rank: its first micro batch, samples before it

    def numbers(self, rank: int, turns: Numbers, columns: Numbers) -> Numbers:
        """Return the samples in columns of micro batches of a rank, which are counted since the start."""
        passes = self._passes.setdefault(rank, [(0, self.consumed)])
        while passes[-1][0] <= int(turns.max()):
            first, consumed = passes[-1]
            many = self._many(rank, consumed)
            passes.append((first + many, consumed + max(many, 1) * self.together))
        place = np.searchsorted([first for first, _ in passes], turns, side="right") - 1
        found = np.empty(len(turns), np.int64)
        for one in np.unique(place).tolist():
            mine, (first, consumed) = place == one, passes[one]
            found[mine] = self._pass(rank, consumed)[turns[mine] - first, columns[mine]]
        return found

    def _many(self, rank: int, consumed: int) -> int:
        """Return the micro batches of a rank in the pass that it begins after so many samples."""
        inside = consumed % (self.count - self.count % self.together)
        if self.sharding:
            return (self.count // self.together * self.micro - inside // self.ranks) // self.micro
        rest = self.count // self.micro * self.micro - inside - rank
        return max(0, -(-rest // self.ranks)) // self.micro

    def _pass(self, rank: int, consumed: int) -> Numbers:
        active = self.count - self.count % self.together
        epoch, inside = divmod(consumed, active)
        if self.sharding:
            share = self.count // self.together * self.micro
            listed = rank * share + self._permuted(share, epoch)[inside // self.ranks :]
        else:
            full = self.count // self.micro * self.micro
            listed = self._permuted(full, epoch)[inside:][rank :: self.ranks]
        whole = len(listed) // self.micro * self.micro
        return listed[:whole].reshape(-1, self.micro)

    def _permuted(self, count: int, epoch: int) -> Numbers:
        if (count, epoch) not in self._drawn:
            if len(self._drawn) > 2:
                self._drawn.clear()
            self._drawn[count, epoch] = random_permutation(count, epoch)
        return self._drawn[count, epoch]


class BlendOrder(Order):
    """The order of a blend whose indexes are in files, with the loader of a stretch of the run."""

    from_files = True
    blend: Blend
    loader: Cyclic | None = None

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset], seq_len: int) -> None:
        given = facts.given
        self.sources, self.datasets, self.given = tuple(read), tuple(datasets), given
        self.seq_len, self.extra = seq_len, int(given.extra_token)
        self.pad_id, self.world_size = given.pad_id or 0, given.world_size or 1
        self.are_ranks_known = given.world_size is not None
        self.batches = Batches(given)
        self.facts = {"split": given.split, "loader": given.dataloader_type}

    def load(self, blend: Blend) -> None:
        """Read the samples of a blend with the loader of the run."""
        given, self.blend = self.given, blend
        self.first, self.count = given.consumed or 0, blend.count
        if given.dataloader_type == "cyclic":
            self.loader = Cyclic(
                blend.count, given.micro_batch_size, self.world_size, self.first, sharding=given.data_sharding
            )
            if given.samples is None:
                raise OptionError("a cyclic loader never ends. Add samples=N, the samples of the run", name="samples")
            if (given.samples - self.first) // blend.count > _PASSES:
                raise OptionError(
                    f"samples is more than {_PASSES:,} passes over the {blend.count:,} samples of the run",
                    name="samples",
                )
            self.count = given.samples

    def opened(self, path: Place, width: int = 1) -> Stored:
        """Open an order file, which is closed with the order."""
        if not path.is_file():
            raise lacks(path.name, path.parent)
        return self.keep(stored_npy(path, width))

    def windows(self, source: int, documents: Place, samples: Place, shuffle: Place) -> Windows:
        """Return the samples of a source, by its three order files."""
        indexes = self.opened(documents), self.opened(samples, 2), self.opened(shuffle)
        return Windows(source, self.seq_len, self.extra, self.datasets[source], *indexes, samples)

    def numbers(self, samples: Numbers) -> Numbers:
        if self.loader is None:
            return samples
        micro, ranks = self.given.micro_batch_size, self.world_size
        turn, inside = np.divmod(samples - self.first, micro * ranks)
        rank, column = np.divmod(inside, micro)
        found = np.empty(len(samples), np.int64)
        for one in np.unique(rank).tolist():
            mine = rank == one
            found[mine] = self.loader.numbers(one, turn[mine], column[mine])
        return found

    def pieces(self, samples: Numbers) -> Pieces:
        return self.blend.pieces(self.numbers(samples))

    def inputs(self, samples: Numbers) -> Inputs:
        numbers = self.numbers(samples)
        rows = np.flatnonzero(numbers >= 0)
        if not self.is_packed:
            return super().inputs(samples)
        which, is_full = self.blend.located(numbers[rows])
        short = super().inputs(samples[rows[~is_full]])
        full = Inputs(rows[is_full], which[is_full], np.full(np.count_nonzero(is_full), self.seq_len))
        parts = zip(full, short._replace(row=rows[~is_full][short.row]), strict=True)
        return Inputs(*map(np.concatenate, parts))

    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        numbers = self.blend.holding(source, sequence, start, stop)
        if self.loader is None:
            return numbers
        check_passes(len(numbers), (self.count - self.first) // max(self.blend.count, 1) + 2)
        found = [np.empty(0, np.int64)]
        for a, b in cut(self.first, self.count, WINDOW):
            every = np.arange(a, b)
            found.append(every[np.isin(self.numbers(every), numbers)])
        return np.concatenate(found)

    def ranks(self, step: int) -> list[Numbers]:
        return self.in_micro_batches(step, self.given.micro_batch_size)


def unlike_blend(blend: Blend, weights: Sequence[float | None]) -> Iterator[Finding]:
    """Compare the files of a blend with each other, and with the `weights` of its sources if all are known."""
    which, inner = blend.which, blend.inner
    if not isinstance(which, Stored) or not isinstance(inner, Stored):
        return  # it is built again
    if len(which) != len(inner):
        raise CorruptError(
            inner.file.path,
            "has another number of entries than the index of sources beside it",
            expected=f"{len(which):,}",
            found=f"{len(inner):,}",
            remedy="Copy both again",
        )
    if (entry := blend.out_of_turn()) is not None:
        yield Finding(
            "TF813",
            "error",
            str(inner.file.path),
            f"entry {entry:,} does not have the next sample of its source, so that some samples were read twice or "
            f"never. It, or the entry of {which.file.path.name} for it, was damaged",
        )
        return
    known = [weight for weight in weights if weight is not None]
    are_weights = len(known) == len(weights) and min(known) >= 0 and 0 < sum(known) < _LARGEST
    if are_weights and (entry := blend.off_weight(known)) is not None:
        yield unlike(which.file.path, f"entry {entry:,} is not of the source that lags its weight most")


def stale_or_repeated(
    windows: Windows, bounds: tuple[int, int], title: str, documents: Place, shuffle: Place, *, deep: bool
) -> Iterator[Finding]:
    """Compare the indexes of a source with its tokens. `bounds` are the documents of the split."""
    if deep:
        yield from repeats(shuffle, windows.shuffle)
    first, last = bounds
    per = int(sizes_of(windows.dataset)[first:last].sum())
    epochs = len(windows.documents) // max(last - first, 1)
    expected = max(0, epochs * per - windows.extra) // windows.seq_len
    count = len(windows.shuffle)
    if epochs * (last - first) != len(windows.documents) or expected != count:
        yield Finding(
            "TF814",
            "error",
            str(documents),
            f"the order is stale: it was made for {len(windows.documents):,} documents and {count:,} samples, "
            f"and {printable(title)} has {last - first:,} documents of {per:,} tokens in this split. "
            "The tokens were replaced after it was made",
        )


def lacks(name: str, there: Place) -> FormatError:
    """Return the error for an order file that is missing."""
    return FormatError(there, f"has no {printable(name)}", remedy="The order is not complete: copy the whole cache")
