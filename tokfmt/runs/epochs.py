"""Orders of epochs: each epoch is a list of instances, and steps take the next ones of it.

instance   a sample as the dataset of the framework numbers it, which an epoch may have in another place
entry      of an epoch: an instance, or -1 for a place that a rank leaves empty
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import OptionError
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, Parts, kept, places_of
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.order import Order, Pieces, RunSource, check_passes
from tokfmt.wording import printable

MOST = 1 << 28
"""Samples of an epoch that is built again, each of which takes 4 bytes and more."""
_T = TypeVar("_T")


def numbered(count: int) -> NDArray[np.uint32]:
    """Return the numbers below `count`, which is bounded."""
    if count > MOST:
        raise OptionError(
            f"tokfmt builds orders of up to {MOST:,} instances again (found {count:,}). Copy the order files of the "
            "run, and name their folder: --from-opt cache=DIR",
            name="cache",
        )
    return np.arange(count, dtype=np.uint32)


def shuffled(count: int, seed: int) -> Held:
    """Return the numbers below `count` as OLMo shuffles them."""

    def parts() -> Parts:
        numbers = numbered(count)
        np.random.Generator(np.random.PCG64(seed)).shuffle(numbers)
        yield [numbers]

    return kept(("PCG64", count, seed), count, ["shuffle.u32"], parts, cost=(1e-7, 8))[0]


class Entries:
    """The entries of an epoch from `first` on: a shuffle, whose numbers stand for chunks of instances. Up to `whole` of
    them it is read from its front again; those after these are -1.
    """

    def __init__(self, shuffled: Integers, first: int, whole: int, count: int, chunk: int = 1) -> None:
        self.shuffled, self.first, self.whole, self.count, self.chunk = shuffled, first, whole, count, chunk

    def __len__(self) -> int:
        return self.count

    def read(self, first: int, last: int) -> Numbers:
        chunk, low = self.chunk, first + self.first
        high = max(low, min(last + self.first, self.whole, len(self.shuffled) * chunk))
        opened = self.shuffled.read(low // chunk, -(-high // chunk))[:, None] * chunk + np.arange(chunk)
        there = opened.reshape(-1)[low % chunk : low % chunk + high - low]
        return np.concatenate([there, self.take(np.arange(high - self.first, last))])

    def take(self, numbers: Numbers) -> Numbers:
        at = numbers + self.first
        chunks, inside = np.divmod(at % max(len(self.shuffled) * self.chunk, 1), self.chunk)
        found = np.full(len(at), -1)
        there = at < self.whole
        found[there] = self.shuffled.take(chunks[there]) * self.chunk + inside[there]
        return found


def stated(facts: RunFacts, name: str, value: _T | None, there: str) -> _T:
    """Return a fact that must be known. `there` says where people find it."""
    if value is None or value == ():
        raise OptionError(
            f"{printable(facts.where)}: {name} is in none of the files of the run. It is in {there}: add {name} below "
            f"[run], or --from-opt {name}=VALUE",
            name=name,
        )
    return value


def longest_of(datasets: Sequence[Dataset]) -> int:
    """Return the length of the longest sequence of some datasets, and at least 1."""
    return max(
        1,
        *(
            int(np.max(np.diff(dataset.spans.extents(0, dataset.spans.count)[:2], axis=0), initial=0))
            for dataset in datasets
        ),
    )


class Instances(Protocol):
    """The instances of a dataset of a framework."""

    @property
    def count(self) -> int:
        """The number of instances."""

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        """Return the instances with some of the tokens `start <= p < stop` of a source, those of a sequence of it."""


class EpochOrder(Order):
    """The order of a stretch of a run, which began in some epoch after some of its entries."""

    extra = 0
    is_contiguous = True  # each rank reads consecutive entries of a step; else every `world_size`-th
    data: Instances
    epoch_of_start: int  # the epoch in which this stretch began
    head: int  # entries of that epoch that the stretch has
    per: int  # entries of each epoch after it
    skipped: int = 0  # entries of the epoch of the start that were read before

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        self._epoch: tuple[int, Integers] = (-1, Held(np.empty(0, np.int64)))

    def together(self, facts: RunFacts, there: str) -> int:
        """Return the samples of a step, which an epoch of this framework depends on."""
        if facts.given.batch_schedule or facts.given.rampup:
            raise OptionError(
                f"{printable(facts.where)}: each batch size is a stretch of its own in this framework. State "
                "batch_size instead of batch_schedule or rampup",
                name="batch_size",
            )
        return stated(facts, "batch_size", facts.given.batch_size, there)

    def start(
        self,
        first_epoch: int,
        per: int,
        rest: Callable[[int, int], int] | None = None,
        *,
        whole: int = 1,
        from_start: bool = False,
    ) -> None:
        """State where the stretch begins, in epochs of `per` entries; it ends with its first epoch if nothing says how
        long it was. `rest` counts the entries of an epoch after some, if it is not their difference. A multiple of
        `whole` entries is left out. `from_start`, the samples before it are counted unless `consumed` states them.
        """
        given = self.given
        if per <= 0:
            raise OptionError(
                "an epoch has no sample: the datasets hold fewer than batch_size needs", name="batch_size"
            )
        passed, self.skipped = divmod(given.consumed or 0, per)
        epoch = first_epoch + passed
        if given.epoch is not None or given.sample_in_epoch is not None:
            epoch, self.skipped = max(given.epoch or 0, first_epoch), given.sample_in_epoch or 0
        self.skipped -= self.skipped % whole
        head = per - self.skipped if rest is None else rest(epoch, self.skipped)
        if head <= 0:
            raise OptionError(f"an epoch has {per:,} samples, fewer than sample_in_epoch", name="sample_in_epoch")
        self.epoch_of_start, self.head, self.per = epoch, head, per
        before = (epoch - first_epoch) * per + self.skipped if from_start else 0
        self.first = before if given.consumed is None else given.consumed
        self.count, self.is_one_pass = given.samples or self.first + head, given.samples is None

    @abstractmethod
    def entries(self, epoch: int) -> Integers:
        """Return the entries of an epoch, in the order of steps: of the first one, those that the stretch has."""

    def built(
        self, build: Callable[[int, int], Numbers], count: int, sizes: Sequence[Numbers], epoch: int, skipped: int = 0
    ) -> Held:
        """Return the table that `build` makes of an epoch of about `count` samples, of which some are skipped.

        It follows from the facts of the run and the sizes of its files.
        """
        given = replace(self.given, samples=None, consumed=None, epoch=None, sample_in_epoch=None, pad_id=None)
        key = (repr(given), *(some.tolist() for some in sizes), epoch, skipped)
        return kept(key, count, ["epoch"], lambda: iter([[build(epoch, skipped)]]))[0]

    def _entries(self, epoch: int) -> Integers:
        held = self._epoch  # another thread may replace it
        if held[0] != epoch:
            held = self._epoch = (epoch, self.entries(epoch))
        return held[1]

    def _begins(self) -> Iterator[tuple[int, int]]:
        """Yield the epochs of the stretch, each with the number of its first sample."""
        epoch, begin, size = self.epoch_of_start, self.first, self.head
        while begin < self.count:
            yield epoch, begin
            epoch, begin, size = epoch + 1, begin + size, self.per

    def numbers(self, samples: Numbers) -> Numbers:
        inside = samples - self.first - self.head
        epoch, at = np.divmod(inside, max(self.per, 1))
        in_head = inside < 0
        epoch, at = np.where(in_head, -1, epoch), np.where(in_head, inside + self.head, at)
        found = np.empty(len(samples), np.int64)
        for one in np.unique(epoch).tolist():
            mine = epoch == one
            found[mine] = self._entries(self.epoch_of_start + 1 + one).take(at[mine])
        return found

    def pieces(self, samples: Numbers) -> Pieces:
        numbers = self.numbers(samples)
        rows = np.flatnonzero(numbers >= 0)
        return self.data.pieces(numbers[rows], rows)

    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        wanted = self.data.holding(source, sequence, start, stop)
        check_passes(len(wanted), max(0, self.count - self.first - self.head) // self.per + 2)
        found = [begin + places_of(self._entries(epoch), wanted) for epoch, begin in self._begins()]
        samples = np.concatenate([np.empty(0, np.int64), *found])
        return samples[samples < self.count]

    def ranks(self, step: int) -> list[Numbers]:
        taken = np.arange(*self.batches.samples_of(step))
        if taken[0] < self.first or taken[-1] >= self.count:
            return [taken]  # the reader says that this is not in the stretch
        read, world = self.numbers(taken) >= 0, self.world_size
        shares = [taken[rank::world][read[rank::world]] for rank in range(world)]
        if self.is_contiguous:
            each = len(taken) // world
            shares = [taken[a : a + each][read[a : a + each]] for a in range(0, each * world, each)]
        return shares
