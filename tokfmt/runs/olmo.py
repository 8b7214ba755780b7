"""Runs of OLMo 1: raw token files, the order of the last epoch, and a record of what each rank read.

    train_data/global_indices.npy     uint32 without a header: the instances of an epoch, overwritten at each one
    data-indices/rankR.tsv.gz         lines of STEP, then the instances that rank R read in it; steps count from 1

    instance    sequence_length tokens of one file, without overlap; what is left of a file is not read
    epoch       from 0: PCG64(seed + epoch) shuffles the instances; then each rank has as many: with drop_last the end
                is left out, else the first ones follow again
    step        the next ones of the epoch; rank r takes every world_size-th from the r-th on

Source: ai2-olmo 0.6.0 ran; the record was read in its code.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import CorruptError, FormatError, OptionError, UnsafeError
from tokfmt.files.file import names_in, open_file
from tokfmt.files.place import Place
from tokfmt.formats.olmo import members
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, Stored, are_equal, stored_raw
from tokfmt.runs.epochs import Entries, EpochOrder, shuffled, stated
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.instances import Slices
from tokfmt.runs.order import Batches, RunSource
from tokfmt.wording import printable

_CONFIG = "config.yaml of the run"
_RANK = re.compile(r"rank(\d{1,6})\.tsv\.gz")
_MOST = 1 << 26  # instances of a record
_LIST = 32  # instances that take as much memory as a line without one
_LINE = 1 << 20  # bytes of a line of it


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the token files of the run."""
    return token_files(
        facts, named_alone(stated(facts, "paths", facts.given.paths, f"{_CONFIG} (data.paths)")), _CONFIG
    )


def named_alone(paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return each path, once, as a source of its own, with a short name if that is unique."""
    paths = list(dict.fromkeys(paths))
    names = [posixpath.basename(path).removesuffix(".npy") for path in paths]
    if len(set(names)) < len(names):
        names = [path.removesuffix(".npy") for path in paths]
    return {name: (path,) for name, path in zip(names, paths, strict=True)}


def token_files(facts: RunFacts, named: Mapping[str, Sequence[str]], there: str) -> list[RunSource]:
    """Return raw token files as sources; `there` is the configuration that has their type."""
    dtype = stated(facts, "dtype", facts.given.dtype, f"{there} (the type of the token files, for example uint16)")
    how = {"width": np.dtype(dtype).itemsize}
    return [
        RunSource(name, tuple(map(facts.named, paths)), "olmo", how, eos_id=facts.given.eos_token_id)
        for name, paths in named.items()
    ]


def tokens_of(source: RunSource, dataset: Dataset) -> Numbers:
    """Return the number of tokens of each file of a source, all of which are on its axis."""
    counts = np.array([path.status().size for path in source.paths], np.int64) // dataset.axis.dtype.itemsize
    if int(counts.sum()) != dataset.axis.length:
        raise CorruptError(
            source.paths[0],
            "has tokens that no row of its .csv.gz covers, which the run read",
            expected=f"{int(counts.sum()):,} tokens",
            found=f"{dataset.axis.length:,}",
            remedy="Move the .csv.gz away, and state eos_token_id",
        )
    return counts


def slices_of(
    facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset], width: int, chunk: int = 1
) -> Slices:
    """Return the instances of the files of a run, each of which has whole chunks of them."""
    position = {source.paths[0]: k for k, source in enumerate(read)}
    tokens = [tokens_of(source, dataset) for source, dataset in zip(read, datasets, strict=True)]
    files = [position[facts.named(path)] for path in facts.given.paths]
    return Slices([(k, np.zeros(1, np.int64), tokens[k] // (width * chunk) * chunk) for k in files], width)


def undivided(read: Sequence[RunSource], datasets: Sequence[Dataset]) -> tuple[str, ...]:
    """Return a note if nothing shows where the documents of token files end."""
    if any(one.eos_id is None and dataset.spans.count == 1 for one, dataset in zip(read, datasets, strict=True)):
        return ("eos_token_id is not stated: a token file without a .csv.gz is one document",)
    return ()


class OlmoOrder(EpochOrder):
    """The order of a training run."""

    framework = "olmo"
    is_contiguous = False

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        super().__init__(facts, read, datasets)
        given = facts.given
        self.seq_len = stated(facts, "sequence_length", given.sequence_length, f"{_CONFIG} (model.max_sequence_length)")
        self.data = slices_of(facts, read, datasets, self.seq_len)
        if not self.data.count:
            raise OptionError(
                f"{printable(facts.where)}: no file has {self.seq_len:,} tokens. State sequence_length of the run",
                name="sequence_length",
            )
        self.facts = {"instances": self.data.count}
        self.file: Stored | None = None
        self.notes = undivided(read, datasets)
        self.table: NDArray[np.int32] | None = None
        if record := _record(facts.cache, self.data.count):
            self._of_record(record)
        else:
            self._of_epochs(facts)

    def _of_record(self, record: _Record) -> None:
        steps, each, self.world_size = record.table.shape
        batch, self.are_ranks_known = each * self.world_size, True
        if self.given.batch_size not in (None, batch):
            raise OptionError(
                f"the record of the ranks has steps of {batch:,} samples. Leave out batch_size", name="batch_size"
            )
        self.batches = Batches(replace(self.given, batch_size=batch, batch_schedule=(), rampup=()))
        self.notes, self.from_files = (*self.notes, *record.notes), True
        self.epoch_of_start, self.head, self.per = 0, steps * batch, steps * batch
        self.first, self.count = record.first * batch, (record.first + steps) * batch
        self.table = record.table.reshape(-1)

    def _of_epochs(self, facts: RunFacts) -> None:
        given, count, world = facts.given, self.data.count, self.world_size
        batch = self.together(facts, f"{_CONFIG} (global_train_batch_size)")
        drop_last = stated(facts, "drop_last", given.drop_last, f"{_CONFIG} (data.drop_last)")
        if count < world:
            raise OptionError(
                f"{printable(facts.where)}: the files have {count:,} instances, fewer than world_size ({world:,}). "
                "State the ranks and the paths of the run",
                name="world_size",
            )
        self.seed = given.seed
        self.whole = (count if drop_last else count + world - 1) // world * world
        for place in (facts.cache / "global_indices.npy", facts.cache / "train_data" / "global_indices.npy"):
            if self.file is None and place.is_file():
                self.file = self.keep(stored_raw(place, "<u4", below=count))
        if self.file is None:
            stated(facts, "seed", self.seed, f"{_CONFIG} (data.seed, or seed)")
        elif self.seed is None:
            self._fits(self.file)
            self.from_files = True
            self.notes += ("the order file holds the last epoch that the run began; seed=N builds the others again",)
        more = 0 if drop_last else batch - 1

        def rest(_: int, skipped: int) -> int:
            return (self.whole - skipped + more) // batch * batch

        self.start(0, rest(0, 0), rest, from_start=True)

    def _fits(self, file: Stored) -> None:
        if len(file) != self.whole:
            raise CorruptError(
                file.file.path,
                "has another number of instances than the token files",
                expected=f"{self.whole:,} ({self.data.count:,} for {self.world_size:,} ranks)",
                found=f"{len(file):,}",
                remedy="State paths, sequence_length, world_size and drop_last as of that run",
            )

    def entries(self, epoch: int) -> Integers:
        if self.table is not None:
            return Held(self.table)
        is_first = epoch == self.epoch_of_start
        skipped, size = (self.skipped, self.head) if is_first else (0, self.per)
        if self.seed is not None:
            return Entries(shuffled(self.data.count, self.seed + epoch), skipped, self.whole, size)
        if self.file is None or not is_first:
            raise OptionError(
                f"the order file holds one epoch. Add seed, which {_CONFIG} has (data.seed, or seed)", name="seed"
            )
        return Entries(self.file, skipped, self.whole, size)

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        if self.file is None:
            return
        self._fits(self.file)
        epochs = range(self.epoch_of_start + 1)
        if deep and self.seed is not None and not any(self._is_of(self.file, epoch) for epoch in epochs):
            yield Finding(
                "TF815",
                "warning",
                str(self.file.file.path),
                f"the order is of none of the epochs 0 to {epochs[-1]:,} by the seed {self.seed:,}, which answers",
            )

    def _is_of(self, file: Stored, epoch: int) -> bool:
        order = Entries(shuffled(self.data.count, (self.seed or 0) + epoch), 0, self.whole, self.whole)
        return are_equal(order, file)


order = OlmoOrder


class _Record(NamedTuple):
    """What each rank read by its own record."""

    first: int  # step, from 0
    table: NDArray[np.int32]  # [steps, places, ranks] of instances, -1 where a rank read none
    notes: tuple[str, ...]


def _record(cache: Place, count: int) -> _Record | None:
    """Read the record of the ranks; None without one. `count` is the number of instances."""
    for there in (cache / "data-indices", cache):
        found = map(_RANK.fullmatch, names_in(there)) if there.is_dir() else ()
        if numbers := sorted(int(match[1]) for match in found if match):
            break
    else:
        return None
    if numbers != list(range(len(numbers))):
        raise FormatError(there, "lacks the record of a rank", expected=f"rank0 to rank{len(numbers) - 1}")
    lines: list[list[array[int]]] = []
    room = _MOST
    for rank in numbers:
        lines.append(_lines(there / f"rank{rank}.tsv.gz", count, room))
        room -= sum(len(line) + _LIST for line in lines[-1])
    steps, first = min(map(len, lines)), lines[0][0][0] if lines[0] else 1
    each = max((len(line) - 1 for rank in lines for line in rank), default=0)
    if not steps or not each or steps * each * len(lines) > _MOST:
        raise FormatError(there, "has no step that all ranks recorded, or steps of very unequal sizes")
    table = np.full((steps, each, len(lines)), -1, np.int32)
    for rank, some in enumerate(lines):
        for step, line in enumerate(some[:steps]):
            if line[0] != first + step:
                raise CorruptError(
                    there / f"rank{rank}.tsv.gz",
                    f"line {step + 1:,} is of another step than those before it and other ranks",
                    expected=first + step,
                    found=line[0],
                    remedy="A restart began the record anew: keep the lines of one stretch",
                )
            table[step, : len(line) - 1, rank] = line[1:]
    short = [f"rank{rank}" for rank, some in enumerate(lines) if len(some) > steps]
    notes = (f"the record ends after step {first - 1 + steps - 1:,}, though {short[0]} has more",) if short else ()
    return _Record(first - 1, table, notes)


def _lines(path: Place, count: int, room: int) -> list[array[int]]:
    """Return the lines of the record of a rank: a step, from 1, and its instances. A line that is cut is left out."""
    file, tail = open_file(path), b""
    lines: list[array[int]] = []
    try:
        with suppress(EOFError):  # the run was killed
            for piece in members(file):
                *whole, tail = (tail + piece).split(b"\n")
                lines += [_line(line, count) for line in whole]
                room -= sum(len(line) + _LIST for line in lines[-len(whole) :] if whole)
                if len(tail) > _LINE or room < 0:
                    raise UnsafeError(path, "has more steps, or longer ones, than tokfmt reads", expected=f"{_MOST:,}")
    except (ValueError, OverflowError, zlib.error) as error:
        what = f"a line after line {len(lines):,} is not a step and instances below {count:,}"
        raise CorruptError(path, what, remedy="Copy it again, or name the folder train_data") from error
    finally:
        file.close()
    return lines


def _line(line: bytes, count: int) -> array[int]:
    numbers = array("i", map(int, line.split(b"\t")))
    if numbers[0] < 1 or (len(numbers) > 1 and not 0 <= min(numbers[1:]) <= max(numbers[1:]) < count):
        raise ValueError(line)
    return numbers
