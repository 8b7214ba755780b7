"""Hold a recipe as Python users do: a map-style dataset of samples, which goes unchanged into a DataLoader."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import OptionError
from tokfmt.core.format import Hints
from tokfmt.core.reader import TokenReader
from tokfmt.dataset import Dataset, sequence_numbers
from tokfmt.ops.source.draft import TextRecipe
from tokfmt.ops.source.open import open_recipe
from tokfmt.ops.source.request import check_losses, selection_words
from tokfmt.recipes.documents import Source, Span
from tokfmt.recipes.fields import Ids, check_fields
from tokfmt.recipes.language import RecipeFile, parse_recipe
from tokfmt.recipes.samples import DEFAULT, Samples, Where
from tokfmt.wording import READING, spoken

if TYPE_CHECKING:
    from tokfmt.ops.source.stored import Source as Opened


Sample = dict[str, NDArray[Any]]


class Recipe(Dataset):
    """Samples of a recipe. Also a TokenReader, whose sequence k is the input_ids of sample k.

        view = tokfmt.open("mix.toml")
        view[123]["input_ids"]                        # int64[seq_len]
        view.samples(range(8))["labels"]              # int32[8, seq_len]
        view.where(123).spans
        DataLoader(view.with_fields(["input_ids", "labels", "position_ids"]), batch_size=8, num_workers=4)

    Indexing is how PyTorch reads a dataset, and its losses take labels of int64 only: `view[k]` has input_ids and
    labels of int64. `sample` and `samples` have int32, which is half of that.

    Attributes:
        fields: What `view[k]` holds; `with_fields` gives others.
    """

    def __init__(
        self,
        reader: Samples,
        *,
        fields: Sequence[str] = DEFAULT,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Opened, ...] = (),
    ) -> None:
        super().__init__(reader, "recipe", inferred=inferred, notes=notes, origin=origin)
        self._samples, self.fields = reader, check_fields(fields)

    def with_fields(self, fields: Iterable[str]) -> Recipe:
        """The same samples with other fields; see `tokfmt.recipes.fields`."""
        return Recipe(
            self._samples, fields=check_fields(fields), inferred=self.inferred, notes=self.notes, origin=self.origin
        )

    @property
    def file(self) -> RecipeFile:
        """The recipe as written."""
        return self._samples.file

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, in order; `Span.source` counts them."""
        return self._samples.sources

    @property
    def seq_len(self) -> int:
        """Places of a sample."""
        return self._samples.seq_len

    @property
    def fingerprint(self) -> str:
        """What decides the order of samples, as 32 hexadecimal digits; a longer budget has the same."""
        return self._samples.fingerprint

    def __len__(self) -> int:
        return self._samples.count

    def __getitem__(self, index: Any) -> Any:
        """Sample k as a dict of arrays [seq_len]; of a slice, a list or an array of numbers, arrays [n, seq_len].

        Returns:
            The fields of the view; input_ids and labels are int64.

        Raises:
            IndexError: There is no such sample.
            TypeError: It is no number, slice, or list or array of numbers; masks (bool) are none.
        """
        if isinstance(index, slice):
            return self._indexed(range(*index.indices(len(self))))
        one = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if one or (isinstance(index, np.ndarray) and not index.ndim):
            return {name: array[0] for name, array in self._indexed([operator.index(index)]).items()}
        return self._indexed(sequence_numbers(index))

    def __getitems__(self, indices: Iterable[int]) -> list[Sample]:
        """`[view[k] for k in indices]`, read at once: what PyTorch asks for a batch, before it puts that together."""
        wanted = sequence_numbers(list(indices))  # a sampler may give any iterable
        found = self._indexed(wanted)
        return [{name: array[row] for name, array in found.items()} for row in range(len(wanted))]

    def _indexed(self, samples: Sequence[int]) -> Sample:
        return self._samples.samples(samples, self.fields, np.int64)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def sample(self, index: int, fields: Iterable[str] | None = None, *, padded: bool = True) -> Sample:
        """One sample, of int32.

        Args:
            index: Its number.
            fields: By default those of the view.
            padded: Fill `cu_seqlens` up to seq_len + 1 entries, so that samples stack.
        """
        found = {name: array[0] for name, array in self.samples([index], fields or self.fields).items()}
        if not padded and "cu_seqlens" in found:
            bounds = found["cu_seqlens"]
            found["cu_seqlens"] = bounds[: int(np.argmax(bounds == self.seq_len)) + 1]
        return found

    def samples(
        self,
        samples: Sequence[int] | NDArray[np.integer] | range,
        fields: Iterable[str] = DEFAULT,
        dtype: Ids = np.int32,
    ) -> Sample:
        """Some samples as arrays of a row each.

        Args:
            samples: Their numbers.
            fields: See `tokfmt.recipes.fields`.
            dtype: Of input_ids and labels: `numpy.int32` or `numpy.int64`.

        Raises:
            IndexError: There is no such sample.
            TypeError: These are no numbers, as a mask.
            OptionError: There is no such field, or the dtype is another.
            TokenizerMismatchError: A sample holds an ID that the tokenizer of the sources does not have.
        """
        if dtype not in (np.int32, np.int64):
            raise OptionError(f"dtype {dtype!r}: input_ids and labels are numpy.int32 or numpy.int64")
        wanted = samples if isinstance(samples, range) else sequence_numbers(samples)
        return self._samples.samples(wanted, fields, dtype)

    def spans(self, sample: int) -> list[Span]:
        """What a sample moves on by: positions of sequences of sources, in order. Padding is in none."""
        return self._samples.spans(operator.index(sample))

    @overload
    def where(self, sample: int) -> Where: ...
    @overload
    def where(
        self, sample: None = None, *, step: int, batch_size: int, rank: int = 0, world_size: int = 1, start: int = 0
    ) -> list[Where]: ...

    def where(
        self,
        sample: int | None = None,
        *,
        step: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        start: int = 0,
    ) -> Where | list[Where]:
        """Where a sample comes from; or, with `step` and `batch_size` (the global one), those of a rank at a step.

        Raises:
            IndexError, OptionError: There is no such sample, step or rank.
        """
        if sample is not None:
            return self._samples.where(operator.index(sample))
        if step is None or batch_size is None:
            raise TypeError("where() takes the number of a sample, or step= and batch_size=")
        return self._samples.where_at(step, batch_size, rank, world_size, start)

    def __repr__(self) -> str:
        return f"<tokfmt recipe: {len(self):,} samples of {self.seq_len:,}, {len(self.sources)} sources>"


@spoken(READING)
def recipe(
    sources: Sequence[Mapping[str, Any] | str | os.PathLike[str]],
    *,
    seq_len: int | None = None,
    pack: str | None = None,
    labels: str | None = None,
    tail: str | None = None,
    long: str | None = None,
    shuffle: str = "none",
    seed: int = 0,
    tokens: int | None = None,
    epochs: int | None = None,
    eos: int | str | None = None,
    pad: int | None = None,
    bos: int = 0,
    tokenizer: str | None = None,
    dedup: str = "none",
    filters: Mapping[str, Mapping[str, Any]] | None = None,
    allow_loss: str | Sequence[str] = (),
) -> Dataset:
    """A recipe without a file: what `tokfmt.open` gives of one that says the same.

    Args:
        sources: Of each a path, or what stands in its `[[source]]`: dict(path="web.pbin", weight=0.7).
        seq_len: Places of a sample; None: a recipe of documents.
        pack: "stream", "document", "bestfit" or "stored".
        labels: "next", "disjoint", "starts" or "same".
        tail, long: Of a stream's last sample: "pad" or "drop"; of long documents: "split" or "truncate".
        shuffle: "none", "samples" or "documents"; seed: what draws the order.
        tokens, epochs: Budget of the whole; or passes.
        eos, pad, bos: Ids; eos may be "none".
        tokenizer, dedup, filters: As in a file.
        allow_loss: What may be given up in reading sources, by name.

    Returns:
        A `Recipe`, a map-style dataset of samples; without `seq_len` a Dataset of documents.

    Raises:
        TokfmtError: One of its kinds; see `tokfmt.core.errors`.
    """
    said = {
        "seq_len": seq_len, "pack": pack, "labels": labels, "tail": tail, "long": long, "shuffle": shuffle,
        "seed": seed, "tokens": tokens, "epochs": epochs, "eos": eos, "pad": pad, "bos": bos, "tokenizer": tokenizer,
        "dedup": dedup, "filter": filters,
    }  # fmt: skip
    listed = [sources] if isinstance(sources, (str, os.PathLike, Mapping)) else list(sources)
    entries: list[dict[str, Any]] = [
        dict(entry) if isinstance(entry, Mapping) else {"path": os.fspath(entry)} for entry in listed
    ]
    for entry in entries:
        if isinstance(entry.get("select"), (slice, range)):
            entry["select"] = selection_words(entry["select"])
    table = {key: value for key, value in said.items() if value is not None}
    file = parse_recipe({**table, "source": entries}, Path("recipe"))
    reader, opened = open_recipe(file, Hints(allow_loss=check_losses(allow_loss)))
    return dataset_of_recipe(reader, reader.info.notes, tuple(opened))


def dataset_of_recipe(reader: TokenReader | TextRecipe, notes: tuple[str, ...], origin: tuple[Opened, ...]) -> Dataset:
    """Return the reader of a recipe as a Dataset: a `Recipe` if the recipe has samples.

    Raises:
        OptionError: It has text, and is stored before it is read.
    """
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    inferred = reader.info.inferred
    notes = tuple(note for note in notes if note not in inferred)
    if isinstance(reader, Samples):
        return Recipe(reader, inferred=inferred, notes=notes, origin=origin)
    return Dataset(reader, "recipe", inferred=inferred, notes=notes, origin=origin)
