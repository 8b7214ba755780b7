"""Recipes: list sources, and how they are mixed, cut into samples and ordered; prepare texts; write and read ledgers.

This module is the only one of the package that other parts of tokfmt import, besides the format `recipe` and
`tokfmt.torch`. Its names are imported on first use. Each module imports only those above it:

language   the TOML file as frozen dataclasses; `key_lines`: the place of each key in it
order      permutations, the tree of weights, and the samples that a rank takes at a step
cache      arrays that are computed once per machine, and mapped by all processes
documents  the joined axis of sources, quotas, and the reader of a recipe without `seq_len`
packing    the intervals of the axis in a sample: stream, document, bestfit, stored
fields     the arrays of samples: input_ids, labels, loss_mask, position_ids, document_ids, cu_seqlens
samples    the reader of a recipe with `seq_len`: sequence k is sample k
amounts    the contribution of each source to a recipe, or to a range of it
tree       the same as the rows of `tokfmt recipe`, with the sources of recipes
deferred   sources whose files are opened when tokens are first read, by facts in the cache
draft      a recipe of text before it is prepared
open       the sources of a recipe, and its reader
format     recipes as a format that tokfmt detects
prepare    filter, compare, draw and tokenize texts; `draw`, `report` and `rejects` are its parts
trace      the spans of samples, through nested recipes, to the datasets that store them
ledger     the file beside a dataset that has the origin of each sequence
state      the state of a loader
torch      the loader of PyTorch
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokfmt.mix.amounts import Amount, amounts_of
    from tokfmt.mix.cache import columns, key_of
    from tokfmt.mix.documents import Documents, Span, TokenSource
    from tokfmt.mix.draft import TextRecipe
    from tokfmt.mix.fields import Ids, check_fields
    from tokfmt.mix.language import (
        RECIPE_VERSION,
        RecipeFile,
        entries_of,
        entries_of_blend,
        in_toml,
        is_recipe,
        is_run,
        parse_recipe,
        read_recipe,
        read_table,
    )
    from tokfmt.mix.ledger import (
        Ledgers,
        Origin,
        compare_ledger,
        ledger_files,
        listed_request,
        read_ledger,
        write_ledger,
    )
    from tokfmt.mix.open import named_by, open_recipe
    from tokfmt.mix.prepare import prepared, prepared_in
    from tokfmt.mix.report import report_on
    from tokfmt.mix.samples import DEFAULT_FIELDS, PackedRows, Samples, Where
    from tokfmt.mix.trace import StoredSequence, Traced, shortest, stored_sequence, traced, traced_request
    from tokfmt.mix.tree import Explained, TreeRow, explain

_NAMES = {
    "amounts": ("Amount", "amounts_of"),
    "cache": ("columns", "key_of"),
    "documents": ("Documents", "Span", "TokenSource"),
    "draft": ("TextRecipe",),
    "fields": ("Ids", "check_fields"),
    "language": (
        "RECIPE_VERSION", "RecipeFile", "entries_of", "entries_of_blend", "in_toml", "is_recipe", "is_run",
        "parse_recipe", "read_recipe", "read_table",
    ),
    "ledger": (
        "Ledgers", "Origin", "compare_ledger", "ledger_files", "listed_request", "read_ledger", "write_ledger",
    ),
    "open": ("named_by", "open_recipe"),
    "prepare": ("prepared", "prepared_in"),
    "report": ("report_on",),
    "samples": ("DEFAULT_FIELDS", "PackedRows", "Samples", "Where"),
    "trace": ("StoredSequence", "Traced", "shortest", "stored_sequence", "traced", "traced_request"),
    "tree": ("Explained", "TreeRow", "explain"),
}  # fmt: skip
"""The names of each module that other parts import."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _NAMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"tokfmt.mix.{module}"), name)
            return value
    raise AttributeError(f"module 'tokfmt.mix' has no attribute {name!r}")
