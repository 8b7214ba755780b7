"""Runs of OLMo-core on samples of variable length: each batch has samples of one length, a power of 2.

    dataset-HASH/bucketV-indices.npy                                         uint32: the instances of length V
    dataset-HASH/vsl-CURRICULUM/global_batch_indices_bzB_epochE_seedS.npy    uint32: the order of batches of B tokens
    dataset-HASH/vsl-CURRICULUM/instance_indices_bucketV_epochE_seedS.npy    uint32: bucket V, shuffled

Batches are numbered bucket by bucket, from the shortest. One of length V has the next B / V instances of its bucket, of
which each rank takes consecutive ones. Source: ai2-olmo-core 3.0.0 ran, with the curricula natural and grow-p2.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import names_in
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, Stored, are_equal, searched, stored_raw
from tokfmt.runs.epochs import EpochOrder
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.olmo import undivided
from tokfmt.runs.olmo_core_data import CONFIG, LONGEST, Files
from tokfmt.runs.order import Batches, RunSource, unlike
from tokfmt.wording import printable

_BUCKET = re.compile(r"bucket(\d{1,8})-indices\.npy")
_DATASET = re.compile(r"dataset-[0-9a-f]{64}")
_KNOWN = re.compile(r"vsl-natural|vsl-grow-p2-([1-9]\d{0,3})-cycle")
_EPOCH = re.compile(r"(global_batch|instance)_indices_\w+_epoch(\d{1,9})_seed\d+\.npy")
_BATCHES = re.compile(r"global_batch_indices_bz(\d{1,18})_epoch\d+_seed(\d{1,18})\.npy")


class VslOrder(EpochOrder):
    """The order of batches of samples of variable length."""

    framework = "olmo-core"
    is_packed = False

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        there, curriculum, self.cycles = _folder(facts)
        self.folder, self.notes = there / curriculum, undivided(read, datasets)
        self.names, found = set(names_in(self.folder)), map(_BUCKET.fullmatch, names_in(there))
        self.widths = sorted(int(match[1]) for match in found if match)
        if not self.widths or not 1 <= self.widths[0] <= self.widths[-1] <= LONGEST:
            expected = f"lengths of 1 to {LONGEST:,}"
            raise FormatError(there, "lacks bucketN-indices.npy", expected=expected, remedy="Copy the whole work_dir")
        self.seq_len = self.widths[-1]
        batch = self.together(facts, f"{CONFIG}: global_batch_size / {self.seq_len}")
        if batch % self.world_size:
            raise OptionError("batch_size is not divisible by world_size", name="batch_size")
        self.tokens, self.sizes = batch * self.seq_len, batch * self.seq_len // np.array(self.widths)
        self.seed = self._seed()
        self.data = Files(facts, read, datasets, self.keep).bucketed(self.widths)
        self.buckets = [self._opened(there / f"bucket{width}-indices.npy", self.data.count) for width in self.widths]
        each = np.array(list(map(len, self.buckets))) // self.sizes
        self.each: Numbers = each // self.cycles * self.cycles if self.cycles else each  # batches of each length
        if not self.each[-1]:
            raise OptionError(f"the run has no whole batch of samples of {self.seq_len:,} tokens", name="batch_size")
        self._drawn = (0, (self.each, self.each, self.each))  # epochs count from 1
        self.steps, self.per = int(self.each.sum()), int(self.each @ self.sizes)
        self.batches = _Batches(self.steps, self.per, lambda epoch: self._batches_of(1 + epoch)[0])
        self._start()
        self.from_files = self._name(self.epoch_of_start) in self.names
        self.facts = {
            "dataset": "vsl",
            "curriculum": curriculum,
            "instances": self.data.count,
            "shortest": self.widths[0],
        }

    def _start(self) -> None:
        """State where the stretch begins: at a batch, by what was read, or by the state of a checkpoint."""
        given, per = self.given, self.per
        if given.epoch is None and given.sample_in_epoch is None:
            epoch, self.skipped = divmod(given.consumed or 0, per)
        else:
            batch, epoch = (given.sample_in_epoch or 0) * self.seq_len // self.tokens, max(given.epoch or 1, 1) - 1
            if batch >= self.steps:
                raise OptionError(
                    f"an epoch has {self.steps:,} batches, fewer than sample_in_epoch", name="sample_in_epoch"
                )
            self.skipped = int(self._batches_of(1 + epoch)[0][batch])
        self.epoch_of_start, self.first, self.head = 1 + epoch, epoch * per + self.skipped, per - self.skipped
        if given.consumed not in (None, self.first) or self.skipped not in self._batches_of(1 + epoch)[0]:
            raise OptionError("consumed is not the number of samples before a batch of this epoch", name="consumed")
        self.count, self.is_one_pass = given.samples or self.first + self.head, given.samples is None

    def _seed(self) -> int:
        found = [(int(match[1]), int(match[2])) for match in map(_BATCHES.fullmatch, self.names) if match]
        seeds = {seed for size, seed in found if size == self.tokens and self.given.seed in (None, seed)}
        if len(seeds) != 1:
            listed = ", ".join(f"{size:,} tokens with seed {seed}" for size, seed in sorted(set(found))) or "none"
            raise OptionError(
                f"{printable(self.folder)}: the orders of batches are of {listed}. State seed, and batch_size: "
                f"their tokens / {self.seq_len:,}",
                name="batch_size",
            )
        return seeds.pop()

    def _opened(self, path: Place, below: int, count: int | None = None) -> Stored:
        return self.keep(stored_raw(path, "<u4", count=count, below=below))

    # Entries

    def _name(self, epoch: int) -> str:
        return f"global_batch_indices_bz{self.tokens}_epoch{epoch}_seed{self.seed}.npy"

    def _batches_of(self, epoch: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return how many samples an epoch has before each batch, its bucket, and where its samples begin in that."""
        held = self._drawn  # another thread may replace it
        if held[0] == epoch:
            return held[1]
        if self._name(epoch) in self.names:
            file = stored_raw(self.folder / self._name(epoch), "<u4", count=self.steps, below=self.steps)
            drawn = file.read(0, self.steps)
            file.close()
        else:
            drawn = self._built(epoch).astype(np.int64)
        firsts = np.cumsum(self.each) - self.each
        bucket = np.searchsorted(np.cumsum(self.each), drawn, side="right")
        sizes = self.sizes[bucket]
        found = np.concatenate([[0], np.cumsum(sizes)]), bucket, (drawn - firsts[bucket]) * sizes
        self._drawn = epoch, found
        return found

    def _built(self, epoch: int) -> NDArray[np.uint32]:
        seed = self.seed + epoch
        return _grow_p2(self.each, seed, self.cycles) if self.cycles else _natural(self.each, seed)

    def _shuffle(self, bucket: int, epoch: int) -> Integers:
        """Return the instances of a bucket in the order of an epoch."""
        name, count = (
            f"instance_indices_bucket{self.widths[bucket]}_epoch{epoch}_seed{self.seed}.npy",
            len(self.buckets[bucket]),
        )
        if name in self.names:
            return self._opened(self.folder / name, self.data.count, count)
        return self._shuffled(bucket, epoch)

    def _shuffled(self, bucket: int, epoch: int) -> Held:
        generator = np.random.Generator(np.random.PCG64(self.seed + epoch + self.widths[bucket]))
        return Held(generator.permutation(self.buckets[bucket].read(0, len(self.buckets[bucket]))))

    def entries(self, epoch: int) -> Integers:
        shuffles = [self._shuffle(k, epoch) for k in range(len(self.widths))]
        return _Entries(*self._batches_of(epoch), shuffles, self.skipped if epoch == self.epoch_of_start else 0)

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        if not deep:
            return
        for width, bucket in zip(self.widths, self.buckets, strict=True):
            for _, numbers in searched(bucket):
                if (self.data.pieces(numbers, numbers).length != width).any():
                    where = str(bucket.file.path)
                    yield Finding("TF814", "error", where, "the order is stale: it lists instances of other lengths")
                    break
        for epoch in sorted({int(match[2]) for match in map(_EPOCH.fullmatch, self.names) if match}):
            alike = [are_equal(self._shuffle(k, epoch), self._shuffled(k, epoch)) for k in range(len(self.widths))]
            _, of, starts = self._batches_of(epoch)
            batches = (np.cumsum(self.each) - self.each)[of] + starts // self.sizes[of]
            if not all(alike) or not np.array_equal(batches, self._built(epoch)):
                what = f"the batches of epoch {epoch:,} are not those of this seed and these buckets"
                yield unlike(self.folder / self._name(epoch), what)


class _Entries:
    """The samples of an epoch from `first` on, batch by batch."""

    def __init__(
        self, ends: Numbers, bucket: Numbers, starts: Numbers, shuffles: Sequence[Integers], first: int
    ) -> None:
        self.ends, self.bucket, self.starts, self.shuffles, self.first = ends, bucket, starts, shuffles, first

    def __len__(self) -> int:
        return int(self.ends[-1]) - self.first

    def read(self, first: int, last: int) -> Numbers:
        return self.take(np.arange(first, last))

    def take(self, numbers: Numbers) -> Numbers:
        batch = np.searchsorted(self.ends, numbers + self.first, side="right") - 1
        places, found = self.starts[batch] + numbers + self.first - self.ends[batch], np.empty(len(numbers), np.int64)
        for k in np.unique(self.bucket[batch]).tolist():
            mine = self.bucket[batch] == k
            found[mine] = self.shuffles[k].take(places[mine])
        return found


class _Batches(Batches):
    """So many `steps` and `samples` in each epoch; `ends_of` an epoch are its samples before each step."""

    is_known = True

    def __init__(self, steps: int, samples: int, ends_of: Callable[[int], Numbers]) -> None:
        self._steps, self._samples, self._ends_of = steps, samples, ends_of

    def samples_of(self, step: int) -> tuple[int, int]:
        epoch, inside = divmod(step, self._steps)
        first, last = self._ends_of(epoch)[inside : inside + 2].tolist()
        return epoch * self._samples + first, epoch * self._samples + last

    def step_of(self, sample: int) -> int:
        epoch, inside = divmod(sample, self._samples)
        return epoch * self._steps + int(np.searchsorted(self._ends_of(epoch), inside, side="right")) - 1


def _folder(facts: RunFacts) -> tuple[Place, str, int]:
    """Return the folder of the dataset, the name of its curriculum, and the cycles of it; 0 of the natural one."""
    cache, order = facts.cache, facts.given.order
    folders = [cache / name for name in (names_in(cache) if cache.is_dir() else ()) if _DATASET.fullmatch(name)]
    found = [(there, name) for there in folders for name in sorted(names_in(there)) if name.startswith("vsl-")]
    if order is not None:
        found = [one for one in found if f"{one[0].name}/{one[1]}".startswith(order) or one[1].startswith(order)]
    if len(found) > 1:
        listed = ", ".join(f"{there.name[:16]} {name}" for there, name in found[:4])
        raise OptionError(
            f"{printable(cache)}: has the orders of several runs: {printable(listed)}. --from-opt order=NAME chooses "
            "one",
            name="order",
        )
    known = _KNOWN.fullmatch(found[0][1]) if found else None
    if known is None:
        what = f"has the curriculum {printable(found[0][1])}" if found else "has no dataset-HASH with a curriculum"
        raise FormatError(cache, what, remedy="tokfmt knows the batches of vsl-natural and vsl-grow-p2-N-cycle")
    return *found[0], int(known[1] or 0)


def _natural(each: Numbers, seed: int) -> NDArray[np.uint32]:
    """Return the order of batches: a batch of the longest samples first, and all others shuffled."""
    count, draw = int(each.sum()), np.random.Generator(np.random.PCG64(seed))
    batches = np.arange(count, dtype=np.uint32)
    first = draw.integers(count - each[-1], count)
    batches[[0, first]] = batches[[first, 0]]
    draw.shuffle(batches[1:])
    return batches


def _grow_p2(each: Numbers, seed: int, cycles: int) -> NDArray[np.uint32]:
    """Return the order of batches that grow: a cycle has as many parts as there are lengths, each of them shuffled, and
    with more batches of longer samples than the part before it, by powers of 2.
    """
    draw, many, found = np.random.Generator(np.random.PCG64(seed)), len(each), list[NDArray[np.uint32]]()
    ends = np.cumsum([0, *each])
    for cycle, part in itertools.product(range(cycles), range(many)):
        taken = list[NDArray[np.uint32]]()
        for bucket, count in enumerate(each.tolist()):
            base, rest = divmod(count, cycles)
            begin, size = ends[bucket] + cycle * base + min(cycle, rest), base + (cycle < rest)
            start = many - bucket
            powers = [start + k if start + k <= many else start - (start + k) % many for k in range(many)]
            shares = [2 ** (power - 1) for power in powers]
            sizes = [round(share / sum(shares) * size) for share in shares]
            sizes[-1] += max(0, size - sum(sizes))
            at = begin + sum(sizes[:part])
            taken.append(np.arange(at, at + sizes[part], dtype=np.uint32))
        mixed = np.concatenate(taken)
        draw.shuffle(mixed)
        found.append(mixed)
    batches = np.concatenate(found)
    first = int(np.argmax(batches >= ends[-2]))
    batches[[0, first]] = batches[[first, 0]]
    return batches
