"""Runs on LitData: folders of chunks. No order file is written: the order is built again.

    chunks     of a folder, permuted by RandomState([seed, epoch]); epochs count from 1
    quota      of each worker of each rank: whole batches. What is left goes to one of the last rank, or is dropped
    parts      of chunks, dealt in that order until the quota of a worker is full
    shuffle    of a part by RandomState([seed, chunks, epoch, chunk]), in blocks of item_shuffle_window if it is longer
    batches    of a rank: of its workers in turn

A sample is an item, or with block_size a block of TokensLoader, which does not read the rest of a chunk. Of several
folders (CombinedStreamingDataset), each worker draws the folder of each sample by Random(seed), alike in all epochs.
Source: litdata 0.2.76 ran. Earlier versions seed the shuffle of parts with other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokfmt.errors import OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers
from tokfmt.runs.epochs import MOST, EpochOrder, longest_of, stated
from tokfmt.runs.facts import RunFacts, weights_of
from tokfmt.runs.instances import Sequences, Slices, counts_in
from tokfmt.runs.order import RunSource

_MOST_PLACES = 1 << 20  # workers of all ranks, and samples of a step
_BLOCK = 256  # samples that are shuffled together, unless the run says otherwise
_SEED = 42
_SCRIPT = "the script of the run (the arguments of StreamingDataset and StreamingDataLoader)"


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the folders of the run, in order."""
    given = facts.given
    paths = stated(facts, "input_dir", given.input_dir, _SCRIPT)
    weights: Sequence[float | None] = [None]
    if len(paths) > 1:
        words = stated(facts, "weights", given.weights, f"{_SCRIPT}, with iterate_over_all=False")
        listed = weights_of("weights", words, len(paths))
        weights = [weight / sum(listed) for weight in listed]
    named = zip(map(facts.named, paths), weights, strict=True)
    return [RunSource(place.name, (place,), "litdata", weight=weight) for place, weight in named]


class LitDataOrder(EpochOrder):
    """The order of folders of chunks."""

    framework = "litdata"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        given = facts.given
        together = self.together(facts, f"{_SCRIPT}: that of a rank, times the ranks")
        self.shuffled = stated(facts, "shuffle", given.shuffle, _SCRIPT)
        self.seed = _SEED if given.seed is None else given.seed
        self.drops = self.world_size > 1 if given.drop_last is None else given.drop_last
        self.batch, rest = divmod(together, self.world_size)
        self.workers, self.block = given.num_workers or 1, given.block_size
        if rest:
            raise OptionError("batch_size, the samples of a step, is not divisible by world_size", name="batch_size")
        if given.nodes > 1:
            raise OptionError(
                "the order of several nodes depends on the cache of LitData: it is not built", name="nodes"
            )
        chunks = [self._chunks(one.paths[0], dataset) for one, dataset in zip(read, datasets, strict=True)]
        self.ends = [np.cumsum([0, *sizes]) for sizes, _ in chunks]  # samples of each folder before a chunk
        self.firsts = np.cumsum([0, *(int(ends[-1]) for ends in self.ends)])
        if max(self.world_size * self.workers, together) > _MOST_PLACES or self.firsts[-1] > MOST:
            raise OptionError(
                f"tokfmt builds epochs of up to {MOST:,} samples, with batch_size and workers up to {_MOST_PLACES:,}",
                name="batch_size",
            )
        self.window = given.item_shuffle_window
        if self.window is None and self.shuffled and max(int(sizes.max(initial=0)) for sizes, _ in chunks) > _BLOCK:
            stated(facts, "item_shuffle_window", None, f"{_SCRIPT}: {_BLOCK} by default, 0 in versions without it")
        self.seq_len = longest_of(datasets) if self.block is None else self.block - 1
        self.is_packed = self.block is not None
        self.extra = int(self.is_packed)
        self.data = Sequences(datasets, self.seq_len)
        if self.block is not None:
            self.data = Slices([(k, begins, sizes) for k, (sizes, begins) in enumerate(chunks)], self.block)
        self.start(1, len(self._built(1)))
        self.facts = {"samples of an epoch": self.per, "workers of a rank": self.workers}
        if given.num_workers is None:
            self.notes = ("num_workers is not stated: 1, and the order depends on it",)

    def _chunks(self, path: Place, dataset: Dataset) -> tuple[Numbers, Numbers]:
        """Return how many samples each chunk of a folder has, and where it begins on its axis."""
        total, key = (dataset.spans.count, "chunk_size") if self.block is None else (dataset.axis.length, "dim")
        sizes = counts_in(path / "index.json", "chunks", key, total)
        return (sizes if self.block is None else sizes // self.block), np.cumsum(sizes) - sizes

    def entries(self, epoch: int) -> Integers:
        return Held(self._built(epoch).array[self.skipped if epoch == self.epoch_of_start else 0 :])

    # Epochs

    def _built(self, epoch: int) -> Held:
        return self.built(self._build, int(self.firsts[-1]), self.ends, epoch)

    def _build(self, epoch: int, skipped: int) -> Numbers:  # noqa: ARG002 - none are skipped
        folders = [self._dealt(k, epoch) for k in range(len(self.datasets))]
        streams = [self._mixed(ours) for ours in zip(*folders, strict=True)]  # of each worker, rank by rank
        ranks = [self._in_turn(streams[at : at + self.workers]) for at in range(0, len(streams), self.workers)]
        steps = np.full((max(map(len, ranks)), self.world_size, self.batch), -1)
        for rank, batches in enumerate(ranks):
            steps[: len(batches), rank] = batches
        return steps.reshape(-1)

    def _dealt(self, folder: int, epoch: int) -> list[Numbers]:
        """Return the samples of a folder that each worker reads."""
        sizes = np.diff(self.ends[folder])
        drawn = np.arange(len(sizes))
        if self.shuffled:
            drawn = np.random.RandomState([self.seed, epoch]).permutation(len(sizes))
        base, rest = divmod(int(sizes.sum()) // self.batch // self.world_size, self.workers)
        quota = np.tile((base + (np.arange(self.workers) < rest)) * self.batch, self.world_size)
        if not self.drops:
            quota[rest - self.workers] += sizes.sum() - quota.sum()
        dealt, full = np.cumsum(sizes[drawn]), np.cumsum(quota)
        cuts = np.unique(np.concatenate([[0], dealt, full]))
        cuts = cuts[cuts <= full[-1]]
        parts: list[list[Numbers]] = [[np.empty(0, np.int64)] for _ in quota]
        places = np.searchsorted(dealt, cuts[:-1], side="right")
        owners = np.searchsorted(full, cuts[:-1], side="right")
        for a, b, place, owner in zip(cuts.tolist(), cuts[1:].tolist(), places.tolist(), owners.tolist(), strict=False):
            chunk = int(drawn[place])
            begin = int(self.firsts[folder] + self.ends[folder][chunk] + a - (dealt[place] - sizes[chunk]))
            part = np.arange(begin, begin + b - a)
            if self.shuffled:
                part = _shuffled(
                    part, [self.seed, len(sizes), epoch, chunk], _BLOCK if self.window is None else self.window
                )
            parts[owner].append(part)
        return [np.concatenate(some) for some in parts]

    def _mixed(self, streams: Sequence[Numbers]) -> Numbers:
        """Return the samples of a worker of several folders, up to the first that one of them does not have."""
        if len(streams) == 1:
            return streams[0]
        seed = _SEED if self.given.combined_seed is None else self.given.combined_seed
        reach = np.cumsum([source.weight or 0.0 for source in self.sources])
        draws = np.random.RandomState([seed]).random_sample(sum(map(len, streams)) + 1) * reach[-1]
        which = np.minimum(np.searchsorted(reach, draws, side="right"), len(streams) - 1)
        places = [np.flatnonzero(which == k) for k in range(len(streams))]
        ends = [at[len(one)] for at, one in zip(places, streams, strict=True) if len(at) > len(one)]
        mixed = np.empty(min(ends), np.int64)
        for at, one in zip(places, streams, strict=True):
            kept = at[at < len(mixed)]
            mixed[kept] = one[: len(kept)]
        return mixed

    def _in_turn(self, streams: Sequence[Numbers]) -> Numbers:
        """Return the batches of a rank, of its workers in turn, as long as they have one."""
        rows = [
            np.concatenate([stream, np.full(-len(stream) % self.batch, -1)]).reshape(-1, self.batch)
            for stream in streams
        ]
        turn = np.concatenate([np.arange(len(row)) for row in rows])
        return np.concatenate(rows)[np.argsort(turn, kind="stable")]


order = LitDataOrder


def _shuffled(part: Numbers, seed: list[int], window: int) -> Numbers:
    """Return a part of a chunk in blocks of `window`, which are shuffled, and the blocks too; 0 and 1 are one block."""
    state = np.random.RandomState(seed)
    blocks = [part] if window < 2 else [part[at : at + window] for at in range(0, len(part), window)]
    for block in blocks:
        state.shuffle(block)
    turns = np.arange(len(blocks))
    if len(blocks) > 1:
        state.shuffle(turns)
    return np.concatenate([blocks[k] for k in turns.tolist()])
