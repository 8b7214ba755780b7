"""A recipe as a tree: what each source gives to the whole, before anybody trains. Reads indexes, never tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tokfmt.core.axis import TokenReader
from tokfmt.recipes.axis import Source
from tokfmt.recipes.documents import Documents
from tokfmt.recipes.samples import Samples


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
    padded = [one.drawn * (view.seq_len - one.packing.tokens / one.packing.samples) for one in lists]
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
