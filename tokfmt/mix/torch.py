"""Train from a recipe with PyTorch.

    from tokfmt.torch import Loader

    loader = Loader("mix.toml", batch_size=512, device="cuda")
    for batch in loader:
        loss = model(batch["input_ids"], batch["labels"])
        ...
        torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, "last.pt")

Batches are global: step s reads `batch_size` samples from sample `start + s * batch_size` on, and rank r of w takes the
r-th of w equal parts. The position of a loader is one integer, the number of samples handed out, and its state is the
same on every rank. So a run can continue with another number of ranks or another batch size, in the same order of
samples.

A recipe is also a map-style dataset, which `torch.utils.data.DataLoader`
takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

import tokfmt
from tokfmt.errors import LoaderWarning, OptionError, SourceChangedError, TokenRangeError
from tokfmt.mix.fields import check_fields
from tokfmt.mix.order import samples_of_step
from tokfmt.mix.samples import Samples
from tokfmt.mix.state import content_of, samples_in, state_of
from tokfmt.wording import printable

_IDS = ("input_ids", "labels")
_STALL = 10.0
"""Seconds until a warning reports the wait for a batch. It repeats each time the wait has doubled."""
_NAMED = 3  # Paths, or ranks, that a message lists.
_SHARE = 100  # Files are compared again after this many times the time that it took.
_COSTS = 4  # Last comparisons of files whose cost is known.
_FIXED = frozenset((
    "recipe", "batch_size", "rank", "world_size", "process_group", "fields", "dtype", "device", "pin_memory",
    "prefetch", "drop_last", "restart", "vocab_size",
))  # fmt: skip
_Batch = dict[str, torch.Tensor]


class Loader(IterableDataset[_Batch]):  # type: ignore[misc]
    """An iterable over the samples of a recipe in batches of tensors, with a state that you can save.

    Each `iter()` continues at the current sample and ends with the last whole batch of the recipe, so that all ranks
    end together. The recipe sets the number of passes over the data (`epochs`, `tokens`): after its end, another
    `iter()` yields no batch and warns. For evaluation, use `restart=True`, with which each `iter()` starts over, and
    `drop_last=False`, which keeps the last samples:

        evaluation = Loader("val.toml", batch_size=64, restart=True, drop_last=False)

    The first `iter()` compares the recipe, some of its data, the batch size and the state of all ranks: of the
    processes of `process_group`, or of all processes if there are as many as ranks. Call it on each of them, as any
    other collective operation.

    It is an `IterableDataset` too, for `DataLoader(loader, batch_size=None)`.

    Attributes:
        recipe: The Recipe that is read.
        batch_size: Samples per step, over all ranks.
        rank: Rank of this process. Batches are read ahead, so neither this nor another argument can change later.
        world_size: Number of ranks.
        process_group: The processes that are compared; None for all.
        samples_seen: Number of samples handed out to all ranks. Samples that are only read ahead do not count.
    """

    def __init__(
        self,
        recipe: str | os.PathLike[str] | tokfmt.Dataset,
        batch_size: int,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        process_group: torch.distributed.ProcessGroup | None = None,
        step: int = 0,
        fields: Sequence[str] | None = None,
        dtype: torch.dtype = torch.int64,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        prefetch: int = 2,
        drop_last: bool = True,
        restart: bool = False,
        vocab_size: int | None = None,
        storage_options: Mapping[str, str | bool] | None = None,
    ) -> None:
        """Open a recipe. Reads no token.

        Args:
            recipe: Path of a recipe, or the result of `tokfmt.open` or `tokfmt.recipe`.
            batch_size: Samples per step, over all ranks. It must be a multiple of `world_size`.
            rank: Rank of this process (default: that in `process_group` or in `torch.distributed`, else 0).
            world_size: Number of ranks (default: that of `process_group` or of `torch.distributed`, else 1).
            process_group: The processes that iterate this loader, of which several may have one rank: with tensor,
                pipeline or context parallelism, give it with `rank` and `world_size` (default: all processes, if there
                are `world_size` of them).
            step: Number of the first step. The loader starts at sample `step * batch_size`.
            fields: Names of fields: input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens (default:
                those of the recipe, which are input_ids and labels unless `with_fields` changed them).
            dtype: Dtype of `input_ids` and `labels`. The other fields keep the dtype that the recipe gives.
            device: Device of the tensors (default: the CPU).
            pin_memory: Copy tensors to the device through page-locked memory, in parallel to training. Has no effect
                without an accelerator.
            prefetch: Number of batches to read ahead, each in a thread. With 0, a batch is read when you ask for it.
            drop_last: Drop the samples after the last whole batch. If False, they form a smaller batch, dealt to the
                ranks as evenly as possible: a rank gets one sample less than another, or none (0 rows).
            restart: Start over at `step` with each `iter()`, except for the first `iter()` after `load_state_dict`.
            vocab_size: Number of IDs that the model has. A batch with an ID beyond them is an error.
            storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They
                hold for this process and its workers, until others are given.

        Raises:
            OptionError: If `recipe` is not a recipe of samples; if a batch cannot be divided among the ranks, or is
                larger than the recipe; if `step` is beyond the end; if there is no such field; or if there are several
                ranks and the rank is unknown.
            TokfmtError: If the recipe cannot be opened.
        """
        if isinstance(recipe, (str, os.PathLike)):
            recipe = tokfmt.open(recipe, storage_options=storage_options)
        if not isinstance(recipe, tokfmt.Dataset) or not isinstance(recipe.reader, Samples):
            raise OptionError(f"{recipe!r} is not a recipe of samples. Make one with tokfmt.recipe(..., seq_len=N)")
        self.recipe = cast("Any", recipe)
        self.rank, self.world_size = _ranks(rank, world_size, process_group)
        self.process_group, self.vocab_size = process_group, vocab_size
        self.batch_size, self.dtype = batch_size, dtype
        self.fields = self.recipe.fields if fields is None else check_fields(fields)
        self.device, self.prefetch = device, prefetch
        self.pin_memory = pin_memory and torch.accelerator.is_available()
        self.drop_last, self.restart = drop_last, restart
        try:
            samples_of_step(step, batch_size, self.rank, self.world_size)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if drop_last and batch_size > len(recipe):
            raise OptionError(
                f"{recipe!r}: has fewer samples than one batch of {batch_size:,}. Use a smaller batch_size, or "
                "drop_last=False"
            )
        self._start = self._samples = step * batch_size
        if self._start > len(recipe):
            raise OptionError(
                f"{self._where}: step {step:,} of batches of {batch_size:,} is beyond the end (expected at most "
                f"{len(recipe) // batch_size:,}, as there are {len(recipe):,} samples)"
            )
        self._compared = self._loaded = False
        self._read_as = _read_as(dtype, device)
        self._unchanged_until, self._costs = 0.0, deque[float]((), _COSTS)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "samples_seen":
            raise AttributeError(
                "a loader's samples_seen is set by load_state_dict({**loader.state_dict(), 'samples': N})"
            )
        if name in _FIXED and name in vars(self):
            raise AttributeError(
                f"a loader's {name} cannot change, as batches are read ahead. Make another: "
                f"new = Loader(loader.recipe, ...); new.load_state_dict(loader.state_dict())"
            )
        super().__setattr__(name, value)

    @property
    def samples_seen(self) -> int:
        """Number of samples of the recipe handed out, to all ranks together."""
        return self._samples

    @property
    def _view(self) -> Samples:
        return cast("Samples", self.recipe.reader)

    @property
    def _where(self) -> str:
        return printable(self.recipe.file.where)

    def __len__(self) -> int:
        """Return the number of batches left. With `restart`, return the number of batches of the next `iter()`."""
        left = len(self.recipe) - (self._start if self.restart and not self._loaded else self._samples)
        return left // self.batch_size if self.drop_last else -(-left // self.batch_size)

    def __iter__(self) -> Iterator[_Batch]:
        """Return an iterator over the batches from the current sample on.

        Raises:
            OptionError: If the loader is iterated by one of several workers of a DataLoader, or the ranks differ.
        """
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise OptionError(
                f"{self._where}: {worker.num_workers} workers of a DataLoader iterate a Loader (expected 1 process), "
                "and each would read every batch. Iterate the Loader itself, which reads ahead by threads; or give the "
                "DataLoader the recipe: DataLoader(loader.recipe, batch_size=N, num_workers=W, sampler=range(...))"
            )
        if self.restart and not self._loaded:
            self._samples = self._start
        self._loaded = False
        if worker is None and not self._compared:
            self._compare()
            self._compared = True
        if not self._size(self._samples):
            warnings.warn(
                f"{self._where}: {self._samples:,} of {len(self.recipe):,} samples were handed out, and this loop has "
                "no batch. The recipe sets the number of passes (epochs, tokens). To start over, use "
                "Loader(..., restart=True)",
                LoaderWarning,
                stacklevel=2,
            )
        return self._batches()

    def _size(self, start: int) -> int:
        """Return the number of samples in the batch that begins at sample `start`; 0 if there is no such batch."""
        left = len(self.recipe) - start
        return min(self.batch_size, left) if left >= self.batch_size or not self.drop_last else 0

    def _batches(self) -> Iterator[_Batch]:
        finalizing = sys.is_finalizing  # At exit, Python clears modules before the remaining iterators.
        ahead: deque[tuple[int, Future[_Batch]]] = deque()
        pool = ThreadPoolExecutor(max(1, self.prefetch), "tokfmt-loader")
        try:
            while True:
                at = self._samples
                if ahead and ahead[0][0] != at:  # Another state was loaded: the batches read ahead are the wrong ones.
                    for _, batch in ahead:
                        batch.cancel()
                    ahead.clear()
                following = at + len(ahead) * self.batch_size
                while len(ahead) <= self.prefetch and self._size(following):
                    ahead.append((following, pool.submit(self._read, following)))
                    following += self.batch_size
                if not ahead:
                    self._unchanged_until = 0.0
                    self._compare_files()
                    return
                tensors = self._awaited(*ahead[0])
                ahead.popleft()
                self._samples = at + self._size(at)
                yield {name: self._placed(name, tensor) for name, tensor in tensors.items()}
        finally:
            if not finalizing():
                pool.shutdown(wait=False, cancel_futures=True)

    def _awaited(self, start: int, batch: Future[_Batch]) -> _Batch:
        """Return a batch when it is read. Warn about a long wait."""
        pause = seconds = _STALL
        while True:
            try:
                return batch.result(pause)
            except NotYet:
                if batch.done():  # The read itself raised TimeoutError, or it has ended by now.
                    return batch.result()
            taken = self._part(start)
            warnings.warn(
                f"{self._where}: samples {taken.start:,} to {taken.stop - 1:,} were not read within {seconds:,.0f} "
                f"seconds, from {self._paths(taken)}; still waiting. Check the storage that holds them",
                LoaderWarning,
                stacklevel=3,
            )
            pause, seconds = seconds, 2 * seconds

    def _paths(self, samples: Sequence[int]) -> str:
        """List the paths of the sources of samples, without a read."""
        sources = {span.source for sample in samples for span in self.recipe.spans(sample)}
        paths = [path for source in sorted(sources) for path in self.recipe.sources[source].paths]
        more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
        return ", ".join(map(printable, paths[:_NAMED])) + more

    def _part(self, start: int) -> range:
        """Return this rank's samples of the batch that begins at sample `start`."""
        size = self._size(start)
        return range(start + size * self.rank // self.world_size, start + size * (self.rank + 1) // self.world_size)

    def _read(self, start: int) -> _Batch:
        arrays = self.recipe.samples(self._part(start), self.fields, self._read_as)
        self._compare_files()
        if self.vocab_size is not None:
            self._check_ids(self.vocab_size, start, arrays)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {name: tensor.pin_memory() for name, tensor in tensors.items()} if self.pin_memory else tensors

    def _check_ids(self, size: int, start: int, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Check the IDs and labels of a batch.

        Raises:
            TokenRangeError: If one is beyond the vocabulary of the model.
        """
        for name in arrays.keys() & set(_IDS):
            if arrays[name].size and int(arrays[name].max()) >= size:
                row, column = np.argwhere(arrays[name] >= size)[0].tolist()
                token, sample = int(arrays[name][row, column]), self._part(start)[row]
                remedy = f"It is in {name} of sample {sample:,}, and vocab_size is {size:,}"
                raise TokenRangeError(self._where, token, size - 1, column, remedy)

    def _compare_files(self) -> None:
        """Compare the sizes, times and inodes of the local files of all sources with those when they were opened.

        It takes at most about 1 % of the time. Each request to a store states the version of the object.

        Raises:
            SourceChangedError: If a file was changed or replaced. A file that was removed is still read.
        """
        begun = time.monotonic()
        if begun < self._unchanged_until and len(self._costs) == _COSTS:
            return
        for source in self.recipe.sources:
            for file, identity in source.seen.items():
                try:
                    changed = file.is_local and file.status_now().identity != identity
                except OSError:
                    continue
                if changed:
                    raise SourceChangedError.while_read(file)
        now = time.monotonic()
        self._costs.append(now - begun)
        self._unchanged_until = now + _SHARE * min(self._costs)  # A busy machine makes one of them long.

    def _placed(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor if self.device is None else tensor.to(self.device, non_blocking=self.pin_memory)
        return moved.to(self.dtype) if name in _IDS else moved

    def _compare(self) -> None:
        """Compare the recipe, the options and the state of this rank with those of the other ranks.

        Raises:
            OptionError: If they differ. The message lists the fact and the ranks.
        """
        self._view.copy_slow_sources()
        content = json.dumps(content_of(self._view))  # read before a checkpoint needs it
        distributed, group = torch.distributed, self.process_group
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        processes = distributed.get_world_size(group)
        if group is None and self.world_size != processes:  # Some processes may not read at all.
            if self.world_size > 1:
                warnings.warn(
                    f"{self._where}: there are {processes:,} processes and {self.world_size:,} ranks, so it is not "
                    "compared whether the ranks read the same. Give the processes that iterate this loader: "
                    "Loader(..., process_group=torch.distributed.group.WORLD) for all",
                    LoaderWarning,
                    stacklevel=3,
                )
            return
        if processes == 1:
            return
        mine = {
            "fingerprint": self.recipe.fingerprint,
            "content of samples": hashlib.sha256(content.encode()).hexdigest()[:16],
            "count of samples": len(self.recipe),
            "batch_size": self.batch_size,
            "position in samples": self._samples,
            "drop_last": self.drop_last,
            "world_size": self.world_size,
            "rank": self.rank,
        }
        every: list[dict[str, Any]] = [{}] * processes
        distributed.all_gather_object(every, mine, group=group)
        _check_alike(self._where, every)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, which is equal on all ranks.

        Returns:
            "samples": the number of samples handed out. "fingerprint": that of the recipe. "facts", "checksums" and
            "content": what `load_state_dict` compares besides, and lists in an error.
        """
        return state_of(self._view, self._samples)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state at the next batch, in running iterators too.

        The batch size and the world size may differ from those of the saved loader. Up to 16 samples are read, and
        compared with those of the saved loader.

        Args:
            state: A result of `state_dict`.

        Raises:
            SourceChangedError: If the state belongs to another recipe, or to other data. The error lists the facts that
                differ.
            OptionError: If it is not a state of a Loader, or is beyond the end of the recipe.
        """
        self._samples, self._loaded = samples_in(state, self._view), True


def _read_as(dtype: torch.dtype, device: torch.device | str | None) -> type[np.int32] | type[np.int64]:
    """Return the dtype in which token IDs are read.

    IDs for another device are copied as int32, which halves the copy, and converted to int64 there.
    """
    stays = device is None or torch.device(device).type == "cpu"
    return np.int64 if stays and dtype == torch.int64 else np.int32


def _check_alike(where: str, every: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error unless all processes, whose facts `every` has, read parts of the same batches."""
    for fact in every[0]:
        processes: dict[Any, list[int]] = {}
        for process, facts in enumerate(every):
            processes.setdefault(facts[fact], []).append(process)
        if fact == "rank":
            _check_ranks(where, every[0]["world_size"], processes, len(every))
        elif len(processes) > 1:
            values = "; ".join(f"{value} on rank {_listed(those)}" for value, those in processes.items())
            raise OptionError(
                f"{where}: ranks do not read the same (expected one {fact}, found {values}). Give each rank the same "
                "recipe and data, batch size and state"
            )


def _check_ranks(where: str, ranks: int, processes: Mapping[int, Sequence[int]], count: int) -> None:
    """Raise an error unless equally many of `count` processes read the part of each rank."""
    each, rest = divmod(count, ranks)
    if rest:
        raise OptionError(f"{where}: {count:,} processes cannot read the parts of {ranks:,} ranks equally often")
    for rank in range(ranks):
        several = processes.get(rank, ())
        if len(several) != each:
            readers = f"processes {_listed(several)} read" if several else "no process reads"
            expected = "a rank for each process" if each == 1 else f"{each:,} processes for each rank"
            raise OptionError(
                f"{where}: {readers} the part of rank {rank} (expected {expected}). Leave out rank and world_size, or "
                "give each process its own rank"
            )


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as text: "0", "1, 2", "1, 2, 3 and 60 more"."""
    more = f" and {len(ranks) - _NAMED:,} more" if len(ranks) > _NAMED else ""
    return ", ".join(map(str, ranks[:_NAMED])) + more


def _ranks(rank: int | None, world_size: int | None, group: torch.distributed.ProcessGroup | None) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks.

    Those given, else those in `group`, else those of torch.distributed, else 0 and 1.
    """
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise OptionError(
            "rank and world_size belong together: give both, or neither to take those of torch.distributed"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    started = os.environ.get("WORLD_SIZE", "1")
    if started not in ("", "1"):
        raise OptionError(
            f"WORLD_SIZE is {started}, and torch.distributed is not initialized: every process would read all of each "
            "batch. Call torch.distributed.init_process_group() first, or give rank and world_size"
        )
    return 0, 1
