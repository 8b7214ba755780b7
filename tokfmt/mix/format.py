"""Recipes: TOML files that compute a dataset from other datasets.

    lines                       content
    tokfmt = 1                  version of the language, on a line of its own
    seq_len = 4096 ...          length and order of samples
    [[source]] ...              one dataset to read

- TOML 1.0, UTF-8, at most 16 MiB. `tokfmt recipe` writes one. Its keys are on the page "Mix and train".
- With `seq_len`, sequence k is sample k with its padding, and has a loss mask and labels. Without it, sequences are the
  documents that the recipe draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tokfmt.core.annotation import Part, broken, shown
from tokfmt.core.findings import fatal
from tokfmt.core.format import Confidence, Format, Hints, Probe
from tokfmt.core.inspection import Inspection
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import FormatError, OptionError, TokfmtError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import open_file
from tokfmt.files.named import place_named
from tokfmt.files.place import AnyPlace, Place
from tokfmt.mix.key_lines import Table, tables_of
from tokfmt.mix.language import LARGEST_FILE, RecipeFile, is_recipe, read_recipe
from tokfmt.source.request import expanded
from tokfmt.wording import printable

_TABLES = 256
"""Tables that are sections of their own; a recipe may have 100,000 sources."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """No options: the recipe states how to read it."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """No options: tokfmt does not write recipes from data."""


class RecipeInspection(Inspection):
    """The inspection of a recipe. Its sources are opened when the reader is made."""

    def __init__(self, path: Place, hints: Hints) -> None:
        """Read the recipe at `path`."""
        self.path, self.hints = path, hints
        self.recipe: RecipeFile | None = None
        try:
            self.recipe = read_recipe(path)
        except FormatError as error:
            self.problems = [fatal("TF801", error)]

    def reader(self) -> TokenReader | RecordReader:
        from tokfmt.mix.open import open_recipe  # its parts and its problems need none of its imports

        reader, _ = open_recipe(self.recipe or read_recipe(self.path), self.hints)
        stated, asked = reader.info.eos_id, "none" if self.hints.no_eos else self.hints.eos_id
        if stated is not None and asked not in (None, stated):
            problem = f"--eos {asked} contradicts the recipe, whose separator is {stated}"
            raise OptionError(f"{self.path}: {problem}. --to-eos {asked} writes {asked} in its place", name="eos")
        return reader

    def sections(self) -> Sequence[Section]:
        """Return a section for each table, also of a recipe that is not valid."""
        try:
            with closing(open_file(self.path)) as file:
                tables = list(tables_of(file.read(0, min(file.size, LARGEST_FILE))))
        except FormatError as error:
            failed = broken(error)
            return [Part("recipe", self.path, lambda: (failed,))]
        shown_tables, more = tables[:_TABLES], tables[_TABLES:]
        parts = [
            Part(printable(table.title), self.path, partial(_fields, [table])) for table in shown_tables if table.keys
        ]
        return [*parts, Part(f"{len(more):,} more tables", self.path, partial(_fields, more))] if more else parts


class RecipeFormat(Format):
    """The format of recipes in TOML."""

    name = "recipe"
    title = "recipes: mixes of other datasets, computed when they are read"
    is_computed = read_only = True
    stores = "samples or documents of its sources, in its own order"
    read_options, write_options = ReadOptions, WriteOptions

    def sniff(self, probe: Probe) -> Confidence | None:
        toml = probe.path.suffix == ".toml"
        if probe.is_directory or not is_recipe(probe.head, toml=toml):
            return None
        return Confidence.CERTAIN if toml else Confidence.STRUCTURE

    def named(self, path: Place) -> Sequence[Place]:
        """Return what the paths of the sources are, and match."""
        with suppress(TokfmtError):
            return expanded([place_named(path, one) for source in read_recipe(path).sources for one in source.path])
        return ()

    def inspect(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> RecipeInspection:
        del options
        return RecipeInspection(paths[0], hints)

    def destination(self, path: AnyPlace, options: Any) -> AnyPlace:
        del options
        raise OptionError(
            f"{path}: recipes are not written from data. tokfmt recipe NAME=PATH:WEIGHT ... -o {path.name} writes one"
        )


def _fields(tables: Sequence[Table]) -> Sequence[Field]:
    several = len(tables) > 1
    return [
        Field(key.name, key.offset, key.length, shown(key.value), printable(table.title) if several else "")
        for table in tables
        for key in table.keys
    ]


FORMAT = RecipeFormat()
