"""Runs of OLMo-core: raw token files, and the order files of its `work_dir`.

    global_indices_chunkC_dataset_sizeN_epochE_seedS_v1.npy     uint32 without a header: the instances of an epoch
    global_indices_epochE_max_seq_lenM_seedS_seq_lenL_shuffleSTRATEGY_sizeN_v1.npy      the same of composable sources
    SamplingInstanceSource/HASH-HASH-indices.npy                uint32: which instances of a source a mix draws
    dataset-HASH/vsl-CURRICULUM/...                             the batches of a VSL dataset; see `olmo_core_vsl`

    instance    sequence_length tokens of one file; or documents that are packed or padded; see `olmo_core_data`
    epoch       from 1: PCG64(seed + epoch) shuffles chunks of instances; what no batch has is left out
    step        the next ones of the epoch; rank r takes every world_size-th from the r-th on

The order files do not state paths, type, batch and ranks. The state in a checkpoint has seed, epoch, tokens_processed.
Source: ai2-olmo-core 3.0.0 ran. Interleaved documents, and composable sources but concat-and-chunk, mixing and the
sampling below it, were only read, and are not built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import matching, names_in
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Stored, are_equal, stored_raw
from tokfmt.runs.epochs import MOST, Entries, EpochOrder, numbered, shuffled, stated
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.instances import Documents, Slices, stale_documents
from tokfmt.runs.olmo import slices_of, undivided
from tokfmt.runs.olmo_core_data import CONFIG, Files, Mixed, kind_of, length_of, mixture, sources
from tokfmt.runs.olmo_core_vsl import VslOrder
from tokfmt.runs.order import Order, RunSource, repeats, unlike
from tokfmt.wording import printable

__all__ = ["order", "sources"]

_NAME = re.compile(
    r"global_indices(?:_chunk(?P<chunk>\d{1,9}))?(?:_dataset_size(?P<size>\d{1,18}))?(?:_epoch(?P<epoch>\d{1,9}))?"
    r"(?:_max_seq_len(?P<most>\d{1,9}))?(?:_seed(?P<seed>\d{1,18}))?(?:_seq_len(?P<length>\d{1,9}))?"
    r"(?:_shuffle(?P<strategy>[a-z_]+?))?(?:_size(?P<total>\d{1,18}))?_v1\.npy"
)


class _Shuffle(NamedTuple):
    """What the names of order files state, and the name of each epoch; epoch 0 is of a run without shuffle."""

    chunk: int  # instances that stay together
    size: int | None  # entries of an epoch
    seed: int | None
    strategy: str | None  # of composable sources
    length: int | None
    names: dict[int, str]


def order(facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> Order:
    """Return the order that the files hold, or that is built again."""
    return (VslOrder if kind_of(facts) == "vsl" else OlmoCoreOrder)(facts, read, datasets)


def _shuffles(facts: RunFacts, kind: str) -> list[_Shuffle]:
    """Return what the order files are of, those that fit what is stated."""
    found, given = dict[str, _Shuffle](), facts.given
    for match in filter(None, map(_NAME.fullmatch, sorted(names_in(facts.cache) if facts.cache.is_dir() else ()))):
        read = {key: int(word) for key, word in match.groupdict().items() if word and key != "strategy"}
        if ("total" in read) != (kind == "composable"):
            continue
        length, size = read.get("length"), read.get("total", read.get("size"))
        chunk = read.get("most", 1) // (length or 1) if "total" in read else read.get("chunk", 1)
        one = _Shuffle(chunk, size, read.get("seed"), match["strategy"], length, {})
        found.setdefault(re.sub(r"_epoch\d+", "", match.string), one).names[read.get("epoch", 0)] = match.string
    return [
        one
        for one in found.values()
        if given.seed in (None, one.seed)
        and given.shuffle_strategy in (None, one.strategy)
        and (given.order is None or any(name.startswith(given.order) for name in one.names.values()))
    ]


class OlmoCoreOrder(EpochOrder):
    """The order of datasets whose samples have one length."""

    framework = "olmo-core"
    is_contiguous = False

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        self.notes = undivided(read, datasets)
        self.where, self.kind, self._stored = facts, kind_of(facts), dict[int, Stored]()
        found = _shuffles(facts, self.kind)
        self.seq_len = length_of(facts, {one.length for one in found if one.length is not None})
        self.batch = self.together(facts, f"{CONFIG}: global_batch_size / sequence_length")
        self.data, self.shuffle = self._fitting(found)
        self.is_packed = not isinstance(self.data, Documents)
        self.size = self.shuffle.size or 0
        self.start(1, self.size // self.batch * self.batch, whole=self.batch, from_start=True)
        self.from_files = self._file(self.epoch_of_start) is not None
        self.facts = {"dataset": self.kind, "instances": self.data.count}
        if self.kind == "mixture":
            self.facts = {**self.facts, "mixture": "built again"}
        missing = next((epoch for epoch, _ in self._begins() if self._file(epoch) is None), None)
        if self.from_files and missing is not None:
            self.notes += (f"no file has the order from epoch {missing:,} on: it is built again",)

    def _fitting(self, found: Sequence[_Shuffle]) -> tuple[Slices | Documents | Mixed, _Shuffle]:
        """Return the instances, and the order files that are of so many, or an order that is built again."""
        facts, given, length = self.where, self.given, self.seq_len
        chunk = max(1, (given.max_target_sequence_length or 0) // length)
        if not found:
            strategy = given.shuffle_strategy
            if self.kind == "composable" and given.shuffle is not False:
                stated(facts, "shuffle_strategy", strategy, f"{CONFIG} (data_loader)")
            found = [_Shuffle(chunk, None, given.seed, strategy, None, {})]
        made, fitting = dict[int, Slices | Documents | Mixed](), list[tuple[Slices | Documents | Mixed, _Shuffle]]()
        for one in found:
            key = one.chunk if self.kind == "fsl" else 1
            data = made[key] = made.get(key) or self._data(key)
            size = data.count
            if isinstance(data, Mixed) and one.strategy == "interleaved_source":
                size = min(data.sizes) * len(data.sizes)
            is_meant = given.max_target_sequence_length is None or one.chunk == chunk
            if is_meant and one.size in (None, size) and one.length in (None, length):
                fitting.append((data, one._replace(size=size)))
        if not fitting:
            raise FormatError(
                facts.cache,
                "has order files of another number of instances than the token files",
                expected=" or ".join(f"{data.count:,}" for data in made.values()),
                found=" and ".join(f"{one.size:,}" for one in found),
                remedy="State paths, sequence_length and the sources as the configuration of the run has them",
            )
        if len(fitting) > 1:
            listed = ", ".join(next(iter(one.names.values())) for _, one in fitting[:4])
            raise OptionError(
                f"{printable(facts.cache)}: has the orders of several runs: {listed}. --from-opt seed=N or order=NAME "
                "chooses one",
                name="order",
            )
        return fitting[0]

    def _data(self, chunk: int) -> Slices | Documents | Mixed:
        facts, read, datasets, length = self.where, self.sources, self.datasets, self.seq_len
        if self.kind == "composable":
            return Mixed(facts, datasets, length)
        if self.kind == "mixture":
            return mixture(facts, datasets, length, self.batch)
        if self.kind == "fsl":
            return slices_of(facts, read, datasets, length, chunk)
        files = Files(facts, read, datasets, self.keep)
        return files.packed(length) if self.kind == "packed_fsl" else files.padded(length)

    # Entries

    def entries(self, epoch: int) -> Integers:
        first, count = (self.skipped, self.head) if epoch == self.epoch_of_start else (0, self.per)
        file = self._file(epoch)
        return self._built(epoch, first, count) if file is None else Entries(file, first, self.size, count)

    def _file(self, epoch: int) -> Stored | None:
        """Return the order file of an epoch, if there is one."""
        name = self.shuffle.names.get(epoch, self.shuffle.names.get(0))
        if name is not None and epoch not in self._stored:
            file = stored_raw(self.where.cache / name, "<u4", count=self.size, below=self.data.count)
            self._stored[epoch] = self.keep(file)
        return self._stored.get(epoch)

    def _built(self, epoch: int, first: int, count: int) -> Entries:
        """Return some entries of an epoch by the rule of the framework."""
        shuffle, data, size = self.shuffle, self.data, self.size
        if self.given.shuffle is False or 0 in shuffle.names:
            return Entries(Held(numbered(size)), first, size, count)
        seed = epoch + stated(self.where, "seed", shuffle.seed, f"{CONFIG} (data_loader.seed)")
        if not isinstance(data, Mixed):
            return Entries(shuffled(size // shuffle.chunk, seed), first, size, count, shuffle.chunk)
        if shuffle.chunk > 1:
            raise OptionError("the order of sources in chunks is not known without its file", name="cache")
        sizes = data.sizes if shuffle.strategy != "inter_source" else [size]
        built = numbered(size)
        for k, begin in enumerate((np.cumsum(sizes) - sizes).tolist()):
            if shuffle.strategy == "interleaved_source":
                built[k :: len(sizes)] = shuffled(min(sizes), seed + k).array + begin
            else:
                built[begin : begin + sizes[k]] = shuffled(sizes[k], seed + k).array + begin
        return Entries(Held(built), first, size, count)

    # Checks

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        is_known = self.size <= MOST and (self.shuffle.chunk == 1 or not isinstance(self.data, Mixed))
        for epoch in self.shuffle.names:
            file = self._file(epoch)
            if file is None or not deep:
                continue
            found = [] if self.shuffle.strategy == "interleaved_source" else list(repeats(file.file.path, file))
            yield from found
            if is_known and not found and not are_equal(file, self._built(epoch, 0, self.size)):
                yield unlike(file.file.path, "the order is not the one of this seed and these sources")
        if isinstance(self.data, Mixed):
            yield from self._drawn_unlike(self.data)
        if isinstance(self.data, Documents) and deep:
            yield from stale_documents(self.data, self.datasets, self.given.eos_token_id)

    def _drawn_unlike(self, data: Mixed) -> Iterator[Finding]:
        """Compare what a mix draws with what the run drew."""
        there = self.where.cache / "SamplingInstanceSource"
        files = [self.keep(stored_raw(path, "<u4")) for path in matching(there, "*.npy")]
        for k, draw in enumerate(data.draws if files else ()):
            if not any(are_equal(Held(draw), file) for file in files):
                yield unlike(
                    there, f"no file has the instances that source {k:,} of the mixes draws by its ratio and seed"
                )
