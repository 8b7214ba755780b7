"""The texts that a recipe leaves out, as JSON lines: where each is, which rule it breaks, which text it equals.

A line is `{"source", "file", "record", "byte", "filter", "rule", "value", "twin", "text"}`. Records count from 0 in
their file, whose path is relative to the directory of the recipe, unless the recipe has it as an absolute one. `byte`
is where the line of the record begins in the text of the file, decompressed; null where records are no lines. `twin` is
the equal text that was kept, `{"source", "file", "record"}`; null for texts that break a rule of a filter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.ops.prepare.draw import Kept
from tokfmt.ops.source.draft import TextSource
from tokfmt.recipes.documents import TextPart
from tokfmt.recipes.language import RecipeFile
from tokfmt.text.filters import FilterChain, value_of


class _Files(NamedTuple):
    """The files of a source.

    Attributes:
        name: Of the source.
        paths: Of the files, as they are listed.
        parts: Which records of each the source has; firsts: the number in the source of the first of these.
    """

    name: str
    paths: list[str]
    parts: tuple[TextPart, ...]
    firsts: Offsets

    def place(self, record: int) -> dict[str, Any]:
        """The file of a record of the source, and its number there."""
        k = int(np.searchsorted(self.firsts, record, side="right")) - 1
        return {"file": self.paths[k], "record": self.parts[k].first + record - int(self.firsts[k])}


class Rejects:
    """The file of what is left out, written source by source. Keeps the paths of their files."""

    def __init__(self, path: Path, recipe: RecipeFile) -> None:
        """Args:
        path: Lines are added to it.
        recipe: As it is written.
        """
        self._path, self._recipe = path, recipe
        self._files = dict[int, _Files]()
        self._last = 0

    def begin(self, number: int, source: TextSource, parts: tuple[TextPart, ...]) -> None:
        """What is added from now on is of this source; `parts`: its files, and which of their records it has."""
        absolute = all(os.path.isabs(path) for path in source.entry.path)
        home = self._recipe.where.parent
        paths = [str(part.path) if absolute else os.path.relpath(part.path, home) for part in parts]
        self._files[number] = _Files(source.name, paths, parts, offsets_of([part.records for part in parts]))
        self._last = number

    def add(
        self,
        source: TextSource,
        sieve: FilterChain,
        entries: NDArray[np.void],
        numbers: NDArray[np.int64],
        texts: Iterable[tuple[str, int]],
        kept: Kept | None,
    ) -> None:
        """Add some texts.

        Args:
            source: The one that was begun.
            sieve: What they did not pass; entries: what it made of them.
            numbers: Of the records in the source.
            texts: The texts, and at which byte each has its line; -1: it has none.
            kept: Documents that were kept, with the numbers of their records.
        """
        twins = _twins(kept, entries)
        filters, files = dict(source.filters), self._files[self._last]
        with open(self._path, "a", encoding="utf-8") as file:
            for rule, number, (text, byte), twin in zip(
                entries["rule"].tolist(), numbers.tolist(), texts, twins, strict=True
            ):
                filter_, name = sieve.rule(rule) if rule else ("dedup", "exact")
                line = {
                    "source": source.name, **files.place(number), "byte": None if byte < 0 else byte,
                    "filter": filter_, "rule": name, "value": value_of(text, filters[filter_], name) if rule else None,
                    "twin": None if rule else self._twin(*twin), "text": text,
                }  # fmt: skip
                written = json.dumps(line, ensure_ascii=False)
                file.write((written if _whole(written) else json.dumps(line)) + "\n")

    def _twin(self, source: int, record: int) -> dict[str, Any]:
        files = self._files[source]
        return {"source": files.name, **files.place(record)}


def _twins(kept: Kept | None, entries: NDArray[np.void]) -> list[tuple[int, int]]:
    """Source and record of the document that was kept, for each entry; of no meaning for those that break a rule."""
    if kept is None:
        return [(-1, -1)] * len(entries)
    return list(zip(kept.sources(entries).tolist(), kept.records(entries).tolist(), strict=True))


def _whole(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which UTF-8 has no place for."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
