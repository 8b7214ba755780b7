"""Runs on MosaicML Streaming: streams of MDS shards. No order file is written: the order is built again.

    choose      of each stream: its share of an epoch, whole, repeated or drawn
    partition   of an epoch over canonical nodes, which are read in turn, then over nodes, ranks and workers
    shuffle     of what the places of the partition mean, by shards and canonical nodes

The state of a checkpoint has epoch, sample_in_epoch, num_canonical_nodes and shuffle_seed. Source: mosaicml-streaming
0.13.0 ran; batching device_per_stream is not built again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import OptionError
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers
from tokfmt.runs.epochs import MOST, EpochOrder, longest_of, stated
from tokfmt.runs.facts import RunFacts, weights_of
from tokfmt.runs.instances import Sequences, counts_in
from tokfmt.runs.order import RunSource

_REPEATS = 256  # of all samples in an epoch
_MOST_PLACES = 1 << 20  # canonical nodes, and places of a batch of all workers
_CONFIG = "the configuration of the run (train_loader of LLM Foundry, the arguments of StreamingDataset)"
_draw: Callable[[int], np.random.Generator] = np.random.default_rng


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the streams of the run, in order."""
    paths = stated(facts, "streams", facts.given.streams, _CONFIG)
    return [RunSource(place.name, (place,), "mds") for place in map(facts.named, paths)]


class StreamingOrder(EpochOrder):
    """The order of streams."""

    framework = "mosaic-streaming"
    is_packed = False

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        given = facts.given
        self.batch = self.together(facts, f"{_CONFIG}: global_train_batch_size")
        self.shuffled = stated(facts, "shuffle", given.shuffle, _CONFIG)
        self.seed = 9176 if given.shuffle_seed is None else given.shuffle_seed
        if self.batch % self.world_size or self.world_size % given.nodes:
            raise OptionError("batch_size is not divisible by world_size, or that by nodes", name="batch_size")
        nodes = given.nodes * (64 if given.shuffle_algo in {"py1s", "py2s"} else 1)
        self.canonical = given.num_canonical_nodes or nodes
        if max(self.canonical, given.nodes) % min(self.canonical, given.nodes):
            raise OptionError("num_canonical_nodes and nodes do not divide each other", name="num_canonical_nodes")
        self.block = given.shuffle_block_size or max(4_000_000 // self.canonical, 1 << 18)
        self.shards = [
            counts_in(one.paths[0] / "index.json", "shards", "samples", dataset.spans.count, 1)
            for one, dataset in zip(read, datasets, strict=True)
        ]
        self.firsts = np.cumsum([0, *(int(shards.sum()) for shards in self.shards)])
        self.chosen = self._chosen()
        if not self.chosen.any():
            raise OptionError(
                "an epoch has no sample: proportion, repeat, choose or epoch_size is too small", name="epoch_size"
            )
        together = self.batch * (given.num_workers or 1)
        most = min(MOST, _REPEATS * int(self.firsts[-1]))
        if max(self.canonical, together) > _MOST_PLACES or self.chosen.sum() > most:
            raise OptionError(
                f"tokfmt builds epochs of up to {most:,} samples, and {_MOST_PLACES:,} canonical nodes or samples in "
                f"batch_size times num_workers (found {int(self.chosen.sum()):,}, {self.canonical:,} and {together:,})",
                name="num_canonical_nodes",
            )
        self.seq_len = given.sequence_length or longest_of(datasets)
        self.data = Sequences(datasets, self.seq_len)
        self.start(0, len(self._built(0, 0)), lambda epoch, skipped: len(self._built(epoch, skipped)))
        self.facts = {
            "shuffle": given.shuffle_algo if self.shuffled else "none",
            "canonical nodes": self.canonical,
            "samples of an epoch": int(self.chosen.sum()),
        }
        if given.num_workers is None:
            self.notes = ("num_workers is not stated: 1, which may differ in the last steps of an epoch",)

    def entries(self, epoch: int) -> Integers:
        return self._built(epoch, self.skipped if epoch == self.epoch_of_start else 0)

    # Streams

    def _chosen(self) -> Numbers:
        """Return how many samples of each stream an epoch has."""
        given, sizes = self.given, np.diff(self.firsts)
        for name in ("proportion", "repeat", "choose"):
            words = getattr(given, name)
            if not words:
                continue
            listed = np.array(weights_of(name, words, len(sizes)))
            if name != "proportion":
                return (listed * sizes if name == "repeat" else listed).astype(np.int64)
            total = given.epoch_size or int(sizes.sum())
            chosen: Numbers = (total * (listed / listed.sum())).astype(np.int64)
            chosen[_draw(self.seed).choice(len(sizes), total - int(chosen.sum()), False)] += 1
            return chosen
        return sizes

    def _units(self, epoch: int, only: int | None) -> tuple[Numbers, Numbers]:
        """Return the length of each repeat of a shard, and the samples in them."""
        balanced = self.given.sampling_method == "balanced"
        draw = _draw(self.seed + (epoch if balanced else 0))
        units, samples = list[int](), [np.empty(0, np.int64)]
        for k, (shards, chosen) in enumerate(zip(self.shards, self.chosen.tolist(), strict=True)):
            if only not in (None, k):
                continue
            total = int(shards.sum())
            wanted = shards * (chosen // total)
            picks = np.repeat(np.arange(len(shards)), shards)
            seed = self.seed + (epoch if self.shuffled and balanced else 0)
            drawn = picks[_draw(seed).permutation(len(picks))[: chosen % total]]
            wanted += np.bincount(drawn, minlength=len(shards))
            for begin, size, count in zip(
                (self.firsts[k] + np.cumsum(shards) - shards).tolist(), shards.tolist(), wanted.tolist(), strict=True
            ):
                units += [size] * (count // size)
                samples += [np.arange(begin, begin + size)] * (count // size)
                if count % size:
                    units.append(count % size)
                    samples.append(np.sort(begin + draw.choice(size, count % size, False)))
        return np.array(units, np.int64), np.concatenate(samples)

    def _built(self, epoch: int, skipped: int) -> Held:
        return self.built(self._build, int(self.chosen.sum()), self.shards, epoch, skipped)

    def _build(self, epoch: int, skipped: int) -> Numbers:
        given = self.given
        nodes, workers = given.nodes, given.num_workers or 1
        ranks, batch = self.world_size // nodes, self.batch // self.world_size
        if given.batching_method == "random":
            units, samples = self._units(epoch, None)
            places = partition(len(samples), self.canonical, nodes, ranks, workers, batch, skipped)
            dealt = self._meant(places, units, samples, epoch, self.block).transpose(3, 2, 0, 1, 4)
            steps = dealt.reshape(-1, self.batch)
            kept: Numbers = steps[steps.max(1) >= 0].reshape(-1)  # what no rank has a sample of is not a step
            return kept
        stratified, total = given.batching_method == "stratified", max(int(self.chosen.sum()), 1)
        parts = list[Numbers]()
        for k, chosen in enumerate(self.chosen.tolist()):
            units, samples = self._units(epoch, k)
            how = (1, ranks, workers, 1) if stratified else (nodes, ranks, workers, batch)
            places = partition(len(samples), self.canonical, *how)
            meant = self._meant(places, units, samples, epoch, int(self.block * (chosen / total)))
            parts.append(meant.transpose(3, 2, 0, 1, 4).reshape(-1))
        rows = self._stratified(parts) if stratified else self._by_streams(parts, epoch)
        return rows[skipped // self.batch :].reshape(-1)

    def _meant(self, places: Numbers, units: Numbers, samples: Numbers, epoch: int, block: int) -> Numbers:
        if self.shuffled and block < 2 and self.given.shuffle_algo in {"py1e", "py1br"}:
            raise OptionError("shuffle_block_size is below 2 for the share of a stream", name="shuffle_block_size")
        if self.shuffled:
            drawn = shuffled(self.given.shuffle_algo, units, self.canonical, self.seed, epoch, block)
            samples = samples[drawn]
        return np.where(places >= 0, samples[places], -1)

    def _stratified(self, parts: Sequence[Numbers]) -> Numbers:
        exact = self.chosen / self.chosen.sum() * self.batch
        counts = exact.astype(np.int64)
        if missing := self.batch - int(counts.sum()):
            counts[np.flip(np.argsort(exact - counts))[:missing]] += 1
        if not counts.all():
            raise OptionError("a stream has no sample in a stratified batch", name="batch_size")
        rows = [
            np.concatenate([part, np.full(-len(part) % size, -1)]).reshape(-1, size)
            for part, size in zip(parts, counts.tolist(), strict=True)
        ]
        full = min(int(np.count_nonzero(row.min(1) >= 0)) for row in rows)
        return np.concatenate([row[:full] for row in rows], 1)

    def _by_streams(self, parts: Sequence[Numbers], epoch: int) -> Numbers:
        rows = [part.reshape(-1, self.batch) for part in parts]
        rows = [row[: int(np.count_nonzero(row.min(1) >= 0))] for row in rows]
        turns = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        balanced = self.shuffled and self.given.sampling_method == "balanced"
        _draw(self.seed + (epoch if balanced else 0)).shuffle(turns)
        taken = np.empty((len(turns), self.batch), np.int64)
        for k, one in enumerate(rows):
            taken[turns == k] = one
        return taken


order = StreamingOrder


def partition(
    count: int, canonical: int, nodes: int, ranks: int, workers: int, batch: int, skipped: int = 0
) -> Numbers:
    """Return the places of an epoch, int64[nodes, ranks of a node, workers, batches, batch], -1 where there is none."""
    each = -(-count // canonical)
    ratio = nodes // canonical if canonical < nodes else 0
    padding = -each % ratio if ratio else 0
    if count > canonical or (count == canonical and canonical >= nodes):
        low = np.arange(canonical) * count // canonical
        high = np.arange(1, canonical + 1) * count // canonical
        places = low[:, None] + np.arange(each + padding)[None]
        places[:, each - 1] -= high - low < each
        if padding:
            places[:, -padding:] = places[:, -padding - ratio + 1 - padding : -padding - ratio + 1]
    else:
        places = np.resize(np.arange(count), canonical * (each + padding)).reshape(canonical, -1)
    places = places.T.reshape(-1)[skipped - skipped % nodes :].reshape(-1, nodes).T
    if over := places.shape[1] % ranks:
        under = ranks - over
        if ranks + under - 1 <= places.shape[1]:
            last = places[:, -ranks - under + 1 : places.shape[1] - ranks + 1]
        else:
            last = np.tile(places, under // places.shape[1] + 1)[:, :under]
        places = np.concatenate([places, last], 1)
    dealt = places.reshape(nodes, -1, ranks)
    fill = np.full((nodes, -dealt.shape[1] % (workers * batch), ranks), -1)
    dealt = np.concatenate([dealt, fill], 1).transpose(0, 2, 1)
    return dealt.reshape(nodes, ranks, -1, workers, batch).transpose(0, 1, 3, 2, 4)


def _in_nodes(spans: list[Numbers], canonical: int) -> list[list[Numbers]]:
    """Return the spans of each canonical node; one that two of them have is cut."""
    total, done, rest = sum(map(len, spans)), 0, spans[::-1]
    nodes = list[list[Numbers]]()
    for node in range(canonical):
        end, mine = total * (node + 1) // canonical, list[Numbers]()
        while rest and done + len(rest[-1]) <= end:
            mine.append(rest.pop())
            done += len(mine[-1])
        if rest and done < end:
            mine.append(rest[-1][: end - done])
            rest[-1] = rest[-1][end - done :]
            done = end
        nodes.append(mine)
    return nodes


def shuffled(algorithm: str, units: Numbers, canonical: int, seed: int, epoch: int, block: int) -> Numbers:
    """Return what the places of an epoch mean after its shuffle."""
    draw, first = _draw(seed + epoch), _draw(seed)
    if algorithm == "naive":
        return draw.permutation(int(units.sum()))
    spans = [np.arange(end - size, end) for size, end in zip(units.tolist(), np.cumsum(units).tolist(), strict=True)]
    first.shuffle(spans)  # a list, of which the generator draws otherwise than of an array
    if algorithm == "py2s":
        for span in spans:
            first.shuffle(span)
    nodes = _in_nodes(spans, canonical)
    for mine in nodes:
        draw.shuffle(mine)
        for span in mine if algorithm == "py2s" else ():
            draw.shuffle(span)
    staggers = draw.integers(0, int(0.75 * block), (canonical,)).tolist() if algorithm == "py1br" else [0] * canonical
    for mine, stagger in zip(nodes, staggers, strict=True):
        if algorithm == "py1br":
            mine[:] = [_in_blocks(mine, draw, block, stagger)]
        elif algorithm != "py2s":
            mine[:] = [_inside_spans(mine, draw, block if algorithm == "py1e" else None)]
    return np.concatenate([span for mine in nodes for span in mine])


def _in_blocks(spans: list[Numbers], draw: np.random.Generator, block: int, stagger: int) -> Numbers:
    numbers = np.concatenate([np.empty(0, np.int64), *spans])
    end, blocks = 0, list[tuple[int, int]]()
    while end < len(numbers):
        size = int(draw.integers(int(0.75 * block), int(1.25 * block)))
        low, high = max(end - stagger, 0), min(end + size - stagger, len(numbers))
        blocks.append((low, high))
        end += high - low
    for low, high in blocks:
        draw.shuffle(numbers[low:high])
    return numbers


def _inside_spans(spans: list[Numbers], draw: np.random.Generator, block: int | None) -> Numbers:
    for span in spans:
        draw.shuffle(span)
    numbers = np.concatenate([np.empty(0, np.int64), *spans])
    if block is None:
        return numbers
    places: NDArray[np.float64] = np.arange(len(numbers)).astype(np.float64)
    at = 0
    for span in spans:
        reach = max((int(draw.integers(int(0.75 * block), int(1.25 * block))) - len(span)) / 2, 0)
        moved = draw.uniform(max(-reach, -at), min(reach, len(numbers) - at - len(span)), len(span))
        places[at : at + len(span)] += moved
        at += len(span)
    return numbers[np.argsort(places)]
