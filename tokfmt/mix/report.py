"""Make the report on a recipe: one row per source, for `convert`, its JSON, the manifest and the page of `stats`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokfmt.mix.amounts import amounts_of
from tokfmt.mix.documents import Documents, TokenSource, quota_of
from tokfmt.mix.draw import Tally
from tokfmt.mix.samples import PackedRows, Samples
from tokfmt.text.filters import FilterChain

Row = dict[str, Any]


def row_of(name: str, names: Sequence[str], sieve: FilterChain, tally: Tally, quota: int | None, *, text: bool) -> Row:
    """Return the row of a source whose documents were drawn.

    Args:
        name: The name of the source.
        names: The names of all sources.
        sieve: The filters of the source, which name their rules.
        tally: The counts of its documents.
        quota: Tokens that the recipe takes of it; None for all.
        text: The source holds text, so that the row has characters.
    """
    rules = {
        ".".join(sieve.rule(number)): {"documents": documents, "characters": chars}
        for number, (documents, chars) in sorted(tally.rejected.items())
    }
    equal = {names[origin]: count for origin, count in sorted(tally.duplicates.items())}
    return {
        "source": name,
        "documents": tally.documents,
        "characters": tally.chars if text else None,
        "rejected": rules,
        "duplicates": equal,
        "kept": tally.kept,
        "quota": quota,
    }


def row_of_ids(source: TokenSource, quota: int | None) -> Row:
    """Return the row of a source of token IDs that is not compared, so that only its quota leaves documents out."""
    return {
        "source": source.name,
        "documents": source.all_of_it.info.sequences,
        "characters": None,
        "rejected": {},
        "duplicates": {},
        "kept": source.once,
        "quota": quota,
    }


def rows_of_ids(reader: object) -> tuple[Samples | Documents | None, list[Row]]:
    """Return a recipe of token IDs and a row for each of its sources; None and no rows for any other reader."""
    recipe = reader.samples if isinstance(reader, PackedRows) else reader
    if not isinstance(recipe, (Samples, Documents)):
        return None, []
    return recipe, [row_of_ids(source, quota_of(recipe.file, k)) for k, source in enumerate(recipe.sources)]


def with_amounts(
    rows: Sequence[Row], recipe: Samples | Documents, first: int, last: int, *, ended: bool = False
) -> list[Mapping[str, Any]]:
    """Add "tokens" and "passes" to rows: the amounts that each source gives to samples or documents of a range.

    Args:
        rows: One row per source.
        recipe: The recipe.
        first: Number of the first sample or document.
        last: Number after the last one.
        ended: Documents end with the separator that the destination stores; it does not count as a token then.
    """
    found = amounts_of(recipe, first, last)
    return [
        {**row, "tokens": amount.tokens - amount.documents * ended, "passes": amount.passes}
        for row, amount in zip(rows, found, strict=True)
    ]


def padded_positions(rows: Sequence[Mapping[str, Any]], reader: object, count: int) -> int:
    """Return the positions that hold padding in `count` samples of a recipe with these rows; 0 for any other reader."""
    return count * reader.advance - sum(row["tokens"] for row in rows) if isinstance(reader, Samples) else 0
