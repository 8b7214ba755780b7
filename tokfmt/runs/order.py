"""The order in which a run read samples: what each sample is made of, and which step and rank read it.

    sample     number k: the k-th that the run read, over all ranks
    number     of a sample in the dataset of the framework, before its loader
    piece      an interval of the stored tokens of one source, separators included

A module of a framework defines `sources(facts)` and `order(facts, sources, datasets)`; `frameworks.ORDER_FILES` has the
names of its order files.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokfmt.core.findings import Finding, Problem
from tokfmt.core.reader import windows
from tokfmt.errors import OptionError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import WINDOW, Held, Integers, Numbers, Parts, Stored, kept, repeated
from tokfmt.runs.facts import ReadOptions, RunFacts

_MOST = 1 << 31  # samples of a blend that is built again
_STEPS = 1 << 22  # in which batches grow
_READS = 1 << 20  # samples of an answer


@dataclass(frozen=True, slots=True)
class RunSource:
    """A dataset that a run read."""

    name: str
    paths: tuple[Place, ...]
    format: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    weight: float | None = None
    eos_id: int | None = None  # ends its documents, if its files have no index of them


class Inputs(NamedTuple):
    """The input tokens of some samples, int64[n] each, in the order of the samples."""

    row: Numbers  # index of the sample among those asked for
    source: Numbers
    length: Numbers  # in tokens


class Pieces(NamedTuple):
    """The pieces of some samples, int64[n] each, in the order of the samples and of their columns."""

    row: Numbers  # index of the sample among those asked for
    source: Numbers
    start: Numbers  # on the stored axis of the source
    length: Numbers  # in tokens; 0 is an empty document

    def cut(self, most: int) -> Pieces:
        """Return pieces of which each row has at most so many tokens."""
        ends = np.cumsum(self.length)
        first = np.searchsorted(self.row, self.row)  # the first piece of each row
        before = ends - self.length - np.where(first > 0, ends[first - 1], 0)
        return self._replace(length=np.clip(most - before, 0, self.length))

    @staticmethod
    def joined(parts: Sequence[Pieces]) -> Pieces:
        """Join pieces, and sort them by row; those of one row keep their order."""
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        if not parts:
            columns = [np.empty(0, np.int64)] * 4
        order = np.argsort(columns[0], kind="stable")
        return Pieces(*(column[order] for column in columns))


def largest_error(weights: Sequence[float], size: int) -> tuple[Held, Held]:
    """Return the source of each sample of a blend, and its number there: the one that lags its weight most is next.

    Megatron, GPT-NeoX and Nanoset mix so.
    """
    if size > _MOST:
        raise OptionError(f"tokfmt builds blends of up to {_MOST:,} samples again (found {size:,})", name="samples")
    shares = np.array(weights, np.float64)
    which, numbers = kept(
        ("blend", *map(float, weights), size),
        size,
        ["which.u16", "numbers.u32"],
        lambda: _by_largest_error((shares / shares.sum()).tolist(), size),
        cost=(5e-7, 8),
    )
    return which, numbers


def _by_largest_error(shares: Sequence[float], size: int) -> Parts:
    taken, others = [0] * len(shares), range(1, len(shares))
    for first, last in windows(0, size, WINDOW):
        which, numbers = [0] * (last - first), [0] * (last - first)
        for i in range(first, last):
            at = max(float(i), 1.0)
            best, most = 0, shares[0] * at - taken[0]
            for k in others:
                if (error := shares[k] * at - taken[k]) > most:
                    best, most = k, error
            which[i - first], numbers[i - first] = best, taken[best]
            taken[best] += 1
        yield [np.array(which, np.uint16), np.array(numbers, np.uint32)]


def repeated_by(cycle: int, numbers: Numbers, first: int, last: int) -> Numbers:
    """Return the samples `first <= k < last`, ascending, that have one of these numbers in a loader that passes over
    `cycle` samples again and again.
    """
    check_passes(len(numbers), (last - first) // cycle + 2)
    passes = np.arange(first // cycle, -(-last // cycle) if len(numbers) else 0)
    positions: Numbers = (passes[:, None] * cycle + np.sort(numbers)).reshape(-1)
    return positions[(positions >= first) & (positions < last)]


def check_passes(count: int, passes: int) -> None:
    """Raise OptionError if a loader reads so many samples in so many passes that an answer would be too long."""
    if count * passes > _READS:
        raise OptionError(
            f"tokens of this sequence were read in more than {_READS:,} samples, in {passes:,} passes. State how many "
            "samples the run read: samples=N below [run], or --from-opt samples=N",
            name="samples",
        )


class Batches:
    """The number of samples of each step: constant, growing, or by a schedule."""

    def __init__(self, given: ReadOptions) -> None:
        # sample from which each size holds, and the size
        self._sizes: list[tuple[int, int]] = []
        if given.batch_schedule:
            self._sizes = [_threshold(entry) for entry in given.batch_schedule]
            if self._sizes[0][0] != 0 or any(b[0] <= a[0] for a, b in itertools.pairwise(self._sizes)):
                raise OptionError(
                    "batch_schedule does not begin with 0:BATCH, or does not rise. Write SAMPLES:BATCH in order",
                    name="batch_schedule",
                )
        elif given.rampup:
            self._sizes = _growing(given)
        elif given.batch_size is not None:
            self._sizes = [(0, given.batch_size)]
        self._firsts = [(0, 0)]  # the first step of each size, and its first sample
        for (begin, size), (after, _) in itertools.pairwise(self._sizes):
            step, sample = self._firsts[-1]
            steps = max(0, -(-(after - sample) // size)) if after > begin else 0
            self._firsts.append((step + steps, sample + steps * size))

    @property
    def is_known(self) -> bool:
        """True if the batch size is known."""
        return bool(self._sizes)

    def samples_of(self, step: int) -> tuple[int, int]:
        """Return the samples `first <= k < last` of a step."""
        self._check_known()
        place = max(k for k, (first, _) in enumerate(self._firsts) if first <= step)
        first, sample = self._firsts[place]
        begin = sample + (step - first) * self._sizes[place][1]
        return begin, begin + self._sizes[place][1]

    def step_of(self, sample: int) -> int:
        """Return the step that read a sample."""
        self._check_known()
        place = max(k for k, (_, first) in enumerate(self._firsts) if first <= sample)
        step, first = self._firsts[place]
        return step + (sample - first) // self._sizes[place][1]

    def _check_known(self) -> None:
        if not self._sizes:
            raise OptionError(
                "the batch size of this run is in none of its files (it is in the run's arguments). Add --from-opt "
                "batch_size=B",
                name="batch_size",
            )


def _threshold(entry: str) -> tuple[int, int]:
    from tokfmt.base.options import parse_count

    begin, sign, size = entry.partition(":")
    if not sign:
        raise OptionError(f"batch_schedule {entry!r} is not SAMPLES:BATCH", name="batch_schedule")
    if parse_count(size) < 1:
        raise OptionError(f"batch_schedule {entry!r} has a step without samples", name="batch_schedule")
    return parse_count(begin), parse_count(size)


def _growing(given: ReadOptions) -> list[tuple[int, int]]:
    """Return the sizes of Megatron's rampup_batch_size: START, INCREMENT and the SAMPLES after which it ends."""
    if given.batch_size is None or len(given.rampup) != 3 or not all(map(str.isdecimal, given.rampup)):
        raise OptionError("rampup is START,INCREMENT,SAMPLES, and needs batch_size", name="rampup")
    start, increment, ramp = map(int, given.rampup)
    sizes, consumed = list[tuple[int, int]](), 0
    if start >= given.batch_size or increment < 1 or ramp < 1 or start < 1:
        raise OptionError("rampup does not grow to batch_size", name="rampup")
    each = ramp / ((given.batch_size - start) / increment)
    steps = 0
    while consumed <= ramp:
        steps += 1
        if steps > _STEPS:
            raise OptionError(f"rampup grows for more than {_STEPS:,} steps", name="rampup")
        size = start + int(consumed / each) * increment
        if not sizes or sizes[-1][1] != size:
            sizes.append((consumed, size))
        consumed += size
    return [*sizes, (consumed, given.batch_size)]


def repeats(path: Place, order: Integers) -> Iterator[Finding]:
    """Yield the finding of an order that is not a permutation."""
    if (wrong := repeated(order)) is not None:
        yield Finding(
            "TF813",
            "error",
            str(path),
            f"the order is not a permutation: some of the entries {wrong[0]:,} to {wrong[1]:,} repeat others, or lead "
            "beyond its length, so that some samples were read twice or never",
        )


def unlike(path: Place, what: str) -> Finding:
    """Return the finding of an order that is not what the framework builds."""
    why = "the tokens or the sources were replaced, or other code made the files"
    return Finding("TF815", "warning", str(path), f"{what}: {why}. The answers follow the files")


class Order(ABC):
    """The order of a run. `samples` are those `first <= k < count`."""

    framework: str
    sources: tuple[RunSource, ...]
    datasets: tuple[Dataset, ...]  # of the sources, as they are stored
    seq_len: int  # input tokens of a sample
    extra: int = 1  # 1 if a sample has one token more, its last label
    first: int = 0  # number of the first sample that this stretch of the run read
    count: int  # number after the last
    batches: Batches
    files: tuple[Stored, ...] = ()  # order files, which are closed with the order
    is_one_pass: bool = False  # nothing states how long the stretch was: it is taken to end with its first epoch
    is_packed: bool = True  # samples are full, but for few: what is not padding need not be counted
    from_files: bool = False  # the order was read from files, and is not built again
    notes: tuple[str, ...] = ()
    facts: Mapping[str, object]

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        given = self.given = facts.given
        self.sources, self.datasets = tuple(read), tuple(datasets)
        self.pad_id, self.batches = given.pad_id or 0, Batches(given)  # `pad_id` fills short samples
        self.world_size, self.are_ranks_known = given.world_size or 1, given.world_size is not None

    def numbers(self, samples: Numbers) -> Numbers:
        """Return the numbers of samples in the dataset of the framework; -1 for what a rank did not read."""
        return samples

    @abstractmethod
    def pieces(self, samples: Numbers) -> Pieces:
        """Return the pieces of samples, in order. The lengths of a full sample sum to `seq_len + extra`."""

    def inputs(self, samples: Numbers) -> Inputs:
        """Return how many input tokens samples have of sources; a sample has at most `seq_len`."""
        pieces = self.pieces(samples).cut(self.seq_len)
        return Inputs(pieces.row, pieces.source, pieces.length)

    @abstractmethod
    def seen(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        """Return the samples, ascending, with some of the tokens `start <= p < stop` of a source, which are those of a
        sequence of it. Reads no token.
        """

    @abstractmethod
    def ranks(self, step: int) -> list[Numbers]:
        """Return the samples of each rank in a step, in the order in which it reads them."""

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:  # noqa: ARG002
        """Yield what a check finds: order files that are damaged, stale, or not what the framework writes."""
        return iter(())

    def keep(self, file: Stored) -> Stored:
        """Return an order file, which is closed with the order."""
        self.files = (*self.files, file)
        return file

    def close(self) -> None:
        """Close the order files."""
        for file in self.files:
            file.close()

    def in_micro_batches(self, step: int, micro: int) -> list[Numbers]:
        """Return the shares of ranks that take micro batches in turn."""
        first, last = self.batches.samples_of(step)
        whole = (last - first) // (micro * self.world_size) * micro * self.world_size
        taken = np.arange(first, first + whole).reshape(-1, self.world_size, micro)
        return [taken[:, rank].reshape(-1) for rank in range(self.world_size)]
