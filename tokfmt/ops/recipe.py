"""A recipe as Python users hold it: a map-style dataset of samples, which goes unchanged into a DataLoader; and as a
tree: what each source gives to the whole, before anybody trains, told by indexes alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import OptionError
from tokfmt.ops.dataset import Dataset, sequence_numbers
from tokfmt.recipes.amounts import Amount, amounts, filled
from tokfmt.recipes.documents import Documents, Source, Span
from tokfmt.recipes.fields import Ids, check_fields
from tokfmt.recipes.language import RecipeFile
from tokfmt.recipes.samples import DEFAULT, Samples, Where

if TYPE_CHECKING:
    from tokfmt.ops.source.opened import Source as Opened


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
        self, sample: None = None, *, step: int, batch_size: int, rank: int = 0, world: int = 1, start: int = 0
    ) -> list[Where]: ...

    def where(
        self,
        sample: int | None = None,
        *,
        step: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        world: int = 1,
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
        return self._samples.where_at(step, batch_size, rank, world, start)

    def __repr__(self) -> str:
        return f"<tokfmt recipe: {len(self):,} samples of {self.seq_len:,}, {len(self.sources)} sources>"


@dataclass(frozen=True, slots=True)
class Row:
    """A source, or the whole.

    Attributes:
        name: Of the source; "" for the whole.
        depth: 0 for the whole, 1 for its sources, 2 for those of recipes among them ...
        format: Of the source.
        sequences: Each counted once; of a source whose quota is less than a pass, those that it takes.
        empty: Sequences without a token, which have no part in samples and are not among `sequences`; 0 of documents.
        tokens: Of these, counted once; of samples with a separator after each.
        drawn: Tokens in the result; of samples all positions but padding.
        share: Of all tokens that are drawn.
        passes: How often one of `sequences` is in the result, on average; see `recipes.amounts.Amount`.
        samples: That are drawn of it alone; None where sources are packed together.
        cut: Sequences in the result that samples cut, each counted once; None of documents.
        padded: Positions of the samples drawn that hold padding; None where sources are packed together.
        left_out: Tokens of a pass that are in no sample, by why: "tail", "truncated", "targetless".
    """

    name: str
    depth: int
    format: str
    sequences: int
    empty: int
    tokens: int
    drawn: int
    share: float
    passes: float
    samples: int | None = None
    cut: int | None = None
    padded: int | None = None
    left_out: dict[str, int] = field(default_factory=dict)


def explain(reader: TokenReader) -> list[Row]:
    """The rows of a recipe's tree, the whole first, each source followed by those in it."""
    if not isinstance(reader, (Samples, Documents)):
        return []
    found = amounts(reader, cut=True)
    total = sum(amount.tokens for amount in found)
    rows = [row for k, amount in enumerate(found) for row in _tree(reader, reader, k, amount, 1, total)]
    if isinstance(reader, Samples):
        rows = list(_with_samples(reader, rows))
    top = [row for row in rows if row.depth == 1]
    once = sum(row.drawn / row.passes if row.passes else row.tokens for row in top)
    whole = Row(
        "", 0, "recipe", sum(row.sequences for row in top), sum(row.empty for row in top),
        sum(row.tokens for row in top), total, 1.0, total / (once or 1),
    )  # fmt: skip
    if isinstance(reader, Samples):
        lists = [one.packing.left_out() for one in reader.lists() if not one.first]
        whole = replace(
            whole, samples=reader.count, cut=sum(row.cut or 0 for row in top),
            padded=reader.count * reader.places - total, left_out=_joined(lists),
        )  # fmt: skip
    return [whole, *rows]


def _tree(
    view: Samples | Documents, recipe: Samples | Documents, k: int, amount: Amount, depth: int, total: int
) -> Iterator[Row]:
    """The rows of source k of a recipe, and of those in it; `view`: the outermost recipe."""
    source, held = recipe.sources[k], recipe.sources[k].distinct
    count, tokens = held.info.sequences, held.info.tokens
    there = count
    if isinstance(view, Samples):
        there = _on_the_row(view, k) if depth == 1 and held is source.reader else filled(held)
        tokens += there if view.after is not None else 0
    yield Row(
        source.name, depth, source.format, there, count - there, tokens, amount.tokens, amount.tokens / (total or 1),
        amount.passes, cut=amount.cut,
    )  # fmt: skip
    inner = source.all_of_it
    if isinstance(inner, (Samples, Documents)):
        for j, more in enumerate(amount.inner):
            yield from _tree(view, inner, j, more, depth + 1, total)


def _on_the_row(view: Samples, k: int) -> int:
    """The sequences of source k that have a token."""
    axis = next(one.packing.axis for one in view.lists() if k in one.packing.axis.numbers)
    at = axis.numbers.index(k)
    return int(axis.places[at + 1]) - int(axis.places[at])


def _with_samples(view: Samples, rows: Sequence[Row]) -> Iterator[Row]:
    """Rows with what is known of samples, where each is of one source."""
    lists = iter(view.lists())
    for row in rows:
        one = next(lists) if row.depth == 1 and view.file.weighted else None
        yield (
            row
            if one is None
            else replace(
                row, samples=one.drawn, padded=one.drawn * view.places - row.drawn, left_out=one.packing.left_out()
            )
        )


def _joined(found: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in found:
        for word, count in one.items():
            total[word] = total.get(word, 0) + count
    return total
