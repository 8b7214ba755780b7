"""Describe a recipe as a tree: what each source gives to the whole, from indexes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokfmt.core.reader import TokenReader
from tokfmt.recipes.amounts import Amount, amounts, filled
from tokfmt.recipes.documents import Documents
from tokfmt.recipes.samples import Samples


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
        "",
        0,
        "recipe",
        sum(row.sequences for row in top),
        sum(row.empty for row in top),
        sum(row.tokens for row in top),
        total,
        1.0,
        total / (once or 1),
    )
    if isinstance(reader, Samples):
        lists = [one.packing.left_out() for one in reader.lists() if not one.first]
        whole = replace(
            whole,
            samples=reader.count,
            cut=sum(row.cut or 0 for row in top),
            padded=reader.count * reader.places - total,
            left_out=_joined(lists),
        )
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
        source.name,
        depth,
        source.format,
        there,
        count - there,
        tokens,
        amount.tokens,
        amount.tokens / (total or 1),
        amount.passes,
        cut=amount.cut,
    )
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
