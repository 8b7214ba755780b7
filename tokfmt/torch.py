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
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

import tokfmt
from tokfmt.core.errors import OptionError, SourceChangedError
from tokfmt.ops.dataset import Dataset
from tokfmt.ops.recipe import Recipe
from tokfmt.recipes.order import numbers

_IDS = ("input_ids", "labels")


class Loader:
    """The samples of a recipe in order, in batches of tensors; it can be saved, and goes on from where it was.

    Each `iter()` goes on from where the loader stands, to the last whole batch of the recipe: all ranks end together.
    Passes over the data are the recipe's (`epochs`, `tokens`), so that another `iter()` at the end gives nothing.

    Attributes:
        recipe: What is read.
        batch_size, rank, world: As given.
        samples: Samples of the recipe handed out, to all ranks together. What was only read ahead does not count.
    """

    def __init__(
        self,
        recipe: str | os.PathLike[str] | Dataset,
        batch_size: int,
        *,
        rank: int | None = None,
        world: int | None = None,
        step: int = 0,
        fields: Sequence[str] | None = None,
        dtype: torch.dtype = torch.int64,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        prefetch: int = 2,
    ) -> None:
        """Open a recipe; reads no token yet.

        Args:
            recipe: Its path, or what `tokfmt.open` or `tokfmt.recipe` gave.
            batch_size: Samples of a step, over all ranks; a multiple of `world`.
            rank, world: Which part of each batch, of how many; by default as `torch.distributed` has them, else 0 of 1.
            step: Begin with this step: after `step * batch_size` samples.
            fields: Of a sample: input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens; by default those
                of the recipe, which are input_ids and labels unless `with_fields` gave it others.
            dtype: Of `input_ids` and `labels`; the others stay as the recipe has them.
            device: Where tensors go.
            pin_memory: Copy them there through page-locked memory, while training goes on; on processors it is nothing.
            prefetch: Batches read ahead, each by a thread; 0: none, they are read when they are asked for.

        Raises:
            OptionError: No recipe of samples; a batch that cannot be dealt to so many ranks, or is larger than the
                recipe; nothing says which rank this is, and there are several.
            TokfmtError: The recipe cannot be opened.
        """
        found = tokfmt.open(recipe) if isinstance(recipe, (str, os.PathLike)) else recipe
        if not isinstance(found, Recipe):
            raise OptionError(f"{found!r} is no recipe of samples: tokfmt.recipe(..., seq_len=N) makes one of it")
        self.recipe = found
        self.rank, self.world = _ranks(rank, world)
        self.batch_size, self.dtype = batch_size, dtype
        self.fields = found.fields if fields is None else tuple(fields)
        self.device, self.prefetch = device, prefetch
        self.pin_memory = pin_memory and torch.accelerator.is_available()
        try:
            numbers(step, batch_size, self.rank, self.world)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if batch_size > len(found):
            raise OptionError(f"{found!r}: has fewer samples than one batch of {batch_size:,}, so there would be none")
        self.samples = step * batch_size

    def __len__(self) -> int:
        """Whole batches that are left."""
        return max(0, len(self.recipe) - self.samples) // self.batch_size

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        ahead: deque[tuple[int, Future[dict[str, torch.Tensor]]]] = deque()
        pool = ThreadPoolExecutor(max(1, self.prefetch), "tokfmt-loader")
        try:
            while True:
                at = self.samples
                if ahead and ahead[0][0] != at:  # another state was loaded: what was read is of elsewhere
                    for _, batch in ahead:
                        batch.cancel()
                    ahead.clear()
                following = at + len(ahead) * self.batch_size
                while len(ahead) <= self.prefetch and following + self.batch_size <= len(self.recipe):
                    ahead.append((following, pool.submit(self._read, following)))
                    following += self.batch_size
                if not ahead:
                    return
                tensors = ahead[0][1].result()
                ahead.popleft()
                self.samples = at + self.batch_size
                yield {name: self._placed(name, tensor) for name, tensor in tensors.items()}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, start: int) -> dict[str, torch.Tensor]:
        """This rank's part of the batch that begins with a sample."""
        wanted = numbers(0, self.batch_size, self.rank, self.world, start)
        arrays = self.recipe.samples(wanted, self.fields)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {name: tensor.pin_memory() for name, tensor in tensors.items()} if self.pin_memory else tensors

    def _placed(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor if self.device is None else tensor.to(self.device, non_blocking=self.pin_memory)
        return moved.to(self.dtype) if name in _IDS else moved

    def state_dict(self) -> dict[str, int | str]:
        """Where it stands; the same on every rank. Read ahead does not count."""
        return {"samples": self.samples, "fingerprint": self.recipe.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, at the next batch, also in an iterator that runs; with whatever batch size and world.

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
        self.samples = samples


def _ranks(rank: int | None, world: int | None) -> tuple[int, int]:
    """Which rank of how many this process is: as said, else as torch.distributed has it, else 0 of 1.

    Raises:
        OptionError: Only one of both is said; or torchrun has started several, and none knows which it is yet.
    """
    if rank is not None and world is not None:
        return rank, world
    if rank is not None or world is not None:
        raise OptionError("rank and world belong together: say both, or neither to take those of torch.distributed")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    started = os.environ.get("WORLD_SIZE", "1")
    if started not in ("", "1"):
        raise OptionError(
            f"WORLD_SIZE is {started}, and torch.distributed is not initialised: every process would read all of each "
            "batch. Call torch.distributed.init_process_group() first, or say rank and world"
        )
    return 0, 1
