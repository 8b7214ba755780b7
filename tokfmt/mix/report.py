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
    """Return the row of a source whose documents were drawn. A source of text has characters in its row."""
    rules = {
        ".".join(sieve.rule(number)): {"documents": documents, "characters": chars if text else None}
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


def report_on(
    reader: object, rows: Sequence[Row], first: int, last: int, *, ended: bool = False
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the rows of a range of samples or documents of a recipe, and its number of positions that hold padding.

    The rows get "tokens" and "passes": the amounts that each source gives to the range. Nothing is returned for a
    reader that is not of a recipe. If documents end with the separator that the destination stores, it does not count
    as a token.
    """
    recipe = reader.samples if isinstance(reader, PackedRows) else reader
    if not isinstance(recipe, (Samples, Documents)):
        return [], 0
    first, last = (min(max(0, number), recipe.info.sequences) for number in (first, last))
    rows = rows or [row_of_ids(source, quota_of(recipe.file, k)) for k, source in enumerate(recipe.sources)]
    counted: list[Mapping[str, Any]] = [
        {**row, "tokens": amount.tokens - amount.documents * ended, "passes": amount.passes}
        for row, amount in zip(rows, amounts_of(recipe, first, last), strict=True)
    ]
    positions = (last - first) * reader.advance if isinstance(reader, Samples) else None
    return counted, 0 if positions is None else positions - sum(row["tokens"] for row in counted)
