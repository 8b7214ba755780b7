"""The samples of Megatron: blends, the index of samples, and loaders.

    documents   of the split, repeated and shuffled: the document index
    windows     of `seq_len + extra` tokens over them, by the sample index
    shuffle     the window of each sample

Source: `megatron/core/datasets` of Megatron-Core 0.5 to 0.16, found by running them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows as cut
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import WINDOW, Held, Integers, Numbers, Stored, places_of, random_permutation, stored_npy
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.order import Inputs, Order, Pieces, RunSource, check_passes, largest_error
from tokfmt.wording import printable

_PASSES = 1 << 20  # of a cyclic loader
_EMPTY = 1 << 20  # empty documents in a window, at most
_LONGEST = 1 << 24  # tokens of a sample, as of a recipe


def megatron_source(name: str, prefix: Place, weight: float | None = None) -> RunSource:
    """Return an indexed dataset by its path without suffix. A run reads the sequences of the index, whatever documents
    they make.
    """
    index = prefix.with_name(f"{prefix.name}.idx")
    return RunSource(name, (index,), "megatron", {"unit": "sequences"}, weight)


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
        known = range(len(self.samples) - 1)
        after = bisect_right(known, [place, offset], key=lambda k: self.samples.read(k, k + 1)[0].tolist())
        return max(after - 1, 0)


class Blend:
    """The samples of several sources in turn. `None` for `which` is one source."""

    def __init__(self, windows: Sequence[Windows], which: Integers | None, numbers: Integers | None) -> None:
        self.windows, self.which, self.inner = list(windows), which, numbers
        self.count = len(which) if which is not None else windows[0].count

    def _of_sources(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the sources of samples of the blend, and their numbers there."""
        if self.which is None or self.inner is None:
            return np.zeros(len(numbers), np.int64), numbers
        which, inner = self.which.take(numbers), self.inner.take(numbers)
        if len(which) and int(which.max()) >= len(self.windows):
            raise FormatError(self.windows[0].where, "the blend names a source that its description does not have")
        return which, inner

    def pieces(self, numbers: Numbers) -> Pieces:
        """Return the pieces of samples of the blend; what has the number -1 has none."""
        rows = np.flatnonzero(numbers >= 0)
        which, inner = self._of_sources(numbers[rows])
        return Pieces.joined(
            [self.windows[k].pieces(inner[which == k], rows[which == k]) for k in np.unique(which).tolist()]
        )

    def located(self, numbers: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the sources of samples, and which of them are full: all but the last windows of sources."""
        which, inner = self._of_sources(numbers)
        is_full = np.zeros(len(numbers), np.bool_)
        for k, windows in enumerate(self.windows):
            mine = which == k
            is_full[mine] = windows.shuffle.take(inner[mine]) < len(windows.samples) - 2
        return which, is_full

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        """Return the numbers in the blend, ascending, of the samples that read some tokens of a sequence."""
        found = [np.empty(0, np.int64)]
        for k, windows in enumerate(self.windows):
            if windows.source == source:
                numbers = windows.holding(sequence, start, stop)
                if self.which is not None and self.inner is not None:
                    places = places_of(self.inner, numbers)
                    numbers = places[self.which.take(places) == k]
                found.append(numbers)
        return np.sort(np.concatenate(found))


class Cyclic:
    """The loader that passes over the samples again and again, each epoch in an order that its number alone decides."""

    def __init__(self, count: int, micro: int, ranks: int, consumed: int, *, sharding: bool) -> None:
        self.count, self.micro, self.ranks, self.consumed, self.sharding = count, micro, ranks, consumed, sharding
        self.together = micro * ranks
        if count < self.together:
            what = f"the run has {count:,} samples, fewer than a micro batch of {micro:,} on each of {ranks:,} ranks"
            raise OptionError(what, name="micro_batch_size")
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
            listed = rank * share + random_permutation(share, epoch)[inside // self.ranks :]
        else:
            full = self.count // self.micro * self.micro
            listed = random_permutation(full, epoch)[inside:][rank :: self.ranks]
        whole = len(listed) // self.micro * self.micro
        return listed[:whole].reshape(-1, self.micro)


class BlendOrder(Order):
    """The order of a blend whose indexes are in files, with the loader of a stretch of the run."""

    from_files = True
    blend: Blend
    loader: Cyclic | None = None

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset], seq_len: int) -> None:
        super().__init__(facts, read, datasets)
        self.seq_len, self.extra = seq_len, int(self.given.extra_token)
        self.facts = {"split": self.given.split, "loader": self.given.dataloader_type}

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
                what = f"samples is more than {_PASSES:,} passes over the {blend.count:,} samples of the run"
                raise OptionError(what, name="samples")
            self.count = given.samples

    def opened(self, path: Place, width: int = 1) -> Stored:
        """Open an order file, which is closed with the order."""
        if not path.is_file():
            remedy = "The order is not complete: copy the whole cache"
            raise FormatError(path.parent, f"has no {printable(path.name)}", remedy=remedy)
        return self.keep(stored_npy(path, width))

    def blended(self, size: int) -> tuple[Held, Held]:
        """Return a blend of so many samples, which is in no file, by the weights of the sources."""
        self.notes = ("the blend is in no file: it is built again from the weights",)
        return largest_error([source.weight or 0.0 for source in self.sources], size)

    def windows(self, source: int, files: Iterable[Place], kind: type[Windows] = Windows) -> Windows:
        """Return the samples of a source, by its three order files."""
        documents, samples, shuffle = files
        indexes = self.opened(documents), self.opened(samples, 2), self.opened(shuffle)
        return kind(source, self.seq_len, self.extra, self.datasets[source], *indexes, samples)

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
        if not self.is_packed:
            return super().inputs(samples)
        numbers = self.numbers(samples)
        rows = np.flatnonzero(numbers >= 0)
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


def sample_length(stated: object, where: Place) -> int:
    """Return the input tokens of a sample, which a description or the name of an order file states."""
    if not isinstance(stated, int) or isinstance(stated, bool) or not 1 <= stated <= _LONGEST:
        expected = f"1 to {_LONGEST:,}"
        raise CorruptError(where, f"states samples of {printable(str(stated))} tokens", expected=expected)
    return stated
