"""What became of the sources of a recipe: a row for each, in `convert`, its JSON, the manifest and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokfmt.ops.prepare.draw import Tally
from tokfmt.recipes.amounts import amounts
from tokfmt.recipes.documents import Documents, Source, quota_of
from tokfmt.recipes.samples import PackedRows, Samples
from tokfmt.text.filters import FilterChain

Row = dict[str, Any]


def row_of(name: str, names: Sequence[str], sieve: FilterChain, tally: Tally, quota: int | None, *, text: bool) -> Row:
    """What became of the documents of a source that were looked at: all, or those until its quota was full.

    Args:
        name: Of the source; names: of all sources.
        sieve: Names the rules.
        tally: Of its documents.
        quota: Tokens that are asked for; None: all there are.
        text: It holds text, whose characters count.
    """
    rules = {
        ".".join(sieve.rule(number)): {"documents": documents, "characters": chars}
        for number, (documents, chars) in sorted(tally.rejected.items())
    }
    equal = {names[origin]: count for origin, count in sorted(tally.duplicates.items())}
    return {
        "source": name, "documents": tally.documents, "characters": tally.chars if text else None, "rejected": rules,
        "duplicates": equal, "kept": tally.kept, "quota": quota,
    }  # fmt: skip


def row_of_ids(source: Source, quota: int | None) -> Row:
    """The same of a source of ids, of which a quota leaves out all that is."""
    return {
        "source": source.name, "documents": source.all_of_it.info.sequences, "characters": None, "rejected": {},
        "duplicates": {}, "kept": source.once, "quota": quota,
    }  # fmt: skip


def rows_of_ids(reader: object) -> tuple[Samples | Documents | None, list[Row]]:
    """A recipe that needed no preparation, and a row for each of its sources; None for any other reader."""
    recipe = reader.samples if isinstance(reader, PackedRows) else reader
    if not isinstance(recipe, (Samples, Documents)):
        return None, []
    return recipe, [row_of_ids(source, quota_of(recipe.file, k)) for k, source in enumerate(recipe.sources)]


def with_amounts(
    rows: Sequence[Row], recipe: Samples | Documents, first: int, last: int, *, ended: bool = False
) -> list[Mapping[str, Any]]:
    """Rows, each with what its source gives to samples or documents `first <= k < last`: "tokens" and "passes".

    Args:
        ended: Documents end with the separator that the target stores, which is no token of theirs then.
    """
    found = amounts(recipe, first, last)
    return [
        {**row, "tokens": amount.tokens - amount.documents * ended, "passes": amount.passes}
        for row, amount in zip(rows, found, strict=True)
    ]


def padding(rows: Sequence[Mapping[str, Any]], reader: object, count: int) -> int:
    """Positions that hold padding in so many samples of a recipe, which give these rows; 0 of any other reader."""
    return count * reader.places - sum(row["tokens"] for row in rows) if isinstance(reader, Samples) else 0
