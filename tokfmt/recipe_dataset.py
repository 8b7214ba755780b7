"""`tokfmt.recipe` and `Recipe`: the samples of a recipe as a map-style dataset, which a PyTorch DataLoader takes."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Hints
from tokfmt.core.reader import TokenReader
from tokfmt.dataset import Dataset, sequence_numbers
from tokfmt.errors import OptionError
from tokfmt.files.place import LocalPlace
from tokfmt.mix import (
    DEFAULT_FIELDS,
    Ids,
    RecipeFile,
    Samples,
    Span,
    TextRecipe,
    TokenSource,
    Where,
    check_fields,
    open_recipe,
    parse_recipe,
)
from tokfmt.settings import settings
from tokfmt.source.request import check_losses, selection_words

if TYPE_CHECKING:
    from tokfmt.source.stored import Source as Opened


Sample = dict[str, NDArray[Any]]


class Recipe(Dataset):
    """Samples of a recipe. It is also a TokenReader: sequence k is the `input_ids` of sample k.

        view = tokfmt.open("mix.toml")
        view[123]["input_ids"]                        # int64[seq_len]
        view.samples(range(8))["labels"]              # int32[8, seq_len]
        view.where(123).spans
        DataLoader(view.with_fields(["input_ids", "labels", "position_ids"]), batch_size=8, num_workers=4)

    `view[k]` has `input_ids` and `labels` as int64, because losses of PyTorch take labels of int64 only. `sample` and
    `samples` return int32, which takes half of the memory.

    Attributes:
        fields: Names of the fields that `view[k]` holds; see `with_fields`.
    """

    def __init__(
        self,
        reader: Samples,
        *,
        fields: Sequence[str] = DEFAULT_FIELDS,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Opened, ...] = (),
    ) -> None:
        super().__init__(reader, "recipe", inferred=inferred, notes=notes, origin=origin)
        self._samples, self.fields = reader, check_fields(fields)

    def with_fields(self, fields: Iterable[str]) -> Recipe:
        """Return the same samples with other fields.

        Args:
            fields: Names of fields; `tokfmt.mix.fields` describes them.

        Raises:
            OptionError: If there is no such field.
        """
        return Recipe(
            self._samples, fields=check_fields(fields), inferred=self.inferred, notes=self.notes, origin=self.origin
        )

    @property
    def file(self) -> RecipeFile:
        """The parsed recipe."""
        return self._samples.file

    @property
    def sources(self) -> tuple[TokenSource, ...]:
        """The sources, in the order of the recipe. `Span.source` is an index into them."""
        return self._samples.sources

    @property
    def seq_len(self) -> int:
        """Token positions per sample."""
        return self._samples.seq_len

    @property
    def fingerprint(self) -> str:
        """A hash of what determines the order of samples: 32 hexadecimal digits.

        A larger budget (`tokens`, `epochs`) has the same fingerprint.
        """
        return self._samples.fingerprint

    def __len__(self) -> int:
        return self._samples.count

    def __getitem__(self, index: Any) -> Any:
        """Return sample `index` as a dict of arrays [seq_len], or several samples as a dict of arrays [n, seq_len].

        Args:
            index: A number (negative: from the end), a slice, or a list or array of numbers.

        Returns:
            An array for each of `fields`. `input_ids` and `labels` are int64.

        Raises:
            IndexError: If there is no such sample.
            TypeError: If the index has another type. A bool and a mask of bools are refused.
        """
        if isinstance(index, slice):
            return self._indexed(range(*index.indices(len(self))))
        one = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if one or (isinstance(index, np.ndarray) and not index.ndim):
            return {name: array[0] for name, array in self._indexed([operator.index(index)]).items()}
        return self._indexed(sequence_numbers(index))

    def __getitems__(self, indices: Iterable[int]) -> list[Sample]:
        """Return `[view[k] for k in indices]`, read at once, for a PyTorch DataLoader."""
        wanted = sequence_numbers(list(indices))  # A sampler may give any iterable.
        found = self._indexed(wanted)
        return [{name: array[row] for name, array in found.items()} for row in range(len(wanted))]

    def _indexed(self, samples: Sequence[int]) -> Sample:
        return self._samples.samples(samples, self.fields, np.int64)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def sample(self, index: int, fields: Iterable[str] | None = None, *, padded: bool = True) -> Sample:
        """Return one sample as a dict of arrays [seq_len]; token IDs are int32.

        Args:
            index: Number of the sample.
            fields: Names of fields (default: those of the view).
            padded: Fill `cu_seqlens` up to seq_len + 1 entries, so that samples can be stacked.

        Raises:
            IndexError: If there is no such sample.
            OptionError: If there is no such field.
        """
        found = {name: array[0] for name, array in self.samples([index], fields or self.fields).items()}
        if not padded and "cu_seqlens" in found:
            bounds = found["cu_seqlens"]
            found["cu_seqlens"] = bounds[: int(np.argmax(bounds == self.seq_len)) + 1]
        return found

    def samples(
        self,
        samples: Sequence[int] | NDArray[np.integer] | range,
        fields: Iterable[str] | None = None,
        dtype: Ids = np.int32,
    ) -> Sample:
        """Return several samples as a dict of arrays [len(samples), seq_len].

        Args:
            samples: Numbers of samples.
            fields: Names of fields, as `tokfmt.mix.fields` describes them (default: those of the view).
            dtype: Dtype of `input_ids` and `labels`: `numpy.int32` or `numpy.int64`.

        Raises:
            IndexError: If there is no such sample.
            TypeError: If `samples` does not hold integers. A mask of bools is refused.
            OptionError: If there is no such field, or the dtype is another.
            TokenizerMismatchError: If a sample holds a token ID that the tokenizer of the sources does not have.
        """
        if dtype not in (np.int32, np.int64):
            raise OptionError(f"dtype={dtype!r} is not a dtype of input_ids (expected numpy.int32 or numpy.int64)")
        wanted = samples if isinstance(samples, range) else sequence_numbers(samples)
        return self._samples.samples(wanted, self.fields if fields is None else fields, dtype)

    def spans(self, sample: int) -> list[Span]:
        """Return the spans of source sequences that a sample advances by, in order. No span covers padding."""
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
        """Return the origin of a sample, or of the samples of one rank at one step.

        Args:
            sample: Number of a sample.
            step: Number of a step, from 0. Instead of `sample`, give `step` and `batch_size`.
            batch_size: Samples per step, over all ranks.
            rank: Rank, from 0 to `world_size` - 1.
            world_size: Number of ranks.
            start: Number of the first sample of step 0.

        Raises:
            IndexError: If there is no such sample.
            OptionError: If there is no such step or rank.
            TypeError: If neither `sample`, nor both `step` and `batch_size`, are given.
        """
        if sample is not None:
            return self._samples.where(operator.index(sample))
        if step is None or batch_size is None:
            raise TypeError("where() takes the number of a sample, or step= and batch_size=")
        return self._samples.where_at(step, batch_size, rank, world_size, start)

    def __repr__(self) -> str:
        return f"<tokfmt recipe: {len(self):,} samples of {self.seq_len:,}, {len(self.sources)} sources>"


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
    to_eos: int | str | None = None,
    to_bos: int | None = None,
    pad: int | None = None,
    tokenizer: str | None = None,
    dedup: str = "none",
    filters: Mapping[str, Mapping[str, Any]] | None = None,
    allow_loss: str | Sequence[str] = (),
    storage_options: Mapping[str, str | bool] | None = None,
) -> Dataset:
    """Build a dataset from sources, as `tokfmt.open` does from a recipe file.

    Args:
        sources: One item per source: a path, or the entries of its `[[source]]` table, as dict(path="web.pbin",
            weight=0.7).
        seq_len: Token positions per sample. None makes a recipe of documents.
        pack: Way to make samples of documents: "stream", "document", "bestfit" or "stored" (default: "stream").
        labels: Way to derive labels from tokens: "next", "disjoint", "starts" or "same" (default: "next").
        tail: "pad" fills the incomplete last sample of a stream with padding, "drop" leaves it out (default: "pad").
        long: "split" divides a document that is longer than a sample, "truncate" cuts it (default: "split").
        shuffle: Units to shuffle: "none", "samples" or "documents".
        seed: Seed of the order.
        tokens: Number of tokens of the whole recipe (default: no limit).
        epochs: Passes over each source; with weights, the largest number of passes (default: 1).
        to_eos: Token ID of the separator after each document, or "none" (default: that of the sources, if they agree).
            The separator that a source has is `eos` in its entries.
        to_bos: Token ID before each document, with labels="starts" (default: 0).
        pad: Token ID of the padding (default: the separator).
        tokenizer: Name, directory or path of a tokenizer.json, as in a recipe file.
        dedup: "none", or "exact" to keep one of several equal texts.
        filters: The rules of each filter by its name, as in the `[filter.NAME]` tables of a recipe file.
        allow_loss: Names of the losses in reading sources that you accept, one or several.
        storage_options: Options of stores, as {"endpoint": "https://minio.example:9000"}; see docs/remote.md. They hold
            for this process and its workers, until others are given.

    Returns:
        A `Recipe`, which is a map-style dataset of samples. Without `seq_len`, a Dataset of documents.

    Raises:
        TokfmtError: If the recipe or a source cannot be used. `tokfmt.errors` lists the subclasses.
    """
    given = {
        "seq_len": seq_len,
        "pack": pack,
        "labels": labels,
        "tail": tail,
        "long": long,
        "shuffle": shuffle,
        "seed": seed,
        "tokens": tokens,
        "epochs": epochs,
        "to_eos": to_eos,
        "to_bos": to_bos,
        "pad": pad,
        "tokenizer": tokenizer,
        "dedup": dedup,
        "filter": filters,
    }
    listed = [sources] if isinstance(sources, (str, os.PathLike, Mapping)) else list(sources)
    entries: list[dict[str, Any]] = [
        dict(entry) if isinstance(entry, Mapping) else {"path": os.fspath(entry)} for entry in listed
    ]
    for entry in entries:
        if isinstance(entry.get("select"), (slice, range)):
            entry["select"] = selection_words(entry["select"])
    table = {key: value for key, value in given.items() if value is not None}
    with settings("recipe", storage_options):
        file = parse_recipe({**table, "source": entries}, LocalPlace("recipe"))
        reader, opened = open_recipe(file, Hints(allow_loss=check_losses(allow_loss)))
        return dataset_of_recipe(reader, reader.info.notes, tuple(opened))


def dataset_of_recipe(reader: TokenReader | TextRecipe, notes: tuple[str, ...], origin: tuple[Opened, ...]) -> Dataset:
    """Return the reader of a recipe as a Dataset: a `Recipe` if the recipe has samples."""
    if isinstance(reader, TextRecipe):
        raise reader.unprepared()
    inferred = reader.info.inferred
    notes = tuple(note for note in notes if note not in inferred)
    if isinstance(reader, Samples):
        return Recipe(reader, inferred=inferred, notes=notes, origin=origin)
    name = origin[0].format.name if origin and origin[0].format.is_computed else "recipe"
    return Dataset(reader, name, inferred=inferred, notes=notes, origin=origin)
