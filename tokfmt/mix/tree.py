"""Describe a recipe as a tree with the contribution of each source, from indexes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tokfmt.mix.amounts import Amount, amounts_of, nonempty
from tokfmt.mix.documents import Documents
from tokfmt.mix.samples import Samples


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A row of the tree: a source, or the complete recipe.

    Attributes:
        name: The name of the source; "" for the recipe.
        depth: 0 for the recipe, 1 for its sources, 2 for the sources of these ...
        format: The format of the source.
        sequences: The number of sequences, each counted once. If a quota is less than a pass, only those it takes.
        empty: The number of empty sequences, which are not in samples and not among `sequences`; 0 for documents.
        tokens: The number of tokens of `sequences`, counted once; for samples with a separator after each sequence.
        drawn: The number of tokens in the result; for samples all positions except padding.
        share: The share of all tokens in the result.
        passes: The mean number of times that a sequence is in the result; see `mix.amounts.Amount`.
        samples: The number of samples of this source; None if sources are packed together.
        cut: The number of sequences in the result that samples cut, each counted once; None for documents.
        padded: The number of padding positions in its samples; None if sources are packed together.
        left_out: The number of tokens per pass that are in no sample, by reason: "tail", "truncated", "targetless".
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


@dataclass(frozen=True, slots=True)
class Explained:
    """A recipe of token IDs.

    Attributes:
        seq_len: Tokens per sample; None for documents.
        fingerprint: The fingerprint of the recipe and its sources.
        rows: The recipe and its sources.
        notes: What tokfmt inferred, and defects that change no token, one sentence each.
    """

    recipe: str
    seq_len: int | None
    fingerprint: str
    rows: list[TreeRow]
    notes: list[str]


def explain(reader: object) -> list[TreeRow]:
    """Return the rows of a recipe's tree: the recipe, then each source, followed by its sources; else []."""
    if not isinstance(reader, (Samples, Documents)):
        return []
    amounts = amounts_of(reader, cut=True)
    total = sum(amount.tokens for amount in amounts)
    rows = [row for k, amount in enumerate(amounts) for row in _tree(reader, reader, k, amount, 1, total)]
    if isinstance(reader, Samples):
        rows = list(_with_samples(reader, rows))
    top = [row for row in rows if row.depth == 1]
    once = sum(row.drawn / row.passes if row.passes else row.tokens for row in top)
    whole = TreeRow(
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
        lists = [drawn_list.packing.left_out() for drawn_list in reader.lists() if not drawn_list.first]
        whole = replace(
            whole,
            samples=reader.count,
            cut=sum(row.cut or 0 for row in top),
            padded=reader.count * reader.advance - total,
            left_out=_joined(lists),
        )
    return [whole, *rows]


def _tree(
    view: Samples | Documents, recipe: Samples | Documents, k: int, amount: Amount, depth: int, total: int
) -> Iterator[TreeRow]:
    """Yield the rows of source k of a recipe and of its sources; `view` is the outermost recipe."""
    source, distinct = recipe.sources[k], recipe.sources[k].distinct
    count, tokens = distinct.info.sequences, distinct.info.tokens
    there = count
    if isinstance(view, Samples):
        there = _on_the_row(view, k) if depth == 1 and distinct is source.reader else nonempty(distinct)
        tokens += there if view.after is not None else 0
    yield TreeRow(
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
    """Return the number of sequences of source k that are not empty."""
    axis = next(drawn_list.packing.axis for drawn_list in view.lists() if k in drawn_list.packing.axis.numbers)
    index = axis.numbers.index(k)
    return int(axis.sequences_before[index + 1]) - int(axis.sequences_before[index])


def _with_samples(view: Samples, rows: Sequence[TreeRow]) -> Iterator[TreeRow]:
    """Add counts of samples to the rows of sources, if each sample is drawn from one source."""
    lists = iter(view.lists())
    for row in rows:
        drawn_list = next(lists) if row.depth == 1 and view.file.weighted else None
        yield (
            row
            if drawn_list is None
            else replace(
                row,
                samples=drawn_list.drawn,
                padded=drawn_list.drawn * view.advance - row.drawn,
                left_out=drawn_list.packing.left_out(),
            )
        )


def _joined(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts_of_list in counts:
        for word, count in counts_of_list.items():
            total[word] = total.get(word, 0) + count
    return total
