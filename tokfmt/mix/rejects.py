"""Write the texts, and the sequences of token IDs, that a recipe leaves out as JSON Lines, with place and reason.

A line is `{"source", "file", "record", "byte_offset", "filter", "rule", "value", "twin", "text"}`; of token IDs with
`ids` in place of `text`:

- `file` is relative to the directory of the recipe, unless the recipe has an absolute path. `record` is the number of
  the record in the file, from 0.
- `byte_offset` is that of the record's line in the decompressed text of the file; null if records are not lines.
- `twin` is the equal text that is kept, `{"source", "file", "record"}`; null for texts that break a rule of a filter.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.files.place import Place, Url
from tokfmt.mix.documents import TextPart
from tokfmt.mix.draw import Kept
from tokfmt.mix.language import RecipeFile
from tokfmt.text.filter_rules import TOKEN_RULES, FilterRules
from tokfmt.text.filters import FilterChain, value_of


class _Files(NamedTuple):
    """The files of a source."""

    name: str
    paths: list[str]  # as lines name them
    parts: tuple[TextPart, ...]  # the range of records of each file that the source has
    firsts: Offsets  # number in the source of the first record of each file, and the end of the last one

    def locate(self, record: int) -> dict[str, Any]:
        """Return the file of a record of the source, and the number of the record in the file."""
        k = int(np.searchsorted(self.firsts, record, side="right")) - 1
        return {"file": self.paths[k], "record": self.parts[k].first + record - int(self.firsts[k])}


class Rejects:
    """The file of what is left out, written source by source."""

    def __init__(self, path: Path, recipe: RecipeFile) -> None:
        """Append lines to an existing file."""
        self._path, self._recipe = path, recipe
        self._files = dict[int, _Files]()
        self._last = 0

    def begin(self, number: int, name: str, parts: tuple[TextPart, ...], before: int = 0) -> None:
        """Begin a source. `before` is the number of records of the first file before the first record of the source."""
        absolute = all(os.path.isabs(path) for path in self._recipe.sources[number].path)
        home = self._recipe.where.parent
        paths = [str(part.path) if absolute else _seen_from(home, part.path) for part in parts]
        self._files[number] = _Files(name, paths, parts, offsets_of([part.records for part in parts]) - before)
        self._last = number

    def add(
        self,
        sieve: FilterChain,
        entries: NDArray[np.void],
        numbers: NDArray[np.int64],
        contents: Iterable[tuple[str | list[int], int]],
        duplicates: Kept | None,
    ) -> None:
        """Write a line for each of some records of the current source, ENTRY[records], and their contents."""
        twins = _twins(duplicates, entries)
        filters, files = dict(sieve.filters), self._files[self._last]
        with open(self._path, "a", encoding="utf-8") as file:
            for rule, number, (content, byte), twin in zip(
                entries["rule"].tolist(), numbers.tolist(), contents, twins, strict=True
            ):
                filter_, name = sieve.rule(rule) if rule else ("dedup", "exact")
                line = {
                    "source": files.name,
                    **files.locate(number),
                    "byte_offset": None if byte < 0 else byte,
                    "filter": filter_,
                    "rule": name,
                    "value": _value(content, filters[filter_], name) if rule else None,
                    "twin": None if rule else self._twin(*twin),
                    "text" if isinstance(content, str) else "input_ids": content,
                }
                written = json.dumps(line, ensure_ascii=False)
                if any("\ud800" <= character <= "\udfff" for character in written):  # UTF-8 cannot encode one.
                    written = json.dumps(line)
                file.write(f"{written}\n")

    def _twin(self, source: int, record: int) -> dict[str, Any]:
        files = self._files[source]
        return {"source": files.name, **files.locate(record)}


def _value(content: str | list[int], rules: FilterRules, rule: str) -> float | None:
    """Return the value of a text or of token IDs under a rule; None if it is not kept, as the tokens of a text."""
    if rule == "without":
        return None
    if isinstance(content, list):
        return len(content)
    return None if rule in TOKEN_RULES else value_of(content, rules, rule)


def _seen_from(home: Place, file: Place) -> str:
    """Return a file relative to the directory of the recipe; its address if only one of them is in that store."""
    if isinstance(home, Url) and isinstance(file, Url):
        same = (home.scheme, home.authority) == (file.scheme, file.authority)
        return posixpath.relpath(file.key, home.key or ".") if same else str(file)
    return os.path.relpath(file.text, home.text) if home.is_local and file.is_local else str(file)


def _twins(duplicates: Kept | None, entries: NDArray[np.void]) -> list[tuple[int, int]]:
    """Return the source and the record of the equal document of each entry; -1 without one."""
    if duplicates is None:
        return [(-1, -1)] * len(entries)
    return list(zip(duplicates.sources(entries).tolist(), duplicates.records(entries).tolist(), strict=True))
