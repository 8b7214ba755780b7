"""Runs of GPT-NeoX: index maps beside the data.

    PREFIX_train_I_indexmap_Nns_Lsl_Ss_PACKINGpi_ac_doc_idx.npy     as of Megatron-LM

I is the place of the data in train_data_paths; it is missing with data_path. PACKING is packed or pack_until_overflow;
`_ac` allows documents that are cut. Names before August 2024 have neither, as those of Megatron-LM. Differences from
Megatron-LM, found by running GPT-NeoX ea7aefd8:

- The last sample of a source is never used, and a number beyond its end begins at its first sample again.
- The loader is a cycle: after its end, it repeats what it gave since the start of this process.
- With preshuffled, the sequences of an index are the samples, in the order of training (the published sets of Pythia).
- pack_until_overflow: a sample is whole documents and one token of the next one, cut or filled with 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import WINDOW, Held, Numbers, Wrapped, places_of
from tokfmt.runs.facts import RunFacts, weights_of
from tokfmt.runs.megatron_lm import IndexMap, index_maps, look_at
from tokfmt.runs.megatron_samples import Blend, BlendOrder, Windows, megatron_source
from tokfmt.runs.order import Order, Pieces, RunSource, repeated_by
from tokfmt.wording import printable

_OVERFLOW = "pack_until_overflow"


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the datasets that the run read, in the order of the blend."""
    if not facts.given.preshuffled:
        return [one.source for one in facts.once("maps", _maps)]
    paths = facts.given.data_path or facts.given.train_data_paths
    if len(paths) != 1:
        raise OptionError(
            f"{printable(facts.where)}: preshuffled needs the data of the run, one index: --from-opt data_path=PREFIX",
            name="data_path",
        )
    place = facts.named(paths[0])
    return [megatron_source(place.name, place)]


def order(facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> Order:
    """Return the order that the files hold; that of the blend is built again."""
    return (PreshuffledOrder if facts.given.preshuffled else GptNeoxOrder)(facts, read, datasets)


def _maps(facts: RunFacts) -> list[IndexMap]:
    paths, words = facts.given.train_data_paths, facts.given.train_data_weights
    if not paths:
        return index_maps(facts, [(path, None) for path in facts.given.data_path])
    weights = weights_of("train_data_weights", words, len(paths)) if words else [1.0] * len(paths)
    mixed = list(zip(paths, weights, strict=True))
    return index_maps(facts, [*mixed] if len(mixed) > 1 else [(paths[0], None)], numbered=True)


class Overflowing(Windows):
    """Samples of whole documents, and one token of the next one."""

    is_exact = False

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        instead = self.shuffle.take(numbers) % self.count
        found = super().pieces(np.where(self._are_beyond(numbers), instead, numbers), rows)
        return found.cut(self.seq_len + self.extra)

    def _are_beyond(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which samples end after the last document, where the framework gives another sample instead."""
        after = np.minimum(self.shuffle.take(numbers) + 1, len(self.samples) - 1)
        are_beyond: NDArray[np.bool_] = self.samples.take(after)[:, 0] >= len(self.documents)
        return are_beyond

    def holding(self, sequence: int, start: int, stop: int) -> Numbers:
        found = super().holding(sequence, start, stop)
        last = places_of(self.shuffle, np.array([self.count]))  # the window that may end beyond
        beyond = last[self._are_beyond(last)]
        return np.union1d(found, beyond[np.isin(self.shuffle.take(beyond) % self.count, found)])


class GptNeoxOrder(BlendOrder):
    """The order of one split."""

    framework = "gpt-neox"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        self.maps = facts.once("maps", _maps)
        super().__init__(facts, read, datasets, self.maps[0].length)
        kinds = [Overflowing if one.packing == _OVERFLOW else Windows for one in self.maps]
        self.is_packed = Overflowing not in kinds
        windows = [self.windows(k, one.files, kinds[k]) for k, one in enumerate(self.maps)]
        for window in windows:
            window.count = max(0, len(window.shuffle) - 1)
        which: Held | None = None
        numbers: Wrapped | None = None
        if len(windows) > 1:
            counts = [window.count for window in windows]
            which, inner = self.blended(sum(counts))
            numbers = Wrapped(inner, which, counts)
        self.load(Blend(windows, which, numbers))
        together = self.given.micro_batch_size * self.world_size
        self.whole = max(self.blend.count // together * together, 1)
        self.begin = self.first % self.whole  # where the loader of this stretch starts
        self.is_one_pass = self.given.samples is None
        self.count = self.given.samples or self.first + self.whole - self.begin

    def numbers(self, samples: Numbers) -> Numbers:
        return self.begin + (samples - self.first) % (self.whole - self.begin)

    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        numbers = self.blend.holding(source, sequence, start, stop)
        numbers = numbers[(numbers >= self.begin) & (numbers < self.whole)] - self.begin
        return self.first + repeated_by(self.whole - self.begin, numbers, 0, self.count - self.first)

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        for windows, one in zip(self.blend.windows, self.maps, strict=True):
            if one.packing != _OVERFLOW:
                yield from look_at(windows, one, deep=deep)


class PreshuffledOrder(Order):
    """The sequences of an index, each a sample with its last label, in the order of training."""

    framework = "gpt-neox"
    from_files = True

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        self.spans = datasets[0].spans
        begin, end = self.spans.extent(0) if self.spans.count else (0, 0)
        self.seq_len = end - begin - 1
        if self.seq_len < 1:
            raise FormatError(read[0].paths[0], "has no sample in its first sequence", remedy="Name another data_path")
        self.first = facts.given.consumed or 0
        self.count = min(self.spans.count, facts.given.samples or self.spans.count)
        self.facts = {"split": "preshuffled"}

    def pieces(self, samples: Numbers) -> Pieces:
        begins, ends = self.spans.extents_of(samples)[:2]
        wrong = np.flatnonzero(ends - begins != self.seq_len + 1)
        if len(wrong):
            raise CorruptError(
                self.sources[0].paths[0],
                f"sequence {int(samples[wrong[0]]):,} is not a sample, as the first one is",
                expected=f"{self.seq_len + 1:,} tokens",
                found=f"{int(ends[wrong[0]] - begins[wrong[0]]):,}",
                remedy="preshuffled = true is for data that hold one sample per sequence, in the order of training",
            )
        return Pieces(np.arange(len(samples)), np.zeros(len(samples), np.int64), begins, ends - begins)

    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:  # noqa: ARG002
        return np.array([sequence])

    def ranks(self, step: int) -> list[Numbers]:
        return self.in_micro_batches(step, self.given.micro_batch_size)

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        for at in range(0, self.count if deep else 0, WINDOW):
            self.pieces(np.arange(at, min(at + WINDOW, self.count)))
        return iter(())
