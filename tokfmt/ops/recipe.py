"""A recipe as Python users hold it: a map-style dataset of samples, which goes unchanged into a DataLoader; and as a
tree: what each source gives to the whole, before anybody trains, told by indexes alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader
from tokfmt.ops.dataset import Dataset, sequence_numbers
from tokfmt.recipes.documents import Documents, Source, Span
from tokfmt.recipes.fields import check_fields
from tokfmt.recipes.language import RecipeFile
from tokfmt.recipes.samples import DEFAULT, Samples, Where

if TYPE_CHECKING:
    from tokfmt.ops.source.opened import Source as Opened


Sample = dict[str, NDArray[Any]]


class Recipe(Dataset):
    """Samples of a recipe. Also a TokenReader, whose sequence k is the input_ids of sample k.

        view = tokfmt.open("mix.toml")
        view[123]["input_ids"]                        # int32[seq_len]
        view.samples(range(8))["labels"]              # int32[8, seq_len]
        view.where(123).spans
        DataLoader(view.with_fields(["input_ids", "labels", "position_ids"]), batch_size=8, num_workers=4)

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

        Raises:
            IndexError: There is no such sample.
            TypeError: It is no number, slice, or list or array of numbers; masks (bool) are none.
        """
        if isinstance(index, slice):
            return self.samples(range(*index.indices(len(self))), self.fields)
        one = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if one or (isinstance(index, np.ndarray) and not index.ndim):
            return self.sample(operator.index(index))
        return self.samples(index, self.fields)

    def __iter__(self) -> Iterator[Any]:
        return map(self.sample, range(len(self)))

    def sample(self, index: int, fields: Iterable[str] | None = None, *, padded: bool = True) -> Sample:
        """One sample.

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

    def samples(self, samples: Sequence[int] | NDArray[np.integer] | range, fields: Iterable[str] = DEFAULT) -> Sample:
        """Some samples as arrays of a row each.

        Raises:
            IndexError: There is no such sample.
            TypeError: These are no numbers, as a mask.
            OptionError: There is no such field.
        """
        return self._samples.samples(samples if isinstance(samples, range) else sequence_numbers(samples), fields)

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
        sequences: In one pass; empty: those of them that have no token and so no part.
        tokens: In one pass, separators included.
        share: Of all tokens that are drawn.
        epochs: How often it is passed; 0.5 for half a pass.
        samples: That are drawn of it alone; None where sources are packed together.
        cut: Sequences that lie in several samples of one pass; None where that is counted for the whole.
        padded: Places of the samples drawn that hold padding; None likewise.
        left_out: Tokens of a pass that are in no sample, by why: "tail", "truncated", "targetless".
    """

    name: str
    depth: int
    format: str
    sequences: int
    empty: int
    tokens: int
    share: float
    epochs: float
    samples: int | None = None
    cut: int | None = None
    padded: int | None = None
    left_out: dict[str, int] = field(default_factory=dict)


def explain(reader: TokenReader) -> list[Row]:
    """The rows of a recipe's tree, the whole first, each source followed by those in it."""
    if isinstance(reader, Samples):
        return list(_of_samples(reader))
    return list(_of_documents(reader)) if isinstance(reader, Documents) else []


def _of_samples(view: Samples) -> Iterator[Row]:
    lists = view.lists()
    drawn = [one.drawn * one.packing.tokens / one.packing.samples for one in lists]
    total = sum(drawn) or 1.0
    places = view.seq_len + (view.file.convention == "disjoint")  # which moves on by its last label as well
    padded = [one.drawn * (places - one.packing.tokens / one.packing.samples) for one in lists]
    first = [one for one in lists if not one.first]
    yield Row(
        "", 0, "recipe", sum(one.packing.axis.sequences for one in first), sum(one.packing.axis.empty for one in first),
        sum(one.packing.axis.tokens for one in first), 1.0,
        sum(drawn) / (sum(one.packing.tokens for one in first) or 1), view.count,
        sum(one.packing.cut() for one in first), round(sum(padded)), _joined(one.packing.left_out() for one in first),
    )  # fmt: skip
    for k, source in enumerate(view.sources):
        mine = [(one, tokens) for one, tokens in zip(lists, drawn, strict=True) if k in one.packing.axis.numbers]
        axis = mine[0][0].packing.axis
        at = axis.numbers.index(k)
        tokens = axis.begins[at + 1] - axis.begins[at]
        share = sum(got * tokens / axis_.tokens for (one, got) in mine for axis_ in [one.packing.axis]) / total
        there = axis.places[at + 1] - axis.places[at]
        alone = mine[0][0] if view.file.weighted else None
        yield Row(
            source.name, 1, source.format, there, source.info.sequences - there, tokens, share,
            sum(one.drawn / one.packing.samples for one, _ in mine),
            alone.drawn if alone else None, alone.packing.cut() if alone else None,
            round(padded[k]) if alone else None, alone.packing.left_out() if alone else {},
        )  # fmt: skip
        yield from _inside(source, share)


def _of_documents(view: Documents) -> Iterator[Row]:
    info, base = view.info, sum(source.info.tokens for source in view.sources)
    passed = [source.info.tokens * view.file.passes(k) for k, source in enumerate(view.sources)]
    part = info.tokens / (sum(passed) or 1)  # a budget may end it early
    yield Row("", 0, "recipe", info.sequences, 0, base, 1.0, info.tokens / (base or 1))
    for k, source in enumerate(view.sources):
        share = passed[k] / (sum(passed) or 1)
        found = source.info
        yield Row(source.name, 1, source.format, found.sequences, 0, found.tokens, share, view.file.passes(k) * part)
        yield from _inside(source, share)


def _inside(source: Source, share: float) -> Iterator[Row]:
    """The rows of a recipe that is a source, one deeper, as shares of the whole."""
    for row in explain(source.reader):
        if row.depth:
            yield Row(
                row.name, row.depth + 1, row.format, row.sequences, row.empty, row.tokens, row.share * share,
                row.epochs, row.samples, row.cut, row.padded, row.left_out,
            )  # fmt: skip


def _joined(found: Iterator[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in found:
        for word, count in one.items():
            total[word] = total.get(word, 0) + count
    return total
