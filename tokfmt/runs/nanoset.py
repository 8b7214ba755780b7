"""Runs of nanotron on a Nanoset: folders of datatrove's `.ds`. No order file is written: the order is built again.

    files      of a folder: sorted by name, then permuted by default_rng(42)
    sample     seq_len + 1 tokens of one file, without overlap; what is left of a file is not read
    epoch      as many entries as all folders have samples, by largest error of the weights (none: the lengths)
    shuffle    RandomState(seed), once for folders and once for numbers: all epochs have the same order

Rank r takes r::ranks of a step. Source: nanotron 2411b022 over datatrove 0.5.0 ran.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokfmt.errors import OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Numbers, kept, places_of
from tokfmt.runs.epochs import stated
from tokfmt.runs.facts import RunFacts, weights_of
from tokfmt.runs.instances import Slices
from tokfmt.runs.order import Order, Pieces, RunSource, largest_error, repeated_by

_SEED_OF_FILES = 42


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the folders of the run, in the order of its configuration."""
    given = facts.given
    folders, words = given.dataset_folders, given.dataset_weights
    for name in ("dataset_folders", "seed", "sequence_length"):
        stated(facts, name, getattr(given, name), "config.yaml of the run (data_stages, tokens)")
    weights = weights_of("dataset_weights", words, len(folders)) if words else [None] * len(folders)
    places = [(facts.named(folder), weight) for folder, weight in zip(folders, weights, strict=True)]
    return [RunSource(place.name, (place,), "datatrove", weight=weight) for place, weight in places]


def _files(dataset: Dataset, place: Place) -> tuple[Numbers, Numbers]:
    """Return where the files of a folder begin on its axis, and their tokens, in the order of the framework."""
    from tokfmt import registry

    size = dataset.axis.dtype.itemsize
    files = [file for file in registry.get("datatrove").files(place) if file.suffix == ".ds"]
    tokens = np.array([file.status().size // size for file in files], np.int64)
    by_name = sorted(range(len(files)), key=lambda k: files[k].text)
    drawn = np.random.default_rng(_SEED_OF_FILES).permutation(len(files)).tolist()
    chosen = [by_name[k] for k in drawn]
    return (np.cumsum(tokens) - tokens)[chosen], tokens[chosen]


class NanosetOrder(Order):
    """The order of a Nanoset."""

    framework = "nanoset"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        given, self.seq_len = facts.given, facts.given.sequence_length or 1
        width = self.seq_len + self.extra
        files = [_files(dataset, source.paths[0]) for dataset, source in zip(datasets, read, strict=True)]
        self.slices = Slices([(k, begins, tokens // width) for k, (begins, tokens) in enumerate(files)], width)
        counts = self.slices.counts.tolist()
        weights = [count if one.weight is None else one.weight for count, one in zip(counts, read, strict=True)]
        if not sum(counts) or not min(counts):
            raise OptionError(f"a folder has no sample of {width:,} tokens", name="sequence_length")
        facts_of_order = ("nanoset", given.seed, *weights, *counts)
        self.entries = kept(facts_of_order, sum(counts), ["entries"], lambda: iter([[self._entries(weights)]]))[0]
        self.first, self.epoch = given.consumed or 0, len(self.entries)
        self.count, self.is_one_pass = given.samples or self.first + self.epoch, given.samples is None
        self.facts = {"samples of an epoch": self.epoch}

    def _entries(self, weights: Sequence[float]) -> Numbers:
        which, numbers = (one.array.copy() for one in largest_error(weights, self.slices.count))
        inner = numbers % self.slices.counts[which]
        for entries in (which, inner):  # each by a generator of its own
            np.random.RandomState(self.given.seed).shuffle(entries)
        found: Numbers = self.slices.firsts[which] + inner
        return found

    def pieces(self, samples: Numbers) -> Pieces:
        return self.slices.pieces(self.entries.take(samples % self.epoch), np.arange(len(samples)))

    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        entries = places_of(self.entries, self.slices.holding(source, sequence, start, stop))
        return repeated_by(self.epoch, entries, self.first, self.count)

    def ranks(self, step: int) -> list[Numbers]:
        first, last = self.batches.samples_of(step)
        return [np.arange(first + rank, last, self.world_size) for rank in range(self.world_size)]


order = NanosetOrder
