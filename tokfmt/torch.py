"""Train from a recipe, in PyTorch.

    from tokfmt.torch import Loader

    loader = Loader("mix.toml", batch_size=512, device="cuda")
    for batch in loader:
        loss = model(batch["input_ids"], batch["labels"])
        ...
        torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, "last.pt")

Batches are global: step s is samples `start + s * batch_size` and on, of which rank r of w takes the r-th part. Where a
run stands is one integer, the samples handed out, and it is the same on every rank; so it goes on from there with
another number of ranks or another batch size, and the sequence of samples is the one it would have been.

Nothing else of tokfmt imports torch. A recipe is a map-style dataset besides, and goes into
`torch.utils.data.DataLoader` as it is.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

import tokfmt
from tokfmt.core.errors import LoaderWarning, OptionError, SourceChangedError
from tokfmt.core.text_format import printable
from tokfmt.dataset import Dataset
from tokfmt.recipe_dataset import Recipe
from tokfmt.recipes.fields import check_fields
from tokfmt.recipes.order import numbers

__all__ = ["Loader", "LoaderWarning"]

_IDS = ("input_ids", "labels")
_STALL = 10.0
"""Seconds that a batch may take before its wait is reported; reported again each time that the wait has doubled."""
_NAMED = 3  # paths in a report
_FIXED = frozenset((
    "recipe", "batch_size", "rank", "world_size", "fields", "dtype", "device", "pin_memory", "prefetch", "drop_last",
    "restart",
))  # fmt: skip
_Batch = dict[str, torch.Tensor]


class Loader:
    """The samples of a recipe in order, in batches of tensors; it can be saved, and goes on from where it was.

    Each `iter()` goes on from where the loader stands, to the last whole batch of the recipe: all ranks end together.
    Passes over the data are the recipe's (`epochs`, `tokens`), so that another `iter()` at the end gives nothing, and
    warns. For evaluation, `restart=True` has each `iter()` start over, and `drop_last=False` keeps the last samples:

        evaluation = Loader("val.toml", batch_size=64, restart=True, drop_last=False)

    Where `torch.distributed` has as many ranks as the loader, the first `iter()` compares recipe, batch size and state
    over all of them: each rank has to call it, as it has to take part in every other collective operation.

    Attributes:
        recipe: What is read.
        batch_size, rank, world_size: As given. Batches are read ahead, so no argument changes later.
        samples_seen: Samples of the recipe handed out, to all ranks together. Those only read ahead do not count.
    """

    def __init__(
        self,
        recipe: str | os.PathLike[str] | Dataset,
        batch_size: int,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        step: int = 0,
        fields: Sequence[str] | None = None,
        dtype: torch.dtype = torch.int64,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        prefetch: int = 2,
        drop_last: bool = True,
        restart: bool = False,
    ) -> None:
        """Open a recipe; reads no token yet.

        Args:
            recipe: Its path, or what `tokfmt.open` or `tokfmt.recipe` gave.
            batch_size: Samples of a step, over all ranks; a multiple of `world_size`.
            rank, world_size: Which part of each batch, of how many (default: as `torch.distributed` has them, else 0
                of 1).
            step: Begin with this step: after `step * batch_size` samples.
            fields: Of a sample: input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens; by default those
                of the recipe, which are input_ids and labels unless `with_fields` gave it others.
            dtype: Of `input_ids` and `labels`; the others stay as the recipe has them.
            device: Where tensors go.
            pin_memory: Copy them there through page-locked memory, while training goes on; on processors it is nothing.
            prefetch: Batches read ahead, each by a thread; 0: none, they are read when they are asked for.
            drop_last: Leave out the samples after the last whole batch. If False, they are a batch of fewer samples,
                dealt as evenly as they can be: a rank may get one sample less than another, or none (0 rows).
            restart: Start over at `step` with each `iter()`, but for the first after a state was loaded.

        Raises:
            OptionError: No recipe of samples; a batch that cannot be dealt to so many ranks, or is larger than the
                recipe; a step beyond its end; no such field; nothing says which rank this is, and there are several.
            TokfmtError: The recipe cannot be opened.
        """
        found = tokfmt.open(recipe) if isinstance(recipe, (str, os.PathLike)) else recipe
        if not isinstance(found, Recipe):
            raise OptionError(f"{found!r} is no recipe of samples: tokfmt.recipe(..., seq_len=N) makes one of it")
        self.recipe = found
        self.rank, self.world_size = _ranks(rank, world_size)
        self.batch_size, self.dtype = batch_size, dtype
        self.fields = found.fields if fields is None else check_fields(fields)
        self.device, self.prefetch = device, prefetch
        self.pin_memory = pin_memory and torch.accelerator.is_available()
        self.drop_last, self.restart = drop_last, restart
        try:
            numbers(step, batch_size, self.rank, self.world_size)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if drop_last and batch_size > len(found):
            raise OptionError(f"{found!r}: has fewer samples than one batch of {batch_size:,}, so there would be none")
        self._start = self._samples = step * batch_size
        if self._start > len(found):
            raise OptionError(
                f"{self._where}: step {step:,} of batches of {batch_size:,} is beyond the end (expected at most "
                f"{len(found) // batch_size:,}, as there are {len(found):,} samples)"
            )
        self._compared = self._loaded = False
        self._read_as = _read_as(dtype, device)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "samples":
            raise AttributeError("a loader's samples are set by load_state_dict({**loader.state_dict(), 'samples': N})")
        if name in _FIXED and name in vars(self):
            raise AttributeError(
                f"a loader's {name} cannot change, as batches are read ahead. Make another: "
                f"new = Loader(loader.recipe, ...); new.load_state_dict(loader.state_dict())"
            )
        super().__setattr__(name, value)

    @property
    def samples_seen(self) -> int:
        """Samples of the recipe handed out, to all ranks together."""
        return self._samples

    @property
    def _where(self) -> str:
        return printable(self.recipe.file.where)

    def __len__(self) -> int:
        """Batches that are left; where each `iter()` starts over, those of all it gives."""
        left = len(self.recipe) - (self._start if self.restart and not self._loaded else self._samples)
        return left // self.batch_size if self.drop_last else -(-left // self.batch_size)

    def __iter__(self) -> Iterator[_Batch]:
        """Batches from where the loader stands.

        Raises:
            OptionError: It is one of several workers of a DataLoader; or ranks do not read the same.
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
                "no batch. Passes are the recipe's (epochs, tokens); Loader(..., restart=True) starts over",
                LoaderWarning, stacklevel=2,
            )  # fmt: skip
        return self._batches()

    def _size(self, start: int) -> int:
        """Samples of the batch that begins with a sample; 0 where there is none."""
        left = len(self.recipe) - start
        return min(self.batch_size, left) if left >= self.batch_size or not self.drop_last else 0

    def _batches(self) -> Iterator[_Batch]:
        finalizing = sys.is_finalizing  # at exit, modules are emptied before the iterators that are left
        ahead: deque[tuple[int, Future[_Batch]]] = deque()
        pool = ThreadPoolExecutor(max(1, self.prefetch), "tokfmt-loader")
        try:
            while True:
                at = self._samples
                if ahead and ahead[0][0] != at:  # another state was loaded: what was read is of elsewhere
                    for _, batch in ahead:
                        batch.cancel()
                    ahead.clear()
                following = at + len(ahead) * self.batch_size
                while len(ahead) <= self.prefetch and self._size(following):
                    ahead.append((following, pool.submit(self._read, following)))
                    following += self.batch_size
                if not ahead:
                    return
                tensors = self._awaited(*ahead[0])
                ahead.popleft()
                self._samples = at + self._size(at)
                yield {name: self._placed(name, tensor) for name, tensor in tensors.items()}
        finally:
            if not finalizing():
                pool.shutdown(wait=False, cancel_futures=True)

    def _awaited(self, start: int, batch: Future[_Batch]) -> _Batch:
        """A batch when it is read; a wait that is long is reported."""
        pause = seconds = _STALL
        while True:
            try:
                return batch.result(pause)
            except NotYet:
                if batch.done():  # it is the read that has raised this, or it has ended by now
                    return batch.result()
            taken = self._part(start)
            warnings.warn(
                f"{self._where}: samples {taken.start:,} to {taken.stop - 1:,} were not read within {seconds:,.0f} "
                f"seconds, from {self._paths(taken)}; still waiting. Check the storage that holds them",
                LoaderWarning, stacklevel=3,
            )  # fmt: skip
            pause, seconds = seconds, 2 * seconds

    def _paths(self, samples: Sequence[int]) -> str:
        """Of the sources that samples are of, found without a read."""
        sources = {span.source for sample in samples for span in self.recipe.spans(sample)}
        paths = [path for source in sorted(sources) for path in self.recipe.sources[source].paths]
        more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
        return ", ".join(map(printable, paths[:_NAMED])) + more

    def _part(self, start: int) -> range:
        """This rank's samples of the batch that begins with a sample."""
        size = self._size(start)
        return range(start + size * self.rank // self.world_size, start + size * (self.rank + 1) // self.world_size)

    def _read(self, start: int) -> _Batch:
        arrays = self.recipe.samples(self._part(start), self.fields, self._read_as)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {name: tensor.pin_memory() for name, tensor in tensors.items()} if self.pin_memory else tensors

    def _placed(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor if self.device is None else tensor.to(self.device, non_blocking=self.pin_memory)
        return moved.to(self.dtype) if name in _IDS else moved

    def _compare(self) -> None:
        """Compare with the other ranks what is read, and from where on.

        Raises:
            OptionError: They differ; names what, and which ranks.
        """
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return
        if self.world_size == 1 or self.world_size != distributed.get_world_size():
            return  # the ranks of this loader are not those of the process group: some of them may not read at all
        mine = {
            "fingerprint": self.recipe.fingerprint, "count of samples": len(self.recipe),
            "batch_size": self.batch_size, "position in samples": self._samples, "drop_last": self.drop_last,
            "rank": self.rank,
        }  # fmt: skip
        every: list[dict[str, Any]] = [{}] * self.world_size
        distributed.all_gather_object(every, mine)
        _check_alike(self._where, every)

    def state_dict(self) -> dict[str, int | str]:
        """Where it stands; the same on every rank. Read ahead does not count."""
        return {"samples": self._samples, "fingerprint": self.recipe.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state at the next batch, also in a running iterator, with any batch size and world size.

        Raises:
            SourceChangedError: It is a state of another recipe, or of other data.
            OptionError: It is no state of a Loader, or lies beyond the end of the recipe.
        """
        samples, fingerprint = state.get("samples"), state.get("fingerprint")
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0 or not isinstance(fingerprint, str):
            raise OptionError(f"a loader's state is {{'samples': N, 'fingerprint': '...'}}, not {dict(state)!r:.200}")
        if fingerprint != self.recipe.fingerprint:
            raise SourceChangedError(
                self.recipe.file.where, "is not the recipe that the state is of, or its data are others",
                expected=fingerprint, found=self.recipe.fingerprint,
                remedy="Load it with the recipe and the data that it was saved with",
            )  # fmt: skip
        if samples > len(self.recipe):
            raise OptionError(
                f"the state is at sample {samples:,}, and the recipe ends after {len(self.recipe):,}. Give it a budget "
                "(tokens, epochs) at least as large as the one that the state was saved with"
            )
        self._samples, self._loaded = samples, True


def _read_as(dtype: torch.dtype, device: torch.device | str | None) -> type[np.int32] | type[np.int64]:
    """What IDs are read as: what the model gets; on its way to another device half of that, and made int64 there."""
    stays = device is None or torch.device(device).type == "cpu"
    return np.int64 if stays and dtype == torch.int64 else np.int32


def _check_alike(where: str, every: Sequence[Mapping[str, Any]]) -> None:
    """Refuse processes that do not read parts of the same.

    Args:
        where: What the first of them reads.
        every: Of each process what it reads, and its `rank`.

    Raises:
        OptionError: They differ; names what, and which processes.
    """
    for fact in every[0]:
        processes: dict[Any, list[int]] = {}
        for process, facts in enumerate(every):
            processes.setdefault(facts[fact], []).append(process)
        if fact == "rank":
            for rank, several in processes.items():
                if len(several) > 1:
                    raise OptionError(
                        f"{where}: processes {_listed(several)} read the part of rank {rank} (expected a rank for each "
                        "process). Leave out rank and world_size, or give each process its own rank"
                    )
        elif len(processes) > 1:
            found = "; ".join(f"{value} on rank {_listed(those)}" for value, those in processes.items())
            raise OptionError(
                f"{where}: ranks do not read the same (expected one {fact}, found {found}). Give each rank the same "
                "recipe and data, batch size and state"
            )


def _listed(ranks: Sequence[int]) -> str:
    """Ranks in words: "0", "1, 2", "1, 2, 3 and 60 more"."""
    more = f" and {len(ranks) - _NAMED:,} more" if len(ranks) > _NAMED else ""
    return ", ".join(map(str, ranks[:_NAMED])) + more


def _ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Which rank of how many this process is: as said, else as torch.distributed has it, else 0 of 1.

    Raises:
        OptionError: Only one of both is said; or torchrun has started several, and none knows which it is yet.
    """
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise OptionError(
            "rank and world_size belong together: give both, or neither to take those of torch.distributed"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    started = os.environ.get("WORLD_SIZE", "1")
    if started not in ("", "1"):
        raise OptionError(
            f"WORLD_SIZE is {started}, and torch.distributed is not initialised: every process would read all of each "
            "batch. Call torch.distributed.init_process_group() first, or say rank and world_size"
        )
    return 0, 1
